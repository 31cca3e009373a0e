"""What jobs of Slurm's queue ask of nodes, and what running ones hold on theirs.

Read from records as ``squeue --json`` writes them. A job that names a number of nodes asks for an
equal part on each; tasks may go to any number of nodes, except where memory or GPUs are asked for
by node: these are taken to be on as few as they fit on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from qops_batsim.job_fields import AskedPart
from qops_batsim.slurm.resources import (
    amount_of,
    generic_amounts,
    licences_in,
    memory_of,
    names_shards,
)
from qops_batsim.slurm.values import finite_number
from qops_batsim.workload.accounting.amounts import MEBIBYTE
from qops_batsim.workload.accounting.cells import is_none
from qops_batsim.workload.accounting.node_sizes import node_names


class QueuedAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a job of the queue, or a component of one, asks of nodes, and holds on them.

    Attributes
    ----------
    nodes, most
        On how many nodes it has to be at least, and may be at most; 0: on any number.
    tasks
        How many tasks it has, 0 if that is not told.
    totals, each
        Amounts of the job, and further ones on each of its nodes, by kind: memory in bytes.
    by_core
        Memory for each core (bytes).
    exclusive
        Whether no other job may be on its nodes.
    partitions
        Where it may start: on nodes of one of these.
    features
        Features that its nodes have, as Slurm writes them (``ib&nv``).
    wanted, unwanted
        Nodes by name that it has to have, and that it must not have.
    licences
        Licences by name.
    held
        What it holds now on each of its nodes, by name; empty if it waits, or that is not told.
    unmodelled
        What it asks for and no plan has.
    """

    nodes: int
    most: int = 0
    tasks: int = 0
    totals: dict[str, int] = {}
    each: dict[str, int] = {}
    by_core: int = 0
    exclusive: bool = False
    partitions: tuple[str, ...] = ()
    features: str = ""
    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    licences: dict[str, int] = {}
    held: dict[str, dict[str, int]] = {}
    unmodelled: tuple[str, ...] = ()

    def part(self, largest: Mapping[str, int]) -> AskedPart:
        """Return what it asks for as a part of a request, where a node has these amounts at the
        most; GPUs of a type that no node is known to have may be of any.
        """
        totals = _known(self.totals, largest)
        each = _known(self.each, largest)
        tasks = self.tasks
        evenly = tasks > 1 and not any(total % tasks for total in totals.values())
        if evenly and not each and not self.exclusive and self.nodes == 1 and self.most != 1:
            amounts = {kind: total // tasks for kind, total in totals.items()}
            amounts |= self._memory(amounts.get("cores", 0))
            return AskedPart(
                hosts=min(tasks, self.most or tasks), amounts=_of(amounts, largest), tasks=tasks
            )

        # What does not fit on so few nodes gets more, unless their number is given.
        nodes = self.nodes
        for kind, total in totals.items() if self.most == 0 else ():
            most = largest.get(kind, 0) - each.get(kind, 0)
            if most > 0:
                nodes = max(nodes, math.ceil(total / most))
        amounts = {kind: math.ceil(total / nodes) for kind, total in totals.items()}
        amounts |= self._memory(amounts.get("cores", 0))
        for kind, amount in each.items():
            amounts[kind] = amounts.get(kind, 0) + amount
        has = _of(amounts, largest)
        return AskedPart(hosts=nodes, amounts=has, exclusive=self.exclusive or not has)

    def part_by_host(self, hosts: Sequence[Mapping[str, int]], threads: int = 1) -> AskedPart:
        """Return what it asks for as the same amounts on each of as few of these hosts (by what
        they have) as have room for its tasks, so that Slurm can be told to give just these.

        Cores are a multiple of ``threads``. GPUs of the whole job may all be on one of its hosts.
        """
        largest = largest_of(hosts)
        totals = _known(self.totals, largest)
        each = _known(self.each, largest)
        tasks = max(self.tasks, 1)
        cores = max(math.ceil(totals.pop("cores") / tasks), 1)
        needs = _of({"cores": cores, **self._memory(cores)}, largest)
        room = [min((has[k] - each.get(k, 0)) // n for k, n in needs.items()) for has in hosts]
        room.sort(reverse=True)
        most = min(self.most or tasks, tasks, len(room))
        fitting = (
            count
            for count in range(self.nodes, most + 1)
            if room[count - 1] >= math.ceil(tasks / count)
            and all(n <= count * largest.get(k, 0) for k, n in totals.items())
        )
        if count := next(fitting, 0):
            totals = {k: min(n, largest[k]) for k, n in totals.items() if n}
            tasks = math.ceil(tasks / count)
        cores = math.ceil(tasks * cores / threads) * threads
        amounts = Counter({"cores": cores, **self._memory(cores), **totals})
        amounts.update(each)
        has = _of(amounts, largest)
        return AskedPart(hosts=count or self.nodes, amounts=has, exclusive=self.exclusive)

    def _memory(self, cores: int) -> dict[str, int]:
        return {"memory": self.by_core * cores} if self.by_core else {}


def largest_of(hosts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the most that one of the hosts has, by kind."""
    largest: dict[str, int] = {}
    for has in hosts:
        for kind, amount in has.items():
            largest[kind] = max(amount, largest.get(kind, 0))
    return largest


def _known(amounts: Mapping[str, int], largest: Mapping[str, int]) -> dict[str, int]:
    """Return amounts without types of GPUs that no node has; these count as ``gpus`` too."""
    return {k: n for k, n in amounts.items() if not k.startswith("gpus:") or k in largest}


def _of(amounts: Mapping[str, int], largest: Mapping[str, int]) -> dict[str, int]:
    """Return amounts above 0, without memory where the nodes tell of none."""
    return {k: n for k, n in amounts.items() if n > 0 and (k != "memory" or k in largest)}


def tells_amounts(record: Mapping[str, Any]) -> bool:
    """Return whether a record of squeue tells what its job asks for beside processors."""
    return bool(record.get("tres_req_str") or record.get("tres_alloc_str"))


def read_amounts(record: Mapping[str, Any], where: str, *, runs: bool) -> QueuedAmounts:
    """Read what the job of a record asks for, and what it holds if it ``runs``; InputError, which
    names ``where``, for numbers that are none.
    """

    def number(name: str) -> int:
        return int(finite_number(record.get(name), f"{where}: {name}") or 0)

    def text(name: str) -> str:
        told = str(record.get(name) or "")
        return "" if is_none(told) else told

    tres = text("tres_req_str") or text("tres_alloc_str")
    asked_nodes = amount_of(tres, "node")
    by_node = number("tasks_per_node")
    tasks = number("tasks")
    nodes = max(number("node_count") if math.isnan(asked_nodes) else int(asked_nodes), 1)
    if by_node and tasks:
        nodes = max(nodes, math.ceil(tasks / by_node))
    most = number("max_nodes")
    if by_node and not most:
        most = nodes

    cores = amount_of(tres, "cpu")
    totals = {"cores": number("cpus") if math.isnan(cores) else int(cores)}
    each = generic_amounts(text("tres_per_node"))
    if not each:
        of_job = generic_amounts(text("tres_per_job"))
        of_task = generic_amounts(text("tres_per_task"))
        told = {kind: amount * max(tasks, 1) for kind, amount in of_task.items()}
        totals |= of_job or told or generic_amounts(tres)

    of_node = number("memory_per_node")
    of_core = number("memory_per_cpu")
    whole = record.get("all_memory") is True
    if of_node:
        each = {"memory": of_node * MEBIBYTE, **each}
    elif not of_core and not whole and (memory := int(memory_of(tres))):
        each = {"memory": math.ceil(memory / nodes), **each}

    every = " ".join(text(f"tres_per_{what}") for what in ("job", "node", "task", "socket"))
    unmodelled = {
        "shards of GPUs": names_shards(f"{every} {tres}"),
        "GPUs by socket": generic_amounts(text("tres_per_socket")),
        "cores kept for the system (core specialization)": number("core_spec"),
        "nodes in a row (--contiguous)": record.get("contiguous") is True,
    }
    asked = QueuedAmounts(
        nodes=nodes,
        most=most,
        tasks=tasks,
        totals=totals,
        each=each,
        by_core=of_core * MEBIBYTE,
        exclusive=whole or "none" in str(record.get("shared")),
        partitions=tuple(filter(None, text("partition").split(","))),
        features=text("features"),
        wanted=tuple(node_names(text("required_nodes"))),
        unwanted=tuple(node_names(text("excluded_nodes"))),
        licences=licences_in(text("licenses")),
        unmodelled=tuple(name for name, is_asked in unmodelled.items() if is_asked),
    )
    if not runs:
        return asked
    return msgspec.structs.replace(asked, held=_held(record, asked, node_names(text("nodes"))))


def _held(
    record: Mapping[str, Any], asked: QueuedAmounts, names: list[str]
) -> dict[str, dict[str, int]]:
    """Return what a running job holds on the nodes of these names: as each of them is told, else an
    equal part.
    """
    tres = str(record.get("tres_alloc_str") or record.get("tres_req_str") or "")
    cores = amount_of(tres, "cpu")
    total = int(finite_number(record.get("cpus"), "cpus") or 0 if math.isnan(cores) else cores)
    memory = int(memory_of(tres))
    count = len(names)
    held = {name: {"cores": _share(total, at, count)} for at, name in enumerate(names)}
    told = _told_nodes(record)
    if {*told} == {*names} and sum(each["cores"] for each in told.values()) == total:
        for name, each in told.items():
            held[name]["cores"] = each["cores"]

    gpus = record.get("gres_detail") or []
    by_node = [generic_amounts(each) for each in gpus]
    if len(by_node) != count:
        of_job = generic_amounts(tres) or {
            kind: amount for kind, amount in asked.totals.items() if kind != "cores"
        }
        by_node = [
            {
                **{kind: _share(amount, at, count) for kind, amount in of_job.items()},
                **{kind: n for kind, n in asked.each.items() if kind != "memory"},
            }
            for at in range(count)
        ]
    for at, (name, has) in enumerate(held.items()):
        if name in told and "memory" in told[name]:
            has["memory"] = told[name]["memory"]
        elif asked.by_core and not asked.exclusive:
            has["memory"] = asked.by_core * has["cores"]
        else:
            has["memory"] = _share(memory, at, count)
        has |= by_node[at]
    return held


def _share(total: int, place: int, count: int) -> int:
    return total * (place + 1) // count - total * place // count


def _told_nodes(record: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return cores and memory that each node of a running job gives it, by name, if told.

    Before Slurm 24.05 only cores can be counted, of which each may have several processors.
    """
    told = record.get("job_resources")
    if not isinstance(told, dict):
        return {}
    nodes = told.get("nodes")
    listed = nodes.get("allocation") if isinstance(nodes, dict) else told.get("allocated_nodes")
    if isinstance(listed, dict):  # Slurm 21.08: by place.
        names = node_names(str(nodes or ""))
        given = [*listed.values()]
        listed = [{"nodename": n, **v} for n, v in zip(names, given, strict=False)]
    found: dict[str, dict[str, int]] = {}
    counted: Counter[str] = Counter()
    for node in listed if isinstance(listed, list) else ():
        name = str(node.get("name") or node.get("nodename") or "")
        found[name] = {}
        memory = node.get("memory")
        megabytes = memory.get("allocated") if isinstance(memory, dict) else memory
        megabytes = node.get("memory_allocated", megabytes)
        if isinstance(megabytes, int):
            found[name]["memory"] = megabytes * MEBIBYTE
        cpus = node.get("cpus")
        if isinstance(cpus, dict) and isinstance(cpus.get("count"), int):
            counted[name] = cpus["count"]
        elif isinstance(cpus, int) and cpus:
            counted[name] = cpus
        else:
            counted[name] = _allocated(node.get("sockets"))
    total = int(finite_number(record.get("cpus"), "cpus") or 0)
    cores = sum(counted.values())
    threads = total // cores if cores and total % cores == 0 else 1
    for name, count in counted.items():
        found[name]["cores"] = count * threads
    return found


def _allocated(sockets: Any) -> int:
    """Return how many cores of a node's sockets are allocated."""
    listed = sockets.values() if isinstance(sockets, dict) else sockets
    if not isinstance(listed, (list, type({}.values()))):
        return 0
    count = 0
    for socket in listed:
        cores = socket.get("cores") if isinstance(socket, dict) else None
        for core in cores.values() if isinstance(cores, dict) else cores or ():
            state = core.get("status") if isinstance(core, dict) else core
            count += "ALLOCATED" in str(state).upper() and "UNALLOCATED" not in str(state).upper()
    return count
