"""Small schedules of AROMA, drawn by hand. Work is in seconds on the reference host."""

from __future__ import annotations

import math

import msgspec
import pytest

from qops_batsim import Job, QosRequest, simulate
from qops_batsim.core import HostDescription, HostSet, System
from qops_batsim.engine import EngineOptions, ExternalEvent
from qops_batsim.protocol import ExecuteJob, JobCompleted, KillJob, RegisterJob, make_scheduler
from qops_batsim.schedulers.aroma import aroma_scheduler
from qops_batsim.schedulers.aroma.mapping import Mapper
from qops_batsim.schedulers.aroma.work import can_be_stopped, remainder
from support.aroma_oracles import SPEED, machine, records, run, spans, work
from support.qos_rows import qos_rows

ONE = machine([1.0])
TWO = machine([1.0, 1.0])


def deadline(by: float, **fields: object) -> dict[str, object]:
    return {"service_class": "deadline", "deadline": by, **fields}


def dedicated(**fields: object) -> dict[str, object]:
    return {"service_class": "dedicated", **fields}


def high(**fields: object) -> dict[str, object]:
    return {"service_class": "high_priority", **fields}


# Best effort


def test_best_effort_shares_a_host_at_once() -> None:
    simulation, _ = run(work({}, {"at": 5, "seconds": 5}), ONE)
    assert spans(simulation) == {"0": (0, 15, "0"), "1": (5, 15, "0")}


def test_the_host_that_would_be_released_first_is_chosen() -> None:
    # Host 1 is twice as fast: it is free again earlier, alone and with the first job.
    #  host 0  . . . . 2 2
    #  host 1  0 0 0 0 0 ...      at 0: 10 s or 5 s; then 10 s or 5 + 5 s: the lower host
    simulation, _ = run(work({}, {}, {"at": 1, "seconds": 2}), machine([1.0, 2.0]))
    assert spans(simulation)["0"] == (0, 6, "1")
    assert spans(simulation)["1"] == (0, 10, "0")
    assert str(records(simulation)["2"].hosts) == "1"


def test_no_application_has_to_share_while_there_are_processors() -> None:
    simulation, _ = run(work({}, {}, {}), machine([1.0], [2]))
    # Three on two processors: two thirds of the speed each.
    assert {span[1] for span in spans(simulation).values()} == {15}


@pytest.mark.parametrize(("weight", "host"), [(0, "0"), (1, "1")])
def test_memory_in_use_makes_a_host_worse(weight, host) -> None:
    # The third job would release host 0 at 15 s, or host 1 at 16 s, where memory is free.
    jobs = work(
        {"seconds": 10, "memory": 9e8}, {"seconds": 11, "memory": 1e8}, {"at": 1, "seconds": 5}
    )
    simulation, _ = run(jobs, machine([1.0, 1.0], memory=[1e9, 1e9]), memory_weight=weight)
    assert str(records(simulation)["2"].hosts) == host


# Deadlines


def test_a_deadline_may_put_off_others() -> None:
    # Together, job 0 would end at 15 s; job 1 has to wait for its end.
    #  0 0 0 0 0 0 0 0 0 0 1 1 1 1 1
    simulation, module = run(work(deadline(12), {"seconds": 5}), ONE)
    assert spans(simulation) == {"0": (0, 10, "0"), "1": (10, 15, "0")}
    assert module.qos_log.record("w0!0").admitted_deadline == 12


def test_a_deadline_that_leaves_time_is_shared() -> None:
    simulation, _ = run(work(deadline(15), {"seconds": 5}), ONE)
    assert spans(simulation) == {"0": (0, 15, "0"), "1": (0, 10, "0")}


def test_an_execution_may_be_deferred_up_to_the_deadline() -> None:
    #  D D D D D D D D D D 1 1 1 1 1 | 15
    jobs = work(dedicated(), deadline(15, at=1, seconds=5))
    assert spans(run(jobs, ONE)[0])["1"] == (10, 15, "0")


@pytest.mark.parametrize("by", [9.99, 0.5])
def test_an_impossible_deadline_is_refused(by) -> None:
    simulation, module = run(work(deadline(by)), ONE)
    assert spans(simulation) == {"0": "REJECTED"}
    assert "no start lets 1 tasks end by" in module.qos_log.record("w0!0").reason


def test_a_faster_host_makes_it_possible() -> None:
    simulation, _ = run(work(deadline(5.0)), machine([1.0, 1.0, 2.0]))
    assert spans(simulation) == {"0": (0, 5, "2")}


