"""Hosts that go away and return, in schedules drawn by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qops_batsim import Job, QosRequest, simulate
from qops_batsim.core import HostSet
from qops_batsim.engine import ExternalEvent
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload, delay_profile

Row = tuple[float, int, float] | tuple[float, int, float, float]
"""Submission (s), processors, run time (s), deadline (s)."""


def jobs_of(*rows: Row) -> Workload:
    profiles, jobs = {}, []
    for name, (submission, processors, run_time, *deadline) in zip("abcdefgh", rows, strict=False):
        profile, content = delay_profile(run_time)
        profiles[profile] = content
        qos = QosRequest(estimated_runtime=run_time, deadline=next(iter(deadline), None))
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
    done = simulate(module, workload, make_cluster(4), events=events)
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


# Hosts 0 and 1 leave at 5 under a, which goes on; they do not come free at 10, for which c was
# planned: it starts when b ends.
#
#       0    5    10 11        21
#   0 | aaaaaaaaaa××××××××××××
#   1 | aaaaaaaaaa××××××××××××
#   2 | .bbbbbbbbbb cccccccccc
#   3 | .bbbbbbbbbb cccccccccc
PLANNED: list[tuple[str, dict[str, Any]]] = [
    ("conservative", {}),
    ("conservative", {"reserve": "processors"}),
    ("slack", {}),
    ("qops", {}),
    ("msb", {}),
    ("mrt", {}),
    ("fqops", {}),
]
LOST = away((5, "unavailable", "0-1"))


@pytest.mark.parametrize(("scheduler", "options"), PLANNED)
def test_processors_that_have_left_do_not_come_free(
    scheduler: str, options: dict[str, Any]
) -> None:
    jobs = jobs_of((0, 2, 10), (1, 2, 10, 12), (2, 2, 10, 22))
    assert outcome(scheduler, jobs, LOST, **options) == ([0, 1, 11], {})


@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
def test_a_promise_that_cannot_be_kept_is_renewed(scheduler: str) -> None:
    module = make_scheduler(scheduler)
    module.keep_decisions()
    jobs = jobs_of((0, 2, 10), (1, 2, 10, 12), (2, 2, 10, 20))
    simulate(module, jobs, make_cluster(4), events=LOST)
    record = module.qos_log.record("w0!c")
    assert (record.admitted_deadline, record.new_promises) == (21, 1)
    assert record.reason == (
        "machine lost 2 hosts at 5 s; the promise of 20.000000 s could not be kept"
    )
    at_5 = [each for each in map(json.loads, module.decision_lines()) if each["date"] == 5]
    assert at_5[:3] == [
        {"event": "resized", "date": 5, "present": 2, "under": [["w0!a", 2]]},
        {"event": "moved", "date": 5, "cause": "hosts_left", "moves": [["w0!c", 10, 11]]},
        {
            "event": "late", "date": 5, "job": "w0!c", "deadline": 21,
            "reason": "machine lost 2 hosts at 5 s",
            "refusal": {"kind": "hosts_lost", "date": 5, "hosts": 2},
        },
    ]  # fmt: skip


# As above, but the hosts leave one after the other at the same date, and host 4, away from the
# beginning, returns before, between or after them: all that leave count.
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
def test_all_hosts_that_leave_at_a_date_count(scheduler: str, place: int) -> None:
    at_5 = [(5.0, "unavailable", "0"), (5.0, "unavailable", "1")]
    at_5.insert(place, (5.0, "available", "4"))
    module = make_scheduler(scheduler)
    jobs = jobs_of((0, 2, 10), (1, 2, 10, 12), (2, 2, 10, 20))
    simulate(module, jobs, make_cluster(5), events=away((0.0, "unavailable", "4"), *at_5))
    record = module.qos_log.record("w0!c")
    assert (record.admitted_deadline, record.new_promises) == (21, 1)
    assert "lost 2 hosts" in record.reason


# b asks for three: it is out of the plan from 5 to 30, and c starts in its place.
#
#       0    5    10      18          30   35
#   0 | aaaaaaaaaa××××××××××××××××××××bbbbb
#   1 | aaaaaaaaaa××××××××××××××××××××bbbbb
#   2 | aaaaaaaaaa                    bbbbb
#   3 |       cccccccccccc
@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops", "slack"])
@pytest.mark.parametrize("deadline", [40.0, 34.0])
def test_a_job_wider_than_what_is_left_is_out_of_the_plan(scheduler: str, deadline: float) -> None:
    events = away((5, "unavailable", "0-1"), (30, "available", "0-1"))
    module = make_scheduler(scheduler)
    jobs = jobs_of((0, 3, 10), (1, 3, 5, deadline), (6, 1, 12, 25))
    done = simulate(module, jobs, make_cluster(4), events=events)
    starts = {record.local_id: record.start for record in done.ended}
    assert starts == {"a": 0, "b": 30, "c": 6}
    record = module.qos_log.record("w0!b")
    if scheduler != "slack":
        late = deadline < 35
        assert (record.admitted_deadline, record.new_promises) == (35 if late else 40, late)


def test_a_latest_start_that_cannot_be_kept_is_renewed() -> None:
    module = make_scheduler("slack", {"slack_factor": 0.0})
    jobs = jobs_of((0, 2, 10), (1, 2, 10), (2, 2, 10))
    simulate(module, jobs, make_cluster(4), events=LOST)
    record = module.qos_log.record("w0!c")
    assert (record.latest_start, record.new_promises) == (11, 1)
    assert record.reason.endswith("the promise of 10.000000 s could not be kept")


def test_a_new_job_wider_than_what_is_left_gets_no_promise() -> None:
    events = away((5, "unavailable", "0-1"), (30, "available", "0-1"))
    starts, reasons = outcome("qops", jobs_of((6, 3, 5, 99), (6, 3, 5)), events)
    assert starts == [None, 30]
    assert reasons == {"a": "asks for 3 processors; 2 of 4 hosts are away"}
