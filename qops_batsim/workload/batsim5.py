"""Batsim 5's workload files: their profiles and jobs translated to Batsim 4's terms and back.

Batsim 5 has other names for the types of profiles, forwards only ``extra_data`` of a job's further
fields, and aborts on a walltime of -1. A file is recognised by the names
of its types.
"""

from __future__ import annotations

import math
import os
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import (
    HOST_FIELDS,
    extra_data_of,
    is_request,
    object_in,
    split_request,
)
from qops_batsim.jobs import Job
from qops_batsim.workload.job_columns import plain_delays
from qops_batsim.workload.workload_model import Profile, Workload

SPREAD = "DefinedAmountsSpreadUniformly"
"""Strategy by which a homogeneous task has its amounts in all, not for each host."""

HOMOGENEOUS = "ParallelTaskHomogeneousProfile"
TRACE = "TraceReplayProfile"

_TYPES = {
    "DelayProfile": "delay",
    "ParallelTaskProfile": "parallel",
    HOMOGENEOUS: "parallel_homogeneous",
    "SequentialCompositionProfile": "composed",
    "ParallelTaskOnStorageHomogeneousProfile": "parallel_homogeneous_pfs",
    "ParallelTaskDataStagingBetweenStoragesProfile": "data_staging",
}

_TRACES = {"SMPI": "smpi", "FractionalComputation": "usage_trace"}

_THEIRS = {ours: theirs for theirs, ours in (_TYPES | _TRACES).items()}
"""Names of Batsim 5 by ours."""

_KEPT = ("id", "subtime", "res", "profile", "walltime", "qos", "extra_data", *HOST_FIELDS)
"""Fields of a job that Batsim 5 uses or hands on, those from ``qos`` on as one."""

_SHOWN = 3
"""Most names of profiles in a line of a report."""


def as_batsim4(profiles: Mapping[str, Any]) -> dict[str, Any]:
    """Translate profiles of Batsim 5 to Batsim 4's types and fields; others stay as they are.

    >>> as_batsim4({"sleep": {"type": "DelayProfile", "delay": 3}})
    {'sleep': {'type': 'delay', 'delay': 3}}
    """
    # Most profiles are plain delays, which have the same form in both.
    delays = plain_delays(dict(profiles), list(profiles))
    pairs = zip(profiles.items(), delays, strict=True)
    return {
        name: _as_batsim4(profile) if delay != delay else profile
        for (name, profile), delay in pairs
    }


class _Profiles(msgspec.Struct):
    profiles: dict[str, dict[str, Any]]


def check_types(content: bytes, source: str) -> None:
    """Raise an InputError unless all profiles of a file have Batsim 5's type names."""
    known = (*_TYPES, TRACE)
    told = msgspec.json.decode(content.removeprefix(BOM_UTF8), type=_Profiles)
    for name, profile in told.profiles.items():
        if profile.get("type") not in known:
            raise InputError(
                f"{source}: profile {shown(name)}: type is {shown(profile.get('type'))}; one of "
                f"{', '.join(known)} is expected (workload import --as 5 writes such)"
            )


def _as_batsim4(profile: Any) -> Any:
    if not isinstance(profile, dict):
        return profile
    kind = profile.get("type")
    if kind == TRACE and profile.get("trace_type") in _TRACES:
        rest = {k: v for k, v in profile.items() if k not in ("trace_type", "filename")}
        ours = _TRACES[profile["trace_type"]]
        return rest | {"type": ours, "trace": profile.get("filename")}

    if not isinstance(kind, str) or kind not in _TYPES:
        return profile

    made = {**profile, "type": _TYPES[kind]}
    if kind == HOMOGENEOUS:
        if made.pop("generation_strategy", None) == SPREAD:
            made["type"] = "parallel_homogeneous_total"
    elif made["type"] == "parallel":
        made.setdefault("com", [])
        if "cpu" not in made and isinstance(made["com"], list):
            made["cpu"] = [0] * math.isqrt(len(made["com"]))
    return made


