"""Tables of what was read of a trace, and of what its users got."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from qops_batsim.advice.advise import HOUR, Advice, promised, utilization
from qops_batsim.advice.settings import SIZES, hours
from qops_batsim.economics.charges import PROCESSOR_CLASSES, Categories
from qops_batsim.experiments.page import PageTable
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.repairs import DONE


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
