"""A scheduler together with users, who register jobs and react to the scheduler's answers.

So they act alike in the embedded engine and on the real Batsim, where jobs are registered while a
simulation runs. The scheduler hears of their jobs as of any others; how long these run, only the
profile says that goes to the engine.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.core.job import OVER, RUNNING, WAITING, Job
from qops_batsim.core.needs import EngineNeeds
from qops_batsim.core.overrides import check_attributes, is_overridden
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.errors import InputError
from qops_batsim.job_fields import QosRequest
from qops_batsim.jobs import COMPLETED_KILLED
from qops_batsim.tables import format_rows, shielded_column
from qops_batsim.timing import SAME_DATE
from qops_batsim.users.user_model import Batch, BatchJob, User, Users, WeekClock
from qops_batsim.workload.need import needed_by
from qops_batsim.workload.workload_model import (
    JobColumns,
    JobTable,
    Workload,
    plain_number,
)

WORKLOAD = "w0"

DONE = "done"
LEFT = "left"
ELSEWHERE = "elsewhere"
OPEN = "open"
"""Outcomes of what a user wanted: it ran, was given up, ran at another centre, or none of these."""

ROUNDING = 0.01
"""Seconds that a date may be above a whole one by rounding."""

BEGIN, ASK, GIVE_BACK, END = range(4)
"""What happens at a date: a batch, a job, promises given back, an end at another centre."""

INFINITY = math.inf


class Wish(NamedTuple):
    """What a user wants to compute, and what became of it: a row of ``PREFIX_users.csv``.

    Attributes
    ----------
    job, user
        Identifier of the job by which it was asked for first, and the user's name.
    submitted, ended
        When it was asked for first, and when it was done (seconds); NaN if it was not.
    processors, run_time
        As in the log (seconds); less, if the user has split or shortened it.
    needed
        The response time that was needed (seconds), NaN for none.
    outcome
        :data:`DONE`, :data:`LEFT`, :data:`ELSEWHERE` or :data:`OPEN`.
    tries
        How often a job was asked for.
    lost
        Processor-seconds that were given up, or done elsewhere.
    lies, hoards
        Whether the user exaggerates or hoards.
    """

    job: str
    user: str
    submitted: float
    ended: float
    processors: int
    run_time: float
    needed: float
    outcome: str
    tries: int
    lost: float
    lies: bool
    hoards: bool


class Person:
    """A user in a simulated run."""

    def __init__(self, told: User, seed: int, liars: float, hoarders: float) -> None:
        self.told = told
        self.place = told.first
        self.chosen = random.Random(f"{seed} {told.name}")
        self.lies = self.chosen.random() < liars or told.lies
        self.hoards = self.chosen.random() < hoarders
        followed = told.batches[: len(told.batches) - 1]
        self.breaks = [batch.time for batch in followed if batch.then != "think"]


class Visit:
    """A batch of a user during the run: numbers of jobs to submit, and of unfinished ones."""

    def __init__(self, person: Person, batch: Batch, now: float) -> None:
        self.person = person
        self.batch = batch
        self.last = now
        self.to_come = len(batch.jobs)
        self.open = len(batch.jobs)


class Wanted:
    """A user's wish, and the jobs that were submitted for it."""

    def __init__(self, visit: Visit, asked: BatchJob) -> None:
        self.visit = visit
        _, self.processors, self.run_time, self.walltime = asked
        self.jobs: list[Job] = []
        self.first = ""
        self.outcome = OPEN
        self.tries = 0
        self.lost = 0.0
        self.submitted = math.nan
        self.since = math.nan
        self.ended = math.nan
        self.needed = math.nan
        self.asked = math.nan

    @property
    def work(self) -> float:
        """Work of the wish (processor-seconds)."""
        return self.processors * self.run_time

    @property
    def has_started(self) -> bool:
        """Whether a job that was submitted for the wish has started."""
        return self.outcome != OPEN or any(job.phase == RUNNING for job in self.jobs)


