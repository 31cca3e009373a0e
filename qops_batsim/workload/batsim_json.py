"""Batsim workload JSON, with our ``qos`` object in each job."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.files import Stored, read_stored, text_of, write_text
from qops_batsim.jobs import is_amount, is_number, is_whole_number
from qops_batsim.limits import MAX_AMOUNT, MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.shipped import find_input
from qops_batsim.workload.job_table import JobTable
from qops_batsim.workload.log_formats import command_for, log_format
from qops_batsim.workload.model import Profile, Workload, read_jobs, split_provenance
from qops_batsim.workload.strict_json import json_writer, load_json, nesting_is_limited

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

_WHAT = "a Batsim workload (JSON)"

_EITHER = {"parallel_homogeneous_pfs": ("bytes_to_read", "bytes_to_write")}
"""Profile types with fields of which each must have at least one."""

_AMOUNTS = frozenset({"cpu", "com", "bytes_to_read", "bytes_to_write", "nb_bytes"})
"""Fields that are a number from 0 up, or in profiles of type parallel a list of them."""

_RANGE = f"from 0 up to {MAX_AMOUNT:g}"

_LOG = re.compile(r"\.swf(\.gz)?$")
"""How names of logs end."""

_SECONDS = f"a number of seconds above 0, up to {MAX_SECONDS:g},"


def read_workload(path: str | Path) -> Workload:
    """Read a Batsim workload: JSON with ``nb_res``, ``jobs`` and ``profiles``, plain or gzip.

    A path, or the name of a shipped one. Every field, job and profile is checked; the ids
    of jobs differ.

    Examples
    --------
    >>> workload = read_workload("tiny_8")
    >>> workload.processors, workload.jobs[0].processors
    (4, 2)
    """
    return read_workload_file(find_input(path, "workloads"))


def read_workload_file(path: str | Path) -> Workload:
    """Read a Batsim workload as :func:`read_workload` does, from a path only."""
    return workload_in(read_stored(path, what=_WHAT), str(path))


def workload_in(stored: Stored, source: str) -> Workload:
    """Return the Batsim workload in a file that was read; see :func:`read_workload`."""
    from qops_batsim.workload.bulk_json import read_in_bulk

    content, digest = stored
    kind = log_format(content)
    if kind != "batsim" and (kind != "swf" or _LOG.search(source)):
        name = Path(source.removesuffix(".gz"))
        made = shlex.quote(f"{name.stem}{'_workload' * (name.suffix == '.json')}.json")
        raise InputError(
            f"{source}: is a log; a Batsim workload (JSON) is expected, which "
            f"`qops-batsim {command_for(kind)} {shlex.quote(source)} {made}` makes of it"
        )
    workload = read_in_bulk(content.removeprefix(codecs.BOM_UTF8), source)
    workload = workload or parse_workload(text_of(content, source, what=_WHAT), source=source)
    workload.sha256 = digest
    return workload


def parse_workload(text: str, *, source: str) -> Workload:
    """Read a workload from JSON text, job by job; see :func:`read_workload`."""
    with nesting_is_limited(source):
        return _read_workload(load_json(text, source), source)


def _read_workload(data: Any, source: str) -> Workload:
    if not isinstance(data, dict):
        raise InputError(f"{source}: a JSON object with nb_res, jobs and profiles is expected")
    processors = data.get("nb_res")
    if not is_whole_number(processors) or not 1 <= processors <= MAX_PROCESSORS:
        _wrong(data, "nb_res", f"a whole number of processors from 1 to {MAX_PROCESSORS}", source)
    raw_jobs = data.get("jobs")
    if not isinstance(raw_jobs, list):
        _wrong(data, "jobs", "a list of jobs", source)
    profiles = data.get("profiles")
    if not isinstance(profiles, dict):
        _wrong(data, "profiles", "an object of profiles by name", source)
    for name, profile in profiles.items():
        if not _is_usual(profile):
            _check_profile(name, profile, profiles, source)
    _check_composition(profiles, source)
    jobs = read_jobs(raw_jobs, profiles, source)
    provenance = data.get("qops_batsim", {})
    if not isinstance(provenance, dict):
        _wrong(data, "qops_batsim", "an object that tells how the workload was made", source)
    provenance, calendar = split_provenance(provenance, source)
    return Workload(jobs, profiles, processors, provenance, source, calendar=calendar)


def write_workload(workload: Workload, path: str | Path) -> None:
    """Write a Batsim workload: one job and one profile a line, gzip if named ``.gz``.

    The same workload always gives the same bytes; see :func:`format_workload`.
    """
    write_text(path, format_workload(workload))


def format_workload(workload: Workload) -> str:
    """Return the JSON text that :func:`write_workload` writes.

    What :func:`read_workload` would refuse is refused here, in the same words.
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
    with nesting_is_limited(workload.source):
        _read_workload(data, workload.source)
        encode = json_writer(data, workload.source)
        head = [f'"{name}": {encode(data[name])},' for name in ("nb_res", "qops_batsim")]
        rows = ",\n".join(map(encode, jobs)) if rows is None else rows
        profiles = _profile_lines(workload.profiles, encode)
    lines = ["{", *head[: 2 if told else 1]]
    lines += ['"jobs": [', rows, "],", '"profiles": {', profiles, "}", "}"]
    return "\n".join(lines) + "\n"


