"""Each study of a paper has a command, a page of bounded length, and kept results."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from studies.command import study_command

STUDIES = Path(__file__).resolve().parents[2] / "studies"
GRIDS = ("how_good", "restarts", "deadlines", "needs", "shared_nodes")
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
def test_the_page_has_the_claims_of_the_paper(name: str) -> None:
    page = (STUDIES / name / "README.md").read_text()
    assert "## The paper's claims" in page
    assert (STUDIES / name / "results" / "tables.md").is_file()


@pytest.mark.parametrize("name", GRIDS)
def test_a_log_that_is_nowhere_is_one_line(name: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, STUDIES / name, "--quick"],
        cwd=tmp_path,
        env={**os.environ, "QOPS_SHARED": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert "no such file" in line
