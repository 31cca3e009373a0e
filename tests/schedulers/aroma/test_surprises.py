"""AROMA where estimates were wrong, hosts go away, or there is next to nothing to do."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from qops_batsim import QosRequest, simulate
from qops_batsim.core import HostSet
from qops_batsim.engine import ExternalEvent
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import default_engine
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload import Workload
from support.aroma_oracles import (
    SPEED,
    machine,
    mixed_work,
    promises_broken,
    random_machine,
    run,
    spans,
    work,
)

ONE = machine([1.0])


def deadline(by: float, **fields: object) -> dict[str, object]:
    return {"service_class": "deadline", "deadline": by, **fields}


def dedicated(**fields: object) -> dict[str, object]:
    return {"service_class": "dedicated", **fields}


# Estimates that were wrong


def test_a_missed_deadline_does_not_keep_others_out() -> None:
    # Job 0 ends at 20 s instead of 5 s, and nothing in between tells that it does not.
    #  0 0 0 0 0 (20) 1 1 1 1 1 (25) 2/3 2/3 2/3 2/3 3
    jobs = work(
        dedicated(seconds=20, estimated_runtime=5.0),
        deadline(12.0, at=2, seconds=5),
        {"at": 21, "seconds": 2},
        deadline(100.0, at=22, seconds=3),
    )
    found = spans(run(jobs, ONE)[0])
    assert found["1"] == (20, 25, "0")  # late, but no job delays it any further
    assert found["2"] == (25, 29, "0")
    assert found["3"] == (25, 30, "0")


def test_a_deadline_is_demanded_again_when_it_can_be_kept_after_all() -> None:
    # At 11 s job 0 has outlived its estimate; as far as is known, job 1 ends at 20 s.
    # At 12 s job 0 ends, and the deadline of job 1 can just be kept.
    #  0/1 0/1 0/1 0/1 0/1 0/1 (12) 1 1 1 1 (16) 2/3 3 3 3 ...
    jobs = work(
        {"seconds": 6, "estimated_runtime": 5.0},
        deadline(16.0),
        {"at": 11, "seconds": 0.5},
        {"at": 13, "seconds": 50},
    )
    assert spans(run(jobs, ONE)[0]) == {
        "0": (0, 12, "0"),
        "1": (0, 16, "0"),
        "2": (16, 17, "0"),
        "3": (16, 66.5, "0"),
    }


def _with_late_jobs(seed: int) -> Workload:
    """Return random jobs; every tenth of class best effort takes three times its estimate."""
    random = np.random.default_rng(seed)
    mixed = mixed_work(seed, hosts=4, jobs=60, gap=(3.0, 8.0, 15.0)[seed % 3])
    for job in mixed.jobs:
        assert job.qos is not None
        if job.qos.service_class == "best_effort" and random.random() < 0.1:
            profile = mixed.profiles[job.profile]
            job.qos = msgspec.structs.replace(job.qos, estimated_runtime=profile["cpu"] / SPEED)
            job.profile = f"late{job.id}"
            mixed.profiles[job.profile] = {**profile, "cpu": 3 * profile["cpu"]}
    return mixed


@pytest.mark.parametrize("seed", [55, 120, 123, 130, 131])
def test_a_late_job_takes_no_promises_from_others_elsewhere(seed) -> None:
    # What is mapped anew in another order than it came may find no place any more.
    workload = _with_late_jobs(seed)
    simulation, _ = run(workload, random_machine(seed, 5), reference_speed=SPEED)
    assert any("late" in record.job.profile for record in simulation.ended)
    assert promises_broken(simulation) == []


# Hosts


def test_plans_elsewhere_stay_when_hosts_go_and_come_back() -> None:
    jobs = work(dedicated(tasks=2), deadline(25.0, at=1, tasks=2), dedicated(at=2, tasks=2))
    events = tuple(
        ExternalEvent(timestamp=date, type=kind, hosts=HostSet.parse("2"), fields={})
        for date, kind in (
            (0.0, "machine_unavailable"),
            (3.0, "machine_available"),
            (4.0, "machine_unavailable"),
        )
    )
    module = make_scheduler("aroma", {"stops": 0})
    engine = default_engine(module)
    simulation = simulate(
        module,
        jobs,
        machine([1.0] * 3),
        engine=type(engine)(compute_sharing=True, external_events=events),
    )
    assert spans(simulation) == {
        "0": (0, 10, "0-1"),
        "1": (10, 20, "0-1"),
        "2": (20, 30, "0-1"),
    }


# Next to nothing to do


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4])
@pytest.mark.parametrize("kind", ["parallel_homogeneous", "delay"])
def test_next_to_no_work_is_done_by_its_deadline(seconds, kind) -> None:
    # Job 0 is submitted first, but job 1 is mapped first: they cannot both go at once.
    jobs = work(dedicated(at=1), deadline(3.0, at=1, seconds=seconds))
    if kind == "delay":
        delay = max(seconds, 1e-9)
        jobs.profiles[jobs.jobs[1].profile] = {"type": "delay", "delay": delay}
        asked = jobs.jobs[1].qos or QosRequest()
        jobs.jobs[1].qos = msgspec.structs.replace(asked, estimated_runtime=delay)
    simulation, _ = run(jobs, ONE, stops=0)
    found = spans(simulation)
    assert found["1"][0] == 1
    assert found["0"][0] == pytest.approx(1, abs=1e-3)
    assert promises_broken(simulation) == []


def test_a_job_may_follow_within_a_moment() -> None:
    # Job 0 is nearly done when job 1 comes; the engine cannot call back that soon.
    jobs = work(dedicated(), deadline(21.0, at=10 - 10 * PLAN_TOLERANCE))
    found = spans(run(jobs, ONE, stops=0)[0])
    assert found["1"] != "REJECTED"
    assert found["1"][1] == pytest.approx(20, abs=1e-3)


# Walltimes


def _with_walltimes(workload: Workload, factor: float) -> Workload:
    for job in workload.jobs:
        seconds = workload.profiles[job.profile]["cpu"] / SPEED
        job.walltime = job.estimate = job.fields["walltime"] = seconds * factor
    return workload


def test_sharing_gets_no_job_killed_at_its_walltime() -> None:
    jobs = _with_walltimes(work({}, {"at": 1}, deadline(30.0, at=1)), 1.1)
    assert spans(run(jobs, ONE)[0]) == {"0": (0, 10, "0"), "2": (10, 20, "0"), "1": (20, 30, "0")}


def test_a_walltime_that_leaves_time_is_shared() -> None:
    jobs = _with_walltimes(work({}, {"seconds": 5}), 2.0)
    assert spans(run(jobs, ONE)[0]) == {"0": (0, 15, "0"), "1": (0, 10, "0")}


def test_no_host_is_chosen_on_which_the_walltime_is_too_short() -> None:
    # Host 1 is slower; it would be released at 20 s, host 0 with the second job at 30 s.
    jobs = _with_walltimes(work({"seconds": 20}, {}), 1.5)
    found = spans(run(jobs, machine([1.0, 0.5]), reference_speed=SPEED)[0])
    assert found["1"] == (20, 30, "0")


@pytest.mark.parametrize("seed", range(6))
def test_only_jobs_that_would_be_killed_alone_are_killed(seed) -> None:
    workload = _with_walltimes(mixed_work(seed, hosts=5, gap=4.0), 1.0 + seed / 4)
    platform = random_machine(seed, 5)
    simulation, _ = run(workload, platform, reference_speed=SPEED)
    assert promises_broken(simulation) == []
    speeds = [host.speed for host in platform.compute_hosts]
    for record in simulation.ended:
        if record.state == "COMPLETED_WALLTIME_REACHED":
            profile = workload.profiles[record.job.profile.partition("#")[0]]
            speed = min(speeds[host] for host in record.hosts)
            assert profile["cpu"] / speed > (record.job.walltime or 0) - PLAN_TOLERANCE
