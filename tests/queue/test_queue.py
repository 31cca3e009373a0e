"""Queues as they are now: what is read, and what could be promised beside them."""

from __future__ import annotations

import itertools
import json
import math
import random
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.queue import Ask, QueueAsker, QueuedJob, QueueState, queue_quote, read_queue
from qops_batsim.queue.queue_state import parse_job
from qops_batsim.slurm.waiting_reasons import WaitKind, meaning_of
from qops_batsim.texts import date_text
from qops_batsim.traces import read_trace
from qops_batsim.workload.accounting import Choices

NOW = 1_780_000_000


def read(data: object, **given_: Any) -> QueueState:
    return read_queue(json.dumps(data).encode(), "queue.json", **given_)


def ours(*jobs: dict[str, Any], processors: int = 8) -> QueueState:
    return read({"processors": processors, "now": NOW, "jobs": list(jobs)})


def earliest(state: QueueState, processors: int, time: float, **how: Any) -> float | None:
    return QueueAsker(state, **how).ask(Ask(processors=processors, time=time)).response


# Slurm


def new_number(value: float | None, infinite: bool = False) -> dict[str, Any]:
    return {"set": value is not None, "infinite": infinite, "number": value or 0}


def record(number: Any, states: Any, **fields: Any) -> dict[str, Any]:
    """Return a record of squeue, numbers written as one version does."""
    numbers = {"cpus": 4, "time_limit": 60, "start_time": None, "submit_time": NOW - 99}
    numbers |= {"priority": 7, "deadline": None, "end_time": None, **fields}
    texts = {name: numbers.pop(name) for name in list(numbers) if name in TEXTS}
    return {"job_state": states, **{n: number(v) for n, v in numbers.items()}, **texts}


TEXTS = ("job_id", "array_task_string", "state_reason", "hold", "array_task_id", "time_limit_raw")


@pytest.mark.parametrize("version", ["v0.0.37", "v0.0.39", "v0.0.41"])
def test_squeue_of_several_versions(version: str) -> None:
    def number(value: float | None) -> Any:
        return (value or 0) if version == "v0.0.37" else new_number(value)

    def state(name: str) -> Any:
        return [name] if version == "v0.0.41" else name

    jobs = [
        record(number, state("RUNNING"), job_id=1, start_time=NOW - 600, end_time=NOW + 3000),
        record(number, state("PENDING"), job_id=2, start_time=NOW + 3000, deadline=NOW + 9000),
        record(number, state("COMPLETED"), job_id=3),
        record(number, state("PENDING"), job_id=4, state_reason="JobHeldUser"),
        record(number, state("REQUEUE_HOLD"), job_id=10),
        record(number, ["PENDING", "RESV_DEL_HOLD"], job_id=11),
        record(number, state("PENDING"), job_id=5, array_job_id=5, array_task_string="1-5:2,9%2"),
        record(number, state("RUNNING"), job_id=6, array_job_id=5, array_task_id=number(7))
        | {"start_time": number(NOW - 10)},
        record(number, state("PENDING"), job_id=8, het_job_id=8, het_job_offset=0, cpus=999),
        record(number, state("PENDING"), job_id=9, het_job_id=8, het_job_offset=1),
        record(number, state("STOPPED"), job_id=12, start_time=NOW - 10),
        record(number, state("RESIZING"), job_id=13, start_time=NOW - 10),
        record(number, state("PENDING"), job_id=14, state_reason="PartitionInactive"),
    ]
    meta = {"meta": {"plugins": {"data_parser": version}}, "last_update": number(NOW)}
    found = read({**meta, "jobs": jobs}, processors=20)
    assert found.now == NOW
    assert {job.id: (job.processors, job.estimate) for job in found.jobs} == dict.fromkeys(
        ("1", "2", "5_1", "5_3", "5_5", "5_9", "5_7", "12", "13"), (4, 3600.0)
    )
    one, two, task, *_ = found.jobs
    assert (one.start, one.end, one.planned_start) == (NOW - 600, NOW + 3000, None)
    assert (two.start, two.planned_start, two.deadline) == (None, NOW + 3000, NOW + 9000)
    assert task.priority == 7
    assert found.not_planned() == {
        "has ended": 1,
        "cannot start until something changes (JobHeldUser)": 1,
        "cannot start until something changes (PartitionInactive)": 1,
        "cannot start until something changes (REQUEUE_HOLD)": 1,
        "cannot start until something changes (RESV_DEL_HOLD)": 1,
        "wider than the machine": 1,
    }


