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
    promised = [(fate, fate.promise) for fate in listed if fate.promise is not None]
    kept = sum(_is_by(fate, date, grace) for fate, date in promised)
    return FateCounts(
        asked=len(listed),
        promised=len(promised),
        kept=kept,
        broken=sum(fate.is_over for fate, _ in promised) - kept,
        refused=sum(fate.answer == "refused" for fate in listed),
        in_time=sum(_is_by(fate, fate.asked, grace) for fate in listed),
    )


def _is_by(fate: Fate, date: float, grace: float) -> bool:
    return fate.end is not None and not is_late(fate.end, date, grace)


def decided_fates(entries: Sequence[JobRun]) -> dict[str, Fate]:
    """Return what became of each job's deadline: its first answer and its last run's end.

    A promise passes to the next run of its job. A user who cancels or changes a job gives up
    its promise, which then is neither kept nor broken.
    """
    fates: dict[str, Fate] = {}
    for run in entries:
        is_refused = run.answer == "refused"
        if run.is_withdrawn or (run.outcome == REJECTED and not is_refused):
            fates.pop(run.job, None)
            continue
        if run.asked is None or not run.is_ours:
            continue

        fate = fates.setdefault(run.job, Fate(run.asked, run.run))
        if fate.answer != "refused" or run.promise is not None:
            fate.run = run.run
        fate.answer = fate.answer or run.answer
        fate.promise = fate.promise or run.promise

        # The last run decides.
        fate.is_over = run.phase == "gone"
        is_cut_off = is_refused or run.outcome in (COMPLETED_KILLED, REJECTED)
        fate.end = run.end if fate.is_over and not is_cut_off else None
    return fates


def counts(entries: Sequence[JobRun], grace: float = 0.0) -> Mapping[str, int]:
    """Count the journal's waiting, running, promised and refused jobs, and kept promises."""
    fates = count_fates(decided_fates(entries).values(), grace)
    return {
        "waiting": sum(run.phase == "waiting" for run in entries),
        "running": sum(run.phase in ("starting", "running") for run in entries),
        **{name: getattr(fates, name) for name in ("promised", "kept", "broken", "refused")},
    }
