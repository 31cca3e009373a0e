"""``qops-batsim workload import`` of SWF, and its report, as a user runs them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_workload
from support.swf_lines import swf_line, swf_text

Cli = Callable[..., Any]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_text(swf_text([{"submit_time": i, "run_time": i % 4 * 100} for i in range(8)]))
    return path


def test_convert(cli: Cli, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.json"
    result = cli("workload", "import", log, out, "--repair", "overrun=clip", "--first", 4)
    assert (result.exit_code, result.err) == (0, "")
    workload = read_workload(out)
    assert [job.id for job in workload.jobs] == ["2", "3", "4", "6"]
    lines = result.out.splitlines()
    assert lines[0] == "small.swf: 8 records of a log in the Standard Workload Format"
    assert any("run time 0 or less" in x and "left out" in x and x.endswith(" 2") for x in lines)
    assert any("above the requested" in x and "clipped" in x and x.endswith(" 2") for x in lines)
    assert f"{out}: 4 of 6 usable jobs written, 8 processors" in lines
    # (100 + 200 + 200 + 100) s x 4 processors over 8 processors x 4 s
    assert "offered load: 75.0000" in lines
    assert lines[-1] == "submitted: second 1 to 5 of the log"


def test_convert_a_month(cli: Cli, shared: Path, tmp_path: Path) -> None:
    path = shared / "traces" / "KTH-SP2-1996-2.swf.gz"
    outs = [tmp_path / "a.json.gz", tmp_path / "b.json.gz"]
    for out in outs:
        result = cli("workload", "import", path, out, "--processors", 128, "--month", "1996-10")
        assert result.exit_code == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert "submitted in the window: " in result.out
    assert "submitted: 1996-10-01 00:00:10 to 1996-10-31 " in result.out
    assert read_workload(outs[0]).processors == 128


def test_convert_the_first_5000(cli: Cli, shared: Path, tmp_path: Path) -> None:
    out = tmp_path / "kth.json"
    path = shared / "traces" / "KTH-SP2-1996-2.swf.gz"
    result = cli("workload", "import", path, out, "--processors", "100", "--first", "5000")
    assert result.exit_code == 0
    assert len(read_workload(out).jobs) == 5000
    assert result.out.startswith("KTH-SP2-1996-2.swf.gz: 28489 records of a log in the")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repair", "overrun=clp"], "overrun is 'clp'; did you mean 'clip'?"),
        (["--first", "0"], "first is 0; a whole number above 0 is expected"),
        (["--first", "-1"], "first is -1; a whole number above 0 is expected"),
        (["--month", "1999-01"], "the header has no UnixStartTime"),
        (["--repair", "processors-field=used"], "processors field is 'used'"),
    ],
)
def test_bad_options(
    cli: Cli, log: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = cli("workload", "import", log, tmp_path / "out.json", *arguments)
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["small.swf"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no record"),
        (b"; MaxProcs: 8\n", "holds no record"),
        (gzip.compress(b"; MaxProcs: 8\n" * 999, mtime=0)[:30], "truncated gzip file"),
        (bytes(range(256)), "line 1: "),
        (swf_line().encode() + b"\n1 2 3\n", "line 2: 3 columns ('1 2 3'); a record of 18"),
        (swf_line().encode().replace(b"200", b"x"), "column 9 (requested_time) is 'x', not a"),
    ],
    ids=["empty", "header only", "truncated", "binary", "columns", "value"],
)
def test_bad_logs(cli: Cli, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.swf"
    path.write_bytes(content)
    result = cli("workload", "import", path, tmp_path / "out.json")
    assert result.exit_code == 2
    assert f"{path}: " in result.err
    assert message in result.err
    assert result.err.count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.swf"]


def test_bad_output(cli: Cli, log: Path, tmp_path: Path) -> None:
    result = cli("workload", "import", log, log / "out.json")
    assert result.exit_code == 2
    assert "cannot be written" in result.err
    before = log.read_bytes()
    result = cli("workload", "import", log, tmp_path / "." / "small.swf")
    assert result.exit_code == 2
    assert "is the log itself" in result.err
    assert log.read_bytes() == before
    result = cli("workload", "import", log, tmp_path)
    assert result.exit_code == 2
    assert "is a directory" in result.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["small.swf"]


def test_a_report_tells_lines(cli: Cli, log: Path) -> None:
    result = cli("workload", "import", log, "--processors", 3, "--repair", "too-wide=keep")
    assert (result.exit_code, result.err) == (0, "")
    assert result.out.startswith("small.swf: 8 records of a log in the Standard Workload Format\n")
    (wide,) = (line for line in result.out.splitlines() if "more than 3 processors" in line)
    assert wide.split("│")[2].strip() == "8"
    assert wide.endswith(" 2 3 4 5 6 …")
    assert [each.name for each in log.parent.iterdir()] == ["small.swf"]
    assert cli("workload", "import", log, "--strict").exit_code == 1


def test_a_report_as_json(cli: Cli, log: Path) -> None:
    data = json.loads(cli("workload", "import", log, "--json").out)
    found = {each["rule"]: each for each in data["findings"]}
    assert data["records"] == 8
    assert found["no_run_time"]["lines"] == [2, 6]
    assert found["overrun"]["jobs"] == 2
    assert "too_wide" not in found


def test_a_report_of_a_clean_log(cli: Cli, log: Path) -> None:
    log.write_text(swf_text([{}], header="; MaxProcs: 8"))
    result = cli("workload", "import", log, "--strict")
    assert result.exit_code == 0
    assert "1 of 1 usable jobs, 8 processors" in result.out
