"""The simulations of Islam et al. (2003).

Every scheduler runs on the very same workloads, so differences between them are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from qops_batsim.analysis.metrics.admission import AdmissionMetrics, admission_metrics
from qops_batsim.experiments.best_lines import (
    BoundCase,
    Bounds,
    Unadmitted,
    bound_case,
    mean_unadmitted,
)
from qops_batsim.experiments.deadline_runs import DeadlineCase, DeadlineRuns, checked_outcomes
from qops_batsim.papers.islam2003.cases import PackedCase, Source, Study, case_of, scenario
from qops_batsim.papers.islam2003.choices import PACKED_JOBS, PACKED_PROCESSORS
from qops_batsim.papers.islam2003.numbers import Log, Method, Setting
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
    setting: Setting
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
    simulated = len(cases) + len(packed_cases)
    total = simulated + len(set(searched))
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
        together=lambda case: case.scenario.without_deadlines(),
        total=total,
    )
    size = PACKED_PROCESSORS, PACKED_JOBS
    packed = request.run(
        run_packed, packed_cases, AdmissionMetrics, size, before=len(cases), total=total
    )
    kind = dict[str, Unadmitted]
    bounds = request.run(Bounds(runs), searched, kind, made_of, before=simulated, total=total)
    return Results(study, found, packed, bounds, units)


def run_packed(case: PackedCase) -> AdmissionMetrics:
    """Run a scheduler on a packed schedule."""
    workload = packed_workload(PACKED_PROCESSORS, PACKED_JOBS, case.laxity, case.seed).workload
    machine = make_cluster(workload.processors)
    return admission_metrics(
        *checked_outcomes(workload, machine, make_scheduler(case.scheduler), str(case))
    )
