"""Schedules made with knowledge of the future, as runs: executed, written and verified."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping

from qops_batsim.core.job import Job
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.errors import SimulationError
from qops_batsim.optimum.best import ROUNDING, Best
from qops_batsim.optimum.problem import worth_of
from qops_batsim.running.inputs import AnyPlatform
from qops_batsim.running.run import Run, run
from qops_batsim.schedulers.queue_scheduler import QueueScheduler
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.workload_model import Workload


class Clairvoyant(QueueScheduler):
    """Scheduler that starts jobs at given dates and rejects all others at arrival.

    A job with a deadline is promised it. One whose processors are not free yet at its start
    waits for them, so that a wrong list breaks promises, which ``qops-batsim verify`` tells.

    Parameters
    ----------
    starts
        Date (seconds) by job id within the workload.
    """

    summary = "executes a fixed list of starts"
    needs_deadlines = True

    def __init__(self, starts: Mapping[str, float]) -> None:
        super().__init__()
        self._starts = starts

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty queue."""
        super().begin(manager)
        self._listed: list[tuple[float, str, Job]] = []
        self._asked = -1.0

    def arrived(self, job: Job) -> None:
        """Promise a job its deadline if the schedule has a start for it, else reject it."""
        start = self._starts.get(job.id.partition("!")[2])
        if start is None:
            self.manager.reject(job, "not among the chosen jobs")
            return
        if job.qos is not None and job.qos.deadline is not None:
            self.manager.record(job).admitted_deadline = job.qos.deadline
        heapq.heappush(self._listed, (start, job.id, job))

    def waiting(self) -> list[Job]:
        """Return the jobs that have not started."""
        return [job for _, _, job in sorted(self._listed)]

    def schedule(self) -> None:
        """Start the jobs that are due; ask to be woken up at the next start."""
        manager = self.manager
        late = []
        while self._listed and self._listed[0][0] <= manager.now + PLAN_TOLERANCE:
            due = heapq.heappop(self._listed)
            if due[2].processors <= manager.free:
                self.start(due[2])
            else:
                late.append(due)

        if self._listed and self._listed[0][0] != self._asked:
            self._asked = self._listed[0][0]
            manager.call_at(self._asked)
        for each in late:
            heapq.heappush(self._listed, each)


def write_best(
    best: Best,
    workload: Workload,
    prefix: str,
    name: str | None = None,
    platform: AnyPlatform | None = None,
) -> Run:
    """Run the best schedule found, write the files of the run, and check what it is worth.

    ``name`` is what the run's description calls the workload: the file that it was read from. On
    a ``platform`` whose hosts jobs share, the scheduler that found the schedule is run, with all
    jobs that end late.
    """
    scheduler = Clairvoyant(best.starts) if platform is None else best.found_by
    done = run(scheduler, name or workload, platform=platform, out=prefix)
    if done.violations:
        first = done.violations[0]
        raise SimulationError(
            f"{prefix}: the best schedule found breaks the rule {first.rule} ({first.message}); "
            "this is a defect of qops-batsim, please report it"
        )

    ran = done.result.executed.tolist()
    worths = worth_of(workload, best.objective, done.inputs.platform if platform else None)
    worth = dict(zip(workload.columns.ids, worths.tolist(), strict=True))
    ids = [job_id.partition("!")[2] for job_id in done.result.ids]
    counted = {each for each, it_ran in zip(ids, ran, strict=True) if it_ran}
    if platform is not None:
        counted &= set(best.starts)
    total = math.fsum(worth[each] for each in counted)
    if abs(total - best.best_known) > ROUNDING * max(1.0, best.total):
        raise SimulationError(
            f"{prefix}: the best schedule found is worth {total:g} when it is run, but was "
            f"computed to be worth {best.best_known:g}; this is a defect of qops-batsim, please "
            "report it"
        )
    return done
