import json
from collections.abc import Callable
from datetime import time
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_workload
from qops_batsim.dates import Calendar
from qops_batsim.experiments.deadline_workload import (
    deadline_workload,
    give_deadlines_by_need,
    give_estimates,
)
from qops_batsim.shipped import find_input
from qops_batsim.workload import (
    DeadlineChoices,
    EstimateChoices,
    NeedChoices,
    NeedMix,
    format_workload,
)
from qops_batsim.workload.need import FactorClass

Cli = Callable[..., Any]


def test_both_commands_make_what_the_library_makes(cli: Cli, tmp_path: Path) -> None:
    scaled, out = tmp_path / "scaled.json.gz", tmp_path / "out.json"
    result = cli(
        *("workload", "scale", "kth_sp2_1000", scaled),
        *("--load", 1.3, "--first", 200, "--skip", 100, "--seed", 5),
    )
    assert result.exit_code == 0, result.err
    assert "260 jobs on 100 processors, 60 of them duplicates" in result.out
    assert "offered load: " in result.out
    result = cli(
        *("workload", "deadlines", scaled, out, "--stringency", 0.5, "--deadline-share", 0.2),
        *("--relaxation", 5, "--artificial", "turnaround", "--seed", 5),
        *("--reference", "unscaled", "--estimates", "exact"),
    )
    assert result.exit_code == 0, result.err
    assert "user deadlines: 52, " in result.out
    assert "artificial deadlines: 208, without deadline: 0" in result.out
    assert "deadlines are made from run times, and schedulers know these in advance: " in result.out
    trace = read_workload(find_input("kth_sp2_1000", "workloads"))
    choices = DeadlineChoices(
        stringency=0.5, share=0.2, relaxation=5, artificial="turnaround", seed=5
    )
    expected = deadline_workload(
        trace,
        choices,
        load=1.3,
        first=200,
        skip=100,
        reference="unscaled",
        keep_estimates=False,
    )
    assert out.read_text() == format_workload(expected)


def test_scale_takes_all_jobs_and_says_what_it_left_out(cli: Cli, tmp_path: Path) -> None:
    given = json.loads(find_input("tiny_8", "workloads").read_text())
    first = given["jobs"][0]
    given["jobs"] = [{**first, "id": str(n), "subtime": n} for n in range(5001)]
    (tmp_path / "w.json").write_text(json.dumps(given))
    scaled = tmp_path / "scaled.json"
    result = cli("workload", "scale", tmp_path / "w.json", scaled)
    assert f"{scaled}: 5001 jobs on" in result.out
    assert "made of" not in result.out
    part = cli("workload", "scale", tmp_path / "w.json", scaled, "--first", 5000)
    assert "made of 5,000 of 5,001 jobs, from job 1 on in the order of submission" in part.out


def test_other_options_reach_the_library(cli: Cli, tmp_path: Path) -> None:
    scaled, out = tmp_path / "scaled.json", tmp_path / "out.json"
    options = ("--load", 2, "--same-time", "--first", 0)
    result = cli("workload", "scale", "tiny_8", scaled, *options)
    assert result.exit_code == 0, result.err
    dates = [job["subtime"] for job in json.loads(scaled.read_text())["jobs"]]
    assert dates == [0, 0, 0, 0, 10, 10, 15, 15, 20, 20, 30, 30, 200, 200, 210, 210]
    options = ("--deadline-share", 0, "--artificial", "none")
    result = cli("workload", "deadlines", scaled, out, *options)
    assert result.exit_code == 0, result.err
    assert "without deadline: 16" in result.out
    assert all(job.walltime for job in read_workload(out).jobs)


