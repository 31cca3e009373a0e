"""Islam et al. (2003), the report that proposed QoPS: tables, Figures 4 to 58, claims of section 5.

M. Islam, P. Balaji, P. Sadayappan and D. K. Panda, "QoPS: A QoS based scheme for parallel job
scheduling", Technical Report OSU-CISRC-4/03-TR21, Ohio State University, 2003, and JSSPP 2003.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from qops_batsim.experiments import (
    LINES,
    NOT_JUDGED,
    Claim,
    Figure,
    PageTable,
    Panel,
    Scenario,
    Series,
    StudyReport,
    jointly_judged,
    limits_of,
    line_of_means,
    mean_interval,
)
from qops_batsim.workload import Workload, convert_log
from studies.islam2003.claims import claims
from studies.islam2003.runs import (
    USED,
    Results,
    all_values,
    packed,
    readings,
    rows,
    run_study,
    windows,
)
from studies.islam2003.study import (
    ADMISSION,
    FULL,
    QUICK,
    REFERENCES,
    RULES,
    SPECIFICATION,
    DeadlineSetting,
    PaperFigure,
    Study,
    choices,
    is_bounded,
)
from studies.logs import read_log
from studies.request import StudyRequest
from studies.shared import Quantity, stretch_table


def run(request: StudyRequest) -> StudyReport:
    """Run the experiments; the quick part has fewer jobs, loads and seeds."""
    return run_with(request.seeded(QUICK if request.quick else FULL), request)


def run_with(study: Study, request: StudyRequest) -> StudyReport:
    """Run the experiments of another study."""
    machines = {source.machine: source for source in study.all_sources()}
    files = dict.fromkeys(each.file for each in machines.values())
    logs = {file: read_log(request, file) for file in files}
    traces = {
        name: convert_log(logs[each.file], processors=each.processors).workload
        for name, each in machines.items()
    }
    return report_on(traces, study, request)


def report_on(traces: Mapping[str, Workload], study: Study, request: StudyRequest) -> StudyReport:
    """Run a study on traces, the jobs of whole logs (type ``delay``) by machine."""
    results = run_study(traces, study, request)
    judged = jointly_judged(_judged(results))
    own = run_study(traces, study.of_paper, request) if study.paper_jobs else results.on_first
    return StudyReport(
        study="islam2003",
        quick=request.quick,
        choices=choices(study),
        data=all_values(results),
        tables=[stretch_table(judged, claims(own)), *tables(results)],
        figures=figures(own if study.paper_jobs else results),
        claims=judged,
        runs=(results.runs, results.packed),
    )


def _judged(results: Results) -> list[Claim]:
    """Return the claims, of a part of the figures those for which it suffices."""
    found = claims(results)
    if results.study.is_whole:
        return found
    return [claim for claim in found if claim.verdict != NOT_JUDGED]


def tables(results: Results) -> list[PageTable]:
    """Return the tables."""
    loads = {results.study.loads[0], results.study.loads[-1]}
    loads |= {load for load in results.study.loads if load in (1.2, 1.4)}
    shown = [row for row in rows(results) if row["load"] in loads]
    figures = [
        {
            "number": str(each.number),
            "title": title_of(each),
            "rules": ", ".join(RULES.values()) if each.mixed else "",
        }
        for each in results.study.shown
    ]
    mixed = [row for row in shown if row["share"] < 1]
    table = SPECIFICATION.table
    compared = {
        "Readings of the paper, S = 0.2, deadlines for all jobs": list(readings(results)),
        "Other windows of the logs, S = 0.2": list(windows(results)),
    }
    return [
        table("figures", figures),
        table("all", [row for row in shown if row["share"] == 1]),
        *(
            table("mixed", [row for row in mixed if row["rule"] == rule], source=source)
            for rule, source in RULES.items()
        ),
        table("packed", list(packed(results))),
        *(table("compared", found, title=title) for title, found in compared.items() if found),
    ]


UNADMITTED = (
    Quantity("unadmitted_jobs", "Unadmitted jobs (%)"),
    Quantity("unadmitted_work", "Unadmitted processor-seconds (%)"),
)
UNADMITTED_DEADLINE = (
    Quantity("unadmitted_deadline_jobs", "Unadmitted deadline jobs (%)"),
    Quantity("unadmitted_deadline_work", "Unadmitted processor-seconds of deadline jobs (%)"),
)
UTILIZATION = Quantity(USED, "Utilization (%)")
OTHERS = (
    Quantity(
        "response_time_of_others", "Mean response time of non-deadline jobs (hours)", 1 / 3600
    ),
    Quantity("slowdown_of_others", "Mean slowdown of non-deadline jobs"),
)

_TITLES = {
    "admittance": "Admittance capacity",
    "utilization": "Utilization",
    "load": "Non-deadline jobs by load",
    "achieved": "Non-deadline jobs by utilization",
    "relaxation": "QoPS by relaxation factor",
}


def figures(results: Results) -> list[Figure]:
    """Return the figures, by the paper's numbers."""
    return [
        Figure(
            name=str(figure.number),
            title=f"Figure {figure.number}: {title_of(figure)}",
            panels=tuple(_panels(results, figure)),
        )
        for figure in results.study.shown
    ]


