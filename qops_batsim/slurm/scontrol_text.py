"""Fields and dates in what Slurm's ``scontrol`` prints.

A record is ``KEY=value KEY=value ...``. A value may hold blanks (a date of SLURM_TIME_FORMAT, an
operating system), so it goes on to the next ``KEY=``, or to the end of its line. Some fields hold
what people wrote, blanks, line breaks and whole ``KEY=value`` included: nothing behind the first of
these is taken as a field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, tzinfo

from qops_batsim.errors import InputError, shown

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


def fields_of(text: str, free: Sequence[str] = ()) -> dict[str, str]:
    """Cut a record of ``scontrol`` into its fields. O(text).

    ``free`` names the fields of free text: the first of them ends the record. Of a field that is
    told twice the last counts.

    >>> fields_of("Start=20 Jun 23:00 End=Unknown Comment=a End=5", ["Comment"])
    {'Start': '20 Jun 23:00', 'End': 'Unknown'}
    """
    found: dict[str, str] = {}
    keys = list(_KEY.finditer(text))
    for place, key in enumerate(keys):
        if key[1] in free:
            break
        end = keys[place + 1].start() if place + 1 < len(keys) else len(text)
        value, _, _ = text[key.end() : end].partition("\n")
        found[key[1]] = value.strip()
    return found


def as_iso(text: str) -> str | None:
    """Return a date as ISO 8601 writes it, None for what is no date with a time of day.

    >>> as_iso("2026-06-20 23:00:00 +0200"), as_iso("21 Jun 09:00"), as_iso("2026-06-20")
    ('2026-06-20T23:00:00+0200', None, None)
    """
    if _DATE_AND_TIME.fullmatch(text) is None:
        return None
    return text.replace(" ", "T", 1).replace(" ", "")


def is_seconds(text: str) -> bool:
    """Return whether a text is a number of seconds, as of ``SLURM_TIME_FORMAT=%s``."""
    return _SECONDS.fullmatch(text) is not None


def local_date(text: str, where: str, zone: tzinfo | None = None) -> float:
    """Parse a date to seconds since 1970; one without offset is of the ``zone``, by default of this
    machine's clock.

    InputError, in which ``where`` names the field, for what is no sure date: relative ones, those
    without a year or a time of day, and those before the year 2000.
    """
    seconds = 0.0
    if is_seconds(text):
        seconds = float(text)
    elif (iso := as_iso(text)) is not None:
        with suppress(ValueError, OverflowError, OSError):
            date = datetime.fromisoformat(iso)
            seconds = (date if date.tzinfo else date.replace(tzinfo=zone)).timestamp()
    return checked_date(seconds, text, where)


def checked_date(seconds: float, told: object, where: str) -> float:
    """Return a date (seconds since 1970); InputError, in which ``where`` names the field and
    ``told`` is its value, if it is before the year 2000.
    """
    if not seconds >= EARLIEST:
        raise InputError(f"{where} is {shown(told)}; {DATE_EXPECTED}")
    return seconds
