"""Scores of schedulers on listed cases, and bounds on what any scheduler could reach."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np

from qops_batsim.economics.charges import SlowdownTable, category_slowdowns
from qops_batsim.experiments.deadline_runs import (
    DeadlineCase,
    DeadlineRuns,
    Scenario,
    checked_outcomes,
)
from qops_batsim.experiments.listed_cases import outages_of_case
from qops_batsim.measures.metrics.charge_totals import References
from qops_batsim.measures.metrics.measures import Measures, study_measures
from qops_batsim.measures.metrics.outcomes import JobOutcomes, fates
from qops_batsim.measures.results.result_tables import Booleans, Floats, mean
from qops_batsim.optimum.best import Limits, best_possible
from qops_batsim.optimum.problem import OBJECTIVES, problem_of, worth_of
from qops_batsim.platform.equal_hosts import make_cluster
from qops_batsim.running.reference import easy_references
from qops_batsim.workload.workload_model import Workload

UNITS = 0.5
"""Units of deterministic time for which a workload is searched, for each objective."""

LEAST_JOBS = 3
"""Deadlines of a user, at least, for the fairness between users."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler's results for each objective, in % of an upper bound; None without a bound.

    ``in_time`` are the jobs whose deadline was met, promised or not.
    """

    jobs: float | None = None
    work: float | None = None
    charge: float | None = None
    in_time: float | None = None


class Score(Shares, frozen=True, kw_only=True):
    """Outcome of a run (%): for jobs with users' deadlines, and for the others.

    Jobs, work (processor-seconds) and charges (QoS charges of the deadlines asked for) are in % of
    those of all jobs with a user's deadline. *Promised* are the deadlines that were, also later
    ones; promises that gave way to others are not *kept*. *Reached* are promises of the deadline
    that was asked for, and kept; *met* are those deadlines, promised or not. A scheduler that
    promises nothing reaches those that it meets. The kept charge is what users pay for the
    promises.

    The *wait* (seconds) and the bounded slowdown *of others* are means over the jobs without user's
    deadline that ran.
    Over users with three deadlines or more, the *Gini* coefficient is that of the share of
    deadlines met, the *worst decile* the mean share (%) of the tenth of the users that have the
    least; None where the log tells no users.

    The CPU time of a job is that of the whole simulation, in milliseconds.
    """

    promised_jobs: float
    kept_jobs: float
    kept_charge: float
    reached_jobs: float
    reached_work: float
    reached_charge: float
    met_jobs: float
    wait_of_others: float | None
    bounded_slowdown_of_others: float | None
    gini: float | None
    worst_decile: float | None
    wasted_work: float | None
    cpu_per_job: float

    @property
    def not_kept(self) -> float | None:
        """Promises that were broken, or gave way to others (%); None without promises."""
        return 100 * (1 - self.kept_jobs / self.promised_jobs) if self.promised_jobs else None

    def beside(self, bound: ScoreBound | None) -> Score:
        """Return the score with its shares of a bound filled in; unchanged without a bound."""
        if bound is None:
            return self
        reached = {objective: getattr(self, f"reached_{objective}") for objective in OBJECTIVES}
        in_time = bound.parts({"jobs": self.met_jobs}).get("jobs")
        return msgspec.structs.replace(self, **bound.parts(reached), in_time=in_time)


class ScoreBound(msgspec.Struct, frozen=True, kw_only=True):
    """Upper bound and best known schedule of a workload, in % as in :class:`Score`.

    Each is by objective. Both know all jobs beforehand, and no outages.
    """

    bound: dict[str, float]
    best_known: dict[str, float]

    def shares(self) -> Shares:
        """Return the results of the best known schedules, in % of the bound."""
        parts = self.parts(self.best_known)
        return Shares(in_time=parts.get("jobs"), **parts)

    def parts(self, reached: Mapping[str, float]) -> dict[str, float]:
        """Return results in % of the bound, for each objective that has a bound."""
        known = {each: self.bound.get(each) for each in reached}
        return {each: 100 * reached[each] / most for each, most in known.items() if most}


class ScoredRuns:
    """Simulates cases and scores the runs; data that runs on one workload share is kept."""

    def __init__(self, runs: DeadlineRuns) -> None:
        self._runs = runs
        self._worths: tuple[Scenario, JobWorths] | None = None

    def __call__(self, case: DeadlineCase) -> Score:
        """Run a case, check its schedule and return its score."""
        workload = self._runs.workload(case.scenario)
        if self._worths is None or self._worths[0] != case.scenario:
            self._worths = case.scenario, JobWorths(workload)
        module = case.make()
        seed = case.outages
        events = None if seed is msgspec.UNSET else outages_of_case(seed, workload)

        begin = time.process_time()
        outcomes, hosts = checked_outcomes(
            workload,
            make_cluster(workload.processors),
            module,
            case.scheduler,
            events=events,
            strict=case.strict is True,
        )
        spent = time.process_time() - begin

        # Promises that were replaced by later ones when hosts had left are not kept.
        renewed = module.qos_log.promises("new_promises")
        gave_way = {job_id.partition("!")[2] for job_id, count in renewed.items() if count}
        lost = np.array([job_id in gave_way for job_id in outcomes.ids], np.bool_)
        score = score_of(outcomes, hosts, self._worths[1], lost)
        return msgspec.structs.replace(score, cpu_per_job=1e3 * spent / len(outcomes.ids))

    def bound(self, scenario: Scenario) -> ScoreBound:
        """Search a scenario's workload for an upper bound and the best known schedule."""
        workload = self._runs.workload(scenario)
        limits = Limits(seconds=len(OBJECTIVES) * UNITS, by_clock=False)
        # Jobs without a deadline: every schedule may have them.
        free = problem_of(workload).free
        bound: dict[str, float] = {}
        best: dict[str, float] = {}
        for found in best_possible(workload, OBJECTIVES, limits):
            others = math.fsum(worth_of(workload, found.objective)[free])
            if found.total > others:
                percent = (found.total - others) / 100
                bound[found.objective] = (found.bound - others) / percent
                best[found.objective] = (found.best_known - others) / percent
        return ScoreBound(bound=bound, best_known=best)


