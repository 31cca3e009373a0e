"""Simulations of Islam et al. (2003), and what they say as plain values.

Every scheduler runs on the very same workloads, so differences between them are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from qops_batsim.analysis.metrics.admission import AdmissionMetrics, admission_metrics
from qops_batsim.experiments.best_lines import (
    BoundCase,
    BoundSearch,
    Unadmitted,
    bound_case,
    mean_unadmitted,
)
from qops_batsim.experiments.deadline_runs import (
    DeadlineCase,
    DeadlineRuns,
    Settings,
    checked_outcomes,
)
from qops_batsim.experiments.statistics import Interval, mean_interval, paired_difference
from qops_batsim.papers.islam2003.study import (
    ADMISSION,
    FIGURES,
    PACKED_JOBS,
    PACKED_PROCESSORS,
    READINGS,
    REFERENCES,
    RULES,
    DeadlineSetting,
    Log,
    Method,
    PackedCase,
    Reading,
    Source,
    Study,
    case_of,
    scenario,
    strict_scenario,
)
from qops_batsim.papers.report import PaperRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload
from qops_batsim.workload.packed import packed_workload


@dataclass(frozen=True)
class Results:
    """All runs of a study, by canonical case."""

    study: Study
    runs: Mapping[DeadlineCase, AdmissionMetrics]
    packed: Mapping[PackedCase, AdmissionMetrics]
    bounds: Mapping[BoundCase, Mapping[str, Unadmitted]] = field(default_factory=dict)
    bound: float | None = None

    def of(self, cases: Sequence[DeadlineCase], metric: str) -> list[float]:
        """Return a number of each of the runs that differ; empty where it has no meaning."""
        found = dict.fromkeys(case.canonical() for case in cases)
        values = [getattr(self.runs[case], metric) for case in found]
        return [] if None in values else [float(value) for value in values]

    def strict(
        self,
        source: Source,
        load: float,
        seeds: Sequence[int],
        metric: str,
        scheduler: str,
        settings: Settings | None = None,
    ) -> list[float]:
        """Return a number by seed, with deadlines for all jobs and S = 0.2."""
        scenarios = (strict_scenario(source, load, seed) for seed in seeds)
        return self.of([case_of(each, scheduler, settings) for each in scenarios], metric)

    def admitted(self, scheduler: str, laxity: float) -> list[float]:
        """Return the jobs that are admitted to packed schedules (%), over the seeds."""
        cases = (
            PackedCase(scheduler=scheduler, laxity=laxity, seed=seed) for seed in self.study.seeds
        )
        return [100.0 - (self.packed[case].unadmitted_jobs or 0.0) for case in cases]


@dataclass(frozen=True)
class Curve:
    """A scheduler on the workloads of a figure, over loads: its numbers by seed."""

    results: Results
    log: Log
    method: Method
    setting: DeadlineSetting
    scheduler: str
    rule: str = "run-time"
    relaxation: float | None = None

    def values(self, load: float, metric: str) -> list[float]:
        """Return a number over the seeds that differ."""
        return self.results.of(self._cases(load), metric)

    def limits(self, load: float, line: str) -> dict[str, float]:
        """Return the means of a line of bounds over the seeds, by metric."""
        units = self.results.bound or 0.0
        cases = dict.fromkeys(bound_case(each.scenario, units) for each in self._cases(load))
        return mean_unadmitted(self.results.bounds, list(cases), line)

    def _cases(self, load: float) -> list[DeadlineCase]:
        study = self.results.study
        source, found = study.sources[self.log], []
        for seed in study.seeds:
            it = scenario(source, self.method, self.setting, load, seed, self.rule)
            if self.relaxation is not None:
                it = msgspec.structs.replace(it, relaxation=self.relaxation)
            found.append(case_of(it, self.scheduler))
        return found


def run_study(traces: Mapping[Source, Workload], study: Study, request: PaperRequest) -> Results:
    """Run every case on traces, the jobs of load 1 by where they are from."""
    cases, packed_cases = study.cases(), study.packed_cases()
    units = request.bound
    searched = [bound_case(each, units) for each in study.admittance_scenarios()] if units else []
    request = request.in_parts(len(cases) + len(packed_cases) + len(set(searched)))
    for scheduler in dict.fromkeys(case.scheduler for case in cases):
        make_scheduler(scheduler).prepare()
    logs = {source.name: traces[source] for source in study.all_sources()}
    made_of: list[Any] = [[name, each.provenance, len(each.jobs)] for name, each in logs.items()]
    runs = DeadlineRuns(logs)
    found = request.run(
        runs,
        cases,
        AdmissionMetrics,
        made_of,
        group_by=lambda case: case.scenario.without_deadlines(),
    )
    size = PACKED_PROCESSORS, PACKED_JOBS
    packed = request.run(run_packed, packed_cases, AdmissionMetrics, size)
    bounds = request.run(BoundSearch(runs), searched, dict[str, Unadmitted], made_of)
    return Results(study, found, packed, bounds, units)


def run_packed(case: PackedCase) -> AdmissionMetrics:
    """Run a scheduler on a packed schedule."""
    workload = packed_workload(PACKED_PROCESSORS, PACKED_JOBS, case.laxity, case.seed).workload
    machine = make_cluster(workload.processors)
    return admission_metrics(
        *checked_outcomes(workload, machine, make_scheduler(case.scheduler), str(case))
    )


METRICS = (
    "unadmitted_jobs",
    "unadmitted_work",
    "unadmitted_deadline_jobs",
    "unadmitted_deadline_work",
    "utilization",
    "response_time",
    "slowdown",
)


def all_values(results: Results) -> dict[str, Any]:
    """Return what was run and what each figure shows; its numbers are in the figures."""
    return {
        "study": results.study,
        "shown": {str(each.number): msgspec.structs.asdict(each) for each in FIGURES},
        "rows": list(rows(results)),
        "readings": list(readings(results)),
        "windows": list(windows(results)),
        "packed": list(packed(results)),
    }


def packed(results: Results) -> Iterator[dict[str, Any]]:
    """Yield what each scheduler admits to packed schedules (%), by laxity."""
    for laxity in results.study.laxities:
        found = {name: mean_interval(results.admitted(name, laxity)) for name in ADMISSION}
        yield {"laxity": laxity, **found}


def rows(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the numbers of every scheduler by trace, setting, rule and load, each once."""
    seen = set()
    for shown in FIGURES:
        for setting in shown.settings:
            for rule in RULES if shown.mixed else ("run-time",):
                key = shown.log, shown.method, setting, rule
                if shown.kind in ("relaxation",) or key in seen:
                    continue
                seen.add(key)
                for load in results.study.loads:
                    for name in (*ADMISSION, *REFERENCES):
                        curve = Curve(results, shown.log, shown.method, setting, name, rule)
                        yield {
                            "log": shown.log,
                            "method": shown.method,
                            "stringency": setting[0],
                            "share": setting[1],
                            "rule": rule,
                            "load": load,
                            "scheduler": name,
                            **{each: _interval(curve.values(load, each)) for each in METRICS},
                        }


