"""Random platforms of zones inside zones, and simulations on them, by a seed.

Zones of every routing for which Batsim runs and SimGrid is exact (none of routing None, at which
Batsim aborts, nor Vivaldi), clusters, up to three zones inside each other, hosts
of several speeds and numbers of cores, links of 0 to 30 ms of every policy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import combinations

from support import random_simulations as simulations
from support.random_simulations import SCHEDULERS, SPEED, Case, Style

ROUTINGS = ("Full", "Floyd", "Dijkstra", "DijkstraCache")
"""Routings of zones whose routes are given one by one."""

LATENCIES = {
    "none": ["0s"],
    "near": ["0s", "1us", "50us", "1ms"],
    "any": ["0s", "50us", "1ms", "7.5ms", "30ms", ""],
    "far": ["30ms"],
}
"""Latencies of the links of a platform; empty stands for one of up to 30 ms at random."""


@dataclass
class Zone:
    """A zone or cluster: its elements, and the nodes through which others may reach it."""

    name: str
    lines: list[str]
    gateways: list[str]


@dataclass
class Builder:
    """Zones, links and routes drawn so far; ``gaps`` leaves out some routes of Full zones."""

    rng: random.Random
    latencies: list[str]
    gaps: bool = False
    names: int = 0
    links: list[tuple[str, bool]] = field(default_factory=list)
    """Links of the zone at hand, and whether each has two ways."""

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def latency(self) -> str:
        return self.rng.choice(self.latencies) or f"{self.rng.randint(1, 30_000)}us"

    def traits(self) -> str:
        """Return speed and cores of a host."""
        speed = self.rng.choice([0.5, 1.0, 1.0, 1.5, 4.0]) * SPEED
        return f'speed="{speed:g}f" core="{self.rng.choice([1, 1, 2, 4])}"'

    def wires(self, count: int) -> list[str]:
        """Return the elements of so many new links, from which :meth:`crossed` chooses."""
        self.links = []
        lines = []
        for _ in range(count):
            name, policy = self.name("k"), self.rng.choice(["SHARED", "FATPIPE", "SPLITDUPLEX"])
            self.links.append((name, policy == "SPLITDUPLEX"))
            bandwidth = self.rng.choice([12.5, 125, 1250])
            lines.append(
                f'<link id="{name}" bandwidth="{bandwidth}MBps" latency="{self.latency()}" '
                f'sharing_policy="{policy}"/>'
            )
        return lines

    def crossed(self) -> str:
        """Return the links of a route."""
        chosen = self.rng.sample(self.links, min(len(self.links), self.rng.choice([1, 1, 2])))
        ways = [
            f' direction="{self.rng.choice(["UP", "DOWN"])}"' if two else "" for _, two in chosen
        ]
        return "".join(
            f'<link_ctn id="{name}"{way}/>' for (name, _), way in zip(chosen, ways, strict=True)
        )

    def pairs(self, ends: int, routing: str) -> list[tuple[int, int]]:
        """Return which ends a route joins: all in a Full zone, else those of a tree."""
        if routing != "Full":
            return [(self.rng.randrange(place), place) for place in range(1, ends)]
        return [pair for pair in combinations(range(ends), 2) if not self.gap()]

    def gap(self) -> bool:
        return self.gaps and self.rng.random() < 0.2

    def there_and_back(self, element: str, a: str, b: str) -> list[str]:
        """Return a route that holds both ways, or two; ``a`` and ``b`` are attributes of the ends.

        ``SRC`` in them stands for ``src``, if they are the first, else for ``dst``.
        """

        def one(first: str, second: str, more: str) -> str:
            ends = f"{first.replace('SRC', 'src')} {second.replace('SRC', 'dst')}"
            return f"<{element} {ends}{more}>{self.crossed()}</{element}>"

        if self.rng.random() < 0.7:
            return [one(a, b, "")]
        return [one(a, b, ' symmetrical="NO"'), one(b, a, ' symmetrical="NO"')]

    # Zones of hosts

    def routed(self, hosts: list[str]) -> Zone:
        """Return hosts, and at times a router, joined by routes."""
        zone, routing = self.name("z"), self.rng.choice(ROUTINGS)
        nodes = list(hosts)
        lines = [f'<host id="{name}" {self.traits()}/>' for name in hosts]
        if self.rng.random() < 0.5:
            nodes.append(self.name("r"))
            lines.append(f'<router id="{nodes[-1]}"/>')
        if len(nodes) == 1 and routing.startswith("Dijkstra"):
            routing = "Floyd"  # Batsim crashes at the way of a zone's only node to itself.
        lines += self.wires(self.rng.choice([1, 2, 4]))
        for one, other in self.pairs(len(nodes), routing):
            lines += self.there_and_back("route", f'SRC="{nodes[one]}"', f'SRC="{nodes[other]}"')
        return Zone(zone, _zone(zone, routing, lines), nodes)

    def star(self, hosts: list[str]) -> Zone:
        """Return hosts behind a link each, around a router, at times with a backbone."""
        zone, router = self.name("z"), self.name("r")
        lines = [f'<host id="{name}" {self.traits()}/>' for name in hosts]
        lines.append(f'<router id="{router}"/>')
        for name in hosts:
            lines.append(
                f'<link id="l_{name}" bandwidth="125MBps" latency="{self.latency()}" '
                'sharing_policy="SPLITDUPLEX"/>'
            )
        lines += [f'<host_link id="{h}" up="l_{h}_UP" down="l_{h}_DOWN"/>' for h in hosts]
        if self.rng.random() < 0.5:
            lines.append(
                f'<backbone id="{self.name("b")}" bandwidth="1GBps" latency="{self.latency()}"/>'
            )
        return Zone(zone, _zone(zone, "Cluster", lines), [router, self.rng.choice(hosts)])

    def cluster(self, hosts: list[str]) -> Zone:
        """Return hosts of the short form, all alike."""
        name, router = self.name("c"), self.name("r")
        more = [f'router_id="{router}"']
        if self.rng.random() < 0.4:
            more.append(f'bb_bw="1GBps" bb_lat="{self.latency()}"')
        if self.rng.random() < 0.3:
            more.append(f'loopback_bw="1GBps" loopback_lat="{self.latency()}"')
        if self.rng.random() < 0.3:
            more.append('limiter_link="50MBps"')
        policy = self.rng.choice(["SHARED", "FATPIPE", "SPLITDUPLEX"])
        numbers = ",".join(host.removeprefix("h") for host in hosts)
        line = (
            f'<cluster id="{name}" prefix="h" suffix="" radical="{numbers}" {self.traits()} '
            f'bw="125MBps" lat="{self.latency()}" sharing_policy="{policy}" {" ".join(more)}/>'
        )
        return Zone(name, [line], [router])

    def leaf(self, hosts: list[str]) -> Zone:
        # A cluster numbers its hosts; the master has a name.
        kinds = [self.routed, self.routed, self.star]
        if "master_host" not in hosts:
            kinds += [self.cluster, self.cluster]
        return self.rng.choice(kinds)(hosts)

    # Zones of zones

    def joined(self, parts: list[Zone], name: str) -> Zone:
        """Return a zone of zones, joined through gateways at random."""
        routing = self.rng.choice(ROUTINGS)
        lines = [line for part in parts for line in part.lines]
        if routing.startswith("Dijkstra"):
            # Batsim crashes where a way enters a zone by one gateway and leaves it by another.
            for part in parts:
                part.gateways = [self.rng.choice(part.gateways)]
        lines += self.wires(self.rng.choice([1, 2, 4]))
        gaps = self.gaps
        self.gaps = False
        for one, other in self.pairs(len(parts), routing):
            lines += self.there_and_back("zoneRoute", *map(self.gate, (parts[one], parts[other])))
        self.gaps = gaps
        return Zone(name, _zone(name, routing, lines), [g for part in parts for g in part.gateways])

    def gate(self, zone: Zone) -> str:
        return f'SRC="{zone.name}" gw_SRC="{self.rng.choice(zone.gateways)}"'

    def nested(self, hosts: list[str], depth: int) -> Zone:
        """Return a zone of hosts, or one of zones inside each other up to so deep."""
        if depth == 0 or len(hosts) < 2:
            return self.leaf(hosts)
        cuts = sorted(
            self.rng.sample(range(1, len(hosts)), min(len(hosts) - 1, self.rng.choice([1, 2])))
        )
        ends = zip([0, *cuts], [*cuts, len(hosts)], strict=True)
        parts = [
            self.nested(hosts[first:after], self.rng.randint(0, depth - 1)) for first, after in ends
        ]
        return self.joined(parts, self.name("z"))


def _zone(name: str, routing: str, lines: list[str]) -> list[str]:
    return [f'<zone id="{name}" routing="{routing}">', *lines, "</zone>"]


def _document(zone: Zone) -> str:
    lines = "\n".join(zone.lines)
    return f'{simulations.HEADER}<platform version="4.1">\n{lines}\n</platform>\n'


def zones(rng: random.Random, hosts: int, *, gaps: bool = False) -> str:
    """Return a platform of zones up to three deep, the master among the hosts or by itself."""
    builder = Builder(rng, LATENCIES[rng.choice(list(LATENCIES))], gaps)
    names = [f"h{number}" for number in range(hosts)]
    rng.shuffle(names)
    depth = rng.choice([0, 1, 2, 2, 3])
    if depth == 0 or rng.random() < 0.3:
        names.insert(rng.randint(0, hosts), "master_host")
        return _document(builder.nested(names, depth))
    parts = [builder.leaf(["master_host"]), builder.nested(names, depth - 1)]
    return _document(builder.joined(parts, "AS0"))


def zoned_case(seed: int, schedulers: list[str] | None = None, jobs: int = 40) -> Case:
    """Return the case of a seed; the schedulers take turns.

    Half of the cases are honest: nothing outlives its estimate, so that each promise counts.
    """
    rng = random.Random(f"zones {seed}")
    names = schedulers or list(SCHEDULERS)
    scheduler = names[seed % len(names)]
    settings = SCHEDULERS[scheduler][seed // len(names) % len(SCHEDULERS[scheduler])]
    kind = rng.choice(["zones", "zones", "zones", "zones", "zones", "gaps"])
    hosts = rng.choice([2, 4, 8, 12])
    honest = rng.random() < 0.5
    style = Style(
        network=True,
        whole_seconds=rng.random() < 0.2,
        delays_only=honest or rng.random() < 0.3,
        communicates=kind == "zones" and rng.random() < 0.5,
        classes=scheduler == "aroma",
        honest=honest,
        mean=rng.choice([1.0, 20.0]),
        digits=rng.choice([None, 6, 17]),
    )
    platform = zones(rng, hosts, gaps=kind == "gaps")
    leave = rng.random() < 0.4
    return Case(
        name=f"{scheduler} {seed} {kind}",
        scheduler=scheduler,
        settings=settings,
        platform=platform,
        workload=simulations.workload(rng, hosts, jobs, style),
        events=simulations.outages(rng, hosts, until=10.0 * style.mean) if leave else None,
    )
