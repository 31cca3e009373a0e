"""Run by the Python of an installation: CPU seconds of a simulation, or of single answers."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from qops_batsim import read_workload, simulate

QUEUES = (0, 10, 100, 1000)
"""Waiting jobs are counted in classes that begin here."""


def in_process(scheduler: str, workload: str, *settings: str) -> float:
    """Return the CPU seconds of ``simulate`` after a first run."""
    jobs, options = read_workload(workload), dict(each.split("=") for each in settings)
    simulate(scheduler, jobs, None, options)
    began = time.process_time()
    simulate(scheduler, jobs, None, options)
    return time.process_time() - began


class TimedPeer:
    """A decision module whose answers are timed, by the number of jobs that wait meanwhile."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.waiting = 0
        self.answers: list[tuple[int, int]] = []

    def exchange(self, message: Any) -> Any:
        """Let the module answer; O(1) beside that."""
        self.waiting += sum(type(item.body).__name__ == "JobSubmitted" for item in message.events)
        began = time.process_time_ns()
        answer = self.driver.exchange(message)
        self.answers.append((self.waiting, time.process_time_ns() - began))
        kinds = [type(item.body).__name__ for item in answer.events]
        self.waiting -= kinds.count("ExecuteJob") + kinds.count("RejectJob")
        return answer


def latencies(scheduler: str, workload: str) -> list[dict[str, float]]:
    """Return the CPU milliseconds of single answers by queue length: p50, p99 and the longest."""
    from qops_batsim.engine.simulation import Simulation
    from qops_batsim.platform.equal_hosts import make_cluster
    from qops_batsim.protocol.driver import ModuleDriver
    from qops_batsim.protocol.port import make_scheduler

    jobs = read_workload(workload)
    for _ in range(2):
        peer = TimedPeer(ModuleDriver(make_scheduler(scheduler), any_engine=True))
        Simulation(make_cluster(jobs.processors), [jobs], peer).run()
    rows = []
    for first, beyond in zip(QUEUES, [*QUEUES[1:], float("inf")], strict=True):
        times = sorted(spent for waiting, spent in peer.answers[1:] if first <= waiting < beyond)
        if times:
            p50, p99 = (times[int(share * (len(times) - 1))] / 1e6 for share in (0.5, 0.99))
            counted = {"from": first, "answers": len(times)}
            rows.append({**counted, "p50": p50, "p99": p99, "max": times[-1] / 1e6})
    return rows


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"in_process": in_process, "latencies": latencies}[what](*arguments)))
