"""Workloads: jobs in columns and as objects, their profiles and provenance."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import msgspec

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, require, shown
from qops_batsim.job_fields import HostsAsked, written_hosts
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.limits import IN_NO_NAME, MAX_PROCESSORS, MAX_SECONDS, NO_NAME
from qops_batsim.workload.job_columns import are_ascending, columns_of_jobs, plain_delays

if TYPE_CHECKING:
    import numpy as np

Profile = dict[str, Any]
"""An execution profile as in Batsim: an object with a ``type`` and its parameters."""


class Workload(msgspec.Struct):
    """A workload: its jobs, the profiles that they execute, and the size of the machine.

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
    """Description of the making, with every parameter and seed; written to the file."""
    source: str = "a workload"
    """Where it was read from, for messages."""
    sha256: str | None = None
    """Digest of the file that it was read from, as stored; None if it was made in memory."""
    calendar: Calendar | None = None
    """The dates of its seconds; None where they are not known. Written to the file."""

    @property
    def columns(self) -> JobColumns:
        """The jobs as columns of numbers, with all changes made to job objects."""
        if isinstance(self.jobs, JobTable):
            return self.jobs.columns
        return JobColumns.of(self.jobs, list(self.profiles))

    @property
    def delays(self) -> np.ndarray:
        """Run time of each ``delay`` job (seconds); NaN for others. O(jobs)."""
        return self.delays_of(self.columns)

    def delays_of(self, columns: JobColumns) -> np.ndarray:
        """Return the same, given the workload's columns."""
        import numpy as np

        delays = self.plain_delays(columns.profile_names)
        for place in np.flatnonzero(np.isnan(delays)).tolist():
            profile = self.profiles.get(columns.profile_names[place], {})
            if profile.get("type") == "delay":
                delays[place] = profile["delay"]
        of_jobs: np.ndarray = delays[columns.profiles]
        return of_jobs

    def plain_delays(self, names: list[str]) -> np.ndarray:
        """Return the delay (seconds) of each of these profiles that has nothing else than that; NaN
        for others. O(names).
        """
        import numpy as np

        return np.array(plain_delays(self.profiles, names), np.float64)

    @property
    def offered_load(self) -> float | None:
        """Offered load of the jobs on a machine of the workload's size (:func:`offered_load`); jobs
        that ask for parts of hosts count as if they took them whole.
        """
        columns = self.columns
        return offered_load(self.work, columns.submission_times, self.processors)

    @property
    def work(self) -> np.ndarray:
        """Work of each ``delay`` job (processor-seconds): processors × run time, or walltime if
        that is shorter; NaN for others. O(jobs).
        """
        import numpy as np

        columns = self.columns
        work: np.ndarray = columns.processors * np.minimum(
            self.delays_of(columns), columns.walltimes
        )
        return work

    def check(self, columns: JobColumns | None = None) -> None:
        """Raise an InputError if a job made in memory has a value that a workload file may not
        hold; its ``columns`` are those of the workload.
        """
        if self.sha256 is None and not (columns or self.columns).are_usable:
            read_jobs([job.fields for job in self.jobs], self.profiles, self.source)

    def __repr__(self) -> str:
        return f"<Workload: {', '.join(self._facts())}>"

    def _repr_html_(self) -> str:
        from html import escape

        return "<br>".join(map(escape, self._facts()))

    def _facts(self) -> list[str]:
        """Return the parts of ``repr``: jobs, processors, submission dates, source."""
        count = len(self.jobs)
        facts = [f"{count:,} job{'' if count == 1 else 's'} on {self.processors:,} processors"]
        if count:
            dates = self.columns.submission_times
            facts.append(f"submitted from {dates.min():,.15g} s to {dates.max():,.15g} s")
        return [*facts, self.source]


def refuse_amounts(workload: Workload, who: str) -> None:
    """Raise an InputError if jobs ask for parts of hosts, which ``who`` cannot plan."""
    columns = workload.columns
    for name, asked in zip(columns.ids, columns.hosts_asked or (), strict=False):
        if asked is not None:
            raise InputError(
                f"{workload.source}: job {shown(name)} asks for {', '.join(written_hosts(asked))}; "
                f"{who} plans processors, and not yet parts of hosts: jobs on whole hosts are "
                "expected"
            )


