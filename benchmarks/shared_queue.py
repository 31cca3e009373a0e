"""A made queue of a machine whose nodes are shared, in the text of Slurm."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

NOW = 1_782_000_000
TIMES = (30, 60, 120, 240, 480, 720, 1440, 2880, 4320)
"""Time limits (minutes)."""

STARTED = {"part": 70, "nodes": 7, "tasks": 7, "gpus": 14, "alone": 2}
WAITING = {"part": 40, "nodes": 25, "tasks": 10, "gpus": 20, "alone": 5}
"""Forms of jobs, with their shares of those that run and wait (percent): the large ones wait."""

Node = dict[str, Any]
Record = dict[str, Any]


def made_queue(hosts: int, running: int, waiting: int, seed: int) -> tuple[str, str]:
    """Return nodes and queue as ``scontrol show node`` and ``squeue --json`` tell them.

    Of ten nodes seven have 64 cores, two four times the memory as well, and one GPUs; partitions
    overlap. Jobs run wherever they fit, until there are so many, or three times as many as wait did
    not fit.
    """
    rng = random.Random(seed)
    nodes = made_nodes(hosts, seed)
    held: list[Record] = []
    misfits = 0
    while len(held) < running and misfits < 3 * waiting:
        started = _started(_job(100_000 + len(held), rng), nodes, rng)
        if started is None:
            misfits += 1
        else:
            held.append(started)
    line = [_job(200_000 + number, rng, WAITING) for number in range(waiting)]
    return "\n".join(map(_text, nodes)), json.dumps({"meta": {}, "jobs": [*held, *line]})


def made_nodes(hosts: int, seed: int) -> list[Node]:
    """Return the nodes of the machine, with nothing on them."""
    rng = random.Random(seed)
    return [_node(number, rng) for number in range(hosts)]


def _node(number: int, rng: random.Random) -> Node:
    kind = number % 10
    gpus = 4 if kind == 9 else 0
    partitions = ["gpu"] if gpus else ["cpu"] + ["long"] * (kind < 4) + ["big"] * (kind > 6)
    return {
        "name": f"n{number:04}",
        "cores": 64,
        "memory": 1_024_000 if kind in (7, 8) else 256_000,
        "gpus": gpus,
        "partitions": [*partitions, "any"],
        "features": ["ib"] if rng.random() < 0.6 else ["eth"],
        "free": {"cores": 64, "memory": 1_024_000 if kind in (7, 8) else 256_000, "gpus": gpus},
    }


def _text(node: Node) -> str:
    free = node["free"]
    used = node["cores"] - free["cores"]
    gres = f"gpu:a100:{node['gpus']}(S:0)" if node["gpus"] else "(null)"
    return (
        f"NodeName={node['name']} Arch=x86_64 CoresPerSocket=32\n"
        f"   CPUAlloc={used} CPUEfctv={node['cores']} CPUTot={node['cores']} CPULoad=0.01\n"
        f"   AvailableFeatures={','.join(node['features'])}\n   Gres={gres}\n"
        f"   RealMemory={node['memory']} AllocMem={node['memory'] - free['memory']} Sockets=2\n"
        f"   State={'MIXED' if used else 'IDLE'} ThreadsPerCore=1 Weight={1 + bool(node['gpus'])}\n"
        f"   Partitions={','.join(node['partitions'])} \n"
    )


def _job(number: int, rng: random.Random, shares: Mapping[str, int] = STARTED) -> Record:
    """Return a waiting job: tasks, some nodes, GPUs, a node of its own, or a part of a node."""
    form = rng.choices([*shares], [*shares.values()])[0]
    count = rng.choice([2, 2, 3, 4, 8]) if form == "nodes" else 1
    each = rng.choice([8, 16, 32, 64] if form == "nodes" else [1, 2, 4, 4, 8, 8, 16, 32])
    tasks = rng.choice([16, 32, 48, 64]) if form == "tasks" else 1
    cores = tasks if form == "tasks" else each * count
    partition = rng.choice(["cpu", "cpu", "long", "big", "any", "cpu,any", "cpu,big", "long,big"])
    job: Record = {
        "job_id": number,
        "job_state": "PENDING",
        "state_reason": "Priority",
        "partition": rng.choice(["gpu", "gpu,any"]) if form == "gpus" else partition,
        "user_name": f"user{rng.randrange(80)}",
        "name": "made",
        "priority": rng.randrange(1, 100_000),
        "cpus": cores,
        "node_count": count,
        "max_nodes": 0 if form == "tasks" else count,
        "tasks": tasks,
        "time_limit": rng.choice(TIMES),
        "submit_time": NOW - rng.randrange(60, 200_000),
        "start_time": 0,
        "shared": "none" if form == "alone" else None,
        "tres_req_str": f"cpu={cores},mem=1G,node={count},billing={cores}",
        "features": rng.choices(["", "ib"], [9, 1])[0],
    }
    if form == "tasks":
        job["memory_per_cpu"] = rng.choice([500, 2000, 4000])
    else:
        job["memory_per_node"] = each * rng.choice([500, 1000, 2000, 3900])
    if form == "gpus":
        job["tres_per_node"] = f"gres:gpu{rng.choice(['', ':a100'])}:{rng.choice([1, 1, 2, 4])}"
    return job


def _started(job: Record, nodes: list[Node], rng: random.Random) -> Record | None:
    """Return a job as it runs on nodes that have room, None if too few have."""
    count = job["node_count"]
    each = {
        "cores": job["cpus"] // count,
        "memory": job.get("memory_per_node") or job["memory_per_cpu"] * job["cpus"],
        "gpus": int((job.get("tres_per_node") or "0").rpartition(":")[2]),
    }
    is_alone = job["shared"] == "none"
    partitions = {*job["partition"].split(",")}
    # Nodes are looked at from a random one on.
    first = rng.randrange(len(nodes))
    chosen: list[Node] = []
    for node in [*nodes[first:], *nodes[:first]]:
        free = node["free"]
        fits = all(free[kind] >= amount for kind, amount in each.items())
        fits = fits and not partitions.isdisjoint(node["partitions"])
        fits = fits and job["features"] in ["", *node["features"]]
        if fits and not (is_alone and free["cores"] < node["cores"]):
            chosen.append(node)
        if len(chosen) == count:
            break
    if len(chosen) < count:
        return None

    chosen.sort(key=lambda node: node["name"])
    taken = [node["cores"] if is_alone else each["cores"] for node in chosen]
    for node, cores in zip(chosen, taken, strict=True):
        node["free"]["cores"] -= cores
        node["free"]["memory"] -= each["memory"]
        node["free"]["gpus"] -= each["gpus"]
    start = NOW - rng.randrange(1, 60 * job["time_limit"])
    memory = each["memory"]
    return job | {
        "job_state": "RUNNING",
        "state_reason": "None",
        "cpus": sum(taken),
        "start_time": start,
        "end_time": start + 60 * job["time_limit"],
        "nodes": ",".join(node["name"] for node in chosen),
        "tres_alloc_str": f"cpu={sum(taken)},mem={memory * count}M,node={count}",
        "gres_detail": [f"gpu:a100:{each['gpus']}(IDX:0)" for _ in chosen] if each["gpus"] else [],
        "job_resources": {
            "allocated_nodes": [
                {"nodename": node["name"], "cpus": cores, "memory_allocated": memory}
                for node, cores in zip(chosen, taken, strict=True)
            ]
        },
    }
