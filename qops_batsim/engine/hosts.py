"""Which hosts compute."""

from __future__ import annotations

from qops_batsim.errors import InputError
from qops_batsim.platform.hostset import HostSet
from qops_batsim.platform.model import Host, Platform


class HostOccupation:
    """The hosts of a simulation and, with sharing, how many jobs each runs.

    ``unavailable`` are the hosts that can take no job at present; those with jobs compute on.
    """

    __slots__ = ("_busy", "_count", "_existing", "_jobs", "_sharing", "unavailable")

    def __init__(self, count: int, *, sharing: bool) -> None:
        self.unavailable = HostSet()
        self._count = count
        self._existing = (1 << count) - 1
        self._busy = 0
        self._sharing = sharing
        self._jobs = [0] * count if sharing else []

    @property
    def counts(self) -> tuple[int, int]:
        """Number of hosts with at least one job, and of idle ones; none that is away."""
        away = self.unavailable.mask
        if not away:
            computing = self._busy.bit_count()
            return computing, self._count - computing
        there = self._existing & ~away
        computing = (self._busy & there).bit_count()
        return computing, there.bit_count() - computing

    def problem(self, hosts: HostSet) -> tuple[int, str] | None:
        """Return the first host that cannot take a job and why, or None. O(hosts / 64)."""
        mask = hosts.mask
        if mask.bit_length() > self._count:
            last = self._count - 1
            return _lowest(mask & ~self._existing), f"it does not exist (hosts are 0 to {last})"
        if not self._sharing and mask & self._busy:
            return _lowest(mask & self._busy), "it is computing"
        if mask & self.unavailable.mask:
            return _lowest(mask & self.unavailable.mask), "it is unavailable"
        return None

    def take(self, hosts: HostSet, now: float) -> None:
        """Let a job have hosts from now on."""
        self._busy |= hosts.mask
        if self._sharing:
            for host in hosts:
                self._jobs[host] += 1

    def release(self, hosts: HostSet, now: float) -> None:
        """Let a job have hosts no longer."""
        if self._sharing:
            for host in hosts:
                self._jobs[host] -= 1
                if not self._jobs[host]:
                    self._busy &= ~(1 << host)
        else:
            self._busy &= ~hosts.mask

    def leave(self, hosts: HostSet, now: float) -> None:
        """Let hosts go away."""
        self.unavailable |= hosts

    def come_back(self, hosts: HostSet, now: float) -> None:
        """Let hosts return."""
        self.unavailable -= hosts


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def limited_hosts(platform: Platform, limit: int | None) -> tuple[Host, ...]:
    """Return the compute hosts of a platform, or the first so many; InputError if it has fewer."""
    hosts = platform.compute_hosts
    if limit is None:
        return hosts
    if not 1 <= limit <= len(hosts):
        raise InputError(
            f"{platform.source}: {limit} hosts were asked for; from 1 to {len(hosts)} are accepted"
        )
    return hosts[:limit]
