"""The elements of SimGrid's platform files: what they hold, and what is not supported.

From the document type definition of SimGrid, version 4.1. What is not supported is an
InputError that names file and line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from qops_batsim.errors import InputError, did_you_mean, shown

_UNKNOWN_ENTITY = re.compile(b"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)([^;<>\"' ]*)")


class Element(NamedTuple):
    """Attributes of an element and the elements it may hold."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


_GATEWAYS = ("src", "dst", "gw_src", "gw_dst")
_RANGE = ("id", "prefix", "suffix", "radical", "speed", "bw", "lat")

ELEMENTS = {
    "platform": Element((), ("version",), ("config", "zone", "cluster")),
    "config": Element((), ("id",), ("prop",)),
    "zone": Element(
        ("id", "routing"),
        (),
        (
            *("prop", "zone", "cluster", "host", "router", "link", "backbone", "host_link"),
            *("cabinet", "route", "zoneRoute", "bypassRoute", "bypassZoneRoute"),
        ),
    ),
    "prop": Element(("id", "value")),
    "host": Element(
        ("id", "speed"),
        (
            *("core", "cores", "pstate", "coordinates"),
            *("speed_file", "availability_file", "state_file"),
        ),
        ("prop", "disk"),
    ),
    "disk": Element(("read_bw", "write_bw"), ("id",), ("prop",)),
    "router": Element(("id",), ("coordinates",)),
    "link": Element(
        ("id", "bandwidth"),
        ("latency", "sharing_policy", "bandwidth_file", "latency_file", "state_file"),
        ("prop",),
    ),
    "backbone": Element(("id", "bandwidth", "latency")),
    "host_link": Element(("id", "up", "down")),
    "cabinet": Element(_RANGE),
    "cluster": Element(
        _RANGE,
        (
            *("core", "cores", "sharing_policy", "topology", "topo_parameters", "router_id"),
            *("bb_bw", "bb_lat", "bb_sharing_policy"),
            *("limiter_link", "loopback_bw", "loopback_lat"),
        ),
        ("prop",),
    ),
    "route": Element(("src", "dst"), ("symmetrical",), ("link_ctn",)),
    "zoneRoute": Element(_GATEWAYS, ("symmetrical",), ("link_ctn",)),
    "bypassRoute": Element(("src", "dst"), (), ("link_ctn",)),
    "bypassZoneRoute": Element(_GATEWAYS, (), ("link_ctn",)),
    "link_ctn": Element(("id",), ("direction",)),
}

SYNONYMS = {"AS": "zone", "ASroute": "zoneRoute", "bypassASroute": "bypassZoneRoute"}
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
    """Return the present name of an element that may stand inside ``parent`` (empty: outermost)."""
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
    """Make sure that an element has what it must have, nothing unknown and no trace file.

    ``where`` it is becomes a text only for a message.
    """
    element = ELEMENTS[name]
    for attribute in element.required:
        if attribute not in attributes:
            raise InputError(f"{where}: attribute {attribute} is missing")
    for attribute, value in attributes.items():
        if attribute not in element.required and attribute not in element.optional:
            known = element.required + element.optional
            raise InputError(
                f"{where}: attribute {_short(attribute)} is unknown{did_you_mean(attribute, known)}"
            )
        if attribute in _TRACE_FILES and value:
            raise InputError(
                f"{where}: {attribute} is {shown(value)}; traces of changing speeds, links or "
                "states are not supported: leave it out"
            )


def check_config(name: str, where: str) -> None:
    """Refuse a ``<config>`` property that changes the results of SimGrid."""
    if not name.startswith(_HARMLESS_CONFIG):
        raise InputError(
            f"{where}: configuration {shown(name)} would change the simulation and is not "
            f"supported; only {', '.join(_HARMLESS_CONFIG)} are passed over"
        )


def check_entities(content: bytes, source: str) -> None:
    """Make sure that a file uses no entity but XML's own five.

    After a document type declaration the parser passes over unknown entities in
    attributes without a word, which would change names.
    """
    if b"&" not in content or b"\0" in content:  # the second: not UTF-8
        return
    position = 0
    while True:
        comment = content.find(b"<!--", position)
        found = _UNKNOWN_ENTITY.search(content, position, len(content) if comment < 0 else comment)
        if found:
            line = content.count(b"\n", 0, found.start()) + 1
            name = found[1].decode("utf-8", "replace")
            raise InputError(
                f"{source}: line {line}: entity {shown(name)} is not declared; &amp;, &lt;, "
                "&gt;, &quot;, &apos; and numbers are accepted"
            )
        position = content.find(b"-->", comment)
        if comment < 0 or position < 0:
            return


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
