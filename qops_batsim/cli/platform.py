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
    from qops_batsim.platform.platform_model import Platform

app = typer.Typer(no_args_is_help=True, help="Make and show platforms (SimGrid XML).")

_TABLE_ROWS = 60

_MOST_SPEEDS = 60
"""Most speeds that a cell shows one by one."""


_about = manual(
    """
    out: Platform to write (XML; compressed if named .gz).
    --hosts N: Number of compute hosts, beside those of --group.
    --speed SPEED: Speed of one core: f is flop/s, with k, M, G, T … before it.
    --prefix TEXT: First part of the hosts' names.
    --bandwidth RATE: Bandwidth of each host's link, each way: Bps is bytes/s, bps bits/s. Default:
        no network at all; communications take no time.
    --latency TIME: Latency of each host's link (a message crosses two): s, ms, us … Default: 0s.
    [What each host has]
    --cores N: Cores of each host. Jobs share hosts that have cores, GPUs or a site's kind.
        Default: whole hosts, of one core.
    --memory SIZE: Memory of each host, as in 256MiB or 128GB.
    --gpus N|TYPE:N: GPUs of each host; may be repeated for further types.
    --kind NAME=N: What each host has of a kind of the site; may be repeated.
    --labels NAMES: Partitions and features of each host, separated by commas.
    --weight N: Hosts of less weight are chosen first.
    --group TEXT: Further hosts with the same but for what it says, as in
        hosts=16,gpus=v100:2,labels=gpu; may be repeated.
    --licence NAME=N: Licences of the machine; may be repeated.
    []
    FILE|NAME: A platform file, or a shipped platform. Default: list the shipped ones.
    --json: Print everything as JSON, host by host in the order of ids.
    --master-host NAME: Host that is the master, if the platform does not tell its role.
    """
)

_Texts = list[str] | None


@app.command()
def cluster(
    out: Annotated[Path, _about("out")],
    hosts: Annotated[int | None, _about("--hosts")] = None,
    speed: Annotated[str, _about("--speed")] = "100Mf",
    prefix: Annotated[str, _about("--prefix")] = "host",
    bandwidth: Annotated[str | None, _about("--bandwidth")] = None,
    latency: Annotated[str | None, _about("--latency")] = None,
    cores: Annotated[int | None, _about("--cores")] = None,
    memory: Annotated[str | None, _about("--memory")] = None,
    gpus: Annotated[_Texts, _about("--gpus")] = None,
    kind: Annotated[_Texts, _about("--kind")] = None,
    labels: Annotated[_Texts, _about("--labels")] = None,
    weight: Annotated[int, _about("--weight")] = 0,
    group: Annotated[_Texts, _about("--group")] = None,
    licence: Annotated[_Texts, _about("--licence")] = None,
) -> None:
    """Write a SimGrid platform of equal compute hosts, or of groups of them, and a master host.

    The hosts are numbered with leading zeros, so that Batsim's host ids follow the numbers.
    Without a network, dates are the same in the embedded engine and in the real Batsim.

    Examples:

    \b
        qops-batsim platform cluster kth.xml --hosts 100
        qops-batsim platform cluster net.xml --hosts 128 --bandwidth 125MBps \\
          --latency 50us
        qops-batsim platform cluster shared.xml --hosts 84 --cores 32 \\
          --memory 128GB --group hosts=16,gpus=v100:2 --licence matlab=10
    """
    from qops_batsim.platform.equal_hosts import EqualHosts, make_mixed_cluster
    from qops_batsim.platform.group_text import group_of, read_group, read_named_amounts
    from qops_batsim.platform.simgrid_write import write_platform
    from qops_batsim.quantities import BANDWIDTH, TIME

    if hosts is None and not group:
        raise InputError("neither --hosts nor --group is given; at least one is expected")
    given = {"speed": [speed], "gpus": _listed(gpus), "kind": _listed(kind)}
    given |= {"labels": _listed(labels), "memory": [] if memory is None else [memory]}
    plain = EqualHosts(hosts=hosts or 0, cores=cores, weight=weight)
    like = group_of({name: values for name, values in given.items() if values}, plain, "--")
    groups = [read_group(text, like, where="--group") for text in group or ()]
    if hosts is not None:
        groups.insert(0, like)

    platform = make_mixed_cluster(
        groups,
        licences=read_named_amounts(_listed(licence), where="--licence"),
        prefix=prefix,
        bandwidth=None if bandwidth is None else BANDWIDTH.parse(bandwidth, where="--bandwidth"),
        latency=0.0 if latency is None else TIME.parse(latency, where="--latency"),
    )
    write_platform(platform, out)
    say(f"{out}: {_headline(platform)}")


