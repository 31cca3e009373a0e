"""Reading and writing logs in the Standard Workload Format."""

from __future__ import annotations

import gzip
import hashlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, read_swf
from qops_batsim.workload import SwfLog, swf
from qops_batsim.workload.log_records import FIELDS, MEASURED, RECORD
from qops_batsim.workload.swf import SwfHeader, parse_swf
from support.swf_lines import swf_line, swf_of, swf_text

LOGS = (
    "CTC-SP2-1996-rebuilt",
    "KTH-SP2-1996-2",
    "SDSC-SP2-1998-first5000",
    "SDSC-SP2-1998-rebuilt",
)


def log_of(text: str) -> SwfLog:
    return parse_swf(text.encode(), source="test.swf")


def file_of(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "log.swf"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_reads_every_column_and_the_line_numbers() -> None:
    text = "; Version: 2.2\n\n" + "1 2 3 4 5 6.5 7 8 9 10 11 12 13 14 15 16 17 18\r\n" + swf_line()
    log = log_of(text)
    assert [log.records[name][0] for name in FIELDS] == [
        *(1, 2, 3, 4, 5, 6.5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
    ]
    assert log.lines.tolist() == [3, 4]
    assert {name for name in FIELDS if RECORD[name].kind == "f"} == MEASURED


@pytest.mark.parametrize("lines_at_once", [1, 2, 3, 7, 100])
def test_parts_of_a_log_are_put_together(
    monkeypatch: pytest.MonkeyPatch, lines_at_once: int
) -> None:
    """Twenty records with comments and empty lines between them."""
    monkeypatch.setattr(swf, "_LINES_AT_ONCE", lines_at_once)
    odd = {3: "; Version: 2", 4: "", 8: "\t", 9: "; Note: late", 15: ";", 16: " "}
    rows = [
        odd.get(number) or swf_line(job_number=number, submit_time=10 * number)
        for number in range(1, 27)
    ]
    rows[3] = rows[15] = ""
    log = parse_swf("\n".join(rows).encode(), source="test.swf")
    kept = [number for number in range(1, 27) if number not in odd]
    assert log.lines.tolist() == log.records["job_number"].tolist() == kept
    assert log.records["submit_time"].tolist() == [10 * number for number in kept]
    assert [line.strip() for line in log.header.lines] == ["Version: 2", "Note: late", ""]
    rows[19] = "1 2 3"
    with pytest.raises(InputError, match="line 20: 3 columns"):
        parse_swf("\n".join(rows).encode(), source="test.swf")


@pytest.mark.parametrize("name", LOGS)
def test_real_logs_equal_a_naive_reading(shared: Path, name: str) -> None:
    path = shared / "traces" / f"{name}.swf.gz"
    log = read_swf(path)
    rows, numbers = [], []
    for number, line in enumerate(gzip.decompress(path.read_bytes()).decode().split("\n"), 1):
        if line and not line.startswith(";"):
            rows.append(tuple(float(word) for word in line.split()))
            numbers.append(number)
    assert [tuple(map(float, row)) for row in log.records.tolist()] == rows
    assert log.lines.tolist() == numbers
    assert log.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert Path(log.source).name == f"{name}.swf.gz"


def test_real_logs_keep_their_headers(shared: Path) -> None:
    kth = read_swf(shared / "traces" / "KTH-SP2-1996-2.swf.gz")
    assert kth.machine_size() == 100
    assert kth.header.get("Information") == (
        "http://www.pdc.kth.se/\nhttp://www.cs.huji.ac.il/labs/parallel/workload/"
    )
    assert kth.header.fields[-1] == ("Note", "uses the EASY scheduler")
    sdsc = read_swf(shared / "traces" / "SDSC-SP2-1998-first5000.swf.gz")
    assert len(sdsc.header.values("Queue")) == 7
    assert sdsc.header.values("Queue")[1] == "1 express"
    copyright_notice = sdsc.header.get("Copyright")
    assert copyright_notice is not None
    assert len(copyright_notice.split("\n")) == 13
    assert sdsc.records["average_cpu_time"][-2] == 8.97


def test_header_fields() -> None:
    header = log_of(
        "\n".join(
            [
                "; a line before any field",
                "; Computer: one",
                ";    and: more",
                ";",
                ";    after a gap",
                ";",
                "; a comment on its own",
                ";Unheard-of: yes",
                "; Note: a",
                "; goes on",
                "; Note:",
                "; MaxProcs: 64 (thin nodes)",
            ]
        )
    ).header
    assert header.fields == (
        ("Computer", "one\nand: more\n\nafter a gap"),
        ("Unheard-of", "yes"),
        ("Note", "a\ngoes on"),
        ("Note", ""),
        ("MaxProcs", "64 (thin nodes)"),
    )
    assert len(header.lines) == 12
    assert header.integer("maxprocs") == 64
    assert header.get("nothing") is None
    assert header.integer("nothing") is None
    with pytest.raises(InputError, match=r"field Computer is 'one.*; a whole number is expected"):
        header.integer("Computer")


def test_comments_between_records_go_to_the_header() -> None:
    log = log_of(f"; A: 1\n{swf_line()}\n; B: 2\n{swf_line(job_number=2)}\n")
    assert log.header.fields == (("A", "1"), ("B", "2"))
    assert log.lines.tolist() == [2, 4]


def test_machine_size_falls_back_to_nodes() -> None:
    assert log_of("; MaxNodes: 7").machine_size() == 7
    assert log_of("; MaxProcs: -1\n; MaxNodes: 7").machine_size() == 7
    assert log_of("; MaxProcs: 9\n; MaxNodes: 7").machine_size() == 9
    assert log_of("").machine_size() is None


def test_latin1_header() -> None:
    content = "; Acknowledge: Jörg\n".encode("latin-1") + swf_line().encode()
    log = parse_swf(content, source="x")
    assert log.header.get("Acknowledge") == "Jörg"


numbers = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
counts = st.integers(-(2**53), 2**53)
lines = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30)


@given(
    rows=st.lists(
        st.tuples(*(numbers if name in MEASURED else counts for name in FIELDS)), max_size=5
    ),
    header=st.lists(lines, max_size=5),
)
def test_what_is_written_is_read(rows: list[tuple[float, ...]], header: list[str]) -> None:
    log = SwfLog(records=np.array(rows, dtype=RECORD), header=SwfHeader(tuple(header)))
    assert parse_swf(swf_of(log).encode(), source="again") == log


def test_files_round_trip(tmp_path: Path, shared: Path) -> None:
    log = read_swf(shared / "traces" / "SDSC-SP2-1998-first5000.swf.gz")
    text = swf_of(log).encode()
    for content in (text, gzip.compress(text)):
        again = read_swf(file_of(tmp_path, content))
        assert again == log
        assert again.header.fields == log.header.fields


def test_logs_differ() -> None:
    assert log_of(swf_line()) != log_of(swf_line(run_time=1))
    assert log_of(swf_line()) != log_of("; A: 1\n" + swf_line())
    assert log_of(swf_line()) != "a log"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("JobID|State", r"a record of 18 .* \(the output of sacct has a header\)"),
        ("1 2 3", r"line 3: 3 columns \('1 2 3'\); a record of 18 numbers"),
        ("garbage", r"line 3: 1 column \('garbage'\)"),
        (swf_line() + " 5", r"line 3: 19 columns"),
        (swf_line().replace(" 100 ", " abc "), r"line 3: column 4 \(run_time\) is 'abc', not a "),
        (swf_line(run_time=float("nan")), r"column 4 \(run_time\) is 'nan'"),
        (swf_line(run_time=float("inf")), r"column 4 \(run_time\) is 'inf'"),
        (swf_line().replace(" 100 ", " 1e999 "), r"column 4 \(run_time\) is '1e999'"),
        (swf_line().replace(" 100 ", " 1_0 "), r"column 4 \(run_time\) is '1_0'"),
        (swf_line(status=0.5), r"column 11 \(status\) is '0.5', not a whole number"),
        (swf_line(job_number=10**17), r"column 1 \(job_number\) is '1000"),
    ],
)
def test_malformed_line_is_named(tmp_path: Path, bad: str, message: str) -> None:
    path = file_of(tmp_path, f"; MaxProcs: 8\n{swf_line()}\n{bad}\n{swf_line()}\n")
    with pytest.raises(InputError, match=message) as caught:
        read_swf(path)
    assert str(caught.value).startswith(f"{path}: line 3: ")


