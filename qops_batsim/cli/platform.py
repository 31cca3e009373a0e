"""``qops-batsim platform``: machines to simulate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.common_options import manual
from qops_batsim.cli.console import print_json, print_table, say
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.platform.platform_model import HostGroup, Platform

app = typer.Typer(no_args_is_help=True, help="Make and show platforms (SimGrid XML).")

_TABLE_ROWS = 60

_MOST_SPEEDS = 60
"""Most speeds that a cell shows one by one."""


_about = manual(
    """
    out: Platform to write (XML; compressed if named .gz).
    --hosts N: Number of compute hosts.
    --speed SPEED: Speed of one core: f is flop/s, with k, M, G, T … before it.
    --cores N: Cores of each host.
    --prefix TEXT: First part of the hosts' names.
    --bandwidth RATE: Bandwidth of each host's link, each way: Bps is bytes/s, bps bits/s. Default:
        no network at all; communications take no time.
    --latency TIME: Latency of each host's link (a message crosses two): s, ms, us … Default: 0s.
    --memory SIZE: Memory of each host, as in 256MiB: its property memory, in bytes.
    FILE|NAME: A platform file, or a shipped platform. Default: list the shipped ones.
    --json: Print everything as JSON, host by host in the order of ids.
    --master-host NAME: Host that is the master, if the platform does not tell its role.
    """
)


@app.command()
def cluster(
    out: Annotated[Path, _about("out")],
    hosts: Annotated[int, _about("--hosts")],
    speed: Annotated[str, _about("--speed")] = "100Mf",
    cores: Annotated[int, _about("--cores")] = 1,
    prefix: Annotated[str, _about("--prefix")] = "host",
    bandwidth: Annotated[str | None, _about("--bandwidth")] = None,
    latency: Annotated[str | None, _about("--latency")] = None,
    memory: Annotated[str | None, _about("--memory")] = None,
) -> None:
    """Write a SimGrid platform of equal compute hosts and a master host.

    The hosts are numbered with leading zeros, so that Batsim's host ids follow the numbers.
    Without a network, dates are the same in the embedded engine and in the real Batsim.

    Examples:

    \b
        qops-batsim platform cluster kth.xml --hosts 100
        qops-batsim platform cluster fat.xml --hosts 64 --cores 8 \\
          --speed 2Gf --memory 16GiB
        qops-batsim platform cluster net.xml --hosts 128 --bandwidth 125MBps \\
          --latency 50us
    """
    from qops_batsim.platform.equal_hosts import make_cluster
    from qops_batsim.platform.simgrid_write import write_platform
    from qops_batsim.quantities import BANDWIDTH, SIZE, SPEED, TIME

    platform = make_cluster(
        hosts,
        speed=SPEED.parse(speed, where="--speed"),
        cores=cores,
        prefix=prefix,
        bandwidth=None if bandwidth is None else BANDWIDTH.parse(bandwidth, where="--bandwidth"),
        latency=0.0 if latency is None else TIME.parse(latency, where="--latency"),
        memory=None if memory is None else round(SIZE.parse(memory, where="--memory")),
    )
    write_platform(platform, out)
    say(f"{out}: {_headline(platform)}")


@app.command()
def show(
    platform: Annotated[str | None, _about("FILE|NAME")] = None,
    as_json: Annotated[bool, _about("--json")] = False,
    master_host: Annotated[str, _about("--master-host")] = "master_host",
) -> None:
    """Print a platform's hosts, zones and links, or list the shipped platforms.

    Commands that want a platform take the name of a shipped one in place of a file. Equal hosts
    share a line. Ids are those of Batsim: compute hosts by name, then storage hosts.

    Examples:

    \b
        qops-batsim platform show
        qops-batsim platform show aroma_grid
        qops-batsim platform show my_platform.xml --json
    """
    if platform is None:
        if as_json:
            raise InputError("--json is given without a platform; its name or file is expected")
        _print_shipped()
        return
    from qops_batsim.platform.platform_model import host_groups
    from qops_batsim.platform.simgrid_read import read_platform
    from qops_batsim.shipped import find_input

    machine = read_platform(find_input(platform, "platforms"), master_host=master_host)
    if as_json:
        print_json(machine)
        return

    say(f"{machine.source}: {_headline(machine)}")
    columns = ("hosts", "ids", "role", "speed", "cores", "memory", "zone")
    _print_rows("Hosts", columns, [*map(_group_row, host_groups(machine))])
    _print_zones(machine)
    _print_links(machine)


def _print_shipped() -> None:
    from qops_batsim.platform.simgrid_read import read_platform
    from qops_batsim.shipped import find_input, shipped_names

    rows = []
    for name in shipped_names("platforms"):
        platform = read_platform(find_input(name, "platforms"))
        hosts = platform.compute_hosts
        speeds = sorted({host.speed for host in hosts})
        cores = sum(host.cores for host in hosts)
        network = "yes" if platform.links or platform.clusters else "none"
        rows.append((name, str(len(hosts)), str(cores), _speeds(speeds), network))
    print_table("Shipped platforms", ("name", "hosts", "cores", "speed", "network"), rows)


def _headline(platform: Platform) -> str:
    cores = sum(host.cores for host in platform.compute_hosts)
    parts = [f"{len(platform.compute_hosts)} compute hosts with {cores} cores"]
    if platform.storage_hosts:
        parts.append(f"{len(platform.storage_hosts)} storage hosts")
    parts.append(f"master {platform.master.name}" if platform.master else "no master")
    return ", ".join(parts)


def _group_row(group: HostGroup) -> tuple[str, ...]:
    from qops_batsim.quantities import SIZE

    host = group.hosts[0]
    names = host.name if len(group.hosts) == 1 else f"{host.name} … {group.hosts[-1].name}"
    ids = "" if group.first_id is None else str(group.first_id)
    if group.first_id != group.last_id:
        ids += f"-{group.last_id}"
    memory = host.properties.get("memory", "")
    if memory.isascii() and memory.isdigit():
        memory = SIZE.format(float(memory))
    return names, ids, host.role, _speeds(host.speeds), str(host.cores), memory, host.zone


def _print_zones(platform: Platform) -> None:
    inside = Counter(host.zone for host in platform.hosts())
    rows = [
        (zone.name, zone.parent, zone.routing, str(inside[zone.name]), str(len(zone.routes)))
        for zone in platform.zones
    ]
    rows += [
        (cluster.name, cluster.zone, "cluster", str(inside[cluster.name]), "")
        for cluster in platform.clusters
    ]
    _print_rows("Zones", ("zone", "in", "routing", "hosts", "routes"), rows)


def _print_links(platform: Platform) -> None:
    from qops_batsim.quantities import BANDWIDTH, TIME

    def cells(bandwidth: float, latency: float, sharing: str) -> tuple[str, str, str]:
        return BANDWIDTH.format(bandwidth), TIME.format(latency), sharing

    rows = []
    for cluster in platform.clusters:
        kind = cells(cluster.bandwidth, cluster.latency, cluster.sharing_policy)
        rows.append((f"{cluster.name}_link_*", *kind))
        if cluster.backbone_bandwidth:
            policy = cluster.backbone_sharing_policy
            kind = cells(cluster.backbone_bandwidth, cluster.backbone_latency, policy)
            rows.append((f"{cluster.name}_backbone", *kind))

    kinds: dict[tuple[str, str, str], list[str]] = {}
    for link in platform.links.values():
        kind = cells(link.bandwidth, link.latency, link.sharing_policy)
        kinds.setdefault(kind, []).append(link.name)
    for kind, names in kinds.items():
        label = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"
        rows.append((label, *kind))
    if rows:
        _print_rows("Links", ("link", "bandwidth", "latency", "sharing"), rows)


def _print_rows(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    print_table(title, columns, rows[:_TABLE_ROWS])
    if len(rows) > _TABLE_ROWS:
        say(f"… and {len(rows) - _TABLE_ROWS} more lines; --json prints all")


def _speeds(speeds: Sequence[float]) -> str:
    from qops_batsim.quantities import SPEED

    if len(speeds) > _MOST_SPEEDS:
        first, last = map(SPEED.format, (speeds[0], speeds[-1]))
        return f"{first} … {last} ({len(speeds):,})"
    return ", ".join(map(SPEED.format, speeds))
