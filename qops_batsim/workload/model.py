"""A workload: jobs, the profiles they execute, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import msgspec

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, require, shown
from qops_batsim.jobs import Job
from qops_batsim.limits import IN_NO_NAME, MAX_PROCESSORS, NO_NAME
from qops_batsim.workload.job_table import JobColumns as JobColumns
from qops_batsim.workload.job_table import JobTable

Profile = dict[str, Any]
"""An execution profile as in Batsim: an object with a ``type`` and its parameters."""


class Workload(msgspec.Struct):
    """A table of jobs with the profiles they execute.

    Examples
    --------
    >>> name, profile = delay_profile(60)
    >>> job = Job.from_fields({"id": "1", "subtime": 0, "res": 2, "profile": name}, where="here")
    >>> Workload(jobs=[job], profiles={name: profile}, processors=4)
    <Workload: 1 job on 4 processors, submitted from 0 s to 0 s, a workload>
    """

    jobs: Sequence[Job]
    """The jobs, in the order of the file: a list, or what makes them when they are asked for."""
    profiles: dict[str, Profile]
    processors: int
    """Processors of the machine the workload is for (``nb_res``)."""
    provenance: dict[str, Any] = {}
    """How the workload was made, with every parameter and seed; written to the file."""
    source: str = "a workload"
    """Where it was read from, for messages."""
    sha256: str | None = None
    """Digest of the file that it was read from, as stored; None if it was made in memory."""
    calendar: Calendar | None = None
    """The dates of its seconds; None where they are not known. Written to the file."""

    @property
    def columns(self) -> JobColumns:
        """The jobs in columns: as they were read, else as they are now."""
        if isinstance(self.jobs, JobTable):
            return self.jobs.columns
        return JobColumns.of(self.jobs, list(self.profiles))

    def check(self) -> None:
        """Raise an InputError unless a file may hold the jobs, as one did if they were read."""
        if self.sha256 is None and not self.columns.are_usable:
            read_jobs([job.fields for job in self.jobs], self.profiles, self.source)

    def __repr__(self) -> str:
        return f"<Workload: {', '.join(self._facts())}>"

    def _repr_html_(self) -> str:
        return "<br>".join(map(escape, self._facts()))

    def _facts(self) -> list[str]:
        """Return what a short description tells."""
        count = len(self.jobs)
        facts = [f"{count:,} job{'' if count == 1 else 's'} on {self.processors:,} processors"]
        if count:
            dates = self.columns.submission_times
            facts.append(f"submitted from {dates.min():,.15g} s to {dates.max():,.15g} s")
        return [*facts, self.source]


def read_jobs(written: Sequence[Any], profiles: Mapping[str, Any], source: str) -> list[Job]:
    """Return the jobs of a workload from their JSON objects; InputError if one is not usable."""
    jobs = []
    seen: set[str] = set()
    for index, fields in enumerate(written):
        where = f"{source}: jobs[{index}]"
        if not isinstance(fields, dict):
            raise InputError(f"{where}: {shown(fields)} is not a job; an object is expected")
        job = Job.from_fields(fields, where=where)
        jobs.append(job)
        if job.id in seen:
            raise InputError(f"{source}: job id {shown(job.id)} is given twice; ids must differ")
        seen.add(job.id)
        if "!" in job.id:
            raise InputError(
                f"{source}: job id {shown(job.id)} contains '!', which separates workload and job"
            )
        where = f"{source}: job {shown(job.id)}"
        for name in (job.id, job.profile):
            if IN_NO_NAME.search(name):
                raise InputError(f"{where}: {shown(name)} {NO_NAME}")
        if job.profile not in profiles:
            name = shown(job.profile)
            raise InputError(f"{where}: profile {name} is not among the profiles")
    return jobs


def split_provenance(told: dict[str, Any], source: str) -> tuple[dict[str, Any], Calendar | None]:
    """Return what a file tells of how the workload was made, and its calendar apart from that."""
    if "calendar" not in told:
        return told, None
    where = f"{source}: field 'qops_batsim.calendar'"
    try:
        calendar = msgspec.convert(told["calendar"], Calendar)
    except msgspec.ValidationError:
        raise InputError(
            f"{where} is {shown(told['calendar'])}; an object with unix_start, a number of seconds "
            "since 1970, and time_zone, a name such as Europe/Stockholm, is expected"
        ) from None
    calendar.check(f"{where}: time_zone")
    return {name: value for name, value in told.items() if name != "calendar"}, calendar


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
