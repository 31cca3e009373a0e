"""The loop of events: order, invalid calls, waits and free hosts."""

from __future__ import annotations

import math
import random
from array import array
from typing import Any

import pytest

from qops_batsim import Easy, Job, Scheduler
from qops_batsim.core import OVER, RUNNING, WAITING, HostSet, ResourceManager
from qops_batsim.core.host_bits import HostBits
from qops_batsim.engine.loop import SchedulerLoop, Submissions
from qops_batsim.engine.wait_heap import CALL, Heap
from qops_batsim.errors import SimulationError


class NoFields:
    def fields_of(self, job_id: str) -> dict[str, Any]:
        return {"id": job_id}


def new_loop(scheduler: Scheduler, hosts: int, *jobs: tuple[float, int, float]) -> SchedulerLoop:
    """Return the loop of jobs: date of submission, processors, run time (seconds)."""
    ids, names = [str(each) for each in range(len(jobs))], ["p"] * len(jobs)
    dates, processors = (
        array("d", [each[0] for each in jobs]),
        array("q", [each[1] for each in jobs]),
    )
    limits, profiles = array("d", [1000.0] * len(jobs)), array("q", range(len(jobs)))
    submissions = Submissions(
        "w0", ids, None, names, profiles, dates, processors, limits, NoFields()
    )
    return SchedulerLoop(scheduler, hosts, submissions, array("d", [each[2] for each in jobs]))


class Told(Scheduler):
    """Write down what is told; start each job when it is submitted."""

    def begin(self, manager: ResourceManager) -> None:
        Scheduler.begin(self, manager)
        self.told: list[Any] = []
        self.waiting: list[Job] = []

    def submitted(self, job: Job) -> None:
        self.told.append((self.manager.now, "submitted", job.id))
        self.waiting.append(job)

    def ended(self, job: Job) -> None:
        self.told.append((self.manager.now, "ended", job.id))
        assert job.phase == OVER

    def decide(self) -> None:
        self.told.append((self.manager.now, "decide", self.manager.free))
        for job in self.waiting:
            assert job.phase == WAITING
            self.manager.start(job)
            assert job.phase == RUNNING
        self.waiting.clear()


def run(scheduler: Scheduler, hosts: int, *jobs: tuple[float, int, float]) -> SchedulerLoop:
    loop = new_loop(scheduler, hosts, *jobs)
    loop.run(lambda ended: None)
    return loop


class Sharing(Told):
    """Say that hosts are shared, which the engine does not."""

    def begin(self, manager: ResourceManager) -> None:
        Told.begin(self, manager)
        manager.shares_hosts = True


@pytest.mark.parametrize("hosts", [4, 64])
def test_more_hosts_than_are_free_are_not_given(hosts: int) -> None:
    with pytest.raises(SimulationError, match="w0!1"):
        run(Sharing(), hosts, (0.0, hosts, 10.0), (5.0, hosts, 5.0))


def test_events_of_a_date_are_one_message_in_the_order_in_which_the_waits_began() -> None:
    scheduler = Told()
    loop = run(scheduler, 4, (0.0, 1, 10.0), (5.0, 2, 5.0), (10.0, 1, 1.0))
    assert scheduler.told == [
        (0.0, "submitted", "w0!0"), (0.0, "decide", 4),
        (5.0, "submitted", "w0!1"), (5.0, "decide", 3),
        # The wait of the submitter for 10 s began after that for the end of the first job, and
        # before that for the second.
        (10.0, "ended", "w0!0"), (10.0, "submitted", "w0!2"), (10.0, "ended", "w0!1"),
        (10.0, "decide", 4),
        (11.0, "ended", "w0!2"), (11.0, "decide", 4),
    ]  # fmt: skip
    assert list(loop.ended[: loop.ended_count]) == [0, 1, 2]
    assert list(loop.starts) == [0.0, 5.0, 10.0]
    assert list(loop.finishes) == [10.0, 10.0, 11.0]


def test_that_no_more_jobs_come_is_a_message_of_its_own() -> None:
    scheduler = Told()
    run(scheduler, 1, (3.0, 1, 2.0))
    assert [each for each in scheduler.told if each[1] == "decide"] == [
        (3.0, "decide", 1), (3.0, "decide", 0), (5.0, "decide", 1)
    ]  # fmt: skip


class Caller(Told):
    """Ask to be called, at a date that is over as well."""

    def decide(self) -> None:
        super().decide()
        if self.manager.now in (0.0, 7.0):
            self.manager.call_at(self.manager.now if self.manager.now else 7.0)


