"""JSON of other systems and of other commands, recognised by its fields and named for what it is.

Every reader of JSON asks here before it says that a field is missing.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from qops_batsim.errors import InputError, printable

_AS_TABLE = "as a table (CSV), its jobs are read by `workload import --map`"

_LISTED = 4
"""Most fields that a message names."""


class JsonKind(NamedTuple):
    """A kind of JSON: its name, what a message calls it, and what can be done with it."""

    name: str
    told: str
    hint: str = ""


_OF_SLURM = {
    "sacct": JsonKind(
        "sacct",
        "Slurm's accounting (`sacct --json`)",
        "`workload import`, `advise` and `queue … --history` read it",
    ),
    "squeue": JsonKind(
        "squeue",
        "a queue of Slurm (`squeue --json`)",
        "`queue starts` and `queue quote` read it",
    ),
    "nodes": JsonKind(
        "nodes",
        "a list of nodes of Slurm (`scontrol show nodes --json`, or `sinfo --json`)",
        "--nodes reads what `scontrol show node` prints",
    ),
    "reservations": JsonKind(
        "reservations",
        "a list of reservations of Slurm (`scontrol show reservations --json`)",
        "`workload import --reservations` reads what `scontrol show reservation` prints",
    ),
    "other": JsonKind("slurm", "an answer of Slurm that tells no jobs"),
}

_FLUX = JsonKind("flux", "a job list of Flux (`flux jobs --json`)", _AS_TABLE)
_PBS = JsonKind(
    "qstat", "a queue of PBS (`qstat -F json`)", "PBS's accounting files are read as a history"
)
_QUEUE = JsonKind(
    "queue", "a queue in this package's form", "`queue starts` and `queue quote` read it"
)
_BATSIM = JsonKind("batsim", "a Batsim workload", "`run --workload` and `workload import` read it")
_LINES = JsonKind("lines", "a file of JSON lines (an object on each line)", _AS_TABLE)

_RECORDS: dict[JsonKind, Collection[str]] = {
    _FLUX: ("t_submit", "t_depend", "id_f58", "ntasks"),
    JsonKind("pbs_record", "jobs of PBS (`qstat -F json`)", _PBS.hint): (
        *("Job_Name", "Job_Owner", "Resource_List"),
    ),
}
"""Kinds of records of jobs, by fields of which one is enough."""

_OBJECTS: dict[JsonKind, Collection[str]] = {
    _PBS: ("pbs_version", "pbs_server"),
    JsonKind("bjobs", "a job list of LSF (`bjobs -json`)", _AS_TABLE): ("RECORDS",),
}
"""Kinds of objects, by fields of which one is enough."""

_BATSIM_JOB = frozenset(("subtime", "res", "profile"))
_OWN_JOB = frozenset(("processors", "estimate", "submission", "planned_start"))
_ROUND_JOBS = frozenset(("nb_res", "profiles", "processors", "now", "meta"))
"""Fields beside the list of jobs in what is read here."""


def kind_of(data: Any) -> JsonKind | None:
    """Return what kind of JSON a decoded value is; None if nothing tells it."""
    if isinstance(data, list):
        return _kind_of_list(data)
    if not isinstance(data, dict):
        return None
    found = _kind_by(data, _OBJECTS) or _kind_by_lists(data)
    if found is not None:
        return found
    # An object may have records by id: {"11": {…}}.
    are_ids = all(name.partition(".")[0].partition("[")[0].isdecimal() for name in data)
    return _kind_of_list([*data.values()]) if data and are_ids else _kind_of_record(data)


def _kind_of_list(data: list[Any]) -> JsonKind | None:
    """Return the kind of a list of records, of which at least the first is an object."""
    if not data:
        return None
    first = data[0]
    if not isinstance(first, dict):
        return JsonKind("list", "a list in JSON without records")
    kind = _kind_of_record(first)
    if kind is not None and kind.name in _OF_SLURM:
        hint = "it is read with the object around its jobs, as Slurm prints it"
        return JsonKind("list", f"a list out of {kind.told}", hint)
    if kind is not None and kind.name not in ("batsim", "queue"):
        return kind
    return JsonKind("list", f"a list of {len(data):,} records ({_fields(first)})", _AS_TABLE)


def _kind_by_lists(data: Mapping[str, Any]) -> JsonKind | None:
    """Return the kind of an object by the lists in it, those of Slurm, ours, or a list ``jobs``."""
    if _BATSIM_JOB & data.keys() <= {"profile"} and {"nb_res", "profiles"} & data.keys():
        return _BATSIM

    jobs = data.get("jobs")
    is_ours = bool(data.keys() & _ROUND_JOBS)
    if isinstance(jobs, dict) and not is_ours:
        return _kind_of_list([*jobs.values()])
    if jobs == []:
        return _OF_SLURM["squeue"] if "meta" in data else None
    if isinstance(jobs, list):
        first = jobs[0]
        kind = _kind_of_record(first) if isinstance(first, dict) else None
        if kind is not None or is_ours:
            return kind
        known = _BATSIM_JOB | _OWN_JOB | {"job_id"}
        is_other = isinstance(first, dict) and len(first) > 1 and not first.keys() & known
        return _kind_of_list(jobs) if is_other or isinstance(first, str) else None

    if isinstance(data.get("nodes"), list) or isinstance(data.get("sinfo"), list):
        return _OF_SLURM["nodes"]
    if isinstance(data.get("reservations"), list):
        return _OF_SLURM["reservations"]
    meta = data.get("meta")
    of_slurm = isinstance(meta, dict) and {"slurm", "Slurm", "plugin"} & meta.keys()
    return _OF_SLURM["other"] if of_slurm else None


def _kind_of_record(record: Mapping[str, Any]) -> JsonKind | None:
    """Return the kind of a list by one of its jobs."""
    if "job_id" in record and isinstance(record.get("time"), dict):
        return _OF_SLURM["sacct"]
    if "job_id" in record and "job_state" in record:
        return _OF_SLURM["squeue"]
    if len(_BATSIM_JOB & record.keys()) > 1:
        return _BATSIM
    kind = _kind_by(record, _RECORDS)
    if kind is not None:
        return kind
    return _QUEUE if "id" in record and _OWN_JOB & record.keys() else None


def _kind_by(data: Mapping[str, Any], kinds: Mapping[JsonKind, Collection[str]]) -> JsonKind | None:
    return next((kind for kind, names in kinds.items() if data.keys() & set(names)), None)


def _fields(record: Mapping[str, Any]) -> str:
    """Return the names of a record's first fields, as text."""
    names = ", ".join(printable(str(name))[:40] for name in list(record)[:_LISTED])
    return names + (", …" if len(record) > _LISTED else "")