class JobWorths:
    """What each job of a workload is worth: its work and its QoS charge."""

    def __init__(self, workload: Workload) -> None:
        self.worth = {each: worth_of(workload, each) for each in OBJECTIVES}
        self.references: References = easy_references(workload)
        self.table: SlowdownTable = category_slowdowns(self.references.values())


def score_of(outcomes: JobOutcomes, hosts: int, worths: JobWorths, gave_way: Booleans) -> Score:
    """Return a run's score; ``gave_way`` marks jobs with a replaced promise. O(n log n)."""
    fate = fates(outcomes)
    of_user = outcomes.of_user
    kept = fate.kept & ~gave_way
    # What a promise brings that was not kept is a penalty.
    first = replace(outcomes, promised=np.where(gave_way, np.nan, outcomes.promised))
    paid: Measures = study_measures(first, hosts, worths.references, worths.table)
    reached = kept & fate.met & (outcomes.promised <= outcomes.deadline)

    def share(which: Booleans, objective: str) -> float:
        worth = worths.worth[objective]
        total = float(worth[of_user].sum())
        return 100.0 * float(worth[which & of_user].sum()) / total if total else 0.0

    if not fate.promised.any():
        reached = fate.met
    others = ~of_user & ~outcomes.refused
    gini, worst = fairness(outcomes, fate.met)
    return Score(
        promised_jobs=share(fate.promised, "jobs"),
        kept_jobs=share(kept, "jobs"),
        kept_charge=paid.kept_charge or 0.0,
        reached_jobs=share(reached, "jobs"),
        reached_work=share(reached, "work"),
        reached_charge=share(reached, "charge"),
        met_jobs=share(fate.met, "jobs"),
        wait_of_others=mean(outcomes.wait[others]),
        bounded_slowdown_of_others=paid.bounded_slowdown_of_others,
        gini=gini,
        worst_decile=worst,
        wasted_work=paid.wasted_work,
        cpu_per_job=0.0,
    )


def fairness(outcomes: JobOutcomes, met: Booleans) -> tuple[float | None, float | None]:
    """Return the Gini coefficient of users' shares of met deadlines, and the worst tenth's mean.

    The mean is in %; both are None if no user has at least ``LEAST_JOBS`` jobs with deadlines.
    """
    by_user: dict[Any, list[bool]] = defaultdict(list)
    jobs = [job for workload in outcomes.workloads for job in workload.jobs]
    for job, of_user, in_time in zip(jobs, outcomes.of_user.tolist(), met.tolist(), strict=True):
        user = job.fields.get("user")
        if of_user and user is not None:
            by_user[user].append(in_time)
    shares = np.sort(
        [sum(each) / len(each) for each in by_user.values() if len(each) >= LEAST_JOBS]
    )
    if not len(shares):
        return None, None
    worst = 100.0 * float(shares[: math.ceil(len(shares) / 10)].mean())
    return gini(shares), worst


def gini(values: Floats) -> float | None:
    """Return the Gini coefficient of ascending values of at least 0; None if all are 0. O(n).

    That is half the mean difference of two values over their mean.

    >>> gini(np.array([0.0, 1.0])), gini(np.array([1.0, 1.0]))
    (0.5, 0.0)
    """
    count, total = len(values), float(values.sum())
    if total == 0:
        return None
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return float((ranks * values).sum()) / (count * total)


def kept_bounds() -> dict[str, ScoreBound]:
    """Return the bounds that are shipped with the package, by :func:`bound_key`.

    ``python studies/benchmark --bounds`` has made them.
    """
    text = files("qops_batsim.experiments").joinpath("benchmark_bounds.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, ScoreBound])


def bound_key(scenario: Scenario) -> str:
    """Return the key under which a workload's bound is shipped."""
    content = msgspec.json.encode(scenario, order="deterministic")
    return blake2b(content, digest_size=8).hexdigest()
