"""Deadline schedulers of one's own: runs, decision log, quotes and explanations, bad answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import (
    DeadlineScheduler,
    Job,
    QosRequest,
    check_scheduler,
    explain,
    quote,
    read_run,
    run,
    simulate,
    verify,
)
from qops_batsim.advice import Explanation, PriceList
from qops_batsim.core.decision_events import Refused
from qops_batsim.errors import SimulationError
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import read_history
from qops_batsim.workload import Workload, delay_profile

APPENDING = '''
from qops_batsim import DeadlineScheduler


class Appending(DeadlineScheduler):
    """Plans a new job behind what is planned; refuses it if it would be late."""

    summary = "deadline admission without moving any job"

    def admit(self, job):
        free, starts = self.availability(), {}
        for planned in self.plan.waiting:
            starts[planned] = planned.start
            free.reserve(planned.start, planned.duration, planned.processors)
        start = free.earliest_fit(self.now, job.duration, job.processors)
        if start + job.duration > job.target:
            return f"could end at {start + job.duration:g} s at the earliest"
        self.adopt_starts({**starts, job: start})
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


def test_quotes_and_explanations_answer_for_it(appending: str, tmp_path: Path) -> None:
    run(appending, "sdsc_sp2_deadlines_500", out=tmp_path / "run")
    history = read_history(tmp_path / "run")
    refused = [event for event in history.events if isinstance(event, Refused)]
    story = explain(tmp_path / "run", refused[0].job, PriceList(None, ""))
    assert isinstance(story, Explanation)
    assert (story.outcome, story.reason) == ("refused", refused[0].reason)
    # Asked about the earliest deadline, it answers as it did about this one.
    earliest = float(refused[0].reason.split()[3])
    assert story.earliest is not None
    assert abs(story.earliest.deadline - earliest) <= 1
    quoted = quote(
        tmp_path / "run", 86_400.0, processors=8, run_time=3600.0, deadline=900.0,
        prices=PriceList(None, ""),
    )  # fmt: skip
    assert not quoted.admitted
    assert quoted.reason == "needs 3600 s and its deadline is 900 s away"


class Answering(DeadlineScheduler):
    """Answers as it is told, and has the first job start at once."""

    summary = "for tests"

    def __init__(self, answer: Mapping[str, float] | str) -> None:
        super().__init__()
        self.given = answer
        self.asked: list[tuple[float, str, float, list[str], list[Any]]] = []

    def admit(self, job: Job) -> str | None:
        waiting = [each.id for each in self.plan.waiting]
        self.asked.append((self.now, job.id, job.target, waiting, self.availability().steps()))
        if job.id == "w0!A":
            self.adopt_starts({job: 0.0})
        elif isinstance(self.given, str):
            return self.given
        else:
            known = {each.id: each for each in [*self.plan.waiting, job, OTHER]}
            self.adopt_starts({known[name]: start for name, start in self.given.items()})
        return None


OTHER = Job("w0!X", 0.0, 1, "p")


def test_what_a_scheduler_is_asked_with() -> None:
    scheduler = Answering({"w0!B": 4.0})
    module = make_scheduler(scheduler)
    simulate(module, workload_of(("A", 0, 2, 4, 4), ("B", 1, 1, 2, 6)), make_cluster(2))
    assert scheduler.asked == [
        (0, "w0!A", 4, [], [(0, 2)]),
        (1, "w0!B", 6, [], [(1, 0), (4, 2)]),
    ]
    assert module.qos_log.record("w0!B").admitted_deadline == 6


def test_a_refusal_is_in_the_log() -> None:
    module = make_scheduler(Answering("not today"))
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
        ({"w0!B": 4.0, "w0!X": 9.0}, "not just .* not expected: w0!X"),
        ({"w0!B": 2.0}, "w0!B a start at 2 s, where fewer processors are free than the 1 that"),
        (
            {"w0!B": 5.0},
            "w0!B a start at 5 s; a start at 1 s or later, from which the job ends by 6 s",
        ),
        ({"w0!B": 0.0}, "w0!B a start at 0 s; a start at 1 s or later"),
        ({"w0!B": math.nan}, "w0!B a start at nan s; a start at 1 s or later"),
    ],
)
def test_an_impossible_answer_is_an_error(answer: dict[str, float], message: str) -> None:
    with pytest.raises(SimulationError, match=f"Answering at 1 s gave .*{message}"):
        simulate(Answering(answer), DRAWN, make_cluster(2))


def test_an_admission_without_a_plan_is_an_error() -> None:
    with pytest.raises(SimulationError, match="w0!B"):
        simulate(Answering({}), DRAWN, make_cluster(2))


def test_to_ask_the_base_class_without_a_search_is_an_error() -> None:
    """Compiled, it once went from ``admit`` to the search that tries ``admit``, and so on."""

    class Asking(DeadlineScheduler):
        def admit(self, job: Job) -> object:
            return super().admit(job)

    with pytest.raises(SimulationError, match="Asking has neither admit nor try_admission"):
        simulate(Asking, DRAWN, make_cluster(2))
