"""Durations, dates and numbers as texts for readers, in commands, reports, pictures and errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from qops_batsim.timing import SAME_DATE

if TYPE_CHECKING:
    from qops_batsim.dates import Calendar

_UNITS = ((86_400, "d", "day"), (3_600, "h", "hour"), (60, "min", "minute"))


def duration_text(seconds: float) -> str:
    """Format a duration to the second: ``2 h 36 min 47 s``."""
    sign = "-" if round(seconds) < 0 else ""
    rest = abs(round(seconds))
    parts = []
    for size, unit, _ in _UNITS:
        if rest >= size:
            parts.append(f"{rest // size} {unit}")
            rest %= size
    if rest or not parts:
        parts.append(f"{rest} s")
    return sign + " ".join(parts)


def round_duration_text(seconds: float) -> str:
    """Format a duration in the largest unit of which it is a whole multiple: ``6 hours``."""
    for size, _, name in _UNITS:
        if seconds >= size and seconds % size == 0:
            count = seconds / size
            return f"{count:g} {name}" + ("" if count == 1 else "s")
    return f"{seconds:g} s"


def second_text(seconds: float | None) -> str:
    """Format a simulation date as seconds without a unit; ``-`` for None."""
    if seconds is None:
        return "-"
    return f"{seconds:,.0f}" if seconds == round(seconds) else f"{seconds:,.2f}"


def moment_text(seconds: float | None, calendar: Calendar | None) -> str:
    """Format a simulation date: as a calendar date if a calendar is given, else in seconds."""
    if seconds is None:
        return "-"
    return f"{second_text(seconds)} s" if calendar is None else calendar.text(seconds)


def date_text(unix_seconds: float) -> str:
    """Format a date (seconds since 1970) in this machine's time zone, with its offset from UTC."""
    try:
        return datetime.fromtimestamp(round(unix_seconds), UTC).astimezone().isoformat(" ")
    except (OverflowError, ValueError, OSError):
        return f"{unix_seconds:.0f} s since 1970"


def number_text(value: float | None, factor: float = 1.0, *, decimals: int = 2) -> str:
    """Format ``value * factor`` with thousands separators; ``-`` for None."""
    return "-" if value is None else f"{value * factor:,.{decimals}f}"


def exact_text(value: float) -> str:
    """Format a number with all its digits, without the rounding errors of floats.

    >>> exact_text(18567.0), exact_text(1234567.891), exact_text(62645.41015625)
    ('18567', '1234567.891', '62645.41015625')
    >>> exact_text(0.1 + 0.2)
    '0.3'
    """
    if not abs(value) < 1e15:
        return repr(float(value))
    if value % 1 == 0:
        return f"{value:.0f}"
    text = f"{value:.6f}"
    if abs(value - float(text)) > SAME_DATE:
        return repr(float(value))
    return text.rstrip("0").rstrip(".")


def amount_text(kind: str, amount: int) -> str:
    """Format an amount of a kind that hosts have; memory (bytes) in the unit that makes it the
    least whole number.

    >>> amount_text("gpus", 2), amount_text("memory", 16 * 10**9), amount_text("memory", 3 << 29)
    ('2 gpus', '16 GB of memory', '1,536 MiB of memory')
    """
    if kind != "memory":
        return f"{amount:,} {kind}"
    return f"{size_text(amount)} of memory"


def size_text(amount: int) -> str:
    """Format a size (bytes) in the unit that makes it the least whole number."""
    fits = [(amount // size, unit) for unit, size in _SIZES.items() if amount % size == 0]
    number, unit = min(fits)
    return f"{number:,} {unit}"


_SIZES = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}