def test_whole_numbers_written_as_fractions_are_accepted() -> None:
    log = log_of(swf_line().replace("1 0 ", "1.0 0 ", 1))
    assert log.records["job_number"].tolist() == [1]


def test_damaged_files(tmp_path: Path) -> None:
    whole = gzip.compress(swf_text([{}] * 500).encode())
    cases = {
        "truncated gzip": whole[: len(whole) // 2],
        "damaged gzip": whole[:-8] + b"\0" * 8,
        "line 1": bytes(range(14, 256)) * 20,
    }
    for message, content in cases.items():
        with pytest.raises(InputError, match=message) as caught:
            read_swf(file_of(tmp_path, content))
        assert "\n" not in str(caught.value)
        assert str(caught.value).isprintable()
    with pytest.raises(InputError, match=r"no such file \(a workload log \(SWF\) was expected"):
        read_swf(tmp_path / "missing.swf")


cells = st.one_of(
    st.integers(-3, 9).map(str),
    st.text(st.sampled_from("0123456789.eE+-_xnaif\"'#,\t\x0b\x85\x00٣"), min_size=1, max_size=5),
)


@given(st.lists(st.lists(cells, min_size=17, max_size=19).map(" ".join), min_size=1, max_size=3))
def test_fast_and_careful_reading_agree(rows: list[str]) -> None:
    """Whatever the fast reader accepts, the careful one accepts with the same values."""
    content = "\n".join(rows).encode()

    def read() -> SwfLog | str:
        try:
            return parse_swf(content, source="x")
        except InputError as error:
            return str(error)

    usual = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(swf, "_parse_at_once", lambda rows, width: None)
        assert read() == usual


@given(st.binary(max_size=200))
def test_any_bytes_are_records_comments_or_malformed(content: bytes) -> None:
    with suppress(InputError):
        log = parse_swf(content, source="x")
        assert len(set(log.lines.tolist())) == len(log)
