"""Back-tests: what is forecast at past moments, and what it is compared with."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from qops_batsim import InputError
from qops_batsim.queue import Moment, Simulator, moment_of
from qops_batsim.queue.backtest import backtest, recent_waits, simulated_past, with_expected
from qops_batsim.queue.calibration import WAITS
from qops_batsim.queue.expected_starts import ExpectedStarts
from qops_batsim.queue.scores import FEWEST, coverage, coverages
from support.pasts import history, past

UNIX = 1_780_000_000


def test_recent_waits_are_those_of_alike_jobs() -> None:
    # WaitKind of one processor: 10, 20, 30 s; one of 64 waited 500. The new job has waited 15 s.
    rows = [(0.0, 10.0 * n, 1.0, 60.0, 1) for n in (1, 2, 3)] + [(0.0, 500.0, 1.0, 60.0, 64)]
    jobs = past(64, [*rows, (600.0, 700.0, 1.0, 60.0, 1)])
    median, bound = recent_waits(jobs, np.arange(4), moment_of(jobs, 615.0), 4)
    assert (median, bound) == (620.0, 630.0)


def test_a_backtest_is_of_jobs_that_waited_and_is_repeated_by_its_seed() -> None:
    jobs = history()
    first, learned = backtest(jobs, Simulator(jobs), moments=30, draws=10, seed=5)
    again, same = backtest(jobs, Simulator(jobs), moments=30, draws=10, seed=5)
    # That of Slurm is not known: NaN.
    assert repr(first) == repr(again)
    assert msgspec.json.encode(learned) == msgspec.json.encode(same)
    assert len({each.now for each in first}) == 30
    for each in first:
        assert jobs.submissions[each.row] <= each.now < each.start == jobs.starts[each.row]
        assert each.now <= each.levels[0] <= each.levels[2] <= each.levels[4]
    assert [each.wait for each in learned.corrections] == list(WAITS)
    assert not learned.by_plan
    classes = coverages(first, jobs)
    assert classes[0].group == "all"
    assert all(each.forecasts >= FEWEST for each in classes[1:])
    # The model is the truth here: it beats plans by limits, which are twice too long.
    assert classes[0].median_error < 0.6 * classes[0].of_plan
    assert classes[0].pinball < classes[0].pinball_of_plan < classes[0].of_plan


def test_a_history_without_waits_cannot_be_compared() -> None:
    rows = [(100.0 * n, 100.0 * n, 50.0, 60.0, 1) for n in range(20)]
    jobs = past(4, rows)
    with pytest.raises(InputError, match="no job ever waits"):
        backtest(jobs, Simulator(jobs), moments=10, draws=10)
    unknown = jobs._replace(starts=np.full(20, np.nan))
    with pytest.raises(InputError, match="does not tell how long any job waited"):
        backtest(unknown, Simulator(unknown), moments=10, draws=10)


def test_jobs_overrun_their_limits_in_a_log_and_not_in_a_simulation() -> None:
    # a runs for 100 s, with a limit of 60; b waits for it.
    jobs = past(1, [(0.0, 0.0, 100.0, 60.0, 1), (10.0, 100.0, 5.0, 60.0, 1)])
    assert jobs.ends.tolist() == [100.0, 105.0]
    assert moment_of(jobs, 80.0).running.tolist() == [0]
    simulated = simulated_past(jobs)
    assert simulated.starts.tolist() == [0.0, 60.0]
    assert simulated.ends.tolist() == [60.0, 65.0]


def test_jobs_that_were_cancelled_are_not_compared() -> None:
    jobs = history()
    waited = jobs.starts - jobs.submissions
    longest = np.argsort(waited)[-30:]
    gone = np.full(len(waited), np.nan)
    gone[longest] = jobs.starts[longest] - 1.0
    starts = np.where(np.isnan(gone), jobs.starts, np.nan)
    jobs = jobs._replace(starts=starts, cancelled=gone)
    found, _ = backtest(jobs, Simulator(jobs), moments=20, draws=10, seed=5)
    assert np.isfinite([each.start for each in found]).all()
    assert not {each.row for each in found} & set(longest.tolist())
    # A scheduler might have started them before.
    assert simulated_past(jobs).history == len(waited) - 30


def test_what_slurm_expected_is_compared_where_it_is_known(tmp_path: Path) -> None:
    jobs = history()
    every, _ = backtest(jobs, Simulator(jobs), moments=30, draws=10, seed=5)
    assert coverage(every).of_slurm is None
    # Of all jobs with even numbers Slurm expects the start 100 s late, all along.
    rows = sorted({each.row for each in every if each.row % 2 == 0})
    starts = {str(row): float(jobs.starts[row]) + UNIX + 100.0 for row in rows}
    first, last = sorted({each.now for each in every})[9:20:10]
    looks = np.arange(first, last, 60.0) + UNIX
    lines = [{"date": float(date), "starts": {} if at else starts} for at, date in enumerate(looks)]
    (tmp_path / "looks.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    expected = ExpectedStarts(tmp_path / "looks.jsonl")
    told = with_expected(every, jobs, expected, UNIX)
    known = [each for each in told if not math.isnan(each.slurm)]
    assert {each.row for each in known} <= {*rows}
    assert all(first <= each.now <= last + 600 for each in known)
    assert all(each.slurm - each.start == pytest.approx(100.0) for each in known)
    assert coverage(told).of_slurm == pytest.approx(100.0)
    groups = {each.group: each for each in coverages(told, jobs)}
    assert groups["Slurm expects a start"].forecasts == len(known)
    # Moments can be of that time only.
    within, _ = backtest(jobs, Simulator(jobs), moments=10, draws=10, seed=5, span=(first, last))
    assert all(first <= each.now <= last for each in within)
    with pytest.raises(InputError, match="a history that goes on until after the estimates"):
        backtest(jobs, Simulator(jobs), moments=10, draws=10, span=(9e9, 9.1e9))
    with pytest.raises(InputError, match="name no job that waits"):
        with_expected(every, jobs, expected, UNIX + 1e9)


def test_where_simulations_are_no_better_the_plan_is_told() -> None:
    class AtRandom(Simulator):
        """Simulates starts that have nothing to do with the queue."""

        def forecast(self, moment: Moment, habits: Any, draws: int, rng: Any, *more: Any) -> Any:
            size = draws, len(moment.waiting)
            return moment.now + np.exp(rng.normal(9.0, 3.0, len(moment.waiting)) + np.zeros(size))

    jobs = history()
    found, learned = backtest(jobs, AtRandom(jobs), moments=80, draws=10, seed=5)
    of_all = coverage(found)
    assert learned.by_plan
    assert of_all.pinball_of_plan < of_all.pinball < of_all.pinball_drawn
    # Told is the plan, calibrated, from when it is known to be better.
    assert [each.levels for each in found[-9:]] == [each.by_plan for each in found[-9:]]
    (why,) = (each for each in learned.warnings() if "no better" in each)
    assert why.startswith("the back-test found the simulations no better than the plan")
