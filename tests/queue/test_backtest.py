"""Back-tests: calibration, intervals over weeks, and what forecasts are compared with."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from qops_batsim import InputError
from qops_batsim.experiments import mean_interval
from qops_batsim.queue import Simulator, moment_of
from qops_batsim.queue.backtest import (
    LEAST,
    LEVELS,
    Calibration,
    PastForecast,
    backtest,
    clustered,
    corrected,
    coverage,
    coverages,
    kept_promises,
    recent_waits,
    simulated_past,
    with_expected,
)
from qops_batsim.queue.expected_starts import ExpectedStarts
from support.pasts import history, past

UNIX = 1_780_000_000


def told(
    now: float, start: float, drawn: tuple[float, ...], levels: tuple[float, ...]
) -> PastForecast:
    return PastForecast(now, 0, start, drawn, levels, start + 10.0, start - 20.0, start)


def test_calibration_learns_what_all_forecasts_miss() -> None:
    """Starts come 0 to 100 s after the moment, forecasts tell 300 to 304 s."""
    calibration, rng, kept = Calibration(), np.random.default_rng(7), []
    for count in range(600):
        now = 1000.0 * count
        calibration.come_to(now)
        drawn = tuple(now + 300.0 + step for step in range(6))
        levels = corrected(drawn, calibration.corrections(), now)
        start = now + float(rng.uniform(0, 100))
        kept.append([start <= level for level in levels])
        calibration.await_outcome(told(now, start, drawn, levels))
    shares = np.mean(kept[200:], axis=0)
    assert shares == pytest.approx(LEVELS, abs=0.06)


def test_nothing_is_corrected_by_few_outcomes_or_before_they_are_known() -> None:
    calibration = Calibration()
    drawn = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0)
    for _ in range(LEAST):
        calibration.await_outcome(told(0.0, 50.0, drawn, drawn))
    calibration.come_to(49.0)
    assert corrected(drawn, calibration.corrections(), 0.0) == drawn
    calibration.come_to(50.0)
    # Whether the median gets better by it is not known yet, and no later level is before it.
    assert corrected(drawn, calibration.corrections(), 0.0) == (50.0, 50.0, *[102.0] * 4)
    calibration.await_outcome(told(0.0, 50.0, drawn, drawn))
    calibration.come_to(50.0)
    assert corrected(drawn, calibration.corrections(), 0.0) == (50.0,) * 6


def test_corrected_quantiles_are_in_order_and_not_past() -> None:
    calibration = Calibration()
    for count in range(LEAST):
        start = 1.0 if count % 2 else 5_000.0
        drawn = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0)
        calibration.await_outcome(told(0.0, start, drawn, drawn))
    calibration.come_to(math.inf)
    found = corrected((600.0, 600.0, 600.0, 600.0, 601.0, 602.0), calibration.corrections(), 590.0)
    assert list(found) == sorted(found)
    assert found[0] >= 590.0


def test_an_interval_over_clusters_of_one_is_that_of_the_mean() -> None:
    values = np.array([0.0, 100.0, 100.0, 100.0, 0.0, 100.0])
    low, high = mean_interval(values.tolist()).ends
    found = clustered(values, np.arange(6))
    assert found == pytest.approx((max(low, 0.0), min(high, 100.0)))
    # As one observation each week, six equal jobs tell no more than one.
    many = clustered(np.repeat(values, 6), np.repeat(np.arange(6), 6))
    assert many == pytest.approx(found)
    assert clustered(values, np.zeros(6, int)) is None


def test_an_interval_of_shares_that_are_all_alike_has_a_width() -> None:
    # Four weeks, all inside: with t = 3.18, the lower end is 4 / (4 + t * t).
    low, high = clustered(np.full(40, 100.0), np.arange(40) % 4) or (0.0, 0.0)
    assert (low, high) == (pytest.approx(100 * 4 / (4 + 3.182446**2)), 100.0)
    low, high = clustered(np.zeros(40), np.arange(40) % 4) or (1.0, 0.0)
    assert (low, high) == (0.0, pytest.approx(100 * (1 - 4 / (4 + 3.182446**2))))


def test_coverage_counts_what_came_inside() -> None:
    levels = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
    starts = (5.0, 15.0, 25.0, 35.0, 60.0)
    found = coverage([told(0.0, start, levels, levels) for start in starts])
    assert (found.coverage_80, found.coverage_50) == (60.0, 40.0)
    assert found.median_error == 15.0
    assert (found.of_plan, found.of_recent_waits, found.of_bound) == (10.0, 20.0, 0.0)


def test_recent_waits_are_those_of_alike_jobs() -> None:
    # WaitKind of one processor: 10, 20, 30 s; one of 64 waited 500. The new job has waited 15 s.
    rows = [(0.0, 10.0 * n, 1.0, 60.0, 1) for n in (1, 2, 3)] + [(0.0, 500.0, 1.0, 60.0, 64)]
    jobs = past(64, [*rows, (600.0, 700.0, 1.0, 60.0, 1)])
    median, bound = recent_waits(jobs, np.arange(4), moment_of(jobs, 615.0), 4)
    assert (median, bound) == (620.0, 630.0)


def test_a_backtest_is_of_jobs_that_waited_and_is_repeated_by_its_seed() -> None:
    jobs = history()
    first, corrections = backtest(jobs, Simulator(jobs), moments=30, draws=10, seed=5)
    again, _ = backtest(jobs, Simulator(jobs), moments=30, draws=10, seed=5)
    assert first == again
    assert len({each.now for each in first}) == 30
    for each in first:
        assert jobs.submissions[each.row] <= each.now < each.start == jobs.starts[each.row]
        assert each.now <= each.levels[0] <= each.levels[2] <= each.levels[4]
    assert len(corrections) == 5
    classes = coverages(first, jobs)
    assert classes[0].group == "all"
    assert all(each.forecasts >= LEAST for each in classes[1:])
    # The model is the truth here: it beats plans by limits, which are twice too long.
    assert classes[0].median_error < 0.6 * classes[0].of_plan


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


def test_promises_are_kept_by_the_end() -> None:
    # Of limits of 100 s the jobs use 40. The first starts by the promised 60, the second after it,
    # but ends in time; the third is late, and to the fourth nothing was promised.
    starts = (50.0, 110.0, 130.0, 140.0)
    jobs = past(8, [(0.0, start, 40.0, 100.0, 1) for start in starts])
    levels = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
    never = (*levels[:-1], math.inf)
    told_of = [
        PastForecast(0.0, row, start, levels, levels if row < 3 else never, 130.0, 0.0, 0.0)
        for row, start in enumerate(starts)
    ]
    found = kept_promises(told_of, jobs)
    assert found is not None
    assert (found.promises, found.kept, found.started) == (
        3,
        pytest.approx(200 / 3),
        pytest.approx(100 / 3),
    )
    # 160 less 90, 150 and 170.
    assert found.slack == pytest.approx((70 + 10 - 10) / 3)
    assert found.plan_kept == 100.0
    assert kept_promises(told_of[3:], jobs) is None


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
