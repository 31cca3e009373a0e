"""Batsim workload JSON, with our ``qos`` object in each job.

A workload whose jobs are written in the usual way is scanned into columns. All others are read
object by object, which also tells what is wrong and where.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from qops_batsim.arguments import PATH, takes
from qops_batsim.errors import InputError, shown
from qops_batsim.files import Stored, read_stored, text_of, write_text
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.job_fields import (
    CHECKED,
    HostsAsked,
    field_error,
    is_amount,
    is_number,
    is_whole_number,
    problem_in,
    read_hosts_asked,
)
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.limits import (
    LETTERS_OF_LIST,
    LETTERS_OF_OBJECT,
    MAX_AMOUNT,
    MAX_PROCESSORS,
    MAX_SECONDS,
)
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim5 import as_batsim4
from qops_batsim.workload.job_columns import plain_delays
from qops_batsim.workload.job_scanner import Scanner
from qops_batsim.workload.log_formats import WORKLOAD_FIELDS, log_format, refuse_others
from qops_batsim.workload.odd_fields import warn_of_odd_jobs
from qops_batsim.workload.other_json import refuse_object, refuse_other_json
from qops_batsim.workload.workload_model import (
    JobColumns,
    JobTable,
    Profile,
    Workload,
    read_jobs,
    split_provenance,
)

PROFILE_TYPES: dict[str, tuple[str, ...]] = {
    "delay": ("delay",),
    "parallel": ("cpu", "com"),
    "parallel_homogeneous": ("cpu", "com"),
    "parallel_homogeneous_total": ("cpu", "com"),
    "parallel_homogeneous_pfs": (),
    "composed": ("seq",),
    "data_staging": ("nb_bytes", "from", "to"),
    "send": ("msg",),
    "recv": (),
    "smpi": ("trace",),
    "usage_trace": ("trace",),
}
"""Batsim's profile types with the fields each must have."""

RENAMED_TYPES = {
    "msg_par": "parallel",
    "msg_par_hg": "parallel_homogeneous",
    "msg_par_hg_tot": "parallel_homogeneous_total",
    **dict.fromkeys(
        ("msg_par_hg_pfs", "msg_par_hg_pfs0", "msg_par_hg_pfs_tiers"), "parallel_homogeneous_pfs"
    ),
    "ptask": "parallel",
    "ptask_homogeneous": "parallel_homogeneous",
    "ptask_on_storage_homogeneous": "parallel_homogeneous_pfs",
    "ptask_data_staging_between_storages": "data_staging",
    "sequential_composition": "composed",
    "usage": "usage_trace",
}
"""Names of types before Batsim 3, and in between Batsim 4 and 5, with those of Batsim 4."""

_WHAT = "a Batsim workload (JSON)"

_EITHER = {"parallel_homogeneous_pfs": ("bytes_to_read", "bytes_to_write")}
"""Profile types with fields of which each must have at least one."""

_AMOUNTS = frozenset({"cpu", "com", "bytes_to_read", "bytes_to_write", "nb_bytes"})
"""Fields that are a number from 0 up, or in profiles of type parallel a list of them."""

_RANGE = f"from 0 up to {MAX_AMOUNT:g}"

_LOG = re.compile(r"\.swf(\.gz)?$")
"""Endings of the names of logs."""

_SECONDS = f"a number of seconds above 0, up to {MAX_SECONDS:g},"


@takes(path=PATH)
def read_workload(path: str | Path) -> Workload:
    """Read a Batsim workload: JSON with ``nb_res``, ``jobs`` and ``profiles``, plain or gzip.

    Parameters
    ----------
    path
        A file, or the name of a shipped workload.

    Returns
    -------
    Workload
        Its jobs, profiles and machine size; every field is checked.

    Raises
    ------
    InputError
        Naming the job or profile, the field, the value and what is accepted.

    Examples
    --------
    >>> workload = read_workload("tiny_8")
    >>> workload.processors, workload.jobs[0].processors
    (4, 2)
    """
    return read_workload_file(find_input(path, "workloads"))


def read_workload_file(path: str | Path) -> Workload:
    """Read a Batsim workload from a file; ``path`` is not taken for the name of a shipped one."""
    return workload_in(read_stored(path, what=_WHAT), str(path))


_MAX_DIGITS = 300
"""Digits of a whole number that surely fits into a float."""

_FEW = 100_000

