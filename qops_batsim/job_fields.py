"""The fields of jobs in workloads and messages, and their accepted values."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeGuard

import msgspec

from qops_batsim.data_problems import problem
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.limits import (
    IN_NO_NAME,
    MAX_AMOUNT,
    MAX_HOST_AMOUNT,
    MAX_PROCESSORS,
    MAX_SECONDS,
)

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
        for name in CHECKED:
            value = getattr(self, name)
            if value is not None and (found := problem_in(name, value)):
                return found
        return None


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


def is_request(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value is an object that has only fields of :class:`QosRequest`, and
    :data:`HOST_FIELDS`.
    """
    return isinstance(value, dict) and bool(value) and _REQUEST_FIELDS.issuperset(value)


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
        raise field_error(fields, where, "id", "a string or a whole number")

    submission_time = fields.get("subtime")
    if not (is_number(submission_time) and abs(submission_time) <= MAX_SECONDS):
        accepted = f"a number of seconds up to {MAX_SECONDS:g}"
        raise field_error(fields, _of_job(where, job_id), "subtime", accepted)

    processors = fields.get("res")
    if not is_whole_number(processors) or not 0 <= processors <= MAX_PROCESSORS:
        accepted = f"a whole number of processors from 0 to {MAX_PROCESSORS}"
        raise field_error(fields, _of_job(where, job_id), "res", accepted)
    if not isinstance(fields.get("profile"), str):
        raise field_error(fields, _of_job(where, job_id), "profile", "the name of a profile")
    walltime = fields.get("walltime")
    if walltime is None or walltime == -1:
        return job_id
    if not (is_number(walltime) and 0 < walltime <= MAX_SECONDS):
        accepted = f"a number of seconds above 0, up to {MAX_SECONDS:g}, or -1 for none"
        raise field_error(fields, _of_job(where, job_id), "walltime", accepted)
    return job_id


def _of_job(where: str, job_id: object) -> str:
    return f"{where} (job {shown(str(job_id))})"


def field_error(fields: Mapping[str, Any], where: str, name: str, accepted: str) -> InputError:
    """Return the error about a field of a JSON object that is missing, or not ``accepted``."""
    if name not in fields:
        near = next((each for each in fields if misspelt(each, (name,))), None)
        there = "" if near is None else f" (found {shown(near)}; did you mean {name!r}?)"
        return InputError(f"{where}: field {name!r} is missing{there}; {accepted} is expected")
    return _value_error(where, name, fields[name], accepted)


def _value_error(where: str, name: str, value: object, accepted: str) -> InputError:
    return InputError(f"{where}: field {name!r} is {shown(value)}; {accepted} is expected")


def read_qos(fields: Mapping[str, Any], where: str) -> QosRequest | None:
    """Read a job's request from ``qos`` (Batsim 4) or from ``extra_data`` (Batsim 5)."""
    name = "qos"
    raw = fields.get("qos")
    if raw is None:
        # In Batsim v5 extra_data is open to all uses: it is ours only if every key is.
        raw = object_in(fields.get("extra_data"))
        if not is_request(raw):
            return None
        raw = split_request(raw)[0]
        if not raw:
            return None
        name = "extra_data"

    def error(problem: str) -> InputError:
        place = _of_job(where, fields["id"]) if "id" in fields else where
        return InputError(f"{place}: field {name!r}{problem}")

    if not isinstance(raw, dict):
        raise error(f" is {shown(raw)}; an object is expected")
    for key in raw:
        if key not in QOS_FIELDS:
            beside = f"; {key} stands beside {name}" if key in HOST_FIELDS else ""
            hint = beside or did_you_mean(key, QOS_FIELDS)
            raise error(f": unknown field {shown(key)}{hint}")

    try:
        qos = msgspec.convert(raw, QosRequest)
    except msgspec.ValidationError as fault:
        raise error(f": {problem(fault, raw, QosRequest, noun='')}") from None

    if told := qos.problem():
        raise error(f": {told}")
    return qos


QOS_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(QosRequest))
"""Names of the fields of a user's request in JSON."""

HOST_FIELDS = ("per_host", "tasks", "per_task", "hosts_with", "exclusive", "licences", "parts")
"""Fields of a job that say what it asks of its hosts, beyond their number."""

