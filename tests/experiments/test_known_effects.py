"""Made-up studies with known effects; ``benchmarks/known_effects.py`` judges many more."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from benchmarks.known_effects import (
    LARGE,
    USELESS,
    judged_family,
    judged_section,
    made_up,
    overlapping,
    verdicts_of,
)
from qops_batsim import InputError
from qops_batsim.experiments import LogWindow
from qops_batsim.experiments.study_report import method_text

FAMILIES = 20


def test_verdicts_on_studies_are_right_and_decide_large_effects() -> None:
    count: Counter[str] = Counter()
    for seed in range(FAMILIES):
        judged_family(seed, count)
    assert count["wrong"] <= 0.05 * FAMILIES
    assert count["decided"] >= 0.8 * count["large effects"] > 0
    assert count["changed by useless contestants"] == 0
    assert count["changed by contestants that are not named"] == 0


def test_verdicts_on_claims_are_right_and_not_changed_by_checks_of_ours() -> None:
    count: Counter[str] = Counter()
    for seed in range(FAMILIES):
        judged_section(seed, count)
    assert count["wrong"] <= 0.05 * FAMILIES
    # A family whose own values are too skewed has no verdict.
    assert count["decided"] >= 0.7 * count["large effects"] > 0
    assert count["changed by checks of ours"] == 0


def test_overlapping_windows_are_refused() -> None:
    with pytest.raises(InputError, match="share jobs"):
        overlapping(1).check()


def test_windows_of_several_sizes_are_refused() -> None:
    windows = (LogWindow(skip=0, first=5000), LogWindow(skip=5000, first=500))
    study = msgspec.structs.replace(overlapping(1), windows=windows)
    with pytest.raises(InputError, match=r"0\+5000 and 5000\+500 are of several sizes"):
        study.check()


def test_only_who_is_named_and_differs_is_judged() -> None:
    effects = {"one": 2 * LARGE, "other": -2 * LARGE}
    found = verdicts_of(made_up(1, effects, USELESS))
    at = {name: verdict for (load, name), verdict in found.items() if load == 1.2}
    never = dict.fromkeys(("msb", "easy", "fcfs"), "")
    judged = {"one": "higher", "other": "lower", "first again": "higher"}
    assert at == never | judged | {"msb again": "equal"}
    runs = made_up(1, effects, verdicts=["other"])
    named = verdicts_of(runs)
    assert (named[1.2, "one"], named[1.2, "other"]) == ("", "lower")
    assert "Judged are other only" in method_text(runs)


@pytest.mark.parametrize("name", ["nobody", "msb"])
def test_verdicts_name_contestants_beside_the_baseline(name: str) -> None:
    study = made_up(1, {"one": 0.0}, verdicts=[name]).study
    with pytest.raises(InputError, match=f"verdicts is '{name}'"):
        study.check()
