"""What an engine says first."""

from __future__ import annotations

from collections.abc import Sequence

from qops_batsim.engine.world import World
from qops_batsim.platform.model import Host, Platform
from qops_batsim.protocol.events import EngineConfig, HostDescription, SimulationBegins


def simulation_begins(world: World, platform: Platform) -> SimulationBegins:
    """Return what is told of hosts, options and workloads."""
    options, hosts, storage = world.options, world.hosts, platform.storage_hosts
    return SimulationBegins(
        nb_resources=len(hosts) + len(storage),
        nb_compute_resources=len(hosts),
        nb_storage_resources=len(storage),
        allow_compute_sharing=options.compute_sharing,
        allow_storage_sharing=options.storage_sharing,
        config=EngineConfig(
            profiles_forwarded_on_submission=options.forward_profiles,
            dynamic_jobs_enabled=options.dynamic_jobs,
            dynamic_jobs_acknowledged=options.dynamic_jobs and options.acknowledge_dynamic_jobs,
            profile_reuse_enabled=options.profile_reuse,
            sched_config=options.sched_config,
            forward_unknown_events=options.forward_unknown_events,
        ),
        compute_resources=_described(hosts, 0),
        storage_resources=_described(storage, len(hosts)),
        workloads={name: each.source for name, each in world.workloads.items()},
        profiles=world.profiles,
    )


def _described(hosts: Sequence[Host], first: int) -> list[HostDescription]:
    return [
        HostDescription(
            first + index, host.name, "idle", {"role": "", **host.properties}, host.zone_properties
        )
        for index, host in enumerate(hosts)
    ]
