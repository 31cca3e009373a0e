"""Forecasts of starts: hand-drawn queues, and what they may know."""

from __future__ import annotations

import numpy as np
import pytest

from qops_batsim.queue import WEEK, Moment, Past, Simulator, moment_of
from qops_batsim.queue.forecast import Arrivals, quantiles
from qops_batsim.queue.past import Habits
from support.pasts import history, past


def queue_of_two() -> Past:
    """Return a machine of four processors.

    a runs from 0 on, with a limit of 100 s; b waits since 10 for all of it, c since 20 for one:

              now   60        100
        0-2  aaaa|aaa          bbbb...
        3        |c...
    """
    rows = [(0.0, 0.0, 60.0, 100.0, 3), (10.0, 60.0, 40.0, 80.0, 4), (20.0, 60.0, 10.0, 90.0, 1)]
    return past(4, rows, users="abc")


def test_a_moment_is_the_queue_of_the_past() -> None:
    jobs = queue_of_two()
    moment = moment_of(jobs, 30.0)
    assert moment.running.tolist() == [0]
    assert moment.waiting.tolist() == [1, 2]
    assert moment_of(jobs, 15.0).waiting.tolist() == [1]
    assert moment_of(jobs, 70.0).running.tolist() == [1, 2][:1]


def test_the_plan_by_limits_has_no_job_end_early() -> None:
    # c, with a limit of 90 s from 30 on, would delay b, which is planned for 100.
    assert Simulator(queue_of_two()).planned(moment_of(queue_of_two(), 30.0)).tolist() == [
        100.0,
        180.0,
    ]


def test_a_simulation_has_jobs_end_when_they_do() -> None:
    moment = moment_of(queue_of_two(), 30.0)
    # a ends 20 s from now, b runs for 40.
    found = Simulator(queue_of_two()).starts(moment, np.array([20.0, 40.0, 10.0]))
    assert found.tolist() == [50.0, 90.0]


def test_jobs_that_come_later_can_go_first() -> None:
    # b waits for all four processors until 100; d comes at 35 for one processor and 20 s.
    jobs = past(
        4,
        [
            (0.0, 0.0, 60.0, 100.0, 3),
            (5.0, 30.0, 20.0, 60.0, 1),
            (10.0, 60.0, 40.0, 80.0, 4),
        ],
    )
    moment = Moment(30.0, np.array([0]), np.array([2]))
    run_times = np.array([70.0, 40.0])
    nothing = np.arange(0)

    def coming(run_time: float) -> Arrivals:
        return Arrivals(np.array([1]), 30.0, np.array([run_time]), nothing, nothing)

    late = Simulator(jobs).starts(moment, run_times, coming(20.0))
    assert late.tolist() == [100.0]
    # Its limit of 60 s ends before 100; it runs beyond that.
    late = Simulator(jobs).starts(moment, run_times, coming(90.0))
    assert late.tolist() == [125.0]


def forecast_at(jobs: Past, now: float, seed: int = 1) -> tuple[Moment, np.ndarray]:
    ended = np.argsort(jobs.ends)
    habits = Habits(jobs, ended[jobs.ends[ended] <= now])
    moment = moment_of(jobs, now)
    rng = np.random.default_rng(seed)
    return moment, Simulator(jobs).forecast(moment, habits, 20, rng)


def busy(jobs: Past) -> float:
    """Return a date of the last half at which several jobs wait."""
    dates = np.linspace(2 * WEEK, 3.5 * WEEK, 400)
    return next(date for date in dates.tolist() if len(moment_of(jobs, date).waiting) > 3)


def test_a_forecast_knows_nothing_of_what_comes() -> None:
    jobs = history()
    now = busy(jobs)
    _, found = forecast_at(jobs, now)
    # Everything that is decided or known later is another thing; what waits and runs is the same.
    coming, open_jobs = jobs.submissions > now, jobs.ends > now
    changed = jobs._replace(
        submissions=np.where(coming, jobs.submissions + 777.0, jobs.submissions),
        starts=np.where(jobs.starts > now, jobs.starts + 5_000.0, jobs.starts),
        run_times=np.where(open_jobs, jobs.limits, jobs.run_times),
        widths=np.where(coming, 1, jobs.widths),
    )
    assert np.array_equal(found, forecast_at(changed, now)[1])


def test_jobs_that_come_after_all_have_started_need_no_simulation() -> None:
    jobs = history()
    moment, simulator = moment_of(jobs, busy(jobs)), Simulator(jobs)
    drawn = simulator.draw(moment, Habits(jobs, np.arange(0)), 20, np.random.default_rng(4))
    whole = [
        simulator.starts(moment, *each)
        for each in zip(drawn.run_times, drawn.arrivals, drawn.cancelled, strict=True)
    ]
    assert np.array_equal(simulator.starts_by_draw(moment, drawn), np.array(whole))


def test_equal_seeds_give_equal_forecasts() -> None:
    jobs = history()
    now = busy(jobs)
    first, again = (forecast_at(jobs, now)[1] for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, forecast_at(jobs, now, seed=2)[1])


def test_no_start_is_drawn_before_now_and_quantiles_are_draws() -> None:
    jobs = history()
    moment, found = forecast_at(jobs, busy(jobs))
    assert (found >= moment.now).all()
    levels = quantiles(found, (0.1, 0.5, 0.9))
    assert (np.diff(levels, axis=0) >= 0).all()
    for level, column in zip(levels.T, found.T, strict=True):
        assert np.isin(level, column).all()


def test_slurm_decides_by_priority() -> None:
    # Small jobs first: c, beside a, before b.
    settings = {"weight_size": 1000.0, "favor_small": True, "bf_interval": 1.0}
    simulator = Simulator(queue_of_two(), "slurm", settings)
    moment = moment_of(queue_of_two(), 30.0)
    found = simulator.starts(moment, np.array([20.0, 40.0, 10.0]))
    assert found[1] == pytest.approx(30.0)
    assert found[0] >= 50.0


def test_a_cancelled_job_leaves_the_queue() -> None:
    jobs = queue_of_two()
    moment = moment_of(jobs, 30.0)
    # b, which waits for all processors until a ends, is cancelled at 40; c begins then.
    run_times, waits = np.array([30.0, 40.0, 10.0]), np.array([40.0, np.inf])
    found = Simulator(jobs).starts(moment, run_times, cancelled=waits)
    assert np.isnan(found[0])
    assert found[1] == 40.0
    # A job that has started by then is not cancelled any more.
    found = Simulator(jobs).starts(moment, run_times, cancelled=np.array([61.0, np.inf]))
    assert found.tolist() == [60.0, 100.0]


def test_a_job_that_is_cancelled_later_waits_now() -> None:
    jobs = queue_of_two()
    gone = jobs._replace(
        starts=np.array([0.0, np.nan, 60.0]), cancelled=np.array([np.nan, 50.0, np.nan])
    )
    assert moment_of(gone, 30.0).waiting.tolist() == [1, 2]
    assert moment_of(gone, 55.0).waiting.tolist() == [2]


def test_quantiles_are_of_the_draws_in_which_a_job_starts() -> None:
    starts = np.array([[10.0, np.nan], [np.nan, np.nan], [30.0, np.nan], [20.0, np.nan]])
    assert quantiles(starts, (0.1, 0.5, 0.9)).tolist() == [
        [10.0, np.inf],
        [20.0, np.inf],
        [30.0, np.inf],
    ]
