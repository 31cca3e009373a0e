"""A machine's past, and how much of their limits jobs used."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qops_batsim.forecast.past import ENOUGH, Habits, numbered, past_of
from qops_batsim.workload.traces import read_partitions
from support.pasts import past


def test_rows_are_numbered_by_what_they_have_in_common() -> None:
    users = np.array(["a", "b", "a", "b"], object)
    assert numbered(users).tolist() == [0, 1, 0, 1]
    assert numbered(users, np.array([1, 1, 2, 1])).tolist() == [0, 1, 2, 1]


def test_shares_are_of_the_narrowest_group_that_is_known_well() -> None:
    rows = [(0.0, 0.0, 10.0 * (row % 4 + 1), 100.0, 1) for row in range(40)]
    jobs = past(8, rows, users="a" * 20 + "b" * 20)
    habits = Habits(jobs)
    habits.learn(range(16))
    groups = jobs.groups[0].tolist()
    assert sorted(set(habits.shares(groups))) == [0.1, 0.2, 0.3, 0.4]
    assert len(habits.shares(groups)) == ENOUGH
    # Of what has used 25 % already, all used 30 or 40.
    assert set(habits.shares(groups, 0.25)) == {0.3, 0.4}
    # Nobody used more than 40 %: it is expected to use up its limit.
    assert habits.shares(groups, 0.5).tolist() == [1.0]
    # One that has outlived its limit is about to end.
    assert habits.shares(groups, 1.25).tolist() == [1.25]


def test_what_is_known_of_few_jobs_is_filled_up_from_wider_groups() -> None:
    rows = [(0.0, 0.0, 90.0, 100.0, 1)] * 3 + [(0.0, 0.0, 10.0, 100.0, 1)] * 20
    jobs = past(8, rows, users="b" * 3 + "a" * 20)
    habits = Habits(jobs)
    habits.learn(range(23))
    # The three of b count with the limit, with the application, and as those of the user.
    of_b = habits.shares(jobs.groups[0].tolist())
    assert of_b.tolist() == [0.1] * (ENOUGH - 9) + [0.9] * 9


def test_the_past_of_a_log_has_its_starts_and_limits() -> None:
    trace = read_partitions("kth_sp2_1000", processors=100)[0][""]
    found = past_of(trace)
    assert found.history == len(found.submissions) == len(found.jobs) == 1000
    assert (found.run_times > 0).all()
    assert found.groups.shape == (1000, 5)


def test_a_log_without_limits_does_not_tell_how_long_jobs_will_run(tmp_path: Path) -> None:
    rows = [
        f"{n} {100 * n} 0 {run} 1 -1 -1 1 -1 -1 1 7 1 -1 -1 -1 -1 -1"
        for n, run in enumerate((300, 900, 120), 1)
    ]
    (tmp_path / "log.swf").write_text("\n".join(["; MaxProcs: 4", *rows, ""]))
    found = past_of(read_partitions(str(tmp_path / "log.swf"))[0][""])
    assert found.run_times.tolist() == [300.0, 900.0, 120.0]
    assert found.limits.tolist() == [900.0] * 3
