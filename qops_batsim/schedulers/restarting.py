"""Kill-and-restart: running jobs are killed for a new one, and run again.

Islam et al. 2004, section 8.

They do so from scratch, or where their work was saved last (``qos.checkpoint``).
"""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta

from qops_batsim.core.job import Job
from qops_batsim.core.job_sorting import sort_by_start
from qops_batsim.core.log_rows import BY_KILL
from qops_batsim.core.needs import EngineNeeds
from qops_batsim.core.options import SchedulerOptions, seconds
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.jobs import COMPLETED_KILLED, rest_of, restarted_id
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.schedulers.deadline import meets
from qops_batsim.schedulers.qops import Qops
from qops_batsim.timing import DEADLINE_TOLERANCE, PLAN_TOLERANCE, end_of, on_grid

KillAndRestart = Annotated[
    bool,
    Meta(
        description="where there is no plan, and before an offer is made, try to meet the request "
        "by killing a running job that can be run again from scratch by its own deadline"
    ),
]
MaxKills = Annotated[
    Annotated[int, Meta(ge=0)] | None,
    Meta(description="most kills of one job; none for any number"),
]
KillAfter = Annotated[
    float,
    seconds("run time before which no job is killed", ge=0, le=MAX_SECONDS),
]

RestartPrice = Annotated[
    Annotated[float, Meta(ge=0, le=1e6)] | None,
    Meta(
        description="most work that the kills for one job may waste, as a share of the mean work "
        "of the jobs that have arrived; none for any amount, and one kill at a time, as the paper "
        "has it"
    ),
]

MOST_VICTIMS = 8
"""No more jobs are killed for one."""

INFINITY = math.inf


class Restart:
    """A run that is killed for a new job, and the job that repeats its work.

    Attributes
    ----------
    victim, again
        The run that is killed, and its work as another job.
    sake
        The job for which it is killed.
    since, saved
        When the run has started, and how much of it is saved (seconds).
    end
        When the run was expected to end (seconds).
    """

    def __init__(self, victim: Job, again: Job, sake: Job, since: float, saved: float) -> None:
        self.victim = victim
        self.again = again
        self.sake = sake
        self.since = since
        self.saved = saved
        self.end = victim.end


def actual_start(job: Job) -> float:
    """Return a running job's actual start (s), which may be after its planned one."""
    return on_grid(job.start + job.lag)


