"""Figures 4 to 58 of Islam et al. (2003) as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qops_batsim.experiments.best_lines import LINES
from qops_batsim.experiments.intervals import mean_interval
from qops_batsim.papers.islam2003.cases import ADMISSION, REFERENCES, RULES, is_bounded
from qops_batsim.papers.islam2003.numbers import FIGURES, Setting, Shown
from qops_batsim.papers.islam2003.runs import Curve, Results
from qops_batsim.papers.report import Figure, Panel, Series
from qops_batsim.papers.samples import Quantity, line

UNADMITTED = (
    Quantity("unadmitted_jobs", "Unadmitted jobs (%)"),
    Quantity("unadmitted_work", "Unadmitted processor-seconds (%)"),
)
UNADMITTED_DEADLINE = (
    Quantity("unadmitted_deadline_jobs", "Unadmitted deadline jobs (%)"),
    Quantity("unadmitted_deadline_work", "Unadmitted processor-seconds of deadline jobs (%)"),
)
UTILIZATION = Quantity("utilization", "Utilization (%)")
OTHERS = (
    Quantity("response_time", "Mean response time of non-deadline jobs (hours)", 1 / 3600),
    Quantity("slowdown", "Mean slowdown of non-deadline jobs"),
)

_TITLES = {
    "admittance": "Admittance capacity",
    "utilization": "Utilization",
    "load": "Non-deadline jobs by load",
    "achieved": "Non-deadline jobs by utilization",
    "relaxation": "QoPS by relaxation factor",
}

Lines = Mapping[str, Curve]


def figures(results: Results) -> list[Figure]:
    """Return all figures, by the paper's numbers."""
    return [
        Figure(
            name=str(shown.number),
            title=f"Figure {shown.number}: {title_of(shown)}",
            panels=tuple(_panels(results, shown)),
        )
        for shown in FIGURES
    ]


def title_of(shown: Shown) -> str:
    """Say what a figure shows."""
    where = f"{shown.log}, {shown.method}"
    said = " and ".join(dict.fromkeys(map(_setting, shown.settings)))
    return f"{_TITLES[shown.kind]}, {where}, {said}"


def _setting(setting: Setting) -> str:
    stringency, share = setting
    return f"S = {stringency:g}, {100 * share:g} % deadline jobs"


def _panels(results: Results, shown: Shown) -> Iterator[Panel]:
    for rule, source in RULES.items() if shown.mixed else [("run-time", "")]:
        behind = f"; artificial deadlines of the {source}" if source else ""
        for setting in shown.settings:
            lines = _lines(results, shown, setting, rule)
            for quantity in _quantities(shown):
                yield Panel(
                    title=f"{_setting(setting)}{behind}",
                    x_label="Utilization (%)" if shown.kind == "achieved" else "Load",
                    y_label=quantity.label,
                    series=(
                        *(
                            _series(label, curve, quantity, shown.kind == "achieved")
                            for label, curve in lines.items()
                        ),
                        *(_limits(lines["qops"], quantity) if is_bounded(shown) else ()),
                    ),
                )


def _quantities(shown: Shown) -> tuple[Quantity, ...]:
    if shown.kind == "admittance":
        return UNADMITTED_DEADLINE if shown.mixed else UNADMITTED
    return (UTILIZATION,) if shown.kind == "utilization" else OTHERS


def _lines(results: Results, shown: Shown, setting: Setting, rule: str) -> Lines:
    where = results, shown.log, shown.method, setting
    if shown.kind == "relaxation":
        factors = results.study.relaxations
        return {f"R = {each:g}": Curve(*where, "qops", rule, each) for each in factors}
    names = ADMISSION if shown.kind == "admittance" else (*ADMISSION, *REFERENCES)
    return {name: Curve(*where, name, rule) for name in names}


def _series(label: str, curve: Curve, quantity: Quantity, over_utilization: bool) -> Series:
    """Return a line of means over seeds; loads at which the number has no meaning are left out."""
    points = []
    for load in curve.results.study.loads:
        values, reached = (curve.values(load, each) for each in (quantity.metric, "utilization"))
        if values and reached:
            x = mean_interval(reached).mean if over_utilization else load
            points.append((x, mean_interval(values)))
    return line(label, points, quantity.scale)


def _limits(curve: Curve, quantity: Quantity) -> Iterator[Series]:
    """Yield the best known schedule and the bound on the workloads of a curve, if searched for."""
    loads = curve.results.study.loads if curve.results.bound else ()
    for name, dashes in zip(LINES, ("--", ":"), strict=True):
        values = tuple(curve.limits(load, name)[quantity.metric] for load in loads)
        if values:
            yield Series(label=name, x=loads, y=values, limit=dashes)
