"""``from-sacct --reservations``: windows of the reservations that Slurm tells, by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.engine import read_external_events
from qops_batsim.slurm.reservations import read_reservations
from qops_batsim.workload.accounting import Choices

Cli = Callable[..., Any]

JOBS = """JobID|State|Reservation|Submit|Start|End|AllocCPUS|AllocTRES|Timelimit
1|COMPLETED||2024-03-29T10:00:00|2024-03-29T10:00:00|2024-03-29T11:00:00|8|cpu=8|02:00:00
2|COMPLETED|class|2024-03-29T10:10:00|2024-03-29T12:00:00|2024-03-29T12:30:00|4|cpu=4|01:00:00
3|COMPLETED||2024-03-29T10:20:00|2024-03-29T11:00:00|2024-03-29T12:00:00|32|cpu=32|01:30:00
4|COMPLETED||2024-04-01T08:00:00|2024-04-01T09:00:00|2024-04-01T10:00:00|16|cpu=16|03:00:00
"""
"""Four jobs over three days; the clock is put forward on 31 March."""

RECORDS = """\
ReservationName=maint StartTime=2024-03-30T12:00:00 EndTime=2024-03-30T16:00:00 Duration=04:00:00
   Nodes=n[1-8] NodeCnt=8 CoreCnt=32 Features=a|b PartitionName=(null) Flags=MAINT,ALL_NODES
   TRES=cpu=32
   Users=root Accounts=(null) State=INACTIVE

ReservationName=class StartTime=2024-03-29T12:00:00 EndTime=2024-03-29T14:00:00 Duration=02:00:00
   Nodes=n[1-2] NodeCnt=2 CoreCnt=6 PartitionName=main Flags=DAILY
   TRES=cpu=6

ReservationName=old StartTime=2024-03-01T12:00:00 EndTime=2024-03-01T14:00:00 Duration=02:00:00
   Nodes=n1 NodeCnt=1 CoreCnt=4 PartitionName=main Flags=SPEC_NODES
   TRES=cpu=4

ReservationName=long StartTime=2024-03-30T10:00:00 EndTime=2025-03-30T10:00:00 Duration=365-00:00:00
   Nodes=n3 NodeCnt=1 CoreCnt=4 PartitionName=main Flags=SPEC_NODES
   TRES=cpu=4
