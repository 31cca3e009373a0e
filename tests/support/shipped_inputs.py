"""The platforms and workloads that come with the package, made again.

``python tests/support/shipped_inputs.py`` writes them anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.platform.assembly import PendingRoute, PlatformParts
from qops_batsim.platform.generate import MASTER_HOST, make_cluster
from qops_batsim.platform.model import Cluster, Host, Link, Platform, Route, Zone
from qops_batsim.platform.simgrid_write import write_platform
from qops_batsim.platform.units import parse_bandwidth, parse_size, parse_speed, parse_time
from qops_batsim.shipped import shipped_directory
from qops_batsim.version import __version__
from qops_batsim.workload.batsim_json import write_workload
from qops_batsim.workload.generate import DeadlineRule, generate_workload
from qops_batsim.workload.lublin import random_stream
from qops_batsim.workload.model import Profile, Workload, delay_profile, plain_number


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


# A stream of the seed that nothing else uses.
_MIXED = 23

_SIZES = (1, 2, 4, 8, 16, 32)
_MOST_APART = 4
_MEBIBYTE = 1 << 20


_MADE: dict[str, Any] = {
    "mix": {"deadline": 4.0, "high_priority": 2.0, "dedicated": 1.0, "best_effort": 3.0},
    "gap": 40.0,
    "cpu_time": (300.0, 5_400.0),
    "speed": 500e6,
    "memory": (16.0 * _MEBIBYTE, 384.0 * _MEBIBYTE),
    "communication": (1e5, 1e7),
    "apart": 0.4,
    "deadline_factor": 5.0,
    "sites": ("site_a", "site_b", "site_c"),
}
"""Numbers behind made-up applications, which stand in their workload.

Relative frequency of each class of service; mean time between submissions (s, exponential); least
and greatest CPU time of a task (s) on a host of ``speed`` flop/s, that of most hosts of
``aroma_grid``, memory of a task and what each ordered pair of tasks exchanges in half of the
applications (bytes), all three uniform in their logarithm; share of the best effort applications
whose tasks are jobs of their own (``qos.application``); deadlines over CPU time; sites of users
(``qos.origin``).
"""


def mixed_workload(
    applications: int = 48,
    seed: int = 1,
    *,
    processors: int = 68,
) -> Workload:
    """Make applications of all four classes of service.

    Each is one compute job of 1 to 32 tasks; those whose tasks are jobs of their own
    have up to 4, with the ids ``7t1``, ``7t2``, … and the common name ``7``. No application has
    more tasks than the machine has hosts (``processors``), by default those of ``aroma_grid``.
    """
    random = random_stream(seed, _MIXED)
    sizes = [size for size in _SIZES if size <= processors]
    names, weights = zip(*_MADE["mix"].items(), strict=True)
    shares = np.array(weights) / sum(weights)
    jobs: list[Job] = []
    profiles: dict[str, Profile] = {}
    submitted = 0
    for number in range(1, applications + 1):
        submitted += round(random.exponential(_MADE["gap"]))
        service = names[int(random.choice(len(names), p=shares))]
        tasks = int(random.choice(sizes))
        seconds = _drawn(random, _MADE["cpu_time"], 1)
        memory = _drawn(random, _MADE["memory"], _MEBIBYTE)
        exchanged = _drawn(random, _MADE["communication"], 1) if random.random() < 0.5 else 0
        by_itself = random.random() < _MADE["apart"] and service == "best_effort"
        tasks = min(tasks, _MOST_APART) if by_itself else tasks
        site = _MADE["sites"][int(random.integers(len(_MADE["sites"])))]
        exchanged = 0 if tasks == 1 or by_itself else exchanged
        name = f"compute{seconds}" + (f"_send{exchanged}" if exchanged else "")
        work = plain_number(seconds * _MADE["speed"])
        profiles[name] = {"type": "parallel_homogeneous", "cpu": work, "com": exchanged}
        qos: dict[str, Any] = {"class": service, "estimated_runtime": seconds}
        if service == "deadline":
            date = submitted + _MADE["deadline_factor"] * seconds
            qos |= {"deadline": plain_number(date), "has_user_deadline": True}
        qos |= {"memory": memory, "origin": site}
        fields = {"subtime": submitted, "res": tasks, "profile": name, "qos": qos}
        jobs += _jobs(str(number), fields, apart=by_itself and tasks > 1)
    provenance = {
        "command": "workload mixed",
        "applications": applications,
        "seed": seed,
        "processors": processors,
        "choices": _MADE,
        "version": __version__,
    }
    source = f"the mixed workload of seed {seed}"
    return Workload(jobs, profiles, processors, provenance, source)


def _jobs(name: str, fields: dict[str, Any], *, apart: bool) -> list[Job]:
    """Return the jobs of an application."""
    if not apart:
        return [Job.from_fields({"id": name, **fields}, where="mixed workload")]
    tasks = range(1, fields["res"] + 1)
    shared = {**fields, "res": 1, "qos": {**fields["qos"], "application": name}}
    made = ({"id": f"{name}t{number}", **shared} for number in tasks)
    return [Job.from_fields(each, where="mixed workload") for each in made]


def _drawn(random: np.random.Generator, bounds: tuple[float, float], unit: int) -> int:
    """Return a whole multiple of a unit between two numbers, uniform in its logarithm."""
    low, high = (math.log(bound) for bound in bounds)
    return max(1, round(math.exp(random.uniform(low, high)) / unit)) * unit


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


if __name__ == "__main__":
    write_shipped_platforms(shipped_directory("platforms"))
    write_shipped_workloads(shipped_directory("workloads"))