_LEAST_BEYOND = 10**_MAX_DIGITS

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Escape sequence of half a character."""


class _Document(msgspec.Struct):
    nb_res: int
    jobs: msgspec.Raw
    profiles: msgspec.Raw
    qops_batsim: msgspec.Raw = msgspec.Raw(b"")


_documents = msgspec.json.Decoder(_Document)
_request_lists = msgspec.json.Decoder(list[QosRequest | None])
_UNASKED = msgspec.structs.astuple(QosRequest())


def workload_in(stored: Stored, source: str) -> Workload:
    """Parse a Batsim workload from a file's content; ``source`` names the file in messages."""
    content, digest = stored
    kind = log_format(content)
    if kind != "batsim":
        refuse_others(content, source)

    if kind != "batsim" and (kind != "swf" or _LOG.search(source)):
        name = Path(source.removesuffix(".gz"))
        made = shlex.quote(f"{name.stem}{'_workload' * (name.suffix == '.json')}.json")
        raise InputError(
            f"{source}: is a log; a Batsim workload (JSON) is expected; "
            f"`qops-batsim workload import {shlex.quote(source)} {made}` converts this log to one"
        )

    with without_garbage_collection():
        workload = _decode(content.removeprefix(codecs.BOM_UTF8), source)
    workload.sha256 = digest
    return workload


def parse_workload(text: str, *, source: str) -> Workload:
    """Parse a Batsim workload from JSON text; ``source`` names that text in messages."""
    return _decode(text.encode(errors="surrogatepass"), source)


def _decode(content: bytes, source: str) -> Workload:
    """Decode a workload; the InputError says what is wrong, and where."""
    try:
        document = _documents.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse(content, source, str(error))
    except RecursionError:
        _refuse(content, source, "JSON nested too deeply")

    written = bytes(document.jobs)
    own: list[Any] = []
    try:
        profiles, columns, told = _usual(content, document, written)
    except (_UnusualError, InputError, UnicodeDecodeError, RecursionError):
        data, profiles, jobs = _each_object(content, source)
        columns = JobColumns.of(jobs, list(profiles))
        told = data.get("qops_batsim", {})
        own = data["jobs"]

    warn_of_odd_jobs(columns, own, source)
    provenance, calendar = split_provenance(told, source)
    jobs_in_columns = JobTable(columns, written)
    return Workload(
        jobs_in_columns, profiles, document.nb_res, provenance, source, calendar=calendar
    )


class _UnusualError(Exception):
    """A workload is not written in the usual way, or not right."""


def _usual(
    content: bytes, document: _Document, written: bytes
) -> tuple[dict[str, Profile], JobColumns, dict[str, Any]]:
    """Return profiles, jobs and provenance of a workload whose jobs, ``written``, are scanned.

    Any other raises an error, of whatever kind: only object by object it is told what is wrong.
    """
    bodies = bytes(document.profiles)
    told = bytes(document.qops_batsim)
    provenance = _load_json(told.decode(), "") if told else {}
    names = _without(_without(content, written), bodies).count(b":") - told.count(b":")
    if names != 3 + bool(told) or not isinstance(provenance, dict):
        raise _UnusualError
    if not 1 <= document.nb_res <= MAX_PROCESSORS:
        raise _UnusualError

    scanner = Scanner(bodies)
    profiles = scanner.profiles
    places = scanner.places
    if not scanner.scan_profiles():
        given = _load_json(bodies.decode(), "")
        if not isinstance(given, dict):
            raise _UnusualError
        profiles = as_batsim4(given)
        _check_profiles(profiles, "")
        places = {name.encode(): place for place, name in enumerate(profiles)}
    return profiles, _usual_columns(written, places, list(profiles)), provenance


_BEGIN = 1000
"""Letters by which a long part of a text is looked for."""


def _without(text: bytes, part: bytes) -> bytes:
    """Return a text without a part of it. O(letters) of the others, if the part is long."""
    at = text.find(part[:_BEGIN])
    while at >= 0 and not text.startswith(part, at):
        at = text.find(part[:_BEGIN], at + 1)
    if at < 0:
        raise _UnusualError  # What was taken out before was a part of this one.
    return text[:at] + text[at + len(part) :]


