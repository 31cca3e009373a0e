"""Hosts of a simulation: which compute, and their power states.

Every speed of a host is that of a power state. In most of them it computes. The property
``sleep_pstates`` names those in which it sleeps, each as ``SLEEP:OFF:ON``: the host goes to sleep
through power state OFF, in which it works off one flop, and wakes up through ON. The property
``wattage_per_state`` has the watts of all power states (``IDLE:LEAST:MOST``), by commas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.machine import Machine
from qops_batsim.errors import InputError, shown
from qops_batsim.platform.platform_model import Host, Platform


class HostOccupation:
    """Which hosts are occupied and, with sharing, by how many jobs.

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
        """Numbers of occupied and of idle hosts; unavailable hosts are not counted."""
        away = self.unavailable.mask
        if not away:
            computing = self._busy.bit_count()
            return computing, self._count - computing
        there = self._existing & ~away
        computing = (self._busy & there).bit_count()
        return computing, there.bit_count() - computing

    def problem(self, hosts: HostSet) -> tuple[int, str] | None:
        """Return the first host that cannot take a job, and why, or None. O(hosts / 64)."""
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
        """Allocate hosts to a job."""
        self._busy |= hosts.mask
        if self._sharing:
            for host in hosts:
                self._jobs[host] += 1

    def release(self, hosts: HostSet, now: float) -> None:
        """Release a job's hosts."""
        if self._sharing:
            for host in hosts:
                self._jobs[host] -= 1
                if not self._jobs[host]:
                    self._busy &= ~(1 << host)
        else:
            self._busy &= ~hosts.mask

    def leave(self, hosts: HostSet, now: float) -> None:
        """Make hosts unavailable."""
        self.unavailable |= hosts

    def come_back(self, hosts: HostSet, now: float) -> None:
        """Make hosts available again."""
        self.unavailable -= hosts


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def limited_hosts(platform: Platform, limit: int | None) -> tuple[Host, ...]:
    """Return the first ``limit`` compute hosts of a platform (None: all); InputError if too few."""
    hosts = platform.compute_hosts
    if limit is None:
        return hosts
    if not 1 <= limit <= len(hosts):
        raise InputError(
            f"{platform.source}: {limit} hosts were asked for; from 1 to {len(hosts)} are accepted"
        )
    return hosts[:limit]


def machine_in_use(platform: Platform, limit: int | None) -> Machine | None:
    """Return what the first ``limit`` compute hosts have for jobs that share them (None: all)."""
    machine = platform.machine
    if machine is None or limit is None:
        return machine
    return msgspec.structs.replace(platform, compute_hosts=limited_hosts(platform, limit)).machine


WATTS = "wattage_per_state"
SLEEP = "sleep_pstates"

_RENAMED = {"watt_per_state": WATTS, "power_per_state": WATTS, "watt_off": "wattage_off"}
"""Names of properties that SimGrid no longer reads, with the present ones."""

COMPUTES = "computes"
SLEEPS = "sleeps"
SWITCHES = "switches"
"""States of a host in one power state."""


class PowerProfile(msgspec.Struct, frozen=True):
    """The power states of a host.

    ``watts`` are those of each: idle, computing least, computing most. ``ways`` are the power
    states through which it goes to sleep and wakes up, by power state in which it sleeps.
    """

    watts: tuple[tuple[float, float, float], ...]
    ways: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, host: Host) -> PowerProfile:
        """Read the power states in a host's properties; InputError if invalid.

        Batsim aborts where a host has no watts.

        >>> watts = {WATTS: "10:10:20,1:1:1,5:5:5,5:5:5"}
        >>> speeds, properties = (1e9, 1e-3, 2.0, 0.5), {SLEEP: "1:2:3", **watts}
        >>> host = Host(name="a", speeds=speeds, properties=properties)
        >>> PowerProfile.of(host).ways
        {1: (2, 3)}
        """
        found = cls(watts=_watts(host), ways=_ways(host))
        for state, speed in enumerate(host.speeds):
            if not speed > 0 and found.activity(state) == COMPUTES:
                raise InputError(
                    f"host {host.name!r}: speed of power state {state} is {speed:g} flop/s, and "
                    f"{SLEEP} does not name it; above 0 is expected where a host computes"
                )
        return found

    def activity(self, state: int) -> str:
        """Return what a host does in a power state: compute, sleep or switch (:data:`NAMES`)."""
        if state in self.ways:
            return SLEEPS
        return SWITCHES if any(state in way for way in self.ways.values()) else COMPUTES


