"""The attributes of one element of a platform file, read as what they mean."""

from __future__ import annotations

import math

from qops_batsim.errors import InputError, shown
from qops_batsim.platform.cluster import Cluster
from qops_batsim.platform.model import Coordinates, Link
from qops_batsim.platform.units import parse_bandwidth, parse_speed, parse_time


class OpenElement:
    """An element whose end has not been seen yet.

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
        self.inner = self.leaf = ""

    @property
    def where(self) -> str:
        """File, line and element, for messages."""
        label = self.attributes.get("id", "")
        return f"{self.place}: <{self.tag}{f' id={shown(label)}' if label else ''}>"

    def __str__(self) -> str:
        return self.where

    def wrong(self, attribute: str, accepted: str) -> InputError:
        """Return the error for an attribute's value."""
        value = shown(self.attributes.get(attribute, ""))
        return InputError(f"{self.where}: {attribute} is {value}; {accepted} is expected")

    def bandwidth(self, attribute: str) -> float:
        """Return a bandwidth (bytes/s)."""
        return parse_bandwidth(self.attributes[attribute], where=f"{self.where}: {attribute}")

    def optional_bandwidth(self, attribute: str) -> float:
        """Return a bandwidth (bytes/s), 0 when the attribute is missing or empty."""
        return self.bandwidth(attribute) if self.attributes.get(attribute) else 0.0

    def time(self, attribute: str) -> float:
        """Return a duration (s), 0 when the attribute is missing or empty."""
        text = self.attributes.get(attribute) or "0"
        return parse_time(text, where=f"{self.where}: {attribute}")

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
        """Return the speeds of the power states (flop/s); 0 is for the caller to judge."""
        return tuple(
            parse_speed(text.strip(), where=f"{self.where}: speed", zero=True)
            for text in self.attributes["speed"].split(",")
        )

    def cores(self) -> int:
        if "core" in self.attributes and "cores" in self.attributes:
            raise InputError(f"{self.where}: both core and cores are given; one is expected")
        attribute = "cores" if "cores" in self.attributes else "core"
        return self.whole_number(attribute, default="1", low=1, high=10**6)

    def whole_number(self, attribute: str, *, default: str, low: int, high: int) -> int:
        """Return a whole number within bounds, both included."""
        text = self.attributes.get(attribute, default)
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise self.wrong(attribute, f"a whole number from {low} to {high}")
        return int(text)

    def coordinates(self) -> Coordinates | None:
        """Return the place in a Vivaldi zone (ms), None when the attribute is missing or empty."""
        text = self.attributes.get("coordinates", "")
        if not text:
            return None
        try:
            x, y, height = map(float, text.split())
        except ValueError:
            x = y = height = math.nan
        if not math.isfinite(x + y + height):
            raise self.wrong("coordinates", "three numbers separated by spaces")
        return x, y, height

    def one_of(self, attribute: str, accepted: tuple[str, ...]) -> str:
        """Return a word; the first accepted one when the attribute is missing."""
        value = self.attributes.get(attribute, accepted[0])
        if value == "FULLDUPLEX":  # SimGrid's older word
            value = "SPLITDUPLEX"
        if value not in accepted:
            raise self.wrong(attribute, f"one of {', '.join(accepted)}")
        return value


def read_cluster(element: OpenElement, zone: str) -> Cluster:
    """Return what a ``<cluster>`` element says; its radical is for the caller to judge."""
    given = element.attributes
    if given.get("topology", "FLAT") != "FLAT":
        raise element.wrong("topology", "FLAT (other topologies are not supported)")
    for part in ("bb", "loopback"):
        if element.time(f"{part}_lat") and not element.optional_bandwidth(f"{part}_bw"):
            raise InputError(f"{element.where}: {part}_lat is given without {part}_bw")
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
        backbone_bandwidth=element.optional_bandwidth("bb_bw"),
        backbone_latency=element.time("bb_lat"),
        backbone_sharing_policy=element.one_of("bb_sharing_policy", ("SHARED", "FATPIPE")),
        loopback_bandwidth=element.optional_bandwidth("loopback_bw"),
        loopback_latency=element.time("loopback_lat"),
        limiter_bandwidth=element.optional_bandwidth("limiter_link"),
        router=given.get("router_id", ""),
        properties=element.properties,
        zone=zone,
    )