def offered_load(work: np.ndarray, submissions: np.ndarray, processors: int) -> float | None:
    """Return the offered load of jobs: their work (processor-seconds) / (processors of the machine
    × time from first to last submission).

    None where that time is 0, or the work of a job is not known (NaN).
    """
    period = float(submissions.max() - submissions.min()) if len(submissions) else 0.0
    total = float(work.sum())
    return total / (processors * period) if period > 0 and math.isfinite(total) else None


class SettledWorkload(Workload, dict=True):
    """A workload whose jobs do not change any more, so that its columns are made only once."""

    @cached_property
    def columns(self) -> JobColumns:
        """The jobs as columns of numbers."""
        return super().columns


def settled(workload: Workload) -> Workload:
    """Return the workload, whose jobs do not change any more."""
    return SettledWorkload(**msgspec.structs.asdict(workload))


def read_jobs(written: Sequence[Any], profiles: Mapping[str, Any], source: str) -> list[Job]:
    """Make jobs from their JSON objects, ``written``; InputError about the first that is not valid.

    ``profiles`` are those that jobs may name, ``source`` is the file in messages.
    """
    jobs = []
    seen: set[str] = set()
    for index, fields in enumerate(written):
        where = f"{source}: jobs[{index}]"
        if not isinstance(fields, dict):
            raise InputError(
                f"{where} is {shown(fields)}; an object with the fields of a job is expected"
            )
        job = Job.from_fields(fields, where=where)
        jobs.append(job)

        if job.id in seen:
            raise InputError(
                f"{source}: job id {shown(job.id)} is given twice; each job needs its own id"
            )
        seen.add(job.id)
        if "!" in job.id:
            raise InputError(
                f"{source}: job id {shown(job.id)} contains '!', by which Batsim separates "
                "the names of workload and job; an id without it is expected"
            )

        where = f"{source}: job {shown(job.id)}"
        for name in (job.id, job.profile):
            if IN_NO_NAME.search(name):
                raise InputError(f"{where}: {shown(name)} {NO_NAME}")
        if job.profile not in profiles:
            name = shown(job.profile)
            raise InputError(f"{where}: profile {name} is not among the profiles of the workload")
    return jobs


def split_provenance(data: dict[str, Any], source: str) -> tuple[dict[str, Any], Calendar | None]:
    """Split the object ``qops_batsim`` of a workload file into provenance and calendar."""
    if "calendar" not in data:
        return data, None
    where = f"{source}: field 'qops_batsim.calendar'"
    try:
        calendar = msgspec.convert(data["calendar"], Calendar)
    except msgspec.ValidationError:
        raise InputError(
            f"{where} is {shown(data['calendar'])}; an object with unix_start, a number of seconds "
            "since 1970, and time_zone, a name such as Europe/Stockholm, is expected"
        ) from None
    calendar.check(f"{where}: time_zone")
    return {name: value for name, value in data.items() if name != "calendar"}, calendar


def plain_number(value: float) -> float | int:
    """Return a whole number as int, so that JSON shows no fraction."""
    return int(value) if float(value).is_integer() else float(value)


def delay_profile(run_time: float) -> tuple[str, Profile]:
    """Return name and content of the delay profile of this many seconds."""
    seconds = plain_number(run_time)
    return f"delay{seconds}", {"type": "delay", "delay": seconds}


def check_processors(processors: int) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` unless this is a possible machine size."""
    accepted = f"a whole number from 1 to {MAX_PROCESSORS} is accepted"
    require(1 <= processors <= MAX_PROCESSORS, "processors", processors, accepted)


def check_seed(seed: int) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` if the seed is negative."""
    require(seed >= 0, "seed", seed, "a whole number from 0 up is accepted")


def check_share(share: float) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` unless the share is from 0 to 1."""
    require(0 <= share <= 1, "deadline share", share, "a number from 0 to 1 is accepted")


