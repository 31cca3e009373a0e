"""Platforms of equal hosts."""

from __future__ import annotations

import math

import msgspec

from qops_batsim.errors import require
from qops_batsim.limits import MAX_HOSTS
from qops_batsim.platform.platform_model import Host, Link, Platform, Zone

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

    Parameters
    ----------
    hosts
        Number of compute hosts.
    speed
        Speed of one core (flop/s).
    cores
        Cores of each host.
    prefix
        Begin of the hosts' names.
    bandwidth
        Bandwidth of each host's link, each way (bytes/s); None: communication takes no time.
    latency
        Latency of each host's link (seconds); a message crosses two links.
    memory
        Memory of each host (bytes): its property ``memory``.

    Returns
    -------
    Platform
        The hosts and a master.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> make_cluster(100, bandwidth=1.25e8, latency=50e-6)
    Platform(a cluster of 100 hosts: 100 compute hosts, a master, 101 links)
    """
    _check(hosts, cores, speed, bandwidth, latency, memory)
    width = len(str(hosts - 1))
    names = [f"{prefix}{number:0{width}d}" for number in range(hosts)]
    properties = {"role": "compute_node"} | ({} if memory is None else {"memory": str(memory)})

    if bandwidth is None:
        # All hosts are at one place: nothing takes time.
        place = (0.0, 0.0, 0.0)
        zone = Zone(name="AS0", routing="Vivaldi")
        links = {}
    else:
        place = None
        star = {name: (f"link_{name}_UP", f"link_{name}_DOWN") for name in (MASTER_HOST, *names)}
        zone = Zone(name="AS0", routing="Cluster", host_links=star)
        link = Link(name="", bandwidth=bandwidth, latency=latency, sharing_policy="SPLITDUPLEX")
        links = {
            f"link_{name}": msgspec.structs.replace(link, name=f"link_{name}") for name in star
        }

    host = Host(
        name="", speeds=(speed,), cores=cores, properties=properties, zone="AS0", coordinates=place
    )
    return Platform(
        compute_hosts=tuple(msgspec.structs.replace(host, name=name) for name in names),
        master=Host(
            name=MASTER_HOST, speeds=(speed,), role="master", zone="AS0", coordinates=place
        ),
        links=links,
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
    for name, count, most in (("hosts", hosts, MAX_HOSTS - 1), ("cores", cores, 10**6)):
        accepted = f"a whole number from 1 to {most} is expected"
        require(1 <= count <= most, name, count, accepted)

    for name, amount in (("speed", speed), ("bandwidth", bandwidth), ("memory", memory)):
        fits = amount is None or 0 < amount < math.inf
        require(fits, name, amount, "a number above 0 is expected")

    require(0 <= latency < math.inf, "latency", latency, "a number from 0 up is expected")
    require(
        not latency or bandwidth is not None, "latency", latency, "above 0, it needs a bandwidth"
    )
