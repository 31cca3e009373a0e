"""The claims of Islam et al. (2003) as tests: what sections 4 and 5 say that can be measured.

A claim is about a difference of schedulers, or of settings, on the same workloads: averaged over
loads for each seed, with an interval over the seeds. *High* loads are those from 1.4 up. Claims
about a size are judged on the size; "about" leaves 2.5 points to both sides, "comparable" 1 point
of utilization or 5 % of response time. Those about mixed jobs are in :mod:`.mixed_claims`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from qops_batsim.experiments.intervals import nested_interval
from qops_batsim.papers.claims import Claim, plain_claim, range_claim, sign_claim, whole
from qops_batsim.papers.islam2003.cases import ADMISSION, REFERENCES, case_of, scenario
from qops_batsim.papers.islam2003.judging import Judge, Where
from qops_batsim.papers.islam2003.mixed_claims import mixed_claims
from qops_batsim.papers.islam2003.numbers import Log, Method
from qops_batsim.papers.islam2003.runs import Results
from qops_batsim.papers.samples import Values, averaged, minus, percent

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
        more = minus(averaged([results.admitted(name, r) for r in laxer]), strict)
        rs = ", ".join(f"{r:g}" for r in laxer)
        text = f"admitted jobs, {name.upper()}, mean over r = {rs}, less r = {none:g} (points)"
        # Without a single refusal there is no chance in it.
        more = more if any(more) else [0.0]
        falls.append(
            range_claim(f"packed-laxer.{name}", text, more, high=0.0, section="4.1", alone=True)
        )
    text = "all schedulers admit every job of a packed schedule with r = 0"
    yield from whole("packed-strict", "4.1", text, least)
    yield from whole("packed-laxer", "4.1", "and fewer, the more r allows", falls)


def _all_deadlines(judge: Judge) -> Iterator[Claim]:
    """Section 5.1."""
    yield from whole(
        "stringency",
        "4.1, 5.1",
        "a higher stringency factor admits fewer jobs",
        _stringency(judge, _JOBS, 0.0, float("inf")),
    )
    yield from whole(
        "fig4",
        "5.1",
        "QoPS refuses less than MSB and MRT at high loads (CTC, S = 0.2)",
        _superior(judge, "fig4", Where(), (_JOBS, _WORK)),
    )
    yield from whole(
        "fig4-especially",
        "5.1",
        "and its advantage is greater there than at lower loads",
        _especially(judge),
    )
    yield from _with_load(judge)
    yield from whole(
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
        yield from whole(f"{name}-trend", "5.1", text.replace(", SDSC,", ","), parts)


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
            minus(*columns),
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
    fewer = minus(refused(last), refused(before)) if before > 1 else []
    yield judge.claim("fig4-fewer", "5.1", text, fewer, high=0.0)
    parts = []
    for name in ADMISSION:
        columns = (judge.values(at, name, _WORK, load) for load in (last, before))
        text = f"unadmitted processor-seconds, {name.upper()}, {step} (points)"
        parts.append(judge.claim(f"fig4-work.{name}", "5.1", text, minus(*columns), high=0.0))
    yield from whole("fig4-work", "5.1", "unadmitted processor-seconds fall near saturation", parts)

    def weight(load: float) -> Values:
        return percent(*(judge.values(at, "qops", each, load) for each in (_WORK, _JOBS)))

    text = f"{step} the jobs that QoPS refuses become lighter (mean work in % above that of all)"
    yield judge.claim("fig4-lighter", "5.1", text, minus(weight(last), weight(before)), high=0.0)

    mixed = Where(share=0.2)
    first, second = judge.loads[0], judge.loads[0] + (last - before)
    steps = ((last, before), (min(judge.loads, key=lambda load: abs(load - second)), first))
    rises = [
        minus(*(judge.values(mixed, "easy", "response_time", load) for load in each))
        for each in steps
    ]
    text = "EASY's response times grow faster the higher the load: the last step less the first (s)"
    yield judge.claim("easy-nonlinear", "5.1", text, minus(*rises), low=0.0)


def _stringency(judge: Judge, metric: str, low: float, high: float) -> Iterator[Claim]:
    """S = 0.5 less S = 0.2, on CTC by duplication."""
    what = "unadmitted jobs" if metric == _JOBS else "utilization"
    name = "stringency" if metric == _JOBS else "fig6-drop"
    for scheduler in ADMISSION:

        def more(load: float, scheduler: str = scheduler) -> Values:
            each = (Where(stringency=s) for s in (0.5, 0.2))
            return minus(*(judge.values(at, scheduler, metric, load) for at in each))

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
                f"convergence.{name}.{load:g}", "5.1", text, minus(*columns), high=0.0
            )
            cells.append(found)
    fewer = sum(cell.value is not None and cell.value < 0 for cell in cells)
    text = (
        "the schedulers come closer to each other as S increases (the means say so in "
        f"{fewer} of {len(cells)} cells)"
    )
    return whole("convergence", "5.1", text, cells)


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
    yield from whole("fig6-loss", "5.1", text, losses)
    text = "with S = 0.5 the utilization of the deadline schedulers is 5 to 10 % lower"
    yield from whole("fig6-drop", "5.1", text, _stringency(judge, _USED, -10.0, -5.0))
    both = [at.replaced(stringency=s) for s in (0.2, 0.5)]
    same = averaged([judge.difference(w, "qops", "msb", _USED, judge.above) for w in both])
    text = (
        f"QoPS's utilization is comparable to MSB's: within {COMPARABLE:g} point, mean over both S"
    )
    yield judge.claim("fig6-comparable", "5.1", text, same, -COMPARABLE, COMPARABLE)
    parts = [
        judge.claim(
            f"fig6-mrt.{name}",
            "5.1",
            f"utilization at load {judge.last:g}, MRT less {name.upper()}, both S (points)",
            averaged([judge.difference(w, "mrt", name, _USED, [judge.last]) for w in both]),
            -5.0,
            -3.0,
        )
        for name in ("qops", "msb")
    ]
    yield from whole("fig6-mrt", "5.1", "MRT's utilization is 3 to 5 % lower at load 1.6", parts)


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
                    columns.append(minus(own, results.of([case_of(e, rival) for e in at], _JOBS)))
                groups.append(averaged(columns))
            loads = ", ".join(f"{load:g}" for load in study.window_loads)
            text = (
                f"unadmitted jobs, {name} less {rival.upper()}, on {len(groups)} other windows of "
                f"CTC, SDSC and KTH (S = 0.2, mean over loads {loads}; points)"
            )
            found = sign_claim(f"windows.{name}.{rival}", text, nested_interval(groups), -1)
            yield msgspec.structs.replace(found, section="5.1")