def check_counts(skip: int, first: int | None) -> None:
    """Raise an InputError if ``skip`` (jobs to leave out) is negative, or ``first`` (jobs to take)
    is not above 0.
    """
    require(skip >= 0, "skip", skip, "a whole number from 0 up is expected")
    require(first is None or first > 0, "first", first, "a whole number above 0 is expected")


def stretch_of(source: str, count: int, skip: int, first: int | None) -> slice:
    """Return the slice of ``count`` jobs that leaves out the first ``skip`` and takes the next
    ``first`` (None: all).

    Fewer than are asked for are an :class:`~qops_batsim.errors.InputError`: a shorter stretch is
    another experiment, and in a mean it would count as much as a whole one.
    """
    check_counts(skip, first)
    if count - skip < (first or 1):
        asked = f"skip = {skip}" if first is None else f"skip = {skip}, first = {first}"
        raise InputError(
            f"{source}: has {count} usable jobs, too few for window {{{asked}}}; choose a smaller "
            "skip or first, so that all jobs asked for, and at least one, are there"
        )
    return slice(skip, None if first is None else skip + first)


def shortage_warning(found: int, asked: int | None, what: str) -> str:
    """Return a warning if fewer jobs were ``found`` than ``asked`` for, else ""; ``what`` calls
    them (``jobs``).
    """
    if not asked or found >= asked:
        return ""
    return f"{asked:,} {what} were asked for, but there are only {found:,}"


class JobColumns(NamedTuple):
    """The jobs of a workload in columns, in the order of the file.

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
    requests
        What users ask for beyond that; None where no job has such a request.
    hosts_asked
        What jobs ask of their hosts beyond a number; None where no job does.
    """

    ids: list[str]
    submission_times: np.ndarray
    processors: np.ndarray
    walltimes: np.ndarray
    estimates: np.ndarray
    profiles: np.ndarray
    profile_names: list[str]
    requests: list[QosRequest | None] | None
    hosts_asked: list[HostsAsked | None] | None = None

    @property
    def are_usable(self) -> bool:
        """Whether all jobs have values that a workload file may hold, not looking at ``qos``.
        O(jobs).
        """
        import numpy as np

        times = self.submission_times
        limits = self.walltimes
        used = np.bincount(self.profiles, minlength=1)
        letters = "".join(itertools.compress(self.profile_names, used))
        # Ascending numbers are names, and differ.
        if not are_ascending(self.ids):
            names = "".join(self.ids)
            if len(set(self.ids)) < len(self.ids) or "" in self.ids or "!" in names:
                return False
            letters += names
        return bool(
            not IN_NO_NAME.search(letters)
            and ((self.processors >= 0) & (self.processors <= MAX_PROCESSORS)).all()
            and (abs(times) <= MAX_SECONDS).all()
            and ((limits > 0) & ((limits <= MAX_SECONDS) | (limits == math.inf))).all()
        )

    @property
    def checkpoints(self) -> np.ndarray:
        """Interval of each job's checkpoints (seconds, float64), infinite without any. O(jobs)."""
        return self.asked("checkpoint")

    def asked(self, name: str) -> np.ndarray:
        """Return what each job asks for in field ``name`` of ``qos`` (float64), infinite if
        nothing. O(jobs).
        """
        import numpy as np

        values = np.full(len(self.ids), math.inf)
        told = [
            None if request is None else getattr(request, name) for request in self.requests or ()
        ]
        if told.count(None) < len(told):
            numbers = np.array(told, np.float64)  # None becomes NaN.
            values = np.where(np.isnan(numbers), math.inf, numbers)
        return values

    @classmethod
    def of(cls, jobs: Sequence[Job], profile_names: Sequence[str]) -> JobColumns:
        """Make columns from job objects; profiles not in ``profile_names`` are added there.
        O(jobs).
        """
        import numpy as np

        names = {name: index for index, name in enumerate(profile_names)}
        dates, walltimes, estimates = (np.empty(len(jobs)) for _ in range(3))
        processors, profiles = (np.empty(len(jobs), np.int64) for _ in range(2))
        arrays = dates, walltimes, estimates, processors, profiles
        ids, requests, hosts_asked = columns_of_jobs(list(jobs), names, *arrays)
        return cls(
            ids=ids,
            submission_times=dates,
            processors=processors,
            walltimes=walltimes,
            estimates=estimates,
            profiles=profiles,
            profile_names=list(names),
            requests=requests,
            hosts_asked=hosts_asked,
        )


