"""Tables and figure of a study of listed cases: schedulers ranked by their share of a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from qops_batsim.experiments.best_lines import BEST_KNOWN
from qops_batsim.experiments.listed_cases import HALVES
from qops_batsim.experiments.page import PageTable
from qops_batsim.experiments.report import Figure, Panel, line_of_means
from qops_batsim.experiments.scores import Score
from qops_batsim.experiments.statistics import (
    RISK,
    SHARE,
    SHARE_DIFFERENCE,
    Interval,
    difference,
    directions,
    grouped_interval,
)
from qops_batsim.experiments.study_runs import CellOutcome, StudyRuns
from qops_batsim.optimum.problem import OBJECTIVES

BESIDE = {
    "promised jobs (%)": ("promised_jobs", 1.0),
    "promises broken or replaced (%)": ("not_kept", 1.0),
    "deadlines met (%)": ("met_jobs", 1.0),
    "charges paid (%)": ("kept_charge", 1.0),
    "wait of others (h)": ("wait_of_others", 1 / 3600),
    "slowdown of others": ("bounded_slowdown_of_others", 1.0),
    "Gini of users": ("gini", 1.0),
    "worst decile of users (%)": ("worst_decile", 1.0),
    "work wasted (%)": ("wasted_work", 1.0),
    "ms a job": ("cpu_per_job", 1.0),
}
"""Further columns by heading: the metric and the factor to its unit."""

ScoredCase = Mapping[str, CellOutcome]
"""Finished outcomes on a workload, by contestant."""


def cases_of(runs: StudyRuns) -> list[ScoredCase]:
    """Return each case with the scores of its finished runs, in the order of the list."""
    found: dict[tuple[str, str], dict[str, CellOutcome]] = {}
    for each in runs.outcomes:
        point = each.cell.point
        case = found.setdefault((point.case, point.half), {})
        if each.metrics is not None:
            case[each.cell.contestant] = each
    return list(found.values())


def mean_of(
    cases: Sequence[ScoredCase], name: str, metric: str, less: str | None = None
) -> Interval | None:
    """Return a metric's mean over cases, or its difference to ``less``, with an interval.

    The metric is a share, or only its mean is of interest. Cases that lack the number, or the run,
    are left out.
    """
    values = []
    for case in cases:
        if {name, less or name} - case.keys():
            continue
        found = case[name].value(metric)
        if less is not None:
            found = difference(found, case[less].value(metric))
        if found is not None:
            values.append((case[name].cell.point.case.rpartition(" ")[0], found))
    return grouped_interval(values, limits=SHARE if less is None else SHARE_DIFFERENCE)


def score_tables(runs: StudyRuns) -> list[PageTable]:
    """Return the tables: scores in all and in half of the cases, differences, metrics, cases."""
    cases, base = cases_of(runs), runs.study.base
    ranked = _ranked(runs, cases)
    scores = [
        [name, str(_count(cases, name))]
        + [_text(mean_of(cases, name, each)) for each in (*OBJECTIVES, "in_time")]
        for name in (*ranked, BEST_KNOWN)
    ]
    halves = [
        [case for case in cases if any(e.cell.point.half == half for e in case.values())]
        for half in HALVES
    ]
    by_half = [
        [name, *(_text(mean_of(some, name, each)) for each in OBJECTIVES for some in halves)]
        for name in ranked
    ]
    others = [each for each in ranked if each != base]
    found = {
        (name, each): mean_of(cases, name, each, less=base)
        for name in others
        for each in OBJECTIVES
    }
    verdicts = _verdicts(runs, cases, found)
    differences = []
    for name in others:
        row = [name]
        for each in OBJECTIVES:
            row += [_text(found[name, each], "+"), verdicts[name, each]]
        differences.append(row)
    beside = [
        [name, *(_mean_text(mean_of(cases, name, m), unit) for m, unit in BESIDE.values())]
        for name in ranked
    ]
    return [
        PageTable(
            title="Deadlines promised and kept, or met without promises (% of the bound)",
            headings=["scheduler", "cases", *OBJECTIVES, "jobs in time, promised or not"],
            rows=scores,
            note="The best known schedules are one each for jobs, work and charges. A scheduler "
            "that promises nothing is scored by the deadlines that it meets.",
        ),
        PageTable(
            title="Versioned and drawn cases",
            headings=["scheduler", *(f"{each}, {half}" for each in OBJECTIVES for half in HALVES)],
            rows=by_half,
        ),
        PageTable(
            title=f"Differences from {base} (points)",
            headings=["scheduler", *(x for each in OBJECTIVES for x in (each, "verdict"))],
            rows=differences,
        ),
        PageTable(title="Other metrics", headings=["scheduler", *BESIDE], rows=beside),
    ]


def _verdicts(
    runs: StudyRuns,
    cases: Sequence[ScoredCase],
    found: Mapping[tuple[str, str], Interval | None],
) -> dict[tuple[str, str], str]:
    """Return verdicts on differences to the baseline, by scheduler and objective.

    Who promises nothing is not judged by promises, nor anybody against a baseline of that kind.
    Equal runs are one statement, and none if they equal the baseline's; who is not asked for is
    not judged. So adding such a scheduler, or a second name of another one, changes no verdict.
    """
    base = runs.study.base
    able = {each.cell.contestant for each in runs.outcomes if each.value("promised_jobs")}
    asked = able.intersection(runs.study.verdicts or able) if base in able else set()
    scores = {name: tuple(_score(case.get(name)) for case in cases) for name in {base, *asked}}
    judged = {key: scores[key[0]] for key in found if key[0] in asked}
    statements = {(own, key[1]): found[key] for key, own in judged.items() if own != scores[base]}
    said = directions(statements)
    return {
        key: said.get((judged[key], key[1]), ("equal", None))[0] if key in judged else ""
        for key in found
    }


def _score(outcome: CellOutcome | None) -> Score | None:
    """Return the score of a finished run, None if unfinished; its computing time is left out."""
    found = outcome and outcome.metrics
    return msgspec.structs.replace(found, cpu_per_job=0.0) if isinstance(found, Score) else None


def score_method(runs: StudyRuns) -> str:
    """Return sentences for a report: what the cases are, how the numbers are computed."""
    study, cases = runs.study, cases_of(runs)
    stand_ins = {
        each.of: log.generated.preset
        for each in study.cases
        for log in study.logs
        if log.name == each.log and log.generated
    }
    there = dict.fromkeys(case.of for case in study.cases)
    said = [
        f"{len(study.cases)} cases, half of them versioned, half drawn. Logs: "
        f"{', '.join(each for each in there if each not in stand_ins) or 'none'}."
    ]
    if stand_ins:
        told = "; ".join(f"{log}: {preset}" for log, preset in stand_ins.items())
        said.append(
            f"Generated workloads stand in for logs that are not here ({told}); only results with "
            "the same ones have the same cases."
        )
    without = sum(BEST_KNOWN not in case for case in cases)
    if without:
        said.append(
            f"{without} cases have no bound, and no share of it: install 'qops-batsim[bound]'."
        )
    said.append(
        f"Means over cases with 95 % intervals (Student) over logs. Verdicts: against {study.base} "
        f"on the same cases; at most {RISK} for one wrong verdict or more in the table (Holm); not "
        "judged is who promises nothing, nor equal runs." + asked_text(study.verdicts)
    )
    return " ".join(said)


def asked_text(names: Sequence[str]) -> str:
    """Return a sentence that names the schedulers that a study judges; "" if it names none."""
    return f" Judged are {', '.join(names)} only, as the study says." if names else ""


def score_figure(runs: StudyRuns) -> Figure:
    """Return the figure of each scheduler's shares of the bound, with their intervals."""
    cases = cases_of(runs)
    names = [*_ranked(runs, cases), BEST_KNOWN]
    panels = []
    for objective in OBJECTIVES:
        found = ((name, mean_of(cases, name, objective)) for name in names)
        bars = line_of_means(objective, ((name, each) for name, each in found if each))
        panels.append(
            Panel(
                title="", x_label="", y_label=f"{objective} (% of the bound)",
                series=(bars,), kind="bars",
            )
        )  # fmt: skip
    return Figure(name="scores", title="Promises kept, in % of the bound", panels=tuple(panels))


def _ranked(runs: StudyRuns, cases: Sequence[ScoredCase]) -> list[str]:
    """Return schedulers sorted by their mean share of jobs, work and charges.

    Where no bound is known it is that of the deadlines that they reach.
    """

    def rank(name: str) -> float:
        for metrics in (OBJECTIVES, [f"reached_{each}" for each in OBJECTIVES]):
            found = [mean_of(cases, name, each) for each in metrics]
            known = [each.mean for each in found if each is not None]
            if known:
                return sum(known) / len(known)
        return -1.0

    return sorted((each.name for each in runs.study.schedulers), key=rank, reverse=True)


def _count(cases: Sequence[ScoredCase], name: str) -> int:
    return sum(name in case for case in cases)


def _text(value: Interval | None, sign: str = "") -> str:
    return "-" if value is None else value.text(sign=sign)


def _mean_text(value: Interval | None, unit: float) -> str:
    return "-" if value is None else f"{value.mean * unit:,.2f}"
