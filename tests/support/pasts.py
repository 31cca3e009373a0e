"""Pasts of machines, made up."""

from __future__ import annotations

import numpy as np

from qops_batsim import Job
from qops_batsim.queue import WEEK, Moment, Past, Simulator
from qops_batsim.queue.past import groups_of


def past(processors: int, rows: list[tuple[float, float, float, float, int]], **names: str) -> Past:
    """Return jobs: submission, start, run time, limit (seconds) and processors."""
    dates, starts, run_times, limits, widths = np.array(rows, float).T
    users = names.get("users", "a" * len(rows))
    told = np.array([[user, "", ""] for user in users], object)
    columns = zip(dates.tolist(), widths.astype(int).tolist(), limits.tolist(), strict=True)
    made = [
        Job(str(row), date, width, "", limit) for row, (date, width, limit) in enumerate(columns)
    ]
    return Past(
        processors=processors,
        submissions=dates,
        starts=starts,
        cancelled=np.full(len(rows), np.nan),
        run_times=run_times,
        limits=limits,
        widths=widths.astype(np.int64),
        groups=groups_of(told, limits),
        names=told,
        jobs=made,
        history=len(rows),
    )


def history(count: int = 600, seed: int = 3) -> Past:
    """Return some weeks of jobs on eight processors that use half of their limits."""
    rng = np.random.default_rng(seed)
    dates = np.sort(rng.uniform(0, 4 * WEEK, count))
    widths = rng.integers(1, 9, count)
    limits = rng.choice([3600.0, 7200.0, 36_000.0], count)
    used = rng.uniform(0.1, 0.9, count)
    rows = [*zip(dates, np.full(count, np.nan), used * limits, limits, widths, strict=True)]
    jobs = past(8, rows, users="".join(rng.choice(list("abcd"), count)))
    everybody = Moment(0.0, np.arange(0), np.arange(count))
    return jobs._replace(starts=Simulator(jobs).starts(everybody, jobs.run_times))
