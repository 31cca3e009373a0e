"""Heterogeneous jobs in a queue: components that start together are planned as one job."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.queue import Ask, QueueAsker, QueuedJob, QueueState, read_queue
from qops_batsim.slurm.heterogeneous_jobs import size_of

NOW = 1_780_000_000
Number = Callable[[float | None], Any]


def old(value: float | None) -> Any:
    return value or 0


def new(value: float | None) -> Any:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def job(at: int, cpus: int, minutes: int | None = 60, **further: Any) -> dict[str, Any]:
    """Return a waiting job as squeue tells it, numbers plain."""
    told = {"job_id": at, "job_state": "PENDING", "state_reason": "Resources", "partition": "cpu"}
    numbers = {"cpus": cpus, "time_limit": minutes, "submit_time": NOW - 600, "priority": 900}
    return {**told, **numbers, "start_time": 0, **further}


def part(whole: int, offset: int, cpus: int, minutes: int | None = 60, **more: Any) -> Any:
    return job(whole + offset, cpus, minutes, het_job_id=whole, het_job_offset=offset, **more)


RUNS = job(10, 96, 120, job_state="RUNNING", start_time=NOW - 3600, state_reason="None")
LATER = job(30, 16, 30, priority=800, state_reason="Priority")


def read(*jobs: dict[str, Any], number: Number = old, size: int = 128, **how: Any) -> QueueState:
    numbers = ("cpus", "time_limit", "submit_time", "priority", "start_time", "het_job_id")
    numbers += ("het_job_offset",)
    told = [
        {name: number(value) if name in numbers else value for name, value in each.items()}
        for each in jobs
    ]
    text = json.dumps({"meta": {}, "last_update": NOW, "jobs": told}).encode()
    return read_queue(text, "queue.json", processors=size, **how)


def wait(state: QueueState, processors: int, minutes: int) -> float | None:
    return QueueAsker(state).ask(Ask(processors=processors, time=60.0 * minutes)).wait


@pytest.mark.parametrize("number", [old, new])
def test_components_that_wait_are_one_job(number: Number) -> None:
    """96 of 128 processors are used for an hour; 20 needs 32 and 64, together for an hour.

    32 |....|20|
    96 |1010|20|..
    """
    found = read(RUNS, part(20, 0, 32), part(20, 1, 64), LATER, number=number)
    assert {each.id: (each.processors, each.estimate) for each in found.jobs} == {
        "10": (96, 7200),
        "20": (96, 3600),
        "30": (16, 1800),
    }
    assert found.jobs[1].components == ("20+0", "20+1")
    assert (wait(found, 16, 30), wait(found, 33, 30)) == (0, 7200)


HEAD = "JOBID|STATE|CPUS|TIME_LIMIT|START_TIME|PRIORITY|REASON"
ROWS = (
    "10|RUNNING|96|2:00:00|1779996400|1000|None\n20+0|PENDING|32|1:00:00|N/A|900|Resources\n"
    "20+1|PENDING|64|1:00:00|N/A|900|None\n30|PENDING|16|30:00|N/A|800|Priority\n"
)
SQUEUE = f"{HEAD}\n{ROWS}"
COLUMNS = (
    f"HET_JOB_ID|HET_JOB_OFFSET|{HEAD}\n"
    "0|0|10|RUNNING|96|2:00:00|1779996400|1000|None\n"
    "20|0|20|PENDING|32|1:00:00|N/A|900|Resources\n"
    "20|1|21|PENDING|64|1:00:00|N/A|900|None\n"
    "N/A|N/A|30|PENDING|16|30:00|N/A|800|Priority\n"
)
SCONTROL = """\
JobId=10 JobName=x
   UserId=ada(7) GroupId=root(0) MCS_label=N/A
   Priority=1000 JobState=RUNNING Reason=None TimeLimit=02:00:00
   SubmitTime=1779990000 StartTime=1779996400 EndTime=1780003600 Deadline=N/A
   Partition=cpu NumNodes=1 NumCPUs=96 OverSubscribe=OK

JobId=20 HetJobId=20 HetJobOffset=0 JobName=x
   HetJobIdSet=20-21
   UserId=ada(7) GroupId=root(0) MCS_label=N/A
   Priority=900 JobState=PENDING Reason=Resources TimeLimit=01:00:00
   SubmitTime=1779990000 StartTime=Unknown EndTime=Unknown Deadline=N/A
   Partition=cpu NumNodes=1 NumCPUs=32 OverSubscribe=OK

JobId=21 HetJobId=20 HetJobOffset=1 JobName=x
   HetJobIdSet=20-21
   UserId=ada(7) GroupId=root(0) MCS_label=N/A
   Priority=900 JobState=PENDING Reason=None TimeLimit=01:00:00
   SubmitTime=1779990000 StartTime=Unknown EndTime=Unknown Deadline=N/A
   Partition=cpu NumNodes=1 NumCPUs=64 OverSubscribe=OK

JobId=30 JobName=x
   UserId=ada(7) GroupId=root(0) MCS_label=N/A
   Priority=800 JobState=PENDING Reason=Priority TimeLimit=00:30:00
   SubmitTime=1779990000 StartTime=Unknown EndTime=Unknown Deadline=N/A
   Partition=cpu NumNodes=1 NumCPUs=16 OverSubscribe=OK
