"""``qops-batsim run`` with a scheduler for hosts that jobs share."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_run

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def overlap(prefix: str) -> bool:
    """Tell whether any two jobs of a run met on a host."""
    result = read_run(prefix)
    rows, hosts = result.occupations
    start, finish = result.column("starting_time")[rows], result.column("finish_time")[rows]
    spans = sorted(zip(hosts.tolist(), start.tolist(), finish.tolist(), strict=True))
    return any(one[0] == two[0] and two[1] < one[2] - 1e-5 for one, two in pairwise(spans))


def test_aroma_shares_hosts_without_being_asked(cli: Cli) -> None:
    result = cli("run", "aroma")
    assert result.exit_code == 0, result.err
    assert "68 hosts" in result.err
    assert "which several jobs may share" in result.err
    description = json.loads(Path("out/aroma_run.json").read_text())
    assert description["workload"] == "aroma_mixed"
    assert description["platform"] == "aroma_grid"
    assert description["compute_sharing"] is True
    assert description["dynamic_jobs"] is True
    assert overlap("out/aroma")


def test_sharing_can_be_turned_off(cli: Cli) -> None:
    result = cli("run", "aroma", "--no-compute-sharing")
    assert result.exit_code == 0, result.err
    assert "share" not in result.err
    assert json.loads(Path("out/aroma_run.json").read_text())["compute_sharing"] is False
    assert not overlap("out/aroma")


def test_it_can_be_turned_on_for_others(cli: Cli) -> None:
    result = cli("run", "fcfs", "--compute-sharing", "-w", "tiny_8", "-q")
    assert result.exit_code == 0, result.err
    assert json.loads(Path("out/fcfs_run.json").read_text())["compute_sharing"] is True


def test_a_platform_that_is_not_the_engines(cli: Cli) -> None:
    result = cli("run", "aroma", "-w", "tiny_8", "--set", "platform=kth_sp2_100")
    assert result.exit_code == 2
    assert result.err.splitlines()[-1].startswith("qops-batsim: error: ")
    assert "the platform has no host" in result.err
    result = cli("run", "aroma", "-w", "tiny_8", "--set", "platform=nowhere")
    assert result.exit_code == 2
    assert "nowhere" in result.err
