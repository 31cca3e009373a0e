"""Tables and figure of a study of listed cases: schedulers ranked by their share of a bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from qops_batsim.experiments.best_lines import BEST_KNOWN
from qops_batsim.experiments.listed_cases import HALVES
from qops_batsim.experiments.page import PageTable
from qops_batsim.experiments.report import Figure, Panel, line_of_means
from qops_batsim.experiments.report_table import declared_tables
from qops_batsim.experiments.scores import Score
from qops_batsim.experiments.statistics import (
    SHARE,
    SHARE_DIFFERENCE,
    TEXT_OF_LEVEL,
    Interval,
    difference,
    directions,
    grouped_interval,
)
from qops_batsim.experiments.study_runs import CellOutcome, StudyRuns
from qops_batsim.optimum.problem import OBJECTIVES

_TABLES = declared_tables("qops_batsim.experiments")

OTHERS = tuple(column.key.removesuffix(".mean") for column in _TABLES["others"].columns[1:])
"""Metrics of the last table."""

ScoredCase = Mapping[str, CellOutcome]
"""Finished outcomes on a workload, by contestant."""


def cases_of(runs: StudyRuns) -> list[ScoredCase]:
    """Return each case with the scores of its finished runs, in the order of the list."""
    cases: dict[tuple[str, str], dict[str, CellOutcome]] = {}
    for outcome in runs.outcomes:
        point = outcome.cell.point
        case = cases.setdefault((point.case, point.half), {})
        if outcome.metrics is not None:
            case[outcome.cell.contestant] = outcome
    return list(cases.values())


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
        value = case[name].value(metric)
        if less is not None:
            value = difference(value, case[less].value(metric))
        if value is not None:
            point = case[name].cell.point
            log = point.case.rpartition(" ")[0]
            # Stand-ins are of one model, and no logs.
            values.append((log if point.log == log else "", value))
    return grouped_interval(values, limits=SHARE if less is None else SHARE_DIFFERENCE)


def score_tables(runs: StudyRuns) -> list[PageTable]:
    """Return the tables: scores in all and in half of the cases, differences, metrics, cases."""
    cases = cases_of(runs)
    base = runs.study.base
    ranked = _ranked(runs, cases)

    def means(name: str, metrics: Iterable[str]) -> dict[str, Interval | None]:
        return {metric: mean_of(cases, name, metric) for metric in metrics}

    scores = [
        {
            "scheduler": name,
            "cases": sum(name in case for case in cases),
            **means(name, (*OBJECTIVES, "in_time")),
        }
        for name in (*ranked, BEST_KNOWN)
    ]

    halves = {
        half: [case for case in cases if any(e.cell.point.half == half for e in case.values())]
        for half in HALVES
    }
    by_half = [
        {
            "scheduler": name,
            **{
                objective: {half: mean_of(some, name, objective) for half, some in halves.items()}
                for objective in OBJECTIVES
            },
        }
        for name in ranked
    ]

    differences = {
        (name, objective): mean_of(cases, name, objective, less=base)
        for name in ranked
        for objective in OBJECTIVES
        if name != base
    }
    verdicts = _verdicts(runs, cases, differences)
    compared: dict[str, dict[str, Any]] = {}
    for (name, objective), value in differences.items():
        row = compared.setdefault(name, {"scheduler": name})
        row[objective] = value
        row[f"{objective}_verdict"] = verdicts[name, objective]

    return [
        _TABLES["scores"].table(scores),
        _TABLES["halves"].table(by_half),
        _TABLES["differences"].table([*compared.values()], base=base),
        _TABLES["others"].table([{"scheduler": name, **means(name, OTHERS)} for name in ranked]),
    ]


def _verdicts(
    runs: StudyRuns,
    cases: Sequence[ScoredCase],
    differences: Mapping[tuple[str, str], Interval | None],
) -> dict[tuple[str, str], str]:
    """Return verdicts on differences to the baseline, by scheduler and objective.

    Who promises nothing is not judged by promises, nor anybody against a baseline of that kind.
    Equal runs are one statement, and none if they equal the baseline's; who is not asked for is
    not judged. So adding such a scheduler, or a second name of another one, changes no verdict.
    """
    base = runs.study.base
    able = {each.cell.contestant for each in runs.outcomes if each.value("promised_jobs")}
    judged = able.intersection(runs.study.verdicts or able) if base in able else set()
    scores = {name: tuple(_score(case.get(name)) for case in cases) for name in {base, *judged}}

    statements = {
        (scores[name], objective): value
        for (name, objective), value in differences.items()
        if name in judged and scores[name] != scores[base]
    }
    said = directions(statements)
    return {
        (name, objective): said.get((scores[name], objective), ("equal", None))[0]
        if name in judged
        else ""
        for name, objective in differences
    }


def _score(outcome: CellOutcome | None) -> Score | None:
    """Return the score of a finished run, None if unfinished; its computing time is left out."""
    score = outcome and outcome.metrics
    return msgspec.structs.replace(score, cpu_per_job=0.0) if isinstance(score, Score) else None


def score_method(runs: StudyRuns) -> str:
    """Return sentences for a report: what the cases are, how the numbers are computed."""
    study = runs.study
    stand_ins = {
        case.of: log.generated.preset
        for case in study.cases
        for log in study.logs
        if log.name == case.log and log.generated
    }
    logs = dict.fromkeys(case.of for case in study.cases if case.of not in stand_ins)
    sentences = [
        f"{len(study.cases)} cases, half of them versioned, half drawn. Logs: "
        f"{', '.join(logs) or 'none'}."
    ]
    if stand_ins:
        presets = "; ".join(f"{log}: {preset}" for log, preset in stand_ins.items())
        sentences.append(
            f"Generated workloads stand in for logs that are not here ({presets}); only results "
            "with the same ones have the same cases."
        )
    without = sum(BEST_KNOWN not in case for case in cases_of(runs))
    if without:
        sentences.append(
            f"{without} cases have no bound, and no share of it: install 'qops-batsim[bound]'."
        )
    sentences.append(
        f"Means over cases with 95 % intervals (Student) over logs. Verdicts: against {study.base} "
        f"on the same cases, {TEXT_OF_LEVEL}; not "
        "judged is who promises nothing, nor equal runs." + asked_text(study.verdicts)
    )
    return " ".join(sentences)


def asked_text(names: Sequence[str]) -> str:
    """Return a sentence that names the schedulers that a study judges; "" if it names none."""
    return f" Judged are {', '.join(names)} only, as the study says." if names else ""


def score_figure(runs: StudyRuns) -> Figure:
    """Return the figure of each scheduler's shares of the bound, with their intervals."""
    cases = cases_of(runs)
    names = [*_ranked(runs, cases), BEST_KNOWN]
    panels = []
    for objective in OBJECTIVES:
        means = ((name, mean_of(cases, name, objective)) for name in names)
        bars = line_of_means(objective, ((name, mean) for name, mean in means if mean))
        label = f"{objective} (% of the bound)"
        panels.append(Panel(title="", x_label="", y_label=label, series=(bars,), kind="bars"))
    return Figure(name="scores", title="Promises kept, in % of the bound", panels=tuple(panels))


def _ranked(runs: StudyRuns, cases: Sequence[ScoredCase]) -> list[str]:
    """Return schedulers sorted by their mean share of jobs, work and charges.

    Where no bound is known it is that of the deadlines that they reach.
    """

    def rank(name: str) -> float:
        for metrics in (OBJECTIVES, [f"reached_{objective}" for objective in OBJECTIVES]):
            means = [mean_of(cases, name, metric) for metric in metrics]
            known = [mean.mean for mean in means if mean is not None]
            if known:
                return sum(known) / len(known)
        return -1.0

    return sorted((each.name for each in runs.study.schedulers), key=rank, reverse=True)
