"""Report on a journal: promises kept, and what the embedded engine would have done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from qops_batsim.jobs import COMPLETED_KILLED, QOS_REJECTED
from qops_batsim.live.as_run import platform_of
from qops_batsim.live.book import WORKLOAD, LiveBook
from qops_batsim.live.fates import Fate, FateCounts, count_fates, decided_fates
from qops_batsim.live.journal import About, JobRun, Journal
from qops_batsim.live.manager import JobPhase, SeenJob
from qops_batsim.platform.platform_model import Platform
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
    options = about.options if scheduler is None else settings or {}
    entries = journal.entries()
    seen = [job for job, _ in journal.seen()]
    workload = seen_workload(about, seen, entries, run_times or {}, str(journal.path))
    embedded = embedded_fates(workload, make_scheduler(name, options), platform_of(about))
    # Under its own decisions, as in a shadow: what it was told to do is none of these.
    managed = None if about.mode == "live" else _managed(about, seen)

    waits = [
        run.answered - run.submitted
        for run in entries
        if run.answered is not None and run.number == 0 and run.asked is not None
    ]
    notes = journal.count_notes()
    return LiveReport(
        jobs=len(workload.jobs),
        decided=count_fates(decided_fates(entries).values(), about.grace),
        manager=None if managed is None else count_fates(managed.values(), about.grace),
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
        fate.end = job.end if ran and job.outcome != COMPLETED_KILLED else None
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
    known = dict(run_times)
    for job in seen:
        if job.submitted >= about.origin:
            first.setdefault(job.id, job)
        if job.phase is JobPhase.ENDED and job.start is not None and job.end is not None:
            known.setdefault(job.id, job.end - job.start)

    firsts = {run.job: run for run in reversed(entries) if run.is_ours}
    runs = []
    for job in first.values():
        run = firsts.get(job.id) or book.new_entry(job, job.submitted)
        if run.deadline is None or run.deadline >= 0:
            asked = msgspec.structs.replace(run, deadline=run.asked)
            runs.append((asked, job.id, known.get(job.id, job.limit or 0.0)))
    runs.sort(key=lambda run: run[0].submitted)
    return book.workload_of(runs, source)


def embedded_fates(
    workload: Workload, module: SchedulerModule, platform: Platform | None = None
) -> dict[str, Fate]:
    """Simulate a workload with a scheduler; return how each job's deadline fared."""
    if not workload.jobs:
        return {}
    simulation = simulate(module, workload, platform, allow_smaller_machine=True)
    ended = {job.job.id.partition("#")[0]: job for job in simulation.ended}
    decisions = module.qos_log.decisions()

    fates: dict[str, Fate] = {}
    for job in workload.jobs:
        if job.qos is None or job.qos.deadline is None:
            continue
        run = f"{WORKLOAD}!{job.id}"
        fate = Fate(job.qos.deadline)
        fates[job.id] = fate
        if decisions.get(run) == QOS_REJECTED:
            fate.answer = "refused"
            continue

        fate.promise = module.qos_log.record(run).admitted_deadline
        fate.answer = "promised" if fate.promise is not None else ""
        if run in ended and ended[run].state != COMPLETED_KILLED:
            fate.end = ended[run].finish
    return fates