REASONS = {
    WaitKind.FOR_PROCESSORS: (
        *("None", "Priority", "Resources", "(Priority)", "Cleaning", "SchedDefer"),
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partit",
    ),
    WaitKind.CANNOT_START: (
        *("PartitionTimeLimit", "PartitionNodeLimit", "PartitionDown", "PartitionInactive"),
        *("JobHeldUser", "JobHeldAdmin", "launch failed requeued held", "BadConstraints"),
        *("DependencyNeverSatisfied", "AccountNotAllowed", "InvalidQOS", "NodeDown"),
        *(
            "(ReqNodeNotAvail, UnavailableNodes:n[1-2])",
            "ReqNodeNotAvail,_Reserved_for_maintenance",
        ),
        *("QOSMaxWallDurationPerJobLimit", "QOSMinCpuNotSatisfied", "AssocMaxCpuPerNode"),
        *("AssocGrpCPUMinutesLimit", "AssocGrpGRESMinutes", "QOSGrpWallLimit", "QOSTimeLimit"),
    ),
    WaitKind.FOR_OTHERS: (
        *("Dependency", "BeginTime", "Reservation", "Licenses", "JobArrayTaskLimit"),
        *("AssocGrpCpuLimit", "AssocGrpCPURunMinutesLimit", "QOSMaxJobsPerUserLimit"),
        *("MaxCpuPerAccount", "AssocMaxJobsLimit", "QOSGrpNodeLimit", "AssocGrpGRESRunMinutes"),
    ),
    WaitKind.UNKNOWN: ("Whim", "PriorityOfTheKing", "7"),
}


@pytest.mark.parametrize("meaning", REASONS)
def test_only_those_that_wait_for_processors_are_planned(meaning: WaitKind) -> None:
    """A job waits for the whole machine, of which a part is used for another ten minutes: it is
    before ours, or in nobody's way.
    """
    runs = record(new_number, ["RUNNING"], job_id=2, cpus=1, start_time=NOW - 3000)
    for reason in REASONS[meaning]:
        job = record(new_number, ["PENDING"], job_id=1, state_reason=reason)
        found = read({"meta": {}, "jobs": [runs, job]}, processors=4, now=NOW)
        is_planned = meaning in (WaitKind.FOR_PROCESSORS, WaitKind.UNKNOWN)
        assert earliest(found, 4, 3600) == 600 + (7200 if is_planned else 3600), reason
        assert [*found.unsure.values()] == ([1] if meaning is WaitKind.UNKNOWN else [])
        told = [*found.not_planned()]
        assert told == [] if is_planned else told[0].startswith(str(meaning))


def test_every_reason_of_slurm_has_a_meaning() -> None:
    """Reasons of 22.05 come in families: limits of groups, users and jobs, of every resource."""
    for what in ("Cpu", "GRES", "Memory", "Node", "Energy", "License", "BB", "Billing", "Unknown"):
        for owner in ("Assoc", "QOS"):
            assert meaning_of(f"{owner}Grp{what}").waits is WaitKind.FOR_OTHERS
            assert meaning_of(f"{owner}Grp{what}RunMinutes").waits is WaitKind.FOR_OTHERS
            for blocked in (f"Grp{what}Minutes", f"Max{what}PerJob", f"Max{what}MinutesPerJob"):
                assert meaning_of(f"{owner}{blocked}").waits is WaitKind.CANNOT_START
        assert meaning_of(f"QOSMax{what}PerUser").waits is WaitKind.FOR_OTHERS
        assert meaning_of(f"Max{what}PerAccount").waits is WaitKind.FOR_OTHERS
        assert meaning_of(f"QOSMin{what}").waits is WaitKind.CANNOT_START


