"""Ended jobs of a simulation, in columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qops_batsim.engine.records import SHORTEST_RUN_TIME, JobRecord
from qops_batsim.jobs import COMPLETED_SUCCESSFULLY, FINAL_STATES, REJECTED
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.tables import Column, Intervals, Words, cells

if TYPE_CHECKING:
    import pandas as pd

STATE_CODES = {state: code for code, state in enumerate(FINAL_STATES)}
"""The numbers by which columns tell final states."""


class EndedJobs(NamedTuple):
    """Ended or rejected jobs, in the order in which the ends and rejections were recorded.

    Attributes
    ----------
    names, workloads
        Identifier within the workload, and the workload's name.
    profiles
        Names of the profiles.
    submission_times, starts, finishes
        Dates (float64, seconds); NaN for what a rejected job has not.
    processors
        Hosts asked for (int64).
    walltimes
        Walltimes (float64, seconds), -1 without.
    states
        Positions in :data:`~qops_batsim.jobs.FINAL_STATES` (int8).
    hosts
        The hosts that each ran on; none for a rejected job.
    energy
        Joules consumed on them (float64), -1 where that is not measured.
    metadata
        Texts given by the decision module; None where all are empty.
    """

    names: Words
    workloads: Words
    profiles: Words
    submission_times: np.ndarray
    processors: np.ndarray
    walltimes: np.ndarray
    states: np.ndarray
    starts: np.ndarray
    finishes: np.ndarray
    hosts: HostIntervals
    energy: np.ndarray
    metadata: list[str] | None

    @property
    def ids(self) -> list[str]:
        """Identifiers within the workloads. O(jobs)."""
        return self.names.texts()

    @property
    def ran(self) -> np.ndarray:
        """Whether each job was started (bool)."""
        started: np.ndarray = self.states != STATE_CODES[REJECTED]
        return started

    @property
    def run_times(self) -> np.ndarray:
        """Run times as in ``_jobs.csv`` (seconds, extended precision), which are never 0."""
        seconds = self.finishes.astype(np.longdouble) - self.starts
        # Dates may be so late that floats are coarse.
        shortest = np.maximum(SHORTEST_RUN_TIME, np.spacing(self.starts))
        lasting: np.ndarray = np.where(seconds > 0, seconds, shortest)
        return lasting

    def table(self) -> dict[str, Column]:
        """Return the columns of ``_jobs.csv``; NaN for numbers that a rejected job lacks."""
        run_times = self.run_times
        ends = self.starts + run_times
        # They never equal the start.
        finish = np.where(self.finishes > self.starts, self.finishes, ends.astype(np.float64))
        turnaround = ends - self.submission_times
        return {
            "job_id": self.names,
            "workload_name": self.workloads,
            "profile": self.profiles,
            "submission_time": self.submission_times,
            "requested_number_of_resources": self.processors,
            "requested_time": self.walltimes,
            "success": (self.states == STATE_CODES[COMPLETED_SUCCESSFULLY]).astype(np.int64),
            "final_state": Words(FINAL_STATES, self.states),
            "starting_time": self.starts,
            "execution_time": finish - self.starts,
            "finish_time": finish,
            "waiting_time": self.starts - self.submission_times,
            "turnaround_time": finish - self.submission_times,
            "stretch": (turnaround / run_times).astype(np.float64),
            "allocated_resources": self.hosts,
            "consumed_energy": np.where(self.ran, self.energy, math.nan),
            "metadata": self.metadata or Words.one("", len(self.states)),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return :meth:`table` as a data frame, with hosts and states as text."""
        import pandas as pd

        columns = {
            name: cells(column) if isinstance(column, (Intervals, Words)) else column
            for name, column in self.table().items()
        }
        return pd.DataFrame(columns)


class HostChanges(NamedTuple):
    """Dates of starts and ends, and the numbers of computing and idle hosts from then on.

    ``dates`` are in seconds (float64), the numbers int64. With energy, ``switching`` has in three
    columns how many slept, were switched on, and were switched off.
    """

    dates: np.ndarray
    computing: np.ndarray
    idle: np.ndarray
    switching: np.ndarray | None = None

    @classmethod
    def of(
        cls, changes: Sequence[tuple[float, int, int]], switching: Sequence[Sequence[int]] = ()
    ) -> HostChanges:
        """Convert the engine's list of changes of host states to columns. O(changes)."""
        dates, computing, idle = np.array(changes, float).reshape(-1, 3).T
        asleep = np.array(switching, np.int64).T if switching else None
        return cls(dates.copy(), computing.astype(np.int64), idle.astype(np.int64), asleep)


def ended_jobs_of(ended: Sequence[JobRecord]) -> EndedJobs:
    """Convert the engine's records of ended jobs to columns. O(jobs)."""
    names = [record.job.id.partition("!") for record in ended]
    metadata = [record.metadata for record in ended]

    def numbers(kind: type, of: Callable[[JobRecord], float]) -> np.ndarray:
        return np.fromiter(map(of, ended), kind, len(ended))

    return EndedJobs(
        names=Words.of([local_id for _, _, local_id in names]),
        workloads=Words.of([workload for workload, _, _ in names]),
        profiles=Words.of([record.job.profile for record in ended]),
        submission_times=numbers(np.float64, lambda record: record.job.submission_time),
        processors=numbers(np.int64, lambda record: record.job.processors),
        walltimes=numbers(
            np.float64, lambda record: -1.0 if record.job.walltime is None else record.job.walltime
        ),
        states=numbers(np.int8, lambda record: STATE_CODES[record.state]),
        starts=numbers(np.float64, lambda record: record.start),
        finishes=numbers(np.float64, lambda record: record.finish),
        hosts=HostIntervals.of([record.hosts for record in ended]),
        energy=numbers(
            np.float64, lambda record: -1.0 if record.energy is None else float(record.energy)
        ),
        metadata=metadata if any(metadata) else None,
    )
