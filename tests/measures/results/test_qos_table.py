"""``_qos.csv`` names jobs as ``_jobs.csv`` does, so both can be joined; its older form is read."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from qops_batsim import InputError, Job, QosRequest, read_run, run, tables
from qops_batsim.core.qos_log import QOS_COLUMNS
from qops_batsim.economics import ReferenceJob, category_slowdowns
from qops_batsim.measures import charge_jobs, find_run, outcomes_of_run
from qops_batsim.measures.metrics.charge_totals import fill_qos_file
from qops_batsim.workload import Workload, delay_profile
from support.changed_runs import allow_changes

# One processor. A (10 s) may end by 30; at 2 B wants 3 s by 6; C (4 s by 5) is refused.
#
#   |AABBBAAAAAAAAAA   2 s of A are lost
#    0 2  5        15
ROWS = (("A", 0.0, 10.0, 30.0), ("B", 2.0, 3.0, 6.0), ("C", 2.0, 4.0, 5.0))
REFERENCES = {f"w0!{name}": ReferenceJob(length, 20.0, 1.0) for name, _, length, _ in ROWS}
TABLE = category_slowdowns(REFERENCES.values())
KEYS = ["workload_name", "job_id"]
NUMBERS = {
    "requested_deadline",
    "offered_deadline",
    "blamed_date",
    "admitted_deadline",
    "resource_charge",
    "qos_charge",
    "latest_start",
    "wasted_processor_seconds",
}


def workload() -> Workload:
    jobs, profiles = [], {}
    for name, arrival, run_time, deadline in ROWS:
        profile, content = delay_profile(run_time)
        profiles[profile] = content
        qos = QosRequest(deadline=deadline, estimated_runtime=run_time)
        jobs.append(Job(name, arrival, 1, profile, None, qos))
    return Workload(jobs=jobs, profiles=profiles, processors=1, source="three jobs")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run of three jobs, one of them killed and run again."""
    directory = tmp_path_factory.mktemp("written")
    settings = {"kill_and_restart": True, "tolerance_factor": 1.0}
    done = run("fqops", workload(), settings=settings, out=directory / "run")
    assert done.violations == []
    allow_changes(directory / "run")
    return directory


@pytest.fixture(params=["few", "many"])
def prefix(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, written: Path, tmp_path: Path
) -> Path:
    """Return the prefix of a copy of the run, which is read in plain or in bulk."""
    if request.param == "many":
        monkeypatch.setattr(tables, "ROWS_AT_ONCE", 3)
        monkeypatch.setattr(tables, "FEW_BYTES", 0)
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


def in_older_form(prefix: Path) -> None:
    """Write the file as versions before did: the full identifier, and no workload."""
    path = Path(f"{prefix}_qos.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    with path.open("w", newline="") as stream:
        names = [name for name in rows[0] if name != "workload_name"]
        writer = csv.DictWriter(stream, names, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "job_id": f"{row['workload_name']}!{row['job_id']}"})


def test_pandas_joins_both_files(prefix: Path) -> None:
    jobs, qos = (
        pd.read_csv(f"{prefix}_{name}.csv", dtype={"job_id": str}) for name in ("jobs", "qos")
    )
    both = jobs.merge(qos, on=KEYS)
    assert sorted(both["job_id"]) == ["A", "B", "C"]
    assert both.set_index("job_id").loc["B", ["finish_time", "admitted_deadline"]].tolist() == [
        5,
        6,
    ]


def test_all_columns_are_read_with_their_types(prefix: Path) -> None:
    qos = read_run(prefix).qos
    assert list(qos.columns) == ["id", *QOS_COLUMNS, "new_promises"]
    assert qos["id"].tolist() == ["w0!A", "w0!B", "w0!C"]
    assert {name for name in qos if qos[name].dtype == np.float64} == NUMBERS
    assert {name for name in qos if qos[name].dtype == np.int64} == {"kills", "new_promises"}
    first, _, last = qos.to_dict("records")
    assert (first["kills"], first["wasted_processor_seconds"]) == (1, 2.0)
    assert (last["decision"], last["reason_kind"]) == ("rejected", "no_time")
    assert last["reason"]
    assert np.isnan(last["admitted_deadline"])


def test_each_run_of_a_job_has_its_decisions(prefix: Path) -> None:
    joined = read_run(prefix).joined.set_index("job_id")
    assert joined["admitted_deadline"].drop("C").to_dict() == {"A": 30.0, "B": 6.0, "A#1": 30.0}
    assert joined.loc["A#1", "finish_time"] == 15.0
    Path(f"{prefix}_qos.csv").unlink()
    assert "decision" not in read_run(prefix).joined


def test_the_older_form_is_refused_by_its_missing_column(prefix: Path) -> None:
    in_older_form(prefix)
    with pytest.raises(InputError, match=r"_qos.csv: column workload_name missing"):
        read_run(prefix)


def test_charges_are_filled_in(prefix: Path) -> None:
    outcomes = outcomes_of_run(read_run(prefix), {"w0": workload()})
    names = Path(f"{prefix}_qos.csv").read_text().split("\n", 1)[0]
    fill_qos_file(find_run(prefix), charge_jobs(outcomes, REFERENCES, TABLE))
    assert Path(f"{prefix}_qos.csv").read_text().split("\n", 1)[0] == names
    filled = read_run(prefix).qos.set_index("job_id")
    assert filled["qos_charge"].notna().tolist() == [True, True, False]
    assert (filled["category"] != "").all()


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("qos_charge", "much", "qos_charge is 'much'; a number up to 1e+300, or nothing, is"),
        ("kills", "1.5", "kills is '1.5'; a whole number from 0 up is"),
        ("kills", "", "kills is ''; a whole number"),
        ("blamed_date", "0x10", "blamed_date is '0x10'; a number"),
        ("workload_name", "", "workload_name is ''; the name of a workload is"),
    ],
)
def test_a_cell_of_another_type_is_named(prefix: Path, column: str, cell: str, said: str) -> None:
    path = Path(f"{prefix}_qos.csv")
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame.loc[1, column] = cell
    frame.to_csv(path, index=False)
    with pytest.raises(InputError) as error:
        read_run(prefix)
    assert f"run_qos.csv: row 2 (job 'B'): {said}" in str(error.value)
