"""Schedulers on deadline workloads made from one trace, over loads and seeds.

For each load and seed a deadline workload is made from the trace
(:mod:`qops_batsim.experiments.deadline_workload`) and every scheduler runs on the very same
one, so differences between schedulers are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import msgspec

from qops_batsim.analysis.metrics.admission import AdmissionMetrics, admission_metrics, broken_rule
from qops_batsim.analysis.metrics.outcomes import JobOutcomes, outcomes_of_simulation
from qops_batsim.errors import InputError, SimulationError, did_you_mean
from qops_batsim.experiments.deadline_workload import deadline_workload
from qops_batsim.experiments.pool import run_cases
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.model import Platform
from qops_batsim.running.simulate import default_engine, simulate
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.model import Workload
from qops_batsim.workload.subset import PAPER_JOBS


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler with its options, under the name that tables and pictures give it."""

    name: str
    scheduler: str
    settings: dict[str, Any] = {}


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared.

    Loads are relative, ``method`` and ``same_time`` say how they are made
    (:func:`~qops_batsim.workload.scale.scale_load`). Each seed, in place of that of
    ``choices``, chooses duplicates and whose jobs have a user's deadline. ``first`` None: all
    jobs of the trace after ``skip``. With ``message_delays``, Batsim's own messages take their time
    on a platform with latencies.
    """

    contestants: tuple[Contestant, ...]
    loads: tuple[float, ...]
    seeds: tuple[int, ...]
    choices: DeadlineChoices = DeadlineChoices()
    method: str = "duplication"
    same_time: bool = False
    skip: int = 0
    first: int | None = PAPER_JOBS
    message_delays: bool = True

    @property
    def names(self) -> list[str]:
        """Names of the contestants."""
        return [each.name for each in self.contestants]

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.contestants) * len(self.loads) * len(self.seeds)

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` for anything that cannot be compared."""
        for what, values in (
            ("scheduler", self.names),
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

    def prepare(self) -> None:
        """Compile the kernels of all schedulers; other processes find them in the cache."""
        for each in self.contestants:
            make_scheduler(each.scheduler, each.settings).prepare()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run: contestant, load, seed and its metrics."""

    contestant: str
    load: float
    seed: int
    metrics: AdmissionMetrics


def contestants_of(
    schedulers: Iterable[str | Contestant], settings: Mapping[str, Mapping[str, Any]]
) -> tuple[Contestant, ...]:
    """Return schedulers with their options.

    ``my_file.py:MyClass`` is called ``MyClass``; settings are by the name of the scheduler or of
    its contestant.
    """
    if isinstance(schedulers, str):
        raise InputError(f"{schedulers!r}: a list of schedulers to compare is expected")
    found = []
    for each in schedulers:
        if not isinstance(each, str | Contestant):
            raise InputError(f"{each!r}: the name of a scheduler, or FILE.py:CLASS, is expected")
        if isinstance(each, str):
            each = Contestant(name=each.rpartition(":")[2], scheduler=each)
        own = settings.get(each.scheduler, {}), settings.get(each.name, {})
        found.append(msgspec.structs.replace(each, settings={**each.settings, **own[0], **own[1]}))
    known = {name for each in found for name in (each.name, each.scheduler)}
    for name in settings:
        if name not in known:
            raise InputError(f"options of {name}: it is not compared{did_you_mean(name, known)}")
    return tuple(found)


def run_grid(
    trace: Workload,
    grid: Grid,
    *,
    platform: Platform | None = None,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Run every scheduler of a grid at every load with every seed.

    Rows come by load, then seed, then contestant. A schedule that breaks a rule ends the
    comparison: with exact estimates every admitted deadline is met. The trace has jobs of type
    ``delay``; without platform there are as many equal hosts as the trace is for.
    """
    grid.check()
    grid.prepare()
    each = len(grid.contestants)
    progress = None
    if on_progress is not None:

        def progress(done: int, total: int) -> None:
            on_progress(done * each, total * each)

    cells = product(grid.loads, grid.seeds)
    found = run_cases(_Cells(trace, grid, platform), cells, workers=workers, on_progress=progress)
    return [row for rows in found.values() for row in rows]


@dataclass(frozen=True)
class _Cells:
    """Runs all schedulers at a load with a seed."""

    trace: Workload
    grid: Grid
    platform: Platform | None

    def __call__(self, cell: tuple[float, int]) -> list[Row]:
        load, seed = cell
        grid = self.grid
        workload = deadline_workload(
            self.trace,
            msgspec.structs.replace(grid.choices, seed=seed),
            load=load,
            method=grid.method,
            same_time=grid.same_time,
            skip=grid.skip,
            first=grid.first,
        )
        machine = self.platform or make_cluster(workload.processors)
        rows = []
        for each in grid.contestants:
            module = make_scheduler(each.scheduler, each.settings)
            what = f"{each.name} at load {load:g} with seed {seed}"
            delays = grid.message_delays
            outcomes = checked_outcomes(workload, machine, module, what, message_delays=delays)
            metrics = admission_metrics(*outcomes)
            rows.append(Row(contestant=each.name, load=load, seed=seed, metrics=metrics))
        return rows


def checked_outcomes(
    workload: Workload,
    platform: Platform,
    module: DecisionModule,
    what: str,
    *,
    message_delays: bool = True,
) -> tuple[JobOutcomes, int]:
    """Run a scheduler on a workload of exact estimates, and check its schedule.

    Returns the jobs' outcomes and the number of hosts; ``what`` was run, for messages.
    """
    options = default_engine(module, message_delays=message_delays)
    simulation = simulate(workload, platform, module, engine=options)
    promised = {
        record.local_id: deadline
        for record in simulation.ended
        if (deadline := module.qos_log.record(record.job.id).admitted_deadline) is not None
    }
    outcomes = outcomes_of_simulation(simulation.ended, workload, promised)
    hosts = len(simulation.hosts)
    grace = getattr(module.options, "grace", 0.0) if simulation.has_message_delays else 0.0
    broken = broken_rule(outcomes, hosts, grace=grace)
    if broken is not None:
        raise SimulationError(f"{what}: {broken}")
    return outcomes, hosts
