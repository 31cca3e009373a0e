"""What the simulations of Islam et al. (2004) say, as plain values."""

from __future__ import annotations

from typing import Any

import msgspec

from qops_batsim.economics.charges import Charge, break_even
from qops_batsim.papers.islam2004.cases import Case
from qops_batsim.papers.islam2004.runs import Results

METRICS = (
    "accepted_share",
    "accepted_work",
    "resource_charge",
    "qos_charge",
    "bounded_qos_charge",
    "kills",
    "wasted_work",
)


def all_values(results: Results) -> dict[str, Any]:
    """Return mean and interval of every number of every case."""
    study = results.study
    cases = [case_values(results, case) for case in study.cases()]
    return {"study": study, "cases": cases, "categories": category_values(results)}


def category_values(results: Results) -> list[dict[str, Any]]:
    """Return what is accepted of each category (%) at the highest load, by fixed TF.

    ``jobs`` and ``work`` are the category's part of all that is submitted (%).
    """
    study = results.study
    cases = study.tolerance_cases(max(study.loads))
    runs = results.of(cases[0])
    jobs, work = sum(run.jobs for run in runs), sum(run.work for run in runs)
    rows = []
    for name in runs[0].categories:
        parts = [run.categories[name] for run in runs]
        row: dict[str, Any] = {
            "category": name,
            "jobs": 100.0 * sum(part.jobs for part in parts) / jobs,
            "work": 100.0 * sum(part.work for part in parts) / work,
        }
        for what in ("jobs", "work"):
            row[f"accepted_{what}"] = {
                f"{case.tolerance_factor:g}": results.accepted_of(case, name, what)
                for case in cases
            }
        rows.append(row)
    return rows


def case_values(results: Results, case: Case) -> dict[str, Any]:
    """Return the parameters of a case with mean and interval of each of its numbers."""
    metrics = {name: results.interval(case, name) for name in METRICS}
    return {**msgspec.structs.asdict(case), "metrics": metrics}


def break_even_values(results: Results) -> list[dict[str, Any]]:
    """Return which of two ways to run a centre earns more, by the weights of both charges."""
    study = results.study
    load, slack_load = study.kill_load, study.slack_loads[-1]
    least, top = study.tolerance_factors[0], study.tolerance_factors[-1]
    slack_top, most = study.slack_tolerance_factors[-1], study.slack_factors[-1]
    high, low = (Case(load=load, tolerance_factor=each) for each in (top, least))
    none = Case(load=slack_load, tolerance_factor=slack_top)
    slack, at = msgspec.structs.replace(none, slack_factor=most), f"(TF = {slack_top:g})"
    pairs = [
        (f"TF = {top:g}", high, f"TF = {least:g}", low),
        (f"SF = 1 {at}", none, f"SF = {most:g} {at}", slack),
    ]
    for share in (1.0, study.deadline_share):
        for factor in study.kill_tolerance_factors:
            plain = Case(load=load, deadline_share=share, tolerance_factor=factor)
            killing = msgspec.structs.replace(plain, kill_and_restart=True)
            name = f"kills (TF = {factor:g}, SF = 1, {100 * share:g} % deadline jobs)"
            pairs.append(("no kills", plain, name, killing))
    rows = []
    for first, case, second, other in pairs:
        found = break_even(*(_mean_charge(results, each) for each in (case, other)))
        names = {"first": first, "second": second}
        below, above = (names.get(who, who) for who in (found.below, found.above))
        rows.append({**names, "ratio": found.ratio, "below": below, "above": above})
    return rows


def _mean_charge(results: Results, case: Case) -> Charge:
    resource, qos = (results.interval(case, f"{kind}_charge").mean for kind in ("resource", "qos"))
    return Charge(resource=resource, qos=qos)
