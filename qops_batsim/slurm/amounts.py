"""What jobs in Slurm's accounting ask of each host.

Of cores and memory counts what was allocated, else what was requested; of GPUs, a type only if the
request names it. A job has hosts of its own if its command says so (``--exclusive``), or if it got
all cores of its nodes and had asked for fewer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache

import msgspec
import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.job_fields import HostsAsked
from qops_batsim.slurm.resources import amount_of, generic_amounts
from qops_batsim.tables import Booleans, Floats, Words
from qops_batsim.workload.accounting.amounts import changed, requests_of
from qops_batsim.workload.accounting.cells import TextTable, is_none, read_memory
from qops_batsim.workload.accounting.node_sizes import node_names
from qops_batsim.workload.accounting.rows import Rows

COLUMNS = ("ReqMem", "NTasks", "Licenses", "Constraints")
"""Columns of sacct that are read here, besides those of sizes."""

_MEMORY = re.compile(r"(?:^|,)mem=([0-9.]+[KMGTPE]?)")
_SHARD = re.compile(r"\bgres/(?:shard|mps)")
_EXCLUSIVE = re.compile(r"(?:^|\s)--exclusive(?=\s|$)")
_ALL_MEMORY = re.compile(r"(?:^|\s)--mem[= ]0[A-Z]?(?=\s|$)")
_LICENCE = re.compile(r"([\w.+/-]+)(?:@[\w.:-]+?)?(?:[:=](\d{1,9}))?")
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
    on_nodes = np.array([len(node_names(text)) for text in listed.words])[listed.which]
    hosts = np.where(np.isnan(hosts) & (on_nodes > 0), on_nodes, hosts)
    rows.processors = hosts
    requested = column.requested("ReqCPUS", "cpu")
    nodes = {} if machine is None else {name: at for at, name in enumerate(machine.names)}

    def of_nodes(kind: str, least: bool) -> Floats:
        """Return the sum, or the least amount, of a kind over each job's nodes; NaN if unknown."""
        if machine is None or kind not in machine.kinds:
            return np.full(len(hosts), np.nan)
        at = machine.kinds.index(kind)
        values = []
        for text in listed.words:
            names = node_names(text)
            has = [machine.amounts[nodes[name]][at] for name in names if name in nodes]
            known = bool(names) and len(has) == len(names)
            values.append((min(has) if least else sum(has)) if known else math.nan)
        found: Floats = np.array(values, np.float64)[listed.which]
        return found

    alone = column.command(_EXCLUSIVE)
    alone |= (requested < cores) & (cores == of_nodes("cores", least=False))
    cores = np.where(alone & (requested > 0), np.fmin(requested, cores), cores)

    memory, is_all = column.memory(hosts, cores)
    whole = of_nodes("memory", least=True)
    if machine is not None and "memory" in machine.kinds:
        whole = np.where(np.isnan(whole), _of_partition(rows, machine), whole)
    memory = np.where(is_all, whole * hosts, memory)

    generic, others, shards = column.generic(machine)
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
    asked, uneven = requests_of(hosts, amounts, count, alone)
    rows.asked = changed(asked, column.licences(), _with_licences)
    known = hosts > 0
    rows.marked |= {
        "uneven": known & uneven,
        "exclusive": known & alone,
        "all_memory": known & is_all & (memory > 0),
        "all_memory_unknown": known & is_all & ~(memory > 0),
        "no_memory": known & ~is_all & ~(memory > 0),
        "no_amounts": known & ~(cores > 0),
        "shards": known & shards,
        "other_kinds": known & others,
    }


def _of_partition(rows: Rows, machine: Machine) -> Floats:
    """Return the least memory of a node in each job's partition; NaN if it has none."""
    at = machine.kinds.index("memory")
    pools = rows.pools()
    least = []
    for name in pools.words:
        bits = machine.labels.get(name, 0)
        has = [each[at] for host, each in enumerate(machine.amounts) if bits >> host & 1]
        least.append(min(has, default=math.nan))
    of_rows: Floats = np.array(least, np.float64)[pools.which]
    return of_rows


