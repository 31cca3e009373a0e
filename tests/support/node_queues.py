"""Random queues of machines whose nodes are shared, in the text of Slurm, and their starts by
limits as a naive planner finds them in the same text.

The planner shares nothing with the package: it reads the text by its own few rules, and plans with
:class:`~support.node_oracles.NaiveNodes`, each job in the order of priority at its earliest fit.
"""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import dataclass, field
from typing import Any

from support.node_oracles import (
    NaiveNodes,
    NodeJob,
    Part,
    Placement,
    SharedHost,
    SharedMachine,
)

NOW = 1_782_000_000
MIB = 1 << 20


@dataclass
class MadeNode:
    """A node, and what is free on it; memory in MB."""

    name: str
    cores: int
    memory: int
    gpus: int
    weight: int
    features: list[str]
    partitions: list[str]
    is_drained: bool
    free: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """Return the node as ``scontrol show node`` writes it."""
        used = self.cores - self.free["cores"]
        state = "IDLE" if not used else "MIXED" if self.free["cores"] else "ALLOCATED"
        return (
            f"NodeName={self.name} Arch=x86_64 CoresPerSocket=1\n"
            f"   CPUAlloc={used} CPUEfctv={self.cores} CPUTot={self.cores} CPULoad=0.01\n"
            f"   AvailableFeatures={','.join(self.features) or '(null)'}\n"
            f"   Gres={f'gpu:a100:{self.gpus}(S:0)' if self.gpus else '(null)'}\n"
            f"   RealMemory={self.memory} AllocMem={self.memory - self.free['memory']}\n"
            f"   State={state}{'+DRAIN' * self.is_drained} ThreadsPerCore=1 Weight={self.weight}\n"
            f"   Partitions={','.join(self.partitions)} \n"
        )


def random_queue(seed: int) -> tuple[str, str]:
    """Return the nodes and the queue of a random machine as text of Slurm: the queue as JSON, or
    every third time as ``scontrol show job`` writes it.
    """
    rng = random.Random(seed)
    nodes = []
    for number in range(rng.randint(3, 8)):
        partitions = [name for name in ("cpu", "gpu", "long") if rng.random() < 0.5] or ["cpu"]
        node = MadeNode(
            f"n{number + 1}",
            rng.choice([4, 8, 8, 16]),
            rng.choice([8000, 16000, 32000]),
            rng.choice([0, 0, 2, 4]),
            rng.choice([1, 1, 1, 3]),
            [name for name in ("ib", "new") if rng.random() < 0.6],
            partitions,
            rng.random() < 0.15,
        )
        node.free = {"cores": node.cores, "memory": node.memory, "gpus": node.gpus}
        nodes.append(node)

    jobs = []
    for number in range(rng.randint(2, 10)):
        asked = _random_job(rng, nodes, 100 + number)
        if (running := _started(rng, asked, nodes)) is not None:
            jobs.append(running)
    jobs += [_random_job(rng, nodes, 200 + number) for number in range(rng.randint(3, 12))]
    priorities = rng.sample(range(1, 1000), len(jobs))
    for job, priority in zip(jobs, priorities, strict=True):
        job["priority"] = priority
    queue = _scontrol(jobs) if seed % 3 == 0 else json.dumps({"meta": {}, "jobs": jobs})
    return "\n".join(node.text() for node in nodes), queue


def _random_job(rng: random.Random, nodes: list[MadeNode], number: int) -> dict[str, Any]:
    """Return a waiting job as ``squeue --json`` writes it."""
    names = sorted({name for node in nodes for name in node.partitions})
    chosen = rng.sample(names, min(rng.choice([1, 1, 1, 2]), len(names)))
    form = rng.choice(["one", "one", "several", "tasks", "alone"])
    count = rng.randint(2, 3) if form == "several" else 1
    each = rng.choice([1, 2, 4, 8])
    tasks = rng.randint(2, 12) if form == "tasks" else 1
    cores = tasks if form == "tasks" else each * count
    job: dict[str, Any] = {
        "job_id": number,
        "job_state": "PENDING",
        "state_reason": "Priority",
        "partition": ",".join(chosen),
        "user_name": "u",
        "name": "made",
        "cpus": cores,
        "node_count": count,
        "max_nodes": 0 if form == "tasks" else count,
        "tasks": tasks,
        "time_limit": rng.randint(2, 60),
        "submit_time": NOW - 5000,
        "start_time": 0,
        "shared": "none" if form == "alone" else None,
        "tres_req_str": f"cpu={cores},mem=1G,node={count},billing={cores}",
        "features": rng.choice(["", "", "", "ib", "ib&new", "ib|new"]),
    }
    if form == "tasks":
        job["memory_per_cpu"] = rng.choice([500, 2000])
        if rng.random() < 0.3:
            job["tres_per_task"] = "gres:gpu:1"
    else:
        job["memory_per_node"] = rng.choice([500, 4000, 8000])
        if rng.random() < 0.4:
            job["tres_per_node"] = rng.choice(["gres:gpu:1", "gres:gpu:a100:2"])
    if rng.random() < 0.15:
        job["excluded_nodes"] = rng.choice(nodes).name
    elif rng.random() < 0.15 and count == 1:
        job["required_nodes"] = rng.choice(nodes).name
    return job


