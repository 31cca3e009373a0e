"""The machine's size over time: hosts leave, return, and have maintenance."""

from __future__ import annotations

from typing import NamedTuple

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.refusal import Refusal, RefusalKind


class MaintenanceWindow(NamedTuple):
    """An announced maintenance window: its hosts are away from ``since`` to ``until`` (seconds)."""

    hosts: HostSet
    since: float
    until: float
    has_begun: bool = False


class Capacity:
    """Which hosts are away or in maintenance, now or later, and whether this may still change.

    Attributes
    ----------
    machine_size
        Number of hosts, whether they are there or not.
    away
        The hosts that are away without a known date of return.
    is_known
        Whether the engine has told anything of this.
    is_planned
        Whether the scheduler plans starts ahead, so that it can leave all hosts free for
        maintenance.
    windows
        Announced maintenance that is not over, by start.
    is_final
        Whether no host will leave or return any more.
    """

    __slots__ = ("away", "is_final", "is_known", "is_planned", "machine_size", "windows")

    def __init__(self, machine_size: int) -> None:
        self.machine_size = machine_size
        self.away = HostSet()
        self.is_known = False
        self.is_final = False
        self.is_planned = False
        self.windows: list[MaintenanceWindow] = []

    @property
    def present(self) -> int:
        """Number of hosts that are not away; hosts in maintenance count as present. O(hosts
        / 64).
        """
        return self.machine_size - len(self.away)

    def closed(self, *, drains: bool) -> HostSet:
        """Return the hosts that are away, in maintenance or (``drains``) drained: no job may start
        on them.

        O(windows).
        """
        closed = self.away
        for window in self.windows:
            if window.has_begun or (drains and self.is_drained(window)):
                closed |= window.hosts
        return closed

    def is_drained(self, window: MaintenanceWindow) -> bool:
        """Return whether the hosts of a maintenance window accept no new job from its announcement
        on.

        They accept none (are drained) if the scheduler does not plan ahead, or if other hosts are
        left: a plan of processor counts does not know which hosts a job will get, and a job on
        other hosts may run into the window. If the window takes all present hosts, the plan keeps
        it free.
        """
        others = HostSet.first(self.machine_size) - self.away - window.hosts
        return bool(others) or not self.is_planned

    def announce(self, window: MaintenanceWindow) -> int:
        """Add a maintenance window; return how many of its hosts are present. O(windows)."""
        self.windows.append(window)
        self.windows.sort(key=lambda one: one.since)
        return len(window.hosts - self.away)

    def leave(self, hosts: HostSet) -> None:
        """Take hosts away: for the maintenance that was announced of them, or until they return.

        O(windows).
        """
        for place, window in enumerate(self.windows):
            if window.hosts == hosts and not window.has_begun:
                self.windows[place] = window._replace(has_begun=True)
                return
        self.away |= hosts

    def come_back(self, hosts: HostSet) -> None:
        """Bring hosts back, which ends their maintenance. O(windows)."""
        self.windows = [
            window for window in self.windows if not (window.has_begun and window.hosts == hosts)
        ]
        self.away -= hosts

    def check_dates(self, now: float) -> HostSet | None:
        """Mark the maintenance windows that have begun at ``now`` (seconds); return None if nothing
        has changed.

        Otherwise return the hosts that turn out to have left without maintenance. At one date, the
        engine announces a window after the other events, so only now can the two be told apart.
        O(windows).
        """
        gone = self.away
        for window in self.windows:
            gone |= window.hosts if window.has_begun else HostSet()

        windows = [
            window._replace(has_begun=window.since <= now and not window.hosts - gone)
            for window in self.windows
        ]

        away = gone
        for window in windows:
            away -= window.hosts if window.has_begun else HostSet()
        if windows == self.windows and away == self.away:
            return None

        lost = away - self.away
        self.windows = windows
        self.away = away
        return lost

    def never_fits(self, processors: int) -> Refusal | None:
        """Return why a job of this many processors can never run, None if it may still run."""
        size = self.machine_size
        if not 1 <= processors <= size:
            return Refusal(kind=RefusalKind.TOO_WIDE, processors=processors, machine_size=size)
        if self.is_final and processors > self.present:
            gone = len(self.away)
            return Refusal(
                kind=RefusalKind.HOSTS_GONE, processors=processors, machine_size=size, hosts=gone
            )
        return None
