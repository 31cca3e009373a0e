"""Profiles and users' requests in Batsim 5's messages, and in Batsim 4's terms."""

from __future__ import annotations

from typing import Any

import msgspec

from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.job_fields import is_request, split_request
from qops_batsim.jobs import Job

SPREAD, EACH = "DefinedAmountsSpreadUniformly", "DefinedAmountsUsedForEachValue"
"""Strategies of a homogeneous task: amounts of the whole, or of each host and pair of hosts."""

SMPI, USAGE = "SMPI", "FractionalComputation"

_WORDS: dict[str, tuple[str, dict[str, str]]] = {
    "delay": ("DelayProfile", {"delay": "delay"}),
    "parallel": (
        "ParallelTaskProfile",
        {"cpu": "computation_vector", "com": "communication_matrix"},
    ),
    "parallel_homogeneous": (
        "ParallelTaskHomogeneousProfile",
        {"cpu": "computation_amount", "com": "communication_amount"},
    ),
    "composed": (
        "SequentialCompositionProfile",
        {"repeat": "repetition_count", "seq": "profile_ids"},
    ),
    "parallel_homogeneous_pfs": (
        "ParallelTaskOnStorageHomogeneousProfile",
        {"storage": "storage_name"}
        | {name: name for name in ("bytes_to_read", "bytes_to_write", "generation_strategy")},
    ),
    "data_staging": (
        "ParallelTaskDataStagingBetweenStoragesProfile",
        {
            "nb_bytes": "bytes_to_transfer",
            "from": "emitter_storage_name",
            "to": "receiver_storage_name",
        },
    ),
    "usage_trace": ("TraceReplayProfile", {"trace": "filename"}),
}
"""Type and fields of each type of profile, ours to those of messages."""

_TYPES = {kind: ours for ours, (kind, _) in _WORDS.items()}


class ProfileAndId(msgspec.Struct, omit_defaults=True):
    """An execution profile in a message of Batsim 5, with its id ``"WORKLOAD!NAME"``."""

    id: str
    profile_type: str
    profile: dict[str, Any]
    extra_data: str | None = None


def to_message(workload: str, name: str, profile: dict[str, Any]) -> ProfileAndId:
    """Return a workload's execution profile in Batsim 5's form; InputError if Batsim 5 has no such
    type.

    A profile's return code is not part of Batsim 5's messages; only its file has it.
    """
    kind = str(profile.get("type"))
    total = kind == "parallel_homogeneous_total"
    trace = {"smpi": SMPI, "usage_trace": USAGE}.get(kind)
    words = _WORDS.get("usage_trace" if trace else "parallel_homogeneous" if total else kind)
    if words is None:
        raise InputError(
            f"profile {shown(name)}: type is {shown(kind)}, which Batsim 5 does not support; one "
            f"of {', '.join(_WORDS)} is expected"
        )

    told = {word: profile[ours] for ours, word in words[1].items() if ours in profile}
    if kind == "parallel":
        # Of a task that only computes, or only communicates, the other part is left out.
        told = {word: amount for word, amount in told.items() if any(amount)} or told

    if "profile_ids" in told:
        told["profile_ids"] = [full_id(workload, str(name)) for name in told["profile_ids"]]
    if "computation_amount" in told or "communication_amount" in told:
        told["generation_strategy"] = SPREAD if total else EACH
    if trace:
        told["trace_type"] = trace

    extra = profile.get("extra_data")
    return ProfileAndId(f"{workload}!{name}", words[0], told, _text_of(extra))


def of_message(told: ProfileAndId) -> tuple[str, str, dict[str, Any]]:
    """Return workload, name and fields (in Batsim 4's form) of an execution profile in a Batsim 5
    message.
    """
    workload, separator, name = told.id.partition("!")
    kind = told.profile_type
    if not separator:
        raise InputError(
            f"id of the profile is {shown(told.id)}; WORKLOAD!NAME, such as 'w0!delay', is expected"
        )
    if kind not in _TYPES:
        raise InputError(f"profile_type is unknown: {shown(kind)}{did_you_mean(kind, _TYPES)}")

    ours = _TYPES[kind]
    profile: dict[str, Any] = {"type": ours}
    profile |= {
        name: told.profile[word] for name, word in _WORDS[ours][1].items() if word in told.profile
    }

    if ours == "parallel_homogeneous":
        if told.profile.get("generation_strategy") == SPREAD:
            profile["type"] = "parallel_homogeneous_total"
        profile = {"cpu": 0.0, "com": 0.0} | profile
    elif told.profile.get("trace_type") == SMPI:
        profile["type"] = "smpi"
    elif ours == "composed" and isinstance(profile.get("seq"), list):
        profile["seq"] = [local_id(workload, str(name)) for name in profile["seq"]]

    if told.extra_data:
        profile["extra_data"] = told.extra_data
    return workload, name, profile


def full_id(workload: str, name: str) -> str:
    """Return a profile's id ``"WORKLOAD!NAME"``; a name that has a workload already is returned as
    it is.
    """
    return name if "!" in name else f"{workload}!{name}"


def local_id(workload: str, name: str) -> str:
    """Return a profile's id without the workload's name in front, if it is of this workload."""
    return name.removeprefix(f"{workload}!")


class JobBody(msgspec.Struct, omit_defaults=True):
    """A job in a message of Batsim 5; further fields of the workload travel in the text
    ``extra_data``.

    A ``walltime`` of None, or of -1, is none.
    """

    resource_request: int
    profile_id: str
    walltime: float | None = None
    extra_data: str | None = None


def body_of(job: Job, job_id: str, extra: Any) -> JobBody:
    """Return a job in Batsim 5's form; ``extra`` (text or JSON value) becomes ``extra_data``."""
    return JobBody(
        job.processors,
        full_id(job_id.partition("!")[0], job.profile),
        job.walltime,
        _text_of(extra),
    )


def job_of(body: JobBody, job_id: str, submission_time: float, *, as_told: bool = False) -> Job:
    """Return the job that a Batsim 5 message describes; InputError if a field is invalid.

    An ``extra_data`` with a user's request (deadline …) becomes the field ``qos``, and what the
    job asks of its hosts fields of the job; with ``as_told``, it stays as it is.
    """
    fields: dict[str, Any] = {
        "id": job_id,
        "subtime": submission_time,
        "res": body.resource_request,
        "profile": local_id(job_id.partition("!")[0], body.profile_id),
    }
    if body.walltime is not None and body.walltime != -1:
        fields["walltime"] = body.walltime

    if as_told and body.extra_data is not None:
        fields["extra_data"] = body.extra_data
    elif body.extra_data:
        told = _value_of(body.extra_data)
        if is_request(told):
            asked, hosts = split_request(told)
            fields |= hosts
            fields |= {"qos": asked} if asked else {}
        else:
            fields["extra_data"] = told
    return Job.from_fields(fields, where="job")


def _text_of(extra: Any) -> str | None:
    if extra is None or isinstance(extra, str):
        return extra
    return msgspec.json.encode(extra).decode()


def _value_of(text: str) -> Any:
    """Return the JSON object written in a text, or the text itself if it is no JSON object."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
