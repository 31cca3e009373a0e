"""Jobs, what their users ask for, and the words for what becomes of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeGuard

import msgspec

from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.limits import MAX_AMOUNT, MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.timing import on_grid

NOT_SUBMITTED = "NOT_SUBMITTED"
SUBMITTED = "SUBMITTED"
RUNNING = "RUNNING"
COMPLETED_SUCCESSFULLY = "COMPLETED_SUCCESSFULLY"
COMPLETED_FAILED = "COMPLETED_FAILED"
COMPLETED_WALLTIME_REACHED = "COMPLETED_WALLTIME_REACHED"
COMPLETED_KILLED = "COMPLETED_KILLED"
REJECTED = "REJECTED"
FINAL_STATES = (
    COMPLETED_SUCCESSFULLY,
    COMPLETED_FAILED,
    COMPLETED_WALLTIME_REACHED,
    COMPLETED_KILLED,
    REJECTED,
)
"""States in which a job is left, by Batsim's names."""

QOS_ACCEPTED = "accepted"
QOS_REJECTED = "rejected"
"""Decisions in ``_qos.csv``."""

QOS_CLASSES = ("deadline", "high_priority", "dedicated", "best_effort")
"""Classes of service of AROMA (Pascal et al. 2004, section 3)."""


class QosRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Request of a user beyond processors and walltime; every field is optional.

    Attributes
    ----------
    deadline
        Latest completion date (seconds, absolute).
    estimated_runtime
        What planning uses instead of the walltime (seconds).
    service_class
        One of :data:`QOS_CLASSES` (JSON field ``class``).
    has_user_deadline
        Whether the deadline is the user's own rather than an artificial one.
    tolerance_factor
        The user accepts an offer up to this many times the requested response time.
    user_priority
        Priority the user gives, from 0 to 1.
    political_priority
        Priority the site gives, from 0 to 1; ``None`` when over quota; unset when not given.
    category
        Free label for reports.
    memory
        Memory needed on each host (bytes).
    origin
        Where the job comes from (a site of a grid, or the job it is a duplicate of).
    queue
        Queue of the site that the user chose (not empty).
    application
        Application that the job is part of (not empty): jobs submitted at one
        date with the same value are its tasks, and are mapped together.
    rerunnable
        Whether the job may be killed and run again, as it may unless this is false.
    checkpoint
        Each time that a run of the job has lasted so many seconds more, its work is saved: killed,
        it goes on from there. Without, it is run again from scratch.
    start
        Date at which the job has to start, neither before nor after (seconds, absolute): an advance
        reservation.

    Examples
    --------
    >>> asked = QosRequest(deadline=3600.0, estimated_runtime=60.0)
    >>> Job("1", 0.0, 4, "delay60", walltime=120.0, qos=asked).estimate
    60.0
    """

    deadline: float | None = None
    estimated_runtime: float | None = None
    service_class: str | None = msgspec.field(default=None, name="class")
    has_user_deadline: bool | None = None
    tolerance_factor: float | None = None
    user_priority: float | None = None
    political_priority: float | msgspec.UnsetType | None = msgspec.UNSET
    category: str | None = None
    memory: float | None = None
    origin: str | None = None
    queue: str | None = None
    application: str | None = None
    rerunnable: bool | None = None
    checkpoint: float | None = None
    start: float | None = None

    def problem(self) -> str | None:
        """Return what is wrong with the values, or None."""
        found = (problem_in(name, getattr(self, name)) for name in CHECKED)
        return next(filter(None, found), None)


_DATES, _DURATIONS = ("deadline", "start"), ("estimated_runtime", "checkpoint")
_AMOUNTS, _PRIORITIES = ("tolerance_factor", "memory"), ("user_priority", "political_priority")
_NAMES = ("queue", "application")

CHECKED = ("service_class", *_DATES, *_DURATIONS, *_AMOUNTS, *_PRIORITIES, *_NAMES)
"""Fields of a request that not every value of their type fits; of numbers, those of a range."""


def problem_in(name: str, value: Any) -> str | None:
    """Return the fault of a field of a request, or None."""
    if value is None or value is msgspec.UNSET:
        return None
    if name == "service_class" and value not in QOS_CLASSES:
        return f"class is {shown(value)}; one of {', '.join(QOS_CLASSES)} is accepted"
    if name in _DATES and not abs(value) <= MAX_SECONDS:
        return f"{name} is {value}; a date up to {MAX_SECONDS:g} s is accepted"
    if name in _DURATIONS and not 0 < value <= MAX_SECONDS:
        return f"{name} is {value}; a number of seconds above 0, up to {MAX_SECONDS:g}, is accepted"
    if name in _AMOUNTS and not 0 <= value < math.inf:
        return f"{name} is {value}; a number from 0 up is accepted"
    if name in _PRIORITIES and not 0 <= value <= 1:
        return f"{name} is {value}; a number from 0 to 1 is accepted"
    if name in _NAMES and value == "":
        return f"{name} is empty; a name is accepted"
    return None


class WrittenFields(Protocol):
    """Source of the fields of jobs, still as they were read."""

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return the fields of a job, made anew."""


