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
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from qops_batsim.core.fixed_reservations import FixedReservations
from qops_batsim.core.job import RUNNING, Job
from qops_batsim.core.job_sorting import sort_by_arrival, sort_by_key, sort_by_start
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.node_use import NodeUse
from qops_batsim.core.plan_hosts import PlanHosts, SharedPlanHosts
from qops_batsim.core.plan_log import PlanLog
from qops_batsim.core.profile import FitBounds, HostProfile, Profile
from qops_batsim.timing import DEADLINE_TOLERANCE, GRACE, GRID_TOLERANCE, end_of, on_grid

if TYPE_CHECKING:
    from qops_batsim.core.capacity import Capacity

INFINITY = math.inf
NO_DATE = math.nan
_by_turn = attrgetter("turn")


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
    use
        What is free now on hosts that jobs share by amounts, by which due jobs start; None where
        hosts are whole.
    fixed
        Promised starts and maintenance to come.
    hosts
        The hosts that are there.
    new
        Jobs about which nothing was decided, by arrival.
    starting
        The jobs that the last :meth:`start_due` started.
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
        self.machine_size = machine_size
        self.by_host = by_host
        self.keeps_promises = keeps_promises
        self.promises_starts = promises_starts
        self.hosts = PlanHosts(machine_size, by_host)
        self.fixed = FixedReservations(self.hosts)
        self.use: NodeUse | None = None
        self.profile = self.empty_profile()
        self.log: PlanLog | None = None

        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.new: list[Job] = []
        self.gone: list[Job] = []
        self.starting: list[Job] = []
        self.undone: list[Job] = []
        self.cancelled: list[Job] = []
        self.arrivals = 0
        self.turns = 0

        self.now = 0.0
        self.soonest = INFINITY
        self.is_late = False
        self.grace = GRACE
        self.tolerance = GRID_TOLERANCE
        self.most_lag = GRID_TOLERANCE

        self.is_freed = False
        self.is_resized = False
        self.given_from = INFINITY
        self.given_until = -INFINITY

        self.suspensions = 0
        self.settled: list[Job] = []
        self.renewals: list[Renewal] = []

    def share_hosts(self, use: NodeUse) -> None:
        """Plan for hosts that jobs share by amounts, of which ``use`` says what is free now."""
        self.use = use
        self.hosts = SharedPlanHosts(use)
        self.fixed.hosts = self.hosts
        self.profile = self.empty_profile()

    def empty_profile(self) -> Profile:
        """Return a profile of the machine in which all is free."""
        if self.use is not None:
            return NodeProfile(self.use.layout)
        return HostProfile(self.machine_size) if self.by_host else Profile(self.machine_size)

    def fit_bounds(self) -> FitBounds:
        """Return bounds of fits for searches; amounts of hosts cannot be compared by one number, so
        that nothing is learned of these.
        """
        return FitBounds(self.machine_size if self.use is None else 0)

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
        self.hosts.occupy(job, hosts)
        self.add_running(job, end_of(start, job.duration), 0.0)
        job.noted_end = job.end
        self.is_resized = True
        self.hosts.lost += there

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
            job.suspended = NO_DATE
            self.suspensions -= 1

        place = self.fixed.place_of(job)
        if place >= 0:
            del self.fixed.listed[place]
        else:
            place = 0
            while self.waiting[place] is not job:
                place += 1
            del self.waiting[place]

        self.give_back(job, job.start, end_of(job.start, job.duration))
        self.is_freed = True

    def holds(self, job: Job) -> bool:
        """Return whether a job waits or has a promised start in this plan. O(waiting)."""
        for waiting in self.waiting:
            if waiting is job:
                return True
        return self.fixed.place_of(job) >= 0

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
        wider = [
            job
            for job in [*self.waiting, *self.fixed.jobs()]
            if not self.hosts.can_hold(job) and not job.is_held
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
        self.now = now
        self.hosts.free = free
        if self.log is not None:
            self.log.now = now
            self.log.is_late = self.is_late
            self.log.grace = self.grace

    # Hosts that leave and return

    def note_size(self, present: int, is_final: bool) -> None:
        """Set how many hosts are present, and whether none will leave or return any more."""
        self.hosts.resize(present, is_final)
        if self.log is not None:
            self.log.resized(present, is_final, self.hosts.losing)

    def refit(self, capacity: Capacity, hosts_of: Mapping[Job, int]) -> None:
        """Update the plan's hosts, maintenance windows and running jobs after hosts have left or
        returned. O(running × windows).

        Parameters
        ----------
        capacity
            Which hosts are away, and the maintenance windows that are not over.
        hosts_of
            The hosts that each running job has (bits).
        """
        hosts = self.hosts
        self.is_resized = True
        away = capacity.away.mask
        hosts.everything = hosts.amount_of(hosts.all & ~away)
        running = [job for job in self.running if job.phase == RUNNING]
        running.sort(key=_by_turn)

        self.fixed.drop_windows()
        for window in capacity.windows:
            # A window whose hosts are drained counts as begun from its notice on.
            is_closed = window.has_begun or capacity.is_drained(window)
            there = window.hosts.mask & ~away
            self.fixed.reserve_window(window, there, is_closed, running, hosts_of)

        # What runs gives back no host on which no job may start: where hosts are numbers, that of a
        # window has it already.
        closed = capacity.away if hosts.names_hosts else capacity.closed(drains=True)
        hosts.losing.clear()
        for job in running:
            hosts.occupy(job, hosts_of[job] & ~closed.mask)
            gone = (hosts_of[job] & away).bit_count()
            if gone > 0:
                hosts.losing.append((job, gone))

        if self.log is not None and self.log.resizing:
            self.log.resized(hosts.present, hosts.is_final, hosts.losing)

    def has_lost_hosts(self) -> bool:
        """Return whether hosts have left since the last call; if so, suspend the promises of all
        waiting jobs.

        A *suspended* promise is kept if the job's next planned start keeps it, and else replaced by
        what that start allows (:meth:`settle`). O(waiting).
        """
        lost = self.hosts.lost
        self.hosts.lost = 0
        self.is_resized = False
        if lost > 0:
            self.suspend(lost, self.now)
        return lost > 0

    def suspend(self, lost: int, date: float) -> None:
        """Suspend the promises of all waiting jobs, as so many hosts were lost at a date (seconds).
        O(waiting).
        """
        if not (self.keeps_promises or self.promises_starts):
            return
        for job in self.waiting:
            promise = job.latest_start if self.promises_starts else job.target
            if promise < INFINITY:
                if job.suspended != job.suspended:
                    self.suspensions += 1
                job.suspended = promise
                job.lost = lost
                job.lost_date = date

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

            job.suspended = NO_DATE
            self.suspensions -= 1
            self.settled.append(job)
            if planned > promise + DEADLINE_TOLERANCE:
                self.promise(job, planned)
                self.note_renewal(job, promise, planned)
                if not self.promises_starts:
                    job.promise = planned
                    job.aim = INFINITY
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
        return min(now, self.fixed.next_start(-INFINITY))

    def renew(self) -> bool:
        """Update the plan for jobs that have ended or are overdue; return whether it should now be
        compressed.

        The plan is rebuilt if a job takes longer than planned or hosts have left, and compressed if
        hosts have returned. If processors came free early, the caller has to compress the plan
        (True), since each algorithm does that in its own way. Call :meth:`settle` afterwards.
        """
        if self.settled:
            for job in self.settled:
                if job.suspended != job.suspended:
                    job.lost = 0
            self.settled = []
        if self.starting:
            self.starting = []

        if self.log is not None:
            self.log.begin(self.now, self.gone, self.undone, self.cancelled)
        if self.undone:
            self.undone = []
        if self.cancelled:
            self.cancelled = []

        early = self.forget_gone()
        overdue = self.extend_overdue()
        if self.waiting:
            first = self.waiting[0]
            overdue = overdue or first.start < self.now - self.tolerance

        # Other hosts: all promised starts are placed again.
        late = INFINITY if self.is_resized else self.now - self.tolerance
        if self.fixed.has_job_before(late):
            self.refit_fixed()
            overdue = True
            # What waits gives way to promised starts that slip since their hosts have left.
            for job in self.fixed.jobs():
                if job.lost > 0 and job.start > job.fixed_start + DEADLINE_TOLERANCE:
                    self.suspend(job.lost, job.lost_date)

        if self.is_resized:
            if self.has_lost_hosts() or overdue:
                self.rebuild()
            else:
                self.reserve_plan(self.nominal())
                self.compress_everywhere()
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
            if job.end > self.now + GRID_TOLERANCE:
                self.give_back(job, self.now, job.end)
                early = True
            self.remove_running(job)
        if self.gone:
            self.gone = []
        return early

    def extend_overdue(self) -> bool:
        """Move the expected ends of running jobs that outlived their estimates; return whether
        there are any.

        O(running) if so.
        """
        now = self.now
        due = now - self.tolerance
        if self.soonest >= due:
            return False

        self.soonest = INFINITY
        is_any_overdue = False
        for job in self.running:
            if job.is_dying:
                continue
            if job.end < due:
                is_any_overdue = True
                job.start = on_grid(job.start + job.lag)
                job.lag = 0.0
                so_far = now - job.start
                # Until its estimate is over if only its prediction was too short.
                limit = job.limit
                if job.duration < job.requested and so_far < job.requested:
                    limit = job.requested
                job.end = end_of(now, more_time(so_far, limit))

            self.soonest = min(self.soonest, job.end)

        return is_any_overdue

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
        self.given_from = min(self.given_from, start)
        self.given_until = max(self.given_until, end)

    def add_running(self, job: Job, end: float, lag: float) -> None:
        """Add a running job with its expected end; ``lag`` says how much later than planned it
        started (seconds). O(1).
        """
        job.place = len(self.running)
        job.turn = self.turns
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
        job.place = -1
        job.lag = 0.0
        job.is_dying = False

    # Placing jobs

    def place(self, job: Job, now: float) -> None:
        """Reserve a job's earliest fit from ``now`` on and make it the planned start. O(steps)."""
        job.start = self.profile.fit(job, now)
        self.profile.take(job, job.start, end_of(job.start, job.duration))
        job.given_from = INFINITY
        job.given_until = -INFINITY

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
        profile = self.profile

        any_moved = False
        for job in line:
            start = job.start
            end = end_of(start, job.duration)
            # Dates that somebody earlier in the line has given back, or that were given back since
            # this job was looked at last.
            first = min(self.given_from, job.given_from)
            last = max(self.given_until, job.given_until)
            job.given_from = INFINITY
            job.given_until = -INFINITY

            if start < now:
                # Rounding made it late. A number of processors is the same at any date.
                if not self.by_host:
                    continue
                profile.give(job, start, end)
                self.place(job, now)
            elif first >= end or last <= now:
                continue  # Nothing was given back that this job could use.
            else:
                # It fits at its own place in any case, so it can only get earlier.
                after = max(now, profile.start_of(first - job.duration))
                if not profile.move(job, after, last):
                    continue

            any_moved = True
            if start < INFINITY:
                job.given_from = start
                job.given_until = end
                self.given_from = min(self.given_from, start)
                self.given_until = max(self.given_until, end)

        self.given_from = INFINITY
        self.given_until = -INFINITY
        if any_moved:
            self.tell_earlier(line)
            sort_by_start(self.waiting)

    def compress_everywhere(self) -> None:
        """Have the next compression try all dates for all jobs."""
        self.given_from = -INFINITY
        self.given_until = INFINITY

    def tell_earlier(self, line: list[Job]) -> None:
        """Store in each job the interval in which jobs later in the list have released
        reservations.
        """
        first = INFINITY
        last = -INFINITY
        for place in range(len(line) - 1, -1, -1):
            job = line[place]
            own_first = job.given_from
            own_last = job.given_until
            job.given_from = first
            job.given_until = last
            first = min(first, own_first)
            last = max(last, own_last)

    # Rebuilding the plan

    def reserve_running(self, profile: Profile, now: float) -> None:
        """Fill a profile with the running jobs, promised starts and maintenance only. O((running +
        fixed) × steps).
        """
        self.take_running(profile, now)
        self.fixed.take(profile, now, True)
        self.fixed.take(profile, now, False)

    def take_running(self, profile: Profile, now: float) -> None:
        """Fill a profile with the running jobs only, until their expected ends. O(running ×
        steps).
        """
        profile.reset(now, self.hosts.everything)
        for job in self.running:
            if job.end > now:
                profile.take(job, now, job.end)

    def place_waiting(self) -> int:
        """Place all waiting jobs again, in their present order, around the running ones; return how
        many will be late.
        """
        self.reserve_running(self.profile, self.now)
        for job in self.waiting:
            self.place(job, self.now)
        return self.count_late()

    def place_displaced(self) -> int:
        """Place the waiting jobs again whose shared hosts are no longer free at their starts, by
        latest start, without promises by planned start; return how many jobs will be late.
        """
        self.reserve_running(self.profile, self.now)
        displaced: list[Job] = []
        for job in self.waiting:
            start = job.start
            end = end_of(start, job.duration)
            if self.now <= start < INFINITY and self.profile.has_amount(
                start, end, job.request.held
            ):
                self.profile.take(job, start, end)
                continue

            job.key = start
            if self.promises_starts:
                job.key = job.latest_start
            elif self.keeps_promises:
                job.key = min(job.aim, job.target) - job.duration
            displaced.append(job)

        sort_by_key(displaced, 0, len(displaced))
        for job in displaced:
            self.place(job, self.now)
        return self.count_late()

    def count_late(self) -> int:
        """Return how many waiting jobs will be late. O(waiting)."""
        late = 0
        for job in self.waiting:
            if end_of(job.start, job.duration) > min(job.aim, job.target) + DEADLINE_TOLERANCE:
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
        dates. Where hosts are shared, that could move jobs for nothing: those whose hosts are still
        free keep starts and hosts, the others are placed again, and then all may move up. If the
        plan keeps promises and some are broken then, the jobs are placed by latest start instead,
        provided that fewer are late. The target of a job that will be late becomes its new planned
        end, since otherwise no plan could meet all targets; :meth:`aim_again` lowers it again when
        it can. Promises are not mended so while news is late. O(waiting × steps).
        """
        waiting = self.waiting
        mends = self.keeps_promises and not self.is_late
        late = self.place_waiting() if self.use is None else self.place_displaced()

        if mends and late > 0:
            # By latest start fewer may be late; if not, the first plan is restored.
            for job in waiting:
                job.key = min(job.aim, job.target) - job.duration
            sort_by_key(waiting, 0, len(waiting))
            for job in waiting:
                job.keep_as_trial()
            if self.place_waiting() >= late:
                for job in waiting:
                    job.adopt_trial()
                self.reserve_plan(self.now)

        if self.use is not None:
            sort_by_start(waiting)
            self.compress_everywhere()
            Plan.compress(self)
        for job in waiting:
            end = end_of(job.start, job.duration)
            if end > job.target + DEADLINE_TOLERANCE:
                if mends:
                    job.aim = min(job.aim, job.target)
                job.target = end

        sort_by_start(waiting)

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
            job.adopt_trial()
        self.waiting = list(jobs)
        self.compress_everywhere()
        sort_by_start(self.waiting)

    # Starts

    def start_now(self, job: Job) -> bool:
        """Start a job; return whether the start is so late that the plan has to be rebuilt."""
        self.hosts.start(job)
        lag = 0.0 if job.start == self.now else on_grid(self.now - job.start)
        self.add_running(job, end_of(job.start, job.duration), lag)
        self.starting.append(job)
        return job.start < self.now - self.most_lag

    def start_what_fits(self) -> bool:
        """Start the due jobs that fit; return whether a start is so late that the plan has to be
        rebuilt.
        """
        late = self.start_fixed()
        soon = self.now + GRID_TOLERANCE
        waiting = self.waiting

        count = 0
        while self.hosts.free > 0 and count < len(waiting):
            job = waiting[count]
            if job.start > soon or not self.hosts.can_start(job):
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
        if self.starting:
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

    def start_fixed(self) -> bool:
        """Start the due jobs with promised starts; return whether one is so late that the plan has
        to be rebuilt.
        """
        listed = self.fixed.listed
        soon = self.now + GRID_TOLERANCE
        late = False
        place = 0
        while place < len(listed):
            reservation = listed[place]
            job = reservation.job
            if job is None or reservation.start > soon or not self.hosts.can_start(job):
                place += 1
                continue

            late = self.start_now(job) or late
            del listed[place]
            # Its hosts have left, and others came free too late.
            if job.lost > 0 and job.start > job.fixed_start + DEADLINE_TOLERANCE:
                self.note_renewal(job, job.fixed_start, job.start)

        return late

    def refit_fixed(self) -> None:
        """Place all promised starts again, because hosts have changed or promised starts are
        overdue.

        Rebuild the plan afterwards. O(fixed × steps).
        """
        now = self.now
        fixed = self.fixed
        profile = self.profile
        lost = self.hosts.lost
        if lost > 0:
            for job in fixed.jobs():
                job.lost = lost
                job.lost_date = now

        due = now - self.tolerance
        self.take_running(profile, now)
        fixed.take(profile, now, False)
        if fixed.refit(profile, now, due, False):
            profile.reset(now, self.hosts.everything)
            fixed.take(profile, now, False)
            fixed.refit(profile, now, due, True)
