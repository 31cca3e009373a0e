"""A machine's past: its jobs, and how long jobs like another one ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.jobs import Job
from qops_batsim.workload.conversion import Conversion

LEAST_LIMIT = 60.0
"""Shorter limits count as this long (seconds)."""

REMEMBERED = 40
"""Ended jobs of a group that are remembered, the latest."""

FIELDS = ("user", "executable", "queue")
"""Fields of a log that tell user, application and partition."""

ENOUGH = 12
"""Ended jobs from which a run time is drawn: where a group has fewer, wider groups add theirs."""


class Past(NamedTuple):
    """Jobs of a machine, in columns; dates and durations in seconds.

    First those of its history, in the order of submission; a queue that is forecast may follow.

    Attributes
    ----------
    processors
        Size of the machine.
    submissions, starts
        Dates; a start is NaN if it is not known.
    run_times, limits
        How long jobs ran, and how long they were allowed to, which some overrun.
    widths
        Processors of each job.
    groups
        Numbers of the groups that a job belongs to, the narrowest first, by job: jobs of its user
        and application with its limit, of these without, of its user, of its partition, all.
    names
        User, application and partition of each job, in a row.
    jobs
        The jobs themselves, for a scheduler that looks at their fields.
    history
        How many of them are its history.
    """

    processors: int
    submissions: np.ndarray
    starts: np.ndarray
    run_times: np.ndarray
    limits: np.ndarray
    widths: np.ndarray
    groups: np.ndarray
    names: np.ndarray
    jobs: Sequence[Job]
    history: int

    @property
    def ends(self) -> np.ndarray:
        """Return when jobs ended (seconds), NaN where that is not known."""
        ends: np.ndarray = self.starts + self.run_times
        return ends


def past_of(trace: Conversion) -> Past:
    """Return the past that a log tells.

    A job without a limit counts as allowed to run as long as the longest limit; where no job has
    one, as long as the longest job ran: its own run time nobody knew. InputError if no job is left
    that ran.
    """
    records, size = trace.records, trace.workload.processors
    widths = np.asarray(trace.workload.columns.processors, np.int64)
    run_times, asked = records["run_time"].astype(float), records["requested_time"].astype(float)
    if not ((run_times > 0) & (widths <= size)).any():
        raise InputError(f"{trace.workload.source}: no job ran, so there is no past to learn from")
    longest = (asked if (asked > 0).any() else run_times).max()
    limits = np.maximum(np.where(asked > 0, asked, longest), LEAST_LIMIT)
    waits = records["wait_time"].astype(float)
    starts = np.where(waits >= 0, records["submit_time"] + waits, np.nan)
    names = np.column_stack([np.array(trace.names(f, "-1"), object) for f in FIELDS])
    return Past(
        processors=size,
        submissions=records["submit_time"].astype(float),
        starts=starts,
        run_times=np.maximum(run_times, 1.0),
        limits=limits,
        widths=widths,
        groups=groups_of(names, limits),
        names=names,
        jobs=trace.workload.jobs,
        history=len(records),
    )


def groups_of(names: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return the numbers of the groups of jobs: see :class:`Past`."""
    user, application, partition = names.T
    groups = [
        numbered(user, application, limits),
        numbered(user, application),
        numbered(user),
        numbered(partition),
        np.zeros(len(limits), np.int64),
    ]
    return np.column_stack(groups)


def numbered(*columns: np.ndarray) -> np.ndarray:
    """Return a number for each row, equal where all columns are. O(rows)."""
    numbers: dict[tuple[object, ...], int] = {}
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.fromiter((numbers.setdefault(row, len(numbers)) for row in rows), np.int64)


class Habits:
    """How much of their limits jobs used, by group, of the jobs that have ended so far.

    Parameters
    ----------
    past
        The jobs.
    """

    def __init__(self, past: Past) -> None:
        self._groups, self._shares = past.groups, past.run_times / past.limits
        self._used: list[dict[int, deque[float]]] = [{} for _ in range(past.groups.shape[1])]

    def learn(self, rows: Iterable[int]) -> None:
        """Note jobs that have ended, in the order of their ends."""
        for row in rows:
            share = float(self._shares[row])
            for known, group in zip(self._used, self._groups[row].tolist(), strict=True):
                if group not in known:
                    known[group] = deque(maxlen=REMEMBERED)
                known[group].append(share)

    def shares(self, groups: Sequence[int], beyond: float = 0.0) -> np.ndarray:
        """Return the shares of their limits that jobs like one used, in order.

        Where few jobs are as like it as can be, those of wider groups fill up; a job counts in each
        of the groups that it is in, so the more alike ones count more.

        Parameters
        ----------
        groups
            Its groups, the narrowest first.
        beyond
            What it has used already: only larger shares are returned. Where no job used more, it
            is expected to use up its limit, or is about to end if it has outlived that.
        """
        found: list[float] = []
        for known, group in zip(self._used, groups, strict=True):
            of_group = [share for share in known.get(group, ()) if share > beyond]
            found.extend(of_group[-(ENOUGH - len(found)) :])
            if len(found) >= ENOUGH:
                break
        return np.sort(found) if found else np.array([max(1.0, beyond)])
