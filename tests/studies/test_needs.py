"""The grid of mixes of needs, and what is said of a difference over it."""

from __future__ import annotations

import pytest

from qops_batsim.experiments import read_study, with_need
from studies.shared import EASY, MIXES, NEEDS, mix_cell, over_mixes, usual_need, where_held


def test_the_grid_has_the_usual_mix_and_four_around_it() -> None:
    usual = NEEDS["need"]
    assert list(MIXES) == [EASY, *NEEDS]
    medians = {by: [each.median for each in need.factors] for by, need in NEEDS.items()}
    assert medians["tight"] == [each / 4 for each in medians["need"]]
    assert medians["lax"] == [each * 4 for each in medians["need"]]
    assert {
        by: (need.mix.factor, need.mix.hours, need.mix.slack) for by, need in NEEDS.items()
    } == {
        "need": (0.5, 0.3, 0.2),
        "tight": (0.5, 0.3, 0.2),
        "lax": (0.5, 0.3, 0.2),
        "slack": (0, 0, 1),
        "hours": (0, 1, 0),
    }
    for need in NEEDS.values():
        need.check()
        assert need.slack == usual.slack
    # The usual mix is what studies by need have had.
    assert usual_need() == with_need(read_study("example")).need


def test_a_sign_holds_in_all_mixes_or_it_is_told_where_it_turns() -> None:
    def values(**means: float) -> dict[str, list[list[float]]]:
        return {by: [[mean - 1, mean + 1], [mean]] for by, mean in means.items()}

    same = values(easy=-3, need=1, tight=2, lax=3)
    assert where_held(same) == "above 0 in all"  # EASY's schedule is no mix of needs
    assert where_held(values(need=-1, tight=-2)) == "below 0 in all"
    turned = values(need=-1, tight=-2, lax=2, slack=0.04)
    assert where_held(turned) == (
        "turns: below 0 in usual mix, factors / 4; above 0 in factors * 4; 0 in slack only"
    )


def test_a_cell_has_mean_interval_and_how_many_groups_agree() -> None:
    # Three logs with means of 1, 2 and -0.6: the interval is over these.
    cell = mix_cell([[0.0, 2.0], [2.0], [-0.6]])
    assert cell == "+0.8 [-2.5, +4.1] 2/3"
    (*_, row) = over_mixes(["what"], {("a",): {"need": [[1.0], [2.0]], "lax": [[1.0]]}})
    assert row == "| a | +1.5 [-4.9, +7.9] 2/2 | +1.0 1/1 | above 0 in all |"
    with pytest.raises(KeyError):
        over_mixes(["what"], {("a",): {"unknown": [[1.0]]}})
