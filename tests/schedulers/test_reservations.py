"""Maintenance known ahead and fixed starts, in schedules drawn by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import InputError, Job, QosRequest, simulate
from qops_batsim.core import HostSet
from qops_batsim.engine import (
    ExternalEvent,
    events_in_order,
    maintenance_events,
    read_external_events,
)
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload, delay_profile

Row = tuple[float, int, float] | tuple[float, int, float, dict[str, float]]
"""Submission (s), processors, run time (s), and what the user asks for beside."""


def jobs_of(*rows: Row) -> Workload:
    profiles, jobs = {}, []
    for name, (submission, processors, run_time, *asked) in zip("abcdefgh", rows, strict=False):
        profile, content = delay_profile(run_time)
        profiles[profile] = content
        qos = QosRequest(estimated_runtime=run_time, **(asked[0] if asked else {}))
        jobs.append(Job(name, submission, processors, profile, qos=qos))
    return Workload(jobs=jobs, profiles=profiles, processors=4)


def window(
    notice: float, hosts: str, start: float, end: float, **repeated: float
) -> tuple[ExternalEvent, ...]:
    return events_in_order(maintenance_events(notice, HostSet.parse(hosts), start, end, **repeated))


def outcome(
    scheduler: str,
    workload: Workload,
    events: tuple[ExternalEvent, ...] | None = None,
    **settings: object,
) -> dict[str, float | str]:
    """Return the start of each job, or the kind of its refusal."""
    module = make_scheduler(scheduler, settings)
    done = simulate(module, workload, make_cluster(4), events=events)
    found: dict[str, float | str] = {}
    for record in sorted(done.ended, key=lambda record: record.local_id):
        start: float | str = record.start if record.start is not None else ""
        if record.state == REJECTED:
            start = module.qos_log.record(record.job.id).reasons[0].kind.value
        found[record.local_id] = start
    return found


NUMBERS = [
    ("conservative", {"reserve": "processors"}),
    ("slack", {"slack_factor": 0.0}),
    ("qops", {}),
    ("msb", {}),
    ("mrt", {}),
    ("fqops", {}),
]
by_numbers = pytest.mark.parametrize(("scheduler", "options"), NUMBERS)


# Hosts 2 and 3 have maintenance (#) from 10 to 20, known from the beginning. a and b take 15 s and
# c 8 s, each on two hosts.
#
#   3 | c c c c . # # # # # .           3 | . . . . . # # # # # c c c c
#   2 | c c c c . # # # # # .           2 | . . . . . # # # # # c c c c
#   1 | a a a a a a a(b b b b           1 | a a a a a a a(b b b b b b b
#   0 | a a a a a a a(b b b b           0 | a a a a a a a(b b b b b b b
#     0       8   10 15   20                0         10 15    20
#       hosts are planned                   numbers are planned: 2 and 3 are drained


@pytest.mark.parametrize(
    ("scheduler", "options", "last"),
    [("easy", {}, 0.0), ("conservative", {}, 0.0), ("fcfs", {}, 20.0)]
    # MSB's least price has c first.
    + [(scheduler, options, 20.0) for scheduler, options in NUMBERS if scheduler != "msb"]
    + [("nqs", {}, 20.0)],
)
def test_nothing_reaches_into_maintenance(scheduler, options, last):
    workload = jobs_of((0, 2, 15), (0, 2, 15), (0, 2, 8))
    found = outcome(scheduler, workload, window(0, "2-3", 10, 20), **options)
    assert found == {"a": 0.0, "b": 15.0, "c": last}


# All four hosts have maintenance from 10 to 20, and again from 30 to 40: nothing is drained, what
# ends in time starts before. b fits between, c behind; d, in time without, is refused.
#
#   0-3 | a a a a a a # # # b b b . # # # # c c
#       0           9 10   20   26  30     40


@by_numbers
def test_jobs_are_planned_around_windows_of_all_hosts(scheduler, options):
    workload = jobs_of((0, 4, 9), (1, 4, 6), (2, 4, 12), (3, 4, 8, {"deadline": 25.0}))
    events = window(0, "0-3", 10, 20, every=20.0, until=30.0)
    assert len(events) == 6
    found = outcome(scheduler, workload, events, **options)
    refused = found.pop("d")
    assert found == {"a": 0.0, "b": 20.0, "c": 40.0}
    assert refused in (
        (28.0, 52.0) if scheduler in ("conservative", "slack") else ("own_deadline", "no_time")
    )


# a runs on two hosts up to 20. f wants three from 10 on, when two are free, and is refused; g gets
# three from 30 on. h (4 hosts, 12 s) would reach into that: it starts behind g; i fits before it.
#
#   3 | . . . . . i i i . g h h h
#   2 | . . . . . i i i . g h h h
#   1 | a a a a a i i i . g h h h
#   0 | a a a a a . . . . . h h h
#     0          20   28 30 35


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [("easy", {}), ("easy", {"order": "lxf"}), ("conservative", {}), *NUMBERS],
)
def test_a_fixed_start_is_promised_or_refused_and_kept(scheduler, options):
    workload = jobs_of(
        (0, 2, 20),
        (1, 3, 5, {"start": 10.0}),
        (1, 3, 5, {"start": 30.0}),
        (2, 4, 12),
        (3, 3, 8),
        (40, 1, 1, {"start": 39.0}),
    )
    found = outcome(scheduler, workload, **options)
    assert found == {
        "a": 0.0, "b": "start_taken", "c": 30.0, "d": 35.0, "e": 20.0, "f": "start_taken"
    }  # fmt: skip


def test_first_come_first_served_keeps_a_fixed_start():
    workload = jobs_of((0, 2, 20), (1, 3, 5, {"start": 30.0}), (2, 4, 12), (3, 3, 8))
    assert outcome("fcfs", workload) == {"a": 0.0, "b": 30.0, "c": 35.0, "d": 47.0}


@pytest.mark.parametrize("scheduler", ["slurm", "nqs", "aroma"])
def test_who_promises_no_starts_refuses(scheduler):
    assert outcome(scheduler, jobs_of((0, 1, 5, {"start": 9.0}))) == {"a": "no_fixed_starts"}


@pytest.mark.parametrize("scheduler", ["easy", "conservative", "qops"])
def test_a_job_that_ends_early_leaves_a_fixed_start_where_it_is(scheduler):
    # a is estimated at 20 and ends at 4; b moves up to 4, the fixed start of c stays at 12.
    name, profile = delay_profile(4.0)
    workload = jobs_of((0, 4, 20), (1, 2, 5), (2, 4, 5, {"start": 30.0}))
    workload.profiles[name] = profile
    jobs = [Job("a", 0, 4, name, qos=QosRequest(estimated_runtime=20.0)), *workload.jobs[1:]]
    early = Workload(jobs=jobs, profiles=workload.profiles, processors=4)
    assert outcome(scheduler, early) == {"a": 0.0, "b": 4.0, "c": 30.0}


@pytest.mark.parametrize("scheduler", ["easy", "conservative", "qops"])
def test_a_start_that_was_promised_before_the_notice_is_renewed(scheduler):
    # The start at 12 is promised at 1; at 5 all hosts are announced to leave from 10 to 20.
    module = make_scheduler(scheduler)
    workload = jobs_of((0, 1, 2), (1, 4, 5, {"start": 12.0}))
    done = simulate(module, workload, make_cluster(4), events=window(5, "0-3", 10, 20))
    assert {record.local_id: record.start for record in done.ended} == {"a": 0.0, "b": 20.0}
    record = module.qos_log.record("w0!b")
    assert (record.latest_start, record.new_promises) == (20.0, 1)
    assert record.reasons[0].kind == "hosts_lost"


def away_from_4_to_8(hosts: str, *announced: ExternalEvent) -> tuple[ExternalEvent, ...]:
    """Return what is announced, and hosts that are away for another reason before."""
    away = HostSet.parse(hosts)
    leaves = ExternalEvent(4.0, "machine_unavailable", away, {})
    returns = ExternalEvent(8.0, "machine_available", away, {})
    return events_in_order([*announced, leaves, returns])


def test_hosts_that_leave_before_their_maintenance_count_as_away():
    # Hosts 2 and 3 leave at 4, though maintenance is announced from 30 on: b cannot use them.
    events = away_from_4_to_8("2-3", *window(0, "2-3", 30, 40))
    assert outcome("easy", jobs_of((0, 2, 20), (5, 2, 5)), events) == {"a": 0.0, "b": 8.0}


@pytest.mark.parametrize("scheduler", ["easy", "conservative", "slack", "qops"])
def test_a_promised_start_gives_way_to_hosts_that_leave_before_their_maintenance(scheduler):
    # Nothing but the outage from 4 to 8 is in the way of a start at 6, and of its deadline.
    module = make_scheduler(scheduler)
    workload = jobs_of((0, 4, 5, {"start": 6.0, "deadline": 12.0}))
    events = away_from_4_to_8("0-3", *window(0, "0-3", 30, 40))
    done = simulate(module, workload, make_cluster(4), events=events)
    assert [record.start for record in done.ended] == [8.0]
    record = module.qos_log.record("w0!a")
    assert (record.latest_start, record.new_promises) == (8.0, 1)
    assert record.reasons[0].kind == "hosts_lost"
    # EASY promises no deadlines.
    assert record.admitted_deadline == (None if scheduler == "easy" else 13.0)


@pytest.mark.parametrize("scheduler", ["easy", "fcfs"])
def test_a_late_start_leaves_what_was_promised_meanwhile(scheduler):
    # a and b miss 10 and 20, for nobody knows when hosts return; c is promised host 0 at 45.
    #
    #   1-3 | . # # # # # # # . . . a a a a b b b b
    #     0 | . . . . . . . . . c c a a a a b b b b
    #       0   5           40  45  55      65
    events = tuple(
        ExternalEvent(date, f"machine_{kind}available", HostSet.parse("1-3"), {})
        for date, kind in ((5.0, "un"), (40.0, ""))
    )
    workload = jobs_of(
        (0, 4, 10, {"start": 10.0}), (0, 4, 10, {"start": 20.0}), (6, 1, 10, {"start": 45.0})
    )
    assert outcome(scheduler, workload, events) == {"a": 55.0, "b": 65.0, "c": 45.0}


PROMISING = [("fcfs", {}), ("easy", {}), ("conservative", {}), *NUMBERS]
promising = pytest.mark.parametrize(("scheduler", "options"), PROMISING)


# Maintenance (#) from 20 to 30 is known from the beginning, and a is promised to start at 10. All
# hosts are away (x) without notice from 4 to 18: a does not fit before the maintenance any more.
#
#   0-3 | . . x x x x x x x . # # # # # a a a
#       0     4   (10)      18 20        30


@promising
def test_a_late_start_leaves_maintenance_alone_when_hosts_return(scheduler, options):
    away = HostSet.parse("0-3")
    outage = [
        ExternalEvent(4.0, "machine_unavailable", away, {}),
        ExternalEvent(18.0, "machine_available", away, {}),
    ]
    events = events_in_order([*window(0, "0-3", 20, 30), *outage])
    workload = jobs_of((0, 4, 5, {"start": 10.0}), (19, 2, 1))
    assert outcome(scheduler, workload, events, **options) == {"a": 30.0, "b": 19.0}


# a outlives its estimate of 5 s, and ends at 18: b, promised to start at 10, does not fit before
# the maintenance from 20 to 30 any more; c, promised 12 on one host, is not held up.
#
#   3   | . . . . . c c c c . # # # # # b b b
#   0-2 | a a a a a a a a a . # # # # # b b b
#       0         (10)12    18 20        30


@promising
def test_a_start_that_a_job_holds_up_leaves_maintenance_alone(scheduler, options):
    workload = jobs_of((0, 3, 5), (1, 4, 5, {"start": 10.0}), (2, 1, 2, {"start": 15.0}))
    name, profile = delay_profile(18.0)
    first = Job("a", 0, 3, name, qos=QosRequest(estimated_runtime=5.0))
    jobs = [first, *workload.jobs[1:]]
    overrun = Workload(jobs=jobs, profiles={**workload.profiles, name: profile}, processors=4)
    found = outcome(scheduler, overrun, window(0, "0-3", 20, 30), **options)
    assert found == {"a": 0.0, "b": 30.0, "c": 15.0}


@pytest.mark.parametrize(
    ("scheduler", "start"),
    # Without plans hosts are drained from the first notice on.
    [
        ("easy", 20.0), ("slurm", 20.0), ("conservative", 20.0), ("qops", 20.0),
        ("nqs", 50.0), ("aroma", 50.0),
    ],
)  # fmt: skip
def test_a_window_is_announced_when_a_later_one_of_the_same_hosts_is_known(scheduler, start):
    # Known at 0: maintenance from 40 to 50. At 10 all hosts leave until 20, announced only then.
    events = events_in_order([*window(0, "0-3", 40, 50), *window(10, "0-3", 10, 20)])
    assert outcome(scheduler, jobs_of((12, 2, 5)), events) == {"a": start}


@pytest.mark.parametrize("scheduler", ["easy", "fcfs", "conservative", "qops"])
@pytest.mark.parametrize("date", [1.0, 5.0])
def test_a_job_with_a_fixed_start_is_cancelled(scheduler, date):
    cancelled = {"timestamp": date, "type": "job_cancelled", "job_id": "w0!a"}
    events = (ExternalEvent(date, "job_cancelled", HostSet(), cancelled),)
    workload = jobs_of((1, 4, 5, {"start": 12.0}), (6, 4, 10))
    assert outcome(scheduler, workload, events) == {"a": "cancelled", "b": 6.0}


def test_the_file_repeats_a_window(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    path.write_text(
        '{"timestamp": 5, "type": "maintenance", "resources": "1", "start": 10, "end": 20, '
        '"every": 100, "until": 250}\n'
    )
    told = [(each.timestamp, each.type) for each in read_external_events(path)]
    assert told == [
        (date + later, kind)
        for later in (0.0, 100.0, 200.0)
        for date, kind in (
            (5.0, "maintenance"), (10.0, "machine_unavailable"), (20.0, "machine_available")
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('"start": 10, "end": 10', "from 10 s to 10 s, announced at 5 s; hosts, a start"),
        ('"start": 4, "end": 10', "a start from then on, and a later end are expected"),
        ('"start": 10', "end is None; a number of seconds"),
        ('"start": 10, "end": 20, "every": 9, "until": 50', "every is 9 s and until is 50 s; a"),
        ('"start": 10, "end": 20, "every": 10, "until": 9e9', "at most 100000 windows"),
        ('"start": 10, "end": 20, "every": 10', "until is None"),
    ],
)
def test_a_wrong_window_is_refused(tmp_path: Path, fields: str, message: str) -> None:
    path = tmp_path / "events.txt"
    path.write_text(f'{{"timestamp": 5, "type": "maintenance", "resources": "0", {fields}}}\n')
    with pytest.raises(InputError, match="line 1: ") as caught:
        read_external_events(path)
    assert message in str(caught.value)
