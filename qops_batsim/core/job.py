"""Jobs: described by workloads, submitted by engines, started by schedulers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from qops_batsim.core.host_bits import HostBits
from qops_batsim.job_fields import (
    FIELDS,
    HostsAsked,
    QosRequest,
    check_fields,
    read_hosts_asked,
    read_qos,
    written_hosts,
)
from qops_batsim.timing import SAME_DATE, duration_on_grid, on_grid

if TYPE_CHECKING:
    from qops_batsim.core.node_request import Places

COMING, WAITING, RUNNING, OVER = range(4)
"""Phases of a job: not submitted yet, submitted, started, ended or rejected."""


# A cdef variable is not seen from Python, as the phases have to be.
_COMING = COMING

INFINITY = math.inf
NO_DATE = math.nan
NO_HOSTS = HostBits(0)


class WrittenFields(Protocol):
    """A source of jobs' JSON fields as written in the workload file."""

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return all JSON fields of the job with this id, in a new dictionary."""


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
    hosts_asked
        What the job asks of its hosts beyond their number, or None.
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
    request
        What it asks for of hosts that jobs share, and which it has; None where hosts are whole.
    size
        Processors where a rule needs one number; of a request its dominant share, in hosts.
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

    def __init__(
        self,
        id: str,  # noqa: A002 - the field's name in Batsim
        submission_time: float,
        processors: int,
        profile: str,
        walltime: float | None = None,
        qos: QosRequest | None = None,
        fields: dict[str, Any] | WrittenFields | Job | None = None,
        hosts_asked: HostsAsked | None = None,
    ) -> None:
        self.id = id
        self.submission_time = submission_time
        self.processors = processors
        self.walltime = walltime
        self.profile = profile
        self.qos = qos
        self.hosts_asked = hosts_asked
        # Most jobs are never asked for their fields: these are put together when they are.
        self._fields = fields
        self._begin()

    def _begin(self) -> None:
        """Set the attributes that follow from what the user asks for, and those that change in a
        simulation to their values before submission.
        """
        qos = self.qos
        self.estimate = INFINITY
        if self.walltime is not None:
            self.estimate = self.walltime
        if qos is not None and qos.estimated_runtime is not None:
            self.estimate = qos.estimated_runtime
        self.duration = duration_on_grid(self.estimate)
        self.requested = self.duration
        self.limit = INFINITY if self.walltime is None else self.walltime

        # Engines submit jobs with earlier dates at 0.
        self.arrival = max(self.submission_time, 0.0)
        self.index = -1
        self.phase = _COMING
        self.state = ""
        self.start = INFINITY
        self.end = INFINITY
        self.returning = self.processors
        self.key = 0.0
        self.corrections = 0

        self.deadline = INFINITY
        if qos is not None and qos.deadline is not None:
            self.deadline = qos.deadline
        self.promise = self.deadline
        self.target = self.deadline
        if self.deadline < INFINITY and self.duration - self.estimate > SAME_DATE:
            # So much later it may end, as its estimate was lengthened to be whole on the grid.
            self.target = self.deadline + (self.duration - self.estimate)

        self.aim = INFINITY
        self.latest_start = INFINITY
        self.fixed_start = INFINITY
        if qos is not None and qos.start is not None:
            self.fixed_start = on_grid(qos.start)

        self.number = -1
        self.reserved = self.processors
        self.bits = NO_HOSTS
        self.request: Any = None  # a NodeRequest where hosts are shared
        self.size = float(self.processors)
        self.place = -1
        self.turn = -1
        self.lag = 0.0
        self.given_from = INFINITY
        self.given_until = -INFINITY
        self.suspended = NO_DATE
        self.lost = 0
        self.lost_date = 0.0

        self.kills = 0
        self.is_held = False
        self.is_dying = False
        self.is_kept = qos is not None and qos.rerunnable is False

        self.trial = INFINITY
        self.rank = 0
        self.cell = -1
        self.cell_above = -1
        self.headroom = 0
        self.priority = 0.0
        self.first_slack = 0.0

        self.noted_start = 0.0
        self.noted_end = 0.0
        self.noted_target = 0.0

    @property
    def fields(self) -> dict[str, Any]:
        fields = self._fields
        if isinstance(fields, dict):
            return fields
        if fields is None:
            made = self.batsim_fields()
            if self.qos is not None:
                made["qos"] = msgspec.to_builtins(self.qos)
            if self.hosts_asked is not None:
                made |= written_hosts(self.hosts_asked)
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

    def keep_as_trial(self) -> None:
        """Try the job where it is planned."""
        self.trial = self.start
        if self.request is not None:
            self.request.tried.copy_from(self.request.held)

    def adopt_trial(self) -> None:
        """Plan the job where it is tried."""
        self.start = self.trial
        if self.request is not None:
            self.request.held.copy_from(self.request.tried)

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
        job_id = check_fields(fields, where)
        walltime = fields.get("walltime")
        return cls(
            job_id,
            float(fields["subtime"]),
            fields["res"],
            fields["profile"],
            None if walltime in (None, -1) else float(walltime),
            read_qos(fields, where),
            fields,
            read_hosts_asked(fields, where),
        )

    def renamed(self, new_id: str) -> Job:
        """Return a copy of the job, not yet submitted, with another identifier."""
        asked = self.submission_time, self.processors, self.profile, self.walltime, self.qos
        return Job(new_id, *asked, self, self.hosts_asked)

    def __reduce__(self) -> tuple[Any, ...]:
        asked = self.id, self.submission_time, self.processors, self.profile, self.walltime
        return type(self), (*asked, self.qos, self._fields, self.hosts_asked)

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


def tried_places(jobs: list[Job]) -> list[Places]:
    """Return copies of where jobs are tried on hosts that they share; none where hosts are whole.
    O(jobs × places).
    """
    return [job.request.tried.copied() for job in jobs if job.request is not None]
