"""Hosts whose power states matter: what each does, since when, and how long it has done that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from qops_batsim.engine.hosts import HostOccupation
from qops_batsim.engine.power import COMPUTES, PowerProfile
from qops_batsim.platform.hostset import HostSet
from qops_batsim.platform.model import Host

SLEEPING, SWITCHING_ON, SWITCHING_OFF, IDLE, COMPUTING, UNAVAILABLE = range(6)
"""What a host can do; the first five in the order of ``_machine_states.csv``."""

NAMES = ("sleeping", "switching_on", "switching_off", "idle", "computing", "unavailable")
"""Batsim's names for that."""


class PowerStateChange(NamedTuple):
    """Hosts have been in a power state since a date (seconds).

    -1 and -2 are Batsim's for hosts that are on their way to one in which they compute or sleep.
    """

    date: float
    hosts: HostSet
    state: int


class SwitchableHosts(HostOccupation):
    """The compute hosts of a simulation with energy, and storage hosts, which only idle.

    Attributes
    ----------
    profiles, power_states
        The power states of each host, and the one it is in.
    noted
        What Batsim would write to ``_pstate_changes.csv``.
    seconds
        How long hosts did what, up to the last change of each, in the order of :data:`NAMES`.
    """

    __slots__ = ("_doing", "_since", "noted", "power_states", "profiles", "seconds")

    def __init__(
        self, hosts: Sequence[Host], profiles: Sequence[PowerProfile], count: int, *, sharing: bool
    ) -> None:
        super().__init__(count, sharing=sharing)
        self.profiles = profiles
        self.power_states = [host.power_state for host in hosts]
        self._doing = np.full(count, IDLE)
        self._since = np.zeros(count)
        self.seconds = np.zeros(len(NAMES), np.longdouble)
        at_first = sorted({*self.power_states})
        self.noted = [
            PowerStateChange(0.0, HostSet.of(h for h, s in self._stated() if s == state), state)
            for state in at_first
        ]

    def _stated(self) -> Sequence[tuple[int, int]]:
        return list(enumerate(self.power_states))

    @property
    def counts(self) -> tuple[int, int]:
        counts = self.all_counts
        return counts[COMPUTING], counts[IDLE]

    @property
    def all_counts(self) -> list[int]:
        """Numbers of hosts that do what, in the order of :data:`NAMES`."""
        counts: list[int] = np.bincount(self._doing, minlength=len(NAMES)).tolist()
        return counts

    def doing(self, host: int) -> int:
        """Return what a host does."""
        return int(self._doing[host])

    def set_doing(self, host: int, doing: int, now: float) -> None:
        """Note what a host does from now on."""
        self._set(np.array([host]), doing, now)

    def problem(self, hosts: HostSet) -> tuple[int, str] | None:
        found = super().problem(hosts)
        if found is not None:
            return found
        for host in hosts:
            if self._doing[host] not in (IDLE, COMPUTING):
                return host, f"it is {NAMES[self._doing[host]].replace('_', ' ')}"
            state = self.power_states[host]
            if self.profiles[host].activity(state) != COMPUTES:
                return host, f"it is in power state {state}, in which it does not compute"
        return None

    def take(self, hosts: HostSet, now: float) -> None:
        super().take(hosts, now)
        self._set(np.fromiter(hosts, np.int64), COMPUTING, now)

    def release(self, hosts: HostSet, now: float) -> None:
        super().release(hosts, now)
        free = np.fromiter(HostSet(hosts.mask & ~self._busy), np.int64)
        self._set(free[self._doing[free] != UNAVAILABLE], IDLE, now)

    def leave(self, hosts: HostSet, now: float) -> None:
        super().leave(hosts, now)
        self._set(np.fromiter(hosts, np.int64), UNAVAILABLE, now)

    def come_back(self, hosts: HostSet, now: float) -> None:
        super().come_back(hosts, now)
        self._set(np.fromiter(hosts & HostSet(self._busy), np.int64), COMPUTING, now)
        self._set(np.fromiter(hosts - HostSet(self._busy), np.int64), IDLE, now)

    def _set(self, hosts: np.ndarray, doing: int, now: float) -> None:
        np.add.at(self.seconds, self._doing[hosts], now - self._since[hosts])
        self._doing[hosts] = doing
        self._since[hosts] = now


def format_power_state_changes(noted: Sequence[PowerStateChange]) -> str:
    """Return ``_pstate_changes.csv``."""
    rows = (f"{date:g},{hosts},{state}\n" for date, hosts, state in noted)
    return "time,machine_id,new_pstate\n" + "".join(rows)
