"""A platform's hosts and links as shared resources."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from qops_batsim.engine.execution import Amounts, AnyAmounts
from qops_batsim.engine.fluid import Computation, HostResource, Resource
from qops_batsim.errors import InputError, shown
from qops_batsim.platform.network import Network
from qops_batsim.platform.platform_model import Host, Link, Platform

TCP_WINDOW = 4194304.0
"""SimGrid's bound on unacknowledged data (bytes): latency bounds the rate of a transfer."""


class MessagePath(NamedTuple):
    """The path of a one-byte message: resources, latency (s), greatest rates (1/s).

    The ``bound`` comes from the latency alone, and is infinite without links; ``alone`` is the rate
    where nothing else uses its links.
    """

    uses: dict[Resource, float]
    latency: float
    bound: float
    alone: float


class PlatformResources:
    """Hosts and links, from which computations are made.

    A host has the speed of its cores together, and one executor at most that of
    one core. Links are those of the platform's routes; a platform without links
    communicates in no time. ``hosts`` are the compute hosts in use, by host id; the platform's
    storage hosts follow.
    """

    def __init__(self, platform: Platform, hosts: tuple[Host, ...]) -> None:
        self._platform = platform
        self._hosts = (*hosts, *platform.storage_hosts)
        self._storages = range(len(hosts), len(self._hosts))
        self._host_resources: dict[int, HostResource] = {}
        self._link_resources: dict[str, Resource] = {}
        self._network: Network | None = None
        self._routes: dict[tuple[int, int], tuple[list[Resource], float]] = {}
        self._messages: dict[int | None, MessagePath] = {}

    def host(self, number: int) -> Host:
        """Return a host by its id."""
        return self._hosts[number]

    def host_resource(self, host: int) -> HostResource:
        resource = self._host_resources.get(host)
        if resource is None:
            described = self._hosts[host]
            resource = HostResource(host, described.speed, described.cores)
            self._host_resources[host] = resource
        return resource

    def computation(
        self,
        amounts: AnyAmounts,
        executors: Sequence[int],
        storages: Mapping[str, int] | None = None,
    ) -> Computation:
        """Return the computation of an amount of work, with one host for each executor.

        ``storages`` are storage hosts by label; without any, the only one there is has every label.
        InputError if there is none, or no route between two hosts that communicate.
        """
        mapped = [self._storage(label, storages or {}) for label in amounts.storages]
        flops, transfers = amounts.placed(executors, mapped)
        if len(executors) + len(mapped) == 1:
            transfers = []  # SimGrid has one host compute only, whatever it sends itself.

        uses: dict[Resource, float] = {}
        latency, slowest = 0.0, 0.0
        for source, destination, size in transfers:
            links, delay = self._route(source, destination)
            latency = max(latency, delay)
            slowest = max(slowest, delay * size)
            for link in links:
                _use(uses, link, size)

        parts = zip(map(self.host_resource, executors), flops, strict=bool(flops))
        return Computation(
            uses,
            executors=parts,
            parties=(*executors, *mapped),
            bound=_latency_bound(slowest),
            latency=latency,
        )

    def share(self, host: int, share: float, flops: float) -> Computation:
        """Return a computation of ``flops`` flop on each of a share (0 to 1) of a host's cores."""
        cores = max(1, math.floor(share * self._hosts[host].cores + 0.5))
        return self.computation(Amounts((flops,) * cores, ()), (host,) * cores)

    def _storage(self, label: str, storages: Mapping[str, int]) -> int:
        found = storages.get(label)
        if found is None and not storages and len(self._storages) == 1:
            found = self._storages[0]

        if found is None:
            raise InputError(
                f"storage {shown(label)} was mapped to no host; a storage host is expected in "
                f"storage_mapping (the platform has {len(self._storages)})"
            )

        if found not in self._storages:
            raise InputError(
                f"storage {shown(label)} was mapped to host {found}, which is no storage host; "
                "a storage host of the platform is expected"
            )
        return found

    def message(self, source: int | None) -> MessagePath:
        """Return the path of a one-byte message from a host (None: the master) to the master.

        InputError if there is none.
        """
        known = self._messages.get(source)
        if known is None:
            master = self._platform.master
            assert master is not None
            name = master.name if source is None else self._hosts[source].name
            try:
                links, latency = self._path(name, master.name, message=True)
            except InputError as error:
                if self._platform.has_latencies:
                    raise InputError(
                        f"{error}; messages between host and master take this route, unless "
                        "messages take no time (--no-message-delays)"
                    ) from None
                links = []
                latency = 0.0

            uses: dict[Resource, float] = {}
            for link in links:
                _use(uses, link, 1.0)
            # What crosses no link has arrived when the latency is over.
            bound = _latency_bound(latency) if uses else math.inf
            rates = [link.capacity / amount for link, amount in uses.items()]
            known = MessagePath(uses, latency, bound, min([bound, *rates]))
            self._messages[source] = known
        return known

    def _route(self, source: int, destination: int) -> tuple[list[Resource], float]:
        key = (source, destination)
        known = self._routes.get(key)
        if known is None:
            names = self._hosts[source].name, self._hosts[destination].name
            known = self._path(*names)
            self._routes[key] = known
        return known

    def _path(
        self, source: str, destination: str, *, message: bool = False
    ) -> tuple[list[Resource], float]:
        if self._network is None:
            self._network = Network(self._platform)
        path = self._network.path(source, destination, message=message)
        return [self._link(link) for link in path.links], path.latency

    def _link(self, link: Link) -> Resource:
        resource = self._link_resources.get(link.name)
        if resource is None:
            shared = link.sharing_policy != "FATPIPE"
            resource = Resource(link.bandwidth, shared=shared)
            self._link_resources[link.name] = resource
        return resource


def _use(uses: dict[Resource, float], link: Resource, size: float) -> None:
    """Add bytes that cross a link; a FATPIPE link does not share its bandwidth among them."""
    before = uses.get(link, 0.0)
    uses[link] = before + size if link.shared else max(before, size)


def _latency_bound(latency: float) -> float:
    """Return the greatest rate of one byte, or of several bytes, that a latency permits."""
    return TCP_WINDOW / (2.0 * latency) if latency > 0 else math.inf
