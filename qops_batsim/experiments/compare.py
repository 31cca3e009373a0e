"""Comparisons of schedulers over loads and seeds: studies of one log and one kind of deadlines.

For each load and seed a deadline workload is made from one trace
(:mod:`qops_batsim.experiments.deadline_workload`) and every scheduler runs on the very same
one, so differences between schedulers are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.analysis.metrics.admission import AdmissionMetrics, PromiseMetrics
from qops_batsim.errors import InputError, require_one_of
from qops_batsim.experiments.best_lines import LINES
from qops_batsim.experiments.deadline_runs import Contestant, DeadlineRuns, contestants_of
from qops_batsim.experiments.page import PageTable, html_page, pictures_of
from qops_batsim.experiments.pool import KeptRuns, Workers
from qops_batsim.experiments.statistics import Interval, Means
from qops_batsim.experiments.study import InputIdentities, Study, StudyLog, Window
from qops_batsim.experiments.study_report import (
    METRICS,
    StudySummary,
    draw_study,
    heading_of,
    line_means,
    summaries,
)
from qops_batsim.experiments.study_runs import (
    CellOutcome,
    StudyRuns,
    description_of,
    run_cells,
)
from qops_batsim.file_set import write_report
from qops_batsim.parameters import (
    ARTIFICIAL,
    COUNT,
    ESTIMATES,
    EXACT,
    METHOD,
    RELAXATION,
    SEEDS,
    SHARE,
    STRINGENCY,
    USERS,
    is_strict,
)
from qops_batsim.platform.model import Platform
from qops_batsim.running.inputs import AnyPlatform, AnyWorkload, load_platform, load_workload
from qops_batsim.tables import csv_text
from qops_batsim.version import __version__
from qops_batsim.workload.deadlines import DeadlineChoices
from qops_batsim.workload.estimates import EstimateChoices, told_estimates
from qops_batsim.workload.model import Workload, shortage
from qops_batsim.workload.scale import subset

if TYPE_CHECKING:
    import pandas as pd


TRACE = "trace"
"""Name and identity of the only log."""


def comparison_of(
    schedulers: Sequence[Contestant],
    *,
    loads: Sequence[float],
    seeds: Sequence[int],
    choices: DeadlineChoices = DeadlineChoices(),  # noqa: B008 - it is frozen
    method: str = METHOD.default,
    skip: int = 0,
    first: int | None = None,
    estimates: str | None = None,
    baseline: str | None = None,
    bound: float | None = None,
    on_broken_promise: str = COUNT,
) -> Study:
    """Return the study of a comparison, which is checked.

    Each seed, in place of that of ``choices``, chooses duplicates and whose jobs have a user's
    deadline. ``first`` None: all jobs of the trace after ``skip``. With ``estimates`` ``"exact"``
    each job's walltime is replaced by its run time, with ``"users"`` schedulers plan with the
    walltimes, and so does the EASY that deadlines are given by: the default, but beside a bound,
    which knows run times. For the baseline see :func:`baseline_of`.
    """
    if estimates is None:
        estimates = ESTIMATES.default if bound is None else EXACT
    require_one_of(ESTIMATES.name, estimates, (EXACT, USERS))
    study = Study(
        name="comparison",
        logs=(StudyLog(name=TRACE, file=""),),
        windows=(Window(skip=skip, first=first or 0),),
        schedulers=tuple(schedulers),
        loads=tuple(loads),
        methods=(method,),
        stringencies=(choices.stringency,),
        deadline_shares=(choices.share,),
        artificial=(choices.artificial,),
        relaxations=(choices.relaxation,),
        seeds=tuple(seeds),
        baseline=baseline_of(schedulers, baseline),
        bound=msgspec.UNSET if bound is None else bound,
        on_broken_promise="fail" if is_strict(on_broken_promise) else msgspec.UNSET,
    )
    if estimates == USERS:
        models = (EstimateChoices(model=USERS),)
        study = msgspec.structs.replace(study, deadlines_by=(USERS,), estimates=models)
    study.check()
    return study


def baseline_of(schedulers: Sequence[Contestant], asked: str | None) -> str:
    """Return the contestant that differences refer to: msb if none is asked for, or the first."""
    names = [each.name for each in schedulers]
    if asked is None:
        return "msb" if "msb" in names else "".join(names[:1])
    for each in schedulers:
        if asked in (each.name, each.scheduler):
            return each.name
    raise InputError(f"baseline is {asked!r}; one of {', '.join(names)} is expected")


@dataclass(frozen=True, repr=False)
class Comparison(StudyRuns):
    """Runs of a comparison, and everything made of them.

    ``inputs`` are what the report tells about trace and platform. With ``message_delays``,
    Batsim's own messages took their time on a platform with latencies. ``sayings`` tell what of
    the trace is left out or replaced.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    message_delays: bool = True
    sayings: Sequence[str] = ()

    @property
    def baseline(self) -> str:
        """The contestant that differences refer to."""
        return self.study.base

    @property
    def names(self) -> list[str]:
        """Names of the contestants."""
        return [each.name for each in self.study.schedulers]

    @cached_property
    def rows(self) -> list[CellOutcome]:
        """One row a run, by load, then seed, then contestant."""
        return [each for each in self.outcomes if each.cell.contestant not in LINES]

    def __repr__(self) -> str:
        loads = ", ".join(f"{load:g}" for load in self.study.loads)
        return (
            f"<Comparison of {', '.join(self.names)} at load {loads}, "
            f"{len(self.study.seeds)} seeds: {len(self.rows)} runs>"
        )

    def _repr_html_(self) -> str:
        means = self.to_frame().groupby(["load", "scheduler"], sort=False).mean()
        shown = means.drop(columns="seed").dropna(axis="columns", how="all")
        return str(shown.to_html(float_format="{:.2f}".format))

    @cached_property
    def _summaries(self) -> list[StudySummary]:
        return summaries(self)

    @property
    def summaries(self) -> list[StudySummary]:
        """Means over seeds with 95 % intervals, by load and contestant."""
        return [each for each in self._summaries if each.scheduler not in LINES]

    @cached_property
    def limits(self) -> dict[str, dict[str, dict[float, float]]]:
        """Lines of what no scheduler can reach or has reached, by name, metric and load."""
        lines: dict[str, dict[float, Means]] = {}
        for each in self._summaries:
            if each.scheduler in LINES:
                lines.setdefault(each.scheduler, {})[each.point.load] = each.metrics
        return {name: line_means(by_load) for name, by_load in lines.items()}

    def to_frame(self) -> pd.DataFrame:
        """Return the runs as a table: scheduler, load, seed, then the metrics."""
        import pandas as pd

        records = []
        for row in self.rows:
            cell = row.cell
            run = {"scheduler": cell.contestant, "load": cell.point.load, "seed": cell.seed}
            records.append({**run, **msgspec.to_builtins(row.metrics)})
        return pd.DataFrame(records)

    def document(self) -> dict[str, Any]:
        """Return how the comparison was made and its summaries, as plain values for JSON."""
        (window,), (point, *_) = self.study.windows, self.study.points()
        document = {
            "package_version": __version__,
            "made_by": {
                **self.inputs,
                "baseline": self.baseline,
                "contestants": msgspec.to_builtins(self.study.schedulers),
                "loads": list(self.study.loads),
                "seeds": list(self.study.seeds),
                "choices": {
                    axis.name: getattr(point, axis.column)
                    for axis in (STRINGENCY, SHARE, ARTIFICIAL, RELAXATION)
                },
                "method": point.method,
                "same_time": self.study.same_time,
                "skip": window.skip,
                "first": window.first or None,
                "estimates": point.estimates,
                "message_delays": self.message_delays,
            },
            "trace": list(self.sayings),
            "interval": "95 %, Student's t over seeds that differ",
            "results": [msgspec.to_builtins(self._result(each)) for each in self.summaries],
        }
        if self.limits:
            document["limits"] = msgspec.to_builtins(self.limits, str_keys=True)
        return document

    def _result(self, found: StudySummary) -> dict[str, Any]:
        """Return a summary for JSON, that of the baseline with its difference from itself."""
        own, less = found.metrics, found.difference
        if found.scheduler == self.baseline:
            less = {name: _zero(each) for name, each in own.items()}
        return {
            "contestant": found.scheduler,
            "load": found.point.load,
            "metrics": {name: own[name] for name in METRICS},
            "difference": {name: less[name] for name in METRICS},
        }

    def write(self, directory: str | PathLike[str], *, ending: str = "png") -> list[Path]:
        """Write ``compare.csv``, ``compare.json`` and the pictures; return the files."""
        texts = {"compare.csv": self.csv_text()}
        draw = partial(self.draw, ending=ending)
        return write_report(Path(directory), "compare.json", self.document(), texts, draw)

    def draw(self, directory: str | PathLike[str], *, ending: str = "png") -> list[Path]:
        """Draw the pictures (png, pdf or svg) into a directory; return the files."""
        return list(self.captioned(Path(directory), ending=ending))

    def captioned(self, directory: Path, *, ending: str) -> dict[Path, str]:
        """Draw the pictures; return the files, each with a caption."""
        return draw_study(self._summaries, directory, ending=ending, title=self.title)

    @property
    def title(self) -> str:
        """Title of pictures: log, stringency and seeds."""
        (stringency,), (share,) = self.study.stringencies, self.study.deadline_shares
        log = Path(str(self.inputs.get("workload") or "")).name.removesuffix(".json")
        count = len(self.study.seeds)
        facts = [f"stringency {stringency:g}", f"{count} seeds" if count > 1 else "1 seed"]
        if share < 1:
            facts.insert(0, f"{100 * share:g} % of jobs with deadlines")
        return ", ".join([log, *facts] if log else facts)

    def csv_text(self) -> str:
        """Return the rows as CSV: contestant, load, seed, then the metrics; empty for none."""
        return csv_text(self.cells())

    def cells(self) -> list[list[str]]:
        """Return the cells of all rows as text, headings first."""
        names = AdmissionMetrics.__struct_fields__
        found = [["scheduler", "load", "seed", *names]]
        for row in self.rows:
            values = (_cell(getattr(row.metrics, name)) for name in names)
            cell = row.cell
            found.append([cell.contestant, f"{cell.point.load:g}", str(cell.seed), *values])
        return found


