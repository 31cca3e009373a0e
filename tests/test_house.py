"""A rule of the house: hierarchies of classes are flat."""

import ast
from collections.abc import Mapping

from support.source_tree import module_files

DEEPEST_HIERARCHY = 3

ON_EASY = {"PricedQueues": 4}
"""Schedulers that extend ``Easy`` as the book has users do (docs/own-scheduler.md): one deeper."""


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


def test_hierarchies_of_classes_are_flat() -> None:
    sources = {name: path.read_text() for name, path in module_files().items()}
    deep = {name: at for name, at in hierarchies(sources).items() if at > DEEPEST_HIERARCHY}
    assert deep == ON_EASY


def test_the_guard_sees_what_is_too_deep() -> None:
    source = "class A: pass\nclass B(m.A[int]): pass\nclass C(B): pass\nclass D(X, C): pass\n"
    assert hierarchies({"m": source}) == {"A": 1, "B": 2, "C": 3, "D": 4}
