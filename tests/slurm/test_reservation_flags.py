"""Flags and dates of Slurm's reservations: which make a window, and how they may be written."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.slurm.reservations import (
    Reservation,
    ReservedHosts,
    read_reservations,
    reservations_of,
    windows_of,
)
from qops_batsim.traces import read_partitions
from qops_batsim.workload.accounting import Choices

# One job of 8 of 48 cores from 2026-06-02 8:00 to 9:00, and one three days later: 73 h in all.
JOBS = """JobID|State|Submit|Start|End|AllocCPUS|Timelimit
1|COMPLETED|2026-06-02T08:00:00|2026-06-02T08:00:00|2026-06-02T09:00:00|8|02:00:00
2|COMPLETED|2026-06-05T08:00:00|2026-06-05T08:00:00|2026-06-05T09:00:00|8|02:00:00
"""
H = 3600.0
BEGIN = datetime(2026, 6, 2, 8, tzinfo=UTC).timestamp()
TEXT = """\
ReservationName=maint StartTime=2026-06-04T08:00:00 EndTime=2026-06-04T12:00:00 Duration=04:00:00
   Nodes=n[1-4],x[001618-001619] NodeCnt=6 CoreCnt=48 Features=(null) PartitionName=(null) Flags=%s
     NodeName=n1 CoreIDs=0-1
   TRES=cpu=48
   Users=root Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)
   MaxStartDelay=(null)
   Comment=until EndTime=2026-06-09T12:00:00 Flags=FLEX