"""

TABLE = """Name|TRES|TimeStart|TimeEnd|NodeName|Flags|UnusedWall
maint|cpu=32|2024-03-30T12:00:00|2024-03-30T16:00:00|n[1-8]|MAINT,ALL_NODES|0.0
class|cpu=6|2024-03-29T12:00:00|2024-03-29T14:00:00|n[1-2]|DAILY|0.0
class|cpu=6|2024-03-30T12:00:00|2024-03-30T14:00:00|n[1-2]|DAILY|0.0
old|cpu=4|2024-03-01T12:00:00|2024-03-01T14:00:00|n1|SPEC_NODES|0.0
long|cpu=4|2024-03-30T10:00:00|2025-03-30T10:00:00|n3|SPEC_NODES|0.0
"""

H = 3600.0
# From 10:00 on 29 March. All 32 hosts are away for 4 hours on the 30th; class, on six, is not held
# then, on the 31st begins an hour earlier by UTC, and is over for 1 April; long has four hosts
# until the last job ends.
EXPECTED = [
    ("class", "26-31", 2 * H, 4 * H),
    ("long", "28-31", 24 * H, 26 * H),
    ("maint", "0-31", 26 * H, 30 * H),
    ("long", "28-31", 30 * H, 71 * H),
    ("class", "22-27", 49 * H, 51 * H),
]


def write(tmp_path: Path, reservations: str) -> tuple[Path, Path, Path]:
    jobs, listed = tmp_path / "jobs.txt", tmp_path / "reservations.txt"
    jobs.write_text(JOBS)
    listed.write_text(reservations)
    return jobs, tmp_path / "w.json", listed


@pytest.mark.parametrize(
    "text", [RECORDS, TABLE, RECORDS.replace("\n   ", " ")], ids=["records", "table", "one-liner"]
)
def test_windows_are_written_and_kept_by_a_run(cli: Cli, tmp_path: Path, text: str) -> None:
    jobs, out, listed = write(tmp_path, text)
    zone = ["--time-zone", "Europe/Stockholm"]
    result = cli("workload", "import", jobs, out, "--reservations", listed, *zone)
    assert (result.exit_code, result.err) == (0, "")
    events = tmp_path / "w_events.txt"
    said = " ".join(result.out.split())
    count = "5 maintenance windows of " + str(5 if text is TABLE else 4)
    assert f"{count} reservations (not 1 before or after the jobs)" in said
    assert f"--events {events}" in said.replace("/ ", "/")
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    found = [(each["reservation"], each["resources"], each["start"], each["end"]) for each in lines]
    assert found == EXPECTED
    assert {each["timestamp"] for each in lines} == {0}
    assert len(read_external_events(events)) == 3 * len(EXPECTED)
    for scheduler in ("easy", "qops"):
        run = ["run", scheduler, "-w", out, "--events", events, "-o", tmp_path / scheduler, "-q"]
        assert cli(*run).exit_code == 0
        assert cli("verify", tmp_path / scheduler).exit_code == 0


def test_each_window_of_a_periodic_reservation_is_announced_ahead(cli: Cli, tmp_path: Path) -> None:
    """The clock of UTC is not put forward; nodes are hosts; jobs of the reservation are taken."""
    record = RECORDS.split("\n\n")[1].replace("\n   ", " ")
    jobs, out, listed = write(tmp_path, record.replace("=class", "=other"))
    jobs.write_text(JOBS.replace("AllocCPUS", "AllocNodes"))
    arguments = ["workload", "import", jobs, out, "--reservations", listed, "--by", "nodes"]
    assert cli(*arguments, "--notice", "1h", "--rebase").exit_code == 0
    lines = map(json.loads, (tmp_path / "w_events.txt").read_text().splitlines())
    for day, line in zip(range(3), lines, strict=True):
        assert line == {
            "timestamp": (1 + 24 * day) * H,
            "type": "maintenance",
            "resources": "30-31",
            "reservation": "other",
            "start": (2 + 24 * day) * H,
            "end": (4 + 24 * day) * H,
        }
    assert len(read_external_events(tmp_path / "w_events.txt")) == 9
    result = cli(*arguments, "--reservation", "all")
    assert "0 maintenance windows of 1 reservations (not 1 whose jobs are taken)" in " ".join(
        result.out.split()
    )
    assert (tmp_path / "w_events.txt").read_text() == ""


def test_what_makes_no_window_is_counted_in_text_and_json(cli: Cli, tmp_path: Path) -> None:
    floating = RECORDS.replace("Flags=MAINT,ALL_NODES", "Flags=MAINT,TIME_FLOAT,ALL_NODES")
    jobs, out, listed = write(tmp_path, floating.replace("Flags=DAILY", "Flags=FLEX,DAILY"))
    left_out = {
        "whose jobs may begin before it, end after it and run elsewhere (FLEX)": 1,
        "whose start moves with the clock and never comes (TIME_FLOAT)": 1,
        "before or after the jobs": 1,
    }
    arguments = ["workload", "import", jobs, "--reservations", listed]
    found = json.loads(cli(*arguments, "--json").out)
    assert found["reservations"] == {"read": 4, "windows": 1, "left_out": left_out}
    told = ", ".join(f"{count} {why}" for why, count in found["reservations"]["left_out"].items())
    for written in ([], [out]):
        said = " ".join(cli(*arguments[:3], *written, *arguments[3:]).out.split())
        assert f"1 maintenance windows of 4 reservations (not {told})" in said
    assert len((tmp_path / "w_events.txt").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "reservations.txt: is no list of reservations; the output of `scontrol show"),
        (RECORDS.replace("2024-03-29T12", "noon"), "line 6: StartTime is 'noon:00:00'; a date"),
        (TABLE.replace("2024-03-01T14", "2023-03-01T14"), "line 5: EndTime is '2023-03-01T14:0"),
        (RECORDS.replace("NodeCnt=8", "NodeCnt=x"), "line 1: NodeCnt is 'x'; a whole number"),
        (RECORDS.replace("EndTime", "Finish"), "line 1: EndTime is ''; a date with"),
    ],
)
def test_bad_reservations(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    jobs, out, listed = write(tmp_path, text)
    result = cli("workload", "import", jobs, out, "--reservations", listed)
    assert (result.exit_code, result.out) == (2, "")
    assert message in result.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["jobs.txt", "reservations.txt"]


def test_gpus_need_their_numbers(cli: Cli, tmp_path: Path) -> None:
    """A reservation of 8 of 32 cores has 2 of the 8 GPUs that the list of nodes tells."""
    jobs, out, listed = write(tmp_path, RECORDS.split("\n\n")[3].replace("4", "8"))
    listed.write_text(listed.read_text().replace("2028", "2024"))
    jobs.write_text(JOBS.replace("|cpu=", "|gres/gpu="))
    arguments = ["workload", "import", jobs, out, "--reservations", listed, "--by", "gpus"]
    result = cli(*arguments)
    assert result.exit_code == 2
    assert "line 1: TRES does not tell how many gpus reservation 'long' takes" in result.err
    assert not out.exists()
    nodes = tmp_path / "nodes.txt"
    nodes.write_text("PARTITION|NODES|CPUS|GRES\nmain|8|4|gpu:1\n")
    assert cli(*arguments, "--nodes", nodes, "--processors", "40").exit_code == 0
    (line,) = (tmp_path / "w_events.txt").read_text().splitlines()
    assert json.loads(line)["resources"] == "38-39"


def test_an_hour_that_comes_twice_may_end_before_it_begins(tmp_path: Path) -> None:
    """From 02:50 by summer time to 02:10 by winter time are 20 minutes."""
    listed = tmp_path / "reservations.txt"
    listed.write_text(
        "ReservationName=night StartTime=2024-10-27T02:50:00 EndTime=2024-10-27T02:10:00 NodeCnt=1"
    )
    (found,) = read_reservations(listed, Choices(time_zone="Europe/Stockholm"))
    assert found.end - found.start == 1200
