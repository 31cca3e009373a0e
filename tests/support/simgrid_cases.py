"""Random platforms and jobs whose run times SimGrid and our engine must agree on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from qops_batsim import Job
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions, Simulation
from qops_batsim.platform import Platform, parse_platform
from qops_batsim.protocol import Decision, Event, ExecuteJob, JobSubmitted, Message, Stamped
from qops_batsim.workload import Workload
from support import random_simulations as simulations
from support.platform_text import HEADER


@dataclass
class JudgedJob:
    """A job, the hosts of its executors by name, and what each step does there."""

    id: str
    start: float
    executors: list[str]
    profile: str


@dataclass
class Case:
    """A platform file's text, profiles, and jobs that may share hosts and links."""

    platform: str
    jobs: list[JudgedJob]
    profiles: dict[str, dict[str, Any]]

    def simgrid_jobs(self) -> list[dict[str, Any]]:
        """Return the jobs as SimGrid's side takes them."""
        return [
            {
                "id": job.id,
                "start": job.start,
                "hosts": job.executors,
                "steps": list(self._steps(job.profile, len(job.executors))),
            }
            for job in self.jobs
        ]

    def _steps(self, name: str, count: int) -> Iterable[dict[str, Any]]:
        """Say what a profile does, written here once more, from Batsim's documentation."""
        profile = self.profiles[name]
        if profile["type"] == "delay":
            yield {"sleep": profile["delay"]}
        elif profile["type"] == "composed":
            for _ in range(profile.get("repeat", 1)):
                for step in profile["seq"]:
                    yield from self._steps(step, count)
        elif profile["type"] == "parallel":
            yield {"flops": profile["cpu"], "bytes": profile["com"]}
        else:
            share = count if profile["type"].endswith("total") else 1
            sent = profile["com"] / share
            yield {
                "flops": [profile["cpu"] / share] * count,
                "bytes": [0.0 if i == j else sent for i in range(count) for j in range(count)],
            }


# Platforms


def joined(rng: random.Random, hosts: int) -> str:
    """Hosts in a chain or tree, whose routes are found by the number of links."""
    names = ["master_host", *(f"h{number}" for number in range(hosts))]
    lines = [
        f'<host id="{name}" speed="{rng.choice([50, 100, 200])}Mf" core="{rng.choice([1, 3])}"/>'
        for name in names
    ]
    routes = []
    for place in range(1, len(names)):
        policy = rng.choice(["SHARED", "SHARED", "FATPIPE", "SPLITDUPLEX"])
        lines.append(
            f'<link id="k{place}" bandwidth="{rng.choice([1, 12.5, 125])}MBps" '
            f'latency="{rng.choice([0, 1, 50, 1000])}us" sharing_policy="{policy}"/>'
        )
        way = ' direction="UP"' if policy == "SPLITDUPLEX" else ""
        routes.append(
            f'<route src="{names[place]}" dst="{names[rng.randrange(place)]}">'
            f'<link_ctn id="k{place}"{way}/></route>'
        )
    return simulations.document([*lines, *routes], rng.choice(["Floyd", "Dijkstra"]))


def cluster(rng: random.Random, hosts: int) -> str:
    """One cluster with everything that a cluster can have."""
    more = []
    if rng.random() < 0.6:
        more.append(
            f'bb_bw="{rng.choice([5, 50, 500])}MBps" bb_lat="{rng.choice([0, 10, 500])}us" '
            f'bb_sharing_policy="{rng.choice(["SHARED", "FATPIPE"])}"'
        )
    if rng.random() < 0.3:
        more.append('loopback_bw="20MBps" loopback_lat="3us"')
    if rng.random() < 0.3:
        more.append('limiter_link="7MBps"')
    if rng.random() < 0.8:
        more.append(f'sharing_policy="{rng.choice(["SHARED", "FATPIPE", "SPLITDUPLEX"])}"')
    return (
        f'{HEADER}<platform version="4.1">\n<zone id="AS0" routing="Full">\n'
        '<zone id="administration" routing="Full"><host id="master_host" speed="1Mf"/></zone>\n'
        f'<cluster id="c" prefix="h" suffix="" radical="0-{hosts - 1}" speed="100Mf" '
        f'core="{rng.choice([1, 2, 4])}" bw="{rng.choice([1, 12.5, 125])}MBps" '
        f'lat="{rng.choice([0, 20, 2000])}us" {" ".join(more)} router_id="r"/>\n'
        '<link id="w" bandwidth="1GBps" latency="0s"/>\n'
        '<zoneRoute src="administration" dst="c" gw_src="master_host" gw_dst="r">'
        '<link_ctn id="w"/></zoneRoute>\n</zone>\n</platform>\n'
    )


