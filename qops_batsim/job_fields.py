"""The fields of jobs in workloads and messages, and their accepted values."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from typing import Any, TypeGuard

import msgspec

from qops_batsim.data_problems import problem
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.limits import MAX_AMOUNT, MAX_PROCESSORS, MAX_SECONDS

QOS_CLASSES = ("deadline", "high_priority", "dedicated", "best_effort")
"""Classes of service of AROMA (Pascal et al. 2004, section 3)."""


class QosRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What a user requests beyond processors and walltime; every field is optional.

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
        Interval (seconds) at which a run of the job saves its work: killed,
        it goes on from there. Without, it is run again from scratch.
    start
        Date at which the job has to start, neither before nor after (seconds, absolute): an advance
        reservation.

    Examples
    --------
    >>> asked = QosRequest(deadline=3600.0, estimated_runtime=60.0)
    >>> asked.estimated_runtime, asked.problem()
    (60.0, None)
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
        """Check all values of the request; return the first problem, None if all are valid."""
        found = (problem_in(name, getattr(self, name)) for name in CHECKED)
        return next(filter(None, found), None)


_DATES = ("deadline", "start")
_DURATIONS = ("estimated_runtime", "checkpoint")
_AMOUNTS = ("tolerance_factor", "memory")
_PRIORITIES = ("user_priority", "political_priority")
_NAMES = ("queue", "application")

CHECKED = ("service_class", *_DATES, *_DURATIONS, *_AMOUNTS, *_PRIORITIES, *_NAMES)
"""Fields of a request that not every value of their type fits; of numbers, those of a range."""


def problem_in(name: str, value: Any) -> str | None:
    """Check the value of one field of a :class:`QosRequest`; return the problem, None if valid."""
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


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a JSON value is a number that fits into a float (booleans are not)."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        # Whole numbers of hundreds of digits compare, but do not convert.
        and abs(value) <= sys.float_info.max
    )


def is_amount(value: object) -> TypeGuard[float]:
    """Return whether a JSON value can be an amount of flop, bytes or seconds."""
    return is_number(value) and 0 <= value <= MAX_AMOUNT


def is_whole_number(value: object) -> TypeGuard[int]:
    """Return whether a JSON value is a whole number (booleans are not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_qos_request(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object that has only fields of :class:`QosRequest`."""
    return isinstance(value, dict) and bool(value) and QOS_FIELDS.issuperset(value)


FIELDS = ("id", "subtime", "res", "profile", "walltime")
"""Fields of a job that Batsim knows."""

_SHORT = 3
"""Names of so many letters are misspelt only by a letter too many: there are many short words."""


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` is hardly meant to differ from, or None: it differs by
    case, signs between words, one letter, or two letters that changed places.

    >>> misspelt("wallime", FIELDS), misspelt("wall_time", FIELDS), misspelt("priority", FIELDS)
    ('walltime', 'walltime', None)
    """
    known = tuple(known)
    if name in known:
        return None
    plain = _plain(name)
    return next((each for each in known if _is_near(plain, _plain(each))), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_near(name: str, meant: str) -> bool:
    """Return whether one letter was left out, added or changed, or two changed places."""
    if name == meant or sorted(name) == sorted(meant):
        return True
    if len(meant) <= _SHORT:
        return len(meant) == _SHORT == len(name) - 1 and _is_without_one(name, meant)
    if len(name) == len(meant):
        return sum(a != b for a, b in zip(name, meant, strict=True)) == 1
    return _is_without_one(*sorted((name, meant), key=len, reverse=True))


def _is_without_one(long: str, short: str) -> bool:
    """Return whether ``short`` is ``long`` without one of its letters."""
    return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))


def check_fields(fields: dict[str, Any], where: str) -> str:
    """Return a job's identifier, which may be written as a whole number; InputError if it, or
    another field that Batsim reads, is not accepted.
    """
    job_id = fields.get("id")
    if is_whole_number(job_id) and is_number(job_id):
        job_id = str(job_id)
    if not isinstance(job_id, str) or not job_id:
        raise _field_error(fields, where, "id", "a string or a whole number")

    submission_time = fields.get("subtime")
    if not (is_number(submission_time) and abs(submission_time) <= MAX_SECONDS):
        accepted = f"a number of seconds up to {MAX_SECONDS:g}"
        raise _field_error(fields, _of_job(where, job_id), "subtime", accepted)

    processors = fields.get("res")
    if not is_whole_number(processors) or not 0 <= processors <= MAX_PROCESSORS:
        accepted = f"a whole number of processors from 0 to {MAX_PROCESSORS}"
        raise _field_error(fields, _of_job(where, job_id), "res", accepted)
    if not isinstance(fields.get("profile"), str):
        raise _field_error(fields, _of_job(where, job_id), "profile", "the name of a profile")
    walltime = fields.get("walltime")
    if walltime is None or walltime == -1:
        return job_id
    if not (is_number(walltime) and 0 < walltime <= MAX_SECONDS):
        accepted = f"a number of seconds above 0, up to {MAX_SECONDS:g}, or -1 for none"
        raise _field_error(fields, _of_job(where, job_id), "walltime", accepted)
    return job_id


def _of_job(where: str, job_id: object) -> str:
    return f"{where} (job {shown(str(job_id))})"


def _field_error(fields: dict[str, Any], where: str, name: str, accepted: str) -> InputError:
    if name not in fields:
        near = next((each for each in fields if misspelt(each, (name,))), None)
        there = "" if near is None else f" (found {shown(near)}; did you mean {name!r}?)"
        return InputError(f"{where}: field {name!r} is missing{there}; {accepted} is expected")
    return InputError(f"{where}: field {name!r} is {shown(fields[name])}; {accepted} is expected")


def read_qos(fields: dict[str, Any], where: str) -> QosRequest | None:
    """Read a job's request from ``qos`` (Batsim 4) or from ``extra_data`` (Batsim 5)."""
    name = "qos"
    raw = fields.get("qos")
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

    if "id" in fields:
        where = _of_job(where, fields["id"])
    if not isinstance(raw, dict):
        raise _field_error(fields, where, name, "an object")
    for key in raw:
        if key not in QOS_FIELDS:
            raise InputError(
                f"{where}: field {name!r}: unknown field {shown(key)}"
                f"{did_you_mean(key, QOS_FIELDS)}"
            )

    try:
        qos = msgspec.convert(raw, QosRequest)
    except msgspec.ValidationError as error:
        wrong = problem(error, raw, QosRequest, noun="")
        raise InputError(f"{where}: field {name!r}: {wrong}") from None

    told = qos.problem()
    if told:
        raise InputError(f"{where}: field {name!r}: {told}")
    return qos


QOS_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(QosRequest))
"""Names of the fields of a user's request in JSON."""
