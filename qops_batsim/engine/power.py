"""Power states of hosts: what the properties of a platform say of them, in Batsim's format.

Every speed of a host is that of a power state. In most of them it computes. The property
``sleep_pstates`` names those in which it sleeps, each as ``SLEEP:OFF:ON``: the host goes to sleep
through power state OFF, in which it works off one flop, and wakes up through ON. The property
``wattage_per_state`` has the watts of all power states (``IDLE:LEAST:MOST``), by commas.
"""

from __future__ import annotations

import math

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.platform.model import Host

WATTS = "wattage_per_state"
SLEEP = "sleep_pstates"

COMPUTES, SLEEPS, SWITCHES = "computes", "sleeps", "switches"
"""What a host does in a power state."""

NO_WATTS = (0.0, 0.0, 0.0)


class PowerProfile(msgspec.Struct, frozen=True):
    """The power states of a host.

    ``watts`` are those of each: idle, computing least, computing most. ``ways`` are the power
    states through which it goes to sleep and wakes up, by power state in which it sleeps.
    """

    watts: tuple[tuple[float, float, float], ...]
    ways: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, host: Host) -> PowerProfile:
        """Read a host's properties; InputError if they cannot be read.

        Without watts, the host consumes nothing.

        >>> host = Host(name="a", speeds=(1e9, 1e-3, 2.0, 0.5), properties={SLEEP: "1:2:3"})
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
        """Return what the host does in a power state."""
        if state in self.ways:
            return SLEEPS
        return SWITCHES if any(state in way for way in self.ways.values()) else COMPUTES


def _watts(host: Host) -> tuple[tuple[float, float, float], ...]:
    text = host.properties.get(WATTS)
    if text is None:
        return (NO_WATTS,) * len(host.speeds)
    listed = []
    for part in text.split(","):
        try:
            # Python alone would read 1_000 as 1000.
            watts = [] if "_" in part else [float(each) for each in part.split(":")]
        except ValueError:
            watts = []
        if len(watts) in (2, 3) and all(math.isfinite(each) and each >= 0 for each in watts):
            listed.append((watts[0], watts[-2], watts[-1]))
    if not len(listed) == len(text.split(",")) == len(host.speeds):
        raise InputError(
            f"host {host.name!r}: property {WATTS} is {shown(text)}; IDLE:LEAST:MOST in watts for "
            f"each of its {len(host.speeds)} power states, separated by commas, is expected"
        )
    return tuple(listed)


def _ways(host: Host) -> dict[int, tuple[int, int]]:
    text = host.properties.get(SLEEP)
    if text is None:
        return {}
    ways: dict[int, tuple[int, int]] = {}
    for part in text.split(","):
        numbers = [each.strip() for each in part.split(":")]
        known = [each.isascii() and each.isdigit() and len(each) < 10 for each in numbers]
        states = [int(each) for each in numbers] if all(known) else []
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
