"""Assembling the parts of a platform: names, roles, zone properties, host order.

The rules for roles and properties are those of Batsim 4.2.1 with SimGrid 3.34. Whatever
does not fit together is an InputError that says where it was declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from qops_batsim.core.host_properties import read_hosts
from qops_batsim.errors import InputError, shown
from qops_batsim.platform.network import linked_names
from qops_batsim.platform.platform_model import ROLES, Cluster, Host, Link, Platform, Route, Zone


class PendingRoute(msgspec.Struct, kw_only=True):
    """A route as declared in a zone, its links given by name and direction."""

    where: str
    zone: str
    route: Route
    links: list[tuple[str, str]]
    between_zones: bool = False


class PendingHostLink(msgspec.Struct, kw_only=True):
    """The up and down links declared for a host in a zone with routing Cluster."""

    where: str
    zone: str
    host: str
    up: str
    down: str


class PlatformParts:
    """Collects the parts of a platform as they are declared; :meth:`platform` checks and assembles
    them.

    ``hosts`` are pairs of the place of the declaration (for messages) and the host, ``zone_of`` is
    the zone of each name (empty for zones and clusters); zones come after the one around them.
    """

    def __init__(self, source: str, master_host: str = "master_host") -> None:
        self.hosts: list[tuple[object, Host]] = []
        self.zones: dict[str, Zone] = {}
        self.clusters: list[Cluster] = []
        self.links: dict[str, Link] = {}
        self.routes: list[PendingRoute] = []
        self.host_links: list[PendingHostLink] = []
        self.zone_of: dict[str, str] = {}
        self._source = source
        self._master_host = master_host

    def claim(self, name: str, zone: str, where: object) -> str:
        """Register the name of a host, router, zone or cluster, and return it; InputError if it is
        in use. ``zone`` is empty for zones and clusters.
        """
        if name in self.zone_of:
            raise InputError(
                f"{where}: the name {shown(name)} is given twice; hosts, routers, zones and "
                "clusters need different names"
            )
        self.zone_of[name] = zone
        return name

    def add_link(self, link: Link, where: str) -> None:
        if link.name in self.links:
            raise InputError(f"{where}: link {shown(link.name)} is given twice")
        self.links[link.name] = link

    def add_cluster(self, cluster: Cluster, where: str) -> None:
        """Add a cluster with its router and hosts, in the order of its radical (host numbers)."""
        self.claim(cluster.name, "", where)
        self.clusters.append(cluster)
        for name in cluster.host_names():
            host = Host(
                name=self.claim(name, cluster.name, where),
                speeds=cluster.speeds,
                cores=cluster.cores,
                properties=cluster.properties,
                zone=cluster.name,
            )
            self.hosts.append((where, host))
        self.claim(cluster.router_name, cluster.name, where)

    def platform(self) -> Platform:
        routes: dict[str, dict[tuple[str, str], Route]] = {}
        for pending in self.routes:
            self._add_route(pending, routes.setdefault(pending.zone, {}))
        stars: dict[str, dict[str, tuple[str, str]]] = {}
        for star in self.host_links:
            self._check_host_link(star, stars.setdefault(star.zone, {}))
            stars[star.zone][star.host] = (star.up, star.down)

        by_role = self._hosts_by_role()
        masters = by_role["master"]
        return Platform(
            compute_hosts=tuple(by_role["compute_node"]),
            storage_hosts=tuple(by_role["storage"]),
            master=masters[0] if masters else None,
            links=self.links,
            zones=tuple(
                msgspec.structs.replace(
                    zone,
                    routes=tuple(routes.get(zone.name, {}).values()),
                    host_links=stars.get(zone.name, {}),
                )
                for zone in self.zones.values()
            ),
            clusters=tuple(sorted(self.clusters, key=lambda cluster: cluster.name)),
            source=self._source,
        )

    @cached_property
    def _network(self) -> Platform:
        """The platform without hosts and routes."""
        return Platform(
            compute_hosts=(),
            links=self.links,
            zones=tuple(self.zones.values()),
            clusters=tuple(self.clusters),
        )

    @cached_property
    def _parents(self) -> dict[str, str]:
        return self._network.parents()

    @cached_property
    def _usable_links(self) -> set[str]:
        """Names of the links that routes may use: all except those of clusters' hosts."""
        return set(linked_names(self._network))

    def _hosts_by_role(self) -> dict[str, list[Host]]:
        inherited: dict[str, dict[str, str]] = {"": {}}
        for zone in self.zones.values():
            inherited[zone.name] = inherited[zone.parent] | zone.properties
        for cluster in self.clusters:
            inherited[cluster.name] = inherited[cluster.zone] | cluster.properties

        by_role: dict[str, list[Host]] = {role: [] for role in ROLES}
        places: list[object] = []
        for where, host in self.hosts:
            role = _role(host, self._master_host, where)
            if role == "compute_node" and not host.speeds[host.power_state] > 0:
                raise InputError(
                    f"{where}: speed is 0; more than 0 is expected of a compute host (further "
                    "power states may have 0)"
                )
            finished = msgspec.structs.replace(
                host, role=role, zone_properties=inherited[host.zone]
            )
            by_role[role].append(finished)
            if role == "compute_node":
                places.append(where)
        read_hosts([host.properties for host in by_role["compute_node"]], places)
        for hosts in by_role.values():
            hosts.sort(key=lambda host: host.name)

        masters = by_role["master"]
        if len(masters) > 1:
            raise InputError(
                f"{self._source}: hosts {masters[0].name!r} and {masters[1].name!r} are both "
                f"master (the host named {self._master_host!r} is it without a property role); "
                "one master is accepted"
            )
        if not by_role["compute_node"]:
            raise InputError(f"{self._source}: no compute host; at least one is expected")
        return by_role

    def _add_route(self, pending: PendingRoute, table: dict[tuple[str, str], Route]) -> None:
        """Check the names of a declared route and the routing of its zone, then add it to
        ``table``, the zone's routes by their ends.
        """
        route = pending.route
        where = pending.where
        source = route.source
        destination = route.destination
        routing = self.zones[pending.zone].routing
        loopback = source == destination and not pending.between_zones
        if routing in ("None", "Vivaldi") or (routing == "Cluster" and not loopback):
            raise InputError(
                f"{where}: zone {pending.zone!r} has routing {routing}, which takes no "
                "such routes; Full, Floyd or Dijkstra is expected"
            )

        if pending.between_zones:
            self._check_gateway(pending, "gw_src", source, route.source_gateway)
            self._check_gateway(pending, "gw_dst", destination, route.destination_gateway)
        else:
            for attribute, name in (("src", source), ("dst", destination)):
                if self.zone_of.get(name) != pending.zone:
                    raise InputError(
                        f"{where}: {attribute} is {shown(name)}; a host or router of "
                        f"zone {pending.zone!r} is expected"
                    )

        if not pending.links:
            raise InputError(f"{where}: no link; at least one <link_ctn> is expected")
        back = table.get((destination, source))
        if (source, destination) in table or (back and (back.symmetrical or route.symmetrical)):
            raise InputError(
                f'{where}: given twice; routes are symmetrical unless symmetrical="NO"'
            )
        table[source, destination] = msgspec.structs.replace(
            route,
            links=tuple(self._link(pending, *link) for link in pending.links),
            # SimGrid refuses a way back of a node's route to itself with Floyd and Dijkstra.
            symmetrical=route.symmetrical and source != destination,
        )

    def _check_host_link(
        self, pending: PendingHostLink, known: Mapping[str, tuple[str, str]]
    ) -> None:
        routing = self.zones[pending.zone].routing
        if routing != "Cluster":
            raise InputError(
                f"{pending.where}: zone {pending.zone!r} has routing {routing}; host links are "
                "accepted with Cluster"
            )

        if self.zone_of.get(pending.host) != pending.zone or pending.host in known:
            raise InputError(
                f"{pending.where}: id is {shown(pending.host)}; a host of zone {pending.zone!r} "
                "without a host link so far is expected"
            )

        for attribute, name in (("up", pending.up), ("down", pending.down)):
            if name not in self._usable_links:
                both_ways = " (NAME_UP and NAME_DOWN of a split-duplex link)"
                raise InputError(
                    f"{pending.where}: {attribute} is {shown(name)}; a link of this platform is "
                    f"expected{both_ways if name in self.links else ''}"
                )

    def _check_gateway(
        self, pending: PendingRoute, attribute: str, zone: str, gateway: str
    ) -> None:
        """Check one end of a route between zones: ``zone`` lies in the route's zone, and the host
        or router ``gateway`` inside ``zone``.
        """
        if self._parents.get(zone, "") != pending.zone:
            raise InputError(
                f"{pending.where}: {attribute.removeprefix('gw_')} is {shown(zone)}; a zone or "
                f"cluster inside zone {pending.zone!r} is expected"
            )

        inside = self.zone_of.get(gateway, "")
        while inside and inside != zone:
            inside = self._parents[inside]
        if not inside:
            raise InputError(
                f"{pending.where}: {attribute} is {shown(gateway)}; a host or router of zone "
                f"{zone!r} is expected"
            )

    def _link(self, pending: PendingRoute, name: str, direction: str) -> str:
        link = self.links.get(name)
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


def _role(host: Host, master_host: str, where: object) -> str:
    """Return the role of a host: by its property ``role``, or ``master`` by its name, else
    ``compute_node``.

    Batsim adds ``master`` to the property of the host of that name, and ends at a text that is not
    one role.
    """
    text = host.properties.get("role", "")
    if host.name == master_host:
        if text:
            raise InputError(
                f"{where}: property role is {shown(text)}; none is expected, as Batsim adds the "
                f"role master to host {master_host!r}, and ends if a host has two roles, or one "
                "twice"
            )
        return "master"

    if text and text not in ROLES:
        accepted = "one role" if "," in text else f"{', '.join(ROLES)} or nothing"
        raise InputError(f"{where}: property role is {shown(text)}; {accepted} is expected")
    return text or "compute_node"