@pytest.mark.parametrize("told", ["string", "field"])
@pytest.mark.parametrize(("most", "end"), [(1, 6), (2, 3), (3, 2), (6, 1), (0, 1), (10**9, 1)])
@pytest.mark.parametrize("reason", ["Priority", "JobArrayTaskLimit"])
def test_no_more_tasks_of_an_array_run_at_once_than_may(
    told: str, most: int, end: int, reason: str
) -> None:
    """Six tasks of a processor and an hour: the whole machine is free when the last has ended."""
    array = record(new_number, ["PENDING"], job_id=5, array_job_id=5, cpus=1, state_reason=reason)
    array["array_task_string"] = f"1-6%{most}" if told == "string" and most else "1-6"
    if told == "field":
        array["array_max_tasks"] = new_number(most)
    found = read({"meta": {}, "jobs": [array]}, processors=8, now=NOW)
    if reason == "JobArrayTaskLimit" and not most:
        assert found.not_planned() == {"waits for a date or another job (JobArrayTaskLimit)": 1}
        return
    assert earliest(found, 8, 60) == 3600 * end + 60
    # Tasks that wait for each other are not put off: those behind them would not be.
    assert earliest(found, 8, 60, may_wait=True) == 3600 * end + 60 if end > 1 else 60
    assert earliest(found, 2, 60) == 60


def test_running_tasks_count_among_those_that_may_run_at_once() -> None:
    r"""Two at once: one ends in 10 min, one in 30; three wait, each an hour.

    |BBBB|D......|
    |A|C......|E......|
    """
    array = {"array_job_id": 5, "cpus": 1}
    jobs = [
        record(new_number, ["RUNNING"], job_id=at, array_task_id=new_number(at), **array)
        | {"start_time": new_number(NOW - 3600 + left)}
        for at, left in ((1, 600), (2, 1800))
    ]
    jobs.append(record(new_number, ["PENDING"], job_id=5, array_task_string="3-5%2", **array))
    found = read({"meta": {}, "jobs": jobs}, processors=8, now=NOW)
    assert earliest(found, 8, 60) == 600 + 2 * 3600 + 60
    # A throttle that was lowered below what runs already.
    jobs[2]["array_task_string"] = "3-5%1"
    found = read({"meta": {}, "jobs": jobs}, processors=8, now=NOW)
    assert earliest(found, 8, 60) == 1800 + 3 * 3600 + 60
    # One that may run for ever lets no other begin: they are in nobody's way but its own.
    for job in jobs[:2]:
        job["time_limit"] = new_number(None, infinite=True)
    found = read({"meta": {}, "jobs": jobs}, processors=8, now=NOW)
    assert (earliest(found, 6, 60), earliest(found, 7, 60)) == (60, None)


def whole(state: str, cpus: int, nodes: int, shared: Any) -> dict[str, Any]:
    job = record(new_number, [state], job_id=1, cpus=cpus, start_time=NOW)
    return job | {"node_count": new_number(nodes), "shared": shared}


@pytest.mark.parametrize("shared", ["none", ["none"]])
def test_a_job_that_waits_for_whole_nodes_takes_all_of_their_processors(shared: Any) -> None:
    """As Slurm 22.05 tells one of two nodes of four processors that has asked for two tasks."""
    data = {"meta": {}, "jobs": [whole("PENDING", 2, 2, shared)]}
    found = read(data, processors=16, now=NOW, node_size=4)
    assert (found.jobs[0].processors, found.unsure) == (8, {})
    found = read(data, processors=16, now=NOW)
    assert found.jobs[0].processors == 2
    assert found.unsure == {"ask for whole nodes, counted without their other processors": 1}
    # One that runs has what it has, and one that shares what it asks for.
    for state, told in (("RUNNING", shared), ("PENDING", "")):
        data = {"meta": {}, "jobs": [whole(state, 2, 2, told)]}
        found = read(data, processors=16, now=NOW, node_size=4)
        assert (found.jobs[0].processors, found.unsure) == (2, {})


def test_an_answer_of_squeue_with_errors_is_no_queue() -> None:
    """Without a controller, squeue of Slurm 22.05 shows no jobs and ends with code 0."""
    data = {"meta": {}, "errors": [{"error": "Unable to contact slurm controller"}], "jobs": []}
    with pytest.raises(InputError, match="squeue failed .*Unable to contact"):
        read(data, processors=8, now=NOW)


