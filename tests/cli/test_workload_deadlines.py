import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.experiments.deadline_workload import deadline_workload, give_estimates
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import format_workload, read_workload
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.estimates import EstimateChoices

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
        (("scale", "IN", "OUT", "--load", "0.5"), "load is 0.5; by duplication"),
        (("scale", "IN", "OUT", "--method", "x"), "method is 'x' (known: duplication, expansion)"),
        (("scale", "IN", "OUT", "--skip", "1000"), "skip is 1000, but the workload holds 8 jobs"),
        (("scale", "IN", "OUT", "--first", "-1"), "first is -1; a whole number above 0"),
        (("scale", "IN", "IN"), "is the input itself; another file to write"),
        (("scale", "nothing", "OUT"), "nothing: no such file, nor one of the shipped workloads"),
        (("deadlines", "IN", "IN"), "is the input itself; another file to write"),
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