_HOST_FIELDS = frozenset(HOST_FIELDS)
_REQUEST_FIELDS = QOS_FIELDS.union(HOST_FIELDS)

KINDS = ("cores", "memory", "gpus")
"""Kinds of amounts that hosts have everywhere; ``gpus:TYPE`` and those of a site come after."""


def object_in(extra: object) -> object:
    """Return a job's ``extra_data`` as an object if it is the text of one, else as it is.

    So it reaches whoever decides, and so some write it.
    """
    if not (isinstance(extra, str) and extra.startswith("{")):
        return extra
    try:
        return msgspec.json.decode(extra)
    except (msgspec.DecodeError, RecursionError):
        return extra


def split_request(extra: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split an ``extra_data`` for which :func:`is_request` holds into ``qos`` and the fields of
    hosts.
    """
    asked = {name: value for name, value in extra.items() if name in QOS_FIELDS}
    return asked, {name: value for name, value in extra.items() if name not in QOS_FIELDS}


def extra_data_of(fields: Mapping[str, Any]) -> Any:
    """Return what a job's ``extra_data`` is in Batsim 5: as it is, or ``qos`` and the fields of
    hosts in one object.
    """
    asked = fields.get("qos")
    extra = fields.get("extra_data")
    if asked is None:
        if all(fields.get(name) is None for name in HOST_FIELDS):
            return extra
        asked = object_in(extra)
    hosts = host_fields_of(fields)
    return {**(asked if isinstance(asked, dict) else {}), **hosts}


class AskedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts that a job asks for, all alike.

    Attributes
    ----------
    hosts
        How many; of tasks, at most.
    amounts
        What it takes of each host, or each task takes, by kind: whole numbers above 0, memory in
        bytes. Empty: whole hosts.
    tasks
        Tasks, of which any number may share a host; 0 if each host gives the amounts once.
    labels
        What each of the hosts must have.
    exclusive
        Whether no other job is on the hosts, as always if ``amounts`` is empty.
    """

    hosts: int
    amounts: dict[str, int] = {}
    tasks: int = 0
    labels: tuple[str, ...] = ()
    exclusive: bool = False


class HostsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks of the machine beyond a number of hosts.

    Attributes
    ----------
    parts
        Hosts that it takes at the same time; those of different parts are different.
    licences
        Amounts of the whole machine, by name: whole numbers above 0.
    """

    parts: tuple[AskedPart, ...]
    licences: dict[str, int] = {}


def asked_or_whole(asked: HostsAsked | None, hosts: int) -> HostsAsked:
    """Return what a job of so many hosts asks of them: whole ones unless it says more."""
    return asked or HostsAsked(parts=(AskedPart(hosts=hosts, exclusive=True),))


def read_hosts_asked(fields: Mapping[str, Any], where: str) -> HostsAsked | None:
    """Return what a job asks of its hosts beyond their number (``res``), None if nothing.

    Parameters
    ----------
    fields
        The JSON object of the job: :data:`HOST_FIELDS` stand in it (Batsim 4), or in its
        ``extra_data`` (Batsim 5), an object or the text of one.
    where
        The place that messages name.

    Raises
    ------
    InputError
        Naming place, field, value and what is accepted.

    Examples
    --------
    >>> read_hosts_asked({"res": 2, "per_host": {"memory": 16e9, "gpus:v100": 1}}, "a job").parts
    (AskedPart(hosts=2, amounts={'memory': 16000000000, 'gpus': 1, 'gpus:v100': 1}, tasks=0, \
labels=(), exclusive=False),)
    """
    told = host_fields_of(fields)
    if not told:
        return None
    if "id" in fields:
        where = _of_job(where, fields["id"])
    prefix = "" if any(name in fields for name in told) else "extra_data."
    return _AskedReader(where).read(fields.get("res"), told, prefix)


def written_hosts(asked: HostsAsked) -> dict[str, Any]:
    """Return the fields of a job, in Batsim 4's form, that ask for this.

    >>> part = AskedPart(hosts=2, amounts={"cores": 8}, labels=("skylake",))
    >>> written_hosts(HostsAsked(parts=(part,)))
    {'per_host': {'cores': 8}, 'hosts_with': ['skylake']}
    """
    parts = [_written_part(part) for part in asked.parts]
    fields: dict[str, Any] = parts[0]
    if len(parts) > 1:
        hosts = [{"res": part.hosts} for part in asked.parts]
        fields = {"parts": [{**res, **told} for res, told in zip(hosts, parts, strict=True)]}
    if asked.licences:
        fields["licences"] = asked.licences
    return fields


def _written_part(part: AskedPart) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if part.tasks:
        fields |= {"tasks": part.tasks, "per_task": part.amounts}
    elif part.amounts:
        fields["per_host"] = part.amounts
    if part.labels:
        fields["hosts_with"] = list(part.labels)
    if part.exclusive and (part.amounts or not part.labels):
        fields["exclusive"] = True
    return fields


def host_fields_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of :data:`HOST_FIELDS` that a job has, in its object or in ``extra_data``."""
    if _HOST_FIELDS.isdisjoint(fields) and "extra_data" not in fields:
        return {}  # As most jobs, of which there are many.
    told = {name: fields[name] for name in HOST_FIELDS if fields.get(name) is not None}
    if not told and "extra_data" in fields:
        extra = object_in(fields["extra_data"])
        if isinstance(extra, dict):
            told = {name: extra[name] for name in HOST_FIELDS if extra.get(name) is not None}
    return told


def hosts_unknown(name: str, asked: HostsAsked, platform: str) -> str:
    """Return the error of a job that asks for parts of hosts of a platform that tells of none."""
    return (
        f"job {shown(name)} asks for {', '.join(written_hosts(asked))}, but no host of {platform} "
        "tells what it has; a platform whose hosts have amounts, such as cores, is expected"
    )


_OF_PART = ("res", "per_host", "hosts_with", "exclusive")


class _AskedReader:
    """Reads what a job asks of its hosts; ``where`` the job is, for messages."""

    def __init__(self, where: str) -> None:
        self._where = where

    def read(self, hosts: Any, told: Mapping[str, Any], prefix: str) -> HostsAsked | None:
        """Read the fields ``told`` of a job of this many hosts; their names follow ``prefix``."""
        licences = self._amounts(told, "licences", prefix) if "licences" in told else {}
        if "parts" in told:
            for name in told:
                if name not in ("parts", "licences"):
                    accepted = "nothing beside 'parts', each of which has its own,"
                    raise self._error(prefix + name, told[name], accepted)
            parts = self._parts(told["parts"], f"{prefix}parts")
            if sum(part.hosts for part in parts) != hosts:
                accepted = f"the sum of those of the parts, {sum(part.hosts for part in parts)},"
                raise self._error("res", hosts, accepted)
            return HostsAsked(parts=parts, licences=licences)

        part = self._part(hosts, "res", told, prefix)
        asks = part.amounts or part.labels or told.get("exclusive") or licences
        return HostsAsked(parts=(part,), licences=licences) if asks else None

    def _parts(self, told: Any, name: str) -> tuple[AskedPart, ...]:
        if not isinstance(told, list) or not told:
            raise self._error(name, told, "a list of at least one object")
        parts = []
        for index, part in enumerate(told):
            place = f"{name}[{index}]"
            if not isinstance(part, dict):
                raise self._error(place, part, f"an object with {', '.join(_OF_PART)}")
            for key in part:
                if key not in _OF_PART:
                    near = did_you_mean(key, _OF_PART)
                    raise InputError(
                        f"{self._where}: field {place!r}: unknown field {shown(key)}{near}"
                    )
            given = {name: value for name, value in part.items() if value is not None}
            parts.append(self._part(part.get("res"), f"{place}.res", given, f"{place}."))
        return tuple(parts)

    def _part(
        self, hosts: Any, name_of_hosts: str, told: Mapping[str, Any], prefix: str
    ) -> AskedPart:
        if not is_whole_number(hosts) or not 1 <= hosts <= MAX_PROCESSORS:
            accepted = f"a whole number of hosts from 1 to {MAX_PROCESSORS}"
            raise self._error(name_of_hosts, hosts, accepted)

        exclusive = told.get("exclusive", False)
        if not isinstance(exclusive, bool):
            raise self._error(f"{prefix}exclusive", exclusive, "true or false")

        tasks = self._tasks(hosts, told, prefix)
        name = "per_task" if tasks else "per_host"
        amounts = self._amounts(told, name, prefix) if name in told else {}
        return AskedPart(
            hosts=hosts,
            amounts=amounts,
            tasks=tasks,
            labels=self._labels(told.get("hosts_with", []), f"{prefix}hosts_with"),
            exclusive=exclusive or not amounts,
        )

    def _tasks(self, hosts: int, told: Mapping[str, Any], prefix: str) -> int:
        """Return the number of tasks, 0 if the job asks by host."""
        for name, other in (("tasks", "per_task"), ("per_task", "tasks")):
            if name in told and other not in told:
                accepted = f"{name!r} only together with {other!r}"
                raise self._error(prefix + name, told[name], accepted)
        if "tasks" not in told:
            return 0
        if "per_host" in told:
            accepted = "nothing beside 'tasks', which ask by 'per_task',"
            raise self._error(f"{prefix}per_host", told["per_host"], accepted)

        tasks = told["tasks"]
        if not is_whole_number(tasks) or not hosts <= tasks <= MAX_HOST_AMOUNT:
            accepted = f"a whole number of tasks from 'res', {hosts}, up"
            raise self._error(f"{prefix}tasks", tasks, accepted)
        return tasks

    def _amounts(self, told: Mapping[str, Any], name: str, prefix: str) -> dict[str, int]:
        """Return amounts above 0 by kind, or of licences by name."""
        given = told[name]
        field = prefix + name
        of_hosts = name != "licences"
        if not isinstance(given, dict):
            raise self._error(field, given, "an object of whole numbers by name")

        amounts: dict[str, int] = {}
        for kind, value in given.items():
            if not kind.strip() or IN_NO_NAME.search(kind):
                accepted = "a name without commas and quotes is expected"
                raise InputError(f"{self._where}: field {field!r} has {shown(kind)}; {accepted}")
            meant = misspelt(kind.partition(":")[0], KINDS) if of_hosts else None
            if meant is not None:
                raise InputError(
                    f"{self._where}: field {field!r}: unknown kind {shown(kind)}; did you mean "
                    f"{meant!r}?"
                )
            whole = is_number(value) and value == int(value)
            if not whole or not 0 <= value <= MAX_HOST_AMOUNT:
                unit = " of bytes" if of_hosts and kind == "memory" else ""
                accepted = f"a whole number{unit} from 0 to {MAX_HOST_AMOUNT}"
                raise self._error(f"{field}.{kind}", value, accepted)
            if value:
                amounts[kind] = int(value)
        if not amounts:
            raise self._error(field, given, "at least one amount above 0")
        return complete_amounts(amounts) if of_hosts else amounts

    def _labels(self, told: Any, name: str) -> tuple[str, ...]:
        if not isinstance(told, list):
            raise self._error(name, told, "a list of labels")
        for index, label in enumerate(told):
            if not isinstance(label, str) or not label.strip() or IN_NO_NAME.search(label):
                accepted = "a label, a text without commas and quotes,"
                raise self._error(f"{name}[{index}]", label, accepted)
        return tuple(dict.fromkeys(told))

    def _error(self, name: str, value: object, accepted: str) -> InputError:
        return _value_error(self._where, name, value, accepted)


def complete_amounts(amounts: dict[str, int]) -> dict[str, int]:
    """Return amounts above 0 in the order of kinds, with at least as many ``gpus`` as there are by
    type.

    >>> complete_amounts({"gpus:v100": 2, "memory": 0, "cores": 8})
    {'cores': 8, 'gpus': 2, 'gpus:v100': 2}
    """
    typed = sum(value for kind, value in amounts.items() if kind.startswith("gpus:"))
    amounts = {**amounts, "gpus": max(typed, amounts.get("gpus", 0))}
    return {kind: amounts[kind] for kind in ordered_kinds(amounts) if amounts[kind]}


def ordered_kinds(kinds: Collection[str]) -> list[str]:
    """Return kinds in the order of a machine: :data:`KINDS` first, then others by name."""
    return [kind for kind in (*KINDS, *sorted(set(kinds).difference(KINDS))) if kind in kinds]