def _started(
    rng: random.Random, job: dict[str, Any], nodes: list[MadeNode]
) -> dict[str, Any] | None:
    """Return a job as it runs on some nodes that have room, None if there are none."""
    count, cores = job["node_count"], job["cpus"]
    gpus = int((job.get("tres_per_node") or "0").rpartition(":")[2])
    each = {
        "cores": cores // count,
        "memory": job.get("memory_per_node") or job["memory_per_cpu"] * cores,
        "gpus": gpus or job["tasks"] * ("tres_per_task" in job),
    }
    alone = job["shared"] == "none"
    having = [
        node
        for node in nodes
        if all(node.free[kind] >= amount for kind, amount in each.items())
        and not (alone and node.free["cores"] < node.cores)
    ]
    if len(having) < count:
        return None
    chosen = sorted(rng.sample(having, count), key=lambda node: node.name)
    total = 0
    for node in chosen:
        taken = node.cores if alone else each["cores"]
        total += taken
        node.free = {
            "cores": node.free["cores"] - taken,
            "memory": node.free["memory"] - each["memory"],
            "gpus": node.free["gpus"] - each["gpus"],
        }
    limit = job["time_limit"]
    start = NOW - rng.randint(1, 60 * limit - 1)
    nodes_told = [
        {
            "nodename": node.name,
            "cpus": node.cores if alone else each["cores"],
            "memory_allocated": each["memory"],
        }
        for node in chosen
    ]
    return job | {
        "job_state": "RUNNING",
        "state_reason": "None",
        "partition": chosen[0].partitions[0],
        "cpus": total,
        "start_time": start,
        "end_time": start + 60 * limit,
        "nodes": ",".join(node.name for node in chosen),
        "tres_alloc_str": f"cpu={total},mem={each['memory'] * count}M,node={count}",
        "gres_detail": [f"gpu:a100:{each['gpus']}(IDX:0)" for _ in chosen] if each["gpus"] else [],
        "job_resources": {"allocated_nodes": nodes_told},
    }


def _scontrol(jobs: list[dict[str, Any]]) -> str:
    """Return jobs as ``scontrol show job --details`` writes them."""
    records = []
    for job in jobs:
        runs = job["job_state"] == "RUNNING"
        most = job["max_nodes"]
        count = f"{job['node_count']}-{most}" if most and not runs else job["node_count"]
        lines = [
            f"JobId={job['job_id']} JobName=made",
            "UserId=u(1) GroupId=u(1) MCS_label=N/A",
            f"Priority={job['priority']} Nice=0 Account=(null) QOS=(null)",
            f"JobState={job['job_state']} Reason={job['state_reason']} Dependency=(null)",
            f"RunTime=00:00:00 TimeLimit={job['time_limit']}:00 TimeMin=N/A",
            f"SubmitTime={job['submit_time']} EligibleTime={job['submit_time']}",
            f"StartTime={job['start_time'] or 'Unknown'} EndTime={job.get('end_time', 'Unknown')}",
            f"Partition={job['partition']} AllocNode:Sid=login:1",
            f"ReqNodeList={job.get('required_nodes', '(null)')} "
            f"ExcNodeList={job.get('excluded_nodes', '(null)')}",
            f"NodeList={job.get('nodes', '')}",
            f"NumNodes={count} NumCPUs={job['cpus']} NumTasks={job['tasks']} CPUs/Task=1",
            f"TRES={job.get('tres_alloc_str', job['tres_req_str'])}",
        ]
        details = job.get("job_resources", {}).get("allocated_nodes", [])
        gres = job.get("gres_detail") or [""] * len(details)
        lines += [
            f"  Nodes={node['nodename']} CPU_IDs=0-{node['cpus'] - 1} "
            f"Mem={node['memory_allocated']} GRES={generic}"
            for node, generic in zip(details, gres, strict=True)
        ]
        memory = f"MinMemoryNode={job['memory_per_node']}M" if "memory_per_node" in job else ""
        memory = memory or f"MinMemoryCPU={job['memory_per_cpu']}M"
        lines += [
            f"MinCPUsNode=1 {memory} MinTmpDiskNode=0",
            f"Features={job['features'] or '(null)'} DelayBoot=00:00:00",
            f"OverSubscribe={'NO' if job['shared'] == 'none' else 'OK'} Contiguous=0",
            "Command=/home/u/job.sh",
            "StdOut=/dev/null",
        ]
        for name, head in (("tres_per_node", "TresPerNode"), ("tres_per_task", "TresPerTask")):
            lines += [f"{head}={job[name]}"] if name in job else []
        records.append("\n   ".join(lines) + "\n")
    return "\n".join(records)


