"""The lines of a log that its conversion repairs or leaves out, against naive searches."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from qops_batsim.workload import Conversion, convert_log
from qops_batsim.workload.accounting import Choices
from support.logs import read_log
from support.sacct_dumps import PBS, ZONE, make_dump
from support.swf_lines import swf_log

OWN = {"erledigt": "COMPLETED", "gescheitert": "FAILED"}


def odd(found: Conversion) -> dict[str, list[int]]:
    return {each.rule: list(each.lines) for each in found.repairs if each.jobs}


def test_each_rule_tells_its_line() -> None:
    log = swf_log(
        {},  # line 2
        {"run_time": 0, "submit_time": 10},
        {"submit_time": 9},
        {"allocated_processors": 0, "requested_processors": -1, "submit_time": 10},
        {"requested_processors": 9, "submit_time": 10},
        {"requested_time": -1, "submit_time": 10},
        {"run_time": 200.5, "submit_time": 10},
        {"job_number": 1, "submit_time": 10},
        {"job_number": 1, "status": 2, "submit_time": 10},
        {"submit_time": -1},
        {"submit_time": 3},
    )
    assert odd(convert_log(log)) == {
        "partial": [10],
        "no_submit_time": [11],
        "no_processors": [5],
        "too_wide": [6],
        "no_run_time": [3],
        "no_requested_time": [7],
        "overrun": [8],
        "duplicate_id": [9],
        "submit_order": [12],
    }
    assert odd(convert_log(log, start=5, end=10)) == {}


# Counts made with awk, for example
# zcat KTH-SP2-1996-2.swf.gz | awk '!/^;/ && $9 > 0 && $4 > $9' | wc -l
COUNTS = {
    "CTC-SP2-1996-rebuilt": (77199, {}),
    "KTH-SP2-1996-2": (28489, {"no_run_time": 8, "overrun": 475}),
    "SDSC-SP2-1998-first5000": (4961, {"no_run_time": 355, "overrun": 309}),
    "SDSC-SP2-1998-rebuilt": (54006, {}),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_logs(shared: Path, name: str) -> None:
    found = convert_log(read_log(shared / "traces" / f"{name}.swf.gz"))
    records, counts = COUNTS[name]
    assert found.records_read == records
    assert {each.rule: each.jobs for each in found.repairs if each.jobs} == counts


def test_real_lines_equal_a_naive_search(shared: Path) -> None:
    path = shared / "traces" / "KTH-SP2-1996-2.swf.gz"
    overrun, wide = [], []
    for number, line in enumerate(gzip.decompress(path.read_bytes()).decode().split("\n"), 1):
        if line and line[0] != ";":
            words = [float(word) for word in line.split()]
            if words[7] > 64:
                wide.append(number)
            elif words[3] > words[8] > 0:
                overrun.append(number)
    found = odd(convert_log(read_log(path), processors=64))
    assert found["overrun"] == overrun
    assert found["too_wide"] == wide


def test_accounting_tells_its_lines(tmp_path: Path) -> None:
    dump = make_dump(11)
    path = tmp_path / "dump.txt"
    path.write_text(dump.text())
    lines = odd(convert_log(read_log(path, Choices(time_zone=ZONE, state_names=OWN))))
    numbered = list(enumerate(dump.rows, 2))
    assert lines["steps"] == [number for number, row in numbered if "." in row["JobID"]]
    waiting = [number for number, row in numbered if row["State"] == "PENDING"]
    assert lines["state_pending"] == waiting
    path.write_text(PBS)
    assert odd(convert_log(read_log(path)))["array_parents"] == [5]
