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
from functools import partial

import msgspec
import numpy as np

from qops_batsim.experiments.statistics import nested_interval
from qops_batsim.papers.claims import (
    Claim,
    Values,
    averages,
    by_seed,
    changes,
    claim_with_parts,
    differences,
    invariant_claim,
    range_claim,
    sign_claim,
    slopes,
)
from qops_batsim.papers.islam2003.runs import USED as _USED
from qops_batsim.papers.islam2003.runs import Results, WorkloadKind
from qops_batsim.papers.islam2003.study import (
    ADMISSION,
    EARLIEST_DEADLINE,
    REFERENCES,
    RULES,
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

    def values(self, at: WorkloadKind, scheduler: str, metric: str, load: float) -> Values:
        """Return a number of a scheduler at a load."""
        return self.results.values(at, scheduler, metric, load)

    def difference(
        self, at: WorkloadKind, first: str, second: str, metric: str, loads: Iterable[float]
    ) -> Values:
        """Return the difference of two schedulers, averaged over loads."""
        return self._compared(differences, at, (first, second), metric, loads)

    def change(
        self, at: WorkloadKind, first: str, second: str, metric: str, loads: Iterable[float]
    ) -> Values:
        """Return the logarithm of the first over the second, averaged over loads."""
        return self._compared(changes, at, (first, second), metric, loads)

    def spread(
        self, at: WorkloadKind, metric: str, names: Sequence[str], loads: Iterable[float]
    ) -> Values:
        """Return the distance between the highest and lowest of some schedulers."""

        def reach(*columns: Values) -> Values:
            return [max(row) - min(row) for row in by_seed(columns)]

        return self._compared(reach, at, names, metric, loads)

    def _compared(
        self,
        compare: Callable[..., Values],
        at: WorkloadKind,
        names: Sequence[str],
        metric: str,
        loads: Iterable[float],
    ) -> Values:
        return averages(
            [compare(*(self.values(at, name, metric, load) for name in names)) for load in loads]
        )

    def at_equal_utilization(
        self, at: WorkloadKind, first: str, second: str, metric: str
    ) -> Values:
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

    def _curve(self, at: WorkloadKind, name: str, metric: str, seed: int) -> tuple[Values, Values]:
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
        *,
        margin: float | None = None,
        relative: bool = False,
    ) -> Claim:
        """Return a claim that the mean of a number lies between two others."""
        found = range_claim(
            f"{name}{self.suffix}",
            text,
            values,
            low,
            high,
            section=self.section,
            margin=margin,
            relative=relative,
        )
        return self._of_family(found)

    def points(self, name: str, text: str, values: Values, sign: int) -> Claim:
        """Return a claim that a difference in points is above 0 (sign +1) or below (-1)."""
        low, high = (0.0, math.inf) if sign > 0 else (-math.inf, 0.0)
        return self.claim(name, text, values, low, high, margin=POINTS)

    def percent(self, name: str, text: str, values: Values, sign: int) -> Claim:
        """Return a claim that a change, given by logarithms, is above 0 % or below."""
        low, high = (0.0, math.inf) if sign > 0 else (-math.inf, 0.0)
        return self.claim(name, text, values, low, high, margin=PERCENT, relative=True)

    def combined(self, name: str, text: str, parts: Iterable[Claim]) -> list[Claim]:
        """Return a claim that holds if all its parts do, and these behind it."""
        whole, *found = claim_with_parts(f"{name}{self.suffix}", self.section, text, parts)
        return [self._of_family(whole), *found]

    def _of_family(self, claim: Claim) -> Claim:
        family = f"{self.section}{self.suffix}"
        return msgspec.structs.replace(claim, family=family if self.suffix else "")