def format_batsim5(
    workload: Workload, *, only_used: bool = False, directory: Path | None = None
) -> tuple[str, list[str]]:
    """Return the text of a workload file for Batsim 5, and lines that say what of the workload this
    file cannot hold.

    Parameters
    ----------
    only_used
        Leave out profiles that no job has. Batsim 5.0.0-rc2 crashes on them where a decision
        process asks for all profiles at the beginning.
    directory
        Where the file will be, which names those of traces relative to itself; None: next to the
        workload's own.
    """
    left_out: Counter[str] = Counter()
    jobs = []
    for job in workload.jobs:
        fields = job.batsim_fields()
        extra = extra_data_of(job.fields)
        if extra is not None:
            fields["extra_data"] = extra
        jobs.append(fields)
        left_out.update(
            name for name in job.fields if name not in _KEPT and job.fields[name] is not None
        )
        kept = "qos" if "qos" in job.fields else "what they ask of hosts"
        left_out[
            f"both {kept} and extra_data, of which {kept} is kept, as extra_data"
        ] += not _has_all(extra, job.fields.get("extra_data"))
    losses = [
        f"{count:,} jobs have {name}, which Batsim 5 does not hand on"
        for name, count in sorted(left_out.items())
        if count
    ]
    names = _used(workload) if only_used else workload.profiles
    profiles = {
        name: _profile(name, workload.profiles[name], workload.source, directory) for name in names
    }
    spread = [
        name
        for name, profile in workload.profiles.items()
        if profile["type"] == "parallel_homogeneous_total" and profile.get("com")
    ]
    if spread:
        losses.append(
            f"profile {_listed(spread)}: com is spread as com/(n²-n) over each two of n hosts, "
            "which was com/n: communication takes another time"
        )
    for rule, (description, broken) in aborts_of_batsim5(workload).items():
        if broken and rule != "walltime":
            losses.append(f"{len(broken):,} {description}: {_listed(broken)}")

    told = ",\n".join(f"{_encoded(name)}: {_encoded(body)}" for name, body in profiles.items())
    lines = [f'{{"nb_res": {workload.processors},']
    lines += ['"jobs": [', ",\n".join(map(_encoded, jobs)), "],"]
    lines += ['"profiles": {', told, "}", "}"]
    return "\n".join(lines) + "\n", losses


def with_requests(workload: Workload) -> Workload:
    """Return the workload with users' requests moved from the jobs' field ``extra_data`` (Batsim 5)
    to ``qos`` (Batsim 4).
    """
    jobs = []
    for job in workload.jobs:
        extra = object_in(job.fields.get("extra_data"))
        if "qos" not in job.fields and is_request(extra):
            fields = {name: value for name, value in job.fields.items() if name != "extra_data"}
            asked, hosts = split_request(extra)
            told = {"qos": asked} if asked else {}
            job = Job.from_fields({**hosts, **fields, **told}, where=job.id)
        jobs.append(job)
    return msgspec.structs.replace(workload, jobs=jobs)


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _has_all(kept: Any, extra: Any) -> bool:
    """Return whether the written ``extra_data`` holds all that was in that of a job."""
    if extra is None or kept == extra:
        return True
    told = object_in(extra)
    return isinstance(told, dict) and told.items() <= kept.items()


def _used(workload: Workload) -> list[str]:
    """Return the names of the profiles that jobs use, also as steps of composed ones, in their
    order.
    """
    todo = list(dict.fromkeys(job.profile for job in workload.jobs))
    used = set(todo)
    while todo:
        for step in workload.profiles[todo.pop()].get("seq") or ():
            if step not in used:
                used.add(step)
                todo.append(step)
    return [name for name in workload.profiles if name in used]


def _profile(name: str, profile: Profile, source: str, directory: Path | None) -> dict[str, Any]:
    kind = profile["type"]
    made = dict(profile)
    if kind in _TRACES.values():
        trace = Path(made.pop("trace"))
        if directory is not None:
            there = (Path(source).parent / trace).resolve()
            trace = Path(os.path.relpath(there, directory.resolve()))
        return {**made, "type": TRACE, "trace_type": _THEIRS[kind], "filename": str(trace)}

    if kind in ("parallel_homogeneous", "parallel_homogeneous_total"):
        made["type"] = HOMOGENEOUS
        made.setdefault("com", 0)
        if kind == "parallel_homogeneous_total":
            made["generation_strategy"] = SPREAD
        return made

    if kind not in _THEIRS:
        raise InputError(
            f"{source}: profile {shown(name)}: type is {shown(kind)}, for which Batsim 5 has no "
            f"type; one of {', '.join(_TYPES.values())} is expected"
        )
    if kind == "parallel" and not made.get("com"):
        made.pop("com", None)
    return {**made, "type": _THEIRS[kind]}


def aborts_of_batsim5(workload: Workload) -> dict[str, tuple[str, list[str]]]:
    """Return what would make Batsim 5 abort: for each broken rule, the names of jobs or profiles.

    What :func:`format_batsim5` writes has no walltime of -1.
    """
    tasks = ("parallel_homogeneous", "parallel_homogeneous_total")
    idle = [
        name
        for name, profile in workload.profiles.items()
        if profile["type"] in tasks and not profile.get("cpu") and not profile.get("com")
    ]

    without = [job.id for job in workload.jobs if job.fields.get("walltime") == -1]
    return {
        "idle_task": ("homogeneous tasks with cpu 0 and com 0, which Batsim 5 aborts on", idle),
        "walltime": ("jobs with walltime -1, which Batsim 5 aborts on", without),
        "workload_id": (
            "jobs with the workload's name, w0, in their id, which Batsim 5 aborts on",
            [job.id for job in workload.jobs if "w0" in job.id],
        ),
    }


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    text = ", ".join(map(shown, names[:_SHOWN]))
    return f"{text} and {more:,} more" if more > 0 else text
