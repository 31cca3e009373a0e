"""What a scheduler is told of the machine, by each engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import Easy, InputError, read_platform, read_workload, run, simulate
from qops_batsim.core.machine import Machine
from qops_batsim.core.system import UNDESCRIBED, HostDescription, System
from qops_batsim.engine import EngineOptions, Simulation
from qops_batsim.protocol import ModuleDriver, SchedulerModule
from qops_batsim.running.run import BatsimCall

TOLD: list[Machine | None] = []


class Looking(Easy):
    """EASY that notes the machine that its engine describes."""

    def begin(self, manager):
        super().begin(manager)
        TOLD.append(manager.system.machine())


@pytest.mark.parametrize("name", ["batsim", "batsim5"])
def test_the_real_batsim_forwards_what_hosts_have(
    tmp_path: Path, request: pytest.FixtureRequest, name: str
) -> None:
    call = BatsimCall(path=request.getfixturevalue(name), log_level="quiet", timeout=60)
    run(Looking, "tiny_8", "shared_8", out=tmp_path / "r", engine="batsim", batsim=call)
    assert TOLD.pop() == read_platform("shared_8").machine


def test_the_embedded_engine_tells_what_hosts_have() -> None:
    machine = read_platform("shared_8").machine
    simulate(Looking, "tiny_8", "shared_8")
    assert TOLD.pop() == machine
    # In Batsim's messages.
    driver = ModuleDriver(SchedulerModule(Looking()))
    options = EngineOptions(compute_sharing=True)
    Simulation(read_platform("shared_8"), [read_workload("tiny_8")], driver, options).run()
    assert TOLD.pop() == machine


def test_whole_hosts_are_no_machine_of_amounts() -> None:
    simulate(Looking, "tiny_8", "kth_sp2_100")
    assert TOLD.pop() is None
    assert UNDESCRIBED.machine() is None


def test_wrong_amounts_name_the_host() -> None:
    hosts = (HostDescription(0, "a"), HostDescription(1, "b", properties={"gpus": "some"}))
    with pytest.raises(InputError, match="host 'b': property gpus is 'some'; a whole number"):
        System(hosts=hosts).machine()
