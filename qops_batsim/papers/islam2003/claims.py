"""Claims of Islam et al. (2003) as tests: what sections 4 and 5 say that can be measured.

A claim is about a difference of schedulers, or of settings, on the same workloads: averaged over
loads for each seed, with an interval over the seeds. *High* loads are those from 1.4 up. Claims
about a size are judged on the size; "about" leaves 2.5 points to both sides, "comparable" 1 point
of utilization or 5 % of response time. Where something is said to be more or less, less than half
a point, or 2 % of a response time or slowdown, is no difference. What the report says "in
general", or of a trend, is judged on the mean over its cells or on the slope. Claims about mixed
jobs (sections 5.2 and 5.3) are judged with the artificial deadlines of the text and, where ids end
in ``-slides`` and the rule matters most, with those of the authors' talk, as families of their
own; so are those about other windows of a log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Unpack

import numpy as np
from msgspec.structs import replace

from qops_batsim.experiments.deadline_runs import Scenario
from qops_batsim.experiments.statistics import nested_interval
from qops_batsim.papers.claims import (
    Claim,
    Told,
    Values,
    averages,
    by_seed,
    changes,
    claim_with_parts,
    differences,
    ends_of,
    invariant_claim,
    range_claim,
    slopes,
)
from qops_batsim.papers.islam2003.runs import USED as _USED
from qops_batsim.papers.islam2003.runs import Results
from qops_batsim.papers.islam2003.study import (
    ADMISSION,
    EARLIEST_DEADLINE,
    REFERENCES,
    RULES,
    SHORT,
    LogName,
    Method,
)

ABOUT = 2.5
"""Points to both sides of a size that the paper calls "about"."""

COMPARABLE = 1.0
"""Points of utilization within which two schedulers are comparable."""

POINTS, PERCENT = 0.5, 2.0
"""Differences in points, and in % of a response time or slowdown, below which there is none."""

RIVALS = ("msb", "mrt")
_JOBS, _WORK = "unadmitted_jobs", "unadmitted_work"
_DEADLINE_JOBS, _DEADLINE_WORK = "unadmitted_deadline_jobs", "unadmitted_deadline_work"
_OTHERS = {"response_time": "response time", "slowdown": "slowdown"}
_TRACES: dict[str, tuple[LogName, Method]] = {
    "fig4": ("CTC", "duplication"),
    "fig7": ("SDSC", "duplication"),
    "fig10": ("CTC", "expansion"),
}
"""The three traces, by the first figure of each."""


@dataclass(frozen=True)
class Judge:
    """Numbers of a study by seed, and claims of a section about their means.

    Numbers are averaged over loads and, where several are given, over kinds of workloads.
    ``suffix`` ends the ids of the claims, and the name of their family.
    """

    results: Results
    section: str = "5.1"
    suffix: str = ""

    @property
    def loads(self) -> tuple[float, ...]:
        """All loads."""
        return self.results.study.loads

    @property
    def above(self) -> tuple[float, ...]:
        """Loads above 1."""
        return tuple(load for load in self.loads if load > 1)

    @property
    def high(self) -> tuple[float, ...]:
        """High loads, or the last one."""
        return tuple(load for load in self.loads if load >= 1.4) or self.loads[-1:]

    @property
    def low(self) -> tuple[float, ...]:
        """Loads above 1 that are not high, or the first one."""
        return tuple(load for load in self.above if load not in self.high) or self.loads[:1]

    def values(self, at: Scenario, scheduler: str, metric: str, load: float) -> Values:
        """Return a number of a scheduler at a load."""
        return self.results.values(at, scheduler, metric, load)

    def difference(self, at: Kinds, first: str, second: str, metric: str, loads: Loads) -> Values:
        """Return the difference of two schedulers."""
        return self._compared(differences, at, (first, second), metric, loads)

    def change(self, at: Kinds, first: str, second: str, metric: str, loads: Loads) -> Values:
        """Return the logarithm of the first over the second."""
        return self._compared(changes, at, (first, second), metric, loads)

    def spread(self, at: Kinds, metric: str, names: Sequence[str], loads: Loads) -> Values:
        """Return the distance between the highest and lowest of some schedulers."""

        def reach(*columns: Values) -> Values:
            return [max(row) - min(row) for row in by_seed(columns)]

        return self._compared(reach, at, names, metric, loads)

    def _compared(
        self,
        compare: Callable[..., Values],
        at: Kinds,
        names: Sequence[str],
        metric: str,
        loads: Loads,
    ) -> Values:
        def at_one(kind: Scenario) -> Values:
            by_load = ([self.values(kind, name, metric, load) for name in names] for load in loads)
            return averages([compare(*columns) for columns in by_load])

        return averages([at_one(each) for each in ([at] if isinstance(at, Scenario) else at)])

    def between(
        self,
        compare: Callable[..., Values],
        kinds: Iterable[Scenario],
        name: str,
        metric: str,
        loads: Loads,
    ) -> Values:
        """Return a comparison of a scheduler's numbers on two kinds of workloads."""
        both = list(kinds)
        by_load = ([self.values(each, name, metric, load) for each in both] for load in loads)
        return averages([compare(*columns) for columns in by_load])

    def at_equal_utilization(self, at: Scenario, first: str, second: str, metric: str) -> Values:
        """Return the logarithm of the first over the second where both are as utilized.

        Between loads, both numbers are interpolated; the mean is over the range of utilization
        that both reach. None if a seed has no such range.
        """
        found = []
        for seed, _ in enumerate(self.values(at, first, metric, self.loads[-1])):
            curves = [self._curve(at, name, metric, seed) for name in (first, second)]
            low, high = (max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves))
            if not low < high:
                return []
            points = np.linspace(low, high, 21)
            one, other = (np.interp(points, x, y) for x, y in curves)
            found.append(float(np.log(one / other).mean()))
        return found

    def _curve(self, at: Scenario, name: str, metric: str, seed: int) -> tuple[Values, Values]:
        rows = sorted(
            tuple(self.values(at, name, each, load)[seed] for each in (_USED, metric))
            for load in self.loads
        )
        return [row[0] for row in rows], [row[1] for row in rows]

    def trend(self, loads: Sequence[float], columns: Sequence[Values]) -> Values:
        """Return by how much numbers change from the first load to the last, by their slope."""
        if len(loads) < 2:
            return []
        return [(loads[-1] - loads[0]) * each for each in slopes(columns, loads)]

    def claim(
        self,
        name: str,
        text: str,
        values: Values,
        low: float = -math.inf,
        high: float = math.inf,
        **told: Unpack[Told],
    ) -> Claim:
        """Return a claim that the mean of a number lies between two others."""
        told = {"section": self.section, "family": self.family, **told}
        return range_claim(f"{name}{self.suffix}", text, values, low, high, **told)

    def points(self, name: str, text: str, values: Values, sign: int = -1) -> Claim:
        """Return a claim that a difference in points is above 0 (sign +1) or below (-1)."""
        return self.claim(name, text, values, *ends_of(sign), margin=POINTS)

    def percent(self, name: str, text: str, values: Values, sign: int = -1) -> Claim:
        """Return a claim that a change, given by logarithms, is above 0 % or below."""
        return self.claim(name, text, values, *ends_of(sign), margin=PERCENT, relative=True)

    def rivals(self, name: str, text: str, values: Callable[[str], Values]) -> list[Claim]:
        """Return claims that a difference to MSB, and to MRT, is below 0 points."""
        return [
            self.points(f"{name}.{each}", text.format(each.upper()), values(each))
            for each in RIVALS
        ]

    def combined(self, name: str, text: str, parts: Iterable[Claim]) -> list[Claim]:
        """Return a claim that holds if all its parts do, and these behind it."""
        whole, *found = claim_with_parts(f"{name}{self.suffix}", self.section, text, parts)
        return [replace(whole, family=self.family), *found]

    @property
    def family(self) -> str:
        """Name of the family, if it is not that of the section."""
        return f"{self.section}{self.suffix}" if self.suffix else ""