def _watts(host: Host) -> tuple[tuple[float, float, float], ...]:
    for old, new in _RENAMED.items():
        if old in host.properties and new not in host.properties:
            raise InputError(
                f"host {host.name!r}: property {old} is not read; its name is {new} since SimGrid "
                "3.24"
            )
    text = host.properties.get(WATTS, "")
    listed = []
    for part in text.split(","):
        try:
            # Python alone would read 1_000 as 1000.
            watts = [] if "_" in part else [float(number) for number in part.split(":")]
        except ValueError:
            watts = []
        if len(watts) in (2, 3) and all(math.isfinite(number) and number >= 0 for number in watts):
            listed.append((watts[0], watts[-2], watts[-1]))

    if not len(listed) == len(text.split(",")) == len(host.speeds):
        raise InputError(
            f"host {host.name!r}: property {WATTS} is {shown(text) if text else 'missing'}; "
            "IDLE:LEAST:MOST or IDLE:MOST in watts for each of its "
            f"{len(host.speeds)} power states, separated by commas, is expected"
        )
    return tuple(listed)


def _ways(host: Host) -> dict[int, tuple[int, int]]:
    text = host.properties.get(SLEEP)
    if text is None:
        return {}

    ways: dict[int, tuple[int, int]] = {}
    for part in text.split(","):
        numbers = [number.strip() for number in part.split(":")]
        known = [number.isascii() and number.isdigit() and len(number) < 10 for number in numbers]
        states = [int(number) for number in numbers] if all(known) else []
        if len(states) != 3 or max(states) >= len(host.speeds):
            raise InputError(
                f"host {host.name!r}: property {SLEEP} is {shown(text)}; SLEEP:OFF:ON, three of "
                f"its power states 0 to {len(host.speeds) - 1}, separated by commas, is expected"
            )
        ways[states[0]] = (states[1], states[2])

    passed = {state for way in ways.values() for state in way}
    if len(ways) < len(text.split(",")) or passed & ways.keys():
        raise InputError(
            f"host {host.name!r}: property {SLEEP} is {shown(text)}; it gives a power state two "
            "meanings, one is expected"
        )
    return ways


SLEEPING, SWITCHING_ON, SWITCHING_OFF, IDLE, COMPUTING, UNAVAILABLE = range(6)
"""States of a host; the first five in the order of ``_machine_states.csv``."""

NAMES = ("sleeping", "switching_on", "switching_off", "idle", "computing", "unavailable")
"""Batsim's names for that."""


class PowerStateChange(NamedTuple):
    """A power state of hosts from a date on (seconds).

    -1 and -2 are Batsim's for hosts that are on their way to one in which they compute or sleep.
    """

    date: float
    hosts: HostSet
    state: int


class SwitchableHosts(HostOccupation):
    """Compute hosts of a simulation with energy, and storage hosts, which only idle.

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
        numbered = list(enumerate(self.power_states))
        self.noted = [
            PowerStateChange(0.0, HostSet.of(host for host, at in numbered if at == state), state)
            for state in sorted({*self.power_states})
        ]

    @property
    def counts(self) -> tuple[int, int]:
        counts = self.all_counts
        return counts[COMPUTING], counts[IDLE]

    @property
    def all_counts(self) -> list[int]:
        """Numbers of hosts by activity, in the order of :data:`NAMES`."""
        counts: list[int] = np.bincount(self._doing, minlength=len(NAMES)).tolist()
        return counts

    def doing(self, host: int) -> int:
        """Return what a host does (idle, computing ...), as an index into :data:`NAMES`."""
        return int(self._doing[host])

    def set_doing(self, host: int, doing: int, now: float) -> None:
        """Set what a host does from now on, an index into :data:`NAMES`."""
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