class Job:
    """A rigid parallel job, as a workload describes it and an engine submits it.

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
        All fields as read, forwarded untouched to decision modules.

    Examples
    --------
    >>> Job("1", 0.0, 4, "delay60", walltime=120.0).estimate
    120.0
    """

    __slots__ = (
        "_fields",
        "estimate",
        "id",
        "processors",
        "profile",
        "qos",
        "submission_time",
        "walltime",
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
        if qos is not None and qos.estimated_runtime is not None:
            self.estimate = qos.estimated_runtime
        elif walltime is not None:
            self.estimate = walltime
        else:
            self.estimate = math.inf
        # Most jobs are never asked for their fields: these are put together when they are.
        self._fields: dict[str, Any] | WrittenFields | Job | None = fields

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
        """The user whose job it is, by the field of that name; None where it names none."""
        user = self.fields.get("user")
        return None if user is None else str(user)

    def batsim_fields(self) -> dict[str, Any]:
        """Return the fields that Batsim itself uses, a walltime of None left out."""
        values = self.id, self.submission_time, self.processors, self.profile, self.walltime
        fields: dict[str, Any] = dict(zip(_FIELDS, values, strict=True))
        if self.walltime is None:
            del fields["walltime"]
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Any], *, where: str) -> Job:
        """Make a job from the JSON object of a Batsim workload or message, kept, not copied.

        ``where`` the object comes from (``"kth.json: jobs[3]"``) is for messages.

        >>> Job.from_fields({"id": 7, "subtime": 3, "res": 4, "profile": "p"}, where="a.json")
        Job('7', submission_time=3.0, processors=4, walltime=None, profile='p')
        """
        found: Callable[[str], Any] = fields.get
        job_id, submission_time, processors, profile, walltime = map(found, _FIELDS)
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
            job_id = _checked_id(fields, where)
            _check_fields(fields, f"{where} (job {shown(job_id)})")
        qos = None
        if "qos" in fields or "extra_data" in fields:
            qos = _read_qos(fields, f"{where} (job {shown(job_id)})")
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
        """Return the same job under another identifier."""
        job = Job.__new__(Job)
        job.id = new_id
        job.submission_time = self.submission_time
        job.processors = self.processors
        job.walltime = self.walltime
        job.profile = self.profile
        job.qos = self.qos
        job.estimate = self.estimate
        job._fields = self
        return job

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


def restarted_id(job_id: str, number: int) -> str:
    """Return the identifier of a job after so many restarts; 0: as it was submitted."""
    return f"{job_id}#{number}" if number else job_id


def rest_of(job: Job, new_id: str, saved: float) -> Job:
    """Return a killed job as it is to be run again, without the seconds that were saved."""
    if saved == 0:
        return job.renamed(new_id)
    profile = rest_profile(job.profile, new_id.partition("!")[2])
    walltime, qos = job.walltime, job.qos
    if walltime is not None:
        walltime = on_grid(walltime - saved)
    if qos is not None and qos.estimated_runtime is not None:
        rest = on_grid(qos.estimated_runtime - saved)
        qos = msgspec.structs.replace(qos, estimated_runtime=rest)
    asked = job.submission_time, job.processors, profile, walltime, qos
    kept = {name: told for name, told in job.fields.items() if name != "extra_data"}
    return Job(new_id, *asked, {**kept, **Job(new_id, *asked).fields})


