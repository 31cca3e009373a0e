"""Comparing schedulers on one trace over loads and seeds, with deadlines.

For each load and seed a deadline workload is made from the trace
(:mod:`qops_batsim.experiments.deadline_workload`) and every scheduler runs on the very same
one, so differences between schedulers are paired.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import Any

import msgspec

from qops_batsim.analysis.metrics.admission import (
    AdmissionMetrics,
    admission_metrics,
    broken_rule,
    outcomes_of_simulation,
)
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.experiments.deadline_workload import deadline_workload
from qops_batsim.experiments.intervals import Interval, mean_interval, paired_difference
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.model import Platform
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.model import Workload
from qops_batsim.workload.subset import PAPER_JOBS


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler with its options.

    Attributes
    ----------
    name
        What tables and pictures call it.
    scheduler
        Registered name.
    settings
        Its options by name.
    """

    name: str
    scheduler: str
    settings: dict[str, Any] = {}


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared.

    Attributes
    ----------
    contestants
        The schedulers, with different names.
    loads
        Relative loads, see :func:`~qops_batsim.workload.scale.scale_load`.
    seeds
        Each chooses duplicates and whose jobs have a user's deadline.
    choices
        How jobs get deadlines; its ``seed`` does not matter.
    method, same_time
        How load is changed.
    skip, first
        Which jobs of the trace to take (``first`` None: all after ``skip``).
    """

    contestants: tuple[Contestant, ...]
    loads: tuple[float, ...]
    seeds: tuple[int, ...]
    choices: DeadlineChoices = DeadlineChoices()
    method: str = "duplication"
    same_time: bool = False
    skip: int = 0
    first: int | None = PAPER_JOBS

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` for anything that cannot be compared."""
        for what, values in (
            ("scheduler", [each.name for each in self.contestants]),
            ("load", [f"{load:g}" for load in self.loads]),
            ("seed", [str(seed) for seed in self.seeds]),
        ):
            if not values:
                raise InputError(f"no {what} to compare; at least one is expected")
            twice = next((each for each in values if values.count(each) > 1), None)
            if twice is not None:
                raise InputError(f"{what} {twice} is given twice; once is expected")
        self.choices.check()
        for each in self.contestants:
            make_scheduler(each.scheduler, each.settings)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the comparison: contestant, load, seed and its metrics."""

    contestant: str
    load: float
    seed: int
    metrics: AdmissionMetrics


METRICS = tuple(
    name for name in AdmissionMetrics.__struct_fields__ if name not in ("jobs", "deadline_jobs")
)
"""Names of the metrics that are averaged over seeds."""


def compare(
    trace: Workload,
    grid: Grid,
    *,
    platform: Platform | None = None,
    workers: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> list[Row]:
    """Run every scheduler of a grid at every load with every seed.

    Parameters
    ----------
    trace
        Jobs of type ``delay``.
    grid
        What to run.
    platform
        The machine; None: as many equal hosts as the trace is for.
    workers
        Processes to work with; the result does not depend on it. They are started afresh
        and import the calling script, which needs its ``if __name__ == "__main__":``.
    on_progress
        Called with the number of runs done.

    Returns
    -------
    list of Row
        One a run, by load, then seed, then contestant in the order of the grid.

    Raises
    ------
    InputError
        The grid, the trace or the platform cannot be used.
    SimulationError
        A schedule breaks a rule: with exact estimates every admitted deadline is met.
    """
    grid.check()
    if workers < 1:
        raise InputError(f"number of workers is {workers}; a whole number above 0 is expected")
    for each in grid.contestants:
        # Also for the workers: they find the compiled kernels in the cache.
        make_scheduler(each.scheduler, each.settings).prepare()
    cells = list(product(grid.loads, grid.seeds))
    rows: list[Row] = []
    for found in _results(trace, grid, platform, cells, min(workers, len(cells))):
        rows += found
        if on_progress is not None:
            on_progress(len(rows))
    return rows


def run_contestants(
    workload: Workload,
    contestants: Iterable[Contestant],
    platform: Platform,
    *,
    load: float,
    seed: int,
) -> list[Row]:
    """Run schedulers on one workload of exact estimates, and check their schedules.

    Raises
    ------
    InputError, SimulationError
        As :func:`compare`.
    """
    rows = []
    for each in contestants:
        module = make_scheduler(each.scheduler, each.settings)
        simulation = simulate(workload, platform, module)
        outcomes = outcomes_of_simulation(simulation.ended, workload)
        promised = {}
        for record in simulation.ended:
            deadline = module.qos_log.record(record.job.id).admitted_deadline
            if deadline is not None:
                promised[record.local_id] = deadline
        hosts = len(simulation.hosts)
        broken = broken_rule(outcomes, hosts, promised)
        if broken is not None:
            raise SimulationError(f"{each.name} at load {load:g} with seed {seed}: {broken}")
        metrics = admission_metrics(outcomes, hosts)
        rows.append(Row(contestant=each.name, load=load, seed=seed, metrics=metrics))
    return rows


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant at one load: each metric over the seeds.

    Attributes
    ----------
    contestant, load
        Which runs.
    metrics
        Mean and interval by name (:data:`METRICS`); None where a run lacks the metric.
    difference
        Paired difference to the baseline (contestant - baseline), likewise.
    """

    contestant: str
    load: float
    metrics: dict[str, Interval | None]
    difference: dict[str, Interval | None]


