"""Energy consumption of hosts, as SimGrid meters it and Batsim writes it.

What a host consumed since the meter was read last is found out only when it is read again, from
its load at that time. SimGrid reads the meter of a host when a computation on it ends or is
stopped, when its power state changes, when its one executor starts, when what an actor on it waits
for ends; and Batsim those of all hosts at every start and end of a job and every switch. What
changes the load of a host at another date (the end of a latency, or what other jobs on the same
links do) is therefore metered as if it had held since the last reading. Up to its first reading, a
host is metered as in its first power state, whichever it is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from qops_batsim.engine.host_states import SwitchableHosts
from qops_batsim.platform.platform_model import Host

JOB_STARTS = "s"
JOB_ENDS = "e"
POWER_STATES = "p"
"""Kinds of entries in ``_consumed_energy.csv``."""

HEADER = "time,energy,event_type,wattmin,epower\n"


class EnergyEntry(NamedTuple):
    """Row of ``_consumed_energy.csv``: date (s), energy (J), kind of event, least power (W)."""

    date: float
    joules: np.longdouble
    kind: str
    least: np.longdouble


class EnergyMeter:
    """Energy consumed by each host of a simulation (joules).

    Attributes
    ----------
    switchable
        The hosts with their power states.
    entries
        What Batsim would write to ``_consumed_energy.csv``.
    first_submission, last_end
        Joules of all hosts at the first submission and at the last end of a job; -1 without.
    """

    def __init__(self, hosts: Sequence[Host], switchable: SwitchableHosts) -> None:
        count = len(hosts)
        self.switchable = switchable
        self._hosts = hosts
        self._profiles = switchable.profiles
        self._states = [0] * count
        self._begun_in = {n: h.power_state for n, h in enumerate(hosts) if h.power_state}
        self._flows: dict[int, float] = {}
        self._power = np.zeros(count)
        self._least = np.zeros(count)
        self._joules = np.zeros(count)
        self._since = np.zeros(count)

        self.entries: list[EnergyEntry] = []
        self.first_submission = np.longdouble(-1)
        self.last_end = self.first_submission

        for host in range(count):
            self._set_power(host)
            self._set_least(host, hosts[host].power_state)

    def read(self, hosts: Iterable[int], now: float) -> np.longdouble:
        """Return the total joules consumed by some hosts so far."""
        which = np.fromiter(hosts, np.int64)
        self._joules[which] += self._power[which] * (now - self._since[which])
        self._since[which] = now
        if self._begun_in and now > 0:
            self._correct_states(which.tolist())
        return sum_in_order(self._joules[which])

    def read_all(self, now: float) -> np.longdouble:
        self._joules += self._power * (now - self._since)
        self._since[:] = now
        if self._begun_in and now > 0:
            self._correct_states(range(len(self._states)))
        return sum_in_order(self._joules)

    @property
    def count(self) -> int:
        """Number of hosts."""
        return len(self._hosts)

    def is_behind(self, host: int, now: float) -> bool:
        """Return whether a host's energy was last computed before the date ``now``."""
        return bool(self._since[host] < now)

    def note(self, kind: str, now: float) -> None:
        """Record the energy of all hosts at a date, as a row of ``_consumed_energy.csv``."""
        joules = self.read_all(now)
        if kind == JOB_ENDS:
            self.last_end = joules
        self.entries.append(EnergyEntry(now, joules, kind, sum_in_order(self._least)))

    def note_submission(self, now: float) -> None:
        """Called before each submission: record the energy of all hosts at the first one."""
        if self.first_submission < 0:
            self.first_submission = self.read_all(now)

    def set_flow(self, host: int, flow: float) -> None:
        """Set the sum of the rates of all computations on a host (flop/s)."""
        if flow != self._flows.get(host, 0.0):
            self._flows[host] = flow
            self._set_power(host)

    def enter(self, host: int, state: int, now: float) -> None:
        """Put a host into a power state, after adding the energy that it consumed until ``now``."""
        self.read((host,), now)
        self._begun_in.pop(host, None)
        self.switchable.power_states[host] = state
        self._states[host] = state
        self._set_power(host)
        self._set_least(host, state)

    def start_single(self, host: int, now: float) -> None:
        """Called when a computation on one host starts: read the host's meter as SimGrid does."""
        self.read((host,), now)
        self._correct_states((host,))

    def _correct_states(self, hosts: Iterable[int]) -> None:
        for host in hosts:
            state = self._begun_in.pop(host, None)
            if state is not None:
                self._states[host] = state
                self._set_power(host)

    def _set_least(self, host: int, state: int) -> None:
        self._least[host] = self._profiles[host].watts[state][1]

    def _set_power(self, host: int) -> None:
        state = self._states[host]
        described = self._hosts[host]
        idle, least, most = self._profiles[host].watts[state]
        speed = described.speeds[state]
        # Without any speed, SimGrid takes a host for fully loaded.
        load = self._flows.get(host, 0.0) / speed / described.cores if speed > 0 else 1.0
        self._power[host] = least + min(load, 1.0) * (most - least) if load > 0 else idle


def sum_in_order(values: np.ndarray) -> np.longdouble:
    """Return the sum of values, added one by one in extended precision, like Batsim."""
    if not len(values):
        return np.longdouble(0)
    added: np.longdouble = np.add.accumulate(values, dtype=np.longdouble)[-1]
    return added


def format_consumed_energy(entries: Sequence[EnergyEntry]) -> str:
    """Return ``_consumed_energy.csv``, with a row for each start and end of a job and power switch.

    The power is the mean since the row before, if that is of an earlier date.
    """
    rows = [HEADER]
    date, joules = 0.0, np.longdouble(0)
    for entry in entries:
        seconds = np.longdouble(entry.date) - np.longdouble(date)
        power = f"{float((entry.joules - joules) / seconds):.6f}" if seconds > 0 else "NA"
        date, joules = entry.date, entry.joules
        rows.append(
            f"{date:.6f},{_decimals(joules)},{entry.kind},{_decimals(entry.least)},{power}\n"
        )
    return "".join(rows)


def _decimals(value: np.longdouble) -> str:
    """Format as ``%Lf`` does."""
    return np.format_float_positional(value, precision=6, unique=False, trim="k")
