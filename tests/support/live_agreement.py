"""Oracle of live decisions: the embedded engine, told the same at the same dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from qops_batsim import Job
from qops_batsim.jobs import COMPLETED_KILLED
from qops_batsim.live import JobRun, Journal, decided_fates
from qops_batsim.live.journal_report import embedded_fates, seen_workload
from qops_batsim.protocol import JobCompleted, SchedulerModule, make_scheduler


class Agreement(NamedTuple):
    """Jobs that got an answer here and there, and those of them that got the same one.

    ``told_the_same``: by the embedded engine that was told of submissions and ends when the
    deciding process was, so that what Slurm takes to start a job and to tell its end is part of its
    run time. ``by_dates``: with Slurm's own dates of submission and run times.
    """

    compared: int
    told_the_same: int
    by_dates: int


def agreement(journal: Journal, run_times: Mapping[str, float] | None = None) -> Agreement:
    """Return how far the embedded engine answers as was answered."""
    about, entries = journal.begun, journal.entries()
    seen, decided = [job for job, _ in journal.seen()], decided_fates(entries)
    source, run_times = str(journal.path), run_times or {}

    def module() -> SchedulerModule:
        return make_scheduler(about.scheduler, about.options)

    embedded = embedded_fates(seen_workload(about, seen, entries, run_times, source), module())
    both = [job for job, fate in decided.items() if fate.answer and job in embedded]
    told, occupied = told_dates(journal, entries, run_times)
    late = seen_workload(about, seen, told, occupied, source)
    submitted = {each.job: each.submitted - about.origin for each in reversed(entries)}
    as_told = embedded_fates(late, _told_late(module(), submitted))
    same = (
        sum(decided[job].answer == found[job].answer for job in both)
        for found in (as_told, embedded)
    )
    return Agreement(len(both), *same)


def told_dates(
    journal: Journal, entries: Sequence[JobRun], run_times: Mapping[str, float]
) -> tuple[list[JobRun], dict[str, float]]:
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


def _told_late(module: SchedulerModule, submitted: Mapping[str, float]) -> SchedulerModule:
    """Return the same scheduler, whose news of submissions is late: they were at these dates."""
    assert isinstance(module, SchedulerModule)

    class Late(SchedulerModule):
        def submitted(self, job: Job) -> None:
            date = submitted[job.id.partition("!")[2].partition("#")[0]]
            super().submitted(
                Job(job.id, date, job.processors, job.profile, walltime=job.walltime, qos=job.qos)
            )

    kind = type(module.scheduler)
    return Late(kind(module.options))
