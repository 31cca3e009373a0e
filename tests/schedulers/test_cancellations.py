"""Users who cancel waiting jobs (``Remove`` of Talby and Feitelson 1999), by drawn schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import InputError, Job, QosRequest, Scheduler, explain, run, simulate
from qops_batsim.advice import Explanation
from qops_batsim.core import HostSet, ResourceManager
from qops_batsim.engine import ExternalEvent, read_external_events
from qops_batsim.errors import SimulationError
from qops_batsim.jobs import REJECTED
from qops_batsim.measures import run_measures
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import Run
from qops_batsim.workload import Workload, delay_profile

PLANNERS = ["conservative", "slack", "qops", "msb", "mrt", "fqops"]
every_scheduler = pytest.mark.parametrize(
    "scheduler", ["fcfs", "easy", "nqs", "priced-queues", "slurm", *PLANNERS]
)

Row = tuple[float, int, float, float]
"""Submission, processors, run time, deadline."""


def jobs_of(*rows: Row) -> Workload:
    profiles, jobs = {}, []
    for name, (submission, processors, run_time, deadline) in zip("ABCDE", rows, strict=False):
        profile, content = delay_profile(run_time)
        profiles[profile] = content
        qos = QosRequest(estimated_runtime=run_time, deadline=deadline)
        jobs.append(Job(name, submission, processors, profile, qos=qos))
    return Workload(jobs=jobs, profiles=profiles, processors=4)


def cancelled(*lines: tuple[float, str]) -> tuple[ExternalEvent, ...]:
    kind = "job_cancelled"
    return tuple(
        ExternalEvent(
            float(date), kind, HostSet(), {"timestamp": date, "type": kind, "job_id": f"w0!{job}"}
        )
        for date, job in lines
    )


def outcome(
    scheduler: str, workload: Workload, *lines: tuple[float, str]
) -> dict[str, float | str]:
    """Return the start of each job, or why it was rejected."""
    # Without slack, jobs stay in the order of their arrival.
    module = make_scheduler(scheduler, {"slack_factor": 0.0} if scheduler == "slack" else {})
    done = simulate(module, workload, make_cluster(4), events=cancelled(*lines))
    return {
        record.local_id: module.qos_log.record(record.job.id).reason
        if record.state == REJECTED
        else record.start
        for record in done.ended
    }


GONE = "its user cancelled it"

# Four processors, of which every job needs all.
#
#   planned         |AAAAAAAAAABBBBBCCCCCCCC
#   B goes at 5     |AAAAAAAAAACCCCCCCC
#                    0    5    10   15
THREE = jobs_of((0, 4, 10, 10), (1, 4, 5, 30), (2, 4, 8, 40))


@every_scheduler
def test_a_cancelled_job_leaves_the_queue_and_others_move_up(scheduler: str) -> None:
    assert outcome(scheduler, THREE) == {"A": 0, "B": 10, "C": 15}
    assert outcome(scheduler, THREE, (5, "B")) == {"A": 0, "B": GONE, "C": 10}
    assert outcome(scheduler, THREE, (5, "C")) == {"A": 0, "B": 10, "C": GONE}
    # Both, one of them twice.
    all_gone = outcome(scheduler, THREE, (5, "C"), (6, "B"), (7, "C"))
    assert all_gone == {"A": 0, "B": GONE, "C": GONE}


@every_scheduler
def test_what_runs_has_ended_or_was_not_submitted_cannot_be_cancelled(scheduler: str) -> None:
    lines = [(0.5, "B"), (3, "A"), (10, "A"), (12, "B")]
    assert outcome(scheduler, THREE, *lines) == {"A": 0, "B": 10, "C": 15}


@every_scheduler
def test_a_job_may_be_cancelled_as_it_is_submitted(scheduler: str) -> None:
    assert outcome(scheduler, THREE, (1, "B")) == {"A": 0, "B": GONE, "C": 10}


# D asks at 6 and has to end by 25: behind B and C it would end at 30.
@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
def test_the_place_of_a_cancelled_job_can_be_promised(scheduler: str) -> None:
    rows = [(0, 4, 10, 10), (1, 4, 5, 15), (2, 4, 5, 20), (6, 4, 10, 25)]
    refused = outcome(scheduler, jobs_of(*rows))["D"]
    assert isinstance(refused, str)
    assert "would be missed" in refused
    found = outcome(scheduler, jobs_of(*rows), (5, "B"))
    assert found == {"A": 0, "B": GONE, "C": 10, "D": 15}


# A is killed at 2 for B, and waits again as A#1 until 10.
#
#   |AABBBBBBBBAAAAA...
#    0 2       10
def test_the_work_of_a_killed_job_can_be_cancelled() -> None:
    workload = jobs_of((0, 4, 20, 90), (2, 4, 8, 10))
    settings = {"kill_and_restart": True}
    started = simulate(make_scheduler("fqops", settings), workload, make_cluster(4))
    assert [each.job.id for each in started.ended] == ["w0!A", "w0!B", "w0!A#1"]
    module = make_scheduler("fqops", settings)
    done = simulate(module, workload, make_cluster(4), events=cancelled((2, "A"), (4, "A")))
    assert [(each.job.id, each.state == REJECTED) for each in done.ended] == [
        ("w0!A", False),
        ("w0!A#1", True),
        ("w0!B", False),
    ]
    assert module.qos_log.record("w0!A").reason == GONE


def test_schedulers_that_cannot_take_jobs_out_say_so() -> None:
    class Fifo(Scheduler):
        def begin(self, manager: ResourceManager) -> None:
            super().begin(manager)
            self.queue: list[Job] = []

        def submitted(self, job: Job) -> None:
            self.queue.append(job)

        def decide(self) -> None:
            while self.queue and self.queue[0].processors <= self.manager.free:
                self.manager.start(self.queue.pop(0))

    with pytest.raises(SimulationError, match="w0!B was cancelled by its user, but scheduler Fifo"):
        simulate(Fifo(), THREE, make_cluster(4), events=cancelled((5, "B")))
    with pytest.raises(SimulationError, match="w0!B was cancelled by its user, but scheduler A"):
        simulate("aroma", THREE, make_cluster(4), events=cancelled((5, "B")))


def test_files_tell_who_was_cancelled(tmp_path: Path) -> None:
    done = run("qops", THREE, events=cancelled((5, "B")), out=tmp_path / "run")
    assert done.violations == []
    assert done.result.cancellations == {"w0!B": 5.0}
    assert done.result.cancelled == {"w0!B"}
    found = values_of(done)
    assert (found["jobs_submitted"], found["jobs_rejected"], found["jobs_cancelled"]) == (3, 0, 1)
    asked = found["deadlines"]
    assert (asked["asked"]["jobs"], asked["refused"]["jobs"], asked["kept"]["jobs"]) == (2, 0, 2)
    told = explain(done, "B")
    assert isinstance(told, Explanation)
    assert told.was_cancelled
    (moved,) = explain(done, "C").promises[1:]
    assert (moved.cause, moved.by, moved.start) == ("cancelled", ["w0!B"], 10.0)
    assert "jobs_cancelled" not in values_of(run("qops", THREE, out=tmp_path / "all"))


def values_of(done: Run) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(run_measures(done.result, {"w0": THREE}))
    return found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"timestamp": 5, "type": "job_cancelled"}', "line 1: job_id is None; the full id"),
        ('{"timestamp": 5, "type": "job_canceled", "job_id": "w0!B"}', "did you mean 'job_canc"),
        ('{"timestamp": 5, "type": "job_cancelled", "job_id": "B"}', "job_id is 'B'; the full id"),
    ],
)
def test_wrong_cancellations_are_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "events.txt"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        simulate("easy", THREE, make_cluster(4), events=path)


def test_cancellations_need_no_further_option(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    path.write_text('{"timestamp": 5, "type": "job_cancelled", "job_id": "w0!B"}\n')
    (event,) = read_external_events(path)
    assert (event.timestamp, event.type, event.fields["job_id"]) == (5.0, "job_cancelled", "w0!B")
