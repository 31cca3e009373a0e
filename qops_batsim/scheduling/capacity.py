"""The size of the machine over time: hosts go away and return."""

from __future__ import annotations

from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.refusal import Refusal, RefusalKind


class Capacity:
    """Hosts that are away, and whether they may still return.

    Attributes
    ----------
    machine_size
        Number of hosts, whether they are there or not.
    away
        The hosts that are away.
    is_final
        Whether no host will leave or return any more.
    """

    __slots__ = ("away", "is_final", "machine_size")

    def __init__(self, machine_size: int) -> None:
        self.machine_size = machine_size
        self.away = HostSet()
        self.is_final = False

    @property
    def present(self) -> int:
        """Number of hosts that are there, free or not. O(hosts / 64)."""
        return self.machine_size - len(self.away)

    def never_fits(self, processors: int) -> Refusal | None:
        """Return why a job of so many processors can never run, if so."""
        size = self.machine_size
        if not 1 <= processors <= size:
            return Refusal(kind=RefusalKind.TOO_WIDE, processors=processors, machine_size=size)
        if self.is_final and processors > self.present:
            gone = len(self.away)
            return Refusal(
                kind=RefusalKind.HOSTS_GONE, processors=processors, machine_size=size, hosts=gone
            )
        return None