def rest_profile(profile: str, local_id: str) -> str:
    """Return the name of what is left of a profile, or of a rest of it, for a run of a job."""
    # As AROMA's: so what is read back is seen to go on.
    return f"{profile.partition('#')[0]}#{local_id}"


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a JSON value is a number that fits into a float; truth values are none."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        # Whole numbers of hundreds of digits compare, but do not convert.
        and abs(value) <= sys.float_info.max
    )


def is_amount(value: object) -> TypeGuard[float]:
    """Tell whether a JSON value is an amount of flop, bytes or seconds that can be simulated."""
    return is_number(value) and 0 <= value <= MAX_AMOUNT


def is_whole_number(value: object) -> TypeGuard[int]:
    """Tell whether a JSON value is a whole number; truth values are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_qos_request(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object that has fields of a :class:`QosRequest` only."""
    return isinstance(value, dict) and bool(value) and _QOS_KEYS.issuperset(value)


_FIELDS = ("id", "subtime", "res", "profile", "walltime")
"""Fields of a job that Batsim knows."""


def _checked_id(fields: dict[str, Any], where: str) -> str:
    job_id = fields.get("id")
    if is_whole_number(job_id) and is_number(job_id):
        job_id = str(job_id)
    if not isinstance(job_id, str) or not job_id:
        raise _field_error(fields, where, "id", "a string or a whole number")
    return job_id


def _check_fields(fields: dict[str, Any], where: str) -> None:
    submission_time = fields.get("subtime")
    if not (is_number(submission_time) and abs(submission_time) <= MAX_SECONDS):
        accepted = f"a number of seconds up to {MAX_SECONDS:g}"
        raise _field_error(fields, where, "subtime", accepted)
    processors = fields.get("res")
    if not is_whole_number(processors) or not 0 <= processors <= MAX_PROCESSORS:
        accepted = f"a whole number of processors from 0 to {MAX_PROCESSORS}"
        raise _field_error(fields, where, "res", accepted)
    if not isinstance(fields.get("profile"), str):
        raise _field_error(fields, where, "profile", "the name of a profile")
    walltime = fields.get("walltime")
    if walltime is None or walltime == -1:
        return
    if not (is_number(walltime) and 0 < walltime <= MAX_SECONDS):
        accepted = f"a number of seconds above 0, up to {MAX_SECONDS:g}, or -1 for none"
        raise _field_error(fields, where, "walltime", accepted)


def _field_error(fields: dict[str, Any], where: str, name: str, accepted: str) -> InputError:
    if name not in fields:
        return InputError(f"{where}: field {name!r} is missing; {accepted} is expected")
    return InputError(f"{where}: field {name!r} is {shown(fields[name])}; {accepted} is expected")


def _read_qos(fields: dict[str, Any], where: str) -> QosRequest | None:
    """Read the ``qos`` object (Batsim v4), or ``extra_data`` that holds the same (v5)."""
    name, raw = "qos", fields.get("qos")
    if raw is None:
        # In Batsim v5 extra_data is open to all uses: it is ours only if every key is.
        raw = fields.get("extra_data")
        if isinstance(raw, str) and raw.startswith("{"):
            # So it reaches whoever decides, and so some write it.
            try:
                raw = msgspec.json.decode(raw)
            except (msgspec.DecodeError, RecursionError):
                return None
        if not is_qos_request(raw):
            return None
        name = "extra_data"
    if not isinstance(raw, dict):
        raise _field_error(fields, where, name, "an object")
    for key in raw:
        if key not in _QOS_KEYS:
            raise InputError(
                f"{where}: field {name!r}: unknown field {shown(key)}{did_you_mean(key, _QOS_KEYS)}"
            )
    try:
        qos = msgspec.convert(raw, QosRequest)
    except msgspec.ValidationError as error:
        wanted, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        raise InputError(
            f"{where}: field {name!r}: {key} is {shown(raw.get(key))}: {wanted}"
        ) from None
    problem = qos.problem()
    if problem:
        raise InputError(f"{where}: field {name!r}: {problem}")
    return qos


_QOS_KEYS = frozenset(field.encode_name for field in msgspec.structs.fields(QosRequest))
