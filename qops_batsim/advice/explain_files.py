"""What the files of any run tell about one job: for schedulers without decision log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from qops_batsim.advice.history import find_job
from qops_batsim.analysis.results.run import RunResult, read_files
from qops_batsim.analysis.results.run_files import find_run
from qops_batsim.analysis.results.tables import Booleans, read_reasons
from qops_batsim.dates import Calendar
from qops_batsim.timing import PLAN_TOLERANCE


class PlainExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job, without what its scheduler thought; dates in seconds."""

    run: str
    scheduler: str | None
    machine_processors: int
    job: str
    processors: int
    submission: float
    state: str
    """Batsim's final state."""
    reason: str = ""
    """What the scheduler noted, in words; mostly why the job was rejected."""
    start: float | None = None
    end: float | None = None
    waited: float | None = None
    """None, as the two above, if it did not run."""
    free_processors: int | None = None
    """Hosts that no job used just after its submission."""
    ahead: list[str] = []
    """Full ids of the jobs that had been submitted before and did not run yet."""
    freed_by: list[str] = []
    """Full ids of the jobs that ended when it started."""
    calendar: Calendar | None = None
    """What the seconds are as dates, if that is known."""


def explain_from_files(run: str | Path, name: str) -> PlainExplanation:
    """Tell what became of a job (full id, or the part behind ``!``) of any run; O(jobs)."""
    files = find_run(run)
    result = read_files(files)
    ids = result.ids
    rows = {job_id: row for row, job_id in enumerate(ids)}
    job_id = find_job(name, rows, result.source)
    row = rows[job_id]
    told = PlainExplanation(
        run=str(run),
        scheduler=None if result.info is None else result.info.scheduler,
        machine_processors=result.hosts,
        job=job_id,
        processors=int(result.column("requested_number_of_resources")[row]),
        submission=float(result.column("submission_time")[row]),
        state=result.text("final_state")[row],
        calendar=result.calendar,
        reason="" if files.qos is None else read_reasons(files.qos).get(job_id, ""),
    )
    return _with_times(told, result, ids, row) if result.executed[row] else told


def _with_times(
    told: PlainExplanation, result: RunResult, ids: list[str], row: int
) -> PlainExplanation:
    submitted, start = result.column("submission_time"), result.column("starting_time")
    end = result.column("finish_time")
    date = told.submission
    running = (start <= date) & (end > date + PLAN_TOLERANCE)
    running[row] = False
    # A job that never runs has no start, and waits for nothing.
    ahead = (submitted < date - PLAN_TOLERANCE) & (start > date + PLAN_TOLERANCE)
    freed = np.abs(end - start[row]) <= PLAN_TOLERANCE
    freed[row] = False
    return msgspec.structs.replace(
        told,
        start=float(start[row]),
        end=float(end[row]),
        waited=float(start[row] - date),
        free_processors=result.hosts - _used_hosts(result, running),
        ahead=[ids[each] for each in np.flatnonzero(ahead)],
        freed_by=[ids[each] for each in np.flatnonzero(freed)],
    )


def _used_hosts(result: RunResult, running: Booleans) -> int:
    """Return on how many hosts some of these jobs run; several may share one."""
    rows, first, last = result.allocations
    used = np.zeros(result.hosts, dtype=np.bool_)
    for row, low, high in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True):
        if running[row]:
            used[low : high + 1] = True
    return int(used.sum())
