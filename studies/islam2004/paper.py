"""Islam et al. (2004): what a centre earns from feedback, tolerance, slack and kills.

M. Islam, P. Balaji, P. Sadayappan and D. K. Panda, "Towards provision of quality of
service guarantees in job scheduling", IEEE International Conference on Cluster Computing,
2004: tables, Figures 3 to 11 and the claims of sections 6 to 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import msgspec

from qops_batsim.economics import PROCESSOR_CLASSES, RUN_TIME_CLASSES
from qops_batsim.experiments import (
    Claim,
    Figure,
    PageTable,
    Panel,
    ReportColumn,
    StudyReport,
    jointly_judged,
    line_of_means,
)
from qops_batsim.workload import Workload, convert_log
from studies.islam2004.claims import claims
from studies.islam2004.runs import (
    Results,
    all_values,
    break_even_values,
    case_values,
    category_values,
    run_study,
)
from studies.islam2004.study import (
    COARSE,
    FULL,
    QUICK,
    SPECIFICATION,
    Case,
    Study,
    ToleranceKind,
    choices,
)
from studies.logs import BATCH_PARTITION, CTC, SDSC, SDSC_PROCESSORS, WHOLE_LOG, read_log
from studies.request import StudyRequest
from studies.shared import Quantity, stretch_table


def run(request: StudyRequest) -> StudyReport:
    """Run the experiments; the quick part is one machine and a coarse grid."""
    if request.quick:
        return run_with(request.seeded(QUICK), request)
    ctc, sdsc = read_log(request, CTC), read_log(request, SDSC)
    studies = [
        (ctc, BATCH_PARTITION, FULL),
        (ctc, WHOLE_LOG, COARSE),
        (sdsc, SDSC_PROCESSORS, COARSE),
    ]
    parts = [
        (convert_log(log, processors=processors).workload, request.seeded(study))
        for log, processors, study in studies
    ]
    return report_on(parts, request)


def run_with(study: Study, request: StudyRequest) -> StudyReport:
    """Run the experiments of another study, on the paper's machine."""
    log = read_log(request, CTC)
    return report_on([(convert_log(log, processors=BATCH_PARTITION).workload, study)], request)


def report_on(parts: Sequence[tuple[Workload, Study]], request: StudyRequest) -> StudyReport:
    """Run studies on traces, one for each machine, and report.

    The traces are the jobs of whole logs, of type ``delay``. Figures and claims of the first
    have the plain names, those of the others end in ``-PROCESSORS``.
    """
    request = request.in_parts(sum(len(study.runs()) for _, study in parts))
    machines: dict[str, Any] = {}
    report = StudyReport(
        study="islam2004",
        quick=request.quick,
        choices=choices(parts),
        data={"machines": machines},
    )
    first: list[Claim] = []
    for trace, study in parts:
        results = run_study(trace, study, request)
        suffix = f"-{trace.processors}" if machines else ""
        machine = f", {trace.processors} processors" if len(parts) > 1 else ""
        if not machines:
            paper = study.paper_jobs
            own = run_study(trace, study.of_paper, request) if paper else results.on_first
            first = claims(own)
        report.tables = [*report.tables, *tables(results, machine=machine)]
        report.figures = [*report.figures, *figures(results, suffix=suffix, machine=machine)]
        report.claims = [*report.claims, *claims(results, suffix=suffix)]
        report.runs = [*report.runs, results.runs]
        machines[str(trace.processors)] = all_values(results)
    report.claims = jointly_judged(report.claims)
    report.tables = [stretch_table(report.claims, first), *report.tables]
    return report


def tables(results: Results, *, machine: str = "") -> list[PageTable]:
    """Return the tables; ``machine`` goes behind their titles."""
    study = results.study
    tolerance = [case for load in study.loads for case in study.tolerance_cases(load)]
    table, load = partial(SPECIFICATION.table, machine=machine), study.kill_load
    forms = {"percent": lambda share: f"{100 * share:g}"}
    return [
        table("tolerance", [case_values(results, case) for case in tolerance]),
        _category_table(results, machine),
        table("kills", _kill_rows(results), forms=forms, load=load),
        table("break_even", break_even_values(results), load=load),
        *([table("readings", _reading_rows(results), load=load)] if study.readings else []),
    ]


