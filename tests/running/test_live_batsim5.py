"""Live: the real Batsim 5, where it lies beside the project, beside the embedded engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_batsim5 import real_batsim5, run_both, run_case, schedule_difference
from qops_batsim.workload.batsim_json import write_workload
from qops_batsim.workload.conversion import convert_log
from qops_batsim.workload.swf import read_swf
from random_simulations import SCHEDULERS, random_case


@pytest.fixture(autouse=True)
def batsim5() -> str:
    """Skip all that is here where there is no real Batsim 5."""
    return real_batsim5()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("events", [False, True], ids=["hosts_stay", "hosts_leave"])
def test_schedules_without_latencies_are_equal(
    tmp_path: Path, scheduler: str, events: bool
) -> None:
    runs = run_case(random_case(1, scheduler, network=False, events=events), tmp_path)
    assert schedule_difference(runs) == ""
    assert runs[0].violations == runs[1].violations == []


@pytest.mark.parametrize("scheduler", ["easy", "conservative"])
def test_a_real_log(tmp_path: Path, shared: Path, scheduler: str) -> None:
    log = read_swf(shared / "traces" / "KTH-SP2-1996-2.swf.gz")
    write_workload(convert_log(log, processors=100, first=1000).workload, tmp_path / "kth.json")
    runs = run_both(scheduler, tmp_path / "kth.json", "kth_sp2_100", None, tmp_path)
    assert schedule_difference(runs) == ""
    assert runs[0].violations == runs[1].violations == []