def test_a_queue_is_of_one_cluster() -> None:
    jobs = [record(new_number, ["PENDING"], job_id=at) | {"cluster": f"c{at}"} for at in (1, 2)]
    with pytest.raises(InputError, match="has jobs of clusters c1, c2, .*; the jobs of one"):
        read({"meta": {}, "jobs": jobs}, processors=8, now=NOW)
    assert len(read({"meta": {}, "jobs": jobs[:1]}, processors=8, now=NOW).jobs) == 1


@pytest.mark.parametrize(("ahead", "refused"), [(30, False), (90, True)])
def test_clocks_that_differ(ahead: int, refused: bool) -> None:
    """A queue without a date, read on a machine whose clock is behind that of Slurm."""
    running = record(new_number, ["RUNNING"], job_id=1, start_time=NOW + ahead)
    if refused:
        with pytest.raises(InputError, match="runs since .* after the queue's date"):
            read({"meta": {}, "jobs": [running]}, processors=8, written_at=NOW)
    else:
        found = read({"meta": {}, "jobs": [running]}, processors=8, written_at=NOW)
        assert found.now == NOW + ahead
    waiting = record(new_number, ["PENDING"], job_id=2, submit_time=NOW + 90)
    found = read({"meta": {}, "jobs": [waiting]}, processors=8, written_at=NOW)
    assert found.unsure == {"submitted after the queue's date, as of a clock that differs": 1}
    # A date that is told is not changed.
    with pytest.raises(InputError, match="runs since"):
        read({"meta": {}, "jobs": [running]}, processors=8, now=NOW)


def test_suspended_jobs_wait_with_what_is_left_of_them() -> None:
    """Others may have their processors: together they may be more than the machine has."""
    jobs = [
        record(new_number, ["SUSPENDED"], job_id=1, start_time=NOW - 900)
        | {"pre_sus_time": new_number(600)},
        record(new_number, ["RUNNING"], job_id=2, start_time=NOW - 100),
    ]
    found = read({"meta": {}, "jobs": jobs}, processors=4, now=NOW)
    assert (found.jobs[0].start, found.jobs[0].estimate) == (None, 3000.0)
    assert earliest(found, 4, 60) == 3500 + 3000 + 60


def test_jobs_of_squeue_are_chosen_by_partition_account_and_reservation() -> None:
    told = [
        {"partition": "gpu", "account": "a"},
        {"partition": "cpu,gpu", "account": "a"},
        {"partition": "cpu", "account": "a"},
        {"partition": "gpu", "account": "b", "resv_name": "course"},
    ]
    records = [
        {"job_id": at, "job_state": "PENDING", "cpus": 4, "time_limit": 60, **each}
        for at, each in enumerate(told, start=1)
    ]
    content = json.dumps({"meta": {}, "jobs": records}).encode()

    def ids(**chosen: tuple[str, ...]) -> list[str]:
        names = {"partition": (), "qos": (), "account": (), "reservation": ()}
        state = read_queue(content, "q", processors=8, now=9.0, selection={**names, **chosen})
        assert sum(state.not_planned().values()) + len(state.jobs) == len(records)
        return [job.id for job in state.jobs]

    assert ids(partition=("gpu",)) == ["1", "2"]
    assert ids(account=("b",), reservation=("all",)) == ["4"]
    assert ids(reservation=("course",)) == ["4"]
    with pytest.raises(InputError, match="not the output of Slurm"):
        read_queue(b'{"jobs": []}', "q", processors=8, now=9.0, selection={"partition": ("a",)})


CHOICES = {"partition": "partitions", "qos": "qos", "account": "accounts"}