Kinds = Scenario | Sequence[Scenario]
Loads = Iterable[float]


def claims(results: Results) -> list[Claim]:
    """Return all claims, each that has parts before them."""
    judge = Judge(results)
    found = [*_packed(judge), *_stringent(judge), *_all_deadlines(judge)]
    for rule, source in RULES.items():
        suffix = "" if source == "text" else f"-{source}"
        mixed, at = Judge(results, "5.2", suffix), Scenario(log="CTC", artificial=rule)
        found += _mixed_admittance(mixed, at)
        if source == "text":
            # With both rules, correction for the number of claims would leave little of them.
            found += [*_mixed_traces(mixed, at), *_others(mixed, at), *_mixed_used(mixed, at)]
        found += _others_by_utilization(mixed, at)
        found += _relaxation(Judge(results, "5.3", suffix), replace(at, share=0.8))
    return [*found, *_windows(results)]


# Section 4.1: packed schedules, and stringency


def _packed(judge: Judge) -> Iterator[Claim]:
    """Yield the claims about packed schedules whose jobs arrive at their known starts."""
    results = judge.results
    none, *laxer = results.study.laxities or (0.0,)
    if not laxer:
        return
    packed = Judge(results, "4.1")
    refused = sum(sum(share < 100 for share in results.admitted(name, none)) for name in ADMISSION)
    text = (
        "all schedulers admit every job of a packed schedule with r = 0 (schedules, of "
        f"{len(ADMISSION) * len(results.study.seeds)}, in which one does not)"
    )
    yield invariant_claim("packed-strict", text, refused, 0.0, section="4.1")
    rs, falls = ", ".join(f"{r:g}" for r in laxer), []
    for name in ADMISSION:
        text = f"admitted jobs, {name.upper()}, mean over r = {rs}, less r = {none:g} (points)"
        lax = averages([results.admitted(name, r) for r in laxer])
        fewer = differences(lax, results.admitted(name, none))
        falls.append(packed.points(f"packed-laxer.{name}", text, fewer))
    yield from packed.combined("packed-laxer", "and fewer, the more r allows", falls)