def claims(results: Results) -> list[Claim]:
    """Return all claims, each that has parts before them."""
    judge = Judge(results)
    found = [*_packed(judge), *_stringent(judge), *_all_deadlines(judge)]
    for rule, source in RULES.items():
        suffix = "" if source == "text" else f"-{source}"
        mixed, at = Judge(results, "5.2", suffix), WorkloadKind(rule=rule)
        found += _mixed_admittance(mixed, at)
        if source == "text":
            # With both rules, correction for the number of claims would leave little of them.
            found += [*_mixed_traces(mixed, at), *_others(mixed, at), *_mixed_used(mixed, at)]
        found += _others_by_utilization(mixed, at)
        found += _relaxation(Judge(results, "5.3", suffix), at.replaced(share=0.8))
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
    rs = ", ".join(f"{r:g}" for r in laxer)
    falls = [
        packed.points(
            f"packed-laxer.{name}",
            f"admitted jobs, {name.upper()}, mean over r = {rs}, less r = {none:g} (points)",
            differences(
                averages([results.admitted(name, r) for r in laxer]), results.admitted(name, none)
            ),
            -1,
        )
        for name in ADMISSION
    ]
    yield from packed.combined("packed-laxer", "and fewer, the more r allows", falls)


def _stringent(judge: Judge) -> Iterator[Claim]:
    text = "a higher stringency factor admits fewer jobs"
    parts = [
        judge.points(name, text, values, +1) for name, text, values in _stringency(judge, _JOBS)
    ]
    yield from judge.combined("stringency", text, parts)


def _stringency(judge: Judge, metric: str) -> Iterator[tuple[str, str, Values]]:
    """Yield name, text and numbers of S = 0.5 less S = 0.2, on CTC by duplication."""
    what = "unadmitted jobs" if metric == _JOBS else "utilization"
    name = "stringency" if metric == _JOBS else "fig6-drop"
    for scheduler in ADMISSION:
        by_load = [
            differences(
                *(
                    judge.values(WorkloadKind(stringency=s), scheduler, metric, load)
                    for s in (0.5, 0.2)
                )
            )
            for load in judge.above
        ]
        text = f"{what}, {scheduler.upper()}: S = 0.5 less 0.2, mean over loads (points)"
        yield f"{name}.{scheduler}", text, averages(by_load)


# Section 5.1: deadlines for all jobs


def _all_deadlines(judge: Judge) -> Iterator[Claim]:
    yield from judge.combined(
        "fig4",
        "QoPS refuses less than MSB and MRT at high loads (CTC, S = 0.2)",
        _superior(judge, "fig4", WorkloadKind(), (_JOBS, _WORK)),
    )
    yield from judge.combined(
        "fig4-especially",
        "and its advantage is greater there than at lower loads",
        _especially(judge),
    )
    yield from _with_load(judge)
    strict = WorkloadKind(stringency=0.5)
    same = _superior(judge, "fig5", strict, (_JOBS,))
    yield from judge.combined("fig5", "the same holds with S = 0.5", same)
    yield _convergence(judge)
    yield from _used(judge)
    for name, figures in (("fig7", "Figures 7 to 9"), ("fig10", "Figures 10 to 12")):
        log, method = _TRACES[name]
        parts = [
            judge.points(
                f"{name}.{rival}",
                f"unadmitted jobs, QoPS less {rival.upper()}, mean over high loads and both S "
                "(points)",
                averages(
                    [
                        judge.difference(
                            WorkloadKind(log, method, stringency), "qops", rival, _JOBS, judge.high
                        )
                        for stringency in (0.2, 0.5)
                    ]
                ),
                -1,
            )
            for rival in RIVALS
        ]
        text = f"the trend is the same on {figures}, {log} by {method}: QoPS refuses less"
        yield from judge.combined(f"{name}-trend", text, parts)


def _superior(judge: Judge, name: str, at: WorkloadKind, metrics: Sequence[str]) -> Iterator[Claim]:
    """Yield the claims of QoPS against the other two at high loads."""
    for rival in RIVALS:
        for metric in metrics:
            what = "jobs" if metric.endswith("jobs") else "processor-seconds"
            yield judge.points(
                f"{name}.{rival}.{what}",
                f"unadmitted {what}, QoPS less {rival.upper()}, mean over high loads (points)",
                judge.difference(at, "qops", rival, metric, judge.high),
                -1,
            )


