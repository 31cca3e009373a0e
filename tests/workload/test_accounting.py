"""Slurm's accounting: counts are those that a generator knows, and every id comes through."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import InputError, read_workload
from qops_batsim.dates import Calendar
from qops_batsim.slurm.sacct import slurm_job_id
from qops_batsim.slurm.values import slurm_number
from qops_batsim.traces import read_trace
from qops_batsim.workload import Conversion, Repairs, format_workload, parse_workload
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.cells import read_cells
from qops_batsim.workload.accounting.rows import task_numbers
from support import sacct_dumps
from support.sacct_dumps import CHANGES, HEADER, OWN_WORDS, ZONE, Dump, local, make_dump

SITE = Choices(time_zone=ZONE, state_names=OWN_WORDS)
HEAD = "JobID|State|Submit|Start|End|AllocCPUS|Timelimit"
ROW = "7|COMPLETED|2024-05-01T10:00:00|2024-05-01T10:01:00|2024-05-01T10:03:00|4|01:00:00"


def converted(tmp_path: Path, text: str | bytes, accounting: Choices = SITE) -> Conversion:
    path = tmp_path / "dump.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_trace(path, accounting=accounting)


def counts(conversion: Conversion) -> Counter[str]:
    """Return what was left out or merged, apart from dates that change clocks."""
    found = {each.rule: each.jobs for each in conversion.repairs if each.jobs}
    return Counter(
        {k: n for k, n in found.items() if not k.startswith(("hour_", "submit_", "over"))}
    )


def check(conversion: Conversion, dump: Dump, *, exact: bool) -> None:
    """Check a conversion against what the generator knows."""
    found = counts(conversion)
    kept = found.pop("no_requested_time", 0)
    assert kept == sum(job.limit in (None, -1) for job in dump.jobs.values())
    assert found == Counter({rule: count for rule, count in dump.left_out.items() if count})
    calendar = conversion.calendar
    assert calendar is not None
    assert calendar.time_zone == ZONE
    by_id = {job.id: job for job in conversion.workload.jobs}
    assert by_id.keys() == dump.jobs.keys()
    for (job_id, truth), record in zip(
        sorted(dump.jobs.items()),
        conversion.records[np.argsort([job.id for job in conversion.workload.jobs])],
        strict=True,
    ):
        job = by_id[job_id]
        assert job.processors == truth.processors
        assert job.walltime == (None if truth.limit in (None, -1) else truth.limit)
        assert conversion.workload.profiles[job.profile]["delay"] == truth.run_time
        names = {name: job.fields.get(name, "") for name in truth.names}
        assert names == truth.names
        read = calendar.unix_start + job.submission_time
        if exact:
            assert read == truth.submitted
            assert record["wait_time"] == truth.wait
        else:
            assert local(int(read)) == local(truth.submitted)
            assert truth.submitted - read in (0, 3600)


@settings(max_examples=settings.default.max_examples // 4)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_a_dump_is_what_its_generator_knows(
    tmp_path_factory: pytest.TempPathFactory, seed: int, trailing: bool, crlf: bool
) -> None:
    dump = make_dump(seed)
    tmp_path = tmp_path_factory.mktemp("dump")
    text = dump.text(trailing=trailing, crlf=crlf)
    conversion = converted(tmp_path, text)
    check(conversion, dump, exact=False)
    assert conversion.records_read == len(dump.rows)
    assert parse_workload(format_workload(conversion.workload), source="again").jobs == list(
        conversion.workload.jobs
    )
    # Files that were joined, compressed, with other columns and capitals.
    head, _, rest = text.partition("\n")
    half = rest.rfind("\n", 0, len(rest) // 2) + 1
    joined = f"{head}\n{rest[:half]}{head}\n{rest[half:]}"
    again = converted(tmp_path, gzip.compress(joined.encode()))
    assert (
        format_workload(again.workload).partition("sha256")[2][70:]
        == (format_workload(conversion.workload).partition("sha256")[2][70:])
    )
    few = [name for name in HEADER if name not in ("Elapsed", "JobName", "AllocCPUS", "AllocTRES")]
    fewer = converted(tmp_path, dump.text(few))
    assert {job.id for job in fewer.workload.jobs} == dump.jobs.keys()


@settings(max_examples=settings.default.max_examples // 4)
@given(st.integers(0, 10**6))
def test_json_tells_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    dump = make_dump(seed)
    tmp_path = tmp_path_factory.mktemp("dump")
    check(converted(tmp_path, dump.json()), dump, exact=True)


def test_json_with_numbers_out_of_range(tmp_path: Path) -> None:
    text = make_dump(1).json().replace('"elapsed": ', '"elapsed": 1e300, "was": ', 1)
    with pytest.raises(InputError, match=r"jobs\[0\]: ElapsedRaw is '1e\+300'; a duration"):
        converted(tmp_path, text)


def test_an_hour_that_comes_twice_is_the_first_unless_a_job_would_end_before_it_starts(
    tmp_path: Path,
) -> None:
    rows = [
        "1|COMPLETED|2024-10-27T02:10:00|2024-10-27T02:50:00|2024-10-27T02:20:00|1|1",
        "2|COMPLETED|2024-10-27T02:10:00|2024-10-27T02:20:00|2024-10-27T02:30:00|1|1",
        "3|COMPLETED|2024-03-31T02:30:00|2024-03-31T03:30:00|2024-03-31T03:40:00|1|1",
    ]
    found = converted(tmp_path, "\n".join([HEAD, *rows]), Choices(time_zone=ZONE))
    calendar = found.calendar
    assert calendar == Calendar(CHANGES[0] + 1800, ZONE)
    first = CHANGES[1] - 3600 + 600
    assert [calendar.unix_start + job.submission_time for job in found.workload.jobs] == [
        CHANGES[0] + 1800,
        first,
        first,
    ]
    assert found.records["run_time"].tolist() == [600, 1800, 600]
    assert found.records["wait_time"].tolist() == [0, 2400, 600]
    told = {each.rule: (each.jobs, list(each.lines)) for each in found.repairs}
    assert told["hour_twice"] == (2, [2, 3])
    assert told["hour_missing"] == (1, [4])


CLOCKS = ("Europe/Stockholm", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "UTC")


@given(st.sampled_from(CLOCKS), st.integers(14_000, 20_500), st.data())
def test_dates_of_days_with_and_without_a_change_are_those_of_the_zone(
    zone: str, day: int, data: st.DataObject
) -> None:
    # Of each date both moments with that clock time are asked for, one by one; Apia left out the
    # 30th of December 2011 (day 15338), Lord Howe changes by half an hour.
    days = st.sampled_from((day, 15337, 15338, 15339, 19813, 20023))
    seconds = st.integers(0, 86_399)
    drawn = data.draw(st.lists(st.tuples(days, seconds), min_size=1, max_size=40))
    clock = [datetime(1970, 1, 1) + timedelta(days=at, seconds=of) for at, of in drawn]
    content = "\n".join(["day", *(date.isoformat() for date in clock)]).encode()
    table = read_cells(content, "t.csv", "a table", delimiter=",", quoted=False)
    found = table.dates("day", ZoneInfo(zone), None)

    first, second = (
        np.array([date.replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() for date in clock])
        for fold in (0, 1)
    )
    assert found.values.tolist() == first.tolist()
    assert found.later.tolist() == np.maximum(second - first, 0).tolist()
    assert found.missing.tolist() == (second < first).tolist()


def test_dates_may_have_offsets_or_be_seconds(tmp_path: Path) -> None:
    seconds = "7|COMPLETED|1714550400|1714550460|1714550580|4|60"
    offset = ROW.replace("00|", "00+02:00|")
    for row in (seconds, offset):
        found = converted(tmp_path, f"{HEAD}\n{row}\n", Choices(time_zone=ZONE))
        assert found.calendar == Calendar(1714550400, ZONE)
        assert (found.records["wait_time"], found.records["run_time"]) == ([60], [120])
    german = "7|COMPLETED|01.05.2024 10:00|01.05.2024 10:01|01.05.2024 10:03|4|60"
    choices = Choices(time_zone=ZONE, date_format="%d.%m.%Y %H:%M")
    assert converted(tmp_path, f"{HEAD}\n{german}\n", choices).calendar == found.calendar


def test_which_states_are_taken(tmp_path: Path) -> None:
    dump = make_dump(1)
    waiting = Choices(time_zone=ZONE, state_names=OWN_WORDS, states=["PENDING", "COMPLETED"])
    path = tmp_path / "dump.txt"
    path.write_text(dump.text())
    found = read_trace(path, accounting=waiting, repairs=Repairs(no_run_time="limit"))
    ids = {job.id for job in found.workload.jobs}
    array = next(row["JobID"] for row in dump.rows if "[5-9%2]" in row["JobID"]).partition("_")[0]
    assert {f"{array}_{task}" for task in range(5, 10)} <= ids
    assert not any("[" in job for job in ids)
    row = next(row for row in dump.rows if row["State"] == "PENDING" and ":" in row["Timelimit"])
    job = next(job for job in found.workload.jobs if job.id == row["JobID"].replace("[5-9%2]", "5"))
    assert job.profile == f"delay{job.walltime:.0f}"
    assert "state_failed" in {each.rule for each in found.repairs}


def test_each_run_may_be_a_job(tmp_path: Path) -> None:
    rows = [ROW.replace("COMPLETED", "NODE_FAIL"), ROW.replace("-01T", "-02T")]
    last = converted(tmp_path, "\n".join([HEAD, *rows]), Choices())
    assert [job.id for job in last.workload.jobs] == ["7"]
    assert last.calendar == Calendar(1714557600, "UTC")  # the file's first submission
    assert last.workload.jobs[0].submission_time == 86400
    each = converted(tmp_path, "\n".join([HEAD, *rows]), Choices(restarts="each"))
    assert [job.id for job in each.workload.jobs] == ["7", "7r1"]


def test_each_run_of_a_heterogeneous_job_is_one_job(tmp_path: Path) -> None:
    """Of two parts, started again the next day."""
    parts = [ROW.replace("7|", "7+0|"), ROW.replace("7|", "7+1|").replace("|4|", "|2|")]
    rows = [*parts, *(each.replace("-01T", "-02T") for each in parts)]
    found = converted(tmp_path, "\n".join([HEAD, *rows]), Choices(restarts="each"))
    assert [(job.id, job.processors) for job in found.workload.jobs] == [("7", 6), ("7r1", 6)]


def test_dumps_that_overlap_may_be_joined(tmp_path: Path) -> None:
    """What both tell is one run, also where each run is a job."""
    rows = [ROW.replace("COMPLETED", "NODE_FAIL"), ROW.replace("-01T", "-02T")]
    text = "\n".join([HEAD, *rows, HEAD, *rows])
    for restarts, ids in (("last", ["7"]), ("each", ["7", "7r1"])):
        found = converted(tmp_path, text, Choices(restarts=restarts))
        assert [job.id for job in found.workload.jobs] == ids
        assert counts(found)["told_again"] == 2


def test_columns_that_stand_twice_do_not_shift_others(tmp_path: Path) -> None:
    names, cells = HEAD.split("|"), ROW.split("|")
    plain = converted(tmp_path, f"{HEAD}\n{ROW}").workload.jobs
    for place in range(len(names)):
        lines = ["|".join([*each[:place], *each[place:][:1], *each[place:]])
                 for each in (names, cells)]  # fmt: skip
        assert converted(tmp_path, "\n".join(lines)).workload.jobs == plain


@pytest.mark.parametrize("delimiter", ["~", "#", "^", "\t", ";"])
def test_a_site_may_have_another_delimiter_and_lines_of_spaces(
    tmp_path: Path, delimiter: str
) -> None:
    text = f"{HEAD}\n  \n7|COMPLETED|1714557600|1714557660|1714557780|4|60\n \t\n"
    (job,) = converted(tmp_path, text.replace("|", delimiter)).workload.jobs
    assert (job.id, job.processors, job.walltime) == ("7", 4, 3600)


def test_sizes_by_nodes_and_the_machine(tmp_path: Path) -> None:
    dump = make_dump(3)
    path = tmp_path / "dump.txt"
    path.write_text(dump.text())
    nodes = read_trace(path, accounting=Choices(by="nodes", state_names=OWN_WORDS, time_zone=ZONE))
    assert {job.processors for job in nodes.workload.jobs} <= {1, 2, 3}
    assert nodes.size_is == "the most nodes in use at once"
    assert read_trace(path, processors=9999, accounting=SITE).size_is == ""
    with pytest.raises(InputError, match="no column AllocNodes or NNodes or AllocTRES or ReqTRES"):
        converted(tmp_path, f"{HEAD}\n{ROW}", Choices(by="nodes"))
    two = [ROW, ROW.replace("7|", "8|").replace("10:03", "10:09").replace("10:01", "10:03")]
    assert converted(tmp_path, "\n".join([HEAD, *two]), SITE).workload.processors == 4
    two[1] = two[1].replace("T10:03", "T10:02")
    assert converted(tmp_path, "\n".join([HEAD, *two]), SITE).workload.processors == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "JobID|Submit\n",
            "no column State and no column Start and no column ElapsedRaw or Elapsed or",
        ),
        (f"{HEAD}\n", "holds no record; a log with at least one job is expected"),
        (f"{HEAD}\n{ROW.replace('COMPLETED', 'PENDING')}\n", r"no record \(1 with state PENDING"),
        (
            f"{HEAD}\n{ROW.replace('COMPLETED', 'DONE')}",
            "line 2: State is 'DONE'; a state of Slurm",
        ),
        (f"{HEAD}\n{ROW}\n7|x\n", "line 3: 2 cells .'7|x'., the header has 7"),
        (f"{HEAD}\n{ROW.replace('|4|', '|four|')}", "line 2: AllocCPUS is 'four'; a whole number"),
        (f"{HEAD}\n{ROW.replace('05-01T10:00', '02-30T10:00')}", "line 2: Submit is '2024-02-30T"),
        (f"{HEAD}\n{ROW.replace('01:00:00', 'soon')}", "line 2: Timelimit is 'soon'; a duration"),
        (f"{HEAD}\n{ROW.replace('7|', '7x|')}", "line 2: JobID is '7x'; a job of Slurm such as"),
    ],
)
def test_what_is_no_accounting_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        converted(tmp_path, text, Choices())


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"states": ["COMPLETD"]}, "state 'COMPLETD' is not known; did you mean 'COMPLETED'"),
        ({"by": "sockets"}, "by is 'sockets' .known: amounts, binding, cores, gpus, nodes"),
        ({"restarts": "all"}, "restarts is 'all'"),
        ({"time_zone": "Mars/Base"}, "the given time zone is 'Mars/Base'"),
    ],
)
def test_choices_that_are_none(choices: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Choices(**choices)  # type: ignore[arg-type]


def test_small_parts() -> None:
    assert task_numbers("1-4:3%5") == [1, 4]
    assert task_numbers("1,3,...") == [1, 3]
    assert task_numbers("1,x") is None
    assert slurm_number({"set": False, "infinite": True, "number": 0}) == np.inf
    assert np.isnan(slurm_number((1 << 32) - 2))
    assert slurm_job_id({"job_id": 5, "array": {"job_id": 0}, "het": {"job_id": None}}) == "5"
    assert sacct_dumps.clock(90061) == "1-01:01:01"


def test_jobs_that_slurm_must_not_requeue_are_not_run_again(tmp_path: Path) -> None:
    text = f"{HEAD}|Requeue|SubmitLine\n"
    told = [
        ("1", "sbatch job.sh"),
        ("0", ""),
        ("", "sbatch --no-requeue x"),
        ("", "a --no-requeued"),
    ]
    for number, (flag, command) in enumerate(told, start=1):
        text += f"{number}{ROW[1:]}|{flag}|{command}\n"
    workload = converted(tmp_path, text).workload
    kept = {"1": None, "2": False, "3": False, "4": None}
    assert {job.id: job.qos and job.qos.rerunnable for job in workload.jobs} == kept
    again = parse_workload(format_workload(workload), source="again")
    assert {job.id: job.qos and job.qos.rerunnable for job in again.jobs} == kept
    job = {"job_id": 5, "state": "COMPLETED", "time": {"submission": 1, "start": 1, "end": 9}}
    job |= {"required": {"CPUs": 4}, "submit_line": "sbatch --no-requeue job.sh"}
    (found,) = converted(tmp_path, json.dumps({"jobs": [job]})).workload.jobs
    assert found.qos is not None
    assert found.qos.rerunnable is False
    with pytest.raises(InputError, match=r"Requeue.*'maybe'.*0 or 1, yes or no"):
        converted(tmp_path, f"{HEAD}|Requeue\n{ROW}|maybe\n")


def test_names_that_json_escapes_come_through(tmp_path: Path) -> None:
    text = f'{HEAD}|User\n{ROW}|é"q\n{ROW.replace("7|", "8|")}|\n'
    path = tmp_path / "w.json"
    found = converted(tmp_path, text, Choices())
    path.write_text(format_workload(found.workload))
    jobs = read_workload(path).jobs
    assert [job.fields.get("user") for job in jobs] == ['é"q', None]


def test_a_quotation_mark_in_a_name_of_a_job_is_a_letter(tmp_path: Path) -> None:
    names = ('"cold', "warm", 'hot"')
    rows = [f"{number}{ROW[1:]}|{name}" for number, name in enumerate(names, start=7)]
    found = converted(tmp_path, "\n".join((f"{HEAD}|JobName", *rows)))
    assert [job.id for job in found.workload.jobs] == ["7", "8", "9"]
