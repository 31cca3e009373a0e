"""Speeds, processors and memory of the hosts, and bandwidths of the network between them.

Batsim's protocol tells names and properties of hosts, not their speeds and cores, and
nothing of the network. These come from the platform, where the module was given it;
else from the hosts' properties ``speed`` and ``cores``; else all hosts are equal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from qops_batsim.errors import InputError, shown
from qops_batsim.platform.model import Platform
from qops_batsim.platform.network import Network
from qops_batsim.platform.units import parse_speed
from qops_batsim.protocol.events import HostDescription
from qops_batsim.scheduling.aroma.application import Work
from qops_batsim.scheduling.aroma.recurrence import HOST, Rows
from qops_batsim.scheduling.arrays import Floats, Ints

DEFAULT_SPEED = 100e6
"""Speed of a host where nothing tells it (flop/s); that of a made cluster."""

SHORTEST_TASK = 5e-5
"""Least time that a task is planned for (s).

Work of next to nothing would end at its start, as far as planning can tell, so that an
application that has to be alone could be planned for the same date and go first.
"""


class UnequalHosts:
    """The hosts, and the bandwidth between them.

    Parameters
    ----------
    hosts
        The compute hosts as the engine announces them.
    platform
        Where to look up their speeds and the network; None if unknown.
    reference_speed
        Speed for which C(m) = 1 (flop/s); None for the speed that most hosts have
        (of several, the lowest).

    Attributes
    ----------
    speeds
        Speed of one processor of each host (flop/s).
    hosts
        U(m), M_t(m) (bytes; infinite where unknown) and group of each host: hosts of a
        cluster are alike to the network.
    """

    def __init__(
        self,
        hosts: Sequence[HostDescription],
        platform: Platform | None = None,
        reference_speed: float | None = None,
    ) -> None:
        known = {host.name: host for host in platform.compute_hosts} if platform else {}
        self._names = [host.name for host in hosts]
        speeds, processors, memory = [], [], []
        for host in hosts:
            described = known.get(host.name)
            if platform is not None and described is None:
                raise InputError(
                    f"{platform.source}: it has no host {shown(host.name)}, which the engine has; "
                    "the platform that the engine simulates is expected"
                )
            if described is not None:
                speeds.append(described.speed)
                processors.append(described.cores)
            else:
                speeds.append(_speed(host))
                processors.append(int(_positive(host, "cores", 1.0)))
            memory.append(_positive(host, "memory", math.inf))
        self.speeds: Floats = np.array(speeds)
        if reference_speed is None:
            counts = Counter(speeds)
            most = max(counts.values(), default=0)
            reference_speed = min(
                (speed for speed, count in counts.items() if count == most), default=DEFAULT_SPEED
            )
        self.reference_speed = reference_speed
        self._platform = platform
        self._network = Network(platform) if platform is not None else None
        groups, self._members = self._grouped(platform)
        self.hosts: Rows = np.zeros(len(hosts), HOST)
        self.hosts["processors"] = processors
        self.hosts["memory"] = memory
        self.hosts["group"] = groups

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def has_delays(self) -> bool:
        """Tell whether messages from and to the master host take time. O(groups · path)."""
        master = None if self._platform is None else self._platform.master
        if master is None or self._network is None:
            return False
        for members in self._members:
            try:
                path = self._network.path(master.name, self._names[members[0]])
            except InputError:
                continue  # SimGrid lets messages pass at once where there is no route.
            if path.latency > 0:
                return True
        return False

    def needs(self, work: Work) -> Floats:
        """Return the seconds that a task needs on each host alone, t_c · C(m). O(hosts)."""
        needed: Floats = work.flop / self.speeds + work.seconds
        return np.maximum(needed, SHORTEST_TASK)

    @cached_property
    def bandwidths(self) -> Floats:
        """B(i, j) between two different hosts of each two groups (bytes/s).

        Infinite where nothing is known or communication takes no time. Found when
        first asked for, O(groups² · path).
        """
        count = len(self._members)
        found = np.full((count, count), np.inf)
        if self._network is None:
            return found
        for one, members in enumerate(self._members):
            if len(members) > 1:
                found[one, one] = self._bandwidth(self._network, members[0], members[1])
            for other in range(one + 1, count):
                between = self._bandwidth(self._network, members[0], self._members[other][0])
                found[one, other] = found[other, one] = between
        return found

    def _bandwidth(self, network: Network, one: int, other: int) -> float:
        """Return the bandwidth between two hosts, the lower one of both directions (bytes/s)."""
        there = network.path(self._names[one], self._names[other])
        back = network.path(self._names[other], self._names[one])
        return min(there.bandwidth, back.bandwidth)

    def _grouped(self, platform: Platform | None) -> tuple[Ints, list[list[int]]]:
        """Return the group of each host, and the hosts of each group."""
        numbers: dict[tuple[object, ...], int] = {}
        members: list[list[int]] = []
        groups = np.zeros(len(self._names), np.int64)
        alike = _alike(platform) if platform else dict.fromkeys(self._names, ("all",))
        for index, name in enumerate(self._names):
            group = numbers.setdefault(alike.get(name, (name,)), len(numbers))
            if group == len(members):
                members.append([])
            members[group].append(index)
            groups[index] = group
        return groups, members


def _alike(platform: Platform) -> dict[str, tuple[object, ...]]:
    """Return what tells the hosts of clusters and stars apart, as the network sees them."""
    clusters = {cluster.name for cluster in platform.clusters}
    zones = {zone.name: zone for zone in platform.zones}
    found: dict[str, tuple[object, ...]] = {}
    for host in platform.compute_hosts:
        zone = zones.get(host.zone)
        if host.zone in clusters or (zone is not None and zone.routing == "Vivaldi"):
            found[host.name] = (host.zone, "all")
        elif zone is not None and zone.routing == "Cluster" and host.name in zone.host_links:
            links = [
                platform.links.get(link, platform.links.get(link.rpartition("_")[0]))
                for link in zone.host_links[host.name]
            ]
            found[host.name] = (host.zone, "star", *(link and link.bandwidth for link in links))
    return found


def _speed(host: HostDescription) -> float:
    text = host.properties.get("speed")
    if text is None:
        return DEFAULT_SPEED
    return parse_speed(text, where=f"host {shown(host.name)}: property speed")


def _positive(host: HostDescription, name: str, default: float) -> float:
    text = host.properties.get(name, host.zone_properties.get(name))
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise InputError(
            f"host {shown(host.name)}: property {name} is {shown(text)}; "
            "a number above 0 is expected"
        )
    return value