class RestartingQops(Qops):
    """QoPS that may kill running jobs for new ones (option ``kill_and_restart``).

    A killed job waits in the plan from then on, and is held back until the engine has said that it
    is dead. Its processors count as free at once; jobs that are due there start when the engine has
    said that they are. Then it is registered again, as ``w0!12#1`` if it was ``w0!12``, which needs
    dynamic jobs.

    Attributes
    ----------
    kills
        Whether any job may be killed.
    most_kills
        How often each at most, -1 for any number.
    youngest
        After how many seconds. Batsim breaks off if it is told to kill a job that has not really
        started yet, which takes moments on a platform with latencies.
    """

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        Qops.__init__(self, options)
        chosen = self.options
        most = getattr(chosen, "max_kills_per_job", None)
        self.kills = bool(getattr(chosen, "kill_and_restart", False))
        self.most_kills = -1 if most is None else most
        self.youngest = float(getattr(chosen, "kill_after", 1.0))
        price = getattr(chosen, "restart_price", None)
        self.restart_price = INFINITY if price is None else float(price)
        self.learns = self.learns or self.restart_price < INFINITY

    @property
    def needs(self) -> EngineNeeds:
        """What the scheduler needs of the engine: registering killed jobs again, if it may kill."""
        kills = self.kills
        return EngineNeeds(dynamic_jobs=kills, profile_reuse=kills, why="kill_and_restart is on")

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        Qops.begin(self, manager)
        self.registers = manager.system.dynamic_jobs
        self.chosen: list[Restart] = []
        self.under_way: list[Restart] = []
        self.dead: list[Restart] = []
        self.no_more_jobs = False
        self.arrivals = 0.0
        self.work = 0.0

    # Events

    def submitted(self, job: Job) -> None:
        """Add a new job to the plan; raise an InputError if its checkpoints cannot be used for a
        restart.
        """
        if self.kills:
            self.manager.check_saves(job)
        Qops.submitted(self, job)

    def ended(self, job: Job) -> None:
        """Called when a running job has ended or was killed: free its processors in the plan."""
        Qops.ended(self, job)
        if job.is_dying:
            for place in range(len(self.under_way)):
                if self.under_way[place].victim is job:
                    self.dead.append(self.under_way[place])
                    del self.under_way[place]
                    return

    def cancelled(self, job: Job) -> None:
        """Remove a cancelled job that waits; if it is being killed, do not run it again."""
        for restart in self.under_way:
            if restart.victim is job:
                job = restart.again
        Qops.cancelled(self, job)

    def all_submitted(self) -> None:
        """Called when all jobs are submitted: no further job will come to kill others for."""
        self.no_more_jobs = True

    # Decisions

    def prepare_decision(self) -> None:
        """Submit the remaining work of jobs that were killed, unless they had ended before the
        kill.
        """
        manager = self.manager
        for restart in self.dead:
            again = restart.again
            victim = restart.victim
            saved = restart.saved
            if victim.state != COMPLETED_KILLED:
                self.plan.undo_kill(again)
                continue

            original = manager.original_id(victim)
            sake = manager.original_id(restart.sake)
            wasted = victim.size * (manager.now - restart.since - saved)
            log = manager.qos_log
            told = log.note_restart(again.id, original, victim.id, sake, wasted)
            manager.register_again(again, victim, victim, saved)
            manager.note_metadata(again, told)
            again.is_held = False
            # Hosts may have gone for ever since the kill.
            if self.plan.hosts.is_final:
                self.may_be_too_wide = True

        self.dead.clear()

    def conclude_decision(self) -> None:
        """Kill the victims of this decision, and tell the engine when no more jobs will be
        registered.
        """
        for restart in self.chosen:
            self.manager.kill(restart.victim)
        self.under_way += self.chosen
        self.chosen = []
        if self.registers and self.no_more_jobs and not self.under_way:
            # Only new jobs lead to kills.
            self.registers = False
            self.manager.finish_registering()

    # Victims

    def saved_time(self, job: Job, now: float) -> float:
        """Return how much of its run a job would keep if it was killed (seconds)."""
        if job.qos is None or job.qos.checkpoint is None:
            return 0.0
        interval: float = job.qos.checkpoint
        ran = on_grid(now - actual_start(job))
        return on_grid(interval * math.floor(ran / interval))

    def lost_work(self, job: Job, now: float) -> float:
        """Return the work that a job would lose if it was killed (processor-seconds)."""
        return job.size * (now - job.start - self.saved_time(job, now))

    def comes_before(self, job: Job, other: Job, now: float) -> bool:
        """Return whether one running job is to be killed rather than another: for less lost work,
        then earlier start, then arrival.
        """
        one = self.lost_work(job, now)
        two = self.lost_work(other, now)
        if one != two:
            return one < two
        if job.start != other.start:
            return job.start < other.start
        return job.number < other.number

    def may_be_killed(self, job: Job, now: float) -> bool:
        """Return whether a running job may be killed now; restarted at once it would still end by
        its target.
        """
        soonest = now - self.youngest + PLAN_TOLERANCE
        if job.is_kept or job.is_dying or job.start > soonest or actual_start(job) > soonest:
            return False
        # To kill what is about to end, or should have ended, gains nothing.
        if job.start + job.duration <= now + PLAN_TOLERANCE or job.duration == INFINITY:
            return False
        if not self.plan.hosts.can_hold(job):
            return False
        if self.most_kills >= 0 and job.kills >= self.most_kills:
            return False
        rest = job.duration - self.saved_time(job, now)
        return now + rest <= job.target + DEADLINE_TOLERANCE

    def next_victim(self, last: Job | None, now: float) -> Job | None:
        """Return the job to try killing next after ``last`` (None: the first one), None if there is
        no more. O(running).
        """
        victim: Job | None = None
        for each in self.plan.running:
            if last is not None and not self.comes_before(last, each, now):
                continue
            if victim is not None and not self.comes_before(each, victim, now):
                continue
            if self.may_be_killed(each, now):
                victim = each
        return victim

    def count(self, size: float, duration: float) -> None:
        """Add a new job to the mean work of arrived jobs (size × seconds), which limits the
        work that kills may waste.
        """
        if duration < INFINITY:
            self.arrivals += 1.0
            self.work += size * duration

    def kill_for(self, new: Job) -> bool:
        """Try to admit a new job by killing running ones (section 8); return whether it was
        admitted.

        1. Running jobs are tried one by one in the order of the work that they would lose: if the
           new job can be admitted without one, and that one, run again, still ends in time, it is
           killed. O(running) pairs of searches.
        2. With a ``restart_price``, those that would lose more are not tried, and if no single
           one will do, the youngest are killed together that have processors enough.
        """
        now = self.plan.nominal()
        free = self.running.free[0]
        most = self.restart_price
        if most < INFINITY:
            most *= self.work / max(self.arrivals, 1.0)
        # The search has given the waiting jobs and the new one their headroom.
        self.leave_headroom(self.plan.running, new)
        victim = self.next_victim(None, now)
        while victim is not None and self.lost_work(victim, now) <= most:
            if self.kill_all(new, [victim]):
                return True
            victim = self.next_victim(victim, now)

        if most == INFINITY:
            return False
        if new.request is not None:
            victims = self.choose_sharing(new, most, now)
        else:
            victims = self.choose_several(new.processors - free, most, now)
        return len(victims) > 1 and self.kill_all(new, victims)

    def choose_several(self, missing: int, most: float, now: float) -> list[Job]:
        """Return the youngest running jobs that together free the ``missing`` processors.

        None if there are not enough that have used no more than ``most`` work together. Those
        without which the others are enough are given back, those that have used most first.
        O(running).
        """
        victims: list[Job] = []
        wasted = 0.0
        while missing > 0 and len(victims) < MOST_VICTIMS:
            best = self.youngest_beside(victims, most - wasted, now)
            if best is None:
                return []
            victims.append(best)
            missing -= best.processors
            wasted += self.lost_work(best, now)

        if missing > 0:
            return []
        for place in range(len(victims) - 1, -1, -1):
            victim = victims[place]
            if missing + victim.processors <= 0:
                missing += victim.processors
                del victims[place]

        return victims

    def choose_sharing(self, new: Job, most: float, now: float) -> list[Job]:
        """Return the victims of :meth:`choose_several` where jobs share hosts: the youngest that
        together make room for the new job now.
        """
        end = end_of(now, new.duration)
        room = self.base
        room.copy_from(self.running)
        victims: list[Job] = []
        wasted = 0.0
        while room.spare_beside(new, now, end) < 0:
            best = None
            if len(victims) < MOST_VICTIMS:
                best = self.youngest_beside(victims, most - wasted, now)
            if best is None:
                return []
            victims.append(best)
            wasted += self.lost_work(best, now)
            room.give(best, now, best.end)

        for place in range(len(victims) - 1, -1, -1):
            victim = victims[place]
            room.take(victim, now, victim.end)
            if room.spare_beside(new, now, end) < 0:
                room.give(victim, now, victim.end)
            else:
                del victims[place]
        return victims

    def youngest_beside(self, victims: list[Job], most: float, now: float) -> Job | None:
        """Return the youngest other job to kill that loses at most ``most`` processor-seconds."""
        best: Job | None = None
        for each in self.plan.running:
            is_chosen = False
            for victim in victims:
                is_chosen = is_chosen or victim is each
            if is_chosen or self.lost_work(each, now) > most or not self.may_be_killed(each, now):
                continue
            if best is not None:
                if each.start < best.start:
                    continue
                if each.start == best.start and each.number > best.number:
                    continue
            best = each

        return best

    # Plans

    def kill_all(self, new: Job, victims: list[Job]) -> bool:
        """Kill these running jobs if there is a plan with the new job and their remaining work;
        return whether there is.

        O(victims) searches; the headroom of all jobs is known.
        """
        now = self.plan.nominal()
        restarts = [self.restart_of(victim, new, now) for victim in victims]
        for victim in victims:
            victim.end = now
        self.has_profile = False
        found = self.plan_all(new, restarts)
        if found:
            self.note_kills(new, restarts)
        else:
            for restart in restarts:
                restart.victim.end = restart.end

        self.has_profile = False
        return found

    def restart_of(self, victim: Job, sake: Job, now: float) -> Restart:
        """Return what killing a running job now for a new one would mean: its saved time and the
        job that continues it.
        """
        saved = self.saved_time(victim, now)
        original = self.manager.original_id(victim)
        again = rest_of(victim, restarted_id(original, victim.kills + 1), saved)
        # It keeps the place of the job in the order of arrivals, and what it was promised.
        if victim.request is not None:
            self.manager.asking(again)
        again.number = victim.number
        again.kills = victim.kills + 1
        again.is_kept = victim.is_kept
        again.duration = on_grid(victim.duration - saved)
        again.requested = on_grid(victim.requested - saved)
        again.limit = victim.limit - saved
        again.deadline = victim.deadline
        again.promise = victim.promise
        again.target = victim.target
        again.aim = victim.aim
        again.start = victim.start
        again.headroom = victim.headroom
        return Restart(victim, again, sake, actual_start(victim), saved)

    def plan_all(self, new: Job, restarts: list[Restart]) -> bool:
        """Search a plan with the new job and the remaining work of the killed jobs, and adopt it;
        return whether there is one.
        """
        self.prepare()
        now = self.plan.nominal()
        soonest = self.running.try_fit(new, now)
        if not meets(soonest, new.duration, new.target):
            return False
        line = list(self.plan.waiting)
        hosts = self.plan.hosts
        kept = [(job, job.start, hosts.amount_for(job)) for job in self.plan.waiting]
        found = True
        for job in [new, *[restart.again for restart in restarts]]:
            found = self.try_points(line, job)
            if not found:
                break
            kept.append((job, job.start, hosts.amount_for(job)))
            line = list(self.order)
            for each in line:
                each.adopt_trial()
            sort_by_start(line)

        for job, start, held in kept:
            job.start = start
            hosts.restore_amount(job, held)
        if found:
            self.adopt()
        return found

    def note_kills(self, new: Job, restarts: list[Restart]) -> None:
        """Mark the victims of a new job as being killed, and write the admission and the kills to
        the log.
        """
        plan = self.plan
        log = self.plan.log
        # Jobs that keep their places may rest on the end that a victim would have had, at which
        # nothing happens any more: they are placed again when its end is told.
        plan.is_freed = True
        if log is not None:
            log.admitted(new)
        for restart in restarts:
            victim = restart.victim
            again = restart.again
            if log is not None:
                log.killed(victim, again, new, restart.saved)
            victim.is_dying = True
            victim.lag = 0.0
            victim.noted_end = victim.end
            again.is_held = True
            self.chosen.append(restart)

        if log is not None:
            log.moved_for(new, BY_KILL, plan.waiting)
        self.note_promise(new)
