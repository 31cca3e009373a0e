"""Claims of Islam et al. (2003) as tests: what sections 4 and 5 say that can be measured.

A claim is about a difference of schedulers, or of settings, on the same workloads: averaged over
loads for each stretch of the log, with an interval over the stretches. *High* loads are those from
1.4 up. Claims about a size are judged on the size; "about" leaves 2.5 points to both sides,
"comparable" 1 point of utilization or 5 % of response time. Where something is said to be more or
less, less than half a point, or 2 % of a response time or slowdown, is no difference. What the
report says "in general", or of a trend, is judged on the mean over its cells or on the slope.
Claims about mixed jobs (sections 5.2 and 5.3) are judged with the artificial deadlines of the text
and, where ids end in ``-slides`` and the rule matters most, with those of the authors' talk, as
families of their own; so are those about other windows of a log.

Claims that are a comparison, or several of a kind, stand in ``claims.toml``, which tells its form;
those whose number is made in another way are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec
import numpy as np
from msgspec.structs import replace

from qops_batsim.experiments import (
    Claim,
    Scenario,
    Told,
    Values,
    as_checks,
    averages,
    by_seed,
    changes,
    claim_with_parts,
    differences,
    ends_of,
    invariant_claim,
    range_claim,
    slopes,
    untested,
)
from studies.islam2003.runs import USED, Results
from studies.islam2003.study import (
    ADMISSION,
    EARLIEST_DEADLINE,
    RULES,
    SHORT,
    TRACES,
    WITHOUT_ARTIFICIAL,
    LogName,
    Method,
)
from studies.specification import read_toml

POINTS, PERCENT = 0.5, 2.0
"""Differences in points, and in % of a response time or slowdown, below which there is none."""

RIVALS = ("msb", "mrt")
_JOBS, _WORK = "unadmitted_jobs", "unadmitted_work"

METRICS = {
    "jobs": (_JOBS, "jobs"),
    "work": (_WORK, "work"),
    "processor-seconds": (_WORK, "processor-seconds"),
    "deadline jobs": ("unadmitted_deadline_jobs", "deadline jobs"),
    "deadline work": ("unadmitted_deadline_work", "work of deadline jobs"),
    "utilization": (USED, "utilization"),
    "response_time": ("response_time_of_others", "response time"),
    "slowdown": ("slowdown_of_others", "slowdown"),
}
"""Metrics, and their words in sentences, by the names that ``claims.toml`` has for them."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim, or a kind of parts of one, as it stands in ``claims.toml``.

    ``id`` begins the ids of its parts, or is the end of that of a part.
    """

    text: str
    id: str = ""
    part: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    each: dict[str, tuple[str, ...]] = {}
    compare: Literal["difference", "change", "spread", "change at equal utilization"] = "difference"
    schedulers: tuple[str, ...] = ("qops", "{rival}")
    metric: str = "jobs"
    length: str = ""
    loads: str = "high"
    log: LogName = "CTC"
    method: Method = "duplication"
    share: tuple[float, ...] = (1.0,)
    stringency: tuple[float, ...] = (0.2,)
    relaxation: str = "least"
    against: dict[str, Any] = {}
    less: dict[str, Any] = {}
    mean_of: tuple[dict[str, Any], ...] = ()
    sign: Literal[-1, 1] = -1
    between: tuple[float, float] | None = None

    def but(self, **changes: Any) -> Comparison:
        """Return the comparison with changes, which are as in the file."""
        return msgspec.convert(msgspec.structs.asdict(self) | changes, Comparison)

    def named(self, names: Mapping[str, str]) -> Comparison:
        """Return the comparison with names filled in."""
        filled = tuple(each.format(**names) for each in self.schedulers)
        metric, loads = names.get("metric", self.metric), self.loads.format(**names)
        return replace(self, schedulers=filled, metric=metric, loads=loads)

    @property
    def field(self) -> str:
        """Name of the metric in measures, of jobs of a length if one is told."""
        field, _ = METRICS[self.metric]
        return f"{self.length}_{field.removesuffix('_of_others')}" if self.length else field


def _comparisons() -> dict[str, Comparison]:
    """Return the claims of ``claims.toml`` and what they are made of, by name."""
    given = read_toml(Path(__file__).with_name("claims.toml"), dict[str, dict[str, Any]])

    def whole(told: Mapping[str, Any]) -> dict[str, Any]:
        own = {key: value for key, value in told.items() if key != "like"}
        return whole(given[told["like"]]) | own if "like" in told else own

    def complete(told: Mapping[str, Any]) -> Comparison:
        found = whole(told)
        parts = [whole(each) for each in found.get("parts", ())]
        return msgspec.convert(found | {"parts": parts}, Comparison)

    return {name: complete(told) for name, told in given.items()}


COMPARISONS = _comparisons()


@dataclass(frozen=True)
class Judge:
    """Numbers of a study by seed, and claims of a section about their means.

    Numbers are averaged over loads and, where several are given, over kinds of workloads.
    Artificial deadlines are by a ``rule``. ``suffix`` ends the ids of the claims, and the name of
    their family.
    """

    results: Results
    section: str = "5.1"
    suffix: str = ""
    rule: str = "run-time"

    @property
    def loads(self) -> tuple[float, ...]:
        """All loads."""
        return self.results.study.loads

    @property
    def above(self) -> tuple[float, ...]:
        """Loads above 1."""
        return tuple(load for load in self.loads if load > 1)

    @property
    def spans(self) -> dict[str, tuple[float, ...]]:
        """Loads by their names in claims, each by itself among them."""
        high = tuple(load for load in self.loads if load >= 1.4) or self.loads[-1:]
        return {
            "all": self.loads,
            "above 1": self.above,
            "high": high,
            "low": tuple(load for load in self.above if load not in high) or self.loads[:1],
            "last": self.loads[-1:],
            "below the last": tuple(load for load in self.loads if load < self.loads[-1]),
            **{f"{load:g}": (load,) for load in self.loads},
        }

    @property
    def names(self) -> dict[str, Any]:
        """Numbers that texts of claims name."""
        factors = self.results.study.relaxations
        ends = {"least": factors[0], "most": factors[-1]}
        return {**ends, "last": self.loads[-1], "short": SHORT / 3600}

    def values(self, at: Scenario, scheduler: str, metric: str, load: float) -> Values:
        """Return a number of a scheduler at a load."""
        return self.results.values(at, scheduler, metric, load)

    def told(self, *names: str) -> Iterator[Claim]:
        """Yield claims of ``claims.toml``, each before its parts."""
        for name in names:
            claim = COMPARISONS[name]
            if not (claim.part or claim.parts):
                yield self._judged(name, claim.text.format(**self.names), claim)
                continue
            parts = claim.parts or ({"text": claim.part},)
            kinds = (claim.but(**{"id": "", **each}) for each in parts)
            found = [part for each in kinds for part in self._parts(claim.id or name, each)]
            yield from self.combined(name, claim.text, found)

    def _parts(self, name: str, claim: Comparison) -> Iterator[Claim]:
        """Yield the parts of a kind, one for each combination of names."""
        listed = {
            key: [f"{load:g}" for load in self.loads] if values == ("each",) else values
            for key, values in claim.each.items()
        }
        for values in product(*listed.values()):
            names = dict(zip(listed, values, strict=True))
            own = claim.named(names)
            ends = [*values, *filter(None, [claim.id])]
            words = {key.upper(): value.upper() for key, value in names.items()}
            told = self.names | names | words | {"what": METRICS[own.metric][1]}
            yield self._judged(".".join([name, *ends]), claim.text.format(**told), own)

    def _judged(self, name: str, text: str, claim: Comparison) -> Claim:
        """Return a comparison as a claim."""
        values, is_relative = self.number(claim), claim.compare.startswith("change")
        if claim.between is not None:
            return self.claim(name, text, values, *claim.between, relative=is_relative)
        return (self.percent if is_relative else self.points)(name, text, values, claim.sign)

    def number(self, claim: Comparison) -> Values:
        """Return the number of a comparison."""
        if claim.mean_of:
            return averages([self.number(claim.but(**each, mean_of=())) for each in claim.mean_of])
        if claim.less:
            own = replace(claim, less={})
            return differences(self.number(own), self.number(own.but(**claim.less)))
        kinds, (first, *others) = self._kinds(claim), claim.schedulers
        if claim.compare == "change at equal utilization":
            return self.at_equal_utilization(kinds[0], first, others[0], claim.field)
        if claim.against:
            both = zip(kinds, self._kinds(claim.but(**claim.against)), strict=True)
            groups = [[(kind, first) for kind in pair] for pair in both]
        elif claim.compare == "spread":
            groups = [[(kind, each) for each in claim.schedulers] for kind in kinds]
        else:
            groups = [[(kind, first), (kind, each)] for kind in kinds for each in others]
        compare = _COMPARED[claim.compare]
        loads = self.spans[claim.loads]
        return averages([self._compared(compare, each, claim.field, loads) for each in groups])

    def _kinds(self, claim: Comparison) -> list[Scenario]:
        at = Scenario(
            log=claim.log,
            method=claim.method,
            artificial=self.rule,
            relaxation=self.names[claim.relaxation],
        )
        settings = product(claim.share, claim.stringency)
        return [replace(at, share=share, stringency=each) for share, each in settings]

    def _compared(
        self,
        compare: Callable[..., Values],
        of: Sequence[tuple[Scenario, str]],
        metric: str,
        loads: Iterable[float],
    ) -> Values:
        """Return a comparison of schedulers on kinds of workloads, averaged over loads."""
        by_load = ([self.values(at, name, metric, load) for at, name in of] for load in loads)
        return averages([compare(*columns) for columns in by_load])

    def at_equal_utilization(self, at: Scenario, first: str, second: str, metric: str) -> Values:
        """Return the logarithm of the first over the second where both are as utilized.

        Between loads, both numbers are interpolated; the mean is over the range of utilization
        that both reach. None if a seed has no such range.
        """
        found = []
        for place, _ in enumerate(self.values(at, first, metric, self.loads[-1])):
            curves = [self._curve(at, name, metric, place) for name in (first, second)]
            low, high = (max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves))
            if not low < high:
                return []
            points = np.linspace(low, high, 21)
            one, other = (np.interp(points, x, y) for x, y in curves)
            found.append(float(np.log(one / other).mean()))
        return found

    def _curve(self, at: Scenario, name: str, metric: str, place: int) -> tuple[Values, Values]:
        rows = sorted(
            tuple(self.values(at, name, each, load)[place] for each in (USED, metric))
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

    def combined(self, name: str, text: str, parts: Iterable[Claim]) -> list[Claim]:
        """Return a claim that holds if all its parts do, and these behind it."""
        whole, *found = claim_with_parts(f"{name}{self.suffix}", self.section, text, parts)
        return [replace(whole, family=self.family), *found]

    @property
    def family(self) -> str:
        """Name of the family, if it is not that of the section."""
        return f"{self.section}{self.suffix}" if self.suffix else ""


def _spread(*columns: Values) -> Values:
    """Return the distance between the highest and lowest of some numbers."""
    return [max(row) - min(row) for row in by_seed(columns)]


_COMPARED: dict[str, Callable[..., Values]] = {
    "difference": differences,
    "change": changes,
    "spread": _spread,
}


_OF_TEXT = (
    *("fig17-trend", "fig21-trend", "fig25-28", "fig27", "fig13-rejected"),
    *("fig25-response", "fig25-slowdown", "fig25-slowdown-all", "fig25-despite"),
    *("fig37-comparable", "fig37-better", "fig37-worse"),
    *("fig37-loss-80", "fig37-loss-20", "fig37-less"),
)
"""Claims about both kinds of jobs that are judged with the rule of the text only."""


def claims(results: Results) -> list[Claim]:
    """Return all claims, each before its parts."""
    judge = Judge(results)
    found = [
        *_artificial(results),
        *_packed(judge),
        *judge.told("stringency", "fig4", "fig4-especially"),
    ]
    found += [*_with_load(judge), *judge.told("fig5"), _convergence(judge)]
    found += judge.told(
        *("fig6-loss", "fig6-drop", "fig6-comparable", "fig6-mrt", "fig7-trend", "fig10-trend")
    )
    for rule, source in RULES.items():
        suffix = "" if source == "text" else f"-{source}"
        mixed = Judge(results, "5.2", suffix, rule)
        of_rule = list(mixed.told("fig13", "fig14", "fig15", "fig16", "fig15-more"))
        if source == "text":
            # With both rules, correction for the number of claims would leave little of them.
            of_rule += mixed.told(*_OF_TEXT)
        of_rule += mixed.told("fig43-rivals", "fig43-references")
        relaxed = Judge(results, "5.3", suffix, rule)
        of_rule += relaxed.told("fig57.response_time", "fig57.slowdown")
        if source == "text":
            # By its rule, an artificial deadline depends on the run time alone.
            of_rule += relaxed.told("fig57-short", "fig57-long")
        # The report has the rule of the text; that of the talk, and other windows, are checks.
        found += as_checks(of_rule) if suffix else of_rule
    return [*found, *as_checks(_windows(results))]


def _artificial(results: Results) -> Iterator[Claim]:
    """Yield the answer to the introduction's fourth question, on the deadline jobs of QoPS."""
    judge, parts = Judge(results, "1"), []
    for without in WITHOUT_ARTIFICIAL:
        having = replace(without, artificial=judge.rule)
        rises = [
            differences(
                *(
                    judge.values(at, "qops", "unadmitted_deadline_jobs", load)
                    for at in (having, without)
                )
            )
            for load in judge.above
        ]
        share = f"{100 * without.share:g}"
        text = (
            f"unadmitted deadline jobs, {share} %: with artificial deadlines less without (points)"
        )
        parts.append(judge.claim(f"starvation.{share}", text, averages(rises), -POINTS, POINTS))
    text = "artificial deadlines of the other jobs do not affect the true deadline jobs"
    yield from judge.combined("starvation", text, parts)


