"""The settings that a centre would choose, in plain words, with reasons and limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from qops_batsim.advice.advise import (
    FEW,
    HOUR,
    Advice,
    later,
    promised,
    refused_work,
    utilization,
)
from qops_batsim.advice.trace_runs import EXACT, EarliestPromise
from qops_batsim.economics.charges import PROCESSOR_CLASSES, Categories
from qops_batsim.experiments.statistics import LEAST, Interval

QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95)

SIZES = {"sequential": "1", "narrow": "2 to 8", "wide": "9 to 32", "very-wide": "33 or more"}
"""The classes of processors, as their users would say."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Recommended setting: its name, its value and the reason."""

    setting: str
    value: str
    reason: str


class Earliness(msgspec.Struct, frozen=True, kw_only=True):
    """Earliest promises to the jobs of a class.

    Responses and delays, what they have beyond the estimate, are in seconds, by quantile; infinite
    where so many jobs could be promised nothing.
    """

    group: str
    jobs: int
    at_once: float
    """Share (%) of the jobs whose end could be promised without delay."""
    responses: tuple[float, ...]
    delays: tuple[float, ...]


def earliness(promises: Iterable[EarliestPromise], *, by_processors: bool) -> list[Earliness]:
    """Return how early ends could have been promised, by processors or category, then for all."""
    groups: dict[str, list[EarliestPromise]] = {}
    labels = Categories().labels()
    of = {
        label: PROCESSOR_CLASSES[i % len(PROCESSOR_CLASSES)] if by_processors else label
        for i, label in enumerate(labels)
    }
    for name in dict.fromkeys(of.values()):
        groups[name] = []
    everything: list[EarliestPromise] = []
    for each in promises:
        groups[of[each.category]].append(each)
        everything.append(each)
    groups["all"] = everything
    return [_earliness(SIZES.get(name, name), found) for name, found in groups.items() if found]


def _earliness(group: str, promises: list[EarliestPromise]) -> Earliness:
    responses = np.array([math.inf if p.response is None else p.response for p in promises])
    delays = responses - np.array([p.estimate for p in promises])
    # The value that so many jobs do not exceed: no mean with an infinite one.
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


def hours(seconds: float) -> str:
    """Return a duration as a number of hours, ``none`` if infinite."""
    return "none" if math.isinf(seconds) else f"{seconds / HOUR:,.2f}"


def percent(interval: Interval | None) -> str:
    """Return a mean in percent with its interval, if it has one."""
    if interval is None:
        return "-"
    low, high = interval.ends
    return f"{interval.mean:.1f}" + (f" [{low:.1f}, {high:.1f}]" if low < high else "")


def short(interval: Interval | None) -> str:
    """Return the same for a sentence, without decimals."""
    if interval is None:
        return "an unknown part"
    if interval.known is None or round(interval.known[0]) == round(interval.known[1]):
        return f"{interval.mean:.0f} %"
    low, high = (min(max(end, 0.0), 100.0) for end in interval.known)
    return f"{interval.mean:.0f} % (between {low:.0f} and {high:.0f} %)"


def span(seconds: float) -> str:
    """Return a duration in words: minutes, hours or days."""
    if math.isinf(seconds):
        return "no time that could be promised"
    for unit, size in (("days", 86400.0), ("hours", HOUR)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} minutes"


def factor_text(stringency: float) -> str:
    """Return what users ask for: ``0.8 times EASY's response``."""
    return "EASY's response" if stringency == 0 else f"{1 - stringency:.3g} times EASY's response"


def best_stringency(advice: Advice) -> tuple[float, bool]:
    """Return the strictest deadline of which enough could be promised, else the laxest tried.

    Also tells whether it is enough.
    """
    choices = advice.choices
    shares = _shares(advice)
    for value in sorted(shares, reverse=True):
        if shares[value].mean >= 100 * choices.goal:
            return value, True
    return min(shares), False


def _shares(advice: Advice) -> Mapping[float, Interval]:
    choices = advice.choices
    found = {}
    for value in sorted({choices.stringency, *choices.stringencies}):
        case = choices.case(stringency=value, promises=value == choices.stringency)
        share = advice.mean(case, promised)
        if share is not None:
            found[value] = share
    return found