def test_the_most_important_class_of_a_message_comes_first() -> None:
    jobs = work({"service_class": "best_effort"}, dedicated(), high(), deadline(10))
    simulation, _ = run(jobs, ONE)
    assert spans(simulation)["3"] == (0, 10, "0")


def test_a_deadline_without_class_is_one_of_class_deadline() -> None:
    simulation, _ = run(work({"deadline": 12.0}, {"seconds": 5}), ONE)
    assert spans(simulation)["1"] == (10, 15, "0")


def test_jobs_without_class_get_the_default_class() -> None:
    simulation, _ = run(work({}, {}), ONE, default_class="dedicated")
    assert spans(simulation) == {"0": (0, 10, "0"), "1": (10, 20, "0")}


# High priority


def test_high_priority_starts_at_once() -> None:
    simulation, module = run(work({}, high(at=4, seconds=2)), ONE)
    assert spans(simulation) == {"0": (0, 12, "0"), "1": (4, 8, "0")}
    assert module.qos_log.record("w0!1").latest_start == 9


def test_high_priority_may_start_a_few_seconds_later() -> None:
    jobs = work(deadline(10), high(at=6, seconds=5))
    assert spans(run(jobs, ONE)[0])["1"] == (10, 15, "0")
    assert spans(run(jobs, ONE, start_tolerance=3.9)[0])["1"] == "REJECTED"


# Dedicated


def test_dedicated_is_alone_before_and_after() -> None:
    #  host 0  0 0 0 0 0 D D D D D D D D D D 2 2    2 does not fit before D
    #  host 1  3 3 3 3 3 D D D D D D D D D D
    jobs = work({"seconds": 5}, dedicated(tasks=2, at=1), {"at": 2, "seconds": 4}, {"seconds": 5})
    simulation, _ = run(jobs, TWO)
    assert spans(simulation)["1"] == (5, 15, "0-1")
    assert spans(simulation)["2"] == (15, 19, "0")


def test_others_fit_in_before() -> None:
    #  host 0  0 0 0 0 0 0 0 0 0 0 D D D D D
    #  host 1  . . 2 2 2 2 2 2 2 2 D D D D D
    jobs = work({}, dedicated(tasks=2, at=1, seconds=5), {"at": 2, "seconds": 8})
    simulation, _ = run(jobs, TWO)
    assert spans(simulation)["2"] == (2, 10, "1")
    assert spans(simulation)["1"] == (10, 15, "0-1")


def test_without_sharing_every_job_is_alone() -> None:
    simulation, _ = run(work({}, high(at=4), {}), ONE, sharing=False, stops=0)
    assert spans(simulation) == {"0": (0, 10, "0"), "2": (10, 20, "0"), "1": "REJECTED"}


def test_a_sleep_is_alone_for_sharing_would_not_slow_it() -> None:
    jobs = work({}, {})
    for profile in jobs.profiles.values():
        profile.clear()
        profile.update(type="delay", delay=10)
    for job in jobs.jobs:
        job.estimate = job.walltime = job.fields["walltime"] = 11.0
    assert spans(run(jobs, ONE)[0]) == {"0": (0, 10, "0"), "1": (10, 20, "0")}


# Fall-backs


MOVE = work({}, dedicated(at=1), deadline(16, at=5, seconds=5))


def test_a_planned_application_of_a_weaker_class_is_moved() -> None:
    # Job 1 was planned from 10 s on; job 2 shares the host with job 0 until 15 s.
    simulation, _ = run(MOVE, ONE)
    assert spans(simulation) == {"0": (0, 15, "0"), "1": (15, 25, "0"), "2": (5, 15, "0")}


def test_it_is_refused_if_nothing_may_be_moved() -> None:
    simulation, _ = run(MOVE, ONE, moves=0, stops=0)
    assert spans(simulation) == {"0": (0, 10, "0"), "1": (10, 20, "0"), "2": "REJECTED"}


def test_no_job_of_the_same_class_is_moved() -> None:
    jobs = work(dedicated(), deadline(20, at=1), deadline(15, at=2, seconds=5))
    simulation, _ = run(jobs, ONE, stops=0)
    assert spans(simulation)["2"] == "REJECTED"


STOP = work(dedicated(seconds=100), high(at=10, seconds=5))


