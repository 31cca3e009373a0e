"""Several rows of one job, values that mean none, suspended time, and formats that are not read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from qops_batsim import InputError, read_swf
from qops_batsim.traces import read_partitions, read_trace
from qops_batsim.workload import Conversion, convert_log
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.site import CsvForm
from support.logs import read_log

HEAD = "JobID|State|Submit|Start|End|ElapsedRaw|AllocCPUS|Timelimit|Partition"
DAY = "2025-03-10T"


def row(
    job: str, state: str, submit: str, start: str, end: str, cores: int, more: str = "a"
) -> str:
    """Return a row of sacct; the dates are of one day, as hh:mm."""
    dates = [f"{DAY}{each}:00" if ":" in each else each for each in (submit, start, end)]
    hours = [
        int(each[:2]) * 3600 + int(each[3:]) * 60 if ":" in each else 0 for each in (start, end)
    ]
    ran = hours[1] - hours[0] if hours[1] else 0
    return "|".join([job, state, *dates, str(ran), str(cores), "02:00:00", more])


ONE = row("1", "COMPLETED", "00:00", "00:00", "01:00", 4)
REQUEUED = [
    row("2", "PREEMPTED", "00:00", "00:00", "00:10", 4, "b"),
    row("2", "COMPLETED", "00:20", "00:30", "00:50", 4),
]
RESIZED = [
    row("4", "RESIZING", "00:00", "00:00", "00:10", 8),
    row("4", "COMPLETED", "00:00", "00:10", "01:00", 4),
]


def read(tmp_path: Path, rows: Sequence[str], **choices: Any) -> Conversion:
    path = tmp_path / "dump.txt"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return read_trace(path, accounting=Choices(**choices))


def jobs(found: Conversion) -> dict[str, tuple[float, float, float, int]]:
    """Return submission, wait, run time and processors of each job; seconds of the day."""
    assert found.calendar is not None
    begin = found.calendar.unix_start % 86400
    return {
        job.id: (
            begin + job.submission_time,
            record["wait_time"],
            record["run_time"],
            job.processors,
        )
        for job, record in zip(found.workload.jobs, found.records, strict=True)
    }


def told(found: Conversion) -> dict[str, int]:
    return {each.rule: each.jobs for each in found.repairs if each.jobs}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # Waits or runs again.
        ([REQUEUED[0], row("2", "PENDING", "00:10", "Unknown", "Unknown", 0)], {}),
        ([REQUEUED[0], row("2", "RUNNING", "00:10", "00:20", "Unknown", 4)], {}),
        (REQUEUED, {"2": (1200, 600, 1200, 4)}),
        # The newest comes first, as in some versions of Slurm.
        (REQUEUED[::-1], {"2": (1200, 600, 1200, 4)}),
        # Dumps that were joined: a row that waited or ran is no later news of a run that ended.
        ([row("2", "PENDING", "00:20", "Unknown", "Unknown", 0), REQUEUED[1]],
         {"2": (1200, 600, 1200, 4)}),
        ([REQUEUED[1], row("2", "RUNNING", "00:20", "00:30", "Unknown", 4)],
         {"2": (1200, 600, 1200, 4)}),
        (RESIZED, {"4": (0, 0, 3600, 8)}),
        (RESIZED[::-1], {"4": (0, 0, 3600, 8)}),
        ([RESIZED[0], row("4", "RUNNING", "00:00", "00:10", "Unknown", 4)], {}),
        # Grown, then preempted and run again.
        ([row("4", "RESIZING", "00:00", "00:00", "00:10", 2),
          row("4", "RESIZING", "00:00", "00:10", "00:20", 6),
          row("4", "NODE_FAIL", "00:00", "00:20", "00:30", 4), *[
              each.replace("2|", "4|", 1) for each in REQUEUED[1:]]], {"4": (1200, 600, 1200, 4)}),
        # Of a federation; the other cluster's row says nothing, wherever it stands.
        ([row("9", "COMPLETED", "00:00", "00:10", "00:50", 4),
          row("9", "REVOKED", "00:00", "00:10", "00:10", 4)], {"9": (0, 600, 2400, 4)}),
        # A task has a row of its own beside those that wait.
        ([row("5_[3-9%2]", "PENDING", "00:00", "Unknown", "Unknown", 0),
          row("5_3", "COMPLETED", "00:00", "00:10", "00:20", 1)], {"5_3": (0, 600, 600, 1)}),
    ],
)  # fmt: skip
def test_the_last_row_of_a_job_counts_and_its_stretches_are_one(
    tmp_path: Path, rows: Sequence[str], expected: dict[str, object]
) -> None:
    found = jobs(read(tmp_path, [ONE, *rows]))
    assert found.pop("1") == (0, 0, 3600, 4)
    assert found == expected


def test_each_run_is_whole(tmp_path: Path) -> None:
    rows = [RESIZED[0], row("4", "NODE_FAIL", "00:00", "00:10", "01:00", 4),
            row("4", "COMPLETED", "01:00", "01:10", "01:20", 2)]  # fmt: skip
    found = read(tmp_path, [ONE, *rows], restarts="each")
    assert jobs(found)["4"] == (0, 0, 3600, 8)
    assert jobs(found)["4r1"] == (3600, 600, 600, 2)


def test_a_resized_job_is_told_with_what_it_did_not_use(tmp_path: Path) -> None:
    """Others had the four cores that it gave back: the machine has no more than were in use."""
    found = read(tmp_path, [*RESIZED, row("6", "COMPLETED", "00:00", "00:10", "01:00", 4)])
    (resized,) = (each for each in found.repairs if each.rule == "resized")
    assert "(3.33 core-hours more than they used)" in resized.description
    assert (resized.choice, list(resized.lines)) == ("merge", [3])
    assert found.workload.processors == 8
    (part,) = read_partitions(tmp_path / "dump.txt")[0].values()
    assert told(part)["resized"] == 1


def test_a_job_that_was_requeued_elsewhere_is_of_the_partition_of_its_last_row(
    tmp_path: Path,
) -> None:
    assert "2" not in jobs(read(tmp_path, [row("7", "FAILED", "00:00", "00:00", "00:10", 1, "b"),
                                           *REQUEUED], partitions=["b"]))  # fmt: skip


def test_stretches_are_one_in_json_and_pbs(tmp_path: Path) -> None:
    begin = 1741564800

    def job(states: object, start: int, end: int, cores: int) -> dict[str, Any]:
        time = {"submission": begin, "start": start and begin + start, "end": end and begin + end}
        return {
            "job_id": 4,
            "state": {"current": states},
            "time": time,
            "required": {"CPUs": cores},
        }

    path = tmp_path / "dump.json"
    two = [job(["PENDING", "RESIZING"], 60, 600, 8), job(["COMPLETED"], 600, 3600, 4)]
    path.write_text(json.dumps({"jobs": two}))
    assert jobs(read_trace(path)) == {"4": (0, 60, 3540, 8)}
    pbs = "03/10/2025 00:0{}:00;{};1.s;ctime=1741564800 start=1741564800 Resource_List.ncpus=2\n"
    path.write_text(
        "".join(pbs.format(*each) for each in ("1S", "2R"))
        + pbs.format(3, "E").replace(";1.s", ";2.s")
    )
    assert list(jobs(read_trace(path))) == ["2.s"]


NONE_DATES = (
    *("", "Unknown", "None", "N/A", "(null)", "NULL", "NaT", "0", "4294967294", "4294967295", "-1"),
    *("1970-01-01T00:00:00", "1970-01-01T01:00:00", "1969-12-31T19:00:00", "9999-12-31T00:00:00"),
    *("0000-00-00 00:00:00", "2106-02-07T06:28:15"),
)
NONE_LIMITS = (
    *("", "UNLIMITED", "Partition_Limit", "None", "N/A", "(null)", "INFINITE", "4294967295", "-1"),
    *("4294967294", "4294967295.0", "18446744073709551615", "2982616-04:15:00", "49710-06:28:15"),
    "0",
)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("form", ["sacct", "csv", "parquet"])
def test_a_value_that_means_none_is_none(tmp_path: Path, form: str, zone: str) -> None:
    """Dates of an end (the job runs still) and limits; each in a job of its own."""
    names = HEAD.split("|")
    rows = [dict(zip(names, ONE.split("|"), strict=True))]
    for number, end in enumerate(NONE_DATES):
        rows.append(
            {**rows[0], "JobID": f"1{number}", "End": end, "State": "RUNNING", "ElapsedRaw": ""}
        )
    for number, limit in enumerate(NONE_LIMITS):
        rows.append({**rows[0], "JobID": f"2{number}", "Timelimit": limit})
    for number, name in enumerate(["(null)", "None", "N/A", "Unknown"]):
        rows.append({**rows[0], "JobID": f"3{number}", "Partition": name})
    path = tmp_path / "table"
    if form == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        mark = "," if form == "csv" else "|"
        path.write_text("\n".join(mark.join(each) for each in (names, *(r.values() for r in rows))))
    mapping = {"id": "JobID", "state": "State", "submit": "Submit", "start": "Start", "end": "End",
               "run_time": "ElapsedRaw", "processors": "AllocCPUS", "walltime": "Timelimit",
               "queue": "Partition"}  # fmt: skip
    choices = Choices(states=["COMPLETED", "RUNNING"], time_zone=zone)
    table = None if form == "sacct" else CsvForm(mapping, {"walltime": "min"})
    log = read_log(path, choices, "sacct" if table is None else "csv", table)
    found = dict(zip(log.ids or (), log.records, strict=True))
    ends = {end: found[f"1{n}"]["run_time"] for n, end in enumerate(NONE_DATES)}
    assert {end for end, read in ends.items() if read != -1} == set()
    limits = {limit: found[f"2{n}"]["requested_time"] for n, limit in enumerate(NONE_LIMITS)}
    assert {limit for limit, read in limits.items() if read > 0} == set()
    queue = log.texts["queue"].texts()
    assert queue[-4:] == [""] * 4
    assert convert_log(log).workload.jobs[0].walltime == 7200


def test_seconds_that_are_no_dates_may_be_0(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("id,submit,start,end,n\n1,0,0,60,1\n2,10,60,0,1\n3,10,60,70,1\n")
    form = CsvForm(
        {"id": "id", "submit": "submit", "start": "start", "end": "end", "processors": "n"}
    )
    found = convert_log(read_log(path, Choices(), "csv", form))
    assert jobs(found) == {"1": (0, 0, 60, 1), "3": (10, 50, 10, 1)}


def test_an_inside_of_no_reservation_is_none(tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(f"{HEAD}|Reservation\n{ONE}|(null)\n")
    assert list(jobs(read_trace(path))) == ["1"]


SUSPENDED = [  # 128 cores each; the second runs while the first is suspended.
    "1|COMPLETED|2025-03-10T00:00:00|2025-03-10T00:00:00|2025-03-10T02:00:00|{}|128|02:00:00|a{}",
    "2|COMPLETED|2025-03-10T00:30:00|2025-03-10T00:30:00|2025-03-10T01:30:00|3600|128|02:00:00|a{}",
]


@pytest.mark.parametrize(("elapsed", "head", "first"), [
    ("3600", "", ""), ("3600", "|Suspended", "|01:00:00"), ("", "|Suspended", "|01:00:00"),
    ("7200", "|Suspended", "|01:00:00"), ("", "|Suspended", "|3600"),
])  # fmt: skip
def test_suspended_time_is_neither_run_time_nor_occupation(
    tmp_path: Path, elapsed: str, head: str, first: str
) -> None:
    path = tmp_path / "dump.txt"
    rows = [SUSPENDED[0].format(elapsed, first), SUSPENDED[1].format(head and "|00:00:00")]
    path.write_text("\n".join([HEAD + head, *rows]))
    found = read_trace(path)
    assert jobs(found) == {"1": (0, 0, 3600, 128), "2": (1800, 0, 3600, 128)}
    assert found.workload.processors == 128
    assert found.size_is.endswith(", without 1 jobs that were suspended for a while")
    assert told(found)["suspended"] == 1


def test_suspended_time_in_json_and_in_a_database(tmp_path: Path) -> None:
    begin = 1741564800
    path = tmp_path / "dump"
    time = {"submission": begin, "start": begin, "end": begin + 7200, "suspended": 3600}
    job = {"job_id": 4, "state": "COMPLETED", "time": time, "required": {"CPUs": 4}}
    path.write_text(json.dumps({"jobs": [job]}))
    assert jobs(read_trace(path)) == {"4": (0, 0, 3600, 4)}
    rows = [(1, begin, begin, begin + 7200, 3600),(2, begin, 0, 0, 0)]  # fmt: skip
    text = "id,submit,start,end,time_suspended,n\n"
    path.write_text(text + "".join(",".join(map(str, each)) + ",4\n" for each in rows))
    mapping = {"id": "id", "submit": "submit", "start": "start", "end": "end", "processors": "n",
               "suspended": "time_suspended"}  # fmt: skip
    found = convert_log(read_log(path, Choices(), "csv", CsvForm(mapping)))
    assert jobs(found) == {"1": (0, 0, 3600, 4)}


def test_lists_that_slurm_cut_are_told(tmp_path: Path) -> None:
    rows = [ONE, row("5200_[1,3,5,...%4]", "PENDING", "00:00", "Unknown", "Unknown", 4)]
    found = read(tmp_path, rows)
    assert told(found) == {"cut_tasks": 1, "state_pending": 3}
    waiting = read(tmp_path, rows, states=["COMPLETED", "PENDING"])
    assert told(waiting)["cut_tasks"] == 1
    path = tmp_path / "dump.txt"
    path.write_text(f"{HEAD}|NodeList\n{ONE}|n[1,3,5,...]\n")
    assert told(read_trace(path))["cut_nodes"] == 1


LSF = '"JOB_FINISH" "10.1" 1656313251 905984 10519 33816602 16 1656072937 0 0 1656072944 "kim"\n'
SGE = "long:n0006:users:kim:vgl0:579398:sge:0:1490016710:1490016710:1490016904:0:0:194:0.019996\n"
OTHERS = {
    "LSF": LSF,
    "Grid Engine": f"# Version: 8.1.9\n#\n{SGE}",
    "history of HTCondor": 'Args = "1"\nClusterId = 4\nOwner = "kim"\n*** Offset = 0\n',
    "event log of HTCondor": "000 (123.000.000) 05/01 10:00:00 Job submitted from host: <1>\n",
    "Moab": "10:15:23 1174926923:1 job 1234 JOBEND 1234 16 kim\n",
    "jobcomp": "JobId=7 UserId=kim(1000) Name=a JobState=COMPLETED TimeLimit=60 \n",
    "fixed width": "JobID           JobName  Submit\n------------ ---------- ------\n1   a  b\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_formats_that_are_not_read_are_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    path.write_text(OTHERS[name])
    mapping = {"id": "a", "submit": "b", "run_time": "c", "processors": "d"}
    for reading in (
        lambda: read_trace(path),
        lambda: read_swf(path),
        lambda: read_partitions(path),
        lambda: read_log(path, Choices(), "sacct"),
        lambda: read_log(path, Choices(), "pbs"),
        lambda: read_log(path, Choices(), "csv", CsvForm(mapping)),
    ):
        with pytest.raises(InputError, match=f"log: is .*{name}.*, which is not read"):
            reading()
