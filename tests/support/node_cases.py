"""Random machines whose jobs share hosts, random jobs for them, and both as files.

The generators draw from a ``random.Random``; the strategies give them one that shrinks.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from support.node_oracles import NaiveNodes, NodeJob, Part, SharedHost, SharedMachine
from support.platform_text import HEADER

KINDS = (
    ("cores",),
    ("cores", "memory"),
    ("cores", "memory"),
    ("cores", "gpus"),
    ("cores", "memory", "gpus"),
    ("cores", "memory", "gpus", "gpus:a"),
    ("cores", "gpus", "gpus:a", "gpus:b"),
    ("memory", "fpga"),
    ("cores", "memory", "gpus", "fpga"),
)
"""Sets of kinds; a machine with typed GPUs has their sum as ``gpus``."""

SIZES = {"cores": (2, 3, 4, 8), "memory": (4, 6, 16, 32), "gpus": (1, 2, 4), "fpga": (1, 2)}
GB = 10**9


def random_host(rng: random.Random, kinds: Sequence[str]) -> dict[str, int]:
    """Return amounts of a host, which now and then lacks a kind."""
    amounts = {}
    for kind in kinds:
        if rng.random() < 0.75 or kind == kinds[0]:
            amounts[kind] = rng.choice(SIZES[kind.split(":")[0]])
    if "memory" in amounts:
        amounts["memory"] *= GB
    typed = [amount for kind, amount in amounts.items() if kind.startswith("gpus:")]
    if typed:
        amounts["gpus"] = sum(typed)
    return amounts


def random_machine(rng: random.Random, *, bare: bool = False) -> SharedMachine:
    """Return a machine of 2 to 8 hosts of one to three sorts and 1 to 4 kinds; with ``bare``, one
    of them has no amounts at all.
    """
    kinds = rng.choice(KINDS)
    sorts = [random_host(rng, kinds) for _ in range(rng.randint(1, 3))]
    drawn = [rng.choice(sorts) for _ in range(rng.choice([2, 2, 3, 4, 5, 6, 8]))]
    if not any(set(each) - {"memory"} for each in drawn):
        # Without amounts but memory it would be a number of hosts.
        drawn[0] = {"cores": 4}
    if bare:
        drawn[1] = {}
        drawn[0].setdefault("cores", 4)
    is_weighed, has_licences = rng.random() < 0.4, rng.random() < 0.4
    hosts = []
    for amounts in drawn:
        labels = frozenset(name for name in ("long", "new") if rng.random() < 0.5)
        weight = rng.choice([0, 0, 1, 2]) if is_weighed else 0
        licences = {"solver": 1} if has_licences and rng.random() < 0.4 else {}
        hosts.append(SharedHost(amounts, labels, weight, licences))
    return SharedMachine(tuple(hosts))


def random_amounts(rng: random.Random, machine: SharedMachine, most: float) -> dict[str, int]:
    """Return amounts, up to a share of a host that has them; none if that has none."""
    has = rng.choice(machine.hosts).amounts
    kinds = [kind for kind in has if has[kind] > 0]
    chosen = rng.sample(kinds, rng.randint(1, len(kinds))) if kinds else []
    if any(kind.startswith("gpus:") for kind in chosen):
        chosen = [kind for kind in chosen if kind != "gpus"]
    amounts = {}
    for kind in machine.kinds:
        if kind in chosen:
            unit = GB if kind == "memory" else 1
            amounts[kind] = unit * rng.randint(1, max(1, int(most * has[kind] / unit)))
    return amounts


def random_part(rng: random.Random, machine: SharedMachine, most_hosts: int) -> Part:
    """Return hosts that are shared or whole, with labels or without."""
    hosts = rng.randint(1, max(1, most_hosts))
    labels = frozenset(name for name in ("long", "new") if rng.random() < 0.12)
    style = rng.random()
    if style < 0.15:
        return Part(hosts, labels=labels, exclusive=rng.random() < 0.5)
    amounts = random_amounts(rng, machine, rng.choice([0.4, 0.7, 1.0, 1.0]))
    return Part(hosts, amounts, labels, exclusive=not amounts or style < 0.25)


def random_request(rng: random.Random, machine: SharedMachine) -> NodeJob:
    """Return a job of any kind of request, of a second, which may fit nowhere."""
    size = len(machine.hosts)
    style = rng.random()
    if style < 0.2:
        amounts = random_amounts(rng, machine, 0.5)
        if amounts:
            tasks = rng.randint(1, 8)
            part = random_part(rng, machine, min(size, tasks))
            part = replace(part, amounts=amounts, tasks=tasks, hosts=min(part.hosts, tasks))
            parts = [replace(part, exclusive=rng.random() < 0.15)]
        else:
            parts = [Part(1)]
    elif style < 0.35 and size > 2:
        parts = [random_part(rng, machine, size // 3) for _ in range(rng.choice([2, 2, 3]))]
    else:
        parts = [random_part(rng, machine, rng.choice([1, 1, size // 2, size]))]
    named = machine.licences
    licences = {name: rng.randint(1, named[name]) for name in named if rng.random() < 0.3}
    return NodeJob(tuple(parts), 1, licences=licences)


def random_jobs(
    rng: random.Random, machine: SharedMachine, most: int, *, deadlines: bool = False
) -> list[NodeJob]:
    """Return jobs that queue, by submission; estimates are exact or too long.

    All but a few fit the empty machine.
    """
    empty = NaiveNodes(machine)
    jobs = []
    exact = rng.random() < 0.2
    spare = rng.choice([15, 30, 60, 90])
    count = rng.randint(most // 2, most)
    span = max(1, int(rng.choice([0.2, 0.5, 1.0, 2.0]) * count))
    for _ in range(count):
        request = random_request(rng, machine)
        tries = 0
        while tries < 5 and rng.random() < 0.98 and empty.found_at(request, 0) is None:
            request = random_request(rng, machine)
            tries += 1
        run_time = rng.randint(1, 12)
        estimate = run_time if exact else run_time + rng.choice([0, 0, 1, rng.randint(0, 12)])
        submission = rng.randint(0, span)
        deadline = None
        if deadlines and rng.random() < 0.8:
            deadline = submission + estimate + rng.randint(0, spare)
        jobs.append(
            replace(
                request,
                estimate=estimate,
                submission=submission,
                run_time=run_time,
                deadline=deadline,
            )
        )
    return sorted(jobs, key=lambda job: job.submission)


@st.composite
def machines(draw: st.DrawFn) -> SharedMachine:
    """Draw a machine, one in four with a host without amounts."""
    rng = draw(st.randoms(use_true_random=False))
    return random_machine(rng, bare=rng.random() < 0.25)


@st.composite
def cases(
    draw: st.DrawFn, most: int = 10, *, deadlines: bool = False
) -> tuple[SharedMachine, list[NodeJob]]:
    """Draw a machine and jobs for it."""
    machine = draw(machines())
    rng = draw(st.randoms(use_true_random=False))
    return machine, random_jobs(rng, machine, most, deadlines=deadlines)


# As files


def platform_of(machine: SharedMachine) -> str:
    """Return a machine as a platform file, its hosts by name in the order of their numbers."""
    at = 'speed="1Gf" coordinates="0 0 0"'
    lines = [HEADER + '<platform version="4.1">', '<zone id="all" routing="Vivaldi">']
    lines.append(f'<host id="master_host" {at}/>')
    for number, host in enumerate(machine.hosts):
        properties: dict[str, Any] = {}
        typed = any(kind.startswith("gpus:") for kind in host.amounts)
        for kind, amount in host.amounts.items():
            if kind == "gpus" and typed:
                continue  # It is the sum.
            known = kind in ("cores", "memory", "gpus") or kind.startswith("gpus:")
            properties[kind if known else f"kind:{kind}"] = amount
        if host.labels:
            properties["labels"] = ",".join(sorted(host.labels))
        if host.weight:
            properties["weight"] = host.weight
        for name, amount in host.licences.items():
            properties[f"licence:{name}"] = amount
        lines.append(f'<host id="n{number}" {at}>')
        lines += [f'  <prop id="{name}" value="{properties[name]}"/>' for name in properties]
        lines.append("</host>")
    return "\n".join([*lines, "</zone>", "</platform>", ""])


def part_fields(part: Part) -> dict[str, Any]:
    """Return the fields of a component; memory is a float, as people write it (16e9)."""
    fields: dict[str, Any] = {"res": part.hosts}
    # An exclusive request without amounts is one of whole hosts.
    amounts = {k: float(n) if k == "memory" else n for k, n in part.amounts.items()}
    if part.tasks:
        fields |= {"tasks": part.tasks, "per_task": amounts}
    elif amounts:
        fields["per_host"] = amounts
    if part.labels:
        fields["hosts_with"] = sorted(part.labels)
    if part.exclusive:
        fields["exclusive"] = True
    return fields


def request_fields(job: NodeJob) -> dict[str, Any]:
    """Return what a job asks for as fields of Batsim's JSON of version 4."""
    if len(job.parts) == 1:
        fields = part_fields(job.parts[0])
    else:
        fields = {
            "res": sum(part.hosts for part in job.parts),
            "parts": [part_fields(part) for part in job.parts],
        }
    if job.licences:
        fields["licences"] = dict(job.licences)
    return fields


def workload_of(machine: SharedMachine, jobs: Sequence[NodeJob]) -> dict[str, Any]:
    """Return jobs as a workload of version 4; job ``007`` is the eighth."""
    described = []
    profiles = {}
    for slot, job in enumerate(jobs):
        qos: dict[str, Any] = {"estimated_runtime": job.estimate}
        if job.deadline is not None:
            qos["deadline"] = job.deadline
        profile = f"delay{job.lasts}"
        profiles[profile] = {"type": "delay", "delay": job.lasts}
        name = f"{slot:03d}"
        fixed = {"id": name, "subtime": job.submission, "profile": profile, "qos": qos}
        described.append(fixed | request_fields(job))
    return {"nb_res": len(machine.hosts), "jobs": described, "profiles": profiles}
