"""Bounds and best known schedules against exhaustive search and known schedulers."""

from __future__ import annotations

import itertools
import math
import os
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from qops_batsim import InputError, read_run
from qops_batsim.errors import SimulationError
from qops_batsim.workload import Workload
from support.rows_of_jobs import Row, workload_of

pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")

from qops_batsim.optimum import Limits, best_possible
from qops_batsim.optimum import best as bounds
from qops_batsim.optimum.best import OBJECTIVES
from qops_batsim.optimum.clairvoyant import write_best
from qops_batsim.optimum.problem import (
    NOT_CHOSEN,
    Problem,
    Tasks,
    in_whole_units,
    problem_of,
    worth_of,
)
from qops_batsim.optimum.search import filled, is_feasible, profile_of
from qops_batsim.optimum.solver import Budget, energies, energy_bound, proven_bound, solve

CASES = int(os.environ.get("QOPS_BOUND_CASES", "60"))
"""Random cases; docs/bound.md tells how many were run for it."""

SHORT = Limits(seconds=2.0, by_clock=False)


def small_case(seed: int) -> Workload:
    """Make up to seven jobs that compete; times are whole, or have one or many decimals."""
    rng = random.Random(seed)
    decimals = rng.choice([0, 0, 1, 7])
    machine = rng.randint(1, 5)

    def number(low: float, high: float) -> float:
        return round(rng.uniform(low, high), decimals)

    rows: list[Row] = []
    for _ in range(rng.randint(1, 7)):
        submission, run_time = number(0, 12), max(number(0, 9), 10.0**-decimals)
        laxity = rng.choice([0.0, number(0, 3), number(0, 15)])
        deadline = None if rng.random() < 0.1 else submission + run_time + laxity
        rows.append(
            (submission, rng.randint(1, machine + (rng.random() < 0.1)), run_time, deadline)
        )
    return workload_of(rows, machine)


def best_of_all(workload: Workload, worth: list[float]) -> float:
    """Return the most that jobs with deadlines can be worth: every order, each at its earliest fit.

    Some order does: that of the starts of the best schedule.
    """
    jobs = {
        place: (job, workload.profiles[job.profile]["delay"])
        for place, job in enumerate(workload.jobs)
        if job.qos is not None and job.qos.deadline is not None
        if job.processors <= workload.processors
    }
    best = 0.0

    def extend(runs: list[tuple[float, float, int]], left: set[int], total: float) -> None:
        nonlocal best
        best = max(best, total)
        for place in left:
            if total + math.fsum(worth[each] for each in left) <= best:
                return
            job, run_time = jobs[place]
            start = earliest(runs, job.submission_time, run_time, job.processors, workload)
            if start + run_time <= job.qos.deadline + 1e-6:
                run = start, start + run_time, job.processors
                extend([*runs, run], left - {place}, total + worth[place])

    extend([], set(jobs), 0.0)
    return best


def earliest(
    runs: list[tuple[float, float, int]], after: float, length: float, needed: int, w: Workload
) -> float:
    for start in sorted({after, *(end for _, end, _ in runs if end > after)}):
        dates = [start, *(begin for begin, _, _ in runs if start < begin < start + length - 1e-9)]
        if all(
            sum(n for begin, end, n in runs if begin <= date + 1e-9 and end > date + 1e-9) + needed
            <= w.processors
            for date in dates
        ):
            return start
    raise AssertionError("the machine is free at the end")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(CASES))
def test_small_cases_are_solved_as_by_trying_every_order(seed: int) -> None:
    workload, objective = small_case(seed), OBJECTIVES[seed % 3]
    for found in best_possible(workload, [objective], SHORT):
        real = worth_of(workload, objective)
        without = math.fsum(
            float(real[place])
            for place, job in enumerate(workload.jobs)
            if job.qos is not None and job.qos.deadline is None
            if job.processors <= workload.processors
        )
        best = best_of_all(workload, real.tolist()) + without
        assert found.bound >= best - 1e-9
        assert found.checked_bound >= found.bound - 1e-9
        assert all(value <= found.bound + 1e-9 for value in found.schedulers.values())
        assert found.best_known <= best + 1e-9
        if is_exact(problem_of(workload)):
            assert found.best_known == pytest.approx(best, abs=1e-9)
            assert found.bound == pytest.approx(best, rel=1e-6, abs=1e-9)


def test_the_best_of_the_largest_jobs_and_all_others_are_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "FEW", 0)
    monkeypatch.setattr(bounds, "SHARES", (0.5, 0.8))
    tightened = 0
    for seed in range(12):
        problem = problem_of(small_case(seed))
        worth = problem.relaxed.duration * problem.relaxed.processors
        everything, window = int(worth.sum()), (problem.relaxed, worth)
        ask = partial(bounds.solve, machine=problem.machine)
        best = ask(*window, budget=Budget(1, False)).worth
        nothing, budget = np.full(len(worth), NOT_CHOSEN), Budget(1, False)
        bound = bounds._of_the_largest(*window, nothing, everything, budget, ask)
        assert best <= bound <= everything
        tightened += bound < everything
    assert tightened


