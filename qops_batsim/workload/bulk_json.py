"""Reading Batsim workloads in bulk; what is unusual in any way is left to the plain reader."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.jobs import QosRequest
from qops_batsim.limits import MAX_PROCESSORS, MAX_SECONDS
from qops_batsim.workload.job_table import JobColumns, JobTable, WrittenJobs
from qops_batsim.workload.model import Workload, split_provenance
from qops_batsim.workload.strict_json import load_json

_LOOKED_FOR = 64
"""Bytes of a value by which its place in the file is found."""

_LARGEST_ID = 2**63


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    nb_res: msgspec.Raw
    jobs: msgspec.Raw
    profiles: msgspec.Raw
    qops_batsim: msgspec.Raw = msgspec.Raw(b"{}")


class _Job(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    id: int | str
    subtime: float
    res: int | float
    profile: str
    walltime: float | None = None
    qos: QosRequest | None = None
    user: int | float | str | None = None
    group: int | float | str | None = None
    executable: int | float | str | None = None
    qos_name: str | None = None
    queue: int | float | str | None = None


_UNASKED = msgspec.structs.astuple(QosRequest())


def read_in_bulk(content: bytes, source: str) -> Workload | None:
    """Read a workload from JSON as the plain reader does, many times faster.

    Returns
    -------
    Workload or None
        None if anything is wrong or unusual: the plain reader finds out what.
    """
    try:
        parts = msgspec.json.decode(content, type=_Parts)
        processors = msgspec.json.decode(parts.nb_res, type=int | float)
        provenance = load_json(bytes(parts.qops_batsim).decode(), source)
        profiles = _profiles(bytes(parts.profiles))
        written = bytes(parts.jobs)
        jobs = msgspec.json.decode(written, type=list[_Job])
    except (msgspec.DecodeError, UnicodeDecodeError, InputError, RecursionError):
        return None
    if profiles is None or not isinstance(provenance, dict) or not _names_differ(content, parts):
        return None
    if not isinstance(processors, int) or not 1 <= processors <= MAX_PROCESSORS:
        return None
    values = {name: list(map(attrgetter(name), jobs)) for name in _Job.__struct_fields__}
    del jobs
    if b"\\" in written or written.count(b":") != _colons(values):
        return None
    columns = _columns(values, list(profiles))
    if columns is None:
        return None
    # The identifiers lie scattered among all that was decoded. Without them it goes as a whole.
    joined = "\n".join(columns.ids)
    columns = columns._replace(ids=[])
    values.clear()
    columns = columns._replace(ids=joined.split("\n") if joined else [])
    table = JobTable(columns, WrittenJobs(written, columns.ids))
    provenance, calendar = split_provenance(provenance, source)
    return Workload(table, profiles, processors, provenance, source, calendar=calendar)


def _names_differ(content: bytes, parts: _Parts) -> bool:
    """Tell whether no part of the workload is given twice."""
    for part in sorted(msgspec.structs.astuple(parts), key=len, reverse=True):
        begin = content.find(bytes(memoryview(part)[:_LOOKED_FOR]))
        if begin >= 0:
            content = content[:begin] + b"0" + content[begin + len(part) :]
    rest = content.translate(None, b" \t\r\n").strip(b"{}").split(b",")
    known = {f'"{name}":0'.encode() for name in _Parts.__struct_fields__}
    return len(set(rest)) == len(rest) and known.issuperset(rest)


def _profiles(written: bytes) -> dict[str, dict[str, Any]] | None:
    """Return the profiles by name, or None unless each is a delay and nothing more."""
    profiles = msgspec.json.decode(written, type=dict[str, dict[str, Any]])
    if b"\\" in written or written.count(b":") != 3 * len(profiles):
        return None
    bodies = profiles.values()
    delays: list[Any] = [profile.get("delay") for profile in bodies]
    usual = (
        {len(profile) for profile in bodies} <= {2}
        and all(profile.get("type") == "delay" for profile in bodies)
        and set(map(type, delays)) <= {int, float}
        and all(0 < delay <= MAX_SECONDS for delay in delays)
    )
    return profiles if usual else None


def _colons(values: dict[str, list[Any]]) -> int:
    """Return how many colons there are if no name is given twice, and none is in a text."""
    count = sum(len(column) - column.count(None) for column in values.values())
    for request in values["qos"]:
        if request is not None:
            given = msgspec.structs.astuple(request)
            count += sum(each is not other for each, other in zip(given, _UNASKED, strict=True))
    return count


def _columns(values: dict[str, list[Any]], profile_names: list[str]) -> JobColumns | None:
    """Return the jobs in columns, or None if they are not as they should be."""
    count = len(values["id"])
    ids = _ids(values["id"])
    processors = np.array(values["res"]) if count else np.empty(0, np.int64)
    submissions = np.array(values["subtime"], float)
    # None becomes NaN.
    limits = np.array(values["walltime"], float)
    limits[np.isnan(limits) | (limits == -1)] = math.inf
    requests = values["qos"] if values["qos"].count(None) < count else None
    names = {name: index for index, name in enumerate(profile_names)}
    if not (
        ids is not None
        and processors.dtype == np.int64
        and not any(each is not None and each.problem() for each in requests or ())
        and names.keys() >= set(values["profile"])
    ):
        return None
    estimates = limits
    if requests is not None:
        estimates = limits.copy()
        for index, request in enumerate(requests):
            if request is not None and request.estimated_runtime is not None:
                estimates[index] = request.estimated_runtime
    columns = JobColumns(
        ids=ids,
        submission_times=submissions,
        processors=processors,
        walltimes=limits,
        estimates=estimates,
        profiles=np.fromiter(map(names.__getitem__, values["profile"]), np.int64, count),
        profile_names=profile_names,
        requests=requests,
    )
    return columns if columns.are_usable else None


def _ids(given: list[Any]) -> list[str] | None:
    """Return identifiers as texts, or None if one will not do."""
    if set(map(type, given)) - {str}:
        numbers = [each for each in given if isinstance(each, int)]
        if max(numbers) >= _LARGEST_ID or min(numbers) <= -_LARGEST_ID:
            return None
        given = list(map(str, given))
    return given
