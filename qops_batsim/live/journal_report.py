"""Report on a journal: promises kept, and what the embedded engine would have done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from qops_batsim.jobs import COMPLETED_KILLED, QOS_REJECTED
from qops_batsim.live.book import WORKLOAD, LiveBook
from qops_batsim.live.fates import Fate, FateCounts, count_fates, decided_fates
from qops_batsim.live.journal import About, JobRun, Journal
from qops_batsim.live.manager import JobPhase, SeenJob
from qops_batsim.protocol.port import SchedulerModule, make_scheduler
from qops_batsim.running.simulate import simulate
from qops_batsim.schedulers.loading.plugins import scheduler_of_data
from qops_batsim.workload.workload_model import Workload


class LiveReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the deadlines in a live journal fared, live and simulated; durations are in seconds.

    Attributes
    ----------
    decided
        What was decided, and came of it; in a shadow, what would have come of it.
    manager
        What the resource manager made of the same jobs by itself; None where it did not decide.
    embedded
        What the same scheduler decides on the embedded engine, with the run times that came out.
    told_after
        Median and longest time from submission to the answer, as (median, longest).
    """

    jobs: int
    decided: FateCounts
    manager: FateCounts | None
    embedded: FateCounts
    told_after: tuple[float, float] | None = None
    alarms: int = 0
    outages: int = 0


def report(
    journal: Journal,
    scheduler: str | None = None,
    settings: Mapping[str, Any] | None = None,
    run_times: Mapping[str, float] | None = None,
) -> LiveReport:
    """Report how a journal's deadlines fared, and how a simulation of the same jobs does.

    Parameters
    ----------
    scheduler, settings
        What decides on the embedded engine. Default: what the journal was begun with, unless that
        lies in a file, which who asks has to name.
    run_times
        Run times of jobs that are known otherwise (seconds), as those of refused ones.
    """
    about = journal.begun
    name = scheduler or scheduler_of_data(about.scheduler, ())
    options = dict(about.options if scheduler is None else settings or {})
    entries = journal.entries()
    seen = [job for job, _ in journal.seen()]
    decided = decided_fates(entries)
    workload = seen_workload(about, seen, entries, run_times or {}, str(journal.path))
    embedded = embedded_fates(workload, make_scheduler(name, options))
    waits = [
        each.answered - each.submitted
        for each in entries
        if each.answered is not None and each.number == 0 and each.asked is not None
    ]
    notes, managed = journal.count_notes(), _managed(about, seen).values()
    return LiveReport(
        jobs=len(workload.jobs),
        decided=count_fates(decided.values(), about.grace),
        manager=None if about.mode == "live" else count_fates(managed, about.grace),
        embedded=count_fates(embedded.values(), about.grace),
        told_after=(float(np.median(waits)), max(waits)) if waits else None,
        alarms=notes.get("alarm", 0),
        outages=notes.get("outage", 0) // 2,
    )


def _managed(about: About, seen: Sequence[SeenJob]) -> dict[str, Fate]:
    """Return how each job's deadline fared under the resource manager's own decisions."""
    book = LiveBook(about)
    fates: dict[str, Fate] = {}
    for job in seen:
        asked = book.deadline_of(job)
        if asked is None:
            continue
        fate = fates.setdefault(job.id, Fate(asked))
        ran = job.phase is JobPhase.ENDED and job.start is not None
        fate.end = job.end if ran and job.outcome != "COMPLETED_KILLED" else None
    return fates


def seen_workload(
    about: About,
    seen: Sequence[SeenJob],
    entries: Sequence[JobRun],
    run_times: Mapping[str, float],
    source: str,
) -> Workload:
    """Return the submitted jobs as a workload, with the run times that are known.

    A job whose run time is not known is taken to run until its limit.
    """
    book = LiveBook(about)
    first: dict[str, SeenJob] = {}
    known: dict[str, float] = dict(run_times)
    for job in seen:
        if job.submitted >= about.origin:
            first.setdefault(job.id, job)
        if job.phase is JobPhase.ENDED and job.start is not None and job.end is not None:
            known.setdefault(job.id, job.end - job.start)
    firsts = {each.job: each for each in reversed(entries) if each.is_ours}
    runs = []
    for job in first.values():
        entry = firsts.get(job.id) or book.new_entry(job, job.submitted)
        if entry.deadline is None or entry.deadline >= 0:
            asked = msgspec.structs.replace(entry, deadline=entry.asked)
            runs.append((asked, job.id, known.get(job.id, job.limit or 0.0)))
    runs.sort(key=lambda run: run[0].submitted)
    return book.workload_of(runs, source)


def embedded_fates(workload: Workload, module: SchedulerModule) -> dict[str, Fate]:
    """Simulate a workload with a scheduler; return how each job's deadline fared."""
    if not workload.jobs:
        return {}
    simulation = simulate(module, workload, allow_smaller_machine=True)
    ends = {each.job.id.partition("#")[0]: each for each in simulation.ended}
    decisions = module.qos_log.decisions()
    fates = {}
    for job in workload.jobs:
        if job.qos is None or job.qos.deadline is None:
            continue
        run = f"{WORKLOAD}!{job.id}"
        fate = fates[job.id] = Fate(job.qos.deadline)
        refused = decisions.get(run) == QOS_REJECTED
        fate.promise = None if refused else module.qos_log.record(run).admitted_deadline
        fate.answer = "refused" if refused else "promised" if fate.promise is not None else ""
        ended = ends.get(run)
        if ended is not None and not refused and ended.state != COMPLETED_KILLED:
            fate.end = ended.finish
    return fates
