"""Wrong calls of a user's scheduler: each is one error that names the job and what is accepted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from qops_batsim import (
    AvailabilityProfile,
    DeadlineScheduler,
    Easy,
    Job,
    QueueScheduler,
    run,
    simulate,
)
from qops_batsim.core import HostSet
from qops_batsim.errors import SimulationError

UNKNOWN = Job("w0!99", 0.0, 1, "delay10")

CALLS: list[tuple[Any, str]] = [
    (
        lambda it, job: it.manager.reject(job, None),
        "reject of w0!1: reason is None; a text or a",
    ),
    (
        lambda it, job: it.manager.reject(job, 5),
        "reject of w0!1: reason is 5 .int.; a text or a Refusal",
    ),
    (lambda it, job: it.manager.reject(None, "no"), "None cannot be rejected at 0 s; a job is"),
    (lambda it, job: it.manager.reject(UNKNOWN, "no"), "job w0!99, .* was not submitted yet"),
    (
        lambda it, job: (it.start(job), it.manager.reject(job, "no")),
        "job w0!1, .* cannot be rejected at 0 s: it runs already",
    ),
    (lambda it, job: it.start(job, [0, 1]), r"start of w0!1: hosts is \[0, 1\] .list.; a HostSet"),
    (
        lambda it, job: it.start(job, "0-1"),
        "start of w0!1: hosts is '0-1' .str.; a HostSet or None",
    ),
    (lambda it, job: it.start(None), "None cannot start at 0 s; a job is expected"),
    (lambda it, job: it.start(job, HostSet.parse("8-9")), "w0!1, .* cannot start on hosts 8-9"),
    (
        lambda it, job: it.start(job, HostSet.parse("0")),
        "w0!1, which asks for 2 .* cannot start on hosts 0 at 0 s: hosts expected: 2, given: 1",
    ),
    (lambda it, job: (it.start(job), it.start(job)), "w0!1, .* cannot start at 0 s: it runs alr"),
    (lambda it, job: it.start(UNKNOWN), "w0!99"),
    (lambda it, job: it.manager.kill(job), "job w0!1, .* cannot be killed at 0 s: it waits"),
    (lambda it, job: it.manager.kill(None), "None cannot be killed at 0 s; a job is expected"),
    (lambda it, job: it.manager.record(None), "None cannot be recorded at 0 s; a job is expected"),
    (lambda it, job: it.manager.hosts_of(None), "None cannot have hosts at 0 s; a job is expected"),
]


class _Calls(QueueScheduler):
    """Does something wrong with the first job."""

    def schedule(self) -> None:
        for job in self.queue:
            self.act(job)

    def act(self, job: Job) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize(("act", "message"), CALLS)
def test_a_wrong_call_is_one_error(act: Any, message: str, kills: bool, tmp_path: Any) -> None:
    # Jobs of one that kills do not run in columns.
    kind = type("Wrong", (_Calls,), {"act": act, "kills": kills})
    with pytest.raises(SimulationError, match=message):
        run(kind, "tiny_8", out=tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_the_expected_end_of_no_job_is_one_error() -> None:
    kind = type("Wrong", (Easy,), {"schedule": lambda it: it.expected_end(None)})
    with pytest.raises(SimulationError, match="None cannot be expected to end at 0 s; a job is"):
        simulate(kind, "tiny_8")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda it, job: it.adopt_starts({job: "now"}), "start of w0!1 is 'now' .str.; a number"),
        (
            lambda it, job: it.adopt_starts({job: None}),
            "start of w0!1 is None; a num",
        ),
        (lambda it, job: it.adopt_starts({}), "planned no start from which the job ends by inf s"),
        (lambda it, job: {job.id: 0.0}, "says why the job is refused is expected, or None after"),
    ],
)
def test_a_wrong_answer_about_a_deadline_is_one_error(answer: Any, message: str) -> None:
    kind = type("Wrong", (DeadlineScheduler,), {"admit": answer})
    with pytest.raises(SimulationError, match=message):
        simulate(kind, "tiny_8")


@pytest.mark.parametrize("processors", [2.5, 2.0, "2", None])
@pytest.mark.parametrize("method", ["earliest_fit", "reserve", "release"])
def test_processors_are_whole(method: str, processors: Any) -> None:
    with pytest.raises(SimulationError, match="processors is .*; a whole number is expected"):
        getattr(AvailabilityProfile(4), method)(0, 10, processors)


@pytest.mark.parametrize("dates", [(None, 10), (0, None), ("0", 10), (0, "1")])
def test_dates_are_numbers(dates: Any) -> None:
    with pytest.raises(SimulationError, match="(start|duration) is .*; a number of seconds is"):
        AvailabilityProfile(4).reserve(*dates, 1)


def test_what_is_not_free_is_an_error_of_the_scheduler() -> None:
    with pytest.raises(SimulationError, match="5 processors cannot be reserved: 4 are free at 0 s"):
        AvailabilityProfile(4).reserve(0, 10, 5)


@pytest.mark.parametrize("dates", [(math.nan, 10), (0, math.nan)])
@pytest.mark.parametrize("method", ["earliest_fit", "reserve", "release"])
def test_no_date_is_nan(method: str, dates: Any) -> None:
    with pytest.raises(SimulationError, match="(after|start|duration) is nan; a number of seconds"):
        getattr(AvailabilityProfile(4), method)(*dates, 1)


def test_processors_are_not_negative() -> None:
    with pytest.raises(SimulationError, match="processors is -1; a whole number from 0 on is"):
        AvailabilityProfile(-1)
    with pytest.raises(SimulationError, match="processors is -2; a whole number from 0 on is"):
        AvailabilityProfile(4).reserve(0, 10, -2)
