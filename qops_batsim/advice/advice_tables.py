"""The tables of advice on a trace: the trace, its users' jobs, and the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qops_batsim.advice.advise import (
    FEW,
    HOUR,
    Advice,
    AdviceChoices,
    failed,
    later,
    promised,
    refused,
    refused_work,
    utilization,
)
from qops_batsim.advice.recommendations import (
    CANNOT_SAY,
    advice_earliness,
    best_offer,
    factor_text,
    manager_name,
    percent,
)
from qops_batsim.advice.trace_runs import (
    MOST_REFUSALS,
    REASONS,
    AdviceCase,
    GroupCount,
    add_up,
    reason_of,
)
from qops_batsim.advice.wait_fit import HIGH, LEAST_WAIT, LOW, wait_quantiles
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.economics.charges import Categories
from qops_batsim.economics.prices import Prices
from qops_batsim.experiments.page import Aliases, PageTable
from qops_batsim.experiments.report_table import declared_tables, hours
from qops_batsim.parameters import EXACT
from qops_batsim.texts import moment_text
from qops_batsim.workload.conversion import DONE

_TABLES = declared_tables("qops_batsim.advice")
_FORMS: dict[str, Callable[[Any], str]] = {
    "percent": percent,
    "done": DONE.__getitem__,
}


def _table(title: str, rows: Sequence[Any], /, **names: Any) -> PageTable:
    """Make a table of the page from ``rows``; ``title`` is the key in ``tables.toml`` of its
    columns and heading, ``names`` fill in the texts there.
    """
    return _TABLES[title].table(rows, forms=_FORMS, **names)


def read_facts(advice: Advice) -> dict[str, str]:
    """Return facts about the trace that was read, such as its file, machine size, jobs, dates and
    offered load: texts by name of the fact.
    """
    trace = advice.trace
    workload = trace.workload
    dates = (trace.first_submission, trace.last_submission)
    facts = {
        "file": Path(workload.source).name,
        "machine": f"{advice.simulated.processors:,} processors",
        "jobs": f"{trace.records_read:,} records read, {len(workload.jobs):,} jobs used",
        "submitted": f"over {(dates[1] - dates[0]) / 86400:,.1f} days",
    }
    if trace.calendar is not None:
        span = " to ".join(map(trace.calendar.text, dates))
        facts["submitted"] += f", {span} ({trace.calendar.time_zone})"
    if advice.name:
        facts["partition"] = advice.name
    if trace.counted:
        facts["counted in"] = trace.counted
    if trace.not_counted:
        facts["not planned"] = f"{', '.join(trace.not_counted)}; on which nodes jobs fit together"

    if advice.what_if is not None:
        facts["machine"] += f" (as it is: {workload.processors:,})"
        facts["jobs"] += f", {len(advice.simulated.jobs):,} with the changes"
    elif trace.size_is:
        facts["machine"] += f": {trace.size_is}"
    if advice.offered_load is not None:
        facts["offered load"] = f"{advice.offered_load:.3f} of what the machine can do"
    return facts


def repairs_table(advice: Advice) -> PageTable | None:
    """Return the table of the trace's records that were left out or changed when it was read, None
    if there are none.
    """
    rows = [each for each in advice.trace.repairs if each.jobs]
    return _table("repairs", rows) if rows else None


def windows_table(advice: Advice) -> PageTable:
    """Return the table of the simulated windows (stretches of the trace), one row each: start,
    jobs, load, promised deadlines and utilization.
    """
    choices = advice.choices
    submissions = np.sort(advice.prepared.workload.columns.submission_times)
    calendar = advice.trace.workload.calendar
    more_processors = advice.what_if.processors if advice.what_if else 0
    rows = []
    for window, easy, run in zip(
        advice.windows, advice.of(choices.easy()), advice.of(choices.chosen), strict=True
    ):
        rows.append(
            {
                "window": str(window.number),
                "from": moment_text(round(float(submissions[window.skip])), calendar),
                "jobs": easy.metrics.jobs,
                "load": easy.metrics.offered_load,
                "promised": promised(run) or 0.0,
                "used": utilization(run),
                "processors": window.processors and window.processors + more_processors,
            }
        )

    sized = ""
    if any(window.processors is not None for window in advice.windows):
        sized = (
            "Processors are those of the nodes that were there, each from the first job on it to "
            "the last; nodes count alike."
        )
    return _table("windows", rows, name=choices.scheduler.name, sized=sized)


def fit_table(advice: Advice) -> PageTable | None:
    """Return the table that compares simulated waits with those in the log, None if too few waits
    are known.
    """
    fit = advice.fit
    if not fit.is_known:
        return None
    limits = {"least": LEAST_WAIT / 60, "low": LOW, "high": HIGH}
    return _table("fit", fit.classes, scheduler=fit.scheduler, **limits)


def before_after_table(before: Advice, after: Advice, changes: str) -> PageTable:
    """Return a table that compares the results of EASY and of the chosen scheduler without and with
    the ``--what-if`` changes.
    """
    choices = before.choices
    rows = []
    for who, case in (
        ("EASY", choices.easy()),
        (manager_name(choices.scheduler), choices.chosen),
    ):
        for name, measure in MEASURES.items():
            pair = [advice.mean(case, measure) for advice in (before, after)]
            if any(mean is not None and mean.mean > 0 for mean in pair):
                texts = map(percent, pair)
                rows.append([f"{who}: {name}", *texts])
        waits = [_wait_quantiles(advice, case) for advice in (before, after)]
        if not np.isnan(waits).any():
            for part, *pair_of_waits in zip(("50%", "90%"), *waits, strict=True):
                rows.append([f"{who}: wait {part} (h)", *map(hours, pair_of_waits)])
    return _table("before_after", rows, changes=changes)


def _wait_quantiles(advice: Advice, case: AdviceCase) -> tuple[float, float]:
    """Return the median and the 90 % quantile of the waits of a case in all windows."""
    by_category = [waits for run in advice.of(case) for waits in run.waits.values()]
    return wait_quantiles(np.array([wait for waits in by_category for wait in waits]))


def overview_table(parts: Mapping[str, Advice]) -> PageTable:
    """Return a table with the main results of several advices, such as one for each partition: one
    row each.
    """
    rows = []
    for name, advice in parts.items():
        choices, fit = advice.choices, advice.fit
        all_jobs = next((each for each in fit.classes if each.group == "all"), None)
        offer, kind = best_offer(advice)
        factor = "1"
        if offer.stringency != 0:
            factor = factor_text(offer.stringency).removesuffix(" times EASY's response")
        rows.append(
            {
                "name": name,
                "jobs": len(advice.simulated.jobs),
                "processors": advice.simulated.processors,
                "load": advice.offered_load,
                "logged": all_jobs and all_jobs.logged[1],
                "simulated": all_jobs and all_jobs.simulated[1],
                "fits": "not known" if not fit.is_known else "yes" if fit.fits else "no",
                "promised": advice.mean(choices.chosen, promised),
                "refused": advice.mean(choices.chosen, refused_work),
                "missed": advice.mean(choices.easy(), failed),
                "offer": CANNOT_SAY if not fit.fits else factor if kind != "none" else "none tried",
            }
        )
    return _table("overview", rows)


MEASURES = {
    "promised (%)": promised,
    "later than asked (%)": later,
    "broken or missed (%)": failed,
    "refused (%)": refused,
    "refused core-hours (%)": refused_work,
    "utilization while jobs are submitted (%)": utilization,
}
WORDS = {
    "own": "no start that is early enough was found",
    "others": "another job's promise would be broken",
    "impossible": "the deadline is nearer than the job's estimate",
    "other": "another reason, as more processors than the machine has",
}
"""Meanings of the reasons for refusals."""

_INTERVALS = "Means over windows, with 95 % intervals (Student) where there are at least two."


def _measures(advice: Advice, case: AdviceCase) -> dict[str, str]:
    return {name: percent(advice.mean(case, measure)) for name, measure in MEASURES.items()}


def _rate(prices: Prices) -> str:
    """Return the price of a core-hour in words, also where no currency is given."""
    if prices.core_hour is None:
        return "the core-hours used (--prices sets a price)"
    return f"{prices.rate:g} {prices.unit} a core-hour"


def _classes(advice: Advice, of: str) -> str:
    """Describe in words the classes of jobs by time and by processors; ``of`` says which time it
    is, such as "walltime".
    """
    categories = advice.choices.prices.categories
    short, middle, long = (
        f"{edge / 3600:g} h" if edge >= 3600 else f"{edge / 60:g} min"
        for edge in categories.run_times
    )
    few, more, many = (f"{edge:g}" for edge in categories.processors)
    return (
        f"{of} up to {short} (very short), {middle} (short), {long} (long), more; processors up to "
        f"{few} (sequential), {more} (narrow), {many} (wide), more."
    )


def compared_cases(choices: AdviceChoices) -> dict[str, AdviceCase]:
    """Return the simulated cases of EASY, of the chosen scheduler and of those compared with it, by
    their names on the page.
    """
    cases = {"EASY": choices.easy(), manager_name(choices.scheduler): choices.chosen}
    return cases | {manager_name(each): choices.of(each) for each in choices.compared}


def first_table(advice: Advice) -> PageTable:
    """Return the table that compares the schedulers, one row each."""
    choices = advice.choices
    penalty = choices.prices.penalty
    named = {manager_name(each): each.name for each in (choices.scheduler, *choices.compared)}
    options = "; ".join(f"{name} is {own}" for name, own in named.items() if name != own)
    rows = [
        {"scheduler": name, **_measures(advice, case), "income": advice.income(case)}
        for name, case in compared_cases(choices).items()
    ]
    return _table(
        "schedulers",
        rows,
        currency=choices.prices.unit,
        penalty="" if penalty == 1 else f"{penalty:g} times ",
        intervals=_INTERVALS,
        rate=_rate(choices.prices),
        price=advice.deadline_price,
        options=f" In --scheduler, {options}." if options else "",
    )


def earliness_tables(advice: Advice) -> list[PageTable]:
    """Return tables of how early jobs could be promised to end, by processors and by category."""
    return [
        _table(
            "earliness",
            advice_earliness(advice, by_processors=by_processors),
            classes=title,
            explained="" if by_processors else f" Classes: {_classes(advice, 'walltime')}",
        )
        for by_processors, title in ((True, "processors"), (False, "walltime and processors"))
    ]


def categories_table(advice: Advice) -> PageTable:
    """Return the table of requested, promised and refused deadlines by category of jobs (class of
    run time and of processors).
    """
    groups = advice.groups(advice.choices.chosen)
    easy = advice.groups(advice.choices.easy())
    rows = [
        {"category": name, **_asked(group), "missed": easy[name].failed}
        for name in Categories().labels()
        if (group := groups.get(name)) is not None
    ]
    return _table("categories", rows, classes=_classes(advice, "run time"))


def _asked(group: GroupCount) -> dict[str, float]:
    """Return, for a group of jobs, how many deadlines were requested, promised and refused, with
    the share of jobs (%) and the core-hours refused.
    """
    return {
        "jobs": group.jobs,
        "promised": group.promised,
        "refused": group.refused,
        "share": 100 * group.refused / group.jobs,
        "work": group.refused_work / HOUR,
    }


def queues_table(advice: Advice) -> PageTable | None:
    """Return the table of requested, promised and refused deadlines by queue or partition, None if
    the trace names none.
    """
    runs = advice.of(advice.choices.chosen)
    names = sorted({name for run in runs for name in run.queues})
    if names in ([], ["-"]):
        return None
    groups = {
        name: add_up(run.queues[name] for run in runs if name in run.queues) for name in names
    }
    return _table("queues", [{"queue": name, **_asked(each)} for name, each in groups.items()])


def refusals_table(advice: Advice, aliases: Aliases | None = None) -> PageTable | None:
    """Return the table of the refused jobs with most core-hours, None if none was refused;
    ``aliases`` replaces user names by numbers.
    """
    refusals = [each for run in advice.of(advice.choices.chosen) for each in run.refusals]
    largest = sorted(refusals, key=lambda each: -each.work)[:MOST_REFUSALS]
    if not largest:
        return None
    calendar = advice.prepared.workload.calendar
    rows = [
        {
            **msgspec.structs.asdict(each),
            "submitted": moment_text(round(each.submission), calendar),
            "user": each.user if aliases is None else aliases[each.user],
            "work": each.work / HOUR,
            "reason": _why(each.refusal),
        }
        for each in largest
    ]
    return _table("refusals", rows)


def _why(refusal: Refusal) -> str:
    """Return the reason of a refusal as a sentence, in which a job that blocked has its id of the
    trace.
    """
    if refusal.kind is RefusalKind.OTHER_DEADLINE and refusal.blamed is not None:
        return f"the promise to {refusal.blamed.partition('!')[2]} would be broken"
    return WORDS[reason_of(refusal)]


def reasons_table(advice: Advice) -> PageTable:
    """Return the table of refused jobs by reason of refusal."""
    counts = advice.counts(advice.choices.chosen)
    rows = [
        {"reason": WORDS[kind], "jobs": found, "share": 100 * found / counts.refused}
        for kind in REASONS
        if (found := counts.reasons.get(kind, 0))
    ]
    return _table("reasons", rows)


def charges_table(advice: Advice) -> PageTable:
    """Return the table of charges by category of jobs."""
    prices = advice.choices.prices
    price = advice.deadline_price
    chosen = advice.of(advice.choices.chosen)
    easy = advice.of(advice.choices.easy())
    labels = Categories().labels()

    rows = []
    for name, places in [
        *((label, [place]) for place, label in enumerate(labels)),
        ("total", range(len(labels))),
    ]:
        ours = [run.charges[place] for run in chosen for place in places]
        theirs = [run.charges[place] for run in easy for place in places]
        if not any(each.jobs for each in ours):
            continue
        charged = sum(each.charged_jobs for each in ours)
        work = sum(each.charge.resource for each in ours) / HOUR
        qos = sum(each.charge.qos for each in ours)
        rows.append(
            {
                "category": name,
                "jobs": charged,
                "work": work,
                "resources": prices.rate * work,
                "qos": qos,
                "deadlines": price * qos,
                "each": price * qos / charged if charged else None,
                "missed": price * sum(each.penalty for each in theirs),
            }
        )
    return _table(
        "charges",
        rows,
        name=advice.choices.scheduler.name,
        money=prices.unit,
        rate=_rate(prices),
        price=price,
    )


def loads_table(advice: Advice) -> PageTable:
    """Return the table of results at each simulated load."""
    loads = sorted(advice.choices.loads)
    rows = [{"load": load} | each for load in loads for each in _beside_easy(advice, load=load)]
    return _table("loads", rows, intervals=_INTERVALS)


def other_tables(advice: Advice) -> tuple[PageTable, PageTable]:
    """Return the results by how exact estimates are, and by how strict deadlines are."""
    choices = advice.choices
    cases = {
        "the users' own": choices.chosen,
        "exact, the same deadlines": choices.case(estimates=EXACT),
        "exact, deadlines by them as well": choices.case(estimates=EXACT, deadlines_by=EXACT),
    }
    by_estimates = [{"estimates": text} | _measures(advice, case) for text, case in cases.items()]

    asked: list[tuple[str, dict[str, float]]] = [
        (factor_text(stringency), {"stringency": stringency})
        for stringency in choices.all_stringencies
    ]
    asked.append((f"{factor_text(choices.stringency)}, {FEW:.0%} of users ask", {"share": FEW}))
    by_stringency = [
        {"asked": text} | row for text, differs in asked for row in _beside_easy(advice, **differs)
    ]
    return (
        _table("estimates", by_estimates, intervals=_INTERVALS),
        _table("stringencies", by_stringency, intervals=_INTERVALS),
    )


def _beside_easy(advice: Advice, **differs: float) -> list[dict[str, str]]:
    """Return two table rows, of EASY and of the chosen scheduler; ``differs`` are the fields of the
    main case to change, such as the load.
    """
    choices = advice.choices
    cases = {"EASY": choices.easy(**differs), choices.scheduler.name: choices.case(**differs)}
    return [{"scheduler": name} | _measures(advice, case) for name, case in cases.items()]
