"""Platforms of equal hosts, or of a few groups of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, repeat

import msgspec

from qops_batsim.core.host_properties import OF_GPUS, OF_LICENCE, OF_SITE, read_host_properties
from qops_batsim.errors import InputError, require
from qops_batsim.limits import MAX_HOSTS
from qops_batsim.platform.platform_model import Host, Link, Platform, Zone

MASTER_HOST = "master_host"
"""Name by which Batsim knows the master. Its role is not written down: Batsim adds
the role by itself, and refuses a host that then has it twice."""

_ABOVE_0 = "a number above 0 is expected"


class EqualHosts(msgspec.Struct, frozen=True, kw_only=True):
    """A group of equal hosts of a cluster.

    Attributes
    ----------
    hosts
        Number of compute hosts.
    speed
        Speed of one core (flop/s).
    cores
        Cores of each host, for computing jobs and as an amount that jobs share; None: one core,
        and jobs take whole hosts unless the hosts have other amounts.
    memory
        Memory of each host (bytes).
    gpus
        GPUs of each host, or GPUs by type.
    kinds
        Amounts of a site's own kinds, by name.
    labels
        Names of partitions and features.
    weight
        Hosts of less weight are chosen first.
    """

    hosts: int
    speed: float = 100e6
    cores: int | None = None
    memory: int | None = None
    gpus: int | Mapping[str, int] | None = None
    kinds: Mapping[str, int] = {}
    labels: Sequence[str] = ()
    weight: int = 0

    def host(self) -> Host:
        """Return such a host, without name and place. InputError if a value is out of range."""
        cores = 1 if self.cores is None else self.cores
        for name, count, most in (("hosts", self.hosts, MAX_HOSTS - 1), ("cores", cores, 10**6)):
            accepted = f"a whole number from 1 to {most} is expected"
            require(1 <= count <= most, name, count, accepted)
        require(0 < self.speed < math.inf, "speed", self.speed, _ABOVE_0)
        require(self.memory is None or self.memory > 0, "memory", self.memory, _ABOVE_0)

        typed = self.gpus if isinstance(self.gpus, Mapping) else {}
        amounts = {
            "cores": self.cores,
            "memory": self.memory,
            "gpus": None if typed else self.gpus or None,
            **{f"{OF_GPUS}{name}": amount for name, amount in typed.items()},
            **{f"{OF_SITE}{name}": amount for name, amount in self.kinds.items()},
            "labels": ",".join(self.labels) or None,
            "weight": self.weight or None,
        }
        properties = {name: str(value) for name, value in amounts.items() if value is not None}
        read_host_properties(properties, "a cluster")
        return Host(
            name="",
            speeds=(self.speed,),
            cores=cores,
            properties={"role": "compute_node", **properties},
            zone="AS0",
        )


def make_cluster(
    hosts: int,
    *,
    speed: float = 100e6,
    cores: int | None = None,
    memory: int | None = None,
    gpus: int | Mapping[str, int] | None = None,
    prefix: str = "host",
    bandwidth: float | None = None,
    latency: float = 0.0,
) -> Platform:
    """Make a platform of equal hosts and a master.

    The hosts are numbered with leading zeros, so that Batsim's order of names
    is the order of numbers.

    Parameters
    ----------
    hosts, speed, cores, memory, gpus
        The hosts; see :class:`EqualHosts`. Jobs share hosts that have ``cores`` or ``gpus``.
    prefix, bandwidth, latency
        Names and network; see :func:`make_mixed_cluster`.

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
    group = EqualHosts(hosts=hosts, speed=speed, cores=cores, memory=memory, gpus=gpus)
    return make_mixed_cluster([group], prefix=prefix, bandwidth=bandwidth, latency=latency)


def make_mixed_cluster(
    groups: Sequence[EqualHosts],
    *,
    licences: Mapping[str, int] | None = None,
    prefix: str = "host",
    bandwidth: float | None = None,
    latency: float = 0.0,
) -> Platform:
    """Make a platform of groups of equal hosts and a master.

    Parameters
    ----------
    groups
        The hosts, which are numbered from group to group.
    licences
        Licences of the machine, by name.
    prefix
        Begin of the hosts' names.
    bandwidth
        Bandwidth of each host's link, each way (bytes/s); None: communication takes no time.
    latency
        Latency of each host's link (seconds); a message crosses two links.

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
    >>> plain = EqualHosts(hosts=84, cores=32, memory=128 * 10**9)
    >>> fast = EqualHosts(hosts=16, cores=32, memory=128 * 10**9, gpus={"v100": 2})
    >>> make_mixed_cluster([plain, fast]).machine.totals["gpus:v100"]
    32
    """
    kinds = [group.host() for group in groups]
    hosts = sum(group.hosts for group in groups)
    require(1 <= hosts < MAX_HOSTS, "hosts", hosts, f"1 to {MAX_HOSTS - 1} hosts are expected")
    require(bandwidth is None or 0 < bandwidth < math.inf, "bandwidth", bandwidth, _ABOVE_0)
    require(0 <= latency < math.inf, "latency", latency, "a number from 0 up is expected")
    require(
        not latency or bandwidth is not None, "latency", latency, "above 0, it needs a bandwidth"
    )

    width = len(str(hosts - 1))
    names = [f"{prefix}{number:0{width}d}" for number in range(hosts)]
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

    alike = chain.from_iterable(
        repeat(kind, group.hosts) for kind, group in zip(kinds, groups, strict=True)
    )
    made = [
        msgspec.structs.replace(kind, name=name, coordinates=place)
        for kind, name in zip(alike, names, strict=True)
    ]
    if licences:
        made[0] = _with_licences(made[0], licences)
    platform = Platform(
        compute_hosts=tuple(made),
        master=Host(
            name=MASTER_HOST, speeds=made[0].speeds, role="master", zone="AS0", coordinates=place
        ),
        links=links,
        zones=(zone,),
        source=f"a cluster of {hosts} hosts",
    )
    chosen_by = licences or any(group.labels or group.weight for group in groups)
    if chosen_by and platform.machine is None:
        raise InputError(
            "labels, weights and licences are given for hosts without amounts; cores, GPUs or a "
            "kind of the site are expected of some hosts"
        )
    return platform


def _with_licences(host: Host, licences: Mapping[str, int]) -> Host:
    """Return a host that has the licences of its machine."""
    held = {f"{OF_LICENCE}{name}": str(amount) for name, amount in licences.items()}
    read_host_properties(held, "a cluster")
    return msgspec.structs.replace(host, properties={**host.properties, **held})
