"""QoPS and its relatives: plans drawn by hand, hooks, sorting, late news."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec
import pytest

from qops_batsim import DeadlineScheduler, Fqops, Job, Mrt, Msb, Qops, QosRequest
from qops_batsim.core import OVER, RUNNING, WAITING
from qops_batsim.core.job_sorting import sort_by_key
from qops_batsim.core.refusal import RefusalKind
from qops_batsim.errors import SimulationError
from qops_batsim.schedulers import QopsOptions
from qops_batsim.schedulers.fqops import FqopsOptions
from qops_batsim.schedulers.mrt import MrtOptions
from qops_batsim.schedulers.msb import MsbOptions
from support.asked_schedulers import Recorder
from support.plan_checks import check_plan


def submit(scheduler: Any, *jobs: tuple[str, int, float, float]) -> dict[str, Job]:
    """Submit jobs (id, processors, estimate, deadline) to an idle machine of 2, one by one."""
    manager, made = Recorder(2), {}
    scheduler.begin(manager)
    for name, processors, estimate, deadline in jobs:
        asked = QosRequest(deadline=deadline, estimated_runtime=estimate)
        job = made[name] = Job(name, 0.0, processors, "p", None, asked)
        job.phase = 1
        scheduler.submitted(job)
        scheduler.decide()
        check_plan(scheduler.plan)
    return made


def reason(scheduler: Any, name: str) -> Any:
    """Return why a job was rejected."""
    return scheduler.manager.reasons[name]


def starts(jobs: dict[str, Job]) -> dict[str, float | None]:
    return {name: None if job.phase == OVER else job.start for name, job in jobs.items()}


RUNS = "r", 2, 10.0, 100.0  # r r 10 s on both processors, from 0


def test_qops_reorders_by_laxity() -> None:
    # r  r |a     |      →  r  r |b  |a     |
    # 0    10    20         0    10  15    25        b has to end by 16.
    jobs = submit(Qops(), RUNS, ("a", 2, 10.0, 100.0), ("b", 2, 5.0, 16.0))
    assert starts(jobs) == {"r": 0.0, "a": 15.0, "b": 10.0}


def test_a_critical_job_is_placed_before_the_later_half() -> None:
    # By laxity: a (30), b (35): b would end at 50, after its deadline. By one repair it goes first.
    jobs = RUNS, ("a", 2, 20.0, 50.0), ("b", 2, 10.0, 21.0)
    assert starts(submit(Qops(QopsOptions(order="earliest_deadline")), *jobs))["b"] == 10.0
    wrong = jobs[0], ("a", 2, 30.0, 60.0), ("b", 2, 5.0, 40.0)
    # Laxity of a is 30, of b 35: a from 10 to 40, b to 45, too late, unless it is repaired.
    assert starts(submit(Qops(QopsOptions(k_factor=0)), *wrong)) == {"r": 0.0, "a": 10.0, "b": None}
    assert starts(submit(Qops(QopsOptions(k_factor=1)), *wrong)) == {
        "r": 0.0,
        "a": 15.0,
        "b": 10.0,
    }


def test_what_blocks_a_job_is_told() -> None:
    scheduler = Qops(QopsOptions(k_factor=0))
    submit(scheduler, RUNS, ("a", 2, 30.0, 60.0), ("b", 2, 5.0, 40.0))
    told = reason(scheduler, "b")
    assert (told.kind, told.blamed, told.date) == (RefusalKind.OWN_DEADLINE, "b", 40.0)
    submit(scheduler, RUNS, ("a", 2, 30.0, 29.0))
    told = reason(scheduler, "a")
    assert (told.kind, told.time_left) == (RefusalKind.NO_TIME, 29.0)


def test_headroom_stays_free_beside_a_job_that_can_wait() -> None:
    jobs = ("r", 1, 10.0, 20.0), ("a", 1, 10.0, 500.0)
    assert starts(submit(Qops(), *jobs))["a"] == 0.0
    assert starts(submit(Qops(QopsOptions(headroom=0.5)), *jobs))["a"] == 10.0


def test_a_key_in_python_orders_the_plan() -> None:
    class Shortest(Qops):
        def key(self, job: Job) -> float:
            return job.duration

    jobs = RUNS, ("a", 2, 20.0, 100.0), ("b", 2, 10.0, 99.0), ("c", 2, 5.0, 98.0)
    assert starts(submit(Shortest(), *jobs)) == {"r": 0.0, "c": 10.0, "b": 15.0, "a": 25.0}


@pytest.mark.parametrize("key", ["7", None, float("nan")])
def test_a_key_that_is_no_number_is_an_error_that_names_the_job(key: Any) -> None:
    class Wrong(Qops):
        def key(self, job: Job) -> Any:
            return key

    with pytest.raises(SimulationError, match=r"Wrong.key\(r\) returned .*; a number is exp"):
        submit(Wrong(), RUNS)


class Appending(DeadlineScheduler):
    """Plan a new job behind what is planned; refuse it if it would be late."""

    def admit(self, job: Job) -> object:
        start = self.plan.profile.earliest_fit(self.plan.nominal(), job.duration, job.processors)
        if start + job.duration > job.target:
            return f"could end at {start + job.duration:g} s at the earliest"
        self.plan.place_new(job)
        return None


def test_admit_in_python() -> None:
    scheduler = Appending()
    jobs = submit(scheduler, RUNS, ("a", 2, 10.0, 100.0), ("b", 2, 5.0, 16.0))
    assert starts(jobs) == {"r": 0.0, "a": 10.0, "b": None}
    assert reason(scheduler, "b") == "could end at 25 s at the earliest"


def test_admit_may_move_other_jobs() -> None:
    class First(DeadlineScheduler):
        def admit(self, job: Job) -> object:
            ends = self.running.earliest_fit(self.plan.nominal(), job.duration, job.processors)
            later = dict.fromkeys(self.plan.waiting, ends + job.duration)
            self.adopt_starts({job: ends, **later})
            return None

    jobs = submit(First(), RUNS, ("a", 2, 10.0, 100.0), ("b", 2, 5.0, 16.0))
    assert starts(jobs) == {"r": 0.0, "a": 15.0, "b": 10.0}
    with pytest.raises(SimulationError, match=r"a a start at 15 s; .* ends by 20 s"):
        submit(First(), RUNS, ("a", 2, 10.0, 20.0), ("b", 2, 5.0, 16.0))


def test_an_admission_without_a_plan_is_an_error() -> None:
    class Idle(DeadlineScheduler):
        def admit(self, job: Job) -> object:
            return None

    with pytest.raises(
        SimulationError,
        match="Idle at 0 s gave no reason to refuse r, but planned no start from which the job "
        "ends by 100 s",
    ):
        submit(Idle(), RUNS)


def test_msb_takes_the_cheapest_position() -> None:
    # Before a, b costs 10 × 2 for a's delay; behind it 20 × 2 more for its own wait.
    jobs = RUNS, ("a", 2, 30.0, 100.0), ("b", 2, 5.0, 100.0)
    assert starts(submit(Msb(), *jobs)) == {"r": 0.0, "a": 15.0, "b": 10.0}


def test_mrt_extends_only_what_stays_feasible() -> None:
    jobs = RUNS, ("a", 2, 30.0, 60.0), ("b", 2, 5.0, 40.0)
    assert starts(submit(Mrt(), *jobs)) == {"r": 0.0, "a": 15.0, "b": 10.0}
    assert starts(submit(Mrt(MrtOptions(max_backtracks=0)), *jobs))["b"] is None


def test_an_offer_is_the_earliest_deadline_that_can_be_kept() -> None:
    jobs = RUNS, ("a", 2, 10.0, 20.0), ("b", 2, 5.0, 16.0)
    assert starts(submit(Fqops(), *jobs))["b"] is None
    scheduler = Fqops(FqopsOptions(tolerance_factor=2.0, retry_count=60))
    assert starts(submit(scheduler, *jobs))["b"] == 20.0
    record = scheduler.manager.qos_log.record("b")
    assert record.offered_deadline == record.admitted_deadline
    assert record.offered_deadline == pytest.approx(25.0, abs=1e-5)
    assert "decision=accepted" in scheduler.manager.told["b"]
    asked = []

    def refuse(job: Job, offered: float) -> bool:
        asked.append(job.id)
        return False

    refusing = Fqops(accepts=refuse)
    assert starts(submit(refusing, *jobs))["b"] is None
    assert asked == ["b"]


def test_options_are_checked() -> None:
    with pytest.raises(msgspec.ValidationError, match="k_factor"):
        msgspec.convert({"k_factor": -1}, QopsOptions)
    assert msgspec.convert({"order": "least_laxity"}, MsbOptions).order == "least_laxity"


def test_sorting_moves_nothing_past_a_job_without_a_key() -> None:
    rng = random.Random(3)
    for count in [0, 1, 5, 9, 40, 300]:
        jobs = []
        for number in rng.sample(range(count), count):
            job = Job(str(number), 0.0, 1, "p")
            job.number, job.key = number, rng.choice([1.0, 2.0, math.inf, rng.random()])
            if rng.random() < 0.05:
                job.key = math.nan
            jobs.append(job)
        expected, part = list[Job](), list[Job]()
        for job in jobs:
            if job.key == job.key:
                part.append(job)
                continue
            expected += [*sorted(part, key=lambda job: (job.key, job.number)), job]
            part = []
        expected += sorted(part, key=lambda job: (job.key, job.number))
        sort_by_key(jobs, 0, len(jobs))
        assert [job.number for job in jobs] == [job.number for job in expected]


# Late news


LAG = 0.002


def late_qops() -> Qops:
    """Return QoPS on one processor that has seen news to be late."""
    scheduler = Qops()
    scheduler.begin(Recorder(1))
    scheduler.manager.news.mark_late()
    return scheduler


def told_at(scheduler: Qops, now: float, *jobs: Job, ended: Job | None = None) -> None:
    """Tell a scheduler of new jobs, or of one that has ended."""
    scheduler.manager.now = now
    if ended is not None:
        scheduler.manager.free += ended.processors
        scheduler.ended(ended)
    for job in jobs:
        job.phase = WAITING
        scheduler.submitted(job)
    scheduler.decide()


def asking(name: str, date: float, estimate: float, deadline: float) -> Job:
    return Job(name, date, 1, "p", qos=QosRequest(estimated_runtime=estimate, deadline=deadline))


def test_a_job_told_late_is_judged_as_if_it_had_been_told_at_once() -> None:
    job, scheduler = asking("A", 5.0, 10.0, 15.0), late_qops()
    told_at(scheduler, 5 + LAG, job)
    assert (job.phase, job.promise) == (RUNNING, 15)
    assert job.target == pytest.approx(15 + LAG)


def test_a_deadline_that_was_out_of_reach_at_once_still_is() -> None:
    job, scheduler = asking("A", 5.0, 10.0, 14.99), late_qops()
    told_at(scheduler, 5 + LAG, job)
    assert reason(scheduler, "A").kind == RefusalKind.NO_TIME


def test_what_news_holds_up_keeps_its_place() -> None:
    """B is due at 10, when A should end; C comes before the news of A's end, D waits behind.

    B's promise has no second to spare, so any search that moved it would refuse C.
    """
    scheduler, a, b = late_qops(), asking("A", 0.0, 10.0, 10.0), asking("B", 0.0, 10.0, 20.0)
    told_at(scheduler, 0.0, a, b)
    assert a.phase == RUNNING
    c = asking("C", 10 + LAG, 5.0, 25 + LAG)
    told_at(scheduler, 10 + LAG, c)
    assert (b.phase, c.phase, b.start) == (WAITING, WAITING, 10)
    a.phase = OVER
    told_at(scheduler, 10 + 2 * LAG, ended=a)
    assert (b.phase, b.start, c.start) == (RUNNING, 10, 20)