def best_scheduler(advice: Advice) -> tuple[str, str]:
    """Return the scheduler that refuses least work, of those that promise no fewer deadlines.

    Another one than the chosen one needs an interval that tells the two apart.
    """
    choices = advice.choices
    best, why = choices.scheduler.name, ""
    least = advice.mean(choices.chosen, refused_work)
    hidden = None
    for other in choices.compared:
        case = choices.of(other)
        more = advice.difference(case, choices.chosen, promised)
        work = advice.difference(case, choices.chosen, refused_work)
        if more is None or work is None or least is None:
            continue
        share = advice.mean(case, refused_work)
        if share is None or share.mean >= least.mean or more.ends[1] < 0:
            continue
        told = (
            f"{other.name} refuses {short(share)} of the core-hours, {choices.scheduler.name} "
            f"{short(advice.mean(choices.chosen, refused_work))}"
        )
        if short(share) == short(least):
            continue
        if len(advice.windows) < LEAST or work.ends[1] >= 0:
            hidden = hidden or f"{told}, but the windows do not tell the two apart"
            if len(advice.windows) < LEAST:
                stretches = "one stretch" if len(advice.windows) == 1 else "two stretches"
                hidden = f"{told}, but {stretches} of the trace cannot tell the two apart"
            continue
        best, least, why = other.name, share, f"{told}; no fewer deadlines are promised"
        offers = advice.mean(case, later)
        if offers is not None and offers.mean > 0:
            best += " where users accept later ends"
            why += f", but {short(offers)} of all for a later end than asked for"
    return best, why or hidden or "no other one tried refuses less work without promising less"


def recommended(advice: Advice) -> list[Setting]:
    """Return what a centre would set."""
    choices = advice.choices
    value, enough = best_stringency(advice)
    shares = _shares(advice)
    stricter = [each for each in shares if each > value]
    reason = f"{short(shares[value])} of the deadlines could be promised then"
    if not enough:
        reason += f", not the {100 * choices.goal:g} % wanted; nothing laxer was tried"
    elif stricter:
        reason += f"; within {factor_text(min(stricter))}, {short(shares[min(stricter)])}"
    scheduler, why = best_scheduler(advice)
    return [
        Setting(
            setting="deadlines to offer", value=f"an end within {factor_text(value)}", reason=reason
        ),
        Setting(setting="scheduler", value=scheduler, reason=why),
        _price(advice),
        _published(advice),
        _estimates(advice),
        *([_load(advice)] if len(advice.choices.loads) > 1 else []),
    ]


def _price(advice: Advice) -> Setting:
    currency, rate = advice.choices.currency, advice.choices.rate
    chosen = advice.choices.chosen
    free, dear = (advice.break_even(penalty).ratio for penalty in (0.0, 1.0))
    if free is None:
        value, reason = "any", "promises cost no core-hours here: nothing has to be earned back"
    else:
        lost = advice.charge(advice.choices.easy()).resource - advice.charge(chosen).resource
        each = rate * lost / advice.counts(chosen).promised
        value = f"about {each:,.4g} {currency} a promise on average"
        reason = (
            f"{free * rate:,.4g} {currency} for a QoS charge of 1: from there on, promised "
            "deadlines earn back what the refused jobs would have paid"
        )
        if dear is not None:
            reason += (
                f"; from {dear * rate:,.4g} on, if a deadline that EASY misses costs its QoS charge"
            )
    return Setting(setting="least price of deadlines", value=value, reason=reason)


def _published(advice: Advice) -> Setting:
    at = QUANTILES.index(0.9)
    groups = earliness(advice.promises, by_processors=True)
    told = "; ".join(
        f"{each.group}: {span(delay) if (delay := each.delays[at]) >= 30 else 'none'}"
        for each in groups[:-1]
    )
    return Setting(
        setting="promise to publish",
        value=f"an end after the walltime and a delay, by processors {told}",
        reason="nine of ten jobs of the class could be promised that at their submission",
    )


def _estimates(advice: Advice) -> Setting:
    if advice.prepared.longest is None:
        return Setting(
            setting="estimates",
            value="ask users for walltimes",
            reason="the trace has none: run times were taken as known, which nobody has",
        )
    choices = advice.choices
    gain = advice.difference(choices.case(estimates=EXACT), choices.chosen, promised)
    work = advice.difference(choices.case(estimates=EXACT), choices.chosen, refused_work)
    assert gain is not None
    return Setting(
        setting="estimates",
        value="ask users for better walltimes" if gain.ends[0] > 1 else "as they are",
        reason=f"exact ones would change the deadlines promised by {gain.text(sign='+')} points, "
        f"refused core-hours by {'-' if work is None else work.text(sign='+')} points: a bound",
    )


