"""Batsim workload JSON, with our ``qos`` object in each job.

A workload is decoded into typed columns at once. Only where that fails, or where a name may be
given twice, does a second pass look through everything to tell what is wrong and where.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from qops_batsim.arguments import PATH, takes
from qops_batsim.errors import InputError, shown
from qops_batsim.files import Stored, read_stored, text_of, write_text
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.job_fields import (
    CHECKED,
    HOST_FIELDS,
    HostsAsked,
    field_error,
    host_fields_of,
    is_amount,
    is_number,
    is_whole_number,
    problem_in,
    read_hosts_asked,
    read_qos,
)
from qops_batsim.jobs import QosRequest
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

if TYPE_CHECKING:
    import numpy as np

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


class _Job(msgspec.Struct, gc=False):
    id: int | str
    subtime: float
    res: int
    profile: str
    walltime: float | None = None
    qos: QosRequest | None = None
    extra_data: Any = None
    # Known so that they can be counted.
    user: Any = None
    group: Any = None
    executable: Any = None
    qos_name: Any = None
    queue: Any = None


_documents = msgspec.json.Decoder(_Document)
_job_lists = msgspec.json.Decoder(list[_Job])
_request_lists = msgspec.json.Decoder(list[QosRequest | None])
_on_hosts = msgspec.defstruct(
    "_on_hosts", [(name, msgspec.Raw, msgspec.Raw(b"")) for name in HOST_FIELDS], gc=False
)
_jobs_on_hosts = msgspec.json.Decoder(GenericAlias(list, (_on_hosts,)))
_profile_maps = msgspec.json.Decoder(dict[str, Profile])
_UNASKED = msgspec.structs.astuple(QosRequest())

_NAMES_OF_DELAY = 3
"""Names of a profile that is a delay: its own, its type and its delay."""


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
        written = bytes(document.jobs)
        bodies = bytes(document.profiles)
        told = bytes(document.qops_batsim)
        usual = Scanner(bodies)
        are_delays = usual.scan_profiles()
        profiles = usual.profiles if are_delays else as_batsim4(_profile_maps.decode(bodies))
        columns = _usual_columns(written, usual.places, list(profiles)) if are_delays else None
        jobs = None if columns is not None else _job_lists.decode(written)
        with _nesting_is_limited(source):
            provenance = _load_json(told.decode(), source, "qops_batsim") if told else {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse(content, source, str(error))
    except RecursionError:
        _refuse(content, source, "JSON nested too deeply")

    given = None if jobs is None else _Given(jobs, written)
    del jobs
    own: list[Any] = []
    try:
        with _nesting_is_limited(source):
            if given is not None and _may_have_repeats(written, given.names):
                own = _load_json(written.decode(), source, "jobs")
            if not are_delays and _may_have_repeats(bodies, _NAMES_OF_DELAY * len(profiles)):
                _load_json(bodies.decode(), source, "profiles")
    except UnicodeDecodeError as error:
        _refuse(content, source, str(error))
    top = _without(_without(content, written), bodies).count(b":") - told.count(b":")
    fits = 1 <= document.nb_res <= MAX_PROCESSORS and isinstance(provenance, dict)
    if top != 3 + bool(told) or not fits:
        _check(content, source)

    if not are_delays:
        _check_profiles(profiles, source)
    if given is not None:
        columns = given.columns(list(profiles))
    if columns is None:
        _refuse(content, source, "the jobs cannot be used")
    warn_of_odd_jobs(columns, own, source)

    provenance, calendar = split_provenance(provenance, source)
    jobs_in_columns = JobTable(columns, written)
    return Workload(
        jobs_in_columns, profiles, document.nb_res, provenance, source, calendar=calendar
    )


_BEGIN = 1000
"""Letters by which a long part of a text is looked for."""


def _without(text: bytes, part: bytes) -> bytes:
    """Return a text without a part of it. O(letters) of the others, if the part is long."""
    at = text.find(part[:_BEGIN])
    while not text.startswith(part, at):
        at = text.find(part[:_BEGIN], at + 1)
    return text[:at] + text[at + len(part) :]


_ALWAYS = ("id", "subtime", "res", "profile", "walltime")

_OTHERS = tuple(name for name in _Job.__struct_fields__ if name not in _ALWAYS)

_WRONG: list[HostsAsked | None] = []
"""What jobs ask of their hosts if one of them asks for what is not accepted."""


def _usual_columns(
    written: bytes, places: dict[bytes, int], profile_names: list[str]
) -> JobColumns | None:
    """Return jobs that are written in the usual way as columns, without an object for each; None if
    some are written otherwise, or have a value that is not accepted.

    ``places`` are those of the profiles.
    """
    import numpy as np

    scanner = Scanner(written, places)
    if not scanner.scan_jobs():
        return None

    requests = None
    if scanner.requests:
        text = b"[%b]" % b",".join(scanner.requests)
        try:
            requests = _request_lists.decode(text)
        except msgspec.DecodeError:
            return None
        asked = _requested_values(requests)
        # Each name once, and each of them known.
        if sum(map(len, asked.values())) != text.count(b":") or _any_problem(asked):
            return None

    numbers = scanner.dates, scanner.walltimes, scanner.processors, scanner.profile_of
    dates, walltimes, processors, profiles = (
        np.frombuffer(each, each.typecode)[: scanner.count] for each in numbers
    )
    return _usable(scanner.ids, dates, processors, walltimes, profiles, profile_names, requests)


class _Given:
    """The values of jobs that were decoded one by one, by field.

    ``names`` tells how many there must be in their JSON, unless one is repeated, unknown or empty.
    """

    def __init__(self, jobs: Sequence[_Job], written: bytes) -> None:
        # If they are all there are, no other need be looked for.
        colons = written.count(b":")
        self.values = {name: list(map(attrgetter(name), jobs)) for name in _ALWAYS}
        self.names = _count_given(self.values)
        if self.names != colons:
            others = [name for name in _OTHERS if _may_name(written, name)]
            self.values |= {name: list(map(attrgetter(name), jobs)) for name in others}
            self.names = _count_given(self.values)

        self.asked = _requested_values(self.values.get("qos", ()))
        self.names += sum(map(len, self.asked.values()))
        self.hosts_asked: list[HostsAsked | None] | None = None
        if self.names != colons:
            self.hosts_asked, more = _hosts_asked(written, self.values)
            self.names += more

    def columns(self, profile_names: list[str]) -> JobColumns | None:
        """Return the jobs as columns, and forget them; None if a value is not accepted."""
        columns = _columns(self.values, self.asked, profile_names)
        if columns is None or self.hosts_asked is _WRONG:
            return None
        # The identifiers lie scattered among all that was decoded. Without them it goes as a whole.
        joined = "\n".join(columns.ids)
        columns = columns._replace(ids=[])
        self.values = {}
        ids = joined.split("\n") if joined else []
        return columns._replace(ids=ids, hosts_asked=self.hosts_asked)


def _count_given(values: Mapping[str, Sequence[Any]]) -> int:
    return sum(len(column) - column.count(None) for column in values.values())


def _may_name(written: bytes, name: str) -> bool:
    """Return whether JSON may name a field, be it with an escape."""
    return b"\\" in written or f'"{name}"'.encode() in written


def _hosts_asked(
    written: bytes, values: Mapping[str, Sequence[Any]]
) -> tuple[list[HostsAsked | None] | None, int]:
    """Return what jobs ask of their hosts, None if none does, and how many colons that takes,
    without those in ``extra_data``.

    What many jobs ask for is read once.
    """
    on_hosts = [name for name in HOST_FIELDS if _may_name(written, name)]
    if not on_hosts:
        return None, 0
    jobs = _jobs_on_hosts.decode(written)
    raws: list[Iterable[bytes]] = [map(bytes, map(attrgetter(name), jobs)) for name in on_hosts]
    extras = values.get("extra_data") or [None] * len(jobs)
    if extras.count(None) < len(extras):
        on_hosts.append("extra_data")
        raws.append(_encoded(host_fields_of({"extra_data": extra})) for extra in extras)

    read: dict[Any, tuple[HostsAsked | None, int]] = {}
    asked: list[HostsAsked | None] = []
    colons = 0
    for key in zip(values["res"], *raws, strict=True):
        found = read.get(key)
        if found is None:
            texts = dict(zip(on_hosts, key[1:], strict=True))
            try:
                told = {name: msgspec.json.decode(text) for name, text in texts.items() if text}
                one = read_hosts_asked({"res": key[0], **told}, "")
            except (InputError, msgspec.DecodeError, RecursionError):
                return _WRONG, 0  # The second pass names the first mistake.
            told.pop("extra_data", None)
            is_plain = all(b"\\" not in text for text in key[1:])
            found = one, _colons_in(told) if is_plain else 0
            read[key] = found
        asked.append(found[0])
        colons += found[1]
    return asked if asked.count(None) < len(asked) else None, colons


def _encoded(told: dict[str, Any]) -> bytes:
    return msgspec.json.encode(told) if told else b""


def _colons_in(value: Any) -> int:
    """Return how many colons the JSON of a value has, unless a name is repeated or has an
    escape.
    """
    if isinstance(value, dict):
        inner = sum(map(_colons_in, value.values()))
        return len(value) + "".join(value).count(":") + inner
    if isinstance(value, list):
        return sum(map(_colons_in, value))
    return value.count(":") if isinstance(value, str) else 0


def _may_have_repeats(written: bytes, names: int) -> bool:
    """Return whether JSON that should have this many ``names`` may repeat one, or hold a number
    that is too large: then a slow check is needed.
    """
    step = _MAX_DIGITS // 2
    parts = (written[begin : begin + step] for begin in range(0, len(written) - step + 1, step))
    return written.count(b":") != names or any(map(bytes.isdigit, parts))


def _columns(
    values: Mapping[str, Sequence[Any]],
    asked: Mapping[str, Sequence[Any]],
    profile_names: list[str],
) -> JobColumns | None:
    """Return the jobs as columns; None if a job has a value that is not accepted.

    ``values`` are the jobs' fields by name, ``asked`` those in ``qos``.
    """
    import numpy as np

    count = len(values["id"])
    names = {name: index for index, name in enumerate(profile_names)}
    processors = np.array(values["res"], None if count else np.int64)
    try:
        requests = _requests(values)
    except InputError:
        return None  # The second pass names the first mistake, with values as written.
    if processors.dtype != np.int64 or not names.keys() >= set(values["profile"]):
        return None
    if _any_problem(_requested_values(requests or ()) if "extra_data" in values else asked):
        return None
    profiles = np.fromiter(map(names.__getitem__, values["profile"]), np.int64, count)
    return _usable(
        list(map(str, values["id"])),
        np.array(values["subtime"], float),
        processors,
        np.array(values["walltime"], float),  # None becomes NaN.
        profiles,
        profile_names,
        requests,
    )


def _usable(
    ids: list[str],
    dates: np.ndarray,
    processors: np.ndarray,
    limits: np.ndarray,
    profiles: np.ndarray,
    profile_names: list[str],
    requests: list[QosRequest | None] | None,
) -> JobColumns | None:
    """Return columns of jobs; None if a value is not accepted. Of walltimes (``limits``, changed
    here), NaN and -1 are none.
    """
    import numpy as np

    if requests is not None and requests.count(None) == len(requests):
        requests = None
    limits[np.isnan(limits) | (limits == -1)] = math.inf
    estimates = limits
    if requests is not None:
        estimates = limits.copy()
        for index, request in enumerate(requests):
            if request is not None and request.estimated_runtime is not None:
                estimates[index] = request.estimated_runtime
    columns = JobColumns(
        ids=ids,
        submission_times=dates,
        processors=processors,
        walltimes=limits,
        estimates=estimates,
        profiles=profiles,
        profile_names=profile_names,
        requests=requests,
    )
    return columns if columns.are_usable else None


def _requests(values: Mapping[str, Sequence[Any]]) -> list[QosRequest | None] | None:
    """Return each job's ``qos``, or Batsim 5's ``extra_data``; None if no job has either."""
    requests = list(values.get("qos", ()))
    others = values.get("extra_data", ())
    requests = requests or [None] * len(others)
    if others.count(None) < len(others):
        for index, other in enumerate(others):
            if other is not None and requests[index] is None:
                requests[index] = read_qos({"extra_data": other}, "")
    return requests or None


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
    _check(content, source)
    raise InputError(f"{source}: {problem}; {_WHAT} is expected")


def _check(content: bytes, source: str) -> None:
    """Read a workload again, slowly, and raise an InputError about the first mistake found."""
    text = text_of(content, source, what=_WHAT)
    with _nesting_is_limited(source):
        _check_document(_load_json(text, source), source)


def _check_document(data: Any, source: str) -> None:
    """Raise an InputError if the JSON value is not a workload."""
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
    read_jobs(data["jobs"], profiles, source)
    provenance = data.get("qops_batsim", {})
    if not isinstance(provenance, dict):
        raise field_error(
            data, source, "qops_batsim", "an object that tells how the workload was made"
        )
    split_provenance(provenance, source)


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

    The second pass: it knows the line of what is no JSON, and a name that is given twice.
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
