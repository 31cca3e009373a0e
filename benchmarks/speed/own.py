"""Schedulers of a user's own, in plain Python."""

from __future__ import annotations

from typing import Any

from qops_batsim import Easy


class ShortestFirst(Easy):
    """EASY in an order of one's own."""

    def key(self, job: Any) -> float:
        return float(job.estimate)


HOOK = "schedule" if hasattr(Easy, "schedule") else "decide"


def _as_before(self: Any, *now: float) -> Any:
    return getattr(Easy, HOOK)(self, *now)


Overridden = type("Overridden", (Easy,), {HOOK: _as_before, "__doc__": "EASY, called in Python."})
