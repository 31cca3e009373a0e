"""Figures 3 to 11 of Islam et al. (2004) as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qops_batsim.economics.charges import PROCESSOR_CLASSES, RUN_TIME_CLASSES
from qops_batsim.papers.islam2004.cases import Case, Kind
from qops_batsim.papers.islam2004.runs import Results
from qops_batsim.papers.islam2004.values import category_values
from qops_batsim.papers.report import Figure, Panel, Series
from qops_batsim.papers.samples import Quantity, line

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
    made = (
        ("Tolerance: accepted jobs and work", accepted),
        ("Tolerance: resource charge", _both_tolerances(results, RESOURCE)),
        ("Tolerance: QoS charge", _both_tolerances(results, QOS)),
        ("Artificial slack: resource charge", _over_slack(results, RESOURCE)),
        ("Artificial slack: QoS charge", _over_slack(results, QOS)),
        ("Kill-and-restart: resource charge", _kills(results, RESOURCE, 1.0)),
        ("Kill-and-restart: QoS charge", _kills(results, QOS, 1.0)),
        ("Kill-and-restart, few deadlines: resource charge", _kills(results, RESOURCE, few)),
        ("Kill-and-restart, few deadlines: QoS charge", _kills(results, QOS, few)),
    )
    load = f"load {max(results.study.loads):g}"
    return [
        *(
            Figure(name=f"figure{number}{suffix}", title=f"{title}{machine}", panels=panels)
            for number, (title, panels) in enumerate(made, 3)
        ),
        Figure(
            name=f"categories{suffix}",
            title=f"Tolerance: accepted jobs by category, {load}{machine}",
            panels=_categories(results),
        ),
    ]


def shown_factors(factors: Sequence[float]) -> list[float]:
    """Return the few tolerance factors that are shown by category."""
    return list(dict.fromkeys((factors[0], factors[1], factors[len(factors) // 2], factors[-1])))


def _categories(results: Results) -> tuple[Panel, ...]:
    rows = {row["category"]: row["accepted_jobs"] for row in category_values(results)}
    factors = [f"{each:g}" for each in shown_factors(results.study.tolerance_factors)]
    panels = []
    for letter, of_time in zip("abcd", RUN_TIME_CLASSES, strict=True):
        names = [each for each in PROCESSOR_CLASSES if rows[f"{of_time}-{each}"][factors[0]]]
        series = [
            line(f"TF {factor}", ((each, rows[f"{of_time}-{each}"][factor]) for each in names))
            for factor in factors
        ]
        title = f"({letter}) {of_time.replace('-', ' ').capitalize()} jobs"
        panels.append(_bars(title, tuple(series)))
    return tuple(panels)


def _bars(title: str, series: tuple[Series, ...]) -> Panel:
    label = "Accepted jobs (% of the category)"
    return Panel(title=title, x_label="Processors", y_label=label, series=series, kind="bars")


def _both_tolerances(results: Results, quantity: Quantity) -> tuple[Panel, ...]:
    kinds: tuple[tuple[Kind, str], ...] = (("fixed", "(a) Fixed TF"), ("random", "(b) Random TF"))
    return tuple(_over_tolerance(results, quantity, *each) for each in kinds)


def _over_tolerance(results: Results, quantity: Quantity, kind: Kind, title: str) -> Panel:
    study = results.study
    lines = {f"load {load:g}": study.tolerance_cases(load, kind) for load in study.loads}
    x = study.tolerance_factors
    return _panel(results, quantity, title, "Tolerance factor (TF)", x, lines)


def _over_slack(results: Results, quantity: Quantity) -> tuple[Panel, ...]:
    study = results.study
    panels = []
    for letter, load in zip("abcdef", study.slack_loads, strict=False):
        lines = {f"TF {tf:g}": study.slack_cases(load, tf) for tf in study.slack_tolerance_factors}
        panels.append(_slack_panel(results, quantity, f"({letter}) Load {load:g}", lines))
    return tuple(panels)


def _kills(results: Results, quantity: Quantity, share: float) -> tuple[Panel, ...]:
    study = results.study
    names, panels = ("without kills", "kill-and-restart"), []
    for letter, factor in zip("abcdef", study.kill_tolerance_factors, strict=False):
        lines = {name: study.kill_cases(share, factor, name == names[1]) for name in names}
        title = f"({letter}) TF {factor:g}, load {study.kill_load:g}"
        panels.append(_slack_panel(results, quantity, title, lines))
    return tuple(panels)


def _slack_panel(
    results: Results, quantity: Quantity, title: str, lines: Mapping[str, Sequence[Case]]
) -> Panel:
    x = results.study.slack_factors
    return _panel(results, quantity, title, "Slack factor (SF)", x, lines)


def _panel(
    results: Results,
    quantity: Quantity,
    title: str,
    x_label: str,
    x: Sequence[float],
    lines: Mapping[str, Sequence[Case]],
) -> Panel:
    """Return a panel with a line of means over seeds for each sequence of cases."""
    series = []
    for label, cases in lines.items():
        found = (results.interval(case, quantity.metric) for case in cases)
        series.append(line(label, zip(x, found, strict=True), quantity.scale))
    return Panel(title=title, x_label=x_label, y_label=quantity.label, series=tuple(series))