def readings(results: Results) -> Iterator[dict[str, Any]]:
    """Yield what each reading refuses, and how that differs from MSB with its defaults."""
    study = results.study
    for source in study.reading_sources:
        for load in study.reading_loads:
            for reading in study.readings:
                yield _compared(results, source, load, reading, study.seeds)


def windows(results: Results) -> Iterator[dict[str, Any]]:
    """Yield what schedulers refuse on other windows of the logs."""
    study = results.study
    compared = (
        *(Reading(name=name, scheduler=name) for name in ADMISSION),
        READINGS[1],
    )
    for source in study.windows:
        for load in study.window_loads:
            for reading in compared:
                yield _compared(results, source, load, reading, study.window_seeds)


def _compared(
    results: Results, source: Source, load: float, reading: Reading, seeds: Sequence[int]
) -> dict[str, Any]:
    found: dict[str, Any] = {"log": source.name, "load": load, "reading": reading.name}
    for metric in ("unadmitted_jobs", "unadmitted_work", "utilization"):
        of = partial(results.strict, source, load, seeds, metric)
        values = of(reading.scheduler, reading.settings)
        found[metric] = mean_interval(values)
        found[f"{metric}_less_msb"] = paired_difference(values, of("msb"))
    return found


def _interval(values: list[float]) -> Interval | None:
    return mean_interval(values) if values else None
