"""Reading SimGrid's platform files, versions 4 and 4.1.

Elements and attributes are those of SimGrid's document type definition 4.1. What is not supported
is an InputError that names file and line.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from defusedxml import EntitiesForbidden, ExternalReferenceForbidden
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from qops_batsim.arguments import PATH, TEXT, WHOLE, takes
from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.files import read_stored
from qops_batsim.limits import MAX_HOSTS, MAX_PLATFORM_BYTES
from qops_batsim.platform.assembly import PendingHostLink, PendingRoute, PlatformParts
from qops_batsim.platform.platform_model import (
    ROUTINGS,
    SHARING_POLICIES,
    Cluster,
    Coordinates,
    Host,
    Link,
    Platform,
    Route,
    Zone,
    parse_radical,
)
from qops_batsim.quantities import BANDWIDTH, SPEED_OR_NONE, TIME
from qops_batsim.shipped import find_input

_UNKNOWN_ENTITY = re.compile(b"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)([^;<>\"' ]*)")


class ElementForm(NamedTuple):
    """The attributes and child elements that an XML element of a platform file may have."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


_GATEWAYS = ("src", "dst", "gw_src", "gw_dst")
_RANGE = ("id", "prefix", "suffix", "radical", "speed", "bw", "lat")

ELEMENTS = {
    "platform": ElementForm((), ("version",), ("config", "zone", "cluster")),
    "config": ElementForm((), ("id",), ("prop",)),
    "zone": ElementForm(
        ("id", "routing"),
        (),
        (
            *("prop", "zone", "cluster", "host", "router", "link", "backbone", "host_link"),
            *("route", "zoneRoute"),
        ),
    ),
    "prop": ElementForm(("id", "value")),
    "host": ElementForm(
        ("id", "speed"),
        (
            *("core", "cores", "pstate", "coordinates"),
            *("speed_file", "availability_file", "state_file"),
        ),
        ("prop", "disk"),
    ),
    "disk": ElementForm(("read_bw", "write_bw"), ("id",), ("prop",)),
    "router": ElementForm(("id",), ("coordinates",)),
    "link": ElementForm(
        ("id", "bandwidth"),
        ("latency", "sharing_policy", "bandwidth_file", "latency_file", "state_file"),
        ("prop",),
    ),
    "backbone": ElementForm(("id", "bandwidth", "latency")),
    "host_link": ElementForm(("id", "up", "down")),
    "cluster": ElementForm(
        _RANGE,
        (
            *("core", "cores", "sharing_policy", "topology", "topo_parameters", "router_id"),
            *("bb_bw", "bb_lat", "bb_sharing_policy"),
            *("limiter_link", "loopback_bw", "loopback_lat"),
        ),
        ("prop",),
    ),
    "route": ElementForm(("src", "dst"), ("symmetrical",), ("link_ctn",)),
    "zoneRoute": ElementForm(_GATEWAYS, ("symmetrical",), ("link_ctn",)),
    "link_ctn": ElementForm(("id",), ("direction",)),
}

SYNONYMS = {"AS": "zone", "ASroute": "zoneRoute"}
"""Older names of elements."""

REFUSED = {
    "peer": "give hosts with coordinates, or a cluster",
    "include": "no other file is ever read; put its content here",
    "random": "SimGrid has removed it",
    **dict.fromkeys(
        ("trace", "trace_connect"),
        "the speeds and links of a platform do not change during a simulation",
    ),
    **dict.fromkeys(
        ("storage", "storage_type", "mount"),
        "SimGrid has removed it; give a host the property role=storage",
    ),
    **dict.fromkeys(
        ("process", "actor"), "a platform holds hosts and network; jobs come from the workload"
    ),
}
"""Elements that SimGrid knows and we do not honour, with what to do instead."""

_TRACE_FILES = frozenset(
    ("speed_file", "availability_file", "state_file", "bandwidth_file", "latency_file")
)

