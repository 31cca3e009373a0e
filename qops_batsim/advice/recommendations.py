"""The settings that a centre would choose, in plain words, with reasons and limits.

The words are templates in ``texts.toml``, which call the functions of this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
import numpy as np

from qops_batsim.advice.advise import (
    FEW,
    HOUR,
    Advice,
    later,
    promised,
    promised_work,
    refused_work,
    utilization,
)
from qops_batsim.advice.trace_runs import EarliestPromise
from qops_batsim.advice.wait_fit import sizes_of
from qops_batsim.economics.charges import PROCESSOR_CLASSES, Categories
from qops_batsim.experiments.deadline_runs import Contestant
from qops_batsim.experiments.report_table import hours
from qops_batsim.experiments.statistics import Interval
from qops_batsim.parameters import EXACT
from qops_batsim.shipped import packaged_data

QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95)

CANNOT_SAY = "cannot be said"

LEAST = 3
"""Windows whose interval says something: that of two reaches 6 times their distance."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that is recommended to a centre: its name, value and reason."""

    setting: str
    value: str
    reason: str


class Earliness(msgspec.Struct, frozen=True, kw_only=True):
    """How early jobs of one size class or category could have been promised to end.

    Responses and delays (responses minus estimates) are in seconds, by quantile; infinite where too
    many jobs could be promised nothing.
    """

    group: str
    jobs: int
    at_once: float
    """Share (%) of the jobs whose end could be promised without delay."""
    responses: tuple[float, ...]
    delays: tuple[float, ...]


def earliness(
    promises: Iterable[EarliestPromise],
    *,
    by_processors: bool,
    categories: Categories = Categories(),  # noqa: B008 - it is frozen
) -> list[Earliness]:
    """Return how early jobs could have been promised to end: for each size class (or category of
    size and run time), and last for all jobs.
    """
    sizes = sizes_of(categories)
    group_of = {
        label: PROCESSOR_CLASSES[place % len(PROCESSOR_CLASSES)] if by_processors else label
        for place, label in enumerate(categories.labels())
    }
    groups: dict[str, list[EarliestPromise]] = {name: [] for name in group_of.values()}
    groups["all"] = []
    for promise in promises:
        groups[group_of[promise.category]].append(promise)
        groups["all"].append(promise)
    return [_earliness(sizes.get(name, name), group) for name, group in groups.items() if group]


def advice_earliness(advice: Advice, *, by_processors: bool) -> list[Earliness]:
    """Return how early the chosen scheduler could have promised the jobs to end: by size class or
    by category, and last for all jobs.
    """
    categories = advice.choices.prices.categories
    return earliness(advice.promises, by_processors=by_processors, categories=categories)


def _earliness(group: str, promises: list[EarliestPromise]) -> Earliness:
    responses = np.array([math.inf if p.response is None else p.response for p in promises])
    delays = responses - np.array([p.estimate for p in promises])
    # A value of the sample: no mean with an infinite one.
    quantiles = [
        tuple(np.quantile(each, QUANTILES, method="inverted_cdf").tolist())
        for each in (responses, np.maximum(delays, 0.0))
    ]
    return Earliness(
        group=group,
        jobs=len(promises),
        at_once=100 * float((delays < 1).mean()),
        responses=quantiles[0],
        delays=quantiles[1],
    )


def percent(interval: Interval | None) -> str:
    """Format a percentage with its confidence interval: ``12.3 [10.1, 14.5]``, ``-`` if unknown."""
    if interval is None:
        return "-"
    low, high = interval.ends
    return f"{interval.mean:.1f}" + (f" [{low:.1f}, {high:.1f}]" if low < high else "")


def short(interval: Interval | None) -> str:
    """Format a mean in percent for a sentence, such as ``12 % (between 10 and 14 %)``, with one
    decimal only below 9.5 %.
    """
    if interval is None:
        return "an unknown part"

    def digits(value: float) -> str:
        return f"{value:.1f}".removesuffix(".0") if abs(value) < 9.5 else f"{value:.0f}"

    if interval.known is None or digits(interval.known[0]) == digits(interval.known[1]):
        return f"{digits(interval.mean)} %"
    low, high = interval.known
    return f"{digits(interval.mean)} % (between {digits(low)} and {digits(high)} %)"


