"""Hosts, links, zones and platforms, independent of any file format."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from qops_batsim.platform.cluster import Cluster

ROLES = ("compute_node", "master", "storage")
"""Roles a host may have, as Batsim names them."""

ROUTINGS = ("Full", "None", "Vivaldi", "Cluster", "Floyd", "Dijkstra", "DijkstraCache")
"""How a zone finds the links between two of its members, as SimGrid names them."""

SHARING_POLICIES = ("SHARED", "FATPIPE", "SPLITDUPLEX")
"""How the flows over a link share its bandwidth."""

Coordinates = tuple[float, float, float]
"""Place of a host in a Vivaldi zone (milliseconds of latency)."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A machine.

    Speeds are of one core in each power state (flop/s); ``power_state`` is the index of the one at
    the start. The role is one of :data:`ROLES`. Properties are every ``<prop>`` as text: of the
    host, and of the zones around it, the inner one winning, as in Batsim. ``zone`` is the zone or
    cluster that holds the host, ``coordinates`` its place in a Vivaldi zone (ms).
    """

    name: str
    speeds: tuple[float, ...]
    cores: int = 1
    role: str = "compute_node"
    properties: dict[str, str] = {}
    zone_properties: dict[str, str] = {}
    zone: str = ""
    power_state: int = 0
    coordinates: Coordinates | None = None

    @property
    def speed(self) -> float:
        """Speed of one core in the power state at the start (flop/s)."""
        return self.speeds[self.power_state]


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A network link, with bandwidth in bytes/s and latency in seconds.

    Its sharing policy is ``SHARED``, ``FATPIPE`` (no contention) or ``SPLITDUPLEX``
    (one link each way: routes name them ``NAME_UP`` and ``NAME_DOWN``).
    """

    name: str
    bandwidth: float
    latency: float = 0.0
    sharing_policy: str = "SHARED"
    properties: dict[str, str] = {}


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The links between two hosts or routers of a zone, or between two zones in a zone.

    ``links`` are names in order; those of a split-duplex link end in ``_UP`` or ``_DOWN``. Between
    zones, the gateways are the hosts or routers where the route leaves the one and enters the
    other. If ``symmetrical``, the way back is the same in reverse; a route of a node to itself is
    not.
    """

    source: str
    destination: str
    links: tuple[str, ...]
    source_gateway: str = ""
    destination_gateway: str = ""
    symmetrical: bool = True


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the platform with its own routing.

    ``routing`` is one of :data:`ROUTINGS`, ``parent`` the zone around (empty for the outermost),
    ``routers`` are nodes that only pass traffic, with their place in a Vivaldi zone (ms). Bypass
    routes replace what the routing would find, and are never symmetrical. With routing ``Cluster``,
    there are links from and to each host, and maybe a backbone link between these.
    """

    name: str
    routing: str
    parent: str = ""
    properties: dict[str, str] = {}
    routers: dict[str, Coordinates | None] = {}
    routes: tuple[Route, ...] = ()
    bypass_routes: tuple[Route, ...] = ()
    host_links: dict[str, tuple[str, str]] = {}
    backbone: str = ""


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts and the network between them.

    Two platforms are equal when everything but ``source`` and ``sha256`` is.
    :class:`~qops_batsim.platform.network.Network` answers which links, latency
    and bandwidth lie between two hosts.

    The index of a compute host is Batsim's host id (lexicographic order of names); the ids of
    storage hosts, also by name, follow. The master runs no job. ``links`` are the declared ones by
    name; those of clusters follow from ``clusters``, whose hosts are among the hosts. Each zone is
    directly followed by those inside it; without zones, there is no latency between hosts.
    ``source`` tells in messages where the platform comes from, ``sha256`` is the digest of the
    file, as stored, that it was read from, if any.
    """

    compute_hosts: tuple[Host, ...]
    storage_hosts: tuple[Host, ...] = ()
    master: Host | None = None
    links: dict[str, Link] = {}
    zones: tuple[Zone, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    source: str = "a platform"
    sha256: str | None = None

    def hosts(self) -> Iterator[Host]:
        """Yield every host: compute hosts, storage hosts, the master."""
        yield from self.compute_hosts
        yield from self.storage_hosts
        if self.master is not None:
            yield self.master

    @property
    def has_latencies(self) -> bool:
        """Whether any link, cluster or place in a Vivaldi zone has a latency."""
        nodes = [host.coordinates for host in self.hosts()]
        nodes += [place for zone in self.zones for place in zone.routers.values()]
        return (
            any(link.latency for link in self.links.values())
            or any(cluster.has_latencies for cluster in self.clusters)
            or any(any(place) for place in nodes if place is not None)
        )

    def __repr__(self) -> str:
        held = [f"{len(self.compute_hosts)} compute hosts"]
        if self.storage_hosts:
            held.append(f"{len(self.storage_hosts)} storage hosts")
        if self.master is not None:
            held.append("a master")
        if self.links:
            held.append(f"{len(self.links)} links")
        if self.clusters:
            held.append(f"{len(self.clusters)} clusters")
        return f"Platform({self.source}: {', '.join(held)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Platform) and all(
            getattr(self, name) == getattr(other, name)
            for name in self.__struct_fields__
            if name not in ("source", "sha256")
        )

    __hash__ = None  # type: ignore[assignment]