# The last two are in Batsim's own platforms: it sets the one itself, and the other
# has no effect any more.
_HARMLESS_CONFIG = (
    *("contexts/", "tracing", "debug/", "exception/", "path", "clean-atexit"),
    *("host/model", "network/coordinates"),
)


def check_element(tag: str, parent: str, where: str) -> str:
    """Check that an XML element may stand inside ``parent`` (``""``: outermost); return its name,
    the current one for an older synonym.
    """
    name = SYNONYMS.get(tag, tag)
    if not parent:
        if name != "platform":
            raise InputError(
                f"{where}: the outermost element is <{_short(tag)}>; <platform> is expected"
            )
        return name

    if name in REFUSED:
        raise InputError(f"{where}: <{tag}> is not supported: {REFUSED[name]}")
    if name not in ELEMENTS:
        known = [*ELEMENTS, *SYNONYMS]
        raise InputError(f"{where}: <{_short(tag)}> is unknown{did_you_mean(tag, known)}")
    children = ELEMENTS[parent].children
    if name not in children:
        accepted = ", ".join(f"<{child}>" for child in children) or "nothing"
        raise InputError(f"{where}: <{tag}> inside <{parent}>; {accepted} is accepted there")
    return name


def check_attributes(name: str, attributes: dict[str, str], where: object) -> None:
    """Check that an element has its required attributes, no unknown ones, no trace file.

    ``where`` it is becomes a text only for a message.
    """
    element = ELEMENTS[name]
    for attribute in element.required:
        if attribute not in attributes:
            old = ": power is its name before version 4" * (
                attribute == "speed" and "power" in attributes
            )
            raise InputError(f"{where}: attribute {attribute} is missing{old}")

    known = element.required + element.optional
    for attribute, value in attributes.items():
        if attribute not in known:
            raise InputError(
                f"{where}: attribute {_short(attribute)} is unknown{did_you_mean(attribute, known)}"
            )
        if attribute in _TRACE_FILES and value:
            raise InputError(
                f"{where}: {attribute} is {shown(value)}; traces of changing speeds, links or "
                "states are not supported: leave it out"
            )


def check_config(name: str, where: str) -> None:
    """Raise an InputError for a ``<config>`` property that would change SimGrid's results."""
    if not name.startswith(_HARMLESS_CONFIG):
        raise InputError(
            f"{where}: configuration {shown(name)} would change the simulation and is not "
            f"supported; only {', '.join(_HARMLESS_CONFIG)} are accepted, without effect"
        )


def check_entities(content: bytes, source: str) -> None:
    """Check that a file uses only XML's five predefined entities.

    After a document type declaration the parser passes over unknown entities in
    attributes without a word, which would change names.
    """
    if b"&" not in content or b"\0" in content:  # the second: not UTF-8
        return

    position = 0
    while True:
        # In a comment, anything may stand.
        comment = content.find(b"<!--", position)
        unknown = _UNKNOWN_ENTITY.search(
            content, position, len(content) if comment < 0 else comment
        )
        if unknown:
            line = content.count(b"\n", 0, unknown.start()) + 1
            name = unknown[1].decode("utf-8", "replace")
            raise InputError(
                f"{source}: line {line}: entity {shown(name)} is not declared; &amp;, &lt;, "
                "&gt;, &quot;, &apos; and numbers are accepted"
            )

        position = content.find(b"-->", comment)
        if comment < 0 or position < 0:
            return


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


