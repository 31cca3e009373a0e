"""What a simulation allows."""

from __future__ import annotations

import msgspec

from qops_batsim.engine.external_events import ExternalEvent


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulation allows.

    ``hosts`` limits the compute hosts to the first so many. Of storage sharing, profile reuse and
    unknown events the module is only told. Registered jobs are announced with JOB_SUBMITTED if
    ``acknowledge_dynamic_jobs``, which carries the job's profile if ``forward_profiles``;
    ``sched_config`` goes into SIMULATION_BEGINS. With ``message_delays``, Batsim's own messages
    take their time on platforms with latencies (:mod:`~qops_batsim.engine.messages`). External
    events are in the order of their dates. Unless ``scheduled``, nothing counts jobs: files have
    none, as Batsim's without a scheduler.
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
    message_delays: bool = True
    scheduled: bool = True
