"""The settings that a centre would choose, in plain words, with reasons and limits."""

from __future__ import annotations

import math
from collections.abc import Iterable

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
from qops_batsim.advice.wait_fit import ClassFit, ModelFit, sizes_of
from qops_batsim.economics.charges import PROCESSOR_CLASSES, Categories
from qops_batsim.experiments.deadline_runs import Contestant
from qops_batsim.experiments.statistics import LEAST, Interval
from qops_batsim.parameters import EXACT

QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95)

CANNOT_SAY = "cannot be said"


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
    groups: dict[str, list[EarliestPromise]] = {}
    labels, sizes = categories.labels(), sizes_of(categories)
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
    return [_earliness(sizes.get(name, name), found) for name, found in groups.items() if found]


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


def hours(seconds: float) -> str:
    """Format a duration in hours; ``never`` if infinite, ``-`` if unknown."""
    if math.isnan(seconds):
        return "-"
    return "never" if math.isinf(seconds) else f"{seconds / HOUR:,.2f}"


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


def change_text(first: Interval | None, second: Interval | None) -> str:
    """Describe in words the change between two percentages: ``rise from 20 % to 30 %``."""
    if first is None or second is None:
        return "are not known"
    if short(first) == short(second):
        return f"stay at {short(first)}"
    return (
        f"{'fall' if second.mean < first.mean else 'rise'} from {short(first)} to {short(second)}"
    )


class Offer(msgspec.Struct, frozen=True, kw_only=True):
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


def offers(advice: Advice) -> list[Offer]:
    """Return for each stringency that was simulated to which shares of jobs and core-hours its
    deadlines could be promised, strictest first.
    """
    choices, found = advice.choices, []
    for value in sorted({choices.stringency, *choices.stringencies}, reverse=True):
        case = choices.case(stringency=value)
        jobs, work = (advice.mean(case, each) for each in (promised, promised_work))
        if jobs is not None and work is not None:
            found.append(Offer(stringency=value, jobs=jobs, work=work))
    return found


def best_offer(advice: Advice) -> tuple[Offer, str]:
    """Return the strictest deadlines that could be promised to the wanted share of jobs and
    core-hours, or the laxest tried.

    Also tells how far that goes: ``sure`` if both intervals lie above the goal, ``mean`` if only
    the means do, and ``none`` for the laxest tried where even these do not.
    """
    goal, found = 100 * advice.choices.goal, offers(advice)
    if len(advice.windows) >= LEAST:
        for each in found:
            if each.least >= goal:
                return each, "sure"
    for each in found:
        if each.mean >= goal:
            return each, "mean"
    return found[-1], "none"


def best_scheduler(advice: Advice) -> tuple[str, str]:
    """Return the name of the scheduler that refuses least core-hours without promising fewer
    deadlines, and the reason in words.

    Another one than the chosen one needs an interval that tells the two apart.
    """
    choices = advice.choices
    best, why = manager_name(choices.scheduler), ""
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
            f"{_in_text(other)} refuses {short(share)} of the core-hours, "
            f"{_in_text(choices.scheduler)} "
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
        best, least, why = manager_name(other), share, f"{told}; no fewer deadlines are promised"
        put_off = advice.mean(case, later)
        if put_off is not None and put_off.mean > 0:
            why += f", but {short(put_off)} of all for a later end than asked for"
    nothing = "no other one tried refuses less work without promising less"
    return best, why or hidden or (nothing if choices.compared else "no other one was tried")


def recommended(advice: Advice) -> list[Setting]:
    """Return the settings recommended to a centre; if simulated waits do not fit the log, a single
    one that says so.
    """
    if not advice.fit.fits:
        why = f"because {misfit_text(advice.fit.misfits[0], advice.fit.scheduler)}"
        return [Setting(setting="All settings", value=CANNOT_SAY, reason=why)]
    return [
        _offered(advice),
        _scheduler(advice),
        _price(advice),
        _published(advice),
        _estimates(advice),
        *([_load(advice)] if len(advice.choices.loads) > 1 else []),
    ]