class OpenElement:
    """An XML element whose end tag has not been read yet.

    ``tag`` is its name as written, ``place`` file and line for messages. ``properties`` and
    ``links`` are the ``<prop>`` and ``<link_ctn>`` seen inside (names and directions), ``inner``
    and ``leaf`` elements seen inside a zone that belong to a zone of zones, or to one of hosts.
    """

    __slots__ = ("attributes", "inner", "leaf", "links", "name", "place", "properties", "tag")

    def __init__(self, name: str, tag: str, attributes: dict[str, str], place: str) -> None:
        self.name = name
        self.tag = tag
        self.attributes = attributes
        self.place = place
        self.properties: dict[str, str] = {}
        self.links: list[tuple[str, str]] = []
        self.inner = ""
        self.leaf = ""

    @property
    def where(self) -> str:
        """File, line and element, for error messages."""
        label = self.attributes.get("id", "")
        return f"{self.place}: <{self.tag}{f' id={shown(label)}' if label else ''}>"

    def __str__(self) -> str:
        return self.where

    def wrong(self, attribute: str, accepted: str) -> InputError:
        """Return the error for an invalid attribute value."""
        value = shown(self.attributes.get(attribute, ""))
        return InputError(f"{self.where}: {attribute} is {value}; {accepted} is expected")

    def bandwidth(self, attribute: str) -> float:
        """Return the bandwidth (bytes/s) that an attribute gives, 0 if that is missing; only one
        that may be missing may be empty.
        """
        text = self.attributes.get(attribute, "")
        if not text and attribute not in ELEMENTS[self.name].required:
            return 0.0
        return BANDWIDTH.parse(text, where=f"{self.where}: {attribute}")

    def time(self, attribute: str) -> float:
        """Return the duration (seconds) that an attribute gives, 0 if it is missing or empty."""
        text = self.attributes.get(attribute) or "0"
        return TIME.parse(text, where=f"{self.where}: {attribute}")

    def link(
        self, sharing_policy: str = "SHARED", properties: dict[str, str] | None = None
    ) -> Link:
        return Link(
            name=self.attributes["id"],
            bandwidth=self.bandwidth("bandwidth"),
            latency=self.time("latency"),
            sharing_policy=sharing_policy,
            properties=properties or {},
        )

    def speeds(self) -> tuple[float, ...]:
        """Return the speeds of the power states (flop/s), which may include 0."""
        where = f"{self.where}: speed"
        return tuple(
            SPEED_OR_NONE.parse(text.strip(), where=where)
            for text in self.attributes["speed"].split(",")
        )

    def cores(self) -> int:
        if "core" in self.attributes and "cores" in self.attributes:
            raise InputError(f"{self.where}: both core and cores are given; one is expected")
        attribute = "cores" if "cores" in self.attributes else "core"
        return self.whole_number(attribute, default="1", low=1, high=10**6)

    def whole_number(self, attribute: str, *, default: str, low: int, high: int) -> int:
        """Return an attribute's value as a whole number from ``low`` to ``high``; InputError if it
        is none.
        """
        text = self.attributes.get(attribute, default)
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise self.wrong(attribute, f"a whole number from {low} to {high}")
        return int(text)

    def coordinates(self) -> Coordinates | None:
        """Return the coordinates for Vivaldi routing (ms), None if missing or empty."""
        text = self.attributes.get("coordinates", "")
        if not text:
            return None
        try:
            x, y, height = map(float, text.split())
            if math.isfinite(x + y + height):
                return x, y, height
        except ValueError:
            pass
        raise self.wrong("coordinates", "three numbers separated by spaces")

    def one_of(self, attribute: str, accepted: tuple[str, ...]) -> str:
        """Return an attribute's value, one of the accepted words (by default the first)."""
        value = self.attributes.get(attribute, accepted[0])
        if value == "FULLDUPLEX":  # SimGrid's older word
            value = "SPLITDUPLEX"
        if value not in accepted:
            raise self.wrong(attribute, f"one of {', '.join(accepted)}")
        return value