def _load(advice: Advice) -> Setting:
    choices = advice.choices
    told = []
    for load in sorted(choices.loads):
        share = advice.mean(choices.case(load=load, promises=load == 1), promised)
        told.append(f"{load:g}: {short(share)}")
    return Setting(
        setting="load to expect",
        value="that of the trace: promise less before it grows",
        reason=f"deadlines promised at load {'; '.join(told)} (1 is the trace)",
    )


def summary(advice: Advice) -> list[str]:
    """Return what a manager reads first: a few sentences."""
    choices = advice.choices
    chosen, easy = advice.counts(choices.chosen), advice.counts(choices.easy())
    kept = chosen.promised - chosen.missed
    name, asked = choices.scheduler.name, factor_text(choices.stringency)
    ours, theirs = (advice.mean(each, utilization) for each in (choices.chosen, choices.easy()))
    settings = {each.setting: each for each in recommended(advice)}
    offer, scheduler = settings["deadlines to offer"], settings["scheduler"]
    price = settings["least price of deadlines"].value
    cost = (
        f"That costs the {chosen.refused:,} jobs that are refused, and with them "
        f"{short(advice.mean(choices.chosen, refused_work))} of the core-hours: "
        f"{short(ours)} of the machine is used instead of {short(theirs)}. To earn that "
        f"back, deadlines have to bring {price}."
    )
    goal = f"{100 * choices.goal:g} % of what is asked for"
    _, enough = best_stringency(advice)
    return [
        f"Each of {chosen.jobs:,} jobs asks to end within {asked} (its response: the time from "
        f"submission to end under EASY backfilling), but not before its own estimate has passed. "
        f"With {name} the centre could have promised that to {chosen.promised:,} of them "
        f"({100 * chosen.promised / chosen.jobs:.0f} %), and would have kept "
        f"{'every promise' if kept == chosen.promised else f'{kept:,} promises'}. EASY promises "
        f"nothing and would have missed {easy.missed:,} of the deadlines "
        f"({100 * easy.missed / easy.jobs:.0f} %).",
        cost if chosen.refused else "No job is refused, so promises cost nothing here.",
        (f"To promise {goal}, offer " if enough else f"Nothing tried lets promise {goal}: with ")
        + f"{offer.value}{':' if enough else ','} {offer.reason}. Of the schedulers tried, "
        f"choose {scheduler.value}: {scheduler.reason}.",
    ]


def limits(advice: Advice) -> list[str]:
    """Return what the advice does not know, in plain words."""
    jobs = len(advice.prepared.workload.jobs)
    seen = sum(window.jobs for window in advice.windows)
    count = len(advice.windows)
    found = [
        f"{seen:,} of {jobs:,} usable jobs were simulated, in {count} "
        + ("windows spread evenly over the trace" if count > 1 else "window")
        + (f"; {jobs - seen:,} not looked at." if seen < jobs else "."),
        "Each window begins with an empty machine, so its first hours are easier than the rest.",
        "Intervals are 95 % (Student) over windows: what to expect of another stretch of this log."
        if count >= LEAST
        else f"No interval here is to be relied on: at least {LEAST} windows are needed "
        "(--windows).",
        "Users are taken to submit the same jobs whatever is promised or refused. Refused jobs go "
        "elsewhere: who would try again later is not counted.",
        "The machine is one pool of equal processors without failures, partitions, priorities, "
        "licences, memory or reservations; the log's own waits had all of these.",
        f"Every user asks for a deadline, which is the hardest case; with {100 * FEW:g} % who do, "
        f"{short(advice.mean(advice.choices.case(share=FEW), promised))} of theirs could be "
        "promised.",
        "What could be promised depends on what was promised before, so on scheduler and "
        "stringency. Where deadlines are EASY's own response or later, EASY misses none by "
        "construction.",
        "A QoS charge has no natural price (Islam et al. 2004 leave it open): the least price "
        "is what earns back refused work, not what users would pay.",
    ]
    prepared = advice.prepared
    if prepared.longest is None:
        found.insert(1, "The trace has no walltimes: all estimates are exact, which is a bound.")
    elif prepared.lacking:
        found.insert(
            1,
            "Jobs without a walltime, planned with the longest of all "
            f"({span(prepared.longest)}): {prepared.lacking:,}.",
        )
    if prepared.unfit:
        why = "Jobs left out, as they ask for more processors than there are, or for none"
        found.insert(1, f"{why}: {prepared.unfit:,}.")
    if prepared.deadlines:
        why = "Jobs with deadlines of their own, which were replaced by those set here"
        found.insert(1, f"{why}: {prepared.deadlines:,}.")
    return found
