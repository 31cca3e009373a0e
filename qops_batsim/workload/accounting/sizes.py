"""Sizes of jobs and of the machine in a batch system's accounting."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.tables import Floats, Words
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.node_sizes import NodeSizes, node_names
from qops_batsim.workload.accounting.rows import Rows

Rates = Mapping[str, tuple[int, int]]
"""Cores and GPUs by partition."""


def binding_sizes(rows: Rows, rates: Rates) -> tuple[Floats, str]:
    """Return each job's size in cores, at least those that belong to its GPUs, and a text that says
    so.

    A job of 1 core and 8 GPUs on nodes of 64 cores and 8 GPUs takes a node: 64 cores. The cores
    that belong to a GPU are those of its partition over its GPUs: both by partition.
    """
    gpus = rows.numbers.get("gpus")
    if gpus is None or not rates:
        return rows.processors, ""

    sizes = rows.processors
    pools = rows.pools()
    told = []
    for name, (cores, cards) in rates.items():
        by_gpus = np.ceil(np.maximum(gpus, 0) * cores / cards - 1e-9)
        sizes = np.where(pools.where(name.__eq__), np.fmax(sizes, by_gpus), sizes)
        share = f"{cores / cards:.3g} ({cores:,} cores, {cards:,} GPUs)"
        told.append(f"{share} in {name}" if len(set(pools.words)) > 1 else share)
    rule = "cores; a GPU takes those that belong to it, if its job has fewer: "
    return sizes, rule + ", ".join(told)


def cores_and_gpus(
    rows: Rows, run_times: Floats, nodes: NodeSizes | None
) -> dict[str, tuple[int, int]]:
    """Return (cores, GPUs) of each partition with GPUs: those of its ``nodes``, if these are known,
    else the most that jobs used at once.
    """
    gpus = rows.numbers.get("gpus")
    rates: dict[str, tuple[int, int]] = {}
    if gpus is None:
        return rates

    pools = rows.pools()
    for name in sorted(set(pools.words)):
        inside = pools.where(name.__eq__)
        known = (nodes or NodeSizes(())).together([name])
        cores, cards = (
            known[unit] or _most_in_use(rows, run_times, np.where(inside, column, 0)) or 0
            for unit, column in (("cores", rows.processors), ("gpus", gpus))
        )
        if cores and cards:
            rates[name] = cores, cards
    return rates


def machine_size(rows: Rows, run_times: Floats, choices: Choices) -> tuple[int | None, str]:
    """Return the machine's number of processors, None if unknown, and a text on its source."""
    pools = set(rows.pools().words)
    if choices.nodes is not None and pools <= choices.nodes.keys():
        size = choices.nodes.together(pools)[choices.unit]
        return size, f"{choices.unit} of the nodes told"
    told = f"the most {choices.unit} in use at once"
    if count := int((rows.suspended > 0).sum()):
        told += f", without {count} jobs that were suspended for a while"
    return _most_in_use(rows, run_times), told


def hosts_of_machine(rows: Rows, machine: Machine | None) -> tuple[int | None, str]:
    """Return the number of hosts that jobs share, None if unknown, and a text on its source."""
    if machine is not None:
        return machine.hosts, "hosts of the nodes told"
    nodes = rows.nodes or Words.one("", len(rows.ids))
    listed = np.unique(nodes.which).tolist()
    names = {name for at in listed for name in node_names(nodes.words[at])}
    return len(names) or None, "the nodes on which jobs ran"


def _most_in_use(rows: Rows, run_times: Floats, sizes: Floats | None = None) -> int | None:
    """Return the most processors in use at once according to the log.

    A job that was suspended left its processors to others at unknown dates: its width counts only.
    """
    spare = [stretch for of in rows.spare.values() for stretch in of] if sizes is None else []
    sizes = rows.processors if sizes is None else sizes
    known = (run_times > 0) & ~np.isnan(rows.started) & (sizes > 0)
    widest = sizes[known].astype(np.int64).max(initial=0)
    if not widest:
        return None

    known &= rows.suspended == 0
    width = sizes[known]
    begin = rows.started[known]
    end = np.fmax(rows.ended[known], begin + run_times[known])
    since, until, fewer = np.array(spare, np.float64).reshape(-1, 3).T
    # At one date, what is given back comes first.
    dates = np.concatenate([end, since, until, begin])
    changes = np.concatenate([-width, -fewer, fewer, width]).astype(np.int64)
    used = np.cumsum(changes[np.argsort(dates, kind="stable")])
    return int(max(used.max(initial=0), widest))
