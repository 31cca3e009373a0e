"""CPU time of single answers of foresight beside long queues."""

from __future__ import annotations

from time import process_time

import numpy as np

from qops_batsim import Job, simulate
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.experiments import Scenario
from qops_batsim.platform import make_cluster
from qops_batsim.schedulers.foresight import Foresight
from studies.foresight.runs import runs_of


class Timed(Foresight):
    """Foresight that notes the CPU time of each answer (ms), by the number of waiting jobs."""

    def begin(self, manager: ResourceManager) -> None:
        """Begin with no times."""
        super().begin(manager)
        self.times: list[tuple[int, float]] = []

    def answer(self, job: Job) -> None:
        """Answer a new job."""
        waiting, began = len(self.plan.waiting), process_time()
        super().answer(job)
        self.times.append((waiting, 1e3 * (process_time() - began)))


def answer_times() -> str:
    """Time the answers beside at least 200 waiting jobs, prices made anew in between."""
    workload = runs_of("CTC 338").workload(Scenario(log="CTC 338", load=1.6))
    scheduler = Timed()
    simulate(scheduler, workload, make_cluster(workload.processors))
    long = [taken for waiting, taken in scheduler.times if waiting >= 200]
    shares = np.percentile(long, [50, 99, 100])
    median, most, longest = shares.tolist()
    return (
        f"{len(long):,} answers beside 200 waiting jobs or more: median {median:.2f} ms, 99th "
        f"percentile {most:.2f} ms, longest {longest:.2f} ms"
    )
