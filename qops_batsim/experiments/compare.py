"""Comparisons of schedulers over loads and seeds: runs, means with intervals, files, a page.

For each load and seed a deadline workload is made from one trace
(:mod:`qops_batsim.experiments.deadline_workload`) and every scheduler runs on the very same
one, so differences between schedulers are paired.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.analysis.metrics.admission import AdmissionMetrics
from qops_batsim.errors import InputError, require_one_of
from qops_batsim.experiments.deadline_runs import (
    EXACT,
    USERS,
    Contestant,
    DeadlineCase,
    DeadlineRuns,
    Scenario,
    check_distinct,
    contestants_of,
    shared_steps,
)
from qops_batsim.experiments.page import PageTable, html_page, pictures_of
from qops_batsim.experiments.pool import KeptRuns, Workers, run_cases
from qops_batsim.experiments.statistics import Interval, Means, difference, grouped_interval
from qops_batsim.file_set import write_report
from qops_batsim.platform.model import Platform
from qops_batsim.running.inputs import AnyPlatform, AnyWorkload, load_platform, load_workload
from qops_batsim.tables import shielded
from qops_batsim.version import __version__
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.delay_jobs import run_times
from qops_batsim.workload.estimates import EstimateChoices
from qops_batsim.workload.model import Workload
from qops_batsim.workload.scale import subset

if TYPE_CHECKING:
    import pandas as pd


TRACE = "trace"
"""Identity of the only log of a grid."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Grid of a comparison: contestants, loads, seeds, and how deadlines are given.

    Loads are relative, ``method`` and ``same_time`` say how they are made
    (:func:`~qops_batsim.workload.scale.scale_load`). Each seed, in place of that of
    ``choices``, chooses duplicates and whose jobs have a user's deadline. ``first`` None: all
    jobs of the trace after ``skip``. With ``estimates`` ``"exact"`` each job's walltime is replaced
    by its run time, with ``"users"`` schedulers plan with the walltimes, and so does the EASY that
    deadlines are given by. With ``message_delays``, Batsim's own messages take their time
    on a platform with latencies.
    """

    contestants: tuple[Contestant, ...]
    loads: tuple[float, ...]
    seeds: tuple[int, ...]
    choices: DeadlineChoices = DeadlineChoices()
    method: str = "duplication"
    same_time: bool = False
    skip: int = 0
    first: int | None = None
    estimates: str = EXACT
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
        if self.estimates == USERS:
            model = EstimateChoices(model=USERS)
            scenario = msgspec.structs.replace(scenario, deadlines_by=USERS, estimates=model)
        return contestant.case(scenario)

    def sayings(self, trace: Workload) -> list[str]:
        """Return in sentences what of a trace is left out or replaced."""
        part = subset(trace, first=self.first, skip=self.skip)
        said = []
        if len(part.jobs) < len(trace.jobs):
            said.append(
                f"{len(part.jobs):,} of {len(trace.jobs):,} jobs are taken, from job "
                f"{self.skip + 1:,} on in the order of submission"
            )
        if self.estimates == USERS:
            return [*said, "schedulers plan with the users' estimates (walltimes)"]
        pairs = zip(part.jobs, run_times(part), strict=True)
        count = sum(job.walltime not in (None, seconds) for job, seconds in pairs)
        if count:
            said.append(
                f"the walltimes of {count:,} of {len(part.jobs):,} jobs are replaced by run times, "
                "so that schedulers know these in advance"
            )
        return said

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` for anything that cannot be compared."""
        check_distinct("scheduler", self.names)
        check_distinct("load", self.loads)
        check_distinct("seed", self.seeds)
        self.choices.check()
        require_one_of("estimates", self.estimates, (EXACT, USERS))
        for each in self.contestants:
            each.make()


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
    cells = list(product(grid.loads, grid.seeds, grid.contestants))
    cases = [grid.case(*cell).canonical() for cell in cells]
    runs = run_cases(
        DeadlineRuns({TRACE: trace}, platform, grid.message_delays),
        cases,
        workers=workers,
        kept=kept,
        group_by=shared_steps,
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


METRICS = (
    "met_deadlines",
    *(name for name in AdmissionMetrics.__struct_fields__ if name not in ("jobs", "deadline_jobs")),
)
"""Names of the metrics that are averaged over seeds."""

_HEADINGS = {
    "offered_load": "offered load",
    "unadmitted_work": "unadmitted proc-s (%)",
    "unadmitted_deadline_work": "unadmitted deadline proc-s (%)",
    "met_deadlines": "deadlines met (%)",
    "missed_deadlines": "deadlines missed (%)",
    "utilization_during_submissions": "utilization while jobs are submitted (%)",
    "response_time": "response time of others (s)",
    "slowdown": "slowdown of others",
    "bounded_slowdown": "bounded slowdown of others",
    "kills": "kills",
    "lateness_median": "lateness, median (s)",
    "lateness_p95": "lateness, 95th percentile (s)",
}


def heading_of(metric: str) -> str:
    """Return a metric's name with its unit, as tables have it; most are shares."""
    return _HEADINGS.get(metric) or f"{metric.replace('_', ' ')} (%)"


class ComparisonSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One contestant at one load, over the seeds.

    Means with intervals by name (:data:`METRICS`), None where a run lacks the metric, and
    likewise the paired difference to the baseline (contestant - baseline).
    """

    contestant: str
    load: float
    metrics: Means
    difference: Means


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results of a comparison: ``rows``, one a run, and everything made of them.

    ``baseline`` is the contestant that differences refer to, ``inputs`` what the report tells
    about trace and platform. ``limits`` are lines of what no scheduler can reach or has reached,
    if they were looked for: values by name, metric and load. ``sayings`` tell what of the trace is
    left out or replaced.
    """

    grid: Grid
    rows: Sequence[Row]
    baseline: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, Mapping[float, float]]] = field(default_factory=dict)
    sayings: Sequence[str] = ()

    def __repr__(self) -> str:
        grid = self.grid
        loads = ", ".join(f"{load:g}" for load in grid.loads)
        return (
            f"<Comparison of {', '.join(grid.names)} at load {loads}, "
            f"{len(grid.seeds)} seeds: {len(self.rows)} runs>"
        )

    def _repr_html_(self) -> str:
        means = self.to_frame().groupby(["load", "scheduler"], sort=False).mean()
        return str(means.drop(columns="seed").to_html(float_format="{:.2f}".format))

    @cached_property
    def summaries(self) -> list[ComparisonSummary]:
        """Means over seeds with 95 % intervals, by load and contestant."""
        return summarize(self.rows, self.baseline)

    def to_frame(self) -> pd.DataFrame:
        """Return the runs as a table: scheduler, load, seed, then the metrics."""
        import pandas as pd

        records = []
        for row in self.rows:
            run = {"scheduler": row.contestant, "load": row.load, "seed": row.seed}
            records.append({**run, **msgspec.structs.asdict(row.metrics)})
        return pd.DataFrame(records)

    def document(self) -> dict[str, Any]:
        """Return how the comparison was made and its summaries, as plain values for JSON."""
        grid: dict[str, Any] = msgspec.to_builtins(self.grid)
        del grid["choices"]["seed"]
        document = {
            "package_version": __version__,
            "made_by": {**self.inputs, "baseline": self.baseline, **grid},
            "trace": list(self.sayings),
            "interval": "95 %, Student's t over seeds that differ",
            "results": msgspec.to_builtins(self.summaries),
        }
        if self.limits:
            document["limits"] = msgspec.to_builtins(self.limits, str_keys=True)
        return document

    def write(self, directory: str | PathLike[str], *, ending: str = "png") -> list[Path]:
        """Write ``compare.csv``, ``compare.json`` and the pictures; return the files."""
        texts = {"compare.csv": csv_text(self.rows)}
        draw = partial(self.draw, ending=ending)
        return write_report(Path(directory), "compare.json", self.document(), texts, draw)

    def draw(self, directory: str | PathLike[str], *, ending: str = "png") -> list[Path]:
        """Draw the pictures (png, pdf or svg) into a directory; return the files."""
        return list(self.captioned(directory, ending=ending))

    def captioned(self, directory: str | PathLike[str], *, ending: str) -> dict[Path, str]:
        """Draw the pictures; return the files, each with a caption."""
        from qops_batsim.experiments.pictures import draw_comparison

        curves: dict[str, dict[float, Means]] = {}
        for each in self.summaries:
            curves.setdefault(each.contestant, {})[each.load] = each.metrics
        return draw_comparison(
            curves, Path(directory), ending=ending, title=self.title, limits=self.limits
        )

    @property
    def title(self) -> str:
        """Title of pictures: log, stringency and seeds."""
        grid = self.grid
        log = Path(str(self.inputs.get("workload") or "")).name.removesuffix(".json")
        seeds = f"{len(grid.seeds)} seeds" if len(grid.seeds) > 1 else "1 seed"
        facts = [f"stringency {grid.choices.stringency:g}", seeds]
        if grid.choices.share < 1:
            facts.insert(0, f"{100 * grid.choices.share:g} % of jobs with deadlines")
        return ", ".join([log, *facts] if log else facts)


