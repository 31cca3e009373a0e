"""The Gymnasium environment."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import Any

import msgspec
import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra gym")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from qops_batsim.adapters.gymnasium import ENVIRONMENT, DeadlinesEnv, _Episode  # noqa: E402
from qops_batsim.adapters.steered import ADMIT, OFFER, REFUSE  # noqa: E402
from qops_batsim.errors import InputError, SimulationError  # noqa: E402
from qops_batsim.experiments.deadline_runs import DeadlineCase, DeadlineRuns  # noqa: E402
from qops_batsim.optimum.problem import worth_of  # noqa: E402


def play(env: Any, answer: int, order: int = 0, **reset: Any) -> tuple[float, int, dict[str, Any]]:
    """Return the sum of the rewards, the number of steps and what the last one told."""
    seen, _ = env.reset(**reset)
    total = 0.0
    steps = 0
    over = False
    while not over:
        assert env.observation_space.contains(seen)
        seen, reward, over, truncated, told = env.step(np.array([answer, order]))
        assert not truncated
        total, steps = total + reward, steps + 1
    assert not seen.any()
    return total, steps, told


def steps(env: Any, count: int) -> None:
    """Admit so many jobs."""
    for _ in range(count):
        env.step(np.array([ADMIT, 0]))


def test_gymnasium_finds_nothing_to_complain_about() -> None:
    env = gymnasium.make(ENVIRONMENT, jobs=20, outages=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("objective", ["jobs", "work", "charge"])
def test_an_episode_that_admits_all_earns_what_qops_keeps(objective: str) -> None:
    env = DeadlinesEnv("kth_sp2_1000", jobs=60, load=1.3, objective=objective)
    total, count, told = play(env, ADMIT, options={"skip": 100, "seed": 7})
    scenario = msgspec.structs.replace(env._scenario, skip=100, seed=7)
    assert env._workload is not None
    assert count == len(env._workload.jobs) == 78
    found = DeadlineRuns({"": env._runs.logs[""]})(
        DeadlineCase(scenario=scenario, scheduler="qops")
    )
    assert told == {
        "kept": round(78 * (1 - found.unadmitted_jobs / 100)),
        "broken": 0,
        "refused": round(78 * found.unadmitted_jobs / 100),
    }
    if objective == "jobs":
        assert total == pytest.approx(100 - found.unadmitted_jobs)
    if objective == "work":
        assert total == pytest.approx(100 - (found.unadmitted_work or 0))
    assert total <= env.bound(units=0.05) + 1e-6


def test_refusals_earn_nothing_and_later_promises_less() -> None:
    env = DeadlinesEnv(jobs=60, load=1.3, tolerance_factor=4.0)
    at = {"options": {"skip": 300, "seed": 2}}
    assert play(env, REFUSE, **at)[::2] == (0.0, {"kept": 0, "broken": 0, "refused": 78})
    strict, _, told = play(env, ADMIT, **at)
    total, _, more = play(env, OFFER, **at)
    assert strict == pytest.approx(100 * told["kept"] / 78)
    assert more["kept"] > told["kept"]
    assert total < 100 * more["kept"] / 78


def test_equal_seeds_give_equal_episodes() -> None:
    one, two = DeadlinesEnv(jobs=30), DeadlinesEnv(jobs=30)
    assert play(one, ADMIT, seed=3) == play(two, ADMIT, seed=3)
    first, second = (one.reset()[1] for _ in range(2))
    assert first["skip"] != second["skip"]
    one.close()


def test_a_broken_promise_costs_what_was_said() -> None:
    # With outages, some promise of these episodes is broken.
    broken = 0
    for seed in range(1, 40):
        totals = []
        for penalty in (0.0, 1.0):
            env = DeadlinesEnv(
                "kth_sp2_1000", jobs=60, load=1.6, outages=True, estimates="users", penalty=penalty
            )
            total, _, told = play(env, ADMIT, options={"skip": 10 * seed, "seed": seed})
            totals.append(total)
        lost = 100 * told["broken"] / 96
        assert totals[0] - totals[1] == pytest.approx(lost)
        broken += told["broken"]
        if broken:
            break
    assert broken


def test_no_thread_is_left_when_an_episode_is_left_early() -> None:
    before = threading.active_count()
    env = DeadlinesEnv(jobs=30)
    for _ in range(3):
        env.reset(seed=1)
        env.step(np.array([1, 0]))
    assert threading.active_count() == before + 1
    env.close()
    assert threading.active_count() == before
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.array([1, 0]))


def test_no_thread_is_left_by_an_environment_that_nobody_closes() -> None:
    before = set(threading.enumerate())
    for seed in range(3):
        env = gymnasium.make(ENVIRONMENT, jobs=20)
        env.reset(seed=seed)
        env.step(np.array([1, 0]))
    left = set(threading.enumerate()) - before
    del env
    gc.collect()
    for thread in left:
        thread.join(5)
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize(
    "action",
    [
        *(
            (5, 0),
            (-1, 0),
            (1, 2),
            (1,),
            (1, 0, 0),
            1,
            None,
            "10",
            "ab",
            (1.5, 0),
            (float("nan"), 0),
        ),
        *(np.array([1, 7]), np.array([[1], [0]]), {"answer": 1}, (None, 0)),
    ],
    ids=repr,
)
def test_a_wrong_action_is_told_and_loses_nothing(action: Any) -> None:
    env = DeadlinesEnv(jobs=4)
    _, about = env.reset(options={"skip": 0, "seed": 1})
    with pytest.raises(InputError, match="action is .*; the answer .0 refuse, 1 admit, 2 offer."):
        env.step(action)
    over, count = False, 0
    while not over:
        _, _, over, _, told = env.step((np.float64(1.0), 0))
        count += 1
    assert count == sum(told.values()) == about["requests"]


def test_only_requests_are_asked_about() -> None:
    env = DeadlinesEnv(jobs=60, load=1.0, share=0.5)
    _, count, told = play(env, ADMIT, options={"skip": 0, "seed": 1})
    assert env._workload is not None
    asked = [job.qos.deadline is not None for job in env._workload.jobs if job.qos]
    assert count == sum(asked) < 60
    assert sum(told.values()) == count
    worth = worth_of(env._workload, "jobs")
    assert len(worth) == 60


def test_an_error_of_the_simulation_is_raised_by_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, now: float, new: Any, ended: list[str], log: Any) -> None:
        if ended:
            raise SimulationError("as planned")

    monkeypatch.setattr(_Episode, "decided", fail)
    env = DeadlinesEnv(jobs=20)
    env.reset(seed=1)
    with pytest.raises(SimulationError, match="as planned"):
        steps(env, 20)
    env.reset(seed=2)
    env.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"objective": "joy"}, "objective is 'joy'"),
        ({"estimates": "random"}, "estimates is 'random'"),
        ({"penalty": -1.0}, "penalty is -1;"),
        ({"jobs": 0}, "jobs is 0; a number from 1 to 1000"),
        ({"stringency": 2.0}, "stringency is 2;"),
    ],
)
def test_wrong_parameters_are_told(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        DeadlinesEnv(**arguments)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"skp": 3}, "reset has no option 'skp'; skip and seed are accepted"),
        ({"skip": 991}, "skip is 991; a whole number from 0 to 990 is accepted"),
        ({"skip": "3"}, "skip is '3'; a whole number"),
        ({"seed": -1}, "seed is -1; a whole number"),
        ({"seed": None}, "seed is null; a whole number"),
    ],
)
def test_wrong_options_of_reset_are_told(options: dict[str, Any], said: str) -> None:
    env = DeadlinesEnv(jobs=10)
    env.reset(seed=1)
    with pytest.raises(InputError, match=said):
        env.reset(options=options)
    steps(env, 1)
    env.close()
