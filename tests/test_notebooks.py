"""The notebooks as they are kept: without results, each paper with its own, links that lead on.

They are executed for the book (``.ci/notebook-pages``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
PAPERS = ("islam2003", "islam2004", "pascal2004", "talby1999")
FILES = sorted(NOTEBOOKS.glob("*.ipynb"))


def test_every_paper_has_its_notebook() -> None:
    beyond = {"advise", "best_possible", "shadow_week", "wrong_estimates"}
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
    files = [link.partition("#")[0] for link in links]
    assert [link for link in files if not (NOTEBOOKS / link).exists()] == []


@pytest.mark.parametrize("name", PAPERS)
def test_each_paper_has_a_story_of_its_own(name: str) -> None:
    """The question, the workload, figures, verdicts and what to change, in cells of its own."""
    mine = cells_of(NOTEBOOKS / f"{name}.ipynb")
    text = "\n".join(source for _, source in mine)
    for part in ("**The question.**", "## The workload", "draw_figure(", "claims_frame()"):
        assert part in text, part
    assert text.index("## Verdicts") < text.index("## What to change")
    others = {
        cell for each in PAPERS if each != name for cell in cells_of(NOTEBOOKS / f"{each}.ipynb")
    }
    assert len([cell for cell in mine if cell in others]) < len(mine) / 4


def cells_of(file: Path) -> list[tuple[str, str]]:
    """Return kind and text of each cell."""
    cells = json.loads(file.read_text())["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
