"""Handing runs to evalys (https://github.com/oar-team/evalys), the usual tool for Batsim's files.

Only its ``JobSet`` is used: with current versions of pandas, its ``Workload`` class does not work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans


def to_jobset(result: RunResult, keep: Booleans | None = None) -> Any:
    """Return the executed jobs of a run as an ``evalys.jobset.JobSet``.

    ``keep`` tells which to take, one value a job. Rejected jobs are always left out, since evalys
    would count their missing dates. ``JobSet.from_csv`` reads the same from a ``_jobs.csv``.
    """
    from evalys.jobset import JobSet, ProcSet

    wanted = result.executed if keep is None else result.executed & keep
    jobs = result.jobs[wanted].drop(columns=["id"])
    jobs["allocated_resources"] = [ProcSet.from_str(t) for t in jobs["allocated_resources"]]
    return JobSet(jobs, resource_bounds=(0, result.hosts - 1))


def draw_gantt(
    result: RunResult,
    axes: Any,
    *,
    keep: Booleans,
    color_of: Callable[[int], Any],
    label_of: Callable[[int], str],
) -> None:
    """Draw the jobs of ``keep`` with evalys as labelled rectangles, host *h* from *h* to *h* + 0.9.

    Limits and title of the axes are left to the caller; ``color_of`` and ``label_of`` give
    colour and text of the job in a row of the run.
    """
    from evalys.visu.legacy import plot_gantt

    rows = np.flatnonzero(result.executed & keep)
    # evalys numbers the jobs from 0, in our order.
    plot_gantt(
        to_jobset(result, keep),
        ax=axes,
        palette=["white"],
        alpha=0.85,
        color_function=lambda job, palette: color_of(int(rows[job.name])),
        label_function=lambda job: label_of(int(rows[job.name])),
    )