def read_cluster(element: OpenElement, zone: str) -> Cluster:
    """Return the cluster of a ``<cluster>`` element; its radical (host numbers) is not checked."""
    given = element.attributes
    if (topology := given.get("topology", "FLAT")) != "FLAT":
        raise InputError(
            f"{element.where}: topology is {shown(topology)}; FLAT is expected, since no other "
            "topology is supported (a zone with routing Full and its routes is accepted, too)"
        )
    for part in ("bb", "loopback"):
        if element.time(f"{part}_lat") and not element.bandwidth(f"{part}_bw"):
            raise InputError(
                f"{element.where}: {part}_lat is given without {part}_bw; both are expected"
            )

    return Cluster(
        name=given["id"],
        prefix=given["prefix"],
        suffix=given["suffix"],
        radical=given["radical"],
        speeds=element.speeds(),
        cores=element.cores(),
        bandwidth=element.bandwidth("bw"),
        latency=element.time("lat"),
        sharing_policy=element.one_of("sharing_policy", ("SPLITDUPLEX", "SHARED", "FATPIPE")),
        backbone_bandwidth=element.bandwidth("bb_bw"),
        backbone_latency=element.time("bb_lat"),
        backbone_sharing_policy=element.one_of("bb_sharing_policy", ("SHARED", "FATPIPE")),
        loopback_bandwidth=element.bandwidth("loopback_bw"),
        loopback_latency=element.time("loopback_lat"),
        limiter_bandwidth=element.bandwidth("limiter_link"),
        router=given.get("router_id", ""),
        properties=element.properties,
        zone=zone,
    )


_MAX_DEPTH = 64
_INNER = frozenset(("zone", "cluster", "zoneRoute"))
_LEAF = frozenset(("host", "router", "host_link", "route"))


@takes(path=PATH, master_host=TEXT, max_bytes=WHOLE)
def read_platform(
    path: str | Path, *, master_host: str = "master_host", max_bytes: int = MAX_PLATFORM_BYTES
) -> Platform:
    """Read a SimGrid platform, plain or gzip-compressed.

    Only this file is read, not even the document type definition that it names. Disks are ignored,
    since Batsim does not use them.

    Parameters
    ----------
    path
        An XML file with zones, hosts, clusters, links and routes, or the name of a shipped one.
    master_host
        Name of the master if no host has that role (Batsim's ``--master-host``).
    max_bytes
        Largest content after decompression.

    Returns
    -------
    Platform
        Compute hosts in Batsim's order, storage hosts, the master, and the network.

    Raises
    ------
    InputError
        Naming file, line, element, attribute and what is accepted.

    Examples
    --------
    >>> platform = read_platform("kth_sp2_100")
    >>> len(platform.compute_hosts), platform.master.name
    (100, 'master_host')
    """
    path = find_input(path, "platforms")
    content, digest = read_stored(path, what="a SimGrid platform (XML)", max_bytes=max_bytes)
    platform = parse_platform(content, source=str(path), master_host=master_host)
    return msgspec.structs.replace(platform, sha256=digest)


def parse_platform(content: bytes, *, source: str, master_host: str = "master_host") -> Platform:
    """Read a platform from XML; see :func:`read_platform`."""
    # Batsim's own platforms begin with an empty line, which SimGrid passes over.
    text = content.lstrip()
    builder = _Builder(source, master_host, content[: len(content) - len(text)].count(b"\n"))
    parser = DefusedXMLParser(
        target=builder, forbid_dtd=False, forbid_entities=True, forbid_external=True
    )
    builder.expat = parser.parser

    try:
        parser.feed(text)
        parser.close()
    except EntitiesForbidden as error:
        raise InputError(
            f"{builder.place()}: entity {shown(error.name)} is declared; entities are not accepted "
            "in a platform: write the text itself"
        ) from None
    except ExternalReferenceForbidden:
        raise InputError(
            f"{builder.place()}: refers to another file; no other file is ever read"
        ) from None
    except ParseError as error:
        reason = str(error).partition(":")[0]
        raise InputError(
            f"{builder.place()}, column {error.position[1] + 1}: not XML ({reason}); "
            "a SimGrid platform is expected"
        ) from None
    except (LookupError, ValueError) as error:
        if builder.begun:
            raise
        raise InputError(
            f"{builder.place()}: cannot be decoded ({error}); a SimGrid platform in UTF-8 is "
            "expected"
        ) from None

    check_entities(content, source)
    return builder.platform()


