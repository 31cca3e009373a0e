"""Imports in the text of a module: those that its import makes, and those that come later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

_BY_NAME = ("import_module", "__import__")
"""Functions whose first argument is the name of a module."""

_OF_FILES = ("run_module", "spec_from_file_location", "SourceFileLoader")

_NEVER_SEEN = ("run_path", "exec")
"""Functions that run code which is no module, wherever they are called."""


@dataclass(frozen=True)
class LaterImport:
    """An import that a function makes when it is called: its line, and the modules that it may
    load; none if they are computed.
    """

    line: int
    text: str
    names: tuple[str, ...] = ()


@dataclass
class ImportsInCode(ast.NodeVisitor):
    """The modules that a module may import while it is imported itself, and later ones."""

    package: str
    now: list[str] = field(default_factory=list)
    later: list[LaterImport] = field(default_factory=list)
    _depth: int = 0

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            self._add(node, f"import {each.name}", [each.name])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._base(node.level, node.module)
        names = [f"{base}.{each.name}" for each in node.names if each.name != "*"]
        told = f"from {'.' * node.level}{node.module or ''} import "
        self._add(node, told + ", ".join(each.name for each in node.names), [base, *names])

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        first = node.args[0] if node.args else None
        if name in _BY_NAME and isinstance(first, ast.Constant) and isinstance(first.value, str):
            level = len(first.value) - len(first.value.lstrip("."))
            module = self._base(level, first.value[level:]) if level else first.value
            self._add(node, f"{name}({first.value!r})", [module])
        elif name in _NEVER_SEEN and not (name == "exec" and isinstance(node.func, ast.Attribute)):
            self.later.append(LaterImport(node.lineno, f"{name}(…)"))
        elif name in _OF_FILES or name in _BY_NAME:
            self._add(node, f"{name}(…)", [])

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        # Only type checkers, and who runs the file as a program, go in there.
        if not _is_never(node.test):
            self._all(node.body)
        self._all(node.orelse)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._all([*node.decorator_list, node.args])
        self._depth += 1
        self._all(node.body)
        self._depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._depth += 1
        self.visit(node.body)
        self._depth -= 1

    def _all(self, nodes: list[ast.AST] | list[ast.stmt]) -> None:
        for each in nodes:
            self.visit(each)

    def _add(self, node: ast.stmt | ast.expr, text: str, names: list[str]) -> None:
        if self._depth:
            self.later.append(LaterImport(node.lineno, text, tuple(names)))
        else:
            self.now += [each for name in names for each in _with_outer(name)]

    def _base(self, level: int, module: str | None) -> str:
        """Return the absolute name of what a relative import begins with."""
        if not level:
            return module or ""
        parts = self.package.split(".")
        outer = ".".join(parts[: len(parts) - level + 1])
        return f"{outer}.{module}" if module else outer


def _is_never(test: ast.expr) -> bool:
    text = ast.unparse(test)
    return text.rpartition(".")[2] == "TYPE_CHECKING" or text.startswith("__name__ ==")


def _with_outer(name: str) -> Iterator[str]:
    """Yield a module's name after those of the packages that it is in."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])


def imports_in(content: bytes, package: str) -> ImportsInCode:
    """Return the imports in a module's text; ``package`` is the one that it is in, or is."""
    found = ImportsInCode(package)
    # What is no Python, such as a compiled module, has no imports to see.
    with suppress(SyntaxError, ValueError, RecursionError):
        found.visit(ast.parse(content))
    return found