def _stringent(judge: Judge) -> Iterator[Claim]:
    text = "a higher stringency factor admits fewer jobs"
    parts = [judge.points(*each, +1) for each in _stringency(judge, _JOBS)]
    yield from judge.combined("stringency", text, parts)


def _stringency(judge: Judge, metric: str) -> Iterator[tuple[str, str, Values]]:
    """Yield name, text and numbers of S = 0.5 less S = 0.2, on CTC by duplication."""
    what = "unadmitted jobs" if metric == _JOBS else "utilization"
    name = "stringency" if metric == _JOBS else "fig6-drop"
    both = [Scenario(log="CTC", stringency=s) for s in (0.5, 0.2)]
    for scheduler in ADMISSION:
        text = f"{what}, {scheduler.upper()}: S = 0.5 less 0.2, mean over loads (points)"
        values = judge.between(differences, both, scheduler, metric, judge.above)
        yield f"{name}.{scheduler}", text, values


# Section 5.1: deadlines for all jobs


def _all_deadlines(judge: Judge) -> Iterator[Claim]:
    yield from judge.combined(
        "fig4",
        "QoPS refuses less than MSB and MRT at high loads (CTC, S = 0.2)",
        _superior(judge, "fig4", Scenario(log="CTC"), (_JOBS, _WORK)),
    )

    def especially(rival: str) -> Values:
        steps = (judge.high, judge.low)
        return differences(
            *(judge.difference(Scenario(log="CTC"), "qops", rival, _JOBS, each) for each in steps)
        )

    text = "unadmitted jobs, QoPS less {}: high loads less others (points)"
    yield from judge.combined(
        "fig4-especially",
        "and its advantage is greater there than at lower loads",
        judge.rivals("fig4-especially", text, especially),
    )
    yield from _with_load(judge)
    same = _superior(judge, "fig5", Scenario(log="CTC", stringency=0.5), (_JOBS,))
    yield from judge.combined("fig5", "the same holds with S = 0.5", same)
    yield _convergence(judge)
    yield from _used(judge)
    for name, figures in (("fig7", "Figures 7 to 9"), ("fig10", "Figures 10 to 12")):
        log, method = _TRACES[name]
        both = [
            Scenario(log=log, method=method, stringency=stringency) for stringency in (0.2, 0.5)
        ]
        text = "unadmitted jobs, QoPS less {}, mean over high loads and both S (points)"
        parts = judge.rivals(name, text, _refused(judge, both, _JOBS))
        text = f"the trend is the same on {figures}, {log} by {method}: QoPS refuses less"
        yield from judge.combined(f"{name}-trend", text, parts)


