"""Tables of Islam et al. (2004)."""

from __future__ import annotations

from typing import Any

import msgspec

from qops_batsim.experiments.intervals import Interval
from qops_batsim.papers.islam2004.figures import shown_factors
from qops_batsim.papers.islam2004.runs import Results
from qops_batsim.papers.islam2004.values import break_even_values, case_values, category_values
from qops_batsim.papers.report import Column, Columns, Table, number_text


def tables(results: Results, *, machine: str = "") -> list[Table]:
    """Return the tables; ``machine`` goes behind their titles."""
    study = results.study
    tolerance = [case for load in study.loads for case in study.tolerance_cases(load)]
    return [
        Table(
            f"Fixed tolerance{machine}: mean over seeds and 95 % interval",
            _TOLERANCE,
            [case_values(results, case) for case in tolerance],
            note="The resource charge is the accepted work: estimates are exact.",
        ),
        _categories(results, machine),
        Table(
            f"Kill-and-restart{machine}, load {study.kill_load:g}",
            _KILLS,
            _kill_rows(results),
            note="Resource charge in 10⁶ processor-seconds, QoS charge in 10³. With SF above TF no "
            "user accepts an offer, so that it does not matter by how much.",
        ),
        Table(
            f"Who earns more{machine}, load {study.kill_load:g}: w_r R + w_q Q of mean charges",
            _BREAK_EVEN,
            break_even_values(results),
            note="Without a number, one of both is better, or equal, with any weights.",
        ),
    ]


def _categories(results: Results, machine: str) -> Table:
    columns: dict[str, str | Column] = {
        "category": "category",
        "jobs": Column("% of jobs", "{:.1f}"),
        "work": Column("% of work", "{:.1f}"),
    }
    factors = [f"{each:g}" for each in shown_factors(results.study.tolerance_factors)]
    for what in ("jobs", "work"):
        for factor in factors:
            heading = f"{what}, TF {factor}"
            columns[f"accepted_{what}.{factor}"] = Column(heading, lambda each: f"{each.mean:.0f}")
    load = f"load {max(results.study.loads):g}"
    return Table(
        f"Acceptance by category{machine}, fixed TF, {load}",
        columns,
        category_values(results),
        note="Accepted jobs and accepted work in % of those submitted in the category; means over "
        "seeds, whose intervals are in the JSON.",
    )


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


_RESOURCE: Columns = {
    "metrics.resource_charge": Column(
        "resource charge (10⁶ proc-s)", lambda value: value.text(1e-6)
    ),
    "metrics.qos_charge": Column("QoS charge (10³)", lambda value: value.text(1e-3)),
}
_TOLERANCE: Columns = {
    "load": Column("load", "{:g}"),
    "tolerance_factor": Column("TF", "{:g}"),
    "metrics.accepted_share": Column("accepted jobs (%)", Interval.text),
    **_RESOURCE,
}
_KILLS: Columns = {
    "deadline_share": Column("deadline jobs (%)", lambda share: f"{100 * share:g}"),
    "tolerance_factor": Column("TF", "{:g}"),
    "slack_factor": "SF",
    "without.resource_charge": Column("resource charge", lambda value: value.text(1e-6)),
    "metrics.resource_charge": Column("with kills", lambda value: value.text(1e-6)),
    "without.qos_charge": Column("QoS charge", lambda value: value.text(1e-3)),
    "metrics.qos_charge": Column("with kills", lambda value: value.text(1e-3)),
    "metrics.kills": Column("kills", lambda value: number_text(value.mean)),
    "metrics.wasted_work": Column(
        "wasted (10⁶ proc-s)", lambda value: number_text(value.mean / 1e6)
    ),
}
_BREAK_EVEN: Columns = {
    "first": "first",
    "second": "second",
    "ratio": "break-even w_q / w_r",
    "below": "better below",
    "above": "better above",
}
