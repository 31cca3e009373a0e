"""The size of the machine over time: hosts go away and return."""

from __future__ import annotations

from typing import NamedTuple

from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.events import MACHINES_AWAY, MACHINES_BACK, MAINTENANCE, Notify
from qops_batsim.scheduling.refusal import Refusal, RefusalKind


class Window(NamedTuple):
    """Announced maintenance: hosts are away from one date to another (seconds)."""

    hosts: HostSet
    since: float
    until: float
    has_begun: bool = False

    @classmethod
    def told(cls, notice: Notify) -> Window:
        """Return the window that a notification announces."""
        hosts = HostSet.parse(str(notice.fields.get("resources", "")))
        return cls(hosts, float(notice.fields["start"]), float(notice.fields["end"]))


class Capacity:
    """Hosts that are away or will be, and whether they may still return.

    Attributes
    ----------
    machine_size
        Number of hosts, whether they are there or not.
    away
        The hosts that are away, nobody knows until when.
    is_planned
        Whether jobs are planned, so that none is to run when all hosts are under maintenance.
    windows
        Announced maintenance that is not over, by start.
    is_final
        Whether no host will leave or return any more.
    """

    __slots__ = ("away", "is_final", "is_planned", "machine_size", "windows")

    def __init__(self, machine_size: int) -> None:
        self.machine_size = machine_size
        self.away = HostSet()
        self.is_final = False
        self.is_planned = False
        self.windows: list[Window] = []

    @property
    def present(self) -> int:
        """Number of hosts that are there, free or not, or under maintenance. O(hosts / 64)."""
        return self.machine_size - len(self.away)

    def closed(self, *, drains: bool) -> HostSet:
        """Return the hosts on which nothing may start; those that are drained as well, if any are.

        O(windows).
        """
        closed = self.away
        for window in self.windows:
            if window.has_begun or (drains and self.is_drained(window)):
                closed |= window.hosts
        return closed

    def is_drained(self, window: Window) -> bool:
        """Tell whether hosts take no job from the notice of a window on.

        So they are for a scheduler that plans with numbers of processors: which of them a job will
        have is not known, and it may reach into the window on others. If none are left it cannot.
        They always are for one that does not plan.
        """
        others = HostSet.first(self.machine_size) - self.away - window.hosts
        return bool(others) or not self.is_planned

    def note(self, notice: Notify) -> HostSet | None:
        """Note that hosts leave, return or will leave; None if that is not what is told.

        Returned is what nobody knew of that is not there now or later. O(windows).
        """
        if notice.type == MAINTENANCE:
            window = Window.told(notice)
            if not window.hosts - self.away:
                # Told last of what happens at one date: :meth:`check_dates` sees if it is another.
                window = window._replace(has_begun=True)
                self.away -= window.hosts
            self.windows.append(window)
            self.windows.sort(key=lambda each: each.since)
            return window.hosts
        if notice.type not in (MACHINES_AWAY, MACHINES_BACK):
            return None
        hosts = HostSet.parse(str(notice.fields.get("resources", "")))
        if notice.type == MACHINES_BACK:
            gone = [each for each in self.windows if each.hosts == hosts and each.has_begun]
            self.windows = [each for each in self.windows if each not in gone]
            self.away -= hosts
            return HostSet()
        for place, window in enumerate(self.windows):
            if window.hosts == hosts and not window.has_begun:
                self.windows[place] = window._replace(has_begun=True)
                return HostSet()
        self.away |= hosts
        return hosts

    def check_dates(self, now: float) -> bool:
        """Count hosts as away that have left before their maintenance; tell if there are any."""
        early = [each for each in self.windows if each.has_begun and each.since > now]
        for window in early:
            self.windows[self.windows.index(window)] = window._replace(has_begun=False)
            self.away |= window.hosts
        return bool(early)

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