def _superior(judge: Judge, name: str, at: Scenario, metrics: Sequence[str]) -> Iterator[Claim]:
    """Yield the claims of QoPS against the other two at high loads."""
    for rival, metric in product(RIVALS, metrics):
        what = "jobs" if metric.endswith("jobs") else "processor-seconds"
        text = f"unadmitted {what}, QoPS less {rival.upper()}, mean over high loads (points)"
        values = judge.difference(at, "qops", rival, metric, judge.high)
        yield judge.points(f"{name}.{rival}.{what}", text, values)


def _with_load(judge: Judge) -> Iterator[Claim]:
    """Yield the claims about loads near saturation."""
    last, at = judge.loads[-1], Scenario(log="CTC")
    before = max([load for load in judge.loads if load <= 1.4], default=judge.loads[0])
    near = [load for load in judge.loads if before <= load <= last]
    step = f"from load {before:g} to {last:g}, by the slope,"

    def refused(load: float) -> Values:
        rows = (judge.values(at, "qops", each, load) for each in (_JOBS, "jobs"))
        return [share * jobs / 100 for share, jobs in zip(*rows, strict=True)]

    text = f"{step} the number of jobs that QoPS refuses falls (jobs)"
    fewer = judge.trend(near, [refused(load) for load in near]) if before > 1 else []
    yield judge.claim("fig4-fewer", text, fewer, high=0.0)
    parts = []
    for name in ADMISSION:
        columns = [judge.values(at, name, _WORK, load) for load in near]
        text = f"unadmitted processor-seconds, {name.upper()}, {step} (points)"
        parts.append(judge.points(f"fig4-work.{name}", text, judge.trend(near, columns)))
    text = "unadmitted processor-seconds fall near saturation"
    yield from judge.combined("fig4-work", text, parts)

    def weight(load: float) -> Values:
        return changes(*(judge.values(at, "qops", each, load) for each in (_WORK, _JOBS)))

    text = f"{step} the jobs that QoPS refuses become lighter (their mean work, change in %)"
    lighter = judge.trend(near, [weight(load) for load in near])
    yield judge.claim("fig4-lighter", text, lighter, high=0.0, relative=True)

    first, second = judge.loads[0], judge.loads[0] + (last - before)
    steps = ((last, before), (min(judge.loads, key=lambda load: abs(load - second)), first))
    mixed = Scenario(log="CTC", share=0.2)
    rises = [
        differences(*(judge.values(mixed, "easy", "response_time", load) for load in each))
        for each in steps
    ]
    text = "EASY's response times grow faster the higher the load: the last step less the first (s)"
    yield judge.claim("easy-nonlinear", text, differences(*rises), low=0.0)


def _convergence(judge: Judge) -> Claim:
    """Return a claim about the mean over all cells: the traces, at each load above 1."""
    cells = []
    for (log, method), load in product(_TRACES.values(), judge.above):
        both = (
            Scenario(log=log, method=method, stringency=stringency) for stringency in (0.5, 0.2)
        )
        cells.append(differences(*(judge.spread(at, _JOBS, ADMISSION, [load]) for at in both)))
    fewer = sum(sum(cell) < 0 for cell in cells)
    text = (
        "in general the schedulers come closer as S increases: highest less lowest of the jobs "
        f"that QoPS, MSB and MRT refuse, S = 0.5 less 0.2, mean over {len(cells)} cells (points; "
        f"below 0 in {fewer})"
    )
    return judge.points("convergence", text, averages(cells))


