"""``qops-batsim benchmark``."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from qops_batsim.experiments import benchmark
from qops_batsim.experiments.benchmark_cases import case_list


@pytest.fixture(autouse=True)
def _two_small_cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = case_list()
    few = msgspec.structs.replace(known, jobs=30, cases=known.cases[:1])
    monkeypatch.setattr(benchmark, "case_list", lambda: few)
    monkeypatch.setattr(
        "qops_batsim.experiments.benchmark_cases.usual_places", lambda: [tmp_path / "none"]
    )


def test_a_scheduler_of_ones_own_is_scored_beside_ours(cli, tmp_path: Path) -> None:
    mine, out = tmp_path / "mine.py", tmp_path / "out"
    mine.write_text(
        "from qops_batsim import Easy\n"
        "class Shortest(Easy):\n"
        "    def key(self, job):\n"
        "        return job.estimate\n"
    )
    result = cli("benchmark", f"{mine}:Shortest", "--out", out)
    assert result.exit_code == 0, result.err
    for said in ("Shortest", "easy", "qops", "best known", "Generated workloads stand in"):
        assert said in result.out
    assert "2 cases" in result.err
    found = json.loads((out / "benchmark.json").read_text())
    assert [each["name"] for each in found["contestants"]] == ["Shortest", "easy", "qops"]
    assert "Shortest" in (out / "benchmark.html").read_text()
    same = cli("benchmark", f"{mine}:Shortest", "--out", out, "--json")
    assert json.loads(same.out) == found

    shared = cli("benchmark", "--out", tmp_path / "two", "--with", out / "benchmark.json")
    assert "Shortest" in shared.out


def test_a_failure_is_told_with_exit_code_1(cli, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from qops_batsim import Easy\n"
        "class Fails(Easy):\n"
        "    def key(self, job):\n"
        "        raise ValueError('not today')\n"
    )
    result = cli("benchmark", f"{mine}:Fails", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "failed: Fails on kth 1 (drawn): ValueError: not today" in result.err


def test_wrong_input_is_one_error(cli, tmp_path: Path) -> None:
    result = cli("benchmark", "qpos", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "qops" in result.err
    result = cli("benchmark", "qops", "qops", "--out", tmp_path / "out")
    assert (result.exit_code, "given twice" in result.err) == (2, True)
    result = cli("benchmark", "--out", tmp_path / "out", "--with", tmp_path / "no.json")
    assert result.exit_code == 2
