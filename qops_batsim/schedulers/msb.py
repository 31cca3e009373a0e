"""MSB: deadline admission by insertion, the modified slack-based algorithm (Islam et al. 2003)."""

from __future__ import annotations

import math
from array import array
from typing import Annotated, Literal

from msgspec import Meta

from qops_batsim.core.job import Job, tried_places
from qops_batsim.core.job_sorting import sort_by_key
from qops_batsim.core.node_request import Places
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.refusal import missed_deadline
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.schedulers.deadline import (
    DeadlineOptions,
    DeadlineScheduler,
    lift,
    meets,
)
from qops_batsim.schedulers.job_orders import ORDERS, OrderName, key_in
from qops_batsim.timing import end_of

FOREVER = 1e12
"""Price of a delay without end (seconds): more than any date, and sums stay precise."""

LEAST_SLACK = 1.0
"""Slack that counts at least (seconds)."""

_INFINITY = math.inf


class MsbOptions(DeadlineOptions, frozen=True, kw_only=True):
    """Options of :class:`Msb`."""

    order: Annotated[
        Literal["scheduled_start", OrderName],
        Meta(
            description="order in which the waiting jobs behind a position are placed again: by "
            "planned start, as Figure 1 has it, or as for qops; ties by arrival"
        ),
    ] = "scheduled_start"
    price: Annotated[
        Literal["moves", "delays"],
        Meta(
            description="price of a plan: sum of delay times processors over all jobs, where moves "
            "to an earlier start count as negative, or over delayed jobs only"
        ),
    ] = "moves"
    fairness: Annotated[
        bool,
        Meta(
            description="weigh the move of a job by its slack over what is left of it, as the "
            "original slack-based algorithm does"
        ),
    ] = False