def fit_text(fit: ModelFit) -> str:
    """Return a sentence on which scheduler explains the waits in the log best and how well, empty
    if only EASY was tried.
    """
    if not fit.tried or fit.alike is None:
        return ""
    share = f"{100 * fit.alike:.0f} % of waits in the later half of the trace are within a factor "
    share += "of two of its own"
    if fit.scheduler == fit.nearest and fit.fits:
        chosen = f", chosen among {fit.tried} on the earlier half" if fit.tried > 1 else ""
        return f"The log waits as under {fit.nearest}{chosen}: {share}."
    if fit.tried == 1:
        return f"Under {fit.nearest}, {share}."
    return f"None of {fit.tried} schedulers fits; the nearest is {fit.nearest}: {share}."


def misfit_text(worst: ClassFit, scheduler: str) -> str:
    """Return in words how far simulated waits are from those in the log, for the jobs of one size
    class.
    """
    at = worst.ratios.index(worst.worst)
    who = "all jobs" if worst.group == "all" else f"the jobs of {worst.group} processors"
    part = ("half", "nine of ten")[at]
    return (
        f"{part} of {who} waited up to {hours(worst.logged[at])} h in the log, but "
        f"{hours(worst.simulated[at])} h in the simulation of {scheduler}"
    )


_TOO_SHORT = (
    "limits per user or account that hold jobs back",
    "priorities that let others go first",
    "reservations, and nodes that were down",
    "dependencies, if jobs wait from their submission on",
    "windows that begin with an empty machine (--windows NxJOBS makes them longer)",
)
_TOO_LONG = (
    "a machine that is larger than the one taken here (--processors, --nodes)",
    "jobs that share processors",
    "users whose walltimes the site's scheduler corrects",
)


def warnings(advice: Advice) -> list[str]:
    """Return paragraphs on why nothing can be recommended, with likely causes; none if simulated
    waits fit those in the log.
    """
    misfits = advice.fit.misfits
    if not misfits:
        return []
    short_waits = misfits[0].worst < 1
    causes = [*(_TOO_SHORT if short_waits else _TOO_LONG)]
    if short_waits and not advice.name:
        causes.insert(0, "several partitions or queues that are pooled here (--partition)")
    if short_waits and advice.trace.not_counted:
        named = " and ".join(advice.trace.not_counted)
        causes.insert(0, f"{named}, which jobs asked for and which is not counted here")
    others = ", ".join(each.group for each in misfits[1:])
    return [
        f"The model does not fit this trace: {misfit_text(misfits[0], advice.fit.scheduler)}. No "
        "recommendation can be made."
        + (f" Nor does it fit other classes of processors: {others}." if others else ""),
        *filter(None, [fit_text(advice.fit)]),
        f"Likely causes: {'; '.join(causes)}.",
    ]


def _offered(advice: Advice) -> Setting:
    offer, kind = best_offer(advice)
    goal, found = f"{100 * advice.choices.goal:g} %", offers(advice)
    reason = f"{short(offer.jobs)} of the deadlines, and {short(offer.work)} of the core-hours, "
    reason += "could be promised then"
    if kind == "none":
        reason += f", not the {goal} wanted of both; nothing laxer was tried"
    elif kind == "mean" and len(advice.windows) >= LEAST:
        reason += f", on average: another stretch may give less than the {goal} wanted"
    stricter = [each for each in found if each.stringency > offer.stringency]
    if stricter and kind != "none":
        other = stricter[-1]
        reason += (
            f"; within {factor_text(other.stringency)}, {short(other.jobs)} of the deadlines and "
            f"{short(other.work)} of the core-hours"
        )
    value = f"an end within {factor_text(offer.stringency)}"
    return Setting(setting="deadlines to offer", value=value, reason=reason)


def trade(advice: Advice) -> str:
    """Return a sentence on how promised deadlines and refused core-hours change if users ask for
    laxer deadlines.
    """
    choices, found = advice.choices, offers(advice)
    asked = next(each for each in found if each.stringency == choices.stringency)
    other, _ = best_offer(advice)
    if other.stringency >= asked.stringency:
        other = found[-1]
    if other is asked:
        return ""
    first, second = (
        advice.mean(choices.case(stringency=each.stringency), refused_work)
        for each in (asked, other)
    )
    return (
        f"From {1 - asked.stringency:.3g} to {1 - other.stringency:.3g} times EASY's response, "
        f"the deadlines promised {change_text(asked.jobs, other.jobs)}, and the refused "
        f"core-hours {change_text(first, second)}."
    )


