"""A machine's past, and how much of their limits jobs used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qops_batsim.queue import Past, past_of
from qops_batsim.queue.past import ENOUGH, NEAREST, Habits, Patience, groups_of, numbered
from qops_batsim.traces import read_partitions
from qops_batsim.workload.accounting import Choices
from support.centre_dumps import CENTRE, make_rows, text_of
from support.pasts import history, past


def test_rows_are_numbered_by_what_they_have_in_common() -> None:
    users = np.array(["a", "b", "a", "b"], object)
    assert numbered(users).tolist() == [0, 1, 0, 1]
    assert numbered(users, np.array([1, 1, 2, 1])).tolist() == [0, 1, 2, 1]


def test_jobs_behind_a_past_are_numbered_as_if_they_were_of_it() -> None:
    jobs, rng = history(300), np.random.default_rng(4)
    names = np.array([[user, "", ""] for user in rng.choice(list("abxy"), 50)], object)
    limits = rng.choice([3600.0, 7200.0, 60.0], 50)
    whole = groups_of(np.concatenate([jobs.names, names]), np.concatenate([jobs.limits, limits]))
    assert groups_of(names, limits, jobs).tolist() == whole[300:].tolist()


@pytest.mark.parametrize("before", [0, 7, 120, 300])
def test_jobs_that_have_not_ended_are_not_known(before: int) -> None:
    jobs = history(300)
    ended = np.argsort(jobs.ends, kind="stable")
    later = Habits(jobs, ended, known=before)
    whole = Habits(jobs, ended[:before])
    for groups in jobs.groups[:50].tolist():
        for beyond in (0.0, 0.5):
            assert later.shares(groups, beyond).tolist() == whole.shares(groups, beyond).tolist()


def test_shares_are_of_the_narrowest_group_that_is_known_well() -> None:
    rows = [(0.0, 0.0, 10.0 * (row % 4 + 1), 100.0, 1) for row in range(40)]
    jobs = past(8, rows, users="a" * 20 + "b" * 20)
    habits = Habits(jobs, np.arange(16))
    groups = jobs.groups[0].tolist()
    assert sorted(set(habits.shares(groups))) == [0.1, 0.2, 0.3, 0.4]
    # Sixteen jobs count in each group, until they are enough; the latest six seven times.
    assert len(habits.shares(groups)) == ENOUGH + 6 * NEAREST
    # Of what has used 25 % already, all used 30 or 40.
    assert set(habits.shares(groups, 0.25)) == {0.3, 0.4}
    # Nobody used more than 40 %: it is expected to use up its limit.
    assert habits.shares(groups, 0.5).tolist() == [1.0]
    # One that has outlived its limit is about to end.
    assert habits.shares(groups, 1.25).tolist() == [1.25]


def test_what_is_known_of_few_jobs_is_filled_up_from_wider_groups() -> None:
    rows = [(0.0, 0.0, 90.0, 100.0, 1)] * 3 + [(0.0, 0.0, 10.0, 100.0, 1)] * 20
    jobs = past(8, rows, users="b" * 3 + "a" * 20)
    habits = Habits(jobs, np.arange(23))
    # The three of b count with the limit, with the application, as those of the user, and of the
    # partition: these are twelve, of which six count seven times.
    of_b = habits.shares(jobs.groups[0].tolist())
    assert of_b.tolist() == [0.1] * (ENOUGH - 12) + [0.9] * (12 + 6 * NEAREST)


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


def cancelled_after(hours: list[float], starts: list[float], users: str) -> Past:
    """Return jobs that were cancelled after some hours of waiting, then ones that started."""
    waits = [3600.0 * each for each in hours]
    rows = [(0.0, np.nan, 60.0, 60.0, 1) for _ in hours]
    rows += [(0.0, 3600.0 * each, 60.0, 60.0, 1) for each in starts]
    gone = np.array([*waits, *(np.nan for _ in starts)])
    return past(8, rows, users=users)._replace(cancelled=gone)


def test_users_cancel_as_often_as_they_did() -> None:
    # In 40 hours of waiting, all shorter than an hour, a cancelled twenty of forty jobs, b none.
    jobs = cancelled_after([0.5] * 20, [0.5] * 60, "a" * 40 + "b" * 40)
    patience = Patience(jobs)
    patience.learn(np.arange(80))
    left = patience.draw(np.array([0, 79]), np.zeros(2), 4_000, np.random.default_rng(1))
    within = (left < 1800.0).mean(axis=0)
    # One cancellation an hour for a, about an eleventh for b, whom the partition tells of.
    assert within[0] == pytest.approx(1 - np.exp(-0.5), abs=0.05)
    assert 0.0 < within[1] < 0.08
    # Nothing is known of longer waits: nobody cancels there.
    assert (
        patience.draw(np.array([0]), np.array([5 * 3600.0]), 10, np.random.default_rng(1)).min()
        == np.inf
    )


def test_rates_are_of_the_wait_so_far() -> None:
    # All wait for 3 hours; half of them are cancelled then.
    jobs = cancelled_after([3.0] * 30, [3.0] * 30, "a" * 60)
    patience = Patience(jobs)
    patience.learn(np.arange(60))
    drawn = patience.draw(np.array([0, 0]), np.array([0.0, 7200.0]), 500, np.random.default_rng(2))
    assert drawn[:, 0].min() >= 3600.0
    assert (drawn[:, 1] < 7200.0).mean() > 0.3


def test_without_cancellations_none_is_drawn() -> None:
    jobs = past(8, [(0.0, 10.0, 60.0, 60.0, 1)])
    assert not Patience(jobs).cancels


def test_a_past_has_the_jobs_that_were_cancelled(tmp_path: Path) -> None:
    # 2 waited for 50 s until it was cancelled; 3 was cancelled while it ran, which is a run.
    told = [(1, 0, 30, 300, 1), (2, 10, 50, -1, 5), (3, 20, 0, 60, 5), (4, 30, -1, -1, 5)]
    rows = [
        f"{job} {date} {wait} {run} 2 -1 -1 2 600 -1 {status} 7 1 -1 1 -1 -1 -1"
        for job, date, wait, run, status in told
    ]
    (tmp_path / "log.swf").write_text("\n".join(["; MaxProcs: 4", *rows, ""]))
    found = past_of(read_partitions(str(tmp_path / "log.swf"))[0][""])
    assert found.submissions.tolist() == [0.0, 10.0, 20.0]
    assert found.waited_until.tolist() == [30.0, 60.0, 20.0]
    assert found.cancelled[1] == 60.0
    assert found.jobs[1].fields["user"] == "7"
    assert np.isnan(found.starts[1])


def test_accounting_tells_who_cancelled_waiting_jobs(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    part = CENTRE[2]
    path.write_text(text_of(make_rows((part,), 300, patience=36_000.0)))
    trace = read_partitions(str(path))[0]["gpu"]
    found = past_of(trace)
    gone = np.isfinite(found.cancelled)
    assert gone.sum() > 5
    assert found.history == len(trace.records) + gone.sum()
    assert (found.cancelled[gone] > found.submissions[gone]).all()
    assert found.widths.max() <= part.cores
    # Of one core a GPU, they are counted by their GPUs as well.
    assert set(found.widths[gone].tolist()) <= {8, 16, 64, 256}
    assert found.names[gone, 2].tolist() == ["gpu"] * int(gone.sum())


def test_a_resource_that_is_not_counted_is_told(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    told = text_of(make_rows(CENTRE[3:], 50))
    path.write_text(told)
    assert read_partitions(str(path))[0]["short"].not_counted == []
    path.write_text(told.replace("node=1", "mem=8G,node=1"))
    assert list(read_partitions(str(path))[0]["short"].not_counted) == ["memory"]
    # Those of another partition do not matter.
    rows = make_rows((CENTRE[2], CENTRE[3]), 150)
    path.write_text(text_of(rows))
    parts = read_partitions(str(path), accounting=Choices(by="cores"))[0]
    assert [list(parts[name].not_counted) for name in ("gpu", "short")] == [["GPUs"], []]
