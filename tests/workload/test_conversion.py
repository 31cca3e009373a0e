"""Converting logs: windows, repairs, subsets, and the recorded workloads."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, read_swf
from qops_batsim.dates import Calendar
from qops_batsim.workload import (
    Repairs,
    SwfLog,
    Workload,
    convert_log,
    format_workload,
    parse_workload,
)
from support.swf_lines import swf_log

# 2000-03-25 12:00 in Stockholm, the day before clocks go from 2:00 to 3:00.
STOCKHOLM = "; MaxProcs: 8\n; UnixStartTime: 953982000\n; TimeZoneString: Europe/Stockholm"
DAY = 86400


def ids(workload: Workload) -> list[str]:
    return [job.id for job in workload.jobs]


def counts(log: SwfLog, **repairs: str) -> dict[str, int]:
    conversion = convert_log(log, repairs=Repairs(**repairs))
    return {count.rule: count.jobs for count in conversion.repairs if count.jobs}


def test_fields_of_a_job() -> None:
    log = swf_log(
        {"submit_time": 5, "user": 3, "queue": 0, "wait_time": 7},
        {"submit_time": 6.5, "run_time": 1.25, "requested_time": -1, "group": 2, "executable": 9},
    )
    conversion = convert_log(log)
    workload = conversion.workload
    assert [job.fields for job in workload.jobs] == [
        *(
            {"id": 1, "subtime": 5, "res": 4, "walltime": 200, "profile": "delay100"}
            | {"user": 3, "queue": 0},
            {"id": 2, "subtime": 6.5, "res": 4, "profile": "delay1.25", "group": 2}
            | {"executable": 9},
        )
    ]
    assert workload.profiles == {
        "delay100": {"type": "delay", "delay": 100},
        "delay1.25": {"type": "delay", "delay": 1.25},
    }
    assert workload.processors == 8
    assert workload.jobs[1].walltime is None
    again = parse_workload(format_workload(workload), source="again")
    assert again.jobs == workload.jobs
    assert again.provenance == workload.provenance
    assert "5.0" not in format_workload(workload)
    # (100 s + 1.25 s) x 4 processors over 8 processors x 1.5 s
    assert conversion.offered_load == pytest.approx(405 / 12)
    assert conversion.calendar is None


def test_offered_load_needs_time() -> None:
    assert convert_log(swf_log({}, {})).offered_load is None


def test_profiles_are_shared() -> None:
    assert len(convert_log(swf_log({}, {}, {"run_time": 7})).workload.profiles) == 2


@pytest.mark.parametrize(
    ("field", "expected"), [("requested", [4, 2, 3, 7]), ("allocated", [4, 2, 3, 5])]
)
def test_which_processors(field: str, expected: list[int]) -> None:
    log = swf_log(
        {},
        {"requested_processors": -1, "allocated_processors": 2},
        {"requested_processors": 3, "allocated_processors": 0},
        {"requested_processors": 7, "allocated_processors": 5},
    )
    workload = convert_log(log, repairs=Repairs(processors_field=field)).workload
    assert [job.processors for job in workload.jobs] == expected


def outcome(log: SwfLog, **repairs: str) -> dict[str, tuple[int, Any, Any]]:
    """Return processors, walltime and run time of each job but the first."""
    workload = convert_log(log, repairs=Repairs(**repairs)).workload
    return {
        job.id: (job.processors, job.walltime, workload.profiles[job.profile]["delay"])
        for job in workload.jobs[1:]
    }


@pytest.mark.parametrize(
    ("wrong", "rule", "choice", "expected"),
    [
        ({"requested_processors": 0, "allocated_processors": -1}, "no_processors", "drop", None),
        (
            {"requested_processors": 0, "allocated_processors": -1},
            "no_processors",
            "clip",
            (1, 200, 100),
        ),
        ({"requested_processors": 9}, "too_wide", "drop", None),
        ({"requested_processors": 9}, "too_wide", "clip", (8, 200, 100)),
        ({"requested_processors": 9}, "too_wide", "keep", (9, 200, 100)),
        ({"run_time": 0}, "no_run_time", "drop", None),
        ({"run_time": -1}, "no_run_time", "clip", (4, 200, 1)),
        ({"requested_time": 0}, "no_requested_time", "keep", (4, None, 100)),
        ({"requested_time": -1}, "no_requested_time", "clip", (4, 100, 100)),
        ({"requested_time": -1}, "no_requested_time", "drop", None),
        ({"run_time": 300}, "overrun", "keep", (4, 200, 300)),
        ({"run_time": 300}, "overrun", "clip", (4, 200, 200)),
        ({"run_time": 300}, "overrun", "drop", None),
        ({"job_number": 1}, "duplicate_id", "drop", None),
    ],
)
def test_repairs(wrong: dict[str, float], rule: str, choice: str, expected: Any) -> None:
    log = swf_log({}, wrong)
    before = log.records.copy()
    assert outcome(log, **{rule: choice}) == ({"2": expected} if expected else {})
    assert counts(log, **{rule: choice}) == {rule: 1}
    assert (log.records == before).all()


def test_renumbering_goes_above_the_highest_number() -> None:
    log = swf_log({}, {"job_number": 1}, {"job_number": 40}, {"job_number": 1, "run_time": 7})
    workload = convert_log(log, repairs=Repairs(duplicate_id="renumber")).workload
    assert ids(workload) == ["1", "41", "40", "42"]


def test_an_unusable_record_does_not_claim_its_number() -> None:
    log = swf_log({"run_time": 0}, {"job_number": 1, "run_time": 7})
    assert counts(log) == {"no_run_time": 1}
    assert convert_log(log).workload.jobs[0].profile == "delay7"


def test_repairs_without_choice() -> None:
    log = swf_log(
        {"submit_time": 9},
        {"submit_time": 9},
        {"submit_time": 5},
        {"submit_time": -1},
        {"status": 2, "submit_time": 9},
    )
    assert counts(log) == {"partial": 1, "no_submit_time": 1, "submit_order": 1}
    assert ids(convert_log(log).workload) == ["3", "1", "2"]


def test_unknown_repair() -> None:
    with pytest.raises(InputError, match=r"overrun is 'clp'; did you mean 'clip'\?"):
        Repairs(overrun="clp")
    with pytest.raises(InputError, match=r"no run time is 'keep' .*known: clip, drop"):
        Repairs(no_run_time="keep")


def test_first_and_skip_count_usable_jobs() -> None:
    log = swf_log(*({"submit_time": i, "run_time": i % 2} for i in range(20)))
    assert ids(convert_log(log, first=3).workload) == ["2", "4", "6"]
    assert ids(convert_log(log, skip=2, first=3).workload) == ["6", "8", "10"]
    conversion = convert_log(log, skip=9)
    assert ids(conversion.workload) == ["20"]
    assert (conversion.records_read, conversion.usable_jobs) == (20, 10)


def test_rebase() -> None:
    log = swf_log({"submit_time": 5, "run_time": 0}, {"submit_time": 7}, {"submit_time": 9})
    workload = convert_log(log, rebase=True).workload
    assert [job.fields["subtime"] for job in workload.jobs] == [0, 2]
    assert workload.provenance["rebased_by"] == 7


def test_windows_are_half_open_and_local() -> None:
    # Noon to midnight: 12 h. The 26th has 23 hours: midnight of the 27th is 35 h after the start.
    edges = [12 * 3600 - 1, 12 * 3600, 35 * 3600 - 1, 35 * 3600]
    log = swf_log(*({"submit_time": second} for second in edges), header=STOCKHOLM)

    def window(**bounds: Any) -> list[str]:
        return ids(convert_log(log, **bounds).workload)

    assert window(start="2000-03-26", end="2000-03-27") == ["2", "3"]
    assert window(start="2000-03-26T00:00:00+01:00") == ["2", "3", "4"]
    assert window(start=datetime(2000, 3, 27)) == ["4"]
    assert window(start="43200", end=35 * 3600) == ["2", "3"]
    assert window(end="2000-03-26") == ["1"]
    assert window(end="2000-03-26", time_zone="UTC") == ["1", "2"]
    conversion = convert_log(log, start="2000-03-26", end=125999.5)
    assert conversion.workload.provenance["window"] == {
        "from": 43200,
        "to": 125999.5,
        "time_zone": "Europe/Stockholm",
    }
    assert conversion.records_in_window == 2
    calendar = conversion.calendar
    assert calendar == conversion.workload.calendar == Calendar(953982000, "Europe/Stockholm")
    period = conversion.first_submission, conversion.last_submission
    dates = [calendar.date(each).isoformat(" ") for each in period]
    assert dates == ["2000-03-26 00:00:00+01:00", "2000-03-26 23:59:59+02:00"]


def test_months_are_the_sites() -> None:
    # March ends at 6.5 days after the start less the hour that was skipped.
    end = int(6.5 * DAY) - 3600
    log = swf_log(
        *({"submit_time": second} for second in (0, end - 1, end, end + 40 * DAY)),
        header=STOCKHOLM,
    )
    assert ids(convert_log(log, month="2000-03").workload) == ["1", "2"]
    assert ids(convert_log(log, month="2000-04").workload) == ["3"]
    with pytest.raises(
        InputError, match=r"no job was submitted in 1999-12; .* from 2000-03 to 2000-05"
    ):
        convert_log(log, month="1999-12")


def test_months_partition_a_real_log(shared: Path) -> None:
    log = read_swf(shared / "traces" / "KTH-SP2-1996-2.swf.gz")
    months = [f"1996-{month:02}" for month in range(9, 13)]
    months += [f"1997-{month:02}" for month in range(1, 9)]
    parts = [convert_log(log, month=month) for month in months]
    in_parts = [job_id for part in parts for job_id in ids(part.workload)]
    assert in_parts == ids(convert_log(log).workload)
    for part, month in zip(parts, months, strict=True):
        assert part.calendar is not None
        dates = part.first_submission, part.last_submission
        assert {part.calendar.month_of(each) for each in dates} == {month}


@pytest.mark.parametrize(
    ("header", "arguments", "message"),
    [
        ("", {}, "header has neither MaxProcs nor MaxNodes; give the number of processors"),
        ("; MaxProcs: 0", {}, "header has no size of a machine, only MaxProcs '0'; give the"),
        ("; MaxProcs: -1\n; MaxNodes: 0", {}, "only MaxProcs '-1' and MaxNodes '0'; give the"),
        ("; MaxProcs: 10000000", {}, "processors is 10000000; a whole number from 1 to 1000000"),
        (STOCKHOLM, {"processors": 0}, "processors is 0; a whole number from 1 to"),
        (STOCKHOLM, {"first": 0}, "first is 0; a whole number above 0"),
        (STOCKHOLM, {"first": -3}, "first is -3; a whole number above 0"),
        (STOCKHOLM, {"skip": -1}, "skip is -1; a whole number from 0 up"),
        (STOCKHOLM, {"skip": 1}, "has 1 usable jobs, too few for window"),
        (STOCKHOLM, {"month": "2000-13"}, "month '2000-13' is not a month; YYYY-MM"),
        (STOCKHOLM, {"month": "0001-01"}, "month '0001-01' is not a month"),
        (STOCKHOLM, {"month": "2000-03", "start": "1"}, "month is given together with from or to"),
        (STOCKHOLM, {"start": "soon"}, "from is 'soon'; a date"),
        (STOCKHOLM, {"end": "nan"}, "to is 'nan'; a date"),
        (STOCKHOLM, {"start": 5, "end": "5"}, "the window ends at 5 but begins at 5"),
        (STOCKHOLM, {"start": 5}, "from second 5, counted from .* from second 0 to 0"),
        (STOCKHOLM, {"end": 0}, "submitted before second 0, counted from the log's start"),
        (STOCKHOLM, {"time_zone": "Mars/Base"}, "given time zone is 'Mars/Base', which is not in"),
        (STOCKHOLM, {"time_zone": "/etc"}, "given time zone is '/etc', which is not in"),
        ("; MaxProcs: 8", {"month": "2000-03"}, "the header has no UnixStartTime"),
        ("; MaxProcs: 8", {"start": "2000-03-26"}, "the header has no UnixStartTime"),
        (
            "; MaxProcs: 8\n; UnixStartTime: 953982000\n; TimeZone: 3600",
            {"month": "2000-03"},
            "the header has no TimeZoneString",
        ),
        (
            "; MaxProcs: 8\n; UnixStartTime: 953982000\n; TimeZoneString: Nowhere",
            {"month": "2000-03"},
            "test.swf: TimeZoneString is 'Nowhere', which is not in",
        ),
        ("; MaxProcs: 8\n; UnixStartTime: then", {"month": "2000-03"}, "UnixStartTime is 'then'"),
        ("; MaxProcs: x", {}, "header field MaxProcs is 'x'; a whole number is expected"),
    ],
)
def test_bad_arguments(header: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        convert_log(swf_log({}, header=header), **arguments)


def test_nothing_left() -> None:
    with pytest.raises(InputError, match="holds no record"):
        convert_log(swf_log())
    with pytest.raises(InputError, match=r"none of 2 jobs is left .*2 with run time 0 or less"):
        convert_log(swf_log({"run_time": 0}, {"run_time": -1}))


def test_dates_beyond_the_calendar() -> None:
    log = swf_log({}, {"submit_time": 1e15}, header=STOCKHOLM)
    assert convert_log(log).calendar is None


def test_provenance(shared: Path) -> None:
    log = read_swf(shared / "traces" / "SDSC-SP2-1998-first5000.swf.gz")
    provenance = convert_log(log, first=10, skip=3).workload.provenance
    assert provenance["log"]["file"] == "SDSC-SP2-1998-first5000.swf.gz"
    assert provenance["log"]["sha256"] == log.sha256
    assert provenance["log"]["installation"] == "SDSC"
    assert provenance["log"]["copyright"].startswith("JOBLOG Repository Data Usage Agreement")
    assert provenance["repairs"]["no_run_time"] == {"drop": 355}
    assert provenance["repairs"]["overrun"] == {"keep": 309}
    assert (provenance["skip"], provenance["first"], provenance["jobs"]) == (3, 10, 10)
    assert str(shared) not in json.dumps(provenance)


# The recorded workloads were made with two different rules for jobs that outlived their
# request: SDSC keeps them (our default), KTH leaves them out, and with them the 14 jobs of
# the log's first week.
@pytest.mark.parametrize(
    ("log_name", "recorded_name", "choices"),
    [
        ("SDSC-SP2-1998-first5000", "sdsc5k_delay", {}),
        ("KTH-SP2-1996-2", "kth_delay", {"repairs": Repairs(overrun="drop"), "skip": 14}),
    ],
)
def test_recorded_workloads_job_by_job(
    shared: Path, log_name: str, recorded_name: str, choices: dict[str, Any]
) -> None:
    path = shared / "batsim" / "inputs" / f"{recorded_name}.json.gz"
    recorded = json.loads(gzip.decompress(path.read_bytes()))
    workload = convert_log(read_swf(shared / "traces" / f"{log_name}.swf.gz"), **choices).workload
    ours = [
        (
            *(job.fields[name] for name in ("id", "subtime", "walltime", "res")),
            workload.profiles[job.profile],
        )
        for job in workload.jobs
    ]
    theirs = [
        (
            *(job[name] for name in ("id", "subtime", "walltime", "res")),
            recorded["profiles"][job["profile"]],
        )
        for job in recorded["jobs"]
    ]
    assert ours == theirs
    assert workload.processors == recorded["nb_res"]


whole = st.integers(-2, 12)
records = st.fixed_dictionaries(
    dict.fromkeys(
        (
            "job_number",
            "submit_time",
            "run_time",
            "allocated_processors",
            "requested_processors",
            "requested_time",
            "status",
        ),
        whole,
    )
)
choices = st.fixed_dictionaries(
    {
        "no_processors": st.sampled_from(["drop", "clip"]),
        "too_wide": st.sampled_from(["drop", "clip", "keep"]),
        "no_run_time": st.sampled_from(["drop", "clip"]),
        "no_requested_time": st.sampled_from(["keep", "clip", "drop"]),
        "overrun": st.sampled_from(["keep", "clip", "drop"]),
        "duplicate_id": st.sampled_from(["drop", "renumber"]),
    }
)


@given(st.lists(records, min_size=1, max_size=12), choices)
def test_any_conversion_is_a_valid_workload(
    rows: list[dict[str, float]], chosen: dict[str, str]
) -> None:
    try:
        conversion = convert_log(swf_log(*rows), repairs=Repairs(**chosen))
    except InputError as error:
        assert "is left after the repairs" in str(error)  # noqa: PT017 - often there is none
        return
    workload = parse_workload(format_workload(conversion.workload), source="again")
    assert workload.jobs == conversion.workload.jobs
    dates = [job.submission_time for job in workload.jobs]
    assert dates == sorted(dates)
    dropped = sum(count.jobs for count in conversion.repairs if count.choice == "drop")
    assert len(workload.jobs) == len(rows) - dropped
    assert all(job.processors >= 1 for job in workload.jobs)
    if chosen["too_wide"] != "keep":
        assert all(job.processors <= 8 for job in workload.jobs)


def test_a_conversion_is_written_as_its_jobs_would_be(shared: Path) -> None:
    log = read_swf(shared / "traces" / "SDSC-SP2-1998-first5000.swf.gz")
    workload = convert_log(log, rebase=True).workload
    at_once = format_workload(workload)
    workload.jobs = list(workload.jobs)
    assert format_workload(workload) == at_once
    assert parse_workload(at_once, source="again").jobs == workload.jobs


def test_jobs_that_were_changed_are_written_so() -> None:
    workload = convert_log(swf_log({}, {})).workload
    workload.jobs[0].fields["user"] = 7
    assert '"user": 7' in format_workload(workload)
