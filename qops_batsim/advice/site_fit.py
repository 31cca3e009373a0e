"""Which scheduler explains a log's waits: chosen on its earlier half, judged on the later.

Where EASY does not explain the waits of a log, its site may have another scheduler: first come
first served, conservative backfilling, or Slurm with some weights of its multifactor priority.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from qops_batsim.advice.wait_fit import HIGH, LEAST_WAIT, LOW, ModelFit, fit_of_waits
from qops_batsim.economics.charges import Categories
from qops_batsim.experiments.changed_options import ChangedOptions
from qops_batsim.experiments.deadline_runs import (
    Contestant,
    contestant_of,
    outcomes_of,
)
from qops_batsim.experiments.pool import Workers, run_cases
from qops_batsim.platform.equal_hosts import make_cluster
from qops_batsim.protocol.port import make_scheduler
from qops_batsim.tables import Floats
from qops_batsim.workload.scale import subset
from qops_batsim.workload.workload_model import Workload

_NO_WEIGHT = dict.fromkeys(
    ("weight_age", "weight_size", "weight_partition", "weight_qos", "weight_fairshare"), 0.0
)

_WEIGHTS: dict[str, dict[str, object]] = {
    "age": {"weight_age": 1000.0},
    "age, size": {"weight_age": 1000.0, "weight_size": 1000.0},
    "small jobs first": {"weight_age": 1000.0, "weight_size": 10_000.0, "favor_small": True},
    "large jobs first": {"weight_age": 1000.0, "weight_size": 10_000.0},
    "fair share": {"weight_fairshare": 1000.0},
    "age, fair share": {"weight_age": 1000.0, "weight_fairshare": 1000.0},
    "fair share before age": {"weight_age": 1000.0, "weight_fairshare": 10_000.0},
}
"""Weights of Slurm that are tried, by what decides."""

STRETCH = 5_000
"""Jobs of a trace that are simulated, the last ones, under each scheduler."""

WARM_UP = 0.1
"""Share of these that are not compared: the simulation begins with an empty machine."""

_QOS = 100.0
"""Weight of the QOS that is tried, in weights of age."""


class WaitsCase(msgspec.Struct, frozen=True):
    """A scheduler with its options, under which the waits of a log's jobs are simulated."""

    scheduler: str
    settings: ChangedOptions = ()


@dataclass(frozen=True)
class WaitRuns:
    """Callable that simulates a trace under a scheduler and returns each job's wait (seconds)."""

    trace: Workload

    def __call__(self, case: WaitsCase) -> list[float]:
        """Return each job's simulated wait (seconds) under the scheduler of a case, infinite for a
        job that never starts.
        """
        module = make_scheduler(case.scheduler, dict(case.settings))
        outcomes, _ = outcomes_of(self.trace, make_cluster(self.trace.processors), module)
        waits = outcomes.start - outcomes.submission
        by_id = dict(zip(outcomes.ids, np.where(np.isnan(waits), np.inf, waits), strict=True))
        return [float(by_id[job.id]) for job in self.trace.jobs]


def site_schedulers(trace: Workload, logged: Floats) -> list[Contestant]:
    """Return the schedulers that may explain the waits in a log: EASY, FCFS, conservative
    backfilling, and Slurm with various priority weights.

    The QOS of a job gets a priority by the median wait in the log (seconds, by job), the longer the
    lower.
    """
    schedulers = [contestant_of(name) for name in ("easy", "fcfs", "conservative")]
    several_users = len({job.fields.get("user") for job in trace.jobs}) > 1
    for name, weights in _WEIGHTS.items():
        if several_users or "weight_fairshare" not in weights:
            schedulers.append(_slurm(name, weights))

    waits: dict[str, list[float]] = {}
    for job, wait in zip(trace.jobs, logged.tolist(), strict=True):
        if wait >= 0:
            waits.setdefault(str(job.fields.get("qos_name", "")), []).append(wait)
    if len(waits) > 1:
        ranked = sorted(waits, key=lambda name: -float(np.median(waits[name])))
        priorities = {name: {"priority": float(place)} for place, name in enumerate(ranked) if name}
        weights = {"weight_age": 1000.0, "weight_qos": 1000.0 * _QOS, "qos": priorities}
        schedulers.append(_slurm("QOS", weights))
        if several_users:
            schedulers.append(_slurm("QOS, fair share", {**weights, "weight_fairshare": 10_000.0}))
    return schedulers


def _slurm(name: str, weights: dict[str, object]) -> Contestant:
    return Contestant(
        name=f"slurm by {name}", scheduler="slurm", settings={**_NO_WEIGHT, **weights}
    )


def site_fit(
    trace: Workload,
    logged: Floats,
    categories: Categories,
    candidates: Sequence[Contestant] = (),
    *,
    workers: Workers = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> ModelFit:
    """Find the one of several schedulers whose simulated waits are nearest to those in a log, and
    return how well it fits.

    By default those of :func:`site_schedulers`. ``logged`` is how long the jobs waited (seconds, by
    job), below 0 where that is not known.
    """
    count = len(logged)
    order = np.argsort(trace.columns.submission_times, kind="stable")[max(count - STRETCH, 0) :]
    part = subset(trace, first=len(order), skip=count - len(order))
    logged = logged[order]
    tried = candidates or site_schedulers(part, logged)
    cases = {each.name: WaitsCase(each.scheduler, each.identity()[0]) for each in tried}
    runs = run_cases(
        WaitRuns(part),
        list(cases.values()),
        workers=workers,
        group_by=lambda case: case,
        on_progress=on_progress,
    )
    waits = {name: np.array(runs[case]) for name, case in cases.items()}

    # What is chosen on the earlier half is judged on the later one.
    known = np.flatnonzero(logged >= 0)
    known = known[known >= WARM_UP * len(order)]
    earlier, later = np.split(known, [len(known) // 2])
    best = min(waits, key=lambda name: float(np.abs(_apart(waits[name], logged))[earlier].mean()))
    ratios = np.exp(_apart(waits[best], logged)[later])
    widths = part.columns.processors[later]
    return ModelFit(
        classes=fit_of_waits(logged[later], waits[best][later], widths, categories),
        scheduler=best,
        nearest=best,
        tried=len(tried),
        alike=float(((ratios >= LOW) & (ratios <= HIGH)).mean()) if len(later) else None,
    )


def _apart(simulated: Floats, logged: Floats) -> Floats:
    """Return the logarithm of simulated wait / wait in the log, for each job; short waits count as
    ten minutes.
    """
    ours, theirs = (np.maximum(each, LEAST_WAIT) for each in (simulated, logged))
    found: Floats = np.log(np.minimum(ours, 1e12)) - np.log(theirs)
    return found
