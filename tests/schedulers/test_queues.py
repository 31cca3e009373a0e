"""Schedulers of queues: hosts that leave, fixed starts, limits, users' orders, looking ahead."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from qops_batsim import (
    Easy,
    Fcfs,
    InputError,
    Job,
    Nqs,
    PricedQueues,
    QosRequest,
    QueueScheduler,
    simulate,
)
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions, ExternalEvent
from qops_batsim.errors import SimulationError
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.schedulers.easy import SHORT_QUEUE, EasyOptions
from qops_batsim.workload import Workload, delay_profile
from support.easy_oracle import Request, easy_starts
from support.queue_checks import check_queue
from support.random_outages import HOSTS, random_events, random_workload, run

Options = dict[str, Any]

KINDS: list[tuple[str, Options]] = [
    ("fcfs", {}),
    ("easy", {}),
    ("easy", {"order": "saf", "backfill_order": "lxf"}),
    ("easy", {"order": "wfp3", "starvation_bound": 10.0}),
    ("easy", {"run_times": "predicted", "backfill_order": "sjf"}),
    ("easy", {"run_times": "predicted", "order": "sjf"}),
    ("nqs", {"time_limits": [5.0, 20.0]}),
    ("nqs", {"time_limits": [], "blocked": "machine", "run_limits": {"normal": 2}}),
    ("priced-queues", {"history": 3, "priority_limit": 2}),
]


def with_users(rng: random.Random, workload: Workload) -> Workload:
    """Return the jobs with users."""
    users = [{**job.fields, "user": f"u{rng.randint(1, 3)}"} for job in workload.jobs]
    jobs = [Job.from_fields(fields, where="here") for fields in users]
    return msgspec.structs.replace(workload, jobs=jobs)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("name", "settings"), KINDS)
def test_runs_in_the_loop_of_events_and_by_messages_are_the_same(
    name: str, settings: Options, seed: int
) -> None:
    rng = random.Random(seed)
    workload = with_users(rng, random_workload(rng, deadlines=True))
    events = random_events(rng, workload)
    expected = run(name, settings, workload, events, by_messages=True)
    assert run(name, settings, workload, events) == expected


# By hand


def workload_of(*rows: tuple[float, int, float], hosts: int = 4, **users: str) -> Workload:
    """Return jobs a, b, …: submission (s), processors, run time, which is the estimate (s)."""
    profiles, jobs = {}, []
    for name, (submission, processors, run_time) in zip("abcdefgh", rows, strict=False):
        profile, profiles[profile] = delay_profile(run_time)
        fields = {"user": users.get(name, "ann")}
        qos = QosRequest(estimated_runtime=run_time)
        job = Job(name, submission, processors, profile, None, qos)
        jobs.append(Job.from_fields({**job.fields, **fields}, where="here"))
    return Workload(jobs=jobs, profiles=profiles, processors=hosts)


def starts(scheduler: Any, workload: Workload, events: Iterable[Any] = ()) -> dict[str, Any]:
    """Return the starts of the jobs (s), None of rejected ones."""
    engine = EngineOptions(external_events=tuple(events)) if events else None
    done = simulate(scheduler, workload, make_cluster(4), engine=engine)
    return {
        each.local_id: None if each.state == REJECTED else each.start
        for each in sorted(done.ended, key=lambda end: end.job.id)
    }


def leave(date: float, hosts: str) -> ExternalEvent:
    return ExternalEvent(date, "machine_unavailable", HostSet.parse(hosts), {})


class FirstFit(QueueScheduler):
    """Starts whatever fits, by arrival."""

    def schedule(self) -> None:
        for job in self.queue:
            if job.processors <= self.manager.free:
                self.start(job)


class FirstFitByDecide(QueueScheduler):
    """The same, in the hook of all schedulers."""

    def decide(self) -> None:
        for job in self.queue:
            if job.processors <= self.manager.free:
                self.start(job)


# Hosts 2 and 3 leave at 5 for ever: b (4 processors) is rejected, d is cancelled at 6.
#
#   3 | a a a x x x x
#   2 | a a a x x x x
#   1 | a a a c c c c
#   0 | a a a c c c c
#     0     10    20


@pytest.mark.parametrize("kind", [FirstFit, FirstFitByDecide, Fcfs, Easy, Nqs, PricedQueues])
def test_what_can_never_run_is_rejected(kind: Any) -> None:
    workload = workload_of((0, 4, 10), (1, 4, 10), (2, 2, 10), (3, 1, 10))
    fields = {"type": "job_cancelled", "timestamp": 6.0, "job_id": "w0!d"}
    events = [leave(5, "2-3"), ExternalEvent(6.0, "job_cancelled", HostSet(), fields)]
    found = starts(kind, workload, events)
    assert found == {"a": 0.0, "b": None, "c": 10.0, "d": None}


@pytest.mark.parametrize("kind", [FirstFit, FirstFitByDecide, Nqs])
def test_without_an_order_of_starts_there_is_no_fixed_start(kind: Any) -> None:
    workload = workload_of((0, 1, 10))
    workload.jobs[0].qos = QosRequest(start=5.0)
    module = make_scheduler(kind)
    simulate(module, workload)
    (reason,) = module.qos_log.record("w0!a").reasons
    assert reason.kind == "no_fixed_starts"


class OneOfAUser(Easy):
    """EASY, with one job of a user at a time."""

    def may_start(self, job: Job) -> bool:
        return all(each.user != job.user for each in self.running)


class OneOfAUserFcfs(Fcfs):
    def may_start(self, job: Job) -> bool:
        return all(each.user != job.user for each in self.running)


class OneOfAUserByTurns(Easy):
    """The same with an order that changes."""

    def __init__(self, options: Any = None) -> None:
        super().__init__(EasyOptions(order="lxf"))

    def may_start(self, job: Job) -> bool:
        return all(each.user != job.user for each in self.running)


# Ann's b waits for her a, nothing is reserved for it, and Bob's c and d pass it by.
#
#   3 | . c c c c c b b b
#   2 | . c c c c c b b b
#   1 | a a a d d d b b b
#   0 | a a a d d d b b b
#     0     10    20
#
# c is Bob's, d is Eve's.


@pytest.mark.parametrize("kind", [OneOfAUser, OneOfAUserFcfs, OneOfAUserByTurns])
def test_a_user_can_be_limited(kind: Any) -> None:
    workload = workload_of((0, 2, 10), (1, 4, 10), (2, 2, 18), (3, 2, 10), c="bob", d="eve")
    found = starts(kind, workload)
    # At 10 b may start but does not fit: it is reserved for at 20, and d ends by then.
    expected = {"a": 0.0, "b": 20.0, "c": 2.0, "d": 10.0}
    if kind is OneOfAUserFcfs:
        expected |= {"d": 30.0}
    assert found == expected


class LeastUsed(Easy):
    """EASY in the order of what users have used so far."""

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.used: dict[str, float] = {}

    def ended(self, job: Job) -> None:
        super().ended(job)
        user, used = str(job.user), job.processors * (self.manager.now - job.start)
        self.used[user] = self.used.get(user, 0.0) + used

    def order(self, now: float) -> list[Job]:
        return sorted(self.queue, key=lambda job: self.used.get(str(job.user), 0.0))


def test_an_order_can_change_with_time() -> None:
    """a is Ann's; when it ends, Bob's c comes before her b, and then her d before Bob's e."""
    rows = (0, 4, 10), (1, 4, 5), (2, 4, 20), (3, 4, 5), (4, 4, 5)
    workload = workload_of(*rows, c="bob", e="bob")
    assert starts(LeastUsed, workload) == {"a": 0, "b": 30, "c": 10, "d": 35, "e": 40}


