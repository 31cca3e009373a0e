"""WaitKind for Resources that a plan by processors does not explain: who has no date then."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from qops_batsim.queue import (
    Ask,
    QueueAnswer,
    QueueAsker,
    QueuedJob,
    QueueState,
    queue_starts,
    read_queue,
)
from qops_batsim.queue.unexplained_waits import started_by_easy, without_date
from qops_batsim.slurm.waiting_reasons import WaitKind

NOW = 1_780_000_000


def job(at: int, cpus: int, reason: str = "Priority", **further: Any) -> dict[str, Any]:
    told = {"job_id": at, "job_state": "PENDING", "state_reason": reason, "partition": "gpu"}
    numbers = {"cpus": cpus, "time_limit": 60, "submit_time": NOW - 600, "priority": 100 - at}
    return {**told, **numbers, "start_time": 0, **further}


def runs(at: int, cpus: int, left: int = 1800) -> dict[str, Any]:
    return job(at, cpus, "None", job_state="RUNNING", start_time=NOW - 3600 + left)


def queue(*jobs: dict[str, Any], size: int = 8) -> QueueState:
    text = json.dumps({"meta": {}, "last_update": NOW, "jobs": jobs}).encode()
    return read_queue(text, "queue.json", processors=size)


def answer(state: QueueState, deadline: float | None = None) -> QueueAnswer:
    return QueueAsker(state).ask(Ask(processors=1, time=60.0, deadline=deadline))


def planned(state: QueueState) -> dict[str, float | WaitKind | None]:
    """Return in how many seconds each job starts by limits, or why it has no date."""
    return {
        each.id: each.no_date if each.planned is None else each.planned - state.now
        for each in queue_starts(state).jobs
    }


def test_a_head_that_fits_has_no_date_nor_who_is_behind_it() -> None:
    state = queue(runs(1, 4), job(2, 4, "Resources"), job(3, 4))
    assert planned(state) == {"2": WaitKind.THOUGH_IT_FITS, "3": WaitKind.BEHIND}
    refused = answer(state, 7200.0)
    assert (refused.admitted, refused.start, refused.end, refused.wait) == (False, *[None] * 3)
    assert refused.deadline == NOW + 7200
    assert answer(state).admitted is None
    assert refused.reason.startswith(
        "job 2 (partition gpu) waits for Resources, though it needs 4 processors and 4 are free; "
    )
    (wait,) = QueueAsker(state).unexplained
    assert (wait.job, wait.partition, wait.processors, wait.free) == ("2", "gpu", 4, 4)


def test_a_head_that_does_not_fit_waits_as_planned() -> None:
    """
    4 |1111|2222
    4 |....|2222  3 goes beside 1.
    """
    state = queue(runs(1, 4), job(2, 8, "Resources"), job(3, 4, time_limit=30))
    assert planned(state) == {"2": 1800, "3": 0}
    assert answer(state).reason == ""
    assert answer(state).wait == 1800 + 3600


def test_any_job_that_would_start_though_it_waits_for_resources() -> None:
    """2 does not fit; 3 would, before 2 begins; 4 is behind 3, 2 is not."""
    state = queue(
        runs(1, 4),
        job(2, 8, "Resources"),
        job(3, 2, "Resources", time_limit=20),
        job(4, 1, time_limit=20),
    )
    assert planned(state) == {"2": 1800, "3": WaitKind.THOUGH_IT_FITS, "4": WaitKind.BEHIND}
    assert "job 3 " in answer(state).reason


@pytest.mark.parametrize(
    ("reason", "counts"),
    [
        ("Resources", True),
        ("(Resources)", True),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved", True),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority", True),
        ("Priority", False),
        ("None", False),
        ("", False),
        ("Prolog", False),
        ("Cleaning", False),
        ("Whim", False),
    ],
)
def test_reasons_that_count(reason: str, counts: bool) -> None:
    state = queue(job(2, 4, reason))
    assert planned(state) == {"2": WaitKind.THOUGH_IT_FITS if counts else 0}
    assert bool(answer(state).reason) == counts


@pytest.mark.parametrize("reason", ["BeginTime", "Dependency", "JobHeldUser", "ReqNodeNotAvail"])
def test_jobs_that_cannot_start_are_no_head(reason: str) -> None:
    state = queue(runs(1, 4), job(2, 4, reason), job(3, 8, "Resources"))
    assert planned(state)["3"] == 1800
    assert answer(state).reason == ""


def test_a_wider_machine_than_told_explains_nothing_and_a_smaller_one_does() -> None:
    """As where nodes are away."""
    jobs = runs(1, 4), job(2, 4, "Resources")
    assert planned(queue(*jobs, size=8)) == {"2": WaitKind.THOUGH_IT_FITS}
    assert planned(queue(*jobs, size=7)) == {"2": 1800}


def test_a_head_that_slurm_expects_to_start_later_is_the_head() -> None:
    """Quotes plan first what Slurm expects first: 3 would take what is free before 2 can."""
    state = queue(
        runs(1, 4),
        job(2, 4, "Resources", start_time=NOW + 86_400),
        job(3, 4, start_time=NOW + 1800),
    )
    assert planned(state) == {"2": WaitKind.THOUGH_IT_FITS, "3": WaitKind.BEHIND}
    assert "job 2 " in answer(state).reason


def test_what_only_backfilling_would_start_counts() -> None:
    """If each job has a reservation, 4 waits for the end of 3; EASY starts it now, beside 2.

    2 |44|44|44|44|
    2 |..|22|
    4 |11|22|
    """
    state = queue(
        runs(1, 4),
        job(2, 6, "Resources", time_limit=30),
        job(3, 7, time_limit=30),
        job(4, 2, "Resources", time_limit=300),
    )
    assert planned(state)["4"] is WaitKind.THOUGH_IT_FITS
    assert planned(state)["2"] == 1800
    assert "job 4 " in answer(state).reason


@pytest.mark.parametrize("seed", range(40))
def test_easy_starts_what_the_scheduler_of_this_package_starts(seed: int) -> None:
    rng = random.Random(seed)
    held = [runs(at, rng.randint(1, 3), 60 * rng.randint(1, 50)) for at in range(1, 4)]
    waiting = [job(at, rng.randint(1, 9), time_limit=rng.randint(1, 60)) for at in range(5, 12)]
    state = queue(*held, *waiting, size=10)
    at_once = {each.id for each in queue_starts(state).jobs if each.planned == state.now}
    assert started_by_easy(state) == at_once


def test_easy_starts_no_more_tasks_than_may_run() -> None:
    array = {"array_job_id": 2, "array_task_string": "1-5%2"}
    assert started_by_easy(queue(job(2, 1, **array), job(3, 1))) == {"2_1", "2_2", "3"}


def test_tasks_of_an_array_stand_in_line() -> None:
    array = {"array_job_id": 2, "array_task_string": "1-3%2"}
    state = queue(runs(1, 4), job(2, 1, "Resources", **array), job(3, 1))
    assert planned(state) == {
        "2_1": WaitKind.THOUGH_IT_FITS,
        "2_2": WaitKind.THOUGH_IT_FITS,
        "3": WaitKind.BEHIND,
        "2_[3]": WaitKind.FOR_OTHERS,
    }


def test_a_heterogeneous_job_is_a_head() -> None:
    """Together its components do not fit, each alone would."""
    het = {"het_job_id": 2, "partition": "gpu"}
    parts = [job(2, 3, "Resources", het_job_offset=0, **het)]
    parts.append(job(3, 3, "Resources", het_job_offset=1, **het) | {"priority": 98})
    assert planned(queue(runs(1, 4), *parts)) == {"2": 1800}
    assert planned(queue(runs(1, 2), *parts)) == {"2": WaitKind.THOUGH_IT_FITS}


def test_other_partitions_have_dates() -> None:
    state = queue(
        runs(1, 4),
        job(2, 2, "Resources"),
        job(3, 1, partition="cpu"),
        job(4, 1),
    )
    assert planned(state) == {"2": WaitKind.THOUGH_IT_FITS, "3": 0, "4": WaitKind.BEHIND}


def test_partitions_that_are_known_to_share_their_nodes_are_one() -> None:
    state = queue(runs(1, 4), job(2, 2, "Resources"), job(3, 1, partition="cpu"))
    state = msgspec.structs.replace(state, shares_nodes=True)
    assert planned(state) == {"2": WaitKind.THOUGH_IT_FITS, "3": WaitKind.BEHIND}


@pytest.mark.parametrize(("asleep", "explained"), [(0, False), (1, True), (4, True)])
def test_nodes_that_have_to_be_powered_up_explain_a_wait(asleep: int, explained: bool) -> None:
    """Four of eight processors are free, and some of these asleep."""
    state = queue(runs(1, 4), job(2, 4, "Resources"), job(3, 4))
    state = msgspec.structs.replace(state, asleep=asleep)
    told = (
        {"2": 0, "3": 1800} if explained else {"2": WaitKind.THOUGH_IT_FITS, "3": WaitKind.BEHIND}
    )
    assert planned(state) == told
    assert (answer(state).reason == "") is explained
    # What is awake would be enough.
    state = queue(runs(1, 4), job(2, 2, "Resources"))
    state = msgspec.structs.replace(state, asleep=min(asleep, 2))
    assert planned(state) == {"2": WaitKind.THOUGH_IT_FITS}


def machine(line: list[QueuedJob]) -> QueueState:
    """Return a queue of a machine that is full."""
    full = QueuedJob(id="0", processors=8, start=NOW - 60.0, estimate=3600.0)
    return QueueState(source="queue", processors=8, now=NOW, jobs=[full, *line])


def at_once(line: list[QueuedJob]) -> dict[str, float]:
    return dict.fromkeys((job.id for job in line), 0.0)


def waiting(name: str, partition: str, reason: str = "Priority") -> QueuedJob:
    return QueuedJob(id=name, processors=1, partition=partition, reason=reason)


def test_a_job_of_several_partitions_is_behind_those_of_each() -> None:
    line = [
        waiting("1", "big"),
        waiting("2", "gpu,cpu", "Resources"),
        waiting("3", "cpu,test"),
        waiting("4", "test"),
        waiting("5", "big"),
    ]
    state = machine(line)
    first, why = without_date(state, at_once(line))
    assert [each.job for each in first] == ["2"]
    assert why == {"2": WaitKind.THOUGH_IT_FITS, "3": WaitKind.BEHIND, "4": WaitKind.BEHIND}
    # Where all have the same nodes, one is behind all.
    shared = msgspec.structs.replace(state, shares_nodes=True)
    first, why = without_date(shared, at_once(line))
    assert [each.job for each in first] == ["2"]
    assert set(why) == {"2", "3", "4", "5"}


def test_each_partition_has_its_own_head() -> None:
    line = [
        waiting("1", "gpu", "Resources"),
        waiting("2", "cpu", "Resources"),
        waiting("3", "gpu", "Resources"),
        waiting("4", "cpu", "Resources"),
    ]
    first, why = without_date(machine(line), {**at_once(line), "2": 600.0})
    assert [each.job for each in first] == ["1", "4"]
    assert set(why) == {"1", "3", "4"}


def test_queues_of_other_systems_tell_no_reasons() -> None:
    own = {"processors": 8, "now": NOW, "jobs": [{"id": 1, "processors": 8, "estimate": 60}]}
    state = read_queue(json.dumps(own).encode(), "own.json")
    assert planned(state) == {"1": 0}
    assert answer(state).wait == 60
