"""What cells of text mean: counts, durations, and dates in a time zone."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from qops_batsim.limits import MAX_PROCESSORS, MAX_SECONDS

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

UNKNOWN = frozenset({"", "unknown", "none", "n/a", "na", "null", "nan", "-"})
"""What stands for a value that is not known, in lower case."""
_UNLIMITED = frozenset({"unlimited", "infinite"})
_DURATION = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?(\.\d+)?")
_QUARTER, _DAY = 900, 86400
_LONGEST_DATE = 40
ISO = "dddd-dd-ddTdd:dd:dd"


def read_count(text: str) -> float | None:
    """Return a count of processors; NaN where it is not known, None where it is none.

    >>> read_count("16"), read_count("x")
    (16.0, None)
    """
    text = text.strip()
    if text.lower() in UNKNOWN:
        return math.nan
    value = float(text) if re.fullmatch(r"\d{1,9}(?:\.0*)?", text) else math.inf
    return value if value <= MAX_PROCESSORS else None


def read_duration(text: str, unit: float = 1.0) -> float | None:
    """Return a duration in seconds; infinity without limit, NaN where it is not known.

    >>> [read_duration(text, 60) for text in ("90", "30:00", "2-01:00:00", "1-2", "UNLIMITED")]
    [5400.0, 1800.0, 176400.0, 93600.0, inf]
    """
    word = text.strip().lower()
    if word in UNKNOWN or word == "partition_limit":
        return math.nan
    if word in _UNLIMITED:
        return math.inf
    match = _DURATION.fullmatch(word)
    if not match:
        return None
    days, first, second, third, fraction = match.groups()
    parts = [int(each) for each in (first, second, third) if each is not None]
    if days is not None:  # days-hours, days-hours:minutes, …
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 1:
        value = float(f"{first}{fraction or ''}") * unit
        return value if value <= MAX_SECONDS else None
    else:
        hours, minutes, seconds = [0, *parts][-3:]
    total = int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
    value = total + float(fraction or 0)
    return value if value <= MAX_SECONDS else None


@dataclass
class Dates:
    """Dates in seconds since 1970 (UTC).

    Where the clock was put back, an hour has two meanings: ``values`` are the first, and
    ``later`` says how many seconds after it the second is. ``missing`` are dates in an hour that
    was left out when the clock was put forward, read as if it had not been.
    """

    values: Floats
    later: Floats
    missing: Booleans

    def not_before(self, others: Floats) -> Dates:
        """Return the dates, each in its second meaning where the first is before another date."""
        wrong = (self.later > 0) & (self.values < others)
        values = np.where(wrong, self.values + self.later, self.values)
        return Dates(values, self.later, self.missing)


def written_as(form: str, letters: NDArray[np.uint8]) -> Booleans:
    """Return which texts have a form; ``d`` is a digit, and for ``T`` there may be a space."""
    fits = np.ones(len(letters), np.bool_)
    for place, kind in enumerate(form):
        column = letters[:, place]
        if kind == "d":
            fits &= (column >= ord("0")) & (column <= ord("9"))
        else:
            fits &= (column == ord(kind)) | ((kind == "T") & (column == ord(" ")))
    return fits


def iso_seconds(letters: NDArray[np.uint8]) -> tuple[Floats, Booleans]:
    """Return the local seconds of those texts that are written ``YYYY-MM-DDThh:mm:ss``."""
    fits = written_as(ISO, letters)
    digits = (letters if fits.all() else letters[fits]) - np.uint8(ord("0"))

    def number(begin: int, end: int) -> NDArray[np.int64]:
        value = np.zeros(len(digits), np.int64)
        for place in range(begin, end):
            value = value * 10 + digits[:, place]
        return value

    year, month, day = number(0, 4), number(5, 7), number(8, 10)
    hour, minute, second = number(11, 13), number(14, 16), number(17, 19)
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    length = (months + 1).astype("datetime64[D]").astype(np.int64) - first
    exist = (year > 0) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
    exist &= (hour < 24) & (minute < 60) & (second <= 60)
    fits[np.flatnonzero(fits)[~exist]] = False
    seconds = (first + day - 1) * 86400 + hour * 3600 + minute * 60 + second
    return seconds[exist].astype(np.float64), fits


def read_date(cell: str, form: str | None) -> tuple[float, bool] | None:
    """Return seconds since 1970, and whether they are local; None where a text is no date."""
    text = cell.strip()
    if text.lower() in UNKNOWN:
        return math.nan, False
    if len(text) > _LONGEST_DATE:
        return None
    if form is None and re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text), False
    try:
        date = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
        if date.tzinfo:
            return date.timestamp(), False
        return (date.replace(tzinfo=UTC)).timestamp(), True
    except (ValueError, OverflowError):
        return None


def in_zone(local: Floats, zone: ZoneInfo) -> tuple[Floats, Floats, Booleans]:
    """Return what local seconds mean, the time to their second meaning, and which are left out."""
    days, which = np.unique(local // _DAY, return_inverse=True)
    offsets = _offsets(days * _DAY, zone)
    # On the few other days, clocks are changed at whole quarters of an hour.
    same = (offsets == _offsets(days * _DAY + _DAY - 1, zone)).all(axis=0)
    same &= offsets[0] == offsets[1]
    found = offsets[:, which]
    others = ~same[which]
    quarters, which = np.unique(local[others] // _QUARTER, return_inverse=True)
    found[:, others] = _offsets(quarters * _QUARTER, zone)[:, which]
    first, second = found
    return local - first, np.maximum(first - second, 0.0), second > first


def _offsets(local: Floats, zone: ZoneInfo) -> Floats:
    """Return the UTC offsets of local dates, in their first meaning and in their second."""
    begin = datetime(1970, 1, 1)
    offsets = np.zeros((2, len(local)))
    for place, seconds in enumerate(local.tolist()):
        for fold in (0, 1):
            date = (begin + timedelta(seconds=seconds)).replace(fold=fold)
            offset = zone.utcoffset(date)
            if offset is not None:
                offsets[fold, place] = offset.total_seconds()
    return offsets
