"""EASY backfilling, in the order of arrival, in one with a name, or in one of your own."""

from __future__ import annotations

import math
from array import array
from typing import Any, ClassVar, SupportsFloat

from qops_batsim.core.job import Job
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.errors import InputError, SimulationError, python_text, shown
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.schedulers.queue import QueueScheduler
from qops_batsim.scheduling.easy import EasyOptions
from qops_batsim.timing import GRID_TOLERANCE, PLAN_TOLERANCE, SHORTEST, up_to_grid

ORDERS = ("fcfs", "sjf", "ljf", "saf", "f1", "f2", "f3", "f4", "lxf", "wfp3", "unicef", "own")
"""Names of the orders by their codes; ``own`` is that of :meth:`Easy.key`."""

INFINITY = math.inf
FCFS, SJF, LJF, SAF, F1, F2, F3, F4, LXF, WFP3, UNICEF, OWN = range(12)
_PLAN_TOLERANCE, _GRID_TOLERANCE, _MAX_SECONDS = PLAN_TOLERANCE, GRID_TOLERANCE, MAX_SECONDS
_SHORTEST = SHORTEST

LOGARITHMS = [1.0, 1.0, *(math.log2(processors) for processors in range(2, 1025))]
"""Base-2 logarithms of numbers of processors, at least 1, which take long to calculate."""

INCREMENTS = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18e3, 36e3, 72e3, 18e4, 36e4)
"""By how much predictions that were too short grow, one time after the other (seconds)."""


def key_in(order: int, wait: float, job: Job) -> float:
    """Return the key of a job in an order after a wait (seconds); the least comes first.

    With the time *w* that a job has waited, its duration *r* and its arrival *s* (all in seconds),
    and its processors *n*:

    ======  ==============================  ================================================
    fcfs    0                               order of arrival
    sjf     r                               shortest job first
    ljf     -r                              longest job first
    saf     r n                             smallest area first
    lxf     -(w + r) / r                    largest expansion factor first
    wfp3    -(w / r)³ n                     Tang, Lan, Desai, Buettner (2009)
    unicef  -w / (log2(n) r)                the same; one processor counts as two
    f1      log10(r) n + 870 log10(s)       Carastan-Santos, de Camargo (2017), as the next three
    f2      √r n + 25,600 log10(s)
    f3      r n + 6,860,000 log10(s)
    f4      r √n + 530,000 log10(s)
    ======  ==============================  ================================================

    Arrivals before 1 s count as at 1 s in the last four.

    W. Tang, Z. Lan, N. Desai, D. Buettner, "Fault-aware, utility-based job scheduling on Blue
    Gene/P systems", IEEE Cluster 2009. D. Carastan-Santos, R. Y. de Camargo, "Obtaining dynamic
    scheduling policies with simulation and machine learning", SC 2017.
    """
    duration, processors = job.duration, job.processors
    if order == SJF:
        return duration
    if order == LJF:
        return -min(duration, _MAX_SECONDS)
    if order == SAF:
        return duration * processors
    if order == LXF:
        return -wait / duration
    if order == WFP3:
        ratio = wait / duration
        return -ratio * ratio * ratio * processors
    if order == UNICEF:
        logarithm = LOGARITHMS[processors] if processors <= 1024 else math.log2(processors)
        return -wait / (logarithm * duration)
    since = math.log10(max(job.arrival, 1.0))
    if order == F1:
        return math.log10(duration) * processors + 870.0 * since
    if order == F2:
        return math.sqrt(duration) * processors + 25600.0 * since
    if order == F3:
        return duration * processors + 6860000.0 * since
    if order == F4:
        return duration * math.sqrt(processors) + 530000.0 * since
    return 0.0


BLOCK = 64
"""Places of a queue that one summary is about."""

WIDTHS = 16
"""Classes of jobs by processors: 1, 2, up to 4, up to 8 and so on; the last one is of all."""

SHORT_QUEUE = 4 * BLOCK
"""A queue of so many places is closed up whenever a job has left it, and has no summaries."""

_BLOCK, _WIDTHS, _SHORT_QUEUE, _NO_WIDTH = BLOCK, WIDTHS, SHORT_QUEUE, 2**62


def width_of(processors: int) -> int:
    """Return the class of a number of processors. O(1)."""
    width = 0
    while width < _WIDTHS - 1 and processors > 1 << width:
        width += 1
    return width


