"""Random simulations for differential tests of engines: all that they need, by a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.platform_text import HEADER

SCHEDULERS: dict[str, list[dict[str, Any]]] = {
    "fcfs": [{}],
    "easy": [
        {},
        {"order": "f1"},
        {"order": "wfp3", "backfill_order": "sjf", "starvation_bound": 300},
    ],
    "conservative": [{"reserve": "hosts"}, {"reserve": "processors"}],
    "slack": [{}],
    "nqs": [{}, {"blocked": "machine"}],
    "priced-queues": [{}, {"history": 3, "priority_limit": 5, "priority_period": 600.0}],
    "slurm": [
        {"bf_interval": 5.0, "bf_resolution": 2.0},
        {"weight_fairshare": 0, "half_life": 60.0},
    ],
    "qops": [{}, {"order": "earliest_deadline"}],
    "msb": [{}],
    "mrt": [{}],
    "fqops": [
        {"tolerance_factor": 4.0, "slack_factor": 1.5},
        {"kill_and_restart": True},
        {"kill_and_restart": True, "restart_price": 4.0, "kill_after": 5.0},
        {"kill_and_restart": True, "tolerance_factor": 4.0, "slack_factor": 2.0},
    ],
    "aroma": [{}, {"stops": 0}],
}
"""Every scheduler, with the settings that are tried."""

SPEED = 100e6
"""Speed of most hosts (flop/s)."""


@dataclass
class Case:
    """What two engines are to simulate alike."""

    name: str
    scheduler: str
    settings: dict[str, Any]
    platform: str
    """The text of its file."""
    workload: dict[str, Any]
    sharing: bool | None = None
    """Whether jobs may share hosts; None for what the scheduler is meant for."""
    events: list[dict[str, Any]] | None = None
    """Hosts that leave and return, or None."""

    def write(self, directory: Path) -> tuple[Path, Path]:
        """Write workload and platform, and ``events.txt``; return the paths of the former."""
        directory.mkdir(parents=True, exist_ok=True)
        workload, platform = directory / "workload.json", directory / "platform.xml"
        workload.write_text(json.dumps(self.workload))
        platform.write_text(self.platform)
        if self.events is not None:
            lines = "".join(f"{json.dumps(event)}\n" for event in self.events)
            (directory / "events.txt").write_text(lines)
        return workload, platform


# Platforms


def document(content: Iterable[str], routing: str = "Full") -> str:
    """Return a platform file of one zone."""
    lines = "\n".join(content)
    return (
        f'{HEADER}<platform version="4.1">\n<zone id="AS0" routing="{routing}">\n{lines}\n'
        "</zone>\n</platform>\n"
    )


def without_network(rng: random.Random, hosts: int) -> str:
    """Hosts of one or several speeds and numbers of cores, without latencies."""
    speeds = rng.choice([[1.0], [0.5, 1.0, 2.0, 4.0], [1.0, 1.0, 1.5]])
    cores = rng.choice([[1], [1, 2, 4]])
    lines = ['<host id="master_host" coordinates="0 0 0" speed="100Mf"/>']
    for number in range(hosts):
        lines.append(
            f'<host id="h{number}" coordinates="0 0 0" speed="{rng.choice(speeds) * SPEED:g}f" '
            f'core="{rng.choice(cores)}"/>'
        )
    return document(lines, "Vivaldi")


def _latency(rng: random.Random) -> str:
    return rng.choice(["0s", "1us", "50us", "1ms", f"{rng.randint(1, 5000)}us"])


def _bandwidth(rng: random.Random) -> str:
    return f"{rng.choice([1, 12.5, 125, 1250])}MBps"


def _policy(rng: random.Random, *more: str) -> str:
    return f'sharing_policy="{rng.choice(["SHARED", "FATPIPE", *more])}"'


def star(rng: random.Random, hosts: int) -> str:
    """Hosts and the master each behind a link of their own, which go both ways."""
    same, lines = rng.random() < 0.5, []
    every = f'bandwidth="{_bandwidth(rng)}" latency="{_latency(rng)}"'
    names = ["master_host", *(f"h{number}" for number in range(hosts))]
    for name in names:
        one = every if same else f'bandwidth="{_bandwidth(rng)}" latency="{_latency(rng)}"'
        lines.append(f'<link id="l_{name}" {one} sharing_policy="SPLITDUPLEX"/>')
    # Links of no latency take Batsim's messages some time as well, that of a byte.
    lines[0] = lines[0].replace('latency="0s"', 'latency="20us"')
    lines += [f'<host id="{name}" speed="100Mf"/>' for name in names]
    lines += [f'<host_link id="{name}" up="l_{name}_UP" down="l_{name}_DOWN"/>' for name in names]
    if rng.random() < 0.5:
        lines.append(
            f'<backbone id="spine" bandwidth="{_bandwidth(rng)}" latency="{_latency(rng)}"/>'
        )
    return document(lines, "Cluster")


def fully_connected(rng: random.Random, hosts: int) -> str:
    """A route with links of its own, or shared ones, between each two hosts."""
    names = ["master_host", *(f"h{number}" for number in range(hosts))]
    lines = [
        f'<link id="k{number}" bandwidth="{_bandwidth(rng)}" latency="{_latency(rng)}" '
        f"{_policy(rng)}/>"
        for number in range(6)
    ]
    lines += [
        f'<host id="{name}" speed="{rng.choice([50, 100, 200])}Mf" core="{rng.choice([1, 2])}"/>'
        for name in names
    ]
    for place, source in enumerate(names):
        for destination in names[place + 1 :]:
            links = rng.sample(range(6), rng.choice([1, 1, 2, 3]))
            crossed = "".join(f'<link_ctn id="k{number}"/>' for number in links)
            lines.append(f'<route src="{source}" dst="{destination}">{crossed}</route>')
    return document(lines)


def clusters(rng: random.Random, hosts: int) -> str:
    """Several clusters, and the master in a zone of its own, near or far away."""
    count = min(rng.choice([1, 2, 3]), hosts)
    lines = [
        '<zone id="administration" routing="Full"><host id="master_host" speed="100Mf"/></zone>'
    ]
    for number in range(count):
        first, last = number * hosts // count, (number + 1) * hosts // count - 1
        spine = f'bb_bw="{_bandwidth(rng)}" bb_lat="{_latency(rng)}" ' if rng.random() < 0.5 else ""
        lines.append(
            f'<cluster id="c{number}" prefix="c{number}_" suffix="" radical="{first}-{last}" '
            f'speed="{rng.choice([50, 100, 200])}Mf" core="{rng.choice([1, 2])}" '
            f'bw="{_bandwidth(rng)}" lat="{_latency(rng)}" {spine}router_id="r{number}"/>'
        )
    ends = ["administration", *(f"c{number}" for number in range(count))]
    gates = ["master_host", *(f"r{number}" for number in range(count))]
    links, routes = [], []
    for place in range(len(ends)):
        for other in range(place + 1, len(ends)):
            far = place == 0 and rng.random() < 0.3
            latency = f"{rng.randint(20, 200)}ms" if far else _latency(rng)
            links.append(
                f'<link id="w{place}_{other}" bandwidth="{_bandwidth(rng)}" '
                f'latency="{latency}" {_policy(rng)}/>'
            )
            routes.append(
                f'<zoneRoute src="{ends[place]}" dst="{ends[other]}" gw_src="{gates[place]}" '
                f'gw_dst="{gates[other]}"><link_ctn id="w{place}_{other}"/></zoneRoute>'
            )
    return document([*lines, *links, *routes])


def vivaldi(rng: random.Random, hosts: int) -> str:
    """Hosts without links, at places of which distances are latencies."""
    lines = ['<host id="master_host" coordinates="0 0 0" speed="100Mf"/>']
    for number in range(hosts):
        place = " ".join(f"{rng.uniform(-20, 20):.3f}" for _ in range(2))
        lines.append(
            f'<host id="h{number}" coordinates="{place} {rng.uniform(0, 3):.3f}" '
            f'speed="{rng.choice([50, 100, 133.7])}Mf" core="{rng.choice([1, 2, 4])}"/>'
        )
    return document(lines, "Vivaldi")


NETWORKS: tuple[Callable[[random.Random, int], str], ...] = (
    star,
    fully_connected,
    clusters,
    vivaldi,
)
"""Kinds of platforms with latencies."""


# Workloads


@dataclass
class Style:
    """What the jobs of a workload are like."""

    network: bool
    whole_seconds: bool
    delays_only: bool
    communicates: bool
    classes: bool
    honest: bool = False
    """Whether no estimate is too short."""
    mean: float = 20.0
    """Mean length of jobs, before the shortest and the longest are cut (seconds)."""
    digits: int | None = None
    """Decimals of dates and run times that are no whole seconds; None for various."""


def profile(rng: random.Random, style: Style, seconds: float) -> dict[str, Any]:
    """Return an execution profile of about that length on one host of the usual speed."""
    kind = "delay" if style.delays_only else rng.choice(["delay", "compute", "compute", "composed"])
    if kind == "delay":
        return {"type": "delay", "delay": seconds}
    sent = rng.choice([0, 0, 1e5, 1e6]) if style.communicates else 0
    return {"type": "parallel_homogeneous", "cpu": round(seconds * SPEED), "com": sent}


def workload(rng: random.Random, hosts: int, jobs: int, style: Style) -> dict[str, Any]:
    """Return a workload that keeps the machine busy, with all that users may ask for."""
    profiles: dict[str, Any] = {}
    rows = []
    now = 0.0
    for number in range(jobs):
        now += rng.choice([0, 0, rng.randint(0, 10), rng.expovariate(0.2)]) * (style.mean / 20)
        submitted = (
            round(now) if style.whole_seconds else round(now, _digits(rng, style, [0, 1, 3, 6]))
        )
        mean = 0.6 * hosts
        seconds = _seconds(rng, style)
        wide = rng.random() < 0.02
        res = hosts + 1 if wide else max(1, min(hosts, round(rng.expovariate(1 / mean))))
        name = f"p{number}"
        profiles[name] = profile(rng, style, seconds)
        row: dict[str, Any] = {"id": str(number), "subtime": submitted, "res": res, "profile": name}
        estimate = seconds * rng.choice([1, 1, 1, 1.5, 2, 5])
        if rng.random() < 0.1 and not style.honest:
            estimate = seconds * rng.choice([0.5, 0.999])  # It outlives this, or is killed there.
        told = estimate if style.honest else round(estimate, 6)
        qos: dict[str, Any] = {}
        if rng.random() < 0.5:
            row["walltime"] = told
        else:
            qos["estimated_runtime"] = told
        if rng.random() < 0.6:
            patience = rng.choice([1, 1, 1.2, 2, 5])
            qos["deadline"] = round(submitted + patience * estimate, 6)
        if style.classes and rng.random() < 0.7:
            classes = ["high_priority", "dedicated", "best_effort"]
            qos["class"] = "deadline" if "deadline" in qos else rng.choice(classes)
        if rng.random() < 0.2:
            qos["queue"] = rng.choice(["low", "normal", "high"])
        if qos:
            row["qos"] = qos
        rows.append(row)
    if not style.delays_only:
        _compose(rng, profiles, rows)
    return {"nb_res": hosts, "jobs": rows, "profiles": profiles}


def _seconds(rng: random.Random, style: Style) -> float:
    """Return how long a job runs."""
    shortest = style.mean / 20
    seconds = max(shortest, min(rng.expovariate(1 / style.mean), 6 * style.mean))
    if style.whole_seconds:
        return max(1, round(seconds))
    return max(shortest, round(seconds, _digits(rng, style, [0, 2, 6])))


def _digits(rng: random.Random, style: Style, various: list[int]) -> int:
    return rng.choice(various) if style.digits is None else style.digits


def _compose(rng: random.Random, profiles: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    for row in rows:
        name = row["profile"]
        if rng.random() < 0.1:
            step = f"{name}_step"
            profiles[step] = profiles[name]
            repeat = rng.choice([1, 2, 3])
            profiles[name] = {"type": "composed", "seq": [step], "repeat": repeat}
            if "walltime" in row:
                # Batsim forgets a walltime that is over exactly when a computing step is.
                row["walltime"] = round(1.01 * repeat * row["walltime"] + 0.3, 6)
            else:
                row["qos"]["estimated_runtime"] *= repeat


def outages(rng: random.Random, hosts: int, *, until: float = 200) -> list[dict[str, Any]]:
    """Return events of hosts that leave up to a date (seconds), some of which return.

    All dates are whole seconds if that one is.
    """

    def some(least: int) -> float:
        return rng.randint(least, until) if isinstance(until, int) else rng.uniform(least, until)

    events: list[dict[str, Any]] = []
    cuts = sorted(rng.sample(range(hosts + 1), rng.choice([2, min(3, hosts + 1)])))
    for first, after in pairwise(cuts):
        gone = f"{first}-{after - 1}" if after - 1 > first else str(first)
        away = float(some(0))
        events.append({"timestamp": away, "type": "machine_unavailable", "resources": gone})
        if rng.random() < 0.8:
            back = away + some(1)
            events.append({"timestamp": back, "type": "machine_available", "resources": gone})
    return sorted(events, key=lambda event: float(event["timestamp"]))


def random_case(
    seed: int, scheduler: str, *, network: bool, jobs: int = 40, events: bool = False
) -> Case:
    """Return the case of a seed: the same wherever it is made."""
    rng = random.Random(f"{seed} {scheduler} {network}")
    settings = rng.choice(SCHEDULERS[scheduler])
    hosts = rng.choice([2, 4, 8, 12])
    make = rng.choice(NETWORKS) if network else without_network
    style = Style(
        network=network,
        whole_seconds=rng.random() < 0.5,
        delays_only=rng.random() < (0.2 if scheduler == "aroma" else 0.5),
        communicates=network and rng.random() < 0.5,
        classes=scheduler == "aroma",
    )
    return Case(
        name=f"{scheduler} {seed} {make.__name__}",
        scheduler=scheduler,
        settings=settings,
        platform=make(rng, hosts),
        workload=workload(rng, hosts, jobs, style),
        events=outages(rng, hosts) if events else None,
    )
