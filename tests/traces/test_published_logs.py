"""Tables of published logs: samples made after their schemas, recognised by their columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from qops_batsim import InputError, read_swf
from qops_batsim.traces import read_partitions, read_trace
from qops_batsim.traces.archive import LOGS
from qops_batsim.workload import convert_log
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.site import CsvForm, profiles
from qops_batsim.workload.log_formats import profile_of

BEGIN, START, END = (datetime(2022, 3, 1, 10, minute) for minute in (0, 5, 35))
EAGLE = {
    "job_id": 11, "user": "user0001", "account": "account0002", "name": "run.sh",
    "state": "COMPLETED", "partition": "short", "qos": "normal", "submit_time": BEGIN,
    "start_time": START, "end_time": END, "run_time": 1800, "wallclock_req": 14400,
    "nodes_req": 2, "processors_req": 72, "gpus_req": 4, "mem_req": 184000.0, "exit_code": "0:0",
}  # fmt: skip
KESTREL = {
    "id": "11", "job_id": 11, "array_pos": None, "user_hash": "0a1b2c3", "account_hash": "9f8e7d6",
    "partition": "gpu-h100", "qos": "normal", "state": "COMPLETED", "state_simple": "COMPLETED",
    "submit_time": "2022-03-01 10:00:00-07", "start_time": "2022-03-01 10:05:00-07",
    "end_time": "2022-03-01 10:35:00-07", "nodes_req": 1, "processors_req": 8,
    "memory_req": "85G", "wallclock_req": timedelta(hours=4), "nodes_used": 2,
    "processors_used": 72, "wallclock_used": timedelta(minutes=30), "gpus_requested": 4,
    "consumed_energy_raw_joules": 1.8e6,
}  # fmt: skip
FRONTIER_JOBS = {
    "job_id": "11", "account": "abc123", "group": "g", "user": "u3", "partition": "batch",
    "time_limit": 240.0, "time_submission": BEGIN, "time_eligible": BEGIN, "time_start": START,
    "time_end": END, "time_elapsed": 1800.0, "node_count": 72, "state_current": "COMPLETED",
    "allocation_id": "11",
}  # fmt: skip
PM100 = {
    "job_id": 11, "user_id": 3, "group_id": 25200, "partition": "1", "qos": "0",
    "job_state": "COMPLETED", "submit_time": BEGIN, "eligible_time": BEGIN, "start_time": START,
    "end_time": END, "run_time": 1800, "time_limit": 240, "num_cores_alloc": 72,
    "num_nodes_alloc": 2, "num_gpus_alloc": 4, "mem_alloc": 200,
    "node_power_consumption": [500.0, 700.0],
}  # fmt: skip
F_DATA = {
    "jid": "11", "usr": "u3", "exit state": "completed", "adt": BEGIN, "sdt": START, "edt": END,
    "duration": 1800.0, "elpl": 14400.0, "cnumat": 72, "nnuma": 2, "msza": 2**30,
    "avgpcon": 600.0, "econ": 0.5,
}  # fmt: skip
ALIBABA = {
    "name": "openb-pod-0011", "cpu_milli": 71500, "memory_mib": 30517, "num_gpu": 4,
    "gpu_milli": 1000, "gpu_spec": "", "qos": "LS", "pod_phase": "Succeeded",
    "creation_time": 0, "deletion_time": 2100, "scheduled_time": 300.0,
}  # fmt: skip
SAMPLES: dict[str, tuple[Mapping[str, Any], dict[str, float]]] = {
    "eagle": (EAGLE, {"gpu_count": 4, "memory_mb": 184000}),
    "kestrel": (KESTREL, {"gpu_count": 4, "memory_mb": 85 * 1024, "energy": 1.8e6}),
    "frontier-jobs": (FRONTIER_JOBS, {}),
    "pm100": (PM100, {"gpu_count": 4, "memory_mb": 200, "power": 600}),
    "f-data": (F_DATA, {"memory_mb": 2**30, "power": 600, "energy": 0.5}),
    "alibaba-gpu-2023": (ALIBABA, {"gpu_count": 4, "memory_mb": 30517}),
}


def written(path: Path, rows: list[Mapping[str, Any]]) -> Path:
    frame = pl.DataFrame(rows)
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        for name, kind in frame.schema.items():
            if isinstance(kind, pl.List):
                frame = frame.with_columns(pl.col(name).list.mean())
            if isinstance(kind, pl.Duration):
                clock = [f"{int(each.total_seconds()) // 3600:02}:{each.seconds // 60 % 60:02}:00"
                         for each in frame[name]]  # fmt: skip
                frame = frame.with_columns(pl.Series(name, clock))
        frame.write_csv(path, datetime_format="%Y-%m-%d %H:%M:%S")
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_published_log_is_known_by_its_columns(name: str, ending: str, tmp_path: Path) -> None:
    row, amounts = SAMPLES[name]
    assert profile_of(row) == name
    found = read_trace(written(tmp_path / f"table.{ending}", [row]))
    (job,) = found.workload.jobs
    assert job.processors == 72
    assert found.workload.profiles[job.profile]["delay"] == 1800
    assert found.records["wait_time"][0] == 300
    assert {key: job.fields[key] for key in amounts} == pytest.approx(amounts)
    assert job.walltime == (None if name.startswith("alibaba") else 14400)
    parts, _ = (
        read_partitions(tmp_path / f"table.{ending}", accounting=Choices(by="gpus"))
        if (name == "eagle")
        else ({}, {})
    )
    assert [part.workload.jobs[0].processors for part in parts.values()] in ([], [4])


BY_HOST: dict[str, tuple[int, dict[str, int], set[str]]] = {
    "eagle": (2, {"cores": 36, "gpus": 2}, {"memory_scope"}),
    "kestrel": (2, {"cores": 36, "gpus": 2}, {"memory_scope"}),
    "frontier-jobs": (72, {}, {"no_memory", "no_amounts"}),
    "pm100": (2, {"cores": 36, "gpus": 2}, {"memory_scope"}),
    "f-data": (2, {"cores": 36}, {"memory_scope"}),
    "alibaba-gpu-2023": (1, {"cores": 72, "memory": 30517 << 20, "gpus": 4}, set()),
}
"""Hosts of each sample's job, what it asks of each, and what is told of it."""


