"""Live: the real Batsim 5, where it lies beside the project, beside the embedded engine."""

from __future__ import annotations

import csv
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import zmq

from qops_batsim import read_platform, read_swf, run
from qops_batsim.running import Run
from qops_batsim.workload import convert_log, write_workload
from support.batsim5_probes import PROBES, ProbeDecider, jobs_of, recorded_probes
from support.live_batsim5 import (
    difference_in_process,
    equal_to_the_byte,
    run_both,
    run_case,
)
from support.live_engines import difference
from support.random_simulations import SCHEDULERS, SPEED, document, random_case
from support.shared_cases import SHARING, only_sleeps, shared_case

pytestmark = pytest.mark.usefixtures("batsim5")


@pytest.mark.parametrize(
    ("scheduler", "events"), [*((name, True) for name in SCHEDULERS), ("easy", False)]
)
def test_schedules_without_latencies_are_equal(
    tmp_path: Path, scheduler: str, events: bool
) -> None:
    case = random_case(1, scheduler, network=False, events=events)
    runs = run_case(case, tmp_path)
    assert equal_to_the_byte(runs)
    assert runs[0].violations == runs[1].violations == []
    assert difference_in_process(case, runs[1], tmp_path) == ""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scheduler", SHARING)
def test_schedules_on_shared_hosts_are_equal(tmp_path: Path, scheduler: str, seed: int) -> None:
    case = shared_case(seed, scheduler, events=seed == 1)
    runs = run_case(case, tmp_path)
    assert difference(runs) == ""
    assert equal_to_the_byte(runs) or not only_sleeps(case)
    assert runs[0].violations == runs[1].violations == []
    assert difference_in_process(case, runs[1], tmp_path) == ""


@pytest.mark.parametrize(
    "scheduler",
    [
        pytest.param(name, marks=() if name in ("easy", "qops") else pytest.mark.sweep)
        for name in SCHEDULERS
    ],
)
def test_schedules_with_latencies_are_equal(tmp_path: Path, scheduler: str) -> None:
    runs = run_case(random_case(1, scheduler, network=True), tmp_path)
    assert difference(runs) == ""
    assert runs[0].violations == runs[1].violations == []


@pytest.mark.parametrize(
    ("scheduler", "workload", "platform", "settings"),
    [
        pytest.param("qops", "kth_1300_deadlines", "net100", {}, marks=pytest.mark.sweep),
        pytest.param(
            *("fqops", "kth_1300_deadlines", "net100", {"kill_and_restart": True}),
            marks=pytest.mark.sweep,
        ),
        ("aroma", "aroma_mixed", "aroma_grid", {}),
    ],
)
def test_promises_on_networks_are_those_of_the_embedded_engine_and_kept(
    tmp_path: Path,
    shared: Path,
    scheduler: str,
    workload: str,
    platform: str,
    settings: dict[str, Any],
) -> None:
    inputs = shared / "batsim" / "networked" / "inputs"
    machine = inputs / f"{platform}.xml"
    given = scheduler, inputs / f"{workload}.json.gz", machine, settings
    runs = run_both(*given, tmp_path)
    assert difference(runs) == ""
    assert runs[0].violations == runs[1].violations == []
    assert runs[0].lateness == runs[1].lateness
    ours = read_platform(machine).numbered_by_value()
    here = run(*given[:2], ours, settings, out=tmp_path / "in_process")
    assert refused(here) == refused(runs[1])


def refused(made: Run) -> set[str]:
    with open(f"{made.prefix}_jobs.csv") as stream:
        rows = csv.DictReader(stream)
        return {row["job_id"] for row in rows if row["final_state"] == "REJECTED"}


@pytest.mark.sweep
@pytest.mark.parametrize("scheduler", ["easy", "conservative"])
def test_a_real_log(tmp_path: Path, shared: Path, scheduler: str) -> None:
    log = read_swf(shared / "traces" / "KTH-SP2-1996-2.swf.gz")
    write_workload(convert_log(log, processors=100, first=1000).workload, tmp_path / "kth.json")
    runs = run_both(scheduler, tmp_path / "kth.json", "kth_sp2_100", None, tmp_path)
    assert equal_to_the_byte(runs)
    assert runs[0].violations == runs[1].violations == []


def test_computations_of_exactly_their_walltimes_end_alike(tmp_path: Path) -> None:
    """By the last bits of the clock, one in twenty of them is killed."""
    rng, now = random.Random(3), 0.0
    jobs, profiles = [], {}
    for number in range(200):
        now += rng.choice([0, rng.expovariate(0.3)])
        flop = 100 * rng.randint(10_000, 20_000_000)
        name = f"p{number}"
        profiles[name] = {"type": "parallel_homogeneous", "cpu": flop, "com": 0}
        row = {"id": str(number), "subtime": round(now, 6), "res": 1, "profile": name}
        jobs.append(row | {"walltime": flop / SPEED})
    hosts = "".join(f'<host id="h{n}" coordinates="0 0 0" speed="100Mf"/>' for n in range(3))
    master = '<host id="master_host" coordinates="0 0 0" speed="100Mf"/>'
    (tmp_path / "p.xml").write_text(document([master, hosts], "Vivaldi"))
    content = {"nb_res": 3, "jobs": jobs, "profiles": profiles}
    (tmp_path / "w.json").write_text(json.dumps(content))
    runs = run_both("fcfs", tmp_path / "w.json", tmp_path / "p.xml", None, tmp_path)
    assert equal_to_the_byte(runs)
    killed = (tmp_path / "batsim5_jobs.csv").read_text().count("COMPLETED_WALLTIME_REACHED")
    assert 3 <= killed <= 30


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROBES)
def test_probes_are_those_that_were_recorded(
    tmp_path: Path, batsim5: str, batsim5_sessions: Path, name: str
) -> None:
    recorded = recorded_probes(batsim5_sessions)[name]
    probe = PROBES[name]
    (tmp_path / "w.json").write_text(json.dumps(probe.content()))
    platform = batsim5_sessions / "delays_nonet" / "platform.xml"
    words = ["-p", str(platform), "-w", "w.json", "-s", f"ipc://{tmp_path}/e.sock", ""]
    decider = ProbeDecider(probe)
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.linger = 0
        socket.bind(f"ipc://{tmp_path}/e.sock")
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with subprocess.Popen([batsim5, *words], cwd=tmp_path, **quiet) as child:
            while child.poll() is None:
                if socket.poll(20):
                    socket.send(decider.answer(socket.recv()))
    # By which signal it ends is a matter of chance where it fails in its own report.
    assert (child.returncode == 0) == (recorded["exit"] == 0)
    said = [[date, kinds] for date, kinds in decider.exchanges]
    if child.returncode:
        assert said[-3:] == recorded["exchanges"][-3:]
    else:
        assert said == recorded["exchanges"]
        assert jobs_of(tmp_path / "out") == recorded["jobs"]