def _with_licences(asked: HostsAsked, text: str) -> HostsAsked:
    licences = {}
    for part in filter(None, text.split("\n")):
        name, _, count = part.rpartition("=")
        licences[name] = int(count)
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
        words = self._words("ReqTRES")
        told = np.array([amount_of(text, resource) for text in words.words])[words.which]
        if name in self._table:
            told = np.where(np.isnan(told), self._table.counts(name), told)
        counts: Floats = told
        return counts

    def memory(self, hosts: Floats, cores: Floats) -> tuple[Floats, Booleans]:
        """Return the memory of each job on all its hosts (bytes), NaN where unknown, and which jobs
        asked for all memory of their hosts.
        """

        def of_tres(name: str) -> Floats:
            words = self._words(name)
            found = [_MEMORY.search(text) for text in words.words]
            values = [read_memory(match[1])[0] if match else 0.0 for match in found]
            amounts: Floats = np.array(values, np.float64)[words.which]
            return amounts

        words = self._words("ReqMem")
        read = {text: read_memory(text) for text in words.words}
        accepted = "memory such as 4000M, 4000Mc (of each core) or 16Gn (of each node)"
        wrong = words.where(lambda text: math.isinf(read[text][0]))
        if "ReqMem" in self._table:
            self._table.refuse(wrong, "ReqMem", accepted)

        each = np.array([read[text][0] for text in words.words], np.float64)[words.which]
        by_core = words.where(lambda text: read[text][1] == "c")
        by_host = words.where(lambda text: read[text][1] == "n")
        of_core = each * np.ceil(cores / hosts) * hosts
        asked = np.where(by_core, of_core, np.where(by_host, each * hosts, each))

        total = of_tres("AllocTRES")
        total = np.where(by_core & (of_core > 0), of_core, total)
        for other in (of_tres("ReqTRES"), asked):
            total = np.where(total > 0, total, other)
        is_zero = (each == 0) & bool((total > 0).any())
        is_all = (is_zero | self.command(_ALL_MEMORY)) & ~(total > 0)
        return np.where(total > 0, total, np.nan), is_all

    def generic(self, machine: Machine | None) -> tuple[dict[str, Floats], Booleans, Booleans]:
        """Return what jobs have of GPUs and other generic resources on all their hosts; which jobs
        have others that no node is known to have; and which have shards of GPUs.
        """
        asked = self._words("ReqTRES")
        given = self._words("AllocTRES")
        size = len(given.words)
        pairs, which = np.unique(asked.which * size + given.which, return_inverse=True)
        kinds = () if machine is None else machine.kinds
        listed: list[dict[str, int]] = []
        others = []
        for pair in pairs.tolist():
            own = generic_amounts(given.words[pair % size])
            wanted = generic_amounts(asked.words[pair // size])
            has = {**wanted, **own}
            gpus = own.get("gpus", 0) or wanted.get("gpus", 0)
            typed = {kind: n for kind, n in wanted.items() if kind.startswith("gpus:")}
            if not wanted.get("gpus"):
                typed = {kind: n for kind, n in own.items() if kind.startswith("gpus:")}
            amounts = {"gpus": max(gpus, sum(typed.values())), **typed}
            sites = {kind: n for kind, n in has.items() if not kind.startswith("gpus")}
            others.append(not sites.keys() <= {*kinds})
            amounts |= {kind: n for kind, n in sites.items() if kind in kinds}
            listed.append(amounts)

        all_kinds = dict.fromkeys(kind for amounts in listed for kind in amounts)
        found = {
            kind: np.array([amounts.get(kind, 0) for amounts in listed], np.float64)[which]
            for kind in all_kinds
        }
        shards = self._shards(asked) | self._shards(given)
        return found, np.array(others, np.bool_)[which], shards

    @staticmethod
    def _shards(words: Words) -> Booleans:
        return words.where(lambda text: _SHARD.search(text) is not None)

    def licences(self) -> Words:
        """Return the licences of each job, ``NAME=COUNT`` on a line each."""
        own = self._words("Licenses")
        tres = self._words("ReqTRES")
        size = len(tres.words)
        pairs, which = np.unique(own.which * size + tres.which, return_inverse=True)
        texts = []
        for pair in pairs.tolist():
            found = dict(_TRES_LICENCE.findall(tres.words[pair % size]))
            found |= _licences(own.words[pair // size])
            texts.append("\n".join(f"{name}={count}" for name, count in found.items()))
        return Words(texts, which)


@cache
def _licences(text: str) -> dict[str, str]:
    """Return the licences in a column of sacct, ``matlab:1,ansys@server:2``."""
    if is_none(text):
        return {}
    matches = (_LICENCE.fullmatch(part.strip()) for part in re.split("[,;]", text))
    return {match[1]: match[2] or "1" for match in matches if match}
