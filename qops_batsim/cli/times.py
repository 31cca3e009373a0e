"""Dates and durations as people write and read them."""

from __future__ import annotations

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def duration_text(seconds: float) -> str:
    """Return a duration in words, exact to the second: ``2 h 36 min 47 s``."""
    sign, rest = ("-" if round(seconds) < 0 else ""), abs(round(seconds))
    parts = []
    for size, unit in _UNITS:
        if rest >= size:
            parts.append(f"{rest // size} {unit}")
            rest %= size
    if rest or not parts:
        parts.append(f"{rest} s")
    return sign + " ".join(parts)


def date_text(seconds: float | None) -> str:
    """Return a date of a simulation in seconds, ``-`` for none."""
    if seconds is None:
        return "-"
    return f"{seconds:,.0f}" if seconds == round(seconds) else f"{seconds:,.2f}"
