"""Queues with prices, as at NERSC, which are the baseline that QoPS is motivated by.

1. There are some queues, each with a price, the dearest first. All jobs of a queue come before
   those of the next one, by arrival; EASY decides who starts, so the first job of all has the
   reservation and any other may be backfilled.
2. A user chooses when a job arrives: the cheapest queue in which it is expected to end by its
   deadline, which is after the mean wait of the last jobs that started from this queue, and its
   estimate; the dearest queue if that is so in none, the cheapest without a deadline of the user.
   Or the user has chosen (``qos.queue``).
3. Only so many jobs of the dearest queue have priority in a period; those that come later in it
   wait among the jobs of the next queue, by arrival.
4. A job pays processors × run time × the price of its queue. Nothing is promised.

Three queues, double and half the usual charge, priority "until some threshold on the number of
serviced jobs is exceeded": M. Islam, P. Balaji, P. Sadayappan, D. K. Panda, "QoPS: a QoS based
scheme for parallel job scheduling" (2003), section 1, of NERSC's priority charging. All else is an
assumption of ours: see docs/schedulers.md.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta

from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.limits import MAX_SECONDS, MAX_WHOLE_NUMBER
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.easy import Easy
from qops_batsim.scheduling.module import PlannerOptions, SchedulerOptions, System, seconds

if TYPE_CHECKING:
    from qops_batsim.scheduling.arrays import Floats, Ints
    from qops_batsim.scheduling.qos_log import QosLog
    from qops_batsim.scheduling.queue_choice import Queues

NAME = "priced-queues"


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
        names, prices = self.queues, self.prices
        if not names or "" in names or len(set(names)) < len(names):
            raise _error("queues", names, "different names are accepted, one at least")
        if len(prices) != len(names):
            raise _error("prices", prices, f"{len(names)} are accepted, one for each queue")
        falling = all(first > second for first, second in pairwise(prices))
        if not (falling and prices[-1] >= 0 and prices[0] < math.inf):
            raise _error("prices", prices, "falling numbers from 0 up are accepted")
        if self.choice == "stated" and self.default_queue not in names:
            known = ", ".join(names)
            raise _error("default_queue", self.default_queue, f"one of {known} is accepted")


def _error(option: str, value: object, accepted: str) -> InputError:
    return InputError(f"scheduler '{NAME}': option {option} is {shown(value)}; {accepted}")


class PricedQueues(Easy):
    """EASY over queues with prices, which users choose by need, as at NERSC.

    All jobs of a dearer queue come before those of a cheaper one. A user takes the cheapest queue
    in which the job is expected to end by its deadline: after the mean wait of the last jobs that
    started from that queue, and the estimate. Nothing is promised and none is refused.
    """

    summary = "EASY over queues with prices, chosen by need (NERSC's, as Islam et al. 2003 tell)"
    Options: ClassVar[type[SchedulerOptions]] = PricedQueuesOptions

    options: PricedQueuesOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        super().__init__(options)
        self.options.check()
        self._ranks = {name: rank for rank, name in enumerate(self.options.queues)}

    def begin(self, system: System) -> None:
        """Start with empty queues."""
        from qops_batsim.scheduling import queue_choice

        super().begin(system)
        self._rules = queue_choice
        self._queues = self.new_queues()
        self._chosen: dict[str, int] = {}

    def new_queues(self, deadlines: Floats | None = None, chosen: Ints | None = None) -> Queues:
        """Return queues without jobs; for the parameters see :class:`~.queue_choice.Queues`."""
        from qops_batsim.scheduling.queue_choice import Terms, new_queues

        options, limit = self.options, self.options.priority_limit
        most = MAX_WHOLE_NUMBER if limit is None else limit
        terms = Terms(options.history, most, options.priority_period)
        return new_queues(len(options.queues), terms, deadlines, chosen)

    def stated_queue(self, qos: QosRequest | None) -> int | None:
        """Return the queue that a user has chosen; None for one who chooses by need."""
        if self.options.choice == "need":
            return None
        name = None if qos is None else qos.queue
        return self._ranks.get(name or "", self._ranks[self.options.default_queue])

    def note_queue(self, log: QosLog, job_id: str, queue: int) -> None:
        """Note in which queue a job (full id) is, and at which price."""
        record = log.record(job_id)
        record.queue, record.price = self.options.queues[queue], self.options.prices[queue]

    def arrived(self, job: Job) -> None:
        """Append the job to its queue."""
        super().arrived(job)
        numbers, slot = self._table.numbers, self._table.slot_of(job.id)
        arrival, estimate = float(numbers.arrivals[slot]), float(numbers.estimates[slot])
        queue = self.stated_queue(job.qos)
        if queue is None:
            asked = needed_by(job.qos)
            queue = self._rules.needed_queue(self._queues, arrival, estimate, asked)
        numbers.keys[slot] = self._rules.rank_in(self._queues, queue, arrival)
        self._sorted = False
        self._chosen[job.id] = queue
        self.note_queue(self.qos_log, job.id, queue)

    def start(self, job: Job, hosts: HostSet | None = None) -> None:
        """Start a job, and learn how long it has waited."""
        super().start(job, hosts)
        queue = self._chosen.pop(job.id, None)
        if queue is not None:
            wait = self._now - max(float(job.submission_time), 0.0)
            self._rules.observe(self._queues, queue, wait)


def needed_by(qos: QosRequest | None) -> float:
    """Return when a user needs a job (seconds), infinite without a deadline of the user's own."""
    if qos is None or qos.deadline is None or qos.has_user_deadline is False:
        return math.inf
    return float(qos.deadline)
