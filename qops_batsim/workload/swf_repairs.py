"""Making the records of a log usable: each repair is a choice, and is counted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.workload.swf import STATUS_PARTIAL, Records

Mask = NDArray[np.bool_]

CHOICES: dict[str, tuple[str, ...]] = {
    "no_processors": ("drop", "clip"),
    "too_wide": ("drop", "clip", "keep"),
    "no_run_time": ("drop", "clip"),
    "no_requested_time": ("keep", "clip", "drop"),
    "overrun": ("keep", "clip", "drop"),
    "duplicate_id": ("drop", "renumber"),
    "processors_field": ("requested", "allocated"),
}
"""What each field of :class:`Repairs` accepts, its default first."""


class Repairs(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with records that a simulation cannot use as they are.

    Attributes
    ----------
    no_processors
        Neither requested nor allocated processors above 0: ``drop``, or
        ``clip`` to 1 processor.
    too_wide
        More processors than the machine: ``drop``, ``clip`` to the machine, or
        ``keep`` (schedulers reject such jobs).
    no_run_time
        Run time 0 or less, which a job has that never ran: ``drop``, or
        ``clip`` to 1 second.
    no_requested_time
        Requested time 0 or less: ``keep`` without walltime, ``clip`` to the
        run time, or ``drop``.
    overrun
        Run time above the requested time: ``keep`` (the engine kills the job
        at its walltime), ``clip`` the run time to the requested time, or ``drop``.
    duplicate_id
        Job number of an earlier usable record: ``drop`` the later ones, or
        ``renumber`` them above the highest number of the log.
    processors_field
        Which count of processors a job gets: the ``requested`` one or the
        ``allocated`` one; where it is not above 0, the other.

    Notes
    -----
    Batsim kills a ``delay`` job whose run time equals its walltime, so a job
    clipped by ``no_requested_time`` or ``overrun`` runs its full time and is
    then reported as killed.

    Raises
    ------
    InputError
        A value is not among :data:`CHOICES`.
    """

    no_processors: str = "drop"
    too_wide: str = "drop"
    no_run_time: str = "drop"
    no_requested_time: str = "keep"
    overrun: str = "keep"
    duplicate_id: str = "drop"
    processors_field: str = "requested"

    def __post_init__(self) -> None:
        for name, accepted in CHOICES.items():
            value = getattr(self, name)
            if value not in accepted:
                hint = did_you_mean(str(value), accepted)
                raise InputError(f"{name.replace('_', ' ')} is {value!r}{hint}")


class RepairCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs a repair concerned.

    Attributes
    ----------
    rule
        Name of the repair: a field of :class:`Repairs`, or one of those that
        have no choice (``partial``, ``no_submit_time``, ``submit_order``).
    description
        What was wrong.
    choice
        What was done (``"drop"``, ``"clip"``, ``"keep"``, ``"renumber"``, ``"sort"``).
    jobs
        Jobs concerned; with ``keep`` they are counted and left as they are.
    """

    rule: str
    description: str
    choice: str
    jobs: int


def repair_records(
    records: Records, repairs: Repairs, *, processors: int, next_number: int
) -> tuple[Records, list[RepairCount]]:
    """Return repaired records in order of submission, and what was done.

    The repairs are made in the order of the returned counts, each on what the
    ones before it have left. In the result ``requested_processors`` is the
    count of processors to simulate, and ``requested_time`` is the walltime
    (seconds; 0 or less: none).

    Parameters
    ----------
    records
        Records of type :data:`~qops_batsim.workload.swf.RECORD`; left unchanged.
    repairs
        What to do.
    processors
        Size of the machine.
    next_number
        First job number for ``duplicate_id="renumber"``.
    """
    bench = _Bench(records.copy())
    bench.repair(
        "partial",
        "stretch of a job told whole elsewhere (status 2, 3, 4)",
        np.isin(bench.records["status"], STATUS_PARTIAL),
        "drop",
    )
    bench.repair("no_submit_time", "no submit time", bench.records["submit_time"] < 0, "drop")
    _choose_width(bench.records, repairs.processors_field)
    width = bench.records["requested_processors"]
    bench.repair(
        "no_processors", "no processors", width <= 0, repairs.no_processors, clip=_set_width(1)
    )
    width = bench.records["requested_processors"]
    bench.repair(
        "too_wide",
        f"more than {processors} processors",
        width > processors,
        repairs.too_wide,
        clip=_set_width(processors),
    )
    bench.repair(
        "no_run_time",
        "run time 0 or less",
        bench.records["run_time"] <= 0,
        repairs.no_run_time,
        clip=_one_second,
    )
    bench.repair(
        "no_requested_time",
        "no requested time",
        bench.records["requested_time"] <= 0,
        repairs.no_requested_time,
        clip=_walltime_from_run_time,
    )
    requested = bench.records["requested_time"]
    bench.repair(
        "overrun",
        "run time above the requested time",
        (requested > 0) & (bench.records["run_time"] > requested),
        repairs.overrun,
        clip=_run_time_from_walltime,
    )
    bench.repair(
        "duplicate_id",
        "job number of an earlier job",
        _repeated(bench.records["job_number"]),
        repairs.duplicate_id,
        renumber=_numbers_from(next_number),
    )
    submitted = bench.records["submit_time"]
    steps_back = np.zeros(len(submitted), dtype=np.bool_)
    steps_back[1:] = submitted[1:] < submitted[:-1]
    bench.repair("submit_order", "submitted before the record above", steps_back, "sort")
    # Stable: jobs of one date keep the order of the log.
    order = np.argsort(bench.records["submit_time"], kind="stable")
    return bench.records[order], bench.counts


class _Bench:
    """Records under repair, and the account of it."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.counts: list[RepairCount] = []

    def repair(
        self,
        rule: str,
        description: str,
        wrong: Mask,
        choice: str,
        **actions: Callable[[Records, Mask], None],
    ) -> None:
        if choice == "drop":
            self.records = self.records[~wrong]
        elif choice in actions:
            actions[choice](self.records, wrong)
        self.counts.append(
            RepairCount(rule=rule, description=description, choice=choice, jobs=int(wrong.sum()))
        )


def _choose_width(records: Records, field: str) -> None:
    requested, allocated = records["requested_processors"], records["allocated_processors"]
    first, second = (requested, allocated) if field == "requested" else (allocated, requested)
    records["requested_processors"] = np.where(first > 0, first, second)


def _set_width(processors: int) -> Callable[[Records, Mask], None]:
    def clip(records: Records, wrong: Mask) -> None:
        records["requested_processors"][wrong] = processors

    return clip


def _one_second(records: Records, wrong: Mask) -> None:
    records["run_time"][wrong] = 1


def _walltime_from_run_time(records: Records, wrong: Mask) -> None:
    records["requested_time"][wrong] = records["run_time"][wrong]


def _run_time_from_walltime(records: Records, wrong: Mask) -> None:
    records["run_time"][wrong] = records["requested_time"][wrong]


def _numbers_from(first: int) -> Callable[[Records, Mask], None]:
    def renumber(records: Records, wrong: Mask) -> None:
        records["job_number"][wrong] = first + np.arange(int(wrong.sum()))

    return renumber


def _repeated(numbers: NDArray[np.int64]) -> Mask:
    _, first = np.unique(numbers, return_index=True)
    mask = np.ones(len(numbers), dtype=np.bool_)
    mask[first] = False
    return mask
