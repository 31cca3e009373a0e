"""Dates of a workload log: between its own seconds and its site's wall clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.workload.swf import SwfLog

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
_QUARTER = 900.0


class LogCalendar:
    """The wall clock of the site that kept a log.

    Parameters
    ----------
    unix_start
        Date of the log's second 0 (seconds since 1970 in UTC).
    zone
        Time zone of the site; daylight saving is observed.
    """

    def __init__(self, unix_start: int, zone: ZoneInfo) -> None:
        self.unix_start = unix_start
        self.zone = zone

    @classmethod
    def of(cls, log: SwfLog, *, time_zone: str | None = None) -> LogCalendar:
        """Return the calendar that a log's header describes.

        Parameters
        ----------
        log
            The log; ``UnixStartTime`` and ``TimeZoneString`` are used. The old
            field ``TimeZone`` is not: it knows no daylight saving, and the
            format's definition calls it faulty.
        time_zone
            Name of the time zone ("Europe/Stockholm") instead of the header's.

        Raises
        ------
        InputError
            A field is missing or unusable, or the time zone is unknown.
        """
        start = log.header.integer("UnixStartTime", source=log.source)
        if start is None or start <= 0:
            raise InputError(
                f"{log.source}: the header has no UnixStartTime, so its seconds have no dates; "
                "give the window in seconds since the log's start"
            )
        name = time_zone or log.header.get("TimeZoneString")
        if name is None:
            raise InputError(
                f"{log.source}: the header has no TimeZoneString; give the name of the "
                "site's time zone (Europe/Stockholm), or the window in seconds"
            )
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            where = "the given time zone" if time_zone else f"{log.source}: TimeZoneString"
            raise InputError(
                f"{where} is {name!r}, which is not in the time zone database of this machine; "
                "a name such as Europe/Stockholm is expected (without a database: "
                "pip install tzdata)"
            ) from None
        return cls(start, zone)

    def seconds(self, moment: datetime) -> float:
        """Return the log's second of a date; one without a time zone is the site's."""
        local = moment if moment.tzinfo else moment.replace(tzinfo=self.zone)
        return local.timestamp() - self.unix_start

    def date(self, seconds: float) -> datetime:
        """Return the site's date of one of the log's seconds.

        Raises
        ------
        InputError
            The date is beyond the calendar (years 1 to 9999).
        """
        try:
            return datetime.fromtimestamp(self.unix_start + seconds, tz=UTC).astimezone(self.zone)
        except (OverflowError, ValueError, OSError):
            raise InputError(
                f"second {seconds:g} of the log (UnixStartTime {self.unix_start}) has no date; "
                "a date in the years 1 to 9999 is expected"
            ) from None

    def month(self, month: str) -> tuple[float, float]:
        """Return first second and end of a calendar month, written ``YYYY-MM``.

        Raises
        ------
        InputError
            It is not written so.
        """
        match = _MONTH.fullmatch(month)
        if not match or not 1 < int(match[1]) < 9999:
            raise InputError(f"month {month!r} is not a month; YYYY-MM (1996-10) is expected")
        year, number = int(match[1]), int(match[2])
        following = (year + 1, 1) if number == 12 else (year, number + 1)
        return self.seconds(datetime(year, number, 1)), self.seconds(datetime(*following, 1))

    def month_of(self, seconds: float) -> str:
        """Return the calendar month of one of the log's seconds, as ``YYYY-MM``."""
        return f"{self.date(seconds):%Y-%m}"


def log_months(log: SwfLog, *, time_zone: str | None = None) -> list[str]:
    """Return the calendar months, ``YYYY-MM`` in order, in which jobs were submitted.

    Raises
    ------
    InputError
        The header tells no dates; see :meth:`LogCalendar.of`.
    """
    calendar = LogCalendar.of(log, time_zone=time_zone)
    submitted = log.records["submit_time"]
    # Wall clocks differ from UTC by whole quarters of an hour, so months begin at one.
    quarters = np.unique((submitted[submitted >= 0] + calendar.unix_start) // _QUARTER)
    seconds = quarters * _QUARTER - calendar.unix_start
    return sorted({calendar.month_of(second) for second in seconds.tolist()})
