"""What was answered to each job that asked for a deadline, and whether the answer was kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from qops_batsim.jobs import COMPLETED_KILLED, REJECTED
from qops_batsim.live.journal import JobRun
from qops_batsim.measures.metrics.outcomes import is_late


class FateCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of jobs with deadlines: promised, kept, broken, refused, in time.

    Jobs that their users withdrew are not counted. ``in_time`` are those that ended by the
    deadline asked for, whatever was promised.
    """

    asked: int
    promised: int
    kept: int
    broken: int
    refused: int
    in_time: int


class Fate(msgspec.Struct):
    """What became of a job's deadline: answer, promise and end (seconds since 1970).

    ``run`` is the run whose end decides: the one that keeps the promise, or that was refused.
    """

    asked: float
    run: str = ""
    answer: str = ""
    promise: float | None = None
    end: float | None = None
    is_over: bool = False


def count_fates(fates: Iterable[Fate], grace: float = 0.0) -> FateCounts:
    """Count what became of deadlines; an end that is late by up to ``grace`` seconds is in time."""
    listed = list(fates)
    promised = [(each, each.promise) for each in listed if each.promise is not None]
    kept = sum(_is_by(each, date, grace) for each, date in promised)
    return FateCounts(
        asked=len(listed),
        promised=len(promised),
        kept=kept,
        broken=sum(each.is_over for each, _ in promised) - kept,
        refused=sum(each.answer == "refused" for each in listed),
        in_time=sum(_is_by(each, each.asked, grace) for each in listed),
    )


def _is_by(fate: Fate, date: float, grace: float) -> bool:
    return fate.end is not None and not is_late(fate.end, date, grace)


def decided_fates(entries: Sequence[JobRun]) -> dict[str, Fate]:
    """Return what became of each job's deadline: its first answer and its last run's end.

    A promise passes to the next run of its job. A user who cancels or changes a job gives up
    its promise, which then is neither kept nor broken.
    """
    fates: dict[str, Fate] = {}
    for each in entries:
        refused = each.answer == "refused"
        if each.is_withdrawn or (each.outcome == REJECTED and not refused):
            fates.pop(each.job, None)
            continue
        if each.asked is None or not each.is_ours:
            continue
        fate = fates.setdefault(each.job, Fate(each.asked, each.run))
        if fate.answer != "refused" or each.promise is not None:
            fate.run = each.run
        fate.answer = fate.answer or each.answer
        fate.promise = fate.promise or each.promise
        fate.is_over = each.phase == "gone"
        cut_off = each.outcome in (COMPLETED_KILLED, REJECTED) or refused
        fate.end = None if cut_off or not fate.is_over else each.end
    return fates


def counts(entries: Sequence[JobRun], grace: float = 0.0) -> Mapping[str, int]:
    """Count the journal's waiting, running, promised and refused jobs, and kept promises."""
    told = count_fates(decided_fates(entries).values(), grace)
    return {
        "waiting": sum(each.phase == "waiting" for each in entries),
        "running": sum(each.phase in ("starting", "running") for each in entries),
        "promised": told.promised,
        "kept": told.kept,
        "broken": told.broken,
        "refused": told.refused,
    }