def test_squeue_and_sacct_choose_the_same_jobs(tmp_path: Path) -> None:
    """Names of one letter, ``all`` among them, in every combination."""
    names = ["a", "all"]
    told = list(product(names, names, names, ["", "r", "all"]))
    fields = ("partition", "qos", "account", "resv_name")
    squeue = [
        {"job_id": at, "job_state": "PENDING", "cpus": 4, "time_limit": 60}
        | dict(zip(fields, each, strict=True))
        for at, each in enumerate(told, start=1)
    ]
    content = json.dumps({"meta": {}, "jobs": squeue}).encode()
    path = tmp_path / "dump.txt"
    dates = "COMPLETED|2024-05-01T10:00:00|2024-05-01T10:01:00|2024-05-01T10:03:00|4|60:00"
    rows = [f"{at}|{'|'.join(each)}|{dates}" for at, each in enumerate(told, start=1)]
    head = "JobID|Partition|QOS|Account|Reservation|State|Submit|Start|End|AllocCPUS|Timelimit"
    path.write_text("\n".join([head, *rows]) + "\n")
    for wanted in product(((), ("a",), ("all",)), repeat=3):
        for inside in ((), ("r",), ("all",)):
            by_name = dict(zip(CHOICES, wanted, strict=True))
            state = read_queue(
                content, "q", processors=8, now=9.0, selection={**by_name, "reservation": inside}
            )
            choices = Choices(
                **{CHOICES[name]: each for name, each in by_name.items()}, reservations=inside
            )
            trace = read_trace(path, accounting=choices)
            assert [job.id for job in state.jobs] == [job.id for job in trace.workload.jobs]
            expected = [
                str(at)
                for at, (*others, name) in enumerate(told, start=1)
                if all(
                    not each or other in each for other, each in zip(others, wanted, strict=True)
                )
                and (name == "" if not inside else inside == ("all",) or name in inside)
            ]
            assert [job.id for job in state.jobs] == expected


def test_unlimited_jobs_of_squeue() -> None:
    job = record(new_number, ["RUNNING"], job_id=1, start_time=NOW - 600)
    job["time_limit"] = new_number(None, infinite=True)
    found = read({"last_update": new_number(NOW), "meta": {}, "jobs": [job]}, processors=4)
    assert found.jobs[0].estimate is None
    assert earliest(found, 1, 60) is None
    assert earliest(read({"meta": {}, "jobs": [job]}, processors=5, now=NOW), 1, 60) == 60


# Our form


