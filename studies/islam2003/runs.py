"""Simulations of Islam et al. (2003), and what they say as plain values.

Every scheduler runs on the very same workloads, so differences between them are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

import msgspec

from qops_batsim.experiments import (
    SHARE,
    BoundCase,
    BoundSearch,
    ChangedOptions,
    DeadlineCase,
    DeadlineRuns,
    Scenario,
    Unadmitted,
    bound_case,
    checked_outcomes,
    limits_of,
    limits_of_difference,
    mean_interval,
    paired_difference,
)
from qops_batsim.measures import JobOutcomes, Measures, mean, study_measures
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload
from studies.islam2003.packed import packed_workload
from studies.islam2003.study import (
    ADMISSION,
    PACKED_JOBS,
    PACKED_PROCESSORS,
    READINGS,
    REFERENCES,
    SHORT,
    STRICT,
    PackedCase,
    Reading,
    Source,
    Study,
    case_of,
)
from studies.request import StudyRequest
from studies.run_table import RunTable


class MixedMetrics(Measures, frozen=True, kw_only=True):
    """The metrics of admission, and those of jobs without user deadline by length.

    *Short* jobs run for at most :data:`~studies.islam2003.study.SHORT`, *long* ones for
    longer; None where there is none.
    """

    short_response_time: float | None = None
    short_slowdown: float | None = None
    long_response_time: float | None = None
    long_slowdown: float | None = None


class MixedRuns(DeadlineRuns):
    """Runs that are also measured by the length of the jobs without user deadline."""

    def __call__(self, case: DeadlineCase) -> MixedMetrics:
        """Return the metrics of a run, its schedule checked."""
        return mixed_metrics(*self.outcomes(case))


def mixed_metrics(outcomes: JobOutcomes, hosts: int) -> MixedMetrics:
    """Compute the metrics of a run; O(jobs)."""
    found: dict[str, Any] = msgspec.structs.asdict(study_measures(outcomes, hosts))
    ran = ~(outcomes.refused | outcomes.of_user)
    short = outcomes.run_time <= SHORT
    for name, chosen in (("short", ran & short), ("long", ran & ~short)):
        response = (outcomes.finish - outcomes.submission)[chosen]
        lasted = outcomes.run_time[chosen]
        found[f"{name}_response_time"] = mean(response)
        found[f"{name}_slowdown"] = mean(response[lasted > 0] / lasted[lasted > 0])
    return MixedMetrics(**found)


@dataclass(frozen=True)
class Results:
    """All runs of a study, by canonical case."""

    study: Study
    runs: RunTable[DeadlineCase, MixedMetrics]
    packed: RunTable[PackedCase, Measures]
    bounds: Mapping[BoundCase, Mapping[str, Unadmitted]] = field(default_factory=dict)
    bound: float | None = None

    @property
    def on_first(self) -> Results:
        """The runs on the first stretch."""
        return replace(self, study=msgspec.structs.replace(self.study, seeds=self.study.seeds[:1]))

    def of(self, cases: Sequence[DeadlineCase], metric: str) -> list[float]:
        """Return a number of each run; empty where it has no meaning or is not made."""
        wanted = [case.canonical() for case in cases]
        if not self.study.is_whole and not all(case in self.runs for case in wanted):
            return []
        return self.runs.numbers(wanted, metric)

    def values(self, at: Scenario, scheduler: str, metric: str, load: float) -> list[float]:
        """Return a number of a scheduler at a load over the seeds."""
        return self.of(self._cases(at, scheduler, load), metric)

    def limits(self, at: Scenario, load: float, line: str) -> dict[str, float]:
        """Return the means of a line of bounds over the seeds, by metric."""
        cases = self._cases(at, "qops", load)
        searched = dict.fromkeys(bound_case(each.scenario, self.bound or 0.0) for each in cases)
        return {
            metric: fmean(getattr(self.bounds[case][line], metric) for case in searched)
            for metric in Unadmitted.__struct_fields__
        }

    def _cases(self, at: Scenario, scheduler: str, load: float) -> list[DeadlineCase]:
        source = self.study.sources[at.log]
        return [case_of(source.scenario(at, load, seed), scheduler) for seed in self.study.seeds]

    def strict(
        self,
        source: Source,
        load: float,
        seeds: Sequence[int],
        metric: str,
        scheduler: str,
        settings: ChangedOptions | None = None,
    ) -> list[float]:
        """Return a number by seed, with deadlines for all jobs and S = 0.2."""
        scenarios = (source.scenario(STRICT, load, seed) for seed in seeds)
        return self.of([case_of(each, scheduler, settings) for each in scenarios], metric)

    def admitted(self, scheduler: str, laxity: float) -> list[float]:
        """Return the jobs that are admitted to packed schedules (%), over the seeds."""
        cases = (
            PackedCase(scheduler=scheduler, laxity=laxity, seed=seed) for seed in self.study.seeds
        )
        return [100.0 - (self.packed[case].unadmitted_jobs or 0.0) for case in cases]


def run_study(traces: Mapping[str, Workload], study: Study, request: StudyRequest) -> Results:
    """Run every case on traces, the jobs of whole logs by machine."""
    cases, packed_cases = study.cases(), study.packed_cases()
    units = request.bound
    searched = [bound_case(each, units) for each in study.admittance_scenarios()] if units else []
    request = request.in_parts(len(cases) + len(packed_cases) + len(set(searched)))
    made_of: list[Any] = [[name, each.provenance, len(each.jobs)] for name, each in traces.items()]
    runs = MixedRuns(traces)
    found = request.run(
        runs,
        cases,
        MixedMetrics,
        [*made_of, SHORT],
        group_by=lambda case: case.scenario.without_deadlines(),
    )
    size = PACKED_PROCESSORS, PACKED_JOBS
    packed = request.run(run_packed, packed_cases, Measures, size)
    bounds = request.run(BoundSearch(runs), searched, dict[str, Unadmitted], made_of)
    return Results(study, found, packed, bounds, units)


def run_packed(case: PackedCase) -> Measures:
    """Run a scheduler on a packed schedule."""
    workload = packed_workload(PACKED_PROCESSORS, PACKED_JOBS, case.laxity, case.seed)
    machine = make_cluster(workload.processors)
    return study_measures(
        *checked_outcomes(workload, machine, make_scheduler(case.scheduler), str(case))
    )


USED = "utilization_during_submissions"
"""The utilization: while jobs arrive."""

METRICS = (
    "unadmitted_jobs",
    "unadmitted_work",
    "unadmitted_deadline_jobs",
    "unadmitted_deadline_work",
    USED,
    "response_time_of_others",
    "slowdown_of_others",
)


def all_values(results: Results) -> dict[str, Any]:
    """Return the study, its rows, and the settings of each figure, whose numbers it has."""
    return {
        "study": results.study,
        "shown": {str(each.number): msgspec.structs.asdict(each) for each in results.study.shown},
        "rows": list(rows(results)),
        "readings": list(readings(results)),
        "windows": list(windows(results)),
        "packed": list(packed(results)),
    }


def packed(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the jobs that each scheduler admits to packed schedules (%), by laxity."""
    for laxity in results.study.laxities:
        found = {name: mean_interval(results.admitted(name, laxity), SHARE) for name in ADMISSION}
        yield {"laxity": laxity, **found}


