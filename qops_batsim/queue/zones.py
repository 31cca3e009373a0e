"""Checks that the dates of a queue and of its machine's history are of one time zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from qops_batsim.errors import InputError
from qops_batsim.queue.queue_state import QueueState, date_text
from qops_batsim.workload.accounting.job_identity import number_of

_QUARTER = 900.0
"""Offsets of time zones are multiples of this (seconds)."""

_ZONES_APART = 26 * 3600.0
"""Most that two time zones are apart (seconds)."""


def refuse_other_zone(
    state: QueueState, submissions: Mapping[str, float], history: str, time_zone: str
) -> None:
    """Raise an InputError if the jobs that queue and history both have were submitted some quarters
    of an hour apart: then the history's dates are of another zone.

    Parameters
    ----------
    state
        The queue.
    submissions
        When jobs of the history that wait or run were submitted (seconds since 1970), by number.
    history, time_zone
        Name of the history, and the zone in which its dates were read.
    """
    numbers = {number_of(job.id): job.submission for job in (*state.jobs, *state.blocked)}
    apart = [
        date - submissions[number]
        for number, date in numbers.items()
        if date is not None and number in submissions
    ]

    # Other numbers, as of jobs that were submitted again, are apart by anything.
    quarters = Counter(round(by / _QUARTER) for by in apart if abs(by) <= _ZONES_APART)
    exact = sum(abs(by - _QUARTER * round(by / _QUARTER)) <= 1.0 for by in apart)
    if quarters[0] or 2 * exact <= len(apart) or not quarters:
        return
    shift = _QUARTER * quarters.most_common(1)[0][0]
    than = f"{_hours(abs(shift))} {'earlier' if shift > 0 else 'later'}"
    raise InputError(
        f"{history}: {exact:,} jobs that the queue has, too, were submitted {than} than there "
        f"if dates are of {time_zone}; the time zone of the history is expected (--time-zone NAME)"
    )


def refuse_later_history(state: QueueState, ahead: float, time_zone: str) -> None:
    """Raise an InputError if the last job of the history was submitted ``ahead`` seconds, more than
    0, after the date of the queue; dates of the history are of the ``time_zone``.
    """
    if ahead <= 0:
        return
    zones = f" (--time-zone names the zone of its dates, if that is not {time_zone})"
    raise InputError(
        f"{state.source}: the queue is of {date_text(state.now)}, and the history has a job "
        f"that was submitted {_hours(ahead)} later; a queue that is later than the history is "
        f"expected{zones if ahead <= _ZONES_APART else ''}"
    )


def _hours(seconds: float) -> str:
    """Return a duration in hours and minutes, as text; a short one in seconds."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    parts = [f"{hours} h"] if hours else []
    return " ".join([*parts, f"{minutes} min"] if minutes else parts)
