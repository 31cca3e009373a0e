"""Cases of the study of the best possible."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")

from qops_batsim.workload import NeedChoices
from studies.how_good.best import Study
from studies.shared import EASY, NEED, settings_of

FILE = Path(__file__).resolve().parents[2] / "studies" / "how_good" / "__main__.py"


def test_deadlines_by_need_know_no_stringency(tmp_path: Path) -> None:
    settings = settings_of(str(FILE), quick=True)
    settings["logs"] = {"KTH": {"file": "kth_sp2_1000", "processors": 100, "skips": [0] * 5}}
    made = {by: list(Study(settings, tmp_path, by).short_scenarios()) for by in (EASY, NEED)}
    assert len(made[EASY]) == 2 * len(made[NEED]) == 10
    assert all(isinstance(each.need, NeedChoices) for each in made[NEED])
    assert not any(isinstance(each.need, NeedChoices) for each in made[EASY])
