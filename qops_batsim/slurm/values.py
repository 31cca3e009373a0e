"""Single values as Slurm prints them: numbers of its JSON, limits, dates, and fields of records."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import Any

from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import is_number
from qops_batsim.workload.accounting.cells import INFINITE, NOT_SET, is_none, read_duration

_NOT_SET_64 = (1 << 64) - 2
_INFINITE_64 = (1 << 64) - 1

EARLIEST = 946_684_800.0
"""Begin of the year 2000 (seconds since 1970): no date of a queue, a node or a reservation is
earlier."""

DATE_EXPECTED = (
    "a date with its time of day, as 2026-11-27T14:00:00, or seconds since 1970, from the year "
    "2000 on (SLURM_TIME_FORMAT=standard), is expected"
)

_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w/:.]*)=", re.MULTILINE)
_DATE_AND_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
)
_SECONDS = re.compile(r"\d{1,12}(?:\.\d+)?")


def slurm_number(value: Any, where: str = "a field") -> float:
    """Return a number in Slurm's JSON as a float: infinite for "no limit", NaN if not set.

    InputError, in which ``where`` names the field, for what is none in any version.

    >>> slurm_number({"set": True, "infinite": False, "number": 60}), slurm_number(4294967295)
    (60.0, inf)
    """
    if isinstance(value, dict):
        if not all(isinstance(value.get(name, True), bool) for name in ("infinite", "set")):
            raise InputError(
                f"{where} is {shown(value)}; true or false is expected as its set and infinite"
            )
        if value.get("infinite"):
            return math.inf
        value = value.get("number") if value.get("set", True) else None

    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where} is {shown(value)}; a number is expected")
    if value in (NOT_SET, _NOT_SET_64):
        return math.nan
    return float(value) if value not in (INFINITE, _INFINITE_64) and is_number(value) else math.inf


def finite_number(value: Any, where: str) -> float | None:
    """Return a number from 0 up in Slurm's JSON; None if it is not set or infinite.

    ``where`` names the field in errors.
    """
    number = slurm_number(value, where)
    if number < 0:
        raise InputError(f"{where} is {shown(value)}; a number from 0 up is expected")
    return number if math.isfinite(number) else None


def time_limit(text: str, where: str) -> float | None:
    """Parse a limit of run time to seconds; None if there is none, or it is not told.

    InputError, in which ``where`` names the field, for any other text.
    """
    seconds = read_duration(text)
    if seconds is None:
        raise InputError(f"{where} is {shown(text)}; a time as 1-02:30:00 is expected")
    return seconds if math.isfinite(seconds) else None


def fields_of(text: str, free: Sequence[str] = ()) -> dict[str, str]:
    """Cut a record that ``scontrol`` prints, ``KEY=value KEY=value ...``, into its fields. O(text).

    A value may hold blanks (a date of SLURM_TIME_FORMAT, an operating system), so it goes on to the
    next ``KEY=``, or to the end of its line. ``free`` names the fields of free text, which may hold
    whole ``KEY=value``: the first of them ends the record. Of a field that is told twice the last
    counts.

    >>> fields_of("Start=20 Jun 23:00 End=Unknown Comment=a End=5", ["Comment"])
    {'Start': '20 Jun 23:00', 'End': 'Unknown'}
    """
    fields: dict[str, str] = {}
    keys = list(_KEY.finditer(text))
    for place, key in enumerate(keys):
        if key[1] in free:
            break
        end = keys[place + 1].start() if place + 1 < len(keys) else len(text)
        value, _, _ = text[key.end() : end].partition("\n")
        fields[key[1]] = value.strip()
    return fields


def as_iso(text: str) -> str | None:
    """Return a date as ISO 8601 writes it, None for what is no date with a time of day.

    >>> as_iso("2026-06-20 23:00:00 +0200"), as_iso("21 Jun 09:00"), as_iso("2026-06-20")
    ('2026-06-20T23:00:00+0200', None, None)
    """
    if _DATE_AND_TIME.fullmatch(text) is None:
        return None
    return text.replace(" ", "T", 1).replace(" ", "")


def local_date(text: str, where: str, zone: tzinfo | None, fold: int = 0) -> float:
    """Parse a date to seconds since 1970; one without offset is of the ``zone``, or if that is None
    of this machine's clock.

    Of an hour that comes twice, as clocks are put back, ``fold`` is 0 for the first, 1 for the
    second. InputError, in which ``where`` names the field, for what is no sure date: relative ones,
    those without a year or a time of day, and those before the year 2000.
    """
    seconds = 0.0
    if _SECONDS.fullmatch(text):  # As of SLURM_TIME_FORMAT=%s.
        seconds = float(text)
    elif (iso := as_iso(text)) is not None:
        with suppress(ValueError, OverflowError, OSError):
            date = datetime.fromisoformat(iso)
            seconds = (date if date.tzinfo else date.replace(tzinfo=zone, fold=fold)).timestamp()
    return checked_date(seconds, text, where)


def date_if_any(text: str, where: str, zone: tzinfo | None) -> float | None:
    """Parse a date as :func:`local_date` does; None for a text that means none."""
    return None if is_none(text) else local_date(text, where, zone)


def checked_date(seconds: float, told: object, where: str) -> float:
    """Return a date (seconds since 1970); InputError, in which ``where`` names the field and
    ``told`` is its value, if it is before the year 2000.
    """
    if not seconds >= EARLIEST:
        raise InputError(f"{where} is {shown(told)}; {DATE_EXPECTED}")
    return seconds
