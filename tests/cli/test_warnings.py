"""What is possible but probably not meant is told in one line, also where the rest is quiet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def warned(result: Any, code: int = 0) -> str:
    """Return the only warning."""
    assert result.exit_code == code, result.err
    (line,) = (line for line in result.err.splitlines() if "warning: " in line)
    return str(line.removeprefix("qops-batsim: warning: "))


def workload(name: str, deadline: float, walltime: float, **further: Any) -> str:
    """Write a workload of one job of 10 s."""
    qos = {"deadline": deadline, **further}
    job = {"id": "1", "subtime": 0, "res": 1, "walltime": walltime, "profile": "p", "qos": qos}
    profiles = {"p": {"type": "delay", "delay": 10}}
    Path(name).write_text(json.dumps({"nb_res": 1, "jobs": [job], "profiles": profiles}))
    return name


def test_a_deadline_scheduler_without_deadlines(cli: Cli) -> None:
    result = cli("run", "qops", "-w", "kth_sp2_1000", "--quiet")
    assert warned(result).startswith("no job of kth_sp2_1000.json has a deadline")
    assert cli("run", "easy", "-w", "kth_sp2_1000", "--quiet").err == ""


def test_deadlines_that_estimates_rule_out(cli: Cli) -> None:
    early = workload("early.json", 15, 20)
    assert warned(cli("run", "msb", "-w", early, "-q")).startswith("1 of 1 users' deadlines are")
    assert cli("run", "easy", "-w", early, "-q").err == ""
    assert cli("run", "msb", "-w", workload("late.json", 20, 20), "-q").err == ""
    arguments = ("workload", "deadlines", early, "later.json")
    kept = cli(*arguments, "--at-least", "run-time")
    assert "--at-least estimate makes them later" in warned(kept)
    for options in ((), ("--estimates", "users", "--at-least", "estimate")):
        assert cli(*arguments, *options).err == ""
        (job,) = json.loads(Path("later.json").read_text())["jobs"]
        assert (job["qos"]["deadline"], job["walltime"]) == (20, 20)
    refused = cli(*arguments, "--at-least", "estimates")
    assert "did you mean 'estimate'" in refused.err


def without_walltime(name: str, *qos: dict[str, object], walltime: float | None = None) -> str:
    """Write jobs with these requests, the last of them with a walltime, if there is one."""
    jobs = [
        {"id": str(n), "subtime": 0, "res": 1, "profile": "p", "qos": each}
        for n, each in enumerate(qos)
    ]
    if walltime is not None:
        jobs[-1]["walltime"] = walltime
    profiles = {"p": {"type": "delay", "delay": 10}}
    Path(name).write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": profiles}))
    return name


def test_deadlines_of_jobs_without_estimate(cli: Cli) -> None:
    endless = without_walltime("endless.json", {"deadline": 50}, {"deadline": 60})
    told = warned(cli("run", "qops", "-w", endless, "-q"))
    assert told.startswith(
        "2 of 2 users' deadlines are of jobs without walltime and estimated run time"
    )
    assert "--at-least" not in told
    # What is named helps.
    cli("workload", "estimates", endless, "planned.json", "--model", "exact")
    assert cli("run", "qops", "-w", "planned.json", "-q").err == ""
    # An estimate without walltime is enough; an early deadline is told beside.
    known = without_walltime("known.json", {"deadline": 50, "estimated_runtime": 12})
    assert cli("run", "qops", "-w", known, "-q").err == ""
    both = without_walltime("both.json", {"deadline": 50}, {"deadline": 15}, walltime=20)
    told = warned(cli("run", "qops", "-w", both, "-q"))
    assert told.startswith("1 of 2 users' deadlines are of jobs without walltime and")
    assert "; 1 of 2 users' deadlines are earlier than submission + estimate" in told
    # Artificial deadlines promise nothing to a user.
    made = without_walltime("made.json", {"deadline": 50, "has_user_deadline": False})
    assert cli("run", "qops", "-w", made, "-q").err == ""


def test_estimates_that_are_replaced(cli: Cli) -> None:
    exact = ("--estimates", "exact")
    result = cli("workload", "deadlines", workload("a.json", 15, 20), "exact.json", *exact)
    assert "they replace the walltimes of 1 of 1 jobs" in result.out
    again = cli("workload", "deadlines", "exact.json", "again.json")
    assert "plan with them; all of them are the run times" in again.out


@pytest.mark.parametrize(
    ("options", "factor", "same"),
    [
        ((), None, True),
        (("--set", "tolerance_factor=1.5"), None, False),
        ((), 2.0, False),
        (("--set", "kill_and_restart=true"), None, False),
        (("--set", "tolerance=random"), None, False),
    ],
)
def test_fqops_that_is_qops(cli: Cli, options: Any, factor: float | None, same: bool) -> None:
    path = workload("w.json", 20, 20, tolerance_factor=factor)
    result = cli("run", "fqops", "-w", path, "-q", *options)
    assert ("fqops is qops" in result.err) == same
    assert result.exit_code == 0


def test_computations_for_other_hosts(cli: Cli) -> None:
    workload("w.json", 20, 20)
    for speed, err in (("1e9", "tasks take 10 times as long"), ("1e8", "")):
        assert cli("workload", "classes", "w.json", "c.json", "--speed", speed).exit_code == 0
        result = cli("run", "aroma", "-w", "c.json", "-p", "sp2_128", "-q")
        assert result.exit_code == 0, result.err
        assert err in result.err
        assert bool(err) == bool(result.err)


def test_runs_of_different_workloads(cli: Cli) -> None:
    for name in ("a", "b"):
        workload(f"{name}.json", 20, 20 + (name == "b"))
        cli("run", "easy", "-w", f"{name}.json", "-o", name, "-q")
    told = "these runs are of different workloads, so differences may be theirs: a of a.json; b of"
    assert warned(cli("metrics", "a", "b")).startswith(told)
    assert warned(cli("plot", "utilization", "a", "b", "-o", "p.png")).startswith(told)
    assert cli("metrics", "a", "a").err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("workload", "scale", "tiny_8", "w.json", "--first", 9),
            "has 8 usable jobs, too few for window {skip = 0, first = 9}",
        ),
        (
            ("workload", "scale", "tiny_8", "w.json", "--skip", 5, "--first", 4),
            "has 8 usable jobs, too few for window {skip = 5, first = 4}",
        ),
        (
            ("workload", "import", "l.swf", "w.json", "--processors", 4, "--first", 5),
            "has 1 usable jobs, too few for window {skip = 0, first = 5}",
        ),
    ],
)
def test_a_window_that_is_shorter_than_asked_is_an_error(
    cli, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    Path("l.swf").write_text("1 0 0 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n")
    result = cli(*arguments)
    assert (result.exit_code, message in result.err) == (2, True), result.err
    assert not Path("w.json").exists()


def test_fewer_windows_than_asked_are_told(cli: Cli) -> None:
    found = warned(cli("advise", "tiny_8", "--windows", 9))
    assert found.startswith("9 windows were asked for, but there are only 8")