"""


PACKS = SCONTROL.replace("HetJob", "PackJob")


@pytest.mark.parametrize(
    "text", [SQUEUE, COLUMNS, SCONTROL, PACKS], ids=["squeue", "columns", "scontrol", "packs"]
)
def test_texts_tell_the_same(text: str) -> None:
    found = read_queue(text.encode(), "queue.txt", processors=128, now=NOW)
    assert [(each.id, each.processors, each.components) for each in found.jobs] == [
        ("10", 96, ()),
        ("20", 96, ("20+0", "20+1")),
        ("30", 16, ()),
    ]
    assert (found.jobs[1].reason, wait(found, 16, 30), wait(found, 33, 30)) == (
        "Resources",
        0,
        7200,
    )


@pytest.mark.parametrize(
    "text",
    [
        SQUEUE.replace("20+1|PENDING|64|1:00:00|N/A|900|None\n", ""),
        COLUMNS.replace("20|1|21|PENDING|64|1:00:00|N/A|900|None\n", ""),
        SCONTROL.replace("IdSet=20-21", "IdSet=20-22"),
        PACKS.replace("IdSet=20-21", "IdSet=20-21,23"),
    ],
    ids=["squeue", "columns", "scontrol", "packs"],
)
def test_a_text_that_lacks_components_tells_no_start(text: str) -> None:
    """As of `squeue --partition`: what is listed is not the job."""
    found = read_queue(text.encode(), "queue.txt", processors=128, now=NOW)
    (lacking,) = found.blocked
    assert (lacking.reason, lacking.start) == ("components elsewhere", None)
    assert lacking.components[0] == "20+0"


def only(*parts: dict[str, Any], **how: Any) -> QueuedJob:
    (found,) = read(*parts, **how).jobs
    return found


def test_a_job_has_all_processors_for_the_longest_limit() -> None:
    """The priority of the last to be tried, and the start of the last that Slurm expects."""
    whole = only(
        part(20, 2, 8, 90, start_time=NOW + 900, priority=5, partition="gpu"),
        part(20, 0, 8, 30, submit_time=NOW - 700),
        part(20, 1, 16, 60, start_time=NOW + 60),
    )
    assert (whole.processors, whole.estimate, whole.priority) == (32, 5400, 5)
    assert (whole.planned_start, whole.submission) == (NOW + 900, NOW - 700)
    assert whole.components == ("20+0", "20+1", "20+2")
    assert whole.partitions == {"cpu", "gpu"}
    # One of them may run for ever.
    assert only(part(20, 0, 8, None), part(20, 1, 8)).estimate is None


def test_components_that_run_are_one_job_too() -> None:
    """By limits, all run until the longest one, as in accounting."""
    run = {"job_state": ["RUNNING"], "start_time": NOW - 600}
    ends = ({"end_time": NOW + 1200}, {"end_time": NOW + 3000})
    whole = only(part(20, 0, 32, 30, **run, **ends[0]), part(20, 1, 64, 60, **run, **ends[1]))
    assert (whole.id, whole.processors, whole.start, whole.end) == ("20", 96, NOW - 600, NOW + 3000)


def test_whole_nodes_of_each_component() -> None:
    whole = only(
        part(20, 0, 1, node_count=2, shared="none"),
        part(20, 1, 3, node_count=1),
        node_size=32,
    )
    assert whole.processors == 64 + 3


def test_a_job_wider_than_the_machine_has_no_date() -> None:
    """Each of its components would fit."""
    found = read(part(20, 0, 80), part(20, 1, 80), LATER)
    assert [(each.id, each.reason) for each in found.blocked] == [("20", "wider than the machine")]
    assert [each.id for each in found.jobs] == ["30"]


@pytest.mark.parametrize("reason", ["JobHeldUser", "Dependency", "BeginTime"])
@pytest.mark.parametrize("place", [0, 1])
def test_what_keeps_a_component_keeps_the_job(reason: str, place: int) -> None:
    parts = [part(20, 0, 32), part(20, 1, 64)]
    parts[place]["state_reason"] = reason
    found = read(*parts, LATER)
    assert [(each.id, each.processors, each.reason) for each in found.blocked] == [
        ("20", 96, reason)
    ]
    assert [each.id for each in found.jobs] == ["30"]


def test_components_elsewhere_leave_a_job_without_a_date() -> None:
    """In a partition that is not selected, or not listed at all."""
    chosen = {"partition": ["cpu"]}
    others = [
        [part(20, 0, 32), part(20, 1, 64, partition="gpu")],
        [part(20, 0, 32, partition="gpu"), part(20, 1, 64)],
        [part(20, 1, 64)],
        [part(20, 0, 32, het_job_id_set="20-21")],
        [part(20, 0, 32), part(20, 2, 32)],
    ]
    for parts in others:
        found = read(*parts, LATER, selection=chosen)
        (whole,) = found.blocked
        assert (whole.id, whole.reason) == ("20", "components elsewhere")
        assert str(whole.meaning.waits) == "waits for a date or another job"
        assert [each.id for each in found.jobs] == ["30"]


def test_while_some_have_begun_both_are_told() -> None:
    begun = part(20, 0, 32, job_state="CONFIGURING", start_time=NOW - 1)
    found = read(begun, part(20, 1, 32), part(20, 2, 32))
    assert [(each.id, each.processors, each.start) for each in found.jobs] == [
        ("20+0", 32, NOW - 1),
        ("20+1,20+2", 64, None),
    ]


def test_a_component_is_told_once() -> None:
    with pytest.raises(InputError, match=r"job '20\+1': is listed twice; each id is expected once"):
        read(part(20, 0, 32), part(20, 1, 8), part(20, 1, 8))
    with pytest.raises(InputError, match="job '20': is listed twice"):
        read(part(20, 0, 32), part(20, 1, 8), job(20, 8))


@pytest.mark.parametrize(
    ("ids", "size"), [("20-21", 2), ("20", 1), ("", 0), (None, 0), (7, 0), ("20-", 0), ("20,22", 2)]
)
def test_sets_of_ids(ids: Any, size: int) -> None:
    assert size_of(ids) == size