@pytest.mark.parametrize("name", list(SAMPLES))
def test_jobs_of_published_logs_ask_for_what_is_told(name: str, tmp_path: Path) -> None:
    hosts, amounts, told = BY_HOST[name]
    path = written(tmp_path / "table.csv", [SAMPLES[name][0]])
    found = read_trace(path, accounting=Choices(by="amounts"), processors=100)
    (job,) = found.workload.jobs
    assert (job.processors, job.fields.get("per_host", {})) == (hosts, amounts)
    rules = {each.rule for each in found.repairs if each.jobs} - {"no_requested_time"}
    assert rules == told
    # The memory of a job on one host is that of the host.
    if name == "eagle":
        path = written(tmp_path / "one.csv", [{**EAGLE, "nodes_req": 1}])
        (job,) = read_trace(path, accounting=Choices(by="amounts"), processors=9).workload.jobs
        assert job.fields["per_host"] == {"cores": 72, "memory": 184000 << 20, "gpus": 4}


def test_every_profile_has_a_sample_and_a_source() -> None:
    assert set(profiles()) == set(SAMPLES)
    for form in profiles().values():
        assert {"id", "submit"} <= form.columns.keys()


def test_rows_of_one_id_that_overlap_are_tasks(tmp_path: Path) -> None:
    """Of restarts, the last row counts; tasks of an array are jobs, even equal ones."""

    def row(job: int, start: int, end: int) -> dict[str, Any]:
        dates = (datetime(2022, 3, 1, 10, minute) for minute in (start, end))
        return (
            {**EAGLE, "job_id": job}
            | dict(zip(("start_time", "end_time"), dates, strict=True))
            | {"run_time": 60 * (end - start)}
        )

    rows = [
        row(1, 5, 10),
        row(1, 8, 12),
        row(1, 8, 12),
        row(2, 5, 10),
        row(2, 10, 15),
        row(3, 5, 6),
    ]
    found = read_trace(written(tmp_path / "table.csv", rows))
    ids = {job.id: found.workload.profiles[job.profile]["delay"] for job in found.workload.jobs}
    assert ids == {"1_1": 300, "1_2": 240, "1_3": 240, "2": 300, "3": 60}
    counts = {each.rule: each.jobs for each in found.repairs if each.jobs}
    assert (counts["array_tasks"], counts["earlier_runs"]) == (3, 1)


def test_a_table_of_no_published_log_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "table.parquet", [{"a": 1, "b": 2}])
    with pytest.raises(InputError, match="of no published log"):
        read_trace(path)
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="Parquet file is truncated or damaged"):
        read_trace(path)
    with pytest.raises(InputError, match="unit 'kg' is not known"):
        CsvForm({"id": "a", "submit": "b", "run_time": "c", "gpus": "d"}, {"memory": "kg"})
    wrong = written(tmp_path / "wrong.csv", [{**EAGLE, "mem_req": "much"}])
    with pytest.raises(InputError, match="line 2: mem_req is 'much'; a number from 0"):
        read_trace(wrong)


