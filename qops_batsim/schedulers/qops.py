"""QoPS: deadline admission by reordering (Islam et al. 2003, section 3, Figure 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from qops_batsim.core.job import Job
from qops_batsim.core.job_sorting import sort_by_key
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.overrides import is_overridden
from qops_batsim.core.refusal import missed_deadline
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.errors import SimulationError, python_text
from qops_batsim.schedulers.deadline import (
    DeadlineOptions,
    DeadlineScheduler,
    lift,
    meets,
)
from qops_batsim.schedulers.job_orders import ORDERS, OrderName, key_in
from qops_batsim.schedulers.user_past import UserPast
from qops_batsim.timing import DEADLINE_TOLERANCE, end_of, on_grid, up_to_grid

FIRST, LAST, BY_WORK, BY_RESPONSE, BY_SLACK = range(5)
"""Which insertion point gives the plan: the first, the last, or the cheapest with a plan."""

KEPT = 16
"""Most profiles of a part of a plan that a search keeps to go back to."""

SHORTEST_STRIDE = 16
"""Jobs that are placed from one profile that is kept to the next, at least."""

SHORT_LINE = 64
"""So few jobs are placed sooner than bounds of their fits are kept."""

PATIENT = 60.0
"""A job with more laxity left than this (seconds) may wait for headroom."""

FOREVER = 1e12
"""What a wait without end counts as (seconds)."""

PRICE_TOLERANCE = 1e-9
"""Relative difference of costs that are one."""

ROUNDING = 1e-9
"""So that 0.29 of 100 processors are 29."""

_INFINITY = math.inf


class QopsOptions(DeadlineOptions, frozen=True, kw_only=True):
    """Options of :class:`Qops`."""

    order: Annotated[
        Literal[OrderName, "scheduled_start"],
        Meta(
            description="order in which jobs are placed: by deadline minus estimate, by deadline, "
            "or another of easy's, ties by arrival; or the new job, and then the others by planned "
            "start, where a critical job goes before the others and these stay in order, as the "
            "authors' talk has it (with undo=all, slides 12 and 13)"
        ),
    ] = "least_laxity"
    k_factor: Annotated[
        int,
        Meta(ge=0, description="most deadline violations repaired at one insertion point"),
    ] = 5
    on_failure: Annotated[
        Literal["next_point", "reject"],
        Meta(
            description="when an insertion point fails: go on to the next one, or reject the job "
            "as Figure 3 has it literally"
        ),
    ] = "next_point"
    new_job: Annotated[
        Literal["in_order", "first"],
        Meta(
            description="at insertion points after the first: place the new job in heuristic "
            "order, or before the jobs that are placed again, as the text of section 3 has it"
        ),
    ] = "in_order"
    undo: Annotated[
        Literal["placed_later", "starting_later", "all"],
        Meta(
            description="what a violation takes out again, of the jobs placed from the insertion "
            "point on: the half placed later, the half that starts later, or all of them, so that "
            "the critical job goes to the head of the list, as the text of section 3 has it"
        ),
    ] = "placed_later"
    insertion: Annotated[
        Literal["first", "best", "last"],
        Meta(
            description="which insertion point gives the plan, of those that have one: the first, "
            "the best by best_by (section 6), or the last, since Figure 3 goes on after a success"
        ),
    ] = "first"
    best_by: Annotated[
        Literal["work", "response", "slack"],
        Meta(
            description="what the best insertion point has the least of: waits times processors, "
            "waits, or lost slack (sum of -log(slack + 60 s), over all jobs with deadlines)"
        ),
    ] = "work"
    headroom: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="share of the machine that stays free next to a job with more than a "
            "minute of laxity, where it ends in time even so; else it is placed as without",
        ),
    ] = 0.0
    run_times: Annotated[
        Literal["estimated", "predicted"],
        Meta(
            description="what is planned with: estimates, or run times predicted from the last two "
            "jobs of the user, which may be too short, so that promises may be broken"
        ),
    ] = "estimated"


def sort_by_trial(jobs: list[Job], first: int, end: int) -> None:
    """Sort the jobs at indices ``first`` to ``end`` (excluded) by trial start, keeping the order of
    ties. O(jobs²).
    """
    for last in range(first + 1, end):
        job = jobs[last]
        place = last
        while place > first:
            earlier = jobs[place - 1]
            if earlier.trial <= job.trial:
                break
            jobs[place] = earlier
            place -= 1
        jobs[place] = job


class Qops(DeadlineScheduler):
    """QoPS: admit a job if some order of the waiting jobs keeps every deadline.

    1. A new job is tried at few insertion points of the plan: 0, N/2, 3N/4, ... of the N waiting
       jobs by planned start, or those of :meth:`insertion_points`. Those before the point keep
       their reservations; the others and the new job are placed one by one, each at its earliest
       fit, in the order of :meth:`key`.
    2. A job that would be late is critical. The later half of the jobs placed since the insertion
       point is taken out again, and the critical job is placed before them. That is done up to
       ``k_factor`` times at a point.
    3. The plan of the first point that has one is adopted (option ``insertion``). If none has, the
       job is rejected.

    M. Islam, P. Balaji, P. Sadayappan, D. K. Panda, "QoPS: a QoS based scheme for parallel job
    scheduling", JSSPP 2003. Where the paper leaves a choice there is an option.

    Attributes
    ----------
    point, blamed
        The insertion point that was tried last, and the job whose deadline blocked it.

    Examples
    --------
    >>> class ShortestFirst(Qops):
    ...     def key(self, job):
    ...         return job.duration
    ...
    ...     def insertion_points(self, job, waiting):
    ...         return [0, len(waiting)]
    >>> from qops_batsim import simulate
    >>> len(simulate(ShortestFirst, "sdsc_sp2_deadlines_500").ended)
    500
    """

    summary = "QoPS: deadline admission, reordering waiting jobs (Islam et al. 2003)"
    Options: type[SchedulerOptions] = QopsOptions
    HOOKS: ClassVar[dict[str, str]] = {
        **DeadlineScheduler.HOOKS,
        "key": "job",
        "insertion_points": "job waiting",
    }

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        DeadlineScheduler.__init__(self, options)
        chosen = self.options
        self.has_key = type(self).key is not Qops.key
        self.has_points = is_overridden(self, Qops, "insertion_points")

        self.placing = ORDERS.index(chosen.order)
        # The keys of a subclass take the place of this option.
        self.by_start = chosen.order == "scheduled_start" and not self.has_key
        self.new_job_first = chosen.new_job == "first"
        self.share = float(chosen.headroom)
        self.predicts = self.learns = chosen.run_times == "predicted"

        self.k_factor = chosen.k_factor
        self.undoes_all = chosen.undo == "all"
        self.undoes_by_start = chosen.undo == "starting_later"

        self.stops_at_failure = chosen.on_failure == "reject"
        cheapest = {"work": BY_WORK, "response": BY_RESPONSE, "slack": BY_SLACK}[chosen.best_by]
        self.insertion = {"first": FIRST, "best": cheapest, "last": LAST}[chosen.insertion]

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        DeadlineScheduler.begin(self, manager)
        self.kept = [self.plan.empty_profile() for _ in range(KEPT)]
        self.bounds = self.plan.fit_bounds()
        self.kept_bounds = [self.plan.fit_bounds() for _ in range(KEPT)]
        self.last_order: list[Job] = []
        self.point = 0
        self.furthest = 0
        self.past = UserPast()

    def key(self, job: Job) -> float:
        """Return the sort key of a job: a search places jobs with lower keys first, ties by
        arrival.

        Asked of each waiting job in each search. Not overridden: the option ``order``; where that
        is the scheduled start, jobs are placed by no key.
        """
        return key_in(self.placing, self.plan.nominal() - job.arrival, job)

    def insertion_points(self, job: Job, waiting: list[Job]) -> Sequence[int]:
        """Return the insertion points at which a new job is tried, in this order.

        Asked once in each search. Not overridden: 0, N/2, 3N/4, 7N/8, ... of N waiting jobs
        (section 3).

        Parameters
        ----------
        waiting
            The waiting jobs by planned start. At insertion point *i*, those before index *i* keep
            their starts; at their number, all of them do.

        Returns
        -------
        sequence of int
            Indices from 0 to the number of waiting jobs, at least one.
        """
        count = len(waiting)
        points = [0]
        point = 0
        following = count // 2
        while following != point:
            points.append(following)
            point = following
            following = point + (count - point) // 2
        return points

    def checked_points(self, points: object, count: int) -> Sequence[int]:
        """Return the insertion points that a subclass gave as a list; raise a SimulationError if
        they are none of ``count`` waiting jobs.
        """
        if isinstance(points, Iterable) and not isinstance(points, str):
            indices = list(points)
            allowed = range(count + 1)
            if indices and all(isinstance(one, Integral) and one in allowed for one in indices):
                return indices

        raise SimulationError(
            f"{type(self).__name__}.insertion_points returned {python_text(points)}; whole numbers "
            f"from 0 to {count}, the number of waiting jobs, are expected, at least one"
        )

    def set_key(self, job: Job, now: float) -> None:
        """Set a job's sort key, by :meth:`key` of a subclass, else by the option ``order``, at the
        date ``now`` (seconds).
        """
        if self.has_key:
            key = self.key(job)
            # The usual answer, a float that is not NaN, needs no call.
            job.key = key if type(key) is float and key == key else self.checked_key(job, key)
        else:
            job.key = key_in(self.placing, now - job.arrival, job)

    def decide(self) -> None:
        """Update the plan, answer new jobs, start the jobs that are due."""
        if self.predicts:
            self.predict()
        DeadlineScheduler.decide(self)

    def try_admission(self, job: Job) -> object:
        """Search a plan with a new job; return None if there is one, which is then in ``draft``,
        else the reason for a refusal.
        """
        if self.search(job):
            return None

        blamed = self.blamed
        return missed_deadline(
            blamed.id,
            blamed.target,
            own=blamed is job,
            insertion_point=self.point,
            waiting=len(self.plan.waiting),
        )

    # The search

    def search(self, new: Job) -> bool:
        """Search a plan with a new job that keeps all targets; return whether there is one, which
        is then in ``draft``.
        """
        waiting = self.plan.waiting
        self.leave_headroom(waiting, new)
        return self.try_points(waiting, new)

    def leave_headroom(self, line: list[Job], new: Job) -> None:
        """Set the headroom of all jobs: how many processors stay free while each of them runs."""
        # What is free in the end is the machine.
        if self.share == 0:
            return
        last = self.running.free[self.running.size - 1]
        room = int(self.share * last + ROUNDING)
        new.headroom = room
        for job in line:
            job.headroom = room

    def try_points(self, line: list[Job], new: Job) -> bool:
        """Try the insertion points of a new job; return whether one of them gives a plan.

        O(N log N + log N × (N + K × N) × steps).
        """
        count = len(line)
        now = self.plan.nominal()
        base = self.base
        base.copy_from(self.running)
        in_order: list[Job] = []
        self.blamed = new

        if self.has_points:
            # A copy: what a subclass does with it is no business of the plan.
            points = self.checked_points(self.insertion_points(new, list(line)), count)
        else:
            points = Qops.insertion_points(self, new, line)

        kept = 0
        chosen = -1
        cheapest = _INFINITY
        for point in points:
            # The base profile holds the jobs before the point. It grows with ascending points.
            if point < kept:
                base.copy_from(self.running)
                kept = 0
            self.keep(line, kept, point)
            self.point = kept = point

            soonest = base.try_fit(new, now)
            if not self.stops_at_failure and not meets(soonest, new.duration, new.target):
                self.blamed = new
                if self.has_points:
                    continue  # The next point may be an earlier one.
                # Behind more jobs that are kept it is no earlier, up to the last point.
                self.point = max(count - 1, 0)
                break

            if not in_order:
                in_order = self.in_order(line, new)
            if self.try_point(line, in_order, new, point):
                if self.insertion == FIRST:
                    return True
                cost = self.cost_of(point)
                if cost < cheapest - PRICE_TOLERANCE * abs(cost):
                    chosen = point
                    cheapest = cost
            elif self.stops_at_failure:
                return False

        if chosen < 0:
            return False

        # The plan of the last point that was tried is in the draft; that of an earlier one is made
        # again.
        if chosen != kept:
            base.copy_from(self.running)
            self.keep(line, 0, chosen)
            self.try_point(line, in_order, new, chosen)
            self.point = chosen
        return True

    def keep(self, line: list[Job], kept: int, point: int) -> None:
        """Add the reservations of the jobs at indices ``kept`` to ``point`` to the base profile."""
        for place in range(kept, point):
            job = line[place]
            self.base.take(job, job.start, end_of(job.start, job.duration))
            job.keep_as_trial()

    def in_order(self, line: list[Job], new: Job) -> list[Job]:
        """Return all jobs in the order in which a search places them; ``job.rank`` becomes the
        place by planned start.

        O(N log N), and linear where the waiting jobs are those of the last time.
        """
        count = len(line)
        now = self.plan.nominal()
        bounds = self.bounds
        for rank in range(count):
            job = line[rank]
            self.set_key(job, now)
            job.rank = rank
            if job.cell < 0:
                bounds.classify(job)
        self.set_key(new, now)
        new.rank = count
        bounds.classify(new)
        if self.by_start:
            return [new, *line]

        # Jobs in the order of the last search are nearly sorted, which is quick to sort.
        order = self.last_order
        place = 0
        for index in range(len(order)):
            job = order[index]
            # Ranks of jobs that have left are old ones, at which other jobs stand now.
            if job.rank < count and line[job.rank] is job:
                order[place] = job
                place += 1
        if place < count:
            order = list(line)
        else:
            del order[place:]

        order.append(new)
        sort_by_key(order, 0, count + 1)
        self.last_order = order
        return order

    def try_point(self, line: list[Job], in_order: list[Job], new: Job, point: int) -> bool:
        """Try to plan a new job at one insertion point (index) of the waiting jobs; return whether
        all targets are met.
        """
        order = line[:point]
        self.order = order
        if point == 0:
            order += in_order
        elif self.new_job_first:
            order.append(new)
            order += [job for job in in_order if job.rank >= point and job is not new]
        else:
            order += [job for job in in_order if job.rank >= point]

        # What failed before it came to the new job fails again, wherever behind that the job is.
        place = point
        while order[place] is not new:
            place += 1
        failures = self.failures
        if failures is not None and point in failures:
            self.furthest, self.blamed = failures[point]
            if place > self.furthest:
                return False

        self.draft.copy_from(self.base)
        if self.place_line(point, new):
            return True
        if failures is not None and place > self.furthest:
            failures[point] = self.furthest, self.blamed
        return False

    def place_line(self, point: int, new: Job) -> bool:
        """Place the jobs from an insertion point on at their earliest fits; return whether all
        targets are met.

        A critical job that is late even directly behind the kept ones ends the attempt, as does
        the violation after the last one that is repaired. It is ``blamed``, and ``furthest`` is
        how far in the order the attempt came.
        """
        order = self.order
        base = self.base
        draft = self.draft
        bounds = self.bounds
        now = self.plan.nominal()
        end = len(order)
        if self.failures is not None and self.insertion == FIRST and not self.new_job_first:
            # Who may wait is never late, and where it would be nobody asks.
            last = order[end - 1]
            while last is not new and last.target == _INFINITY:
                end -= 1
                last = order[end - 1]

        self.has_bounds = end - point > SHORT_LINE
        bounds.forget()
        self.furthest = 0
        placed = point
        violations = 0
        touched = point
        # A copy of the draft after each so many jobs: to undo some of them starts from the last.
        stride = max(SHORTEST_STRIDE, (end - point) // KEPT + 1)
        while placed < end:
            job = order[placed]
            self.furthest = max(self.furthest, placed)
            start = self.fit_beside(job, now)
            due = end_of(start, job.duration)
            if due <= job.target + DEADLINE_TOLERANCE:
                draft.take_found(job, start, due)
                job.trial = start
                placed += 1
                if (placed - point) % stride == 0:
                    number = (placed - point) // stride - 1
                    profile = self.kept[number]
                    profile.copy_from(draft)
                    if self.has_bounds:
                        known = self.kept_bounds[number]
                        known.copy_from(bounds)
                continue

            # The job is critical. Where it would be late as the first one too, nothing helps.
            violations += 1
            soonest = base.try_fit(job, now)
            if violations > self.k_factor or not meets(soonest, job.duration, job.target):
                self.blamed = job
                return False

            if self.undoes_by_start:
                sort_by_trial(order, point, placed)
            middle = point if self.undoes_all else (point + placed) // 2
            # In another order than they were placed in, no kept profile is that of the first jobs:
            # with this stride none is looked for.
            self.go_back(point, middle, end if self.undoes_by_start else stride)
            lift(order, placed, middle)
            late = placed
            placed = middle

            if self.by_start:
                continue
            # Jobs that were lifted earlier go back to their places by key. Behind the last job
            # that was ever late, all are in order still.
            touched = end if self.new_job_first else max(touched, late + 1)
            sort_by_key(order, middle + 1, touched)
        return True

    def fit_beside(self, job: Job, now: float) -> float:
        """Return a job's earliest fit (seconds): with its headroom if it still ends in time, else
        without. O(steps).

        The headroom of a wide job is what it leaves of the machine, if that is less.
        """
        draft = self.draft
        bounds = self.bounds
        after = now
        if self.has_bounds:
            # Jobs as large as this one have been found not to fit before.
            after = max(now, bounds.dates[job.cell])

        if job.headroom > 0 and job.target - now - job.duration > PATIENT:
            start = draft.fit_with_room(job, after, job.headroom)
            if start < _INFINITY and meets(start, job.duration, job.target):
                return start

        start = draft.try_fit(job, after)
        if self.has_bounds and start > after:
            bounds.learn(job, start)
        return start

    def go_back(self, point: int, middle: int, stride: int) -> None:
        """Take the jobs from index ``middle`` on out of the draft profile, starting from the
        nearest saved profile.
        """
        number = (middle - point) // stride
        if number == 0:
            self.draft.copy_from(self.base)
            self.bounds.forget()
        else:
            profile = self.kept[number - 1]
            self.draft.copy_from(profile)
            if self.has_bounds:
                known = self.kept_bounds[number - 1]
                self.bounds.copy_from(known)

        for place in range(point + number * stride, middle):
            job = self.order[place]
            self.draft.take_tried(job, job.trial, end_of(job.trial, job.duration))

    def cost_of(self, point: int) -> float:
        """Return the cost of the plan found at an insertion point, by the option ``best_by``; the
        least is best. O(jobs).

        What has no deadline has no slack that could be used up.
        """
        if self.insertion == LAST:
            return -float(point)

        now = self.plan.nominal()
        cost = 0.0
        for job in self.order:
            wait = min(job.trial - now, FOREVER)
            if self.insertion == BY_WORK:
                cost += wait * job.size
            elif self.insertion == BY_RESPONSE:
                cost += wait
            elif job.target < _INFINITY:
                slack = job.target - job.trial - job.duration
                cost -= math.log(max(slack, 0.0) + PATIENT)
        return cost

    # Predictions

    def predict(self) -> None:
        """Learn run times from ended jobs, and predict those of new jobs from the last jobs of
        their users.

        A job with a fixed start is expected to run as long as it asks for.
        """
        plan = self.plan
        now = up_to_grid(self.manager.now)
        for job in plan.gone:
            # A job that is killed would have run longer.
            if not job.is_dying:
                self.past.learn(job, now - on_grid(job.start + job.lag))

        for job in plan.new:
            if job.fixed_start < _INFINITY:
                continue
            job.duration = self.past.expected(job)
            if job.duration < job.requested:
                self.manager.record(job).predicted_run_time = job.duration
                if plan.log is not None:
                    plan.log.predicted(job)
