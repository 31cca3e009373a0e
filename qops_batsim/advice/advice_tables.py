"""The tables of advice on a trace: the trace itself, what its users got, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from qops_batsim.advice.advise import (
    FEW,
    HOUR,
    Advice,
    AdviceChoices,
    later,
    missed,
    promised,
    refused,
    refused_work,
    utilization,
)
from qops_batsim.advice.backtest import Backtest
from qops_batsim.advice.fit import HIGH, LEAST_WAIT, LOW, SIZES, size_classes, wait_quantiles
from qops_batsim.advice.recommendations import (
    CANNOT_SAY,
    QUANTILES,
    best_offer,
    earliness,
    factor_text,
    hours,
    manager_name,
    percent,
)
from qops_batsim.advice.trace_runs import (
    EXACT,
    MOST_REFUSALS,
    REASONS,
    AdviceCase,
    add_up,
    reason_of,
)
from qops_batsim.economics.charges import Categories
from qops_batsim.experiments.page import PageTable
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.tables import Floats, Words
from qops_batsim.workload.conversion import DONE


def read_facts(advice: Advice) -> dict[str, str]:
    """Return the facts about the trace."""
    trace = advice.trace
    workload = trace.workload
    begin, last = trace.first_submission, trace.last_submission
    facts = {
        "file": Path(workload.source).name,
        "machine": f"{workload.processors:,} processors",
        "jobs": f"{trace.records_read:,} records read, {len(workload.jobs):,} jobs used",
        "submitted": f"over {(last - begin) / 86400:,.1f} days",
    }
    if trace.calendar is not None:
        dates = " to ".join(map(trace.calendar.text, (begin, last)))
        facts["submitted"] += f", {dates} ({trace.calendar.time_zone})"
    if advice.name:
        facts["partition"] = advice.name
    if trace.counted:
        facts["counted in"] = trace.counted
    if trace.size_is:
        facts["machine"] += f": {trace.size_is}"
    if trace.offered_load is not None:
        facts["offered load"] = f"{trace.offered_load:.3f} of what the machine can do"
    return facts


def repairs_table(advice: Advice) -> PageTable | None:
    """Return the records left out or changed, None if there are none."""
    rows = [
        [each.description, DONE[each.choice], f"{each.jobs:,}"]
        for each in advice.trace.repairs
        if each.jobs
    ]
    if not rows:
        return None
    return PageTable(title="Left out or changed", headings=["what", "done", "jobs"], rows=rows)


def windows_table(advice: Advice) -> PageTable:
    """Return the windows that were simulated."""
    choices, rows = advice.choices, []
    ordered = np.sort(advice.prepared.workload.columns.submission_times)
    calendar = advice.trace.workload.calendar
    for window, easy, run in zip(
        advice.windows, advice.of(choices.easy()), advice.of(choices.chosen), strict=True
    ):
        begin = float(ordered[window.skip])
        load, used = easy.metrics.offered_load, utilization(run)
        rows.append(
            [
                str(window.number),
                f"{begin:,.0f} s" if calendar is None else calendar.text(begin),
                f"{window.jobs:,}",
                "-" if load is None else f"{load:.3f}",
                f"{promised(run) or 0:.2f}",
                "-" if used is None else f"{used:.2f}",
            ]
        )
    name = choices.scheduler.name
    return PageTable(
        title="Windows of the trace that were simulated",
        headings=["window", "from", "jobs", "offered load", f"{name}: promised (%)", "used (%)"],
        rows=rows,
    )


def sizes_table(advice: Advice) -> PageTable | None:
    """Return the most processors in use at once by month, where the trace tells starts and dates.

    A machine that grew or shrank while the trace was made is simulated with one size.
    """
    records, calendar = advice.trace.records, advice.trace.calendar
    known = (records["wait_time"] >= 0) & (records["run_time"] > 0)
    if calendar is None or not known.any():
        return None
    starts = (records["submit_time"] + records["wait_time"])[known]
    width = records["requested_processors"][known]
    dates = np.concatenate([starts + records["run_time"][known], starts])
    # At one date, those that end come first.
    order = np.argsort(dates, kind="stable")
    used = np.cumsum(np.concatenate([-width, width])[order])
    days, first = np.unique(dates[order] // 86400, return_index=True)
    months: dict[str, int] = {}
    for day, most in zip(days.tolist(), np.maximum.reduceat(used, first).tolist(), strict=True):
        month = calendar.month_of(day * 86400)
        months[month] = max(months.get(month, 0), int(most))
    if len(months) < 2:
        return None
    return PageTable(
        title="Most in use at once",
        headings=["month", "processors"],
        rows=[[month, f"{most:,}"] for month, most in months.items()],
        note=f"All windows are simulated with {advice.trace.workload.processors:,}.",
    )


def fit_table(advice: Advice) -> PageTable | None:
    """Compare waits simulated with EASY with logged ones; None without these."""
    if not advice.fit.is_known:
        return None
    rows = [
        [
            each.group,
            f"{each.jobs:,}",
            *map(hours, (*each.logged, *each.simulated)),
            *(f"{ratio:.2f}" for ratio in each.ratios),
        ]
        for each in advice.fit.classes
    ]
    parts = [f"{who} {q:.0%} (h)" for who in ("log", "EASY") for q in (0.5, 0.9)]
    return PageTable(
        title="Does the model fit?",
        headings=["processors", "jobs", *parts, "ratio 50%", "ratio 90%"],
        rows=rows,
        note="The wait that half and nine tenths of the simulated jobs did not exceed: in the "
        "log, with the site's own policies, and with EASY backfilling. Ratios are EASY's wait over "
        f"the logged one, where waits below {LEAST_WAIT / 60:.0f} minutes count as this much; "
        f"outside {LOW:g} to {HIGH:g} nothing is recommended.",
    )


_MOST_GROUPS = 12


def users_tables(advice: Advice) -> list[PageTable]:
    """Return the waits in the log by size, partition and account, as far as it tells them."""
    records = advice.trace.records
    classes = Words([*SIZES.values()], size_classes(records["requested_processors"]))
    columns = {"processors": classes}
    names = {"partition": "queue", "account": "group"}
    columns |= {
        title: advice.trace.texts[field]
        for title, field in names.items()
        if field in advice.trace.texts
    }
    waits = records["wait_time"]
    if not (waits >= 0).any():
        return []
    limits = records["requested_time"]
    run_times = np.where(limits > 0, np.minimum(records["run_time"], limits), records["run_time"])
    work = run_times * records["requested_processors"] / HOUR
    return [
        _waits_table(title, column, waits, work)
        for title, column in columns.items()
        if title == "processors" or len(set(column.words)) > 1
    ]


def _waits_table(title: str, column: Words, waits: Floats, work: Floats) -> PageTable:
    """Return waits by the words of a column, the groups with most work first, then all jobs."""
    of_word = np.bincount(column.which, work, minlength=len(column.words))
    order = np.argsort(-of_word, kind="stable") if title != "processors" else range(len(of_word))
    groups = [(column.words[at] or "-", column.which == at) for at in [*order][:_MOST_GROUPS]]
    groups.append(("all", np.ones(len(waits), np.bool_)))
    rows = []
    for name, inside in groups:
        known = waits[inside & (waits >= 0)]
        if inside.any():
            mean = f"{known.mean() / HOUR:,.2f}" if len(known) else "-"
            quantiles = map(hours, wait_quantiles(known))
            rows.append([name, f"{inside.sum():,}", f"{work[inside].sum():,.0f}", mean, *quantiles])
    more = len(of_word) - _MOST_GROUPS
    return PageTable(
        title=f"Waits in the log by {title}",
        headings=[title, "jobs", "core-hours", "mean (h)", "50% (h)", "90% (h)"],
        rows=rows,
        note=f"Of all jobs of the trace; {more:,} with less work are not shown."
        if more > 0
        else "Of all jobs of the trace.",
    )


def before_after_table(before: Advice, after: Advice, changes: str) -> PageTable:
    """Return the measures of EASY and the chosen scheduler without and with changes."""
    rows = []
    choices = before.choices
    for who, case in (
        ("EASY", choices.easy()),
        (manager_name(choices.scheduler), choices.chosen),
    ):
        for name, measure in MEASURES.items():
            pair = [each.mean(case, measure) for each in (before, after)]
            if any(each is not None and each.mean > 0 for each in pair):
                rows.append([f"{who}: {name}", *map(percent, pair)])
        waits = [
            wait_quantiles(
                np.array([w for r in each.of(case) for ws in r.waits.values() for w in ws])
            )
            for each in (before, after)
        ]
        if not np.isnan(waits).any():
            for at, part in enumerate(("50%", "90%")):
                rows.append([f"{who}: wait {part} (h)", *(hours(each[at]) for each in waits)])
    return PageTable(
        title="Before and after",
        headings=["measure", "as it is", changes],
        rows=rows,
        note="The same windows, simulated without and with the changes.",
    )


def backtest_table(found: Backtest) -> PageTable:
    """Return the calibration of quotes."""
    rows = [
        [
            each.group,
            "earliest end" if each.said is None else f"{each.said:.1f} %",
            f"{each.quotes:,}",
            f"{each.came:.1f}",
            f"{each.chance:.1f}",
            "-" if each.said is None else hours(each.margin),
        ]
        for each in found.table()
    ]
    return PageTable(
        title="Quotes made at submissions",
        headings=["quotes", "said to hold", "number", "came true (%)", "chance (±)", "added (h)"],
        rows=rows,
        note="By the wait quoted, and by size. The earliest end is what could have been promised, "
        "and the log's own scheduler did not aim at it; a quote that is to hold with a "
        "probability adds to its start what earlier quotes were off by (added: mean), as far as "
        "that was known then; where even a start at once is surer, it says so. Chance: half of the "
        "95 % interval, from ten stretches of quotes: what differs by less may be chance. Waiting "
        "jobs are planned in the order of submission.",
    )


def overview_table(parts: Mapping[str, Advice], title: str = "Partitions") -> PageTable:
    """Return several advices side by side, a row each."""
    rows = []
    for name, advice in parts.items():
        choices, fit, trace = advice.choices, advice.fit, advice.trace
        all_jobs = next((each for each in fit.classes if each.group == "all"), None)
        offer, kind = best_offer(advice)
        waits = (
            ("-", "-")
            if all_jobs is None
            else map(hours, (all_jobs.logged[1], all_jobs.simulated[1]))
        )
        verdict = "not known" if not fit.is_known else "yes" if fit.fits else "no"
        told = factor_text(offer.stringency).removesuffix(" times EASY's response")
        told = {"EASY's response": "1"}.get(told, told)
        rows.append(
            [
                name,
                f"{len(trace.workload.jobs):,}",
                f"{trace.workload.processors:,}",
                "-" if trace.offered_load is None else f"{trace.offered_load:.2f}",
                *waits,
                verdict,
                *(percent(advice.mean(choices.chosen, each)) for each in (promised, refused_work)),
                percent(advice.mean(choices.easy(), missed)),
                CANNOT_SAY if not fit.fits else told if kind != "none" else "none tried",
            ]
        )
    return PageTable(
        title=title,
        headings=[
            title.lower().removesuffix("s"),
            "jobs",
            "processors",
            "offered load",
            "log 90% (h)",
            "EASY 90% (h)",
            "fits",
            "promised (%)",
            "refused core-hours (%)",
            "missed by EASY (%)",
            "times EASY's response to offer",
        ],
        rows=rows,
        note="Waits that nine tenths of the simulated jobs did not exceed, in the log and under "
        "EASY. Promised, refused and missed: of deadlines at the stringency asked for. To offer: "
        "the strictest deadline tried of which enough jobs and core-hours could be promised.",
    )


MEASURES = {
    "promised (%)": promised,
    "later than asked (%)": later,
    "missed (%)": missed,
    "refused (%)": refused,
    "refused core-hours (%)": refused_work,
    "utilization (%)": utilization,
}
WORDS = {
    "own": "no start that is early enough was found",
    "others": "another job's promise would be broken",
    "impossible": "the deadline is nearer than the job's estimate",
    "other": "another reason, as more processors than the machine has",
}
"""Meanings of the reasons for refusals."""

FIRST = [name for name in MEASURES if name != "refused (%)"]
"""Measures of the first table; the others follow from them."""

CLASSES = (
    "{} up to 10 min (very short), 1 h (short), 8 h (long), more; processors up to 1 "
    "(sequential), 8 (narrow), 32 (wide), more."
)
_INTERVALS = "Means over windows, with 95 % intervals (Student) where there are at least two."


def _measures(advice: Advice, case: AdviceCase) -> list[str]:
    return [percent(advice.mean(case, measure)) for measure in MEASURES.values()]


def _rate(choices: AdviceChoices) -> str:
    """Return the price of a core-hour in words that make sense without a currency, too."""
    if choices.currency == "core-h" and choices.rate == 1:
        return "the core-hours used (--rate and --currency set a price)"
    return f"{choices.rate:g} {choices.currency} a core-hour"


def compared_cases(choices: AdviceChoices) -> dict[str, AdviceCase]:
    """Return the cases of EASY and the schedulers by the names that managers know them by."""
    cases = {"EASY": choices.easy(), manager_name(choices.scheduler): choices.chosen}
    return cases | {manager_name(each): choices.of(each) for each in choices.compared}


def first_table(advice: Advice) -> PageTable:
    """Return the schedulers side by side."""
    choices, rows = advice.choices, []
    named = {manager_name(each): each.name for each in (choices.scheduler, *choices.compared)}
    options = "; ".join(f"{name} is {own}" for name, own in named.items() if name != own)
    for name, case in compared_cases(choices).items():
        income = f"{advice.income(case):,.0f}"
        measures = [advice.mean(case, MEASURES[each]) for each in FIRST]
        rows.append([name, *map(percent, measures), income])
    return PageTable(
        title="Schedulers",
        headings=["scheduler", *FIRST, f"income ({choices.currency})"],
        rows=rows,
        note=f"{_INTERVALS} Income: {_rate(choices)}, and "
        f"{advice.deadline_price:,.4g} for a QoS charge of 1, which a deadline that is missed "
        "costs the centre. Later than asked: the user takes an offer, with the tolerance that "
        "the scheduler's options say. Utilization: while jobs were submitted."
        + (f" In --against, {options}." if options else ""),
    )


def earliness_tables(advice: Advice) -> list[PageTable]:
    """Return the earliest promises, by processors and by category."""
    names = [f"{quantile:.0%}" for quantile in QUANTILES]
    tables = []
    for by_processors, title in ((True, "processors"), (False, "walltime and processors")):
        rows = [
            [each.group, f"{each.jobs:,}", f"{each.at_once:.1f}"]
            + [hours(value) for value in (*each.responses, *each.delays[1:4:2])]
            for each in earliness(advice.promises, by_processors=by_processors)
        ]
        classes = "" if by_processors else f" Classes: {CLASSES.format('walltime')}"
        tables.append(
            PageTable(
                title=f"Earliest promise by class of {title}",
                headings=["class", "jobs", "at once (%)"]
                + [f"{each} (h)" for each in names]
                + [f"delay {each} (h)" for each in (names[1], names[3])],
                rows=rows,
                note="Hours from the submission to the earliest end that could be promised then, "
                "given all that had been promised before: so many of the jobs, or more, could be "
                "promised that or better. Delay: what it has beyond the job's own estimate."
                + classes,
            )
        )
    return tables


def categories_table(advice: Advice) -> PageTable:
    """Count the refused jobs by category."""
    groups = advice.groups(advice.choices.chosen)
    easy = advice.groups(advice.choices.easy())
    rows = [
        [
            name,
            f"{group.jobs:,}",
            f"{group.promised:,}",
            f"{group.refused:,}",
            f"{100 * group.refused / group.jobs:.1f}",
            f"{group.refused_work / HOUR:,.0f}",
            f"{easy[name].missed:,}",
        ]
        for name in Categories().labels()
        if (group := groups.get(name)) is not None
    ]
    return PageTable(
        title="Deadlines by category",
        headings=[
            "category",
            "asked",
            "promised",
            "refused",
            "refused (%)",
            "core-hours refused",
            "missed by EASY",
        ],
        rows=rows,
        note=f"Categories of Islam et al. (2004): {CLASSES.format('run time')}",
    )


def queues_table(advice: Advice) -> PageTable | None:
    """Count the refused jobs by queue or partition; None where the trace tells none."""
    runs = advice.of(advice.choices.chosen)
    names = sorted({name for run in runs for name in run.queues})
    if names in ([], ["-"]):
        return None
    rows = []
    for name in names:
        group = add_up(run.queues[name] for run in runs if name in run.queues)
        share = 100 * group.refused / group.jobs
        rows.append([name, f"{group.jobs:,}", f"{group.refused:,}", f"{share:.1f}"])
        rows[-1].append(f"{group.refused_work / HOUR:,.0f}")
    headings = ["queue", "asked", "refused", "refused (%)", "core-hours refused"]
    return PageTable(title="Deadlines by queue or partition", headings=headings, rows=rows)


def refusals_table(advice: Advice) -> PageTable | None:
    """Return the largest of the refused jobs, as the trace calls them."""
    refusals = [each for run in advice.of(advice.choices.chosen) for each in run.refusals]
    largest = sorted(refusals, key=lambda each: -each.work)[:MOST_REFUSALS]
    if not largest:
        return None
    calendar = advice.prepared.workload.calendar
    rows = [
        [
            each.id,
            f"{each.submission:,.0f} s" if calendar is None else calendar.text(each.submission),
            each.user,
            each.queue,
            f"{each.processors:,}",
            hours(each.estimate),
            f"{each.work / HOUR:,.0f}",
            _why(each.refusal),
        ]
        for each in largest
    ]
    headings = [
        "job",
        "submitted",
        "user",
        "queue",
        "processors",
        "estimate (h)",
        "core-hours",
        "reason",
    ]
    # Not every trace tells users and queues.
    told = [at for at in range(len(headings)) if any(row[at] for row in rows)]
    return PageTable(
        title="The largest refused jobs",
        headings=[headings[at] for at in told],
        rows=[[row[at] for at in told] for row in rows],
        note="By the core-hours that they would have used.",
    )


def _why(refusal: Refusal) -> str:
    """Return the reason of a refusal, with the trace's id of the job that stood in the way."""
    if refusal.kind is RefusalKind.OTHER_DEADLINE and refusal.blamed is not None:
        return f"the promise to {refusal.blamed.partition('!')[2]} would be broken"
    return WORDS[reason_of(refusal)]


