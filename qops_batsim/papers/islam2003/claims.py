"""Claims of Islam et al. (2003) as tests: what sections 4 and 5 say that can be measured.

A claim is about a difference of schedulers, or of settings, on the same workloads: averaged over
loads for each seed, with an interval over the seeds. *High* loads are those from 1.4 up. Claims
about a size are judged on the size; "about" leaves 2.5 points to both sides, "comparable" 1 point
of utilization or 5 % of response time. Those about mixed jobs (sections 5.2 and 5.3) are judged
with the artificial deadlines of the text and, where ids end in ``-slides`` and the rule matters
most, with those of the authors' talk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from qops_batsim.experiments.statistics import nested_interval
from qops_batsim.papers.claims import (
    Claim,
    Values,
    averages,
    by_seed,
    claim_with_parts,
    differences,
    percent_changes,
    plain_claim,
    range_claim,
    sign_claim,
)
from qops_batsim.papers.islam2003.runs import Curve, Results
from qops_batsim.papers.islam2003.study import (
    ADMISSION,
    REFERENCES,
    RULES,
    Log,
    Method,
    case_of,
    scenario,
)


class Where(NamedTuple):
    """A workload but for its load."""

    log: Log = "CTC"
    method: Method = "duplication"
    stringency: float = 0.2
    share: float = 1.0
    rule: str = "run-time"

    def replaced(self, **changes: object) -> Where:
        """Return another one."""
        return self._replace(**changes)  # type: ignore[arg-type]


class Judge:
    """Numbers of a study by seed, and claims about their means."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.loads = results.study.loads
        self.above = tuple(load for load in self.loads if load > 1)
        self.high = tuple(load for load in self.loads if load >= 1.4) or self.loads[-1:]
        self.low = tuple(load for load in self.above if load not in self.high) or self.loads[:1]
        self.last = self.loads[-1]
        self.before = max([load for load in self.loads if load <= 1.4], default=self.loads[0])

    def values(self, at: Where, scheduler: str, metric: str, load: float) -> Values:
        """Return a number at a load."""
        setting = at.stringency, at.share
        curve = Curve(self.results, at.log, at.method, setting, scheduler, at.rule)
        return curve.values(load, metric)

    def relaxed(self, at: Where, factor: float, metric: str, load: float) -> Values:
        """Return a number of QoPS at a load with a relaxation factor."""
        setting = at.stringency, at.share
        curve = Curve(self.results, at.log, at.method, setting, "qops", at.rule, factor)
        return curve.values(load, metric)

    def difference(
        self, at: Where, first: str, second: str, metric: str, loads: Iterable[float]
    ) -> Values:
        """Return the difference of two schedulers, averaged over loads."""
        return self.over(loads, lambda load: self._difference(at, first, second, metric, load))

    def _difference(self, at: Where, first: str, second: str, metric: str, load: float) -> Values:
        return differences(*(self.values(at, name, metric, load) for name in (first, second)))

    def change(
        self, at: Where, first: str, second: str, metric: str, loads: Iterable[float]
    ) -> Values:
        """Return by how many percent the first exceeds the second, averaged over loads."""

        def one(load: float) -> Values:
            return percent_changes(
                *(self.values(at, name, metric, load) for name in (first, second))
            )

        return self.over(loads, one)

    def spread(
        self, at: Where, metric: str, names: Sequence[str], loads: Iterable[float]
    ) -> Values:
        """Return the distance between the highest and lowest of some schedulers."""

        def one(load: float) -> Values:
            columns = [self.values(at, name, metric, load) for name in names]
            return [max(row) - min(row) for row in by_seed(columns)]

        return self.over(loads, one)

    def at_equal_utilization(self, at: Where, first: str, second: str, metric: str) -> Values:
        """Return by how many percent the first exceeds the second where both are as utilized.

        Between loads, both numbers are interpolated; the mean is over the range of utilization
        that both reach. None if a seed has no such range.
        """
        found = []
        for seed, _ in enumerate(self.values(at, first, metric, self.last)):
            curves = [self._curve(at, name, metric, seed) for name in (first, second)]
            low, high = (max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves))
            if not low < high:
                return []
            points = np.linspace(low, high, 21)
            one, other = (np.interp(points, x, y) for x, y in curves)
            found.append(100.0 * float((one / other - 1.0).mean()))
        return found

    def _curve(self, at: Where, name: str, metric: str, seed: int) -> tuple[Values, Values]:
        rows = sorted(
            tuple(self.values(at, name, each, load)[seed] for each in ("utilization", metric))
            for load in self.loads
        )
        return [row[0] for row in rows], [row[1] for row in rows]

    def over(self, loads: Iterable[float], one: Callable[[float], Values]) -> Values:
        """Return the mean over loads."""
        return averages([one(load) for load in loads])

    def claim(
        self,
        name: str,
        section: str,
        text: str,
        values: Values,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> Claim:
        """Return a claim that the mean of a number lies between two others."""
        several_seeds = len(self.results.study.seeds) > 1
        return range_claim(
            name, text, values, low, high, section=section, single_is_fact=several_seeds
        )


_RIVALS = ("msb", "mrt")
_DEADLINE_JOBS, _DEADLINE_WORK = "unadmitted_deadline_jobs", "unadmitted_deadline_work"
_OTHERS = {"response_time": "response time", "slowdown": "slowdown"}
_SECTION = "5.2"


def mixed_claims(judge: Judge) -> list[Claim]:
    """Return all claims, each that has parts before them."""
    found: list[Claim] = []
    for rule, source in RULES.items():
        each = _Mixed(judge, Where(rule=rule), "" if source == "text" else f"-{source}")
        found += each.admittance()
        if source == "text":
            # With both rules, correction for the number of claims would leave little of them.
            found += [*each.other_traces(), *each.others(), *each.utilization()]
        found += [*each.by_utilization(), *each.relaxation()]
    return found


class _Mixed:
    """The claims with one rule for artificial deadlines."""

    def __init__(self, judge: Judge, at: Where, suffix: str) -> None:
        self.judge = judge
        self.at = at
        self.suffix = suffix

    def admittance(self) -> Iterator[Claim]:
        """Figures 13 to 16."""
        texts = {
            (13, 0.8, 0.2): "QoPS refuses fewer deadline jobs than MSB and MRT at high loads, 80 %",
            (15, 0.2, 0.2): "with 20 % QoPS significantly outperforms MSB and MRT",
            (16, 0.2, 0.5): "even with S = 0.5",
        }
        for (number, share, stringency), text in texts.items():
            at = self.at.replaced(share=share, stringency=stringency)
            yield from self._whole(f"fig{number}", text, self._superior(f"fig{number}", at))
            if number == 13:
                yield self._convergence("fig14", self.at)
        parts = []
        for rival in _RIVALS:
            columns = (
                self._difference(self.at.replaced(share=share), rival) for share in (0.2, 0.8)
            )
            text = f"unadmitted deadline jobs, QoPS less {rival.upper()}: 20 % less 80 % (points)"
            parts.append(self._claim(f"fig15-more.{rival}", text, differences(*columns), high=0.0))
        yield from self._whole("fig15-more", "and by more than with 80 % (S = 0.2)", parts)

    def other_traces(self) -> Iterator[Claim]:
        """Figures 17 to 24."""
        for first, log, method in ((17, "SDSC", "duplication"), (21, "CTC", "expansion")):
            at = self.at.replaced(log=log, method=method)
            parts = [self._convergence(f"fig{first + 1}", at)]
            for number, share in ((first, 0.8), (first + 2, 0.2)):
                parts += self._superior(f"fig{number}", at.replaced(share=share))
            text = f"the trends are similar on {log} by {method}"
            yield from self._whole(f"fig{first}-trend", text, parts)

    def others(self) -> Iterator[Claim]:
        """Figures 25 to 28: the jobs without deadlines."""
        judge = self.judge
        settings = [
            self.at.replaced(share=share, stringency=s) for share in (0.2, 0.8) for s in (0.2, 0.5)
        ]
        parts = []
        for name in ADMISSION:
            for metric, what in _OTHERS.items():
                values = averages(
                    [
                        judge.change(at, name, other, metric, judge.loads)
                        for at in settings
                        for other in REFERENCES
                    ]
                )
                text = f"{what}, {name.upper()} against EASY and Conservative, mean (%)"
                parts.append(self._claim(f"fig25-28.{name}.{metric}", text, values, high=0.0))
        text = "the other jobs fare better with QoPS, MSB and MRT than with EASY or Conservative"
        yield from self._whole("fig25-28", text, parts)
        many, few = self.at.replaced(share=0.8), self.at.replaced(share=0.2)
        parts = [
            self._change(f"fig27.{rival}.{metric}", many, rival, metric, low=0.0)
            for rival in _RIVALS
            for metric in _OTHERS
        ]
        text = "with 80 % deadline jobs the others fare worse with QoPS than with MSB and MRT"
        yield from self._whole("fig27", text, parts)
        text = "MRT refuses more work of deadline jobs than QoPS at high loads, 80 % (points)"
        values = judge.difference(many, "mrt", "qops", _DEADLINE_WORK, judge.high)
        yield self._claim("fig13-rejected", text, values, low=0.0)
        yield from self._few_deadlines(few)

    def _few_deadlines(self, at: Where) -> Iterator[Claim]:
        """Figure 25."""
        judge = self.judge
        below = [load for load in judge.loads if load < judge.last]
        text = (
            "response time, QoPS against MSB with 20 %: at most 5 % more but at the last load (%)"
        )
        values = judge.change(at, "qops", "msb", "response_time", below)
        yield self._claim("fig25-response", text, values, high=5.0)
        text = "slowdown, QoPS against MSB with 20 %: lower (%, mean over loads)"
        yield self._claim(
            "fig25-slowdown",
            text,
            judge.change(at, "qops", "msb", "slowdown", judge.loads),
            high=0.0,
        )
        lower = [
            sum(judge.change(at, "qops", "msb", "slowdown", [load])) < 0 for load in judge.loads
        ]
        text = f"and lower at all loads (of {len(lower)}, those where the mean is)"
        yield plain_claim(
            f"fig25-slowdown-all{self.suffix}",
            text,
            all(lower),
            float(sum(lower)),
            section=_SECTION,
        )
        parts = []
        for rival in _RIVALS:
            parts += [
                self._change(f"fig25-despite.{rival}.{metric}", at, rival, metric, high=0.0)
                for metric in _OTHERS
            ]
            values = judge.difference(at, "qops", rival, "unadmitted_work", judge.loads)
            text = f"unadmitted work, QoPS less {rival.upper()} (points)"
            parts.append(self._claim(f"fig25-despite.{rival}.work", text, values, high=0.0))
        text = "with 20 % the others fare better with QoPS, although it accepts more work"
        yield from self._whole("fig25-despite", text, parts)

    def utilization(self) -> Iterator[Claim]:
        """Figures 37 and 38."""
        judge = self.judge

        def loss(share: float, other: str) -> Values:
            """Return the mean of both S."""
            each = [self.at.replaced(share=share, stringency=s) for s in (0.2, 0.5)]
            return averages(
                [judge.difference(at, "qops", other, "utilization", judge.above) for at in each]
            )

        both = {
            name: averages([loss(share, name) for share in (0.8, 0.2)])
            for name in ("msb", "mrt", *REFERENCES)
        }
        said = "utilization, QoPS less {}, mean over Figures 37 and 38 (points)"
        text = f"{said.format('MSB')}: within 1"
        yield self._claim("fig37-comparable", text, both["msb"], -1.0, 1.0)
        yield self._claim("fig37-better", said.format("MRT"), both["mrt"], low=0.0)
        parts = [
            self._claim(f"fig37-worse.{name}", said.format(name), both[name], high=0.0)
            for name in REFERENCES
        ]
        yield from self._whole("fig37-worse", "QoPS uses less than EASY and Conservative", parts)
        text = "utilization with {:.0f} % deadline jobs, QoPS less EASY (points): about {}"
        many, few = loss(0.8, "easy"), loss(0.2, "easy")
        yield self._claim("fig37-loss-80", text.format(80, "-8"), many, -10.5, -5.5)
        yield self._claim("fig37-loss-20", text.format(20, "-2 to -3"), few, -3.0, -2.0)
        text = "the loss is less than with deadlines for all: 80 % less 100 % (points)"
        yield self._claim("fig37-less", text, differences(many, loss(1.0, "easy")), low=0.0)

    def by_utilization(self) -> Iterator[Claim]:
        """Figure 43."""
        at, parts = self.at.replaced(share=0.2), []
        for other in (*_RIVALS, *REFERENCES):
            for metric, what in _OTHERS.items():
                values = self.judge.at_equal_utilization(at, "qops", other, metric)
                text = f"{what}, QoPS against {other} at equal utilization (%)"
                parts.append(self._claim(f"fig43.{other}.{metric}", text, values, high=0.0))
        rivals, references = parts[:4], parts[4:]
        text = "at equal utilization the others fare better with QoPS than with MSB and MRT, 20 %"
        yield from self._whole("fig43-rivals", text, rivals)
        text = "and better than with EASY and Conservative"
        yield from self._whole("fig43-references", text, references)

    def relaxation(self) -> Iterator[Claim]:
        """Figure 57."""
        judge, at = self.judge, self.at.replaced(share=0.8)
        factors = judge.results.study.relaxations
        for metric, sign in (("response_time", 1), ("slowdown", -1)):

            def change(load: float, metric: str = metric) -> Values:
                columns = (judge.relaxed(at, factors[i], metric, load) for i in (-1, 0))
                return percent_changes(*columns)

            goes = "rises" if sign > 0 else "falls"
            yield self._claim(
                f"fig57.{metric}",
                f"QoPS's {_OTHERS[metric]} {goes} with R, 80 %: from {factors[0]:g} to "
                f"{factors[-1]:g}, mean over loads (%)",
                judge.over(judge.loads, change),
                *((0.0, float("inf")) if sign > 0 else (-float("inf"), 0.0)),
                section="5.3",
            )

    def _superior(self, name: str, at: Where) -> list[Claim]:
        found = []
        for rival in _RIVALS:
            text = f"unadmitted deadline jobs, QoPS less {rival.upper()}, high loads (points)"
            values = self._difference(at, rival)
            found.append(self._claim(f"{name}.{rival}", text, values, high=0.0))
        return found

    def _difference(self, at: Where, rival: str) -> Values:
        return self.judge.difference(at, "qops", rival, _DEADLINE_JOBS, self.judge.high)

    def _convergence(self, name: str, at: Where) -> Claim:
        columns = (
            self.judge.spread(
                at.replaced(share=0.8, stringency=s), _DEADLINE_JOBS, ADMISSION, self.judge.above
            )
            for s in (0.5, 0.2)
        )
        text = (
            "with 80 % the schedulers come closer as S increases: highest less lowest of "
            "unadmitted deadline jobs, S = 0.5 less 0.2 (points)"
        )
        return self._claim(name, text, differences(*columns), high=0.0)

    def _change(
        self,
        name: str,
        at: Where,
        rival: str,
        metric: str,
        low: float = -float("inf"),
        high: float = float("inf"),
    ) -> Claim:
        values = self.judge.change(at, "qops", rival, metric, self.judge.loads)
        text = f"{_OTHERS[metric]}, QoPS against {rival.upper()}, mean over loads (%)"
        return self._claim(name, text, values, low, high)

    def _claim(
        self,
        name: str,
        text: str,
        values: Values,
        low: float = -float("inf"),
        high: float = float("inf"),
        section: str = _SECTION,
    ) -> Claim:
        return self.judge.claim(f"{name}{self.suffix}", section, text, values, low, high)

    def _whole(self, name: str, text: str, parts: list[Claim]) -> list[Claim]:
        return claim_with_parts(f"{name}{self.suffix}", _SECTION, text, parts)


ABOUT = 2.5
"""Points to both sides of a size that the paper calls "about"."""

COMPARABLE = 1.0
"""Points of utilization within which two schedulers are comparable."""

RIVALS = ("msb", "mrt")
_JOBS, _WORK, _USED = "unadmitted_jobs", "unadmitted_work", "utilization"
_TRACES: dict[str, tuple[Log, Method]] = {
    "fig4": ("CTC", "duplication"),
    "fig7": ("SDSC", "duplication"),
    "fig10": ("CTC", "expansion"),
}
"""The three traces, by the first figure of each."""


def claims(results: Results) -> list[Claim]:
    """Return all claims, each that has parts before them."""
    judge = Judge(results)
    return [
        *_packed(results),
        *_all_deadlines(judge),
        *mixed_claims(judge),
        *_windows(results),
    ]


def _packed(results: Results) -> Iterator[Claim]:
    """Section 4.1, packed schedules whose jobs arrive at their known starts."""
    none, *laxer = results.study.laxities or (0.0,)
    if not laxer:
        return
    least, falls = [], []
    for name in ADMISSION:
        strict = results.admitted(name, none)
        text = f"admitted jobs, {name.upper()}, r = {none:g}: the fewest of any schedule (%)"
        whole_set = min(strict) == 100
        found = plain_claim(
            f"packed-strict.{name}", text, whole_set, min(strict), 100.0, section="4.1"
        )
        least.append(found)
        more = differences(averages([results.admitted(name, r) for r in laxer]), strict)
        rs = ", ".join(f"{r:g}" for r in laxer)
        text = f"admitted jobs, {name.upper()}, mean over r = {rs}, less r = {none:g} (points)"
        # Without a single refusal there is no chance in it.
        more = more if any(more) else [0.0]
        falls.append(
            range_claim(
                f"packed-laxer.{name}", text, more, high=0.0, section="4.1", single_is_fact=True
            )
        )
    text = "all schedulers admit every job of a packed schedule with r = 0"
    yield from claim_with_parts("packed-strict", "4.1", text, least)
    yield from claim_with_parts("packed-laxer", "4.1", "and fewer, the more r allows", falls)


def _all_deadlines(judge: Judge) -> Iterator[Claim]:
    """Section 5.1."""
    yield from claim_with_parts(
        "stringency",
        "4.1, 5.1",
        "a higher stringency factor admits fewer jobs",
        _stringency(judge, _JOBS, 0.0, float("inf")),
    )
    yield from claim_with_parts(
        "fig4",
        "5.1",
        "QoPS refuses less than MSB and MRT at high loads (CTC, S = 0.2)",
        _superior(judge, "fig4", Where(), (_JOBS, _WORK)),
    )
    yield from claim_with_parts(
        "fig4-especially",
        "5.1",
        "and its advantage is greater there than at lower loads",
        _especially(judge),
    )
    yield from _with_load(judge)
    yield from claim_with_parts(
        "fig5",
        "5.1",
        "the same holds with S = 0.5",
        _superior(judge, "fig5", Where(stringency=0.5), (_JOBS,)),
    )
    yield from _convergence(judge)
    yield from _utilization(judge)
    for name, figures in (("fig7", "Figures 7 to 9, SDSC"), ("fig10", "Figures 10 to 12")):
        log, method = _TRACES[name]
        at = Where(log, method)
        parts = [
            part
            for number, stringency in ((0, 0.2), (1, 0.5))
            for part in _superior(
                judge, f"fig{int(name[3:]) + number}", at.replaced(stringency=stringency), (_JOBS,)
            )
        ]
        text = f"the trend is the same on {figures}, {log} by {method}"
        yield from claim_with_parts(f"{name}-trend", "5.1", text.replace(", SDSC,", ","), parts)


def _superior(judge: Judge, name: str, at: Where, metrics: Sequence[str]) -> Iterator[Claim]:
    """QoPS against the other two at high loads."""
    for rival in RIVALS:
        for metric in metrics:
            what = "jobs" if metric.endswith("jobs") else "processor-seconds"
            yield judge.claim(
                f"{name}.{rival}.{what}",
                "5.1",
                f"unadmitted {what}, QoPS less {rival.upper()}, mean over high loads (points)",
                judge.difference(at, "qops", rival, metric, judge.high),
                high=0.0,
            )


def _especially(judge: Judge) -> Iterator[Claim]:
    for rival in RIVALS:
        columns = (
            judge.difference(Where(), "qops", rival, _JOBS, loads)
            for loads in (judge.high, judge.low)
        )
        yield judge.claim(
            f"fig4-especially.{rival}",
            "5.1",
            f"unadmitted jobs, QoPS less {rival.upper()}: high loads less others (points)",
            differences(*columns),
            high=0.0,
        )


def _with_load(judge: Judge) -> Iterator[Claim]:
    """What happens as the load comes near saturation."""
    last, before, at = judge.last, judge.before, Where()
    step = f"from load {before:g} to {last:g}"

    def refused(load: float) -> Values:
        rows = (judge.values(at, "qops", each, load) for each in (_JOBS, "jobs"))
        return [share * jobs / 100 for share, jobs in zip(*rows, strict=True)]

    text = f"{step} the number of jobs that QoPS refuses falls (jobs)"
    fewer = differences(refused(last), refused(before)) if before > 1 else []
    yield judge.claim("fig4-fewer", "5.1", text, fewer, high=0.0)
    parts = []
    for name in ADMISSION:
        columns = (judge.values(at, name, _WORK, load) for load in (last, before))
        text = f"unadmitted processor-seconds, {name.upper()}, {step} (points)"
        parts.append(judge.claim(f"fig4-work.{name}", "5.1", text, differences(*columns), high=0.0))
    yield from claim_with_parts(
        "fig4-work", "5.1", "unadmitted processor-seconds fall near saturation", parts
    )

    def weight(load: float) -> Values:
        return percent_changes(*(judge.values(at, "qops", each, load) for each in (_WORK, _JOBS)))

    text = f"{step} the jobs that QoPS refuses become lighter (mean work in % above that of all)"
    yield judge.claim(
        "fig4-lighter", "5.1", text, differences(weight(last), weight(before)), high=0.0
    )

    mixed = Where(share=0.2)
    first, second = judge.loads[0], judge.loads[0] + (last - before)
    steps = ((last, before), (min(judge.loads, key=lambda load: abs(load - second)), first))
    rises = [
        differences(*(judge.values(mixed, "easy", "response_time", load) for load in each))
        for each in steps
    ]
    text = "EASY's response times grow faster the higher the load: the last step less the first (s)"
    yield judge.claim("easy-nonlinear", "5.1", text, differences(*rises), low=0.0)


def _stringency(judge: Judge, metric: str, low: float, high: float) -> Iterator[Claim]:
    """S = 0.5 less S = 0.2, on CTC by duplication."""
    what = "unadmitted jobs" if metric == _JOBS else "utilization"
    name = "stringency" if metric == _JOBS else "fig6-drop"
    for scheduler in ADMISSION:

        def more(load: float, scheduler: str = scheduler) -> Values:
            each = (Where(stringency=s) for s in (0.5, 0.2))
            return differences(*(judge.values(at, scheduler, metric, load) for at in each))

        yield judge.claim(
            f"{name}.{scheduler}",
            "5.1",
            f"{what}, {scheduler.upper()}: S = 0.5 less 0.2, mean over loads (points)",
            judge.over(judge.above, more),
            low,
            high,
        )


def _convergence(judge: Judge) -> list[Claim]:
    """Return a claim that holds if it does in every cell: on each trace, at each load above 1."""
    cells = []
    for name, (log, method) in _TRACES.items():
        for load in judge.above:
            columns = (
                judge.spread(Where(log, method, stringency), _JOBS, ADMISSION, [load])
                for stringency in (0.5, 0.2)
            )
            text = (
                f"unadmitted jobs on {log} by {method} at load {load:g}: highest less lowest of "
                "QoPS, MSB and MRT, S = 0.5 less 0.2 (points)"
            )
            found = judge.claim(
                f"convergence.{name}.{load:g}", "5.1", text, differences(*columns), high=0.0
            )
            cells.append(found)
    fewer = sum(cell.value is not None and cell.value < 0 for cell in cells)
    text = (
        "the schedulers come closer to each other as S increases (the means say so in "
        f"{fewer} of {len(cells)} cells)"
    )
    return claim_with_parts("convergence", "5.1", text, cells)


def _utilization(judge: Judge) -> Iterator[Claim]:
    """Figure 6."""
    at = Where()
    losses = [
        judge.claim(
            f"fig6-loss.{name}",
            "5.1",
            f"utilization, QoPS less {name}, mean over loads (points)",
            judge.difference(at, "qops", name, _USED, judge.above),
            -10 - ABOUT,
            -10 + ABOUT,
        )
        for name in REFERENCES
    ]
    text = "QoPS loses about 10 % of utilization against EASY and Conservative (S = 0.2)"
    yield from claim_with_parts("fig6-loss", "5.1", text, losses)
    text = "with S = 0.5 the utilization of the deadline schedulers is 5 to 10 % lower"
    yield from claim_with_parts("fig6-drop", "5.1", text, _stringency(judge, _USED, -10.0, -5.0))
    both = [at.replaced(stringency=s) for s in (0.2, 0.5)]
    same = averages([judge.difference(w, "qops", "msb", _USED, judge.above) for w in both])
    text = (
        f"QoPS's utilization is comparable to MSB's: within {COMPARABLE:g} point, mean over both S"
    )
    yield judge.claim("fig6-comparable", "5.1", text, same, -COMPARABLE, COMPARABLE)
    parts = [
        judge.claim(
            f"fig6-mrt.{name}",
            "5.1",
            f"utilization at load {judge.last:g}, MRT less {name.upper()}, both S (points)",
            averages([judge.difference(w, "mrt", name, _USED, [judge.last]) for w in both]),
            -5.0,
            -3.0,
        )
        for name in ("qops", "msb")
    ]
    yield from claim_with_parts(
        "fig6-mrt", "5.1", "MRT's utilization is 3 to 5 % lower at load 1.6", parts
    )


def _windows(results: Results) -> Iterator[Claim]:
    """Whether QoPS refuses less on stretches of logs that did not choose any default."""
    study = results.study
    if not study.windows:
        return
    order = (("order", "earliest_deadline"),)
    for name, settings in (("qops", ()), ("qops-earliest-deadline", order)):
        for rival in RIVALS:
            groups = []
            for source in study.windows:
                columns = []
                for load in study.window_loads:
                    at = [
                        scenario(source, "duplication", (0.2, 1.0), load, seed)
                        for seed in study.window_seeds
                    ]
                    own = results.of([case_of(each, "qops", settings) for each in at], _JOBS)
                    columns.append(
                        differences(own, results.of([case_of(e, rival) for e in at], _JOBS))
                    )
                groups.append(averages(columns))
            loads = ", ".join(f"{load:g}" for load in study.window_loads)
            text = (
                f"unadmitted jobs, {name} less {rival.upper()}, on {len(groups)} other windows of "
                f"CTC, SDSC and KTH (S = 0.2, mean over loads {loads}; points)"
            )
            found = sign_claim(f"windows.{name}.{rival}", text, nested_interval(groups), -1)
            yield msgspec.structs.replace(found, section="5.1")
