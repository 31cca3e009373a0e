"""Inputs of the commands: runs, workloads, moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from qops_batsim.cli.console import copies, note, warn
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.dates import Calendar
    from qops_batsim.economics.prices import Prices
    from qops_batsim.measures.results.run_result import RunResult
    from qops_batsim.schedulers.loading.plugins import AllowedCode
    from qops_batsim.workload.accounting.node_sizes import NodeSizes
    from qops_batsim.workload.workload_model import Workload


_copies: list[TemporaryDirectory[str]] = []
"""Directories with journals as runs, until this process ends."""


def run_name(name: str, code: AllowedCode = ()) -> str:
    """Return the prefix of a run's files; for a live journal, write these files first.

    ``code`` lists the Python files with schedulers that may be run for that.
    """
    path = Path(name)
    if not path.is_file() or path.name.endswith((".csv", ".gz")):
        return name
    from qops_batsim.live.as_run import export_run
    from qops_batsim.live.journal import Journal, is_journal

    if not is_journal(path):
        return name
    _copies.append(TemporaryDirectory(prefix="qops-live-"))
    prefix = Path(_copies[-1].name) / path.stem
    copies[str(prefix)] = name
    with Journal(path) as journal:
        export_run(journal, prefix, code=code)
    return str(prefix)


def read_runs(
    runs: Sequence[str],
    hosts: int | None,
    platform: Path | None = None,
    *,
    is_verified: bool = False,
) -> list[RunResult]:
    """Read runs by name, and print which number of hosts is assumed where none is recorded.

    Runs of the same name are renamed to their paths. Dates that cannot be are an InputError, unless
    the runs are to be verified.
    """
    from dataclasses import replace

    from qops_batsim.measures.results.run_files import find_run
    from qops_batsim.measures.results.run_result import named_platform, read_files

    options: dict[str, Any] = {"hosts": hosts, "platform": named_platform(platform)}
    results = [
        read_files(find_run(run_name(run)), is_verified=is_verified, **options) for run in runs
    ]
    names = Counter(result.name for result in results)
    for index, (run, result) in enumerate(zip(runs, results, strict=True)):
        if result.hosts_are_assumed:
            note(
                f"{result.source}: number of hosts not recorded; "
                f"taking {result.hosts}, {result.hosts_source} (--hosts N sets it)"
            )
        if names[result.name] > 1:
            results[index] = replace(result, name=run)
    return results


def warn_of_other_workloads(results: Sequence[RunResult]) -> None:
    """Warn if runs to be compared are of different workloads, judged by names and digests."""
    kinds: dict[tuple[str, str | int], list[str]] = {}
    for result in results:
        kinds.setdefault(_workload_of(result), []).append(result.name)
    if len(kinds) > 1:
        groups = "; ".join(f"{', '.join(names)} of {kind[0]}" for kind, names in kinds.items())
        warn(f"these runs are of different workloads, so differences may be theirs: {groups}")


def _workload_of(result: RunResult) -> tuple[str, str | int]:
    """Return the name of a run's workload, and its digest or else its number of jobs."""
    jobs = int(result.last_runs.sum())
    info = result.info
    if info is None or info.workload is None:
        return f"{jobs:,} jobs", jobs
    names = info.workload if isinstance(info.workload, str) else ", ".join(info.workload)
    return names, info.sha256.get("workload") or jobs


def read_source(source: str, out: Path) -> Workload:
    """Read a workload by file or shipped name; InputError if ``out`` is the same file."""
    from qops_batsim.shipped import find_input
    from qops_batsim.workload.batsim_json import read_workload

    path = find_input(source, "workloads")
    refuse_same_file(path, out, "input")
    return read_workload(path)


def prices_in(path: Path | None) -> Prices:
    """Read a file of prices; without a file, return the default prices."""
    from qops_batsim.economics.prices import read_prices
    from qops_batsim.schedulers.loading.plugins import remember

    prices = read_prices(path)
    remember(prices.function)
    return prices


def refuse_same_file(path: Path, out: Path, what: str) -> None:
    """Raise an InputError if ``out`` is the input file ``path``, which ``what`` describes."""
    if out.exists() and path.exists() and out.samefile(path):
        raise InputError(f"{out}: the file to write is the {what} itself; another one is expected")


def selection(
    partition: list[str] | None,
    qos: list[str] | None,
    account: list[str] | None,
    reservation: list[str] | None,
    nodes: Path | None,
    *,
    tell: bool = True,
) -> dict[str, Any]:
    """Return the values of options that select jobs of a log, as arguments of ``Choices``; ``tell``
    that the nodes' states of now do not matter, if there are any.
    """
    chosen: dict[str, Any] = {
        "partitions": partition or (),
        "qos": qos or (),
        "accounts": account or (),
        "reservations": reservation or (),
    }
    if nodes is not None:
        listed = listed_nodes(nodes)
        chosen["nodes"] = listed
        away = len(listed.away(listed))
        if away and tell:
            note(f"{nodes}: {away:,} nodes are away now, and count: the log is of the past")
    return chosen


def listed_nodes(path: Path) -> NodeSizes:
    """Read nodes as Slurm lists them, or the hosts of a platform."""
    from qops_batsim.files import read_text
    from qops_batsim.platform import read_platform
    from qops_batsim.slurm.nodes import read_nodes
    from qops_batsim.workload.accounting.node_sizes import nodes_of_platform

    if read_text(path, what="a list of nodes").lstrip().startswith("<"):
        return nodes_of_platform(read_platform(path))
    return read_nodes(path)


def duration(text: str, where: str, *, zero: bool = True) -> float:
    """Parse a duration such as ``6h`` to seconds; InputError if it is 0, unless ``zero``."""
    from qops_batsim.quantities import TIME

    value = TIME.parse(text, where=where)
    if value == 0 and not zero:
        raise InputError(f"{where} is {text}; a duration above 0 is expected")
    return value


def moment(text: str, option: str, calendar: Calendar | None) -> float:
    """Parse a date within a run (seconds, a duration or a calendar date) to seconds."""
    with suppress(InputError):
        return duration(text.strip(), option)

    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(
            f"{option} is {text}; seconds since the start of the simulation, a number with a unit "
            "s, m, h or d (100d), or a date (1996-12-24 12:00) is expected"
        ) from None

    if calendar is None:
        raise InputError(
            f"{option} is {text}, but the run's files do not tell the date at which it begins; "
            "seconds since the begin of the run are expected"
        )
    return calendar.seconds(date)
