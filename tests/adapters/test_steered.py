"""Deadline schedulers that a policy steers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from qops_batsim import InputError, Job, QosRequest, check_scheduler, simulate
from qops_batsim.adapters import (
    ADMIT,
    FEATURES,
    LEAST_LAXITY,
    REFUSE,
    Action,
    Observation,
    Steered,
    SteeredOptions,
)
from qops_batsim.adapters.steered import EARLIEST_DEADLINE, HIGHEST, OFFER
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload, delay_profile
from support.host_failures import random_case

WORKLOAD = "sdsc_sp2_deadlines_500"


def steered(action: Action) -> type[Steered]:
    class Always(Steered):
        def act(self, observation: Observation) -> Action:
            return action

    return Always


def schedule(scheduler: Any, workload: Any, **settings: Any) -> list[tuple[str, str, float]]:
    done = simulate(scheduler, workload, settings=settings)
    return [
        (each.job.id, each.state, each.start) for each in done.ended if each.state != "REJECTED"
    ]


class PatienceOptions(SteeredOptions, frozen=True, kw_only=True):
    patience: float = 2.0


class Patient(Steered):
    Options = PatienceOptions


def test_a_policy_has_options_of_its_own_beside_those_of_qops() -> None:
    made = make_scheduler(Patient, {"patience": 3, "k_factor": 1}).scheduler
    assert (made.options.patience, made.options.k_factor) == (3.0, 1)
    assert schedule(made, WORKLOAD) == schedule("fqops", WORKLOAD, k_factor=1)


@pytest.mark.parametrize(
    ("action", "scheduler", "settings"),
    [
        ((ADMIT, LEAST_LAXITY), "qops", {}),
        ((ADMIT, EARLIEST_DEADLINE), "qops", {"order": "earliest_deadline"}),
        ((OFFER, LEAST_LAXITY), "fqops", {"tolerance_factor": 3.0}),
    ],
)
def test_a_policy_that_always_does_the_same_is_the_scheduler_of_that_name(
    action: Action, scheduler: str, settings: dict[str, Any]
) -> None:
    own = {} if scheduler == "qops" else settings
    mine = schedule(steered(action), WORKLOAD, **own)
    assert mine == schedule(scheduler, WORKLOAD, **settings)


def at_once(seed: int) -> Workload:
    """Return jobs of which many are submitted at one date."""
    _, workload, _ = random_case(seed)
    jobs = [
        Job(each.id, float(each.submission_time // 20 * 20), each.processors, each.profile,
            qos=each.qos)
        for each in workload.jobs
    ]  # fmt: skip
    return Workload(jobs=jobs, profiles=workload.profiles, processors=workload.processors)


def test_jobs_of_one_date_are_each_decided_by_their_own_action() -> None:
    refused = admitted = 0
    for seed in range(60):
        workload = at_once(seed)
        actions = itertools.cycle([(ADMIT, 0), (OFFER, 0), (REFUSE, 0), (ADMIT, 1), (OFFER, 1)])
        given: dict[str, Action] = {}

        class Cycling(Steered):
            def observe(self, job: Job) -> Observation:
                given[job.id] = self.next_action = next(actions)  # noqa: B023
                return super().observe(job)

            def act(self, observation: Observation) -> Action:
                return self.next_action

        module = Cycling()
        done = {each.job.id: each for each in simulate(module, workload).ended}
        for job_id, (answer, _) in given.items():
            record = module.manager.qos_log.record(job_id)
            ended = done[job_id]
            if answer == REFUSE:
                assert ended.state == "REJECTED"
                refused += 1
            elif answer == ADMIT:
                assert record.offered_deadline is None
            if record.admitted_deadline is not None:
                assert ended.finish <= record.admitted_deadline + 1e-6
                admitted += 1
    assert refused > 30
    assert admitted > 100


def test_jobs_without_a_deadline_are_admitted_unasked() -> None:
    name, profile = delay_profile(10)
    jobs = [Job("1", 0.0, 1, name, walltime=20.0), Job("2", 0.0, 1, name, walltime=20.0)]
    workload = Workload(jobs=jobs, profiles={name: profile}, processors=1)
    assert [each[0] for each in schedule(steered((REFUSE, 0)), workload)] == ["w0!1", "w0!2"]


def test_the_policy_sees_the_job_and_the_plan() -> None:
    # Two hosts; a runs until 100, b waits from 10 on for both hosts, c arrives at 40.
    #
    #   1 |            bbbbbbbbbb
    #   0 | aaaaaaaaaa bbbbbbbbbb
    #     0    ^c     100        200
    seen: dict[str, Observation] = {}

    class Watching(Steered):
        def observe(self, job: Job) -> Observation:
            seen[job.id] = super().observe(job)
            return seen[job.id]

        def act(self, observation: Observation) -> Action:
            return ADMIT, LEAST_LAXITY

    long, short = delay_profile(100), delay_profile(80)

    def job(name: str, submission: float, processors: int, run: int, deadline: float) -> Job:
        qos = QosRequest(deadline=deadline, estimated_runtime=float(run))
        return Job(name, submission, processors, f"delay{run}", qos=qos)

    jobs = [job("a", 0, 1, 100, 150), job("b", 10, 2, 100, 999), job("c", 40, 1, 80, 240)]
    workload = Workload(jobs=jobs, profiles=dict([long, short]), processors=2)
    simulate(Watching(), workload, make_cluster(2))
    told = dict(zip(FEATURES, seen["w0!c"].tolist(), strict=True))
    assert told == pytest.approx(
        {
            "processors": 0.5,
            "estimate": math.log1p(80),
            "time_left": math.log1p(200),
            "delay_of_earliest_fit": math.log1p(160),  # behind b, if b does not move
            "urgency": 0.4,
            "free_now": 0.5,
            "running_jobs": math.log1p(1),
            "waiting_jobs": math.log1p(1),
            "waiting_work": math.log1p(100),
            "work": math.log1p(40),
        }
    )


def test_features_stay_within_their_bounds() -> None:
    seen = []

    class Watching(Steered):
        def act(self, observation: Observation) -> Action:
            seen.append(observation)
            return ADMIT, LEAST_LAXITY

    for seed in range(30):
        simulate(Watching(), at_once(seed))
    simulate(Watching(), "tiny_8")
    values = np.array(seen)
    assert values.dtype == np.float32
    assert values.min() >= 0
    assert values.max() <= HIGHEST


@pytest.mark.parametrize("action", [(ADMIT, 1), (OFFER, 0)])
def test_the_contract_of_schedulers_is_kept(action: Action) -> None:
    assert check_scheduler(steered(action)) > 10


def test_hosts_that_leave_are_no_error() -> None:
    for seed in range(40):
        _, workload, events = random_case(seed)
        simulate(steered((OFFER, 1)), workload, events=events)


@pytest.mark.parametrize("action", [(5, 0), (0, 2), 1, None, (1.5, 0)])
def test_a_wrong_action_of_a_policy_is_told(action: Any) -> None:
    with pytest.raises(InputError, match="action is .*; the answer .0 refuse, 1 admit, 2 offer."):
        simulate(steered(action), WORKLOAD)
