"""Converting the rows of a decision log to events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter

from qops_batsim.core import log_rows as rows
from qops_batsim.core.answers import AdmissionAnswer, refusal_of
from qops_batsim.core.decision_events import (
    Admitted,
    Cause,
    Dropped,
    Ended,
    Event,
    Killed,
    Late,
    LateNews,
    Moved,
    Outlived,
    Refused,
    Resized,
    Slipped,
    Started,
    Submission,
    Submitted,
    Withdrawn,
    refusal_fields,
)
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.jobs import QosRequest, restarted_id

Row = tuple[int, int, int, int, float, float, float, float]
"""Kind, slot, other slot, code; date and three numbers."""


_ASKED = attrgetter(
    *("deadline", "tolerance_factor", "has_user_deadline", "rerunnable", "start", "checkpoint")
)
"""Return the fields of a request that a submission tells."""

_NOTHING_ASKED, _AS_ASKED = QosRequest(), AdmissionAnswer()


def submissions_of(
    job_ids: Iterable[str],
    dates: Iterable[float],
    processors: Iterable[int],
    estimates: Iterable[float],
    asked: Iterable[QosRequest | None],
) -> list[Submission]:
    """Return the jobs as submitted, from one column each of ids, dates, processors, estimates and
    requests.
    """
    known = map(_finite, estimates)
    told = zip(*(_ASKED(each or _NOTHING_ASKED) for each in asked), strict=True)
    columns = zip(job_ids, dates, processors, known, *told, strict=True)
    return list(map(Submission._make, columns))


CAUSES: dict[int, Cause] = {
    rows.BY_ADMISSION: "admission",
    rows.BY_EARLY_END: "early_end",
    rows.BY_OUTLIVING: "outlived",
    rows.BY_LATE_START: "late_start",
    rows.BY_KILL: "kill",
    rows.BY_LEAVING: "hosts_left",
    rows.BY_RETURNING: "hosts_returned",
    rows.BY_CANCELLATION: "cancelled",
}


def events_of(
    told: Iterable[Row],
    job_of: Callable[[int], Submission],
    worded: Mapping[int, AdmissionAnswer],
) -> Iterator[Event]:
    """Yield the events of a decision log, in order, from its rows of numbers.

    Parameters
    ----------
    told
        The rows (:mod:`~qops_batsim.core.log_rows`).
    job_of
        The job in a slot as it was submitted.
    worded
        Answers by slot, where these are more than an admission as asked for.
    """
    kills: dict[int, int] = {}

    def name(slot: int, run: int | None = None) -> str:
        number = kills.get(slot, 0) if run is None else run
        return restarted_id(job_of(slot).job, number)

    left = iter(told)
    row = next(left, None)
    while row is not None:
        kind, slot, other, code, date, first, second, third = row
        row = next(left, None)
        # The frequent ones first.
        if kind == rows.STARTED:
            late = second if second != 0.0 else None
            yield Started(date=date, job=name(slot), end=_finite(first), late=late)
        elif kind == rows.ENDED:
            yield Ended(date=date, job=name(slot, code), early=_finite(first))
        elif kind == rows.SUBMITTED:
            yield Submitted(date=date, **job_of(slot)._asdict())
        elif kind == rows.ADMITTED:
            answer = worded.get(slot, _AS_ASKED)
            offer = answer.offer
            yield Admitted(
                date=date,
                job=name(slot),
                start=_finite(first),
                deadline=_finite(second),
                target=_other(third, second),
                offered=offer is not None,
                blamed=None if offer is None or answer.blamed < 0 else name(answer.blamed),
                **refusal_fields(None if offer is None else offer.refusal),
            )  # fmt: skip
        elif kind == rows.MOVED:
            by, moves, cause = [], [], CAUSES[code]
            while row is not None and row[0] == rows.BLAMED:
                by.append(name(row[1], row[3]))
                row = next(left, None)
            while row is not None and row[0] == rows.MOVE:
                moves.append((name(row[1]), _finite(row[5]), _finite(row[6])))
                row = next(left, None)
            yield Moved(date=date, cause=cause, by=by, moves=moves)
        elif kind == rows.RESIZED:
            under = []
            while row is not None and row[0] == rows.UNDER:
                under.append((name(row[1], row[3]), row[2]))
                row = next(left, None)
            yield Resized(date=date, present=int(first), final=bool(code), under=under)
        elif kind == rows.REFUSED:
            answer = worded.get(slot, _AS_ASKED)
            if answer is _AS_ASKED:
                refusal = refusal_of(code, job_of(slot).processors, int(first), int(second))
                answer = AdmissionAnswer(refusal)
            whose = name(other) if other >= 0 else None
            why, offered = refusal_fields(answer.refusal), answer.offered
            yield Refused(date=date, job=name(slot), blamed=whose, offered=offered, **why)
        elif kind == rows.KILLED:
            victim, kills[slot] = name(slot, code), code + 1
            again, by_job = name(slot), name(other)
            dates = {"start": _finite(first), "saved": third or None}
            yield Killed(date=date, job=victim, again=again, by=by_job, **dates)
        elif kind == rows.WITHDRAWN:
            kills[slot] = code - 1
            yield Withdrawn(date=date, job=name(slot, code))
        elif kind == rows.DROPPED:
            refusal = refusal_of(code, job_of(slot).processors, int(first), int(second))
            yield Dropped(date=date, job=name(slot), **refusal_fields(refusal))
        elif kind == rows.LATE_NEWS:
            yield LateNews(date=date)
        elif kind == rows.SLIPPED:
            yield Slipped(date=date, job=name(slot), end=_finite(first))
        elif kind == rows.OUTLIVED:
            yield Outlived(date=date, job=name(slot), end=_finite(first))
        elif kind == rows.LATE:
            loss = None
            if second:
                loss = Refusal(kind=RefusalKind.HOSTS_LOST, date=third, hosts=int(second))
            yield Late(date=date, job=name(slot), deadline=_finite(first), **refusal_fields(loss))


def _other(target: float, promise: float) -> float | None:
    """Return a plan's target (seconds), None if it equals the promised deadline."""
    return None if target == promise else float(target)


def _finite(number: float) -> float | None:
    """Return the number, None if it is infinite (JSON has no infinity)."""
    return float(number) if abs(number) < math.inf else None
