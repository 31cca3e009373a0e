"""Writing SimGrid's platform files, version 4.1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.files import write_text
from qops_batsim.platform.model import Cluster, Coordinates, Host, Link, Platform, Route, Zone
from qops_batsim.platform.units import format_bandwidth, format_speed, format_time

_HEADER = """\
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
"""

_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        # Unescaped, these would be read back as spaces.
        "\t": "&#9;",
        "\n": "&#10;",
        "\r": "&#13;",
    }
)
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_platform(platform: Platform, path: str | Path, *, comment: str = "") -> None:
    """Write a platform as XML that SimGrid accepts, gzip-compressed if named ``.gz``.

    Reading the file gives an equal platform; the same platform always gives the
    same bytes. A platform without zones is written as one zone without
    latencies (routing Vivaldi), and then read as such. The comment stands at the top.
    """
    write_text(path, format_platform(platform, comment=comment))


def format_platform(platform: Platform, *, comment: str = "") -> str:
    """Return the XML that :func:`write_platform` writes."""
    if not platform.zones and not platform.clusters:
        platform = _with_one_zone(platform)
    lines = [_comment(comment)] if comment else []
    lines.append('<platform version="4.1">')
    writer = _Writer(platform)
    for zone in platform.zones:
        if not zone.parent:
            lines += writer.zone(zone, "")
    for cluster in platform.clusters:
        if not cluster.zone:
            lines += _cluster(cluster, "")
    lines.append("</platform>")
    return _HEADER + "\n".join(lines) + "\n"


class _Writer:
    def __init__(self, platform: Platform) -> None:
        self._links = platform.links
        self._hosts: dict[str, list[Host]] = {}
        for host in platform.hosts():
            self._hosts.setdefault(host.zone, []).append(host)
        self._zones: dict[str, list[Zone]] = {}
        for zone in platform.zones:
            self._zones.setdefault(zone.parent, []).append(zone)
        self._clusters: dict[str, list[Cluster]] = {}
        for cluster in platform.clusters:
            self._clusters.setdefault(cluster.zone, []).append(cluster)
        self._declared = self._links_by_zone(platform.zones)

    def _links_by_zone(self, zones: tuple[Zone, ...]) -> dict[str, list[Link]]:
        """Return the links that each zone declares: those that it is the first to use.

        SimGrid's parser wants a link before its first use, and takes a link ahead of
        inner zones for the sign that there are none.
        """
        outermost = next((zone.name for zone in zones if not zone.parent), "")
        owner: dict[str, str] = {zone.backbone: "" for zone in zones if zone.backbone}

        def visit(zone: Zone) -> None:
            for child in self._zones.get(zone.name, ()):
                visit(child)
            links = [link for route in zone.routes for link in route.links]
            links += chain.from_iterable(zone.host_links.values())
            for link in links:
                owner.setdefault(self._declared_name(link)[0], zone.name)

        for zone in zones:
            if not zone.parent:
                visit(zone)
        by_zone: dict[str, list[Link]] = {}
        for link in self._links.values():
            by_zone.setdefault(owner.get(link.name, outermost), []).append(link)
        return by_zone

    def _declared_name(self, name: str) -> tuple[str, str]:
        """Return the name of a link as declared, and the way of a split-duplex link or nothing."""
        base, _, way = name.rpartition("_")
        link = self._links.get(base)
        if link is not None and link.sharing_policy == "SPLITDUPLEX":
            return base, way
        return name, ""

    def zone(self, zone: Zone, indent: str) -> Iterator[str]:
        """Yield a zone's lines, in the order that SimGrid's grammar wants."""
        inner = indent + "  "
        yield f"{indent}{_tag('zone', id=zone.name, routing=zone.routing)}>"
        yield from _properties(zone.properties, inner)
        for child in self._zones.get(zone.name, ()):
            yield from self.zone(child, inner)
        for cluster in self._clusters.get(zone.name, ()):
            yield from _cluster(cluster, inner)
        for link in self._declared.get(zone.name, ()):
            yield from _link(link, inner)
        # The master first, as a reader expects it.
        hosts = sorted(self._hosts.get(zone.name, ()), key=lambda host: host.role != "master")
        for host in hosts:
            yield from _host(host, inner)
        for router, coordinates in zone.routers.items():
            place = {"coordinates": _coordinates(coordinates)} if coordinates else {}
            yield f"{inner}{_tag('router', id=router, **place)}/>"
        for name, (up, down) in zone.host_links.items():
            yield f"{inner}{_tag('host_link', id=name, up=up, down=down)}/>"
        if zone.backbone:
            link = self._links[zone.backbone]
            yield f"{inner}{_tag('backbone', **_link_attributes(link))}/>"
        for route in zone.routes:
            yield from self._route(route, inner)
        yield f"{indent}</zone>"

    def _route(self, route: Route, indent: str) -> Iterator[str]:
        attributes = {"src": route.source, "dst": route.destination}
        name = "route"
        if route.source_gateway:
            name = "zoneRoute"
            attributes["gw_src"] = route.source_gateway
            attributes["gw_dst"] = route.destination_gateway
        if not route.symmetrical:
            attributes["symmetrical"] = "NO"
        links = "".join(self._link_in_route(link) for link in route.links)
        yield f"{indent}{_tag(name, **attributes)}>{links}</{name}>"

    def _link_in_route(self, name: str) -> str:
        declared, way = self._declared_name(name)
        direction = {"direction": way} if way else {}
        return f"{_tag('link_ctn', id=declared, **direction)}/>"


def _cluster(cluster: Cluster, indent: str) -> Iterator[str]:
    attributes = {
        "id": cluster.name,
        "prefix": cluster.prefix,
        "suffix": cluster.suffix,
        "radical": cluster.radical,
        "speed": _speeds(cluster.speeds),
    }
    if cluster.cores != 1:
        attributes["core"] = str(cluster.cores)
    attributes["bw"] = format_bandwidth(cluster.bandwidth)
    attributes["lat"] = format_time(cluster.latency)
    if cluster.sharing_policy != "SPLITDUPLEX":
        attributes["sharing_policy"] = cluster.sharing_policy
    if cluster.backbone_bandwidth:
        attributes["bb_bw"] = format_bandwidth(cluster.backbone_bandwidth)
        attributes["bb_lat"] = format_time(cluster.backbone_latency)
    if cluster.backbone_sharing_policy != "SHARED":
        attributes["bb_sharing_policy"] = cluster.backbone_sharing_policy
    if cluster.loopback_bandwidth:
        attributes["loopback_bw"] = format_bandwidth(cluster.loopback_bandwidth)
        attributes["loopback_lat"] = format_time(cluster.loopback_latency)
    if cluster.limiter_bandwidth:
        attributes["limiter_link"] = format_bandwidth(cluster.limiter_bandwidth)
    if cluster.topology != "FLAT":
        attributes["topology"] = cluster.topology
        attributes["topo_parameters"] = cluster.topology_parameters
    if cluster.router:
        attributes["router_id"] = cluster.router
    yield from _element("cluster", attributes, cluster.properties, indent)


def _host(host: Host, indent: str) -> Iterator[str]:
    attributes = {"id": host.name, "speed": _speeds(host.speeds)}
    if host.cores != 1:
        attributes["core"] = str(host.cores)
    if host.power_state:
        attributes["pstate"] = str(host.power_state)
    if host.coordinates:
        attributes["coordinates"] = _coordinates(host.coordinates)
    yield from _element("host", attributes, host.properties, indent)


def _link(link: Link, indent: str) -> Iterator[str]:
    attributes = _link_attributes(link)
    if link.sharing_policy != "SHARED":
        attributes["sharing_policy"] = link.sharing_policy
    yield from _element("link", attributes, link.properties, indent)


def _link_attributes(link: Link) -> dict[str, str]:
    return {
        "id": link.name,
        "bandwidth": format_bandwidth(link.bandwidth),
        "latency": format_time(link.latency),
    }


def _element(
    name: str, attributes: Mapping[str, str], properties: Mapping[str, str], indent: str
) -> Iterator[str]:
    """Yield an element that holds nothing but properties."""
    if properties:
        yield f"{indent}{_tag(name, **attributes)}>"
        yield from _properties(properties, indent + "  ")
        yield f"{indent}</{name}>"
    else:
        yield f"{indent}{_tag(name, **attributes)}/>"


def _properties(properties: Mapping[str, str], indent: str) -> Iterator[str]:
    for name, value in properties.items():
        yield f"{indent}{_tag('prop', id=name, value=value)}/>"


def _tag(element: str, /, **attributes: str) -> str:
    """Return an opening tag without its end; every attribute value is escaped."""
    texts = []
    for name, value in attributes.items():
        if _NOT_IN_XML.search(value):
            raise InputError(
                f"{element}: {name} is {value!r}; characters that XML can hold are expected"
            )
        texts.append(f' {name}="{value.translate(_ESCAPES)}"')
    return f"<{element}{''.join(texts)}"


def _speeds(speeds: tuple[float, ...]) -> str:
    return ",".join(map(format_speed, speeds))


def _coordinates(coordinates: Coordinates) -> str:
    return " ".join(str(int(x)) if float(x).is_integer() else repr(x) for x in coordinates)


def _comment(text: str) -> str:
    if "--" in text or text.endswith("-"):
        raise InputError(f"comment {text[:60]!r}: '--' cannot stand in an XML comment")
    lines = [line.rstrip() for line in text.strip().split("\n")]
    return "<!--\n" + "\n".join(f"  {line}".rstrip() for line in lines) + "\n-->"


def _with_one_zone(platform: Platform) -> Platform:
    """Put hosts that are in no zone into one where nothing takes time."""

    def placed(host: Host) -> Host:
        return msgspec.structs.replace(host, zone="AS0", coordinates=(0.0, 0.0, 0.0))

    return msgspec.structs.replace(
        platform,
        compute_hosts=tuple(map(placed, platform.compute_hosts)),
        storage_hosts=tuple(map(placed, platform.storage_hosts)),
        master=placed(platform.master) if platform.master else None,
        zones=(Zone(name="AS0", routing="Vivaldi"),),
    )
