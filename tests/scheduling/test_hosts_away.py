"""Hosts that go away and return: schedulers without a plan."""

from __future__ import annotations

import pytest

from qops_batsim.engine.external_events import ExternalEvent
from qops_batsim.jobs import REJECTED, Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.hostset import HostSet
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload, delay_profile

Row = tuple[float, int, float]
"""Submission (s), processors, run time (s)."""


def jobs_of(*rows: Row) -> Workload:
    profiles, jobs = {}, []
    for name, (submission, processors, run_time) in zip("abcdefgh", rows, strict=False):
        profile, content = delay_profile(run_time)
        profiles[profile] = content
        qos = QosRequest(estimated_runtime=run_time)
        jobs.append(Job(name, submission, processors, profile, qos=qos))
    return Workload(jobs=jobs, profiles=profiles, processors=4)


def away(*lines: tuple[float, str, str]) -> tuple[ExternalEvent, ...]:
    return tuple(
        ExternalEvent(date, f"machine_{kind}", HostSet.parse(hosts), {})
        for date, kind, hosts in lines
    )


def outcome(
    scheduler: str, workload: Workload, events: tuple[ExternalEvent, ...], **settings: object
) -> tuple[list[float | None], dict[str, str]]:
    """Return the starts of the jobs (None: rejected), and the reasons of rejections."""
    module = make_scheduler(scheduler, settings)
    done = simulate(workload, make_cluster(4), module, events=events)
    ended = sorted(done.ended, key=lambda record: record.local_id)
    reasons = {
        record.local_id: module.qos_log.record(record.job.id).reason
        for record in ended
        if record.state == REJECTED
    }
    return [None if record.state == REJECTED else record.start for record in ended], reasons


GONE = "asks for 3 processors; 2 of 4 hosts are gone and will not return"


# Hosts 2 and 3 go away at 2, for ever or up to 30. a runs on hosts 0 and 1, b asks for three.
#
#         for ever                     up to 30
#   0 | a a . c c c                0 | a a . c c c . . b b
#   1 | a a . c c c                1 | a a . c c c . . b b
#   2 | . ×                        2 | . × × × × × × × b b
#   3 | . ×                        3 | . × × × × × × ×
@pytest.mark.parametrize("scheduler", ["easy", "nqs"])
def test_a_job_wider_than_what_is_left_holds_up_no_other(scheduler: str) -> None:
    jobs = jobs_of((0, 2, 5), (3, 3, 5), (4, 2, 9))
    settings: dict[str, object] = {"time_limits": (6.0,)} if scheduler == "nqs" else {}
    starts, reasons = outcome(scheduler, jobs, away((2, "unavailable", "2-3")), **settings)
    assert (starts, reasons) == ([0, None, 5], {"b": GONE})
    back = away((2, "unavailable", "2-3"), (30, "available", "2-3"))
    assert outcome(scheduler, jobs, back, **settings) == ([0, 30, 5], {})


def test_first_come_first_served_waits_for_hosts_or_for_the_news_that_none_return() -> None:
    jobs = jobs_of((0, 2, 5), (3, 3, 5), (4, 2, 9))
    assert outcome("fcfs", jobs, away((2, "unavailable", "2-3"))) == ([0, None, 5], {"b": GONE})
    back = away((2, "unavailable", "2-3"), (30, "available", "2-3"))
    assert outcome("fcfs", jobs, back) == ([0, 30, 35], {})
    # Another host leaves at 20: only then it is known that none returns.
    worse = away((2, "unavailable", "2-3"), (20, "unavailable", "1"))
    jobs = jobs_of((0, 2, 5), (3, 3, 5), (4, 1, 9))
    gone = GONE.replace("2 of", "3 of")
    assert outcome("fcfs", jobs, worse) == ([0, None, 20], {"b": gone})


@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "nqs"])
def test_a_job_submitted_when_hosts_are_gone_for_ever_is_rejected_at_once(scheduler: str) -> None:
    jobs = jobs_of((0, 2, 5), (9, 3, 5), (10, 2, 9))
    events = away((2, "unavailable", "3"))
    assert outcome(scheduler, jobs, events) == ([0, 9, 14], {})
    jobs = jobs_of((0, 2, 5), (9, 4, 5), (10, 2, 9))
    reason = "asks for 4 processors; 1 of 4 hosts is gone and will not return"
    assert outcome(scheduler, jobs, events) == ([0, None, 10], {"b": reason})


# Host 3 goes away under b. c is promised 20, when host 2 comes free and nothing else: d must not
# take host 0 at 10.
#
#       0    10   20  25
#   0 | aaaaa     cccc
#   1 | aaaaa     cccc
#   2 | bbbbbbbbbbcccc
#   3 | bbbb××××××××××××
def test_easy_counts_only_processors_that_come_free() -> None:
    jobs = jobs_of((0, 2, 10), (0, 2, 20), (3, 3, 5), (4, 1, 30))
    starts, _ = outcome("easy", jobs, away((2, "unavailable", "3"), (99, "available", "3")))
    assert starts == [0, 0, 20, 25]
