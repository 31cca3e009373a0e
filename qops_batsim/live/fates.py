"""Fates of jobs: what was answered to each, and whether it was kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from qops_batsim.jobs import COMPLETED_KILLED, REJECTED
from qops_batsim.live.journal import Entry


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of jobs whose users asked for a deadline.

    ``in_time`` are those that ended by the deadline that was asked for, whatever was promised.
    """

    asked: int
    promised: int
    kept: int
    refused: int
    in_time: int


class Fate(msgspec.Struct):
    """Fate of one job that asked for a deadline (seconds since 1970); its last run counts."""

    asked: float
    answer: str = ""
    promise: float | None = None
    end: float | None = None
    is_over: bool = False


def tally(fates: Iterable[Fate]) -> Tally:
    """Count what became of jobs."""
    listed = list(fates)
    return Tally(
        asked=len(listed),
        promised=sum(each.promise is not None for each in listed),
        kept=sum(
            each.promise is not None and each.end is not None and each.end <= each.promise
            for each in listed
        ),
        refused=sum(each.answer == "refused" for each in listed),
        in_time=sum(each.end is not None and each.end <= each.asked for each in listed),
    )


def decided_fates(entries: Sequence[Entry]) -> dict[str, Fate]:
    """Return what became of each job that asked for a deadline: its first answer, its last end."""
    fates: dict[str, Fate] = {}
    for each in entries:
        if each.asked is None or not each.is_ours:
            continue
        fate = fates.setdefault(each.job, Fate(each.asked))
        fate.answer = fate.answer or each.answer
        fate.promise = fate.promise or each.promise
        fate.is_over = each.phase == "gone"
        cut_off = each.outcome in (COMPLETED_KILLED, REJECTED) or each.answer == "refused"
        fate.end = None if cut_off or not fate.is_over else each.end
    return fates


def counts(entries: Sequence[Entry]) -> Mapping[str, int]:
    """Return how many jobs wait, run, were promised something, and what became of the promises."""
    fates = decided_fates(entries)
    told = tally(fates.values())
    over = sum(each.is_over and each.promise is not None for each in fates.values())
    return {
        "waiting": sum(each.phase == "waiting" for each in entries),
        "running": sum(each.phase in ("starting", "running") for each in entries),
        "promised": told.promised,
        "kept": told.kept,
        "broken": over - told.kept,
        "refused": sum(each.answer == "refused" for each in entries),
    }
