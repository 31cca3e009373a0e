"""The hosts of a plan: which are there, which are free, and what a reservation takes of them."""

from __future__ import annotations

from typing import Any

from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.job import Job
from qops_batsim.core.node_profile import can_give
from qops_batsim.core.node_use import NodeUse


class PlanHosts:
    """The hosts of a plan, which counts them or names them.

    Parameters
    ----------
    machine_size
        Number of hosts.
    by_host
        Whether a reservation is of certain whole hosts; else it is a number of processors.

    Attributes
    ----------
    names_hosts
        Whether a reservation is of certain hosts, whole or not.
    everything
        What an empty profile has free: the hosts that are there, or their number.
    present, is_final
        Number of hosts that are there, and whether none will leave or return any more.
    free, free_hosts
        How many hosts a job can start on; which, if reservations name their hosts.
    lost
        Hosts that have left, or were announced to, since the plan was last updated for that.
    losing
        The running jobs that have lost hosts, with how many each.
    """

    def __init__(self, machine_size: int, by_host: bool) -> None:
        self.machine_size = machine_size
        self.by_host = by_host
        self.names_hosts = by_host
        self.all = (1 << machine_size) - 1
        self.everything: Any = self.amount_of(self.all)  # int or HostBits
        self.present = machine_size
        self.is_final = False
        self.free = machine_size
        self.free_hosts = HostBits.of(self.all if by_host else 0, machine_size)
        self.lost = 0
        self.losing: list[tuple[Job, int]] = []

    def amount_of(self, hosts: int) -> int | HostBits:
        """Return what a reservation of these hosts (bits) takes: themselves, or their number."""
        return HostBits.of(hosts, self.machine_size) if self.by_host else hosts.bit_count()

    def amount_for(self, job: Job) -> Any:
        """Return what a job reserves: its number of processors, or a copy of its host set."""
        return HostBits.of(job.bits.mask(), self.machine_size) if self.by_host else job.reserved

    def occupy(self, job: Job, hosts: int) -> None:
        """Set which hosts (bits) a running job takes from the availability profile."""
        if self.by_host:
            job.bits = HostBits.of(hosts, self.machine_size)
        else:
            job.reserved = hosts.bit_count()

    def restore_amount(self, job: Job, amount: Any) -> None:
        """Have a job reserve again what :meth:`amount_for` returned. O(hosts)."""
        if self.by_host:
            job.bits.copy_from(amount)

    def can_hold(self, job: Job) -> bool:
        """Return whether the hosts that are there are enough for a job."""
        return job.processors <= self.present

    def can_start(self, job: Job) -> bool:
        """Return whether enough processors (or the job's planned hosts) are free to start a job
        that is due. O(hosts).
        """
        if job.is_held or job.processors > self.free:
            return False
        return not self.by_host or job.bits.is_within(self.free_hosts)

    def start(self, job: Job) -> None:
        """Take the hosts of a job that starts from the free ones. O(hosts)."""
        self.free -= job.processors
        if self.by_host:
            self.free_hosts.remove(job.bits)

    def resize(self, present: int, is_final: bool) -> None:
        """Set how many hosts are present, and whether none will leave or return any more."""
        self.lost += max(0, self.present - present)
        self.present = present
        self.is_final = is_final


class SharedPlanHosts(PlanHosts):
    """The hosts of a plan whose jobs share them by amounts.

    A reservation is the places that a job holds (``Places``), or the whole hosts of a set.
    """

    def __init__(self, use: NodeUse) -> None:
        PlanHosts.__init__(self, use.layout.hosts, False)
        self.use = use
        self.names_hosts = True
        self.everything = self.amount_of(self.all)

    def amount_of(self, hosts: int) -> HostBits:
        return HostBits.of(hosts, self.machine_size)

    def amount_for(self, job: Job) -> Any:
        return job.request.held.copied()

    def restore_amount(self, job: Job, amount: Any) -> None:
        job.request.held.copy_from(amount)

    def occupy(self, job: Job, hosts: int) -> None:
        held = job.request.held
        if not job.request.is_used:
            self.use.put_on(job, hosts)
            return
        held.copy_from(job.request.used)
        held.keep_within(hosts)

    def can_hold(self, job: Job) -> bool:
        there: int = self.everything.mask()
        return can_give(self.use.layout, job.request, there)

    def can_start(self, job: Job) -> bool:
        return not job.is_held and self.use.fits(job)

    def start(self, job: Job) -> None:
        self.use.take(job)