def test_a_running_application_of_a_weaker_class_is_stopped_and_goes_on() -> None:
    #  D D D D D D D D D D 1 1 1 1 1 D ...
    simulation, module = run(STOP, ONE)
    assert spans(simulation) == {
        "0": (0, 10, "0"),
        "1": (10, 15, "0"),
        "0#1": (15, 105, "0"),
    }
    assert records(simulation)["0"].state == "COMPLETED_KILLED"
    assert module.qos_log.record("w0!0").reason == "stopped for w0!1, goes on as w0!0#1"
    rows = {row[0]: row for row in qos_rows(module.qos_log)}
    assert rows["0#1"][4] == "accepted"


def test_it_goes_on_on_the_same_hosts() -> None:
    # Host 1 is free from 60 s on, long before.
    jobs = work(dedicated(seconds=100), dedicated(seconds=60), high(at=10, seconds=80, tasks=1))
    simulation, _ = run(jobs, TWO)
    hosts = {name: str(record.hosts) for name, record in records(simulation).items()}
    stopped = next(name for name in hosts if "#" in name)
    assert hosts[stopped] == hosts[stopped.partition("#")[0]]
    assert records(simulation)[stopped].start == pytest.approx(90)


def test_it_can_be_stopped_again() -> None:
    jobs = work(dedicated(seconds=50), high(at=10, seconds=5), high(at=30, seconds=5))
    simulation, _ = run(jobs, ONE)
    found = spans(simulation)
    assert found["0#1"] == (15, 30, "0")
    assert found["0#2"] == (35, 60, "0")


def test_nothing_is_stopped_where_no_job_can_be_registered() -> None:
    module = make_scheduler("aroma")
    simulation = simulate(module, STOP, ONE, engine=EngineOptions(compute_sharing=True))
    assert spans(simulation) == {"0": (0, 100, "0"), "1": "REJECTED"}


def test_a_job_that_ends_before_it_can_be_stopped_does_not_go_on() -> None:
    module = make_scheduler("aroma")
    begins = System(hosts=(HostDescription(0, "one"),), compute_sharing=True, dynamic_jobs=True)
    profiles = {"w0": {"p": {"type": "parallel_homogeneous", "cpu": 100 * SPEED, "com": 0}}}
    module.begin(msgspec.structs.replace(begins, profiles=profiles))
    module.submitted(Job("w0!0", 0.0, 1, "p", qos=QosRequest(service_class="dedicated")))
    assert [type(each) for each in module.decide(0.0)] == [ExecuteJob]
    module.told_at(10.0)
    module.submitted(Job("w0!1", 10.0, 1, "p", qos=QosRequest(service_class="high_priority")))
    assert KillJob(["w0!0"]) in module.decide(10.0)
    module.told_at(10.001)
    # It had less to do than its profile said: its end and the kill cross.
    module.completed(JobCompleted("w0!0", "COMPLETED_SUCCESSFULLY", 0, HostSet.parse("0")))
    module.killed([])
    assert not any(isinstance(each, RegisterJob) for each in module.decide(10.001))
    module.told_at(200.0)
    module.completed(JobCompleted("w0!1", "COMPLETED_SUCCESSFULLY", 0, HostSet.parse("0")))
    assert module.decide(200.0) == []


def test_the_rest_of_each_kind_of_profile() -> None:
    job = Job("w0!7", 3.0, 2, "p", 100.0)
    for profile, rest in (
        ({"type": "delay", "delay": 8}, {"type": "delay", "delay": 2.0}),
        (
            {"type": "parallel_homogeneous_total", "cpu": 8, "com": 0},
            {"type": "parallel_homogeneous_total", "cpu": 2.0, "com": 0},
        ),
        (
            {"type": "parallel", "cpu": [4, 8], "com": [0, 4, 8, 0]},
            {"type": "parallel", "cpu": [1, 2], "com": [0, 1, 2, 0]},
        ),
    ):
        left, registered = remainder("w0!7#1", job, profile, 0.25, 30.0)
        assert (left.id, left.profile, registered) == ("w0!7#1", "p#7#1", rest)
        assert left.fields["profile"] == "p#7#1"
        assert left.walltime == 70.0
    assert not can_be_stopped({"type": "composed", "seq": ["p"]})


# What turns out otherwise


def test_an_early_end_brings_others_forward() -> None:
    jobs = work(dedicated(seconds=4, estimated_runtime=20.0), dedicated(at=1))
    assert spans(run(jobs, ONE)[0])["1"] == (4, 14, "0")


