"""The platforms and workloads that come with the package, made again.

``python tests/support/shipped_inputs.py`` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from qops_batsim import Job
from qops_batsim.platform import Host, Link, Platform, Zone, make_cluster, write_platform
from qops_batsim.platform.assembly import PendingRoute, PlatformParts
from qops_batsim.platform.equal_hosts import MASTER_HOST, EqualHosts, make_mixed_cluster
from qops_batsim.platform.platform_model import Cluster, Route
from qops_batsim.quantities import BANDWIDTH, SIZE, SPEED, TIME
from qops_batsim.shipped import shipped_directory
from qops_batsim.workload import Workload, delay_profile, generate_workload, write_workload
from qops_batsim.workload.service_classes import mixed_workload
from qops_batsim.workload.synthetic import DeadlineRule


def shipped_workloads() -> dict[str, Callable[[], Workload]]:
    """Return, by name, what makes each workload under ``workloads/`` again."""
    thousand = partial(generate_workload, jobs=1000, seed=1, load=0.85)
    half = partial(generate_workload, jobs=500, seed=1, load=0.9)
    return {
        "ctc_sp2_1000": partial(thousand, "ctc-sp2"),
        "sdsc_sp2_1000": partial(thousand, "sdsc-sp2"),
        "kth_sp2_1000": partial(thousand, "kth-sp2"),
        "sdsc_sp2_deadlines_500": partial(half, "sdsc-sp2", deadlines=DeadlineRule(share=1.0)),
        "kth_sp2_mixed_500": partial(half, "kth-sp2", deadlines=DeadlineRule(share=0.2)),
        "aroma_mixed": mixed_workload,
        "tiny_8": tiny_workload,
    }


def write_shipped_workloads(directory: str | Path) -> None:
    """Write all of :func:`shipped_workloads` as ``<name>.json`` into a directory."""
    for name, make in shipped_workloads().items():
        write_workload(make(), Path(directory) / f"{name}.json")


def tiny_workload() -> Workload:
    """Return eight hand-made jobs on four processors, for documentation.

    Two jobs start at once and leave one processor free; job 3 needs the whole machine and holds
    up the queue; job 4 can be backfilled; job 1 ends before its walltime, job 8 runs into it.
    """
    rows = (
        # submission, processors, run time, walltime, deadline
        (0, 2, 60, 90, None),
        (0, 1, 120, 150, 200),
        (10, 4, 60, 80, 400),
        (15, 1, 40, 60, None),
        (20, 2, 100, 200, 600),
        (30, 1, 30, 40, 90),
        (200, 3, 50, 60, None),
        (210, 1, 500, 120, None),
    )
    jobs, profiles = [], {}
    for number, (submission, size, run_time, walltime, deadline) in enumerate(rows, start=1):
        name, profiles[name] = delay_profile(run_time)
        fields = {"id": str(number), "subtime": submission, "res": size, "profile": name}
        fields |= {"walltime": walltime}
        if deadline is not None:
            fields["qos"] = {"deadline": deadline, "has_user_deadline": True}
        jobs.append(Job.from_fields(fields, where="tiny_8"))
    provenance = {"description": "eight hand-made jobs on four processors, for documentation"}
    return Workload(jobs, profiles, 4, provenance, "a generated workload")


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

_SHARED_COMMENT = """\
A small machine whose jobs share hosts, for documentation: 8 hosts of 16 cores
and 64 GB, the last two also with 2 GPUs. No network latency, so that dates are
the same in the embedded engine and in the real Batsim."""

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
    made["shared_8"] = ShippedPlatform(_shared(), f"{_SHARED_COMMENT}\nMade by qops-batsim.")
    return made


def _shared() -> Platform:
    plain = EqualHosts(hosts=6, cores=16, memory=64 * 10**9)
    with_gpus = msgspec.structs.replace(plain, hosts=2, gpus={"v100": 2}, labels=("gpu",))
    return make_mixed_cluster([plain, with_gpus])


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
        speeds=(SPEED.parse(speed, where=name),),
        cores=cores,
        bandwidth=BANDWIDTH.parse(bandwidth, where=name),
        latency=TIME.parse(latency, where=name),
        backbone_bandwidth=BANDWIDTH.parse(backbone_bandwidth, where=name),
        backbone_latency=TIME.parse(backbone_latency, where=name),
        router=f"{name}_router",
        properties={"role": "compute_node", "memory": str(round(SIZE.parse(memory, where=name)))},
        zone=site,
    )


def _add_zone(parts: PlatformParts, name: str, parent: str, properties: dict[str, str]) -> None:
    parts.claim(name, "", name)
    parts.zones[name] = Zone(name=name, routing="Full", parent=parent, properties=properties)


def _add_link(parts: PlatformParts, name: str, bandwidth: str, latency: str) -> None:
    speed, delay = BANDWIDTH.parse(bandwidth, where=name), TIME.parse(latency, where=name)
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


if __name__ == "__main__":
    write_shipped_platforms(shipped_directory("platforms"))
    write_shipped_workloads(shipped_directory("workloads"))