def test_the_future_decides_which_job_to_admit() -> None:
    # ##########          A, which QoPS takes, since it is there first
    #  ####                B
    #      ####            C
    rows: list[Row] = [(0, 2, 10, 10), (1, 2, 4, 5), (5, 2, 4, 9)]
    jobs, work, charge = best_possible(workload_of(rows, 2), limits=SHORT)
    assert (jobs.schedulers["qops"], jobs.best_known, jobs.bound) == (1, 2, 2)
    assert jobs.starts == {"1": 1.0, "2": 5.0}
    assert (work.best_known, work.bound, work.starts) == (20, 20, {"0": 0.0})
    # EASY's slowdowns are 1 for A, 13 / 4 and 13 / 4: what is urgent pays 13 / 4 each.
    assert charge.best_known == 5.0
    assert jobs.proof in ("energy", "solver")


def test_jobs_without_deadline_wait_until_all_others_have_ended() -> None:
    rows: list[Row] = [(0, 2, 10, None), (0, 2, 4, 4), (4, 2, 4, 8), (0, 3, 1, None), (0, 0, 1, 9)]
    (jobs,) = best_possible(workload_of(rows, 2), ["jobs"], SHORT)
    assert (jobs.total, jobs.bound, jobs.best_known) == (5, 3, 3)
    assert jobs.starts == {"0": 8.0, "1": 0.0, "2": 4.0}


def test_a_schedule_is_written_as_a_run(tmp_path: Path) -> None:
    workload = small_case(3)
    (jobs,) = best_possible(workload, ["jobs"], SHORT)
    done = write_best(jobs, workload, str(tmp_path / "best"))
    assert done.violations == []
    assert read_run(str(tmp_path / "best")).executed.sum() == jobs.best_known


def test_a_wrong_schedule_is_not_written_as_a_good_one(tmp_path: Path) -> None:
    workload = workload_of([(0, 2, 10, 10), (0, 2, 10, 20)], 2)
    (jobs,) = best_possible(workload, ["jobs"], SHORT)
    jobs.starts.update({"0": 0.0, "1": 5.0})
    assert write_best(jobs, workload, str(tmp_path / "late")).violations == []
    jobs.starts.update({"0": 5.0, "1": 0.0})
    with pytest.raises(SimulationError, match="admitted-deadline"):
        write_best(jobs, workload, str(tmp_path / "wrong"))


# Of 30 jobs the solver proves something; with 60, the time ends a search that goes on.
@pytest.mark.parametrize(
    ("jobs", "seconds"), [(30, 0.3), pytest.param(60, 0.05, marks=pytest.mark.sweep)]
)
def test_equal_deterministic_time_gives_equal_results(jobs: int, seconds: float) -> None:
    from qops_batsim.experiments.deadline_workload import deadline_workload
    from qops_batsim.running.inputs import load_workload

    workload = deadline_workload(
        load_workload("sdsc_sp2_1000"), load=1.6, first=jobs, keep_estimates=False
    )
    limits = Limits(seconds=seconds, by_clock=False)
    first, second = (best_possible(workload, OBJECTIVES, limits) for _ in range(2))
    assert first == second
    assert all(each.bound >= max(each.schedulers.values()) for each in first)


