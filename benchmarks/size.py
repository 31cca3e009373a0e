"""How large is the package, in code tokens, room by room?

    python benchmarks/size.py [FOLDER] [--before FOLDER]

Code tokens are names, numbers, strings and operators, without docstrings, comments and imports:
what a reader has to understand, however it is laid out. FOLDER is a package, by default
``qops_batsim`` beside this folder; with ``--before``, the difference to another one is printed.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "qops_batsim"

CODE = {tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP}


def left_out(source: str) -> set[int]:
    """Return the numbers of the lines that hold docstrings or imports."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        is_text = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, (ast.Import, ast.ImportFrom)):
            assert isinstance(node, ast.stmt)
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def code_tokens(source: str) -> int:
    """Return how many code tokens a module has.

    >>> code_tokens('import os\\n\\ndef f(a):\\n    "Text."\\n    return a + 1  # Why.\\n')
    10
    """
    without = left_out(source)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type in CODE and token.start[0] not in without for token in tokens)


def tokens_by_room(package: Path) -> Counter[str]:
    """Return the code tokens of each room of a package; modules at its top are the ground."""
    found: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        room = place.parts[0] if len(place.parts) > 1 else "(ground)"
        found[room] += code_tokens(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--before", type=Path, help="a package to compare with")
    arguments = parser.parse_args()

    now = tokens_by_room(arguments.package)
    before = tokens_by_room(arguments.before) if arguments.before else None
    for room in sorted({*now, *(before or ())}):
        difference = "" if before is None else f"{now[room] - before[room]:+10,}"
        print(f"{room:14}{now[room]:10,}{difference}")
    difference = "" if before is None else f"{now.total() - before.total():+10,}"
    print(f"{'all':14}{now.total():10,}{difference}")


if __name__ == "__main__":
    main()
