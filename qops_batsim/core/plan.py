"""A plan: a start for every waiting job, given running jobs, promised starts and maintenance.

It serves both kinds of profile: of numbers of processors and of certain hosts. All dates are on the
grid, and nominal: a job that starts a little after its planned start, because news of an end took
time to arrive, counts as started then, and is expected to end accordingly. So the delays of
messages do not add up in the plan; what they add up to in truth is taken up when it reaches half
the grace.

Ends that come early compress the plan, which moves no start to a later date. A running job that
outlives its estimate is assumed to run until its walltime, without one as long again, and one that
outlives its prediction until its estimate is over; only then, or when hosts leave, starts move to
later dates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.job import RUNNING, Job
from qops_batsim.core.plan_log import DecisionLog
from qops_batsim.core.profile import HostProfile, Profile
from qops_batsim.timing import DEADLINE_TOLERANCE, GRACE, GRID_TOLERANCE, end_of, on_grid

SHORT, MOVES = 8, 6
"""Lists up to ``SHORT`` jobs are sorted by insertion, longer ones if ``MOVES`` a job suffice."""

BY_ARRIVAL, BY_START, BY_KEY = range(3)
"""Orders of jobs, the last two with ties by arrival."""

INFINITY, _NO_DATE = math.inf, math.nan
_by_turn = attrgetter("turn")
_RUNNING, _SHORT, _MOVES = RUNNING, SHORT, MOVES
_BY_ARRIVAL, _BY_START, _BY_KEY = BY_ARRIVAL, BY_START, BY_KEY
_DEADLINE_TOLERANCE, _GRID_TOLERANCE = DEADLINE_TOLERANCE, GRID_TOLERANCE


def sort_by_arrival(jobs: list[Job]) -> None:
    """Sort jobs in place by arrival. O(n log n), linear if nearly sorted."""
    if not insertion_sort(jobs, 0, len(jobs), _BY_ARRIVAL, _MOVES * len(jobs)):
        merge_sort(jobs, 0, len(jobs), list(jobs), _BY_ARRIVAL)


def sort_by_start(jobs: list[Job], first: int) -> None:
    """Sort the jobs from index ``first`` on by planned start, ties by arrival, in place. O(n log
    n), linear if nearly sorted.
    """
    if not insertion_sort(jobs, first, len(jobs), _BY_START, _MOVES * len(jobs)):
        merge_sort(jobs, first, len(jobs), list(jobs), _BY_START)


def sort_by_key(jobs: list[Job], first: int, last: int) -> None:
    """Sort ``jobs[first:last]`` by ``job.key``, ties by arrival, in place. O(n log n), linear if
    nearly sorted.

    A job with a key that is no number, as it has neither deadline nor estimate, keeps its place,
    and no other job passes it.
    """
    if insertion_sort(jobs, first, last, _BY_KEY, _MOVES * last):
        return
    place, spare = first, list(jobs)
    while place < last:
        end = place
        while end < last:
            job = jobs[end]
            if job.key != job.key:
                break
            end += 1
        merge_sort(jobs, place, end, spare, _BY_KEY)
        place = end + 1


def is_before(job: Job, other: Job, order: int) -> bool:
    """Return whether a job precedes another one in an order (``BY_ARRIVAL``, ``BY_START`` or
    ``BY_KEY``).
    """
    if order == _BY_START:
        one, two = job.start, other.start
    elif order == _BY_KEY:
        one, two = job.key, other.key
    else:
        return job.number < other.number
    return one < two or (one == two and job.number < other.number)


def insertion_sort(jobs: list[Job], first: int, end: int, order: int, moves: int) -> bool:
    """Sort ``jobs[first:end]`` in place by insertion; give up and return False after ``moves``
    moves of jobs.
    """
    if first >= end:
        return True
    before = jobs[first]  # The last one of those that are sorted.
    for last in range(first + 1, end):
        job, place = jobs[last], last
        if not is_before(job, before, order):
            before = job
            continue
        while place > first and is_before(job, jobs[place - 1], order):
            jobs[place] = jobs[place - 1]
            place -= 1
        jobs[place] = job
        moves -= last - place
        if moves < 0:
            return False
    return True


def merge_sort(jobs: list[Job], first: int, end: int, spare: list[Job], order: int) -> None:
    """Sort ``jobs[first:end]`` in place by merging; ``spare`` is a list of the same length to work
    in.
    """
    if end - first <= _SHORT:
        insertion_sort(jobs, first, end, order, _SHORT * _SHORT)
        return
    middle = (first + end) // 2
    merge_sort(jobs, first, middle, spare, order)
    merge_sort(jobs, middle, end, spare, order)
    if not is_before(jobs[middle], jobs[middle - 1], order):
        return
    for place in range(first, middle):
        spare[place] = jobs[place]
    left, right = first, middle
    for place in range(first, end):
        if left == middle:
            return
        if right < end and is_before(jobs[right], spare[left], order):
            jobs[place] = jobs[right]
            right += 1
        else:
            jobs[place] = spare[left]
            left += 1


def more_time(so_far: float, limit: float) -> float:
    """Return how much longer (seconds) a job that outlived its estimate is assumed to run.

    That is until ``limit``, the run time at which it is killed, or without a limit as long again as
    it has run ``so_far``.
    """
    return max(limit - so_far if limit < INFINITY else so_far, 1.0)


class Renewal(NamedTuple):
    """A new promise for a job whose promise was broken because hosts left the machine; dates in
    seconds.
    """

    job: Job
    broken: float
    promise: float
    lost: int
    lost_date: float


class Window(NamedTuple):
    """A maintenance window: its hosts (bits), begin and end (seconds), and whether its hosts are
    closed already.

    A window whose hosts are drained counts as begun (``is_on``) from its notice on.
    """

    hosts: int
    since: float
    until: float
    is_on: bool


class Claim:
    """A reservation at a fixed date: for a job with a promised start, or for maintenance.

    Attributes
    ----------
    start, end
        Dates (seconds).
    job
        The job, None of maintenance.
    amount
        What is reserved: a number of processors, or hosts.
    """

    def __init__(self, start: float, end: float, job: Job | None, amount: Any) -> None:
        self.start, self.end, self.job, self.amount = start, end, job, amount


class Plan:
    """The planned starts of all waiting jobs, updated as jobs arrive, start and end.

    For each message: tell what has happened (:meth:`arrived`, :meth:`left`, …) and the date
    (:meth:`tell`), then :meth:`renew` and, if it says so, :meth:`compress`; place or refuse the new
    jobs; :meth:`start_due`.

    Parameters
    ----------
    machine_size
        Number of hosts.
    by_host
        Whether a reservation names its hosts, the lowest that fit: compression is in order of
        arrival then, at every end of a job. Else hosts are chosen at the start, which is exact for
        rigid jobs on interchangeable hosts.
    keeps_promises
        Whether the scheduler promises deadlines: a rebuild then tries to keep the jobs' targets.
    promises_starts
        Whether the scheduler promises latest starts instead of deadlines.

    Attributes
    ----------
    profile
        What the running and the waiting jobs leave free.
    waiting
        The waiting jobs by planned start, ties by arrival.
    running
        The running jobs, also killed ones until the engine reports their ends.
    claims
        Promised starts and maintenance to come.
    new
        Jobs about which nothing was decided, by arrival.
    starting
        The jobs that the last :meth:`start_due` started.
    free
        Processors that a job can start on.
    present, is_final
        Number of hosts that are there, and whether none will leave or return any more.
    suspensions
        How many waiting jobs have a promise that no start keeps at present.
    renewals
        The promises that were renewed since the scheduler last emptied this list.
    log
        Where decisions are logged, if at all.
    """

    def __init__(
        self,
        machine_size: int,
        *,
        by_host: bool = False,
        keeps_promises: bool = False,
        promises_starts: bool = False,
    ) -> None:
        self.machine_size = self.present = self.free = machine_size
        self.by_host, self.keeps_promises = by_host, keeps_promises
        self.promises_starts = promises_starts
        self.profile = HostProfile(machine_size) if by_host else Profile(machine_size)
        self.all_hosts = (1 << machine_size) - 1
        every = HostBits.of(self.all_hosts if by_host else 0, machine_size)
        self.everything: int | HostBits = every if by_host else machine_size
        self.free_hosts = HostBits.of(every.mask(), machine_size)
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.claims: list[Claim] = []
        self.gone: list[Job] = []
        self.new: list[Job] = []
        self.starting: list[Job] = []
        self.now, self.is_late, self.tolerance = 0.0, False, _GRID_TOLERANCE
        self.most_lag, self.soonest = _GRID_TOLERANCE, INFINITY
        self.grace = GRACE
        self.given_from, self.given_until = INFINITY, -INFINITY
        self.is_freed, self.arrivals, self.turns = False, 0, 0
        self.lost, self.suspensions, self.is_resized, self.is_final = 0, 0, False, False
        self.settled: list[Job] = []
        self.renewals: list[Renewal] = []
        self.losing: list[tuple[Job, int]] = []
        self.undone: list[Job] = []
        self.cancelled: list[Job] = []
        self.had_windows = False
        self.log: DecisionLog | None = None

    # Events

    def arrived(self, job: Job) -> None:
        """Add a new job to the list of those still to be placed or refused. O(1)."""
        job.number = self.arrivals
        self.arrivals += 1
        self.new.append(job)
        if self.log is not None:
            self.log.arrived(job)

    def joined(self, job: Job, start: float, hosts: int, there: int) -> None:
        """Add a running job that was started by somebody else than this scheduler. O(1).

        Parameters
        ----------
        start
            Date on the grid (seconds).
        hosts
            The hosts that the job takes from the plan (bits); promises may be broken for them.
        there
            How many of these hosts are present.
        """
        self.arrived(job)
        job.start = start
        self.reserve_for(job, hosts)
        self.add_running(job, end_of(start, job.duration), 0.0)
        job.noted_end = job.end
        self.is_resized = True
        self.lost += there

    def left(self, job: Job) -> None:
        """Register the end of a running job; :meth:`renew` then removes the job from the plan.
        O(1).
        """
        self.gone.append(job)

    def withdraw(self, job: Job) -> None:
        """Remove a job that waits or has a promised start, and release its reservation.
        O(waiting).
        """
        job.is_held = False
        if job.suspended == job.suspended:
            job.suspended = _NO_DATE
            self.suspensions -= 1
        place = self.claim_of(job)
        if place >= 0:
            del self.claims[place]
        else:
            place = 0
            while self.waiting[place] is not job:
                place += 1
            del self.waiting[place]
        self.give_back(job, job.start, end_of(job.start, job.duration))
        self.is_freed = True

    def holds(self, job: Job) -> bool:
        """Return whether a job waits or has a promised start in this plan. O(waiting)."""
        for each in self.waiting:
            if each is job:
                return True
        return self.claim_of(job) >= 0

    def claim_of(self, job: Job) -> int:
        """Return the index of a job's promised start in ``claims``, -1 if it has none.
        O(claims).
        """
        for place in range(len(self.claims)):
            if self.claims[place].job is job:
                return place
        return -1

    def cancel(self, job: Job) -> bool:
        """Remove a waiting job that its user cancelled from the plan; return False if it does not
        wait there. O(waiting).

        """
        if job.is_held or not self.holds(job):
            return False
        self.withdraw(job)
        self.cancelled.append(job)
        return True

    def drop_wider(self) -> list[Job]:
        """Remove and return the waiting jobs that need more processors than are present."""
        claimed = [claim.job for claim in self.claims if claim.job is not None]
        wider = [
            job
            for job in [*self.waiting, *claimed]
            if job.processors > self.present and not job.is_held
        ]
        for job in wider:
            self.withdraw(job)
        return wider

    def undo_kill(self, again: Job) -> None:
        """Remove ``again``, the planned restart of a job that ended by itself before its kill took
        effect. O(waiting).
        """
        self.withdraw(again)
        self.undone.append(again)

    def tell(self, now: float, free: int) -> None:
        """Set the current date (seconds, whole microseconds) and the number of free processors."""
        self.now, self.free = now, free
        if self.log is not None:
            self.log.now, self.log.is_late, self.log.grace = now, self.is_late, self.grace

    def tell_hosts(self, mask: int) -> None:
        """Set which hosts are free; bit *i* of ``mask`` stands for host *i*."""
        self.free_hosts.set_mask(mask)

    # Hosts that leave and return

    def announced(self, hosts: int) -> None:
        """Count ``hosts`` hosts that are announced to leave; their loss may break promises at the
        next :meth:`renew`.
        """
        self.lost += hosts

    def note_size(self, present: int, is_final: bool) -> None:
        """Set how many hosts are present, and whether none will leave or return any more."""
        self.lost += max(0, self.present - present)
        self.present, self.is_final = present, is_final
        if self.log is not None:
            self.log.resized(present, is_final, self.losing)

    def refit(
        self,
        away: int,
        closed: int,
        windows: Iterable[Window],
        hosts: Mapping[Job, int],
    ) -> None:
        """Update the plan's hosts, maintenance windows and running jobs after hosts have left or
        returned. O(running × windows).

        Parameters
        ----------
        away
            The hosts that are away without a known date of return (bits).
        closed
            The hosts on which no job may start (bits); jobs running there do not give them back.
        windows
            The maintenance windows that are not over.
        hosts
            The hosts that each running job has (bits).
        """
        self.is_resized = True
        there = self.all_hosts & ~away
        self.everything = (
            HostBits.of(there, self.machine_size) if self.by_host else there.bit_count()
        )
        self.losing.clear()
        running = [job for job in self.running if job.phase == _RUNNING]
        running.sort(key=_by_turn)
        self.claims = [claim for claim in self.claims if claim.job is not None]
        for window in windows:
            self.claim_window(window, window.hosts & ~away, running, hosts)
        for job in running:
            self.reserve_for(job, hosts[job] & ~closed)
            gone = (hosts[job] & away).bit_count()
            if gone > 0:
                self.losing.append((job, gone))
        if self.log is not None and self.log.resizing:
            self.log.resized(self.present, self.is_final, self.losing)

    def claim_window(
        self, window: Window, hosts: int, running: list[Job], hosts_of: Mapping[Job, int]
    ) -> None:
        """Reserve a maintenance window's hosts until it ends, or until the jobs that still run on
        them end.
        """
        self.had_windows = True
        until = on_grid(window.until)
        if self.by_host or not window.is_on:
            amount = HostBits.of(hosts, self.machine_size) if self.by_host else hosts.bit_count()
            self.claims.append(Claim(on_grid(window.since), until, None, amount))
            return
        for job in running:
            used = hosts_of[job] & hosts
            if job.end > window.until and used:
                self.claims.append(Claim(0.0, on_grid(job.end), None, used.bit_count()))
                hosts &= ~used
        self.claims.append(Claim(0.0, until, None, hosts.bit_count()))

    def reserve_for(self, job: Job, hosts: int) -> None:
        """Set which hosts (bits) a running job occupies in the availability profile."""
        if self.by_host:
            job.bits = HostBits.of(hosts, self.machine_size)
        else:
            job.reserved = hosts.bit_count()

    def has_lost_hosts(self) -> bool:
        """Return whether hosts have left since the last call; if so, suspend the promises of all
        waiting jobs.

        A *suspended* promise is kept if the job's next planned start keeps it, and else replaced by
        what that start allows (:meth:`settle`). O(waiting).
        """
        lost, self.lost, self.is_resized = self.lost, 0, False
        if lost > 0 and (self.keeps_promises or self.promises_starts):
            for job in self.waiting:
                promise = job.latest_start if self.promises_starts else job.target
                if promise < INFINITY:
                    if job.suspended != job.suspended:
                        self.suspensions += 1
                    job.suspended, job.lost, job.lost_date = promise, lost, self.now
        return lost > 0

    def settle(self) -> None:
        """Renew the promises that a loss of hosts suspended, for jobs that have a planned start
        again.

        O(waiting), O(1) if none is suspended.
        """
        if self.suspensions == 0:
            return
        for job in self.waiting:
            promise = job.suspended
            if promise != promise:
                continue
            planned = job.start
            if not self.promises_starts:
                planned = end_of(planned, job.duration)
            if planned == INFINITY:
                self.promise(job, INFINITY)
                continue
            job.suspended = _NO_DATE
            self.suspensions -= 1
            self.settled.append(job)
            if planned > promise + _DEADLINE_TOLERANCE:
                self.promise(job, planned)
                self.note_renewal(job, promise, planned)
                if not self.promises_starts:
                    job.promise, job.aim = planned, INFINITY
            else:
                self.promise(job, promise)

    def promise(self, job: Job, date: float) -> None:
        """Set a job's promised date (seconds): its latest start if the scheduler promises starts,
        else its latest end.
        """
        if self.promises_starts:
            job.latest_start = date
        else:
            job.target = date

    def note_renewal(self, job: Job, broken: float, promise: float) -> None:
        """Record that a new promise replaces a broken one of a job (both in seconds)."""
        self.renewals.append(Renewal(job, broken, promise, job.lost, job.lost_date))

    # The plan and what is not as it assumed

    def nominal(self) -> float:
        """Return the date to plan from (seconds): now, or an earlier planned start that is overdue
        because news came late.
        """
        now = self.now
        if not self.is_late:
            return now
        if self.waiting:
            job = self.waiting[0]
            now = min(now, job.start)
        for claim in self.claims:
            if claim.job is not None:
                now = min(now, claim.start)
        return now

    def renew(self) -> bool:
        """Update the plan for jobs that have ended or are overdue; return whether it should now be
        compressed.

        The plan is rebuilt if a job takes longer than planned or hosts have left, and compressed if
        hosts have returned. If processors came free early, the caller has to compress the plan
        (True), since each algorithm does that in its own way. Call :meth:`settle` afterwards.
        """
        for job in self.settled:
            if job.suspended != job.suspended:
                job.lost = 0
        self.settled.clear()
        self.starting = []
        if self.log is not None:
            self.log.begin(self.now, self.gone, self.undone, self.cancelled)
        self.undone.clear()
        self.cancelled.clear()
        early = self.forget_gone()
        overdue = self.extend_overdue()
        overdue = self.has_missed_start() or overdue
        late = INFINITY if self.is_resized else self.now - self.tolerance
        if self.has_claims_before(late):
            self.refit_claims()
            overdue = True
        if self.is_resized:
            if self.has_lost_hosts() or overdue:
                self.rebuild()
            else:
                self.reserve_plan(self.nominal())
                self.given_from, self.given_until = -INFINITY, INFINITY
                Plan.compress(self)
            return False
        if overdue:
            self.rebuild()
            return False
        return early and len(self.waiting) > 0

    def forget_gone(self) -> bool:
        """Release the reservations of ended jobs; return whether processors came free earlier than
        planned. O(gone).
        """
        early = self.is_freed or (self.by_host and len(self.gone) > 0)
        self.is_freed = False
        for job in self.gone:
            if job.end > self.now + _GRID_TOLERANCE:
                self.give_back(job, self.now, job.end)
                early = True
            self.remove_running(job)
        self.gone.clear()
        return early

    def extend_overdue(self) -> bool:
        """Move the expected ends of running jobs that outlived their estimates; return whether
        there are any.

        O(running) if so.
        """
        now, due = self.now, self.now - self.tolerance
        if self.soonest >= due:
            return False
        self.soonest = INFINITY
        found = False
        for job in self.running:
            if job.is_dying:
                continue
            if job.end < due:
                found = True
                job.start = on_grid(job.start + job.lag)
                job.lag = 0.0
                so_far = now - job.start
                limit = job.limit
                if job.duration < job.requested and so_far < job.requested:
                    limit = job.requested
                job.end = end_of(now, more_time(so_far, limit))
            self.soonest = min(self.soonest, job.end)
        return found

    def has_missed_start(self) -> bool:
        """Return whether the first waiting job has missed its planned start by more than the
        tolerance.
        """
        if not self.waiting:
            return False
        job = self.waiting[0]
        return job.start < self.now - self.tolerance

    def take_up_lags(self) -> None:
        """Move the planned starts and ends of running jobs to what they really are, by each job's
        lag. O(running).
        """
        for job in self.running:
            if job.lag != 0.0:
                job.start = on_grid(job.start + job.lag)
                job.end = on_grid(job.end + job.lag)
                self.soonest = min(self.soonest, job.end)
                job.lag = 0.0

    def give_back(self, job: Job, start: float, end: float) -> None:
        """Release a job's reservation between two dates, and mark the interval for the next
        compression. O(steps).
        """
        self.profile.give(job, start, end)
        self.given_from, self.given_until = min(self.given_from, start), max(self.given_until, end)

    def add_running(self, job: Job, end: float, lag: float) -> None:
        """Add a running job with its expected end; ``lag`` says how much later than planned it
        started (seconds). O(1).
        """
        job.place, job.turn = len(self.running), self.turns
        self.turns += 1
        self.running.append(job)
        job.lag = lag
        self.expect_end(job, end)

    def expect_end(self, job: Job, end: float) -> None:
        """Set the expected end of a running job (seconds). O(1)."""
        job.end = end
        self.soonest = min(self.soonest, end)

    def remove_running(self, job: Job) -> None:
        """Remove an ended job from the running ones. O(1)."""
        last = self.running.pop()
        if last is not job:
            self.running[job.place] = last
            last.place = job.place
        job.place, job.lag, job.is_dying = -1, 0.0, False

    # Placing jobs

    def place(self, job: Job, now: float) -> None:
        """Reserve a job's earliest fit from ``now`` on and make it the planned start. O(steps)."""
        job.start = self.profile.fit(job, now)
        self.profile.take(job, job.start, end_of(job.start, job.duration))
        job.given_from, job.given_until = INFINITY, -INFINITY

    def place_new(self, job: Job) -> None:
        """Reserve a new job's earliest fit and add it to the waiting jobs; no other job moves.
        O(steps + waiting).
        """
        self.place(job, self.nominal())
        self.insert(job)

    def insert(self, job: Job) -> None:
        """Insert a job that has a reservation into the waiting jobs, by planned start.
        O(waiting).
        """
        waiting = self.waiting
        place = len(waiting)
        while place > 0:
            earlier = waiting[place - 1]
            if earlier.start <= job.start:
                break
            place -= 1
        waiting.insert(place, job)

    def compress(self) -> None:
        """Move each waiting job to its earliest fit, in order of planned start (by arrival in a
        plan of named hosts).

        No start moves to a later date, because the job's own reservation counts as free. Only dates
        are tried at which other jobs have released reservations since the job was last placed or
        tried. O(waiting × steps), O(waiting) if no such date exists.
        """
        now = self.nominal()
        line = list(self.waiting)
        if self.by_host:
            sort_by_arrival(line)
        any_moved, profile = False, self.profile
        for job in line:
            start = job.start
            end = end_of(start, job.duration)
            first = min(self.given_from, job.given_from)
            last = max(self.given_until, job.given_until)
            job.given_from, job.given_until = INFINITY, -INFINITY
            if start < now:
                # Rounding made it late. A number of processors is the same at any date.
                if not self.by_host:
                    continue
                profile.give(job, start, end)
                self.place(job, now)
            elif first >= end or last <= now:
                continue
            else:
                after = max(now, profile.start_of(first - job.duration))
                if not profile.move(job, after, last):
                    continue
            any_moved = True
            if start < INFINITY:
                job.given_from, job.given_until = start, end
                self.given_from = min(self.given_from, start)
                self.given_until = max(self.given_until, end)
        self.given_from, self.given_until = INFINITY, -INFINITY
        if any_moved:
            self.tell_earlier(line)
            sort_by_start(self.waiting, 0)

    def tell_earlier(self, line: list[Job]) -> None:
        """Store in each job the interval in which jobs later in the list have released
        reservations.
        """
        first, last = INFINITY, -INFINITY
        for place in range(len(line) - 1, -1, -1):
            job = line[place]
            own_first, own_last = job.given_from, job.given_until
            job.given_from, job.given_until = first, last
            first, last = min(first, own_first), max(last, own_last)

    # Rebuilding the plan

    def reserve_running(self, profile: Profile, now: float) -> None:
        """Fill a profile with the running jobs, promised starts and maintenance only. O((running +
        claims) × steps).
        """
        profile.reset(now, self.everything)
        self.take_running(profile, now)
        self.take_claims(profile, now, True)
        self.take_claims(profile, now, False)

    def take_running(self, profile: Profile, now: float) -> None:
        """Reserve in a profile the processors of all running jobs until their expected ends.
        O(running × steps).
        """
        for job in self.running:
            if job.end > now:
                profile.take(job, now, job.end)

    def take_claims(self, profile: Profile, now: float, with_job: bool) -> None:
        """Reserve in a profile the jobs' promised starts (``with_job``) or else the maintenance
        windows. O(claims × steps).
        """
        for claim in self.claims:
            if (claim.job is not None) == with_job:
                profile.take_amount(max(now, claim.start), claim.end, claim.amount)

    def place_waiting(self) -> int:
        """Place all waiting jobs again, in their present order, around the running ones; return how
        many will be late.
        """
        self.reserve_running(self.profile, self.now)
        late = 0
        for job in self.waiting:
            self.place(job, self.now)
            if end_of(job.start, job.duration) > min(job.aim, job.target) + _DEADLINE_TOLERANCE:
                late += 1
        return late

    def reserve_plan(self, now: float) -> None:
        """Rebuild the profile from running jobs and from waiting ones at their planned starts."""
        self.reserve_running(self.profile, now)
        for job in self.waiting:
            self.profile.take(job, job.start, end_of(job.start, job.duration))

    def rebuild(self) -> None:
        """Plan all waiting jobs again, because running jobs end later than the plan assumed or
        hosts have left.

        Waiting jobs are placed in the order of their former planned starts; they may move to later
        dates. If the plan keeps promises and some are broken then, the jobs are placed by latest
        start instead, provided that fewer are late. The target of a job that will be late becomes
        its new planned end, since otherwise no plan could meet all targets; :meth:`aim_again`
        lowers it again when it can. Promises are not mended so while news is late. O(waiting ×
        steps).
        """
        waiting, mends = self.waiting, self.keeps_promises and not self.is_late
        late = self.place_waiting()
        if mends and late > 0:
            for job in waiting:
                job.key = min(job.aim, job.target) - job.duration
            sort_by_key(waiting, 0, len(waiting))
            for job in waiting:
                job.trial = job.start
            if self.place_waiting() >= late:
                for job in waiting:
                    job.start = job.trial
                self.reserve_plan(self.now)
        for job in waiting:
            end = end_of(job.start, job.duration)
            if end > job.target + _DEADLINE_TOLERANCE:
                if mends:
                    job.aim = min(job.aim, job.target)
                job.target = end
        sort_by_start(waiting, 0)

    def aim_again(self) -> None:
        """Lower each late job's target to its planned end, but not below its former target
        (``aim``).
        """
        for job in self.waiting:
            if job.aim < job.target < INFINITY:
                job.target = max(job.aim, end_of(job.start, job.duration))

    def adopt(self, jobs: list[Job]) -> None:
        """Make these jobs the waiting ones, planned at their ``trial`` starts. O(jobs²), O(jobs) if
        nearly sorted.
        """
        for job in jobs:
            job.start = job.trial
        self.waiting = list(jobs)
        self.given_from, self.given_until = -INFINITY, INFINITY
        sort_by_start(self.waiting, 0)

    # Starts

    def can_start(self, job: Job) -> bool:
        """Return whether enough processors (or the job's planned hosts) are free to start a job
        that is due. O(hosts).
        """
        if job.is_held or job.processors > self.free:
            return False
        return not self.by_host or job.bits.is_within(self.free_hosts)

    def start_now(self, job: Job) -> bool:
        """Start a job; return whether the start is so late that the plan has to be rebuilt."""
        self.free -= job.processors
        if self.by_host:
            self.free_hosts.remove(job.bits)
        lag = 0.0 if job.start == self.now else on_grid(self.now - job.start)
        self.add_running(job, end_of(job.start, job.duration), lag)
        self.starting.append(job)
        return job.start < self.now - self.most_lag

    def start_what_fits(self) -> bool:
        """Start the due jobs that fit; return whether a start is so late that the plan has to be
        rebuilt.
        """
        late = self.start_claimed()
        soon, waiting, count = self.now + _GRID_TOLERANCE, self.waiting, 0
        while self.free > 0 and count < len(waiting):
            job = waiting[count]
            if job.start > soon or not self.can_start(job):
                break
            late = self.start_now(job) or late
            count += 1
        if count > 0:
            del waiting[:count]
        return late

    def start_due(self) -> list[Job]:
        """Start and return all jobs whose planned start has come; rebuild the plan if one starts
        too late.
        """
        self.starting = []
        late = self.start_what_fits()
        if not self.starting and self.waiting and not self.running:
            # Nothing runs, so no later event would lead to a decision: starts that rested on dates
            # a little off must not keep the machine idle.
            self.rebuild()
            late = self.start_what_fits()
        if late:
            # A job started so late that it will also end later than the plan says.
            self.take_up_lags()
            self.rebuild()
        return self.starting

    # Promised starts

    def start_claimed(self) -> bool:
        """Start the due jobs with promised starts; return whether one is so late that the plan has
        to be rebuilt.
        """
        late, place, soon = False, 0, self.now + _GRID_TOLERANCE
        while place < len(self.claims):
            claim = self.claims[place]
            job = claim.job
            if job is not None and claim.start <= soon and self.can_start(job):
                late = self.start_now(job) or late
                del self.claims[place]
                if job.lost > 0 and job.start > job.fixed_start + _DEADLINE_TOLERANCE:
                    self.note_renewal(job, job.fixed_start, job.start)
            else:
                place += 1
        return late

    def promise_start(self, job: Job) -> float:
        """Promise a new job the start that it asks for, if it fits there without moving any other
        job.

        Return the first date from the requested one on at which the job fits: the requested date
        itself if it was promised. NaN if the job would end after its deadline even at the requested
        start.
        """
        asked = job.fixed_start
        if end_of(asked, job.duration) > job.target + _DEADLINE_TOLERANCE:
            return math.nan
        start = self.profile.fit(job, max(self.nominal(), asked))
        if start <= asked:
            self.claim(job, asked)
        return start

    def claim(self, job: Job, start: float) -> None:
        """Reserve a promised start for a job, which must fit there without moving any other job.

        The job must end in time there; it is never killed for another job.
        """
        end = end_of(start, job.duration)
        self.claims.append(Claim(start, end, job, self.amount_of(job)))
        self.profile.take(job, start, end)
        job.is_kept, job.start = True, start

    def has_claims_before(self, date: float) -> bool:
        """Return whether a job has a promised start before ``date`` (may be infinite).
        O(claims).
        """
        for claim in self.claims:  # noqa: SIM110 - any() would make a generator
            if claim.job is not None and claim.start < date:
                return True
        return False

    def next_claimed_start(self, date: float) -> float:
        """Return the first promised start after ``date``, infinity if there is none. O(claims)."""
        start = INFINITY
        for claim in self.claims:
            if claim.job is not None and claim.start > date:
                start = min(start, claim.start)
        return start

    def refit_claims(self) -> None:
        """Place all promised starts again, because hosts have changed or promised starts are
        overdue.

        Rebuild the plan afterwards. O(claims × steps).
        """
        if self.lost > 0:
            for claim in self.claims:
                if claim.job is not None:
                    claim.job.lost, claim.job.lost_date = self.lost, self.now
        self.profile.reset(self.now, self.everything)
        self.take_running(self.profile, self.now)
        self.take_claims(self.profile, self.now, False)
        if self.fit_claims(False):
            self.profile.reset(self.now, self.everything)
            self.take_claims(self.profile, self.now, False)
            self.fit_claims(True)

    def fit_claims(self, is_idle: bool) -> bool:
        """Place the promised starts in the profile; return whether an overdue one found no place at
        once.

        A start keeps its date or moves to its next fit. Starts still to come are placed before
        overdue ones. Overdue ones that do not fit now are left out in a first call, and placed in a
        second one (``is_idle``) as if nothing ran: nobody knows when running jobs that outlive
        their estimates will end.
        """
        is_left, profile, due = False, self.profile, self.now - self.tolerance
        for is_due in (False, True):
            for claim in self.claims:
                job = claim.job
                if job is None or (min(claim.start, job.fixed_start) < due) != is_due:
                    continue
                if is_idle and claim.end > -INFINITY:
                    profile.take_amount(claim.start, claim.end, claim.amount)
                    continue
                after = max(self.now, claim.start)
                start = profile.fit(job, after)
                if is_due and not is_idle and start > after:
                    claim.end, is_left = -INFINITY, True
                    continue
                if start < INFINITY:
                    claim.amount = self.amount_of(job)
                else:
                    if self.by_host:
                        job.bits.copy_from(claim.amount)
                    start = after
                job.start = claim.start = start
                claim.end = end_of(start, job.duration)
                if not is_idle:
                    profile.take(job, start, claim.end)
        return is_left

    def amount_of(self, job: Job) -> int | HostBits:
        """Return what a job reserves: its number of processors or, in a plan of named hosts, a copy
        of its host set.
        """
        if self.by_host:
            return HostBits.of(job.bits.mask(), self.machine_size)
        return job.reserved

    # Tests

    def check(self) -> None:
        """Raise an AssertionError unless queue, running jobs and profile agree (used by tests)."""
        # What outlives its estimate under drained maintenance is planned as if it was not there.
        is_exact = not self.claims and not self.had_windows
        self.profile.check(self.machine_size, 0 if is_exact else -INFINITY)
        assert self.suspensions == sum(job.suspended == job.suspended for job in self.waiting), (
            "suspensions are miscounted"
        )
        for place in range(1, len(self.waiting)):
            before, job = self.waiting[place - 1], self.waiting[place]
            assert (before.start, before.number) < (job.start, job.number), f"{job.id}: order"
        for place in range(len(self.running)):
            job = self.running[place]
            assert job.place == place, f"{job.id}: place"
            assert job.end >= self.soonest or job.is_dying, f"{job.id}: ends before the soonest end"
        if self.gone or self.by_host:
            return
        # A job that ends a microsecond early gives nothing back.
        now = end_of(self.now, _GRID_TOLERANCE)
        there, free = Profile(self.present), Profile(self.present, now)
        there.copy_from(self.profile)
        there.trim(now)
        for job in self.running:
            free.take(job, now, job.end)
        for claim in self.claims:
            free.take_amount(max(now, claim.start), claim.end, claim.amount)
        for job in self.waiting:
            free.take(job, job.start, end_of(job.start, job.duration))
        assert free.steps() == there.steps(), "the profile is not that of the jobs"
