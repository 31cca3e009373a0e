"""Any trace by one function: formats are told by content, and the account adds up."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from qops_batsim import InputError, read_swf, read_workload
from qops_batsim.dates import Calendar
from qops_batsim.traces import read_trace
from qops_batsim.workload import convert_log, write_workload
from support.swf_lines import swf_text

DATED = "; MaxProcs: 8\n; UnixStartTime: 953982000\n; TimeZoneString: Europe/Stockholm"
THREE = swf_text([{}, {"submit_time": 60, "run_time": -1}, {"submit_time": 90}], DATED)


@pytest.mark.parametrize("name", ["log.swf", "log.txt", "log.json"])
def test_a_log_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(THREE.encode()) if name == "log.txt" else THREE.encode())
    trace = read_trace(path, first=1)
    assert trace.workload.jobs == convert_log(read_swf(path), first=1).workload.jobs
    assert (trace.records_read, trace.usable_jobs, len(trace.records)) == (3, 2, 1)
    assert trace.records["wait_time"].tolist() == [-1]


def test_a_workload_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(THREE)
    written = tmp_path / "written.swf"  # whatever it is called
    made = read_trace(tmp_path / "log.swf").workload
    write_workload(made, written)
    trace = read_trace(written)
    assert trace.workload.jobs == read_workload(written).jobs
    assert trace.calendar == made.calendar == Calendar(953982000, "Europe/Stockholm")
    assert trace.workload.provenance == made.provenance
    assert (trace.records_read, trace.usable_jobs, trace.repairs) == (2, 2, [])
    assert trace.records["run_time"].tolist() == [100, 100]
    assert trace.records["requested_time"].tolist() == [200, 200]
    # 2 jobs of 100 s on 4 of 8 processors in 90 s.
    assert trace.offered_load == pytest.approx(800 / (8 * 90))
    assert len(read_trace("tiny_8", first=3).workload.jobs) == 3
    assert read_trace("tiny_8", first=3).records_read == 8


def test_what_a_workload_cannot_be_asked_for() -> None:
    assert read_trace("tiny_8", processors=4).workload.processors == 4
    with pytest.raises(InputError, match=r"of 4 processors, converted already; processors 5 can"):
        read_trace("tiny_8", processors=5)
    with pytest.raises(InputError, match=r"skip can be chosen for a log only"):
        read_trace("tiny_8", skip=1)
    with pytest.raises(InputError, match=r"time_zone can be chosen for a log only"):
        read_trace("tiny_8", time_zone="Europe/Stockholm")
    with pytest.raises(InputError, match=r"no such file"):
        read_trace("nowhere.swf")


def test_dates_move_with_the_first_job(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(swf_text([{"submit_time": 100}], DATED))
    trace = read_trace(path, rebase=True)
    assert trace.calendar == Calendar(953982000, "Europe/Stockholm")
    assert trace.workload.calendar == Calendar(953982100, "Europe/Stockholm")


def test_a_time_zone_is_the_sites_whatever_the_log(tmp_path: Path) -> None:
    slurm = "JobID|Submit|Start|End|State|AllocCPUS\n" + "|".join(
        ("7", *(f"1996-07-01T12:0{minute}:00" for minute in range(3)), "COMPLETED", "2\n")
    )
    for name, text in (("log.swf", THREE), ("dump.txt", slurm)):
        (tmp_path / name).write_text(text)
        trace = read_trace(tmp_path / name, time_zone="America/New_York")
        assert trace.calendar is not None
        assert trace.calendar.time_zone == "America/New_York"
    assert trace.calendar.unix_start == 836236800  # noon in New York is 16:00 UTC
    with pytest.raises(InputError, match="Europe/Stokholm"):
        read_trace(tmp_path / name, time_zone="Europe/Stokholm")