def _zero(value: Interval | None) -> Interval | None:
    """Return the difference of a mean from itself."""
    if value is None:
        return None
    end = None if value.known is None else 0.0
    return Interval(mean=0.0, low=end, high=end, count=value.count)


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def run_comparison(
    trace: Workload,
    study: Study,
    *,
    inputs: Mapping[str, Any] | None = None,
    platform: Platform | None = None,
    message_delays: bool = True,
    workers: Workers = 1,
    kept: KeptRuns[AdmissionMetrics] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Run every scheduler of a comparison at every load with every seed.

    Equal runs are made once. A schedule that breaks a rule ends the comparison, also one that
    breaks a promise if the study's ``on_broken_promise`` is ``"fail"``. The trace has jobs of
    type ``delay``; without platform there are as many equal hosts as the trace is for.
    """
    schedulers = {each.name: each.identity() for each in study.schedulers}
    found = run_cells(
        description_of(study, InputIdentities(logs={TRACE: TRACE}, schedulers=schedulers)),
        DeadlineRuns({TRACE: trace}, platform, message_delays),
        workers=workers,
        kept=kept,
        on_progress=on_progress,
    )
    said = sayings_of(study, trace)
    return Comparison(found.description, found.outcomes, inputs or {}, message_delays, said)


def kept_runs(
    directory: Path,
    study: Study,
    trace: Workload,
    platform: Platform | None,
    message_delays: bool,
) -> KeptRuns[AdmissionMetrics]:
    """Return the store of a comparison's runs, which is kept until all are finished."""
    kind = PromiseMetrics if study.has_models else AdmissionMetrics
    digests = [trace.sha256, None if platform is None else platform.sha256]
    return KeptRuns(directory, kind, [digests, message_delays])


def sayings_of(study: Study, trace: Workload) -> list[str]:
    """Return in sentences what of a trace a comparison leaves out or replaces."""
    (window,) = study.windows
    part = subset(trace, first=window.first or None, skip=window.skip)
    short = shortage(len(part.jobs), window.first, window.skip)
    said = [short] if short else []
    if len(part.jobs) < len(trace.jobs):
        said.append(
            f"{len(part.jobs):,} of {len(trace.jobs):,} jobs are taken, from job "
            f"{window.skip + 1:,} on in the order of submission"
        )
    return [*said, told_estimates(part, USERS if study.has_models else EXACT)]


def compare(
    workload: AnyWorkload,
    schedulers: Iterable[str | Contestant],
    *,
    loads: Sequence[float] = (1.0, 1.3, 1.6),
    seeds: int | Sequence[int] = SEEDS,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    deadlines: DeadlineChoices = DeadlineChoices(),  # noqa: B008 - it is frozen
    method: str = METHOD.default,
    skip: int = 0,
    first: int | None = None,
    estimates: str | None = None,
    platform: AnyPlatform | None = None,
    message_delays: bool = True,
    baseline: str | None = None,
    on_broken_promise: str = COUNT,
    workers: Workers = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare schedulers on deadline workloads over loads and seeds.

    The workload is the trace, jobs of type ``delay``; it and the platform may also be files or
    shipped ones' names. For what is not told here see :func:`comparison_of` and
    :func:`run_comparison`.

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
    on_broken_promise
        With ``"count"`` a promise that its scheduler breaks is counted, with ``"fail"`` it is an
        error, where no job runs longer than planned.

    Examples
    --------
    >>> found = compare("sdsc_sp2_1000", ["easy", "qops"], loads=[1.2], seeds=2, first=100)
    >>> found
    <Comparison of easy, qops at load 1.2, 2 seeds: 4 runs>
    >>> found.to_frame().groupby("scheduler").missed_deadlines.mean().round(1).to_dict()
    {'easy': 34.6, 'qops': 0.0}
    """
    study = comparison_of(
        contestants_of(schedulers, settings or {}),
        loads=loads,
        seeds=range(1, seeds + 1) if isinstance(seeds, int) else seeds,
        choices=deadlines,
        method=method,
        skip=skip,
        first=first,
        estimates=estimates,
        baseline=baseline,
        on_broken_promise=on_broken_promise,
    )
    trace = load_workload(workload)
    named = workload if isinstance(workload, (str, PathLike)) else Path(trace.source).name
    return run_comparison(
        trace,
        study,
        inputs={"workload": fspath(named)},
        platform=None if platform is None else load_platform(platform, trace),
        message_delays=message_delays,
        workers=workers,
        on_progress=on_progress,
    )


def comparison_page(found: Comparison, command: str) -> str:
    """Return a comparison as HTML; ``command`` made it."""
    headings, *runs = found.cells()
    seeds = found.study.seeds
    said = "".join(f" {text[0].upper()}{text[1:]}." for text in found.sayings)
    return html_page(
        f"{', '.join(found.names)} compared",
        f"Means over {len(seeds)} seeds with 95 % intervals (Student). Utilization "
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
        seeds=", ".join(map(str, seeds)),
    )


def _summaries(found: Comparison, title: str, *, differences: bool) -> PageTable:
    rows = []
    for each in found.summaries:
        if differences and each.scheduler == found.baseline:
            continue
        metrics = each.difference if differences else each.metrics
        cells = [_text(metrics[name]) for name in METRICS]
        rows.append([f"{each.point.load:g}", each.scheduler, *cells])
    names = [heading_of(name) for name in METRICS]
    return PageTable(title=title, headings=["load", "scheduler", *names], rows=rows)


def _text(value: Interval | None) -> str:
    return "" if value is None else value.text()
