"""Each study tells question, setting, answer and what to change on a short page."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

STUDIES = Path(__file__).resolve().parents[2] / "studies"
NAMES = sorted(path.parent.name for path in STUDIES.glob("*/__main__.py"))

pytestmark = pytest.mark.skipif(not NAMES, reason="no studies beside the tests")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_short_and_whole(name: str) -> None:
    page = (STUDIES / name / "README.md").read_text()
    # What has changed, and why, may take its own room.
    now = re.sub(r"\*\*(Changed|What changed).*?(?=\n## )", "", page, flags=re.DOTALL)
    assert len([word for word in now.split() if any(map(str.isalnum, word))]) <= 1200
    assert re.search(rf"(python studies/|study run .*){name}.*--quick", page)
    for part in ("**Question.**", "## Setting", "## Answer", "## What to change"):
        assert part in page
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page):
        assert (STUDIES / name / picture).is_file()


@pytest.mark.parametrize("name", NAMES)
def test_quick_changes_only_what_is_there(name: str) -> None:
    settings = tomllib.loads((STUDIES / name / "study.toml").read_text())

    def check(changes: dict[str, object], whole: dict[str, object], place: str) -> None:
        for key, value in changes.items():
            if isinstance(value, dict):
                assert isinstance(whole.get(key), dict), f"{place}.{key}"
                check(value, whole[key], f"{place}.{key}")  # type: ignore[arg-type]

    check(settings.get("quick", {}), settings, "quick")