def rows(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the numbers of every scheduler by trace, setting, rule and load, each once."""
    kinds = dict.fromkeys(
        kind
        for figure in results.study.shown
        if figure.kind != "relaxation"
        for kinds in zip(*(figure.kinds(rule) for rule in figure.rules), strict=True)
        for kind in kinds
    )
    for at, load, name in product(kinds, results.study.loads, (*ADMISSION, *REFERENCES)):
        numbers = {each: results.values(at, name, each, load) for each in METRICS}
        yield {
            "log": at.log,
            "method": at.method,
            "stringency": at.stringency,
            "share": at.share,
            "rule": at.artificial,
            "load": load,
            "scheduler": name,
            **{
                each: mean_interval(found, limits_of(each)) if found else None
                for each, found in numbers.items()
            },
        }


def readings(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the refusals of each reading, and the differences to MSB with its defaults."""
    study = results.study
    for each in product(study.reading_sources, study.reading_loads, study.readings):
        yield _compared(results, *each, study.seeds)


def windows(results: Results) -> Iterator[dict[str, Any]]:
    """Yield the refusals of schedulers on other windows of the logs."""
    study = results.study
    compared = (
        *(Reading(name=name, scheduler=name) for name in ADMISSION),
        READINGS[1],
    )
    for each in product(study.windows, study.window_loads, compared):
        yield _compared(results, *each, (1,))


def _compared(
    results: Results, source: Source, load: float, reading: Reading, seeds: Sequence[int]
) -> dict[str, Any]:
    found: dict[str, Any] = {"log": source.name, "load": load, "reading": reading.name}
    for metric in ("unadmitted_jobs", "unadmitted_work", USED):
        of = partial(results.strict, source, load, seeds, metric)
        values = of(reading.scheduler, reading.settings)
        found[metric] = mean_interval(values, limits_of(metric))
        limits = limits_of_difference(metric)
        found[f"{metric}_less_msb"] = paired_difference(values, of("msb"), limits)
    return found
