"""Energy that hosts consume, from their property ``wattage_per_state``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from qops_batsim.errors import InputError
from qops_batsim.platform.model import Host

PROPERTY = "wattage_per_state"


class EnergyMeter:
    """Joules consumed by each host of a simulation.

    A host consumes its idle power while nothing computes on it, and otherwise
    goes from its lowest to its highest computing power in proportion to its load.
    Hosts without the property consume nothing.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._watts = [wattage(host) for host in hosts]
        self._power = [idle for idle, _, _ in self._watts]
        self._joules = [0.0] * len(hosts)
        self._since = [0.0] * len(hosts)
        self._loads: dict[int, float] = {}

    def set_loads(self, loads: dict[int, float], now: float) -> None:
        """Note the loads (0 to 1) from now on of the hosts that compute. O(hosts that compute)."""
        for host in self._loads.keys() | loads.keys():
            load = loads.get(host, 0.0)
            if load != self._loads.get(host, 0.0):
                self._bring_up(host, now)
                idle, lowest, highest = self._watts[host]
                self._power[host] = lowest + load * (highest - lowest) if load else idle
        self._loads = loads

    def consumed(self, hosts: Iterable[int], now: float) -> float:
        """Return the joules consumed by some hosts since the beginning."""
        total = []
        for host in hosts:
            self._bring_up(host, now)
            total.append(self._joules[host])
        return math.fsum(total)

    def _bring_up(self, host: int, now: float) -> None:
        self._joules[host] += self._power[host] * (now - self._since[host])
        self._since[host] = now


def wattage(host: Host) -> tuple[float, float, float]:
    """Return the watts of a host in its normal power state: idle, computing least, computing most.

    >>> wattage(Host(name="a", speeds=(1e9, 1e8), properties={PROPERTY: "95:190.5,93:170"}))
    (95.0, 95.0, 190.5)
    """
    text = host.properties.get(PROPERTY)
    if text is None:
        return 0.0, 0.0, 0.0
    parts = text.split(",")[0].split(":")
    try:
        watts = [float(part) for part in parts]
    except ValueError:
        watts = []
    if len(watts) not in (2, 3) or not all(math.isfinite(each) and each >= 0 for each in watts):
        raise InputError(
            f"host {host.name!r}: property {PROPERTY} is {text!r}; IDLE:LEAST:MOST in watts, for "
            "each power state separated by commas, is expected"
        )
    return watts[0], watts[-2], watts[-1]
