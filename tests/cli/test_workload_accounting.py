"""``workload import`` of accounting as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_workload
from qops_batsim.dates import Calendar
from qops_batsim.shipped import find_input
from support.sacct_dumps import OWN_WORDS, PBS, ZONE, make_dump

Cli = Callable[..., Any]

OWN = [each for word, state in OWN_WORDS.items() for each in ("--state-name", f"{word}={state}")]

CSV = """job;created;began;minutes;cores;limit;state;owner;twice;twice
a-1;01.05.2024 10:00;01.05.2024 10:05;30;4;1;ok;"Ada; L.";1;1
a-2;01.05.2024 10:10;;0;4;;gone;;1;1
"""


def rows_of(out: str) -> dict[str, int]:
    """Return the counts in the table of what was left out."""
    rows = (line.split("│") for line in out.splitlines() if line.count("│") == 2)
    return {row[0].strip(): int(row[2]) for row in rows if row[2].strip().isdigit()}


def test_import_of_sacct(cli: Cli, tmp_path: Path) -> None:
    dump = make_dump(5, jobs=30)
    path, out = tmp_path / "dump.txt", tmp_path / "w.json"
    path.write_text(dump.text())
    result = cli("workload", "import", path, out, "--time-zone", ZONE, *OWN)
    assert (result.exit_code, result.err) == (0, "")
    told = rows_of(result.out)
    assert told["steps of jobs"] == dump.left_out["steps"]
    assert told["state PENDING (waiting still)"] == dump.left_out["state_pending"]
    assert told["state CANCELLED (before they started)"] > 0
    assert "machine: the most cores in use at once (--processors sets it)" in result.out
    workload = read_workload(out)
    assert {job.id for job in workload.jobs} == dump.jobs.keys()
    assert workload.calendar is not None
    assert workload.calendar.time_zone == ZONE
    assert workload.provenance["command"] == "workload import"
    assert workload.provenance["format"] == "sacct"
    # The same as JSON, by a part of the states and another machine.
    path.write_text(dump.json())
    further = ["--states", "completed,timeout", "--processors", "500", "--rebase", "--first", "3"]
    result = cli("workload", "import", path, out, *further)
    assert result.exit_code == 0, result.err
    assert f"{out}: 3 of " in result.out
    assert "500 processors\n" in result.out
    assert read_workload(out).jobs[0].submission_time == 0


def test_import_of_pbs(cli: Cli, tmp_path: Path) -> None:
    path, out = tmp_path / "pbs.txt", tmp_path / "w.json"
    path.write_text(PBS)
    result = cli("workload", "import", path, out)
    assert (result.exit_code, result.err) == (0, "")
    assert rows_of(result.out) == {
        "records of no job (licences, reservations and others)": 1,
        "records of whole arrays, whose jobs have their own": 1,
        "state PENDING (waiting still)": 1,
        "state RUNNING (running still)": 1,
        "state CANCELLED (before they started)": 1,
        "runs before a restart (a later row has the id)": 1,
        "no requested time": 1,
    }
    workload = read_workload(out)
    assert workload.calendar == Calendar(1714550400, "UTC")
    shown = [
        (job.id, job.submission_time, job.processors, job.walltime, job.profile)
        for job in workload.jobs
    ]
    assert shown == [
        ("1.pbs", 0, 8, 3600, "delay120"),
        ("2[3].pbs", 240, 8, 180, "delay180"),
        ("5.pbs", 480, 9, None, "delay61"),
    ]
    assert [job.fields.get("group") for job in workload.jobs] == ["p 1", None, None]
    by_nodes = cli("workload", "import", path, out, "--by", "nodes", "--restarts", "each")
    assert by_nodes.exit_code == 0
    widths = [(job.id, job.processors) for job in read_workload(out).jobs]
    assert widths == [("1.pbs", 2), ("2[3].pbs", 2), ("5.pbs", 3), ("5.pbsr1", 3)]


def test_import_of_csv(cli: Cli, tmp_path: Path) -> None:
    path, out = tmp_path / "jobs.csv", tmp_path / "w.json"
    path.write_text(CSV)
    columns = "id=job,submit=created,start=began,run_time=minutes,processors=cores"
    arguments = ["--map", columns, "--map", "walltime=limit,state=state,user=owner"]
    arguments += ["--unit", "run_time=min", "--unit", "walltime=h", "--time-zone", ZONE]
    arguments += ["--state-name", "ok=completed", "--state-name", "gone=cancelled"]
    arguments += ["--date-format", "%d.%m.%Y %H:%M"]
    result = cli("workload", "import", path, out, *arguments)
    assert (result.exit_code, result.err) == (0, "")
    assert rows_of(result.out) == {"state CANCELLED (before they started)": 1}
    workload = read_workload(out)
    assert workload.calendar == Calendar(1714550400, ZONE)
    (job,) = workload.jobs
    assert (job.id, job.walltime, job.profile, job.processors) == ("a-1", 3600, "delay1800", 4)
    assert job.fields["user"] == "Ada; L."


def test_a_job_waits_from_its_submission_or_from_when_it_could_start(
    cli: Cli, tmp_path: Path
) -> None:
    """Job 1 could start 30 s after its submission; of 2 that is unknown, of 3 and 4 it is before.

    All are told as dates of a clock, as JSON and as a table of seconds.
    """
    times = {1: (100, 130, 200), 2: (110, None, 210), 3: (120, 119, 220), 4: (150, 150, 230)}

    def clock(second: int | None) -> str:
        return "Unknown" if second is None else f"1970-01-01T00:{second // 60:02}:{second % 60:02}"

    text = ["JobID|State|Submit|Eligible|Start|End|AllocCPUS"]
    table, records = ["job,at,free,began,done,cores"], []
    for job, (submit, eligible, start) in times.items():
        dates = "|".join(map(clock, (submit, eligible, start, start + 50)))
        text.append(f"{job}|COMPLETED|{dates}|2")
        table.append(
            f"{job},{submit},{'' if eligible is None else eligible},{start},{start + 50},2"
        )
        told = {"submission": submit, "eligible": eligible or 0, "start": start, "end": start + 50}
        required, state = {"CPUs": 2}, {"current": ["COMPLETED"]}
        record = {"job_id": job, "state": state, "time": told | {"elapsed": 50}}
        records.append(record | {"required": required, "tres": {"allocated": [], "requested": []}})
    files = {
        "dump.txt": "\n".join(text),
        "dump.json": json.dumps({"jobs": records}),
        "jobs.csv": "\n".join(table),
    }
    columns = "id=job,submit=at,eligible=free,start=began,end=done,processors=cores"
    for name, content in files.items():
        path, out = tmp_path / name, tmp_path / "w.json"
        path.write_text(content + "\n")
        arguments = ["workload", "import", path, out, "--processors", "8"]
        arguments += ["--map", columns] if name == "jobs.csv" else ["--time-zone", "UTC"]
        for waits_from, expected in (
            ([], [100, 110, 120, 150]),
            (["--waits-from", "submit"], [100, 110, 120, 150]),
            (["--waits-from", "eligible"], [130, 110, 120, 150]),
        ):
            result = cli(*arguments, *waits_from)
            assert result.exit_code == 0, result.err
            workload = read_workload(out)
            begin = 0 if workload.calendar is None else workload.calendar.unix_start
            dates = {job.id: begin + job.submission_time for job in workload.jobs}
            assert [dates[str(job)] for job in times] == expected, name


def test_import_of_csv_with_seconds_from_0_and_spaces(cli: Cli, tmp_path: Path) -> None:
    path, out = tmp_path / "jobs.csv", tmp_path / "w.json"
    path.write_text("job, at, began, done, cores, who\n1, 0, 0, 9, 4, ada\n2, 5, 5, 8, 2, eve\n")
    columns = "id=job,submit=at,start=began,end=done,processors=cores,user=who"
    assert cli("workload", "import", path, out, "--map", columns).exit_code == 0
    workload = read_workload(out)
    assert workload.processors == 6
    assert [(j.id, j.submission_time, j.fields["user"]) for j in workload.jobs] == [
        ("1", 0, "ada"),
        ("2", 5, "eve"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--map", "id=job"], "columns of id and submit are not both given"),
        (["--map", "id"], "--map is 'id'; NAME=VALUE, as id=job, is expected"),
        (["--map", "id=job,id=job"], "--map gives id twice"),
        (["--map", "id=job,colour=red"], "nothing is called 'colour'"),
        (
            ["--map", "id=job,submit=created"],
            "no column of run_time, or of start and end, is given",
        ),
        (["--map", "id=job,submit=created,run_time=x"], "no column of processors is given"),
        (
            ["--map", "id=job,submit=created,run_time=x,processors=cores"],
            "jobs.csv: the header has no column 'x', mapped to run_time",
        ),
        (
            ["--map", "id=job,submit=created,run_time=minutes,processors=twice"],
            "jobs.csv: several columns are called 'twice', mapped to processors; one is",
        ),
        (
            ["--map", "id=job,submit=created,run_time=minutes,processors=cores"],
            "line 2: created is '01.05.2024 10:00'; an ISO date and time or seconds since 1970",
        ),
    ],
)
def test_bad_mappings(cli: Cli, tmp_path: Path, arguments: list[str], message: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(CSV)
    result = cli("workload", "import", path, tmp_path / "w.json", *arguments)
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["jobs.csv"]


@pytest.mark.parametrize("name", ["sacct", "pbs"])
def test_what_is_another_format(cli: Cli, tmp_path: Path, name: str) -> None:
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 8\n1 2 3\n")
    result = cli("workload", "import", path, tmp_path / "w.json", "--format", name)
    assert result.exit_code == 2
    assert "log.swf: " in result.err
    assert "is expected" in result.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sacct", "begins as a Batsim workload (JSON) does; a log"),
        ("swf", "(a Batsim workload, JSON, is no log and needs no conversion)"),
    ],
)
def test_a_workload_is_no_log(cli: Cli, tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(find_input(Path("tiny_8"), "workloads").read_bytes())
    result = cli("workload", "import", path, tmp_path / "o.json", "--format", name)
    assert (result.exit_code, result.out) == (2, "")
    assert message in result.err


@pytest.mark.parametrize("text", [PBS, make_dump(1, 4).text()], ids=["PBS", "sacct"])
def test_a_run_of_accounting_names_what_converts_it(cli: Cli, tmp_path: Path, text: str) -> None:
    path = tmp_path / "march.txt"
    path.write_text(text)
    result = cli("run", "easy", "-w", path, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert f"`qops-batsim workload import {path} march.json` converts this log to one" in result.err


PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "workloads.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="no documentation beside the tests")
def test_the_page_shows_what_is_printed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    dump, shown = (
        page.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("text", "console")
    )
    Path("march.txt").write_text(dump)
    command, _, expected = shown.partition("\n")
    monkeypatch.setenv("COLUMNS", "80")
    result = cli(*command.split()[2:])
    assert [line.rstrip() for line in result.out.splitlines()] == expected.splitlines()
    assert cli("run", "easy", "-w", "march.json", "-o", "out/march", "-q").exit_code == 0
    assert "started            2024-03-30 23:00:00" in cli("explain", "out/march", "4711_3").out


SWF = "; MaxProcs: 8\n1 0 5 60 8 -1 -1 8 120 -1 1 1 1 -1 1 -1 -1 -1\n"
SACCT = make_dump(1, 4).text()


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (SWF, ["--by", "cores"], "whose jobs have processors, and --by is 'cores'; amounts is"),
        (SWF, ["--nodes", "x"], "of which --nodes has an effect with --by amounts only"),
        (
            SWF,
            ["--by", "amounts", "--processors", "4", "--repair", "too-wide=clip"],
            "drop or keep is expected",
        ),
        (SWF, ["--partition", "a"], "--partition is for the accounting of Slurm (sacct) or"),
        (SWF, ["--waits-from", "submit"], "--waits-from is for the accounting of Slurm"),
        (SWF, ["--unit", "memory=GB"], "--unit or --delimiter is given without --map"),
        (PBS, ["--map", "id=job,submit=s,run_time=r,processors=p"], "--map is for a table only"),
        (
            PBS,
            ["--date-format", "%Y"],
            "is the accounting of PBS or Torque, but --date-format is for",
        ),
        (
            SACCT,
            ["--repair", "duplicate-id=renumber"],
            "--repair duplicate-id has an effect on a log in",
        ),
        (SACCT, ["--repair", "overun=clip"], "--repair: there is no rule overun; did you mean"),
        (SACCT, ["--notice", "6h"], "--notice is given without --reservations"),
        (SACCT, ["--strict"], "--strict has an effect on a report, without OUT"),
        (SACCT, ["--format", "eagel"], "--format is 'eagel'; did you mean 'eagle'?"),
        (SACCT, ["--as", "3"], "--as is '3' (known: 4, 5)"),
        (
            '{"nb_res": 4, "jobs": [], "profiles": {}}',
            ["--first", "3"],
            "is a Batsim workload, but -",
        ),
    ],
)
def test_what_another_format_needs_is_refused_by_name(
    cli: Cli, tmp_path: Path, text: str, arguments: list[str], message: str
) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    result = cli("workload", "import", path, tmp_path / "w.json", *arguments)
    assert (result.exit_code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SWF, "a log in the Standard Workload Format"),
        (SACCT, "the accounting of Slurm (sacct)"),
        (PBS, "the accounting of PBS or Torque"),
    ],
    ids=["SWF", "sacct", "PBS"],
)
def test_the_format_is_told(cli: Cli, tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    own = OWN if text == SACCT else []
    for out in ([tmp_path / "w.json"], []):
        result = cli("workload", "import", path, *out, *own)
        assert (result.exit_code, result.err) == (0, "")
        assert f" records of {told}" in result.out
    refused = cli("workload", "import", path, "--as", "5", *own)
    assert refused.exit_code == 2
    assert "--as has an effect on a workload to write (OUT) only" in refused.err


def test_report_of_a_table(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job,at,began,done,cores\n1,0,0,9,4\n2,5,5,8,2\n3,6,7,7,2\n")
    columns = "id=job,submit=at,start=began,end=done,processors=cores"
    result = cli("workload", "import", path, "--map", columns)
    assert (result.exit_code, result.err) == (0, "")
    assert result.out.startswith("jobs.csv: 3 records of a table\n")
    (row,) = (line for line in result.out.splitlines() if "run time 0 or less" in line)
    assert row.split("│")[-1].strip() == "4"
    path.write_text("job,at,began,done,cores\n1,0,0,9,4\n2,x,5,8,2\n3,6,7,9,2\n")
    assert "line 3: at is 'x'" in cli("workload", "import", path, "--map", columns).err


def test_a_log_for_batsim_5(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(SWF)
    once, twice = tmp_path / "once.json", tmp_path / "twice.json"
    assert cli("workload", "import", path, once, "--as", "5").exit_code == 0
    assert cli("workload", "import", path, tmp_path / "w.json").exit_code == 0
    assert cli("workload", "import", tmp_path / "w.json", twice, "--as", "5").exit_code == 0
    assert json.loads(once.read_bytes()) == json.loads(twice.read_bytes())


def test_what_is_no_table_of_sacct_is_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "dump.txt").write_text("hello\n")
    arguments = ["workload", "import", tmp_path / "dump.txt", tmp_path / "out.json"]
    result = cli(*arguments, "--format", "sacct")
    assert result.exit_code == 2
    assert "dump.txt: its first line, 'hello', names no column of sacct" in result.err
    assert not (tmp_path / "out.json").exists()


def test_units_are_told_beside_the_numbers(cli: Cli, tmp_path: Path) -> None:
    """Those of a table, and nodes or GPUs where these are counted."""
    path, out = tmp_path / "jobs.csv", tmp_path / "w.json"
    path.write_text("job,made,ran,limit,n,mem\n1,0,60,2,4,8\n2,5,60,2,4,8\n")
    mapping = "id=job,submit=made,run_time=ran,walltime=limit,nodes=n,memory=mem"
    units = ["--unit", "walltime=min", "--unit", "memory=GB", "--by", "nodes"]
    told = cli("workload", "import", path, out, "--map", mapping, "--processors", "8", *units).out
    line = next(each for each in told.splitlines() if each.startswith("counted in "))
    assert line.startswith("counted in nodes: ")
    assert line.endswith("the table's units: run_time in s, walltime in min, memory in GB")


def test_import_of_a_table_by_amounts(cli: Cli, tmp_path: Path) -> None:
    path, platform, out = (tmp_path / name for name in ("jobs.csv", "platform.xml", "w.json"))
    path.write_text("job,at,ran,nodes,cores,mb,cards\na,0,9,1,8,16384,0\nb,5,9,2,64,8,3\n")
    host = '<host id="h{}" speed="1Gf"><prop id="cores" value="32"/>'
    host += '<prop id="memory" value="64GiB"/></host>'
    hosts = "".join(map(host.format, range(4)))
    platform.write_text(
        f'<platform version="4.1"><zone id="z" routing="None">{hosts}</zone></platform>'
    )
    columns = "id=job,submit=at,run_time=ran,nodes=nodes,cores=cores,memory=mb,gpus=cards"
    result = cli(
        *("workload", "import", path, out, "--by", "amounts", "--map", columns),
        *("--unit", "memory=MB", "--nodes", platform),
    )
    assert (result.exit_code, result.err) == (0, "")
    assert "more than the hosts have that they ask for" in result.out
    assert "hosts of the nodes told" in result.out
    (job,) = read_workload(out).jobs
    assert job.fields["per_host"] == {"cores": 8, "memory": 16 << 30}
    assert read_workload(out).provenance["by"] == "amounts"
    result = cli("workload", "import", path, out, "--by", "amounts", "--map", columns,
                 "--processors", "9")  # fmt: skip
    assert "offered load: not known (--nodes tells what hosts have)" in result.out
