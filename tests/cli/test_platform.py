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


@pytest.mark.parametrize(
    ("options", "message"),
    [
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
    assert ["kth_sp2_100", "100", "100", "100Mf", "none"] in rows
    assert ["aroma_grid", "68", "128", "500Mf,", "750Mf,", "1Gf,", "1.5Gf", "yes"] in rows


def test_every_command_has_an_example(cli: Cli) -> None:
    for command in ("cluster", "show"):
        result = cli("platform", command, "--help")
        assert result.exit_code == 0
        assert f"qops-batsim platform {command}" in result.out
