"""Common part of all schedulers that give each job hosts of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qops_batsim.errors import SimulationError, require_type
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.hostset import HostSet, lowest_bits
from qops_batsim.platform.model import Platform
from qops_batsim.protocol.decisions import (
    Decision,
    ExecuteJob,
    RejectJob,
)
from qops_batsim.protocol.events import (
    JOB_CANCELLED,
    JOB_RUNS,
    NO_MORE_EXTERNAL_EVENTS,
    JobCompleted,
    Notify,
)
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.module import DecisionModule, SchedulerOptions, System
from qops_batsim.scheduling.news import Hearing, News, with_least_grace
from qops_batsim.scheduling.refusal import Refusal, RefusalKind, free_text

if TYPE_CHECKING:
    from qops_batsim.scheduling.availability import AvailabilityProfile


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

    A subclass implements :meth:`arrived`, :meth:`left` and :meth:`schedule`.

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
        self._decisions: list[Decision] = []
        self._running: dict[str, tuple[Job, float, HostSet]] = {}
        self._now = 0.0
        self.capacity = Capacity(0)
        self._closed = 0
        self._may_be_too_wide = False
        self._cancelled: list[str] = []

    @property
    def free_hosts(self) -> HostSet:
        return HostSet(self._free)

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
        self._closed = 0
        self._may_be_too_wide = False
        self._cancelled = []
        self.news = News.of(self.options, system.profiles)
        self._hearing = Hearing(self.news, is_of_use=hasattr(self.options, "grace"))
        if self.decision_log is not None:
            self.decision_log.begin(self.machine_size)

    # What engines tell

    def submitted(self, job: Job) -> None:
        """Queue a job that fits the machine, reject one that never will."""
        refusal = self.capacity.never_fits(job.processors)
        asked = None if job.qos is None else job.qos.start
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

    def notified(self, notification: Notify) -> None:
        """Take hosts out of use while they are unavailable; jobs that run there go on.

        What users have cancelled leaves the queue with the next decision.
        """
        capacity, lost = self.capacity, self.capacity.note(notification)
        if notification.type == JOB_CANCELLED:
            self._cancelled.append(str(notification.fields.get("job_id", "")))
        if notification.type == JOB_RUNS:
            self._join(notification)
        if notification.type == NO_MORE_EXTERNAL_EVENTS:
            self._may_be_too_wide = bool(capacity.away)
        if lost is None:
            return
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

    def running_jobs(self) -> list[RunningJob]:
        """Return the running jobs in the order of their starts. O(running)."""
        return [RunningJob(*each) for each in self._running.values()]

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

    # What a subclass implements

    def arrived(self, job: Job) -> None:
        """Keep a job that waits from now on."""
        raise NotImplementedError

    def left(self, job: Job) -> None:
        """Handle that a started job has left its hosts, already counted as free."""
        raise NotImplementedError

    def schedule(self, now: float) -> None:
        """Call :meth:`start` for every job that starts at this date (seconds)."""
        raise NotImplementedError

    @property
    def hears_of_others(self) -> bool:
        """Whether it can be told of jobs that somebody else has started (:meth:`joined`)."""
        return type(self).joined is not SpaceSharingScheduler.joined

    @property
    def hears_of_cancellations(self) -> bool:
        """Whether it takes jobs out of its queue that their users cancel (:meth:`withdraw`)."""
        return type(self).withdraw is not SpaceSharingScheduler.withdraw

    def joined(self, job: Job, start: float, hosts: HostSet) -> None:
        """Handle that somebody else has started a job (seconds), whose hosts are not free."""

    def resized(self) -> None:
        """Handle that hosts have gone away or returned; free ones are already counted."""

    def withdraw_wider(self, processors: int) -> list[Job]:
        """Take the waiting jobs out that ask for more processors than that, and return them.

        No more will ever be there: they are rejected. Not implemented: none.
        """
        return []

    def withdraw(self, job_id: str) -> tuple[Job | None, bool]:
        """Take a job that its user has cancelled out of the queue.

        Returned is the job, None if it does not wait, and whether to ask again after the decision:
        it does not wait yet.
        """
        raise SimulationError(
            f"job {job_id} was cancelled, and {type(self).__name__} does not know how to take "
            "a job out of its queue; it has to implement withdraw"
        )

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
