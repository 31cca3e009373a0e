"""Deadline admission: a job is admitted only if every promise can still be kept.

What the schedulers share that answer for deadlines: is there time at all, ask the search, adopt its
plan or reject the job. Write one of your own by overriding :meth:`DeadlineScheduler.admit`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from qops_batsim.core.availability import AvailabilityProfile, Fit
from qops_batsim.core.job import OVER, RUNNING, Job
from qops_batsim.core.node_request import FoundHosts
from qops_batsim.core.options import PlannerOptions, SchedulerOptions
from qops_batsim.core.overrides import is_ours, is_overridden
from qops_batsim.core.plan import Plan
from qops_batsim.core.refusal import Refusal, RefusalKind, no_time
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.errors import CountsHostsError, SimulationError, python_text, require_type
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of, on_grid

_INFINITY = math.inf

HOLDERS = {"user": "user", "account": "group"}
"""Fields of a job that tell who holds its promise, by value of the option ``promise_holder``."""

ROUNDING = 1e-9
"""Part of a limit by which sums of work may exceed it."""


class DeadlineOptions(PlannerOptions, frozen=True, kw_only=True):
    """Base class of the options of schedulers that promise deadlines."""

    promise_limit: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(
            description="most work that one user or account may hold promises for at a time, in "
            "hours of the whole machine: 6 are a quarter of it for a day; none for any amount",
            extra={"unit": "h"},
        ),
    ] = None
    promise_holder: Annotated[
        Literal["user", "account"],
        Meta(
            description="whose promises are added up: by the field user or group of jobs; those "
            "without the field are not limited"
        ),
    ] = "user"


def has_own_promise(job: Job) -> bool:
    """Return whether a job asks for a fixed start, or for a deadline that its user chose and not an
    artificial one.
    """
    if job.qos is None:
        return False
    return job.fixed_start < _INFINITY or (
        job.deadline < _INFINITY and job.qos.has_user_deadline is not False
    )


def meets(start: float, duration: float, target: float) -> bool:
    """Return whether a job of this duration is expected to end by its target if it starts at
    ``start`` (all in seconds).
    """
    return end_of(start, duration) <= target + DEADLINE_TOLERANCE


def lift(jobs: list[Job], place: int, to: int) -> None:
    """Move the job at index ``place`` of a list to the earlier index ``to``. O(place - to)."""
    job = jobs[place]
    while place > to:
        earlier = jobs[place - 1]
        jobs[place] = earlier
        place -= 1
    jobs[to] = job


class DeadlineScheduler(PlanScheduler):
    """Base class of schedulers that admit a job only if all promises can be kept.

    A subclass says how in :meth:`admit`. Everything else is the same for all: starts, compression
    when jobs end early, the refusal of jobs that could not end in time if nothing waited.

    Attributes
    ----------
    plan
        The plan of all starts; ``plan.waiting`` are the admitted jobs that wait.
    running
        What the running jobs leave free, while a new job is answered.
    base, draft
        Profiles that a search works on; the draft is the one of the plan that it finds.
    order
        The jobs of that plan, with their starts in ``job.trial``.
    failures
        While the plan stays, as what is searched for is only asked about: what a search has learned
        for the next one. Else None.

    Examples
    --------
    >>> class EarliestDeadline(DeadlineScheduler):
    ...     '''Plan all jobs again in the order of their deadlines.'''
    ...
    ...     def admit(self, job):
    ...         free = self.availability()
    ...         starts = {}
    ...         for next_job in sorted([*self.plan.waiting, job], key=lambda job: job.target):
    ...             fit = free.fit(next_job)
    ...             if fit.start + next_job.duration > next_job.target:
    ...                 return f"{next_job.id} would end after its deadline ({next_job.target:g} s)"
    ...             free.reserve(next_job, fit.start)
    ...             starts[next_job] = fit
    ...         self.adopt_starts(starts)
    >>> from qops_batsim import simulate
    >>> from qops_batsim.protocol import make_scheduler
    >>> module = make_scheduler(EarliestDeadline)
    >>> done = simulate(module, "sdsc_sp2_deadlines_500").ended
    >>> module.qos_log.record("w0!24").reason
    ''
    """

    Options: type[SchedulerOptions] = DeadlineOptions
    keeps_decisions = True
    needs_deadlines = True
    HOOKS: ClassVar[dict[str, str]] = {
        **PlanScheduler.HOOKS,
        "admit": "job",
        "try_admission": "job",
    }

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        PlanScheduler.__init__(self, options)
        limit = getattr(self.options, "promise_limit", None)
        self.most_hours = _INFINITY if limit is None else float(limit)
        self.has_search = is_overridden(self, DeadlineScheduler, "try_admission")
        self.is_own = not is_ours(type(self))

    def empty_plan(self, machine_size: int) -> Plan:
        """Return an empty plan, in which no job may be moved past its promise."""
        return Plan(machine_size, keeps_promises=True)

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        PlanScheduler.begin(self, manager)
        self.running = self.plan.empty_profile()
        self.base = self.plan.empty_profile()
        self.draft = self.plan.empty_profile()
        self.order: list[Job] = []
        self.has_profile = False
        self.failures: dict[int, tuple[int, Job]] | None = None

    def decide(self) -> None:
        """Update the plan, answer new jobs, start the jobs that are due."""
        self.has_profile = False
        PlanScheduler.decide(self)

    def reserve_start(self, job: Job) -> None:
        """Promise a new job the start that it asks for if it fits, else refuse it."""
        self.has_profile = False
        PlanScheduler.reserve_start(self, job)

    def answer(self, job: Job) -> None:
        """Admit a new job into the plan, or reject it."""
        refusal = self.attempt(job)
        if refusal is not None:
            self.refused(job, refusal)

    def attempt(self, job: Job) -> object:
        """Try to admit a new job as it asks; return None if it was admitted, else the reason for a
        refusal.
        """
        refusal: object = self.why_impossible(job)
        if refusal is None:
            self.prepare()
            before = list(self.plan.waiting) if self.is_own else []
            refusal = self.checked_refusal(self.admit(job))
            if self.is_own:
                self.check_plan(before, refusal)
            if refusal is None:
                self.check_admitted(job)
                self.note_admission(job)
        return refusal

    def admit(self, job: Job) -> object:
        """Admit a new job and return None, or return the reason for a refusal: a text or a Refusal.

        It could end in time if nothing waited. Take it with ``self.plan.place_new(job)``, which
        moves no other job, or with :meth:`adopt_starts`. Equal questions have to be answered alike:
        ``quote`` asks again. Not overridden: what the search of :meth:`try_admission` finds.
        """
        if not self.has_search:
            raise SimulationError(
                f"{type(self).__name__} has neither admit nor try_admission; one is expected"
            )
        return self.admit_found(job)

    # What a subclass can call

    @property
    def now(self) -> float:
        """The current date (seconds), from which plans begin."""
        return self.plan.nominal()

    def availability(self) -> AvailabilityProfile:
        """Return the availability profile: what running jobs leave free. O(steps)."""
        return AvailabilityProfile.like(self.running, self.plan.machine_size)

    def try_admission(self, job: Job) -> object:
        """Return None if a new job could be admitted now, with its start in ``job.trial``; else
        return the reason for a refusal.

        The plan stays as it is. A subclass that has a search overrides this instead of
        :meth:`admit`; else that is tried and undone. O(waiting + steps).
        """
        # To admit a job changes the plan: what it may change is kept.
        plan = self.plan
        waiting = list(plan.waiting)
        starts = [planned.start for planned in waiting]
        held = [plan.hosts.amount_for(planned) for planned in waiting]
        given_from = plan.given_from
        given_until = plan.given_until
        profile = plan.empty_profile()
        profile.copy_from(plan.profile)

        refusal = self.admit(job)
        job.keep_as_trial()

        plan.waiting = waiting
        for place in range(len(waiting)):
            waiting[place].start = starts[place]
            plan.hosts.restore_amount(waiting[place], held[place])
        plan.given_from = given_from
        plan.given_until = given_until
        plan.profile = profile
        return refusal

    def admit_found(self, job: Job) -> object:
        """Admit a new job with the plan that :meth:`try_admission` finds; return None, or the
        reason for a refusal.
        """
        refusal = self.try_admission(job)
        if refusal is None:
            self.adopt()
        return refusal

    def why_impossible(self, job: Job) -> Refusal | None:
        """Return why a job would miss its deadline even if no other job waited, None if it would
        not.
        """
        plan = self.plan
        if job.target < _INFINITY and not plan.hosts.can_hold(job):
            size = plan.machine_size
            return Refusal(
                kind=RefusalKind.HOSTS_AWAY,
                processors=job.processors,
                machine_size=size,
                hosts=size - plan.hosts.present,
            )

        left = job.target - plan.nominal()
        if job.duration > left + DEADLINE_TOLERANCE:
            return no_time(job.duration, left, job.target)
        return None

    def why_limited(self, job: Job) -> Refusal | None:
        """Return a refusal if the job's user or account would hold more promises than the option
        ``promise_limit`` allows, else None. O(plan).

        Held is the work of waiting jobs, and of running ones what is expected to be left of it.
        """
        if self.most_hours == _INFINITY or not has_own_promise(job):
            return None
        field = HOLDERS[self.options.promise_holder]
        holder = job.fields.get(field)
        if holder is None:
            return None  # Nobody's promises, which are not limited.

        plan = self.plan
        held = 0.0
        for other in [*plan.waiting, *plan.running, *plan.fixed.jobs()]:
            if other.phase == OVER or other.fields.get(field) != holder:
                continue
            if has_own_promise(other):
                left = other.duration
                if other.phase == RUNNING:
                    left = max(other.end - plan.nominal(), 0.0)
                held += other.size * left

        work = job.size * job.duration
        most = self.most_hours * 3600.0 * plan.machine_size
        if held + work <= most * (1.0 + ROUNDING):
            return None
        return Refusal(
            kind=RefusalKind.PROMISE_LIMIT, name=str(holder), work=work, held=held, most=most
        )

    def prepare(self) -> None:
        """Prepare the answer to a new job: give late jobs new targets, and build the profile of
        running jobs.
        """
        now = self.plan.nominal()
        self.failures = None
        self.plan.aim_again()
        if not self.has_profile or self.running.start != now:
            self.plan.reserve_running(self.running, now)
            self.has_profile = True

    def adopt(self) -> None:
        """Make the plan that a search has found (``order`` and ``draft``) the plan. O(jobs²),
        linear if nearly sorted by start.
        """
        plan = self.plan
        plan.adopt(self.order)
        plan.profile, self.draft = self.draft, plan.profile

    def adopt_starts(self, starts: Mapping[Job, float | Fit]) -> None:
        """Adopt these starts (seconds) of all waiting jobs and the new one as the plan.

        Every job has to end by its target, and its processors have to be free; else
        SimulationError is raised. Where jobs share hosts, what ``availability().fit(job)`` returned
        may stand in place of a start, and keeps the hosts found. With a mere start a job gets its
        hosts in the order of ``starts``: those that it has if it was planned at that start, else
        those of the rule.
        """
        expected = {*self.plan.waiting, *self.plan.new}
        require_type(f"{type(self).__name__}.adopt_starts", starts, Mapping, "starts by job")
        missing = [job.id for job in self.plan.waiting if job not in starts]
        odd = [job.id for job in starts if job not in expected]
        if missing or odd:
            raise self.wrong(
                "starts for not just the waiting jobs and the new one; missing or not expected: "
                f"{', '.join(missing + odd)}"
            )

        # The draft and the order become what a search would have found.
        now = self.plan.nominal()
        draft = self.draft
        draft.copy_from(self.running)
        self.order = list(starts)
        for job, given in starts.items():
            where = f"{type(self).__name__} at {now:g} s: start of {job.id}"
            require_type(where, given, (int, float, Fit), "a number of seconds or a Fit")
            start = on_grid(float(given.start if isinstance(given, Fit) else given))
            if not start >= now or not meets(start, job.duration, job.target):
                raise self.wrong(
                    f"{job.id} a start at {start:g} s; a start at {now:g} s or later, from which "
                    f"the job ends by {job.target:g} s, is expected"
                )
            end = end_of(start, job.duration)
            if self.plan.use is not None:
                self.find_hosts(job, start, end, given)
            elif start < _INFINITY and draft.spare_beside(job, start, end) < 0:
                raise self.wrong(
                    f"{job.id} a start at {start:g} s, where fewer processors are free than "
                    f"the {job.processors} that it asks for"
                )
            job.trial = start
            draft.take_as_found(job, start, end)
        self.adopt()

    def find_hosts(self, job: Job, start: float, end: float, given: object) -> None:
        """Have the draft find the hosts of a Fit, or for a mere start those of the rule; raise a
        SimulationError if they are not free between two dates (seconds).
        """
        if start == _INFINITY:
            return
        draft: Any = self.draft
        hosts = given.hosts if isinstance(given, Fit) else None
        if isinstance(hosts, FoundHosts) and hosts.places.parts == job.request.parts:
            job.request.found.copy_from(hosts.places)
            is_free = draft.are_free(hosts.places, start, end)
        else:
            is_free = draft.find_at(job, start, end)
        if not is_free:
            what = f"hosts {hosts}" if hosts else "no hosts"
            raise CountsHostsError(
                f"{type(self).__name__} at {self.now:g} s gave {job.id} a start at {start:g} s and "
                f"{what}, but jobs share hosts by amounts, and "
                "what it asks for is not free there beside the starts before it; "
                "availability().fit(job) finds starts and hosts that adopt_starts takes"
            )

    def checked_refusal(self, answer: object) -> object:
        """Return what :meth:`admit` of a subclass returned if it is an answer; else raise a
        SimulationError.
        """
        if answer is None or isinstance(answer, Refusal):
            return answer
        if isinstance(answer, str):
            return answer or "refused without a reason"
        raise self.wrong(
            f"the answer {python_text(answer)}; a text or Refusal that says why the job is refused "
            "is expected, or None after adopt_starts or plan.place_new has planned it"
        )

    def check_plan(self, before: list[Job], refusal: object) -> None:
        """Raise a SimulationError if :meth:`admit` of a subclass has changed the list of the
        waiting jobs itself, which were those of ``before``. O(waiting).
        """
        waiting = self.plan.waiting
        is_changed = False
        if refusal is not None:
            is_changed = len(waiting) != len(before)
            for place in range(min(len(waiting), len(before))):
                is_changed = is_changed or waiting[place] is not before[place]
        else:
            for place in range(1, len(waiting)):
                earlier = waiting[place - 1]
                later = waiting[place]
                is_changed = is_changed or earlier.start > later.start
        if is_changed:
            raise self.wrong(
                "self.plan.waiting other jobs or another order, by which the plan goes; work on a "
                "copy: list(self.plan.waiting)"
            )

    def check_admitted(self, job: Job) -> None:
        """Raise a SimulationError unless an admitted job is in the plan and in time. O(waiting)."""
        for waiting in self.plan.waiting:
            if waiting is job:
                if meets(job.start, job.duration, job.target):
                    return
                break
        raise self.wrong(
            f"no reason to refuse {job.id}, but planned no start from which the job ends by "
            f"{job.target:g} s"
        )

    def wrong(self, what: str) -> SimulationError:
        """Return a SimulationError that names the subclass, the date and what it did wrong."""
        return SimulationError(f"{type(self).__name__} at {self.manager.now:g} s gave {what}")

    def checked_key(self, job: Job, key: object) -> float:
        """Return the sort key that a subclass gave for a job as a float; raise a SimulationError if
        it is not a number.
        """
        if isinstance(key, (int, float)) and not math.isnan(key):
            return float(key)
        raise SimulationError(
            f"{type(self).__name__}.key({job.id}) returned {python_text(key)}; a number is expected"
        )
