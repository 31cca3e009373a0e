"""Promises where dates have six decimals, as an engine tells them over ZeroMQ."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import read_platform, read_run, read_workload, verify
from qops_batsim.core.qos_log import write_qos_log
from qops_batsim.engine import EngineOptions, Simulation, write_outputs
from qops_batsim.measures import Verification
from qops_batsim.protocol import (
    Decision,
    DecisionSession,
    Event,
    Message,
    decode_decisions,
    encode_message,
)
from qops_batsim.protocol.messages import rounded_message
from support.random_simulations import SCHEDULERS, random_case


class Rounding:
    """The wire without sockets: texts, numbers with six decimals."""

    def __init__(self, session: DecisionSession) -> None:
        self.session = session

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        return decode_decisions(self.session.answer(encode_message(rounded_message(message))))


def make_fractional(workload: dict) -> None:
    """Give dates and run times digits beyond the sixth decimal."""
    for number, job in enumerate(workload["jobs"]):
        digits = (number * 7919 % 1000) * 1e-9
        job["subtime"] += digits
        if "walltime" in job:
            job["walltime"] += 3 * digits
        elif "estimated_runtime" in job.get("qos", {}):
            job["qos"]["estimated_runtime"] += 3 * digits
    for number, profile in enumerate(workload["profiles"].values()):
        if profile["type"] == "delay":
            profile["delay"] += (number * 7919 % 1000) * 1e-9


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_promises_are_kept(tmp_path: Path, scheduler: str) -> None:
    case = random_case(3, scheduler, network=False)
    make_fractional(case.workload)
    path, platform = case.write(tmp_path)
    workload = read_workload(path)
    is_dynamic = scheduler == "aroma" or "kill_and_restart" in case.settings
    options = EngineOptions(
        compute_sharing=scheduler == "aroma", dynamic_jobs=is_dynamic, profile_reuse=is_dynamic
    )
    session = DecisionSession(scheduler, case.settings)
    simulation = Simulation(read_platform(platform), [workload], Rounding(session), options)
    simulation.run()
    write_outputs(simulation, tmp_path / "run")
    write_qos_log(session.log, f"{tmp_path}/run")
    found = {"workloads": {"w0": workload}, "compute_sharing": options.compute_sharing}
    result = read_run(f"{tmp_path}/run")
    assert verify(result, **found) == []
    assert len(Verification(result, **found).rules) > 5