class Msb(DeadlineScheduler):
    """MSB: admit a job at the cheapest position among the waiting ones.

    1. A new job is tried at every position among the waiting jobs, in the order of their planned
       starts. Those before keep their reservations; the new job and then the others, in their
       order, are placed at their earliest fits. A missed deadline rules the position out.
    2. The price of a position is the sum of delay × processors over all jobs. The cheapest one is
       adopted; if there is none, the job is rejected.

    M. Islam, P. Balaji, P. Sadayappan, D. K. Panda, "QoPS: a QoS based scheme for parallel job
    scheduling", JSSPP 2003, section 2.2.1, Figure 1. A job's slack is its deadline minus arrival
    and run time.

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> len(simulate(Msb, "sdsc_sp2_deadlines_500", settings={"price": "delays"}).ended)
    500
    """

    summary = "MSB: deadline admission at the cheapest position (Islam et al. 2003)"
    Options = MsbOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        DeadlineScheduler.__init__(self, options)
        chosen = self.options
        self.by_start = chosen.order == "scheduled_start"
        self.placing = ORDERS.index(chosen.order)
        self.only_delays = chosen.price == "delays"
        self.is_fair = chosen.fairness

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        DeadlineScheduler.begin(self, manager)
        self.trial = self.plan.empty_profile()
        self.rates = array("d")
        self.gains = array("d")
        self.least = array("d")
        self.following = 0

    def try_admission(self, job: Job) -> object:
        """Search a plan with a new job; return None if there is one, which is then in ``draft``,
        else the reason for a refusal.
        """
        if self.search(job):
            return None
        # At the last position no waiting job blocks it.
        positions = len(self.plan.waiting) + 1
        return missed_deadline(job.id, job.target, own=True, positions=positions)

    # Prices

    def rate_of(self, job: Job) -> float:
        """Return the price of one second of delay of a waiting job: its processors.

        If that is to be fair, they are multiplied by its slack over what is left of it.
        """
        rate = job.size
        if self.is_fair and job.promise < _INFINITY:
            latest = job.promise - job.submission_time - job.duration
            rate *= max(latest, LEAST_SLACK)
            rate /= max(job.promise - job.start - job.duration, LEAST_SLACK)
        return rate

    def price_of(self, delay: float, rate: float) -> float:
        """Return the price of delaying a job by ``delay`` seconds, at ``rate`` per second.

        A job without estimate ahead of others may leave them without any start: an infinite delay,
        which counts as :data:`FOREVER`. A job that had none before and has none now (the delay is
        no number) costs nothing.
        """
        if delay != delay or (self.only_delays and delay < 0.0):
            return 0.0
        return max(-FOREVER, min(delay, FOREVER)) * rate

    def bound_prices(self, new: Job) -> None:
        """Set each waiting job's price per second of delay, and a lower bound of the price of
        moving it, by rank. O(waiting × steps).

        None can start earlier than with the running jobs alone, so positions that cannot win are
        given up early.
        """
        waiting = self.plan.waiting
        now = self.plan.nominal()
        room = bytes(8 * (len(waiting) + 1))
        self.rates = array("d", room)
        self.gains = array("d", room)
        self.least = array("d", room)
        for rank in range(len(waiting)):
            job = waiting[rank]
            job.rank = rank
            soonest = self.base.try_fit(job, now)
            self.rates[rank] = self.rate_of(job)
            self.gains[rank] = self.price_of(soonest - job.start, self.rates[rank])
        new.rank = len(waiting)
        self.rates[new.rank] = new.size

    def bound_behind(self, position: int) -> None:
        """Set, for each place of the order from ``position`` on, a lower bound of the price of all
        jobs behind it. O(waiting).
        """
        last = len(self.order) - 1
        self.least[last] = 0.0
        rest = 0.0
        for index in range(last - 1, position - 1, -1):
            job = self.order[index + 1]
            rest += self.gains[job.rank]
            self.least[index] = rest

    # The search

    def search(self, new: Job) -> bool:
        """Search the cheapest position of a new job that keeps all targets; return whether there is
        one. Its plan is then in ``draft``.

        Positions that give the same schedule are tried once. O(waiting² × steps).
        """
        waiting = self.plan.waiting
        count = len(waiting)
        now = self.plan.nominal()
        base = self.base
        base.copy_from(self.running)
        self.bound_prices(new)

        order = [new, *waiting]
        self.order = order
        if not self.by_start:
            for job in order:
                job.key = key_in(self.placing, now - job.arrival, job)
            sort_by_key(order, 1, len(order))
        self.bound_behind(0)

        cheapest = _INFINITY
        best = order
        starts: list[float] = []
        places: list[Places] = []
        position = 0
        self.following = 0
        while self.following <= count:
            # The jobs before the position, in the order of their starts, stay where they are.
            while position < self.following:
                job = waiting[position]
                place = position + 1
                while order[place] is not job:
                    place += 1
                lift(order, place, position)
                base.take(job, job.start, end_of(job.start, job.duration))
                job.keep_as_trial()
                position += 1
            # Unless by start, they stood anywhere in the order: what is behind each place changed.
            if not self.by_start:
                self.bound_behind(position)

            self.trial.copy_from(base)
            price = self.price_position(position, new, cheapest)
            if price < cheapest:
                cheapest = price
                self.draft, self.trial = self.trial, self.draft
                best = list(order)
                starts = [job.trial for job in order]
                places = tried_places(order)

        if cheapest == _INFINITY:
            return False

        # Positions that were tried later have overwritten the starts of the best one.
        self.order = best
        for place in range(count + 1):
            job = best[place]
            job.trial = starts[place]
            if job.request is not None:
                job.request.tried.copy_from(places[place])
        return True

    def price_position(self, position: int, new: Job, cheapest: float) -> float:
        """Place a new job at a position and the jobs behind it again; return the price of that
        plan.

        It is infinite if a target is missed, or if it is not below the cheapest one so far.
        ``following`` is the next position that can give another schedule: as long as jobs that
        stay in their order keep their starts with the new one in the plan, it may as well come
        after them. O(waiting × steps).
        """
        order = self.order
        trial = self.trial
        now = self.plan.nominal()
        self.following = position + 1

        price = 0.0
        for index in range(position, len(order)):
            job = order[index]
            start = trial.try_fit(job, now)
            if not meets(start, job.duration, job.target):
                if index == position:
                    # Behind more jobs that stay it would start no earlier.
                    self.following = len(order)
                return _INFINITY

            job.trial = start
            if self.by_start and index == self.following and start == job.start:
                self.following += 1
            since = now if job is new else job.start
            price += self.price_of(start - since, self.rates[job.rank])
            if price + self.least[index] >= cheapest:
                return _INFINITY
            trial.take_found(job, start, end_of(start, job.duration))
        return price