def _used(judge: Judge) -> Iterator[Claim]:
    """Yield the claims of Figure 6, about utilization."""
    at, last = Scenario(log="CTC"), judge.loads[-1]
    losses = []
    for name in REFERENCES:
        text = f"utilization, QoPS less {name}, mean over loads (points)"
        loss = judge.difference(at, "qops", name, _USED, judge.above)
        losses.append(judge.claim(f"fig6-loss.{name}", text, loss, -10 - ABOUT, -10 + ABOUT))
    text = "QoPS loses about 10 % of utilization against EASY and Conservative (S = 0.2)"
    yield from judge.combined("fig6-loss", text, losses)
    text = "with S = 0.5 the utilization of the deadline schedulers is 5 to 10 % lower"
    parts = [judge.claim(*each, -10.0, -5.0) for each in _stringency(judge, _USED)]
    yield from judge.combined("fig6-drop", text, parts)
    both = [replace(at, stringency=s) for s in (0.2, 0.5)]
    same = judge.difference(both, "qops", "msb", _USED, judge.above)
    text = (
        f"QoPS's utilization is comparable to MSB's: within {COMPARABLE:g} point, mean over both S"
    )
    yield judge.claim("fig6-comparable", text, same, -COMPARABLE, COMPARABLE)
    parts = []
    for name in ("qops", "msb"):
        text = f"utilization at load {last:g}, MRT less {name.upper()}, both S (points)"
        less = judge.difference(both, "mrt", name, _USED, [last])
        parts.append(judge.claim(f"fig6-mrt.{name}", text, less, -5.0, -3.0))
    yield from judge.combined("fig6-mrt", "MRT's utilization is 3 to 5 % lower at load 1.6", parts)


# Sections 5.2 and 5.3: mixed jobs, with one rule for artificial deadlines


def _refused(judge: Judge, at: Kinds, metric: str = _DEADLINE_JOBS) -> Callable[[str], Values]:
    """Return a function of a scheduler: the refusals of QoPS less its own, at high loads."""
    return lambda rival: judge.difference(at, "qops", rival, metric, judge.high)


def _mixed_admittance(judge: Judge, at: Scenario) -> Iterator[Claim]:
    """Yield the claims of Figures 13 to 16."""
    texts = {
        (13, 0.8, 0.2): "QoPS refuses fewer deadline jobs than MSB and MRT at high loads, 80 %",
        (15, 0.2, 0.2): "with 20 % QoPS significantly outperforms MSB and MRT",
        (16, 0.2, 0.5): "even with S = 0.5",
    }
    for (number, share, stringency), text in texts.items():
        said = "unadmitted deadline jobs, QoPS less {}, high loads (points)"
        less = _refused(judge, replace(at, share=share, stringency=stringency))
        yield from judge.combined(f"fig{number}", text, judge.rivals(f"fig{number}", said, less))
        if number == 13:
            yield _mixed_convergence(judge, "fig14", at)
    few, many = (_refused(judge, replace(at, share=share)) for share in (0.2, 0.8))
    said = "unadmitted deadline jobs, QoPS less {}: 20 % less 80 % (points)"
    parts = judge.rivals("fig15-more", said, lambda each: differences(few(each), many(each)))
    yield from judge.combined("fig15-more", "and by more than with 80 % (S = 0.2)", parts)


def _mixed_traces(judge: Judge, at: Scenario) -> Iterator[Claim]:
    """Yield the claims of Figures 17 to 24."""
    for first, log, method in ((17, "SDSC", "duplication"), (21, "CTC", "expansion")):
        there, name = replace(at, log=log, method=method), f"fig{first}-trend"
        said = (
            "unadmitted deadline jobs, QoPS less {}, mean over high loads, both shares and both S "
            "(points)"
        )
        less = _refused(judge, _settings(there, (0.8, 0.2)))
        near = _mixed_convergence(judge, f"{name}.convergence", there)
        text = f"the trends are similar on {log} by {method}"
        yield from judge.combined(name, text, [near, *judge.rivals(name, said, less)])


def _settings(at: Scenario, shares: Sequence[float]) -> list[Scenario]:
    """Return kinds of workloads with shares of deadline jobs, and both S."""
    return [replace(at, share=share, stringency=s) for share in shares for s in (0.2, 0.5)]


def _mixed_convergence(judge: Judge, name: str, at: Scenario) -> Claim:
    columns = (
        judge.spread(replace(at, share=0.8, stringency=s), _DEADLINE_JOBS, ADMISSION, judge.above)
        for s in (0.5, 0.2)
    )
    text = (
        "with 80 % the schedulers come closer as S increases: highest less lowest of "
        "unadmitted deadline jobs, S = 0.5 less 0.2 (points)"
    )
    return judge.points(name, text, differences(*columns))


