"""The calendar of a log goes with its workload, and with every run of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qops_batsim import InputError, read_run, read_workload, run
from qops_batsim.dates import Calendar
from qops_batsim.workload import format_workload, parse_workload, scale_load, write_workload

STOCKHOLM = Calendar(953982000, "Europe/Stockholm")


def test_daylight_saving_is_observed() -> None:
    assert STOCKHOLM.text(0) == "2000-03-25 12:00:00"
    assert STOCKHOLM.text(86400) == "2000-03-26 13:00:00"
    # 2000-10-29: 02:30 in summer time, an hour later 02:30 again; the nearest second is told.
    assert STOCKHOLM.text(972779400 - 953982000) == "2000-10-29 02:30:00+02:00"
    assert STOCKHOLM.text(972783000 - 953982000) == "2000-10-29 02:30:00+01:00"
    assert STOCKHOLM.text(0.6) == "2000-03-25 12:00:01"
    assert STOCKHOLM.later(86400).text(0) == "2000-03-26 13:00:00"
    with pytest.raises(InputError, match="has no date"):
        STOCKHOLM.date(1e15)


def test_it_stays_with_what_is_made_of_a_workload(tmp_path: Path) -> None:
    workload = read_workload("tiny_8")
    plain = format_workload(workload)
    workload.calendar = STOCKHOLM
    path = tmp_path / "dated.json"
    write_workload(scale_load(workload, 1.5, seed=1), path)
    again = read_workload(path)
    assert again.calendar == STOCKHOLM
    assert "calendar" not in again.provenance
    assert parse_workload(path.read_text(), source="x").calendar == STOCKHOLM
    assert '"calendar": {"unix_start": 953982000, "time_zone": "Europe/Stockholm"}' in (
        path.read_text()
    )
    run("easy", path, out=tmp_path / "dated")
    assert read_run(tmp_path / "dated").calendar == STOCKHOLM
    run("easy", "tiny_8", out=tmp_path / "plain")
    assert read_run(tmp_path / "plain").calendar is None
    assert "calendar" not in json.loads((tmp_path / "plain_run.json").read_text())
    assert "calendar" not in plain


@pytest.mark.parametrize(
    ("calendar", "message"),
    [
        ([], "an object with unix_start"),
        ({"unix_start": "x", "time_zone": "UTC"}, "an object with unix_start"),
        ({"unix_start": 5, "time_zone": "Mars/Base"}, "time_zone is 'Mars/Base', which is not in"),
    ],
)
def test_a_calendar_that_is_none_is_refused(calendar: object, message: str) -> None:
    data = {"nb_res": 4, "jobs": [], "profiles": {}, "qops_batsim": {"calendar": calendar}}
    with pytest.raises(InputError, match=message):
        parse_workload(json.dumps(data), source="w.json")