def reasons_table(advice: Advice) -> PageTable:
    """Count the reasons of refusals."""
    counts = advice.counts(advice.choices.chosen)
    rows = [
        [WORDS[kind], f"{found:,}", f"{100 * found / counts.refused:.1f}"]
        for kind in REASONS
        if (found := counts.reasons.get(kind, 0))
    ]
    return PageTable(
        title="Why jobs are refused",
        headings=["reason", "jobs", "share (%)"],
        rows=rows,
        note="The last obstacle that the search has met, not a proof.",
    )


def charges_table(advice: Advice) -> PageTable:
    """Return the charges of jobs, by category."""
    choices, price = advice.choices, advice.deadline_price
    chosen, easy = advice.of(choices.chosen), advice.of(choices.easy())
    rows = []
    for places, name in [
        *(([i], label) for i, label in enumerate(Categories().labels())),
        (range(len(Categories().labels())), "total"),
    ]:
        ours = [run.charges[place] for run in chosen for place in places]
        theirs = [run.charges[place] for run in easy for place in places]
        charged = sum(each.charged_jobs for each in ours)
        if not sum(each.jobs for each in ours):
            continue
        work = sum(each.charge.resource for each in ours) / HOUR
        qos = sum(each.charge.qos for each in ours)
        penalty = sum(each.penalty for each in theirs)
        rows.append(
            [
                name,
                f"{charged:,}",
                f"{work:,.0f}",
                f"{choices.rate * work:,.2f}",
                f"{qos:,.2f}",
                f"{price * qos:,.2f}",
                f"{price * qos / charged:,.4g}" if charged else "-",
                f"{price * penalty:,.2f}",
            ]
        )
    money = choices.currency
    return PageTable(
        title=f"What jobs pay under {choices.scheduler.name}",
        headings=[
            "category",
            "jobs",
            "core-hours",
            f"resources ({money})",
            "QoS charge",
            f"deadlines ({money})",
            f"a deadline ({money})",
            f"missed by EASY ({money})",
        ],
        rows=rows,
        note=f"Resources: {_rate(choices)}; QoS charge (Islam et al. 2004): mean slowdown "
        "of the category under EASY / slowdown that the promise grants, at "
        f"{price:,.4g} {money} for 1. The last column: what the deadlines that EASY misses would "
        "have brought.",
    )


