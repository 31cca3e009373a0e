"""The claims of Islam et al. (2004) as tests.

Every test is a difference between cases that share their workloads, averaged over loads or other
parameters for each stretch of the log, with an interval over the stretches. Charges and work are
compared as relative changes (%), by logarithms, so that loads can be averaged. That something
changes nothing is judged by whether the interval lies within a percent of 0; nor is a smaller
change, or one of half a point, a rise or a fall. A claim is confirmed if all its parts are, and not
confirmed if one of them is not; its value is that of the part which decided. The claims of a
section on a machine are a family. Changes between cases stand in ``study.toml``; what is judged
otherwise, here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Unpack

import msgspec

from qops_batsim.experiments import (
    Claim,
    Interval,
    Told,
    as_checks,
    averages,
    by_seed,
    changes,
    claim_with_parts,
    differences,
    range_claim,
    sign_claim,
    untested,
)
from studies.islam2004.runs import Results
from studies.islam2004.study import SPECIFICATION, Case, ToleranceKind
from studies.specification import Change

NOTHING = 1.0
"""Changes of less than this (%) count as none."""

POINTS = 0.5
"""Differences below this many percentage points count as none."""

STEPS = "the steps of TF are a choice of ours, and finer ones change less"

Pairs = Sequence[tuple[Case, Case]]


def claims(results: Results, *, suffix: str = "") -> list[Claim]:
    """Return the claims, each followed by its parts; ``suffix`` ends their ids.

    The paper's own are (a) to (k), (p), and that charges change at every step; what is said of
    another machine, told by a ``suffix``, and all else are robustness checks of ours.
    """
    judge = Judge(results, suffix)
    own = {
        "a": judge.dip_and_rise(),
        "g": judge.heavy_gain(),
        "j": judge.slack_by_weight(),
        "k": judge.waste(),
    }
    found: list[Claim] = []
    for name in "abcdefgjkp":
        found += judge.whole(name, own.get(name) or judge.told(name))
    found += [*judge.all_accepted(), *judge.monotone()]
    checks = [*judge.whole("p.ways", judge.told("p.ways")), *judge.further(), *judge.readings()]
    return as_checks([*found, *checks]) if suffix else [*found, *as_checks(checks)]


class Judge:
    """The claims and their parts, judged by the runs of a study; ``suffix`` ends their ids."""

    def __init__(self, results: Results, suffix: str = "") -> None:
        self.results, self.suffix = results, suffix
        self.study = results.study
        self.loads = [load for load in self.study.loads if load > 1]
        factors = self.study.tolerance_factors
        self.first, self.last = factors[0], factors[-1]
        self.best = max(factors[1:], key=lambda each: self._qos_of(each).mean)
        kill_factors = self.study.kill_tolerance_factors
        low, high = kill_factors[0], kill_factors[-1]
        slacks, most = self.study.slack_factors, self.study.slack_factors[-1]
        lenient = [each for each in self.study.slack_tolerance_factors if each >= most]
        where = f"from SF = {slacks[0]:g} to {most:g} at TF = {_listed(lenient)}"
        income = self.study.income_pairs()
        killing = income[f"kills (TF = {high:g}, SF = 1, 100 % deadline jobs)"]
        ways = {"tolerance": income["tolerance"], "slack": income["slack"], "kills": killing}
        self.names: dict[str, Any] = {
            "span": f"from TF = {self.first:g} to {self.last:g}",
            "slack": f"{where}, against its change with TF",
            "low": low,
            "high": high,
            "both": _listed(kill_factors),
            "few": 100 * self.study.deadline_share,
            "none": NOTHING,
            "first": self.first,
            "best": self.best,
            "more": {name: more for name, ((more, _), _) in ways.items()},
            "less": {name: less for name, (_, (less, _)) in ways.items()},
        }
        self.pairs: dict[str, Pairs] = {
            "fixed TF": self._steps(self.first, self.last, "fixed"),
            "random TF": self._steps(self.first, self.last, "random"),
            "slack": [
                (cases[-1], cases[0])
                for load in self.study.slack_loads
                for cases in (self.study.slack_cases(load, factor) for factor in lenient)
            ],
            "kills, low TF": self._kill_pairs(1.0, [low]),
            "kills, high TF": self._kill_pairs(1.0, [high]),
            "kills, few deadlines": self._kill_pairs(self.study.deadline_share, kill_factors),
            "best for QoS": [
                (self.study.at_kill_load(self.best), self.study.at_kill_load(self.first))
            ],
            **{f"income, {name}": [(one, other)] for name, ((_, one), (_, other)) in ways.items()},
        }

    def whole(self, name: str, parts: Sequence[Claim]) -> list[Claim]:
        """Return a claim that holds if all its parts do, and these behind it."""
        section, text = SPECIFICATION.sentence(name, **self.names)
        whole, *found = claim_with_parts(f"{name}{self.suffix}", section, text, parts)
        family = {"p": "profit", "p.ways": "other profit"}.get(name, section)
        return [msgspec.structs.replace(whole, family=f"{family}{self.suffix}"), *found]

    def told(self, name: str) -> list[Claim]:
        """Return the parts of a claim that are changes between cases."""
        return [
            self._change(f"{name}.{part.id}", part, self.pairs[part.cases])
            for part in SPECIFICATION.parts[name]
        ]

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
            self._claim("a.dip", dip, differences(least, first), -1, margin=POINTS),
            self._claim("a.rise", rise, differences(last, least), +1, margin=POINTS),
        ]

    def heavy_gain(self) -> list[Claim]:
        """Return the parts of (g), judged at the dip, which categories explain in section 6.1."""
        lowest = self._dip()
        where = (
            f"at TF = {lowest:g} than at TF = {self.first:g}; mean over loads {_listed(self.loads)}"
        )
        return self._claims_by_weight("g", self._steps(self.first, lowest), where, heavier=True)

    def slack_by_weight(self) -> list[Claim]:
        """Return the parts of (j): whose jobs artificial slack admits, and whose it drops."""
        where = f"with slack, {self.names['slack']}"
        return self._claims_by_weight("j", self.pairs["slack"], where, heavier=False)

    def _claims_by_weight(
        self, letter: str, pairs: Sequence[tuple[Case, Case]], where: str, *, heavier: bool
    ) -> list[Claim]:
        """Return that more jobs of heavier categories are accepted, or of lighter, and fewer of
        the others.
        """
        found = []
        for heavy, sign in ((heavier, +1), (not heavier, -1)):
            text = (
                f"{'more' if sign > 0 else 'fewer'} jobs of categories with "
                f"{'more' if heavy else 'less'} work a job than the mean are accepted {where}, in "
                "percentage points of these jobs"
            )
            name = f"{letter}.{'heavy' if heavy else 'light'}"
            columns = [self._by_weight(pair, heavy) for pair in pairs]
            found.append(self._claim(name, text, averages(columns), sign, margin=POINTS))
        return found

    def waste(self) -> list[Claim]:
        """Return the parts of (k), in % of all submitted work."""
        lost, wasted = [], []
        for killing, plain in self.pairs["kills, high TF"]:
            work, waste = (self.results.values(killing, each) for each in ("work", "wasted_work"))
            charges = [self.results.values(each, "resource_charge") for each in (plain, killing)]
            wasted.append([100 * part / whole for part, whole in by_seed([waste, work])])
            rows = by_seed([differences(*charges), waste, work])
            lost.append([100 * (loss - part) / whole for loss, part, whole in rows])
        where = f"at TF = {self.names['high']:g}, in % of the submitted work"
        text = f"work is wasted, {where}"
        less = f"no more of the resource charge is lost than that: lost less wasted, {where}"
        return [
            self._claim("k.wasted", text, averages(wasted), +1, margin=POINTS),
            self._claim("k.lost", less, averages(lost), -1),
        ]

    def all_accepted(self) -> list[Claim]:
        """Return the claims about accepted jobs at large TF, at the highest load."""
        accepted = {
            factor: self.results.values(self.study.at_kill_load(factor), "accepted_share")
            for factor in (*self.study.tolerance_factors, *self.study.large_factors)
        }
        after = [factor for factor in accepted if factor >= self._dip()]
        steps = {
            step: differences(accepted[step[1]], accepted[step[0]]) for step in pairwise(after)
        }
        (before, then), worst = min(steps.items(), key=lambda each: sum(each[1]))
        section, text = SPECIFICATION.sentence("i")
        text = f"{text}; worst step, from {before:g} to {then:g} (points, load {self._load})"
        found = [untested(self._claim("i", text, worst, +1), STEPS)]
        if self.study.large_factors:
            most = max(accepted)
            section, text = SPECIFICATION.sentence("h")
            text = f"{text}: at TF = {most:g} 99 % or more (%, load {self._load})"
            told = Told(section=section, family=f"{section}{self.suffix}")
            share = self.results.interval(self.study.at_kill_load(most), "accepted_share")
            found.append(range_claim(f"h{self.suffix}", text, share, 99.0, **told))
        return found

    @property
    def _load(self) -> str:
        return f"{self.study.kill_load:g}"

    def _by_weight(self, pair: tuple[Case, Case], heavy: bool) -> list[float]:
        """Return the change of the accepted jobs of heavier, or lighter, categories (points)."""
        return [
            after.accepted_of(heavy=heavy) - before.accepted_of(heavy=heavy)
            for after, before in zip(*map(self.results.of, pair), strict=True)
        ]

    def _dip(self) -> float:
        """Return the TF at which fewest jobs are accepted."""
        between = [factor for factor in self.study.tolerance_factors if 1 < factor <= 4]
        return min(between, key=lambda factor: sum(self._accepted(factor)))

    def _qos_of(self, factor: float) -> Interval:
        return self.results.interval(self.study.at_kill_load(factor), "qos_charge")

    def monotone(self) -> list[Claim]:
        """Return claims that charges change in one direction at every step of TF."""
        charges = (("b.monotone", "resource", +1), ("c.monotone", "QoS", -1))
        return [untested(self._worst_step(*each), STEPS) for each in charges]

    def further(self) -> list[Claim]:
        """Return claims about other charges than the paper's."""
        parts = SPECIFICATION.parts["further"]
        return [self._change(part.id, part, self.pairs[part.cases]) for part in parts]

    def readings(self) -> list[Claim]:
        """Return claims that what tolerance and kills bring has the same sign in each reading."""
        return [
            self._change(f"r.{reading}.{part.id}", part, [pairs[part.cases]], reading=reading)
            for reading in self.study.readings
            for pairs in [self.study.reading_pairs(reading)]
            for part in SPECIFICATION.parts["r"]
        ]

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
        return self._claim(name, text, worst, sign, margin=NOTHING, relative=True)

    def _accepted(self, factor: float) -> list[float]:
        """Return the mean share of accepted jobs (%) over loads for each seed."""
        cases = [Case(load=load, tolerance_factor=factor) for load in self.loads]
        return averages([self.results.values(case, "accepted_share") for case in cases])

    def _steps(self, before: float, after: float, kind: ToleranceKind = "fixed") -> Pairs:
        def case(load: float, factor: float) -> Case:
            return Case(load=load, tolerance=kind, tolerance_factor=factor)

        return [(case(load, after), case(load, before)) for load in self.loads]

    def _kill_pairs(self, share: float, factors: Sequence[float]) -> Pairs:
        """Return cases with and without kills, with each slack factor of the figures.

        With SF above TF no user takes an offer, and kills find place for some jobs all the same.
        """
        return [
            (msgspec.structs.replace(case, kill_and_restart=True), case)
            for factor in factors
            for case in self.study.kill_cases(share, factor, False)
        ]

    def _changes(self, pairs: Pairs, metric: str) -> list[float]:
        """Return for each seed the mean logarithm of a ratio over pairs; none if one is of 0."""
        return averages(
            [changes(*(self.results.values(case, metric) for case in pair)) for pair in pairs]
        )

    def _change(self, name: str, part: Change, pairs: Pairs, **names: str) -> Claim:
        """Return a change between cases as a claim; one without sign is none."""
        text = f"{part.text.format(**self.names, **names)}; {_over(pairs)}"
        # Checks of ours are families of their own; a part has none.
        told = Told(family="readings" if names else "further", margin=NOTHING, relative=True)
        return self._claim(name, text, self._changes(pairs, part.metric), part.sign, **told)

    def _claim(
        self, name: str, text: str, found: list[float], sign: int, **told: Unpack[Told]
    ) -> Claim:
        """Return a claim that a mean is above 0 (sign +1), below (-1), or nearly 0 (0)."""
        section = SPECIFICATION.claims[name[0]].section
        told |= {"section": section, "family": f"{told.get('family') or section}{self.suffix}"}
        name = f"{name}{self.suffix}"
        if sign:
            return sign_claim(name, text, found, sign, **told)
        return range_claim(name, text, found, -NOTHING, NOTHING, **told | {"margin": None})


def _over(pairs: Pairs) -> str:
    """Return in words what a relative change is the mean of."""
    loads = sorted({first.load for first, _ in pairs})
    slacks = sorted({first.slack_factor for first, _ in pairs})
    where = f"load {loads[0]:g}" if len(loads) == 1 else f"loads {_listed(loads)}"
    text = f"change in %, mean over {where}"
    return text if len(slacks) == 1 else f"{text} and SF {_listed(slacks)}"


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{each:g}" for each in numbers)
