"""What jobs in Slurm's accounting ask of each host.

Of cores and memory counts what was allocated, else what was requested; of GPUs, a type only if the
request names it. A job has hosts of its own if its command says so (``--exclusive``), or if it got
all cores of its nodes and had asked for fewer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.job_fields import HostsAsked, complete_amounts
from qops_batsim.slurm.resources import (
    amount_of,
    generic_amounts,
    licences_in,
    memory_of,
    names_shards,
)
from qops_batsim.tables import Booleans, Floats, Words
from qops_batsim.workload.accounting.amounts import changed, memory_in_all, requests_of
from qops_batsim.workload.accounting.cells import TextTable, read_memory
from qops_batsim.workload.accounting.node_sizes import node_names
from qops_batsim.workload.accounting.rows import Rows

COLUMNS = ("ReqMem", "NTasks", "Licenses", "Constraints")
"""Columns of sacct that are read here, besides those of sizes."""

_EXCLUSIVE = re.compile(r"(?:^|\s)--exclusive(?=\s|$)")
_ALL_MEMORY = re.compile(r"(?:^|\s)--mem[= ]0[A-Z]?(?=\s|$)")
_TRES_LICENCE = re.compile(r"(?:^|,)license/([^=,]+)=(\d{1,9})")
_NUMBERED_STEP = re.compile(r"(.+)\.\d+")


def tasks_of_steps(table: TextTable, name: str, steps: Booleans) -> dict[str, tuple[float, float]]:
    """Return the tasks of each job's first numbered step, with its cores, by the job's id.

    ``steps`` are the rows of steps, ``name`` is the column of ids.
    """
    if not {"NTasks", "AllocCPUS"} <= table.header.keys():
        return {}
    ids = table.column(name).to_list()
    tasks = table.counts("NTasks")
    cores = table.counts("AllocCPUS")
    found: dict[str, tuple[float, float]] = {}
    for place in np.flatnonzero(steps).tolist():
        if match := _NUMBERED_STEP.fullmatch(ids[place]):
            found.setdefault(match[1], (float(tasks[place]), float(cores[place])))
    return found


def ask_for_amounts(
    rows: Rows,
    table: TextTable,
    cores: Floats,
    machine: Machine | None,
    tasks: Mapping[str, tuple[float, float]],
) -> None:
    """Set what each job asks of each of its hosts, which are the ``processors`` of the rows.

    ``cores`` are those of each job, ``machine`` is what nodes have, if it is known, ``tasks`` are
    those of steps with their cores, by job.
    """
    column = _Columns(table)
    hosts = rows.processors
    listed = rows.nodes or Words.one("", len(rows.ids))
    on_nodes = listed.values(lambda text: len(node_names(text)))
    hosts = np.where(np.isnan(hosts) & (on_nodes > 0), on_nodes, hosts)
    rows.processors = hosts
    requested = column.requested("ReqCPUS", "cpu")
    labels = {} if machine is None else machine.labels
    nodes: dict[str, dict[str, int]] = {}
    if machine is not None:
        nodes = {name: machine.of_host(host) for host, name in enumerate(machine.names)}

    def on(names: Sequence[str], kind: str, combined: Callable[[Iterable[int]], int]) -> float:
        """Return the sum, or the least amount, of a kind over some nodes; NaN if unknown."""
        if not names or not nodes.keys() >= set(names):
            return math.nan
        return combined(nodes[name].get(kind, 0) for name in names)

    def of_partition(name: str) -> float:
        """Return the least memory of a node in a partition; NaN if it has none."""
        bits = labels.get(name, 0)
        return on([node for at, node in enumerate(nodes) if bits >> at & 1], "memory", min)

    alone = column.command(_EXCLUSIVE)
    alone |= (requested < cores) & (
        cores == listed.values(lambda text: on(node_names(text), "cores", sum))
    )
    cores = np.where(alone & (requested > 0), np.fmin(requested, cores), cores)

    memory, is_all = column.memory(hosts, cores)
    whole = listed.values(lambda text: on(node_names(text), "memory", min))
    whole = np.where(np.isnan(whole), rows.pools().values(of_partition), whole)
    memory = np.where(is_all, whole * hosts, memory)

    generic, others = column.generic(() if machine is None else machine.kinds)
    words = table.words("NTasks") if "NTasks" in table else None
    own = np.full(len(hosts), np.nan) if words is None else table.counts("NTasks")
    of_steps = [tasks.get(job, (math.nan, math.nan)) for job in rows.ids]
    count, with_cores = np.array(of_steps, np.float64).reshape(-1, 2).T
    count = np.where(own > 0, own, np.where(with_cores == cores, count, np.nan))
    # Who asked for as many hosts as were given asked by host.
    asked_hosts = column.requested("ReqNodes", "node")
    count = np.where(asked_hosts < hosts, np.nan_to_num(count), 0)
    for place in rows.groups:
        count[place] = 0

    amounts = {"cores": cores, "memory": memory, **generic}
    asked, rows.marked = requests_of(hosts, amounts, count, alone)
    rows.asked = changed(asked, column.licences(), _with_licences)
    known = hosts > 0
    rows.marked["no_memory"] &= ~is_all
    rows.marked |= {
        "exclusive": known & alone,
        "all_memory": known & is_all & (memory > 0),
        "all_memory_unknown": known & is_all & ~(memory > 0),
        "shards": known & column.shards(),
        "other_kinds": known & others,
    }


def _with_licences(asked: HostsAsked, tres: str) -> HostsAsked:
    licences = {name: int(count) for name, count in _TRES_LICENCE.findall(tres)}
    return msgspec.structs.replace(asked, licences=licences)


class _Columns:
    """Columns of sacct, read as amounts."""

    def __init__(self, table: TextTable) -> None:
        self._table = table
        self._size = len(table)

    def _words(self, name: str) -> Words:
        return self._table.words(name) if name in self._table else Words.one("", self._size)

    def command(self, pattern: re.Pattern[str]) -> Booleans:
        """Return which jobs were submitted by a command with this pattern."""
        return self._words("SubmitLine").where(lambda text: pattern.search(text) is not None)

    def requested(self, name: str, resource: str) -> Floats:
        """Return a requested count, NaN where unknown."""
        told = self._words("ReqTRES").values(lambda text: amount_of(text, resource))
        if name not in self._table:
            return told
        return np.where(np.isnan(told), self._table.counts(name), told)

    def memory(self, hosts: Floats, cores: Floats) -> tuple[Floats, Booleans]:
        """Return the memory of each job on all its hosts (bytes), NaN where unknown, and which jobs
        asked for all memory of their hosts.
        """

        words = self._words("ReqMem")
        each = words.values(lambda text: read_memory(text)[0])
        if "ReqMem" in self._table:
            accepted = "memory such as 4000M, 4000Mc (of each core) or 16Gn (of each node)"
            self._table.refuse(np.isinf(each), "ReqMem", accepted)

        by_core = words.where(lambda text: read_memory(text)[1] == "c")
        by_host = words.where(lambda text: read_memory(text)[1] == "n")
        asked = memory_in_all(each, by_host, by_core, hosts, cores)
        given = self._words("AllocTRES").values(memory_of)
        total = np.where(by_core & (asked > 0), asked, given)
        for other in (self._words("ReqTRES").values(memory_of), asked):
            total = np.where(total > 0, total, other)
        is_zero = (each == 0) & bool((total > 0).any())
        is_all = (is_zero | self.command(_ALL_MEMORY)) & ~(total > 0)
        return np.where(total > 0, total, np.nan), is_all

    def generic(self, kinds: Collection[str]) -> tuple[dict[str, Floats], Booleans]:
        """Return what jobs have of GPUs and other generic resources on all their hosts, if they are
        among the ``kinds`` of nodes; and which jobs have others.
        """
        pairs, which = self._words("ReqTRES").paired(self._words("AllocTRES"))
        listed: list[dict[str, int]] = []
        others = []
        for pair in pairs:
            wanted, own = map(generic_amounts, pair)
            has = {kind: n for kind, n in (wanted | own).items() if not kind.startswith("gpus:")}
            # Types that were not asked for are those of the nodes that were there.
            told = wanted if "gpus" in wanted else own
            typed = {kind: n for kind, n in told.items() if kind.startswith("gpus:")}
            others.append(not has.keys() <= {"gpus", *kinds})
            known = {kind: n for kind, n in has.items() if kind == "gpus" or kind in kinds}
            listed.append(complete_amounts(known | typed))

        found = {
            kind: np.array([amounts.get(kind, 0) for amounts in listed], np.float64)[which]
            for kind in dict.fromkeys(kind for amounts in listed for kind in amounts)
        }
        return found, np.array(others, np.bool_)[which]

    def shards(self) -> Booleans:
        """Return which jobs have shards of GPUs."""
        asked, given = map(self._words, ("ReqTRES", "AllocTRES"))
        pairs, which = asked.paired(given)
        return Words(["\n".join(pair) for pair in pairs], which).where(names_shards)

    def licences(self) -> Words:
        """Return the licences of each job as TRES list them."""
        return self._words("Licenses").changed(self._words("ReqTRES"), _licences)


def _licences(own: str, tres: str) -> str:
    """Return the licences in a column of sacct, ``matlab:1,ansys@server:2``, and in TRES."""
    found = [match[0] for match in _TRES_LICENCE.finditer(tres)]
    asked = licences_in(own).items()
    return ",".join([*found, *(f"license/{name}={count}" for name, count in asked)])
