"""EASY backfilling, in order of arrival or of any key."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, SupportsFloat

from msgspec import Meta

from qops_batsim.errors import InputError, SimulationError, python_text, shown
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.core.columns import ESTIMATES
from qops_batsim.scheduling.module import PlannerOptions, SchedulerOptions, System, seconds
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
from qops_batsim.timing import GRID_TOLERANCE

if TYPE_CHECKING:
    from qops_batsim.scheduling.arrays import Ints
    from qops_batsim.scheduling.easy_orders import LineOrder
    from qops_batsim.scheduling.table import SlotTable


OrderName = Literal["fcfs", "sjf", "ljf", "saf", "lxf", "wfp3", "unicef", "f1", "f2", "f3", "f4"]
"""Name of an order of :mod:`~qops_batsim.scheduling.easy_orders`."""


class EasyOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of ``Easy``."""

    order: Annotated[
        OrderName,
        Meta(
            description="order of the waiting jobs: by arrival, shortest, longest, smallest area "
            "or largest expansion first, or a formula of the literature; ties by arrival"
        ),
    ] = "fcfs"
    backfill_order: Annotated[
        Literal["same", OrderName],
        Meta(description="order in which jobs are tried beside the one with the reservation"),
    ] = "same"
    starvation_bound: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_SECONDS)] | None,
        seconds("jobs that have waited so long come before all others, by arrival"),
    ] = None
    run_times: Annotated[
        Literal["estimated", "predicted"],
        Meta(
            description="what is planned with: estimates, or run times predicted from the last two "
            "jobs of the user, which with backfill_order=sjf is EASY++"
        ),
    ] = "estimated"