def compare(
    workload: AnyWorkload,
    schedulers: Iterable[str | Contestant],
    *,
    loads: Sequence[float] = (1.0, 1.3, 1.6),
    seeds: int | Sequence[int] = 5,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    deadlines: DeadlineChoices = DeadlineChoices(),  # noqa: B008 - it is frozen
    method: str = "duplication",
    skip: int = 0,
    first: int | None = None,
    estimates: str = EXACT,
    platform: AnyPlatform | None = None,
    message_delays: bool = True,
    baseline: str | None = None,
    workers: Workers = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare schedulers on deadline workloads over loads and seeds.

    The workload is the trace, jobs of type ``delay``; it and the platform may also be files or
    shipped ones' names. For what is not told here see :class:`Grid` and :func:`run_grid`.

    Parameters
    ----------
    schedulers
        Registered names, or ``"my_file.py:MyScheduler"``; a :class:`~.deadline_runs.Contestant`
        has a name and options of its own.
    seeds
        Seeds, or the number N of the seeds 1 to N.
    settings
        Options by scheduler, as in ``{"qops": {"k_factor": 3}}``.
    estimates
        With ``"exact"`` run times replace all walltimes; with ``"users"`` schedulers plan with
        these.
    baseline
        Scheduler that differences refer to. Default: msb if compared, else the first.

    Examples
    --------
    >>> found = compare("sdsc_sp2_1000", ["easy", "qops"], loads=[1.2], seeds=2, first=100)
    >>> found
    <Comparison of easy, qops at load 1.2, 2 seeds: 4 runs>
    >>> found.to_frame().groupby("scheduler").missed_deadlines.mean().round(1).to_dict()
    {'easy': 46.7, 'qops': 0.0}
    """
    grid = Grid(
        contestants=contestants_of(schedulers, settings or {}),
        loads=tuple(loads),
        seeds=tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds),
        choices=deadlines,
        method=method,
        skip=skip,
        first=first,
        estimates=estimates,
        message_delays=message_delays,
    )
    grid.check()
    chosen = baseline_of(grid, baseline)
    trace = load_workload(workload)
    machine = None if platform is None else load_platform(platform, trace)
    rows = run_grid(trace, grid, platform=machine, workers=workers, on_progress=on_progress)
    named = workload if isinstance(workload, (str, PathLike)) else Path(trace.source).name
    inputs = {"workload": fspath(named)}
    return Comparison(grid, rows, chosen, inputs, sayings=grid.sayings(trace))


def baseline_of(grid: Grid, asked: str | None) -> str:
    """Return the contestant that differences refer to: msb if none is asked for, or the first."""
    if asked is None:
        return "msb" if "msb" in grid.names else grid.names[0]
    for each in grid.contestants:
        if asked in (each.name, each.scheduler):
            return each.name
    raise InputError(f"baseline is {asked!r}; one of {', '.join(grid.names)} is expected")


def summarize(rows: Sequence[Row], baseline: str) -> list[ComparisonSummary]:
    """Return means over seeds with 95 % intervals, in the order of the rows.

    The rows must have the same seeds for every contestant and load. Equal runs count once.
    """
    groups: dict[tuple[float, str], list[Row]] = {}
    for row in rows:
        if not row.repeated:
            groups.setdefault((row.load, row.contestant), []).append(row)
    if baseline not in {name for _, name in groups}:
        known = ", ".join(dict.fromkeys(name for _, name in groups))
        raise InputError(f"baseline is {baseline!r}; one of {known} is expected")
    result = []
    for (load, name), group in groups.items():
        pairs = list(zip(group, groups[load, baseline], strict=True))
        result.append(
            ComparisonSummary(
                contestant=name,
                load=load,
                metrics={
                    metric: grouped_interval((load, getattr(row.metrics, metric)) for row in group)
                    for metric in METRICS
                },
                difference={
                    metric: grouped_interval(
                        (load, difference(*(getattr(row.metrics, metric) for row in pair)))
                        for pair in pairs
                    )
                    for metric in METRICS
                },
            )
        )
    return result


def csv_text(rows: Sequence[Row]) -> str:
    """Return the rows as CSV: contestant, load, seed, then the metrics; empty for none."""
    text = io.StringIO()
    cells = ([shielded(cell) for cell in row] for row in _cells_of(rows))
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()


def _cells_of(rows: Sequence[Row]) -> list[list[str]]:
    """Return the cells of all rows, headings first."""
    names = AdmissionMetrics.__struct_fields__
    found = [["scheduler", "load", "seed", *names]]
    for row in rows:
        values = (getattr(row.metrics, name) for name in names)
        found.append([row.contestant, f"{row.load:g}", str(row.seed), *map(_cell, values)])
    return found


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def comparison_page(found: Comparison, command: str) -> str:
    """Return a comparison as HTML; ``command`` made it."""
    headings, *runs = _cells_of(found.rows)
    grid = found.grid
    said = "".join(f" {text[0].upper()}{text[1:]}." for text in found.sayings)
    return html_page(
        f"{', '.join(grid.names)} compared",
        f"Means over {len(grid.seeds)} seeds with 95 % intervals (Student). Utilization "
        f"is from the first submission to the last completion.{said}",
        {
            "Pictures": pictures_of(partial(found.captioned, ending="svg")),
            "Means": [
                _summaries(found, "Means over seeds", differences=False),
                _summaries(found, f"Differences from {found.baseline}", differences=True),
            ],
            "Runs": [PageTable(title="All runs", headings=headings, rows=runs)],
        },
        command,
        seeds=", ".join(map(str, grid.seeds)),
    )


def _summaries(found: Comparison, title: str, *, differences: bool) -> PageTable:
    rows = []
    for each in found.summaries:
        if differences and each.contestant == found.baseline:
            continue
        metrics = each.difference if differences else each.metrics
        cells = [_text(metrics[name]) for name in METRICS]
        rows.append([f"{each.load:g}", each.contestant, *cells])
    names = [heading_of(name) for name in METRICS]
    return PageTable(title=title, headings=["load", "scheduler", *names], rows=rows)


def _text(value: Interval | None) -> str:
    return "" if value is None else value.text()
