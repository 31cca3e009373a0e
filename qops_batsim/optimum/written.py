"""Best known schedules as runs: executed by the embedded engine, written, and verified."""

from __future__ import annotations

import math

from qops_batsim.errors import SimulationError
from qops_batsim.optimum.best import ROUNDING, Best
from qops_batsim.optimum.clairvoyant import Clairvoyant
from qops_batsim.optimum.worth import worth_of
from qops_batsim.running.run import Run, run
from qops_batsim.workload.model import Workload


def write_best(best: Best, workload: Workload, prefix: str, name: str | None = None) -> Run:
    """Execute a schedule, write it as a run's files, and check that it is worth what is said.

    ``name`` is what the run's description calls the workload: the file that it was read from.
    """
    done = run(Clairvoyant(best.starts), name or workload, out=prefix)
    if done.violations:
        first = done.violations[0]
        raise SimulationError(f"{prefix}: the schedule breaks {first.rule}: {first.message}")
    ran = done.result.executed.tolist()
    worth = dict(
        zip(workload.columns.ids, worth_of(workload, best.objective).tolist(), strict=True)
    )
    ids = [job_id.partition("!")[2] for job_id in done.result.ids]
    total = math.fsum(worth[each] for each, it_ran in zip(ids, ran, strict=True) if it_ran)
    if abs(total - best.best_known) > ROUNDING * max(1.0, best.total):
        raise SimulationError(
            f"{prefix}: the schedule is worth {total:g}, and {best.best_known:g} was expected"
        )
    return done
