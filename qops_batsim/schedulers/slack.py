"""Slack-based backfilling with priorities (Talby and Feitelson 1999).

D. Talby, D. G. Feitelson, "Supporting priorities and improving utilization of the IBM SP scheduler
using slack-based backfilling", IPPS 1999. Sections are those of that paper.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_right
from collections import deque
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import UNSET, Meta

from qops_batsim.core.job import RUNNING, Job, tried_places
from qops_batsim.core.job_sorting import sort_by_key, sort_by_start
from qops_batsim.core.node_request import Places
from qops_batsim.core.options import PlannerOptions, SchedulerOptions, seconds
from qops_batsim.core.plan import Plan, Renewal
from qops_batsim.core.profile import FitBounds, Profile
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.errors import InputError
from qops_batsim.job_fields import QosRequest
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.schedulers.standing import Standing
from qops_batsim.timing import PLAN_TOLERANCE, duration_on_grid, end_of, on_grid, up_to_grid

AST, AAT, DU, DC, DP, EXHAUSTIVE = range(6)
HEURISTICS = {
    "ascending_scheduled_time": AST,
    "ascending_arrival_time": AAT,
    "descending_utilization": DU,
    "descending_cost": DC,
    "descending_priority": DP,
    "exhaustive": EXHAUSTIVE,
}
"""Orders in which delayed jobs are placed again (section 4.6); see :meth:`Search.key_of`."""

FIRST_SCHEDULER_PRIORITY = 0.5
"""Scheduler priority before a job has a start: it is meant to wait the average time."""

PRIOR_JOBS = 100
"""The given average counts as the waits of this many jobs until others are known."""

LEAST_AVERAGE_WAIT = 1.0
"""Shortest average wait learned, so that slack and priority are defined."""

FOREVER = 1e12
"""Price of a second's worth of endless delay (seconds): more than any date."""

LEAST_PRIORITY = 1e-6
"""Lower priorities of a moved job count as this one.

Otherwise there would be no gain in moving up a job without priority, which nothing hinders.
"""

LEAST_SLACK = 1.0
"""Shorter slacks count as this one (seconds), so that their ratio is a number."""

PRICE_TOLERANCE = 1e-9
"""Prices that differ by less than this part of them are equal."""

LONG = 24
"""From this many waiting jobs on, it pays to learn bounds of earliest fits."""

EXTENSION = 0.1
"""A job that reaches its estimate asks for this part of it in addition (section 4.7)."""

TICK_GRACE = PLAN_TOLERANCE
"""Time after its estimate at which a job is looked at (seconds).

Engines round the dates that they send, that of the start as well: a job that ends just
at its estimate must not be taken for one that does not.
"""

TICK_ROUNDING = PLAN_TOLERANCE / 2
"""Most by which the engine's date may be before that (seconds)."""

_INFINITY = math.inf


class SlackOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of :class:`Slack`."""

    slack_factor: Annotated[
        float,
        Meta(ge=0, description="initial slack of a job of priority 0, in average wait times"),
    ] = 3.0
    average_wait: Annotated[
        float,
        seconds(
            "average wait time of the system; the default is the paper's, of the KTH "
            "SP2 in 1996/97. Where it is learned: what to assume at first",
            gt=0,
        ),
    ] = 2401.0
    average_wait_source: Annotated[
        Literal["fixed", "learned"],
        Meta(
            description="whether that number holds throughout, or the mean wait of the jobs that "
            "started within average_wait_window"
        ),
    ] = "fixed"
    average_wait_window: Annotated[
        float,
        seconds("how long a learned average remembers starts; the default is 30 days", gt=0),
    ] = 2_592_000.0
    average_wait_edges: Annotated[
        tuple[float, ...],
        seconds(
            "estimated run times that divide jobs into classes, each with its own "
            "learned average: [600, 3600, 28800]"
        ),
    ] = ()
    utilization_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the processors of moved jobs")
    ] = 1.0
    time_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the lengths of waits and moves")
    ] = 1.0
    priority_weight: Annotated[
        float,
        Meta(ge=0, le=1, description="importance of priorities; that of fairness is its product"),
    ] = 1.0
    fairness_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the part of its slack a job has used")
    ] = 1.0
    heuristic: Annotated[
        Literal[
            "ascending_scheduled_time",
            "ascending_arrival_time",
            "descending_utilization",
            "descending_cost",
            "descending_priority",
            "exhaustive",
        ],
        Meta(
            description="order in which delayed jobs are placed again; exhaustive: every order, "
            "up to exhaustive_up_to waiting jobs, and ascending_scheduled_time beyond"
        ),
    ] = "ascending_scheduled_time"
    exhaustive_up_to: Annotated[
        int,
        Meta(ge=0, le=9, description="most waiting jobs of which an exhaustive search tries all"),
    ] = 6
    removal: Annotated[
        Literal["cheapest", "compression", "null_job"],
        Meta(
            description="what an early end leads to: compression as in conservative backfilling, "
            "the cheapest schedule with a null job (which may leave gaps), or the cheaper of both"
        ),
    ] = "cheapest"
    early_gain: Annotated[
        Literal["slack", "promise"],
        Meta(
            description="what a job that moves up at an early end gains: slack, or an earlier "
            "promise (its latest start moves up as much)"
        ),
    ] = "slack"
    on_overrun: Annotated[
        Literal["none", "kill", "extend"],
        Meta(
            description="what to do about a job without walltime that reaches its estimate: "
            "nothing (promises move), kill it, or give it 10 % more where that is cheaper"
        ),
    ] = "none"

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if an option is not accepted alone or with
        the others.
        """
        for name in ("slack_factor", "average_wait", "average_wait_window"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise InputError(
                    f"scheduler 'slack': option {name} is {value}; a finite number is expected"
                )

        edges = self.average_wait_edges
        shown = f"scheduler 'slack': option average_wait_edges is {list(edges)}"
        # Also what is no number is not in order.
        if not all(low < high for low, high in pairwise((0.0, *edges, math.inf))):
            raise InputError(f"{shown}; seconds above 0 in ascending order are expected")
        if edges and self.average_wait_source == "fixed":
            raise InputError(f"{shown}; it is accepted only with average_wait_source=learned")


# Priorities and slacks (sections 2.3, 4.3 and 5.2)


def asked_priority(qos: QosRequest | None) -> float:
    """Return the sum of a job's user priority and political priority, minus infinity if over quota.

    ``qos.user_priority`` and ``qos.political_priority`` count as 0 unless given; a
    political priority of None (over quota) as minus infinity.
    """
    if qos is None:
        return 0.0
    if qos.political_priority is None:
        return -math.inf
    political = 0.0 if qos.political_priority is UNSET else float(qos.political_priority)
    return (qos.user_priority or 0.0) + political


def mean_priority(asked: float, scheduler: float) -> float:
    """Return the mean of the user's, the site's and the scheduler's priorities."""
    return (asked + scheduler) / 3.0


def scheduler_priority(wait: float, average_wait: float) -> float:
    """Return the scheduler's priority (0 to 1) for a job that waits ``wait`` seconds until its
    first planned start.

    0 for a job that starts at once, 1/2 for one that waits as long as the average of the
    system (above 0), 1 from twice that on.
    """
    return min(wait / (2.0 * average_wait), 1.0)


def first_slack(priority: float, slack_factor: float, average_wait: float) -> float:
    """Return a new job's slack (seconds), infinite if its user is over quota.

    The slack factor is the number of average wait times granted to a job of priority 0.
    """
    if priority == -math.inf:
        return math.inf
    return max(1.0 - priority, 0.0) * slack_factor * average_wait


class AverageWait:
    """The average wait (seconds), given or learned from past jobs; it scales new jobs' slacks.

    It is one number for all jobs at all times, as in the paper's simulations, or learned: the mean
    wait of the jobs that started in the last while, by class of estimate. Section 5.2 recommends an
    average for each month, section 4.3 one for each size of jobs. Until jobs have started, the
    given number counts as the waits of :data:`PRIOR_JOBS` jobs.
    """

    def __init__(self, options: SlackOptions) -> None:
        self.given = float(options.average_wait)
        self.window = float(options.average_wait_window)
        self.is_learned = options.average_wait_source == "learned"
        self.edges = options.average_wait_edges
        classes = len(self.edges) + 1
        self.starts: list[deque[tuple[float, float]]] = [deque() for _ in range(classes)]
        self.sums = [0.0] * classes

    def class_of(self, estimate: float) -> int:
        """Return the number of the class of run times that an estimate (seconds) belongs to."""
        return bisect_right(self.edges, estimate)

    def at(self, estimate: float, now: float) -> float:
        """Return the average wait of jobs with a similar estimate (seconds). Amortised O(1)."""
        if not self.is_learned:
            return self.given

        kind = self.class_of(estimate)
        starts = self.starts[kind]
        while starts and starts[0][0] < now - self.window:
            self.sums[kind] -= starts.popleft()[1]
        total = self.given * PRIOR_JOBS + self.sums[kind]
        return max(total / (PRIOR_JOBS + len(starts)), LEAST_AVERAGE_WAIT)

    def learn(self, estimate: float, wait: float, now: float) -> None:
        """Record that a job with this estimate started now after this wait (all in seconds)."""
        if self.is_learned:
            kind = self.class_of(estimate)
            self.starts[kind].append((now, wait))
            self.sums[kind] += wait


# Prices (sections 4.2, 4.4 and 4.7)


def power(base: float, exponent: float) -> float:
    """Return ``base ** exponent``, quickly for the exponent 1."""
    return base if exponent == 1.0 else math.pow(base, exponent)


class MovePrices:
    """Prices of moving and delaying jobs, weighed by processors, time, priority and used slack.

    These are the paper's alpha_u, alpha_t, alpha_p and alpha_f, each from 0 to 1.
    """

    def __init__(self, options: SlackOptions) -> None:
        self.utilization = float(options.utilization_weight)
        self.time = float(options.time_weight)
        self.priority = float(options.priority_weight)
        self.fairness = self.priority * float(options.fairness_weight)

    def of_wait(self, wait: float, size: float) -> float:
        """Return the price of a new job's wait of ``wait`` seconds until it starts."""
        return power(min(wait, FOREVER), self.time) * power(size, self.utilization)

    def of_killing(self, size: float, estimate: float) -> float:
        """Return the price of killing a job at its estimate (in seconds; section 4.7)."""
        return power(size, self.utilization) * power(estimate, self.time)

    def rate_of(self, job: Job, new_priority: float) -> float:
        """Return the price of moving a waiting job, before the factor for the distance moved.

        Its slack is what is left of its initial slack before the move; without any bound on its
        start (infinite, or no number) the two count as equal. ``new_priority``, above 0, is that of
        the job in whose favour it is moved.
        """
        rate = power(job.size, self.utilization)
        rate *= power(max(job.priority, LEAST_PRIORITY) / new_priority, self.priority)
        slack = job.latest_start - job.start
        if slack < _INFINITY:
            used = max(job.first_slack, LEAST_SLACK) / max(slack, LEAST_SLACK)
            rate *= power(used, self.fairness)
        return rate

    def of_move(self, delay: float, job: Job, rate: float) -> float:
        """Return the price of moving a job by ``delay`` seconds (negative: forward), at its rate
        (:meth:`rate_of`).

        Whether its slack allows that is not asked here. Delaying a job over its quota
        costs nothing. A job that had no start and has none now (the delay is no number)
        is not moved; from or to no start, the delay counts as :data:`FOREVER`.
        """
        if delay != delay or delay == 0.0:
            return 0.0
        if delay < 0.0:
            return -(power(min(-delay, FOREVER), self.time) * rate)
        if job.priority == -_INFINITY:
            return 0.0
        return power(min(delay, FOREVER), self.time) * rate


# The search (sections 4.5 and 4.6)


class Search:
    """Searches the cheapest schedule with a new job, or without one after a job ended early.

    At each position among the waiting jobs, the jobs before it keep their reservations;
    the new job, then the jobs from the position on in the order of the heuristic, are
    placed at their earliest fit; the first ``fixed`` jobs never move. The last position
    leaves all as it is, which is what conservative backfilling does with a new job; without
    one compression can take its place. At equal prices, the schedule that moves
    fewer jobs wins, then that one, then the others from the first one on.

    Attributes
    ----------
    is_changed
        Whether waiting jobs move; then ``best`` is the schedule's profile.
    position
        The waiting jobs from here on have new starts, in ``starts``.
    start
        Of the new job (seconds); infinite also if it cannot start by its latest start
        without moving a job beyond its slack.
    price, moved
        Price (infinite if there is no such schedule) and number of moved jobs.
    """

    def __init__(self, plan: Plan, options: SlackOptions) -> None:
        self.plan = plan
        self.prices = MovePrices(options)
        self.heuristic = HEURISTICS[options.heuristic]
        self.order = AST
        self.exhaustive_up_to = options.exhaustive_up_to
        self.compresses = options.removal == "cheapest"

        self.new: Job | None = None
        self.now = 0.0
        self.latest = math.inf
        self.waiting: list[Job] = []
        self.line: list[Job] = []
        self.rates = array("d")
        self.gains = array("d")
        self.first_fits = array("d")
        self.base = plan.empty_profile()
        self.trial = plan.empty_profile()
        self.learns = False
        self.base_bounds = plan.fit_bounds()
        self.bounds = plan.fit_bounds()

        self.best = plan.empty_profile()
        self.is_changed = False
        self.position = 0
        self.starts: list[float] = []
        self.places: list[Places] = []
        self.new_place: Places | None = None
        self.start = 0.0
        self.price = 0.0
        self.moved = 0

    def reschedule(
        self, new: Job | None, priority: float, latest: float, now: float, fixed: int, most: float
    ) -> float:
        """Find the cheapest schedule, with a new job or without, and make it the plan; return the
        new job's start.

        The new job has a priority, and has to start by ``latest``. Returned is its start (seconds);
        infinite if the price is not below ``most``, and then nothing is changed.
        """
        self.find(new, priority, latest, now, fixed)
        if not self.price < most:
            return _INFINITY

        plan = self.plan
        if self.is_changed:
            for place in range(self.position, len(self.waiting)):
                job = self.waiting[place]
                job.start = self.starts[place]
                if self.places:
                    job.request.held.copy_from(self.places[place])
            sort_by_start(plan.waiting)
            # Any job may have been moved, and may have left room for any other.
            plan.given_from = -_INFINITY
            plan.given_until = _INFINITY
            plan.profile, self.best = self.best, plan.profile
        if new is not None:
            if self.new_place is not None:
                new.request.held.copy_from(self.new_place)
            if not self.is_changed:
                plan.profile.take(new, self.start, end_of(self.start, new.duration))
        return self.start

    def find(self, new: Job | None, priority: float, latest: float, now: float, fixed: int) -> None:
        """Search the cheapest schedule; ``price``, ``start`` and ``starts`` tell the result.
        O(waiting² × steps), O(waiting! × steps) if exhaustive.
        """
        plan = self.plan
        self.new = new
        self.latest = latest
        self.now = now
        waiting = list(plan.waiting)
        self.waiting = waiting
        self.order = self.heuristic
        if self.order == EXHAUSTIVE and len(waiting) > self.exhaustive_up_to:
            self.order = AST

        # Where no job may move, only the new one is placed.
        base = self.base
        if fixed < len(waiting):
            self.learns = len(waiting) >= LONG
            if new is not None:
                self.bounds.classify(new)
            plan.reserve_running(base, now)
            if self.learns:
                self.base_bounds.forget()
            for place in range(fixed):
                self.keep(waiting[place])
            self.list_waiting(fixed, priority)
        self.stay(fixed)

        position = fixed
        kept = fixed
        after = now
        while position < len(waiting):
            while kept < position:
                self.keep(waiting[kept])
                kept += 1
            start = now
            if new is not None:
                # Behind more jobs it starts no earlier.
                after = self.soonest(new, after, base, self.base_bounds)
                start = after
                if start > latest:
                    break
            position = self.try_orders(position, start)

    def keep(self, job: Job) -> None:
        """Reserve a waiting job at its planned start in the profile of unmoved jobs."""
        self.base.take(job, job.start, end_of(job.start, job.duration))

    def soonest(self, job: Job, after: float, profile: Profile, bounds: FitBounds) -> float:
        """Return the earliest fit of a job in a profile from a date on (seconds); in long queues,
        remember it as a bound for jobs as large. O(steps).
        """
        if not self.learns:
            return profile.try_fit(job, after)
        after = max(after, bounds.dates[job.cell])
        start = profile.try_fit(job, after)
        bounds.learn(job, start)
        return start

    def list_waiting(self, fixed: int, priority: float) -> None:
        """Set each waiting job's price of being moved, the most that moving it can gain, and its
        place in the heuristic order.

        No job can start earlier (``first_fits``) than in the profile of what is not moved in any
        schedule. O(waiting × steps).
        """
        # Searches are many, and short queues are usual: new arrays would cost as much as a search.
        if len(self.waiting) > len(self.rates):
            room = bytes(16 * len(self.waiting))
            self.rates = array("d", room)
            self.gains = array("d", room)
            self.first_fits = array("d", room)
        for rank in range(len(self.waiting)):
            job = self.waiting[rank]
            job.rank = rank
            if job.cell < 0:
                self.bounds.classify(job)
            self.rates[rank] = self.prices.rate_of(job, priority)
            job.key = self.key_of(job)

            # A fixed job gains nothing: no position is before it.
            if rank >= fixed:
                fit = self.soonest(job, self.now, self.base, self.base_bounds)
                gain = self.prices.of_move(fit - job.start, job, self.rates[rank])
                self.first_fits[rank] = fit
                self.gains[rank] = min(0.0, gain)

        self.line = list(self.waiting)
        if AST < self.order < EXHAUSTIVE:
            sort_by_key(self.line, 0, len(self.line))

    def key_of(self, job: Job) -> float:
        """Return the sort key of a waiting job in the order of the option ``heuristic``; the least
        comes first.
        """
        if self.order == AAT:
            return float(job.number)
        if self.order == DU:
            return -job.size * job.duration
        if self.order == DC:
            if job.priority == -_INFINITY:
                return 0.0
            # A job without slack cannot be moved at any price.
            return (
                -_INFINITY if end_of(job.start, 1.0) > job.latest_start else -self.rates[job.rank]
            )
        if self.order == DP:
            return -job.priority
        return float(job.rank)

    def stay(self, fixed: int) -> None:
        """Begin the search with a schedule that delays no job: the new job last, or without one a
        compressed plan.
        """
        self.is_changed = False
        self.position = len(self.waiting)
        self.start = self.now
        self.price = 0.0
        self.moved = 0

        new = self.new
        if new is not None:
            profile = self.plan.profile
            self.start = profile.try_fit(new, self.now)
            if new.request is not None:
                self.new_place = new.request.found.copied()
            if self.start <= self.latest:
                self.price = self.prices.of_wait(self.start - self.now, new.size)
            else:
                # Only a position before other jobs can be early enough.
                self.start = _INFINITY
                self.price = _INFINITY
        elif self.compresses:
            price = self.compress(fixed)
            if price < 0.0:
                self.is_changed = True
                self.position = fixed
                self.price = price
            else:
                self.moved = 0

    def compress(self, fixed: int) -> float:
        """Compress a copy of the plan, as conservative backfilling does, and return the price.

        One by one in order of planned start, jobs move up to their earliest fit while all
        others stay. The price is at most 0. O(waiting × steps).
        """
        now = self.now
        best = self.best
        best.copy_from(self.plan.profile)
        starts = [job.start for job in self.waiting]
        self.places = [job.request.held.copied() for job in self.waiting if job.request is not None]

        price = 0.0
        for place in range(fixed, len(self.waiting)):
            job = self.waiting[place]
            best.give(job, job.start, end_of(job.start, job.duration))
            start = best.try_fit(job, now)
            if start < job.start:
                best.take_found(job, start, end_of(start, job.duration))
                starts[place] = start
                if job.request is not None:
                    self.places[place] = job.request.tried.copied()
                self.moved += 1
                price += self.prices.of_move(start - job.start, job, self.rates[place])
            else:
                best.take(job, job.start, end_of(job.start, job.duration))  # It is never delayed.

        self.starts = starts
        return price

    def try_orders(self, position: int, start: float) -> int:
        """Place the new job at ``start`` and the jobs behind a position after it; return the next
        position to try.

        Each schedule that is cheaper than the best one so far takes its place. Returned is the next
        position to try: none, if what the jobs behind this one can gain at most is not enough, as
        fewer stand behind the next ones, and the new job starts no earlier there.
        """
        new = self.new
        price = 0.0
        if new is not None:
            price = self.prices.of_wait(start - self.now, new.size)

        tolerance = PRICE_TOLERANCE * max(1.0, abs(self.price))
        bound = price + self.most_gain(position)
        if bound > self.price + tolerance or (bound >= self.price - tolerance and self.moved == 0):
            return len(self.waiting)

        if self.order == EXHAUSTIVE:
            self.line = list(self.waiting)
        while True:
            trial = self.trial
            trial.copy_from(self.base)
            if self.learns:
                self.bounds.copy_from(self.base_bounds)
            if new is not None:
                trial.take_as_found(new, start, end_of(start, new.duration))
            following = self.place_delayed(position, start, price)

            if self.order != EXHAUSTIVE:
                return following
            if not next_order(self.line, position):
                return position + 1

    def most_gain(self, position: int) -> float:
        """Return the lowest price (at most 0) that moving the jobs from a position on can have.
        O(waiting).
        """
        gain = 0.0
        for place in range(position, len(self.waiting)):
            gain += self.gains[place]
        return gain

    def place_delayed(self, position: int, start: float, price: float) -> int:
        """Place the jobs from a position on at their earliest fits, and keep the schedule if it is
        the cheapest; return the next position to try.

        The trial profile has the running jobs, the jobs before the position and the new job,
        whose own wait costs ``price``. The schedule becomes the best one if it is cheaper, or as
        cheap and moves fewer jobs; it is given up where it cannot be, or a job would start after
        its latest start. Returned is the next position that can give another schedule: as long as
        jobs keep their starts with the new one in the plan, it may as well come after them.
        O(waiting × steps).
        """
        waiting = self.waiting
        count = len(waiting)
        line = self.line
        trial = self.trial
        bounds = self.bounds

        # With all that jobs not placed yet can gain, a schedule has to beat the best one so far.
        hope = self.most_gain(position)
        limit = self.price
        tolerance = PRICE_TOLERANCE * max(1.0, abs(limit))
        moved = 0
        following = position
        placed = position
        for place in range(count):
            bound = price + hope
            if bound > limit + tolerance or (bound >= limit - tolerance and moved >= self.moved):
                return following + 1
            job = line[place]
            if job.rank < position:
                continue

            fit = self.soonest(job, self.first_fits[job.rank], trial, bounds)
            if fit > job.latest_start:
                return following + 1
            job.trial = fit
            if placed == following == job.rank and fit == job.start:
                following += 1
            placed += 1

            delay = fit - job.start  # NaN: it had no start and has none now.
            if delay != 0.0 and delay == delay:
                moved += 1
                price += self.prices.of_move(delay, job, self.rates[job.rank])
            hope -= self.gains[job.rank]
            trial.take_found(job, fit, end_of(fit, job.duration))

        if price > limit + tolerance or (price >= limit - tolerance and moved >= self.moved):
            return following + 1

        self.trial = self.best
        self.best = trial
        self.starts = [job.trial for job in waiting]
        self.places = tried_places(waiting)
        if self.new is not None and self.new.request is not None:
            self.new_place = self.new.request.tried.copied()
        self.is_changed = True
        self.position = position
        self.start = start
        self.price = price
        self.moved = moved
        return following + 1


def next_order(line: list[Job], first: int) -> bool:
    """Change a list from an index on to its next permutation; return whether there is one."""
    # The longest end of the list whose ranks fall is its own last permutation.
    place = len(line) - 2
    while place >= first and line[place].rank >= line[place + 1].rank:
        place -= 1
    if place < first:
        return False

    # The job before it changes places with the next higher one of it, and the end begins anew.
    other = len(line) - 1
    while line[other].rank <= line[place].rank:
        other -= 1
    line[place], line[other] = line[other], line[place]

    low = place + 1
    high = len(line) - 1
    while low < high:
        line[low], line[high] = line[high], line[low]
        low += 1
        high -= 1
    return True


# The scheduler


class SlackPlan(Plan):
    """A plan in which jobs may be delayed, but never beyond their slack.

    The slack of a waiting job is the time between its planned start and its latest
    start, so that a delay shortens it and a move up lengthens it by as much. The
    latest start is settled once: first start plus first slack; with ``early_gain``
    ``"promise"`` it moves up with each start that an early end moves up. Only where a
    running job outlives its estimate, which no promise foresaw, or hosts leave can a start
    come later; the job then has that start as its latest one.

    Attributes
    ----------
    promises
        Jobs, and latest starts that they were promised since somebody emptied the list (seconds).
    """

    def __init__(self, machine_size: int, *, promises_gains: bool) -> None:
        Plan.__init__(self, machine_size, promises_starts=True)
        self.promises_gains = promises_gains
        self.promises: list[tuple[Job, float]] = []

    def rebuild(self) -> None:
        """Plan all waiting jobs again; a job that now starts after its latest start gets that start
        as its latest.
        """
        before = self.planned()
        Plan.rebuild(self)
        # Besides an end that comes late there can be one that comes early.
        self.promise_gains(before)
        for job in self.waiting:
            job.latest_start = max(job.latest_start, job.start)

    def planned(self) -> list[tuple[Job, float]]:
        """Return the waiting jobs and their starts if earlier starts are promised, else nothing."""
        return [(job, job.start) for job in self.waiting] if self.promises_gains else []

    def promise_gains(self, before: list[tuple[Job, float]]) -> None:
        """Move up the latest starts of jobs that now start earlier than in ``before`` (seconds)."""
        for job, start in before:
            # From infinite to finite is no gain in seconds, but a first start.
            if job.start < start < math.inf:
                job.latest_start = on_grid(job.latest_start - (start - job.start))
                self.promises.append((job, job.latest_start))
                if job.suspended == job.suspended:
                    job.suspended = job.latest_start


class Slack(PlanScheduler):
    """Slack-based backfilling: every job is promised a latest start, and is delayed up to it where
    that is cheaper.

    A new job is tried at every position of the plan. Jobs behind it are placed again,
    and each schedule has a price: what the new job's wait and the moves of the others
    cost, weighed by processors, priorities and used slack. The cheapest schedule in
    which no job is delayed beyond its slack is adopted; when a job ends early, the
    same search is made without a new job. With a slack factor of 0, jobs can be
    delayed only by what they gained since, unless gains are promises (``early_gain``).

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job
    without one is planned as if it never ended. Priorities are
    ``qos.user_priority`` and ``qos.political_priority`` (None: over quota).

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> len(simulate(Slack, "tiny_8", settings={"slack_factor": 2}).ended)
    8
    """

    summary = "slack-based backfilling with priorities (Talby and Feitelson 1999)"
    Options = SlackOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        PlanScheduler.__init__(self, options)
        self.options.check()
        self.watches: bool = self.options.on_overrun != "none"
        self.only_compresses = self.options.removal == "compression"

    @property
    def kills(self) -> bool:  # type: ignore[override]
        return self.watches

    def empty_plan(self, machine_size: int) -> Plan:
        """Return an empty plan whose jobs may be delayed by their slack."""
        gains = self.options.early_gain == "promise"
        self.slacks = SlackPlan(machine_size, promises_gains=gains)
        return self.slacks

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan; InputError if jobs that share hosts are to be extended."""
        if manager.use is not None and self.options.on_overrun == "extend":
            raise InputError(
                "scheduler 'slack': option on_overrun is 'extend', but jobs share hosts by "
                "amounts, where a job cannot be extended on its own hosts; 'none' or 'kill' is "
                "expected"
            )
        PlanScheduler.begin(self, manager)
        self.search = Search(self.plan, self.options)
        self.average = AverageWait(self.options)
        self.called_for_first = -math.inf
        self.unsettled = 0
        # Dates at which running jobs reach their estimates, if that concerns the plan.
        self.ticks: list[tuple[float, int, Job]] = []

    def compress(self) -> None:
        """Called when jobs ended early: search a cheaper schedule of the waiting jobs (section
        4.5).
        """
        plan = self.plan
        before = self.slacks.planned()
        if self.only_compresses:
            plan.compress()
        else:
            self.search.reschedule(None, 1.0, math.inf, plan.nominal(), self.due(), math.inf)
        self.slacks.promise_gains(before)

    def due(self) -> int:
        """Return how many waiting jobs are due to start now; searches do not move them."""
        count = 0
        for job in self.plan.waiting:
            if job.start > self.plan.now:
                break
            count += 1
        return count

    def answer(self, job: Job) -> None:
        """Plan a new job where that is cheapest (section 4.2), and promise it a latest start."""
        plan = self.plan
        now = plan.nominal()
        job.priority = mean_priority(asked_priority(job.qos), FIRST_SCHEDULER_PRIORITY)
        if job.priority == -math.inf:
            # Over quota it may not disturb another job.
            plan.place_new(job)
        else:
            job.start = self.search.reschedule(
                job, job.priority, math.inf, now, self.due(), math.inf
            )
            plan.insert(job)

        job.latest_start = math.inf
        if job.start == math.inf:
            # It waits behind a job without estimate: what has no end gives no start.
            job.first_slack = math.nan
            self.unsettled += 1
        else:
            self.promise(job, now)

    def promise(self, job: Job, now: float) -> None:
        """Set the priority, slack and latest start of a job whose first planned start is known
        (section 4.3).
        """
        average = self.average.at(job.estimate, now)
        own = scheduler_priority(job.start - now, average)
        job.priority = mean_priority(asked_priority(job.qos), own)
        job.first_slack = first_slack(job.priority, float(self.options.slack_factor), average)
        latest = job.start + job.first_slack
        job.latest_start = on_grid(latest)
        self.slacks.promises.append((job, latest))

    def settled(self, jobs: list[Job]) -> None:
        """Set priority and slack of jobs that had no start when they arrived and have one now."""
        for job in jobs:
            if job.first_slack != job.first_slack and job.start < math.inf:
                self.promise(job, self.plan.now)
                self.unsettled -= 1

    def conclude_decision(self) -> None:
        """Called at the end of a decision: learn the waits of started jobs, and record promised
        latest starts.
        """
        plan = self.plan
        if self.unsettled > 0:
            self.settled(plan.waiting)
            self.settled(plan.starting)

        for job in plan.starting:
            if job.fixed_start < math.inf:
                self.slacks.promises.append((job, job.fixed_start))
                continue  # Nobody had it wait.
            self.average.learn(job.estimate, plan.now - job.submission_time, plan.now)
        self.call_for_first_start()

        for job, promised in self.slacks.promises:
            record = self.manager.record(job)
            # The earliest one counts: where a job outlives its estimate, promises that were
            # made are not taken back. Later than any date, a start is no promise.
            earliest = MAX_SECONDS if record.latest_start is None else record.latest_start
            if promised < earliest:
                record.latest_start = promised
        self.slacks.promises.clear()

    def call_for_first_start(self) -> None:
        """Ask the engine to call the scheduler at the next planned start, if no job is expected to
        end then.

        Compression that leaves a job where it is can leave it with a start at which no
        job ends any more, so that nothing would happen then. O(running).
        """
        plan = self.plan
        if not plan.waiting:
            return
        start = plan.waiting[0].start
        if start == self.called_for_first or not plan.now < start < _INFINITY:
            return

        # Only a walltime makes sure of an end.
        for job in plan.running:
            if job.end == start and job.limit < _INFINITY and job.limit <= job.estimate:
                return
        self.called_for_first = start
        self.manager.call_at(start)

    def renewed(self, renewal: Renewal) -> None:
        """Called when a latest start was renewed because hosts were lost: record the new one and
        the loss.
        """
        PlanScheduler.renewed(self, renewal)
        if renewal.promise >= MAX_SECONDS:
            self.manager.record(renewal.job).latest_start = None

    def standing(self) -> Standing | None:
        """Return None: a run cannot be resumed, because the average waits are in no plan."""
        return None

    # Jobs that reach their estimates (section 4.7)

    def note_start(self, job: Job) -> None:
        """Called after a planned job was started: watch whether it exceeds its estimate."""
        if self.watches and job.estimate < math.inf and job.limit > job.estimate:
            self.watch(job)

    def watch(self, job: Job) -> None:
        """Ask the engine to call the scheduler when a running job reaches its estimate."""
        news = self.manager.news
        date = job.end + (news.grace if news.late else TICK_GRACE)
        # A call has to be later than now, even at dates so late that the grace is nothing.
        date = max(date, math.nextafter(job.start, math.inf))
        heapq.heappush(self.ticks, (date, job.number, job))
        self.manager.call_at(date)

    def prepare_decision(self) -> None:
        """Called at the start of a decision: extend or kill running jobs that have reached their
        estimates.
        """
        plan = self.plan
        now = up_to_grid(self.manager.now)
        extends = self.options.on_overrun == "extend"
        is_first = True
        while self.ticks and self.ticks[0][0] <= self.manager.now + TICK_ROUNDING:
            job = heapq.heappop(self.ticks)[2]
            if job.phase != RUNNING:
                continue

            plan.now = now
            if is_first and extends and plan.forget_gone() and plan.waiting:
                # What is free already counts before a job is asked to give way.
                self.compress()
            is_first = False

            run_time = now - on_grid(job.start + job.lag)
            if extends and self.extend(job):
                self.watch(job)
            else:
                # Otherwise it would count as running on from here.
                plan.expect_end(job, now)
                self.kill(job, run_time)

    def extend(self, job: Job) -> bool:
        """Extend a job if that is cheaper than killing it; return whether it was."""
        plan = self.plan
        now = plan.now
        more = duration_on_grid(EXTENSION * job.estimate)
        cost = self.search.prices.of_killing(job.size, job.estimate)

        # With the priority it was inserted with: after that it is 0 for a job that never waited.
        priority = mean_priority(asked_priority(job.qos), FIRST_SCHEDULER_PRIORITY)
        fixed = 0
        if priority == -math.inf:
            # Over quota it may not disturb another job.
            priority = 1.0
            fixed = len(plan.waiting)

        # Past extensions must not pile up where no job arrives, which is when plans are trimmed.
        plan.profile.trim(now)
        # Hosts that have gone away under it are asked of nobody.
        again = Job(job.id, now, job.reserved, job.profile, more)
        if self.search.reschedule(again, priority, now, now, fixed, cost) == math.inf:
            return False
        plan.expect_end(job, end_of(now, more))
        return True

    def kill(self, job: Job, run_time: float) -> None:
        """Kill a running job that has reached its estimate or the end of its extension, after
        ``run_time`` seconds.
        """
        extended = run_time > job.estimate + 2 * self.manager.news.tolerance
        self.manager.record(job).reasons = (
            Refusal(
                kind=RefusalKind.KILLED_AT_ESTIMATE,
                estimate=job.estimate,
                run_time=run_time if extended else None,
            ),
        )
        self.manager.kill(job)
