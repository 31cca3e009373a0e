"""A stretch of a workload log: between two dates, or one calendar month."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.workload.swf import Records, SwfLog
from qops_batsim.workload.swf_calendar import LogCalendar

Moment = str | float | datetime
"""An ISO date or date and time, a datetime, or a number of seconds since a log's start."""


class LogWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a log.

    Attributes
    ----------
    begin, end
        First second inside and first second after it, since the log's start;
        None for no bound.
    month
        The calendar month that it was given as, or None.
    calendar
        The wall clock that dates were read with, or None.
    """

    begin: float | None
    end: float | None
    month: str | None = None
    calendar: LogCalendar | None = None

    @classmethod
    def of(
        cls,
        log: SwfLog,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        month: str | None = None,
        time_zone: str | None = None,
    ) -> LogWindow | None:
        """Return the window between two moments, or of a month, or None without any.

        Parameters
        ----------
        log
            The log, whose header gives dates a meaning.
        start, end
            First moment inside and first moment after the window.
        month
            Instead of these, a calendar month (``YYYY-MM``).
        time_zone
            Time zone of the site instead of the header's.

        Raises
        ------
        InputError
            A value cannot be read, the header lacks what dates need, or the
            window is empty.
        """
        calendar: LogCalendar | None = None
        if month is not None:
            if start is not None or end is not None:
                raise InputError(
                    "month is given together with from or to; only one of the two is accepted"
                )
            calendar = LogCalendar.of(log, time_zone=time_zone)
            first, following = calendar.month(month)
            return cls(begin=first, end=following, month=month, calendar=calendar)
        bounds: list[float | None] = []
        for moment, name in ((start, "from"), (end, "to")):
            value = _read_moment(moment, name)
            if isinstance(value, datetime):
                calendar = LogCalendar.of(log, time_zone=time_zone)
                value = calendar.seconds(value)
            bounds.append(value)
        begin, stop = bounds
        if begin is None and stop is None:
            return None
        if begin is not None and stop is not None and stop <= begin:
            raise InputError(
                f"the window ends at {end} but begins at {start}; a later end is expected"
            )
        return cls(begin=begin, end=stop, calendar=calendar)

    def cut(self, log: SwfLog) -> Records:
        """Return the records submitted within the window.

        Raises
        ------
        InputError
            There is none; the message tells which stretch the log covers.
        """
        submitted = log.records["submit_time"]
        mask = np.ones(len(submitted), dtype=np.bool_)
        if self.begin is not None:
            mask &= submitted >= self.begin
        if self.end is not None:
            mask &= submitted < self.end
        if mask.any():
            chosen: Records = log.records[mask]
            return chosen
        first, last = float(submitted.min()), float(submitted.max())
        if self.month is not None and self.calendar is not None:
            raise InputError(
                f"{log.source}: no job was submitted in {self.month}; the log's jobs were "
                f"submitted from {self.calendar.month_of(first)} to {self.calendar.month_of(last)}"
            )
        bounds = [
            f"{word} {value:.10g}"
            for word, value in (("from", self.begin), ("before", self.end))
            if value is not None
        ]
        raise InputError(
            f"{log.source}: no job was submitted {' and '.join(bounds)} seconds after the log's "
            f"start; its jobs were submitted from {first:.10g} to {last:.10g}"
        )

    def as_data(self) -> dict[str, Any]:
        """Return the window for a workload's provenance; bounds in seconds."""
        data: dict[str, Any] = {"from": self.begin, "to": self.end}
        if self.month is not None:
            data["month"] = self.month
        if self.calendar is not None:
            data["time_zone"] = self.calendar.zone.key
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
