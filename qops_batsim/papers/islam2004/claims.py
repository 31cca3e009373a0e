"""The claims of Islam et al. (2004) as tests.

Every test is a difference between cases that share their workloads, averaged over loads or
other parameters for each seed, with an interval over the seeds. Charges and work are compared
as relative changes (%), by logarithms, so that loads can be averaged. That something changes
nothing is judged by whether the interval lies within a percent of 0; nor is a smaller change, or
one of half a point, a rise or a fall. A claim is confirmed if all its parts are, and not confirmed
if one of them is not; its value is that of the part which decided. The claims of a section on a
machine are a family.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from qops_batsim.experiments.statistics import Interval
from qops_batsim.papers.claims import (
    Claim,
    averages,
    changes,
    claim_with_parts,
    differences,
    range_claim,
    sign_claim,
)
from qops_batsim.papers.islam2004.runs import Results
from qops_batsim.papers.islam2004.study import Case, ToleranceKind

NOTHING = 1.0
"""Changes of less than this (%) count as none."""

POINTS = 0.5
"""Differences of less than so many percentage points count as none."""

_SECTIONS = {
    **dict.fromkeys("abcg", "6.1"),
    **dict.fromkeys("dp", "7"),
    **dict.fromkeys("ef", "8"),
    "r": "6.1, 8",
}
"""Sections of the paper by the letter of the claim."""

Pairs = Sequence[tuple[Case, Case]]
_KINDS: tuple[ToleranceKind, ...] = ("fixed", "random")


def claims(results: Results, *, suffix: str = "") -> list[Claim]:
    """Return the claims (a) to (g), each followed by its parts; ``suffix`` ends their ids."""
    judge = _Judge(results)
    found: list[Claim] = []
    with_all = (
        "with deadlines for all jobs, kill-and-restart raises the QoS charge and lowers the "
        "resource charge at TF = 4, and changes neither at TF = 2"
    )
    share = f"{100 * results.study.deadline_share:g} %"
    with_few = f"with {share} deadline jobs, kill-and-restart raises both charges"
    for name, text, parts in (
        ("a", "accepted jobs dip, then rise with TF", judge.dip_and_rise()),
        ("b", "accepted processor-seconds and resource charge rise with TF", judge.work_rises()),
        ("c", "QoS charge falls with TF", judge.qos_falls()),
        ("d", "artificial slack acts against tolerance", judge.slack_acts_against()),
        ("e", with_all, judge.kills_pay()),
        ("f", with_few, judge.kills_pay_with_few_deadlines()),
        ("g", "the jobs lost in the dip are light, and heavy ones gain", judge.heavy_gain()),
    ):
        found += claim_with_parts(name, "", text, parts)
    found += judge.weights_decide()
    found += judge.monotone()
    found += judge.readings()
    return [
        msgspec.structs.replace(
            claim,
            id=claim.id + suffix,
            section=_SECTIONS[claim.id[0]],
            family=f"{claim.family or _SECTIONS[claim.id[0]]}{suffix}",
            parts=tuple(part + suffix for part in claim.parts),
            decided_by=claim.decided_by and claim.decided_by + suffix,
        )
        for claim in found
    ]


class _Judge:
    """The claims' parts, judged by the runs of a study."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.study = results.study
        self.loads = [load for load in self.study.loads if load > 1]
        factors = self.study.tolerance_factors
        self.first, self.last = factors[0], factors[-1]
        self.span = f"from TF = {self.first:g} to {self.last:g}"

    def dip_and_rise(self) -> list[Claim]:
        """Return the parts of (a), with the dip at its deepest: where fewest are accepted."""
        lowest = self._dip()
        least, first, last = (self._accepted(each) for each in (lowest, self.first, self.last))
        where = f"mean over loads {_listed(self.loads)}, in percentage points of submitted jobs"
        dip = (
            f"fewer jobs are accepted at TF = {lowest:g} (the fewest of 1 < TF <= 4) than at "
            f"TF = {self.first:g}; {where}"
        )
        rise = f"more jobs are accepted at TF = {self.last:g} than at TF = {lowest:g}; {where}"
        return [
            sign_claim("a.dip", dip, differences(least, first), -1, margin=POINTS),
            sign_claim("a.rise", rise, differences(last, least), +1, margin=POINTS),
        ]

    def heavy_gain(self) -> list[Claim]:
        """Return the parts of (g), judged at the dip, which categories explain in section 6.1."""
        lowest, found = self._dip(), []
        for name, heavy, sign in (("g.heavy", True, +1), ("g.light", False, -1)):
            columns = [
                [
                    after.accepted_of(heavy=heavy) - before.accepted_of(heavy=heavy)
                    for after, before in zip(*map(self.results.of, pair), strict=True)
                ]
                for pair in self._steps(self.first, lowest)
            ]
            which = "more" if heavy else "less"
            text = (
                f"{'more' if sign > 0 else 'fewer'} jobs of categories with {which} work a job "
                f"than the mean are accepted at TF = {lowest:g} than at TF = {self.first:g}; mean "
                f"over loads {_listed(self.loads)}, in percentage points of these jobs"
            )
            found.append(sign_claim(name, text, averages(columns), sign, margin=POINTS))
        return found

    def _dip(self) -> float:
        """Return the TF at which fewest jobs are accepted."""
        between = [factor for factor in self.study.tolerance_factors if 1 < factor <= 4]
        return min(between, key=lambda factor: sum(self._accepted(factor)))

    def work_rises(self) -> list[Claim]:
        """Return the parts of (b)."""
        fixed, random = (self._tolerance_pairs(kind) for kind in _KINDS)
        work = f"accepted processor-seconds rise {self.span}"
        resource = f"the resource charge rises {self.span}"
        return [
            self._change("b.work", f"{work} (fixed TF)", fixed, "accepted_work", +1),
            self._change("b.fixed", f"{resource} (fixed TF)", fixed, "resource_charge", +1),
            self._change("b.random", f"{resource} (random TF)", random, "resource_charge", +1),
        ]

    def qos_falls(self) -> list[Claim]:
        """Return the parts of (c)."""
        found = []
        for kind in _KINDS:
            text, pairs = (
                f"the QoS charge falls {self.span} ({kind} TF)",
                self._tolerance_pairs(kind),
            )
            found.append(self._change(f"c.{kind}", text, pairs, "qos_charge", -1))
        return found

    def slack_acts_against(self) -> list[Claim]:
        """Return the parts of (d)."""
        least, most = self.study.slack_factors[0], self.study.slack_factors[-1]
        factors = [factor for factor in self.study.slack_tolerance_factors if factor >= most]
        pairs = [
            (cases[-1], cases[0])
            for load in self.study.slack_loads
            for cases in (self.study.slack_cases(load, factor) for factor in factors)
        ]
        at = f"from SF = {least:g} to {most:g} at TF = {_listed(factors)}"
        where = f"{at}, against its change with TF"
        resource, qos = f"the resource charge falls {where}", f"the QoS charge rises {where}"
        return [
            self._change("d.resource", resource, pairs, "resource_charge", -1),
            self._change("d.qos", qos, pairs, "qos_charge", +1),
        ]

    def kills_pay(self) -> list[Claim]:
        """Return the parts of (e)."""
        factors = self.study.kill_tolerance_factors
        low, high = factors[0], factors[-1]
        raised, lowered = self._kill_pairs(1.0, [high]), self._kill_pairs(1.0, [low])
        qos, resource = "the QoS charge", "the resource charge"
        at, none = f"at TF = {high:g}", f"changes by less than {NOTHING:g} % at TF = {low:g}"
        return [
            self._change("e.qos", f"{qos} rises {at}", raised, "qos_charge", +1),
            self._change("e.resource", f"{resource} falls {at}", raised, "resource_charge", -1),
            self._no_change("e.qos-none", f"{qos} {none}", lowered, "qos_charge"),
            self._no_change("e.resource-none", f"{resource} {none}", lowered, "resource_charge"),
        ]

    def kills_pay_with_few_deadlines(self) -> list[Claim]:
        """Return the parts of (f)."""
        factors = self.study.kill_tolerance_factors
        pairs = self._kill_pairs(self.study.deadline_share, factors)
        rises = f"rises at TF = {_listed(factors)}"
        resource = f"the resource charge {rises}"
        return [
            self._change("f.qos", f"the QoS charge {rises}", pairs, "qos_charge", +1),
            self._change("f.resource", resource, pairs, "resource_charge", +1),
        ]

    def weights_decide(self) -> list[Claim]:
        """Return that the weights of both charges decide what earns more, and its parts."""
        pairs = self.study.income_pairs()
        factor = self.study.kill_tolerance_factors[-1]
        names = {"tolerance": "tolerance", "slack": "slack"}
        names["kills"] = f"kills (TF = {factor:g}, SF = 1, 100 % deadline jobs)"
        parts = []
        for name, key in names.items():
            (first, one), (second, other) = pairs[key]
            pair = [(one, other)]
            more = f"{first} brings more of the resource charge than {second}"
            less = f"{first} brings less of the QoS charge than {second}"
            parts += [
                self._change(f"p.{name}.resource", more, pair, "resource_charge", +1),
                self._change(f"p.{name}.qos", less, pair, "qos_charge", -1),
            ]
        best = max(self.study.tolerance_factors[1:], key=lambda each: self._qos_of(each).mean)
        text = f"paid for QoS only, TF = {self.first:g} earns most (next, TF = {best:g})"
        last = [(self._at_kill_load(best), self._at_kill_load(self.first))]
        parts.append(self._change("p.qos-only", text, last, "qos_charge", -1))
        said = "whether tolerance, slack and kills earn more depends on the weights of both charges"
        whole, *found = claim_with_parts("p", "", said, parts)
        return [msgspec.structs.replace(whole, family="profit"), *found]

    def _at_kill_load(self, factor: float) -> Case:
        return Case(load=self.study.kill_load, tolerance_factor=factor)

    def _qos_of(self, factor: float) -> Interval:
        return self.results.interval(self._at_kill_load(factor), "qos_charge")

    def monotone(self) -> list[Claim]:
        """Return claims that charges change in one direction at every step of TF."""
        fixed = self._tolerance_pairs("fixed")
        falls = f"with bounded slowdowns (10 s) the QoS charge falls {self.span} (fixed TF)"
        bounded = f"{falls}; not a claim of the paper"
        return [
            self._worst_step("b.monotone", "resource", +1),
            self._worst_step("c.monotone", "QoS", -1),
            self._change("c.bounded", bounded, fixed, "bounded_qos_charge", -1),
        ]

    def readings(self) -> list[Claim]:
        """Return claims that what tolerance and kills bring has the same sign in each reading."""
        found = []
        for reading in self.study.readings:
            pairs = self.study.reading_pairs(reading)
            for name, metric, sign, text in (
                ("tolerance", "resource_charge", +1, f"the resource charge rises {self.span}"),
                ("tolerance", "qos_charge", -1, f"the QoS charge falls {self.span}"),
                ("kills", "qos_charge", +1, "kills raise the QoS charge at TF = 4, SF = 2"),
            ):
                full, text = f"r.{reading}.{name}.{metric}", f"with {reading}, {text}"
                claim = self._change(full, text, [pairs[name]], metric, sign, family="readings")
                found.append(claim)
        return found

    def _worst_step(self, name: str, charge: str, sign: int) -> Claim:
        metric = f"{charge.lower()}_charge"
        both = pairwise(self.study.tolerance_factors)
        steps = {step: self._changes(self._steps(*step), metric) for step in both}
        (before, after), worst = min(
            steps.items(), key=lambda each: sign * sum(each[1]) / max(len(each[1]), 1)
        )
        text = (
            f"the {charge} charge {'rises' if sign > 0 else 'falls'} at every step of TF; worst "
            f"step, from {before:g} to {after:g}, in %, mean over loads {_listed(self.loads)}"
        )
        return sign_claim(name, text, worst, sign, margin=NOTHING, relative=True)

    def _accepted(self, factor: float) -> list[float]:
        """Return the mean share of accepted jobs (%) over loads for each seed."""
        cases = [Case(load=load, tolerance_factor=factor) for load in self.loads]
        return averages([self.results.values(case, "accepted_share") for case in cases])

    def _steps(self, before: float, after: float, kind: ToleranceKind = "fixed") -> Pairs:
        def case(load: float, factor: float) -> Case:
            return Case(load=load, tolerance=kind, tolerance_factor=factor)

        return [(case(load, after), case(load, before)) for load in self.loads]

    def _tolerance_pairs(self, kind: ToleranceKind) -> Pairs:
        return self._steps(self.first, self.last, kind)

    def _kill_pairs(self, share: float, factors: Sequence[float]) -> Pairs:
        """Return cases with and without kills; SF up to TF, since beyond it no offer is made."""
        return [
            (msgspec.structs.replace(case, kill_and_restart=True), case)
            for factor in factors
            for case in self.study.kill_cases(share, factor, False)
            if case.slack_factor <= factor
        ]

    def _changes(self, pairs: Pairs, metric: str) -> list[float]:
        """Return for each seed the mean logarithm of a ratio over pairs; none if one is of 0."""
        return averages(
            [changes(*(self.results.values(case, metric) for case in pair)) for pair in pairs]
        )

    def _change(
        self, name: str, text: str, pairs: Pairs, metric: str, sign: int, family: str = ""
    ) -> Claim:
        found, text = self._changes(pairs, metric), f"{text}; {_over(pairs)}"
        return sign_claim(name, text, found, sign, family=family, margin=NOTHING, relative=True)

    def _no_change(self, name: str, text: str, pairs: Pairs, metric: str) -> Claim:
        found, text = self._changes(pairs, metric), f"{text}; {_over(pairs)}"
        return range_claim(name, text, found, -NOTHING, NOTHING, relative=True)


def _over(pairs: Pairs) -> str:
    """Return in words what a relative change is the mean of."""
    loads = sorted({first.load for first, _ in pairs})
    slacks = sorted({first.slack_factor for first, _ in pairs})
    where = f"load {loads[0]:g}" if len(loads) == 1 else f"loads {_listed(loads)}"
    text = f"change in %, mean over {where}"
    return text if len(slacks) == 1 else f"{text} and SF {_listed(slacks)}"


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{each:g}" for each in numbers)
