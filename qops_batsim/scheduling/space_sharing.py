"""What all schedulers share that give each job hosts of its own."""

from __future__ import annotations

from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.decisions import Decision, ExecuteJob, RejectJob
from qops_batsim.protocol.events import MACHINES_AWAY, MACHINES_BACK, JobCompleted, Notify
from qops_batsim.scheduling.module import DecisionModule, SchedulerOptions, System


class SpaceSharingScheduler(DecisionModule):
    """Base of schedulers of rigid jobs on interchangeable hosts, one job a host.

    Planning counts processors; concrete hosts, the lowest free ones, are chosen
    only when a job starts. Jobs that can never run (wider than the machine, or
    without any processor) are rejected at submission. Hosts that become unavailable
    take no further job until they are back.

    A subclass implements :meth:`arrived`, :meth:`left` and :meth:`schedule`.
    """

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        super().__init__(options)
        self.machine_size = 0
        self.free_count = 0
        self.free_hosts = HostSet()
        self._decisions: list[Decision] = []
        self._hosts_of: dict[str, HostSet] = {}
        self._away = HostSet()

    def begin(self, system: System) -> None:
        """Start with all hosts free."""
        self.machine_size = self.free_count = len(system.hosts)
        self.free_hosts = HostSet.first(self.machine_size)
        self._decisions = []
        self._hosts_of = {}
        self._away = HostSet()

    def submitted(self, job: Job) -> None:
        """Queue a job that fits the machine, reject one that never will."""
        if 1 <= job.processors <= self.machine_size:
            self.arrived(job)
        else:
            wanted = "no processor" if job.processors == 0 else f"{job.processors} processors"
            reason = f"asks for {wanted}, the machine has {self.machine_size}"
            self.qos_log.record(job.id).reason = reason
            self._decisions.append(RejectJob(job.id))

    def completed(self, event: JobCompleted) -> None:
        """Take the job's hosts back."""
        hosts = self._hosts_of.pop(event.job_id, None)
        if hosts is None:
            return  # Not started by this module: nothing of ours to take back.
        self._give_back(hosts - self._away)
        self.left(event.job_id)

    def notified(self, notification: Notify) -> None:
        """Take hosts out of use while they are unavailable; jobs that run there go on."""
        if notification.type not in (MACHINES_AWAY, MACHINES_BACK):
            return
        hosts = HostSet.parse(str(notification.fields.get("resources", "")))
        if notification.type == MACHINES_AWAY:
            self._away |= hosts
            self.free_hosts -= hosts
            self.free_count = len(self.free_hosts)
            return
        self._away -= hosts
        for running in self._hosts_of.values():
            hosts -= running
        self._give_back(hosts)

    def _give_back(self, hosts: HostSet) -> None:
        self.free_hosts |= hosts
        self.free_count = len(self.free_hosts)

    def decide(self, now: float) -> list[Decision]:
        """Return the rejections since the last message and the jobs that start now."""
        self.schedule(now)
        decisions = self._decisions
        self._decisions = []
        return decisions

    def start(self, job: Job, hosts: HostSet | None = None) -> None:
        """Start a job now on the given free hosts, by default the lowest ones."""
        if hosts is None:
            hosts = self.free_hosts.lowest(job.processors)
        self.free_hosts -= hosts
        self.free_count -= job.processors
        self._hosts_of[job.id] = hosts
        self._decisions.append(ExecuteJob(job.id, hosts))

    def arrived(self, job: Job) -> None:
        """Take note of a job that waits from now on."""
        raise NotImplementedError

    def left(self, job_id: str) -> None:
        """Take note that a started job has left its hosts, already counted as free."""
        raise NotImplementedError

    def schedule(self, now: float) -> None:
        """Call :meth:`start` for every job that starts at this date (seconds)."""
        raise NotImplementedError
