"""A platform in few words, and as plain data."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec

from qops_batsim.platform.model import Host, Platform


class HostGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive hosts that differ in nothing but their names; the master has no ids."""

    first_id: int | None
    last_id: int | None
    hosts: tuple[Host, ...]


def host_groups(platform: Platform) -> list[HostGroup]:
    """Return the hosts in groups of equal ones: compute hosts, storage hosts, the master. O(hosts).

    >>> from qops_batsim.platform.generate import make_cluster
    >>> [(group.first_id, group.last_id) for group in host_groups(make_cluster(9))]
    [(0, 8), (None, None)]
    """
    result = []
    first = 0
    for kind, alike in groupby(platform.hosts(), _kind):
        group = tuple(alike)
        ids = (None, None) if kind.role == "master" else (first, first + len(group) - 1)
        result.append(HostGroup(first_id=ids[0], last_id=ids[1], hosts=group))
        first += len(group)
    return result


def _kind(host: Host) -> Host:
    return msgspec.structs.replace(host, name="", coordinates=None)


def platform_as_data(platform: Platform) -> dict[str, Any]:
    """Return all of a platform that a reader may want, ready for JSON.

    Speeds in flop/s, bandwidths in bytes/s, latencies in seconds. Hosts have the
    ids that Batsim gives them.
    """
    hosts_in: dict[str, int] = {}
    for host in platform.hosts():
        hosts_in[host.zone] = hosts_in.get(host.zone, 0) + 1
    computing = len(platform.compute_hosts)
    return {
        "source": platform.source,
        "cores": sum(host.cores for host in platform.compute_hosts),
        "compute_hosts": [
            _host_as_data(host, index) for index, host in enumerate(platform.compute_hosts)
        ],
        "storage_hosts": [
            _host_as_data(host, computing + index)
            for index, host in enumerate(platform.storage_hosts)
        ],
        "master": _host_as_data(platform.master, None) if platform.master else None,
        "zones": [
            {name: getattr(zone, name) for name in ("name", "routing", "parent", "properties")}
            | {"hosts": hosts_in.get(zone.name, 0), "routes": len(zone.routes)}
            | {"bypass_routes": len(zone.bypass_routes)}
            for zone in platform.zones
        ],
        "clusters": [
            {**msgspec.to_builtins(cluster), "hosts": hosts_in.get(cluster.name, 0)}
            for cluster in platform.clusters
        ],
        "links": [msgspec.to_builtins(link) for link in platform.links.values()],
    }


def _host_as_data(host: Host, host_id: int | None) -> dict[str, Any]:
    return {"id": host_id, **msgspec.to_builtins(host)}
