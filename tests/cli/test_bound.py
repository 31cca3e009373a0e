"""``qops-batsim bound``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

TIME = ("--deterministic-time", "2")


def test_the_table_and_the_runs(cli, tmp_path: Path) -> None:
    pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")
    result = cli("bound", "tiny_8", *TIME, "--objective", "jobs", "-o", tmp_path / "best")
    assert result.exit_code == 0, result.err
    assert max(map(len, result.out.splitlines())) <= 80
    assert "best known" in result.out
    assert "executed and verified" in result.err
    prefix = tmp_path / "best-jobs"
    assert cli("verify", prefix).exit_code == 0
    assert json.loads(cli("metrics", prefix, "--json").out)[0]["jobs_rejected"] == 0


def test_json_is_the_same_at_every_repetition(cli, tmp_path: Path) -> None:
    pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")
    arguments = ("bound", "tiny_8", *TIME, "--json", "-o", tmp_path / "best")
    result = cli(*arguments)
    found = json.loads(result.out)
    assert list(found) == ["jobs", "work", "charge"]
    assert list(found["jobs"])[:2] == ["bound", "best_known"]
    assert found["jobs"]["bound"] == found["jobs"]["best_known"] == 8
    assert cli(*arguments).out == result.out


def test_schedulers_that_do_not_know_run_times(cli, tmp_path: Path) -> None:
    pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")
    job = {"id": "1", "subtime": 0, "res": 1, "profile": "p", "qos": {"deadline": 20}}
    workload = {"nb_res": 1, "jobs": [job], "profiles": {"p": {"type": "delay", "delay": 10}}}
    (tmp_path / "w.json").write_text(json.dumps(workload))
    result = cli("bound", tmp_path / "w.json", *TIME, "--json", "-o", tmp_path / "best")
    found = json.loads(result.out)["jobs"]
    assert (found["best_known"], found["schedulers"]["qops"]) == (1, 0)
    assert "1 of 1 users' deadlines are of jobs without walltime and" in result.err


def test_a_missing_solver_is_named(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools", None)
    result = cli("bound", "tiny_8")
    assert result.exit_code == 2
    assert "pip install 'qops-batsim[bound]'" in result.err
    assert cli("bound", "tiny_8", "--objective", "job").err.count("did you mean 'jobs'") == 1


def test_hosts_that_jobs_share(cli, tmp_path: Path) -> None:
    pytest.importorskip("ortools", reason="the extra bound (OR-tools) is not installed")
    generated = ("--preset", "graham", "--jobs", "40", "--load", "3", "--deadline-share", "1")
    machine = ("--platform", "shared_8")
    assert cli("workload", "generate", tmp_path / "w.json", *generated, *machine).exit_code == 0
    arguments = ("bound", tmp_path / "w.json", *TIME, "--objective", "work")
    result = cli(*arguments, *machine, "-o", tmp_path / "best")
    assert result.exit_code == 0, result.err
    assert "40 jobs on 8 shared hosts" in result.out
    assert "host-hours" in result.out
    assert cli("verify", tmp_path / "best-work").exit_code == 0
    assert cli(*arguments).exit_code == 2
    other = cli(*arguments, "--platform", "sp2_128")
    assert other.exit_code == 2
    assert "sp2_128.xml has amounts that jobs share" in other.err
