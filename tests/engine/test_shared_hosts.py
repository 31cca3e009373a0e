"""The engine against sessions of both real Batsims in which jobs share hosts by amounts.

Ten jobs on four hosts, with the fields of jobs and the properties of hosts that say how much they
ask for and have: sleeps and computations side by side, tasks with a mapping, components, a kill, a
walltime, a registered job, and a host that leaves while three jobs are on it.
"""

from __future__ import annotations

from pathlib import Path

from qops_batsim.engine import format_jobs
from qops_batsim.engine.outputs import format_machine_states
from support.batsim5_recordings import play
from support.recordings import case_in, replay

SESSIONS = Path(__file__).parent / "shared_hosts"


def test_batsim_4() -> None:
    inputs = {"platform": "platform.xml", "workloads": ["workload.json"], "events": "ev.txt"}
    case = case_in(SESSIONS / "batsim4", "shared", **inputs)
    simulation, peer = replay(case)
    assert peer.differences == []
    assert format_jobs(simulation.ended_jobs) == case.output("jobs")
    assert format_machine_states(simulation.host_changes) == case.output("machine_states")


def test_batsim_5(tmp_path: Path) -> None:
    peer = play(SESSIONS / "batsim5", tmp_path)
    assert peer.error is None
    assert peer.differences == []
    assert peer.place == len(peer.lines)
    recorded = SESSIONS / "batsim5" / "written" / "jobs.csv"
    assert (tmp_path / "out" / "jobs.csv").read_bytes() == recorded.read_bytes()