class Reacting(Scheduler):
    """A scheduler together with users who react to it.

    Parameters
    ----------
    scheduler
        The scheduler, whose options these are.
    users
        Who they are. A scheduler that takes no cancellations cannot have hoarders.

    Attributes
    ----------
    wishes
        What users wanted, in the order in which it was asked for.
    cancelled_at
        Dates (seconds) at which jobs were cancelled, by full identifier.
    hides_profiles
        The jobs that it registers are users': their run times are no business of the scheduler.
    """

    hides_profiles = True

    def __init__(self, scheduler: Scheduler, users: Users) -> None:
        Scheduler.__init__(self, scheduler.options)
        users.check()
        self.inner = scheduler
        self.users = users
        self.made: Workload | None = None
        self.names = {user.name: json.dumps(user.name) for user in users.users}
        self.is_exact = users.estimates == "exact"
        self.needs_exactly = (users.deadlines_by or users.estimates) == "exact"
        self.gap_limit = users.sessions.gap_limit

        self.summary = scheduler.summary
        self.keeps_decisions = scheduler.keeps_decisions
        self.needs_deadlines = scheduler.needs_deadlines
        self.kills = scheduler.kills
        if users.reactions.hoarders and not is_overridden(scheduler, Scheduler, "cancelled"):
            raise InputError(
                f"hoarders is {users.reactions.hoarders:g}; {type(scheduler).__name__} does not "
                "take jobs out of its queue (cancelled), so that no promise can be given back; 0 "
                "is expected"
            )

    @property
    def needs(self) -> EngineNeeds:
        """What the scheduler needs of its engine, and the registration of jobs."""
        return msgspec.structs.replace(
            self.inner.needs, dynamic_jobs=True, dispensable=False, why="its users react"
        )

    @property
    def registers_alone(self) -> bool:
        """Whether only users register jobs, and no job is killed."""
        return not (self.inner.kills or self.inner.needs.dynamic_jobs)

    def use_platform(self, platform: Any) -> None:
        self.inner.options = self.options
        self.inner.use_platform(platform)

    def begin(self, manager: ResourceManager) -> None:
        """Begin with an idle machine, before the first user submits a job."""
        Scheduler.begin(self, manager)
        self.inner.options = self.options
        self.inner.logs = self.logs
        manager.refusals = []
        self.clock = WeekClock(self.users.sessions)

        self.heap: list[tuple[float, int, int, Any]] = []
        self.serial = 0
        self.soonest = 0.0
        self.calls: list[float] = []
        self.over: list[Job] = []
        self.by_job: dict[str, Wanted] = {}
        self.hoards: list[Wanted] = []
        self.wanted: list[Wanted] = []
        self.rows: list[tuple[float, int, float | None, str, QosRequest | None, float]] = []
        self.made = None
        self.cancelled_at: dict[str, float] = {}
        self.count = 0
        self.waiting = 0
        self.said_all = False

        reactions = self.users.reactions
        for user in self.users.users:
            person = Person(user, self.users.seed, reactions.liars, reactions.hoarders)
            self._at(user.since, BEGIN, person)

        self.inner.begin(manager)
        check_attributes(self.inner)

    # Events, which the scheduler hears

    def submitted(self, job: Job) -> None:
        self.inner.submitted(job)

    def ended(self, job: Job) -> None:
        """Tell the scheduler, then the user, that a job has ended."""
        self.inner.ended(job)
        if not (job.is_dying and job.state == COMPLETED_KILLED):
            self.over.append(job)

    def killed(self, job: Job) -> None:
        self.inner.killed(job)

    def progressed(self, job: Job, progress: Any) -> None:
        self.inner.progressed(job, progress)

    def cancelled(self, job: Job) -> None:
        self.inner.cancelled(job)

    def joined(self, job: Job) -> None:
        self.inner.joined(job)

    def hosts_changed(self, announced: int) -> None:
        self.inner.hosts_changed(announced)

    def all_submitted(self) -> None:
        """Ignore the engine's news that all jobs are submitted: users submit further ones."""

    def called(self) -> None:
        """Pass a wake-up call on to the scheduler, unless it was requested for the users."""
        if self.calls and self.calls[0] <= self.manager.now + SAME_DATE:
            heapq.heappop(self.calls)
        else:
            self.inner.called()

    def notified(self, notification: object) -> None:
        self.inner.notified(notification)

    def finished(self) -> None:
        check_attributes(self.inner)
        self.inner.finished()

    def planned_starts(self) -> dict[str, float]:
        return self.inner.planned_starts()

    def decision_lines(self) -> Any:
        """Yield the scheduler's logged decisions in order as lines of JSON."""
        inner: Any = self.inner
        return inner.decision_lines()

    # Decisions

    def decide(self) -> None:
        """Let users submit, then the scheduler decide, then users answer its refusals."""
        manager = self.manager
        heap = self.heap
        self.soonest = manager.now

        for job in self.over:
            wanted = self.by_job.pop(manager.original_id(job), None)
            if wanted is not None and wanted.outcome == OPEN:
                self._over(wanted, DONE)

        self.over.clear()

        soon = manager.now + SAME_DATE
        while heap and heap[0][0] <= soon:
            _, _, kind, what = heapq.heappop(heap)
            if kind == BEGIN:
                self._begin_batch(what)
            elif kind == ASK:
                self._ask(what)
            elif kind == GIVE_BACK:
                self._give_back(what)
            else:
                self._over(what, ELSEWHERE)

        if not (heap or self.waiting or self.said_all):
            self.said_all = True
            self.inner.all_submitted()

        self.inner.decide()

        # What users answer to this decision, they do not do before the next second.
        self.soonest = manager.now + 1.0
        refusals = manager.refusals or []
        for place in range(len(refusals)):
            self._hear_refusal(refusals[place])
        refusals.clear()
        for wanted in [hoard for hoard in self.hoards if hoard.has_started]:
            self.hoards.remove(wanted)
            self._at(self.soonest, GIVE_BACK, wanted)

        if heap:
            first = heap[0][0]
            if not self.calls or first < self.calls[0]:
                heapq.heappush(self.calls, first)
                manager.call_at(first)
        elif self.said_all:
            manager.finish_registering()

    # What users do

    def _at(self, date: float, kind: int, what: Any) -> None:
        """Schedule a user's action at a date, rounded up to a whole second in the future."""
        self.serial += 1
        date = float(math.ceil(max(date, self.soonest) - ROUNDING))
        heapq.heappush(self.heap, (date, self.serial, kind, what))

    def _begin_batch(self, person: Person) -> None:
        now = self.manager.now
        batches = person.told.batches
        batch = batches[person.place]
        person.place = (person.place + 1) % len(batches)
        visit = Visit(person, batch, now)
        for asked in batch.jobs:
            wanted = Wanted(visit, asked)
            offset = asked.offset
            if offset > 0:
                self._at(now + offset, ASK, wanted)
            else:
                self._ask(wanted)

    def _next_session(self, person: Person, since: float, seconds: float) -> None:
        date = self.clock.after(since, seconds)
        if math.ceil(date - ROUNDING) <= person.told.until:
            self._at(date, BEGIN, person)

    def _ask(self, wanted: Wanted) -> None:
        """Submit a job for a wish, for the first time or after a refusal."""
        now = self.manager.now
        visit = wanted.visit
        wanted.tries += 1
        if wanted.tries == 1:
            self.waiting += 1
            self._know_needs(wanted)
            visit.to_come -= 1
            visit.last = now

        person = visit.person
        copies = self.users.reactions.promises if person.hoards and wanted.needed < INFINITY else 0
        due = wanted.since + wanted.asked
        wanted.jobs = [
            self._register(wanted, due + number * wanted.asked) for number in range(copies + 1)
        ]
        if copies:
            self.hoards.append(wanted)

        if wanted.tries == 1 and not visit.to_come and visit.batch.then == "leave":
            self._next_session(person, now + self.gap_limit, visit.batch.time)

    def _know_needs(self, wanted: Wanted) -> None:
        """Compute the response time that a wish needs, and the one that its user requests."""
        now = self.manager.now
        users = self.users
        self.wanted.append(wanted)
        wanted.first = str(self.count + 1)
        wanted.submitted = now
        wanted.since = now

        estimate = wanted.run_time
        if wanted.walltime is not None and not self.needs_exactly:
            estimate = float(wanted.walltime)
        due = None
        if users.deadlines is not None:
            due = needed_by(users.deadlines, users.calendar, wanted.first, now, estimate)
        wanted.needed = INFINITY if due is None else due - now
        wanted.asked = wanted.needed
        if due is not None and wanted.visit.person.lies:
            asked = users.reactions.asked(wanted.needed, estimate)
            wanted.asked = float(math.ceil(asked - ROUNDING))

    def _register(self, wanted: Wanted, due: float) -> Job:
        """Register a job for a wish, with a deadline (seconds) if the user sets one."""
        manager = self.manager
        users = self.users
        now = manager.now
        self.count += 1
        name = str(self.count)
        walltime = wanted.walltime

        asked: dict[str, Any] = {}
        if self.is_exact:
            walltime = None
            asked["estimated_runtime"] = wanted.run_time

        if due < INFINITY:
            due = max(due, now + 1.0)
            asked["deadline"] = due
            latest = wanted.since + users.reactions.tolerance * wanted.needed
            asked["tolerance_factor"] = max(latest - now, 0.0) / (due - now)
        elif users.deadlines is not None:
            asked["has_user_deadline"] = False

        if wanted.first != name:
            asked["origin"] = wanted.first
        qos = QosRequest(**asked) if asked else None
        user = wanted.visit.person.told.name
        full = f"{WORKLOAD}!{name}"

        # The fields are put together only if somebody asks for them.
        job = Job(full, now, wanted.processors, name, walltime, qos, self)
        self.rows.append((now, wanted.processors, walltime, user, qos, wanted.run_time))
        self.by_job[full] = wanted
        manager.register(job, {"type": "delay", "delay": wanted.run_time})
        self.inner.submitted(job)
        return job

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return the fields of a job that a user has submitted in the run."""
        line = self._line(job_id.partition("!")[2])
        return {**msgspec.json.decode(line), "id": job_id}

    def _line(self, name: str) -> str:
        """Return a submitted job as an entry of a Batsim workload (JSON)."""
        now, processors, walltime, user, qos, _ = self.rows[int(name) - 1]
        limit = "" if walltime is None else f', "walltime": {plain_number(walltime)}'
        asked = "" if qos is None else f', "qos": {msgspec.json.encode(qos).decode()}'
        return (
            f'{{"id": "{name}", "subtime": {plain_number(now)}, "res": {processors}{limit}, '
            f'"profile": "{name}", "user": {self.names[user]}{asked}}}'
        )

    def _over(self, wanted: Wanted, outcome: str) -> None:
        """End a wish with its outcome; after the last wish of a batch, the user continues."""
        visit = wanted.visit
        now = self.manager.now
        wanted.outcome = outcome
        self.waiting -= 1
        if outcome in (DONE, ELSEWHERE):
            wanted.ended = now
        visit.open -= 1
        if visit.open or visit.batch.then == "leave":
            return

        person = visit.person
        batch = visit.batch
        sessions = self.users.sessions
        # One number decides, such that users do as in the log where they wait as long as there.
        before = sessions.continuation_probability(batch.response)
        number = person.chosen.random()
        number = number * before if batch.then == "think" else before + number * (1.0 - before)
        if number < sessions.continuation_probability(now - visit.last):
            think = batch.time
            if batch.then != "think":
                typical = person.chosen.lognormvariate(math.log(sessions.think), sessions.spread)
                think = min(typical, sessions.think_limit)
            self._at(now + think, BEGIN, person)
        elif batch.then == "break":
            self._next_session(person, now + sessions.think_limit, batch.time)
        else:
            # In the log the user went on: how long breaks are is known from others.
            breaks = person.breaks
            usual = person.chosen.choice(breaks) if breaks else sessions.pause
            self._next_session(person, now + sessions.think_limit, usual)

    # What users answer

    def _hear_refusal(self, job: Job) -> None:
        """Let the user answer a refusal, unless other jobs of the wish are left."""
        wanted = self.by_job.pop(self.manager.original_id(job), None)
        if wanted is None or wanted.outcome != OPEN or job.id in self.cancelled_at:
            return
        if any(copy.phase != OVER for copy in wanted.jobs):
            return
        for copy in wanted.jobs:
            self.by_job.pop(copy.id, None)
        if wanted in self.hoards:
            self.hoards.remove(wanted)
        self._answer(wanted)

    def _answer(self, wanted: Wanted) -> None:
        """Let the user answer a refusal: ask again, later, for less, elsewhere, or give up."""
        reactions = self.users.reactions
        now = self.manager.now
        chosen = wanted.visit.person.chosen
        kinds = msgspec.structs.asdict(reactions.answers)
        (kind,) = chosen.choices(list(kinds), list(kinds.values()))
        later = now + chosen.expovariate(1.0 / reactions.retry_after)
        soon = now + reactions.answer_after
        most = reactions.tolerance * wanted.needed

        if wanted.tries >= reactions.tries or wanted.needed == INFINITY:
            kind = "leave"
        elif wanted.asked < wanted.needed:
            # Who has exaggerated asks for what is needed first.
            wanted.asked = wanted.needed
            self._at(soon, ASK, wanted)
            return

        if kind == "later" and wanted.asked < math.floor(most):
            wanted.asked = float(math.floor(most))
            self._at(soon, ASK, wanted)
        elif kind == "retry":
            wanted.since = float(math.ceil(max(later, self.soonest)))
            self._at(later, ASK, wanted)
        elif kind == "split" and wanted.processors > 1:
            self._split(wanted, soon)
        elif kind == "shorten" and wanted.run_time > 1:
            half = float(math.ceil(wanted.run_time / 2))
            wanted.lost += wanted.processors * (wanted.run_time - half)
            wanted.run_time = half
            if wanted.walltime is not None:
                wanted.walltime = float(math.ceil(wanted.walltime / 2))
            self._at(soon, ASK, wanted)
        elif kind == "elsewhere":
            wanted.lost += wanted.work
            self._at(now + wanted.run_time, END, wanted)
        else:
            wanted.lost += wanted.work
            self._over(wanted, LEFT)

    def _split(self, wanted: Wanted, date: float) -> None:
        """Submit two jobs at a date, each with half the processors of the refused one."""
        half = wanted.processors // 2
        other = Wanted(wanted.visit, BatchJob(0.0, half, wanted.run_time, wanted.walltime))
        wanted.processors -= half
        for name in ("first", "tries", "submitted", "since", "needed", "asked"):
            setattr(other, name, getattr(wanted, name))

        wanted.visit.open += 1
        self.waiting += 1
        self.wanted.append(other)
        self._at(date, ASK, wanted)
        self._at(date, ASK, other)

    def _give_back(self, wanted: Wanted) -> None:
        """Cancel a hoarder's other waiting jobs, once one job of the wish has started."""
        for job in wanted.jobs:
            if job.phase == WAITING:
                self.cancelled_at[job.id] = self.manager.now
                self.inner.cancelled(job)

    # What became of it

    @property
    def wishes(self) -> list[Wish]:
        return [
            Wish(
                job=wanted.first,
                user=wanted.visit.person.told.name,
                submitted=wanted.submitted,
                ended=wanted.ended,
                processors=wanted.processors,
                run_time=wanted.run_time,
                needed=wanted.needed if wanted.needed < INFINITY else math.nan,
                outcome=wanted.outcome,
                tries=wanted.tries,
                lost=wanted.lost,
                lies=wanted.visit.person.lies,
                hoards=wanted.visit.person.hoards,
            )
            for wanted in self.wanted
        ]

    def workload(self) -> Workload:
        """Return the jobs submitted so far as a workload. O(jobs)."""
        if self.made is not None and len(self.made.jobs) == len(self.rows):
            return self.made
        ids = [*map(str, range(1, len(self.rows) + 1))]
        dates, processors, limits, _, requests, run_times = zip(*self.rows, strict=True)
        walltimes = np.array([INFINITY if told is None else told for told in limits], np.float64)
        estimates = walltimes.copy()
        if self.is_exact:
            estimates = np.array(run_times, np.float64)
        columns = JobColumns(
            ids=ids,
            submission_times=np.array(dates, np.float64),
            processors=np.array(processors, np.int64),
            walltimes=walltimes,
            estimates=estimates,
            profiles=np.arange(len(ids)),
            profile_names=ids,
            requests=list(requests) if any(requests) else None,
        )
        written = b"[%s]" % ",\n".join(map(self._line, ids)).encode()
        delays = map(plain_number, run_times)
        profiles = {
            name: {"type": "delay", "delay": delay} for name, delay in zip(ids, delays, strict=True)
        }
        told = {"command": "run --users", "users": self.users.provenance}
        self.made = Workload(
            JobTable(columns, written, is_ours=True),
            profiles,
            self.users.processors,
            told,
            "the jobs of users who react",
            calendar=self.users.calendar,
        )
        return self.made


def format_wishes(wishes: Sequence[Wish]) -> Iterator[bytes]:
    """Yield ``PREFIX_users.csv``: one row for each wish; a missing date is an empty cell."""
    columns: list[Any] = [list(column) for column in zip(*wishes, strict=True)]
    for place, name in enumerate(Wish._fields):
        if name in ("job", "user", "outcome"):
            continue
        is_whole = name in ("processors", "tries", "lies", "hoards")
        columns[place] = np.array(columns[place], np.int64 if is_whole else np.float64)
    yield ",".join(Wish._fields).encode() + b"\n"
    yield from format_rows([shielded_column(column) for column in columns], len(wishes))
