"""The workloads that a run was made of, and their jobs by the identifiers of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from qops_batsim.analysis.results.run import RunResult
from qops_batsim.errors import InputError
from qops_batsim.jobs import Job
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.model import Workload


def read_workloads(paths: Sequence[Path]) -> dict[str, Workload]:
    """Read workloads and name them as Batsim does, in order: ``w0``, ``w1``, …"""
    return {f"w{index}": read_workload(path) for index, path in enumerate(paths)}


def recorded_workloads(result: RunResult) -> list[Path]:
    """Return the workloads that ``_run.json`` names, in order, if all of them still exist.

    A name may be a path or that of a workload that comes with the package. That of an object of a
    program is only where it once came from, which says nothing of its jobs.
    """
    if result.info is None or result.info.workload is None or of_program(result):
        return []
    named = result.info.workload
    try:
        found = [
            find_input(each, "workloads") for each in ([named] if type(named) is str else named)
        ]
    except InputError:
        return []
    # A pipe of that name is another one by now.
    return found if all(path.is_file() for path in found) else []


def of_program(result: RunResult) -> bool:
    """Tell whether a program handed its own workload to the run, which no file has."""
    return result.info is not None and "workload" in result.info.python_objects


def workloads_of_run(
    result: RunResult, given: Sequence[Path] | None = None
) -> tuple[dict[str, Workload], str | None]:
    """Return the workloads given, else those that ``_run.json`` names; and what is to be doubted.

    A file by that name with other content than the run had is not taken: only a given one is.
    """
    paths = given or recorded_workloads(result)
    found = read_workloads(paths)
    digest = None if result.info is None else result.info.sha256.get("workload")
    if not paths or digest in (None, *(each.sha256 for each in found.values())):
        return found, None
    if given:
        return found, f"{paths[0]} is not the file that the run was made of"
    return {}, f"{paths[0]} has changed since the run"


def workloads_with_deadlines(result: RunResult) -> tuple[dict[str, Workload], str | None]:
    """Return the workloads that a run was made of, for their deadlines.

    None of them where ``_qos.csv`` says that there is no deadline; else, if they are not to be had
    as they were, why.
    """
    qos = result.decisions
    if qos is None or np.isnan(qos.requested_deadlines).all():
        return {}, None
    found, why_not = workloads_of_run(result)
    if not (found or why_not):
        gone = "is not where the run had it"
        gone = "came from a program" if of_program(result) else gone
        why_not = f"the workload with its deadlines {gone}"
    return found, why_not


def jobs_by_id(workloads: Mapping[str, Workload]) -> dict[str, Job]:
    """Return the jobs of workloads by full identifier (``"w0!15"``), in their order; O(jobs)."""
    return {
        f"{name}!{job.id}": job for name, workload in workloads.items() for job in workload.jobs
    }