def _others(judge: Judge, at: Scenario) -> Iterator[Claim]:
    """Yield the claims of Figures 25 to 28: the jobs without deadlines."""
    parts = []
    for name, (metric, what) in product(ADMISSION, _OTHERS.items()):
        values = averages(
            [
                judge.change(each, name, other, metric, judge.loads)
                for each in _settings(at, (0.2, 0.8))
                for other in REFERENCES
            ]
        )
        text = f"{what}, {name.upper()} against EASY and Conservative, mean (%)"
        parts.append(judge.percent(f"fig25-28.{name}.{metric}", text, values))
    text = "the other jobs fare better with QoPS, MSB and MRT than with EASY or Conservative"
    yield from judge.combined("fig25-28", text, parts)
    many, few = replace(at, share=0.8), replace(at, share=0.2)
    parts = [each for rival in RIVALS for each in _others_change(judge, "fig27", many, rival, +1)]
    text = "with 80 % deadline jobs the others fare worse with QoPS than with MSB and MRT"
    yield from judge.combined("fig27", text, parts)
    text = "MRT refuses more work of deadline jobs than QoPS at high loads, 80 % (points)"
    values = judge.difference(many, "mrt", "qops", _DEADLINE_WORK, judge.high)
    yield judge.points("fig13-rejected", text, values, +1)
    yield from _few_deadlines(judge, few)


def _few_deadlines(judge: Judge, at: Scenario) -> Iterator[Claim]:
    """Yield the claims of Figure 25."""
    below = [load for load in judge.loads if load < judge.loads[-1]]
    text = "response time, QoPS against MSB with 20 %: at most 5 % more but at the last load (%)"
    values = judge.change(at, "qops", "msb", "response_time", below)
    yield judge.claim("fig25-response", text, values, high=5.0, relative=True)
    text = "slowdown, QoPS against MSB with 20 %: lower (%, mean over loads)"
    values = judge.change(at, "qops", "msb", "slowdown", judge.loads)
    yield judge.percent("fig25-slowdown", text, values)
    lower = []
    for load in judge.loads:
        text = f"slowdown at load {load:g}, QoPS against MSB (%)"
        values = judge.change(at, "qops", "msb", "slowdown", [load])
        lower.append(judge.percent(f"fig25-slowdown-all.{load:g}", text, values))
    yield from judge.combined("fig25-slowdown-all", "and lower at all loads", lower)
    parts: list[Claim] = []
    for rival in RIVALS:
        parts += _others_change(judge, "fig25-despite", at, rival, -1)
        values = judge.difference(at, "qops", rival, _WORK, judge.loads)
        text = f"unadmitted work, QoPS less {rival.upper()} (points)"
        parts.append(judge.points(f"fig25-despite.{rival}.work", text, values))
    text = "with 20 % the others fare better with QoPS, although it accepts more work"
    yield from judge.combined("fig25-despite", text, parts)


def _others_change(judge: Judge, name: str, at: Scenario, rival: str, sign: int) -> Iterator[Claim]:
    for metric, what in _OTHERS.items():
        values = judge.change(at, "qops", rival, metric, judge.loads)
        text = f"{what}, QoPS against {rival.upper()}, mean over loads (%)"
        yield judge.percent(f"{name}.{rival}.{metric}", text, values, sign)


def _mixed_used(judge: Judge, at: Scenario) -> Iterator[Claim]:
    """Yield the claims of Figures 37 and 38, about utilization."""

    def loss(share: float, other: str) -> Values:
        return judge.difference(_settings(at, (share,)), "qops", other, _USED, judge.above)

    def both(other: str) -> Values:
        return averages([loss(share, other) for share in (0.8, 0.2)])

    said = "utilization, QoPS less {}, mean over Figures 37 and 38 (points)"
    text = f"{said.format('MSB')}: within 1"
    yield judge.claim("fig37-comparable", text, both("msb"), -1.0, 1.0)
    yield judge.points("fig37-better", said.format("MRT"), both("mrt"), +1)
    parts = [judge.points(f"fig37-worse.{x}", said.format(x), both(x)) for x in REFERENCES]
    yield from judge.combined("fig37-worse", "QoPS uses less than EASY and Conservative", parts)
    text = "utilization with {:.0f} % deadline jobs, QoPS less EASY (points): about {}"
    many, few = loss(0.8, "easy"), loss(0.2, "easy")
    yield judge.claim("fig37-loss-80", text.format(80, "-8"), many, -10.5, -5.5)
    yield judge.claim("fig37-loss-20", text.format(20, "-2 to -3"), few, -3.0, -2.0)
    text = "the loss is less than with deadlines for all: 80 % less 100 % (points)"
    yield judge.points("fig37-less", text, differences(many, loss(1.0, "easy")), +1)


