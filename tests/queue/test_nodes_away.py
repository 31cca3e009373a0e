"""A queue without the nodes that are away, by hand: four nodes of eight processors.

Gantt of the first test (hours from now; D: drained, and not given again):

    n1   B  B  .            W needs three nodes: n1 is free after two hours.
    n2   .  .  W
    n3   .  .  W
    n4   A  D  D
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.dates import Calendar
from qops_batsim.queue import (
    WEEK,
    Ask,
    ForecastBasis,
    QueueAsker,
    QueueSource,
    QueueState,
    queue_starts,
)
from qops_batsim.queue.queue_state import line_of
from qops_batsim.slurm.nodes import nodes_of
from support.pasts import past

NOW = 1_780_000_000
H = 3600


def nodes(*last: str, busy: int = 0, resume: int | None = None) -> str:
    """Return four nodes as scontrol lists them, the last of them in these states."""
    states = [*["MIXED"] * (4 - len(last)), *last]
    texts = []
    for at, state in enumerate(states, 1):
        text = f"NodeName=n{at} CPUAlloc={busy} CPUTot=8\n   Gres=(null)\n   State={state}\n"
        text += "   Partitions=cpu\n"
        if resume is not None:
            text += f"   LastBusyTime=None ResumeAfterTime={NOW + resume}\n"
        texts.append(text)
    return "\n".join(texts)


def running(at: int, hours: float, cpus: int = 8, where: str = "", **further: Any) -> Any:
    limit = int(hours * 60) + 60
    told = {"job_id": at, "job_state": ["RUNNING"], "cpus": cpus, "time_limit": limit}
    dates = {"start_time": NOW - H, "end_time": int(NOW + hours * H), "submit_time": NOW - 2 * H}
    return told | dates | {"partition": "cpu", "nodes": where} | further


def waiting(at: int, cpus: int, **further: Any) -> Any:
    told = {"job_id": at, "job_state": ["PENDING"], "cpus": cpus, "time_limit": 60}
    told |= {"submit_time": NOW - 60, "state_reason": "Resources", "partition": "cpu"}
    return told | {"priority": 1000 - at} | further


def state_of(text: str, *jobs: Any, **further: Any) -> QueueState:
    data = {"meta": {}, "errors": [], "last_update": NOW, "jobs": jobs}
    source = QueueSource(Path("q.json"), nodes=nodes_of(text, "nodes"), now=NOW, **further)
    return source.read(json.dumps(data).encode(), "q.json")


def wait(state: QueueState, processors: int) -> float | None:
    """Return for how many hours a new job of an hour waits in the plan by limits."""
    found = QueueAsker(state).ask(Ask(processors=processors, time=H)).wait
    return None if found is None else round(found / H, 3)


def test_processors_of_a_drained_node_are_not_given_again() -> None:
    jobs = [running(1, 1, where="n4"), running(2, 2, where="n1")]
    found = state_of(nodes("ALLOCATED+DRAIN", busy=8), *jobs)
    assert (found.processors, found.away, found.machine) == (24, 8, 32)
    assert found.left_out == {"nodes away (DRAIN), with 8 processors": 1}
    assert [wait(found, size) for size in (16, 17, 24)] == [0, 2, 2]
    asker = QueueAsker(found)
    assert (asker.state.count_running(), asker.state.free) == (2, 16)
    with pytest.raises(InputError, match="1 to 24, the machine's 32 without the nodes that"):
        wait(found, 25)


@pytest.mark.parametrize(
    ("last", "left"),
    [
        (("IDLE+DRAIN",), 24),
        (("IDLE+MAINTENANCE+RESERVED", "DOWN*"), 16),
        (("IDLE+NOT_RESPONDING", "FUTURE", "ERROR"), 8),
        (("IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"), 32),
        (("IDLE+PLANNED",), 32),
    ],
)
def test_idle_nodes_are_away_or_there(last: tuple[str, ...], left: int) -> None:
    found = state_of(nodes(*last), running(1, 1, cpus=8))
    assert (found.processors, found.away) == (left, 32 - left)
    assert wait(found, left) == 1
    assert left == 8 or wait(found, left - 8) == 0


def test_jobs_that_are_wider_than_what_is_left_have_no_date() -> None:
    found = state_of(nodes("DOWN"), waiting(1, 25), waiting(2, 24), waiting(3, 33))
    assert [job.id for job in found.jobs] == ["2"]
    told = {job.id: (job.reason, job.meaning.waits, job.meaning.cause) for job in found.blocked}
    cannot = "cannot start until something changes"
    assert told == {
        "3": ("wider than the machine", cannot, "resources"),
        "1": ("wider than the nodes that are not away", cannot, "nodes"),
    }
    assert found.not_planned() == {
        "nodes away (DOWN), with 8 processors": 1,
        "wider than the machine": 1,
        "wider than the nodes that are not away": 1,
    }
    with pytest.raises(InputError, match=r"none of the 32 processors .*4 nodes away \(DOWN\)"):
        state_of(nodes(*["DOWN"] * 4), waiting(1, 1))


def test_nodes_whose_return_is_known_come_back() -> None:
    """n4 is back after an hour, and no job is wider than the machine of then."""
    found = state_of(nodes("DOWN", resume=H), running(1, 2, where="n1"), waiting(2, 32))
    assert (found.processors, found.away, len(found.closed)) == (32, 0, 1)
    ((told, count),) = found.left_out.items()
    assert told.startswith("nodes away (DOWN until 20")
    assert count == 1
    assert [job.id for job in found.blocked] == []
    # From 2 h to 3 h job 2 has all, so that 25 are free from then on only.
    assert [wait(found, size) for size in (16, 17, 24, 25)] == [0, 1, 1, 3]
    alone = state_of(nodes("DOWN", resume=H), running(1, 2, where="n1"))
    assert [wait(alone, size) for size in (16, 17, 24, 32)] == [0, 1, 1, 2]
    late = state_of(nodes("DOWN", resume=-H))
    assert (late.processors, late.closed) == (24, [])
    asker = QueueAsker(alone)
    assert (asker.state.count_running(), asker.state.free) == (1, 16)


def test_what_runs_on_a_node_may_end_before_or_after_it_is_back() -> None:
    """A job until 0.5 h leaves nothing before the node is back at 1 h, one until 3 h keeps it."""
    for hours, expected in ((0.5, 1), (3, 3)):
        jobs = [running(1, hours, where="n4")]
        found = state_of(nodes("ALLOCATED+DRAIN", busy=8, resume=H), *jobs)
        assert [wait(found, size) for size in (24, 25, 32)] == [0, expected, expected]


def test_a_job_on_nodes_that_are_away_and_on_others_has_equal_parts() -> None:
    found = state_of(nodes("MIXED+DRAIN", busy=4), running(1, 1, cpus=16, where="n[3-4]"))
    assert [job.processors for job in found.jobs] == [8]
    assert [wait(found, size) for size in (16, 17, 24)] == [0, 1, 1]
    said = "run on nodes that are away and on others, and are taken to have equal parts of each"
    assert found.unsure == {said: 1}


def test_where_jobs_run_need_not_be_told() -> None:
    """Eight processors of n4 are in use, by the job that ends first; more, if else none fits."""
    jobs = [running(1, 1), running(2, 2)]
    found = state_of(nodes("ALLOCATED+DRAIN", busy=8), *jobs)
    assert [job.id for job in found.jobs] == ["2"]
    assert [wait(found, size) for size in (16, 24)] == [0, 2]
    assert list(found.unsure.values()) == [8]
    full = [running(at, at) for at in (1, 2, 3, 4)]
    table = "PARTITION|CPUS|GRES|STATE|NODELIST\ncpu|8|(null)|alloc|n[1-3]\ncpu|8|(null)|drng|n4\n"
    found = state_of(table, *full)
    assert [job.id for job in found.jobs] == ["2", "3", "4"]
    assert wait(found, 8) == 2
    where = [running(at, at, where=f"n{at}") for at in (1, 2, 3)] + [running(4, 4, where="n1")]
    with pytest.raises(InputError, match="use 32 processors beside the nodes that are away"):
        state_of(table, *where)


def test_tasks_on_nodes_that_are_away_count_as_running() -> None:
    """Of an array, two tasks may run: one does, on a drained node."""
    array = {"array_job_id": 7, "array_max_tasks": 2}
    jobs = [
        running(8, 2, where="n4", array_task_id=1, **array),
        waiting(9, 8, array_task_string="2-4", state_reason="Priority", **array),
    ]
    found = state_of(nodes("ALLOCATED+DRAIN", busy=8), *jobs)
    assert [job.id for job in found.apart] == ["7_1"]
    assert [job.id for job in line_of(found)[0]] == ["7_2"]
    # One after the other: 0 to 1 h, 1 to 2 h; two at once only from 2 h on.
    assert wait(found, 24) == 3


def test_reserved_nodes_are_there_if_jobs_of_reservations_count() -> None:
    text = nodes("IDLE+RESERVED")
    assert state_of(text).away == 8
    assert state_of(text, selection={"reservation": ("all",)}).away == 0


def basis() -> ForecastBasis:
    return ForecastBasis(past(32, [(0.0, 0.0, 1800.0, 3600.0, 1)]), Calendar(NOW - 4 * WEEK, "UTC"))


def test_a_forecast_knows_when_nodes_are_back() -> None:
    """Nothing else is in the way: all draws start job 2 at that moment."""
    found = state_of(
        nodes("DOWN", resume=H), waiting(2, 32), waiting(3, 1, state_reason="Priority")
    )
    told = queue_starts(found, basis(), draws=20)
    assert (told.running, told.processors) == (0, 32)
    wide, small = told.jobs
    assert {wide.planned, wide.early, wide.median, wide.late} == {NOW + H}
    assert small.planned == NOW


def test_a_forecast_tells_no_date_for_what_is_too_wide_now() -> None:
    found = state_of(nodes("IDLE+DRAIN"), running(1, 1, where="n1"), waiting(2, 24), waiting(3, 25))
    told = queue_starts(found, basis(), draws=20)
    assert told.left_out == {"nodes away (DRAIN), with 8 processors": 1}
    second, third = told.jobs
    assert (second.planned, second.no_date) == (NOW + H, None)
    assert (third.planned, third.median) == (None, None)
    assert (third.reason, third.waits_for) == ("wider than the nodes that are not away", "nodes")


SINFO = "NODELIST|PARTITION|CPUS|GRES|STATE\nn[1-2]|cpu|8|(null)|allocated\n"


@pytest.mark.parametrize("state", ["mixed", "allocated", "reserved"])
def test_a_node_on_which_jobs_of_a_reservation_run_is_reserved(state: str) -> None:
    """n3 (24 of 32 processors are left) is used by a job of half of it inside a reservation, which
    sinfo tells only of idle nodes: a job of 8 got the other half's date, now.
    """
    text = SINFO + f"n3|cpu|8|(null)|{state}\nn4|cpu|8|(null)|idle\n"
    inside = running(1, 9, 4, where="n3", resv_name="course")
    jobs = [running(2, 1, 16, where="n[1-2]"), inside]
    found = state_of(text, *jobs)
    assert found.left_out == {"nodes away (RESERVED), with 8 processors": 1}
    assert [wait(found, size) for size in (8, 9, 24)] == [0, 1, 1]
    assert [job.id for job in found.apart] == ["1"]


def test_a_running_job_inside_a_reservation_holds_its_processors() -> None:
    """Of a FLEX reservation jobs run on other nodes too (n3), of which scontrol tells the state;
    without a list of nodes nobody knows where the reservation is.
    """
    inside = running(1, 2, 8, where="n3", resv_name="course")
    others = [running(2, 1, 16, where="n[1-2]"), waiting(9, 8, resv_name="course")]
    found = state_of(nodes("IDLE"), inside, *others, selection={"reservation": []})
    assert found.left_out == {"inside a reservation (--reservation takes them)": 1}
    assert [wait(found, size) for size in (8, 24, 32)] == [0, 1, 2]

    everyone = {"partition": ["cpu"], "reservation": []}
    data = {"meta": {}, "errors": [], "last_update": NOW, "jobs": [inside, *others]}
    source = QueueSource(Path("q.json"), machine=32, now=NOW, selection=everyone)
    alone = source.read(json.dumps(data).encode(), "q.json")
    assert [wait(alone, size) for size in (8, 24, 32)] == [0, 1, 2]
    chosen = {"partition": ["cpu"], "reservation": ["other"]}
    source = QueueSource(Path("q.json"), machine=32, now=NOW, selection=chosen)
    assert not source.read(json.dumps(data).encode(), "q.json").jobs
