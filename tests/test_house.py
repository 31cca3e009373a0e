"""The rules of the house: sizes of modules, functions, kernels, and hierarchies of classes."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from source_tree import PACKAGE, module_files

LONGEST_MODULE = 400
LONGEST_FUNCTION = 60
MOST_KERNEL_ARGUMENTS = 12
DEEPEST_HIERARCHY = 3


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def long_functions(source: str) -> list[str]:
    """Return functions of too many lines, signature and docstring included."""
    lengths = ((each.name, (each.end_lineno or 0) - each.lineno + 1) for each in functions(source))
    return [f"{name}: {lines}" for name, lines in lengths if lines > LONGEST_FUNCTION]


def wide_kernels(source: str) -> list[str]:
    """Return compiled functions of too many arguments."""
    found = []
    for each in functions(source):
        compiled = any("kernel" in ast.unparse(mark) for mark in each.decorator_list)
        count = len([*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs])
        if compiled and count > MOST_KERNEL_ARGUMENTS:
            found.append(f"{each.name}: {count}")
    return found


def hierarchies(sources: Mapping[str, str]) -> dict[str, int]:
    """Return how deep each class stands among ours: one without a base of ours stands at 1."""
    bases: dict[str, list[str]] = {}
    for source in sources.values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                names = [ast.unparse(base).partition("[")[0] for base in node.bases]
                bases[node.name] = [name.rpartition(".")[2] for name in names]

    def depth(name: str) -> int:
        return 1 + max(
            (depth(base) for base in bases[name] if base in bases and base != name), default=0
        )

    return {name: depth(name) for name in bases}


@pytest.mark.parametrize(
    "path", module_files().values(), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_modules_and_functions_are_short(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= LONGEST_MODULE
    assert long_functions(source) == []
    assert wide_kernels(source) == []


def test_hierarchies_of_classes_are_flat() -> None:
    sources = {name: path.read_text() for name, path in module_files().items()}
    deep = {name: at for name, at in hierarchies(sources).items() if at > DEEPEST_HIERARCHY}
    assert deep == {}


def test_the_guards_see_what_is_too_large() -> None:
    body = "\n".join(f"    x = {number}" for number in range(LONGEST_FUNCTION))
    assert long_functions(f"def long():\n{body}\n") == ["long: 61"]
    arguments = ", ".join(f"a{number}" for number in range(13))
    assert wide_kernels(f"@kernel\ndef wide({arguments}):\n    pass\n") == ["wide: 13"]
    assert wide_kernels(f"def wide({arguments}):\n    pass\n") == []
    source = "class A: pass\nclass B(m.A[int]): pass\nclass C(B): pass\nclass D(X, C): pass\n"
    assert hierarchies({"m": source}) == {"A": 1, "B": 2, "C": 3, "D": 4}