def _especially(judge: Judge) -> Iterator[Claim]:
    for rival in RIVALS:
        columns = (
            judge.difference(WorkloadKind(), "qops", rival, _JOBS, loads)
            for loads in (judge.high, judge.low)
        )
        text = f"unadmitted jobs, QoPS less {rival.upper()}: high loads less others (points)"
        yield judge.points(f"fig4-especially.{rival}", text, differences(*columns), -1)


def _with_load(judge: Judge) -> Iterator[Claim]:
    """Yield the claims about loads near saturation."""
    last, at = judge.loads[-1], WorkloadKind()
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
        parts.append(judge.points(f"fig4-work.{name}", text, judge.trend(near, columns), -1))
    yield from judge.combined(
        "fig4-work", "unadmitted processor-seconds fall near saturation", parts
    )

    def weight(load: float) -> Values:
        return changes(*(judge.values(at, "qops", each, load) for each in (_WORK, _JOBS)))

    text = f"{step} the jobs that QoPS refuses become lighter (their mean work, change in %)"
    lighter = judge.trend(near, [weight(load) for load in near])
    yield judge.claim("fig4-lighter", text, lighter, high=0.0, relative=True)

    first, second = judge.loads[0], judge.loads[0] + (last - before)
    steps = ((last, before), (min(judge.loads, key=lambda load: abs(load - second)), first))
    mixed = WorkloadKind(share=0.2)
    rises = [
        differences(*(judge.values(mixed, "easy", "response_time", load) for load in each))
        for each in steps
    ]
    text = "EASY's response times grow faster the higher the load: the last step less the first (s)"
    yield judge.claim("easy-nonlinear", text, differences(*rises), low=0.0)


def _convergence(judge: Judge) -> Claim:
    """Return a claim about the mean over all cells: the traces, at each load above 1."""
    cells = []
    for log, method in _TRACES.values():
        for load in judge.above:
            columns = (
                judge.spread(WorkloadKind(log, method, stringency), _JOBS, ADMISSION, [load])
                for stringency in (0.5, 0.2)
            )
            cells.append(differences(*columns))
    fewer = sum(sum(cell) < 0 for cell in cells)
    text = (
        "in general the schedulers come closer as S increases: highest less lowest of the jobs "
        f"that QoPS, MSB and MRT refuse, S = 0.5 less 0.2, mean over {len(cells)} cells (points; "
        f"below 0 in {fewer})"
    )
    return judge.points("convergence", text, averages(cells), -1)


def _used(judge: Judge) -> Iterator[Claim]:
    """Yield the claims of Figure 6, about utilization."""
    at, last = WorkloadKind(), judge.loads[-1]
    losses = [
        judge.claim(
            f"fig6-loss.{name}",
            f"utilization, QoPS less {name}, mean over loads (points)",
            judge.difference(at, "qops", name, _USED, judge.above),
            -10 - ABOUT,
            -10 + ABOUT,
        )
        for name in REFERENCES
    ]
    text = "QoPS loses about 10 % of utilization against EASY and Conservative (S = 0.2)"
    yield from judge.combined("fig6-loss", text, losses)
    text = "with S = 0.5 the utilization of the deadline schedulers is 5 to 10 % lower"
    parts = [
        judge.claim(name, said, values, -10.0, -5.0)
        for name, said, values in _stringency(judge, _USED)
    ]
    yield from judge.combined("fig6-drop", text, parts)
    both = [at.replaced(stringency=s) for s in (0.2, 0.5)]
    same = averages([judge.difference(w, "qops", "msb", _USED, judge.above) for w in both])
    text = (
        f"QoPS's utilization is comparable to MSB's: within {COMPARABLE:g} point, mean over both S"
    )
    yield judge.claim("fig6-comparable", text, same, -COMPARABLE, COMPARABLE)
    parts = [
        judge.claim(
            f"fig6-mrt.{name}",
            f"utilization at load {last:g}, MRT less {name.upper()}, both S (points)",
            averages([judge.difference(w, "mrt", name, _USED, [last]) for w in both]),
            -5.0,
            -3.0,
        )
        for name in ("qops", "msb")
    ]
    yield from judge.combined("fig6-mrt", "MRT's utilization is 3 to 5 % lower at load 1.6", parts)