class WrittenJobs:
    """The JSON text of a list of jobs; the fields of a job are parsed when they are asked for.

    ``is_changed``: job objects made from the text may differ from it by now.
    """

    def __init__(self, content: bytes, ids: Sequence[str], is_ours: bool) -> None:
        self._content = content
        self._ids = ids
        self._is_ours = is_ours
        self._fields: dict[str, msgspec.Raw] | None = None
        self.is_changed = False

    @property
    def lines(self) -> str | None:
        """The jobs' JSON, a job on each line; None if it is laid out otherwise, or jobs were
        changed.
        """
        return self._content[1:-1].decode() if self._is_ours and not self.is_changed else None

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Parse the fields of a job. O(1) after the first call."""
        if self._fields is None:
            texts = msgspec.json.decode(self._content, type=list[msgspec.Raw])
            self._fields = dict(zip(self._ids, texts, strict=True))
        fields: dict[str, Any] = msgspec.json.decode(self._fields[job_id])
        return fields

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fields": None}


class ReadJob(Job):
    """A job read from a file; after a change to it, the workload's columns are made again."""

    __slots__ = ()

    @property
    def fields(self) -> dict[str, Any]:
        if isinstance(self._fields, WrittenJobs):
            self._fields.is_changed = True  # Whoever asks for them may change them.
        return super().fields

    def __setattr__(self, name: str, value: object) -> None:
        written = getattr(self, "_fields", None)
        if isinstance(written, WrittenJobs):
            written.is_changed = True
            if name == "id":  # By which they are found.
                object.__setattr__(self, "_fields", written.fields_of(self.id))
        object.__setattr__(self, name, value)


class JobTable(Sequence[Job]):
    """A sequence of jobs stored as columns; job objects are made when first asked for.

    ``written`` is their JSON, a list; ``is_ours`` says that it is laid out as this package writes
    it, a job on each line.
    """

    def __init__(self, columns: JobColumns, written: bytes, *, is_ours: bool = False) -> None:
        self._columns = columns
        self._written = WrittenJobs(written, columns.ids, is_ours)
        self._made: list[Job] | None = None

    @property
    def columns(self) -> JobColumns:
        """The jobs as columns: as read, or made again if a job object may have been changed."""
        if self._made is not None and self._written.is_changed:
            return JobColumns.of(self._made, self._columns.profile_names)
        return self._columns

    @property
    def written(self) -> str | None:
        """The jobs as lines of a workload file; None once job objects were made, which may be
        changed.
        """
        return None if self._made is not None else self._written.lines

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ if self._written.is_changed else {**self.__dict__, "_made": None}

    def __len__(self) -> int:
        return len(self._columns.ids)

    @overload
    def __getitem__(self, place: int) -> Job: ...
    @overload
    def __getitem__(self, place: slice) -> list[Job]: ...
    def __getitem__(self, place: int | slice) -> Job | list[Job]:
        return self._all()[place]

    def __iter__(self) -> Iterator[Job]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> list[Job]:
        if self._made is None:
            columns = self._columns
            names = columns.profile_names
            limits = columns.walltimes.tolist()
            self._made = [
                ReadJob(job_id, date, processors, profile, limit, request, self._written, hosts)
                for job_id, date, processors, profile, limit, request, hosts in zip(
                    columns.ids,
                    columns.submission_times.tolist(),
                    columns.processors.tolist(),
                    [names[index] for index in columns.profiles.tolist()],
                    [None if limit == math.inf else limit for limit in limits],
                    columns.requests or [None] * len(self),
                    columns.hosts_asked or [None] * len(self),
                    strict=True,
                )
            ]
        return self._made
