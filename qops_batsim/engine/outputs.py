"""The three output files of a simulation, in Batsim v4.2.1's columns and formats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from qops_batsim.engine.ended_jobs import EndedJobs
from qops_batsim.engine.records import JobRecord
from qops_batsim.engine.simulation import Simulation
from qops_batsim.files import write_text
from qops_batsim.jobs import COMPLETED_SUCCESSFULLY, REJECTED
from qops_batsim.platform.hostset import HostSet
from qops_batsim.version import __version__

MACHINE_STATES_COLUMNS = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"


def write_outputs(
    simulation: Simulation, prefix: str | Path, *, machine_states: bool = True
) -> list[Path]:
    """Write ``PREFIX_jobs.csv``, ``PREFIX_schedule.csv`` and ``PREFIX_machine_states.csv``.

    Differences from Batsim, so that equal runs give equal bytes:
    ``batsim_version`` names this package, and ``scheduling_time`` and
    ``simulation_time`` (wall-clock seconds there) are 0. Missing directories are made. The
    third file is left out without ``machine_states``.
    """
    texts = {
        "jobs": format_jobs(simulation.ended_jobs),
        "schedule": format_schedule(simulation),
    }
    if machine_states:
        texts["machine_states"] = format_machine_states(simulation.computing_changes)
    paths = []
    for name, text in texts.items():
        path = Path(f"{prefix}_{name}.csv")
        write_text(path, text)
        paths.append(path)
    return paths


_HEAD = "%s,%s,%s,%.6f,%d,%.6f,%d,%s"
_RAN = _HEAD + ",%.6f" * 6 + ',%s,%.6f,"%s"'
_REJECTED = _HEAD + "," * 9 + '"%s"'


def format_jobs(ended: EndedJobs) -> str:
    """Return ``_jobs.csv``: one row a job, in the order in which their ends were noted."""
    columns = ended.table()
    lines = [",".join(columns)]
    columns["metadata"] = [text.replace('"', '""') for text in columns["metadata"]]
    cells = (c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values())
    for row in zip(*cells, strict=True):
        if row[7] == REJECTED:
            lines.append(_REJECTED % (*row[:8], row[-1]))
        else:
            lines.append(_RAN % row)
    return "\n".join(lines) + "\n"


def format_machine_states(changes: Sequence[tuple[float, int, int]]) -> str:
    """Return ``_machine_states.csv``: a row after every start and end."""
    rows = (f"{date:g},0,0,0,{idle},{computing}" for date, computing, idle in changes)
    return "\n".join([MACHINE_STATES_COLUMNS, *rows]) + "\n"


def format_schedule(simulation: Simulation) -> str:
    """Return ``_schedule.csv``: one row of totals.

    As in Batsim, means divide by all jobs, rejected ones included, and the time
    that hosts compute or idle runs only up to each host's last change.
    """
    ended = simulation.ended
    ran = [record for record in ended if record.state != REJECTED]
    successes = sum(record.state == COMPLETED_SUCCESSFULLY for record in ran)
    waits = [record.start - record.submission_time for record in ran]
    turnarounds = [record.written_finish - record.submission_time for record in ran]
    slowdowns = [_stretch(record) for record in ran]
    computing, idle, unavailable = _host_times(simulation, ran)
    meter = simulation.energy
    everything = range(len(simulation.hosts))
    total = len(ended)
    values: dict[str, str | int | float] = {
        "batsim_version": f"qops-batsim-{__version__}",
        "consumed_joules": 0.0 if meter is None else meter.consumed(everything, simulation.now),
        "makespan": max((record.written_finish for record in ran), default=0.0),
        "max_slowdown": max(slowdowns, default=0.0),
        "max_turnaround_time": max(turnarounds, default=0.0),
        "max_waiting_time": max(waits, default=0.0),
        "mean_slowdown": _share(math.fsum(slowdowns), total),
        "mean_turnaround_time": _share(math.fsum(turnarounds), total),
        "mean_waiting_time": _share(math.fsum(waits), total),
        "nb_computing_machines": len(simulation.hosts),
        "nb_grouped_switches": 0,
        "nb_jobs": total,
        "nb_jobs_finished": len(ran),
        "nb_jobs_killed": len(ran) - successes,
        "nb_jobs_rejected": total - len(ran),
        "nb_jobs_success": successes,
        "nb_machine_switches": 0,
        "scheduling_time": 0.0,
        "simulation_time": 0.0,
        "success_rate": _share(successes, total),
        "time_computing": computing,
        "time_idle": idle,
        "time_sleeping": 0.0,
        "time_switching_off": 0.0,
        "time_switching_on": 0.0,
        "time_unavailable": unavailable,
    }
    cells = (_number(v) if isinstance(v, float) else str(v) for v in values.values())
    return ",".join(values) + "\n" + ",".join(cells) + "\n"


def _stretch(record: JobRecord) -> float:
    """Turnaround time over run time."""
    finish = record.written_finish
    return (finish - record.submission_time) / (finish - record.start)


def _share(part: float, whole: int) -> float:
    return part / whole if whole else math.nan


def _number(value: float) -> str:
    """Format as C's ``%f`` does on Linux, where Batsim's undefined means are ``-nan``."""
    return "-nan" if math.isnan(value) else f"{value:.6f}"


def _host_times(simulation: Simulation, ran: list[JobRecord]) -> tuple[float, float, float]:
    """Return the seconds that hosts computed, idled and were away, each up to its last change."""
    hosts = len(simulation.hosts)
    until = _last_changes(ran, hosts)
    if simulation.options.compute_sharing:
        computing = math.fsum(_union(spans) for spans in _spans_by_host(ran, hosts))
    else:
        computing = math.fsum((r.finish - r.start) * len(r.hosts) for r in ran)
    unavailable = 0.0
    for host, outages in _outages_by_host(simulation).items():
        spans = [(record.start, record.finish) for record in ran if host in record.hosts]
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
    return computing, math.fsum(until) - computing - unavailable, unavailable


def _outages_by_host(simulation: Simulation) -> dict[int, list[tuple[float, float]]]:
    found: dict[int, list[tuple[float, float]]] = {}
    for outage in simulation.outages:
        for host in HostSet.parse(outage.hosts):
            found.setdefault(host, []).append((outage.since, outage.until))
    return found


def _last_changes(ran: list[JobRecord], hosts: int) -> list[float]:
    """Return each host's last finish (seconds). Ends are noted in order of date."""
    until = [0.0] * hosts
    unseen = (1 << hosts) - 1
    for record in reversed(ran):
        fresh = record.hosts.mask & unseen
        if fresh:
            unseen &= ~fresh
            while fresh:
                low = fresh & -fresh
                until[low.bit_length() - 1] = record.finish
                fresh ^= low
            if not unseen:
                break
    return until


def _spans_by_host(ran: list[JobRecord], hosts: int) -> Iterator[list[tuple[float, float]]]:
    spans: list[list[tuple[float, float]]] = [[] for _ in range(hosts)]
    for record in ran:
        for host in record.hosts:
            spans[host].append((record.start, record.finish))
    yield from spans


def _union(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals (seconds)."""
    total, covered = 0.0, -math.inf
    for start, finish in sorted(spans):
        total += max(0.0, finish - max(start, covered))
        covered = max(covered, finish)
    return total