def test_what_an_order_leaves_out_waits() -> None:
    class Late(Easy):
        def order(self, now: float) -> list[Job]:
            return [job for job in self.queue if now - job.arrival >= 5]

    assert starts(Late, workload_of((0, 1, 10), (5, 4, 5), (10, 1, 1))) == {
        "a": 5,
        "b": 15,
        "c": 20,
    }


@pytest.mark.parametrize("hook", ["key", "order"])
def test_an_order_by_name_and_one_of_a_user_are_refused(hook: str) -> None:
    kind: Any = type("Own", (Easy,), {hook: lambda self, *told: 0.0})
    with pytest.raises(InputError, match="order is 'sjf', but Own has a method (key|order)"):
        kind(EasyOptions(order="sjf"))


class Admitting(Easy):
    """EASY that takes no job that is expected to end after its deadline."""

    expected: dict[str, float]

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.expected = {}

    def arrived(self, job: Job) -> None:
        self.expected[job.id] = self.expected_end(job)
        if self.expected[job.id] > job.deadline:
            self.manager.reject(job, f"would end at {self.expected[job.id]:g} s")
        else:
            super().arrived(job)


# b is reserved for at 10, c backfills at once; d can only begin behind b.
#
#   3 | . c c b b . .
#   2 | . c c b b . .
#   1 | a a a b b d d
#   0 | a a a b b d d
#     0     10  20  30