def summarize(rows: Sequence[Row], baseline: str) -> list[Summary]:
    """Return means over seeds with 95 % intervals, in the order of the rows.

    Parameters
    ----------
    rows
        Runs, of the same seeds for every contestant and load.
    baseline
        Name of the contestant to compare with.

    Raises
    ------
    InputError
        The baseline is none of the contestants.
    """
    groups: dict[tuple[float, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.load, row.contestant), []).append(row)
    if baseline not in {name for _, name in groups}:
        known = ", ".join(dict.fromkeys(name for _, name in groups))
        raise InputError(f"baseline is {baseline!r}; one of {known} is expected")
    result = []
    for (load, name), group in groups.items():
        metrics: dict[str, Interval | None] = {}
        difference: dict[str, Interval | None] = {}
        for metric in METRICS:
            values, others = _values(group, metric), _values(groups[load, baseline], metric)
            metrics[metric] = None if values is None else mean_interval(values)
            comparable = values is not None and others is not None
            difference[metric] = paired_difference(values, others) if comparable else None  # type: ignore[arg-type]
        result.append(Summary(contestant=name, load=load, metrics=metrics, difference=difference))
    return result


def csv_text(rows: Sequence[Row]) -> str:
    """Return the rows as CSV: contestant, load, seed, then the metrics; empty for none."""
    names = AdmissionMetrics.__struct_fields__
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("scheduler", "load", "seed", *names))
    for row in rows:
        values = (getattr(row.metrics, name) for name in names)
        writer.writerow([row.contestant, f"{row.load:g}", str(row.seed), *map(_cell, values)])
    return text.getvalue()


def _values(rows: Iterable[Row], metric: str) -> list[float] | None:
    values = [getattr(row.metrics, metric) for row in rows]
    return None if any(value is None for value in values) else values


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6f}"


# What a worker process works on, set once at its start.
_Work = tuple[Workload, Grid, Platform | None]
_work: _Work | None = None


def _results(
    trace: Workload,
    grid: Grid,
    platform: Platform | None,
    cells: Sequence[tuple[float, int]],
    workers: int,
) -> Iterator[list[Row]]:
    """Yield the rows of each cell, in the order of the cells."""
    if workers == 1:
        for load, seed in cells:
            yield _run_cell((trace, grid, platform), load, seed)
        return
    # Fresh processes behave alike on every system.
    with ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=_begin_work,
        initargs=((trace, grid, platform),),
    ) as pool:
        try:
            yield from pool.map(_run_cell_of_worker, *zip(*cells, strict=True))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _begin_work(work: _Work) -> None:
    global _work
    _work = work


def _run_cell_of_worker(load: float, seed: int) -> list[Row]:
    assert _work is not None
    return _run_cell(_work, load, seed)


def _run_cell(work: _Work, load: float, seed: int) -> list[Row]:
    trace, grid, platform = work
    workload = deadline_workload(
        trace,
        msgspec.structs.replace(grid.choices, seed=seed),
        load=load,
        method=grid.method,
        same_time=grid.same_time,
        skip=grid.skip,
        first=grid.first,
    )
    machine = make_cluster(workload.processors) if platform is None else platform
    return run_contestants(workload, grid.contestants, machine, load=load, seed=seed)


def grid_description(grid: Grid, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a comparison was made, for its JSON file."""
    described: dict[str, Any] = msgspec.to_builtins(grid)
    del described["choices"]["seed"]
    return {**extra, **described}