def _usual_columns(
    written: bytes, places: dict[bytes, int], profile_names: list[str]
) -> JobColumns:
    """Return jobs that are written in the usual way as columns, without an object for each.

    ``places`` are those of the profiles.
    """
    import numpy as np

    scanner = Scanner(written, places)
    if not scanner.scan_jobs():
        raise _UnusualError
    numbers = scanner.dates, scanner.walltimes, scanner.processors, scanner.profile_of
    dates, limits, processors, profiles = (
        np.frombuffer(each, each.typecode)[: scanner.count] for each in numbers
    )
    limits[np.isnan(limits) | (limits == -1)] = math.inf

    estimates = limits
    requests = _scanned_requests(scanner.requests)
    if requests is not None:
        estimates = limits.copy()
        for index, request in enumerate(requests):
            if request is not None and request.estimated_runtime is not None:
                estimates[index] = request.estimated_runtime
    columns = JobColumns(
        ids=scanner.ids,
        submission_times=dates,
        processors=processors,
        walltimes=limits,
        estimates=estimates,
        profiles=profiles,
        profile_names=profile_names,
        requests=requests,
        hosts_asked=_scanned_hosts(scanner.hosts_asked, processors.tolist()),
    )
    if not columns.are_usable:
        raise _UnusualError
    return columns


def _scanned_requests(scanned: Sequence[bytes]) -> list[QosRequest | None] | None:
    """Return each job's ``qos``, None if no job has one."""
    text = b"[%b]" % b",".join(scanned)
    try:
        requests = _request_lists.decode(text)
    except msgspec.DecodeError as error:
        raise _UnusualError from error
    asked = _requested_values(requests)
    # Each name once, and each of them known.
    if sum(map(len, asked.values())) != text.count(b":") or _any_problem(asked):
        raise _UnusualError
    return requests if requests.count(None) < len(requests) else None


def _scanned_hosts(scanned: Sequence[bytes], res: Sequence[int]) -> list[HostsAsked | None] | None:
    """Return what each job asks of its hosts, None if no job asks for anything.

    What many jobs ask for is read once.
    """
    read: dict[tuple[bytes, int], HostsAsked | None] = {}
    asked = []
    for text, hosts in zip(scanned, res, strict=False):
        key = text, hosts
        if key not in read:
            told = _load_json(f"{{{text[:-1].decode()}}}", "")
            read[key] = read_hosts_asked({"res": hosts, **told}, "")
        asked.append(read[key])
    return asked if asked.count(None) < len(asked) else None


def _requested_values(requests: Sequence[QosRequest | None]) -> dict[str, list[Any]]:
    """Return the values that jobs request in ``qos``, by field, without fields that no job has."""
    given = [request for request in requests if request is not None]
    asked: dict[str, list[Any]] = {}
    for name, unasked in zip(QosRequest.__struct_fields__, _UNASKED, strict=True):
        column = list(map(attrgetter(name), given))
        silent = column.count(unasked)
        if silent < len(column):
            asked[name] = [value for value in column if value is not unasked] if silent else column
    return asked


