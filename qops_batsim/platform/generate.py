"""Making platforms: clusters of equal hosts, and the ones that come with the package.

The files under ``platforms/`` are what :func:`write_shipped_platforms` writes.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.limits import MAX_HOSTS
from qops_batsim.platform.assembly import PendingRoute, PlatformParts
from qops_batsim.platform.model import Cluster, Host, Link, Platform, Route, Zone
from qops_batsim.platform.simgrid_write import write_platform
from qops_batsim.platform.units import parse_bandwidth, parse_size, parse_speed, parse_time

MASTER_HOST = "master_host"
"""Name by which Batsim knows the master. Its role is not written down: Batsim adds
the role by itself, and refuses a host that then has it twice."""


def make_cluster(
    hosts: int,
    *,
    speed: float = 100e6,
    cores: int = 1,
    prefix: str = "host",
    bandwidth: float | None = None,
    latency: float = 0.0,
    memory: int | None = None,
) -> Platform:
    """Make a platform of equal hosts and a master.

    The hosts are numbered with leading zeros, so that Batsim's order of names
    is the order of numbers.

    ``speed`` is of one core (flop/s), ``bandwidth`` of each host's link each way (bytes/s); without
    one, communications take no time at all. A message crosses two links of the ``latency`` (s).
    ``memory`` (bytes) is the property of that name of each host.

    Examples
    --------
    >>> make_cluster(100, bandwidth=1.25e8, latency=50e-6)
    Platform(a cluster of 100 hosts: 100 compute hosts, a master, 101 links)
    """
    _check(hosts, cores, speed, bandwidth, latency, memory)
    width = len(str(hosts - 1))
    names = [f"{prefix}{number:0{width}d}" for number in range(hosts)]
    properties = {"role": "compute_node"} | ({} if memory is None else {"memory": str(memory)})
    place = (0.0, 0.0, 0.0) if bandwidth is None else None
    one = Host(
        name="", speeds=(speed,), cores=cores, properties=properties, zone="AS0", coordinates=place
    )
    master = Host(name=MASTER_HOST, speeds=(speed,), role="master", zone="AS0", coordinates=place)
    zone, links = Zone(name="AS0", routing="Vivaldi"), list[Link]()
    if bandwidth is not None:
        star = {name: (f"link_{name}_UP", f"link_{name}_DOWN") for name in (MASTER_HOST, *names)}
        zone = Zone(name="AS0", routing="Cluster", host_links=star)
        one_link = Link(name="", bandwidth=bandwidth, latency=latency, sharing_policy="SPLITDUPLEX")
        links = [msgspec.structs.replace(one_link, name=f"link_{name}") for name in star]
    return Platform(
        compute_hosts=tuple(msgspec.structs.replace(one, name=name) for name in names),
        master=master,
        links={link.name: link for link in links},
        zones=(zone,),
        source=f"a cluster of {hosts} hosts",
    )


def _check(
    hosts: int,
    cores: int,
    speed: float,
    bandwidth: float | None,
    latency: float,
    memory: int | None,
) -> None:
    for value, name, most in ((hosts, "hosts", MAX_HOSTS - 1), (cores, "cores", 10**6)):
        if not 1 <= value <= most:
            raise InputError(f"{name} is {value}; a whole number from 1 to {most} is expected")
    for number, name in ((speed, "speed"), (bandwidth, "bandwidth"), (memory, "memory")):
        if number is not None and not 0 < number < float("inf"):
            raise InputError(f"{name} is {number}; a number above 0 is expected")
    if not 0 <= latency < float("inf") or (latency and bandwidth is None):
        raise InputError(
            f"latency is {latency} and bandwidth is {bandwidth}; a latency above 0 needs a "
            "bandwidth, for the links that it belongs to"
        )


class ShippedPlatform(msgspec.Struct, frozen=True):
    """A platform that comes with the package.

    ``comment`` stands at the top of the file: what it is and where its numbers come from.
    """

    platform: Platform
    comment: str


_NO_NETWORK = """\
Hosts of 1 core and 100 Mf without any network latency, so that dates are the
same in the embedded engine and in the real Batsim."""

_MACHINES = {
    "sdsc_sp2_128": (128, "The IBM SP2 of the San Diego Supercomputer Center: 128 processors."),
    "kth_sp2_100": (
        100,
        "The IBM SP2 of the Swedish Royal Institute of Technology (KTH): 100 processors.",
    ),
    "sp2_128": (
        128,
        "The simulated machine of the slack-based backfilling paper (Talby and\n"
        "Feitelson, 1999): 128 processors, on which it replays the KTH log.",
    ),
    "ctc_sp2_338": (
        338,
        "The IBM SP2 of the Cornell Theory Center: the 338 processors that the\n"
        "archive's current log uses.",
    ),
    "ctc_sp2_430": (
        430,
        "The IBM SP2 of the Cornell Theory Center: the 430 processors of its batch\npartition.",
    ),
}

_POWER = {"wattage_per_state": "120:120:200", "wattage_off": "10"}

_POWER_COMMENT = """\
Ours: the power of a host (idle, busy at least, busy at most; off; in watts), of
the order of such a node. Batsim wants it of every host where it counts energy,
as batsim-py has it do."""

_AROMA_COMMENT = """\
A grid of three sites for the task mapping of AROMA (Pascal, Richard, Miegemolle
and Monteil, 2004).
From the paper: three sites (the authors' announced test grid), and 128
processors in all (the machine of their simulations). The paper asks of a host
its processor speed, number of processors and memory, and of two hosts the
bandwidth between them, and says that it is higher inside a cluster or a site.
It gives no values for them.
Ours: the number of hosts and cores of each cluster, every speed, memory,
bandwidth and latency. They are of the order of the year 2004. The property
memory is in bytes."""


def shipped_platforms() -> dict[str, ShippedPlatform]:
    """Return the platforms that come with the package, by name."""
    made = {
        name: ShippedPlatform(
            make_cluster(processors), f"{comment}\n{_NO_NETWORK}\nMade by qops-batsim."
        )
        for name, (processors, comment) in _MACHINES.items()
    }
    kth = made["kth_sp2_100"]
    made["kth_sp2_100"] = ShippedPlatform(
        _with_power(kth.platform), kth.comment.replace("\nMade", f"\n{_POWER_COMMENT}\nMade")
    )
    made["aroma_grid"] = ShippedPlatform(_aroma_grid(), f"{_AROMA_COMMENT}\nMade by qops-batsim.")
    return made


def _with_power(platform: Platform) -> Platform:
    """Return a platform of which Batsim can count the energy (``--energy``)."""

    def powered(host: Host) -> Host:
        return msgspec.structs.replace(host, properties={**host.properties, **_POWER})

    hosts, master = platform.compute_hosts, platform.master
    return msgspec.structs.replace(
        platform,
        compute_hosts=tuple(map(powered, hosts)),
        master=None if master is None else powered(master),
    )


def write_shipped_platforms(directory: str | Path) -> None:
    """Write the platforms that come with the package."""
    for name, shipped in shipped_platforms().items():
        write_platform(shipped.platform, Path(directory) / f"{name}.xml", comment=shipped.comment)


# Each site's clusters: numbers of the hosts (of two digits, so that the order of names is theirs),
# cores, speed, memory; bandwidth and latency of a host's link, then of the backbone.
_ClusterValues = tuple[str, int, str, str, str, str, str, str]
_AROMA_SITES: dict[str, dict[str, _ClusterValues]] = {
    "site_a": {
        "a_node": ("10-25", 2, "1Gf", "1GiB", "125MBps", "50us", "1.25GBps", "50us"),
        "a_smp": ("10-13", 8, "750Mf", "8GiB", "125MBps", "50us", "500MBps", "20us"),
    },
    "site_b": {"b_node": ("10-25", 2, "1.5Gf", "2GiB", "250MBps", "10us", "2.5GBps", "10us")},
    "site_c": {"c_node": ("10-41", 1, "500Mf", "512MiB", "12.5MBps", "100us", "125MBps", "100us")},
}

_AROMA_WIDE_AREA = (
    ("site_a", "site_b", "77.5MBps", "4ms"),
    ("site_a", "site_c", "19.375MBps", "8ms"),
    ("site_b", "site_c", "4.25MBps", "12ms"),
)


def _aroma_grid() -> Platform:
    parts = PlatformParts("aroma_grid")
    entrance = {"administration": MASTER_HOST}
    for name, parent in (("grid", ""), ("administration", "grid")):
        _add_zone(parts, name, parent, {})
    parts.claim(MASTER_HOST, "administration", "")
    parts.hosts.append(("", Host(name=MASTER_HOST, speeds=(1e9,), zone="administration")))
    to_master = Link(name="administration", bandwidth=10e9, latency=0.0, sharing_policy="FATPIPE")
    parts.add_link(to_master, "")
    for site, clusters in _AROMA_SITES.items():
        _add_zone(parts, site, "grid", {"site": site})
        for name, values in clusters.items():
            cluster = _aroma_cluster(name, site, values)
            parts.add_cluster(cluster, name)
            entrance[name] = cluster.router_name
            entrance.setdefault(site, cluster.router_name)
        _connect(parts, "grid", "administration", site, "administration", entrance)
    _add_link(parts, "site_a_switch", "125MBps", "50us")
    _connect(parts, "site_a", "a_smp", "a_node", "site_a_switch", entrance)
    for source, destination, bandwidth, latency in _AROMA_WIDE_AREA:
        name = f"{source}_to_{destination}"
        _add_link(parts, name, bandwidth, latency)
        _connect(parts, "grid", source, destination, name, entrance)
    return parts.platform()


def _aroma_cluster(name: str, site: str, values: _ClusterValues) -> Cluster:
    radical, cores, speed, memory, bandwidth, latency, backbone_bandwidth, backbone_latency = values
    return Cluster(
        name=name,
        prefix=name,
        suffix="",
        radical=radical,
        speeds=(parse_speed(speed, where=name),),
        cores=cores,
        bandwidth=parse_bandwidth(bandwidth, where=name),
        latency=parse_time(latency, where=name),
        backbone_bandwidth=parse_bandwidth(backbone_bandwidth, where=name),
        backbone_latency=parse_time(backbone_latency, where=name),
        router=f"{name}_router",
        properties={"role": "compute_node", "memory": str(parse_size(memory, where=name))},
        zone=site,
    )


def _add_zone(parts: PlatformParts, name: str, parent: str, properties: dict[str, str]) -> None:
    parts.claim(name, "", name)
    parts.zones[name] = Zone(name=name, routing="Full", parent=parent, properties=properties)


def _add_link(parts: PlatformParts, name: str, bandwidth: str, latency: str) -> None:
    speed, delay = parse_bandwidth(bandwidth, where=name), parse_time(latency, where=name)
    parts.add_link(Link(name=name, bandwidth=speed, latency=delay), name)


def _connect(
    parts: PlatformParts,
    zone: str,
    source: str,
    destination: str,
    link: str,
    entrance: dict[str, str],
) -> None:
    """Add a route between two zones, which are entered at the hosts or routers given."""
    route = Route(
        source=source,
        destination=destination,
        links=(),
        source_gateway=entrance[source],
        destination_gateway=entrance[destination],
    )
    parts.routes.append(
        PendingRoute(
            where=f"route from {source} to {destination}",
            zone=zone,
            route=route,
            links=[(link, "NONE")],
            between_zones=True,
        )
    )
