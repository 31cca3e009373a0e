"""Speed, processors and memory of hosts, and bandwidths between them.

Batsim's protocol tells names and properties of hosts, not their speeds and cores, and
nothing of the network. These come from the platform, where the module was given it;
else speeds come from the hosts' property ``speed``, and all else is equal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from qops_batsim.core.system import HostDescription
from qops_batsim.errors import InputError, shown
from qops_batsim.platform.network import Network, longest_round_trip
from qops_batsim.platform.platform_model import Platform
from qops_batsim.quantities import SIZE, SPEED
from qops_batsim.schedulers.aroma.application import SharedHost

DEFAULT_SPEED = 100e6
"""Speed of a host where nothing tells it (flop/s); that of a made cluster."""


class UnequalHosts:
    """Hosts of unequal speed, and the bandwidths between them.

    Parameters
    ----------
    described
        The compute hosts as the engine announces them.
    platform
        Where to look up their speeds and the network; None if unknown.
    reference_speed
        Speed for which C(m) = 1 (flop/s); None for the speed that most hosts have (of several,
        the lowest).

    Attributes
    ----------
    hosts
        The hosts; those of a cluster are alike to the network.
    """

    def __init__(
        self,
        described: Sequence[HostDescription],
        platform: Platform | None = None,
        reference_speed: float | None = None,
    ) -> None:
        known = {host.name: host for host in platform.compute_hosts} if platform else {}
        self._names = [host.name for host in described]
        self._network = Network(platform) if platform is not None else None
        groups, self._members = self._grouped(platform)
        self.hosts = []
        for index, host in enumerate(described):
            found = known.get(host.name)
            if platform is not None and found is None:
                raise InputError(
                    f"{platform.source}: the platform has no host {shown(host.name)}, which the "
                    "engine has; the platform that the engine simulates is expected"
                )
            speed = _speed(host) if found is None else found.speed
            cores = 1 if found is None else found.cores
            memory = _memory(host)
            self.hosts.append(SharedHost(index, speed, cores, memory, groups[index]))

        if reference_speed is None:
            counts = Counter(host.speed for host in self.hosts)
            most = max(counts.values(), default=0)
            reference_speed = min(
                (speed for speed, count in counts.items() if count == most), default=DEFAULT_SPEED
            )

        self.reference_speed = reference_speed
        self.has_delays = platform is not None and longest_round_trip(platform) > 0

    @cached_property
    def bandwidths(self) -> list[list[float]]:
        """Bandwidths B(i, j) between a host of group i and another host of group j (bytes/s).

        Infinite where nothing is known or communication takes no time. Found when
        first asked for, O(groups² · path).
        """
        count = len(self._members)
        found = [[math.inf] * count for _ in range(count)]
        if self._network is None:
            return found
        for one, members in enumerate(self._members):
            if len(members) > 1:
                found[one][one] = self._bandwidth(self._network, members[0], members[1])
            for other in range(one + 1, count):
                between = self._bandwidth(self._network, members[0], self._members[other][0])
                found[one][other] = between
                found[other][one] = between
        return found

    def _bandwidth(self, network: Network, one: int, other: int) -> float:
        """Return the bandwidth between two hosts, the lower of both directions (bytes/s)."""
        there = network.path(self._names[one], self._names[other])
        back = network.path(self._names[other], self._names[one])
        return min(there.bandwidth, back.bandwidth)

    def _grouped(self, platform: Platform | None) -> tuple[list[int], list[list[int]]]:
        """Group hosts alike in the network; return each host's group and each group's hosts."""
        numbers: dict[tuple[object, ...], int] = {}
        members: list[list[int]] = []
        groups = []
        alike = _alike(platform) if platform else dict.fromkeys(self._names, ("all",))
        for index, name in enumerate(self._names):
            group = numbers.setdefault(alike.get(name, (name,)), len(numbers))
            if group == len(members):
                members.append([])
            members[group].append(index)
            groups.append(group)
        return groups, members


def _alike(platform: Platform) -> dict[str, tuple[object, ...]]:
    """Return a key for each host name, equal for hosts that the network does not distinguish."""
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
    return SPEED.parse(text, where=f"host {shown(host.name)}: property speed")


def _memory(host: HostDescription) -> float:
    text = host.properties.get("memory", host.zone_properties.get("memory"))
    if text is None:
        return math.inf
    return SIZE.parse(text, where=f"host {shown(host.name)}: property memory")
