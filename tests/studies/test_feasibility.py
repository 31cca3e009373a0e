"""The lines between QoPS and the clairvoyant."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pytest

from qops_batsim.experiments import checked_outcomes
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.schedulers import QopsOptions
from qops_batsim.workload import Workload
from support.rows_of_jobs import Row, workload_of

pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")

from qops_batsim.optimum import Limits, best_possible
from qops_batsim.optimum.best import schedule_of
from qops_batsim.optimum.problem import NOT_CHOSEN, Tasks, problem_of
from qops_batsim.optimum.search import filled, is_feasible
from studies.how_good import feasibility
from studies.how_good.feasibility import (
    ExactFeasibility,
    Moment,
    first_come_with_hindsight,
    joint_schedule,
    online_admission,
)


def burst(seed: int) -> Workload:
    rng = random.Random(seed)
    rows: list[Row] = []
    date = 0.0
    for _ in range(25):
        run_time = rng.randint(1, 30)
        laxity = rng.choice([0, 5, 20, 60])
        rows.append((date, rng.randint(1, 6), run_time, date + run_time + laxity))
        date += rng.randint(0, 6)
    return workload_of(rows, 6)


def admitted_exactly(workload: Workload) -> tuple[set[int], ExactFeasibility]:
    # A search that gives up soon leaves the solver more to find.
    scheduler = ExactFeasibility(QopsOptions(k_factor=0, on_failure="reject"))
    module = make_scheduler(scheduler)
    outcomes, _ = checked_outcomes(workload, make_cluster(workload.processors), module, "exact")
    return set(np.flatnonzero(~outcomes.refused).tolist()), scheduler


def test_each_line_is_a_schedule_and_below_the_bound() -> None:
    found = 0
    for seed in range(5):
        workload = burst(seed)
        problem = problem_of(workload)
        exactly, module = admitted_exactly(workload)
        hindsight = first_come_with_hindsight(problem)
        assert is_feasible(problem.strict, hindsight.starts, problem.machine)
        assert (module.solver_counts.open, hindsight.open) == (0, 0)
        (jobs,) = best_possible(workload, ["jobs"], Limits(seconds=0.3, by_clock=False))
        chosen = int((hindsight.starts != NOT_CHOSEN).sum())
        assert max(chosen, len(exactly)) <= jobs.bound
        found += module.solver_counts.found
    assert found


def test_jobs_fit_together_if_some_order_has_them_all() -> None:
    rng = np.random.default_rng(5)
    answers = set()
    for _ in range(60):
        release, duration = rng.integers(0, 5, 5), rng.integers(1, 6, 5)
        laxity = rng.integers(0, 9, 5)
        laxity[0] = 0  # A fixed one, as the running jobs are.
        tasks = Tasks(release, duration, release + duration + laxity, rng.integers(1, 4, 5))
        nothing = np.full(5, NOT_CHOSEN)
        orders = (filled(tasks, nothing, 4, order) for order in itertools.permutations(range(5)))
        possible = any((each != NOT_CHOSEN).all() for each in orders)
        found = joint_schedule(tasks, nothing, 4, 1.0)
        assert found.is_proven
        assert (found.starts is not None) == possible
        if found.starts is not None:
            assert (found.starts != NOT_CHOSEN).all()
            assert is_feasible(tasks, found.starts, 4)
        answers.add(possible)
    assert answers == {True, False}


def test_exactly_what_the_solver_admits_keeps_fractions_of_seconds() -> None:
    # A and B of 2.5 s each after what runs until 1.25; QoPS's one try misses that B must be first.
    rows = [(0, 1, 1.25, 1.25), (0.5, 1, 2.5, 9.0), (1.0, 1, 2.5, 3.75)]
    assert admitted_exactly(workload_of(rows, 1))[0] == {0, 1, 2}


def test_hindsight_starts_the_first_job_so_that_the_second_fits() -> None:
    # A may run in 0 to 30, and QoPS starts it at once; B has to run in 5 to 15.
    workload = workload_of([(0, 1, 10, 30), (5, 1, 10, 15)], 1)
    problem = problem_of(workload)
    assert int((schedule_of(problem, "qops") != NOT_CHOSEN).sum()) == 1
    assert admitted_exactly(workload)[0] == {0}
    hindsight = first_come_with_hindsight(problem)
    assert (hindsight.starts != NOT_CHOSEN).all()


def test_hindsight_refuses_nothing_for_the_sake_of_later_jobs() -> None:
    workload = workload_of([(0, 1, 10, 10), (1, 1, 4, 5), (5, 1, 4, 9)], 1)
    hindsight = first_come_with_hindsight(problem_of(workload))
    assert hindsight.starts.tolist() == [0, NOT_CHOSEN, NOT_CHOSEN]


def test_compare_draws_and_tells_the_bound(cli, tmp_path) -> None:
    result = cli(
        *("compare", "qops", "--first", 40, "--loads", "1.6", "--seeds", 1, "--bound", 0.3),
        *("-o", tmp_path / "found"),
    )
    assert result.exit_code == 0, result.err
    document = json.loads((tmp_path / "found" / "report.json").read_text())
    means = {
        (each["scheduler"], each["point"]["load"], metric): each["metrics"][metric]["mean"]
        for each in document["summaries"]
        for metric in ("unadmitted_jobs", "unadmitted_work")
    }
    for metric in ("unadmitted_jobs", "unadmitted_work"):
        bound, best, reached = (
            means[name, 1.6, metric] for name in ("bound", "best known", "qops")
        )
        assert 0 <= bound <= best + 1e-9 <= reached + 2e-9
    refused = cli("compare", "qops", "--bound", 1, "-p", "kth_sp2_100", "-o", tmp_path / "x")
    assert refused.exit_code == 2
    assert "bound with platform kth_sp2_100" in refused.err


# One processor: a (10 s, by 30) runs when b (3 s, by 6) comes at 2. Stopped at 2, a runs again
# from 5 on.
#
#   |a a|b b b|a a a a a a a a a a|
#   0   2     5                  15
def test_a_start_that_is_taken_back_lets_another_job_in() -> None:
    problem = problem_of(workload_of([(0.0, 1, 10, 30.0), (2.0, 1, 3, 6.0)], 1))
    fixed, revocable = (online_admission(problem, takes_back=each) for each in (False, True))
    assert (fixed.starts.tolist(), fixed.lost, fixed.open) == ([0, NOT_CHOSEN], [], 0)
    assert (revocable.starts.tolist(), revocable.lost, revocable.open) == ([5, 2], [(0, 0, 2)], 0)
    # With a deadline of 14 it could not end, and goes on.
    problem = problem_of(workload_of([(0.0, 1, 10, 14.0), (2.0, 1, 3, 6.0)], 1))
    assert online_admission(problem, takes_back=True).starts.tolist() == [0, NOT_CHOSEN]


def test_what_is_admitted_with_starts_taken_back_fits_with_the_runs_that_were_stopped() -> None:
    gained, stopped = 0, 0
    for seed in range(20):
        problem = problem_of(burst(seed))
        tasks = problem.strict
        fixed, found = (online_admission(problem, takes_back=each) for each in (False, True))
        assert (fixed.lost, fixed.open, found.open) == ([], 0, 0)
        places, begins, ends = np.array(found.lost, np.int64).reshape(-1, 3).T
        runs = Tasks(begins, ends - begins, ends, tasks.processors[places])
        everything = Tasks(*map(np.concatenate, zip(tasks, runs, strict=True)))
        assert is_feasible(everything, np.concatenate([found.starts, begins]), problem.machine)
        assert (begins >= tasks.release[places]).all()
        assert (ends <= found.starts[places]).all()
        gained += int((found.starts != NOT_CHOSEN).sum() - (fixed.starts != NOT_CHOSEN).sum())
        stopped += len(places)
    assert gained > 0
    assert stopped > 20


@pytest.mark.parametrize("searches", [True, False])
def test_starts_are_taken_back_wherever_some_order_of_restarts_has_all_jobs(
    searches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not searches:  # all is left to the solver
        monkeypatch.setattr(feasibility, "filled", lambda tasks, starts, *_: starts)
    rng, answers = np.random.default_rng(3), set()
    for _ in range(40):
        now, running = 4, np.arange(4) < 2
        duration = rng.integers(2, 8, 4)
        starts = np.where(running, now - rng.integers(1, duration), NOT_CHOSEN)
        release = np.where(running, starts, now)
        latest = np.maximum(now, release) + duration + rng.integers(0, 9, 4)
        processors = np.where(running, 1, rng.integers(1, 4, 4))
        moment = Moment.of(Tasks(release, duration, latest, processors), starts, now)
        found, again = moment.taking_back(3)
        expected = any(
            fits_in_some_order(moment.with_again(running & np.array([*some, False, False])))
            for some in itertools.product([False, True], repeat=2)
            if any(some)
        )
        assert not (again & ~running).any()
        if found.starts is not None:
            assert is_feasible(moment.with_again(again), found.starts, 3)
        # Without any stop there may be a plan, which is asked for before.
        without = fits_in_some_order(moment.tasks)
        if expected or not without:
            assert (found.starts is not None) == expected
        answers.add((expected, without))
    assert {(True, False), (False, False)} <= answers


def fits_in_some_order(tasks: Tasks) -> bool:
    nothing = np.full(len(tasks.release), NOT_CHOSEN)
    orders = itertools.permutations(range(len(nothing)))
    return any((filled(tasks, nothing, 3, order) != NOT_CHOSEN).all() for order in orders)
