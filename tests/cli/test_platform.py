"""``qops-batsim platform`` as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_platform
from support.platform_text import HEADER, TREE

Cli = Callable[..., Any]


def test_cluster(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "a.xml"
    result = cli("platform", "cluster", out, "--hosts", 12)
    assert (result.exit_code, result.err) == (0, "")
    assert result.out == f"{out}: 12 compute hosts with 12 cores, master master_host\n"
    platform = read_platform(out)
    assert platform.compute_hosts[11].name == "host11"
    assert platform.compute_hosts[0].speed == 100e6
    assert platform.links == {}


def test_cluster_with_everything(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "a.xml.gz"
    options = ("--hosts", 2, "--speed", "2Gf", "--cores", 8, "--prefix", "node-")
    network = ("--bandwidth", "1Gbps", "--latency", "50us", "--memory", "256MiB")
    assert cli("platform", "cluster", out, *options, *network).exit_code == 0
    platform = read_platform(out)
    host = platform.compute_hosts[1]
    assert (host.name, host.speed, host.cores) == ("node-1", 2e9, 8)
    assert host.properties["memory"] == str(256 * 2**20)
    assert platform.links["link_node-1"].bandwidth == 125e6


def test_cluster_of_shared_hosts(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "a.xml"
    amounts = ("--cores", 32, "--memory", "128GB", "--kind", "fpga=1", "--labels", "cpu,all")
    group = ("--group", "hosts=16,gpus=v100:2,labels=gpu,all,weight=3")
    result = cli(
        *("platform", "cluster", out, "--hosts", 84, *amounts, *group, "--licence", "matlab=10")
    )
    assert result.out == f"{out}: 100 compute hosts with 3200 cores, master master_host\n"
    platform = read_platform(out)
    machine = platform.machine
    assert machine is not None
    assert machine.amounts[83:85] == (
        (32, 128 * 10**9, 0, 1, 0),
        (32, 128 * 10**9, 2, 1, 2),
    )
    assert {host.cores for host in platform.compute_hosts} == {32}
    assert (machine.weights[83:85], machine.licences) == ((0, 3), {"matlab": 10})
    assert machine.labels["all"] == 2**100 - 1

    shown = cli("platform", "show", out).out
    rows = [[cell.strip() for cell in line.split("│")] for line in shown.splitlines()]
    ranges = ["host00 … host83", "0-83"], ["host84 … host99", "84-99"]
    cpu = ["32", "128GB", "0", "1", "0", "cpu,all", ""]
    gpu = ["32", "128GB", "2", "1", "2", "gpu,all", "3"]
    for place, has in zip(ranges, (cpu, gpu), strict=True):
        assert [*place, "compute_node", "100Mf", *has, "AS0"] in rows
    assert "in all: 3,200 cores, 12.8TB memory, 32 gpus, 100 fpga, 32 gpus:v100\n" in shown
    assert "licences: 10 matlab\n" in shown


def test_cluster_of_groups_alone(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "a.xml"
    groups = ("--group", "hosts=2,gpus=4", "--group", "hosts=1,cores=4,gpus=0")
    assert cli("platform", "cluster", out, "--cores", 8, *groups).exit_code == 0
    machine = read_platform(out).machine
    assert machine is not None
    assert machine.kinds == ("cores", "gpus")
    assert machine.amounts == ((8, 4), (8, 4), (4, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "neither --hosts nor --group is given"),
        (("--hosts", "4", "--gpus", "v100"), "--gpus is 'v100'; a whole number N, or TYPE:N"),
        (("--hosts", "4", "--kind", "fpga"), "--kind is 'fpga'; NAME=N with a whole number N"),
        (("--hosts", "4", "--licence", "m=x"), "--licence is 'm=x'; NAME=N with a whole"),
        (("--hosts", "4", "--labels", "gpu"), "labels, weights and licences are given for hosts"),
        (("--group", "hosts=4,core=2"), "'core'; did you mean 'cores'?"),
        (("--hosts", "0"), "hosts is 0; a whole number from 1"),
        (("--hosts", "4", "--speed", "100MHz"), "--speed is '100MHz'; a speed: a number with f"),
        (("--hosts", "4", "--memory", "1Gb"), "--memory is '1Gb'; a size: a number with B"),
        (("--hosts", "4", "--bandwidth", "1GB"), "--bandwidth is '1GB'; a bandwidth: a number"),
        (("--hosts", "4", "--latency", "1us"), "latency is 1e-06; above 0, it needs a bandwidth"),
        (("--hosts", "4", "--prefix", "a\x01"), "characters that XML can hold"),
    ],
)
def test_cluster_refused(cli: Cli, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    out = tmp_path / "a.xml"
    result = cli("platform", "cluster", out, *options)
    assert (result.exit_code, result.out) == (2, "")
    assert result.err.startswith("qops-batsim: error: ")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not out.exists()


def test_show_a_shipped_platform(cli: Cli) -> None:
    result = cli("platform", "show", "aroma_grid")
    assert (result.exit_code, result.err) == (0, "")
    assert "68 compute hosts with 128 cores, master master_host" in result.out
    lines = [line.split() for line in result.out.splitlines()]
    row = next(line for line in lines if "b_node10" in line)
    assert [word for word in row if word != "│"] == [
        *("b_node10", "…", "b_node25", "20-35", "compute_node", "1.5Gf", "2", "2GiB", "b_node"),
    ]
    assert any("b_node_backbone" in line and "2.5GBps" in line for line in lines)
    assert any("site_b" in line and "grid" in line and "Full" in line for line in lines)


def test_show_as_json(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text(HEADER + TREE)
    result = cli("platform", "show", path, "--json", "--master-host", "l2")
    data = json.loads(result.out)
    assert [host["name"] for host in data["compute_hosts"]][:3] == ["l1", "l3", "r1.x"]
    assert data["master"]["name"] == "l2"
    assert len(data["compute_hosts"]) == 7
    left = data["zones"][1]
    assert (left["name"], left["routing"], left["parent"]) == ("left", "Floyd", "root")
    assert left["properties"] == {"country": "inner"}
    assert len(left["routes"]) == 3
    assert data["clusters"][0]["bandwidth"] == 125e6
    assert data["links"]["lane"]["latency"] == 20e-3


def test_show_shortens_long_tables(cli: Cli, tmp_path: Path) -> None:
    hosts = "".join(f'<host id="h{n}" speed="{n + 1}f"/>' for n in range(100))
    path = tmp_path / "a.xml"
    path.write_text(
        f'<platform version="4.1"><zone id="z" routing="None">{hosts}</zone></platform>'
    )
    result = cli("platform", "show", path)
    assert "… and 40 more lines; --json prints all" in result.out
    assert "no master" in result.out


def test_show_shortens_long_lists_of_speeds(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    speeds = ",".join(f"{1001 + number}f" for number in range(2000))
    path.write_text(
        f'{HEADER}<platform version="4.1"><zone id="z" routing="None">'
        f'<host id="a" speed="{speeds}"/></zone></platform>'
    )
    result = cli("platform", "show", path)
    assert "(2,000)" in result.out
    assert "1.002kf" not in result.out


def test_show_names_what_is_wrong(cli: Cli, tmp_path: Path) -> None:
    result = cli("platform", "show", "aroma_gird")
    assert result.exit_code == 2
    assert "did you mean 'aroma_grid'?" in result.err
    path = tmp_path / "bad.xml"
    path.write_text("<platform version='4.1'><zone id='z' routing='Full'><peer/></zone></platform>")
    result = cli("platform", "show", path)
    assert result.exit_code == 2
    assert f"{path}: line 1: <peer> is not supported" in result.err


def test_list(cli: Cli) -> None:
    result = cli("platform", "show")
    assert result.exit_code == 0
    rows = [line.replace("│", " ").split() for line in result.out.splitlines()]
    assert ["kth_sp2_100", "100", "100", "100Mf", "none", "none"] in rows
    shared = ["cores,", "memory,", "gpus,", "gpus:v100"]
    assert ["shared_8", "8", "128", "100Mf", "none", *shared] in rows
    assert ["aroma_grid", "68", "128", "500Mf,", "750Mf,", "1Gf,", "1.5Gf", "yes", "none"] in rows


def test_every_command_has_an_example(cli: Cli) -> None:
    for command in ("cluster", "show"):
        result = cli("platform", command, "--help")
        assert result.exit_code == 0
        assert f"qops-batsim platform {command}" in result.out