def span(seconds: float) -> str:
    """Format a duration in minutes, hours or days."""
    if math.isinf(seconds):
        return "no time that could be promised"
    for unit, size in (("days", 86400.0), ("hours", HOUR)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return "no delay" if seconds < 30 else f"{seconds / 60:.0f} minutes"


def factor_text(stringency: float) -> str:
    """Return the requested response in words: ``0.8 times EASY's response``."""
    return "EASY's response" if stringency == 0 else f"{1 - stringency:.3g} times EASY's response"


def manager_name(contestant: Contestant) -> str:
    """Return a scheduler's name for readers who do not know its options.

    >>> from qops_batsim.experiments.deadline_runs import contestant_of
    >>> manager_name(contestant_of("fqops:tolerance_factor=2"))
    'qops, users accept twice as late'
    """
    settings = contestant.settings
    if contestant.scheduler != "fqops" or settings.keys() != {"tolerance_factor"}:
        return contestant.name
    factor = settings["tolerance_factor"]
    return f"qops, users accept {'twice' if factor == 2 else f'{factor:g} times'} as late"


def _in_text(contestant: Contestant) -> str:
    """Return a scheduler's name for a sentence, in quotation marks if it contains a comma."""
    name = manager_name(contestant)
    return f'"{name}"' if "," in name else name


class DeadlineOffer(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines of one stringency, and the shares (%) of the jobs and of the core-hours to which
    they could be promised.
    """

    stringency: float
    jobs: Interval
    work: Interval

    @property
    def mean(self) -> float:
        """Return the smaller one of two shares (%): of the jobs, and of the core-hours."""
        return min(self.jobs.mean, self.work.mean)

    @property
    def least(self) -> float:
        """Return the smaller lower end (%) of two confidence intervals, of the share of jobs and of
        core-hours: what can be relied on.
        """
        return min(self.jobs.ends[0], self.work.ends[0])


def offers(advice: Advice) -> list[DeadlineOffer]:
    """Return for each stringency that was simulated to which shares of jobs and core-hours its
    deadlines could be promised, strictest first.
    """
    tried = []
    for stringency in advice.choices.all_stringencies:
        case = advice.choices.case(stringency=stringency)
        jobs = advice.mean(case, promised)
        work = advice.mean(case, promised_work)
        if jobs is not None and work is not None:
            tried.append(DeadlineOffer(stringency=stringency, jobs=jobs, work=work))
    return tried


def best_offer(advice: Advice) -> tuple[DeadlineOffer, str]:
    """Return the strictest deadlines that could be promised to the wanted share of jobs and
    core-hours, or the laxest tried.

    Also tells how far that goes: ``sure`` if both intervals lie above the goal, ``mean`` if only
    the means do, and ``none`` for the laxest tried where even these do not.
    """
    goal = 100 * advice.choices.goal
    tried = offers(advice)
    if len(advice.windows) >= LEAST:
        for offer in tried:
            if offer.least >= goal:
                return offer, "sure"
    for offer in tried:
        if offer.mean >= goal:
            return offer, "mean"
    return tried[-1], "none"


def next_stricter(advice: Advice) -> DeadlineOffer | None:
    """Return the deadlines that were tried next before the best offer; None if there are none."""
    offer, _ = best_offer(advice)
    stricter = [tried for tried in offers(advice) if tried.stringency > offer.stringency]
    return stricter[-1] if stricter else None


def laxer_deadlines(advice: Advice) -> tuple[DeadlineOffer, DeadlineOffer | None]:
    """Return the deadlines asked for, and the best offer if it is laxer, else the laxest that were
    tried; None if none laxer were.
    """
    tried = offers(advice)
    asked = next(each for each in tried if each.stringency == advice.choices.stringency)
    offer, _ = best_offer(advice)
    laxer = offer if offer.stringency < asked.stringency else tried[-1]
    return asked, None if laxer is asked else laxer


def is_enough(advice: Advice) -> bool:
    """Return whether there are windows enough to tell results from chance."""
    return len(advice.windows) >= LEAST


def goal_text(advice: Advice) -> str:
    """Return the share of the deadlines that should be promised."""
    return f"{100 * advice.choices.goal:g} %"


def price_of_promise(advice: Advice) -> float:
    """Return what a promise has to bring, on average, to earn back what refused jobs would have
    paid.
    """
    choices = advice.choices
    lost = advice.charge(choices.easy(), 0.0).resource - advice.charge(choices.chosen, 0.0).resource
    return choices.prices.rate * lost / advice.counts(choices.chosen).promised


def load_change(advice: Advice) -> int:
    """Return whether fewer deadlines (-1) or more (1) can be promised at the highest load than at
    the lowest, or the windows do not tell (0).
    """
    choices = advice.choices
    lowest, highest = (choices.case(load=end(choices.loads)) for end in (min, max))
    change = advice.difference(highest, lowest, promised)
    if change is None or not is_enough(advice):
        return 0
    return (change.ends[0] > 0) - (change.ends[1] < 0)


def best_scheduler(advice: Advice) -> tuple[str, str]:
    """Return the name of the scheduler that refuses least core-hours without promising fewer
    deadlines, and the reason in words.

    Another one than the chosen one needs an interval that tells the two apart.
    """
    choices = advice.choices
    least = advice.mean(choices.chosen, refused_work)
    best = choices.scheduler
    reason = ""
    undecided = ""

    for other in choices.compared:
        case = choices.of(other)
        more = advice.difference(case, choices.chosen, promised)
        work = advice.difference(case, choices.chosen, refused_work)
        share = advice.mean(case, refused_work)
        if more is None or work is None or least is None or share is None:
            continue
        # It has to promise no fewer deadlines, and to refuse less in what is shown, too.
        if more.ends[1] < 0 or share.mean >= least.mean or short(share) == short(least):
            continue

        told = {"other": other, "share": share}
        if is_enough(advice) and work.ends[1] < 0:
            best, least = other, share
            reason = sentence("better", advice, **told, later=advice.mean(case, later))
        elif not (is_enough(advice) and undecided):
            undecided = sentence("not_told_apart", advice, **told)
    return manager_name(best), reason or undecided or sentence("none_better", advice)


@cache
def _texts() -> dict[str, Any]:
    """Return the templates of ``texts.toml``."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined)
    environment.filters |= {
        "factor": factor_text,
        "fmt": format,
        "hours": hours,
        "in_text": _in_text,
        "manager_name": manager_name,
        "short": short,
        "signed": lambda interval: "-" if interval is None else interval.text(sign="+"),
        "span": span,
    }
    environment.globals |= {
        "EXACT": EXACT,
        "FEW": FEW,
        "LEAST": LEAST,
        "QUANTILES": QUANTILES,
        "advice_earliness": advice_earliness,
        "best_offer": best_offer,
        "best_scheduler": best_scheduler,
        "goal_text": goal_text,
        "is_enough": is_enough,
        "laxer_deadlines": laxer_deadlines,
        "load_change": load_change,
        "next_stricter": next_stricter,
        "price_of_promise": price_of_promise,
        "promised": promised,
        "refused_work": refused_work,
        "utilization": utilization,
    }

    def compiled(text: Any) -> Any:
        if isinstance(text, dict):
            return {name: compiled(each) for name, each in text.items()}
        if isinstance(text, list):
            return [compiled(each) for each in text]
        return environment.from_string(text)

    texts: dict[str, Any] = compiled(
        packaged_data("qops_batsim.advice", "texts.toml", dict[str, Any])
    )
    return texts


def _render(template: Any, advice: Advice | None, **names: Any) -> str:
    """Return the text of a template about an advice, None if it is about the ``names`` alone."""
    text: str = template.render(
        **names,
        advice=advice,
        choices=advice and advice.choices,
        say=lambda name, **others: sentence(name, advice, **others),
        setting=lambda name: _setting(name, advice),
    )
    return text


def sentence(name: str, advice: Advice | None = None, **names: Any) -> str:
    """Return one of the ``sentences`` of ``texts.toml``, about an advice or the ``names`` alone."""
    return _render(_texts()["sentences"][name], advice, **names)


def _setting(name: str, advice: Advice | None) -> Setting:
    texts = _texts()["settings"][name]
    value, reason = (_render(texts[part], advice) for part in ("value", "reason"))
    return Setting(setting=name, value=value, reason=reason)


def _paragraphs(part: str, advice: Advice) -> list[str]:
    return [text for each in _texts()[part] if (text := _render(each, advice))]


def recommended(advice: Advice) -> list[Setting]:
    """Return the settings recommended to a centre; if simulated waits do not fit the log, a single
    one that says so.
    """
    if not advice.fit.fits:
        why = f"because {sentence('misfit', fit=advice.fit)}"
        return [Setting(setting="All settings", value=CANNOT_SAY, reason=why)]
    settings = [_setting(name, advice) for name in _texts()["settings"]]
    return [setting for setting in settings if setting.value]


def warnings(advice: Advice) -> list[str]:
    """Return paragraphs on why nothing can be recommended, with likely causes; none if simulated
    waits fit those in the log.
    """
    return _paragraphs("warnings", advice) if advice.fit.misfits else []


def headline(advice: Advice) -> list[str]:
    """Return the first paragraphs for a manager: what can be promised, its cost, and the advice."""
    return _paragraphs("headline", advice)


def summary(advice: Advice) -> list[str]:
    """Return the first paragraphs of the advice for a manager, headed by warnings if the simulation
    does not fit the log.
    """
    return [*warnings(advice), *headline(advice)]


def limits(advice: Advice) -> list[str]:
    """Return sentences on what the advice does not take into account."""
    return _paragraphs("limits", advice)
