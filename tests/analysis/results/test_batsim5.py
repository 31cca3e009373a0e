"""Files that the real Batsim 5 has written, read like those of any run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim.analysis.metrics.run_metrics import compute_metrics
from qops_batsim.analysis.plots.gantt import to_jobset
from qops_batsim.analysis.results.difference import compare_runs
from qops_batsim.analysis.results.run import read_run
from qops_batsim.analysis.results.series import busy_hosts
from qops_batsim.analysis.results.tables import read_totals
from qops_batsim.analysis.verify.verifier import verify
from qops_batsim.errors import InputError
from qops_batsim.workload.batsim_json import read_workload

TOTALS = '{"nb_jobs": 1, "nb_jobs_finished": 1, "nb_computing_machines": 2, "makespan": 3.0}'


@pytest.mark.parametrize("name", ["delays_nonet", "kills_nonet", "types_net", "walltimes_nonet"])
def test_a_directory_of_batsim_5_is_a_run(batsim5_sessions: Path, name: str) -> None:
    directory = batsim5_sessions / name / "out"
    result = read_run(directory)
    assert result.hosts_source == "schedule.json"
    assert not any("!" in each for each in result.table.texts["profile"])
    workloads = {"w0": read_workload(batsim5_sessions / name / "workload.json")}
    assert verify(result, workloads=workloads) == []
    assert compute_metrics(result, workloads).utilization > 0
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
    assert cli("gantt", run, "-o", tmp_path / "gantt.svg").exit_code == 0
    assert "</svg>" in (tmp_path / "gantt.svg").read_text()


def test_evalys_reads_a_run_of_batsim_5(batsim5_sessions: Path) -> None:
    from evalys.jobset import JobSet

    run = batsim5_sessions / "easy_net100" / "out"
    result = read_run(run)
    read = JobSet.from_csv(str(run / "jobs.csv"), resource_bounds=(0, result.hosts - 1))
    for jobset in (read, to_jobset(result)):
        load = jobset.utilisation
        busy = busy_hosts(result)
        assert load["load"].tolist() == busy.at(load.index.to_numpy(dtype=float)).tolist()
        assert set(busy.dates).issubset(load.index)


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
        ("[]", "Expected `object`, got `array`"),
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
