"""Writing SimGrid's platform files, version 4.1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.files import write_text
from qops_batsim.platform.platform_model import (
    Cluster,
    Coordinates,
    Host,
    Link,
    Platform,
    Route,
    Zone,
)
from qops_batsim.quantities import BANDWIDTH, SPEED, TIME

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

    Reading the file gives an equal platform; the same platform always gives the same bytes.

    Parameters
    ----------
    platform
        Without zones, it is written (and then read) as one zone without latencies, of routing
        Vivaldi.
    path
        The file to write.
    comment
        Text at the top of the file.
    """
    write_text(path, format_platform(platform, comment=comment))


def format_platform(platform: Platform, *, comment: str = "") -> str:
    """Return the XML that :func:`write_platform` writes."""
    if not platform.zones and not platform.clusters:
        platform = _with_one_zone(platform)
    inner = _Writer(platform).inside("")
    lines = [_comment(comment)] if comment else []
    lines += _lines(Element("platform", {"version": "4.1"}, inner), "")
    return _HEADER + "\n".join(lines) + "\n"


class Element(NamedTuple):
    """An XML element: attributes (those that are None are omitted) and children."""

    name: str
    attributes: Mapping[str, str | None]
    inner: Sequence[Element] = ()


_IN_A_LINE, _OPEN = ("route", "zoneRoute"), ("platform", "zone")
"""Elements that are written in a line with what they hold, and those that never end at once."""


def _lines(element: Element, indent: str) -> Iterator[str]:
    """Yield an XML element and its children as indented lines."""
    name = element.name
    begin = f"{indent}<{name}"
    for attribute, value in element.attributes.items():
        if value is None:
            continue
        if _NOT_IN_XML.search(value):
            raise InputError(
                f"{name}: {attribute} is {value!r}; characters that XML can hold are expected"
            )
        begin += f' {attribute}="{value.translate(_ESCAPES)}"'

    if not element.inner and name not in (*_IN_A_LINE, *_OPEN):
        yield f"{begin}/>"
        return

    deeper = "" if name in ("platform", *_IN_A_LINE) else f"{indent}  "
    inner = [line for child in element.inner for line in _lines(child, deeper)]
    if name in _IN_A_LINE:
        yield f"{begin}>{''.join(inner)}</{name}>"
    else:
        yield from (f"{begin}>", *inner, f"{indent}</{name}>")


_Part = TypeVar("_Part", Zone, Cluster, Host)


def _by(parts: Iterable[_Part], attribute: str) -> dict[str, list[_Part]]:
    """Group zones, clusters or hosts by an attribute with the name of the zone around them."""
    groups: dict[str, list[_Part]] = {}
    for part in parts:
        groups.setdefault(getattr(part, attribute), []).append(part)
    return groups


class _Writer:
    def __init__(self, platform: Platform) -> None:
        self._links = platform.links
        self._hosts = _by(platform.hosts(), "zone")
        self._zones = _by(platform.zones, "parent")
        self._clusters = _by(platform.clusters, "zone")
        self._declared = self._links_by_zone()

    def inside(self, name: str) -> list[Element]:
        """Return the XML elements of the zones and clusters inside a zone (``""``: the outermost
        ones).
        """
        zones = map(self._zone, self._zones.get(name, ()))
        return [*zones, *map(_cluster, self._clusters.get(name, ()))]

    def _links_by_zone(self) -> dict[str, list[Link]]:
        """Return the links to declare in each zone: a link is declared in the first zone that uses
        it.

        SimGrid's parser wants a link before its first use, and takes a link ahead of
        inner zones for the sign that there are none.
        """
        outermost = self._zones.get("", [])
        owner: dict[str, str] = {}

        def visit(zone: Zone) -> None:
            if zone.backbone:
                owner[zone.backbone] = ""
            for child in self._zones.get(zone.name, ()):
                visit(child)
            links = [link for route in zone.routes for link in route.links]
            for link in chain(links, *zone.host_links.values()):
                owner.setdefault(self._declared_name(link)[0], zone.name)

        for zone in outermost:
            visit(zone)

        by_zone: dict[str, list[Link]] = {}
        for link in self._links.values():
            name = owner.get(link.name, outermost[0].name if outermost else "")
            by_zone.setdefault(name, []).append(link)
        return by_zone

    def _declared_name(self, name: str) -> tuple[str, str | None]:
        """Return the name under which a link is declared, and the direction (``UP`` or ``DOWN``) if
        it is split-duplex.
        """
        base, _, way = name.rpartition("_")
        link = self._links.get(base)
        is_duplex = link is not None and link.sharing_policy == "SPLITDUPLEX"
        return (base, way) if is_duplex else (name, None)

    def _zone(self, zone: Zone) -> Element:
        """Return the XML element of a zone, with its children in the order of SimGrid's grammar."""
        # The master first, as a reader expects it.
        hosts = sorted(self._hosts.get(zone.name, ()), key=lambda host: host.role != "master")
        backbone = [self._links[zone.backbone]] if zone.backbone else []

        inner = [
            *_properties(zone.properties),
            *self.inside(zone.name),
            *map(_link, self._declared.get(zone.name, ())),
            *map(_host, hosts),
            *(
                Element("router", {"id": name, "coordinates": _coordinates(place)})
                for name, place in zone.routers.items()
            ),
            *(
                Element("host_link", {"id": name, "up": up, "down": down})
                for name, (up, down) in zone.host_links.items()
            ),
            *(Element("backbone", _link_attributes(link)) for link in backbone),
            *map(self._route, zone.routes),
        ]
        return Element("zone", {"id": zone.name, "routing": zone.routing}, inner)

    def _route(self, route: Route) -> Element:
        attributes = {
            "src": route.source,
            "dst": route.destination,
            "gw_src": route.source_gateway or None,
            "gw_dst": route.destination_gateway if route.source_gateway else None,
            "symmetrical": None if route.symmetrical else "NO",
        }
        names = map(self._declared_name, route.links)
        links = [Element("link_ctn", {"id": name, "direction": way}) for name, way in names]
        return Element("zoneRoute" if route.source_gateway else "route", attributes, links)


