"""A queue as it is forecast: the line, priorities that Slurm tells, tasks of arrays."""

from __future__ import annotations

from typing import Any

import pytest

from qops_batsim.dates import Calendar
from qops_batsim.queue import WEEK, ForecastBasis, QueuedJob, QueueState, queue_starts
from qops_batsim.queue.queue_rows import told_priorities
from qops_batsim.queue.queue_state import line_of
from support.pasts import past

NOW = 4 * WEEK


def waiting(name: str, processors: int = 8, **further: Any) -> QueuedJob:
    told = {"estimate": 3600.0, "submission": NOW - 7200.0}
    return QueuedJob(id=name, processors=processors, **{**told, **further})


def queue(*jobs: QueuedJob) -> QueueState:
    """Return a queue of eight processors, which A uses for an hour from now on."""
    first = QueuedJob(id="A", processors=8, estimate=3600.0, start=NOW)
    return QueueState(source="q", processors=8, now=NOW, jobs=[first, *jobs])


def test_the_line_is_by_priority_then_planned_start_then_submission() -> None:
    jobs = [
        waiting("late"),
        waiting("early", submission=NOW - 9000.0),
        waiting("planned", planned_start=NOW + 60.0),
        waiting("first", priority=2.0),
    ]
    assert [job.id for job in line_of(queue(*jobs))[0]] == ["first", "planned", "early", "late"]


def test_no_more_tasks_of_an_array_stand_in_line_than_may_run() -> None:
    task = {"processors": 1, "array": "7", "at_once": 3}
    running = QueuedJob(id="7_1", start=NOW - 60.0, **task)
    tasks = [waiting(f"7_{number}", **task) for number in (2, 3, 4, 5, 8)]
    line, blocked = line_of(queue(running, *tasks))
    assert [job.id for job in line] == ["7_2", "7_3"]
    assert [(job.id, job.reason) for job in blocked] == [("7_[4-5,8]", "JobArrayTaskLimit")]


WEIGHTS = {"weight_age": 1000.0, "max_age": 72_000.0, "weight_size": 100.0}
NO_OTHERS = {"weight_partition": 0.0, "weight_qos": 0.0, "weight_fairshare": 0.0}


def test_a_told_priority_is_its_age_and_what_does_not_change() -> None:
    """Of 1,000 for 20 h, two hours are 100; of 100 for the whole machine, half of it is 50."""
    jobs = [waiting("a", priority=600.0), waiting("b", 4, priority=250.0)]
    settings = {**WEIGHTS, **NO_OTHERS, "weight_fairshare": 5000.0}
    bases, others = told_priorities(queue(*jobs), settings)
    assert bases == {"a": 500.0, "b": 150.0}
    # Beyond age and size they have 400 and 100.
    assert others == {**WEIGHTS, **NO_OTHERS, "weight_partition": 250.0, "partitions": {}}
    # Where there is nothing else, the others have nothing else.
    assert told_priorities(queue(*jobs), WEIGHTS | NO_OTHERS)[1]["weight_partition"] == 0.0
    assert told_priorities(queue(waiting("a")), settings) == ({}, settings)
    # Without factors, Slurm counts down from 2^32, and others come behind.
    bases, others = told_priorities(queue(waiting("a", priority=2.0**32 - 65_536)), {})
    assert others["weight_partition"] == 1e9 < bases["a"]


@pytest.mark.parametrize("first", ["b", "c"])
def test_slurm_starts_jobs_in_the_order_of_told_priorities(first: str) -> None:
    """The model would have the wide one first, and then the one that waits longer."""
    rows = [(60.0 * n, 60.0 * n, 1800.0, 3600.0, 1) for n in range(30)]
    told = [waiting("b", priority=900.0), waiting("c", 5, submission=NOW - 60.0, priority=500.0)]
    if first == "c":
        told[1] = waiting("c", 5, submission=NOW - 60.0, priority=1000.0)
    settings = {**WEIGHTS, **NO_OTHERS, "bf_interval": 1.0}
    basis = ForecastBasis(past(8, rows), Calendar(0, "UTC"), "slurm", settings)
    found = queue_starts(queue(*told), basis, draws=10)
    planned = {job.id: job.planned for job in found.jobs}
    assert planned[first] == pytest.approx(NOW + 3600.0, abs=1.0)
    assert sorted(planned.values())[1] == pytest.approx(NOW + 7200.0, abs=2.0)
