"""Writing the files of small runs, by plain means."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.qos_files import by_workload

HEADER = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,"
    "success,final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,"
    "stretch,allocated_resources,consumed_energy,metadata"
)
COLUMNS = HEADER.split(",")
QOS_HEADER = (
    "job_id,requested_deadline,offered_deadline,decision,reason,admitted_deadline,category,"
    "resource_charge,qos_charge,kills,latest_start"
)


@dataclass
class Ran:
    """A job of a run; ``hosts`` None means rejected. ``edits`` overwrite cells."""

    id: str
    submission: float
    requested: int
    start: float = 0.0
    run_time: float = 0.0
    hosts: list[int] | None = None
    walltime: float = -1.0
    state: str = "COMPLETED_SUCCESSFULLY"
    profile: str = "p"
    workload: str = "w0"
    edits: dict[str, str] = field(default_factory=dict)

    @property
    def finish(self) -> float:
        return self.start + self.run_time

    def cells(self) -> dict[str, str]:
        cells = dict.fromkeys(COLUMNS, "")
        rejected = self.hosts is None
        cells |= {
            "job_id": self.id,
            "workload_name": self.workload,
            "profile": self.profile,
            "submission_time": f"{self.submission:.6f}",
            "requested_number_of_resources": str(self.requested),
            "requested_time": f"{self.walltime:.6f}",
            "success": str(int(self.state == "COMPLETED_SUCCESSFULLY" and not rejected)),
            "final_state": "REJECTED" if rejected else self.state,
            "metadata": '""',
        }
        if not rejected:
            turnaround = self.finish - self.submission
            cells |= {
                "starting_time": f"{self.start:.6f}",
                "execution_time": f"{self.run_time:.6f}",
                "finish_time": f"{self.finish:.6f}",
                "waiting_time": f"{self.start - self.submission:.6f}",
                "turnaround_time": f"{turnaround:.6f}",
                "stretch": f"{turnaround / self.run_time:.6f}",
                "allocated_resources": " ".join(map(str, self.hosts)),
                "consumed_energy": "-1.000000",
            }
        return cells | self.edits


def jobs_csv(jobs: list[Ran]) -> str:
    rows = [",".join(job.cells()[column] for column in COLUMNS) for job in jobs]
    return "\n".join([HEADER, *rows]) + "\n"


def schedule_csv(jobs: list[Ran], hosts: int) -> str:
    ran = [job for job in jobs if job.hosts is not None]
    success = sum(job.state == "COMPLETED_SUCCESSFULLY" for job in ran)
    waits = [job.start - job.submission for job in ran]
    turnarounds = [job.finish - job.submission for job in ran]
    slowdowns = [(job.finish - job.submission) / job.run_time for job in ran]
    values = {
        "batsim_version": "test",
        "makespan": max(job.finish for job in ran),
        "max_slowdown": max(slowdowns),
        "max_turnaround_time": max(turnarounds),
        "max_waiting_time": max(waits),
        "mean_slowdown": sum(slowdowns) / len(jobs),
        "mean_turnaround_time": sum(turnarounds) / len(jobs),
        "mean_waiting_time": sum(waits) / len(jobs),
        "nb_computing_machines": hosts,
        "nb_jobs": len(jobs),
        "nb_jobs_finished": len(ran),
        "nb_jobs_killed": len(ran) - success,
        "nb_jobs_rejected": len(jobs) - len(ran),
        "nb_jobs_success": success,
        "success_rate": success / len(jobs),
        "time_computing": sum(job.run_time * len(job.hosts or []) for job in ran),
    }
    cells = [f"{v:.6f}" if isinstance(v, float) else str(v) for v in values.values()]
    return ",".join(values) + "\n" + ",".join(cells) + "\n"


def machine_states_csv(jobs: list[Ran], hosts: int) -> str:
    ran = [job for job in jobs if job.hosts is not None]
    # At one date, ends come before starts.
    changes = sorted(
        [(job.finish, 0, -len(job.hosts or [])) for job in ran]
        + [(job.start, 1, len(job.hosts or [])) for job in ran]
    )
    lines, computing = ["time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"], 0
    for date, _, change in changes:
        computing += change
        lines.append(f"{date:g},0,0,0,{hosts - computing},{computing}")
    return "\n".join(lines) + "\n"


def qos_csv(jobs: list[Ran]) -> str:
    """As the jobs were: none was promised anything."""
    rows = [
        f"{job.workload}!{job.id},,,{'rejected' if job.hosts is None else 'accepted'},,,,,,0,"
        for job in jobs
    ]
    return by_workload("\n".join([QOS_HEADER, *rows]))


@dataclass
class Writer:
    """Writes the files of a run below a directory and returns its prefix."""

    directory: Path
    ran: type[Ran] = Ran

    def __call__(
        self, jobs: list[Ran], *, hosts: int | None = None, name: str = "run", totals: bool = False
    ) -> Path:
        """Write ``_jobs.csv``, with ``totals`` the three other files, with ``hosts`` the info."""
        prefix = self.directory / name
        Path(f"{prefix}_jobs.csv").write_text(jobs_csv(jobs))
        if hosts is not None:
            Path(f"{prefix}_run.json").write_text(json.dumps({"hosts": hosts}))
        if totals:
            assert hosts is not None
            Path(f"{prefix}_schedule.csv").write_text(schedule_csv(jobs, hosts))
            Path(f"{prefix}_machine_states.csv").write_text(machine_states_csv(jobs, hosts))
            Path(f"{prefix}_qos.csv").write_text(qos_csv(jobs))
        return prefix


@pytest.fixture
def write_run(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


@pytest.fixture
def mixed_run(write_run: Writer) -> Callable[[], list[Ran]]:
    """A valid run on 4 hosts with one job of each end, as a function: callers change the jobs."""

    def jobs() -> list[Ran]:
        return [
            Ran("1", 0, 2, 0, 10, [0, 1], 100, profile="d10"),
            Ran("2", 1, 2, 1, 5, [2, 3], 5, "COMPLETED_WALLTIME_REACHED", "d9"),
            Ran("3", 2, 4, 10, 7, [0, 1, 2, 3], -1, "COMPLETED_FAILED", "d7"),
            Ran("4", 3, 5, profile="d10"),
            Ran("5", 4, 1, 17, 3, [3], 50, "COMPLETED_KILLED", "d20"),
            Ran("6", 20, 3, 20, 4, [0, 2, 3], 30, profile="d4"),
        ]

    return jobs