def _reading_rows(results: Results) -> list[dict[str, Any]]:
    """Return the rows of readings, each beside the usual one."""
    usual = results.study.reading_pairs("")
    compared = {"tolerance": ("TF = 1", "TF = 10"), "kills": ("TF = 4, SF = 2", "kills")}
    rows = []
    for reading, (name, (at, what)) in product(("", *results.study.readings), compared.items()):
        more, less = results.study.reading_pairs(reading)[name]
        row: dict[str, Any] = {"reading": reading or "usual", "at": at, "what": what}
        for charge in ("resource", "qos"):
            row[charge] = results.change(less, usual[name][1], f"{charge}_charge")
            row[f"more_{charge}"] = results.change(more, less, f"{charge}_charge")
        rows.append(row)
    # The usual categories, and those with other edges.
    metrics = {"usual": "qos_charge", "later edges": "other_edges_qos_charge"}
    for (edges, metric), (name, (at, what)) in product(metrics.items(), compared.items()):
        row = {"reading": f"categories: {edges}", "at": at, "what": what}
        rows.append({**row, "more_qos": results.change(*usual[name], metric)})
    return rows


def _category_table(results: Results, machine: str) -> PageTable:
    factors = [f"{each:g}" for each in shown_factors(results.study.tolerance_factors)]
    further = {
        f"accepted_{what}.{factor}": ReportColumn(f"{what}, TF {factor}", "{.mean:.0f}")
        for what in ("jobs", "work")
        for factor in factors
    }
    load = f"load {max(results.study.loads):g}"
    rows = category_values(results)
    return SPECIFICATION.table("categories", rows, further=further, machine=machine, load=load)


