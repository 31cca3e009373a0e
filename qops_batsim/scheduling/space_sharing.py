"""Common part of all schedulers that give each job hosts of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from qops_batsim.errors import SimulationError, require_type
from qops_batsim.jobs import QOS_REJECTED, Job, QosRequest
from qops_batsim.platform.hostset import HostSet, lowest_bits
from qops_batsim.platform.model import Platform
from qops_batsim.protocol.decisions import (
    CallMeLater,
    Decision,
    ExecuteJob,
    RejectJob,
    SetJobMetadata,
)
from qops_batsim.protocol.events import (
    JOB_CANCELLED,
    JOB_RUNS,
    MAINTENANCE,
    NO_MORE_EXTERNAL_EVENTS,
    NO_MORE_STATIC_JOBS,
    JobCompleted,
    Notify,
)
from qops_batsim.scheduling.answers import note_answer
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.killed_jobs import Restarts
from qops_batsim.scheduling.module import DecisionModule, SchedulerOptions, System
from qops_batsim.scheduling.news import Hearing, News, with_least_grace
from qops_batsim.scheduling.refusal import Refusal, RefusalKind, free_text
from qops_batsim.timing import end_of

if TYPE_CHECKING:
    from qops_batsim.scheduling.answers import AdmissionAnswer
    from qops_batsim.scheduling.availability import AvailabilityProfile
    from qops_batsim.scheduling.plan import Plan, Renewal
    from qops_batsim.scheduling.standing import Holders, Standing


class RunningJob(NamedTuple):
    """A job that was started: since when (seconds), and on which hosts."""

    job: Job
    start: float
    hosts: HostSet


class SpaceSharingScheduler(DecisionModule):
    """Base of schedulers of rigid jobs on interchangeable hosts, one job a host.

    Planning counts processors; concrete hosts, the lowest free ones, are chosen
    only when a job starts. Jobs that can never run (wider than the machine, or
    without any processor) are rejected at submission. Hosts that become unavailable
    take no further job until they are back; what runs there goes on. Jobs that are wider
    than what is left wait until hosts return, and are rejected once none will
    (:meth:`withdraw_wider`). Jobs that their users cancel while they wait are rejected
    (:meth:`withdraw`). Jobs that somebody else has started are expected to end by their walltimes
    (:meth:`joined`).

    A subclass either implements :meth:`arrived`, :meth:`left` and :meth:`schedule`, or
    returns from :meth:`new_plan` a plan of all starts, which these three then follow.

    >>> class Fifo(SpaceSharingScheduler):
    ...     def begin(self, system):
    ...         super().begin(system)
    ...         self.queue = []
    ...     def arrived(self, job):
    ...         self.queue.append(job)
    ...     def left(self, job):
    ...         pass
    ...     def schedule(self, now):
    ...         while self.queue and self.queue[0].processors <= self.free_count:
    ...             self.start(self.queue.pop(0))
    >>> from qops_batsim import simulate
    >>> len(simulate(Fifo, "tiny_8").ended)
    8

    Attributes
    ----------
    machine_size
        Number of hosts, whether they are there or away.
    capacity
        Which hosts are away.
    news
        How late news is.
    free_hosts, free_count
        Hosts that a job can start on, and their number.
    drains
        Whether hosts take no job from the notice of their maintenance on, because the scheduler
        does not plan on which hosts jobs will run.
    """

    drains = True

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        super().__init__(options)
        self._given_options = self.options
        self.machine_size = 0
        self.news = News()
        self._hearing = Hearing(self.news, is_of_use=False)
        self.free_count = 0
        self._free = 0
        self._plan: Plan | None = None
        self._decisions: list[Decision] = []
        self._running: dict[str, tuple[Job, float, HostSet]] = {}
        self._now = 0.0
        self.capacity = Capacity(0)
        self._closed = 0
        self._refits = False
        self._may_be_too_wide = False
        self._cancelled: list[str] = []
        self._restarts: Restarts | None = None

    @property
    def free_hosts(self) -> HostSet:
        return HostSet(self._free)

    def new_plan(self, machine_size: int) -> Plan | None:
        """Return an empty plan with this scheduler's options, or None if it keeps none."""
        return None

    def use_platform(self, platform: Platform) -> None:
        """Use the least grace of this platform, unless another one was given."""
        self.options = with_least_grace(self._given_options, platform)

    def begin(self, system: System) -> None:
        """Start with all hosts free."""
        self.machine_size = self.free_count = len(system.hosts)
        self._free = HostSet.first(self.machine_size).mask
        self._decisions = []
        self._running = {}
        self.capacity = Capacity(self.machine_size)
        self._closed, self._refits = 0, False
        self._may_be_too_wide = False
        self._cancelled = []
        self.news = News.of(self.options, system.profiles)
        kills = getattr(self.options, "kill_and_restart", None)
        if kills is not None:
            registers = system.dynamic_jobs
            self._restarts = Restarts(system.profiles, kills=kills, registers=registers)
        self._plan = self.new_plan(self.machine_size)
        self.capacity.is_planned = self._plan is not None
        if self._plan is not None:
            self._plan.news = self.news
            if getattr(self.options, "run_times", "estimated") == "predicted":
                self._plan.predict_run_times()
        is_of_use = self._plan is not None or hasattr(self.options, "grace")
        self._hearing = Hearing(self.news, is_of_use=is_of_use)
        if self.decision_log is not None:
            self.decision_log.begin(self.machine_size, self._plan)

    # What was before

    def standing(self) -> Standing | None:
        """Return what another scheduler with these options needs to go on from here.

        None if this one has no plan that can be had without its past, or is in the middle of
        something: a new job, a kill, a cancellation. O(jobs in the plan).
        """
        from qops_batsim.scheduling.standing import standing_of

        return None if self._plan is None or self._cancelled else standing_of(self._holders())

    def go_on(self, standing: Standing) -> None:
        """Go on from a standing, just after :meth:`begin`, and decide as if all had been told."""
        from qops_batsim.scheduling.standing import restore

        restore(self._holders(), standing)
        self._count_free()
        self._hearing.is_of_use &= not self.news.late

    def _holders(self) -> Holders:
        from qops_batsim.scheduling.standing import Holders

        parts = self._running, self.capacity, self.news, self._restarts, self.qos_log
        return Holders(self._planned(), *parts)

    # What engines tell

    def submitted(self, job: Job) -> None:
        """Queue a job that fits the machine, reject one that never will."""
        if self._restarts is not None and job.id in self._restarts.ids:
            return  # The announcement of one that was registered here.
        if self._restarts is not None:
            self._restarts.check(job)
        # A plan refuses by itself what never fits.
        refusal = None if self._plan is not None else self.capacity.never_fits(job.processors)
        asked = None if self._plan is not None or job.qos is None else job.qos.start
        if refusal is None and asked is not None:
            refusal = Refusal(kind=RefusalKind.NO_FIXED_STARTS, date=asked)
        if refusal is None:
            self._hearing.newest = job
            self.arrived(job)
        else:
            self.reject(job, refusal)

    def completed(self, event: JobCompleted) -> None:
        """Take the job's hosts back."""
        running = self._running.pop(event.job_id, None)
        if running is None:
            return  # Not started by this module: nothing of ours to take back.
        job, start, hosts = running
        if self._hearing.is_of_use:
            self._hearing.ended.append((job, start))
        closed = self._closed
        self._free = free = self._free | (hosts.mask & ~closed if closed else hosts.mask)
        self.free_count = free.bit_count()
        self.left(job)
        self._refits |= any(hosts & window.hosts for window in self.capacity.windows)
        if self._restarts is not None:
            self._restarts.ended(event)

    def notified(self, notification: Notify) -> None:
        """Take hosts out of use while they are unavailable; jobs that run there go on.

        What users have cancelled leaves the queue with the next decision.
        """
        capacity, lost = self.capacity, self.capacity.note(notification)
        if notification.type == NO_MORE_STATIC_JOBS and self._restarts is not None:
            self._restarts.all_submitted = True
        if notification.type == JOB_CANCELLED:
            self._cancelled.append(str(notification.fields.get("job_id", "")))
        if notification.type == JOB_RUNS:
            self._join(notification)
        if notification.type == NO_MORE_EXTERNAL_EVENTS:
            self._may_be_too_wide = bool(capacity.away)
            if capacity.away and self._plan is not None:
                self._plan.finished_resizing(capacity)
        if lost is None:
            return
        if notification.type == MAINTENANCE and self._plan is not None:
            self._plan.announced(len(lost))
        self._note_change(lost)

    def _check_windows(self, now: float) -> None:
        """Tell maintenance that has begun from other outages of its hosts."""
        lost = self.capacity.check_dates(now + self.news.tolerance)
        if lost is not None:
            self._note_change(lost)

    def _note_change(self, lost: HostSet) -> None:
        """Note that hosts leave, return or will leave, and which of them nobody knew of."""
        self._count_free()
        self.resized()

    def _join(self, notification: Notify) -> None:
        """Count a job among the running ones that somebody else has started."""
        fields = notification.fields
        job_id, start, limit = str(fields["job_id"]), float(fields["start"]), fields.get("walltime")
        hosts = HostSet.parse(str(fields["resources"]))
        kept = QosRequest(rerunnable=False)
        job = Job(job_id, start, len(hosts), "", walltime=limit, qos=kept)
        self._running[job_id] = (job, start, hosts)
        self._free &= ~hosts.mask
        self.free_count = self._free.bit_count()
        self.joined(job, start, hosts)

    def _count_free(self) -> None:
        """Count the hosts on which a job can start anew. O(running)."""
        self._closed = self.capacity.closed(drains=self.drains).mask
        free = HostSet.first(self.machine_size).mask & ~self._closed
        for _, _, used in self._running.values():
            free &= ~used.mask
        self._free, self.free_count = free, free.bit_count()

    def decide(self, now: float) -> list[Decision]:
        """Return the rejections since the last message and the jobs that start now."""
        self._now = now
        if self._hearing.is_of_use:
            self._hearing.judge(now)
        if self.capacity.windows:
            self._check_windows(now)
        if self._may_be_too_wide:
            self._reject_wider()
        if self._cancelled:
            self._reject_cancelled()
        self.schedule(now)
        if self._cancelled:
            self._reject_cancelled()
        if self._may_be_too_wide:
            self._reject_wider()
            self._may_be_too_wide = False
        decisions = self._decisions
        self._decisions = []
        return decisions

    # What a subclass can call

    def start(self, job: Job, hosts: HostSet | None = None) -> None:
        """Start a job now on the given free hosts, by default the lowest ones.

        Raises
        ------
        SimulationError
            The job runs already, or the hosts are not free or not as many as it asks for.
        """
        require_type("start: job", job, Job, "a Job that waits")
        if hosts is not None:
            require_type(f"start of {job.id}: hosts", hosts, HostSet, "a HostSet or None")
        asked, free = job.processors, self._free
        if hosts is None and asked <= self.free_count:
            hosts = HostSet(lowest_bits(free, asked))
        elif hosts is None or hosts.mask & ~free or len(hosts) != asked:
            chosen = "" if hosts is None else f" on hosts {hosts}"
            raise SimulationError(
                f"job {job.id} asks for {asked} processors and cannot start{chosen} at "
                f"{self._now:g} s: {self.free_count} hosts are free ({self.free_hosts or 'none'})"
            )
        if job.id in self._running:
            raise SimulationError(
                f"job {job.id}, which asks for {asked} processors, cannot start at "
                f"{self._now:g} s: it runs already ({self.free_count} hosts are free)"
            )
        self._free = free ^ hosts.mask
        self.free_count -= asked
        self._running[job.id] = (job, self._now, hosts)
        self._decisions.append(ExecuteJob(job.id, hosts))

    def reject(self, job: Job, reason: str | Refusal) -> None:
        """Reject a job that waits; the reason goes to the QoS log."""
        require_type("reject: job", job, Job, "a Job that waits")
        require_type(f"reject of {job.id}: reason", reason, (str, Refusal), "a text or a Refusal")
        refusal = free_text(reason) if isinstance(reason, str) else reason
        self.qos_log.record(job.id).reasons = (refusal,)
        self._decisions.append(RejectJob(job.id))
        if self._restarts is not None and job.id in self._restarts.ids:
            original = self.original_id(self._planned().table.slot_of(job.id))
            record = self.qos_log.record(original)
            record.decision, record.reasons = QOS_REJECTED, (refusal,)

    def running_jobs(self) -> list[RunningJob]:
        """Return the running jobs in the order of their starts. O(running)."""
        return [RunningJob(*each) for each in self._running.values()]

    def planned_starts(self) -> dict[str, float]:
        """Return the planned start of each waiting job by its id (seconds), as far as there are.

        O(waiting).
        """
        plan = self._plan
        if plan is None:
            return {}
        claimed = (slot for slot in plan.claimed_slots if slot >= 0)
        jobs, slots = plan.table.jobs, [*plan.waiting_slots.tolist(), *claimed]
        return {jobs[slot].id: float(plan.jobs.starts[slot]) for slot in slots}

    def availability(self, now: float) -> AvailabilityProfile:
        """Return which processors that are there are free when, if jobs end by their estimates.

        A job that runs longer than its estimate counts as about to end.
        O(running²).
        """
        from qops_batsim.scheduling.availability import AvailabilityProfile

        running = [(*each, self.returning(job_id)) for job_id, each in self._running.items()]
        used = sum(processors for *_, processors in running)
        profile = AvailabilityProfile(self.free_count + used, now)
        for job, start, _, processors in running:
            # Past its estimate a duration is negative: nothing is reserved.
            profile.reserve(now, start + job.estimate - now, processors)
        return profile

    def returning(self, job_id: str) -> int:
        """Return how many processors of a running job come free at its end.

        Those are left out whose hosts have gone away, or will take no other job.
        """
        if job_id not in self._running:
            raise SimulationError(f"returning: job_id is {job_id!r}; a job that runs is expected")
        return len(self._running[job_id][2] - HostSet(self._closed))

    # What a subclass implements, unless it has a plan

    def arrived(self, job: Job) -> None:
        """Keep a job that waits from now on."""
        self._planned().arrived(job)

    def left(self, job: Job) -> None:
        """Handle that a started job has left its hosts, already counted as free."""
        self._planned().left(job.id)

    def schedule(self, now: float) -> None:
        """Call :meth:`start` for every job that starts at this date (seconds)."""
        plan, restarts = self._planned(), self._restarts
        if restarts is not None:
            registrations = restarts.register(now, plan, self.qos_log)
            self._decisions += registrations
            # Hosts may have gone for ever since the kill.
            self._may_be_too_wide |= bool(registrations) and self.capacity.is_final
        for job, hosts in self._decided(now):
            self.start(job, hosts)
        self._call_for_start(now)
        self._note_renewals()
        if self.decision_log is not None:
            self.decision_log.decided()
        if restarts is not None:
            self._decisions += restarts.last_decisions()

    @property
    def hears_of_others(self) -> bool:
        """Whether it can be told of jobs that somebody else has started (:meth:`joined`)."""
        return self._has_plan_or_own("joined")

    @property
    def hears_of_cancellations(self) -> bool:
        """Whether it takes jobs out of its queue that their users cancel (:meth:`withdraw`)."""
        return self._has_plan_or_own("withdraw")

    def _has_plan_or_own(self, hook: str) -> bool:
        kind, base = type(self), SpaceSharingScheduler
        return any(getattr(kind, name) is not getattr(base, name) for name in (hook, "new_plan"))

    def joined(self, job: Job, start: float, hosts: HostSet) -> None:
        """Handle that somebody else has started a job (seconds), whose hosts are not free any more.

        Not implemented: that of the plan, where such jobs take hosts from promises as a loss does,
        until they are expected to end.
        """
        self._planned().joined(job, start, hosts - self.capacity.away)

    def _decided(self, now: float) -> list[tuple[Job, HostSet | None]]:
        """Note what the plan decides about new jobs, and return which jobs it starts."""
        plan = self._planned()
        if self._refits:
            self._refits = False
            plan.refit(self.capacity, self._used())
        due = plan.decide(now, self.free_hosts)
        self._note_answers()
        return due

    def _call_for_start(self, now: float) -> None:
        """Ask to be called at the next promised start of the plan."""
        date = self._planned().call_for_start()
        if date is not None:
            self._call_at(date, now)

    def resized(self) -> None:
        """Handle that hosts have gone away or returned; free ones are already counted."""
        if self._plan is not None:
            self._plan.resized(self.capacity, self._used())

    def _used(self) -> dict[str, HostSet]:
        """Return the hosts of the running jobs by id."""
        return {job_id: hosts for job_id, (_, _, hosts) in self._running.items()}

    def _call_at(self, date: float, now: float) -> None:
        asked = self.news.reachable(date, now, len(self._decisions))
        self._decisions.append(CallMeLater(asked))

    def withdraw_wider(self, processors: int) -> list[Job]:
        """Take the waiting jobs out that ask for more processors than that, and return them.

        No more will ever be there: they are rejected. Not implemented: those of the plan.
        """
        plan = self._plan
        if plan is None:
            return []
        return [plan.table.jobs[slot] for slot in plan.drop_wider(self._now, processors)]

    def withdraw(self, job_id: str) -> tuple[Job | None, bool]:
        """Take a job that its user has cancelled out of the queue.

        Returned is the job, None if it does not wait, and whether to ask again after the decision:
        it does not wait yet. Not implemented: that of the plan.
        """
        plan = self._plan
        if plan is None:
            raise SimulationError(
                f"job {job_id} was cancelled, and {type(self).__name__} does not know how to take "
                "a job out of its queue; it has to implement withdraw"
            )
        return plan.cancel(self._now, job_id)

    def renewed(self, renewal: Renewal) -> None:
        """Note a promise that was made anew because hosts have left."""
        record = self.qos_log.record(self.original_id(renewal.slot))
        if math.isfinite(self._planned().jobs.fixed_starts[renewal.slot]):
            record.latest_start = renewal.promise
        else:
            record.admitted_deadline = renewal.promise
        record.note_renewal(renewal.broken, renewal.loss)

    def original_id(self, slot: int) -> str:
        """Return the id under which the job in a slot of the plan was submitted."""
        return self._planned().table.original(slot).id

    def _reject_wider(self) -> None:
        for job in self.withdraw_wider(self.capacity.present):
            refusal = self.capacity.never_fits(job.processors)
            assert refusal is not None
            self.reject(job, refusal)

    def _reject_cancelled(self) -> None:
        asked, self._cancelled = self._cancelled, []
        for job_id in asked:
            job, later = self.withdraw(job_id)
            if job is not None:
                self.reject(job, Refusal(kind=RefusalKind.CANCELLED))
            if later:
                self._cancelled.append(job_id)

    def _note_answers(self) -> None:
        """Note what became of new jobs."""
        plan = self._planned()
        answers, plan.answers = plan.answers, {}
        for slot, answer in answers.items():
            self.answered(slot, answer)

    def _note_renewals(self) -> None:
        """Note what promises the plan has made anew: deadlines with fixed starts as well."""
        plan = self._planned()
        for renewal in plan.take_renewals():
            self.renewed(renewal)
            record, slot = self.qos_log.record(self.original_id(renewal.slot)), renewal.slot
            if record.admitted_deadline is not None and plan.jobs.fixed_starts[slot] < math.inf:
                end = end_of(renewal.promise, float(plan.jobs.estimates[slot]))
                record.admitted_deadline = max(record.admitted_deadline, end)

    def answered(self, slot: int, answer: AdmissionAnswer) -> None:
        """Reject a new job that the plan refused, else note what was promised, and kill for it.

        An offer is noted before a rejection, with which Batsim is done with a job.
        """
        plan = self._planned()
        job, planned = plan.table.jobs[slot], float(plan.jobs.estimates[slot])
        if planned < plan.jobs.requested[slot]:
            self.qos_log.record(job.id).predicted_run_time = planned
        told = None
        if answer.offer is not None or (answer.refusal is None and job.qos is not None):
            promise = float(plan.jobs.promises[slot])
            told = note_answer(answer, self.qos_log.record(job.id), job.qos, promise)
        if told is not None:
            self._decisions.append(SetJobMetadata(job.id, told))
        if self._restarts is not None:
            self._restarts.kill(answer.kills)
        if answer.refusal:
            self.reject(job, answer.refusal)

    def _planned(self) -> Plan:
        if self._plan is None:
            raise NotImplementedError(
                f"{type(self).__name__} has to implement arrived, left and schedule, or new_plan"
            )
        return self._plan
