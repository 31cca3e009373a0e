"""The output files of a simulation, in Batsim v4.2.1's columns and formats."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.engine.ended_jobs import STATE_CODES, EndedJobs, HostChanges, ended_jobs_of
from qops_batsim.engine.energy import format_consumed_energy, sum_in_order
from qops_batsim.engine.engine_options import outages_of
from qops_batsim.engine.host_states import NAMES, format_power_state_changes
from qops_batsim.engine.last_cover import last_cover
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import SimulationError, shown
from qops_batsim.file_set import FileSet, run_files
from qops_batsim.jobs import COMPLETED_SUCCESSFULLY
from qops_batsim.limits import MAX_END
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.tables import (
    Column,
    General,
    Words,
    cells,
    format_table,
    shielded,
    shielded_column,
)
from qops_batsim.version import __version__

FREE_TEXTS = ("job_id", "workload_name", "profile")
"""Columns of names, which others have chosen."""

MACHINE_STATES_COLUMNS = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"


def write_outputs(simulation: Simulation, prefix: str | Path) -> list[Path]:
    """Write ``PREFIX_jobs.csv``, ``PREFIX_schedule.csv`` and ``PREFIX_machine_states.csv``.

    With energy, also ``PREFIX_consumed_energy.csv`` and ``PREFIX_pstate_changes.csv``.

    Differences from Batsim, so that equal runs give equal bytes:
    ``batsim_version`` names this package, and ``scheduling_time`` and
    ``simulation_time`` (wall-clock seconds there) are 0. Missing directories are made.
    """
    with run_files(prefix) as files:
        add_outputs(files, simulation)
        return files.publish_alone()


def add_outputs(files: FileSet, simulation: Simulation, *, machine_states: bool = True) -> None:
    """Add the files of :func:`write_outputs` to a set; the machine states are optional.

    The columns of the tables are noted in the set.
    """
    jobs = simulation.ended_jobs.table()
    ends = jobs["finish_time"]
    assert isinstance(ends, np.ndarray)
    if np.fmax.reduce(ends, initial=0.0) > MAX_END:
        last = int(np.nanargmax(ends))
        sources = ", ".join(workload.source for workload in simulation.workloads.values())
        raise SimulationError(
            f"{sources} on {simulation.platform.source}: job "
            f"{shown(simulation.ended_jobs.ids[last])} ends at {ends[last]:.6f} s; the files of a "
            f"run tell of dates up to {MAX_END:g} s"
        )

    if not simulation.options.scheduled:
        jobs = _counted(simulation).table()
    files.tables["_jobs.csv"] = jobs
    contents: dict[str, Iterable[bytes]] = {
        "_jobs.csv": _jobs(jobs),
        "_schedule.csv": [format_schedule(simulation).encode()],
    }
    if machine_states:
        states = _machine_states(simulation.host_changes)
        files.tables["_machine_states.csv"] = states
        contents["_machine_states.csv"] = format_table(states)
    contents |= {f"_{name}": content for name, content in _energy_files(simulation).items()}
    _write_all(files, contents)


def _energy_files(simulation: Simulation) -> dict[str, Iterable[bytes]]:
    """Return the energy files by name, none without energy."""
    if simulation.energy is None:
        return {}
    consumed = format_consumed_energy(simulation.energy.entries)
    changed = format_power_state_changes(simulation.energy.switchable.noted)
    return {"consumed_energy.csv": [consumed.encode()], "pstate_changes.csv": [changed.encode()]}


def _write_all(files: FileSet, contents: Mapping[str, Iterable[bytes]]) -> None:
    for name, content in contents.items():
        with files.open(name) as stream:
            stream.writelines(content)


BATSIM5_FILES = (
    *("jobs.csv", "schedule.json", "machine_states.csv"),
    *("consumed_energy.csv", "pstate_changes.csv"),
)
"""Names of the files of Batsim 5, behind the prefix."""


def add_batsim5_outputs(files: FileSet, simulation: Simulation, wanted: Iterable[str] = ()) -> None:
    """Add Batsim 5's files to a set: jobs, totals, and others if wanted.

    Other than Batsim 5.0.0-rc2's, idle hosts count as idle.
    """
    totals = ",\n".join(
        f'  "{name}": {_number(value) if isinstance(value, float) else json.dumps(value)}'
        for name, value in sorted(_schedule(simulation).items())
        if name not in ("scheduling_time", "simulation_time")
    )
    contents: dict[str, Iterable[bytes]] = {
        "jobs.csv": _jobs(simulation.ended_jobs.table(), of_batsim5=True),
        "schedule.json": [f"{{\n{totals}\n}}\n".encode()],
        "machine_states.csv": format_table(_machine_states(simulation.host_changes)),
        **_energy_files(simulation),
    }
    named = [name for name in ("jobs.csv", "schedule.json", *wanted) if name in contents]
    _write_all(files, {name: contents[name] for name in named})


def format_jobs(ended: EndedJobs) -> str:
    """Format ``_jobs.csv``: one row a job, in the order in which ends were recorded."""
    return b"".join(_jobs(ended.table())).decode()


def format_machine_states(changes: HostChanges) -> str:
    """Format ``_machine_states.csv``: a row after every start and end."""
    return b"".join(format_table(_machine_states(changes))).decode()


def _jobs(table: Mapping[str, Column], *, of_batsim5: bool = False) -> Iterator[bytes]:
    """Yield the lines of jobs; like Batsim 5, full profile names and no metadata."""
    columns = dict(table)
    metadata = columns["metadata"]
    if of_batsim5:
        pairs = zip(cells(columns["workload_name"]), cells(columns["profile"]), strict=True)
        names = [
            profile if "!" in profile else f"{workload}!{profile}" for workload, profile in pairs
        ]
        columns["profile"] = Words.of(names)
        columns["metadata"] = Words.one("", len(names))
    elif isinstance(metadata, Words):
        columns["metadata"] = Words.one('""', len(metadata.which))
    else:
        quoted = (shielded(text).replace('"', '""') for text in cells(metadata))
        columns["metadata"] = [f'"{text}"' for text in quoted]

    for name in FREE_TEXTS:
        columns[name] = shielded_column(columns[name])
    yield from format_table(columns)


def _machine_states(changes: HostChanges) -> dict[str, Column]:
    dates, computing, idle, switching = changes
    none = Words.one("0", len(dates))
    others = [none, none, none] if switching is None else list(switching)
    columns: list[Column] = [General(dates), *others, idle, computing]
    return dict(zip(MACHINE_STATES_COLUMNS.split(","), columns, strict=True))


def format_schedule(simulation: Simulation) -> str:
    """Format ``_schedule.csv``: one row of totals."""
    values = _schedule(simulation)
    cells = (_number(v) if isinstance(v, float) else str(v) for v in values.values())
    return ",".join(values) + "\n" + ",".join(cells) + "\n"


def _schedule(simulation: Simulation) -> dict[str, str | int | float]:
    """Compute a simulation's totals.

    As in Batsim, means divide by all jobs, rejected ones included, and the time
    that hosts compute or idle runs only up to each host's last change.
    """
    jobs = _counted(simulation)
    ran = jobs.ran
    # In extended precision, as Batsim: of six decimals, the last one may depend on it.
    run_times = jobs.run_times[ran]
    started = jobs.starts[ran].astype(np.longdouble)
    finished = started + run_times
    turnarounds = finished - jobs.submission_times[ran]
    waits = started - jobs.submission_times[ran]
    with np.errstate(divide="ignore"):
        slowdowns = turnarounds / run_times

    successes = int((jobs.states == STATE_CODES[COMPLETED_SUCCESSFULLY]).sum())

    meter = simulation.energy
    hosts = meter.switchable if meter else None
    seconds = hosts.seconds.tolist() if hosts is not None else _host_times(simulation)
    spent = {f"time_{name}": float(time) for name, time in zip(NAMES, seconds, strict=True)}
    switched = [len(change.hosts) for change in hosts.noted if change.state < 0] if hosts else []

    total = len(jobs.states)
    finishing = len(started)
    return {
        "batsim_version": f"qops-batsim-{__version__}",
        "consumed_joules": float(meter.last_end - meter.first_submission) if meter else 0.0,
        "makespan": _largest(finished),
        "max_slowdown": _largest(slowdowns),
        "max_turnaround_time": _largest(turnarounds),
        "max_waiting_time": _largest(waits),
        "mean_slowdown": _mean(slowdowns, total),
        "mean_turnaround_time": _mean(turnarounds, total),
        "mean_waiting_time": _mean(waits, total),
        "nb_computing_machines": len(simulation.hosts) + len(simulation.storage_hosts),
        "nb_grouped_switches": len(switched),
        "nb_jobs": total,
        "nb_jobs_finished": finishing,
        "nb_jobs_killed": finishing - successes,
        "nb_jobs_rejected": total - finishing,
        "nb_jobs_success": successes,
        "nb_machine_switches": sum(switched),
        "scheduling_time": 0.0,
        "simulation_time": 0.0,
        "success_rate": successes / total if total else math.nan,
        **{name: spent[name] for name in sorted(spent)},
    }


def _counted(simulation: Simulation) -> EndedJobs:
    """Return the ended jobs that Batsim's summary counts; none without a scheduler."""
    return simulation.ended_jobs if simulation.options.scheduled else ended_jobs_of([])