def test_a_late_end_puts_others_off() -> None:
    jobs = work(
        dedicated(seconds=20, estimated_runtime=5.0),
        dedicated(at=1),
        deadline(12, at=2, seconds=5),
    )
    simulation, _ = run(jobs, ONE)
    found = spans(simulation)
    assert found["0"] == (0, 20, "0")
    # No scheduler could know better: the deadline was promised, and is missed.
    assert found["2"] == (20, 25, "0")
    assert found["1"] == (25, 35, "0")


def test_unavailable_hosts_are_not_used() -> None:
    events = tuple(
        ExternalEvent(timestamp=date, type=kind, hosts=HostSet.parse("0"), fields={})
        for date, kind in ((1.0, "machine_unavailable"), (30.0, "machine_available"))
    )
    module = make_scheduler("aroma", {"stops": 0})
    simulation = simulate(
        module,
        work({}, {"at": 2}, {"at": 3, "tasks": 2}, deadline(29, at=4, tasks=2)),
        TWO,
        engine=EngineOptions(compute_sharing=True, external_events=events),
    )
    found = spans(simulation)
    assert found["0"] == (0, 10, "0")
    assert found["1"][2] == "1"
    assert found["2"][0] == 30
    assert found["3"] == "REJECTED"


def test_ends_of_strangers_are_passed_over() -> None:
    module = make_scheduler("aroma")
    module.begin(System(hosts=(HostDescription(0, "one"),), compute_sharing=True))
    module.told_at(100.0)
    module.completed(JobCompleted("w9!1", "COMPLETED_SUCCESSFULLY", 0, HostSet.parse("0")))
    assert module.decide(100.0) == []


# Applications of several jobs


def test_parts_of_an_application_start_by_themselves() -> None:
    #  host 0  0 0 0 0 0 0 0 0 0 0      the parts of D need no common start
    #  host 1  D D D D D D D D D D
    #          then D' on one of them
    parts = [dedicated(at=1, application="d")] * 2
    simulation, _ = run(work({}, *parts), TWO)
    assert spans(simulation)["1"] == (1, 11, "1")
    assert spans(simulation)["2"] == (10, 20, "0")


def test_equal_parts_are_not_tried_where_the_one_before_found_no_place(monkeypatch) -> None:
    asked: list[float] = []

    class Noting(Mapper):
        def map(self, application, after=-math.inf, before=math.inf):
            asked.append(after)
            return super().map(application, after, before)

    monkeypatch.setattr(aroma_scheduler, "Mapper", Noting)
    # The first part starts at 10 s, the next ones can only start later; the last is another.
    parts = [dedicated(at=1, application="d")] * 3
    parts.append(dedicated(at=1, application="d", seconds=5))
    simulation, _ = run(work({}, *parts), ONE)
    assert [spans(simulation)[name][0] for name in "1234"] == [10, 20, 30, 40]
    assert asked == [-math.inf, -math.inf, 10, 20, -math.inf]


def test_parts_are_refused_together() -> None:
    parts = [deadline(14, at=1, application="d")] * 2
    simulation, module = run(work(dedicated(seconds=10), *parts), TWO, stops=0)
    assert spans(simulation)["1"] == spans(simulation)["2"] == "REJECTED"
    assert "2 tasks" in module.qos_log.record("w0!1").reason


def test_parts_are_refused_if_only_one_of_them_has_an_impossible_deadline() -> None:
    parts = [{"service_class": "deadline", "application": "d"}, deadline(5, application="d")]
    for listed in (parts, parts[::-1]):
        simulation, module = run(work(*listed), ONE)
        assert spans(simulation) == {"0": "REJECTED", "1": "REJECTED"}
        assert "end by 5 s" in module.qos_log.record("w0!0").reason


def test_parts_are_refused_with_one_that_is_too_wide() -> None:
    jobs = work(*[{"application": "d", "tasks": tasks} for tasks in (1, 3, 2)], {})
    module = make_scheduler("aroma")
    simulation = simulate(module, jobs, TWO, allow_smaller_machine=True)
    found = spans(simulation)
    assert [found[name] for name in "012"] == ["REJECTED"] * 3
    assert found["3"] == (0, 10, "0")
    assert module.qos_log.record("w0!1").reason == "asks for 3 processors, the machine has 2"
    assert module.qos_log.record("w0!0").reason == "another job of application d is too wide"


def test_equal_names_at_other_dates_are_other_applications() -> None:
    jobs = work(
        dedicated(seconds=10),
        deadline(12, at=1, application="d"),
        deadline(13, at=2, application="d"),
    )
    simulation, _ = run(jobs, TWO, stops=0)
    assert spans(simulation)["1"] == (1, 11, "1")
    assert spans(simulation)["2"] == "REJECTED"
