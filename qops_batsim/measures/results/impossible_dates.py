"""Dates that cannot be, in the ``_jobs.csv`` of others: refused before anything is computed.

What other programs write may say that a job started before it was submitted, and means over such
jobs are numbers without meaning. Only ``verify`` reads such files, to list all that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.measures.results.result_tables import (
    DATE_TOLERANCE,
    DURATIONS,
    ROUNDING,
    Booleans,
    Floats,
    tolerance,
)
from qops_batsim.texts import exact_text

SIX_DIGITS = 1e-5
"""Relative error of the difference of two numbers that were written with six digits, as early
versions of Batsim do, for each of them."""


class DatedRun(Protocol):
    """Protocol for what is asked of a run: :class:`~.run_result.RunResult` is one.

    That module reads runs with the help of this one.
    """

    @property
    def source(self) -> str: ...
    @property
    def hosts(self) -> int: ...
    @property
    def hosts_source(self) -> str: ...
    @property
    def hosts_are_assumed(self) -> bool: ...
    @property
    def info(self) -> Any: ...
    @property
    def executed(self) -> Booleans: ...
    def id(self, row: int) -> str: ...
    def column(self, name: str) -> Floats: ...
    def columns(self, *names: str) -> tuple[Floats, ...]: ...


Problem = tuple[Booleans, str, tuple[str, ...]]
"""Which rows are wrong, what is expected in words, and the columns that tell."""


def refuse_impossible_dates(result: DatedRun) -> None:
    """Raise an InputError that names file, row, job, columns and values if dates of a job cannot
    be: it starts before 0 or its submission, ends before its start, its durations are not those
    between its dates, or it ran although it asks for more processors than there are. O(jobs).
    """
    for rows, expected, columns in _problems(result):
        if not rows.any():
            continue
        row = int(np.flatnonzero(rows)[0])
        values = ((name, float(result.column(name)[row])) for name in columns)
        told = " and ".join(f"{name} is {exact_text(value)}" for name, value in values)
        count = int(rows.sum())
        others = f" (so in {count:,} rows)" if count > 1 else ""
        raise InputError(
            f"{result.source}: row {row + 1} (job {result.id(row)!r}): {told}; {expected} is "
            f"expected{others}; `qops-batsim verify` lists all that is wrong"
        )


def _problems(result: DatedRun) -> Iterator[Problem]:
    submitted, start, finish = result.columns("submission_time", "starting_time", "finish_time")
    ran = result.executed
    # A job that was rejected may have no dates.
    early = tolerance(start, np.maximum(submitted, 0.0))
    yield ran & (start < -early), "a date from 0 on", ("starting_time",)
    yield (
        ran & (start < submitted - early),
        "a start at or after the submission",
        ("submission_time", "starting_time"),
    )

    yield (
        ran & (finish < start - tolerance(start, finish)),
        "an end at or after the start",
        ("starting_time", "finish_time"),
    )

    for name, (later, earlier) in DURATIONS.items():
        value, end, begin = result.columns(name, later, earlier)
        largest = np.maximum(np.abs(end), np.abs(begin))
        slack = tolerance(value, end, begin) + SIX_DIGITS * largest
        yield (
            ran & (np.abs(value - (end - begin)) > slack),
            f"their difference, {later} - {earlier},",
            (later, earlier, name),
        )
        yield ran & (value < -slack), "a duration from 0 s up", (name,)

    ratio, turnaround, run_time = result.columns("stretch", "turnaround_time", "execution_time")
    ratio = np.where(np.isfinite(ratio), ratio, np.nan)
    # Compared as a product: a division would blow up the rounding of short run times.
    slack = DATE_TOLERANCE * (1 + np.abs(ratio)) + 2 * ROUNDING * run_time
    slack += 2 * SIX_DIGITS * np.abs(turnaround)
    yield (
        ran & (np.abs(turnaround - ratio * run_time) > slack),
        "their ratio, turnaround_time / execution_time,",
        ("turnaround_time", "execution_time", "stretch"),
    )
    yield from _too_wide(result, ran)


def _too_wide(result: DatedRun, ran: Booleans) -> Iterator[Problem]:
    if result.hosts_are_assumed or result.info is not None:
        return  # On our own runs fewer hosts may do what is divided among them.
    wanted = result.column("requested_number_of_resources")
    yield (
        ran & (wanted > result.hosts),
        f"at most the number of hosts, {result.hosts} ({result.hosts_source}),",
        ("requested_number_of_resources",),
    )
