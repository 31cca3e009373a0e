"""Jobs: described by workloads, submitted by engines, started by schedulers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from qops_batsim.core.host_bits import HostBits
from qops_batsim.errors import shown
from qops_batsim.job_fields import FIELDS, QosRequest, check_fields, checked_id, read_qos
from qops_batsim.limits import MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.timing import SAME_DATE, duration_on_grid, on_grid

COMING, WAITING, RUNNING, OVER = range(4)
"""Phases of a job: not submitted yet, submitted, started, ended or rejected."""


_INFINITY, _SAME_DATE, _COMING = math.inf, SAME_DATE, COMING
_NO_DATE, _NO_HOSTS = math.nan, HostBits(0)


class WrittenFields(Protocol):
    """A source of jobs' JSON fields as written in the workload file."""

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return all JSON fields of the job with this id, in a new dictionary."""


def _unpickle_job(kind: type[Job], arguments: tuple[Any, ...], estimate: float) -> Job:
    job = kind(*arguments)
    object.__setattr__(job, "estimate", estimate)
    return job


class Job:
    """A rigid parallel job, as described by a workload.

    Attributes
    ----------
    id
        Identifier. In a workload file as written there; once an engine submits
        it, with the workload's name in front (``"w0!15"``).
    submission_time
        Date of submission (seconds).
    processors
        Hosts the job needs, all at once.
    walltime
        Run time at which the job is killed (seconds), or None.
    profile
        Name of the execution profile within the job's workload.
    qos
        What the user asks for beyond that, or None.
    estimate
        Run time that planning assumes (seconds): ``qos.estimated_runtime`` if
        present, else the walltime, else infinity.
    fields
        All fields as read, forwarded untouched to schedulers.
    arrival
        Date from which response times count (seconds): that of submission, at least 0.
    duration
        Run time that plans hold (seconds): the estimate in whole microseconds, or a prediction.
    deadline, limit
        Latest end that was asked for, and the walltime (seconds); infinite without.
    phase, state
        Where it is in its run: :data:`COMING`, :data:`WAITING`, :data:`RUNNING` or :data:`OVER`;
        Batsim's name of how it has ended, ``""`` until the engine reports its end.
    index
        Its number among the jobs of the run, in the order of submission.
    start, end
        Planned or actual start, and planned or expected end (seconds).
    key
        Number by which the scheduler orders jobs, the least first.
    returning
        Processors that come free at its end: all but those whose hosts have left the machine.
    requested
        The estimate in whole microseconds (seconds), also if ``duration`` is a prediction.
    corrections
        How often its predicted run time was too short.
    number
        Its number among the jobs of a plan, in the order of arrival.
    reserved, bits
        Processors, or hosts, that it takes from the availability profile; of a running job without
        the hosts that have left the machine.
    trial
        Start in the plan being tried.
    promise, target, aim
        Promised latest end (before admission, the requested one); the date that the plan aims at,
        later than the promise for a job that will be late; such a job's target before it was late.
    fixed_start
        The only start that its user accepts (seconds), infinite without.
    given_from, given_until
        Dates between which other jobs have released reservations since it was placed (seconds).
    lag
        By how much it started later than planned (seconds), while it counts as on time.
    place, turn
        Where it stands among the running jobs of a plan; which start of the plan it was.
    kills
        How often it was killed before, to be run again.
    latest_start
        Promised latest start, if the scheduler promises starts; else infinite (seconds).
    suspended, lost, lost_date
        A promise that no start keeps at present, NaN without; how many hosts were lost for its
        promise, and when (seconds).
    noted_start, noted_end, noted_target
        Start, expected end and target that were written to the decision log last.
    rank
        Its place among the waiting jobs while a plan is tried.
    cell, cell_above
        Its size class (processors × duration), and the first class of only jobs as large or
        larger; -1 until :class:`~qops_batsim.core.profile.FitBounds` sets them.
    headroom
        Processors that stay free next to it in a plan that is tried.
    rate, gain
        What a second of delay costs in such a plan, and the least that its delay can cost.
    fits_from, fits_until
        Dates between which it fits into such a plan and is in time (seconds).
    priority, first_slack
        Where moves have prices: what it weighs, from 0 to 1, minus infinity over quota; and by how
        much its first start may be delayed (seconds).
    is_held, is_dying, is_kept
        Whether it waits and must not start yet; whether it was killed and has not ended yet;
        whether it is never killed for another one.

    The attributes after ``fields`` are set by the engine and the scheduler in one simulation, so
    each simulation has its own objects. Only the engine knows how long the job really runs.

    Examples
    --------
    >>> Job("1", 0.0, 4, "delay60", walltime=120.0).estimate
    120.0
    """

    __slots__ = (
        *("_fields", "estimate", "id", "processors", "profile", "qos", "submission_time"),
        *("arrival", "corrections", "deadline", "duration", "end", "index", "key", "limit"),
        *("phase", "requested", "returning", "start", "state", "walltime"),
        *("aim", "bits", "cell", "cell_above", "fits_from", "fits_until", "fixed_start", "gain"),
        *("given_from", "given_until", "headroom", "is_dying", "is_held", "is_kept", "kills"),
        *("lag", "latest_start", "lost", "lost_date", "noted_end", "noted_start"),
        *("noted_target", "number", "place", "promise", "rank", "rate", "reserved"),
        *("suspended", "target", "trial", "turn", "first_slack", "priority"),
    )

    def __init__(
        self,
        id: str,  # noqa: A002 - the field's name in Batsim
        submission_time: float,
        processors: int,
        profile: str,
        walltime: float | None = None,
        qos: QosRequest | None = None,
        fields: dict[str, Any] | WrittenFields | None = None,
    ) -> None:
        self.id = id
        self.submission_time = submission_time
        self.processors = processors
        self.walltime = walltime
        self.profile = profile
        self.qos = qos
        self._estimate()
        self._begin()
        # Most jobs are never asked for their fields: these are put together when they are.
        self._fields: dict[str, Any] | WrittenFields | Job | None = fields

    def _estimate(self) -> None:
        if self.qos is not None and self.qos.estimated_runtime is not None:
            self.estimate = self.qos.estimated_runtime
        elif self.walltime is not None:
            self.estimate = self.walltime
        else:
            self.estimate = _INFINITY

    def _begin(self) -> None:
        """Reset the attributes that change in a simulation to their values before submission."""
        self.arrival = max(self.submission_time, 0.0)  # Engines submit earlier ones at 0.
        self.duration = self.requested = duration_on_grid(self.estimate)
        self.deadline = self.limit = _INFINITY
        if self.qos is not None and self.qos.deadline is not None:
            self.deadline = self.qos.deadline
        if self.walltime is not None:
            self.limit = self.walltime
        self.phase, self.index, self.returning, self.state = _COMING, -1, self.processors, ""
        self.start = self.end = self.trial = _INFINITY
        self.number, self.reserved, self.bits = -1, self.processors, _NO_HOSTS
        self.place, self.turn, self.lag, self.kills = -1, -1, 0.0, 0
        self.latest_start, self.suspended = _INFINITY, _NO_DATE
        self.lost, self.lost_date = 0, 0.0
        self.noted_start = self.noted_end = self.noted_target = 0.0
        self.rate, self.gain, self.headroom = 0.0, 0.0, 0
        self.rank, self.cell, self.cell_above = 0, -1, -1
        self.fits_from = self.fits_until = self.priority = self.first_slack = 0.0
        self.given_from, self.given_until = _INFINITY, -_INFINITY
        self.promise, self.aim, self.fixed_start = self.deadline, _INFINITY, _INFINITY
        self.target = self.deadline
        if self.deadline < _INFINITY and self.duration - self.estimate > _SAME_DATE:
            # So much later it may end, as its estimate was lengthened to be whole on the grid.
            self.target = self.deadline + (self.duration - self.estimate)
        self.is_held = self.is_dying = self.is_kept = False
        if self.qos is not None:
            self.is_kept = self.qos.rerunnable is False
            if self.qos.start is not None:
                self.fixed_start = on_grid(self.qos.start)
        self.key, self.corrections = 0.0, 0

    @property
    def fields(self) -> dict[str, Any]:
        fields = self._fields
        if isinstance(fields, dict):
            return fields
        if fields is None:
            made = self.batsim_fields()
            if self.qos is not None:
                made["qos"] = msgspec.to_builtins(self.qos)
        elif isinstance(fields, Job):
            made = {**fields.fields, "id": self.id}
        else:
            made = fields.fields_of(self.id)
        self._fields = made
        return made

    @property
    def user(self) -> str | None:
        """The user who submitted the job (field ``user``), None if the workload does not say."""
        user = self.fields.get("user")
        return None if user is None else str(user)

    def batsim_fields(self) -> dict[str, Any]:
        """Return the job's fields that Batsim itself reads; a walltime of None is left out."""
        values = self.id, self.submission_time, self.processors, self.profile, self.walltime
        fields: dict[str, Any] = dict(zip(FIELDS, values, strict=True))
        if self.walltime is None:
            del fields["walltime"]
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Any], *, where: str) -> Job:
        """Return a job read from its JSON object in a workload or message; the job keeps the
        object.

        ``where`` the object comes from (``"kth.json: jobs[3]"``) is for messages.

        >>> Job.from_fields({"id": 7, "subtime": 3, "res": 4, "profile": "p"}, where="a.json")
        Job('7', submission_time=3.0, processors=4, walltime=None, profile='p')
        """
        found: Callable[[str], Any] = fields.get
        job_id, submission_time, processors, profile, walltime = map(found, FIELDS)
        if walltime == -1:
            walltime = None
        # This runs for every job: what is as usual is seen without a call.
        is_usual = (
            type(job_id) is str
            and job_id
            and type(submission_time) in (float, int)
            and abs(submission_time) <= MAX_SECONDS
            and type(processors) is int
            and 0 <= processors <= MAX_PROCESSORS
            and type(profile) is str
            and (walltime is None or type(walltime) in (float, int))
            and (walltime is None or 0 < walltime <= MAX_SECONDS)
        )
        if not is_usual:
            job_id = checked_id(fields, where)
            check_fields(fields, f"{where} (job {shown(job_id)})")
        qos = None
        if "qos" in fields or "extra_data" in fields:
            qos = read_qos(fields, f"{where} (job {shown(job_id)})")
        return cls(
            job_id,
            float(submission_time),
            processors,
            profile,
            None if walltime is None else float(walltime),
            qos,
            fields,
        )

    def renamed(self, new_id: str) -> Job:
        """Return a copy of the job, not yet submitted, with another identifier."""
        job = Job.__new__(Job)
        job.id = new_id
        job.submission_time = self.submission_time
        job.processors = self.processors
        job.walltime = self.walltime
        job.profile = self.profile
        job.qos = self.qos
        job.estimate = self.estimate
        job._begin()
        job._fields = self
        return job

    def __reduce__(self) -> tuple[Any, ...]:
        asked = self.id, self.submission_time, self.processors, self.profile, self.walltime
        return _unpickle_job, (type(self), (*asked, self.qos, self._fields), self.estimate)

    def __repr__(self) -> str:
        return (
            f"Job({self.id!r}, submission_time={self.submission_time}, "
            f"processors={self.processors}, walltime={self.walltime}, profile={self.profile!r})"
        )

    def __eq__(self, other: object) -> bool:
        # Queues look for jobs: the fields of others need not be put together for that.
        return isinstance(other, Job) and self.id == other.id and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.id)