def _listed(texts: Sequence[str] | None) -> list[str]:
    """Return the values of an option that takes lists and may be repeated."""
    return [part.strip() for text in texts or () for part in text.split(",")]


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
    from qops_batsim.platform.simgrid_read import read_platform
    from qops_batsim.shipped import find_input

    machine = read_platform(find_input(platform, "platforms"), master_host=master_host)
    if as_json:
        print_json(machine)
        return

    say(f"{machine.source}: {_headline(machine)}")
    _print_hosts(machine)
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
        network = "yes" if platform.links or platform.clusters else "none"
        amounts = ", ".join(platform.machine.kinds) if platform.machine else "none"
        cores = str(_cores(platform))
        rows.append((name, str(len(hosts)), cores, _speeds(speeds), network, amounts))
    columns = ("name", "hosts", "cores", "speed", "network", "shared amounts")
    print_table("Shipped platforms", columns, rows)


def _headline(platform: Platform) -> str:
    parts = [f"{len(platform.compute_hosts)} compute hosts with {_cores(platform)} cores"]
    if platform.storage_hosts:
        parts.append(f"{len(platform.storage_hosts)} storage hosts")
    parts.append(f"master {platform.master.name}" if platform.master else "no master")
    return ", ".join(parts)


def _cores(platform: Platform) -> int:
    shared = platform.machine.totals if platform.machine else {}
    return shared.get("cores") or sum(host.cores for host in platform.compute_hosts)


def _print_hosts(platform: Platform) -> None:
    """Print the hosts in ranges of equal ones, and what they have in all."""
    from qops_batsim.platform.platform_model import host_groups

    machine = platform.machine
    kinds = machine.kinds if machine else ("cores", "memory")
    further = [
        name
        for name in ("labels", "weight")
        if machine and any(name in host.properties for host in platform.compute_hosts)
    ]
    rows = []
    for group in host_groups(platform):
        host = group.hosts[0]
        names = host.name if len(group.hosts) == 1 else f"{host.name} … {group.hosts[-1].name}"
        ids = "" if group.first_id is None else str(group.first_id)
        if group.first_id != group.last_id:
            ids += f"-{group.last_id}"

        if machine is None:
            amounts = [str(host.cores), _memory(host.properties.get("memory", ""))]
        elif host.role == "compute_node" and group.first_id is not None:
            amounts = [*map(_amount, kinds, machine.amounts[group.first_id])]
        else:
            amounts = [""] * len(kinds)
        amounts += [host.properties.get(name, "") for name in further]
        rows.append((names, ids, host.role, _speeds(host.speeds), *amounts, host.zone))
    _print_rows("Hosts", ("hosts", "ids", "role", "speed", *kinds, *further, "zone"), rows)

    if machine is None:
        return
    say("in all: " + ", ".join(f"{_amount(*held)} {held[0]}" for held in machine.totals.items()))
    if machine.licences:
        held = ", ".join(f"{amount:,} {name}" for name, amount in machine.licences.items())
        say(f"licences: {held}")


def _amount(kind: str, amount: int) -> str:
    return _memory(str(amount)) if kind == "memory" else f"{amount:,}"


def _memory(text: str) -> str:
    """Return a number of bytes with a unit, binary or decimal, whichever is shorter."""
    from qops_batsim.quantities import SIZE

    if not (text.isascii() and text.isdigit()):
        return text
    decimal = SIZE._replace(written=("B", "kB", "MB", "GB", "TB"))
    return min(SIZE.format(float(text)), decimal.format(float(text)), key=len)


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
