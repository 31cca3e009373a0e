"""``qops-batsim study``."""

from __future__ import annotations

import csv
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from qops_batsim.experiments import DeadlineRuns, listed_cases, read_study
from support.listed_cases import few_cases

SMALL = """
name = "small"
logs = "sdsc_sp2_1000"
windows = [{first = 40}, {skip = 40, first = 40}]
schedulers = ["msb", "qops"]
loads = [1.0, 1.3]
seeds = 2
"""

EXAMPLE = files("qops_batsim.experiments").joinpath("example.toml").read_text("utf-8")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(SMALL)
    return path


def test_the_example_is_a_study(cli, tmp_path: Path) -> None:
    result = cli("study", "example")
    assert (result.exit_code, result.out) == (0, EXAMPLE)
    path = tmp_path / "study.toml"
    path.write_text(result.out)
    assert read_study(path).name == "first look"


@pytest.mark.sweep
def test_the_example_decides_something(cli, tmp_path: Path) -> None:
    """A part of it: headroom refuses fewer jobs than msb at the higher load."""
    path = tmp_path / "study.toml"
    text = re.sub(
        "^schedulers = .*$", 'schedulers = ["msb", "qops:headroom=0.03"]', EXAMPLE, flags=re.M
    )
    path.write_text(text.replace("loads = [1.2, 1.4]", "loads = 1.4"))
    result = cli("study", "run", path, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.err
    (row,) = (line for line in result.out.splitlines() if line.startswith("qops:headroom"))
    assert row.endswith("lower")


def test_a_study_is_run_told_and_drawn(cli, tmp_path: Path, file: Path) -> None:
    out = tmp_path / "out"
    result = cli("study", "run", file, "--out", out)
    assert result.exit_code == 0, result.err
    assert "unadmitted jobs (%) less msb" in result.out
    assert "too few" in result.out
    with open(out / "runs.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 16
    with open(out / "table.csv") as stream:
        table = list(csv.DictReader(stream))
    # At the lower load both decide alike.
    assert [row["verdict"] for row in table] == ["", "equal", "", "too few"]
    before = {path: path.read_bytes() for path in out.glob("*.csv")}
    assert cli("study", "run", file, "--out", out).out == result.out
    assert {path: path.read_bytes() for path in before} == before

    status = cli("study", "status", out)
    assert "12 of 12 runs finished, 0 failed, 0 to do; 16 were asked for" in status.out
    told = json.loads(cli("study", "status", out, "--json").out)
    assert told == {"cells": 16, "runs": 12, "finished": 12, "failed": 0}
    page, report = tmp_path / "page.html", tmp_path / "report"
    assert cli("study", "report", out).out == result.out
    drawn = cli("study", "report", out, "--html", page, "--out", report, "--format", "svg")
    assert (drawn.exit_code, drawn.out) == (0, result.out), drawn.err
    told = page.read_text()
    assert told.count("data:image/svg+xml") == 4
    assert "<figcaption>Deadlines met and missed: " in told
    assert all(part in told for part in ("unadmitted jobs (%) less msb", "not judged", "seeds"))
    document = json.loads(cli("study", "report", out, "--json").out)
    assert document["study"]["baseline"] == ""
    assert len(document["summaries"]) == 4
    written = json.loads((report / "report.json").read_text())
    assert written == {**document, "files": written["files"]}
    pictures = ("deadlines", "unadmitted", "utilization", "versus_utilization")
    files = {"runs.csv", "table.csv", *(f"{name}.svg" for name in pictures)}
    assert written["files"].keys() == files


def test_a_scheduler_of_ones_own_is_scored_beside_ours(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_cases, "usual_places", lambda: [tmp_path / "none"])
    few_cases(tmp_path)
    mine, out = tmp_path / "mine.py", tmp_path / "out"
    mine.write_text(
        "from qops_batsim import Easy\n"
        "class Shortest(Easy):\n"
        "    def key(self, job):\n"
        "        return job.estimate\n"
    )
    result = cli("study", "run", tmp_path / "few.toml", f"{mine}:Shortest", "--out", out)
    assert result.exit_code == 0, result.err
    for said in ("Shortest", "easy", "qops", "best known", "Generated workloads stand in"):
        assert said in result.out
    found = json.loads((out / "report.json").read_text())
    assert [each["name"] for each in found["study"]["schedulers"]] == ["easy", "qops", "Shortest"]
    assert "6 of 6 runs finished" in cli("study", "status", out).out
    page = tmp_path / "page.html"
    assert cli("study", "report", out, "--html", page).out == result.out
    assert "Promises kept, in % of the bound" in page.read_text()
    assert cli("study", "run", tmp_path / "few.toml", "--out", tmp_path / "two").exit_code == 0
    shared = cli("study", "report", tmp_path / "two", "--with", out)
    assert "Shortest" in shared.out
    wrong = cli("study", "run", tmp_path / "few.toml", "qpos", "--out", out)
    assert (wrong.exit_code, "qops" in wrong.err) == (2, True)


def test_failures_are_told_and_the_exit_code_is_one(
    cli, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DeadlineRuns.__call__

    def failing(self, case):
        if case.scheduler == "qops":
            raise ZeroDivisionError("by nothing")
        return real(self, case)

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(DeadlineRuns, "__call__", failing)
        result = cli("study", "run", file, "--out", out)
    assert result.exit_code == 1
    line = "failed: qops on sdsc_sp2_1000 0+40, load 1, seed 1 and 5 more: ZeroDivisionError"
    assert line in result.err
    status = cli("study", "status", out)
    assert "6 of 12 runs finished, 6 failed, 0 to do" in status.out
    assert line in status.err
    assert cli("study", "run", file, "--out", out).exit_code == 1
    assert cli("study", "run", file, "--out", out, "--retry").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "no.toml", "--out", "out"], "no.toml: no such file"),
        (["status", "nowhere"], "study.json: no such file"),
        (["report", "nowhere"], "study.json: no such file"),
        (["report", "nowhere", "--format", "gif"], "--format is 'gif'"),
    ],
)
def test_a_mistake_is_one_line(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("study", *words)
    assert result.exit_code == 2
    assert message in result.err
    assert len(result.err.strip().splitlines()) == 1