def test_calls_come_at_their_dates_and_not_at_once() -> None:
    scheduler = Caller()
    run(scheduler, 1, (0.0, 1, 20.0), (1.0, 0, 1.0))
    dates = sorted({each[0] for each in scheduler.told})
    assert dates == [0.0, 1.0, 2.0, 7.0, 7.00001, 20.0]


class Wrong(Told):
    """Make an invalid call."""

    def __init__(self, call: str) -> None:
        self.call = call

    def decide(self) -> None:
        job, manager = self.waiting[0], self.manager
        if self.call == "twice":
            manager.start(job)
            manager.start(job)
        elif self.call == "reject":
            manager.start(job)
            manager.reject(job, "no")
        elif self.call == "kill":
            manager.kill(job)
        elif self.call == "hosts":
            manager.start(job, HostSet.parse("7-9"))
        elif self.call == "bits":
            manager.start(job, HostBits.of(0b1011, 4))
        elif self.call == "no such":
            manager.start(job, HostSet.parse("3-4"))
        elif self.call == "none":
            manager.start(job, HostSet())
        else:
            manager.start(self.waiting[1])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("twice", "job w0!0, which asks for 2 processors, cannot start at 1 s: it runs already"),
        ("reject", "cannot be rejected at 1 s: it runs already (2 hosts are free)"),
        ("kill", "cannot be killed at 1 s: it waits"),
        ("hosts", "cannot start on hosts 7-9 at 1 s: hosts expected: 2, given: 3"),
        ("bits", "cannot start on hosts 0-1 3 at 1 s: hosts expected: 2, given: 3"),
        ("no such", "cannot start on hosts 3-4 at 1 s: the last host is 3"),
        ("none", "cannot start on no host at 1 s: hosts expected: 2, given: 0"),
        (
            "wide",
            "job w0!1, which asks for 5 processors, cannot start at 1 s: only 4 hosts are free",
        ),
    ],
)
def test_an_invalid_call_names_the_job_where_it_is_made(call: str, said: str) -> None:
    with pytest.raises(SimulationError) as caught:
        run(Wrong(call), 4, (1.0, 2, 2.0), (1.0, 5, 2.0))
    assert said in str(caught.value)


def floats_in(*known: Any) -> set[float]:
    """Return the floats that can be reached from objects of ours by attributes."""
    todo, seen, found = list(known), set(), set[float]()
    while todo:
        each = todo.pop()
        if isinstance(each, float):
            found.add(each)
        if id(each) in seen or not type(each).__module__.startswith("qops_batsim."):
            continue
        seen.add(id(each))
        names = [name for name in dir(each) if not name.startswith("__")]
        todo.extend(getattr(each, name, None) for name in names)
        arrays = [each for each in todo if isinstance(each, array)]
        found.update(float(number) for numbers in arrays for number in numbers)
    return found


def test_a_scheduler_cannot_reach_how_long_jobs_run() -> None:
    secret, found = 1234.5, set[float]()

    class Curious(Told):
        def decide(self) -> None:
            jobs = list(self.waiting)
            super().decide()
            if self.manager.now < secret:
                found.update(floats_in(self.manager, *jobs))

    run(Curious(), 1, (0.0, 1, secret))
    assert 1000.0 in found, "the walltime is known"
    assert secret not in found


@pytest.mark.parametrize("seed", range(10))
def test_waits_end_by_date_and_beginning(seed: int) -> None:
    rng, waits, expected = random.Random(seed), Heap(), []
    for number in range(300):
        if expected and rng.random() < 0.45:
            waits.pop()
            expected.remove(min(expected))
        else:
            date = float(rng.randint(0, 20))
            waits.push(date, number, rng.choice([CALL, number]))
            expected.append((date, number))
        waits.check()
        assert waits.size == len(expected)


# Two hosts; a runs since 4 for 6 s more from 10 on, b and c wait since 5 and 7, d comes at 12. By
# their limits of 1,000 s neither c nor d ends before a does, when b needs both hosts:
#
#      4    10    16   18  20
#   0  aaaaa|aaaaa bbbb ccc
#   1       |      bbbb dddd
def test_a_loop_begins_at_a_date_with_a_job_that_runs() -> None:
    loop = new_loop(Easy(), 2, (3.0, 1, 6.0), (5.0, 2, 2.0), (7.0, 1, 2.0), (12.0, 1, 3.0))
    loop.begin_at(10.0, [4.0], 3)
    loop.run(lambda ended: None)
    assert list(loop.starts) == [4.0, 16.0, 18.0, 18.0]
    # All that were asked about have started: nobody asks when they end.
    assert list(loop.finishes)[:2] == [16.0, 18.0]
    assert math.isnan(loop.finishes[2])
