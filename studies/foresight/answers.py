"""CPU time of single answers of foresight beside long queues."""

from __future__ import annotations

from time import process_time

import numpy as np

from qops_batsim import simulate
from qops_batsim.experiments import Scenario
from qops_batsim.platform import make_cluster
from qops_batsim.scheduling.admission.foresight import Foresight
from qops_batsim.scheduling.answers import AdmissionAnswer
from qops_batsim.scheduling.plan import Plan
from studies.foresight.runs import runs_of


class Timed(Foresight):
    """Foresight that notes the CPU time of each answer (ms), by the number of waiting jobs."""

    times: list[tuple[int, float]]

    def new_plan(self, machine_size: int) -> Plan:
        """Return the plan, watched."""
        plan = super().new_plan(machine_size)
        policy, self.times = plan.policy, []
        assert policy is not None
        take = policy.take

        def timed(plan: Plan, now: float, slot: int) -> AdmissionAnswer:
            began = process_time()
            answer = take(plan, now, slot)
            self.times.append((plan.waiting_count, 1e3 * (process_time() - began)))
            return answer

        policy.take = timed  # type: ignore[method-assign]
        return plan


def answer_times() -> str:
    """Time the answers beside at least 200 waiting jobs, prices made anew in between."""
    workload = runs_of("CTC 338").workload(Scenario(log="CTC 338", load=1.6))
    for _ in range(2):  # The first run compiles.
        module = Timed()
        simulate(module, workload, make_cluster(workload.processors))
    long = [taken for waiting, taken in module.times if waiting >= 200]
    shares = np.percentile(long, [50, 99, 100])
    median, most, longest = shares.tolist()
    return (
        f"{len(long):,} answers beside 200 waiting jobs or more: median {median:.2f} ms, 99th "
        f"percentile {most:.2f} ms, longest {longest:.2f} ms"
    )