PLATFORMS: tuple[Callable[[random.Random, int], str], ...] = (
    simulations.without_network,
    *simulations.NETWORKS,
    joined,
    cluster,
)


# Jobs


def _amount(rng: random.Random, least: float, most: float) -> float:
    return round(10 ** rng.uniform(least, most), rng.choice([0, 0, 2]))


def _profile(rng: random.Random, count: int) -> dict[str, Any]:
    """Return work for so many executors that takes some seconds."""
    kind = rng.choice(["homogeneous", "homogeneous", "total", "parallel", "parallel", "delay"])
    if kind == "delay":
        return {"type": "delay", "delay": _amount(rng, -1, 1) + 0.01}
    sends = rng.random() < 0.6
    if kind == "parallel":
        return {
            "type": "parallel",
            "cpu": [rng.choice([0.0, _amount(rng, 6, 9)]) for _ in range(count - 1)]
            + [_amount(rng, 6, 9)],
            "com": [
                _amount(rng, 3, 7) if sends and rng.random() < 0.5 else 0.0
                for _ in range(count * count)
            ],
        }
    return {
        "type": "parallel_homogeneous" if kind == "homogeneous" else "parallel_homogeneous_total",
        "cpu": _amount(rng, 7, 9) if not sends or rng.random() < 0.7 else 0.0,
        "com": _amount(rng, 4, 7) if sends else 0.0,
    }


def random_case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(f"judge {seed}")
    hosts = rng.choice([1, 2, 3, 5, 8])
    text = rng.choice(PLATFORMS)(rng, hosts)
    names = host_names(text, hosts)
    case = Case(text, [], {})
    crowded = rng.random() < 0.3  # several executors of a job may be on one host
    for number in range(rng.choice([1, 2, 3, 6, 10])):
        count = rng.randint(1, hosts)
        placed = rng.choices(names, k=count) if crowded else rng.sample(names, count)
        profile = f"p{number}"
        if rng.random() < 0.2:
            steps = [f"{profile}_{index}" for index in range(rng.choice([1, 2, 3]))]
            case.profiles |= {step: _profile(rng, count) for step in steps}
            case.profiles[profile] = {
                "type": "composed",
                "seq": steps,
                "repeat": rng.choice([1, 1, 2]),
            }
        else:
            case.profiles[profile] = _profile(rng, count)
        start = rng.choice([0.0, 0.0, 1.0, round(rng.uniform(0, 5), 3)])
        case.jobs.append(JudgedJob(f"{number:02}", start, placed, profile))
    case.jobs.sort(key=lambda job: (job.start, job.id))
    return case


def host_names(text: str, hosts: int) -> list[str]:
    """Return the names of the compute hosts of a platform's text."""
    platform = parse_platform(text.encode(), source="random.xml")
    assert len(platform.compute_hosts) == hosts
    return [host.name for host in platform.compute_hosts]


# Our side


class StartsAtOnce:
    """Starts every job when it is submitted, its executors where they belong."""

    def __init__(self, case: Case, platform: Platform) -> None:
        self._jobs = {job.id: job for job in case.jobs}
        self._ids = {host.name: number for number, host in enumerate(platform.compute_hosts)}

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        said = [
            Stamped[Decision](message.now, self._execute(item.body.job_id))
            for item in message.events
            if isinstance(item.body, JobSubmitted)
        ]
        return Message(message.now, said)

    def _execute(self, job_id: str) -> ExecuteJob:
        job = self._jobs[job_id.partition("!")[2]]
        ids = [self._ids[name] for name in job.executors]
        hosts = HostSet.of(ids)
        listed = list(hosts)
        mapping = {str(n): str(listed.index(host)) for n, host in enumerate(ids)}
        return ExecuteJob(job_id, hosts, mapping)


def our_ends(case: Case) -> dict[str, float]:
    """Return the end of each job in our engine (seconds)."""
    platform = parse_platform(case.platform.encode(), source="random.xml")
    jobs = [Job(job.id, job.start, len(job.executors), job.profile) for job in case.jobs]
    workload = Workload(jobs=jobs, profiles=case.profiles, processors=len(platform.compute_hosts))
    options = EngineOptions(compute_sharing=True, message_delays=False)
    simulation = Simulation(platform, [workload], StartsAtOnce(case, platform), options)
    simulation.run()
    return {record.local_id: record.finish for record in simulation.ended}
