"""Report of a journal: what was promised and kept, and whether the embedded engine agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError
from qops_batsim.jobs import COMPLETED_KILLED, QOS_REJECTED, Job
from qops_batsim.live.book import PROFILE, WORKLOAD, Book
from qops_batsim.live.fates import Fate, Tally, decided_fates, tally
from qops_batsim.live.journal import About, Entry, Journal
from qops_batsim.live.manager import JobPhase, SeenJob
from qops_batsim.protocol.events import JobCompleted
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.plugins import scheduler_of_data
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.timing import SHORTEST
from qops_batsim.workload.model import Workload, delay_profile, read_jobs


class LiveReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a journal; durations in seconds.

    Attributes
    ----------
    decided
        What was decided, and came of it; in a shadow, what would have come of it.
    manager
        What the resource manager made of the same jobs by itself; None where it did not decide.
    embedded
        What the same scheduler decides on the embedded engine, with the run times that came out.
    compared
        Jobs that got an answer here and there.
    agreeing
        Those that got the same from the embedded engine that was told of submissions and ends when
        the deciding process was: what Slurm takes to start a job and to tell its end is part of its
        run time then.
    agreeing_by_dates
        Those that got the same with Slurm's own dates of submission and run times.
    told_after
        Median and longest time from submission to the answer, as (median, longest).
    """

    jobs: int
    decided: Tally | None
    manager: Tally | None
    embedded: Tally | None
    compared: int = 0
    agreeing: int = 0
    agreeing_by_dates: int = 0
    told_after: tuple[float, float] | None = None
    alarms: int = 0
    outages: int = 0