# The planner


@dataclass(frozen=True)
class NaiveQueue:
    """A queue: what running jobs hold for how many more seconds, and what waiting ones ask for, by
    id, in the order of their priority.
    """

    machine: SharedMachine
    held: list[tuple[Placement, int]]
    waiting: dict[str, list[NodeJob]]


def naive_queue(nodes: str, queue: str, now: float = NOW) -> NaiveQueue:
    """Read a queue and its nodes."""
    hosts = [_host(text) for text in re.split(r"^(?=NodeName=)", nodes, flags=re.MULTILINE) if text]
    names = [name for name, _, _ in hosts]
    jobs = json.loads(queue)["jobs"] if queue.startswith("{") else _jobs_of_text(queue)
    waiting = [task for job in jobs if job["job_state"] == "PENDING" for task in _tasks_of(job)]
    waiting.sort(key=lambda job: -job["priority"])

    # What a job may have is one more label of these hosts.
    own = {name: set(host.labels) for name, host, _ in hosts}
    options: dict[str, list[NodeJob]] = {}
    for job in waiting:
        options[job["job_id"]] = []
        for partition in job["partition"].split(","):
            label = f"{job['job_id']}-{partition}"
            for name in names:
                if _may_have(job, own[name], name, partition):
                    own[name].add(label)
            options[job["job_id"]].append(_request(job, label))
    machine = SharedMachine(
        tuple(
            SharedHost(host.amounts, frozenset(own[name]), host.weight)
            for name, host, is_away in hosts
            if not is_away
        )
    )
    there = [name for name, _, is_away in hosts if not is_away]

    running: list[tuple[Placement, int]] = []
    for job in jobs:
        if job["job_state"] == "RUNNING":
            left = max(job["end_time"] - now, 1)
            for name, amounts in _held(job).items():
                if name in there:
                    host = there.index(name)
                    held = machine.vector(amounts)
                    if job.get("shared") == "none":
                        held = machine.capacity(host)
                    running.append(({host: held}, left))
    return NaiveQueue(machine, running, {str(name): asked for name, asked in options.items()})


def naive_starts(
    nodes: str, queue: str, new: NodeJob | None = None, now: float = NOW
) -> dict[str, float]:
    """Return when each waiting job starts by limits (seconds from now; infinite: never), by id; a
    ``new`` job, which is none of these, starts behind them, and alone without them.
    """
    read = naive_queue(nodes, queue, now)
    plan = NaiveNodes(read.machine)
    for placement, left in read.held:
        plan.take(placement, 0, left)
    starts = {} if new is None else {"alone": plan.fit(new, 0)[0]}
    for name, options in read.waiting.items():
        fits = [(plan.fit(option, 0), option) for option in options]
        (start, placement), option = min(fits, key=lambda fit: fit[0][0])
        if start < math.inf:
            plan.take(placement, start, start + option.estimate)
        starts[name] = start
    return starts if new is None else {**starts, "new": plan.fit(new, 0)[0]}


def _host(text: str) -> tuple[str, SharedHost, bool]:
    told = dict(re.findall(r"(\w+)=(\S*)", text))
    gpus = int(told["Gres"].split("(")[0].rpartition(":")[2]) if "gpu" in told["Gres"] else 0
    amounts = {"cores": int(told["CPUTot"]), "memory": int(told["RealMemory"]) * MIB}
    amounts |= {"gpus": gpus, "gpus:a100": gpus} if gpus else {}
    labels = [*told["Partitions"].split(","), *told["AvailableFeatures"].split(",")]
    host = SharedHost(amounts, frozenset(labels), int(told["Weight"]))
    return told["NodeName"], host, "DRAIN" in told["State"]


def _may_have(job: dict[str, Any], labels: set[str], name: str, partition: str) -> bool:
    features = job.get("features") or ""
    has = [each in labels for each in re.split("[&|]", features)] if features else [True]
    fits = any(has) if "|" in features else all(has)
    wanted = job.get("required_nodes") or name
    return partition in labels and fits and wanted == name and job.get("excluded_nodes") != name


