"""The package's source as the structural tests see it: modules, imports, circles."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import qops_batsim

PACKAGE = Path(qops_batsim.__file__).parent


def module_files() -> dict[str, Path]:
    """Return the file of each module of the package, by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = [PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of every import, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            assert node.module is not None
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return which of the modules each module imports.

    A name that is no module counts as an import of the module that holds it.
    """
    graph: dict[str, set[str]] = {name: set() for name in sources}
    for name, source in sources.items():
        for _, target in imports(source):
            while target and target not in sources:
                target = target.rpartition(".")[0]
            if target:
                graph[name].add(target)
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or in a ring."""
    reached = {name: _reachable(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return sorted(list(group) for group in groups)


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    todo = list(graph[start])
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo.extend(graph[name])
    return reached