def title_of(figure: PaperFigure) -> str:
    """Return the title of a figure."""
    where = f"{figure.log}, {figure.method}"
    said = " and ".join(dict.fromkeys(map(_setting, figure.settings)))
    return f"{_TITLES[figure.kind]}, {where}, {said}"


def _setting(setting: DeadlineSetting) -> str:
    stringency, share = setting
    return f"S = {stringency:g}, {100 * share:g} % deadline jobs"


def _panels(results: Results, figure: PaperFigure) -> Iterator[Panel]:
    for rule in figure.rules:
        behind = f"; artificial deadlines of the {RULES[rule]}" if figure.mixed else ""
        for at in figure.kinds(rule):
            for quantity in _quantities(figure):
                yield Panel(
                    title=f"{_setting((at.stringency, at.share))}{behind}",
                    x_label="Utilization (%)" if figure.kind == "achieved" else "Load",
                    y_label=quantity.label,
                    series=(
                        *_lines(results, figure, at, quantity),
                        *(_limits(results, at, quantity) if is_bounded(figure) else ()),
                    ),
                )


def _quantities(figure: PaperFigure) -> tuple[Quantity, ...]:
    if figure.kind == "admittance":
        return UNADMITTED_DEADLINE if figure.mixed else UNADMITTED
    return (UTILIZATION,) if figure.kind == "utilization" else OTHERS


def _lines(
    results: Results, figure: PaperFigure, at: Scenario, quantity: Quantity
) -> Iterator[Series]:
    """Yield lines of means over seeds; loads at which the number has no meaning are left out."""
    if figure.kind == "relaxation":
        factors = results.study.relaxations
        curves = {
            f"R = {r:g}": (msgspec.structs.replace(at, relaxation=r), "qops") for r in factors
        }
    else:
        names = ADMISSION if figure.kind == "admittance" else (*ADMISSION, *REFERENCES)
        curves = {name: (at, name) for name in names}
    for label, (kind, scheduler) in curves.items():
        points = []
        for load in results.study.loads:
            values, reached = (
                results.values(kind, scheduler, each, load) for each in (quantity.metric, USED)
            )
            if values and reached:
                x = mean_interval(reached).mean if figure.kind == "achieved" else load
                points.append((x, mean_interval(values, limits_of(quantity.metric))))
        yield line_of_means(label, points, quantity.scale)


def _limits(results: Results, at: Scenario, quantity: Quantity) -> Iterator[Series]:
    """Yield the best known schedule and the bound on the workloads, if searched for."""
    loads = results.study.loads if results.bound else ()
    for name, dashes in zip(LINES, ("--", ":"), strict=True):
        values = tuple(results.limits(at, load, name)[quantity.metric] for load in loads)
        if values:
            yield Series(label=name, x=loads, y=values, limit=dashes)
