"""Queues with prices, as at NERSC: the baseline that motivates QoPS.

1. There are some queues, each with a price, the dearest first. All jobs of a queue come before
   those of the next one, by arrival; EASY decides who starts, so the first job of all has the
   reservation and any other may be backfilled.
2. A user chooses when a job arrives: the cheapest queue in which it is expected to end by its
   deadline, which is after the mean wait of the last jobs that started from this queue, and its
   estimate; the dearest queue if that is so in none, the cheapest without a deadline of the user.
   Or the user has chosen (``qos.queue``).
3. Only a number of jobs of the dearest queue have priority in a period; those that come later in it
   wait among the jobs of the next queue, by arrival.
4. A job pays processors × run time × the price of its queue. Nothing is promised.

Three queues, double and half the usual charge, priority "until some threshold on the number of
serviced jobs is exceeded": M. Islam, P. Balaji, P. Sadayappan, D. K. Panda, "QoPS: a QoS based
scheme for parallel job scheduling" (2003), section 1, of NERSC's priority charging. All else is an
assumption of ours: see docs/schedulers.md.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal

from msgspec import Meta

from qops_batsim.core.job import Job
from qops_batsim.core.options import PlannerOptions, SchedulerOptions, option_error, seconds
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.jobs import QosRequest
from qops_batsim.limits import MAX_SECONDS, MAX_WHOLE_NUMBER
from qops_batsim.schedulers.easy import Easy
from qops_batsim.schedulers.queue_scheduler import QueueScheduler

NAME = "priced-queues"


_error = partial(option_error, NAME)


class PricedQueuesOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of :class:`PricedQueues`."""

    queues: Annotated[
        tuple[str, ...], Meta(description="queues, the dearest first, which has priority")
    ] = ("premium", "regular", "low")
    prices: Annotated[
        tuple[float, ...],
        Meta(description="multiples of the usual charge, of each queue, falling"),
    ] = (2.0, 1.0, 0.5)
    choice: Annotated[
        Literal["need", "stated"],
        Meta(
            description="how users choose: the cheapest queue in which the deadline is expected to "
            "be met, or what qos.queue states"
        ),
    ] = "need"
    default_queue: Annotated[
        str, Meta(description="queue of jobs that state none of these, if users state them")
    ] = "regular"
    history: Annotated[
        int, Meta(ge=1, description="last jobs of a queue that its mean wait is about")
    ] = 20
    priority_limit: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="most jobs that have the priority of the dearest queue in a period"),
    ] = None
    priority_period: Annotated[
        float,
        seconds("that period", gt=0, le=MAX_SECONDS),
    ] = 86_400.0

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        names = self.queues
        if not names or "" in names or len(set(names)) < len(names):
            raise _error("queues", names, "one or more names, each once, are accepted")

        prices = self.prices
        if len(prices) != len(names):
            raise option_error(
                NAME, "prices", prices, f"{len(names)} prices are accepted, one for each queue"
            )
        falling = all(first > second for first, second in pairwise(prices))
        if not (falling and min(prices) >= 0 and max(prices) < math.inf):
            raise option_error(
                NAME, "prices", prices, "numbers from 0 up in descending order are accepted"
            )

        if self.choice == "stated" and self.default_queue not in names:
            known = ", ".join(names)
            raise option_error(
                NAME, "default_queue", self.default_queue, f"one of {known} is accepted"
            )


class PricedQueues(Easy):
    """EASY over priced queues that users choose by need, as at NERSC.

    All jobs of a dearer queue come before those of a cheaper one. A user takes the cheapest queue
    in which the job is expected to end by its deadline: after the mean wait of the last jobs that
    started from that queue, and the estimate. Nothing is promised and none is refused.

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> len(simulate(PricedQueues, "tiny_8", settings={"history": 2}).ended)
    8
    """

    summary = "EASY over queues with prices, chosen by need (NERSC's, as Islam et al. 2003 tell)"
    Options = PricedQueuesOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        Easy.__init__(self, options)
        given: Any = self.options
        given.check()
        self.ranks = {name: rank for rank, name in enumerate(given.queues)}
        self.limit = MAX_WHOLE_NUMBER if given.priority_limit is None else given.priority_limit

    def begin(self, manager: ResourceManager) -> None:
        """Start with empty queues."""
        Easy.begin(self, manager)
        self.waits = [0.0] * len(self.ranks)
        self.observed = [0] * len(self.ranks)
        self.period = -1.0
        self.served = 0
        self.chosen: dict[str, int] = {}

    def key(self, job: Job) -> float:
        """Choose the queue of a new job and return its rank as the job's sort key; ties by arrival.

        It is that of the next queue if too many jobs had priority in this period.
        """
        queue = self.queue_of(job)
        self.chosen[job.id] = queue
        record = self.manager.record(job)
        record.queue = self.options.queues[queue]
        record.price = self.options.prices[queue]

        if queue == 0:
            period = job.arrival // self.options.priority_period
            if self.period != period:
                self.period = period
                self.served = 0
            self.served += 1
            if self.served > self.limit:
                return 1.0  # It pays for the dearest queue, and waits in the next one.
        return float(queue)

    def queue_of(self, job: Job) -> int:
        """Return the rank of a job's queue: the stated one, or the cheapest in which its deadline
        is expected to be met.
        """
        if self.options.choice == "stated":
            name = None if job.qos is None else job.qos.queue
            return self.ranks.get(name or "", self.ranks[self.options.default_queue])

        # From the cheapest one on; the dearest if it would be late in all of them.
        needed = needed_by(job.qos)
        queue = len(self.waits) - 1
        while queue > 0 and job.arrival + self.waits[queue] + job.duration > needed:
            queue -= 1
        return queue

    def start(self, job: Job, hosts: object = None) -> None:
        """Start a job, and update the mean wait of its queue."""
        QueueScheduler.start(self, job, hosts)
        queue = self.chosen.pop(job.id, None)
        if queue is not None:
            wait = self.manager.now - job.arrival
            self.observed[queue] += 1
            # Exact for the first jobs; then each has the weight of one in `history`.
            jobs = min(self.observed[queue], self.options.history)
            self.waits[queue] += (wait - self.waits[queue]) / jobs


def needed_by(qos: QosRequest | None) -> float:
    """Return the date by which a user needs a job (s), infinite without a user's deadline."""
    if qos is None or qos.deadline is None or qos.has_user_deadline is False:
        return math.inf
    return float(qos.deadline)
