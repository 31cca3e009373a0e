"""When hosts are away."""

from __future__ import annotations

import math

import msgspec


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts (``"0-3 5"``) that are away from a date on, up to another (seconds).

    ``to`` is None where they never return.
    """

    hosts: str
    since: float
    to: float | None = None

    @property
    def until(self) -> float:
        """When the hosts return (seconds), infinite if they never do."""
        return math.inf if self.to is None else self.to
