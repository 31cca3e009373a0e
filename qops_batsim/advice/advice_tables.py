"""The tables of advice on a trace: the trace itself, what its users got, and what was found."""

from __future__ import annotations

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
from qops_batsim.advice.recommendations import (
    QUANTILES,
    SIZES,
    earliness,
    factor_text,
    hours,
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
from qops_batsim.economics.charges import PROCESSOR_CLASSES, Categories
from qops_batsim.experiments.page import PageTable
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.workload.conversion import DONE
from qops_batsim.workload.delay_jobs import run_times_until_killed


def read_facts(advice: Advice) -> dict[str, str]:
    """Return what was read, as facts."""
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
    if trace.offered_load is not None:
        facts["offered load"] = f"{trace.offered_load:.3f} of what the machine can do"
    return facts


def repairs_table(advice: Advice) -> PageTable | None:
    """Return what was left out or changed of the trace, None if nothing was."""
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


def users_table(advice: Advice) -> PageTable:
    """Return the waits in the log, if it tells them, and under EASY in the windows."""
    categories, size = Categories(), len(PROCESSOR_CLASSES)
    labels = categories.labels()
    told: dict[str, list[float]] = {name: [] for name in PROCESSOR_CLASSES}
    work = dict.fromkeys(PROCESSOR_CLASSES, 0.0)
    workload = advice.trace.workload
    for job, wait, run_time in zip(
        workload.jobs,
        advice.trace.records["wait_time"].tolist(),
        run_times_until_killed(workload),
        strict=True,
    ):
        name = PROCESSOR_CLASSES[labels.index(categories.label(run_time, job.processors)) % size]
        told[name].append(wait)
        work[name] += run_time * job.processors / HOUR
    easy: dict[str, list[float]] = {name: [] for name in PROCESSOR_CLASSES}
    for run in advice.of(advice.choices.easy()):
        for label, waits in run.waits.items():
            easy[PROCESSOR_CLASSES[labels.index(label) % size]] += waits
    for each in (told, easy):
        each["all"] = [wait for waits in each.values() for wait in waits]
    work["all"] = sum(work.values())
    rows = [
        [
            SIZES.get(name, name),
            f"{len(waits):,}",
            f"{work[name]:,.0f}",
            *_waits(waits),
            *_waits(easy[name]),
        ]
        for name, waits in told.items()
        if waits
    ]
    parts = [f"{who} {q:.0%} (h)" for who in ("log", "EASY") for q in (0.5, 0.9)]
    return PageTable(
        title="Waits by class of processors",
        headings=["processors", "jobs", "core-hours", *parts],
        rows=rows,
        note="The wait that half and nine tenths of the jobs did not exceed: in the log, with the "
        "site's own policies, and in the windows simulated with EASY backfilling.",
    )


def _waits(waits: list[float]) -> list[str]:
    known = [each for each in waits if each >= 0]
    if not known:
        return ["-", "-"]
    values = np.quantile(known, (0.5, 0.9), method="inverted_cdf").tolist()
    return [hours(value) for value in values]


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
    """Return what a core-hour costs, in words that make sense without a currency, too."""
    if choices.currency == "core-h" and choices.rate == 1:
        return "the core-hours used (--rate and --currency set a price)"
    return f"{choices.rate:g} {choices.currency} a core-hour"


def first_table(advice: Advice) -> PageTable:
    """Return the schedulers side by side."""
    choices = advice.choices
    cases = {"EASY": choices.easy(), choices.scheduler.name: choices.chosen}
    cases |= {each.name: choices.of(each) for each in choices.compared}
    rows = []
    for name, case in cases.items():
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
        "the scheduler's options say. Utilization: while jobs were submitted.",
    )


def earliness_tables(advice: Advice) -> list[PageTable]:
    """Return how early ends could be promised, by processors and by category."""
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
    """Return who is refused, by category."""
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
    """Return who is refused, by queue or partition; None where the trace tells none."""
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
    """Return why a job was refused, with the trace's id of the one that stood in the way."""
    if refusal.kind is RefusalKind.OTHER_DEADLINE and refusal.blamed is not None:
        return f"the promise to {refusal.blamed.partition('!')[2]} would be broken"
    return WORDS[reason_of(refusal)]


def reasons_table(advice: Advice) -> PageTable:
    """Return why jobs are refused."""
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
    """Return what jobs pay, by category."""
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
    """Return how the load changes things."""
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
    """Return how estimates change things, and how strictness and who asks do."""
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
