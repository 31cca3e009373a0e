"""The claims of Islam et al. (2004) as tests.

Every test is a difference between cases that share their workloads, averaged over loads or
other parameters for each seed, with a 95 % bootstrap interval over the seeds. Charges and
work are compared as relative changes (%), so that loads can be averaged. A part is
confirmed if the whole interval is on the claimed side, not confirmed if it is wholly on the
other side. A claim is confirmed if all its parts are, and not confirmed if one of them is
not; its value is that of the part which decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from qops_batsim.experiments.intervals import Interval, mean_interval
from qops_batsim.papers.islam2004.cases import Case, Results
from qops_batsim.papers.report import (
    CONFIRMED,
    INCONCLUSIVE,
    NOT_CONFIRMED,
    Claim,
    Verdict,
    verdict_of,
)

NOTHING = 1.0
"""Changes of less than this (%) count as none."""

Pair = tuple[Case, Case]
Kind = Literal["fixed", "random"]


def claims(results: Results, *, suffix: str = "") -> list[Claim]:
    """Return the claims (a) to (f), each followed by its parts.

    Parameters
    ----------
    results
        All runs.
    suffix
        Goes behind the ids of the claims.
    """
    found: list[Claim] = []
    for name, text, parts in (
        ("a", "accepted jobs dip, then rise with TF", _dip_and_rise(results)),
        ("b", "accepted processor-seconds and resource charge rise with TF", _work_rises(results)),
        ("c", "QoS charge falls with TF", _qos_falls(results)),
        ("d", "artificial slack acts against tolerance", _slack_acts_against(results)),
        (
            "e",
            "with deadlines for all jobs, kill-and-restart raises the QoS charge and lowers the "
            "resource charge at TF = 4, and changes neither at TF = 2",
            _kills_pay(results),
        ),
        (
            "f",
            f"with {100 * results.study.deadline_share:g} % deadline jobs, kill-and-restart raises "
            "both charges",
            _kills_pay_with_few_deadlines(results),
        ),
    ):
        found += (_combined(name, text, parts), *parts)
    found += _monotone(results)
    return [_renamed(claim, suffix) for claim in found]


def _dip_and_rise(results: Results) -> list[Claim]:
    """(a): TF* is where fewest jobs are accepted, so the dip is judged at its deepest."""
    loads = _random_loads(results)
    factors = results.study.tolerance_factors
    first, last = factors[0], factors[-1]

    def shares(factor: float) -> list[float]:
        return _seed_means(results, [_tolerant(load, factor) for load in loads], "accepted_share")

    between = [factor for factor in factors if 1 < factor <= 4]
    lowest = min(between, key=lambda factor: sum(shares(factor)))
    where = f"mean over loads {_listed(loads)}, in percentage points of submitted jobs"
    return [
        _claim(
            "a.dip",
            f"fewer jobs are accepted at TF = {lowest:g} (the fewest of 1 < TF <= 4) than at "
            f"TF = {first:g}; {where}",
            _differences(shares(lowest), shares(first)),
            -1,
        ),
        _claim(
            "a.rise",
            f"more jobs are accepted at TF = {last:g} than at TF = {lowest:g}; {where}",
            _differences(shares(last), shares(lowest)),
            +1,
        ),
    ]


def _work_rises(results: Results) -> list[Claim]:
    fixed, random = (_tolerance_pairs(results, kind) for kind in _KINDS)
    span = f"from TF = {_first(results):g} to {_last(results):g}"
    work, resource = "accepted processor-seconds rise", "the resource charge rises"
    return [
        _change(results, "b.work", f"{work} {span} (fixed TF)", fixed, "accepted_work", +1),
        _change(results, "b.fixed", f"{resource} {span} (fixed TF)", fixed, "resource_charge", +1),
        _change(
            results, "b.random", f"{resource} {span} (random TF)", random, "resource_charge", +1
        ),
    ]


def _qos_falls(results: Results) -> list[Claim]:
    return [
        _change(
            results,
            f"c.{kind}",
            f"the QoS charge falls from TF = {_first(results):g} to {_last(results):g} ({kind} TF)",
            _tolerance_pairs(results, kind),
            "qos_charge",
            -1,
        )
        for kind in _KINDS
    ]


def _slack_acts_against(results: Results) -> list[Claim]:
    study = results.study
    least, most = study.slack_factors[0], study.slack_factors[-1]
    factors = [factor for factor in study.slack_tolerance_factors if factor >= most]
    pairs = [
        (
            Case(load=load, tolerance_factor=factor, slack_factor=most),
            Case(load=load, tolerance_factor=factor, slack_factor=least),
        )
        for load in study.slack_loads
        for factor in factors
    ]
    where = (
        f"from SF = {least:g} to {most:g} at TF = {_listed(factors)}, against its change with TF"
    )
    return [
        _change(results, "d.resource", f"the resource charge falls {where}", pairs,
                "resource_charge", -1),
        _change(results, "d.qos", f"the QoS charge rises {where}", pairs, "qos_charge", +1),
    ]  # fmt: skip


def _kills_pay(results: Results) -> list[Claim]:
    low, high = results.study.kill_tolerance_factors[0], results.study.kill_tolerance_factors[-1]
    raised, lowered = _kill_pairs(results, 1.0, [high]), _kill_pairs(results, 1.0, [low])
    none = f"changes by less than {NOTHING:g} % at TF = {low:g}"
    return [
        _change(results, "e.qos", f"the QoS charge rises at TF = {high:g}", raised,
                "qos_charge", +1),
        _change(results, "e.resource", f"the resource charge falls at TF = {high:g}", raised,
                "resource_charge", -1),
        _no_change(results, "e.qos-none", f"the QoS charge {none}", lowered, "qos_charge"),
        _no_change(results, "e.resource-none", f"the resource charge {none}", lowered,
                   "resource_charge"),
    ]  # fmt: skip


def _kills_pay_with_few_deadlines(results: Results) -> list[Claim]:
    factors = results.study.kill_tolerance_factors
    pairs = _kill_pairs(results, results.study.deadline_share, factors)
    where = f"at TF = {_listed(factors)}"
    return [
        _change(results, "f.qos", f"the QoS charge rises {where}", pairs, "qos_charge", +1),
        _change(results, "f.resource", f"the resource charge rises {where}", pairs,
                "resource_charge", +1),
    ]  # fmt: skip


def _monotone(results: Results) -> list[Claim]:
    """Return whether charges change in one direction at every step of TF, as the text has it."""
    return [
        _worst_step(results, "b.monotone", "resource_charge", +1),
        _worst_step(results, "c.monotone", "qos_charge", -1),
        _change(
            results,
            "c.bounded",
            f"with bounded slowdowns (10 s) the QoS charge falls from TF = {_first(results):g} to "
            f"{_last(results):g} (fixed TF); not a claim of the paper",
            _tolerance_pairs(results, "fixed"),
            "bounded_qos_charge",
            -1,
        ),
    ]


def _worst_step(results: Results, name: str, metric: str, sign: int) -> Claim:
    loads = _random_loads(results)
    steps = {
        (before, after): _changes(
            results,
            [(_tolerant(load, after), _tolerant(load, before)) for load in loads],
            metric,
        )
        for before, after in pairwise(results.study.tolerance_factors)
    }
    (before, after), changes = min(
        steps.items(), key=lambda each: sign * sum(each[1]) / max(len(each[1]), 1)
    )
    what = "rises" if sign > 0 else "falls"
    label = "resource" if metric == "resource_charge" else "QoS"
    return _claim(
        name,
        f"the {label} charge {what} at every step of TF; worst step, from {before:g} to {after:g}, "
        f"in %, mean over loads {_listed(loads)}",
        changes,
        sign,
    )


_KINDS: tuple[Kind, ...] = ("fixed", "random")


def _tolerant(load: float, factor: float, kind: Kind = "fixed") -> Case:
    return Case(load=load, tolerance=kind, tolerance_factor=factor)


def _random_loads(results: Results) -> list[float]:
    """Return the loads at which seeds differ."""
    return [load for load in results.study.loads if load > 1]


def _first(results: Results) -> float:
    return results.study.tolerance_factors[0]


def _last(results: Results) -> float:
    return results.study.tolerance_factors[-1]


def _tolerance_pairs(results: Results, kind: Kind) -> list[Pair]:
    return [
        (_tolerant(load, _last(results), kind), _tolerant(load, _first(results), kind))
        for load in _random_loads(results)
    ]


def _kill_pairs(results: Results, share: float, factors: Sequence[float]) -> list[Pair]:
    """Return cases with and without kills; SF up to TF, since beyond it nobody gets an offer."""
    study = results.study

    def case(factor: float, slack: float, kill: bool) -> Case:
        return Case(
            load=study.kill_load,
            deadline_share=share,
            tolerance_factor=factor,
            slack_factor=slack,
            kill_and_restart=kill,
        )

    return [
        (case(factor, slack, True), case(factor, slack, False))
        for factor in factors
        for slack in study.slack_factors
        if slack <= factor
    ]


def _seed_means(results: Results, cases: Sequence[Case], metric: str) -> list[float]:
    """Return for each seed the mean of a number over cases."""
    columns = [results.values(case, metric) for case in cases]
    return [sum(values) / len(values) for values in zip(*columns, strict=True)]


def _changes(results: Results, pairs: Sequence[Pair], metric: str) -> list[float]:
    """Return for each seed the mean relative change (%) over pairs; nothing if one is from 0."""
    columns = []
    for first, second in pairs:
        values, others = results.values(first, metric), results.values(second, metric)
        if not all(others):
            return []
        columns.append([100 * (a / b - 1) for a, b in zip(values, others, strict=True)])
    return [sum(values) / len(values) for values in zip(*columns, strict=True)]


def _differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(first, second, strict=True)]


def _change(
    results: Results, name: str, text: str, pairs: Sequence[Pair], metric: str, sign: int
) -> Claim:
    return _claim(name, f"{text}; {_over(pairs)}", _changes(results, pairs, metric), sign)


def _no_change(results: Results, name: str, text: str, pairs: Sequence[Pair], metric: str) -> Claim:
    changes = _changes(results, pairs, metric)
    claim = _claim(name, f"{text}; {_over(pairs)}", changes, +1)
    verdict: Verdict = INCONCLUSIVE
    if claim.interval is not None:
        low, high = claim.interval
        if low > -NOTHING and high < NOTHING:
            verdict = CONFIRMED
        elif high <= -NOTHING or low >= NOTHING:
            verdict = NOT_CONFIRMED
    return Claim(
        id=name, text=claim.text, verdict=verdict, value=claim.value, interval=claim.interval
    )


def _over(pairs: Sequence[Pair]) -> str:
    """Say what a relative change is the mean of."""
    loads = sorted({first.load for first, _ in pairs})
    slacks = sorted({first.slack_factor for first, _ in pairs})
    where = f"load {loads[0]:g}" if len(loads) == 1 else f"loads {_listed(loads)}"
    text = f"change in %, mean over {where}"
    return text if len(slacks) == 1 else f"{text} and SF {_listed(slacks)}"


def _claim(name: str, text: str, values: Sequence[float], sign: int) -> Claim:
    """Return a claim that the mean of a number over seeds has a sign."""
    if not values:
        return Claim(id=name, text=text, verdict=INCONCLUSIVE)
    interval: Interval = mean_interval(values)
    if interval.low is None or interval.high is None:
        # One seed says nothing about chance.
        return Claim(id=name, text=text, verdict=INCONCLUSIVE, value=interval.mean)
    return Claim(
        id=name,
        text=text,
        verdict=verdict_of(interval, sign),
        value=interval.mean,
        interval=(interval.low, interval.high),
    )


def _combined(name: str, text: str, parts: Sequence[Claim]) -> Claim:
    verdicts = [part.verdict for part in parts]
    verdict = next((v for v in (NOT_CONFIRMED, INCONCLUSIVE) if v in verdicts), CONFIRMED)
    decisive = parts[verdicts.index(verdict)]
    return Claim(
        id=name,
        text=f"{text} (number: {decisive.id})",
        verdict=verdict,
        value=decisive.value,
        interval=decisive.interval,
    )


def _renamed(claim: Claim, suffix: str) -> Claim:
    return Claim(
        id=claim.id + suffix,
        text=claim.text,
        verdict=claim.verdict,
        value=claim.value,
        interval=claim.interval,
    )


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{each:g}" for each in numbers)