def _decoded(content: bytes) -> Any:
    """Return the value of JSON, or the kind of what is none; None if it is neither."""
    text = content.removeprefix(codecs.BOM_UTF8).strip()
    if not text.startswith((b"{", b"[")):
        return None
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(text)

    try:
        whole = text.decode()
        first, end = json.JSONDecoder().raw_decode(whole)
    except (ValueError, RecursionError):
        return None
    if not whole[end:].lstrip().startswith(("{", "[")):
        return None
    kind = kind_of(first)
    if kind is None or kind.name not in (*_OF_SLURM, "batsim", "queue"):
        return _LINES
    told = f"several JSON values one after another, the first of which is {kind.told}"
    return JsonKind("several", told, "files can be read one by one")


def refuse_kind(
    kind: JsonKind | None, source: str, accepted: str, own: Collection[str] = ()
) -> None:
    """Raise an InputError that names a ``kind`` of JSON, unless its name is among ``own``, those
    that the reader knows, or it is not known; ``accepted`` is what the reader expects.
    """
    if kind is not None and kind.name not in own:
        hint = f" ({kind.hint})" if kind.hint else ""
        raise InputError(f"{source}: is {kind.told}; {accepted} is expected{hint}")


def refuse_other_json(
    content: bytes,
    source: str,
    accepted: str,
    own: Collection[str] = (),
    known: Collection[str] = (),
) -> None:
    """Raise an InputError if a file holds JSON of another system, or of another command, that the
    reader does not know.

    Parameters
    ----------
    content, source
        The file's content, and its name in messages.
    accepted
        What the reader expects.
    own
        Names of the kinds that the reader knows, about which it says itself what is wrong.
    known
        Fields of which the reader expects at least one: see :func:`refuse_object`.
    """
    data = _decoded(content)
    kind = data if isinstance(data, JsonKind) else kind_of(data)
    refuse_kind(kind, source, accepted, own)
    if kind is None and isinstance(data, dict):
        refuse_object(data, source, accepted, known)


def refuse_object(
    data: Mapping[str, Any], source: str, accepted: str, known: Collection[str]
) -> None:
    """Raise an InputError that names the fields of a JSON object if it has fields, and none of the
    ``known`` ones; ``accepted`` is what is expected.
    """
    if data and known and not data.keys() & set(known):
        refuse_kind(JsonKind("object", f"JSON with the fields {_fields(data)}"), source, accepted)
