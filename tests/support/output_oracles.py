"""The output files of a simulation written naively, job by job, from its records."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qops_batsim.core import HostSet
from qops_batsim.engine import JobRecord, Simulation
from qops_batsim.engine.records import SHORTEST_RUN_TIME
from qops_batsim.jobs import COMPLETED_SUCCESSFULLY, REJECTED
from qops_batsim.version import __version__

JOBS_HEADER = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,"
    "success,final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,"
    "stretch,allocated_resources,consumed_energy,metadata"
)

STATES_HEADER = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"


def plain_jobs(ended: Sequence[JobRecord]) -> str:
    lines = [JOBS_HEADER]
    for record in ended:
        job = record.job
        workload, _, name = job.id.partition("!")
        walltime = -1 if job.walltime is None else job.walltime
        done = int(record.state == COMPLETED_SUCCESSFULLY)
        head = f"{name},{workload},{job.profile},{job.submission_time:.6f},{job.processors},"
        head += f"{walltime:.6f},{done},{record.state}"
        metadata = record.metadata.replace('"', '""')
        if record.state == REJECTED:
            lines.append(f'{head},,,,,,,,,"{metadata}"')
            continue
        start, finish = record.start, _written_finish(record)
        turnaround, run_time = finish - job.submission_time, _run_time(record)
        dates = (start, run_time, finish, start - job.submission_time, turnaround)
        cells = ",".join(f"{value:.6f}" for value in (*dates, turnaround / run_time))
        energy = -1 if record.energy is None else record.energy
        lines.append(f'{head},{cells},{record.hosts},{energy:.6f},"{metadata}"')
    return "\n".join(lines) + "\n"


def plain_machine_states(changes: Sequence[tuple[float, int, int]]) -> str:
    rows = [f"{date:g},0,0,0,{idle},{computing}" for date, computing, idle in changes]
    return "\n".join([STATES_HEADER, *rows]) + "\n"


def plain_schedule(simulation: Simulation) -> str:
    """Return ``_schedule.csv``: all hosts of all jobs are looked at one by one."""
    ended = simulation.ended
    ran = [record for record in ended if record.state != REJECTED]
    successes = sum(record.state == COMPLETED_SUCCESSFULLY for record in ran)
    waits = [record.start - record.submission_time for record in ran]
    turnarounds = [_written_finish(record) - record.submission_time for record in ran]
    stretches = [
        turnaround / _run_time(record) for turnaround, record in zip(turnarounds, ran, strict=True)
    ]
    computing, idle, away = plain_host_times(simulation)
    meter = simulation.energy
    joules = 0.0 if meter is None else float(meter.last_end - meter.first_submission)
    total = len(ended)

    def mean(values: list[float]) -> float:
        return math.fsum(values) / total if total else math.nan

    values: dict[str, str | float] = {
        "batsim_version": f"qops-batsim-{__version__}",
        "consumed_joules": joules,
        "makespan": max((_written_finish(record) for record in ran), default=0.0),
        "max_slowdown": max(stretches, default=0.0),
        "max_turnaround_time": max(turnarounds, default=0.0),
        "max_waiting_time": max(waits, default=0.0),
        "mean_slowdown": mean(stretches),
        "mean_turnaround_time": mean(turnarounds),
        "mean_waiting_time": mean(waits),
        "nb_computing_machines": str(len(simulation.hosts)),
        "nb_grouped_switches": "0",
        "nb_jobs": str(total),
        "nb_jobs_finished": str(len(ran)),
        "nb_jobs_killed": str(len(ran) - successes),
        "nb_jobs_rejected": str(total - len(ran)),
        "nb_jobs_success": str(successes),
        "nb_machine_switches": "0",
        "scheduling_time": 0.0,
        "simulation_time": 0.0,
        "success_rate": successes / total if total else math.nan,
        "time_computing": computing,
        "time_idle": idle,
        "time_sleeping": 0.0,
        "time_switching_off": 0.0,
        "time_switching_on": 0.0,
        "time_unavailable": away,
    }
    cells = [value if isinstance(value, str) else _number(value) for value in values.values()]
    return ",".join(values) + "\n" + ",".join(cells) + "\n"


def plain_host_times(simulation: Simulation) -> tuple[float, float, float]:
    """Return the seconds that hosts computed, idled and were away, each up to its last change."""
    ran = [record for record in simulation.ended if record.state != REJECTED]
    spans: list[list[tuple[float, float]]] = [[] for _ in simulation.hosts]
    for record in ran:
        for host in record.hosts:
            spans[host].append((record.start, record.finish))
    until = [max((finish for _, finish in each), default=0.0) for each in spans]
    if simulation.options.compute_sharing:
        computing = math.fsum(map(_union, spans))
    else:
        computing = math.fsum((each.finish - each.start) * len(each.hosts) for each in ran)
    outages: dict[int, list[tuple[float, float]]] = {}
    for outage in simulation.outages:
        for host in HostSet.parse(outage.hosts):
            outages.setdefault(host, []).append((outage.since, outage.until))
    away = 0.0
    for host, times in outages.items():
        computing -= math.fsum(
            _union([(max(a, since), min(b, to)) for a, b in spans[host] if b > since and a < to])
            for since, to in times
        )
        away += math.fsum(to - since for since, to in times if to < math.inf)
        ends = [b for _, b in spans[host] if not any(since <= b < to for since, to in times)]
        until[host] = max(ends + [since if to == math.inf else to for since, to in times])
    return computing, math.fsum(until) - computing - away, away


def _run_time(record: JobRecord) -> float:
    if record.finish > record.start:
        return record.finish - record.start
    return max(SHORTEST_RUN_TIME, math.ulp(record.start))


def _written_finish(record: JobRecord) -> float:
    later = record.finish > record.start
    return record.finish if later else record.start + _run_time(record)


def _union(spans: list[tuple[float, float]]) -> float:
    total, covered = 0.0, -math.inf
    for start, finish in sorted(spans):
        total += max(0.0, finish - max(start, covered))
        covered = max(covered, finish)
    return total


def _number(value: float) -> str:
    return "-nan" if math.isnan(value) else f"{value:.6f}"