_FREE = "a job of a packed schedule arrives when its processors are free, and nothing ever waits"


def _packed(judge: Judge) -> Iterator[Claim]:
    """Yield the claims about packed schedules whose jobs arrive at their known starts.

    Neither can fail: a job that arrives when its processors are free waits for nothing.
    """
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
    yield untested(invariant_claim("packed-strict", text, refused, 0.0, section="4.1"), _FREE)
    rs, falls = ", ".join(f"{r:g}" for r in laxer), []
    for name in ADMISSION:
        text = f"admitted jobs, {name.upper()}, mean over r = {rs}, less r = {none:g} (points)"
        lax = averages([results.admitted(name, r) for r in laxer])
        fewer = differences(lax, results.admitted(name, none))
        falls.append(packed.points(f"packed-laxer.{name}", text, fewer))
    found = packed.combined("packed-laxer", "and fewer, the more r allows", falls)
    yield from (untested(each, _FREE) for each in found)


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
        differences(
            *(judge.values(mixed, "easy", METRICS["response_time"][0], load) for load in each)
        )
        for each in steps
    ]
    text = "EASY's response times grow faster the higher the load: the last step less the first (s)"
    yield judge.claim("easy-nonlinear", text, differences(*rises), low=0.0)


def _convergence(judge: Judge) -> Claim:
    """Return a claim about the mean over all cells: the traces, at each load above 1."""
    cells = []
    near = COMPARISONS["fig14"].but(share=(1.0,), metric="jobs")
    for (log, method), load in product(TRACES, judge.above):
        cells.append(judge.number(near.but(log=log, method=method, loads=f"{load:g}")))
    fewer = sum(sum(cell) < 0 for cell in cells)
    text = (
        "in general the schedulers come closer as S increases: highest less lowest of the jobs "
        f"that QoPS, MSB and MRT refuse, S = 0.5 less 0.2, mean over {len(cells)} cells (points; "
        f"below 0 in {fewer})"
    )
    return judge.points("convergence", text, averages(cells))


def _windows(results: Results) -> Iterator[Claim]:
    """Yield the claims on stretches of logs that did not choose any default, by log.

    Windows of one log say what to expect of another window of that log: a claim about all logs
    would need more than three.
    """
    study = results.study
    contestants = (("qops", ()), ("qops-earliest-deadline", EARLIEST_DEADLINE))
    loads = ", ".join(f"{load:g}" for load in study.window_loads)
    sites = dict.fromkeys(source.site for source in study.windows)
    for site, (name, settings), rival in product(sites, contestants, RIVALS):
        found = []
        for source in study.windows:
            if source.site == site:
                columns = []
                for load in study.window_loads:
                    own = results.strict(source, load, (1,), _JOBS, "qops", settings)
                    columns.append(
                        differences(own, results.strict(source, load, (1,), _JOBS, rival))
                    )
                found += averages(columns)
        text = (
            f"unadmitted jobs, {name} less {rival.upper()}, on {len(found)} other windows "
            f"of {site} (S = 0.2, mean over loads {loads}; points)"
        )
        yield range_claim(
            f"windows.{site}.{name}.{rival}",
            text,
            found,
            *ends_of(-1),
            section="5.1",
            family=f"windows of {site}",
            margin=POINTS,
        )