class Easy(SpaceSharingScheduler):
    """Aggressive backfilling: only the first waiting job has a reservation.

    Jobs start in order of arrival as long as they fit. The first that does not
    fit is promised the *shadow time*, when enough running jobs are expected to
    have ended; the processors left over then are the *extra* ones. A later job
    may start now if it is expected to end by the shadow time or needs only extra
    processors.

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job
    without one is planned as if it never ended. While hosts are away, jobs wider than
    what is left are passed over: the first one that is not has the reservation.

    The waiting jobs are in an order by name (:mod:`~qops_batsim.scheduling.easy_orders`); beside
    the job with the reservation others may be tried in another one. A subclass that implements
    :meth:`key` has an order of its own:

    >>> class ShortestFirst(Easy):
    ...     summary = "EASY, shortest estimate first"
    ...     def key(self, job):
    ...         return job.estimate
    >>> from qops_batsim import simulate
    >>> len(simulate(ShortestFirst, "tiny_8").ended)
    8
    """

    drains = False
    backfills = True
    summary = "EASY backfilling: one reservation, shadow time and extra processors"
    Options: ClassVar[type[SchedulerOptions]] = EasyOptions

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        super().__init__(options)
        self._has_key = type(self).key is not Easy.key
        given = self.options
        self._orders = given if isinstance(given, EasyOptions) else EasyOptions()
        if self._has_key and self._orders.order != "fcfs":
            raise InputError(
                f"order is {shown(self._orders.order)}, and {type(self).__name__} has a key, which "
                "is its order; one of both is accepted"
            )

    def key(self, job: Job) -> float:
        """Return what waiting jobs are ordered by, the least first, ties by arrival.

        Asked once, when the job arrives, and only about the job and the options: nothing of the
        simulation is known then. Not implemented: the option ``order``.
        """
        raise NotImplementedError

    def begin(self, system: System) -> None:
        """Start with an empty queue."""
        from qops_batsim.scheduling.arrays import new_queue
        from qops_batsim.scheduling.easy_kernel import (
            easy_pass,
            new_line,
            new_running,
            put_in_order,
        )
        from qops_batsim.scheduling.easy_orders import key_of, ordered_pass
        from qops_batsim.scheduling.predictions import Users, new_past, renew_predictions
        from qops_batsim.scheduling.table import FIRST_CAPACITY, SlotTable

        super().begin(system)
        self._pass, self._ordered_pass = easy_pass, ordered_pass
        self._put_in_order, self._key_of = put_in_order, key_of
        self._order, self._keys_by = self.line_order()
        self._table: SlotTable = SlotTable()
        self._line = new_line(FIRST_CAPACITY)
        # No more jobs run than there are processors, nor are as many more chosen to.
        most = 2 * self.machine_size + 1
        self._gone, self._started = new_queue(most), new_queue(most).slots
        self._ending = new_running(most)
        self._sorted = True
        self._renew_predictions, self._users, self._past = renew_predictions, Users(), new_past(1)
        self._predicted = 0

    @property
    def predicts(self) -> bool:
        """Whether run times are predicted."""
        return self._orders.run_times == "predicted"

    def line_order(self) -> tuple[LineOrder | None, int]:
        """Return the order in which a pass chooses jobs, and the code of that of their keys.

        None if the line is in the order of the keys, or without keys, for which the code is 0, in
        that of arrival.
        """
        from qops_batsim.scheduling.easy_orders import CHANGING, FCFS, ORDERS, OWN, LineOrder

        options = self._orders
        code = OWN if self._has_key else ORDERS.index(options.order)
        changes, keys = code in CHANGING, code
        # Keys of predictions are known only when a job has come.
        changes = changes or (options.run_times == "predicted" and code not in (FCFS, OWN))
        if changes:
            keys = FCFS
        elif code != FCFS:
            code = OWN
        behind, bound = options.backfill_order, options.starvation_bound
        if not changes and bound is None and behind in ("same", options.order):
            return None, keys
        other = code if behind == "same" else ORDERS.index(behind)
        return LineOrder(code, other, math.inf if bound is None else bound), keys

    def arrived(self, job: Job) -> None:
        """Append the job to the line."""
        from qops_batsim.scheduling.easy_kernel import USED

        slots, sizes = self._line.slots, self._line.sizes
        if sizes[USED] == len(slots):
            self._make_line(self._waiting(), 2 * len(slots))
            slots, sizes = self._line.slots, self._line.sizes
        slot = self._table.add(job)
        slots[sizes[USED]] = slot
        sizes[USED] += 1
        numbers = self._table.numbers
        if self.predicts:
            numbers.users[slot] = self._users.number(job.user)
            self._past = self._users.with_room(self._past)
        if self._has_key:
            numbers.keys[slot] = self.checked_key(job)
            self._sorted = False
        elif self._keys_by:
            arrival, estimate = float(numbers.arrivals[slot]), float(numbers.estimates[slot])
            processors = int(numbers.processors[slot])
            numbers.keys[slot] = self._key_of(self._keys_by, 0.0, arrival, processors, estimate)
            self._sorted = False

    def checked_key(self, job: Job) -> float:
        """Return the key of a job; SimulationError if it is no number."""
        key: object = self.key(job)
        # To ask whether something follows a protocol takes longer.
        if isinstance(key, (float, int, SupportsFloat)) and not math.isnan(float(key)):
            return float(key)
        told = f"{type(self).__name__}.key({job.id}) returned {python_text(key)}"
        raise SimulationError(f"{told}; a number is expected")

    def joined(self, job: Job, start: float, hosts: HostSet) -> None:
        """Count the job among those that run."""
        from qops_batsim.scheduling.easy_kernel import insert_running

        slot, freed = self._table.add(job), len(hosts - self.capacity.away)
        end = start + float(self._table.numbers.estimates[slot])
        insert_running(self._ending, slot, end, freed)

    def left(self, job: Job) -> None:
        """Keep the job for the next pass."""
        slots, size = self._gone
        slots[size[0]] = self._table.slot_of(job.id)
        size[0] += 1

    def resized(self) -> None:
        """Count anew which processors come free at the ends of running jobs. O(running)."""
        gone = set(self._gone.slots[: self._gone.size[0]].tolist())
        for place, slot in enumerate(self._ending.slots[: self._ending.size[0]].tolist()):
            if slot not in gone:
                self._ending.freed[place] = self.returning(self._table.jobs[slot].id)

    def withdraw_wider(self, processors: int) -> list[Job]:
        """Take such jobs out of the queue."""
        waiting = self._waiting()
        wider = self._table.numbers.processors[waiting] > processors
        self._make_line(waiting[~wider], len(self._line.slots))
        return [self._table.jobs[slot] for slot in waiting[wider]]

    def withdraw(self, job_id: str) -> tuple[Job | None, bool]:
        """Take a job out of the queue."""
        waiting, slot = self._waiting(), self._table.known_slot(job_id)
        if slot is None or slot not in waiting:
            return None, False
        self._make_line(waiting[waiting != slot], len(self._line.slots))
        return self._table.jobs[slot], False

    def _grace(self) -> float:
        """Return how long ago a job may have ended of whose end the news is under way (seconds)."""
        if self.news.late:
            return self.news.grace
        return GRID_TOLERANCE if self.news_in_parts else 0.0

    def schedule(self, now: float) -> None:
        """Start the jobs that fit without delaying the first one that does not."""
        jobs, numbers, order = self._table.jobs, self._table.numbers, self._order
        self._predict(now)
        decide: Callable[..., int] = self._pass
        asked: tuple[Any, ...] = numbers.processors, numbers.numbers[ESTIMATES]
        if order is not None:
            decide, asked = self._ordered_pass, (numbers.arrivals, *asked, numbers.keys, order)
        elif not self._sorted:
            self._put_in_order(self._line, numbers.keys)
            self._sorted = True
        count = decide(
            float(now),
            self._grace(),
            self.free_count,
            self.capacity.present,
            *asked,
            self._line,
            self._ending,
            self._gone,
            self._started,
        )
        self._gone.size[0] = 0
        for index in range(count):
            self.start(jobs[self._started[index]])

    def _predict(self, now: float) -> None:
        """Predict the run times of new jobs, if any are, and learn from those that have ended."""
        if not self.predicts:
            return
        new, self._predicted = self._predicted, len(self._table.jobs)
        self._renew_predictions(
            float(now) - self._grace(), self._table.numbers, self._past, new, self._predicted,
            self._ending, self._gone,
        )  # fmt: skip

    def _in_line(self, now: float) -> Sequence[Job]:
        """Return the jobs in the order in which they get the reservation."""
        from qops_batsim.scheduling.easy_kernel import remove_running

        self._predict(now)
        slots, size = self._gone
        remove_running(self._ending, slots, size[0])
        size[0] = 0
        if self._order is None and not self._sorted:
            self._put_in_order(self._line, self._table.numbers.keys)
            self._sorted = True
        waiting: list[int] = self._waiting().tolist()
        if self._order is not None:
            waiting.sort(key=lambda slot: self._key_at(now, slot))
        return [self._table.jobs[slot] for slot in waiting]

    def _key_at(self, now: float, slot: int) -> float:
        """Return what the job in a slot is ordered by at a date (seconds)."""
        from qops_batsim.scheduling.easy_orders import FCFS, OWN

        assert self._order is not None
        numbers, code = self._table.numbers, self._order.reserving
        arrival = float(numbers.arrivals[slot])
        if code == FCFS or now - arrival >= self._order.patience:
            return -math.inf
        if code == OWN:
            return float(numbers.keys[slot])
        estimate, processors = float(numbers.estimates[slot]), int(numbers.processors[slot])
        return float(self._key_of(code, now - arrival, arrival, processors, estimate))

    def _leave_line(self, jobs: Sequence[Job], now: float) -> None:
        """Take jobs out of the line that run from now on."""
        gone = [self._table.slot_of(job.id) for job in jobs]
        for slot in gone:
            self._insert_running(slot, now)
        if gone:
            waiting = self._waiting()
            kept = [slot not in gone for slot in waiting.tolist()]
            self._make_line(waiting[kept], len(self._line.slots))

    def _note_run(self, job: Job, now: float) -> None:
        """Count the job among the running ones."""
        self._insert_running(self._table.add(job), now)

    def _insert_running(self, slot: int, now: float) -> None:
        from qops_batsim.scheduling.easy_kernel import insert_running

        numbers = self._table.numbers
        end, freed = float(now) + float(numbers.estimates[slot]), int(numbers.processors[slot])
        insert_running(self._ending, slot, end, freed)

    def _waiting(self) -> Ints:
        """Return the slots of the waiting jobs in order. O(queue)."""
        from qops_batsim.scheduling.easy_kernel import NO_JOB, USED

        slots = self._line.slots[: self._line.sizes[USED]]
        waiting: Ints = slots[slots != NO_JOB]
        return waiting

    def _make_line(self, slots: Ints, room: int) -> None:
        """Let these jobs wait, in this order. O(room)."""
        from qops_batsim.scheduling.easy_kernel import USED, new_line

        self._line = new_line(room)
        self._line.slots[: len(slots)] = slots
        self._line.sizes[USED] = len(slots)
