"""Calendar dates for the seconds of a simulation, from a log's begin and time zone."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from qops_batsim.errors import InputError, shown

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


def machine_zone() -> str:
    """Return the name of this machine's time zone: of ``TZ``, else of /etc/localtime, else UTC."""
    named = os.environ.get("TZ")
    if named is None:
        link = Path("/etc/localtime")
        text = Path("/etc/timezone")
        if link.is_symlink():
            named = str(link.readlink())
        elif link.exists() and text.is_file():
            named = text.read_text(errors="replace").strip()
    # Of a path, the part that names the zone; C libraries allow a colon before it.
    named = (named or "").removeprefix(":")
    return named.rpartition("zoneinfo/")[2].removeprefix("posix/") or "UTC"


def comes_twice(date: datetime) -> bool:
    """Return whether a local date is in an hour that comes twice, as clocks are put back; one
    without a time zone is of this machine's.
    """
    first, second = (date.replace(fold=fold).timestamp() for fold in (0, 1))
    return first < second


class Calendar(msgspec.Struct, frozen=True):
    """The calendar of a site: the date of the simulation's second 0, and the time zone.

    ``unix_start`` is the date of second 0 (seconds since 1970 in UTC), ``time_zone`` a name as
    ``Europe/Stockholm``, whose daylight saving is observed.

    Examples
    --------
    >>> calendar = Calendar(843480031, "Europe/Stockholm")
    >>> calendar.text(3600)
    '1996-09-23 15:00:31'
    """

    unix_start: int | float
    time_zone: str

    def check(self, where: str) -> None:
        """Raise an InputError ``WHERE is …`` unless the time zone exists."""
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise InputError(
                f"{where} is {shown(self.time_zone)}, which is not in the time zone database of "
                "this machine; a name such as Europe/Stockholm is expected (without a database: "
                "pip install tzdata)"
            ) from None

    def seconds(self, moment: datetime) -> float:
        """Return the simulation second of a date; a date without time zone is in the site's."""
        local = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(self.time_zone))
        return local.timestamp() - self.unix_start

    def date(self, seconds: float) -> datetime:
        """Return the date at the site for a simulation second, in the years 1 to 9999."""
        zone = ZoneInfo(self.time_zone)
        try:
            return datetime.fromtimestamp(self.unix_start + seconds, tz=UTC).astimezone(zone)
        except (OverflowError, ValueError, OSError):
            raise InputError(
                f"second {seconds:g} of the log (UnixStartTime {self.unix_start:.15g}) has no "
                "date; a date in the years 1 to 9999 is expected"
            ) from None

    def text(self, seconds: float) -> str:
        """Return the date at the site for a second, rounded: ``YYYY-MM-DD hh:mm:ss``.

        In an hour that comes twice, its UTC offset follows.
        """
        date = self.date(seconds)
        if date.microsecond >= 500_000:
            date = self.date(seconds + 0.5)
        twice = date.utcoffset() != date.replace(fold=1 - date.fold).utcoffset()
        return (date if twice else date.replace(tzinfo=None)).isoformat(" ", "seconds")

    def month(self, month: str) -> tuple[float, float]:
        """Return the first second and the end of a calendar month, written ``YYYY-MM``."""
        match = _MONTH.fullmatch(month)
        if not match or not 1 < int(match[1]) < 9999:
            raise InputError(f"month {month!r} is not a month; YYYY-MM (1996-10) is expected")
        year = int(match[1])
        number = int(match[2])
        following = (year + 1, 1) if number == 12 else (year, number + 1)
        return self.seconds(datetime(year, number, 1)), self.seconds(datetime(*following, 1))

    def month_of(self, seconds: float) -> str:
        """Return the calendar month of a simulation second as ``YYYY-MM``."""
        return f"{self.date(seconds):%Y-%m}"

    def later(self, seconds: float) -> Calendar:
        """Return the calendar of a workload that begins some seconds later."""
        return Calendar(self.unix_start + seconds, self.time_zone) if seconds else self