def _profile_lines(profiles: Mapping[str, Any], encode: Callable[[Any], str]) -> str:
    """Return profiles as JSON, one a line, all at once where each has one brace, at its end."""
    text = encode(profiles)
    if text.count("}") == len(profiles) + 1:
        return text[1:-1].replace("}, ", "},\n")
    return ",\n".join(encode({name: body})[1:-1] for name, body in profiles.items())


def _wrong(data: dict[str, Any], name: str, accepted: str, source: str) -> NoReturn:
    if name not in data:
        raise InputError(f"{source}: field {name!r} is missing; {accepted} is expected")
    raise InputError(f"{source}: field {name!r} is {shown(data[name])}; {accepted} is expected")


def _is_usual(profile: Any) -> bool:
    """Tell at once that a profile is a delay and nothing more, as in a log there are many."""
    return (
        type(profile) is dict
        and profile.keys() == {"type", "delay"}
        and profile["type"] == "delay"
        and type(profile["delay"]) in (int, float)
        and 0 < profile["delay"] <= MAX_SECONDS
    )


def _check_profile(name: str, profile: Any, profiles: dict[str, Any], source: str) -> None:
    where = f"{source}: profile {shown(name)}"
    if not isinstance(profile, dict):
        raise InputError(f"{where} is {shown(profile)}; an object with a type is expected")
    kind = profile.get("type")
    if not isinstance(kind, str) or kind not in PROFILE_TYPES:
        known = ", ".join(PROFILE_TYPES)
        raise InputError(f"{where}: type is {shown(kind)}; one of {known} is accepted")
    for field in PROFILE_TYPES[kind]:
        if field not in profile:
            raise InputError(f"{where}: field {field!r} is missing (type {kind})")
    either = _EITHER.get(kind, ())
    if either and not profile.keys() & set(either):
        raise InputError(f"{where}: neither {' nor '.join(either)} is given (type {kind})")

    def check(fits: bool, field: str, value: object, accepted: str) -> None:
        if not fits:
            raise InputError(f"{where}: {field} is {shown(value)}; {accepted} is expected")

    if kind == "delay":
        delay = profile["delay"]
        check(is_number(delay) and 0 < delay <= MAX_SECONDS, "delay", delay, _SECONDS)
    for field in (name for name in (*PROFILE_TYPES[kind], *either) if name in _AMOUNTS):
        value = profile.get(field, 0)
        if kind == "parallel":
            fits = isinstance(value, list) and all(map(is_amount, value))
            check(fits, field, value, f"a list of numbers {_RANGE}")
        else:
            check(is_amount(value), field, value, f"a number {_RANGE}")
    if kind == "composed":
        steps, repeat = profile["seq"], profile.get("repeat", 1)
        check(isinstance(steps, list) and bool(steps), "seq", steps, "a list of profile names")
        for step in steps:
            if not isinstance(step, str) or step not in profiles:
                what = f"{shown(step)}, which is not among the profiles"
                raise InputError(f"{where}: seq names {what}")
        check(is_whole_number(repeat) and repeat >= 1, "repeat", repeat, "a whole number from 1 up")
    ret = profile.get("ret", 0)
    check(is_whole_number(ret), "ret", ret, "a whole number")


def _check_composition(profiles: dict[str, Profile], source: str) -> None:
    """Refuse composed profiles that contain themselves: they would never end."""
    steps = {
        name: profile["seq"] for name, profile in profiles.items() if profile["type"] == "composed"
    }
    try:
        TopologicalSorter(steps).prepare()
    except CycleError as error:
        raise InputError(
            f"{source}: profile {shown(error.args[1][0])} contains itself and would never end: "
            f"{shown(' in '.join(error.args[1]))}"
        ) from None