# Sections 5.2 and 5.3: mixed jobs, with one rule for artificial deadlines


def _mixed_admittance(judge: Judge, at: WorkloadKind) -> Iterator[Claim]:
    """Yield the claims of Figures 13 to 16."""
    texts = {
        (13, 0.8, 0.2): "QoPS refuses fewer deadline jobs than MSB and MRT at high loads, 80 %",
        (15, 0.2, 0.2): "with 20 % QoPS significantly outperforms MSB and MRT",
        (16, 0.2, 0.5): "even with S = 0.5",
    }
    for (number, share, stringency), text in texts.items():
        parts = _mixed_superior(
            judge, f"fig{number}", at.replaced(share=share, stringency=stringency)
        )
        yield from judge.combined(f"fig{number}", text, parts)
        if number == 13:
            yield _mixed_convergence(judge, "fig14", at)
    parts = []
    for rival in RIVALS:
        columns = (
            judge.difference(at.replaced(share=share), "qops", rival, _DEADLINE_JOBS, judge.high)
            for share in (0.2, 0.8)
        )
        text = f"unadmitted deadline jobs, QoPS less {rival.upper()}: 20 % less 80 % (points)"
        parts.append(judge.points(f"fig15-more.{rival}", text, differences(*columns), -1))
    yield from judge.combined("fig15-more", "and by more than with 80 % (S = 0.2)", parts)


def _mixed_traces(judge: Judge, at: WorkloadKind) -> Iterator[Claim]:
    """Yield the claims of Figures 17 to 24."""
    for first, log, method in ((17, "SDSC", "duplication"), (21, "CTC", "expansion")):
        there = at.replaced(log=log, method=method)
        name = f"fig{first}-trend"
        parts = [_mixed_convergence(judge, f"{name}.convergence", there)]
        for rival in RIVALS:
            columns = [
                judge.difference(
                    there.replaced(share=share, stringency=stringency),
                    "qops",
                    rival,
                    _DEADLINE_JOBS,
                    judge.high,
                )
                for share in (0.8, 0.2)
                for stringency in (0.2, 0.5)
            ]
            said = (
                f"unadmitted deadline jobs, QoPS less {rival.upper()}, mean over high loads, both "
                "shares and both S (points)"
            )
            parts.append(judge.points(f"{name}.{rival}", said, averages(columns), -1))
        text = f"the trends are similar on {log} by {method}"
        yield from judge.combined(name, text, parts)


def _mixed_superior(judge: Judge, name: str, at: WorkloadKind) -> list[Claim]:
    return [
        judge.points(
            f"{name}.{rival}",
            f"unadmitted deadline jobs, QoPS less {rival.upper()}, high loads (points)",
            judge.difference(at, "qops", rival, _DEADLINE_JOBS, judge.high),
            -1,
        )
        for rival in RIVALS
    ]


def _mixed_convergence(judge: Judge, name: str, at: WorkloadKind) -> Claim:
    columns = (
        judge.spread(at.replaced(share=0.8, stringency=s), _DEADLINE_JOBS, ADMISSION, judge.above)
        for s in (0.5, 0.2)
    )
    text = (
        "with 80 % the schedulers come closer as S increases: highest less lowest of "
        "unadmitted deadline jobs, S = 0.5 less 0.2 (points)"
    )
    return judge.points(name, text, differences(*columns), -1)


