"""What lint finds, against hand-made logs and naive counts of the real ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from qops_batsim.errors import InputError
from qops_batsim.workload.lint import LintReport, lint_file, lint_log, report_as_data
from support.sacct_dumps import PBS, ZONE, make_dump
from support.swf_lines import swf_line, swf_log


def found(report: LintReport) -> dict[str, list[int]]:
    return {finding.rule: finding.lines for finding in report.found()}


def test_each_rule_finds_its_line() -> None:
    log = swf_log(
        {},  # line 2
        {"status": 5},
        {"run_time": 0, "submit_time": 10},
        {"run_time": -1, "submit_time": 10},
        {"submit_time": 9},
        {"allocated_processors": -1, "submit_time": 10},
        {"allocated_processors": 0, "requested_processors": -1, "submit_time": 10},
        {"allocated_processors": 3, "submit_time": 10},
        {"requested_processors": 9, "allocated_processors": 9, "submit_time": 10},
        {"requested_time": -1, "submit_time": 10},
        {"run_time": 200.5, "submit_time": 10},
        {"job_number": 1, "submit_time": 10},
        {"job_number": 1, "status": 2, "submit_time": 10},
        {"submit_time": -1},
        {"wait_time": -5},
    )
    assert found(lint_log(log)) == {
        "cancelled": [3, 5],
        "no_run_time": [4, 5],
        "no_allocated_processors": [7, 8],
        "no_processors": [8],
        "processors_differ": [9],
        "too_wide": [10],
        "no_requested_time": [11],
        "overrun": [12],
        "no_submit_time": [15],
        "early_start": [16],
        "submit_order": [6, 15],
        "duplicate_id": [13],
        "partial": [14],
    }


def test_nothing_to_find() -> None:
    report = lint_log(swf_log({}, {}, header="; MaxProcs: 8\n; MaxJobs: 2\n; MaxRecords: 2"))
    assert report.found() == []
    assert (report.records, report.processors) == (2, 8)


def test_empty_log() -> None:
    report = lint_log(swf_log())
    assert (report.records, report.found()) == (0, [])


def test_malformed_lines_are_findings(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(f"; MaxRecords: 4\n{swf_line()}\n1 2 3\n{swf_line(status=0.5)}\n")
    report = lint_file(path)
    assert report.records == 3
    assert found(report) == {"columns": [3], "value": [4], "header": []}
    data = report_as_data(report)
    assert data["findings"]["columns"]["details"] == ["3 columns ('1 2 3')"]
    assert data["findings"]["header"]["details"] == [
        "MaxRecords says 4, the file holds 3 records",
    ]
    assert data["unchecked"] == {
        "too_wide": "the header has neither MaxProcs nor MaxNodes; give --processors"
    }


def test_jobs_and_records_differ_by_the_stretches() -> None:
    records = [{}, {"job_number": 1, "status": 2}, {"job_number": 1, "status": 3}]
    report = lint_log(swf_log(*records, header="; MaxJobs: 1\n; MaxRecords: 3\n; MaxProcs: 8"))
    assert found(report) == {"partial": [5, 6]}


def test_header_that_is_no_number() -> None:
    report = lint_log(swf_log({}, header="; MaxProcs: many\n; MaxJobs: some"))
    (finding,) = report.found()
    assert finding.details == [
        "the header: header field MaxJobs is 'some'; a whole number is expected",
        "the header: header field MaxProcs is 'many'; a whole number is expected",
    ]
    assert "MaxProcs is 'many'" in report.unchecked["too_wide"]


def test_processors_given(shared: Path) -> None:
    log = swf_log({"requested_processors": 5}, header="")
    assert found(lint_log(log, processors=4))["too_wide"] == [2]
    with pytest.raises(InputError, match="processors is 0; a whole number above 0"):
        lint_log(log, processors=0)


# Counts made with awk, for example
# zcat KTH-SP2-1996-2.swf.gz | awk '!/^;/ && $9 > 0 && $4 > $9' | wc -l
COUNTS = {
    "CTC-SP2-1996-rebuilt": (77199, {"header": 1}),
    "KTH-SP2-1996-2": (
        28489,
        {"no_run_time": 8, "processors_differ": 219, "overrun": 475, "header": 2},
    ),
    "SDSC-SP2-1998-first5000": (
        4961,
        {
            "cancelled": 1436,
            "no_run_time": 355,
            "no_allocated_processors": 354,
            "overrun": 309,
            "header": 2,
        },
    ),
    "SDSC-SP2-1998-rebuilt": (54006, {"header": 1}),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_logs(shared: Path, name: str) -> None:
    report = lint_file(shared / "traces" / f"{name}.swf.gz")
    records, counts = COUNTS[name]
    assert report.records == records
    assert {finding.rule: finding.count for finding in report.found()} == counts


def test_real_header_is_contradicted(shared: Path) -> None:
    report = lint_file(shared / "traces" / "KTH-SP2-1996-2.swf.gz")
    assert report.found()[-1].details == [
        "MaxJobs says 28490, the file holds 28489 jobs",
        "MaxRecords says 28490, the file holds 28489 records",
    ]


@pytest.mark.parametrize(("log", "width"), [("KTH-SP2-1996-2", 64), ("SDSC-SP2-1998-rebuilt", 32)])
def test_real_lines_equal_a_naive_search(shared: Path, log: str, width: int) -> None:
    path = shared / "traces" / f"{log}.swf.gz"
    overrun, wide = [], []
    for number, line in enumerate(gzip.decompress(path.read_bytes()).decode().split("\n"), 1):
        if line and line[0] != ";":
            words = [float(word) for word in line.split()]
            if words[3] > words[8] > 0:
                overrun.append(number)
            if max(words[4], words[7]) > width:
                wide.append(number)
    report = found(lint_file(path, processors=width))
    assert report.get("overrun", []) == overrun
    assert report["too_wide"] == wide
    assert wide


@pytest.mark.parametrize("content", [b"; Version: 2.2\n", b"", b"\x00\x01garbage\n"])
def test_what_holds_no_record_is_no_log(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no record.*Standard Workload Format"):
        lint_file(path)


def test_accounting_is_checked_with_its_lines(tmp_path: Path) -> None:
    dump = make_dump(11)
    path = tmp_path / "dump.txt"
    words = {"erledigt": "COMPLETED", "gescheitert": "FAILED"}
    for row in dump.rows:
        row["State"] = words.get(row["State"], row["State"])
    path.write_text(f"{dump.text()}8000|7\n" + dump.text().splitlines()[1].replace("|", "!", 1))
    report = lint_file(path, time_zone=ZONE)
    assert report.records == len(dump.rows) + 2
    lines = found(report)
    steps = [number for number, row in enumerate(dump.rows, 2) if "." in row["JobID"]]
    assert lines["steps"] == steps
    waiting = [number for number, row in enumerate(dump.rows, 2) if row["State"] == "PENDING"]
    assert lines["state_pending"] == waiting
    assert lines["columns"] == [len(dump.rows) + 2, len(dump.rows) + 3]
    assert report.processors is not None
    path.write_text(PBS)
    assert found(lint_file(path))["array_parents"] == [5]
