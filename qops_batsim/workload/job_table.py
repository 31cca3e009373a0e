"""The jobs of a workload in columns, and as objects that are made when they are asked for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import msgspec

from qops_batsim.jobs import Job, QosRequest
from qops_batsim.limits import IN_NO_NAME, MAX_PROCESSORS, MAX_SECONDS

if TYPE_CHECKING:
    import numpy as np


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
    requests
        What users ask for beyond that; None where no job has such a request.
    """

    ids: list[str]
    submission_times: np.ndarray
    processors: np.ndarray
    walltimes: np.ndarray
    estimates: np.ndarray
    profiles: np.ndarray
    profile_names: list[str]
    requests: list[QosRequest | None] | None

    @property
    def are_usable(self) -> bool:
        """Whether all jobs are as a file may hold them, apart from their requests. O(jobs)."""
        import numpy as np

        times, limits = self.submission_times, self.walltimes
        used = np.bincount(self.profiles, minlength=1)
        letters = "".join([*self.ids, *itertools.compress(self.profile_names, used)])
        return bool(
            len(set(self.ids)) == len(self.ids)
            and "" not in self.ids
            and not IN_NO_NAME.search(letters)
            and "!" not in "".join(self.ids)
            and ((self.processors >= 0) & (self.processors <= MAX_PROCESSORS)).all()
            and (abs(times) <= MAX_SECONDS).all()
            and ((limits > 0) & ((limits <= MAX_SECONDS) | (limits == math.inf))).all()
        )

    @classmethod
    def of(cls, jobs: Sequence[Job], profile_names: Sequence[str]) -> JobColumns:
        """Return jobs in columns. O(jobs)."""
        import numpy as np

        count = len(jobs)
        names = {name: index for index, name in enumerate(profile_names)}
        limits = (math.inf if job.walltime is None else job.walltime for job in jobs)
        profiles = (names.setdefault(job.profile, len(names)) for job in jobs)
        requests = [job.qos for job in jobs]
        return cls(
            ids=[job.id for job in jobs],
            submission_times=np.fromiter((job.submission_time for job in jobs), float, count),
            processors=np.fromiter((job.processors for job in jobs), np.int64, count),
            walltimes=np.fromiter(limits, float, count),
            estimates=np.fromiter((job.estimate for job in jobs), float, count),
            profiles=np.fromiter(profiles, np.int64, count),
            profile_names=list(names),
            requests=requests if any(each is not None for each in requests) else None,
        )


class WrittenJobs:
    """The JSON list of jobs as it was read, in which each has a known identifier.

    ``is_changed`` tells that the jobs made of it may say something else by now, ``is_ours`` that
    the list is written as this package writes it.
    """

    def __init__(
        self,
        content: bytes,
        ids: Sequence[str],
        is_changed: bool = False,
        is_ours: bool = False,
    ) -> None:
        self._content = content
        self._ids = ids
        self._fields: dict[str, msgspec.Raw] | None = None
        self.is_changed = is_changed
        self._is_ours = is_ours

    @property
    def lines(self) -> str | None:
        """The list without its brackets, one job a line; None if it is not written like that."""
        return self._content[1:-1].decode() if self._is_ours and not self.is_changed else None

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return the fields of a job, made anew. O(1) after the first call."""
        if self._fields is None:
            each = msgspec.json.decode(self._content, type=list[msgspec.Raw])
            self._fields = dict(zip(self._ids, each, strict=True))
        fields: dict[str, Any] = msgspec.json.decode(self._fields[job_id])
        return fields

    def __reduce__(self) -> tuple[type, tuple[bytes, Sequence[str], bool, bool]]:
        return WrittenJobs, (self._content, self._ids, self.is_changed, self._is_ours)


class ReadJob(Job):
    """A job of a table, whose columns count no longer once the job may have been changed."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        written = getattr(self, "_fields", None)
        if isinstance(written, WrittenJobs):
            written.is_changed = True
            if name == "id":  # By which they are found.
                object.__setattr__(self, "_fields", written.fields_of(self.id))
        object.__setattr__(self, name, value)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        for name, value in state[1].items():
            object.__setattr__(self, name, value)


class JobTable(Sequence[Job]):
    """A sequence of the jobs in columns, each of which is made when it is first asked for."""

    def __init__(self, columns: JobColumns, written: WrittenJobs) -> None:
        self._columns = columns
        self._written = written
        self._made: list[Job] | None = None

    @property
    def columns(self) -> JobColumns:
        """The jobs in columns: as they were read, or as they are now if they may have changed."""
        if self._made is not None and self._written.is_changed:
            return JobColumns.of(self._made, self._columns.profile_names)
        return self._columns

    @property
    def written(self) -> str | None:
        """The jobs as in a file, one a line; None once a job was made that may be changed."""
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
            columns, names = self._columns, self._columns.profile_names
            self._made = [
                Job(
                    job_id,
                    date,
                    processors,
                    profile,
                    None if limit == math.inf else limit,
                    request,
                    self._written,
                )
                for job_id, date, processors, profile, limit, request in zip(
                    columns.ids,
                    columns.submission_times.tolist(),
                    columns.processors.tolist(),
                    [names[index] for index in columns.profiles.tolist()],
                    columns.walltimes.tolist(),
                    columns.requests or [None] * len(self),
                    strict=True,
                )
            ]
            for job in self._made:
                job.__class__ = ReadJob
        return self._made