def _cluster(cluster: Cluster) -> Element:
    backbone = cluster.backbone_bandwidth
    loopback = cluster.loopback_bandwidth
    limiter = cluster.limiter_bandwidth

    attributes = {
        "id": cluster.name,
        "prefix": cluster.prefix,
        "suffix": cluster.suffix,
        "radical": cluster.radical,
        "speed": _speeds(cluster.speeds),
        "core": _unless(cluster.cores, 1),
        "bw": BANDWIDTH.format(cluster.bandwidth),
        "lat": TIME.format(cluster.latency),
        "sharing_policy": _unless(cluster.sharing_policy, "SPLITDUPLEX"),
        "bb_bw": BANDWIDTH.format(backbone) if backbone else None,
        "bb_lat": TIME.format(cluster.backbone_latency) if backbone else None,
        "bb_sharing_policy": _unless(cluster.backbone_sharing_policy, "SHARED"),
        "loopback_bw": BANDWIDTH.format(loopback) if loopback else None,
        "loopback_lat": TIME.format(cluster.loopback_latency) if loopback else None,
        "limiter_link": BANDWIDTH.format(limiter) if limiter else None,
        "router_id": cluster.router or None,
    }
    return Element("cluster", attributes, _properties(cluster.properties))


def _host(host: Host) -> Element:
    attributes = {
        "id": host.name,
        "speed": _speeds(host.speeds),
        "core": _unless(host.cores, 1),
        "pstate": _unless(host.power_state, 0),
        "coordinates": _coordinates(host.coordinates),
    }
    return Element("host", attributes, _properties(host.properties))


def _link(link: Link) -> Element:
    policy = {"sharing_policy": _unless(link.sharing_policy, "SHARED")}
    return Element("link", _link_attributes(link) | policy, _properties(link.properties))


def _link_attributes(link: Link) -> dict[str, str | None]:
    return {
        "id": link.name,
        "bandwidth": BANDWIDTH.format(link.bandwidth),
        "latency": TIME.format(link.latency),
    }


def _properties(properties: Mapping[str, str]) -> list[Element]:
    return [Element("prop", {"id": name, "value": text}) for name, text in properties.items()]


def _unless(value: str | int, default: str | int) -> str | None:
    return None if value == default else str(value)


def _speeds(speeds: tuple[float, ...]) -> str:
    return ",".join(map(SPEED.format, speeds))


def _coordinates(place: Coordinates | None) -> str | None:
    if not place:
        return None
    return " ".join(str(int(x)) if float(x).is_integer() else repr(x) for x in place)


def _comment(text: str) -> str:
    if "--" in text or text.endswith("-"):
        raise InputError(f"comment {text[:60]!r}: '--' cannot stand in an XML comment")
    lines = [line.rstrip() for line in text.strip().split("\n")]
    return "<!--\n" + "\n".join(f"  {line}".rstrip() for line in lines) + "\n-->"


def _with_one_zone(platform: Platform) -> Platform:
    """Return a platform that has no zones with all its hosts in one zone without delays."""

    def placed(host: Host) -> Host:
        return msgspec.structs.replace(host, zone="AS0", coordinates=(0.0, 0.0, 0.0))

    return msgspec.structs.replace(
        platform,
        compute_hosts=tuple(map(placed, platform.compute_hosts)),
        storage_hosts=tuple(map(placed, platform.storage_hosts)),
        master=placed(platform.master) if platform.master else None,
        zones=(Zone(name="AS0", routing="Vivaldi"),),
    )
