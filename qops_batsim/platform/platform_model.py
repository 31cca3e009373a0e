"""Hosts, links, clusters, zones, platforms and outages, independent of any file format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import groupby

import msgspec

from qops_batsim.core.host_properties import OF_LICENCE, machine_of
from qops_batsim.core.machine import Machine
from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_HOSTS

RADICAL_FORM = "whole numbers and ascending ranges separated by commas, as in 0-31,40"


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Equal hosts, each with its own link, around an optional backbone.

    A route goes up the source's link, over the backbone and down the
    destination's link. The links are never materialised: their names follow from
    the host's number *n* (``NAME_link_n``), as in SimGrid.

    Speeds are of one core in each power state (flop/s), bandwidths in bytes/s, latencies in
    seconds. Host *n* of the ``radical`` (such as ``0-31,40``) is named prefix + n + suffix; all
    hosts, and the cluster as a zone, have the ``properties``. ``SPLITDUPLEX`` is one link each way.
    A backbone, a loopback link and a limiter (a further link that all traffic of a host shares)
    exist if their bandwidth is not 0. Routes of outer zones enter at the ``router``; ``zone`` is
    the one around, empty for none.
    """

    name: str
    prefix: str
    suffix: str
    radical: str
    speeds: tuple[float, ...]
    bandwidth: float
    latency: float
    cores: int = 1
    sharing_policy: str = "SPLITDUPLEX"
    backbone_bandwidth: float = 0.0
    backbone_latency: float = 0.0
    backbone_sharing_policy: str = "SHARED"
    loopback_bandwidth: float = 0.0
    loopback_latency: float = 0.0
    limiter_bandwidth: float = 0.0
    router: str = ""
    properties: dict[str, str] = {}
    zone: str = ""

    @property
    def router_name(self) -> str:
        """Name of the router: as given, or SimGrid's default."""
        return self.router or f"{self.prefix}{self.name}_router{self.suffix}"

    @property
    def has_latencies(self) -> bool:
        """Whether any link of the cluster has a latency."""
        return bool(self.latency or self.backbone_latency or self.loopback_latency)

    def host_names(self) -> list[str]:
        """Return the names of the hosts, in the order of the radical (host numbers)."""
        return [
            f"{self.prefix}{number}{self.suffix}"
            for first, last in parse_radical(self.radical, where=f"cluster {self.name!r}: radical")
            for number in range(first, last + 1)
        ]

    def link_name(self, host: str) -> str:
        number = host.removeprefix(self.prefix)
        return f"{self.name}_link_{number[: len(number) - len(self.suffix)]}"


def parse_radical(
    text: str, *, where: str, max_hosts: int = MAX_HOSTS
) -> tuple[tuple[int, int], ...]:
    """Read the numbers of a cluster's hosts as ranges, each with first and last included.

    As in SimGrid, leading zeros have no meaning (``00-31`` is ``0-31``).
    """
    ranges: list[tuple[int, int]] = []
    count = 0

    for part in text.split(","):
        first, hyphen, last = (piece.strip() for piece in part.partition("-"))
        if not (_is_number(first) and (_is_number(last) if hyphen else True)):
            raise InputError(f"{where} is {shown(text)}; {RADICAL_FORM} are expected")
        low = int(first)
        high = int(last or first)
        if high < low:
            raise InputError(
                f"{where} is {shown(text)}: {part.strip()!r} ends before it starts; "
                f"{RADICAL_FORM} are expected"
            )
        count += high - low + 1
        if count > max_hosts:
            raise InputError(
                f"{where} is {shown(text)}: {count} hosts; at most {max_hosts} are accepted"
            )
        ranges.append((low, high))
    return tuple(ranges)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10


ROLES = ("compute_node", "master", "storage")
"""Roles a host may have, as Batsim names them."""

ROUTINGS = ("Full", "None", "Vivaldi", "Cluster", "Floyd", "Dijkstra", "DijkstraCache")
"""Routings: rules for the links between two members of a zone, as SimGrid names them."""

SHARING_POLICIES = ("SHARED", "FATPIPE", "SPLITDUPLEX")
"""Rules by which the flows over a link share its bandwidth."""