def test_expansion_is_a_method(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "long.json"
    result = cli("workload", "scale", "sdsc_sp2_1000", out, "--method", "expansion", "--load", 1.2)
    assert result.exit_code == 0, result.err
    assert "1000 jobs on 128 processors\noffered load: 0.85" in result.out
    assert " of the trace, 1.02" in result.out


def test_an_undefined_load_is_told(cli: Cli, tmp_path: Path) -> None:
    result = cli("workload", "scale", "tiny_8", tmp_path / "one.json", "--first", 2)
    assert result.exit_code == 0, result.err
    assert "offered load: undefined" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scale", "IN", "OUT", "--load", "0.5"), "load is 0.5; with method duplication"),
        (("scale", "IN", "OUT", "--method", "x"), "method is 'x' (known: duplication, expansion)"),
        (
            ("scale", "IN", "OUT", "--skip", "1000"),
            "has 8 usable jobs, too few for window {skip = 1000}",
        ),
        (("scale", "IN", "OUT", "--first", "-1"), "first is -1; a whole number above 0"),
        (("scale", "IN", "IN"), "the file to write is the input itself"),
        (("scale", "nothing", "OUT"), "nothing: no such file, nor one of the shipped workloads"),
        (("deadlines", "IN", "IN"), "the file to write is the input itself"),
        (("deadlines", "IN", "OUT", "--stringency", "1"), "stringency is 1; a number from 0 to"),
        (("deadlines", "IN", "OUT", "--deadline-share", "2"), "deadline share is 2; a number"),
        (("deadlines", "IN", "OUT", "--reference", "x"), "reference is 'x' (known: scaled, unsc"),
        (("deadlines", "SEND", "OUT"), "profile 'p' is of type send; only type delay"),
    ],
)
def test_mistakes_are_told_in_one_line(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    places = {name: tmp_path / f"{name}.json" for name in ("IN", "OUT", "SEND")}
    original = find_input("tiny_8", "workloads").read_bytes()
    places["IN"].write_bytes(original)
    places["SEND"].write_text(
        '{"nb_res": 1, "jobs": [{"id": "1", "subtime": 0, "res": 1, "profile": "p"}],'
        ' "profiles": {"p": {"type": "send", "msg": ""}}}'
    )
    result = cli("workload", *(places.get(each, each) for each in arguments))
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not places["OUT"].exists()
    assert places["IN"].read_bytes() == original


def test_estimates_are_what_the_library_makes(cli: Cli, tmp_path: Path) -> None:
    log, asked, out = (tmp_path / name for name in ("log.json", "asked.json", "out.json"))
    jobs = [
        {
            "id": str(n),
            "subtime": 10 * n,
            "res": 1,
            "profile": f"p{n % 3}",
            "walltime": 90,
            "user": 1,
        }
        for n in range(40)
    ]
    profiles = {f"p{n}": {"type": "delay", "delay": 10 + 30 * n} for n in range(3)}
    log.write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": profiles}))
    result = cli("workload", "deadlines", log, asked, "--estimates", "exact")
    assert result.exit_code == 0, result.err
    result = cli(
        *("workload", "estimates", asked, out, "--requests", log, "--model", "predicted"),
        *("--margin", 1.5, "--overrun", "kill"),
    )
    assert result.exit_code == 0, result.err
    assert "40 jobs on 2 processors, predicted, margin 1.5, overrun kill" in result.out
    assert "too short: 14 (35.00 %), 14 of them killed; estimate" in result.out
    assert "users' deadlines are earlier than submission + estimate" in result.err
    choices = EstimateChoices(model="predicted", margin=1.5, overrun="kill")
    expected = give_estimates(read_workload(asked), choices, requests=read_workload(log))
    assert out.read_text() == format_workload(expected)
    result = cli("workload", "estimates", asked, out, "--model", "predicted")
    assert result.exit_code == 2
    assert "job '0' has no walltime; model predicted expects one for each job" in result.err


def test_deadlines_by_need_are_what_the_library_makes(cli: Cli, tmp_path: Path) -> None:
    out, again = tmp_path / "out.json", tmp_path / "again.json"
    options = (
        *("--by", "need", "--mix", "factor=0.25, hours=0.5,slack=0.25", "--slack", "10m"),
        *("--factors", "1m:4:0.5,2:1", "--at", "8:30,17:00", "--days", "mon,sat", "--seed", 4),
        *("--begins", "1996-06-26T08:00", "--time-zone", "US/Eastern", "--estimates", "exact"),
        *("--reaction", "2m"),
    )
    result = cli("workload", "deadlines", "tiny_8", out, *options)
    assert result.exit_code == 0, result.err
    assert "user deadlines: 8, 0 of them met only by an immediate start" in result.out
    assert "less laxity than 120 s: " in result.out
    assert "none by construction" in result.out
    choices = NeedChoices(
        mix=NeedMix(factor=0.25, hours=0.5, slack=0.25),
        factors=(FactorClass(60, 4, 0.5), FactorClass(None, 2, 1)),
        at=(time(8, 30), time(17)),
        days=("mon", "sat"),
        slack=600,
        seed=4,
        calendar=Calendar(835790400, "US/Eastern"),
    )
    tiny = read_workload(find_input("tiny_8", "workloads"))
    expected = format_workload(give_deadlines_by_need(tiny, choices, keep_estimates=False))
    assert out.read_text() == expected
    # The workload has the calendar from then on.
    assert read_workload(out).calendar == choices.calendar
    result = cli("workload", "deadlines", out, again, *options)
    assert result.exit_code == 2
    assert "tells its own date, 1996-06-26 08:00:00" in result.err
    result = cli("workload", "deadlines", out, again, *options[:-8], "--estimates", "exact")
    assert result.exit_code == 0, result.err
    assert json.loads(again.read_text())["jobs"] == json.loads(expected)["jobs"]


def test_what_easy_meets_by_construction_is_told(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = cli("workload", "deadlines", "tiny_8", out, "--estimates", "exact")
    assert result.exit_code == 0, result.err
    (line,) = (each for each in result.out.splitlines() if each.startswith("less laxity"))
    met, unwaited = (int(line.partition(word)[2].split()[0]) for word in ("meets ", "starts "))
    assert met == unwaited > 0
    assert ", by construction, and starts" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "neeed"), "--by is 'neeed'; did you mean 'need'? (known: easy, need)"),
        (("--slack", "20m"), "--slack has no effect on deadlines made --by easy"),
        (("--time-zone", "UTC"), "--time-zone has no effect on deadlines made --by easy"),
        (("--reaction", "soon"), "--reaction"),
        (
            ("--by", "need", "--stringency", "0.3"),
            "--stringency has no effect on deadlines made --by n",
        ),
        (
            ("--by", "need", "--reference", "unscaled"),
            "--reference has no effect on deadlines made",
        ),
        (("--by", "need", "--artificial", "turnaround"), "(known: none, run-time)"),
        (("--by", "need"), "tiny_8.json: does not tell the date of its second 0, which"),
        (("--by", "need", "--mix", "factors=1"), "--mix is 'factors'; did you mean 'factor'?"),
        (("--by", "need", "--mix", "slack=1,slack=0"), "add up to 0; shares that add up to 1"),
        (("--by", "need", "--mix", "slack=all"), "--mix: 'all' is not accepted; a number is"),
        (("--by", "need", "--mix", "slack=0.5"), "add up to 0.5; shares that add up to 1"),
        (("--by", "need", "--factors", "3"), "--factors: '3' is not accepted; UP_TO:MEDIAN:SPR"),
        (("--by", "need", "--factors", "x:1:1,1:1"), "--factors"),
        (("--by", "need", "--factors", "1h:1:1"), "up to 3600 s; ascending times above 0, and"),
        (
            ("--by", "need", "--at", "25:00"),
            "--at: '25:00' is not accepted; a time of day as 9:00 is",
        ),
        (("--by", "need", "--days", "monday"), "days is 'monday'; did you mean 'mon'?"),
        (("--by", "need", "--slack", "0"), "slack is 0; a number above 0"),
        (("--by", "need", "--begins", "May"), "--begins: 'may' is not accepted; a date as 1996-"),
        (("--by", "need", "--time-zone", "UTC"), "--time-zone is 'UTC', but --begins, "),
        (("--by", "need", "--begins", "1996-06-26", "--time-zone", "x"), "--time-zone is 'x', whi"),
    ],
)
def test_mistakes_about_needs_are_told_in_one_line(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "out.json"
    result = cli("workload", "deadlines", "tiny_8", out, *options)
    assert result.exit_code == 2
    assert message.lower() in result.err.lower()
    assert result.err.count("\n") == 1
    assert not out.exists()


SHARED = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="AS0" routing="Full">
<host id="master_host" speed="1Gf"/>
<host id="a" speed="1Gf"><prop id="cores" value="4"/></host>
</zone></platform>
"""


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path]:
    """Jobs that share one host of four cores, and its platform.

    cores  A A A A A A A A A A B B B B B
           A A A A A A A A A A B B B B B
           A A A A A A A A A A
           C C C C C C
           0                  100       150
    """
    workload, platform = tmp_path / "parts.json", tmp_path / "shared.xml"
    jobs = [
        {"id": name, "subtime": date, "res": 1, "profile": str(length), "walltime": length + 1}
        | {"user": "eva", "per_host": {"cores": cores}}
        for name, date, cores, length in (("A", 0, 3, 100), ("B", 1, 2, 50), ("C", 2, 1, 60))
    ]
    profiles = {str(length): {"type": "delay", "delay": length} for length in (100, 50, 60)}
    workload.write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": profiles}))
    platform.write_text(SHARED)
    return workload, platform


def test_deadlines_of_jobs_that_share_hosts_are_of_their_platform(
    cli: Cli, tmp_path: Path, parts: tuple[Path, Path]
) -> None:
    out = tmp_path / "out.json"
    options = ("--platform", parts[1], "--stringency", 0, "--estimates", "exact")
    told = cli("workload", "deadlines", parts[0], out, *options)
    assert told.exit_code == 0, told.err
    made = read_workload(out)
    assert [job.qos.deadline for job in made.jobs] == [100, 150, 62]
    assert [job.hosts_asked for job in made.jobs] == [
        job.hosts_asked for job in read_workload(parts[0]).jobs
    ]
    assert "EASY meets 3 (100.0 %)" in told.out

    estimated = cli(
        *("workload", "estimates", out, tmp_path / "e.json", "--model", "predicted"),
        *("--platform", parts[1], "--requests", parts[0]),
    )
    assert estimated.exit_code == 0, estimated.err
    again = read_workload(tmp_path / "e.json")
    assert all(job.hosts_asked is not None for job in again.jobs)


@pytest.mark.parametrize("by", [("--by", "easy"), ("--by", "need", "--mix", "slack=1")])
def test_whole_hosts_are_not_guessed(
    cli: Cli, tmp_path: Path, parts: tuple[Path, Path], by: tuple[str, ...]
) -> None:
    result = cli("workload", "deadlines", parts[0], tmp_path / "out.json", *by)
    assert result.exit_code == 2
    assert "job 'A' asks for per_host, but no host of a cluster of 1 hosts tells what" in result.err
    options = (*by, "--platform", "kth_sp2_100")
    result = cli("workload", "deadlines", parts[0], tmp_path / "out.json", *options)
    assert result.exit_code == 2
    assert "kth_sp2_100.xml tells what it has; a platform whose hosts have amounts" in result.err
    assert not (tmp_path / "out.json").exists()


def test_scale_counts_dominant_shares_of_a_platform(cli: Cli, tmp_path: Path) -> None:
    source, scaled = tmp_path / "w.json", tmp_path / "scaled.json"
    shared = ("--platform", "shared_8")
    made = cli("workload", "generate", source, "--preset", "graham", "--load", "1.5", *shared)
    assert "offered load by dominant shares: 1.5000" in made.out
    result = cli("workload", "scale", source, scaled, *shared)
    assert "offered load by dominant shares: 1.5000 of the trace, 1.5000 now" in result.out
    assert "offered load (hosts counted whole): " in cli("workload", "scale", source, scaled).out
    other = cli("workload", "scale", source, scaled, "--platform", "sp2_128")
    assert other.exit_code == 2
    assert "has amounts that jobs share; hosts with properties" in other.err
