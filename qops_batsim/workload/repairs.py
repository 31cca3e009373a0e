"""Making the records of a log usable: each repair is a choice, and is counted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from qops_batsim.errors import require_one_of
from qops_batsim.workload.log import STATUS_PARTIAL, Records, RepairCount

Mask = NDArray[np.bool_]

CHOICES: dict[str, tuple[str, ...]] = {
    "no_processors": ("drop", "clip"),
    "too_wide": ("drop", "clip", "keep"),
    "no_run_time": ("drop", "clip", "limit"),
    "no_requested_time": ("keep", "clip", "drop"),
    "overrun": ("keep", "clip", "drop"),
    "duplicate_id": ("drop", "renumber"),
    "processors_field": ("requested", "allocated"),
}
"""What each field of :class:`Repairs` accepts, its default first."""


DONE = {
    "drop": "left out",
    "clip": "clipped",
    "keep": "kept as they are",
    "limit": "given their limit",
    "renumber": "renumbered",
    "sort": "sorted",
    "merge": "merged",
    "first": "taken as the first",
    "shift": "read as if not changed",
}
"""What has become of records, in words."""


class Repairs(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with records that a simulation cannot use as they are.

    Batsim kills a ``delay`` job whose run time equals its walltime, so a job clipped by
    ``no_requested_time`` or ``overrun`` runs its full time and is then reported as killed.
    """

    no_processors: str = "drop"
    """Neither requested nor allocated processors above 0: ``drop``, or ``clip`` to 1 processor."""
    too_wide: str = "drop"
    """More processors than the machine: ``drop``, ``clip`` to the machine, or ``keep`` (schedulers
    reject such jobs).
    """
    no_run_time: str = "drop"
    """Run time 0 or less, which a job has that never ran: ``drop``, ``clip`` to 1 second, or
    ``limit``: as long as was requested (1 second where nothing was).
    """
    no_requested_time: str = "keep"
    """Requested time 0 or less: ``keep`` without walltime, ``clip`` to the run time, or ``drop``.
    """
    overrun: str = "keep"
    """Run time above the requested time: ``keep`` (the engine kills the job at its walltime),
    ``clip`` the run time to the requested time, or ``drop``.
    """
    duplicate_id: str = "drop"
    """Job number of an earlier usable record: ``drop`` the later ones, or ``renumber`` them above
    the highest number of the log.
    """
    processors_field: str = "requested"
    """Which count of processors a job gets: the ``requested`` one or the ``allocated`` one; where
    it is not above 0, the other.
    """

    def __post_init__(self) -> None:
        for name, accepted in CHOICES.items():
            require_one_of(name.replace("_", " "), getattr(self, name), accepted)


_Repair = tuple[str, str, Callable[[Records], Mask], Callable[[Records, Mask], None] | None]
"""Rule, description, what a repair looks for, and what each choice but ``drop`` does."""

_UNCHOSEN = {"partial": "drop", "no_submit_time": "drop", "submit_order": "sort"}


def repair_records(
    records: Records, repairs: Repairs, processors: int, next_number: int
) -> tuple[Records, list[RepairCount]]:
    """Return repaired records in order of submission, and what was done.

    The repairs are made in the order of the returned counts, each on what the ones before it
    have left. In the result ``requested_processors`` is the count of processors to simulate, and
    ``requested_time`` the walltime (seconds; 0 or less: none). ``records`` is left unchanged;
    ``next_number`` is the first job number for ``duplicate_id="renumber"``.
    """
    records = records.copy()
    _choose_width(records, repairs.processors_field)
    counts = []
    for rule, description, find, change in _repairs(processors, next_number, repairs):
        wrong = find(records)
        choice = _UNCHOSEN.get(rule) or getattr(repairs, rule)
        jobs = int(wrong.sum())
        if jobs and choice == "drop":
            records = records[~wrong]
        elif jobs and choice in ("clip", "limit", "renumber") and change is not None:
            change(records, wrong)
        counts.append(RepairCount(rule=rule, description=description, choice=choice, jobs=jobs))
    if counts[-1].jobs:
        # Stable: jobs of one date keep the order of the log.
        records = records[np.argsort(records["submit_time"], kind="stable")]
    return records, counts


def _repairs(processors: int, next_number: int, repairs: Repairs) -> list[_Repair]:
    """Return all repairs in their order."""
    width, run, asked = "requested_processors", "run_time", "requested_time"
    too_wide = f"more than {processors} processors"
    partial = "stretch of a job told whole elsewhere (status 2, 3, 4)"

    def renumber(log: Records, wrong: Mask) -> None:
        log["job_number"][wrong] = next_number + np.arange(int(wrong.sum()))

    def some_time(log: Records, wrong: Mask) -> None:
        to_limit = repairs.no_run_time == "limit"
        log[run][wrong] = np.maximum(log[asked][wrong], 1) if to_limit else 1

    def twins(log: Records) -> Mask:
        return repeated(log["job_number"])

    return [
        ("partial", partial, lambda log: np.isin(log["status"], STATUS_PARTIAL), None),
        ("no_submit_time", "no submit time", lambda log: log["submit_time"] < 0, None),
        ("no_processors", "no processors", lambda log: log[width] <= 0, _set(width, 1)),
        ("too_wide", too_wide, lambda log: log[width] > processors, _set(width, processors)),
        ("no_run_time", "run time 0 or less", lambda log: log[run] <= 0, some_time),
        ("no_requested_time", "no requested time", lambda log: log[asked] <= 0, _set(asked, run)),
        ("overrun", "run time above the requested time", overruns, _set(run, asked)),
        ("duplicate_id", "job number of an earlier job", twins, renumber),
        ("submit_order", "submitted before the record above", steps_back, None),
    ]


def overruns(records: Records) -> Mask:
    """Return which records ran longer than they asked for."""
    requested = records["requested_time"]
    mask: Mask = (requested > 0) & (records["run_time"] > requested)
    return mask


def steps_back(records: Records) -> Mask:
    """Return which records were submitted before the record above."""
    submitted = records["submit_time"]
    mask = np.zeros(len(submitted), dtype=np.bool_)
    mask[1:] = submitted[1:] < submitted[:-1]
    return mask


def repeated(numbers: NDArray[np.int64]) -> Mask:
    """Return which numbers stand further up already."""
    _, first = np.unique(numbers, return_index=True)
    mask = np.ones(len(numbers), dtype=np.bool_)
    mask[first] = False
    return mask


def _choose_width(records: Records, field: str) -> None:
    requested, allocated = records["requested_processors"], records["allocated_processors"]
    first, second = (requested, allocated) if field == "requested" else (allocated, requested)
    records["requested_processors"] = np.where(first > 0, first, second)


def _set(field: str, value: int | str) -> Callable[[Records, Mask], None]:
    """Return what sets a field of the wrong records to a number, or to another field's value."""

    def change(records: Records, wrong: Mask) -> None:
        records[field][wrong] = records[value][wrong] if isinstance(value, str) else value

    return change
