"""One meaning a name: no two classes of the package are called the same."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping

from support.source_tree import PACKAGE, module_files


def classes_of_one_name(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that several classes have, each with files and lines of these classes."""
    places = defaultdict(list)
    for file, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file}:{node.lineno}")
    return {name: where for name, where in places.items() if len(where) > 1}


def test_no_two_classes_have_one_name() -> None:
    sources = {
        str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
        for path in module_files().values()
    }
    assert classes_of_one_name(sources) == {}


def test_classes_of_one_name_are_told_with_their_lines() -> None:
    sources = {
        "core/plan.py": "class Window:\n    pass\n",
        "queue/past.py": "\ndef f():\n    class Window:\n        pass\n",
        "queue/zones.py": "class Zone:\n    pass\n",
    }
    assert classes_of_one_name(sources) == {"Window": ["core/plan.py:1", "queue/past.py:3"]}