def _gpus(text: str) -> dict[str, int]:
    parts = text.split("(")[0].split(":")
    if "gpu" not in parts:  # gpu:a100:2, or gres:gpu:2
        return {}
    count = int(parts[-1])
    return {"gpus": count, "gpus:a100": count} if "a100" in parts else {"gpus": count}


def _tasks_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tasks of an array that may run at once; a job that is none is its own task."""
    listed = re.fullmatch(r"(\d+)-(\d+)(?:%(\d+))?", job.get("array_task_string") or "")
    if listed is None:
        return [job]
    first, last, at_once = (int(number or 0) for number in listed.groups())
    count = min(last - first + 1, at_once or last)
    return [job | {"job_id": f"{job['job_id']}_{first + place}"} for place in range(count)]


def _request(job: dict[str, Any], label: str) -> NodeJob:
    labels = frozenset([label])
    tres = dict(re.findall(r"([\w/]+)=(\d+)", job["tres_req_str"]))
    tasks = job["tasks"]
    by_node = job.get("tasks_per_node") or 0
    count = max(int(tres["node"]), math.ceil(tasks / by_node) if by_node else 1)
    cores = int(tres["cpu"])
    gpus = _gpus(job.get("tres_per_job") or "")
    gpus = gpus or {k: n * tasks for k, n in _gpus(job.get("tres_per_task") or "").items()}
    each = _gpus(job.get("tres_per_node") or "")
    if job.get("memory_per_node"):
        each["memory"] = job["memory_per_node"] * MIB
    elif not job.get("memory_per_cpu"):
        # All memory of a node.
        number, unit = re.findall(r"mem=(\d+)([MG])", job["tres_req_str"])[0]
        each["memory"] = int(number) * (MIB << 10 if unit == "G" else MIB) // count
    of_core = (job.get("memory_per_cpu") or 0) * MIB
    alone = job.get("shared") == "none"
    is_fixed = job.get("max_nodes") or by_node

    if tasks > 1 and count == 1 and not (is_fixed or each or alone):
        amounts = {"cores": cores // tasks, "memory": of_core * cores // tasks}
        amounts |= {kind: n // tasks for kind, n in gpus.items()}
        part = Part(tasks, amounts, labels, tasks=tasks)
    else:
        own = math.ceil(cores / count)
        amounts = {"cores": own, "memory": of_core * own, **each}
        amounts |= {kind: math.ceil(n / count) for kind, n in gpus.items()}
        part = Part(count, amounts, labels, exclusive=alone)
    return NodeJob((part,), 60 * job["time_limit"])


def _held(job: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return what a running job has, by node."""
    told = job["job_resources"]["allocated_nodes"]
    gres = job.get("gres_detail") or [""] * len(told)
    return {
        node["nodename"]: {
            "cores": node["cpus"] if "cpus" in node else json.dumps(node).count('"allocated"'),
            "memory": node["memory_allocated"] * MIB,
            **_gpus(generic),
        }
        for node, generic in zip(told, gres, strict=True)
    }


def _jobs_of_text(text: str) -> list[dict[str, Any]]:
    jobs = []
    for record in text.strip().split("\n\n"):
        told = {k: v for k, v in re.findall(r"([\w/]+)=(\S*)", record) if v != "(null)"}
        memory = {
            name: int(told[head][:-1])
            for head, name in (
                ("MinMemoryNode", "memory_per_node"),
                ("MinMemoryCPU", "memory_per_cpu"),
            )
            if head in told
        }
        details = re.findall(r"Nodes=(\S+) CPU_IDs=0-(\d+) Mem=(\d+) GRES=(\S*)", record)
        jobs.append(
            {
                "job_id": told["JobId"],
                "job_state": told["JobState"],
                "priority": int(told["Priority"]),
                "partition": told["Partition"],
                "time_limit": int(told["TimeLimit"].split(":")[0]),
                "end_time": int(told["EndTime"]) if told["EndTime"] != "Unknown" else 0,
                "node_count": int(told["NumNodes"].split("-")[0]),
                "cpus": int(told["NumCPUs"]),
                "tasks": int(told["NumTasks"]),
                "max_nodes": "-" in told["NumNodes"],
                "tres_req_str": told["TRES"],
                "shared": "none" if told["OverSubscribe"] == "NO" else None,
                "features": told.get("Features"),
                "required_nodes": told.get("ReqNodeList"),
                "excluded_nodes": told.get("ExcNodeList"),
                "tres_per_node": told.get("TresPerNode"),
                "tres_per_task": told.get("TresPerTask"),
                "gres_detail": [gres for *_, gres in details],
                "job_resources": {
                    "allocated_nodes": [
                        {"nodename": n, "cpus": int(last) + 1, "memory_allocated": int(mem)}
                        for n, last, mem, _ in details
                    ]
                },
                **memory,
            }
        )
    return jobs
