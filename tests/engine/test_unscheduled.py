"""Runs without a decision side."""

from __future__ import annotations

import pytest

from qops_batsim import Job
from qops_batsim.engine import EngineOptions, format_schedule, write_outputs
from qops_batsim.engine.outputs import format_machine_states
from qops_batsim.engine.simulation import simulation_without_scheduler
from qops_batsim.errors import SimulationError
from qops_batsim.platform import make_cluster
from qops_batsim.workload import Workload

PROFILES = {
    "sleep": {"type": "delay", "delay": 7},
    "work": {"type": "parallel_homogeneous", "cpu": 4e9, "com": 0},
}


def workload(*jobs: Job) -> Workload:
    return Workload(jobs=list(jobs), profiles=PROFILES, processors=4)


def test_all_jobs_start_at_the_beginning_on_the_first_hosts(tmp_path) -> None:
    """Two jobs share host 0, and one of them needs host 1 as well.

    host 1      wide ████████ 8            each computes 4 s alone
    host 0      wide, one ██ 8     late ── sleeps to 7
    """
    first = workload(Job("wide", 50.0, 2, "work"), Job("late", 1e6, 1, "sleep"))
    second = workload(Job("one", 0.0, 1, "work", walltime=20.0), Job("cut", 3.0, 3, "sleep", 5.0))
    platform = make_cluster(4, speed=1e9)
    simulation = simulation_without_scheduler(
        platform, [first, second], EngineOptions(dynamic_jobs=True)
    )
    simulation.run()
    ended = {record.job.id: (record.finish, str(record.hosts)) for record in simulation.ended}
    assert ended == {
        "w0!late": (7.0, "0"),
        "w0!wide": (8.0, "0-1"),
        "w1!cut": (5.0, "0-2"),
        "w1!one": (8.0, "0"),
    }
    # Nothing counts the jobs, as in Batsim, but hosts change their states.
    write_outputs(simulation, tmp_path / "run")
    assert len((tmp_path / "run_jobs.csv").read_text().splitlines()) == 1
    names, row = (line.split(",") for line in format_schedule(simulation).splitlines())
    totals = dict(zip(names, row, strict=True))
    assert (totals["nb_jobs"], totals["makespan"], totals["success_rate"]) == (
        "0",
        "0.000000",
        "-nan",
    )
    assert float(totals["time_computing"]) == 8 + 8 + 5
    rows = format_machine_states(simulation.host_changes).splitlines()
    assert rows[-3:] == ["7,0,0,0,2,2", "8,0,0,0,3,1", "8,0,0,0,4,0"]


def test_a_job_wider_than_the_machine_is_refused() -> None:
    simulation = simulation_without_scheduler(
        make_cluster(2), [workload(Job("wide", 0.0, 3, "sleep"))], EngineOptions()
    )
    with pytest.raises(SimulationError, match="'w0!wide' cannot start on host 2"):
        simulation.run()
