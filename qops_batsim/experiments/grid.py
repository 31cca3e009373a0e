"""Schedulers on deadline workloads made from one trace, over loads and seeds.

For each load and seed a deadline workload is made from the trace
(:mod:`qops_batsim.experiments.deadline_workload`) and every scheduler runs on the very same
one, so differences between schedulers are paired.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import msgspec

from qops_batsim.analysis.metrics.admission import AdmissionMetrics
from qops_batsim.experiments.contestants import Contestant, check_distinct
from qops_batsim.experiments.deadline_runs import DeadlineCase, DeadlineRuns, Scenario, shared_steps
from qops_batsim.experiments.kept import KeptRuns
from qops_batsim.experiments.pool import Workers, run_cases
from qops_batsim.platform.model import Platform
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.model import Workload
from qops_batsim.workload.subset import PAPER_JOBS

TRACE = "trace"
"""What identifies the only log of a grid."""


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

    def case(self, load: float, seed: int, contestant: Contestant) -> DeadlineCase:
        """Return the case of a contestant at a load with a seed."""
        scenario = Scenario(
            log=TRACE,
            skip=self.skip,
            first=self.first,
            load=load,
            method=self.method,
            same_time=self.same_time,
            stringency=self.choices.stringency,
            share=self.choices.share,
            artificial=self.choices.artificial,
            relaxation=self.choices.relaxation,
            seed=seed,
        )
        return contestant.case(scenario)

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` for anything that cannot be compared."""
        check_distinct("scheduler", self.names)
        check_distinct("load", self.loads)
        check_distinct("seed", self.seeds)
        self.choices.check()
        for each in self.contestants:
            each.make()

    def prepare(self) -> None:
        """Compile the kernels of all schedulers; other processes find them in the cache."""
        for each in self.contestants:
            each.make().prepare()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run: contestant, load, seed and its metrics.

    It is ``repeated`` if it is that of another seed, because nothing is drawn.
    """

    contestant: str
    load: float
    seed: int
    metrics: AdmissionMetrics
    repeated: bool = False


def run_grid(
    trace: Workload,
    grid: Grid,
    *,
    platform: Platform | None = None,
    workers: Workers = 1,
    kept: KeptRuns[AdmissionMetrics] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Run every scheduler of a grid at every load with every seed.

    Rows come by load, then seed, then contestant; equal runs are made once. A schedule that breaks
    a rule ends the comparison: with exact estimates every admitted deadline is met. The trace has
    jobs of type ``delay``; without platform there are as many equal hosts as the trace is for.
    """
    grid.check()
    grid.prepare()
    cells = list(product(grid.loads, grid.seeds, grid.contestants))
    cases = [grid.case(*cell).canonical() for cell in cells]
    runs = run_cases(
        DeadlineRuns({TRACE: trace}, platform, grid.message_delays),
        cases,
        workers=workers,
        kept=kept,
        together=shared_steps,
        on_progress=on_progress,
    )
    seen: set[tuple[str, DeadlineCase]] = set()
    rows = []
    for (load, seed, each), case in zip(cells, cases, strict=True):
        repeated = (each.name, case) in seen
        row = Row(contestant=each.name, load=load, seed=seed, metrics=runs[case], repeated=repeated)
        seen.add((each.name, case))
        rows.append(row)
    return rows