def report(
    journal: Journal,
    scheduler: str | None = None,
    settings: Mapping[str, Any] | None = None,
    run_times: Mapping[str, float] | None = None,
) -> LiveReport:
    """Return the report of a journal.

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
    if not name:
        raise InputError(f"{journal.path}: only watches; the scheduler to ask is expected")
    entries = journal.entries()
    seen = [job for job, _ in journal.seen()]
    decided = decided_fates(entries)
    workload = seen_workload(about, seen, entries, run_times or {}, str(journal.path))
    embedded = embedded_fates(about, workload, name, options)
    both = [job for job, fate in decided.items() if fate.answer and job in embedded]
    if both:
        told, occupied = told_dates(journal, entries, run_times or {})
        late = seen_workload(about, seen, told, occupied, str(journal.path))
        submitted = {each.job: each.submitted - about.origin for each in reversed(entries)}
        as_told = embedded_fates(about, late, name, options, submitted)
        agreeing = sum(decided[job].answer == as_told[job].answer for job in both)
    else:
        agreeing = 0
    by_dates = sum(decided[job].answer == embedded[job].answer for job in both)
    waits = [
        each.answered - each.submitted
        for each in entries
        if each.answered is not None and each.number == 0 and each.asked is not None
    ]
    notes, managed = journal.count_notes(), _managed(about, seen).values()
    return LiveReport(
        jobs=len(workload.jobs),
        decided=tally(decided.values(), about.grace) if entries else None,
        manager=None if about.mode == "live" else tally(managed, about.grace),
        embedded=tally(embedded.values(), about.grace),
        compared=len(both),
        agreeing=agreeing,
        agreeing_by_dates=by_dates,
        told_after=(float(np.median(waits)), max(waits)) if waits else None,
        alarms=notes.get("alarm", 0),
        outages=notes.get("outage", 0) // 2,
    )


def _managed(about: About, seen: Sequence[SeenJob]) -> dict[str, Fate]:
    """Return what the resource manager made of the jobs by itself."""
    book = Book(about)
    fates: dict[str, Fate] = {}
    for job in seen:
        asked = book.deadline_of(job)
        if asked is None:
            continue
        fate = fates.setdefault(job.id, Fate(asked))
        ran = job.phase is JobPhase.ENDED and job.start is not None
        fate.end = job.end if ran and job.outcome != "COMPLETED_KILLED" else None
    return fates


def told_dates(
    journal: Journal, entries: Sequence[Entry], run_times: Mapping[str, float]
) -> tuple[list[Entry], dict[str, float]]:
    """Return the runs as if submitted when that was known, and for how long each job held nodes.

    That is from the order to start until its end was known (seconds); for a job that held none, the
    run time that is known otherwise, and as much more as is usual. Whole milliseconds: what came
    with one poll is of one date.
    """
    origin = journal.begun.origin

    def date(seconds: float) -> float:
        return round(seconds, 3)

    ends = {
        each.body.job_id: date(message.now)
        for _, message, _ in journal.messages()
        for each in message.events
        if isinstance(each.body, JobCompleted)
    }
    occupied = {
        each.job: round(ends[each.run] - date(each.ordered - origin), 3)
        for each in entries
        if each.ordered is not None and each.run in ends and each.outcome != COMPLETED_KILLED
    }
    longer = [occupied[job] - run_times[job] for job in occupied if job in run_times]
    usual = float(np.median(longer)) if longer else 0.0
    occupied = {job: run_time + usual for job, run_time in run_times.items()} | occupied
    told = [
        msgspec.structs.replace(each, submitted=origin + date(each.known - origin))
        for each in entries
    ]
    return told, occupied


def seen_workload(
    about: About,
    seen: Sequence[SeenJob],
    entries: Sequence[Entry],
    run_times: Mapping[str, float],
    source: str,
) -> Workload:
    """Return the jobs that were submitted, with their run times as far as they are known.

    Else a job is taken to run until its limit.
    """
    book = Book(about)
    first: dict[str, SeenJob] = {}
    known: dict[str, float] = dict(run_times)
    for job in seen:
        if job.submitted >= about.origin:
            first.setdefault(job.id, job)
        if job.phase is JobPhase.ENDED and job.start is not None and job.end is not None:
            known.setdefault(job.id, job.end - job.start)
    firsts = {each.job: each for each in reversed(entries) if each.is_ours}
    jobs, profiles = [], {}
    for job in first.values():
        entry = firsts.get(job.id) or book.new_entry(job, job.submitted)
        if entry.deadline is not None and entry.deadline < 0:
            continue
        asked = msgspec.structs.replace(entry, deadline=entry.asked)
        name, profile = delay_profile(max(known.get(job.id, job.limit or 0.0), SHORTEST))
        profiles[name] = profile
        jobs.append({**book.job_of(asked).fields, "id": job.id, "profile": name})
    jobs.sort(key=lambda fields: fields["subtime"])
    found = read_jobs(jobs, profiles, source)
    return Workload(found, profiles or {PROFILE: {}}, len(about.nodes), {}, source)


def embedded_fates(
    about: About,
    workload: Workload,
    scheduler: str,
    options: Mapping[str, Any],
    submitted: Mapping[str, float] | None = None,
) -> dict[str, Fate]:
    """Return what the scheduler decides about the jobs on the embedded engine.

    It is told of them when the workload says, as if they were ``submitted`` before (seconds since
    the origin), if that is given.
    """
    if not workload.jobs:
        return {}
    module = make_scheduler(scheduler, options)
    if submitted is not None:
        module = _told_late(module, submitted)
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
        fate.end = None if refused or ended is None else ended.finish
    return fates


def _told_late(module: DecisionModule, submitted: Mapping[str, float]) -> DecisionModule:
    """Return the same scheduler, whose news of submissions is late: they were at these dates."""
    kind = type(module)

    class Late(kind):  # type: ignore[valid-type,misc]
        def submitted(self, job: Job) -> None:
            date = submitted[job.id.partition("!")[2].partition("#")[0]]
            super().submitted(
                Job(job.id, date, job.processors, job.profile, walltime=job.walltime, qos=job.qos)
            )

    late: DecisionModule = Late(module.options)
    return late
