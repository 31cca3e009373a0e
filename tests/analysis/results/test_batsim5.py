"""Files that the real Batsim 5 has written, read like those of any run."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from qops_batsim.analysis.metrics.run_metrics import compute_metrics
from qops_batsim.analysis.results.difference import compare_runs
from qops_batsim.analysis.results.run import read_run
from qops_batsim.analysis.results.totals import read_totals
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