def _scheduler(advice: Advice) -> Setting:
    scheduler, why = best_scheduler(advice)
    return Setting(setting="scheduler", value=scheduler, reason=why)


def _price(advice: Advice) -> Setting:
    prices, chosen = advice.choices.prices, advice.choices.chosen
    currency, rate = prices.unit, prices.rate
    free, dear = (advice.break_even(penalty).ratio for penalty in (0.0, prices.penalty))
    if free is None:
        value, reason = "any", "promises cost no core-hours here: nothing has to be earned back"
    else:
        lost = advice.charge(advice.choices.easy(), 0).resource - advice.charge(chosen, 0).resource
        each = rate * lost / advice.counts(chosen).promised
        value = f"about {each:,.4g} {currency} a promise on average"
        reason = (
            f"{free * rate:,.4g} {currency} for a QoS charge of 1: from there on, promised "
            "deadlines earn back what the refused jobs would have paid"
        )
        if dear is not None and prices.penalty:
            times = "" if prices.penalty == 1 else f"{prices.penalty:g} times "
            reason += (
                f"; from {dear * rate:,.4g} on, if a deadline that EASY misses costs {times}its "
                "QoS charge"
            )
    return Setting(setting="least price of deadlines", value=value, reason=reason)


def _published(advice: Advice) -> Setting:
    at = QUANTILES.index(0.9)
    groups = advice_earliness(advice, by_processors=True)
    told = "; ".join(f"{each.group}: {span(each.delays[at])}" for each in groups[:-1])
    return Setting(
        setting="promise to publish",
        value=f"an end after the walltime and a delay, by processors {told}",
        reason="nine of ten jobs of the class could be promised that at their submission",
    )


def _estimates(advice: Advice) -> Setting:
    if not advice.prepared.has_estimates:
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
    cases = {load: choices.case(load=load) for load in sorted(set(choices.loads))}
    told = [f"{load:g}: {short(advice.mean(case, promised))}" for load, case in cases.items()]
    lowest, *_, highest = cases
    change = advice.difference(cases[highest], cases[lowest], promised)
    value = f"no change of promises is told up to load {highest:g}"
    if change is not None and len(advice.windows) >= LEAST and change.ends[1] < 0:
        value = f"fewer deadlines can be promised at load {highest:g}: promise less before it grows"
    elif change is not None and len(advice.windows) >= LEAST and change.ends[0] > 0:
        value = f"more deadlines can be promised at load {highest:g}, measured against EASY's waits"
    return Setting(
        setting="load to expect",
        value=value,
        reason=f"deadlines promised at load {'; '.join(told)} (1 is the trace)",
    )


def few_text(advice: Advice) -> str:
    """Return a sentence that compares the share of deadlines promised if few users ask for one with
    the share if all do.
    """
    choices = advice.choices
    few, all_of_them = choices.case(share=FEW), choices.chosen
    share, change = advice.mean(few, promised), advice.difference(few, all_of_them, promised)
    told = f"If {100 * FEW:g} % ask for one, {short(share)} of theirs could be promised"
    if change is None:
        return f"Every user asks for a deadline. {told}."
    sure = len(advice.windows) >= LEAST and not change.ends[0] <= 0 <= change.ends[1]
    more = "more" if change.mean > 0 else "less"
    verdict = f"{more} than" if sure else "which the windows do not tell from"
    return (
        f"Every user asks for a deadline. {told}, {verdict} the "
        f"{short(advice.mean(all_of_them, promised))} if all do."
    )


def headline(advice: Advice) -> list[str]:
    """Return the first paragraphs for a manager: what can be promised, its cost, and the advice."""
    choices = advice.choices
    chosen, easy = advice.counts(choices.chosen), advice.counts(choices.easy())
    kept = chosen.promised - chosen.failed
    name, asked = manager_name(choices.scheduler), factor_text(choices.stringency)
    told = (
        f"Each of {chosen.jobs:,} jobs asks to end within {asked} (its response: the time from "
        f"submission to end under EASY backfilling), but not before its own estimate has passed: "
        f"{advice.prepared.estimates}. "
        f"With {name} the centre could have promised that to {chosen.promised:,} of them "
        f"({100 * chosen.promised / chosen.jobs:.0f} %), and would have kept "
        f"{'every promise' if kept == chosen.promised else f'{kept:,} promises'}. EASY promises "
        f"nothing and would have missed {easy.failed:,} of the deadlines "
        f"({100 * easy.failed / easy.jobs:.0f} %)."
    )
    if not advice.fit.fits:
        return [told, _cost(advice)]
    return [told, _cost(advice), _advised(advice), *filter(None, [fit_text(advice.fit)])]