def _largest(values: np.ndarray) -> float:
    return float(values.max(initial=0.0))


def _mean(values: np.ndarray, count: int) -> float:
    return float(sum_in_order(values) / count) if count else math.nan


def _number(value: float) -> str:
    """Format like C's ``%f`` on Linux, where Batsim's undefined means are ``-nan``."""
    return "-nan" if math.isnan(value) else f"{value:.6f}"


def _host_times(simulation: Simulation) -> list[float]:
    """Return the seconds that hosts spent idle, computing ... (:data:`NAMES`), up to their last
    change.
    """
    jobs = simulation.ended_jobs
    hosts = len(simulation.hosts)
    until = _last_finishes(jobs, hosts)
    if simulation.options.compute_sharing:
        computing = math.fsum(_computing_by_host(jobs, hosts).tolist())
    else:
        spans = (jobs.finishes - jobs.starts) * _sizes(jobs.hosts)
        computing = math.fsum(spans[jobs.ran].tolist())

    unavailable = 0.0
    for host, outages in _outages_by_host(simulation).items():
        is_here = (jobs.hosts.first <= host) & (host <= jobs.hosts.last)
        runs = _jobs_by_interval(jobs.hosts)[is_here]
        spans = list(zip(jobs.starts[runs].tolist(), jobs.finishes[runs].tolist(), strict=True))
        # What runs on a host that is away goes on, but the host is not in the state computing.
        computing -= math.fsum(
            _union(
                [
                    (max(start, since), min(finish, to))
                    for start, finish in spans
                    if finish > since and start < to
                ]
            )
            for since, to in outages
        )

        unavailable += math.fsum(to - since for since, to in outages if to < math.inf)
        changes = [finish for _, finish in spans if not any(a <= finish < b for a, b in outages)]
        changes += [to if to < math.inf else since for since, to in outages]
        until[host] = max(changes)

    idle = math.fsum(until.tolist()) - computing - unavailable
    return [0.0, 0.0, 0.0, idle, computing, unavailable]