class Queue:
    """The waiting jobs in order, with a summary of each block of :data:`BLOCK` places.

    A pass skips the blocks in which no job can start, so that it need not look at thousands.

    Attributes
    ----------
    jobs
        The job in each place, None where it has left.
    waiting
        Jobs in the summaries.
    summarized
        Places that summaries count, 0 as long as the queue is short.
    narrowest
        By block: the fewest processors of its jobs.
    shortest
        By block and class: the shortest duration (seconds) of its jobs up to that class.
    """

    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.waiting, self.summarized, self.blocks = 0, 0, 16
        self.narrowest = array("q", bytes(8 * self.blocks))
        self.shortest = array("d", bytes(8 * self.blocks * _WIDTHS))

    def insert(self, job: Job) -> None:
        """Insert a job by its key, behind those of the same one. O(places)."""
        if self.summarized > 0:
            self.close_up(0)
        jobs, place = self.jobs, len(self.jobs)
        while place > 0:
            earlier = jobs[place - 1]
            if earlier.key <= job.key:
                break
            place -= 1
        jobs.insert(place, job)

    def close_up(self, first: int) -> None:
        """Move the jobs from a place on to the first free places. O(places)."""
        jobs, kept = self.jobs, first
        for place in range(first, len(jobs)):
            job = jobs[place]
            if job is not None:
                if kept != place:
                    jobs[kept] = job
                kept += 1
        while len(jobs) > kept:  # Few have left, so that a slice takes longer.
            jobs.pop()
        self.waiting = self.summarized = 0

    def count_new(self) -> None:
        """Count the jobs that summaries do not count yet. O(new)."""
        count = len(self.jobs)
        if count > self.blocks * _BLOCK:
            self.blocks = 2 * (count // _BLOCK + 1)
            self.narrowest = array("q", bytes(8 * self.blocks))
            self.shortest = array("d", bytes(8 * self.blocks * _WIDTHS))
            self.waiting = self.summarized = 0
        for place in range(self.summarized, count):
            if place % _BLOCK == 0:
                self.forget(place // _BLOCK)
            if self.jobs[place] is not None:
                self.count_job(place // _BLOCK, self.jobs[place])
                self.waiting += 1
        self.summarized = count

    def count_block(self, block: int) -> None:
        """Summarize a block that jobs have left. O(1)."""
        self.forget(block)
        for place in range(block * _BLOCK, min(len(self.jobs), (block + 1) * _BLOCK)):
            if self.jobs[place] is not None:
                self.count_job(block, self.jobs[place])

    def forget(self, block: int) -> None:
        """Make the summary of a block that of no job. O(1)."""
        self.narrowest[block] = _NO_WIDTH
        for width in range(_WIDTHS):
            self.shortest[block * _WIDTHS + width] = INFINITY

    def count_job(self, block: int, job: Job) -> None:
        """Count a job in the summary of a block. O(1)."""
        self.narrowest[block] = min(self.narrowest[block], job.processors)
        place, end = block * _WIDTHS + width_of(job.processors), (block + 1) * _WIDTHS
        while place < end and self.shortest[place] > job.duration:
            self.shortest[place] = job.duration
            place += 1

    def may_start(self, block: int, free: int, extra: int, now: float, latest: float) -> bool:
        """Return whether a job of a block may start beside the one that is reserved for. O(1).

        It ends by the latest date, or needs no more than the extra processors.
        """
        narrowest = self.narrowest[block]
        if narrowest > free:
            return False
        shortest = self.shortest[block * _WIDTHS + width_of(free)]
        return narrowest <= extra or now + shortest <= latest

    def check(self) -> None:
        """Raise an AssertionError unless the summaries are those of the jobs."""
        assert self.summarized > 0 or None not in self.jobs
        for block in range((self.summarized + _BLOCK - 1) // _BLOCK):
            end = min(self.summarized, (block + 1) * _BLOCK)
            jobs = [each for each in self.jobs[block * _BLOCK : end] if each is not None]
            narrowest = min((job.processors for job in jobs), default=_NO_WIDTH)
            assert self.narrowest[block] == narrowest, f"block {block}"
            for width in range(_WIDTHS):
                fitting = [job.duration for job in jobs if width_of(job.processors) <= width]
                shortest = self.shortest[block * _WIDTHS + width]
                assert shortest == min(fitting, default=INFINITY), f"block {block}, {width}"


class Easy(QueueScheduler):
    """Aggressive backfilling: only the first waiting job has a reservation.

    1. Jobs start in the order of the queue as long as they fit. The first that does not fit is
       promised the *shadow time*, when enough running jobs are expected to have ended; the
       processors left over then are the *extra* ones.
    2. A later job starts now if it is expected to end by the shadow time, or needs only extra
       processors.

    Plans with estimates (``qos.estimated_runtime``, else the walltime); a job without one is
    planned as if it never ended. The order is one with a name (:func:`key_in`); jobs behind the
    reservation may be tried in another one, and those that have waited for the starvation bound
    come before all others, by arrival. A subclass that overrides :meth:`key` has an order of its
    own.
    """

    summary = "EASY backfilling: one reservation, shadow time and extra processors"
    Options = EasyOptions
    HOOKS: ClassVar[dict[str, str]] = {**QueueScheduler.HOOKS, "key": "job"}

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        Scheduler.__init__(self, options)
        given: Any = self.options if isinstance(self.options, EasyOptions) else EasyOptions()
        order = given.order
        self.has_key = type(self).key is not Easy.key
        if self.has_key and order != "fcfs":
            raise InputError(
                f"order is {shown(order)}, and {type(self).__name__} has a key, which is its "
                "order; one of both is accepted"
            )
        behind, bound = given.backfill_order, given.starvation_bound
        self.order = OWN if self.has_key else ORDERS.index(order)
        self.predicts = given.run_times == "predicted"
        # Keys of predictions are known only when a job has come.
        changes = self.order in (LXF, WFP3, UNICEF)
        changes = changes or (self.predicts and self.order not in (FCFS, OWN))
        self.behind = self.order if behind == "same" else ORDERS.index(behind)
        self.patience = INFINITY if bound is None else bound
        self.is_sorted = self.order != FCFS and not changes
        self.chooses = changes or bound is not None or behind not in ("same", order)

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty queue."""
        Scheduler.begin(self, manager)
        self.grace, self.extra = 0.0, 0
        self.queue = Queue()
        self.running: list[Job] = []
        self.gone: list[Job] = []
        self.new: list[Job] = []
        self.past: dict[str, tuple[float, float]] = {}

    def key(self, job: Job) -> float:
        """Return what waiting jobs are ordered by, the least first, ties by arrival.

        Asked once, when the job arrives. Not overridden: the option ``order``.
        """
        return 0.0

    def checked(self, job: Job, key: object) -> float:
        """Return the key of a job as a float; SimulationError if it is no number."""
        if isinstance(key, SupportsFloat) and not math.isnan(float(key)):
            return float(key)
        told = f"{type(self).__name__}.key({job.id}) returned {python_text(key)}"
        raise SimulationError(f"{told}; a number is expected")

    # Events

    def arrived(self, job: Job) -> None:
        """Put the job into the queue. O(queue) unless that is by arrival."""
        if self.is_sorted:
            if self.has_key:
                key = self.key(job)
                # To ask whether something follows a protocol takes longer.
                job.key = key if type(key) is float and key == key else self.checked(job, key)
            else:
                job.key = key_in(self.order, 0.0, job)
        if self.is_sorted and not self.chooses:
            self.queue.insert(job)
        else:
            self.queue.jobs.append(job)
        if self.predicts:
            self.new.append(job)

    def ended(self, job: Job) -> None:
        """Forget a running job. O(running)."""
        if self.predicts:
            self.gone.append(job)
        running = self.running
        place = 0
        while running[place] is not job:
            place += 1
        del running[place]

    # Decisions

    def decide(self) -> None:
        """Start the jobs that fit without delaying the first one that does not."""
        if self.predicts:
            self.predict(self.manager.now - self.grace)
        if not self.queue.jobs or self.manager.free == 0:
            return
        if self.chooses:
            self.choose()
        else:
            self.start_in_order()

    def start_in_order(self) -> None:
        """Start jobs of the queue as it stands.

        A block of it is skipped if its narrowest job asks for more than is free, or if that one
        needs more than the extra processors and the shortest one that may fit ends after the shadow
        time. O(blocks + started × (running + block)), as long as widths of a class are alike.
        """
        queue, jobs, manager, now = self.queue, self.queue.jobs, self.manager, self.manager.now
        free, extra, count, first, used = manager.free, 0, 0, 0, len(jobs)
        tolerance, latest = max(self.grace, _PLAN_TOLERANCE), INFINITY
        is_reserved, is_short = False, used <= _SHORT_QUEUE
        if not is_short:
            queue.count_new()
        for block in range((used + _BLOCK - 1) // _BLOCK):
            if free == 0:
                break
            before, begin = count, block * _BLOCK
            if not is_short:
                if is_reserved:
                    if not queue.may_start(block, free, extra, now, latest):
                        continue
                elif queue.narrowest[block] > manager.machine_size:
                    continue  # Nothing is left there.
            for place in range(begin, min(used, begin + _BLOCK)):
                job = jobs[place]
                if job is None:
                    continue
                needed = job.processors
                if needed <= free:
                    end = now + job.duration
                    if end <= latest or needed <= extra:
                        free -= needed
                        if end > latest:
                            extra -= needed
                        self.run(job, end)
                        if count == 0:
                            first = place
                        count += 1
                        jobs[place] = None
                elif not is_reserved:
                    is_reserved = True
                    shadow = self.shadow_of(needed, free)
                    extra, latest = self.extra, shadow + tolerance
            if count > before and not is_short:
                queue.waiting -= count - before
                queue.count_block(block)
        if count > 0 and is_short:
            queue.close_up(first)
        elif not is_short and used > 2 * queue.waiting:
            queue.close_up(0)

    def choose(self) -> None:
        """Start the first job in order that may start, again and again. O(started × queue)."""
        queue, manager, now = self.queue.jobs, self.manager, self.manager.now
        free, extra, latest = manager.free, 0, INFINITY
        is_reserved, has_keys = False, self.is_sorted
        while True:
            order = self.behind if is_reserved else self.order
            best, place = INFINITY, -1
            for index in range(len(queue)):
                job = queue[index]
                needed = job.processors
                if is_reserved and (
                    needed > free or (needed > extra and now + job.duration > latest)
                ):
                    continue
                wait = now - job.arrival
                if order == FCFS or wait >= self.patience:
                    key = -INFINITY
                elif order == self.order and has_keys:
                    key = job.key
                else:
                    key = key_in(order, wait, job)
                    if not is_reserved:
                        job.key = key
                if place < 0 or key < best:
                    best, place = key, index
                if key == -INFINITY:
                    break
            if place < 0:
                return
            # With patience the first look ends at a job that has lost it: each key is made anew.
            has_keys = self.is_sorted or self.patience == INFINITY
            job = queue[place]
            needed, end = job.processors, now + job.duration
            if needed > free:
                is_reserved = True
                shadow = self.shadow_of(needed, free)
                extra, latest = self.extra, shadow + max(self.grace, _PLAN_TOLERANCE)
                continue
            free -= needed
            if end > latest:
                extra -= needed
            del queue[place]
            self.run(job, end)

    def run(self, job: Job, end: float) -> None:
        """Start a job, kept among the running ones by expected end. O(running)."""
        running = self.running
        place = len(running)
        job.end = end
        while place > 0:
            earlier = running[place - 1]
            if earlier.end <= end:
                break
            place -= 1
        running.insert(place, job)
        self.manager.start(job)

    def shadow_of(self, needed: int, free: int) -> float:
        """Return when so many processors are expected to be free (seconds).

        How many more are then is left in ``extra``. A job that runs longer than expected counts as
        about to end. O(running).
        """
        running, now, shadow, available = self.running, self.manager.now, INFINITY, free
        tolerance = max(self.grace, _PLAN_TOLERANCE)
        for place in range(len(running)):
            job = running[place]
            if job.end > shadow + tolerance:
                break
            available += job.returning
            if shadow == INFINITY and available >= needed:
                shadow = max(now, job.end)
        self.extra = available - needed
        return shadow

    # Predictions

    def predict(self, now: float) -> None:
        """Learn from jobs that have ended, correct those that go on, and predict the new ones.

        1. A job is expected to run as long as the last two jobs of its user that have ended did in
           the mean, but no longer than its estimate; as long as that if fewer than two have ended,
           or it names no user. This is settled when it arrives.
        2. A running job that has outlived its prediction is expected to run a minute longer, then
           5, 15 and 30 minutes, 1, 2, 5, 10, 20, 50 and 100 hours, never longer than its estimate.

        D. Tsafrir, Y. Etsion, D. G. Feitelson, "Backfilling using system-generated predictions
        rather than user runtime estimates", IEEE Transactions on Parallel and Distributed Systems
        18 (2007).
        """
        for job in self.gone:
            user = job.user
            if user is not None:
                last = self.past.get(user, (math.nan, math.nan))[0]
                self.past[user] = (now - (job.end - job.duration), last)
        self.gone.clear()
        self.correct(now)
        for job in self.new:
            user = job.user
            if user is not None and (job.qos is None or job.qos.start is None):
                one, two = self.past.get(user, (math.nan, math.nan))
                if not math.isnan(two):
                    mean = max(up_to_grid((one + two) / 2.0), _SHORTEST)
                    job.duration = min(job.requested, mean)
        self.new.clear()

    def correct(self, now: float) -> None:
        """Expect jobs to run longer that have outlived their predictions. O(running²)."""
        running, place = self.running, 0
        while place < len(running):
            job = running[place]
            if job.end > now:
                break
            end, left = job.end, job.requested - job.duration
            while end <= now and left > 0.0:
                step = min(INCREMENTS[min(job.corrections, len(INCREMENTS) - 1)], left)
                job.corrections += 1
                job.duration += step
                end += step
                left -= step
            if end == job.end:
                place += 1
                continue
            del running[place]
            job.end, to = end, len(running)
            while to > 0:
                earlier = running[to - 1]
                if earlier.end <= end:
                    break
                to -= 1
            running.insert(to, job)
