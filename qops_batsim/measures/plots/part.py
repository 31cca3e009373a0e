"""The part of a run that a picture shows."""

from __future__ import annotations

from qops_batsim.errors import InputError
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.measures.results.series import window


def part_to_show(
    result: RunResult, begin: float | None = None, end: float | None = None
) -> tuple[float, float]:
    """Return the dates of both edges (seconds): those given, else first submission and last
    completion.
    """
    if not result.executed.any():
        raise InputError(f"{result.source}: no job of this run was executed; nothing to draw")
    first, last = window(result)
    begin = first if begin is None else begin
    end = last if end is None else end
    if not end > begin:
        raise InputError(
            f"{result.source}: the part to show begins at {_date_text(result, begin)} and ends at "
            f"{_date_text(result, end)}; an end after the begin is expected ({_lasts(result)})"
        )
    return begin, end


def nothing_runs(result: RunResult, begin: float, end: float) -> InputError:
    """Return the error that no job runs in the part to show."""
    return InputError(
        f"{result.source}: no job runs from {_date_text(result, begin)} to "
        f"{_date_text(result, end)} ({_lasts(result)})"
    )


def _lasts(result: RunResult) -> str:
    first, last = window(result)
    return f"the run lasts from {_date_text(result, first)} to {_date_text(result, last)}"


def _date_text(result: RunResult, seconds: float) -> str:
    """Return a date (seconds) as text: a calendar date if the run has a calendar, else seconds."""
    return f"{seconds:g} s" if result.calendar is None else result.calendar.text(seconds)
