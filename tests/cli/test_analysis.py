from __future__ import annotations

import json
from pathlib import Path

import pytest

from qops_batsim import read_run
from qops_batsim.advice.charge_report import price_list
from qops_batsim.shipped import find_input


@pytest.fixture
def recorded(shared):
    return shared / "batsim" / "recorded"


def test_metrics_are_printed_side_by_side(cli, recorded):
    result = cli("metrics", recorded / "kill_nonet", recorded / "batsched_reject_jobs.csv")
    assert result.exit_code == 0
    lines = [line for line in result.out.splitlines() if "waiting time, mean (s)" in line]
    assert [cell.strip() for cell in lines[0].split("│")[1:3]] == ["0.75", "0.00"]
    assert "kill_nonet" in result.out
    assert "batsched_reject" in result.out


def test_metrics_as_json(cli, recorded):
    result = cli(
        "metrics",
        recorded / "kill_nonet",
        "--json",
        "--bounded-slowdown-threshold",
        "1",
        "--hosts",
        8,
    )
    assert result.exit_code == 0
    (values,) = json.loads(result.out)
    assert values["run"] == "kill_nonet"
    assert values["hosts"] == 8
    assert values["jobs_killed"] == 3
    assert values["waiting_time"]["max"] == 3.0
    assert values["bounded_slowdown_threshold"] == 1.0


def test_metrics_of_rejected_jobs_only(cli, recorded):
    result = cli("metrics", recorded / "reject_all_nonet")
    assert result.exit_code == 0
    (line,) = [line for line in result.out.splitlines() if "utilization (%)" in line]
    assert "utilization (%) -, loss of capacity (%) -" in line


def test_runs_of_one_name_are_told_apart(cli, recorded, tmp_path):
    copy = tmp_path / "kill_nonet_jobs.csv"
    copy.write_bytes((recorded / "kill_nonet_jobs.csv").read_bytes())
    result = cli("metrics", recorded / "kill_nonet", tmp_path, "--json")
    names = [values["run"] for values in json.loads(result.out)]
    assert names == [str(recorded / "kill_nonet"), str(tmp_path)]
    assert "number of hosts not recorded; taking 4, the largest allocated host id + 1" in result.err


def test_an_unknown_run_is_one_clear_error(cli, tmp_path):
    result = cli("metrics", tmp_path / "nothing")
    assert result.exit_code == 2
    assert result.out == ""
    assert result.err.startswith("qops-batsim: error: ")
    assert "nothing: no such run" in result.err
    assert len(result.err.splitlines()) == 1


def test_a_valid_run_is_verified(cli, recorded, shared):
    workload = shared / "batsim" / "inputs" / "kill.json"
    result = cli("verify", recorded / "kill_nonet", "--workload", workload, "--hosts", 4)
    assert result.exit_code == 0
    assert result.out.startswith("verified: 4 jobs on 4 hosts, 25 rules checked: unique-jobs, ")
    # Batsim itself promises nothing.
    assert result.err.splitlines() == [
        "not checked for want of a _qos.csv: rejected-never-runs",
        "not checked for want of a _qos.csv and the workload: admitted-deadline, latest-start",
    ]


def test_what_was_not_checked_is_told(cli, recorded, tmp_path):
    copy = tmp_path / "run_jobs.csv"
    copy.write_bytes((recorded / "share_ok_jobs.csv").read_bytes())
    result = cli("verify", copy, "--compute-sharing", "--hosts", 4)
    assert result.exit_code == 0
    assert "not checked for want of a run without compute sharing: exclusive-hosts" in result.err
    assert "not checked for want of the workload: workload-jobs" in result.err
    assert "not checked for want of a _machine_states.csv: machine-states" in result.err


def test_a_workload_that_has_changed_is_not_taken_for_that_of_the_run(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, copy = Path("w.json"), Path("copy.json")
    path.write_text(find_input(Path("tiny_8"), "workloads").read_text())
    assert cli("run", "easy", "-w", path, "-o", "run", "--quiet").exit_code == 0
    assert "warning" not in cli("verify", "run").err
    path.rename(copy)
    path.write_text(copy.read_text().replace('"res": 4', '"res": 5'))
    changed = cli("verify", "run")
    assert changed.exit_code == 0
    assert changed.err.splitlines()[0] == (
        "qops-batsim: warning: w.json has changed since the run: --workload FILE names what it "
        "was made of"
    )
    assert "not checked for want of the workload: workload-jobs" in changed.err
    refused = cli("charges", "run")
    assert refused.exit_code == 2
    assert "w.json has changed since the run; --workload FILE is expected" in refused.err
    info = read_run("run").info
    assert price_list(info).unknown == "w.json has changed since the run"
    given = cli("verify", "run", "--workload", path)
    assert given.exit_code == 1
    assert "warning: w.json is not the file that the run was made of" in given.err
    assert "warning" not in cli("verify", "run", "--workload", copy).err


def test_violations_are_listed_and_exit_with_1(cli, recorded):
    result = cli("verify", recorded / "share_ok", "--first", 1)
    assert result.exit_code == 1
    first, rest, summary = result.out.splitlines()
    assert first.startswith("exclusive-hosts: host 0 runs job 'w0!2' until 10.000000 s, but job")
    assert rest == "… and 1 more"
    assert summary == "NOT verified: 3 jobs on 4 hosts, violations by rule: exclusive-hosts 2"


def test_mappings_need_the_option(cli, recorded):
    assert cli("verify", recorded / "map_ok").exit_code == 1
    assert cli("verify", recorded / "map_ok", "--any-allocation-size").exit_code == 0


@pytest.mark.parametrize("name", ["a.png", "b.svg", "c.pdf"])
def test_pictures_are_written(cli, recorded, tmp_path, name):
    out = tmp_path / name
    result = cli(
        "plot", "gantt", recorded / "types_nonet", "-o", out, "--from", "1m", "--to", "0.2h"
    )
    assert (result.exit_code, result.out) == (0, f"wrote {out}\n")
    assert out.stat().st_size > 1000
    out.unlink()
    result = cli(
        "plot", "utilization", recorded / "types_nonet", recorded / "kill_nonet", "--out", out
    )
    assert (result.exit_code, result.out) == (0, f"wrote {out}\n")
    assert out.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gantt", "types_nonet", "-o", "a.gif"], "a.gif: ends in .gif"),
        (["utilization", "types_nonet", "-o", "a.gif"], "a.gif: ends in .gif"),
        (
            ["gantt", "types_nonet", "-o", "a.png", "--from", "soon"],
            "--from is soon; seconds",
        ),
        (
            ["gantt", "types_nonet", "kill_nonet", "-o", "a.png"],
            "2 runs are given, but `plot gantt`",
        ),
        (["utilization", "types_nonet", "-o", "a.png", "--to", "9"], "--to has no effect on"),
        (
            ["deadlines", "types_nonet", "-o", "a.png"],
            "no deadlines of users are known for this run",
        ),
        (["gantt", "reject_all_nonet", "-o", "a.png"], "no job of this run was executed"),
        (
            ["utilization", "reject_all_nonet", "-o", "a.png"],
            "no job of this run was executed",
        ),
    ],
)
def test_mistakes_with_pictures(cli, recorded, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    kind, *others = arguments
    result = cli("plot", kind, *(recorded / each if "net" in each else each for each in others))
    assert result.exit_code == 2
    assert message in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["metrics", "verify", "plot gantt"])
def test_help_shows_an_example(cli, command):
    result = cli(command.partition(" ")[0], "--help")
    assert result.exit_code == 0
    assert f"qops-batsim {command} out/kth_easy" in result.out
