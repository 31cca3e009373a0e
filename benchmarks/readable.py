"""Draw what a person reads, to ask a reader who knows the field but not the project.

    python benchmarks/readable.py --seed 49 names|sentences

Names are signatures of functions and classes that have a docstring, with its first paragraph;
sentences are those of README and docs, without tables and code. The reader sees nothing else, and
says of each line at once what it means: nine of ten should be right.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHORTEST, LONGEST = 6, 60
"""Words of a sentence."""


def names() -> Iterator[str]:
    """Yield each signature with the first paragraph of its docstring."""
    for path in sorted((ROOT / "qops_batsim").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "qops_batsim").with_suffix("").parts)
        yield from _names_in(ast.parse(path.read_text()), module)


def _names_in(parent: ast.AST, prefix: str) -> Iterator[str]:
    for node in getattr(parent, "body", []):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            if first:
                yield f"{_signature(node, prefix)} -- {first}"
            yield from _names_in(node, f"{prefix}.{node.name}")
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _names_in(node, prefix)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, prefix: str) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, node.bases))
        return f"class {prefix}.{node.name}({bases})" if bases else f"class {prefix}.{node.name}"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
    kind = "property " if is_property else ""
    return f"{kind}{prefix}.{node.name}({ast.unparse(node.args)}){result}"


def sentences() -> Iterator[str]:
    """Yield the sentences of README and docs, each after the name of its page."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = re.sub(r"```.*?```", "\n\n", path.read_text(), flags=re.DOTALL)
        text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
        for block in re.split(r"\n\s*\n", text):
            if not block.strip() or block.strip().startswith(("|", "#", "<", "    ", "![")):
                continue
            for item in re.split(r"\n(?=\s*(?:[-*]|\d+\.)\s)", block.strip()):
                yield from (f"[{path.name}] {each}" for each in sentences_in(item))


def sentences_in(item: str) -> Iterator[str]:
    """Yield the sentences of a paragraph or list item."""
    text = " ".join(re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", item.strip()).split())
    if text.startswith("|"):
        return
    # Not after initials ("M. Islam") and "et al.".
    ends = r"(?<![ .(][A-Z]\.)(?<!et al\.)(?<=[.!?:])\s+(?=[A-Z`*\[(])"
    for each in re.split(ends, text):
        whole = ":::" not in each and not each[0].islower()
        if whole and SHORTEST <= len(each.split()) <= LONGEST:
            yield each


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", choices=("names", "sentences"))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    generator = random.Random(asked.seed)
    # Of one seed, names are drawn first.
    drawn = {"names": generator.sample(list(names()), 60)}
    drawn["sentences"] = generator.sample(list(sentences()), 40)
    print("\n".join(drawn[asked.kind]))
