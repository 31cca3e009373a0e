"""What became of the deadlines that users asked for, under any scheduler.

A deadline counts if the job's user set it (``qos.has_user_deadline`` is not false). A job that the
scheduler killed for good met nothing. What is late by less than the run's grace is in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from qops_batsim.analysis.metrics.outcomes import (
    JobOutcomes,
    is_late,
    outcomes_of_columns,
    outcomes_of_run,
)
from qops_batsim.analysis.results.csv_table import Choices
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, Decisions, Floats
from qops_batsim.workload.model import Workload


class Tally(msgspec.Struct, frozen=True):
    """So many jobs, and their work (processor-seconds), None unless all jobs are of type delay."""

    jobs: int
    work: float | None


class DeadlineMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The deadlines of users in one run.

    ``asked`` is the sum of ``refused``, ``met`` and ``missed``: the jobs that were rejected, that
    ended by the deadline asked for, and that did not. The scheduler ``promised`` a deadline, the
    one asked for or a later one, which was ``kept`` or ``broken``; ``renewed`` are the jobs that
    were promised another one when hosts had left.
    """

    asked: Tally
    promised: Tally
    kept: Tally
    broken: Tally
    met: Tally
    missed: Tally
    refused: Tally
    renewed: int


class Fates(NamedTuple):
    """Which jobs asked for a deadline and were refused, met or missed it, and of the promises."""

    refused: Booleans
    met: Booleans
    missed: Booleans
    promised: Booleans
    kept: Booleans


def fates(outcomes: JobOutcomes, grace: float = 0.0) -> Fates:
    """Return what became of each job's deadline; ``grace`` in seconds. O(jobs)."""
    ended = ~outcomes.refused & ~np.isnan(outcomes.charged_time)
    met = outcomes.of_user & ended & ~is_late(outcomes.finish, outcomes.deadline, grace)
    promised = outcomes.of_user & ~outcomes.refused & np.isfinite(outcomes.promised)
    return Fates(
        refused=outcomes.of_user & outcomes.refused,
        met=met,
        missed=outcomes.of_user & ~outcomes.refused & ~met,
        promised=promised,
        kept=promised & ended & ~is_late(outcomes.finish, outcomes.promised, grace),
    )


def deadline_metrics(
    outcomes: JobOutcomes, *, grace: float = 0.0, renewed: int = 0
) -> DeadlineMetrics:
    """Count the deadlines of users; O(jobs)."""
    work, found = job_work(outcomes), fates(outcomes, grace)

    def tally(which: Booleans) -> Tally:
        return Tally(int(which.sum()), None if work is None else float(work[which].sum()))

    return DeadlineMetrics(
        asked=tally(outcomes.of_user),
        promised=tally(found.promised),
        kept=tally(found.kept),
        broken=tally(found.promised & ~found.kept),
        met=tally(found.met),
        missed=tally(found.missed),
        refused=tally(found.refused),
        renewed=renewed,
    )


def deadlines_of_run(
    result: RunResult, workloads: Mapping[str, Workload]
) -> DeadlineMetrics | None:
    """Count the deadlines of users in a run of these workloads, by name; None if there is none."""
    if not any(map(has_user_deadlines, workloads.values())):
        return None
    renewed = 0 if result.decisions is None else int((result.decisions.new_promises > 0).sum())
    grace = result.grace
    return deadline_metrics(
        outcomes_with_deadlines(result, workloads), grace=grace, renewed=renewed
    )


def has_user_deadlines(workload: Workload) -> bool:
    """Tell whether any job's user set a deadline; O(jobs)."""
    return any(
        qos is not None and qos.deadline is not None and qos.has_user_deadline is not False
        for qos in workload.columns.requests or ()
    )


def outcomes_with_deadlines(result: RunResult, workloads: Mapping[str, Workload]) -> JobOutcomes:
    """Return what became of each job, also in runs of schedulers that tell of no decisions."""
    if result.decisions is None:
        none: Floats = np.empty(0)
        no_decisions = Decisions([], np.empty(0, np.int8), none, none, none, none)
        result = replace(result, decisions=no_decisions)
    if len(workloads) == 1 and not result.earlier_runs:
        ((name, workload),) = workloads.items()
        found = outcomes_of_columns(_Ended(result), workload, _promised(result, name))
        if found is not None:
            return found
    return outcomes_of_run(result, workloads)


class _Ended:
    """The jobs of a run, each of which ran once, in columns."""

    def __init__(self, result: RunResult) -> None:
        self.ids = list(result.text("job_id"))
        self.states: Choices = result.table.states
        ran = result.executed
        self.starts = np.where(ran, result.column("starting_time"), np.nan)
        self.finishes = np.where(ran, result.column("finish_time"), np.nan)


def _promised(result: RunResult, name: str) -> dict[str, float]:
    qos = result.decisions
    if qos is None:
        return {}
    rows = np.flatnonzero(~np.isnan(qos.admitted_deadlines))
    begin = len(name) + 1
    return {qos.ids[row][begin:]: float(qos.admitted_deadlines[row]) for row in rows.tolist()}


def job_work(outcomes: JobOutcomes) -> Floats | None:
    """Return the processor-seconds of each job, None unless all are of type delay. O(jobs)."""
    work: Floats = outcomes.processors * np.concatenate(
        [_run_times(each) for each in outcomes.workloads]
    )
    return None if np.isnan(work).any() else work


def _run_times(workload: Workload) -> Floats:
    """Return how long each job runs on its own (seconds), NaN for one that does not just last."""
    columns, profiles = workload.columns, workload.profiles
    used = (profiles.get(name, {}) for name in columns.profile_names)
    delays = [each["delay"] if each.get("type") == "delay" else np.nan for each in used]
    run_times: Floats = np.minimum(
        np.array(delays, np.float64)[columns.profiles], columns.walltimes
    )
    return run_times