def _others(judge: Judge, at: WorkloadKind) -> Iterator[Claim]:
    """Yield the claims of Figures 25 to 28: the jobs without deadlines."""
    settings = [at.replaced(share=share, stringency=s) for share in (0.2, 0.8) for s in (0.2, 0.5)]
    parts = []
    for name in ADMISSION:
        for metric, what in _OTHERS.items():
            values = averages(
                [
                    judge.change(each, name, other, metric, judge.loads)
                    for each in settings
                    for other in REFERENCES
                ]
            )
            text = f"{what}, {name.upper()} against EASY and Conservative, mean (%)"
            parts.append(judge.percent(f"fig25-28.{name}.{metric}", text, values, -1))
    text = "the other jobs fare better with QoPS, MSB and MRT than with EASY or Conservative"
    yield from judge.combined("fig25-28", text, parts)
    many, few = at.replaced(share=0.8), at.replaced(share=0.2)
    parts = [
        _others_change(judge, f"fig27.{rival}", many, rival, metric, +1)
        for rival in RIVALS
        for metric in _OTHERS
    ]
    text = "with 80 % deadline jobs the others fare worse with QoPS than with MSB and MRT"
    yield from judge.combined("fig27", text, parts)
    text = "MRT refuses more work of deadline jobs than QoPS at high loads, 80 % (points)"
    values = judge.difference(many, "mrt", "qops", _DEADLINE_WORK, judge.high)
    yield judge.points("fig13-rejected", text, values, +1)
    yield from _few_deadlines(judge, few)


def _few_deadlines(judge: Judge, at: WorkloadKind) -> Iterator[Claim]:
    """Yield the claims of Figure 25."""
    below = [load for load in judge.loads if load < judge.loads[-1]]
    text = "response time, QoPS against MSB with 20 %: at most 5 % more but at the last load (%)"
    values = judge.change(at, "qops", "msb", "response_time", below)
    yield judge.claim("fig25-response", text, values, high=5.0, relative=True)
    text = "slowdown, QoPS against MSB with 20 %: lower (%, mean over loads)"
    values = judge.change(at, "qops", "msb", "slowdown", judge.loads)
    yield judge.percent("fig25-slowdown", text, values, -1)
    lower = [
        judge.percent(
            f"fig25-slowdown-all.{load:g}",
            f"slowdown at load {load:g}, QoPS against MSB (%)",
            judge.change(at, "qops", "msb", "slowdown", [load]),
            -1,
        )
        for load in judge.loads
    ]
    yield from judge.combined("fig25-slowdown-all", "and lower at all loads", lower)
    parts = []
    for rival in RIVALS:
        name = f"fig25-despite.{rival}"
        parts += [_others_change(judge, name, at, rival, metric, -1) for metric in _OTHERS]
        values = judge.difference(at, "qops", rival, _WORK, judge.loads)
        text = f"unadmitted work, QoPS less {rival.upper()} (points)"
        parts.append(judge.points(f"{name}.work", text, values, -1))
    text = "with 20 % the others fare better with QoPS, although it accepts more work"
    yield from judge.combined("fig25-despite", text, parts)


def _others_change(
    judge: Judge, name: str, at: WorkloadKind, rival: str, metric: str, sign: int
) -> Claim:
    values = judge.change(at, "qops", rival, metric, judge.loads)
    text = f"{_OTHERS[metric]}, QoPS against {rival.upper()}, mean over loads (%)"
    return judge.percent(f"{name}.{metric}", text, values, sign)


