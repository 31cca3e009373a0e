"""Simulations of Islam et al. (2004), and what they say as plain values.

Every case of a load and seed runs on the very same workload, so differences between
cases are paired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from qops_batsim.economics import (
    Categories,
    Charge,
    ReferenceJob,
    SlowdownTable,
    break_even,
    category_slowdowns,
)
from qops_batsim.experiments import (
    SHARE,
    DeadlineCase,
    DeadlineRuns,
    Interval,
    Scenario,
    by_seed,
    changes,
    differences,
    limits_of,
    mean_interval,
)
from qops_batsim.measures import BOUNDED_SLOWDOWN_THRESHOLD, JobOutcomes, charge_jobs, charge_report
from qops_batsim.running import easy_references
from qops_batsim.workload import Workload
from studies.islam2004.study import OTHER_EDGES, SCHEDULER, STRINGENCY, Case, Study
from studies.logs import jobs_before
from studies.request import StudyRequest
from studies.run_table import RunTable


class CategoryMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """Submitted and accepted jobs of a category, and their work."""

    jobs: int
    work: float
    accepted_jobs: int
    accepted_work: float

    def accepted(self, what: str) -> float | None:
        """Return the accepted jobs or the accepted work in % of the submitted."""
        submitted: float = getattr(self, what)
        return 100.0 * getattr(self, f"accepted_{what}") / submitted if submitted else None


class CaseMeasures(CategoryMeasures, frozen=True, kw_only=True):
    """Measures of one simulation.

    Work is in processor-seconds, as is the resource charge; a QoS charge is a sum of ratios of
    slowdowns, bounded ones with a threshold of 10 s, those of other categories with later edges
    (:data:`~studies.islam2004.study.OTHER_EDGES`). Accepted are jobs that were admitted
    and ran to their end; ``wasted_work`` is that of killed runs. ``categories`` are those of the
    charges.
    """

    resource_charge: float
    qos_charge: float
    bounded_qos_charge: float
    other_edges_qos_charge: float
    kills: int
    wasted_work: float
    categories: dict[str, CategoryMeasures]

    @property
    def accepted_share(self) -> float:
        """Accepted jobs in % of the submitted ones."""
        return 100.0 * self.accepted_jobs / self.jobs

    def accepted_of(self, *, heavy: bool) -> float:
        """Return the accepted jobs of the heavier or the lighter categories, in %.

        Heavy ones have more work a job than the mean of all.
        """
        mean = self.work / self.jobs
        parts = [part for part in self.categories.values() if part.jobs]
        chosen = [part for part in parts if (part.work / part.jobs > mean) == heavy]
        submitted = sum(part.jobs for part in chosen)
        return 100.0 * sum(part.accepted_jobs for part in chosen) / submitted if submitted else 0.0


@dataclass(frozen=True)
class Results:
    """All runs of a study."""

    study: Study
    runs: RunTable[tuple[Case, int], CaseMeasures]

    @property
    def on_first(self) -> Results:
        """The runs on the first stretch."""
        return replace(self, study=msgspec.structs.replace(self.study, seeds=self.study.seeds[:1]))

    def of(self, case: Case) -> list[CaseMeasures]:
        """Return the runs of a case in the order of its seeds."""
        return [self.runs[case.simulated(), seed] for seed in self.study.seeds]

    def values(self, case: Case, metric: str) -> list[float]:
        """Return a number of each run of a case."""
        return self.runs.numbers(((case.simulated(), seed) for seed in self.study.seeds), metric)

    def accepted_of(self, case: Case, category: str, what: str) -> Interval | None:
        """Return the accepted jobs or work of a category (%), as the mean over seeds."""
        values = [run.categories[category].accepted(what) for run in self.of(case)]
        known = [value for value in values if value is not None]
        return mean_interval(known, SHARE) if known else None

    def change(self, case: Case, other: Case, metric: str) -> Interval | None:
        """Return by how many percent a number exceeds that of another case."""
        found = changes(self.values(case, metric), self.values(other, metric))
        return mean_interval(found).as_changes() if found else None

    def interval(self, case: Case, metric: str) -> Interval:
        """Return the mean of a number over seeds."""
        return mean_interval(self.values(case, metric), limits_of(metric))


def run_study(trace: Workload, study: Study, request: StudyRequest) -> Results:
    """Run every case with every seed on a trace, the jobs of a log, of type ``delay``."""
    categories = msgspec.to_builtins((Categories(), OTHER_EDGES))
    size = trace.processors, len(trace.jobs), study.jobs, study.every
    made_of = [STRINGENCY, categories, trace.provenance, size]
    work, machine = ChargedRuns(trace, study.jobs, study.every), str(trace.processors)
    runs = request.run(work, study.runs(), CaseMeasures, made_of, processors=machine)
    return Results(study, runs)


def scenario_of(
    case: Case, seed: int, jobs: int, every: int, reference: str = "unscaled"
) -> Scenario:
    """Return the workload of a case on the stretch of a seed, of ``jobs`` jobs at load 1.

    Duplicates are submitted with their originals and have the same deadline, from EASY on the trace
    without duplicates (section 5), or with them (``"scaled"``).
    """
    return Scenario(
        log="",
        skip=jobs_before(seed, every),
        first=jobs,
        load=case.load,
        same_time=True,
        reference=reference,
        stringency=STRINGENCY,
        share=case.deadline_share,
        seed=seed,
    )


class ChargedRuns:
    """Runs of cases on stretches of a trace, each of ``jobs`` jobs at load 1.

    Category slowdowns are those of EASY on the workload with its duplicates, and remembered for the
    last workload.
    """

    def __init__(self, trace: Workload, jobs: int, every: int, reference: str = "unscaled") -> None:
        self._runs = DeadlineRuns({"": trace})
        self._stretch = jobs, every, reference
        self._last: tuple[Scenario, Charging] | None = None

    def __call__(self, run: tuple[Case, int]) -> CaseMeasures:
        """Return the measures of a run, its schedule checked and its jobs charged."""
        case, seed = run
        scenario = scenario_of(case, seed, *self._stretch)
        if self._last is None or self._last[0] != scenario:
            self._last = scenario, Charging.of(self._runs.workload(scenario))
        settings = tuple(case.settings(seed).items())
        outcomes, _ = self._runs.outcomes(
            DeadlineCase(scenario=scenario, scheduler=SCHEDULER, settings=settings, strict=True)
        )
        return self._last[1].measures(outcomes)


class Charging(NamedTuple):
    """The jobs of a workload under EASY, and its slowdowns: plain, bounded, of other categories."""

    references: Mapping[str, ReferenceJob]
    tables: tuple[SlowdownTable, SlowdownTable, SlowdownTable]

    @classmethod
    def of(cls, workload: Workload) -> Charging:
        """Return the sources of a workload's charges."""
        references = easy_references(workload)
        jobs = references.values()
        bounded = category_slowdowns(jobs, bound=BOUNDED_SLOWDOWN_THRESHOLD)
        others = category_slowdowns(jobs, OTHER_EDGES)
        return cls(references, (category_slowdowns(jobs), bounded, others))

    def work(self) -> dict[str, float]:
        """Return the submitted work by category."""
        categories = self.tables[0].categories
        work = dict.fromkeys(categories.labels(), 0.0)
        for job in self.references.values():
            work[categories.label(job.run_time, job.processors)] += job.run_time * job.processors
        return work

    def measures(self, outcomes: JobOutcomes) -> CaseMeasures:
        """Return the measures of a run."""
        charged, bounded, others = (
            charge_report(charge_jobs(outcomes, self.references, table), table)
            for table in self.tables
        )
        plain, work = charged.total, self.work()
        return CaseMeasures(
            jobs=plain.jobs,
            work=float((outcomes.processors * outcomes.run_time).sum()),
            accepted_jobs=plain.charged_jobs,
            accepted_work=plain.charged_work,
            resource_charge=plain.charge.resource,
            qos_charge=plain.charge.qos,
            bounded_qos_charge=bounded.total.charge.qos,
            other_edges_qos_charge=others.total.charge.qos,
            kills=plain.kills,
            wasted_work=plain.wasted_work,
            categories={
                each.category: CategoryMeasures(
                    jobs=each.jobs,
                    work=work[each.category],
                    accepted_jobs=each.charged_jobs,
                    accepted_work=each.charged_work,
                )
                for each in charged.categories
            },
        )