def test_easy_tells_when_a_job_is_expected_to_end() -> None:
    workload = workload_of((0, 2, 10), (1, 4, 10), (2, 2, 8), (3, 2, 10))
    scheduler = Admitting()
    assert starts(scheduler, workload) == {"a": 0, "b": 10, "c": 2, "d": 20}
    assert scheduler.expected == {"w0!a": 10, "w0!b": 20, "w0!c": 10, "w0!d": 30}
    deadline = QosRequest(estimated_runtime=10.0, deadline=29.0)
    workload.jobs[3].qos, workload.jobs[3].deadline = deadline, 29.0
    assert starts(Admitting, workload)["d"] is None


@pytest.mark.parametrize(
    "settings", [{}, {"order": "saf"}, {"order": "lxf"}, {"backfill_order": "sjf"}], ids=str
)
def test_a_job_ends_when_it_is_expected_to_if_nothing_comes_after_it(settings: Options) -> None:
    rng = random.Random(3)
    for _ in range(20):
        rows = [(0.0, rng.randint(1, 4), float(rng.randint(1, 9))) for _ in range(8)]
        workload = workload_of(*rows)
        scheduler = Admitting(msgspec.convert(settings, EasyOptions))
        done = simulate(scheduler, workload, make_cluster(4))
        last = next(each for each in done.ended if each.local_id == "h")
        assert last.finish == scheduler.expected["w0!h"]


def test_a_wrong_start_names_the_job() -> None:
    class Eager(QueueScheduler):
        def schedule(self) -> None:
            for job in self.queue:
                self.start(job)

    with pytest.raises(Exception, match="job w0!b, which asks for 4 processors, cannot start at 1"):
        starts(Eager, workload_of((0, 4, 10), (1, 4, 10)))


def test_queue_keeps_its_running_jobs_in_order() -> None:
    class Watched(FirstFit):
        seen = 0

        def decide(self) -> None:
            super().decide()
            ends = [each.end for each in self.running]
            assert ends == sorted(ends)
            Watched.seen = max(Watched.seen, len(ends))

    rng = random.Random(1)
    module = SchedulerModule(Watched())
    simulate(module, random_workload(rng, deadlines=False), allow_smaller_machine=True)
    assert Watched.seen > 2


@pytest.mark.parametrize("key", ["7", None, float("nan")])
def test_a_key_that_is_no_number_is_an_error_that_names_the_job(key: Any) -> None:
    class Wrong(Easy):
        def key(self, job: Job) -> Any:
            return key

    with pytest.raises(SimulationError, match=r"Wrong.key\(w0!a\) returned .*; a number is exp"):
        starts(Wrong, workload_of((0, 1, 1)))


@pytest.mark.parametrize("order", ["fcfs", "saf"])
def test_a_long_queue_has_summaries_of_its_jobs(order: str) -> None:
    class Checked(Easy):
        longest = 0

        def decide(self) -> None:
            super().decide()
            check_queue(self.queue)
            Checked.longest = max(Checked.longest, len(self.queue.jobs))

    rng, jobs, profiles, asked = random.Random(5), list[Job](), dict[str, Any](), list[Request]()
    for number in range(700):
        seconds, processors = rng.randint(1, 40), rng.choice([1, 2, 3, 5, HOSTS])
        name, profile = delay_profile(seconds)
        profiles[name] = profile
        jobs.append(Job(f"{number:03}", float(number // 3), processors, name, 60.0))
        asked.append(Request(f"{number:03}", float(number // 3), processors, seconds, 60.0))
    workload = Workload(jobs=jobs, profiles=profiles, processors=HOSTS)
    done = simulate(Checked(EasyOptions(order=order)), workload, make_cluster(HOSTS))
    found = {each.local_id: each.start for each in done.ended}
    assert found == easy_starts(HOSTS, asked, order)
    assert Checked.longest > SHORT_QUEUE
