"""What a simulation allows."""

from __future__ import annotations

import msgspec

from qops_batsim.engine.external_events import ExternalEvent


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation allows.

    Attributes
    ----------
    hosts
        Use only the first so many compute hosts; None for all.
    storage_sharing
        What the module is told of storage hosts; the engine runs nothing on them.
    acknowledge_dynamic_jobs
        Whether a registered job is announced with JOB_SUBMITTED.
    profile_reuse
        Told to the module; the engine keeps every profile in any case.
    forward_profiles
        Whether JOB_SUBMITTED carries the job's profile.
    sched_config
        Text handed to the module in SIMULATION_BEGINS.
    external_events
        What happens whatever the module does, in order of dates.
    forward_unknown_events
        Told to the module: whether such events may have types that Batsim does not know.
    """

    hosts: int | None = None
    compute_sharing: bool = False
    storage_sharing: bool = True
    energy: bool = False
    external_events: tuple[ExternalEvent, ...] | None = None
    forward_unknown_events: bool = False
    dynamic_jobs: bool = False
    acknowledge_dynamic_jobs: bool = True
    profile_reuse: bool = False
    forward_profiles: bool = False
    sched_config: str = ""