"""
CHOICES = Choices(time_zone="UTC")
MAINT = [ReservedHosts("maint", (1 << 48) - 1, 48 * H, 52 * H)]


def windows(listed: list[Reservation], tmp_path: Path) -> tuple[list[ReservedHosts], Counter[str]]:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text(JOBS)
    (trace,) = read_partitions(jobs, processors=48, accounting=CHOICES)[0].values()
    return windows_of(listed, trace, CHOICES)


@pytest.mark.parametrize(
    "flags",
    [
        *("", "MAINT,IGNORE_JOBS,SPEC_NODES", "MAINT,OVERLAP,ALL_NODES", "MAGNETIC", "PART_NODES"),
        *("PURGE_COMP=00:05:00,STATIC", "NO_HOLD_JOBS_AFTER_END,USER_DELETE", "REPLACE_DOWN"),
    ],
)
def test_most_flags_leave_a_window_as_its_dates_say(flags: str, tmp_path: Path) -> None:
    assert windows(reservations_of(TEXT % flags, "r", CHOICES), tmp_path) == (MAINT, Counter())


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ("MAINT,IGNORE_JOBS,TIME_FLOAT,SPEC_NODES", "moves with the clock"),
        ("TIME_FLOAT", "moves with the clock"),
        ("FLEX,MAGNETIC", "may begin before it"),
        ("ANY_NODES", "without nodes"),
        ("MAINT,SKIP", "are skipped"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json", "sacctmgr"])
def test_flags_that_change_what_dates_mean_make_no_window(
    flags: str, why: str, form: str, tmp_path: Path
) -> None:
    text = TEXT % flags
    if form == "json":
        text = in_json(flags.split(","))
    elif form == "sacctmgr":
        text = "Name|TRES|TimeStart|TimeEnd|Flags\nmaint|cpu=48|1780560000|1780574400|" + flags
    found, left_out = windows(reservations_of(text, "r", CHOICES), tmp_path)
    ((told, count),) = left_out.items()
    assert (found, count) == ([], 1)
    assert why in told


def in_json(flags: list[str], *, plain: bool = False) -> str:
    def number(value: int) -> object:
        return value if plain else {"set": True, "infinite": False, "number": value}

    begin = int(BEGIN + 48 * H)
    record = {"name": "maint", "start_time": number(begin), "end_time": number(begin + 4 * 3600)}
    record |= {"node_list": "n[1-6]", "node_count": 6, "core_count": 48, "partition": ""}
    return json.dumps({"meta": {}, "reservations": [record | {"tres": "cpu=48", "flags": flags}]})


@pytest.mark.parametrize("plain", [True, False])
def test_json_is_read_as_text_is(plain: bool, tmp_path: Path) -> None:
    text = in_json(["MAINT", "SPEC_NODES"], plain=plain)
    assert windows(reservations_of(text, "r", CHOICES), tmp_path) == (MAINT, Counter())
    times = {"time": {"start": int(BEGIN + 48 * H), "end": int(BEGIN + 52 * H)}}
    amounts = {"tres": [{"type": "cpu", "name": "", "count": 48}]}
    of_sacctmgr = {"name": "maint", "nodes": "n[1-6]", "flags": ["MAINT"], **times, **amounts}
    text = json.dumps({"reservations": [of_sacctmgr]})
    assert windows(reservations_of(text, "r", CHOICES), tmp_path) == (MAINT, Counter())


def test_of_a_repeated_reservation_the_next_time_can_be_skipped(tmp_path: Path) -> None:
    listed = reservations_of(TEXT % "DAILY", "r", CHOICES)
    assert [each.start for each in windows(listed, tmp_path)[0]] == [48 * H, 72 * H]
    listed = reservations_of(TEXT % "DAILY,SKIP", "r", CHOICES)
    assert [each.start for each in windows(listed, tmp_path)[0]] == [72 * H]


@pytest.mark.parametrize(
    ("start", "end", "form"),
    [
        ("2026-06-04 08:00:00", "2026-06-04 12:00:00", None),
        ("1780560000", "1780574400", None),
        ("2026-06-04 10:00:00 +0200", "2026-06-04T12:00:00Z", None),
        ("2026-06-04T08:00", "2026-06-04 12:00", None),
        ("4 Jun 2026 08:00", "4 Jun 2026 12:00", "%d %b %Y %H:%M"),
    ],
)
def test_dates_may_have_blanks(start: str, end: str, form: str | None, tmp_path: Path) -> None:
    text = (TEXT % "MAINT").replace("2026-06-04T08:00:00", start)
    text = text.replace("EndTime=2026-06-04T12:00:00 D", f"EndTime={end} D")
    for each in (text, text.replace("\n   ", " ")):
        listed = reservations_of(each, "r", Choices(time_zone="UTC", date_format=form))
        assert windows(listed, tmp_path) == (MAINT, Counter())


@pytest.mark.parametrize(
    ("start", "form"),
    [
        *(("4 Jun 08:00", None), ("Tomorr 08:00", None), ("08:00:00", None), ("4 Jun 2028", None)),
        *(("2026-06-04", None), ("1996-06-04T08:00:00", None), ("20260604", None)),
        *(("Unknown", None), ("4 Jun 08:00", "%d %b %H:%M")),
    ],
)
def test_dates_that_are_not_sure_are_refused_by_field(
    start: str, form: str | None, tmp_path: Path
) -> None:
    listed = tmp_path / "r.txt"
    listed.write_text((TEXT % "MAINT").replace("2026-06-04T08:00:00", start))
    with pytest.raises(InputError, match=f"r.txt: line 1: StartTime is '{start}'; ") as error:
        read_reservations(listed, Choices(time_zone="UTC", date_format=form))
    assert "expected" in str(error.value)


def test_reservations_of_several_clusters_are_refused_or_chosen() -> None:
    """sacctmgr lists those of all clusters; of one name and date, one went under."""
    row = "{}|maint|cpu={}|1780560000|1780574400|MAINT\n"
    head = "Cluster|Name|TRES|TimeStart|TimeEnd|Flags\n"
    text = head + row.format("alder", 8) + row.format("birch", 48)
    with pytest.raises(InputError, match="clusters alder, birch, .*--cluster alder takes"):
        reservations_of(text, "r", CHOICES)
    for cluster, cores in (("alder", 8), ("birch", 48)):
        (found,) = reservations_of(text, "r", Choices(time_zone="UTC", cluster=cluster))
        assert found.amounts["cores"] == cores
    assert reservations_of(text, "r", Choices(time_zone="UTC", cluster="cedar")) == []
    assert len(reservations_of(head + row.format("alder", 8), "r", CHOICES)) == 1


def test_a_table_tells_the_flags() -> None:
    """Without them nobody knows which are repeated, or never begin."""
    text = "Name|TRES|TimeStart|TimeEnd\nmaint|cpu=48|1780560000|1780574400\n"
    with pytest.raises(InputError, match="r: has no column Flags; .*`sacctmgr "):
        reservations_of(text, "r", CHOICES)
