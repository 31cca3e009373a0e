"""Which hosts compute."""

from __future__ import annotations

from qops_batsim.platform.hostset import HostSet


class HostOccupation:
    """The hosts of a simulation and, with sharing, how many jobs each runs.

    ``computing`` is the number of hosts with at least one job; ``unavailable`` are the hosts
    that can take no job at present.
    """

    __slots__ = ("_busy", "_existing", "_jobs", "_sharing", "computing", "unavailable")

    def __init__(self, count: int, *, sharing: bool) -> None:
        self.computing = 0
        self.unavailable = HostSet()
        self._existing = (1 << count) - 1
        self._busy = 0
        self._sharing = sharing
        self._jobs = [0] * count if sharing else []

    def problem(self, hosts: HostSet) -> tuple[int, str] | None:
        """Return the first host that cannot take a job and why, or None. O(hosts / 64)."""
        mask = hosts.mask
        unknown = mask & ~self._existing
        if unknown:
            last = self._existing.bit_length() - 1
            return _lowest(unknown), f"it does not exist (hosts are 0 to {last})"
        if not self._sharing and mask & self._busy:
            return _lowest(mask & self._busy), "it is computing"
        if mask & self.unavailable.mask:
            return _lowest(mask & self.unavailable.mask), "it is unavailable"
        return None

    def unknown(self, hosts: HostSet) -> HostSet:
        return HostSet(hosts.mask & ~self._existing)

    def take(self, hosts: HostSet) -> None:
        self._busy |= hosts.mask
        if self._sharing:
            for host in hosts:
                self._jobs[host] += 1
        self.computing = self._busy.bit_count()

    def release(self, hosts: HostSet) -> None:
        if self._sharing:
            for host in hosts:
                self._jobs[host] -= 1
                if not self._jobs[host]:
                    self._busy &= ~(1 << host)
        else:
            self._busy &= ~hosts.mask
        self.computing = self._busy.bit_count()


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
