"""The jobs of a workload in columns, and as objects that are made when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import msgspec

from qops_batsim.jobs import Job, QosRequest, WrittenFields

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
    """The JSON list of jobs as it was read, in which each has a known identifier."""

    def __init__(self, content: bytes, ids: Sequence[str]) -> None:
        self._content = content
        self._ids = ids
        self._fields: dict[str, msgspec.Raw] | None = None

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return the fields of a job, made anew. O(1) after the first call."""
        if self._fields is None:
            each = msgspec.json.decode(self._content, type=list[msgspec.Raw])
            self._fields = dict(zip(self._ids, each, strict=True))
        fields: dict[str, Any] = msgspec.json.decode(self._fields[job_id])
        return fields

    def __reduce__(self) -> tuple[type, tuple[bytes, Sequence[str]]]:
        return WrittenJobs, (self._content, self._ids)


class JobTable(Sequence[Job]):
    """A sequence of the jobs in columns, each of which is made when it is first asked for."""

    def __init__(self, columns: JobColumns, written: WrittenFields) -> None:
        self.columns = columns
        self._written = written
        self._made: list[Job] | None = None

    def __len__(self) -> int:
        return len(self.columns.ids)

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
            columns, names = self.columns, self.columns.profile_names
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
        return self._made
