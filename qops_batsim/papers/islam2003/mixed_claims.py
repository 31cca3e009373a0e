"""The claims of Islam et al. (2003) about mixed jobs: sections 5.2 and 5.3.

They are judged with the artificial deadlines of the text and, where ids end in ``-slides`` and
the rule matters most, with those of the authors' talk.
"""

from __future__ import annotations

from collections.abc import Iterator

from qops_batsim.papers.claims import Claim, plain_claim, whole
from qops_batsim.papers.islam2003.cases import ADMISSION, REFERENCES, RULES
from qops_batsim.papers.islam2003.judging import Judge, Where
from qops_batsim.papers.samples import Values, averaged, minus, percent

_RIVALS = ("msb", "mrt")
_JOBS, _WORK = "unadmitted_deadline_jobs", "unadmitted_deadline_work"
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
            parts.append(self._claim(f"fig15-more.{rival}", text, minus(*columns), high=0.0))
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
                values = averaged(
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
        values = judge.difference(many, "mrt", "qops", _WORK, judge.high)
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
            return averaged(
                [judge.difference(at, "qops", other, "utilization", judge.above) for at in each]
            )

        both = {
            name: averaged([loss(share, name) for share in (0.8, 0.2)])
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
        yield self._claim("fig37-less", text, minus(many, loss(1.0, "easy")), low=0.0)

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
                return percent(*columns)

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
        return self.judge.difference(at, "qops", rival, _JOBS, self.judge.high)

    def _convergence(self, name: str, at: Where) -> Claim:
        columns = (
            self.judge.spread(
                at.replaced(share=0.8, stringency=s), _JOBS, ADMISSION, self.judge.above
            )
            for s in (0.5, 0.2)
        )
        text = (
            "with 80 % the schedulers come closer as S increases: highest less lowest of "
            "unadmitted deadline jobs, S = 0.5 less 0.2 (points)"
        )
        return self._claim(name, text, minus(*columns), high=0.0)

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
        return whole(f"{name}{self.suffix}", _SECTION, text, parts)
