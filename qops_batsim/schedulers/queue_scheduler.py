"""Schedulers with a queue of waiting jobs and no plan of their starts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from typing import Any, ClassVar

from qops_batsim.core.availability import AvailabilityProfile
from qops_batsim.core.job import OVER, WAITING, Job
from qops_batsim.core.overrides import is_ours
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.errors import SimulationError
from qops_batsim.schedulers.shared_hosts import SharedHosts
from qops_batsim.schedulers.timetable import Timetable

BLOCK = 64
"""Places of a queue that one summary is about."""

WIDTHS = 16
"""Classes of jobs by processors: 1, 2, up to 4, up to 8 and so on; the last one is of all."""

NO_WIDTH = 2**62
"""Processors of a job that has left: more than there can be."""

INFINITY = math.inf

# What queue_scheduler.pxd declares is a C variable, which other modules do not see.
_BLOCK = BLOCK


def width_of(processors: int) -> int:
    """Return the width class (0 to 15) of a number of processors: 1, 2, up to 4, up to 8 and so on.
    O(1).
    """
    width = 0
    while width < WIDTHS - 1 and processors > 1 << width:
        width += 1
    return width


class Queue:
    """The waiting jobs in order; a summary of each block of jobs lets a search skip blocks in which
    none can start.

    To iterate over it yields the jobs that wait when that begins, so jobs may be started meanwhile.
    A long queue has a summary of each block of :data:`BLOCK` places; a pass skips the blocks in
    which no job can start.

    Attributes
    ----------
    jobs
        The job in each place, also those that have left, until the queue is closed up.
    first
        Jobs before this place have left.
    new
        How many of the last jobs are not in the order of keys yet, if that is the order.
    waiting
        Jobs in the summaries.
    summarized
        Places that summaries count, 0 as long as the queue is short.
    widths, durations
        By place that summaries count: the processors and the duration (seconds) of its job, side by
        side, since jobs of a long queue lie apart; :data:`NO_WIDTH` where the job has left.
    narrowest
        By block: the fewest processors of its jobs.
    shortest
        By block and class: the shortest duration (seconds) of its jobs up to that class.
    """

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.new = 0
        self.first = 0
        self.waiting = 0
        self.summarized = 0
        self.blocks = 16
        self.make_room()

    def make_room(self) -> None:
        """Allocate empty summaries for all blocks of the queue. O(blocks)."""
        room = bytes(8 * self.blocks)
        self.narrowest = array("q", room)
        self.shortest = array("d", room * WIDTHS)
        self.widths = array("q", room * _BLOCK)
        self.durations = array("d", room * _BLOCK)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.listed())

    def __len__(self) -> int:
        return len(self.listed())

    def __getitem__(self, place: Any) -> Any:
        """Return the waiting job at an index, or a list of those of a slice. O(places)."""
        waiting: Any = self.listed()
        return waiting[place]

    def listed(self) -> list[Job]:
        """Return the waiting jobs in order. O(places)."""
        waiting: list[Job] = []
        for place in range(self.first, len(self.jobs)):
            job = self.jobs[place]
            if job.phase == WAITING:
                waiting.append(job)
        return waiting

    def append(self, job: Job) -> None:
        """Append a job. O(1)."""
        self.jobs.append(job)

    def put_in_order(self) -> None:
        """Move the jobs appended last to their places by key, behind jobs with an equal key. O(new
        × places).
        """
        # Summaries are by place, and places change.
        if self.summarized > 0:
            self.close_up(0)

        jobs = self.jobs
        count = len(jobs)
        for last in range(count - min(self.new, count), count):
            job = jobs[last]
            low = 0
            high = last
            while low < high:
                middle = (low + high) >> 1
                earlier = jobs[middle]
                if earlier.key <= job.key:
                    low = middle + 1
                else:
                    high = middle
            if low < last:
                del jobs[last]
                jobs.insert(low, job)
        self.new = 0

    def close_up(self, first: int) -> None:
        """Remove the jobs that no longer wait, from index ``first`` on. O(places)."""
        jobs = self.jobs
        kept = first
        for place in range(first, len(jobs)):
            job = jobs[place]
            if job.phase == WAITING:
                if kept != place:
                    jobs[kept] = job
                kept += 1
        while len(jobs) > kept:  # Few have left, so that a slice takes longer.
            jobs.pop()
        self.first = 0
        self.waiting = 0
        self.summarized = 0

    # Summaries

    def count_new(self) -> None:
        """Add the jobs appended since the last call to the summaries of their blocks. O(new)."""
        count = len(self.jobs)
        # Twice the room that is needed, so that room is rarely made; all is counted anew then.
        if count > self.blocks * _BLOCK:
            self.blocks = 2 * (count // _BLOCK + 1)
            self.make_room()
            self.waiting = 0
            self.summarized = 0

        for place in range(self.summarized, count):
            if place % _BLOCK == 0:
                self.forget(place // _BLOCK)
            job = self.jobs[place]
            if job.phase == WAITING:
                self.widths[place] = job.processors
                self.durations[place] = job.duration
                self.count_place(place)
                self.waiting += 1
            else:
                self.widths[place] = NO_WIDTH
        self.summarized = count

    def leave(self, place: int) -> None:
        """Mark the job at an index as gone; :meth:`count_block` has to follow. O(1)."""
        self.widths[place] = NO_WIDTH
        self.waiting -= 1

    def count_block(self, block: int) -> None:
        """Recompute the summary of a block. O(1)."""
        self.forget(block)
        for place in range(block * _BLOCK, min(self.summarized, (block + 1) * _BLOCK)):
            if self.widths[place] < NO_WIDTH:
                self.count_place(place)

    def forget(self, block: int) -> None:
        """Clear the summary of a block. O(1)."""
        self.narrowest[block] = NO_WIDTH
        for width in range(WIDTHS):
            self.shortest[block * WIDTHS + width] = INFINITY

    def count_place(self, place: int) -> None:
        """Add the waiting job at index ``place`` to the summary of its block. O(1)."""
        processors = self.widths[place]
        duration = self.durations[place]
        block = place // _BLOCK
        self.narrowest[block] = min(self.narrowest[block], processors)

        # A class counts the jobs of all narrower ones, so that its duration is at most theirs.
        size = block * WIDTHS + width_of(processors)
        end = (block + 1) * WIDTHS
        while size < end and self.shortest[size] > duration:
            self.shortest[size] = duration
            size += 1

    def may_start(self, block: int, free: int, extra: int, now: float, latest: float) -> bool:
        """Return whether a job of a block may be backfilled now. O(1).

        It ends by the latest date, or needs no more than the extra processors.
        """
        narrowest = self.narrowest[block]
        if narrowest <= min(free, extra):
            return True
        if narrowest > free:
            return False
        return now + self.shortest[block * WIDTHS + width_of(free)] <= latest

    def next_fit(self, place: int, free: int, extra: int, now: float, latest: float) -> int:
        """Return the first index from ``place`` on, in its block, whose job may be backfilled now.

        The first place behind the block without any. O(1).
        """
        end = min(self.summarized, (place // _BLOCK + 1) * _BLOCK)
        while place < end:
            width = self.widths[place]
            if width <= free and (width <= extra or now + self.durations[place] <= latest):
                break
            place += 1
        return place


class QueueScheduler(Scheduler):
    """Base class of schedulers that start the jobs of a queue.

    A subclass overrides :meth:`schedule`, which starts jobs of the queue.

    Whatever the subclass: jobs that can never run, wider than the machine or without any processor,
    are rejected when they are submitted. Hosts that leave take no further job until they are back;
    what runs there goes on. Jobs that are wider than what is left wait until hosts return, and are
    rejected once none will. Jobs that their users cancel while they wait are rejected. Jobs that
    somebody else has started are expected to end by their walltimes.

    Attributes
    ----------
    queue
        The waiting jobs, by arrival unless a subclass has another order.
    running
        The running jobs by expected end (``job.end``), ties in the order of their starts.
    present
        Number of hosts that are there, free or not, or under maintenance.
    drains
        Whether hosts take no job from the notice of their maintenance on.
    backfills
        Whether jobs are backfilled around the first one; None if :meth:`line` is not in the order
        in which jobs start. Without that no job gets a fixed start. With it neither fixed starts
        nor maintenance are delayed by jobs that start before them.

    Examples
    --------
    >>> class FirstFit(QueueScheduler):
    ...     def schedule(self):
    ...         for job in self.queue:
    ...             if job.processors <= self.manager.free:
    ...                 self.start(job)
    >>> from qops_batsim import simulate
    >>> len(simulate(FirstFit, "tiny_8").ended)
    8
    """

    drains = True
    backfills: ClassVar[bool | None] = None
    HOOKS: ClassVar[dict[str, str]] = {
        **Scheduler.HOOKS,
        "arrived": "job",
        "schedule": "",
        "may_start": "job",
        "waiting": "",
        "line": "",
        "start": "job hosts",
    }
    DESCRIPTION = Scheduler.DESCRIPTION | {"backfills", "drains"}

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty queue."""
        Scheduler.begin(self, manager)
        manager.drains = self.drains
        self.queue = Queue()
        self.running: list[Job] = []
        self.present = manager.machine_size
        self.away = 0
        self.is_final = False
        self.has_limits = type(self).may_start is not QueueScheduler.may_start
        self.is_own = not is_ours(type(self))
        self.decisions = 0
        self.timetable: Timetable | None = None
        # SharedHosts, None where hosts are whole.
        self.shared: Any = None if manager.use is None else SharedHosts(manager)

    # What a subclass may override

    def arrived(self, job: Job) -> None:
        """Add a new job to the queue."""
        self.queue.append(job)

    def schedule(self) -> None:
        """Start jobs of the queue by :meth:`start`; a subclass overrides this.

        Not called as long as a start is promised or maintenance known where the class backfills or
        not: :meth:`line` is started around these then.
        """
        raise NotImplementedError

    def may_start(self, job: Job) -> bool:
        """Return whether a waiting job may start now, if enough hosts are free.

        For limits, such as two jobs of a user at once. A job that may not is passed over,
        and nothing is reserved for it.
        """
        return True

    def waiting(self) -> list[Job]:
        """Return the waiting jobs of the queue, in order. O(queue)."""
        return self.queue.listed()

    def line(self) -> list[Job]:
        """Return the waiting jobs in the order in which to start them. O(queue)."""
        return self.waiting()

    def start(self, job: Job, hosts: object = None) -> None:
        """Start a waiting job now. O(running)."""
        manager = self.manager
        manager.start(job, hosts)
        job.end = manager.now + job.duration
        self.insert_running(job)
        if self.shared is not None:
            self.shared.started(job)

    # Events

    def submitted(self, job: Job) -> None:
        """Add a job to the queue, or reject one that can never run."""
        manager = self.manager
        # Nearly all jobs are like this, and asking why others can never run takes longer.
        is_usual = not manager.capacity.is_known and job.fixed_start == INFINITY
        is_usual = is_usual and self.shared is None
        if is_usual and 1 <= job.processors <= manager.machine_size:
            self.arrived(job)
            return

        refusal = manager.why_never(job)
        if refusal is not None:
            manager.reject(job, refusal)
        elif job.fixed_start == INFINITY:
            self.arrived(job)
        elif self.backfills is None:
            assert job.qos is not None
            kind = RefusalKind.NO_FIXED_STARTS
            manager.reject(job, Refusal(kind=kind, date=job.qos.start))
        else:
            self.known_timetable().asked.append(job)

    def ended(self, job: Job) -> None:
        """Remove a job that has ended from the running ones. O(running)."""
        running = self.running
        # Jobs with the same expected end stand side by side.
        place = self.place_before(job.end)
        while place < len(running):
            if running[place] is job:
                del running[place]
                if self.shared is not None:
                    self.shared.ended(job)
                return
            place += 1

    def joined(self, job: Job) -> None:
        """Called when others started a job: count it among the running ones."""
        job.end = job.start + job.duration
        hosts = self.manager.hosts_of(job)
        job.returning = (hosts & ~self.away).bit_count()
        self.insert_running(job)
        if self.shared is not None:
            self.shared.is_stale = True

    def cancelled(self, job: Job) -> None:
        """Called when a user cancels a job: reject it if it waits. O(queue)."""
        if job.phase != WAITING:
            return
        if self.timetable is not None:
            self.timetable.drop([job])
        self.manager.reject(job, Refusal(kind=RefusalKind.CANCELLED))
        self.queue.close_up(0)

    def hosts_changed(self, announced: int) -> None:
        """Update which hosts are present; reject jobs wider than the machine will be."""
        capacity = self.manager.capacity
        if self.is_final or not capacity.is_final:
            self.note_hosts(announced)
            return
        self.is_final = True
        if capacity.away:
            if self.manager.begin_maintenance():
                self.note_hosts(0)
            self.reject_wider()

    def note_hosts(self, announced: int) -> None:
        """Update which hosts are present; ``announced`` of them will leave for maintenance.
        O(running).
        """
        manager = self.manager
        capacity = manager.capacity
        away = capacity.away.mask
        lost = announced + (away & ~self.away).bit_count()
        self.away = away
        self.present = capacity.present

        # Hosts that take no further job do not come free when theirs end.
        closed = capacity.closed(drains=manager.drains).mask
        for job in self.running:
            job.returning = (manager.hosts_of(job) & ~closed).bit_count()
        if self.shared is not None:
            self.shared.is_stale = True

        if self.backfills is not None and (capacity.windows or self.timetable is not None):
            self.known_timetable().note_change(lost)

    def reject_wider(self) -> None:
        """Reject the waiting jobs that are wider than the machine will ever be again."""
        jobs = self.waiting()
        timetable = self.timetable
        if timetable is not None:
            jobs = [*timetable.jobs(), *timetable.asked, *jobs]

        wider = [job for job in jobs if self.manager.why_never(job) is not None]
        if timetable is not None:
            timetable.drop(wider)
        for job in wider:
            self.manager.reject(job, self.manager.why_never(job))
        self.queue.close_up(0)

    # Decisions

    def decide(self) -> None:
        """Start jobs: those with promised starts that are due, and those of the queue."""
        if self.manager.begin_maintenance():
            self.note_hosts(0)
        if self.timetable is not None and self.timetable.is_needed(self.manager):
            self.timetable.decide(self)
            self.queue.close_up(0)
        else:
            if self.shared is not None:
                self.shared.begin_pass(self.running)
            self.schedule()
        if self.is_own:
            # Once in as many decisions as jobs run, which costs each of them O(1).
            self.decisions += 1
            if self.decisions > len(self.running):
                self.decisions = 0
                self.check_running()

    def check_running(self) -> None:
        """Raise a SimulationError if a subclass has spoiled the list of running jobs.

        O(running).
        """
        running = self.running
        named = type(self).__name__
        for place in range(len(running)):
            job = running[place]
            if job.phase == OVER:
                raise SimulationError(
                    f"{named}: job {job.id} has ended, and self.running still has it; "
                    f"{named}.ended has to call super().ended(job)"
                )
            before = job if place == 0 else running[place - 1]
            if before.end > job.end:
                raise SimulationError(
                    f"{named} has changed self.running, which is by expected end, at "
                    f"{self.manager.now:g} s; work on a copy: list(self.running)"
                )

    def known_timetable(self) -> Timetable:
        """Return the timetable (plan of promised starts), which is created on first use."""
        if self.timetable is None:
            self.timetable = Timetable(self.manager.machine_size, self.manager.use)
        return self.timetable

    def planned_starts(self) -> dict[str, float]:
        """Return the waiting jobs' promised starts (seconds) by id."""
        jobs = [] if self.timetable is None else self.timetable.jobs()
        return {job.id: job.start for job in jobs}

    # What fits now

    def fits_now(self, job: Job) -> bool:
        """Return whether a waiting job can start now; the job holds the shared hosts found."""
        if self.shared is None:
            return job.processors <= self.manager.free
        fits: bool = self.shared.fits_now(job)
        return fits

    def start_sharing(self, line: list[Job], backfills: bool) -> None:
        """Start jobs of a line on hosts that jobs share, in order; the first that does not fit gets
        a reservation at its earliest fit, and others start beside it (``backfills``), or none does.

        A job that fits at no date is passed over where others may go ahead of it. What is expected
        to be free and is not yet counts as taken by the job that waits for it.
        """
        manager = self.manager
        shared = self.shared
        waiting = list(line)
        is_reserved = False
        place = 0
        while place < len(waiting):
            job = waiting[place]
            place += 1
            if job.phase != WAITING or (self.has_limits and not self.may_start(job)):
                continue
            if is_reserved:
                if not shared.fits_now(job):
                    continue
                start = shared.now
            else:
                start = shared.fit(job)

            if start <= shared.now and manager.use.fits(job):
                self.start(job)
                continue
            if not backfills:
                break
            if start == INFINITY:
                continue
            shared.reserve(job, start)
            if start > shared.now:
                is_reserved = True
                waiting = self.behind(waiting, place)
                place = 0

        shared.end_pass()

    def behind(self, line: list[Job], place: int) -> list[Job]:
        """Return the jobs of a line from an index on, in the order in which they are backfilled."""
        return line[place:]

    # Running jobs

    def availability(self) -> AvailabilityProfile:
        """Return the availability profile: what is free over time if running jobs end by estimate.

        A job that runs longer than its estimate counts as about to end. O(running²); where jobs
        share hosts O(running + hosts).
        """
        now = self.manager.now
        if self.shared is not None:
            known = sum(len(job.request.used.listed()) for job in self.running)
            if known < sum(self.manager.use.jobs[: self.manager.machine_size]):
                raise self.unknown_starts("hosts")
            return AvailabilityProfile.like(
                self.shared.current(self.running), self.manager.machine_size, now
            )
        processors = self.manager.free
        for job in self.running:
            processors += job.returning
        if processors < self.manager.machine_size and not self.manager.capacity.is_known:
            raise self.unknown_starts(f"{self.manager.machine_size - processors} hosts")

        profile = AvailabilityProfile(processors, now)
        for job in self.running:
            # Past its estimate a duration is negative: nothing is reserved.
            left = job.start + job.estimate - now
            profile.reserve(now, left, job.returning)
            if left <= 0:
                profile.note_overdue(job.returning)
        return profile

    def unknown_starts(self, where: str) -> SimulationError:
        """Return the error of jobs that a subclass has started without telling the base class."""
        return SimulationError(
            f"{type(self).__name__}: jobs run on {where} that self.availability() knows nothing "
            "of; start jobs by self.start(job)"
        )

    def insert_running(self, job: Job) -> None:
        """Insert a job among the running ones, after those with the same end. O(running)."""
        running = self.running
        end = job.end
        low = 0
        high = len(running)
        while low < high:
            middle = (low + high) >> 1
            earlier = running[middle]
            if earlier.end <= end:
                low = middle + 1
            else:
                high = middle
        running.insert(low, job)

    def place_before(self, end: float) -> int:
        """Return the index of the first running job that is expected to end at ``end`` or later.
        O(log running).
        """
        running = self.running
        low = 0
        high = len(running)
        while low < high:
            middle = (low + high) >> 1
            job = running[middle]
            if job.end < end:
                low = middle + 1
            else:
                high = middle
        return low
