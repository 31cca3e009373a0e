"""Stretches of a workload log by date: its own seconds, and its site's wall clock."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, TypedDict, Unpack

import msgspec
import numpy as np

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.workload.log import Log, Records
from qops_batsim.workload.model import plain_number

_QUARTER = 900.0


def log_months(log: Log) -> list[str]:
    """Return the calendar months, ``YYYY-MM`` in order, in which jobs were submitted."""
    calendar = log.calendar()
    submitted = log.records["submit_time"]
    # Wall clocks differ from UTC by whole quarters of an hour, so months begin at one.
    quarters = np.unique((submitted[submitted >= 0] + calendar.unix_start) // _QUARTER)
    seconds = quarters * _QUARTER - calendar.unix_start
    return sorted({calendar.month_of(second) for second in seconds.tolist()})


Moment = str | float | datetime
"""An ISO date or date and time, a datetime, or a number of seconds since a log's start."""


class Bounds(TypedDict, total=False):
    """Which submissions of a log to keep.

    From ``start`` on and before ``end`` (an ISO date or date and time, the site's unless it
    names a UTC offset, or a number of seconds since the log's start), or those of a calendar
    ``month`` (``YYYY-MM``) of the site. ``time_zone``: the site's, instead of the header's.
    """

    start: Moment | None
    end: Moment | None
    month: str | None
    time_zone: str | None


class LogWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a log: first second inside and first second after it, since its start.

    ``month`` is the calendar month that it was given as, ``calendar`` the wall clock that
    dates were read with.
    """

    begin: float | None
    end: float | None
    month: str | None = None
    calendar: Calendar | None = None

    @classmethod
    def of(cls, log: Log, **bounds: Unpack[Bounds]) -> LogWindow | None:
        """Return the window of a log that is asked for, or None without any bound."""
        start, end, month = bounds.get("start"), bounds.get("end"), bounds.get("month")
        calendar: Calendar | None = None
        if month is not None:
            if start is not None or end is not None:
                raise InputError(
                    "month is given together with from or to; only one of the two is accepted"
                )
            calendar = log.calendar(bounds.get("time_zone"))
            first, following = calendar.month(month)
            return cls(begin=first, end=following, month=month, calendar=calendar)
        seconds: list[float | None] = []
        for moment, name in ((start, "from"), (end, "to")):
            value = _read_moment(moment, name)
            if isinstance(value, datetime):
                calendar = log.calendar(bounds.get("time_zone"))
                value = calendar.seconds(value)
            seconds.append(value)
        begin, stop = seconds
        if begin is None and stop is None:
            return None
        if begin is not None and stop is not None and stop <= begin:
            raise InputError(
                f"the window ends at {end} but begins at {start}; a later end is expected"
            )
        return cls(begin=begin, end=stop, calendar=calendar)

    def cut(self, log: Log) -> Records:
        """Return the records submitted within the window; at least one is expected."""
        submitted = log.records["submit_time"]
        begin = -math.inf if self.begin is None else self.begin
        mask = (submitted >= begin) & (submitted < (math.inf if self.end is None else self.end))
        if mask.any():
            chosen: Records = log.records[mask]
            return chosen
        first, last = float(submitted.min()), float(submitted.max())
        if self.month is not None and self.calendar is not None:
            raise InputError(
                f"{log.source}: no job was submitted in {self.month}; the log's jobs were "
                f"submitted from {self.calendar.month_of(first)} to {self.calendar.month_of(last)}"
            )
        given = (("from", self.begin), ("before", self.end))
        bounds = [f"{word} {value:.10g}" for word, value in given if value is not None]
        raise InputError(
            f"{log.source}: no job was submitted {' and '.join(bounds)} seconds after the log's "
            f"start; its jobs were submitted from {first:.10g} to {last:.10g}"
        )

    def as_data(self) -> dict[str, Any]:
        """Return the window for a workload's provenance; bounds in seconds."""
        bounds = {"from": self.begin, "to": self.end}
        data: dict[str, Any] = {
            name: None if value is None else plain_number(value) for name, value in bounds.items()
        }
        if self.month is not None:
            data["month"] = self.month
        if self.calendar is not None:
            data["time_zone"] = self.calendar.time_zone
        return data


def _read_moment(moment: Moment | None, name: str) -> float | datetime | None:
    """Return seconds since the log's start, or a date."""
    if moment is None or isinstance(moment, datetime):
        return moment
    try:
        seconds = float(moment)
    except ValueError:
        seconds = math.nan
    if math.isfinite(seconds):
        return seconds
    try:
        return datetime.fromisoformat(str(moment).strip())
    except ValueError:
        raise InputError(
            f"{name} is {moment!r}; a date (1996-10-01), a date and time "
            "(1996-10-01T08:00) or a number of seconds since the log's start is expected"
        ) from None