def test_dates_have_an_offset_and_may_be_numbers() -> None:
    job = {"id": 1, "processors": 2, "estimate": 60, "start": "2026-05-28T22:26:40+02:00"}
    found = read({"processors": 4, "now": 1_780_000_060, "jobs": [job]})
    assert found.jobs == [QueuedJob(id="1", processors=2, estimate=60.0, start=1_780_000_000.0)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a JSON object with a list of jobs is expected"),
        ({"jobs": {}}, "a JSON object with a list of jobs"),
        ({"jobs": []}, r"how many processors the machine has.*--processors N"),
        ({"jobs": [], "processors": 4}, r"the date of the queue.*--now DATE"),
        ({"jobs": [], "processors": 0, "now": NOW}, "processors is 0; a whole number from 1"),
        ({"jobs": [], "processors": 4, "now": "2026-01-01"}, "now is '2026-01-01'; seconds"),
        ({"jobs": [], "processors": 4, "now": -1}, "now is -1; a date from 0"),
        ({"jobs": [], "processors": 4, "now": 900_000_000}, "now is 900000000.0; .* the year 2000"),
        ({"jobs": [{"id": 1}]}, "field jobs.0..processors is missing"),
        ({"jobs": [{"id": 1, "processors": 1, "x": 1}]}, "field jobs.0..x is not known"),
        ({"jobs": [{"id": 1, "processors": 1, "estimate": 0}]}, "estimate is 0"),
    ],
)
def test_what_is_no_queue_is_refused(data: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(data)


def test_queues_that_cannot_be() -> None:
    running = {"id": 1, "processors": 5, "estimate": 9, "start": NOW}
    with pytest.raises(InputError, match="'1': is listed twice"):
        ours(running, running)
    with pytest.raises(InputError, match="use 10 processors, more than the 8 of"):
        ours(running, {**running, "id": 2})
    with pytest.raises(InputError, match="runs since .* after the queue's date"):
        ours({**running, "start": NOW + 1})
    with pytest.raises(InputError, match="processors is 0"):
        ours({**running, "processors": 0})


numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.none())
names = st.sampled_from(
    [
        *("id", "job_id", "job_state", "cpus", "processors", "start", "start_time", "time_limit"),
        *("estimate", "now", "jobs", "set", "number", "infinite", "deadline", "array_job_id"),
        *("array_task_string", "end", "planned_start", "priority", "meta", "array_max_tasks"),
        *("state_reason", "partition", "shared", "node_count", "errors"),
    ]
)
values = st.recursive(
    st.one_of(numbers, st.text(max_size=9), st.sampled_from(["PENDING", "RUNNING", "1-9999999"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=9),
    max_leaves=30,
)


@given(st.dictionaries(names, values, max_size=6), st.lists(values, max_size=4))
def test_odd_queues_are_answered_or_refused(data: dict[str, Any], jobs: list[Any]) -> None:
    content = json.dumps({**data, "jobs": jobs}).encode()
    with suppress(InputError):
        QueueAsker(read_queue(content, "q", processors=8, now=NOW)).ask(Ask(processors=3, time=60))


@given(st.binary(max_size=60))
def test_odd_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(InputError):
        read_queue(content, "q", processors=8, now=NOW)


def test_deep_and_large_queues_are_refused() -> None:
    with pytest.raises(InputError, match="is not valid JSON"):
        read_queue(b'{"jobs": ' + b"[" * 100_000, "q")
    array = record(new_number, ["PENDING"], job_id=1, array_job_id=1, array_task_string="1-999999")
    with pytest.raises(InputError, match="ranges as .* of up to 100,000 tasks are expected"):
        read({"meta": {}, "jobs": [array]}, processors=8, now=NOW)


# Answers


def test_a_drawn_queue() -> None:
    r"""Eight processors: A runs on six until 100, B and C wait.

    8 |      .BBBB|CCCC
      |  .   .BBBB|CCCC
    2 |AAAAAAA    |CCCC
    0 |AAAAAAA    |CCCC
      0      100  200  250
    """
    state = ours(
        {"id": "A", "processors": 6, "estimate": 150, "start": NOW - 50},
        {"id": "B", "processors": 4, "estimate": 100, "planned_start": NOW + 100},
        {"id": "C", "processors": 8, "estimate": 50, "priority": 3, "planned_start": NOW + 200},
    )
    asker = QueueAsker(state)
    assert (state.count_running(), asker.waiting, state.free, asker.late) == (1, 2, 2, [])
    # Two are free at once; four beside B; eight after C, unless C may wait.
    ends = [asker.ask(Ask(processors=n, time=50)).response for n in (2, 4, 8)]
    assert ends == [50.0, 150.0, 300.0]
    patient = QueueAsker(state, may_wait=True)
    assert patient.ask(Ask(processors=8, time=50)).response == 150.0
    refused = asker.ask(Ask(processors=8, time=50, deadline=200))
    assert refused.admitted is False
    assert f"({date_text(NOW + 200)}) would be missed" in refused.reason
    assert asker.ask(Ask(processors=8, time=50, deadline=300)).admitted is True
    assert "is 10 s away" in asker.ask(Ask(processors=8, time=50, deadline=10)).reason


def test_a_refusal_names_the_deadline_that_was_asked_to_the_second() -> None:
    """A runs for two million seconds more; six digits of the date would be off by half a minute."""
    state = ours({"id": "A", "processors": 8, "estimate": 2e6, "start": NOW})
    for deadline in (1_234_567.0, 1_843_767.25):
        refused = QueueAsker(state).ask(Ask(processors=8, time=50, deadline=deadline))
        asked = date_text(NOW + deadline)
        assert refused.reason.startswith(f"its own deadline ({asked}) would be missed")


@pytest.mark.parametrize("first", ["B", "C"])
def test_waiting_jobs_are_planned_by_planned_start_then_priority_then_submission(
    first: str,
) -> None:
    """B and C take the whole machine one after the other; the last keeps the end planned for it.

    8 |AAAA|first|last|new
    0      100   200  350
    """
    last = "C" if first == "B" else "B"
    early = {"estimate": 100, "deadline": NOW + 1000}
    late = {"estimate": 150}
    for ahead, behind in (
        ({"planned_start": NOW + 100}, {"planned_start": NOW + 200, "priority": 9}),
        ({"planned_start": NOW + 100}, {"priority": 9}),
        ({"priority": 5, "submission": NOW - 5}, {"priority": 4, "submission": NOW - 9}),
        ({"submission": NOW - 9}, {"submission": NOW - 5}),
    ):
        jobs = [
            {"id": first, "processors": 8, **early, **ahead},
            {"id": last, "processors": 8, **late, **behind},
        ]
        running = {"id": "A", "processors": 8, "estimate": 100, "start": NOW}
        for order in (jobs, jobs[::-1]):
            state = ours(running, *order)
            waiting, _ = queue_quote.waiting_jobs(state, [], may_wait=False)
            assert [job.id for job in waiting] == [first, last]
            assert earliest(state, 8, 800.0) == 1150.0


def test_promises_go_before_other_jobs() -> None:
    jobs = [
        {"id": "A", "processors": 8, "estimate": 100, "start": NOW},
        {"id": "B", "processors": 8, "estimate": 100, "submission": NOW - 9},
        {"id": "C", "processors": 8, "estimate": 100, "submission": NOW - 5, "deadline": NOW + 210},
    ]
    asker = QueueAsker(ours(*jobs))
    assert asker.late == []
    assert asker.ask(Ask(processors=8, time=100)).response == 400.0
    jobs[2]["deadline"] = NOW + 150
    # Too late already: the end planned for it now is kept.
    asker = QueueAsker(ours(*jobs))
    assert asker.late == ["C"]
    assert asker.ask(Ask(processors=8, time=100)).response == 400.0


def test_a_job_that_outlives_its_estimate_runs_as_long_again() -> None:
    state = ours({"id": "A", "processors": 8, "estimate": 50, "start": NOW - 70})
    assert earliest(state, 1, 10) == 80.0


def all_orders(state: QueueState, ask: Ask) -> float:
    """Return the earliest end that some order of all waiting jobs has, all ends kept."""
    running = [(j.start + j.estimate - NOW, j.processors) for j in state.jobs if j.start]
    waiting = [j for j in state.jobs if j.start is None]

    def place(order: list[tuple[int, float]]) -> list[float]:
        busy = [(0.0, end, width) for end, width in running]
        ends = []
        for width, length in order:
            for start in sorted({0.0, *(end for _, end, _ in busy)}):
                dates = [start, *(b for b, _, _ in busy if start < b < start + length)]
                used = (sum(w for b, e, w in busy if b <= d < e) for d in dates)
                if max(used) + width <= state.processors:
                    busy.append((start, start + length, width))
                    ends.append(start + length)
                    break
        return ends

    kept = place([(j.processors, j.estimate or 0.0) for j in waiting])
    jobs = [(j.processors, j.estimate or 0.0) for j in waiting] + [(ask.processors, ask.time)]
    best = math.inf
    for order in itertools.permutations(range(len(jobs))):
        ends = dict(zip(order, place([jobs[i] for i in order]), strict=True))
        if all(ends[i] <= end for i, end in enumerate(kept)):
            best = min(best, ends[len(kept)])
    return best


def test_answers_against_all_orders() -> None:
    best = answered = 0
    for seed in range(60):
        rng = random.Random(seed)
        free, jobs = 6, []
        for number in range(rng.randint(1, 7)):
            width, length = rng.randint(1, 4), 100 * rng.randint(1, 9)
            job = {"id": number, "processors": width, "estimate": length, "submission": NOW - 9}
            if width <= free and number < 3:
                free -= width
                job["start"] = NOW
            jobs.append(job)
        state = ours(*jobs, processors=6)
        ask = Ask(processors=rng.randint(1, 6), time=100 * rng.randint(1, 9))
        asker = QueueAsker(state)
        answer = asker.ask(ask)
        least = all_orders(state, ask)
        assert answer.response is not None
        assert answer.response >= least
        best += answer.response < least + 60
        answered += 1
        again = Ask(processors=ask.processors, time=ask.time, deadline=answer.response)
        assert asker.ask(again).admitted
        assert asker.ask(ask) == answer
    assert best >= 0.9 * answered


def test_jobs_that_are_asked_about() -> None:
    assert [parse_job(each) for each in ("64x2h", "8x7200")] == [(64, 7200.0), (8, 7200.0)]
    for text in ("", "64", "x2h", "64x", "-1x2h", "64x2h,", "9999999999x1h", "8x0"):
        with pytest.raises(InputError):
            parse_job(text)
