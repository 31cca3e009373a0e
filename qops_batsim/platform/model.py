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

    Attributes
    ----------
    speeds
        Speed of one core in each power state (flop/s).
    role
        One of :data:`ROLES`.
    properties
        Every ``<prop>`` of the host, as text.
    zone_properties
        Every ``<prop>`` of the zone that holds the host and of the zones around
        it; the inner one wins, as in Batsim.
    zone
        Name of the zone or cluster that holds the host.
    power_state
        Index in ``speeds`` of the power state at the start.
    coordinates
        Place in a Vivaldi zone (ms), None elsewhere.
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

    Attributes
    ----------
    source, destination
        Names of two hosts or routers, or of two zones or clusters.
    links
        Names of the links, in order; those of a split-duplex link end in ``_UP``
        or ``_DOWN``.
    source_gateway, destination_gateway
        Between zones: the hosts or routers where the route leaves the one zone
        and enters the other; empty otherwise.
    symmetrical
        Whether the way back is the same in reverse; False for a route of a node to
        itself.
    """

    source: str
    destination: str
    links: tuple[str, ...]
    source_gateway: str = ""
    destination_gateway: str = ""
    symmetrical: bool = True


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the platform with its own routing.

    Attributes
    ----------
    routing
        One of :data:`ROUTINGS`.
    parent
        Name of the zone around this one; empty for the outermost.
    properties
        Every ``<prop>`` of the zone itself, as text.
    routers
        Nodes that only pass traffic, with their place in a Vivaldi zone (ms).
    routes
        Routes between members of this zone.
    bypass_routes
        Routes that replace what the routing would find; never symmetrical.
    host_links
        With routing ``Cluster``: the links from and to each host.
    backbone
        With routing ``Cluster``: the link between the hosts' links; may be empty.
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

    Two platforms are equal when everything but ``source`` is.
    :class:`~qops_batsim.platform.network.Network` answers which links, latency
    and bandwidth lie between two hosts.

    Attributes
    ----------
    compute_hosts
        Hosts that run jobs; the index in this tuple is Batsim's host id
        (lexicographic order of names).
    storage_hosts
        Hosts with role ``storage`` by name; their ids follow the compute hosts'.
    master
        The host of the scheduler, which runs no job; None when there is none.
    links
        The declared links by name; those of clusters follow from ``clusters``.
    zones
        Zones, each directly followed by those inside it; the first is the outermost.
        None at all means hosts without any latency between them.
    clusters
        Clusters, by name; their hosts are among the hosts.
    source
        Where the platform comes from, for messages.
    """

    compute_hosts: tuple[Host, ...]
    storage_hosts: tuple[Host, ...] = ()
    master: Host | None = None
    links: dict[str, Link] = {}
    zones: tuple[Zone, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    source: str = "a platform"

    def hosts(self) -> Iterator[Host]:
        """Yield every host: compute hosts, storage hosts, the master."""
        yield from self.compute_hosts
        yield from self.storage_hosts
        if self.master is not None:
            yield self.master

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
            if name != "source"
        )

    __hash__ = None  # type: ignore[assignment]
