"""Each study of a paper has a command, a page of bounded length, and kept results."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from studies.command import study_command

STUDIES = Path(__file__).resolve().parents[2] / "studies"
PAPERS = ("islam2003", "islam2004", "pascal2004", "talby1999")

pytestmark = pytest.mark.skipif(not STUDIES.is_dir(), reason="no studies beside the tests")


@pytest.mark.parametrize("name", PAPERS)
def test_the_help_tells_title_cost_and_options(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module(f"studies.{name}.paper")
    monkeypatch.setattr(sys, "argv", [f"studies/{name}", "--help"])
    with pytest.raises(SystemExit) as stop:
        study_command(module)
    shown = capsys.readouterr().out
    assert stop.value.code == 0
    assert module.SPECIFICATION.title[:40] in shown
    assert f"python studies/{name} --quick" in shown
    assert ("--seeds" in shown, "--bound" in shown) == (name != "talby1999", name == "islam2003")


@pytest.mark.parametrize("name", PAPERS)
def test_the_page_is_short_and_whole(name: str) -> None:
    page = (STUDIES / name / "README.md").read_text()
    assert len([word for word in page.split() if any(map(str.isalnum, word))]) <= 1200
    assert f"python studies/{name} --quick" in page
    for part in ("**Question.**", "## Setting", "## Answer", "## The paper's claims"):
        assert part in page
    assert (STUDIES / name / "results" / "tables.md").is_file()
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page):
        assert (STUDIES / name / picture).is_file()
