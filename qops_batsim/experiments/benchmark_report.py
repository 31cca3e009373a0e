"""Tables, picture and page of a benchmark's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path

from qops_batsim.experiments.benchmark import BenchmarkResult, CaseResult
from qops_batsim.experiments.benchmark_cases import HALVES
from qops_batsim.experiments.benchmark_runs import Score
from qops_batsim.experiments.page import PageTable, PageText, html_page, pictures_of
from qops_batsim.experiments.pictures import error_bars, panels
from qops_batsim.experiments.statistics import (
    RISK,
    SHARE,
    SHARE_DIFFERENCE,
    Interval,
    difference,
    directions,
    grouped_interval,
)

OBJECTIVES = ("jobs", "work", "charge")
BEST_KNOWN = "best known"

Metric = Callable[[CaseResult, str], float | None]
"""Returns a number of a case and a contestant, None if there is none."""


def of_best(objective: str, what: str = "reached") -> Metric:
    """Return the metric of the share (%) of the bound that is reached or met."""

    def value(case: CaseResult, name: str) -> float | None:
        bound = None if case.bound is None else case.bound.bound.get(objective)
        if case.bound is None or not bound:
            return None
        if name == BEST_KNOWN:
            return 100.0 * case.bound.best_known[objective] / bound
        return 100.0 * in_time(case.scores[name], objective, what) / bound

    return value


def in_time(score: Score, objective: str, what: str = "reached") -> float:
    """Return the share (%) of the deadlines reached or met.

    A scheduler that promises nothing cannot reach any: it is scored by those that it meets.
    """
    return float(getattr(score, f"{what if score.promised_jobs else 'met'}_{objective}"))


def of_score(field: str, scale: float = 1.0) -> Metric:
    """Return a field of scores, or of one of their fields, times a factor to another unit."""

    def value(case: CaseResult, name: str) -> float | None:
        found: float | None = attrgetter(field)(case.scores[name])
        return None if found is None else scale * found

    return value


def _broken(case: CaseResult, name: str) -> float | None:
    score = case.scores[name]
    if not score.promised_jobs:
        return None
    return 100.0 * (1 - score.kept_jobs / score.promised_jobs)


BESIDE: dict[str, Metric] = {
    "promised jobs (%)": of_score("promised_jobs"),
    "promises broken (%)": _broken,
    "deadlines met (%)": of_score("met_jobs"),
    "charges paid (%)": of_score("kept_charge"),
    "wait of others (h)": of_score("wait", 1 / 3600),
    "slowdown of others": of_score("bounded_slowdown"),
    "Gini of users": of_score("gini"),
    "worst decile of users (%)": of_score("worst_decile"),
    "work wasted (%)": of_score("wasted_work"),
    "ms a job": of_score("times.cpu_per_job"),
    "ms a decision": of_score("times.median"),
    "99th percentile": of_score("times.p99"),
}
"""Columns beside the share of the best possible, by heading."""


def mean_of(
    cases: Sequence[CaseResult], name: str, metric: Metric, less: str | None = None
) -> Interval | None:
    """Return the mean over cases with its interval over logs; of the difference ``less`` another.

    The metric is a share, or only its mean is of interest. Cases that lack the number, or the run,
    are left out.
    """
    values = []
    for case in cases:
        if {name, less or name} - {BEST_KNOWN, *case.scores}:
            continue
        found = metric(case, name)
        if less is not None:
            found = difference(found, metric(case, less))
        if found is not None:
            values.append((case.log, found))
    return grouped_interval(values, limits=SHARE if less is None else SHARE_DIFFERENCE)


def tables_of(result: BenchmarkResult) -> list[PageTable]:
    """Return the tables of a result: scores, halves, differences, and what is beside them."""
    cases, names = result.cases, result.names
    kinds = [of_best(each) for each in OBJECTIVES]
    ranked = sorted(names, key=lambda each: _rank(cases, each), reverse=True)
    columns = [*kinds, of_best("jobs", "met")]
    scores = [
        [name, str(_count(cases, name)), *(_text(mean_of(cases, name, each)) for each in columns)]
        for name in (*ranked, BEST_KNOWN)
    ]
    halves = [(half, [each for each in cases if each.half == half]) for half in HALVES]
    by_half = [
        [name, *(_text(mean_of(some, name, each)) for each in kinds for _, some in halves)]
        for name in ranked
    ]
    others = [each for each in ranked if each != result.baseline]
    found = [
        [mean_of(cases, name, each, less=result.baseline) for each in kinds] for name in others
    ]
    verdicts = [said for said, _ in directions(each for row in found for each in row)]
    differences = []
    for place, (name, row) in enumerate(zip(others, found, strict=True)):
        own = verdicts[3 * place : 3 * place + 3]
        cells = [_text(each, "+") for each in row]
        differences.append([name, *(x for pair in zip(cells, own, strict=True) for x in pair)])
    beside = [
        [name, *(_mean_text(mean_of(cases, name, each)) for each in BESIDE.values())]
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
            title=f"Differences from {result.baseline} (points)",
            headings=["scheduler", *(x for each in OBJECTIVES for x in (each, "verdict"))],
            rows=differences,
        ),
        PageTable(title="Beside that", headings=["scheduler", *BESIDE], rows=beside),
    ]


def case_table(result: BenchmarkResult) -> PageTable:
    """Return the jobs of each case that contestants reach, in % of all deadlines, and the bound."""
    names = result.names
    rows = []
    for case in result.cases:
        reached = [
            f"{in_time(case.scores[name], 'jobs'):.1f}" if name in case.scores else "failed"
            for name in names
        ]
        bound = "-" if case.bound is None else f"{case.bound.bound['jobs']:.1f}"
        rows.append([case.name, case.half, case.about, *reached, bound])
    headings = ["case", "half", "about", *names, "bound"]
    return PageTable(title="Deadlines promised and kept (%)", headings=headings, rows=rows)


def method_text(result: BenchmarkResult) -> list[str]:
    """Return in sentences which cases these are, and how the numbers are made."""
    count = len(result.cases)
    said = [
        f"Version {result.benchmark_version}{', quick' if result.quick else ''}: {count} cases, "
        f"half of them versioned, half drawn with seed {result.seed}. "
        f"Logs: {', '.join(result.logs) or 'none'}."
    ]
    if result.stand_ins:
        stand_ins = (f"{log}: {preset}" for log, preset in result.stand_ins.items())
        said.append(
            f"Generated workloads stand in for logs that are not here ({'; '.join(stand_ins)}); "
            "only results with the same ones have the same cases."
        )
    without = sum(each.bound is None for each in result.cases)
    if without:
        said.append(
            f"{without} cases have no bound, and no share of it: install 'qops-batsim[bound]'."
        )
    said.append(
        "Means over cases with 95 % intervals (Student) over logs. Verdicts: against "
        f"{result.baseline} on the same cases; at most {RISK} for one wrong verdict or more in the "
        "table (Holm)."
    )
    return said


def benchmark_page(result: BenchmarkResult, command: str) -> str:
    """Return a result as HTML; ``command`` made it."""
    first, *tables = tables_of(result)
    return html_page(
        "Benchmark",
        " ".join(method_text(result)),
        {
            "Scores": [first, *pictures_of(lambda place: draw_scores(result, place / "s.svg"))],
            "Halves and differences": tables[:2],
            "Promises, others, users, times": tables[2:],
            "Cases": [case_table(result), _errors(result)],
        },
        command,
        seed=str(result.seed),
    )


def draw_scores(result: BenchmarkResult, path: Path) -> dict[Path, str]:
    """Draw the shares of the bounds with their intervals; return the file with a caption."""
    names = [*sorted(result.names, key=lambda each: _rank(result.cases, each)), BEST_KNOWN]
    with panels(path, len(OBJECTIVES), (4.5, 0.6 + 0.25 * len(names)), (0.8, 0.6)) as (_, axes):
        for place, objective in zip(axes, OBJECTIVES, strict=False):
            found = {n: mean_of(result.cases, n, of_best(objective)) for n in names}
            known = {name: each for name, each in found.items() if each is not None}
            means = [each.mean for each in known.values()]
            ends = [list(each) for each in zip(*(x.ends for x in known.values()), strict=True)]
            if means:
                bars = error_bars(means, *ends)
                place.errorbar(means, list(known), xerr=bars, fmt="o", capsize=3)
            place.set_xlabel(f"{objective} (% of the bound)")
            place.grid(axis="x", alpha=0.3)
    return {path: "Promises kept, in % of the bound"}


def _errors(result: BenchmarkResult) -> PageText | None:
    said = [
        f"{name} on {case.name} ({case.half}): {error}"
        for case in result.cases
        for name, error in case.errors.items()
    ]
    return PageText(paragraphs=said) if said else None


def _rank(cases: Sequence[CaseResult], name: str) -> float:
    """Return the mean of the shares of jobs, work and charges, those of the bound if known."""
    reached = (lambda case, name, x=x: in_time(case.scores[name], x) for x in OBJECTIVES)
    for metrics in (map(of_best, OBJECTIVES), reached):
        found = [mean_of(cases, name, each) for each in metrics]
        known = [each.mean for each in found if each is not None]
        if known:
            return sum(known) / len(known)
    return -1.0


def _count(cases: Sequence[CaseResult], name: str) -> int:
    return sum(name in each.scores or name == BEST_KNOWN for each in cases)


def _text(value: Interval | None, sign: str = "") -> str:
    return "-" if value is None else value.text(sign=sign)


def _mean_text(value: Interval | None) -> str:
    return "-" if value is None else f"{value.mean:,.2f}"
