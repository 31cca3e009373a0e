"""Workloads of ``delay`` jobs: their run times, and changed copies of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import object_in
from qops_batsim.jobs import Job
from qops_batsim.tables import Floats
from qops_batsim.version import __version__
from qops_batsim.workload.job_columns import changed_copy
from qops_batsim.workload.workload_model import (
    JobColumns,
    Profile,
    Workload,
    delay_profile,
    plain_number,
)


def run_times(workload: Workload) -> list[float]:
    """Return each job's run time (seconds): the delay of its profile, whatever its walltime."""
    delays: list[float] = _delays(workload, workload.columns).tolist()
    return delays


def run_times_until_killed(workload: Workload) -> list[float]:
    """Return how long each job runs (seconds), cut at its walltime."""
    columns = workload.columns
    times: list[float] = np.minimum(_delays(workload, columns), columns.walltimes).tolist()
    return times


def _delays(workload: Workload, columns: JobColumns) -> Floats:
    """Return each job's run time (seconds); InputError if there is no job, or one without."""
    if not columns.ids:
        raise InputError(
            f"{workload.source}: holds no job; a workload with at least one job is expected"
        )
    delays = workload.delays_of(columns)
    is_other = np.isnan(delays)
    if is_other.any():
        place = int(is_other.argmax())
        profile = columns.profile_names[columns.profiles[place]]
        raise InputError(
            f"{workload.source}: job {shown(columns.ids[place])}: profile {shown(profile)} is of "
            f"type {workload.profiles[profile]['type']}; only type delay, which has a run time, is "
            "accepted here"
        )
    return delays


def jobs_until_killed(workload: Workload) -> Iterator[tuple[Job, float]]:
    """Yield each job with how long it runs (seconds), cut at its walltime."""
    yield from zip(workload.jobs, run_times_until_killed(workload), strict=True)


def exact_estimates(workload: Workload) -> Workload:
    """Return a copy of the workload in which each job's estimate is its run time.

    Every job carries its run time, cut to its walltime, as ``qos.estimated_runtime`` and has no
    walltime, since Batsim calls a job killed whose run time equals its walltime.
    """
    profiles = ProfileTable(workload.profiles)
    jobs = []
    for job, seconds in jobs_until_killed(workload):
        fields = {"profile": profiles.name(job.profile, seconds), "walltime": None}
        qos = {"estimated_runtime": plain_number(seconds)}
        jobs.append(changed_job(job, fields, qos, workload=workload))
    return derived(workload, jobs, profiles.new, {"step": "exact estimates"})


class ProfileTable:
    """The delay profiles of a workload that is derived from another one; ``new`` collects them."""

    def __init__(self, old: Mapping[str, Profile]) -> None:
        self._old = old
        self._names: dict[tuple[str, float], str] = {}
        self.new: dict[str, Profile] = {}

    def name(self, old_name: str, seconds: float) -> str:
        """Return the name of a profile like the old delay profile, but lasting ``seconds``; add it
        to the new profiles.

        Equal profiles share a name; an unchanged one keeps its own.
        """
        key = (old_name, seconds)
        if key not in self._names:
            self._names[key] = self._add(old_name, seconds)
        return self._names[key]

    def _add(self, old_name: str, seconds: float) -> str:
        body = self._old[old_name]
        if body["delay"] == seconds:
            self.new[old_name] = body
            return old_name
        base, delay = delay_profile(seconds)
        body = {**body, **delay}

        # An old profile of that name may last another time and still be needed.
        name = base
        number = 1
        while self._old.get(name, body) != body or self.new.get(name, body) != body:
            number += 1
            name = f"{base}_{number}"
        self.new[name] = body
        return name


def changed_job(
    job: Job, fields: dict[str, Any], qos: dict[str, Any], *, workload: Workload
) -> Job:
    """Return a copy of a job with new values of some ``fields``, and of some fields in its ``qos``.

    A value of None removes the field. Messages name the ``workload``.
    """
    # This is done for every job, and most are never asked for their fields.
    made = changed_copy(job, fields, qos, _Changed(job, fields, qos))
    if made is None:
        return Job.from_fields(_changed_fields(job, fields, qos), where=workload.source)
    return made


def with_deadline(job: Job, deadline: float | None, of_user: bool, *, workload: Workload) -> Job:
    """Return a copy of a job with this deadline (seconds of the workload; None: without), which its
    user or the workload maker (``of_user`` false) has set.
    """
    qos = {"deadline": deadline, "has_user_deadline": of_user}
    return changed_job(job, {}, qos, workload=workload)


class _Changed:
    """The fields of a job that was changed, worked out when they are asked for."""

    __slots__ = ("_fields", "_job", "_qos")

    def __init__(self, job: Job, fields: Mapping[str, Any], qos: Mapping[str, Any]) -> None:
        self._job = job
        self._fields = fields
        self._qos = qos

    def fields_of(self, job_id: str) -> dict[str, Any]:
        return _changed_fields(self._job, self._fields, self._qos)


def _changed_fields(job: Job, fields: Mapping[str, Any], qos: Mapping[str, Any]) -> dict[str, Any]:
    name = "extra_data" if job.qos is not None and job.fields.get("qos") is None else "qos"
    told: Any = object_in(job.fields.get(name)) if job.qos is not None else None
    asked = _updated(told or {}, qos)
    result = _updated(job.fields, fields)
    if asked or name in result:
        result[name] = asked
    return result


def _updated(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    values = {**old, **changes}.items()
    return {name: new for name, new in values if new is not None or name not in changes}


def plain_values(value: Any) -> Any:
    """Return a JSON value in which whole numbers are ints (5, not 5.0)."""
    if isinstance(value, dict):
        return {name: plain_values(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(inner) for inner in value]
    return plain_number(value) if isinstance(value, float) else value


def derived(
    workload: Workload,
    jobs: Sequence[Job],
    profiles: dict[str, Profile] | None,
    step: Mapping[str, Any],
) -> Workload:
    """Return a workload of new ``jobs`` made from another workload; its provenance records the
    ``step``.

    Without ``profiles`` it keeps those of the old that its jobs use. The ``step`` says what was
    done, with every parameter and seed; ``made_from`` holds the old workload's provenance.
    """
    if profiles is None:
        profiles = {job.profile: workload.profiles[job.profile] for job in jobs}
    before = workload.provenance or {"file": Path(workload.source).name}
    provenance = {**step, "version": __version__, "made_from": before}
    made = Workload(jobs, profiles, workload.processors, provenance, workload.source)
    made.calendar = workload.calendar
    return made
