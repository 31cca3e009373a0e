"""SimGrid's ``<cluster>``: many equal hosts around one backbone, kept as parameters."""

from __future__ import annotations

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.limits import MAX_HOSTS

RADICAL_FORM = "whole numbers and ascending ranges separated by commas, as in 0-31,40"


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Equal hosts, each behind its own link, around an optional backbone.

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
        """Whether a link of it has a latency."""
        return bool(self.latency or self.backbone_latency or self.loopback_latency)

    def host_names(self) -> list[str]:
        """Return the names of the hosts, in the order of the radical."""
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
    ranges = []
    count = 0
    for part in text.split(","):
        first, hyphen, last = (piece.strip() for piece in part.partition("-"))
        if not (_is_number(first) and (_is_number(last) if hyphen else True)):
            raise InputError(f"{where} is {shown(text)}; {RADICAL_FORM} is expected")
        low, high = int(first), int(last or first)
        if high < low:
            raise InputError(
                f"{where} is {shown(text)}: {part.strip()!r} ends before it starts; "
                f"{RADICAL_FORM} is expected"
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