class _Builder:
    """Builds a platform from a stream of XML elements; keeps no tree."""

    def __init__(self, source: str, master_host: str, lines_before: int) -> None:
        self.expat: Any = None
        self.begun = False
        self._lines_before = lines_before
        self._source = source
        self._parts = PlatformParts(source, master_host)
        self._open: list[OpenElement] = []
        self._zone_path: list[str] = []
        self._count = 0
        self._alike: dict[frozenset[tuple[str, str]], Host] = {}

    def place(self) -> str:
        return f"{self._source}: line {self._lines_before + self.expat.CurrentLineNumber}"

    def platform(self) -> Platform:
        return self._parts.platform()

    # The parser calls the next four.

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.begun = True
        parent = self._open[-1] if self._open else None
        place = self.place()
        name = check_element(tag, parent.name if parent else "", place)
        element = OpenElement(name, tag, attributes, place)
        check_attributes(name, attributes, element)
        if len(self._open) > _MAX_DEPTH:
            raise InputError(f"{element}: more than {_MAX_DEPTH} elements inside each other")
        if "id" in ELEMENTS[name].required and not attributes["id"]:
            raise InputError(f"{element}: id is empty; a name is expected")

        if name == "platform":
            _check_version(element)
        elif parent and parent.name == "platform" and name != "config":
            if self._parts.zone_of:
                raise InputError(f"{element}: a second outermost zone; one is expected")
        elif parent and parent.name == "zone":
            _check_mixture(parent, name, element)

        self._open.append(element)
        if name == "zone":
            self._begin_zone(element)

    def end(self, tag: str) -> None:
        element = self._open.pop()
        handler = getattr(self, f"_end_{element.name}", None)
        if handler is not None:
            handler(element)

    def data(self, text: str) -> None:
        if self._open and text.strip():
            raise InputError(
                f"{self.place()}: text {shown(text.strip())} inside <{self._open[-1].name}>; "
                "only elements are expected"
            )

    def close(self) -> None:
        pass

    def _begin_zone(self, element: OpenElement) -> None:
        name = self._claim(element, "")
        known = {routing.lower(): routing for routing in ROUTINGS}
        routing = known.get(element.attributes["routing"].lower())
        if routing is None:
            raise element.wrong("routing", f"one of {', '.join(ROUTINGS)}")

        self._parts.zones[name] = Zone(
            name=name,
            routing=routing,
            parent=self._parent_zone(element),
            properties=element.properties,
        )
        self._zone_path.append(name)

    def _end_zone(self, element: OpenElement) -> None:
        self._zone_path.pop()

    def _end_prop(self, element: OpenElement) -> None:
        parent = self._open[-1]
        name = element.attributes["id"]
        if parent.name == "config":
            check_config(name, element.where)
        if name in parent.properties:
            raise InputError(f"{element.where}: given twice in <{parent.name}>; once is expected")
        parent.properties[name] = element.attributes["value"]

    def _end_host(self, element: OpenElement) -> None:
        zone = self._zone()
        # Most hosts are alike: what their attributes mean is found out once.
        attributes = frozenset(element.attributes.items() - {("id", element.attributes["id"])})
        alike = self._alike.get(attributes)
        if alike is None:
            speeds = element.speeds()
            alike = self._alike[attributes] = Host(
                name="",
                speeds=speeds,
                cores=element.cores(),
                power_state=element.whole_number(
                    "pstate", default="0", low=0, high=len(speeds) - 1
                ),
                coordinates=element.coordinates(),
            )

        if zone.routing == "Vivaldi" and alike.coordinates is None:
            raise InputError(
                f"{element.where}: attribute coordinates is missing; zone {zone.name!r} has "
                "routing Vivaldi"
            )
        self._add_hosts(1, element)
        name = self._claim(element, zone.name)
        host = msgspec.structs.replace(
            alike, name=name, properties=element.properties, zone=zone.name
        )
        self._parts.hosts.append((element, host))

    def _end_router(self, element: OpenElement) -> None:
        zone = self._zone()
        zone.routers[self._claim(element, zone.name)] = element.coordinates()

    def _end_link(self, element: OpenElement) -> None:
        policy = element.one_of("sharing_policy", SHARING_POLICIES)
        self._parts.add_link(element.link(policy, element.properties), element.where)

    def _end_backbone(self, element: OpenElement) -> None:
        zone = self._zone()
        if zone.routing != "Cluster" or zone.backbone:
            raise InputError(
                f"{element.where}: one backbone is accepted in a zone with routing Cluster; "
                f"zone {zone.name!r} has routing {zone.routing}"
                + (f" and backbone {zone.backbone!r}" if zone.backbone else "")
            )
        name = element.attributes["id"]
        self._parts.zones[zone.name] = msgspec.structs.replace(zone, backbone=name)
        self._parts.add_link(element.link(), element.where)

    def _end_host_link(self, element: OpenElement) -> None:
        given = element.attributes
        self._parts.host_links.append(
            PendingHostLink(
                where=element.where,
                zone=self._zone_path[-1],
                host=given["id"],
                up=given["up"],
                down=given["down"],
            )
        )

    def _end_cluster(self, element: OpenElement) -> None:
        parent = self._parent_zone(element)
        radical = element.attributes["radical"]
        left = MAX_HOSTS - self._count
        ranges = parse_radical(radical, where=f"{element.where}: radical", max_hosts=left)
        self._add_hosts(sum(last - first + 1 for first, last in ranges), element)
        self._parts.add_cluster(read_cluster(element, parent), element.where)

    def _end_link_ctn(self, element: OpenElement) -> None:
        direction = element.attributes.get("direction", "NONE")
        if direction not in ("UP", "DOWN", "NONE"):
            raise element.wrong("direction", "UP, DOWN or NONE")
        self._open[-1].links.append((element.attributes["id"], direction))

    def _end_route(self, element: OpenElement) -> None:
        given = element.attributes
        symmetrical = given.get("symmetrical", "YES").upper()
        if symmetrical not in ("YES", "NO"):
            raise element.wrong("symmetrical", "YES or NO")

        route = Route(
            source=given["src"],
            destination=given["dst"],
            links=(),
            source_gateway=given.get("gw_src", ""),
            destination_gateway=given.get("gw_dst", ""),
            symmetrical=symmetrical == "YES",
        )
        self._parts.routes.append(
            PendingRoute(
                where=f"{element.where} from {given['src']!r} to {given['dst']!r}",
                zone=self._zone_path[-1],
                route=route,
                links=element.links,
                between_zones="gw_src" in given,
            )
        )

    _end_zoneRoute = _end_route  # noqa: N815

    def _parent_zone(self, element: OpenElement) -> str:
        """Return the name of the zone around a zone or cluster; empty for the outermost."""
        if not self._zone_path:
            return ""
        parent = self._zone()
        if parent.routing in ("Vivaldi", "Cluster"):
            raise InputError(
                f"{element.where}: inside zone {parent.name!r} with routing {parent.routing}, "
                "which can hold hosts only; Full, Floyd, Dijkstra or None is expected around zones"
            )
        return parent.name

    def _zone(self) -> Zone:
        return self._parts.zones[self._zone_path[-1]]

    def _claim(self, element: OpenElement, zone: str) -> str:
        return self._parts.claim(element.attributes["id"], zone, element)

    def _add_hosts(self, count: int, element: OpenElement) -> None:
        self._count += count
        if self._count > MAX_HOSTS:
            raise InputError(f"{element.where}: more than {MAX_HOSTS} hosts in the platform")


def _check_mixture(zone: OpenElement, name: str, where: object) -> None:
    if name in _INNER:
        zone.inner = name
    elif name in _LEAF:
        zone.leaf = name
    if zone.inner and zone.leaf:
        raise InputError(
            f"{where}: <{zone.leaf}> and <{zone.inner}> in one zone; in SimGrid a zone holds "
            "either zones and clusters, or hosts"
        )


def _check_version(element: OpenElement) -> None:
    text = element.attributes.get("version", "")
    accepted = "4 or 4.1"
    if text.startswith(("1", "2", "3")):
        accepted += (
            " (older files have other units and names; SimGrid's simgrid_update_xml converts them)"
        )
    if text not in ("4", "4.0", "4.1"):
        raise element.wrong("version", accepted)