def _kill_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row for each case with kills, beside that without; those that are equal once."""
    rows: dict[Any, dict[str, Any]] = {}
    for case in results.study.all_kill_cases():
        if case.kill_and_restart:
            values = case_values(results, case)
            plain = case_values(results, msgspec.structs.replace(case, kill_and_restart=False))
            beyond = case.slack_factor > case.tolerance_factor
            values["slack_factor"] = "> TF" if beyond else f"{case.slack_factor:g}"
            key = case.deadline_share, case.tolerance_factor, values["slack_factor"]
            rows.setdefault(key, {**values, "without": plain["metrics"]})
    return list(rows.values())


ACCEPTED_JOBS = Quantity("accepted_share", "Accepted jobs (% of submitted)")
ACCEPTED_WORK = Quantity("accepted_work", "Accepted work (10⁶ processor-seconds)", 1e-6)
RESOURCE = Quantity("resource_charge", "Resource charge (10⁶ processor-seconds)", 1e-6)
QOS = Quantity("qos_charge", "QoS charge (10³)", 1e-3)


def figures(results: Results, *, suffix: str = "", machine: str = "") -> list[Figure]:
    """Return Figures 3 to 11, and one of the categories that section 6.1 talks of.

    ``suffix`` goes behind their names, ``machine`` behind titles.
    """
    few = results.study.deadline_share
    accepted = (
        _over_tolerance(results, ACCEPTED_JOBS, "fixed", "(a) Jobs, fixed TF"),
        _over_tolerance(results, ACCEPTED_WORK, "fixed", "(b) Processor-seconds, fixed TF"),
    )
    made: list[tuple[str, tuple[Panel, ...]]] = [("Tolerance: accepted jobs and work", accepted)]
    charges = {"resource charge": RESOURCE, "QoS charge": QOS}
    made += [(f"Tolerance: {x}", _both_tolerances(results, each)) for x, each in charges.items()]
    over_slack = {
        "Artificial slack": _slack_lines(results.study),
        "Kill-and-restart": _kill_lines(results.study, 1.0),
        "Kill-and-restart, few deadlines": _kill_lines(results.study, few),
    }
    for (title, lines), (name, each) in product(over_slack.items(), charges.items()):
        made.append((f"{title}: {name}", _slack_panels(results, each, lines)))
    load = f"load {max(results.study.loads):g}"
    return [
        *(
            Figure(name=f"figure{number}{suffix}", title=f"{title}{machine}", panels=panels)
            for number, (title, panels) in enumerate(made, 3)
        ),
        Figure(
            name=f"categories{suffix}",
            title=f"Tolerance: accepted jobs by category, {load}{machine}",
            panels=_category_panels(results),
        ),
    ]


def shown_factors(factors: Sequence[float]) -> list[float]:
    """Return the few tolerance factors that are shown by category."""
    return list(dict.fromkeys((factors[0], factors[1], factors[len(factors) // 2], factors[-1])))


def _category_panels(results: Results) -> tuple[Panel, ...]:
    rows = {row["category"]: row["accepted_jobs"] for row in category_values(results)}
    factors = [f"{each:g}" for each in shown_factors(results.study.tolerance_factors)]
    panels = []
    for letter, of_time in zip("abcd", RUN_TIME_CLASSES, strict=True):
        found = {each: rows[f"{of_time}-{each}"] for each in PROCESSOR_CLASSES}
        known = {each: row for each, row in found.items() if row[factors[0]]}
        series = (
            line_of_means(f"TF {factor}", ((each, row[factor]) for each, row in known.items()))
            for factor in factors
        )
        panels.append(
            Panel(
                title=f"({letter}) {of_time.replace('-', ' ').capitalize()} jobs",
                x_label="Processors",
                y_label="Accepted jobs (% of the category)",
                series=tuple(series),
                kind="bars",
            )
        )
    return tuple(panels)


def _both_tolerances(results: Results, quantity: Quantity) -> tuple[Panel, ...]:
    fixed = _over_tolerance(results, quantity, "fixed", "(a) Fixed TF")
    return fixed, _over_tolerance(results, quantity, "random", "(b) Random TF")


def _over_tolerance(results: Results, quantity: Quantity, kind: ToleranceKind, title: str) -> Panel:
    study = results.study
    lines = {f"load {load:g}": study.tolerance_cases(load, kind) for load in study.loads}
    axis = "Tolerance factor (TF)", study.tolerance_factors
    return _panel(results, quantity, title, axis, lines)


def _slack_lines(study: Study) -> dict[str, CaseLines]:
    return {
        f"Load {load:g}": {
            f"TF {tf:g}": study.slack_cases(load, tf) for tf in study.slack_tolerance_factors
        }
        for load in study.slack_loads
    }


def _kill_lines(study: Study, share: float) -> dict[str, CaseLines]:
    return {
        f"TF {factor:g}, load {study.kill_load:g}": {
            "without kills": study.kill_cases(share, factor, False),
            "kill-and-restart": study.kill_cases(share, factor, True),
        }
        for factor in study.kill_tolerance_factors
    }


CaseLines = Mapping[str, Sequence[Case]]


def _slack_panels(
    results: Results, quantity: Quantity, lines: Mapping[str, CaseLines]
) -> tuple[Panel, ...]:
    axis = "Slack factor (SF)", results.study.slack_factors
    return tuple(
        _panel(results, quantity, f"({letter}) {title}", axis, each)
        for letter, (title, each) in zip("abcdef", lines.items(), strict=False)
    )


def _panel(
    results: Results,
    quantity: Quantity,
    title: str,
    axis: tuple[str, Sequence[float]],
    lines: CaseLines,
) -> Panel:
    """Return a panel with a line of means over seeds for each sequence of cases."""
    label, x = axis
    series = []
    for name, cases in lines.items():
        found = (results.interval(case, quantity.metric) for case in cases)
        series.append(line_of_means(name, zip(x, found, strict=True), quantity.scale))
    return Panel(title=title, x_label=label, y_label=quantity.label, series=tuple(series))