def _outages_by_host(simulation: Simulation) -> dict[int, list[tuple[float, float]]]:
    found: dict[int, list[tuple[float, float]]] = {}
    # As Batsim: not from the dates of events, but from when its server has heard of them.
    for outage in outages_of(simulation.happened, len(simulation.hosts)):
        for host in HostSet.parse(outage.hosts):
            found.setdefault(host, []).append((outage.since, outage.until))
    return found


def _jobs_by_interval(hosts: HostIntervals) -> np.ndarray:
    """Return the index of the job that each interval belongs to."""
    return np.repeat(np.arange(len(hosts.offsets) - 1), np.diff(hosts.offsets))


def _sizes(hosts: HostIntervals) -> np.ndarray:
    """Return the number of hosts in each set."""
    before = np.concatenate([[0], np.cumsum(hosts.last - hosts.first + 1)])
    return np.diff(before[hosts.offsets])


def _last_finishes(jobs: EndedJobs, hosts: int) -> np.ndarray:
    """Return when the last job recorded on each host finished (seconds); 0 for unused hosts."""
    latest = np.asarray(last_cover(jobs.hosts.first, jobs.hosts.last, hosts))
    job = np.append(_jobs_by_interval(jobs.hosts), len(jobs.finishes))
    finishes: np.ndarray = np.append(jobs.finishes, 0.0)[job[latest]]
    return finishes


def _computing_by_host(jobs: EndedJobs, hosts: int) -> np.ndarray:
    """Return how long each host computed (seconds), however many jobs it ran."""
    total, covered = np.zeros(hosts), np.full(hosts, -math.inf)
    offsets, first, last = (column.tolist() for column in jobs.hosts)
    starts = jobs.starts
    finishes = jobs.finishes
    for job in np.lexsort((finishes, starts)).tolist():
        for place in range(offsets[job], offsets[job + 1]):
            part = slice(first[place], last[place] + 1)
            fresh = finishes[job] - np.maximum(starts[job], covered[part])
            total[part] += np.maximum(0.0, fresh)
            covered[part] = np.maximum(covered[part], finishes[job])
    return total


def _union(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals (seconds)."""
    total, covered = 0.0, -math.inf
    for start, finish in sorted(spans):
        total += max(0.0, finish - max(start, covered))
        covered = max(covered, finish)
    return total
