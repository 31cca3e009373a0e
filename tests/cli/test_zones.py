"""History and queue are of one time zone: this machine's, told, or the one that is named."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from qops_batsim import InputError
from qops_batsim.dates import machine_zone
from qops_batsim.queue import QueueSource, QueueState, read_queue
from qops_batsim.traces import read_partitions

Cli = Callable[..., Any]

NOW = 1_781_699_400
"""The moment of the dump and of the queue: 2026-06-17 12:30 UTC."""

HEAD = "JobID|User|State|Submit|Start|End|ElapsedRaw|AllocCPUS|Timelimit"


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the time zone of this machine, for a test."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def local(seconds: float, zone: str) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(zone)):%Y-%m-%dT%H:%M:%S}"


def history(path: Path, zone: str, *, with_open: bool = False) -> Path:
    """Write what sacct prints at a site: a job every two hours until ten minutes ago, and perhaps
    the two that are in the queue.
    """
    rows = [HEAD]
    for number in range(200):
        submit = NOW - 600 - 7200 * (199 - number)
        dates = (local(submit + more, zone) for more in (0, 5, 305))
        rows.append(f"{number}|ada|COMPLETED|{'|'.join(dates)}|300|4|01:00:00")
    if with_open:
        submit, start = (local(NOW - ago, zone) for ago in (3600, 1800))
        rows.append(f"9000|ada|RUNNING|{submit}|{start}|Unknown|1800|8|02:00:00")
        rows.append(f"9001_[1-3]|ada|PENDING|{submit}|Unknown|Unknown|0|8|02:00:00")
    path.write_text("\n".join(rows) + "\n")
    return path


def queue(path: Path, zone: str | None = None) -> Path:
    """Write the queue of that moment: as JSON, or as the text that squeue prints in a zone."""
    if zone is None:
        running = {"job_id": 9000, "job_state": ["RUNNING"], "start_time": NOW - 1800}
        waiting = {"job_id": 9001, "job_state": ["PENDING"], "array_job_id": 9001,
                   "array_task_string": "1-3", "state_reason": "Resources"}  # fmt: skip
        both = {"cpus": 8, "time_limit": 120, "submit_time": NOW - 3600, "user_name": "ada"}
        jobs = [{**running, **both}, {**waiting, **both}]
        path.write_text(json.dumps({"meta": {}, "jobs": jobs, "last_update": NOW}))
        return path
    submit, start = (local(NOW - ago, zone) for ago in (3600, 1800))
    path.write_text(
        "JOBID|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|END_TIME|USER|REASON\n"
        f"9000|RUNNING|8|2:00:00|{submit}|{start}|N/A|ada|None\n"
        f"9001_[1-3]|PENDING|8|2:00:00|{submit}|N/A|N/A|ada|Resources\n"
    )
    return path


def starts(cli: Cli, log: Path, jobs: Path, *more: object) -> Any:
    options = ["--processors", 8, "--now", NOW, "--draws", 10]
    return cli("queue", "starts", jobs, "--history", log, *options, *more)


ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("zone", ZONES)
def test_the_zone_is_this_machines(
    zone: str, as_text: bool, in_zone: Callable[[str], None], cli: Cli, tmp_path: Path
) -> None:
    """Without the option, it is as with it, on any machine; and it is told."""
    log = history(tmp_path / "sacct.txt", zone, with_open=True)
    jobs = queue(tmp_path / "queue", zone if as_text else None)
    in_zone(zone)
    own = starts(cli, log, jobs, "--json")
    assert own.exit_code == 0, own.err
    assert f"are of {zone}, this machine's time zone (--time-zone names another)" in (
        " ".join(own.err.split())
    )
    found = json.loads(own.out)
    assert found["time_zone"] == zone
    for elsewhere in ("Asia/Tokyo", "America/Los_Angeles"):
        in_zone(elsewhere)
        named = starts(cli, log, jobs, "--json", "--time-zone", zone)
        assert json.loads(named.out) == found
        assert "this machine's" not in named.err


@pytest.mark.parametrize(("here", "there", "told"), [
    ("UTC", "Europe/Berlin", "2 h later"),
    ("UTC", "America/New_York", "4 h earlier"),
    ("Europe/London", "Asia/Kolkata", "4 h 30 min later"),
    ("Asia/Kathmandu", "UTC", "5 h 45 min earlier"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["starts", "quote"])
def test_jobs_in_both_tell_that_zones_differ(
    here: str, there: str, told: str, command: str, in_zone: Callable[[str], None], cli: Cli,
    tmp_path: Path,
) -> None:  # fmt: skip
    """West of this machine as well as east of it, to the quarter of an hour."""
    log = history(tmp_path / "sacct.txt", there, with_open=True)
    jobs = queue(tmp_path / "queue.json")
    in_zone(here)
    if command == "starts":
        result = starts(cli, log, jobs)
    else:
        options = ["--processors", 8, "--now", NOW, "--history", log]
        result = cli("queue", "quote", jobs, "4x1h", *options)
    assert result.exit_code == 2
    assert f"2 jobs that the queue has, too, were submitted {told} than there" in result.err
    assert f"if dates are of {here};" in result.err
    assert "--time-zone" in result.err
    assert starts(cli, log, jobs, "--time-zone", there).exit_code == 0


def test_a_history_that_is_later_than_the_queue_names_the_option(
    in_zone: Callable[[str], None], cli: Cli, tmp_path: Path
) -> None:
    log = history(tmp_path / "sacct.txt", "Europe/Berlin")
    jobs = queue(tmp_path / "queue.json")
    in_zone("UTC")
    result = starts(cli, log, jobs)
    assert result.exit_code == 2
    assert "submitted 1 h 50 min later" in result.err
    assert "(--time-zone names the zone of its dates, if that is not UTC)" in result.err
    jobs.write_text(json.dumps({"meta": {}, "jobs": []}))
    long_ago = starts(cli, log, jobs, "--now", NOW - 5 * 86400)
    assert "5 d 1 h 50 min later; a queue that is later than the history is expected" in (
        " ".join(long_ago.err.split())
    )
    assert "--time-zone names the zone of its dates" not in " ".join(long_ago.err.split())


def test_dates_with_an_offset_need_no_zone(
    in_zone: Callable[[str], None], cli: Cli, tmp_path: Path
) -> None:
    log = history(tmp_path / "sacct.txt", "Europe/Berlin", with_open=True)
    offsets = [
        "|".join(f"{cell}+02:00" if cell.startswith("2026-") else cell for cell in line.split("|"))
        for line in log.read_text().splitlines()
    ]
    log.write_text("\n".join(offsets) + "\n")
    jobs = queue(tmp_path / "queue.json")
    for zone in ZONES:
        in_zone(zone)
        assert starts(cli, log, jobs).exit_code == 0


def test_imports_and_advice_do_not_depend_on_the_machine(
    in_zone: Callable[[str], None], cli: Cli, tmp_path: Path
) -> None:
    log = history(tmp_path / "sacct.txt", "UTC")
    written = set()
    for zone in ZONES:
        in_zone(zone)
        assert cli("workload", "import", log, tmp_path / "w.json").exit_code == 0
        written.add((tmp_path / "w.json").read_bytes())
        (trace,) = read_partitions(log)[0].values()
        assert trace.calendar is not None
        assert trace.calendar.time_zone == "UTC"
    assert len(written) == 1


def read(text: str, time_zone: str | None = None) -> QueueState:
    head = "REASON|JOBID|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME\n"
    content = (head + text).encode()
    return read_queue(content, "queue", processors=8, now=1.8e9, time_zone=time_zone)


def test_an_hour_that_comes_twice_in_a_queue_is_told(in_zone: Callable[[str], None]) -> None:
    """Clocks in Berlin were put back at 3:00 on 2026-10-25, to 2:00; 1792891800 is 2:30 +0200."""
    rest = "PENDING|4|1:00:00|2026-10-25"
    text = f"None|7|{rest}T02:30:00|N/A\nNone|8|{rest}T03:30:00|\n"
    named = read(text, "Europe/Berlin")
    in_zone("Europe/Berlin")
    for state in (named, read(text)):
        assert [job.submission for job in state.jobs] == [1792888200, 1792895400]
        assert state.unsure == {"dated in an hour that comes twice, and taken for the first": 1}
    in_zone("UTC")
    assert read(text).unsure == {}
    offset = text.replace("02:30:00", "02:30:00+01:00")
    assert read(offset, "Europe/Berlin").jobs[0].submission == 1792891800
    assert read(offset, "Europe/Berlin").unsure == {}


def test_an_hour_that_comes_twice_in_a_history_is_told(
    in_zone: Callable[[str], None], cli: Cli, tmp_path: Path
) -> None:
    log = history(tmp_path / "sacct.txt", "Europe/Berlin")
    row = "{}|ada|COMPLETED|{}|{}|{}|300|4|01:00:00\n"
    for number, day in (("801", "2025-10-26T02"), ("802", "2026-03-29T02")):
        dates = (f"{day}:{minute}:00" for minute in ("10", "10", "15"))
        log.write_text(log.read_text() + row.format(number, *dates))
    in_zone("Europe/Berlin")
    result = starts(cli, log, queue(tmp_path / "queue.json"))
    assert result.exit_code == 0
    said = " ".join(result.err.split())
    assert "1 rows have a date in an hour that comes twice (Europe/Berlin)" in said
    assert "1 rows have a date in an hour that is left out (Europe/Berlin)" in said


def test_a_source_reads_text_in_its_zone(tmp_path: Path) -> None:
    path = queue(tmp_path / "queue.txt", "Asia/Tokyo")
    source = QueueSource(path, machine=8, now=NOW, time_zone="Asia/Tokyo")
    assert source.state().jobs[0].start == NOW - 1800


@pytest.mark.parametrize(("value", "name"), [
    ("Europe/Berlin", "Europe/Berlin"), (":Europe/Berlin", "Europe/Berlin"), ("", "UTC"),
    ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
    (":/usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"), ("EST5EDT", "EST5EDT"),
])  # fmt: skip
def test_the_zone_of_a_machine_has_a_name(
    value: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", value)
    assert machine_zone() == name


def test_a_zone_without_a_name_is_asked_for(
    in_zone: Callable[[str], None], cli: Cli, tmp_path: Path
) -> None:
    log, jobs = history(tmp_path / "sacct.txt", "Europe/Berlin"), queue(tmp_path / "queue.json")
    in_zone("CET-1CEST,M3.5.0,M10.5.0/3")
    result = starts(cli, log, jobs)
    assert result.exit_code == 2
    assert "the time zone of this machine (TZ) is 'CET-1CEST" in result.err
    assert "--time-zone" in result.err
    assert starts(cli, log, jobs, "--time-zone", "Europe/Berlin").exit_code == 0
    assert cli("workload", "import", log).exit_code == 0
    with pytest.raises(InputError, match="time zone database"):
        read_partitions(log, time_zone="Europe/Berln")
    wrong = starts(cli, log, jobs, "--time-zone", "Europe/Berln")
    assert "--time-zone is 'Europe/Berln'" in wrong.err