METRICS = (
    "accepted_share",
    "accepted_work",
    "resource_charge",
    "qos_charge",
    "bounded_qos_charge",
    "other_edges_qos_charge",
    "kills",
    "wasted_work",
)


def all_values(results: Results) -> dict[str, Any]:
    """Return mean and interval of every number of every case."""
    study = results.study
    cases = [case_values(results, case) for case in study.cases()]
    return {"study": study, "cases": cases, "categories": category_values(results)}


def category_values(results: Results) -> list[dict[str, Any]]:
    """Return the accepted share of each category (%) at the highest load, by fixed TF.

    ``jobs`` and ``work`` are the category's part of all that is submitted (%).
    """
    study = results.study
    cases = study.tolerance_cases(max(study.loads))
    runs = results.of(cases[0])
    jobs, work = sum(run.jobs for run in runs), sum(run.work for run in runs)
    rows = []
    for name in runs[0].categories:
        parts = [run.categories[name] for run in runs]
        row: dict[str, Any] = {
            "category": name,
            "jobs": 100.0 * sum(part.jobs for part in parts) / jobs,
            "work": 100.0 * sum(part.work for part in parts) / work,
        }
        for what in ("jobs", "work"):
            row[f"accepted_{what}"] = {
                f"{case.tolerance_factor:g}": results.accepted_of(case, name, what)
                for case in cases
            }
        rows.append(row)
    return rows


def case_values(results: Results, case: Case) -> dict[str, Any]:
    """Return the parameters of a case with mean and interval of each of its numbers."""
    metrics = {name: results.interval(case, name) for name in METRICS}
    return {**msgspec.structs.asdict(case), "metrics": metrics}


def break_even_values(results: Results) -> list[dict[str, Any]]:
    """Return which of two ways to run a centre earns more, by the weights of both charges."""
    rows = []
    for (first, case), (second, other) in results.study.income_pairs().values():
        found = break_even(*(_mean_charge(results, each) for each in (case, other)))
        names = {"first": first, "second": second}
        below, above = (names.get(who, who) for who in (found.below, found.above))
        ratios = _break_even_by_seed(results, case, other)
        row = {**names, "ratio": found.ratio, "below": below, "above": above}
        rows.append({**row, "by_seed": mean_interval(ratios) if ratios else None})
    return rows


def _break_even_by_seed(results: Results, first: Case, second: Case) -> list[float]:
    """Return w_q / w_r at which two ways earn the same, for each seed; none if one has none."""
    more, less = (
        differences(*(results.values(case, f"{kind}_charge") for case in cases))
        for kind, cases in (("resource", (first, second)), ("qos", (second, first)))
    )
    pairs = by_seed([more, less])
    return [gain / loss for gain, loss in pairs] if all(loss for _, loss in pairs) else []


def _mean_charge(results: Results, case: Case) -> Charge:
    resource, qos = (results.interval(case, f"{kind}_charge").mean for kind in ("resource", "qos"))
    return Charge(resource=resource, qos=qos)