def loads_table(advice: Advice) -> PageTable:
    """Return the measures by load."""
    choices = advice.choices
    rows = []
    for load in sorted(choices.loads):
        for name, case in (
            ("EASY", choices.easy(load=load)),
            (choices.scheduler.name, choices.case(load=load, promises=load == 1)),
        ):
            rows.append([f"{load:g}", name, *_measures(advice, case)])
    note = "Load 1 is the trace; at 1.2 a fifth of its jobs, drawn at random, come twice."
    headings = ["load", "scheduler", *MEASURES]
    return PageTable(title="Load", headings=headings, rows=rows, note=f"{note} {_INTERVALS}")


def other_tables(advice: Advice) -> tuple[PageTable, PageTable]:
    """Return the measures by exactness of estimates, and by strictness of deadlines."""
    choices, rows = advice.choices, []
    both = choices.case(estimates=EXACT, deadlines_by=EXACT)
    for text, case in (
        ("the users' own", choices.chosen),
        ("exact, the same deadlines", choices.case(estimates=EXACT)),
        ("exact, deadlines by them as well", both),
    ):
        rows.append([text, *_measures(advice, case)])
    estimates = PageTable(
        title="How exact the estimates are",
        headings=["estimates", *MEASURES],
        rows=rows,
        note=f"A promise cannot be earlier than the walltime that the user gave. {_INTERVALS}",
    )
    rows = []
    for value in sorted({choices.stringency, *choices.stringencies}, reverse=True):
        for name, case in (
            ("EASY", choices.easy(stringency=value)),
            (
                choices.scheduler.name,
                choices.case(stringency=value, promises=value == choices.stringency),
            ),
        ):
            rows.append([factor_text(value), name, *_measures(advice, case)])
    for name, case in (
        ("EASY", choices.easy(share=FEW)),
        (choices.scheduler.name, choices.case(share=FEW)),
    ):
        text = f"{factor_text(choices.stringency)}, {FEW:.0%} of users ask"
        rows.append([text, name, *_measures(advice, case)])
    stringencies = PageTable(
        title="What users ask for",
        headings=["response asked for", "scheduler", *MEASURES],
        rows=rows,
        note="Response under EASY: the wait in a simulation with EASY + the estimate. Users never "
        f"ask for an end before their estimate has passed. {_INTERVALS}",
    )
    return estimates, stringencies
