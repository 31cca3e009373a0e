"""The events that the rows of a log of decisions tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from qops_batsim.jobs import Job, QosRequest
from qops_batsim.scheduling.answers import Answer, refusal_of
from qops_batsim.scheduling.core import rows
from qops_batsim.scheduling.decision_events import (
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
    Submitted,
    Withdrawn,
)
from qops_batsim.scheduling.decision_events import told as fields_of
from qops_batsim.scheduling.profile import Floats, Ints
from qops_batsim.scheduling.refusal import Refusal, RefusalKind

_NO_REQUEST = QosRequest()

CAUSES: dict[int, Cause] = {
    rows.BY_ADMISSION: "admission",
    rows.BY_EARLY_END: "early_end",
    rows.BY_OUTLIVING: "outlived",
    rows.BY_LATE_START: "late_start",
    rows.BY_KILL: "kill",
    rows.BY_LEAVING: "hosts_left",
    rows.BY_RETURNING: "hosts_returned",
}


def events_of(
    rows_of_decisions: Iterable[tuple[Ints, Floats]],
    job_of: Callable[[int], Job],
    worded: Mapping[int, Answer],
) -> Iterator[Event]:
    """Yield the events that rows tell (:mod:`~qops_batsim.scheduling.core.rows`), in their order.

    Parameters
    ----------
    rows_of_decisions
        The rows, codes and numbers, in pieces.
    job_of
        The job in a slot as it was submitted.
    worded
        Answers to the jobs in some slots in words of a scheduler's own.
    """
    kills: dict[int, int] = {}

    def name(slot: int, run: int | None = None) -> str:
        number = kills.get(slot, 0) if run is None else run
        job_id = job_of(slot).id
        return f"{job_id}#{number}" if number else job_id

    told: list[tuple[list[int], list[float]]] = []
    for codes, numbers in rows_of_decisions:
        told += zip(codes.tolist(), numbers.tolist(), strict=True)
    told.append(([rows.END, 0, 0, 0], [0.0] * 4))
    place = 0
    while True:
        (kind, slot, other, code), (date, first, second, third) = told[place]
        place += 1
        if kind == rows.END:
            return
        if kind == rows.MOVED:
            by, moves, cause = [], [], CAUSES[code]
            while told[place][0][0] == rows.BLAMED:
                _, slot, _, run = told[place][0]
                by.append(name(slot, run))
                place += 1
            while told[place][0][0] == rows.MOVE:
                slot, (_, before, after, _) = told[place][0][1], told[place][1]
                moves.append((name(slot), _finite(before), _finite(after)))
                place += 1
            yield Moved(date=date, cause=cause, by=by, moves=moves)
        elif kind == rows.RESIZED:
            under = []
            while told[place][0][0] == rows.UNDER:
                _, slot, hosts, run = told[place][0]
                under.append((name(slot, run), hosts))
                place += 1
            yield Resized(date=date, present=int(first), final=bool(code), under=under)
        elif kind == rows.SUBMITTED:
            yield _submission(date, job_of(slot))
        elif kind == rows.REFUSED:
            if slot in worded:
                answer = worded[slot]
                refusal, offered = answer.refusal, answer.offered
            else:
                blamed = name(other) if other >= 0 else ""
                processors = job_of(slot).processors
                refusal = refusal_of(code, processors, blamed, (first, second, third))
                offered = None
            whose = name(other) if other >= 0 else None
            why = fields_of(refusal)
            yield Refused(date=date, job=name(slot), blamed=whose, offered=offered, **why)
        elif kind == rows.ADMITTED:
            offer = worded[slot].offer if slot in worded else None
            yield Admitted(
                date=date,
                job=name(slot),
                start=_finite(first),
                deadline=_finite(second),
                target=_other(third, second),
                offered=offer is not None,
                blamed=None if offer is None or worded[slot].blamed < 0
                else name(worded[slot].blamed),
                **fields_of(None if offer is None else offer.refusal),
            )  # fmt: skip
        elif kind == rows.KILLED:
            victim, kills[slot] = name(slot, code), code + 1
            again, by_job = name(slot), name(other)
            yield Killed(date=date, job=victim, again=again, by=by_job, start=_finite(first))
        elif kind == rows.WITHDRAWN:
            kills[slot] = code - 1
            yield Withdrawn(date=date, job=name(slot, code))
        elif kind == rows.DROPPED:
            refusal = refusal_of(code, job_of(slot).processors, "", (first, second, third))
            yield Dropped(date=date, job=name(slot), **fields_of(refusal))
        elif kind == rows.LATE_NEWS:
            yield LateNews(date=date)
        elif kind == rows.STARTED:
            late = second if second != 0.0 else None
            yield Started(date=date, job=name(slot), end=_finite(first), late=late)
        elif kind == rows.SLIPPED:
            yield Slipped(date=date, job=name(slot), end=_finite(first))
        elif kind == rows.OUTLIVED:
            yield Outlived(date=date, job=name(slot), end=_finite(first))
        elif kind == rows.LATE:
            loss = None
            if second:
                loss = Refusal(kind=RefusalKind.HOSTS_LOST, date=third, hosts=int(second))
            yield Late(date=date, job=name(slot), deadline=_finite(first), **fields_of(loss))
        elif kind == rows.ENDED:
            yield Ended(date=date, job=name(slot, code), early=_finite(first))


def _submission(date: float, job: Job) -> Submitted:
    asked = job.qos or _NO_REQUEST
    return Submitted(
        date=date,
        job=job.id,
        submission=job.submission_time,
        processors=job.processors,
        estimate=_finite(job.estimate),
        deadline=asked.deadline,
        tolerance=asked.tolerance_factor,
        user_deadline=asked.has_user_deadline,
    )


def _other(target: float, promise: float) -> float | None:
    """Return a target for JSON, if it is not the promise."""
    return None if target == promise else float(target)


def _finite(number: float) -> float | None:
    """Return a number for JSON, which has no infinity."""
    return float(number) if abs(number) < math.inf else None