def _mixed_used(judge: Judge, at: WorkloadKind) -> Iterator[Claim]:
    """Yield the claims of Figures 37 and 38, about utilization."""

    def loss(share: float, other: str) -> Values:
        """Return the mean of both S."""
        each = [at.replaced(share=share, stringency=s) for s in (0.2, 0.5)]
        return averages([judge.difference(w, "qops", other, _USED, judge.above) for w in each])

    both = {
        name: averages([loss(share, name) for share in (0.8, 0.2)])
        for name in (*RIVALS, *REFERENCES)
    }
    said = "utilization, QoPS less {}, mean over Figures 37 and 38 (points)"
    text = f"{said.format('MSB')}: within 1"
    yield judge.claim("fig37-comparable", text, both["msb"], -1.0, 1.0)
    yield judge.points("fig37-better", said.format("MRT"), both["mrt"], +1)
    parts = [
        judge.points(f"fig37-worse.{name}", said.format(name), both[name], -1)
        for name in REFERENCES
    ]
    yield from judge.combined("fig37-worse", "QoPS uses less than EASY and Conservative", parts)
    text = "utilization with {:.0f} % deadline jobs, QoPS less EASY (points): about {}"
    many, few = loss(0.8, "easy"), loss(0.2, "easy")
    yield judge.claim("fig37-loss-80", text.format(80, "-8"), many, -10.5, -5.5)
    yield judge.claim("fig37-loss-20", text.format(20, "-2 to -3"), few, -3.0, -2.0)
    text = "the loss is less than with deadlines for all: 80 % less 100 % (points)"
    yield judge.points("fig37-less", text, differences(many, loss(1.0, "easy")), +1)


def _others_by_utilization(judge: Judge, at: WorkloadKind) -> Iterator[Claim]:
    """Yield the claims of Figure 43."""
    at = at.replaced(share=0.2)
    texts = {
        "rivals": "at equal utilization the others fare better with QoPS than with MSB and MRT, "
        "20 %",
        "references": "and better than with EASY and Conservative",
    }
    for (which, text), names in zip(texts.items(), (RIVALS, REFERENCES), strict=True):
        parts = [
            judge.percent(
                f"fig43.{other}.{metric}",
                f"{what}, QoPS against {other} at equal utilization (%)",
                judge.at_equal_utilization(at, "qops", other, metric),
                -1,
            )
            for other in names
            for metric, what in _OTHERS.items()
        ]
        yield from judge.combined(f"fig43-{which}", text, parts)


def _relaxation(judge: Judge, at: WorkloadKind) -> Iterator[Claim]:
    """Yield the claims of Figure 57."""
    factors = judge.results.study.relaxations
    least, most = factors[0], factors[-1]
    for metric, goes, sign in (("response_time", "rises", +1), ("slowdown", "falls", -1)):
        by_load = [
            changes(
                *(
                    judge.values(at.replaced(relaxation=r), "qops", metric, load)
                    for r in (most, least)
                )
            )
            for load in judge.loads
        ]
        text = (
            f"QoPS's {_OTHERS[metric]} {goes} with R, 80 %: from {least:g} to {most:g}, mean over "
            "loads (%)"
        )
        yield judge.percent(f"fig57.{metric}", text, averages(by_load), sign)


# Other windows of the logs


def _windows(results: Results) -> Iterator[Claim]:
    """Yield the claims on stretches of logs that did not choose any default, by log.

    Windows of one log say what to expect of another window of that log: a claim about all logs
    would need more than three.
    """
    study = results.study
    sites = dict.fromkeys(source.site for source in study.windows)
    loads = ", ".join(f"{load:g}" for load in study.window_loads)
    for site in sites:
        chosen = [source for source in study.windows if source.site == site]
        for name, settings in (("qops", ()), ("qops-earliest-deadline", EARLIEST_DEADLINE)):
            for rival in RIVALS:
                groups = []
                for source in chosen:
                    columns = []
                    for load in study.window_loads:
                        of = partial(results.strict, source, load, study.window_seeds, _JOBS)
                        columns.append(differences(of("qops", settings), of(rival)))
                    groups.append(averages(columns))
                text = (
                    f"unadmitted jobs, {name} less {rival.upper()}, on {len(groups)} other windows "
                    f"of {site} (S = 0.2, mean over loads {loads}; points)"
                )
                found = sign_claim(
                    f"windows.{site}.{name}.{rival}",
                    text,
                    nested_interval(groups),
                    -1,
                    section="5.1",
                    margin=POINTS,
                )
                yield msgspec.structs.replace(found, family=f"windows of {site}")
