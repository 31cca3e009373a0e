"""Routes: the links, latency and bandwidth between two hosts of a platform.

Routes are found as SimGrid does: inside a zone by the zone's routing, between
zones through the gateways of the route between them, one level after the other.
A pair without a route is an error here; SimGrid lets the first half of such a
way pass as if it took no time. Only where a Full zone names no route between a member and the
gateway through which its way leaves or enters, it takes none here either. Nothing is computed
before it is asked for, and no route is kept.
"""

from __future__ import annotations

import heapq
import math
from contextlib import suppress

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.platform.platform_model import Cluster, Coordinates, Link, Platform, Route, Zone

LOOPBACK = Link(name="__loopback__", bandwidth=10e9, latency=0.0, sharing_policy="FATPIPE")
"""A host's link to itself where the platform names none, as in SimGrid's models."""


_LINKLESS = ("Vivaldi", "Cluster")
"""Routings under which a host may have no link."""


class NetworkPath(msgspec.Struct, frozen=True):
    """The path from one host to another: its links, latency and bandwidth.

    ``links`` is empty where the platform has none (Vivaldi zones); ``latency`` is the sum of
    the links' latencies plus the distance in Vivaldi zones (s).
    """

    links: tuple[Link, ...]
    latency: float

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the narrowest link (bytes/s); infinite without links."""
        return min((link.bandwidth for link in self.links), default=math.inf)


class _Segment(msgspec.Struct):
    """A path between two members of one zone: link names, latency (seconds), gateways at its ends.

    The latency is that of all links if ``complete``, else only what comes on top of the links.
    """

    links: list[str]
    source_gateway: str = ""
    destination_gateway: str = ""
    latency: float = 0.0
    complete: bool = False


class Network:
    """Finds the paths between the hosts of a platform as SimGrid does.

    ``Network(platform).path("host0", "host1")`` gives links, latency (s) and
    bandwidth (bytes/s). Making it costs O(hosts + links + routes). A path costs
    O(zones passed + links) where the routing is Full, Cluster, None or Vivaldi,
    and O(routes of the zone · log) with Floyd and Dijkstra.

    The values are the platform's own: the correction factors of SimGrid's
    TCP models are not applied, as Batsim's parallel-task model has none.

    >>> from qops_batsim.platform.equal_hosts import make_cluster
    >>> way = Network(make_cluster(4, bandwidth=1e9, latency=1e-5)).path("host0", "host3")
    >>> [link.name for link in way.links], way.latency, way.bandwidth
    (['link_host0_UP', 'link_host3_DOWN'], 2e-05, 1000000000.0)
    """

    def __init__(self, platform: Platform) -> None:
        self._source = platform.source
        self._clusters = {cluster.name: cluster for cluster in platform.clusters}
        self._zones = {zone.name: zone for zone in platform.zones}
        self._parents = platform.parents()

        # Hosts and routers alike are ends of routes, and gateways.
        self._zone_of = {host.name: host.zone for host in platform.hosts()}
        self._coordinates: dict[str, Coordinates | None] = {
            host.name: host.coordinates for host in platform.hosts() if host.coordinates
        }
        for zone in platform.zones:
            for router, coordinates in zone.routers.items():
                self._zone_of[router] = zone.name
                self._coordinates[router] = coordinates
        for cluster in platform.clusters:
            self._zone_of[cluster.router_name] = cluster.name

        self._links = linked_names(platform)
        duplex = {
            link.name for link in platform.links.values() if link.sharing_policy == "SPLITDUPLEX"
        }
        self._tables = {zone.name: _table(zone.routes, duplex) for zone in platform.zones}

    def path(self, source: str, destination: str, *, message: bool = False) -> NetworkPath:
        """Return the path between two hosts or routers, by name.

        The path of a ``message`` (one of Batsim's own, not a job's traffic) has no links where a
        Full zone names no route: Batsim lets it pass at once.
        """
        for name in (source, destination):
            if name not in self._zone_of:
                raise InputError(
                    f"{self._source}: {name!r} is not a host or router of this platform"
                )
        names: list[str] = []
        latency = self._walk(source, destination, names, 0.0, to_gateway=message)
        return NetworkPath(tuple(self._link(name) for name in names), latency)

    def _walk(
        self,
        source: str,
        destination: str,
        names: list[str],
        latency: float,
        *,
        to_gateway: bool = False,
    ) -> float:
        """Append the names of the links between two hosts or routers to ``names``; return
        ``latency`` plus that of the way (seconds).

        One of them may be the gateway of a longer way. The latency is summed in SimGrid's order, to
        the last bit: the route between two zones comes before the ways to its gateways.
        """
        outer = self._ancestors(source)
        other = self._ancestors(destination)
        depth = 0
        while depth < min(len(outer), len(other)) and outer[depth] == other[depth]:
            depth += 1
        common = outer[depth - 1] if depth else ""

        if len(outer) == len(other) == depth:
            step = self._local(common, source, destination, to_gateway=to_gateway)
        elif depth and depth < min(len(outer), len(other)):
            step = self._local(common, outer[depth], other[depth])
            if not (step.source_gateway and step.destination_gateway):
                raise self._no_route(common, source, destination)
        else:
            raise self._no_route(common, source, destination)

        for name in [] if step.complete else step.links:
            latency += self._link(name).latency
        latency += step.latency

        if step.source_gateway and step.source_gateway != source:
            latency = self._walk(source, step.source_gateway, names, latency, to_gateway=True)
        names += step.links

        if step.destination_gateway and step.destination_gateway != destination:
            entered = step.destination_gateway
            latency = self._walk(entered, destination, names, latency, to_gateway=True)
        return latency

    def _ancestors(self, node: str) -> list[str]:
        """Return the names of the zones around a host or router, the outermost first."""
        chain = []
        zone = self._zone_of[node]
        while zone:
            chain.append(zone)
            zone = self._parents.get(zone, "")
        return chain[::-1]

    def _local(
        self, zone_name: str, source: str, destination: str, *, to_gateway: bool = False
    ) -> _Segment:
        """Return the path between two members of a zone: hosts and routers, or zones inside it."""
        if zone_name in self._clusters:
            return _Segment(_cluster_links(self._clusters[zone_name], source, destination))
        zone = self._zones.get(zone_name)
        if zone is None:
            return _Segment([])  # A platform without zones: no latency between hosts.

        if zone.routing == "None":
            raise self._no_route(zone_name, source, destination)
        if zone.routing == "Vivaldi":
            return _Segment([], latency=self._distance(source, destination))

        direct = self._tables[zone_name].get((source, destination))
        if direct is None and source == destination and zone.routing != "Cluster":
            return _Segment([LOOPBACK.name])
        if zone.routing == "Cluster":
            return direct or _Segment(_star_links(zone, source, destination))
        if zone.routing == "Full" or (direct and source == destination):
            if direct is None and not to_gateway:
                raise self._no_route(zone_name, source, destination)
            return direct or _Segment([])
        return self._shortest(zone_name, source, destination)

    def _distance(self, source: str, destination: str) -> float:
        """Return the latency (seconds) between two nodes of a Vivaldi zone: their distance in the
        plane plus both heights.
        """
        ends = [self._coordinates.get(name) or (0.0, 0.0, 0.0) for name in (source, destination)]
        (x, y, height), (x2, y2, height2) = ends
        return (math.hypot(x - x2, y - y2) + abs(height) + abs(height2)) / 1000.0

    def _shortest(self, zone_name: str, source: str, destination: str) -> _Segment:
        """Return the path with the fewest links between two members of a zone, joined from its
        declared routes; ties by name.
        """
        neighbours: dict[str, list[tuple[str, _Segment]]] = {}
        for (start, end), step in self._tables[zone_name].items():
            neighbours.setdefault(start, []).append((end, step))

        # Dijkstra's search; the heap breaks ties by name.
        reached: dict[str, tuple[str, _Segment]] = {}
        best = {source: 0}
        queue = [(0, source)]
        while queue:
            cost, node = heapq.heappop(queue)
            if node == destination:
                break
            if cost > best[node]:
                continue
            for end, step in neighbours.get(node, ()):
                total = cost + len(step.links)
                if total < best.get(end, total + 1):
                    best[end] = total
                    reached[end] = (node, step)
                    heapq.heappush(queue, (total, end))
        if destination not in reached:
            raise self._no_route(zone_name, source, destination)

        steps = []
        node = destination
        while node != source:
            node, step = reached[node]
            steps.append(step)
        steps.reverse()

        # Where a route ends at another gateway than the next begins at, there is a way between.
        links: list[str] = []
        latency = 0.0
        entered = ""
        for step in steps:
            if entered and entered != step.source_gateway:
                latency = self._walk(entered, step.source_gateway, links, latency)
            links += step.links
            for name in step.links:
                latency += self._link(name).latency
            entered = step.destination_gateway
        return _Segment(links, steps[0].source_gateway, entered, latency, complete=True)

    def _link(self, name: str) -> Link:
        link = self._links.get(name)
        if link is not None:
            return link

        # What is left are the links of a cluster's hosts, which exist by their name only.
        owner, _, rest = name.rpartition("_link_")
        cluster = self._clusters.get(owner)
        if cluster is None:
            raise InputError(
                f"{self._source}: a route uses link {name!r}, which is not in the platform"
            )
        if rest.endswith("_limiter"):
            return Link(name=name, bandwidth=cluster.limiter_bandwidth)
        if rest.endswith("_loopback"):
            return Link(
                name=name,
                bandwidth=cluster.loopback_bandwidth,
                latency=cluster.loopback_latency,
                sharing_policy="FATPIPE",
            )
        # SimGrid shares them even where the cluster says FATPIPE.
        return Link(name=name, bandwidth=cluster.bandwidth, latency=cluster.latency)

    def _no_route(self, zone: str, source: str, destination: str) -> InputError:
        place = f" in zone {zone!r}" if zone else ""
        routing = f" (routing {self._zones[zone].routing})" if zone in self._zones else ""
        return InputError(
            f"{self._source}: no route from {source!r} to {destination!r}{place}{routing}"
        )


def longest_round_trip(platform: Platform) -> float:
    """Return the longest round trip of a message from the master to a host (seconds).

    0 without a master or latencies. O(hosts · path), one host of each cluster.
    """
    if platform.master is None or not platform.has_latencies:
        return 0.0
    master = platform.master.name
    clusters = {cluster.name for cluster in platform.clusters}
    # The hosts of a cluster are equally far away.
    names = {
        host.zone if host.zone in clusters else host.name: host.name
        for host in platform.compute_hosts
    }

    network = Network(platform)
    longest = 0.0
    for name in {master, *names.values()}:
        # SimGrid lets messages pass at once where there is no route.
        with suppress(InputError):
            there = network.path(master, name).latency
            longest = max(longest, there + network.path(name, master).latency)
    return longest


def unlinked_hosts(platform: Platform) -> tuple[str, str] | None:
    """Return the names of two compute hosts of a zone without a link between them, or None."""
    linked = {zone.name: zone.host_links for zone in platform.zones if zone.routing in _LINKLESS}
    bare: dict[str, str] = {}
    for host in platform.compute_hosts:
        if host.name not in linked.get(host.zone, (host.name,)):
            other = bare.setdefault(host.zone, host.name)
            if other != host.name and not Network(platform).path(other, host.name).links:
                return other, host.name
    return None


def linked_names(platform: Platform) -> dict[str, Link]:
    """Return the links that routes may use, by name; each direction of a split-duplex link has its
    own name.

    The links of clusters' hosts are left out, their backbones are in.
    """
    links = [LOOPBACK]
    for link in platform.links.values():
        if link.sharing_policy == "SPLITDUPLEX":
            one_way = msgspec.structs.replace(link, sharing_policy="SHARED")
            names = (f"{link.name}_UP", f"{link.name}_DOWN")
            links += (msgspec.structs.replace(one_way, name=name) for name in names)
        else:
            links.append(link)

    links += (
        Link(
            name=f"{cluster.name}_backbone",
            bandwidth=cluster.backbone_bandwidth,
            latency=cluster.backbone_latency,
            sharing_policy=cluster.backbone_sharing_policy,
        )
        for cluster in platform.clusters
        if cluster.backbone_bandwidth
    )
    return {link.name: link for link in links}


def _table(routes: tuple[Route, ...], duplex: set[str]) -> dict[tuple[str, str], _Segment]:
    """Return the paths of a zone's routes by their ends (source, destination); symmetrical routes
    in both directions.
    """

    def other_way(name: str) -> str:
        base, _, way = name.rpartition("_")
        return f"{base}_{'DOWN' if way == 'UP' else 'UP'}" if base in duplex else name

    table = {}
    for route in routes:
        left, entered = route.source_gateway, route.destination_gateway
        table[route.source, route.destination] = _Segment([*route.links], left, entered)
        if route.symmetrical and route.source != route.destination:
            back = [*map(other_way, reversed(route.links))]
            table[route.destination, route.source] = _Segment(back, entered, left)
    return table


def _cluster_links(cluster: Cluster, source: str, destination: str) -> list[str]:
    if source == destination != cluster.router_name and cluster.loopback_bandwidth:
        return [f"{cluster.link_name(source)}_loopback"]

    def between(node: str, way: str) -> list[str]:
        """Return the links between a host and the middle of the cluster, from the host inwards."""
        if node == cluster.router_name:
            return []
        link = cluster.link_name(node)
        limiter = [f"{link}_limiter"] if cluster.limiter_bandwidth else []
        backbone = [f"{cluster.name}_backbone"] if cluster.backbone_bandwidth else []
        return [*limiter, link + way * (cluster.sharing_policy == "SPLITDUPLEX"), *backbone]

    # What both ways share, the backbone, is passed once.
    return list(dict.fromkeys([*between(source, "_UP"), *between(destination, "_DOWN")[::-1]]))


def _star_links(zone: Zone, source: str, destination: str) -> list[str]:
    backbone = [zone.backbone] if zone.backbone else []
    up = zone.host_links.get(source)
    down = zone.host_links.get(destination)
    outwards = [up[0], *backbone] if up else []
    inwards = [*backbone, down[1]] if down else []
    return list(dict.fromkeys(outwards + inwards))
