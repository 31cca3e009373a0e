"""The simulations of Islam et al. (2003).

Every scheduler runs on the very same workloads, so differences between them are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from qops_batsim.analysis.metrics.admission import AdmissionMetrics
from qops_batsim.experiments.deadline_runs import DeadlineCase, DeadlineRuns
from qops_batsim.papers.islam2003.cases import Source, Study, case_of, scenario
from qops_batsim.papers.islam2003.numbers import Log, Method, Setting
from qops_batsim.papers.report import PaperRequest
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload


@dataclass(frozen=True)
class Results:
    """All runs of a study, by canonical case."""

    study: Study
    runs: Mapping[DeadlineCase, AdmissionMetrics]

    def of(self, cases: Sequence[DeadlineCase], metric: str) -> list[float]:
        """Return a number of each of the runs that differ; empty where it has no meaning."""
        found = dict.fromkeys(case.canonical() for case in cases)
        values = [getattr(self.runs[case], metric) for case in found]
        return [] if None in values else [float(value) for value in values]


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
    cases = study.cases()
    for scheduler in dict.fromkeys(case.scheduler for case in cases):
        make_scheduler(scheduler).prepare()
    logs = {source.name: traces[source] for source in study.all_sources()}
    made_of: list[Any] = [[name, each.provenance, len(each.jobs)] for name, each in logs.items()]
    found = request.run(
        DeadlineRuns(logs),
        cases,
        AdmissionMetrics,
        made_of,
        together=lambda case: case.scenario.without_deadlines(),
    )
    return Results(study, found)
