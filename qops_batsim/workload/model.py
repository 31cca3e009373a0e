"""A workload: jobs, the profiles they execute, and where it comes from."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from qops_batsim.errors import require
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_PROCESSORS

if TYPE_CHECKING:
    import numpy as np

Profile = dict[str, Any]
"""An execution profile as in Batsim: an object with a ``type`` and its parameters."""


class JobColumns(NamedTuple):
    """The jobs of a workload in columns: an element for each, in the order of the file.

    Attributes
    ----------
    ids
        Identifiers, as in the file.
    submission_times
        Dates of submission (float64, seconds).
    processors
        Hosts that each job needs (int64).
    walltimes, estimates
        What kills a job, and what planning assumes (float64, seconds); infinite without.
    profiles
        Positions in ``profile_names`` (int64).
    profile_names
        Those of the workload, and any others that jobs name.
    """

    ids: list[str]
    submission_times: np.ndarray
    processors: np.ndarray
    walltimes: np.ndarray
    estimates: np.ndarray
    profiles: np.ndarray
    profile_names: list[str]


class Workload(msgspec.Struct):
    """A table of jobs with the profiles they execute.

    Examples
    --------
    >>> name, profile = delay_profile(60)
    >>> job = Job.from_fields({"id": "1", "subtime": 0, "res": 2, "profile": name}, where="here")
    >>> Workload(jobs=[job], profiles={name: profile}, processors=4)
    <Workload: 1 job on 4 processors, submitted from 0 s to 0 s, a workload>
    """

    jobs: list[Job]
    """The jobs, in the order of the file."""
    profiles: dict[str, Profile]
    processors: int
    """Processors of the machine the workload is for (``nb_res``)."""
    provenance: dict[str, Any] = {}
    """How the workload was made, with every parameter and seed; written to the file."""
    source: str = "a workload"
    """Where it was read from, for messages."""

    @property
    def columns(self) -> JobColumns:
        """The jobs in columns, as they are now."""
        import numpy as np

        jobs, count = self.jobs, len(self.jobs)
        names = {name: index for index, name in enumerate(self.profiles)}
        limits = (math.inf if job.walltime is None else job.walltime for job in jobs)
        profiles = (names.setdefault(job.profile, len(names)) for job in jobs)
        return JobColumns(
            ids=[job.id for job in jobs],
            submission_times=np.fromiter((job.submission_time for job in jobs), float, count),
            processors=np.fromiter((job.processors for job in jobs), np.int64, count),
            walltimes=np.fromiter(limits, float, count),
            estimates=np.fromiter((job.estimate for job in jobs), float, count),
            profiles=np.fromiter(profiles, np.int64, count),
            profile_names=list(names),
        )

    def __repr__(self) -> str:
        return f"<Workload: {', '.join(self._facts())}>"

    def _repr_html_(self) -> str:
        return "<br>".join(map(escape, self._facts()))

    def _facts(self) -> list[str]:
        """Return what a short description tells."""
        count = len(self.jobs)
        facts = [f"{count:,} job{'' if count == 1 else 's'} on {self.processors:,} processors"]
        if count:
            dates = [job.submission_time for job in self.jobs]
            facts.append(f"submitted from {min(dates):,.15g} s to {max(dates):,.15g} s")
        return [*facts, self.source]


def plain_number(value: float) -> float | int:
    """Return a whole number as int, so that JSON shows it without a fraction."""
    return int(value) if float(value).is_integer() else float(value)


def delay_profile(run_time: float) -> tuple[str, Profile]:
    """Return name and content of the one profile of all jobs that run for so many seconds."""
    seconds = plain_number(run_time)
    return f"delay{seconds}", {"type": "delay", "delay": seconds}


def check_processors(processors: int) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` unless a machine can be of this size."""
    accepted = f"a whole number from 1 to {MAX_PROCESSORS} is accepted"
    require(1 <= processors <= MAX_PROCESSORS, "processors", processors, accepted)


def check_seed(seed: int) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` if the seed is negative."""
    require(seed >= 0, "seed", seed, "a whole number from 0 up is accepted")


def check_share(share: float) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` unless a share of deadlines is one."""
    require(0 <= share <= 1, "deadline share", share, "a number from 0 to 1 is accepted")


def check_counts(skip: int, first: int | None) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` unless jobs can be counted so."""
    require(skip >= 0, "skip", skip, "a whole number from 0 up is expected")
    require(first is None or first > 0, "first", first, "a whole number above 0 is expected")