def _any_problem(asked: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether a value that a job requests in ``qos`` is not accepted."""
    for name in CHECKED:
        values = [value for value in asked.get(name, ()) if value is not None]
        if values:
            several = set(values) if isinstance(values[0], str) else (min(values), max(values))
            if any(problem_in(name, value) for value in several):
                return True
    return False


def _refuse(content: bytes, source: str, problem: str) -> NoReturn:
    """Raise an InputError that says what is wrong with a workload, and where; if no place is found,
    the ``problem``.
    """
    refuse_other_json(content, source, _WHAT, ("batsim",))
    _each_object(content, source)
    raise InputError(f"{source}: {problem}; {_WHAT} is expected")


def _each_object(
    content: bytes, source: str
) -> tuple[dict[str, Any], dict[str, Profile], list[Job]]:
    """Return a workload's JSON value, and its profiles and jobs; InputError about the first
    mistake.
    """
    text = text_of(content, source, what=_WHAT)
    with _nesting_is_limited(source):
        data = _load_json(text, source)
        return data, *_check_document(data, source)


def _check_document(data: Any, source: str) -> tuple[dict[str, Profile], list[Job]]:
    """Return the profiles and jobs of a JSON value; InputError if it is not a workload."""
    if not isinstance(data, dict):
        raise InputError(
            f"{source}: the JSON is no object; an object with nb_res, jobs and profiles is expected"
        )
    refuse_object(data, source, _WHAT, WORKLOAD_FIELDS)
    processors = data.get("nb_res")
    if not is_whole_number(processors) or not 1 <= processors <= MAX_PROCESSORS:
        accepted = f"a whole number of processors from 1 to {MAX_PROCESSORS}"
        raise field_error(data, source, "nb_res", accepted)
    if not isinstance(data.get("jobs"), list):
        raise field_error(data, source, "jobs", "a list of jobs")
    if not isinstance(data.get("profiles"), dict):
        raise field_error(data, source, "profiles", "an object of profiles by name")

    profiles = as_batsim4(data["profiles"])
    _check_profiles(profiles, source)
    jobs = read_jobs(data["jobs"], profiles, source)
    provenance = data.get("qops_batsim", {})
    if not isinstance(provenance, dict):
        raise field_error(
            data, source, "qops_batsim", "an object that tells how the workload was made"
        )
    split_provenance(provenance, source)
    return profiles, jobs


def _check_profiles(profiles: dict[str, Any], source: str) -> None:
    delays = plain_delays(profiles, list(profiles))
    others = {
        name: profile
        for (name, profile), delay in zip(profiles.items(), delays, strict=True)
        if delay != delay
    }
    for name, profile in others.items():
        _check_profile(name, profile, profiles, source)

    # One that contains itself would never end.
    steps = {
        name: profile["seq"] for name, profile in others.items() if profile["type"] == "composed"
    }
    try:
        TopologicalSorter(steps).prepare()
    except CycleError as error:
        raise InputError(
            f"{source}: profile {shown(error.args[1][0])} contains itself and would never end: "
            f"{shown(' in '.join(error.args[1]))}"
        ) from None


def _check_profile(name: str, profile: Any, profiles: dict[str, Any], source: str) -> None:
    where = f"{source}: profile {shown(name)}"
    if not isinstance(profile, dict):
        raise InputError(f"{where} is {shown(profile)}; an object with a type is expected")
    kind = profile.get("type")
    if not isinstance(kind, str) or kind not in PROFILE_TYPES:
        known = ", ".join(PROFILE_TYPES)
        now = RENAMED_TYPES.get(kind) if isinstance(kind, str) else None
        accepted = f"its name in Batsim 4 is {now}" if now else f"one of {known} is accepted"
        raise InputError(f"{where}: type is {shown(kind)}; {accepted}")
    for field in PROFILE_TYPES[kind]:
        if field not in profile:
            raise InputError(f"{where}: field {field!r} is missing, which type {kind} must have")
    either = _EITHER.get(kind, ())
    if either and not profile.keys() & set(either):
        raise InputError(f"{where}: neither {' nor '.join(either)} is given; type {kind} needs one")

    def check(fits: Callable[[Any], bool], field: str, default: Any, accepted: str) -> None:
        value = profile.get(field, default)
        if not fits(value):
            raise InputError(f"{where}: {field} is {shown(value)}; {accepted} is expected")

    if kind == "delay":
        check(lambda delay: is_number(delay) and 0 < delay <= MAX_SECONDS, "delay", 0, _SECONDS)
    for field in (name for name in (*PROFILE_TYPES[kind], *either) if name in _AMOUNTS):
        if kind == "parallel":
            check(_are_amounts, field, 0, f"a list of numbers {_RANGE}")
        else:
            check(is_amount, field, 0, f"a number {_RANGE}")
    if kind == "composed":
        check(lambda seq: bool(seq) and isinstance(seq, list), "seq", 0, "a list of profile names")
        for step in profile["seq"]:
            if not isinstance(step, str) or step not in profiles:
                what = f"{shown(step)}, which is not among the profiles of the workload"
                raise InputError(f"{where}: seq names {what}")
        accepted = "a whole number from 1 up"
        check(lambda count: is_whole_number(count) and count >= 1, "repeat", 1, accepted)
    check(is_whole_number, "ret", 0, "a whole number")


def _are_amounts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_amount, value))


def write_workload(workload: Workload, path: str | Path) -> None:
    """Write a Batsim workload: one job and one profile a line, gzip if named ``.gz``.

    The same workload always gives the same bytes; see :func:`format_workload`.
    """
    write_text(path, format_workload(workload))


def format_workload(workload: Workload, *, is_checked: bool = False) -> str:
    """Return a workload as JSON text, as :func:`write_workload` writes it.

    Parameters
    ----------
    workload
        Any workload.
    is_checked
        Whether the workload needs no check, since an engine has run it.

    Raises
    ------
    InputError
        If :func:`read_workload` would refuse it, in the same words.
    """
    rows = workload.jobs.written if isinstance(workload.jobs, JobTable) else None
    if rows is not None and not workload.columns.are_usable:
        rows = None  # Job by job it turns out what is wrong.
    jobs = [job.fields for job in workload.jobs] if rows is None else []

    told = workload.provenance
    if workload.calendar is not None:
        told = {**told, "calendar": msgspec.to_builtins(workload.calendar)}
    data: dict[str, Any] = {"nb_res": workload.processors, "qops_batsim": told}
    data |= {"jobs": jobs, "profiles": workload.profiles}

    with _nesting_is_limited(workload.source):
        if not is_checked:
            _check_document(data, workload.source)
        encode = _json_writer(data, workload.source)
        head = [f'"{name}": {encode(data[name])},' for name in ("nb_res", "qops_batsim")]
        rows = ",\n".join(map(encode, jobs)) if rows is None else rows
        profiles = _profile_lines(workload.profiles, encode)
    lines = ["{", *head[: 2 if told else 1]]
    lines += ['"jobs": [', rows, "],", '"profiles": {', profiles, "}", "}"]
    return "\n".join(lines) + "\n"


def _json_writer(whole: Any, source: str) -> Callable[[Any], str]:
    """Return a function that encodes a part of the value ``whole`` as JSON, and raises an
    InputError about what no reader accepts, such as NaN.
    """
    encoder = json.JSONEncoder(allow_nan=False)

    def encode(part: Any) -> str:
        try:
            text = encoder.encode(part)
        except ValueError:
            text = None
        if text is None or _is_suspicious(text):
            _refuse_unusable(whole, source)
        return text or ""

    return encode


def _profile_lines(profiles: Mapping[str, Any], encode: Callable[[Any], str]) -> str:
    """Return profiles as JSON text, each on a line of its own."""
    text = encode(profiles)
    if text.count("}") == len(profiles) + 1:
        return text[1:-1].replace("}, ", "},\n")
    return ",\n".join(encode({name: body})[1:-1] for name, body in profiles.items())


@contextmanager
def _nesting_is_limited(source: str) -> Iterator[None]:
    """Turn JSON nested too deeply within this block into an InputError."""
    try:
        yield
    except RecursionError:
        raise InputError(f"{source}: JSON nested too deeply for a Batsim workload") from None


def _load_json(text: str, source: str, place: str = "") -> Any:
    """Parse JSON; raise an InputError about a syntax error, a repeated name, a number that is not
    finite or a text that cannot be encoded.

    It knows the line of what is no JSON, and a name that is given twice.
    ``place`` is where the value is in the workload.
    """
    for letter, least in (("{", LETTERS_OF_OBJECT), ("[", LETTERS_OF_LIST)):
        if text.count(letter) > _FEW + len(text) // least:
            raise InputError(
                f"{source}: {text.count(letter)} times {letter!r} in {len(text)} letters, more "
                "than a Batsim workload has; a Batsim workload is expected"
            )
    beyond = False

    def read_float(digits: str) -> float:
        nonlocal beyond
        value = float(digits)
        beyond = beyond or not math.isfinite(value)
        return value

    def read_int(digits: str) -> float:
        return int(digits) if len(digits) <= _MAX_DIGITS else read_float("inf")

    try:
        data = json.loads(
            text,
            object_pairs_hook=lambda pairs: _object_without_repeats(pairs, source),
            parse_constant=read_float,
            parse_float=read_float,
            parse_int=read_int,
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source}: line {error.lineno}, column {error.colno}: not JSON ({error.msg}); "
            "a Batsim workload is expected"
        ) from None
    # Looking for the place costs a walk through everything, so only when there is a reason.
    if beyond or _is_suspicious(text):
        _refuse_unusable(data, source, place)
    return data


def _is_suspicious(text: str) -> bool:
    """Return whether a text may hold half a surrogate pair or a non-finite number."""
    step = _MAX_DIGITS // 2  # Twice as many digits fill at least one of these parts.
    parts = (text[begin : begin + step] for begin in range(0, len(text) - step + 1, step))
    return bool(_HALF.search(text)) or any(map(str.isdigit, parts))


def _refuse_unusable(value: Any, source: str, place: str = "") -> None:
    """Raise an InputError if a number in a JSON value is not finite, or a text has half a surrogate
    pair; ``place`` is where the value is.
    """
    where = f"{source}: field {shown(place)} is"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            half = "half a surrogate pair is no character"
            raise InputError(f"{where} {shown(value)}; {half}") from None
    elif isinstance(value, (int, float)):
        if value != value:
            raise InputError(f"{where} NaN; a finite number is expected")
        if abs(value) >= _LEAST_BEYOND and not (isinstance(value, float) and math.isfinite(value)):
            raise InputError(f"{where} out of the range of numbers; at most 1e308 is expected")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_unusable(item, source, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{place}.{name}" if place else name
            _refuse_unusable(name, source, inner)
            _refuse_unusable(item, source, inner)


def _object_without_repeats(pairs: list[tuple[str, Any]], source: str) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                job = f" in job {shown(result['id'])}" if "id" in result else ""
                raise InputError(
                    f"{source}: field {shown(name)} is given twice{job}; once is expected"
                )
            seen.add(name)
    return result