RECORD = "{} 0 5 60 8 -1 -1 8 120 -1 1 1 1 -1 1 -1 -1 -1"


def test_columns_beyond_the_18_of_the_format_are_told(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    lines = [f"{RECORD.format(number)} 2 gpu 0.5" for number in (1, 2, 3)]
    path.write_text("; MaxProcs: 16\n" + "\n".join(lines) + "\n")
    log = read_swf(path)
    assert log.records["job_number"].tolist() == [1, 2, 3]
    (told,) = [each for each in convert_log(log).repairs if each.rule == "more_columns"]
    assert (told.description, told.jobs) == ("3 columns beyond the 18 of the format", 3)
    path.write_text(path.read_text() + RECORD.format(4) + "\n")
    with pytest.raises(InputError, match="line 5: 18 columns"):
        read_swf(path)
    path.write_text("\n".join([RECORD.format(1), RECORD.format(2) + " 7", RECORD.format(3)]) + "\n")
    with pytest.raises(InputError, match="line 2: 19 columns"):
        read_swf(path)


def test_the_log_of_frontier_counts_nodes(tmp_path: Path) -> None:
    """Its columns of processors mix nodes and cores; the last column tells the nodes."""
    path = tmp_path / "frontier-2024.swf"
    lines = [RECORD.format(n).replace(" 8 ", f" {n * 112} ") for n in (1, 2, 3)]
    sites = ["-1 -1 frontier:excl:1x112", "16 7200 frontier:excl:2x112", "-1 -1 unknown"]
    rows = [f"{line} {site}" for line, site in zip(lines, sites, strict=True)]
    path.write_text("; MaxProcs: 600000\n; MaxNodes: 9472\n" + "\n".join(rows) + "\n")
    found = read_trace(path)
    assert [job.processors for job in found.workload.jobs] == [1, 2, 336]
    assert found.workload.processors == 9472
    assert found.counted.startswith("nodes, ")
    (told,) = [each for each in found.repairs if each.rule == "more_columns"]
    assert told.description.endswith("of which the last tells a job's nodes (frontier)")
    path.write_text("; MaxProcs: 600000\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match="counted in nodes, and the header has no MaxNodes"):
        read_trace(path)
    # Three other columns are no dialect.
    path.write_text("; MaxProcs: 600\n" + f"{RECORD.format(1)} 2 gpu 0.5\n")
    assert read_trace(path).workload.jobs[0].processors == 8


def test_amounts_of_memory_may_have_a_letter(tmp_path: Path) -> None:
    rows = [{**KESTREL, "id": str(n), "memory_req": each} for n, each in enumerate(["1T", "7", ""])]
    jobs = read_trace(written(tmp_path / "table.csv", rows)).workload.jobs
    assert [job.fields.get("memory_mb") for job in jobs] == [1024 * 1024, 7, None]
    with pytest.raises(InputError, match="memory_req is '8X'; a number from 0"):
        read_trace(written(tmp_path / "wrong.csv", [{**KESTREL, "memory_req": "8X"}]))


@pytest.mark.parametrize("kind", ["sacct", "eagle", "swf"])
def test_one_command_reads_them_all(cli, kind: str, tmp_path: Path, monkeypatch) -> None:
    if kind == "sacct":
        path = tmp_path / "dump.txt"
        path.write_text(
            "JobID|State|Submit|Start|End|AllocCPUS|Timelimit\n"
            "7|COMPLETED|2024-05-01T10:00:00|2024-05-01T10:01:00|2024-05-01T10:03:00|4|01:00:00\n"
        )
    elif kind == "eagle":
        path = written(tmp_path / "table.parquet", [EAGLE])
    else:
        path = tmp_path / "log.swf"
        path.write_text(f"; MaxProcs: 16\n{RECORD.format(1)}\n")
    done = cli("workload", "import", path, tmp_path / "out.json")
    assert done.exit_code == 0, done.err
    assert "1 of 1 usable jobs written" in done.out


def test_logs_that_can_be_fetched_have_files_of_their_own() -> None:
    names = [each.file for each in LOGS.values()]
    assert len(set(names)) == len(names) == 9
    assert all(name.endswith(".swf.gz") for name in names)
