"""Putting the parts of a platform together: names, roles, zone properties, host order.

The rules for roles and properties are those of Batsim 4.2.1 with SimGrid 3.34.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.platform.cluster import Cluster
from qops_batsim.platform.model import ROLES, Coordinates, Host, Link, Platform, Route, Zone
from qops_batsim.platform.network import linked_names


class PendingHost(msgspec.Struct, kw_only=True):
    """A host as declared; role and zone properties follow when all is known.

    ``where`` is file, line and element, for messages; the rest is as in
    :class:`~qops_batsim.platform.model.Host`.
    """

    where: str
    name: str
    speeds: tuple[float, ...]
    zone: str
    cores: int = 1
    properties: dict[str, str] = {}
    power_state: int = 0
    coordinates: Coordinates | None = None


class PendingZone(msgspec.Struct, kw_only=True):
    """A zone as declared, without its routes."""

    name: str
    routing: str
    parent: str
    properties: dict[str, str]
    routers: dict[str, Coordinates | None] = {}
    backbone: str = ""


class PendingRoute(msgspec.Struct, kw_only=True):
    """A route as declared, with the name and direction of each link."""

    where: str
    zone: str
    bypass: bool
    between_zones: bool
    source: str
    destination: str
    source_gateway: str
    destination_gateway: str
    symmetrical: bool
    links: list[tuple[str, str]]


class PendingHostLink(msgspec.Struct, kw_only=True):
    """The links from and to a host of a zone with routing Cluster, as declared."""

    where: str
    zone: str
    host: str
    up: str
    down: str


def cluster_hosts(cluster: Cluster, where: str) -> list[PendingHost]:
    """Return the hosts of a cluster, in the order of its radical."""
    return [
        PendingHost(
            where=where,
            name=name,
            speeds=cluster.speeds,
            cores=cluster.cores,
            properties=cluster.properties,
            zone=cluster.name,
        )
        for name in cluster.host_names()
    ]


def assemble(
    hosts: Sequence[PendingHost],
    *,
    zones: Mapping[str, PendingZone],
    clusters: tuple[Cluster, ...] = (),
    links: Mapping[str, Link],
    routes: Iterable[PendingRoute] = (),
    host_links: Iterable[PendingHostLink] = (),
    zone_of: Mapping[str, str],
    master_host: str = "master_host",
    source: str,
) -> Platform:
    """Make a platform of its parts.

    Parameters
    ----------
    hosts
        Every host, those of clusters too, in any order.
    zones
        Zones by name, each after the one around it.
    clusters, links
        In any order.
    routes, host_links
        In any order.
    zone_of
        Zone of every host and router; for zones and clusters themselves, empty.
    master_host
        Name of the host that is the master without saying so.
    source
        For messages.

    Raises
    ------
    InputError
        A route or host link names what does not exist or is not in its zone, a
        role is unknown, there are two masters, or there is no compute host.
    """
    parents = {zone.name: zone.parent for zone in zones.values()}
    parents |= {cluster.name: cluster.zone for cluster in clusters}
    empty = Platform(compute_hosts=(), links=dict(links), clusters=clusters)
    checks = _Checks(zones, parents, zone_of, links, {name for name, _ in linked_names(empty)})
    found: dict[tuple[str, bool], dict[tuple[str, str], Route]] = {}
    for pending in routes:
        table = found.setdefault((pending.zone, pending.bypass), {})
        checks.add_route(pending, table)
    stars: dict[str, dict[str, tuple[str, str]]] = {}
    for star in host_links:
        checks.check_host_link(star, stars.setdefault(star.zone, {}))
        stars[star.zone][star.host] = (star.up, star.down)
    by_role = _by_role(_finished_hosts(hosts, zones, clusters, master_host))
    masters = by_role["master"]
    if len(masters) > 1:
        raise InputError(
            f"{source}: hosts {masters[0].name!r} and {masters[1].name!r} are both master (the "
            f"host named {master_host!r} is without saying so); one is accepted"
        )
    if not by_role["compute_node"]:
        raise InputError(f"{source}: no compute host; at least one is expected")
    return Platform(
        compute_hosts=tuple(by_role["compute_node"]),
        storage_hosts=tuple(by_role["storage"]),
        master=masters[0] if masters else None,
        links=dict(links),
        zones=tuple(
            Zone(
                name=zone.name,
                routing=zone.routing,
                parent=zone.parent,
                properties=zone.properties,
                routers=zone.routers,
                routes=tuple(found.get((zone.name, False), {}).values()),
                bypass_routes=tuple(found.get((zone.name, True), {}).values()),
                host_links=stars.get(zone.name, {}),
                backbone=zone.backbone,
            )
            for zone in zones.values()
        ),
        clusters=tuple(sorted(clusters, key=lambda cluster: cluster.name)),
        source=source,
    )


def _finished_hosts(
    hosts: Sequence[PendingHost],
    zones: Mapping[str, PendingZone],
    clusters: tuple[Cluster, ...],
    master_host: str,
) -> list[Host]:
    inherited: dict[str, dict[str, str]] = {"": {}}
    for zone in zones.values():
        inherited[zone.name] = inherited[zone.parent] | zone.properties
    for cluster in clusters:
        inherited[cluster.name] = inherited[cluster.zone] | cluster.properties
    finished = []
    for host in hosts:
        role = _role(host, master_host)
        if role == "compute_node" and not host.speeds[host.power_state] > 0:
            raise InputError(
                f"{host.where}: speed is 0; more than 0 is expected of a compute host (further "
                "power states may have 0)"
            )
        finished.append(
            Host(
                name=host.name,
                speeds=host.speeds,
                cores=host.cores,
                role=role,
                properties=host.properties,
                zone_properties=inherited[host.zone],
                zone=host.zone,
                power_state=host.power_state,
                coordinates=host.coordinates,
            )
        )
    return finished


def _role(host: PendingHost, master_host: str) -> str:
    """Return the role of a host.

    The text may be a list: Batsim itself adds roles given on its command line
    after a comma. A host can only have one role, though, so all must agree.
    """
    text = host.properties.get("role", "")
    roles = {part.strip() for part in text.split(",")} - {""}
    if not roles <= set(ROLES):
        raise InputError(
            f"{host.where}: property role is {shown(text)}; {', '.join(ROLES)} or nothing is "
            "expected"
        )
    if host.name == master_host:
        roles.add("master")
    if len(roles) > 1:
        reason = f"; host {master_host!r} is the master" if host.name == master_host else ""
        raise InputError(
            f"{host.where}: property role is {shown(text)}{reason}; one role is expected"
        )
    return roles.pop() if roles else "compute_node"


def _by_role(hosts: list[Host]) -> dict[str, list[Host]]:
    by_role: dict[str, list[Host]] = {role: [] for role in ROLES}
    for host in sorted(hosts, key=lambda host: host.name):
        by_role[host.role].append(host)
    return by_role


class _Checks:
    """What routes and host links may name."""

    def __init__(
        self,
        zones: Mapping[str, PendingZone],
        parents: Mapping[str, str],
        zone_of: Mapping[str, str],
        links: Mapping[str, Link],
        usable_links: set[str],
    ) -> None:
        self._zones = zones
        self._parents = parents
        self._zone_of = zone_of
        self._links = links
        self._usable_links = usable_links

    def add_route(self, pending: PendingRoute, table: dict[tuple[str, str], Route]) -> None:
        """Add a route to those of its zone.

        Raises
        ------
        InputError
            The routing takes no such route, it exists already, or one of its
            names is wrong.
        """
        routing = self._zones[pending.zone].routing
        loopback = pending.source == pending.destination and not pending.between_zones
        if not pending.bypass and (
            routing in ("None", "Vivaldi") or (routing == "Cluster" and not loopback)
        ):
            raise InputError(
                f"{pending.where}: zone {pending.zone!r} has routing {routing}, which takes no "
                "such routes; Full, Floyd or Dijkstra is expected"
            )
        if pending.between_zones:
            self._check_gateway(pending, "gw_src", pending.source, pending.source_gateway)
            self._check_gateway(pending, "gw_dst", pending.destination, pending.destination_gateway)
        else:
            for attribute, name in (("src", pending.source), ("dst", pending.destination)):
                if self._zone_of.get(name) != pending.zone:
                    raise InputError(
                        f"{pending.where}: {attribute} is {shown(name)}; a host or router of "
                        f"zone {pending.zone!r} is expected"
                    )
        if not pending.links:
            raise InputError(f"{pending.where}: no link; at least one <link_ctn> is expected")
        back = table.get((pending.destination, pending.source))
        ends = (pending.source, pending.destination)
        if ends in table or (back and (back.symmetrical or pending.symmetrical)):
            raise InputError(
                f'{pending.where}: given twice; routes are symmetrical unless symmetrical="NO"'
            )
        table[ends] = Route(
            source=pending.source,
            destination=pending.destination,
            links=tuple(self._link(pending, *link) for link in pending.links),
            source_gateway=pending.source_gateway,
            destination_gateway=pending.destination_gateway,
            # SimGrid refuses a way back of a node's route to itself with Floyd and Dijkstra.
            symmetrical=pending.symmetrical and pending.source != pending.destination,
        )

    def check_host_link(
        self, pending: PendingHostLink, known: Mapping[str, tuple[str, str]]
    ) -> None:
        """Make sure that the names of a host link exist.

        Raises
        ------
        InputError
            They do not, the zone's routing is another, or the host has one already.
        """
        if self._zones[pending.zone].routing != "Cluster":
            raise InputError(
                f"{pending.where}: zone {pending.zone!r} has routing "
                f"{self._zones[pending.zone].routing}; host links are accepted with Cluster"
            )
        if self._zone_of.get(pending.host) != pending.zone or pending.host in known:
            raise InputError(
                f"{pending.where}: id is {shown(pending.host)}; a host of zone {pending.zone!r} "
                "without a host link so far is expected"
            )
        for attribute, name in (("up", pending.up), ("down", pending.down)):
            if name not in self._usable_links:
                both_ways = " (NAME_UP and NAME_DOWN of a split-duplex link)"
                raise InputError(
                    f"{pending.where}: {attribute} is {shown(name)}; a link of this platform is "
                    f"expected{both_ways if name in self._links else ''}"
                )

    def _check_gateway(
        self, pending: PendingRoute, attribute: str, zone: str, gateway: str
    ) -> None:
        """Check one end of a route between zones: a zone, and a node somewhere inside it."""
        outer = self._parents.get(zone, "")
        while pending.bypass and outer and outer != pending.zone:
            outer = self._parents[outer]
        if outer != pending.zone:
            raise InputError(
                f"{pending.where}: {attribute.removeprefix('gw_')} is {shown(zone)}; a zone or "
                f"cluster inside zone {pending.zone!r} is expected"
            )
        inside = self._zone_of.get(gateway, "")
        while inside and inside != zone:
            inside = self._parents[inside]
        if not inside:
            raise InputError(
                f"{pending.where}: {attribute} is {shown(gateway)}; a host or router of zone "
                f"{zone!r} is expected"
            )

    def _link(self, pending: PendingRoute, name: str, direction: str) -> str:
        link = self._links.get(name)
        duplex = link is not None and link.sharing_policy == "SPLITDUPLEX"
        if duplex != (direction != "NONE"):
            accepted = "UP or DOWN" if duplex else "NONE or nothing"
            raise InputError(
                f"{pending.where}: <link_ctn id={shown(name)}>: direction is '{direction}'; "
                f"{accepted} is expected, since the link "
                + ("is split-duplex" if duplex else "is no split-duplex link of this platform")
            )
        full_name = f"{name}_{direction}" if duplex else name
        if link is None and full_name not in self._usable_links:
            raise InputError(
                f"{pending.where}: <link_ctn id={shown(name)}>; a link of this platform is expected"
            )
        return full_name
