"""EASY backfilling: by arrival, by a named order, or by one of your own."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, SupportsFloat

from msgspec import Meta

from qops_batsim.core.job import WAITING, Job
from qops_batsim.core.node_request import Places
from qops_batsim.core.node_use import NodeUse
from qops_batsim.core.options import PlannerOptions, SchedulerOptions, seconds
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.errors import InputError, SimulationError, python_text, shown
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.schedulers.job_orders import CHANGING, ORDERS, OrderName, key_in
from qops_batsim.schedulers.queue_scheduler import BLOCK, Queue, QueueScheduler
from qops_batsim.schedulers.user_past import UserPast
from qops_batsim.timing import GRID_TOLERANCE, PLAN_TOLERANCE

INFINITY = math.inf
FCFS = ORDERS.index("fcfs")
OWN = ORDERS.index("own")

INCREMENTS = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18e3, 36e3, 72e3, 18e4, 36e4)
"""By how much predictions that were too short grow, one time after the other (seconds)."""


SHORT_QUEUE = 4 * BLOCK
"""A queue of this many places is closed up whenever a job has left it, and has no summaries."""

# What easy.pxd declares is a C variable, which neither annotations nor other modules see.
_SHORT_QUEUE = SHORT_QUEUE


class EasyOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of ``Easy``."""

    order: Annotated[
        OrderName,
        Meta(
            description="order of the waiting jobs: by arrival, shortest, longest, smallest area "
            "or largest expansion first, by deadline, or a formula of the literature; ties by "
            "arrival"
        ),
    ] = "fcfs"
    backfill_order: Annotated[
        Literal["same", OrderName],
        Meta(description="order in which jobs are backfilled around the one with the reservation"),
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


class Easy(QueueScheduler):
    """EASY (aggressive) backfilling: only the first waiting job has a reservation.

    1. Jobs start in the order of the queue as long as they fit. The first that does not fit is
       promised the *shadow time*, when enough running jobs are expected to have ended; the
       processors left over then are the *extra* ones.
    2. A later job starts now if it is expected to end by the shadow time, or needs only extra
       processors.

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job without one is
    planned as if it never ended. While hosts are away, jobs wider than what is left are passed
    over: the first one that is not has the reservation. Where news is late, jobs are chosen as if
    those had ended of whose end the news may be under way; what is chosen and has to wait for that
    keeps its place.

    The order is one with a name (:func:`key_in`); jobs behind the reservation may be tried in
    another one, and those that have waited for the starvation bound come before all others, by
    arrival. A subclass has an order of its own by :meth:`key`, or :meth:`order` if it changes with
    time, and limits by :meth:`may_start`.

    Examples
    --------
    >>> class ShortestFirst(Easy):
    ...     summary = "EASY, shortest estimate first"
    ...     def key(self, job):
    ...         return job.estimate
    >>> class TwoAtOnce(Easy):
    ...     summary = "EASY, at most two jobs of a user at once"
    ...     def may_start(self, job):
    ...         return sum(other.user == job.user for other in self.running) < 2
    >>> from qops_batsim import simulate
    >>> [len(simulate(kind, "tiny_8").ended) for kind in (ShortestFirst, TwoAtOnce)]
    [8, 8]
    """

    drains = False
    backfills = True
    summary = "EASY backfilling: one reservation, shadow time and extra processors"
    Options: type[SchedulerOptions] = EasyOptions
    HOOKS: ClassVar[dict[str, str]] = {**QueueScheduler.HOOKS, "key": "job", "order": "now"}

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        Scheduler.__init__(self, options)
        given: Any = self.options if isinstance(self.options, EasyOptions) else EasyOptions()
        self.has_key = type(self).key is not Easy.key
        self.has_order = type(self).order is not Easy.order
        if (self.has_key or self.has_order) and given.order != "fcfs":
            method = "key" if self.has_key else "order"
            raise InputError(
                f"option order is {shown(given.order)}, but {type(self).__name__} has a method "
                f"{method} that orders the jobs; only one of the two is accepted"
            )

        behind = given.backfill_order
        bound = given.starvation_bound
        self.reserving = OWN if self.has_key else ORDERS.index(given.order)
        self.backfilling = self.reserving if behind == "same" else ORDERS.index(behind)
        self.patience = INFINITY if bound is None else bound
        self.predicts = given.run_times == "predicted"

        # Some keys change while jobs wait; those of predictions are known only after the arrival.
        changes = given.order in CHANGING
        changes = changes or (self.predicts and self.reserving not in (FCFS, OWN))
        self.is_sorted = self.reserving != FCFS and not changes
        self.chooses = changes or bound is not None or behind not in ("same", given.order)

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty queue."""
        QueueScheduler.begin(self, manager)
        self.extra = 0
        self.gone: list[Job] = []
        self.new: list[Job] = []
        self.held: list[Job] = []
        self.past = UserPast()

    # What a subclass may override

    def key(self, job: Job) -> float:
        """Return the sort key of a waiting job; the least comes first, ties by arrival.

        Asked once, when the job arrives. Not overridden: the option ``order``.
        """
        return 0.0

    def order(self, now: float) -> list[Job]:
        """Return the waiting jobs in the order in which to start them at a date (seconds).

        Asked before jobs start, for an order that changes with time. Jobs left out do not start
        now, and nothing is reserved for them. Not overridden: the queue, by :meth:`key` or the
        option ``order``.
        """
        return self.queue.listed()

    # Events

    def checked(self, job: Job, key: object) -> float:
        """Return the sort key that a subclass gave for a job as a float; raise a SimulationError if
        it is not a number.
        """
        if isinstance(key, SupportsFloat) and not math.isnan(float(key)):
            return float(key)
        raise SimulationError(
            f"{type(self).__name__}.key({job.id}) returned {python_text(key)}; a number is expected"
        )

    def arrived(self, job: Job) -> None:
        """Add a new job to the queue. O(queue), O(1) if the queue is by arrival."""
        if self.is_sorted:
            self.set_key(job)
            self.queue.new += 1
        self.queue.append(job)
        if self.predicts:
            self.new.append(job)

    def set_key(self, job: Job) -> None:
        """Set the sort key of a new job, if keys do not change while it waits."""
        if self.has_key:
            key = self.key(job)
            # To ask whether something follows a protocol takes longer.
            job.key = key if type(key) is float and key == key else self.checked(job, key)
        else:
            job.key = key_in(self.reserving, 0.0, job)

    def ended(self, job: Job) -> None:
        """Remove a job that has ended. O(running)."""
        if self.predicts and job.fixed_start == INFINITY:
            self.gone.append(job)
        QueueScheduler.ended(self, job)

    # Decisions

    def schedule(self) -> None:
        """Start the jobs that fit without delaying the first one that does not."""
        self.prepare()
        if self.shared is not None:
            line = self.line()
            if self.shared.is_stale:
                self.shared.begin_pass(self.running)  # Predictions were too short.
            self.start_sharing(line, True)
            self.queue.close_up(0)
            return
        free = self.manager.free
        if self.manager.grace > 0.0:
            free += self.ending()
        if free == 0 or not self.queue.jobs:
            return

        queue = self.queue
        if self.has_order:
            queue = Queue()
            queue.jobs.extend(self.order(self.manager.now))
        if self.chooses:
            self.choose(queue.jobs, free)
        else:
            self.start_in_order(queue, free)

        # The other pass closes up the queue that it was given, where that pays.
        if self.chooses or self.has_order:
            self.queue.close_up(0)

    def prepare(self) -> None:
        """Update predicted run times, and sort new jobs into the queue."""
        if self.predicts:
            self.predict(self.manager.now - self.manager.grace)
        if self.queue.new > 0 and not self.chooses:
            self.queue.put_in_order()

    def start_in_order(self, queue: Queue, free: int) -> None:
        """Start jobs of a queue that fit ``free`` processors, in order; the first that does not fit
        gets the reservation.

        A block of it is skipped if its narrowest job asks for more than is free, or if that one
        needs more than the extra processors and the shortest one that may fit ends after the shadow
        time. O(blocks + started × (running + block)), as long as widths of a class are alike.
        """
        manager = self.manager
        now = manager.now
        present = self.present
        jobs = queue.jobs
        used = len(jobs)
        is_short = used <= _SHORT_QUEUE
        if not is_short:
            queue.count_new()

        # Until a job has the reservation, any that fits may start.
        is_reserved = False
        latest = INFINITY
        extra = 0

        started = 0
        first = 0
        for block in range((used + BLOCK - 1) // BLOCK):
            if free == 0:
                break
            place = block * BLOCK
            if not is_short:
                if is_reserved:
                    if not queue.may_start(block, free, extra, now, latest):
                        continue
                elif queue.narrowest[block] > max(free, present):
                    continue

            before = started
            behind = min(used, place + BLOCK)
            while free > 0:
                # Within a block, widths and durations side by side are faster than the jobs.
                if is_reserved and not is_short and place < behind:
                    place = queue.next_fit(place, free, extra, now, latest)
                if place >= behind:
                    break
                job = jobs[place]
                place += 1
                if job.phase != WAITING:
                    continue

                needed = job.processors
                if needed <= free:
                    end = now + job.duration
                    if end > latest and needed > extra:
                        continue
                    if self.has_limits and not self.may_start(job):
                        continue

                    free -= needed
                    if end > latest:
                        extra -= needed
                    if needed > manager.free:
                        self.hold(job)
                        continue

                    self.start(job)
                    if not is_short:
                        queue.leave(place - 1)
                    if started == 0:
                        first = place - 1
                    started += 1

                elif not is_reserved and needed <= present:
                    if self.has_limits and not self.may_start(job):
                        continue
                    is_reserved = True
                    latest = self.shadow_of(needed, free) + max(manager.grace, PLAN_TOLERANCE)
                    extra = self.extra

            if started > before and not is_short:
                queue.count_block(block)

        # A long queue is closed up when half of it has left: then that costs O(1) a job.
        if started > 0 and is_short:
            queue.close_up(first)
        elif not is_short and used > 2 * queue.waiting:
            queue.close_up(0)
        if self.held:
            self.release()

    def choose(self, queue: list[Job], free: int) -> None:
        """Start jobs one by one, each time the one with the least key among those that may start.
        O(started × queue).
        """
        manager = self.manager
        now = manager.now
        present = self.present
        is_reserved = False
        latest = INFINITY
        extra = 0
        has_keys = self.is_sorted

        while True:
            order = self.backfilling if is_reserved else self.reserving
            best = INFINITY
            place = -1
            for index in range(len(queue)):
                job = queue[index]
                needed = job.processors
                if job.phase != WAITING or job.is_held:
                    continue
                if is_reserved:
                    if needed > free or (needed > extra and now + job.duration > latest):
                        continue
                elif needed > max(free, present):
                    continue
                if self.has_limits and not self.may_start(job):
                    continue

                wait = now - job.arrival
                if order == FCFS or wait >= self.patience:
                    key = -INFINITY
                elif order == self.reserving and has_keys:
                    key = job.key
                else:
                    key = key_in(order, wait, job)
                    if not is_reserved:
                        job.key = key
                if place < 0 or key < best:
                    best = key
                    place = index
                if key == -INFINITY:
                    break
            if place < 0:
                break
            # With patience the first look ends at a job that has lost it: keys are incomplete then.
            has_keys = self.is_sorted or self.patience == INFINITY

            job = queue[place]
            needed = job.processors
            end = now + job.duration
            if needed > free:
                is_reserved = True
                latest = self.shadow_of(needed, free) + max(manager.grace, PLAN_TOLERANCE)
                extra = self.extra
                continue

            free -= needed
            if end > latest:
                extra -= needed
            if needed > manager.free:
                self.hold(job)
            else:
                self.start(job)
        self.release()

    def hold(self, job: Job) -> None:
        """Count a chosen job as running in this pass, though its processors are not reported free
        yet.
        """
        job.is_held = True
        job.end = self.manager.now + job.duration
        self.insert_running(job)
        self.held.append(job)

    def release(self) -> None:
        """Put the jobs of :meth:`hold` back into the queue at the end of a pass."""
        for job in self.held:
            job.is_held = False
            QueueScheduler.ended(self, job)
        self.held.clear()

    def ending(self) -> int:
        """Return how many processors belong to jobs that should have ended but are not reported
        yet. O(running).

        They should have ended, by less than the grace ago, or by the end of this microsecond, to
        which planned ends are rounded.
        """
        manager = self.manager
        under_way = 0
        for job in self.running:
            if job.end > manager.now + min(manager.grace, GRID_TOLERANCE):
                break
            if job.end > manager.now - manager.grace:
                under_way += job.returning
        return under_way

    def shadow_of(self, needed: int, free: int) -> float:
        """Return the shadow time: when ``needed`` processors are expected to be free (seconds).

        How many more are then is left in ``extra``. A job that runs longer than expected counts as
        about to end, and has already where the news may be under way: see :meth:`ending`.
        O(running).
        """
        running = self.running
        now = self.manager.now
        grace = self.manager.grace
        # Jobs that end at the shadow time, or as good as then, leave extra processors too.
        tolerance = max(grace, PLAN_TOLERANCE)

        shadow = INFINITY
        available = free
        for place in range(len(running)):
            job = running[place]
            if job.end > shadow + tolerance:
                break
            if now - grace < job.end <= now + min(grace, GRID_TOLERANCE):
                continue  # Its processors are among the free ones.
            available += job.returning
            if shadow == INFINITY and available >= needed:
                shadow = max(now, job.end)
        self.extra = available - needed
        return shadow

    def line(self) -> list[Job]:
        """Return the waiting jobs in the order in which they get reservations."""
        self.prepare()
        if self.has_order:
            return list(self.order(self.manager.now))
        waiting = self.queue.listed()
        if self.chooses:
            waiting.sort(key=self.key_now)
        return waiting

    def key_now(self, job: Job) -> float:
        """Return the current sort key of a waiting job."""
        wait = self.manager.now - job.arrival
        if self.reserving == FCFS or wait >= self.patience:
            return -INFINITY
        return job.key if self.is_sorted else key_in(self.reserving, wait, job)

    def behind(self, line: list[Job], place: int) -> list[Job]:
        """Return the jobs of a line from an index on, in the order in which they are backfilled."""
        rest = line[place:]
        if not self.chooses or self.backfilling == self.reserving:
            return rest
        now = self.manager.now
        keys: list[tuple[float, int, Job]] = []
        for number, job in enumerate(self.queue.listed()):
            wait = now - job.arrival
            is_first = self.backfilling == FCFS or wait >= self.patience
            key = -INFINITY if is_first else key_in(self.backfilling, wait, job)
            keys.append((key, number, job))
        keys.sort()
        left = {id(job) for job in rest}
        return [job for _, _, job in keys if id(job) in left]

    # Looking ahead

    def expected_end(self, job: Job) -> float:
        """Return the expected end of a waiting or just submitted job (seconds).

        So it would if no other job came, all ran as long as they are expected to, and this
        scheduler went on by its key or order; infinite if it would never start. Hosts that are away
        stay away; promised starts, maintenance and :meth:`may_start` are not considered, and
        :meth:`order` is as it is now. O((waiting + running) × waiting).
        """
        if job is None:
            raise self.manager.refused(job, "be expected to end")

        manager = Lookahead(self.manager.machine_size)
        if self.shared is not None:
            manager.use = NodeUse(self.manager.use.layout)
            manager.use.closed = self.manager.use.closed
            manager.capacity = self.manager.capacity
        ahead = Easy()
        ahead.begin(manager)
        manager.drains = self.manager.drains
        manager.now = self.manager.now
        manager.free = self.manager.free
        ahead.present = self.present
        ahead.patience = self.patience
        ahead.reserving = self.reserving
        ahead.backfilling = self.backfilling
        ahead.is_sorted = self.is_sorted
        ahead.chooses = self.chooses
        for other in self.running:
            copy = copy_of(other)
            ahead.running.append(copy)
            if self.shared is not None:
                manager.run_on(copy, other.request.used)
                ahead.shared.is_stale = True  # The first pass takes them from its profile.

        waiting = list(self.order(manager.now)) if self.has_order else self.queue.listed()
        is_new = True
        for other in waiting:
            is_new = is_new and other is not job
        if is_new:
            if self.is_sorted:
                self.set_key(job)
            waiting.append(job)

        own_copy = job
        for other in waiting:
            copy = copy_of(other)
            if other is job:
                own_copy = copy
            if self.shared is not None:
                manager.asking(copy)
            ahead.queue.append(copy)
        ahead.queue.new = len(waiting) if ahead.is_sorted else 0

        while True:
            if self.shared is not None:
                ahead.shared.begin_pass(ahead.running)
            ahead.schedule()
            if own_copy.phase != WAITING:
                return own_copy.end
            if not ahead.running or ahead.running[0].end == INFINITY:
                return INFINITY

            # Nothing happens until a running job ends.
            manager.now = max(manager.now, ahead.running[0].end)
            while ahead.running and ahead.running[0].end <= manager.now:
                copy = ahead.running.pop(0)
                if self.shared is None:
                    manager.free += copy.returning
                else:
                    manager.use.give(copy)
                    ahead.shared.ended(copy)

    # Predictions

    def predict(self, now: float) -> None:
        """Learn run times from ended jobs, predict those of new jobs, and correct predictions that
        running jobs have exceeded.

        1. A new job is expected to run as :meth:`UserPast.expected` says.
        2. A running job that has outlived its prediction is expected to run a minute longer, then
           5, 15 and 30 minutes, 1, 2, 5, 10, 20, 50 and 100 hours, never longer than its estimate.
        """
        for job in self.gone:
            self.past.learn(job, now - (job.end - job.duration))
        self.gone.clear()
        self.correct(now)
        for job in self.new:
            job.duration = self.past.expected(job)
        self.new.clear()

    def correct(self, now: float) -> None:
        """Extend running jobs that have outlived their predictions. O(running²)."""
        running = self.running
        place = 0
        while place < len(running):
            job = running[place]
            if job.end > now:
                break

            end = job.end
            left = job.requested - job.duration
            while end <= now and left > 0.0:
                step = min(INCREMENTS[min(job.corrections, len(INCREMENTS) - 1)], left)
                job.corrections += 1
                job.duration += step
                end += step
                left -= step
            if end == job.end:
                place += 1  # It has outlived its estimate as well.
                continue

            # The next job to look at moves to this place.
            del running[place]
            if self.shared is not None:
                self.shared.is_stale = True
            job.end = end
            self.insert_running(job)


class Lookahead(ResourceManager):
    """A resource manager that only knows what is free, for simulating a scheduler ahead."""

    def start_job(self, job: Job, hosts: object) -> None:
        if self.use is None:
            self.free -= job.processors
        else:
            self.take_shared(job, hosts)

    def run_on(self, job: Job, places: Places) -> None:
        """Have a job run that holds these places of shared hosts."""
        self.asking(job).held.copy_from(places)
        self.use.take(job)


def copy_of(job: Job) -> Job:
    """Return a copy of a waiting or running job, for simulating a scheduler ahead."""
    copy = job.renamed(job.id)
    copy.phase = job.phase
    copy.duration = job.duration
    copy.key = job.key
    copy.start = job.start
    copy.end = job.end
    copy.returning = job.returning
    return copy