@pytest.mark.parametrize(
    ("limits", "objectives", "message"),
    [
        (Limits(seconds=0), OBJECTIVES, "time is 0; a number of seconds above 0 is expected"),
        (Limits(), ("job",), "objective 'job' is unknown; did you mean 'jobs'"),
    ],
)
def test_bad_input_is_told(limits: Limits, objectives: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        best_possible(small_case(1), objectives, limits)


# Parts


def tasks_of(*rows: tuple[int, int, int, int]) -> Tasks:
    """Return jobs from release, duration, latest end and processors."""
    return Tasks(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def test_energy_is_what_no_start_avoids() -> None:
    tasks = tasks_of((0, 6, 8, 3), (0, 4, 20, 1), (5, 4, 12, 2))
    for interval in ((2, 6), (0, 8), (4, 5), (7, 9)):
        least = []
        for release, duration, latest, processors in zip(
            *map(np.ndarray.tolist, tasks), strict=True
        ):
            inside = [
                max(0, min(start + duration, interval[1]) - max(start, interval[0]))
                for start in range(release, latest - duration + 1)
            ]
            least.append(processors * min(inside))
        assert energies(tasks, interval).tolist() == least


def test_any_multipliers_prove_a_bound() -> None:
    rng = np.random.default_rng(1)
    for seed in range(40):
        problem = problem_of(small_case(seed))
        worth = in_whole_units(worth_of(problem.workload, "work")[problem.places])[0]
        best = solve(problem.relaxed, worth, problem.machine, Budget(5, False)).worth
        for _ in range(5):
            begin = int(rng.integers(0, 10 * problem.ticks))
            end = begin + int(rng.integers(1, 12 * problem.ticks))
            rows = [((begin, end), int(rng.integers(0, 10**18)))]
            assert proven_bound(problem.relaxed, worth, problem.machine, rows) >= best
        energy = energy_bound(problem.relaxed, worth, problem.machine, Budget(5, False))
        assert best <= energy.value <= worth.sum()


def test_energy_proves_what_two_jobs_at_once_need() -> None:
    tasks = tasks_of((0, 10, 12, 3), (0, 10, 13, 3), (50, 5, 60, 4))
    worth = np.array([1, 1, 1])
    assert energy_bound(tasks, worth, 4, Budget(5, True)).value == 2


def is_exact(problem: Problem) -> bool:
    """Return whether nothing was rounded."""
    return all(map(np.array_equal, problem.relaxed, problem.strict))


def rounded(rows: list[Row], processors: int = 4) -> Problem:
    return problem_of(workload_of(rows, processors))


def test_rounding_goes_one_way_for_bounds_and_the_other_for_schedules() -> None:
    whole = rounded([(3, 1, 5, 8.7), (4, 1, 2, 6.9999999)])
    assert (whole.ticks, is_exact(whole), whole.origin) == (1, True, 3.0)
    assert whole.relaxed.latest.tolist() == [5, 4]
    assert rounded([(0.25, 1, 5, 8)]).ticks == 100
    fine = rounded([(1 / 3, 1, 2 / 3, 2)])
    assert fine.ticks == 1_000_000
    assert (fine.relaxed.release[0], fine.strict.release[0]) == (333_333, 333_334)
    assert (fine.relaxed.duration[0], fine.strict.duration[0]) == (666_666, 666_667)
    assert (fine.relaxed.latest[0], fine.strict.latest[0]) == (2_000_002, 2_000_000)
    assert not is_exact(rounded([(0, 1, 0, 5)]))


def test_jobs_that_cannot_end_in_time_are_left_out() -> None:
    problem = rounded([(0, 1, 5, 4), (0, 5, 1, 9), (0, 0, 1, 9), (0, 1, 5, 5), (0, 4, 1, None)])
    assert problem.places.tolist() == [3]
    assert problem.free.tolist() == [4]


def test_room_finds_the_earliest_fit_as_trying_every_tick_does() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        tasks = tasks_of(
            *(
                (int(rng.integers(0, 9)), int(rng.integers(1, 5)), 30, int(rng.integers(1, 4)))
                for _ in range(8)
            )
        )
        starts = filled(tasks, np.full(8, NOT_CHOSEN), 4, range(8))
        assert is_feasible(tasks, starts, 4)
        profile = profile_of(tasks, starts, 4)
        after, length, needed = (int(rng.integers(*each)) for each in ((0, 9), (1, 5), (1, 5)))
        used = np.zeros(60, np.int64)
        for start, duration, processors in zip(starts, *tasks[1::2], strict=True):
            if start != NOT_CHOSEN:
                used[start : start + duration] += processors
        fits = [t for t in range(after, 50) if (used[t : t + length] + needed <= 4).all()]
        assert profile.earliest_fit(after, length, needed) == fits[0]
        assert [profile.lowest_free(t, t + 1) for t in range(60)] == (4 - used).tolist()


@pytest.mark.sweep
def test_windows_part_the_jobs_and_their_bounds_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from qops_batsim.experiments.deadline_workload import deadline_workload
    from qops_batsim.running.inputs import load_workload

    workload = deadline_workload(
        load_workload("sdsc_sp2_1000"), load=1.4, first=60, keep_estimates=False
    )
    limits = Limits(seconds=2, by_clock=False)
    (whole,) = best_possible(workload, ["work"], limits)
    monkeypatch.setattr(bounds, "WINDOW", 20)
    tasks = problem_of(workload).relaxed
    cuts = bounds.windows(tasks)
    assert len(cuts) == 4
    assert sorted(np.concatenate(cuts)) == list(range(len(tasks.release)))
    assert all(
        tasks.release[before].max() <= tasks.release[after].min()
        for before, after in itertools.pairwise(cuts)
    )
    (parts,) = best_possible(workload, ["work"], limits)
    assert max(parts.schedulers.values()) <= whole.best_known <= parts.bound
    assert whole.bound <= parts.checked_bound
