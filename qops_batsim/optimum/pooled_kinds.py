"""Kinds of a machine with amounts, pooled: what all hosts have together, and what jobs take of it.

In every schedule on the hosts, what running jobs take of a kind is never more than all hosts have
of it. So what no schedule on the pool of one kind reaches, none on the hosts does: each kind gives
a bound by itself. A job takes the sums of what it asks for; of hosts that it takes whole, what
the smallest ones have on which it fits. Licences are pools as they are. Whole hosts themselves
are one more, of which jobs that share hosts take nothing.

The dominant share is no pool: jobs that take 0.6 of all cores and 0.6 of all memory may run at the
same time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.core.node_request import HostPart, NodeLayout
from qops_batsim.job_fields import AskedPart, asked_or_whole
from qops_batsim.optimum.problem import Booleans, Pool
from qops_batsim.workload.workload_model import Workload

MOST = 10**6
"""Units that a pool has at most, so that sums of energy stay exact."""


def pooled_kinds(workload: Workload, machine: Machine, fits: Booleans) -> list[Pool]:
    """Return the pools of a machine of which jobs take something.

    Jobs that do not fit the empty machine take nothing. O(jobs + distinct requests × hosts log
    hosts).
    """
    layout = NodeLayout(machine)
    columns = workload.columns
    asked = columns.hosts_asked or [None] * len(columns.ids)
    of_part: dict[HostPart, list[int]] = {}
    nothing = [0] * (len(machine.kinds) + 1 + len(machine.licences))
    demands = []
    for request, hosts, it_fits in zip(asked, columns.processors.tolist(), fits, strict=True):
        if not it_fits:
            demands.append(nothing)
            continue
        request = asked_or_whole(request, hosts)
        taken = []
        for part in request.parts:
            made = layout.part(part)
            assert isinstance(made, HostPart)
            if made not in of_part:
                of_part[made] = _of_part(part, made, machine)
            taken.append(of_part[made])
        licences = [request.licences.get(name, 0) for name in machine.licences]
        demands.append([*map(sum, zip(*taken, strict=True)), *licences])

    totals = [*machine.totals.values(), machine.hosts, *machine.licences.values()]
    pools = zip(zip(*demands, strict=True), totals, strict=True)
    return [_in_units(demand, total) for demand, total in pools if any(demand)]


def _of_part(part: AskedPart, made: HostPart, machine: Machine) -> list[int]:
    """Return what a part takes at least: of each kind, and of whole hosts."""
    count = part.tasks or part.hosts
    sums = [count * part.amounts.get(kind, 0) for kind in machine.kinds]
    if not made.is_whole:
        return [*sums, 0]

    # Of tasks it is only known that they take one host.
    hosts = 1 if part.tasks else part.hosts
    for kind, asked in enumerate(sums):
        has = sorted(machine.amounts[row][kind] for row in made.candidates)
        sums[kind] = max(asked, sum(has[:hosts]))
    return [*sums, hosts]


def _in_units(demand: Sequence[int], total: int) -> Pool:
    """Return a pool in units of which it has at most :data:`MOST`.

    Everything is rounded down. Whole demands whose exact sum is within the total are within the
    total rounded down then.
    """
    unit = math.gcd(*demand)
    unit *= max(1, -(-(total // unit) // MOST))
    return Pool(np.array([each // unit for each in demand], np.int64), total // unit)
