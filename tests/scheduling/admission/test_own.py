"""Deadline schedulers of one's own: runs, decision log, quotes and explanations, bad answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from qops_batsim.analysis.results.run import read_run
from qops_batsim.analysis.verify.verifier import verify
from qops_batsim.errors import SimulationError
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.contract import check_scheduler
from qops_batsim.running.run import run
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.admission.own import DeadlineScheduler
from qops_batsim.scheduling.admission.request import AdmissionRequest
from qops_batsim.workload.model import Workload, delay_profile

APPENDING = '''
from qops_batsim.scheduling.admission.own import DeadlineScheduler


class Appending(DeadlineScheduler):
    """Plans a new job behind what is planned; refuses it if it would be late."""

    summary = "deadline admission without moving any job"

    def admit(self, request):
        free, job = request.availability, request.job
        starts = {}
        for planned in request.waiting:
            starts[planned.job.id] = planned.start
            free.reserve(planned.start, planned.job.estimate, planned.job.processors)
        start = free.earliest_fit(request.now, job.estimate, job.processors)
        if start + job.estimate > request.target:
            return f"could end at {start + job.estimate:g} s at the earliest"
        return {**starts, job.id: start}
'''


@pytest.fixture
def appending(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(APPENDING)
    return f"{tmp_path / 'mine.py'}:Appending"


# Two processors.
#
#   |AAAABB    C (2 processors for 2 s, at 1, by 7) could end at 8 at the earliest.
#   |AAAA
#    0   4 6
def workload_of(*jobs: tuple[str, float, int, float, float | None]) -> Workload:
    made, profiles = [], {}
    for name, date, processors, estimate, deadline in jobs:
        profile, profiles[profile] = delay_profile(estimate)
        qos = QosRequest(deadline=deadline, estimated_runtime=estimate)
        made.append(Job(name, date, processors, profile, qos=qos))
    return Workload(jobs=made, profiles=profiles, processors=2)


DRAWN = workload_of(("A", 0, 2, 4, 4), ("B", 1, 1, 2, 6), ("C", 1, 2, 2, 7))


def test_it_runs_by_its_own_search(appending: str, tmp_path: Path) -> None:
    done = run(appending, "sdsc_sp2_deadlines_500", out=tmp_path / "run")
    assert done.violations == []
    check_scheduler(appending)
    assert verify(read_run(tmp_path / "run")) == []
    refused = (tmp_path / "run_qos.csv").read_text().count("at the earliest")
    assert 5 < refused < 400


class Answering(DeadlineScheduler):
    """Answers as it is told, and otherwise that every job waits for ever."""

    summary = "for tests"

    def __init__(self, answer: Mapping[str, float] | str) -> None:
        super().__init__()
        self.answer = answer
        self.requests: list[AdmissionRequest] = []

    def admit(self, request: AdmissionRequest) -> Mapping[str, float] | str:
        self.requests.append(request)
        if request.job.id == "w0!A":
            return {"w0!A": 0.0}
        return self.answer


def test_a_request_tells_what_is_planned() -> None:
    module = Answering({"w0!B": 4.0})
    simulate(module, workload_of(("A", 0, 2, 4, 4), ("B", 1, 1, 2, 6)), make_cluster(2))
    first, second = module.requests
    assert (first.now, first.target, first.waiting) == (0, 4, [])
    assert (second.job.id, second.target) == ("w0!B", 6)
    assert second.availability.steps() == [(1, 0), (4, 2)]
    assert module.qos_log.record("w0!B").admitted_deadline == 6


def test_a_refusal_is_in_the_log() -> None:
    module = Answering("not today")
    simulate(module, DRAWN, make_cluster(2))
    assert module.qos_log.record("w0!B").reason == "not today"
    assert module.qos_log.decisions() == {
        "w0!A": "accepted",
        "w0!B": "rejected",
        "w0!C": "rejected",
    }


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, r"not just the waiting jobs and the new one \(differs: w0!B\)"),
        ({"w0!B": 4.0, "w0!X": 9.0}, r"not just .* \(differs: w0!X\)"),
        ({"w0!B": 2.0}, "w0!B at 2 s: 1 processors are not free at 1 s: only 0 are"),
        ({"w0!B": 5.0}, "w0!B at 5 s; one from 1 s on, with which it ends by 6 s, is expected"),
        ({"w0!B": 0.0}, "w0!B at 0 s; one from 1 s on"),
        ({"w0!B": math.nan}, "w0!B at nan s; one from 1 s on"),
    ],
)
def test_an_impossible_answer_is_an_error(answer: dict[str, float], message: str) -> None:
    with pytest.raises(SimulationError, match=f"Answering.admit at 1 s, asked about .*{message}"):
        simulate(Answering(answer), DRAWN, make_cluster(2))
