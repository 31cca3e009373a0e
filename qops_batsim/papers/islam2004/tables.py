"""Tables of Islam et al. (2004)."""

from __future__ import annotations

from qops_batsim.experiments.intervals import Interval
from qops_batsim.papers.islam2004.runs import Results
from qops_batsim.papers.islam2004.values import break_even_values, case_values
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
        Table(
            f"Kill-and-restart{machine}, load {study.kill_load:g}",
            _KILLS,
            [case_values(results, case) for case in study.all_kill_cases()],
        ),
        Table(
            f"Who earns more{machine}, load {study.kill_load:g}: w_r R + w_q Q of mean charges",
            _BREAK_EVEN,
            break_even_values(results),
            note="Without a number, one of both is better, or equal, with any weights.",
        ),
    ]


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
    "slack_factor": Column("SF", "{:g}"),
    "kill_and_restart": Column("kills allowed", lambda kill: "yes" if kill else "no"),
    **_RESOURCE,
    "metrics.kills": Column("kills", lambda value: number_text(value.mean)),
    "metrics.wasted_work": Column(
        "wasted work (10⁶ proc-s)", lambda value: number_text(value.mean / 1e6)
    ),
}
_BREAK_EVEN: Columns = {
    "first": "first",
    "second": "second",
    "ratio": "break-even w_q / w_r",
    "below": "better below",
    "above": "better above",
}
