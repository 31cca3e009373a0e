"""The notebooks as they are kept: without results, each paper with its own, links that lead on.

They are executed in an environment of their own (``.ci/notebooks``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from qops_batsim.papers.report import PAPERS

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
FILES = sorted(NOTEBOOKS.glob("*.ipynb"))


def test_every_paper_has_its_notebook() -> None:
    beyond = {"best_possible", "wrong_estimates"}
    assert {"quick_start", "own_scheduler", *beyond, *PAPERS} == {file.stem for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_results_are_kept(file: Path) -> None:
    cells = json.loads(file.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_links_lead_somewhere(file: Path) -> None:
    cells = json.loads(file.read_text())["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not (NOTEBOOKS / link).exists()] == []
