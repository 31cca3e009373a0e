"""``qops-batsim run`` with a scheduler for hosts that jobs share."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_platform, read_run
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.protocol.engine_needs import SHARING_OPTION
from qops_batsim.running import default_engine
from qops_batsim.running.releases import batsim_arguments
from support.random_simulations import document

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
    assert "on 68 shared hosts in" in result.err
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


def shared_platform(path: Path) -> Path:
    """Write a machine of eight hosts with cores."""
    hosts = "".join(
        f'<host id="h{number}" coordinates="0 0 0" speed="1Gf"><prop id="cores" value="4"/></host>'
        for number in range(8)
    )
    master = '<host id="master_host" coordinates="0 0 0" speed="1Gf"/>'
    path.write_text(document([master, hosts], "Vivaldi"))
    return path


def test_hosts_with_amounts_are_shared_without_being_asked(cli: Cli, tmp_path: Path) -> None:
    platform = shared_platform(tmp_path / "shared.xml")
    result = cli("run", "fcfs", "-w", "tiny_8", "-p", platform)
    assert result.exit_code == 0, result.err
    assert "on 8 shared hosts in" in result.err
    assert json.loads(Path("out/fcfs_run.json").read_text())["compute_sharing"] is True
    module = make_scheduler("fcfs")
    assert SHARING_OPTION in batsim_arguments(default_engine(module, read_platform(platform)))
    assert SHARING_OPTION not in batsim_arguments(default_engine(module, make_cluster(8)))


def test_hosts_with_amounts_cannot_be_alone(cli: Cli, tmp_path: Path) -> None:
    platform = shared_platform(tmp_path / "shared.xml")
    result = cli("run", "fcfs", "-w", "tiny_8", "-p", platform, "--no-compute-sharing")
    assert result.exit_code == 2
    assert result.err == (
        f"qops-batsim: error: {platform}: hosts have amounts that jobs share, but compute sharing "
        "is turned off; it is expected to be on\n"
    )


@pytest.mark.parametrize("kind", ["delay", "parallel_homogeneous"])
def test_computing_jobs_on_shared_hosts_are_told(cli: Cli, kind: str) -> None:
    profile = {"type": kind, "delay": 9, "cpu": 1e9, "com": 0}
    asked = {"subtime": 0, "res": 1, "profile": "p", "per_host": {"cores": 1}}
    jobs = [{"id": "a", **asked}, {"id": "b", **asked}]
    content = {"nb_res": 8, "jobs": jobs, "profiles": {"p": profile}}
    Path("jobs.json").write_text(json.dumps(content))
    result = cli("run", "easy", "-w", "jobs.json", "-p", "shared_8", "-q")
    assert result.exit_code == 0, result.err
    computes = kind != "delay"
    assert ("job a and its like compute, and slow down jobs" in result.err) == computes
    assert ("length does not depend on neighbours" in result.err) == computes