def summary(advice: Advice) -> list[str]:
    """Return the first paragraphs of the advice for a manager, headed by warnings if the simulation
    does not fit the log.
    """
    return [*warnings(advice), *headline(advice)]


def _cost(advice: Advice) -> str:
    choices, free = advice.choices, advice.break_even(0.0).ratio
    refused_jobs = advice.counts(choices.chosen).refused
    if not refused_jobs:
        return "No job is refused, so promises cost nothing here."
    ours, theirs = (advice.mean(each, utilization) for each in (choices.chosen, choices.easy()))
    return (
        f"That costs the {refused_jobs:,} jobs that are refused, and with them "
        f"{short(advice.mean(choices.chosen, refused_work))} of the core-hours: "
        f"{short(ours)} of the machine is used, under EASY {short(theirs)}. "
        + (
            f"To earn that back, deadlines have to bring {_price(advice).value}."
            if free is not None
            else "No core-hours have to be earned back."
        )
    )


def _advised(advice: Advice) -> str:
    goal = f"{100 * advice.choices.goal:g} % of what is asked for"
    _, kind = best_offer(advice)
    offer, scheduler = _offered(advice), _scheduler(advice)
    begin = (
        f"Nothing tried lets promise {goal}: with"
        if kind == "none"
        else f"To promise {goal}, offer"
    )
    return " ".join(
        filter(
            None,
            (
                f"{begin} {offer.value}{',' if kind == 'none' else ':'} {offer.reason}.",
                trade(advice),
                f"Of the schedulers tried, choose {scheduler.value}: {scheduler.reason}.",
                ""
                if advice.fit.is_known
                else "Too few waits can be compared to know whether the model fits the trace.",
            ),
        )
    )


def limits(advice: Advice) -> list[str]:
    """Return sentences on what the advice does not take into account."""
    jobs = len(advice.prepared.workload.jobs)
    seen = sum(window.jobs for window in advice.windows)
    count = len(advice.windows)
    found = [
        f"{seen:,} of {jobs:,} usable jobs were simulated, in {count} "
        + ("windows spread evenly over the trace" if count > 1 else "window")
        + (f"; {jobs - seen:,} not looked at." if seen < jobs else "."),
        "Each window begins with an empty machine.",
        "Intervals are 95 % (Student) over windows: what to expect of another stretch of this log."
        if count >= LEAST
        else f"No interval here is to be relied on: at least {LEAST} windows are needed "
        "(--windows).",
        "Users are taken to submit the same jobs whatever is promised or refused. Refused jobs go "
        "elsewhere: who would try again later is not counted.",
        f"{f'Partition {advice.name}' if advice.name else 'The machine'} is one pool of equal "
        "processors without failures, limits per user, priorities, licences, memory or "
        "reservations; the log's own waits had all that the site has of these.",
        few_text(advice),
        "What could be promised depends on what was promised before, so on scheduler and "
        "stringency. Where deadlines are EASY's own response or later, EASY misses none by "
        "construction.",
        "A QoS charge has no natural price (Islam et al. 2004 leave it open): the least price "
        "is what earns back refused work, not what users would pay.",
    ]
    prepared = advice.prepared
    bound = "" if prepared.has_estimates else ", so that all this is a bound"
    found.insert(1, f"{prepared.estimates[0].upper()}{prepared.estimates[1:]}{bound}.")
    if prepared.unfit:
        why = "Jobs left out, as they ask for more processors than there are, or for none"
        found.insert(1, f"{why}: {prepared.unfit:,}.")
    if prepared.deadlines:
        why = "Jobs with deadlines of their own, which were replaced by those set here"
        found.insert(1, f"{why}: {prepared.deadlines:,}.")
    return found