Coordinates = tuple[float, float, float]
"""Place of a host in a Vivaldi zone (milliseconds of latency)."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A host (machine) of a platform, with its speeds, cores, role and properties.

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
        """Speed of one core in the initial power state (flop/s)."""
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
    """The links between two hosts or routers of a zone, or between two of its subzones.

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
    ``routers`` are nodes that only pass traffic, with their place in a Vivaldi zone (ms). With
    routing ``Cluster``, there are links from and to each host, and maybe a backbone link between
    these.
    """

    name: str
    routing: str
    parent: str = ""
    properties: dict[str, str] = {}
    routers: dict[str, Coordinates | None] = {}
    routes: tuple[Route, ...] = ()
    host_links: dict[str, tuple[str, str]] = {}
    backbone: str = ""


class Platform(msgspec.Struct, frozen=True, kw_only=True, dict=True):
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

    def parents(self) -> dict[str, str]:
        """Return the zone around each zone and cluster, by name; empty for the outermost one."""
        parents = {zone.name: zone.parent for zone in self.zones}
        return parents | {cluster.name: cluster.zone for cluster in self.clusters}

    def numbered_by_value(self) -> Platform:
        """Return the platform with hosts in Batsim 5's order (``host2`` before ``host10``).

        By that their ids are other ones; nothing else is.
        """

        def in_order(hosts: tuple[Host, ...]) -> tuple[Host, ...]:
            return tuple(sorted(hosts, key=lambda host: _by_value(host.name)))

        compute = in_order(self.compute_hosts)
        storage = in_order(self.storage_hosts)
        return msgspec.structs.replace(self, compute_hosts=compute, storage_hosts=storage)

    @cached_property
    def machine(self) -> Machine | None:
        """What compute hosts have for jobs that share them, by id; None if that is not told.

        InputError naming host and property if properties of hosts say what cannot be.
        """
        hosts = self.compute_hosts
        return machine_of([host.properties for host in hosts], [host.name for host in hosts])

    def shared_machine(self) -> Machine:
        """Return what compute hosts have for jobs that share them; InputError if that is not
        told.
        """
        if self.machine is None:
            raise InputError(
                f"no host of {self.source} has amounts that jobs share; hosts with properties "
                "cores, gpus or kind:NAME are expected (`qops-batsim platform cluster --help` says "
                "how to make such)"
            )
        return self.machine

    @cached_property
    def has_latencies(self) -> bool:
        """Whether any link, cluster or Vivaldi host has a latency."""
        nodes = [host.coordinates for host in self.hosts()]
        nodes += [place for zone in self.zones for place in zone.routers.values()]
        return (
            any(link.latency for link in self.links.values())
            or any(cluster.has_latencies for cluster in self.clusters)
            or any(any(place) for place in nodes if place is not None)
        )

    @property
    def delays_messages(self) -> bool:
        """Whether messages may take time, because links have latencies or limited bandwidths."""
        return self.has_latencies or bool(self.links or self.clusters)

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


def _by_value(name: str) -> tuple[list[str | int], str]:
    """Return a sort key that compares the numbers in names by value."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts (as ``"0-3 5"``) that are unavailable between two dates (seconds).

    ``to`` is None where they never return.
    """

    hosts: str
    since: float
    to: float | None = None

    @property
    def until(self) -> float:
        """Date at which the hosts return (seconds), infinite if they never do."""
        return math.inf if self.to is None else self.to


class Maintenance(Outage, frozen=True, kw_only=True):
    """An outage that is announced at an earlier date (seconds)."""

    announced: float = 0.0


class HostGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts with consecutive ids that are equal but for their names; the group of the master has no
    ids.
    """

    first_id: int | None
    last_id: int | None
    hosts: tuple[Host, ...]


def host_groups(platform: Platform) -> list[HostGroup]:
    """Return the platform's hosts in groups of equal ones, in the order compute, storage, master.
    O(hosts).

    Licences, which are the machine's, make no difference.

    >>> from qops_batsim.platform.equal_hosts import make_cluster
    >>> [(group.first_id, group.last_id) for group in host_groups(make_cluster(9))]
    [(0, 8), (None, None)]
    """

    def kind_of(host: Host) -> Host:
        properties = {
            name: text for name, text in host.properties.items() if not name.startswith(OF_LICENCE)
        }
        return msgspec.structs.replace(host, name="", coordinates=None, properties=properties)

    groups = []
    first = 0
    for kind, alike in groupby(platform.hosts(), kind_of):
        hosts = tuple(alike)
        last = first + len(hosts) - 1
        ids = (None, None) if kind.role == "master" else (first, last)
        groups.append(HostGroup(first_id=ids[0], last_id=ids[1], hosts=hosts))
        first = last + 1
    return groups
