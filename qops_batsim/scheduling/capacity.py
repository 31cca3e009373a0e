"""The size of the machine over time: hosts go away and return."""

from __future__ import annotations

from qops_batsim.platform.hostset import HostSet


class Capacity:
    """Which hosts are away, and whether they may still return.

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

    def never_fits(self, processors: int) -> str:
        """Say why a job of so many processors can never run, if so."""
        size = self.machine_size
        if not 1 <= processors <= size:
            wanted = "no processor" if processors == 0 else f"{processors} processors"
            return f"asks for {wanted}, the machine has {size}"
        if self.is_final and processors > self.present:
            gone = len(self.away)
            are = "is" if gone == 1 else "are"
            return (
                f"asks for {processors} processors; {gone} of {size} hosts {are} gone and will "
                "not return"
            )
        return ""
