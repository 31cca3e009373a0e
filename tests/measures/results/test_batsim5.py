"""Files that the real Batsim 5 has written, read like those of any run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim import InputError, read_run, read_workload, verify
from qops_batsim.file_set import run_files
from qops_batsim.measures import busy_hosts, compare_runs, run_measures
from qops_batsim.measures.results.result_tables import read_totals
from qops_batsim.running.releases import write_as_batsim4

TOTALS = '{"nb_jobs": 1, "nb_jobs_finished": 1, "nb_computing_machines": 2, "makespan": 3.0}'


@pytest.mark.parametrize("name", ["delays_nonet", "kills_nonet", "types_net", "walltimes_nonet"])
def test_a_directory_of_batsim_5_is_a_run(batsim5_sessions: Path, name: str) -> None:
    directory = batsim5_sessions / name / "out"
    result = read_run(directory)
    assert result.hosts_source == "schedule.json"
    assert not any("!" in each for each in result.table.texts["profile"])
    workloads = {"w0": read_workload(batsim5_sessions / name / "workload.json")}
    assert verify(result, workloads=workloads) == []
    assert run_measures(result, workloads).utilization > 0
    assert compare_runs(result, read_run(directory / "jobs.csv")).equal


@pytest.mark.parametrize("name", ["kills_nonet", "share_random", "two_workloads", "easy_net100"])
def test_every_command_about_runs_takes_one_of_batsim_5(
    cli: Callable[..., Any], batsim5_sessions: Path, tmp_path: Path, name: str
) -> None:
    run = batsim5_sessions / name / "out"
    sharing = ["--compute-sharing"] if name == "share_random" else []
    assert cli("metrics", run).exit_code == 0
    assert cli("verify", run, *sharing).exit_code == 0
    assert cli("diff", run, run / "jobs.csv").exit_code == 0
    assert cli("plot", "gantt", run, "-o", tmp_path / "gantt.svg").exit_code == 0
    assert "</svg>" in (tmp_path / "gantt.svg").read_text()


def test_evalys_reads_a_run_of_batsim_5(batsim5_sessions: Path) -> None:
    from evalys.jobset import JobSet

    run = batsim5_sessions / "easy_net100" / "out"
    result = read_run(run)
    jobset = JobSet.from_csv(str(run / "jobs.csv"), resource_bounds=(0, result.hosts - 1))
    load, busy = jobset.utilisation, busy_hosts(result)
    assert load["load"].tolist() == busy.at(load.index.to_numpy(dtype=float)).tolist()
    assert set(busy.dates).issubset(load.index)


RESTARTS = """\
job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,\
final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,\
allocated_resources,consumed_energy,metadata
5,w0,w0!p,10.000000,1,-1.000000,0,COMPLETED_KILLED,20.000000,5.000000,25.000000,10.000000,15.000000,3.000000,0,-1.000000,
5#1,w0,w0!p,25.000000,1,-1.000000,0,COMPLETED_KILLED,30.000000,5.000000,35.000000,5.000000,10.000000,2.000000,0,-1.000000,
6,w0,w0!p,30.000000,1,-1.000000,1,COMPLETED_SUCCESSFULLY,35.000000,10.000000,45.000000,5.000000,15.000000,1.500000,0,-1.000000,
6#1,w0,w0!p,40.000000,1,-1.000000,1,COMPLETED_SUCCESSFULLY,45.000000,10.000000,55.000000,5.000000,15.000000,1.500000,0,-1.000000,
5#2,w0,w0!p,35.000000,1,-1.000000,1,COMPLETED_SUCCESSFULLY,55.000000,10.000000,65.000000,20.000000,30.000000,3.000000,0,-1.000000,
7,w0,w0!p,50.000000,9,-1.000000,0,REJECTED,,,,,,,,,
"""
"""Job 5 is killed twice; 6#1 is a job of a user, since 6 was not killed."""


@pytest.mark.parametrize("adopted", [False, True])
def test_a_job_that_is_run_again_was_submitted_once(tmp_path: Path, adopted: bool) -> None:
    (tmp_path / "jobs.csv").write_text(RESTARTS)
    totals = '"nb_jobs": 6, "nb_jobs_finished": 5, "nb_computing_machines": 1, "makespan": 65.0'
    wrong = '"mean_waiting_time": 7.5, "mean_slowdown": 1.8, "max_turnaround_time": 30.0'
    (tmp_path / "schedule.json").write_text(f"{{{totals}, {wrong}}}")
    where = tmp_path
    if adopted:
        where = tmp_path / "run"
        with run_files(where) as files:
            write_as_batsim4(tmp_path, files, [])
            files.publish_alone()
        assert (
            "\n7,w0,w0!p,50.000000,9,-1.000000,0,REJECTED,,,,,,,,,\n"
            in (tmp_path / "run_jobs.csv").read_text()
        )
    result = read_run(where)
    ran = {row["job_id"]: row for row in result.jobs[result.executed].to_dict("records")}
    submitted = {name: row["submission_time"] for name, row in ran.items()}
    assert submitted == {"5": 10, "5#1": 10, "6": 30, "6#1": 40, "5#2": 10}
    assert [row["waiting_time"] for row in ran.values()] == [10, 20, 5, 5, 45]
    assert [row["stretch"] for row in ran.values()] == [3, 5, 1.5, 1.5, 5.5]
    assert result.schedule is not None
    assert result.schedule["mean_waiting_time"] == pytest.approx(85 / 6, abs=1e-6)
    assert result.schedule["max_turnaround_time"] == 55
    assert [each.rule for each in verify(result)] == ["restart-identity"]


def test_an_empty_run_has_undefined_means(batsim5_sessions: Path) -> None:
    totals = read_totals(batsim5_sessions / "empty" / "out" / "schedule.json")
    assert totals["nb_jobs"] == 0
    assert np.isnan(totals["mean_waiting_time"])
    assert "time_idle" not in totals


def test_other_prefixes_are_runs_as_well(batsim5_sessions: Path, tmp_path: Path) -> None:
    for name in ("jobs.csv", "schedule.json", "machine_states.csv"):
        shutil.copy(batsim5_sessions / "delays_nonet" / "out" / name, tmp_path / f"run_{name}")
    result = read_run(tmp_path / "run")
    assert (result.hosts, result.hosts_over_time) == (4, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is \\[\\]; "),
        (TOTALS.replace('"makespan": 3.0', '"makespan": "x"'), "makespan is 'x'"),
        (TOTALS.replace('"nb_jobs": 1, ', ""), "nb_jobs is missing"),
        ('{"nb_jobs": nan', "a schedule.json of Batsim 5 is expected"),
    ],
    ids=["list", "text", "missing", "cut"],
)
def test_broken_totals_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "schedule.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_totals(tmp_path / "schedule.json")