def _others_by_utilization(judge: Judge, at: Scenario) -> Iterator[Claim]:
    """Yield the claims of Figure 43."""
    few = replace(at, share=0.2)
    for which, whole, names in (
        (
            "rivals",
            "at equal utilization the others fare better with QoPS than with MSB and MRT, 20 %",
            RIVALS,
        ),
        ("references", "and better than with EASY and Conservative", REFERENCES),
    ):
        parts = []
        for other, (metric, what) in product(names, _OTHERS.items()):
            text = f"{what}, QoPS against {other} at equal utilization (%)"
            values = judge.at_equal_utilization(few, "qops", other, metric)
            parts.append(judge.percent(f"fig43.{other}.{metric}", text, values))
        yield from judge.combined(f"fig43-{which}", whole, parts)


def _relaxation(judge: Judge, at: Scenario) -> Iterator[Claim]:
    """Yield the claims of Figure 57."""
    factors = judge.results.study.relaxations
    least, most = factors[0], factors[-1]
    both = [replace(at, relaxation=r) for r in (most, least)]
    for metric, goes, sign in (("response_time", "rises", +1), ("slowdown", "falls", -1)):
        values = judge.between(changes, both, "qops", metric, judge.loads)
        text = (
            f"QoPS's {_OTHERS[metric]} {goes} with R, 80 %: from {least:g} to {most:g}, mean over "
            "loads (%)"
        )
        yield judge.percent(f"fig57.{metric}", text, values, sign)
    if at.artificial != "run-time":
        return
    # By the rule of the text, an artificial deadline depends on the run time alone.
    hours = f"{SHORT / 3600:g} h"
    for length, which, said, sign in (
        ("short", f"up to {hours}", "shorter jobs benefit from a higher R", -1),
        ("long", f"above {hours}", "longer jobs suffer from a higher R", +1),
    ):
        parts = []
        for metric, name in _OTHERS.items():
            values = judge.between(changes, both, "qops", f"{length}_{metric}", judge.loads)
            text = (
                f"QoPS's {name} of jobs of {which}, 80 %: R from {least:g} to {most:g}, mean over "
                "loads (%)"
            )
            parts.append(judge.percent(f"fig57-{length}.{metric}", text, values, sign))
        yield from judge.combined(f"fig57-{length}", said, parts)


# Other windows of the logs


def _windows(results: Results) -> Iterator[Claim]:
    """Yield the claims on stretches of logs that did not choose any default, by log.

    Windows of one log say what to expect of another window of that log: a claim about all logs
    would need more than three.
    """
    study = results.study
    contestants = (("qops", ()), ("qops-earliest-deadline", EARLIEST_DEADLINE))
    loads, seeds = ", ".join(f"{load:g}" for load in study.window_loads), study.window_seeds
    sites = dict.fromkeys(source.site for source in study.windows)
    for site, (name, settings), rival in product(sites, contestants, RIVALS):
        groups = []
        for source in study.windows:
            if source.site == site:
                columns = []
                for load in study.window_loads:
                    own = results.strict(source, load, seeds, _JOBS, "qops", settings)
                    columns.append(
                        differences(own, results.strict(source, load, seeds, _JOBS, rival))
                    )
                groups.append(averages(columns))
        text = (
            f"unadmitted jobs, {name} less {rival.upper()}, on {len(groups)} other windows "
            f"of {site} (S = 0.2, mean over loads {loads}; points)"
        )
        yield range_claim(
            f"windows.{site}.{name}.{rival}",
            text,
            nested_interval(groups),
            *ends_of(-1),
            section="5.1",
            family=f"windows of {site}",
            margin=POINTS,
        )
