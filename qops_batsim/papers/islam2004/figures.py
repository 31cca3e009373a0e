"""Figures 3 to 11 of Islam et al. (2004) as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from qops_batsim.experiments.intervals import mean_interval
from qops_batsim.papers.islam2004.cases import Case, Results
from qops_batsim.papers.report import Figure, Panel, Series


class Quantity(NamedTuple):
    """A number of a run as figures show it.

    Attributes
    ----------
    metric
        Attribute of :class:`~qops_batsim.papers.islam2004.cases.Run`.
    label
        What the axis says, with the unit.
    scale
        Factor to that unit.
    """

    metric: str
    label: str
    scale: float = 1.0


ACCEPTED_JOBS = Quantity("accepted_share", "Accepted jobs (% of submitted)")
ACCEPTED_WORK = Quantity("accepted_work", "Accepted work (10⁶ processor-seconds)", 1e-6)
RESOURCE = Quantity("resource_charge", "Resource charge (10⁶ processor-seconds)", 1e-6)
QOS = Quantity("qos_charge", "QoS charge (10³)", 1e-3)

_TOLERANCE = "Tolerance factor (TF)"
_SLACK = "Slack factor (SF)"


def figures(results: Results, *, suffix: str = "", machine: str = "") -> list[Figure]:
    """Return Figures 3 to 11.

    Parameters
    ----------
    results
        All runs.
    suffix
        Goes behind the names of the figures.
    machine
        Goes behind their titles.
    """
    made = (
        ("figure3", "Tolerance: accepted jobs and work", _figure3(results)),
        ("figure4", "Tolerance: resource charge", _over_tolerance(results, RESOURCE)),
        ("figure5", "Tolerance: QoS charge", _over_tolerance(results, QOS)),
        ("figure6", "Artificial slack: resource charge", _over_slack(results, RESOURCE)),
        ("figure7", "Artificial slack: QoS charge", _over_slack(results, QOS)),
        ("figure8", "Kill-and-restart: resource charge", _kills(results, RESOURCE, 1.0)),
        ("figure9", "Kill-and-restart: QoS charge", _kills(results, QOS, 1.0)),
        ("figure10", "Kill-and-restart, few deadlines: resource charge", _few(results, RESOURCE)),
        ("figure11", "Kill-and-restart, few deadlines: QoS charge", _few(results, QOS)),
    )
    return [
        Figure(name=f"{name}{suffix}", title=f"{title}{machine}", panels=panels)
        for name, title, panels in made
    ]


def _figure3(results: Results) -> tuple[Panel, ...]:
    return tuple(
        _tolerance_panel(results, quantity, "fixed", title)
        for quantity, title in (
            (ACCEPTED_JOBS, "(a) Jobs, fixed TF"),
            (ACCEPTED_WORK, "(b) Processor-seconds, fixed TF"),
        )
    )


def _over_tolerance(results: Results, quantity: Quantity) -> tuple[Panel, ...]:
    return (
        _tolerance_panel(results, quantity, "fixed", "(a) Fixed TF"),
        _tolerance_panel(results, quantity, "random", "(b) Random TF"),
    )


def _tolerance_panel(
    results: Results, quantity: Quantity, kind: Literal["fixed", "random"], title: str
) -> Panel:
    factors = results.study.tolerance_factors

    def case(load: float) -> Callable[[float], Case]:
        return lambda factor: Case(load=load, tolerance=kind, tolerance_factor=factor)

    return Panel(
        title=title,
        x_label=_TOLERANCE,
        y_label=quantity.label,
        series=tuple(
            _series(results, quantity, f"load {load:g}", factors, case(load))
            for load in results.study.loads
        ),
    )


def _over_slack(results: Results, quantity: Quantity) -> tuple[Panel, ...]:
    study = results.study

    def case(load: float, factor: float) -> Callable[[float], Case]:
        return lambda slack: Case(load=load, tolerance_factor=factor, slack_factor=slack)

    return tuple(
        Panel(
            title=f"({letter}) Load {load:g}",
            x_label=_SLACK,
            y_label=quantity.label,
            series=tuple(
                _series(
                    results, quantity, f"TF {factor:g}", study.slack_factors, case(load, factor)
                )
                for factor in study.slack_tolerance_factors
            ),
        )
        for letter, load in zip("abcdef", study.slack_loads, strict=False)
    )


def _few(results: Results, quantity: Quantity) -> tuple[Panel, ...]:
    return _kills(results, quantity, results.study.deadline_share)


def _kills(results: Results, quantity: Quantity, share: float) -> tuple[Panel, ...]:
    study = results.study

    def case(factor: float, kill: bool) -> Callable[[float], Case]:
        return lambda slack: Case(
            load=study.kill_load,
            deadline_share=share,
            tolerance_factor=factor,
            slack_factor=slack,
            kill_and_restart=kill,
        )

    return tuple(
        Panel(
            title=f"({letter}) TF {factor:g}, load {study.kill_load:g}",
            x_label=_SLACK,
            y_label=quantity.label,
            series=tuple(
                _series(results, quantity, label, study.slack_factors, case(factor, kill))
                for label, kill in (("without kills", False), ("kill-and-restart", True))
            ),
        )
        for letter, factor in zip("abcdef", study.kill_tolerance_factors, strict=False)
    )


def _series(
    results: Results,
    quantity: Quantity,
    label: str,
    x: Sequence[float],
    case: Callable[[float], Case],
) -> Series:
    """Return means over seeds with intervals; where nothing is random, both ends are the mean."""
    intervals = [mean_interval(results.values(case(each), quantity.metric)) for each in x]
    scale = quantity.scale
    return Series(
        label=label,
        x=tuple(x),
        y=tuple(each.mean * scale for each in intervals),
        low=tuple((each.mean if each.low is None else each.low) * scale for each in intervals),
        high=tuple((each.mean if each.high is None else each.high) * scale for each in intervals),
    )
