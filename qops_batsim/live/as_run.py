"""A journal as a run: files that `metrics`, `verify`, `explain` and `charges` read.

Dates are Slurm's own where it told them. The workload next to them has the run times that came out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.dates import Calendar
from qops_batsim.engine.ended_jobs import EndedJobs
from qops_batsim.engine.engine_options import ExternalEvent, outages_of
from qops_batsim.engine.outputs import format_jobs
from qops_batsim.file_set import run_files
from qops_batsim.jobs import COMPLETED_KILLED, FINAL_STATES, REJECTED
from qops_batsim.live.book import WORKLOAD, LiveBook
from qops_batsim.live.centre import replay
from qops_batsim.live.fates import decided_fates
from qops_batsim.live.journal import JobRun, Journal
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.events import JOB_CANCELLED, MACHINES_AWAY, MACHINES_BACK, Notify
from qops_batsim.protocol.port import make_scheduler
from qops_batsim.running.simulate import publish_run
from qops_batsim.schedulers.loading.plugins import AllowedCode, scheduler_of_data
from qops_batsim.tables import Words
from qops_batsim.timing import ROUND_TRIPS, SHORTEST
from qops_batsim.workload.batsim_json import format_workload
from qops_batsim.workload.workload_model import Workload, delay_profile


def export_run(journal: Journal, prefix: Path, *, code: AllowedCode = ()) -> list[Path]:
    """Write a run's files, named PREFIX_…, for the ended and refused jobs of a live journal.

    The scheduler decides once more, to fill the decision log. If it is defined in a file,
    ``code`` must allow that file to run. Returns the paths written.
    """
    about = journal.begun
    module = make_scheduler(scheduler_of_data(about.scheduler, code), about.options)
    module.keep_decisions()
    replay(ModuleDriver(module, any_engine=True), journal)
    entries = [each for each in journal.entries() if each.phase == "gone" and each.is_ours]
    # What waits and runs is in no file of a run.
    over = {each.run for each in entries}
    log, book = module.qos_log, LiveBook(about)
    log.jobs[:] = [job for job in log.jobs if job.id in over]
    for each in entries:
        if each.is_untold:
            log.jobs.append(book.job_of(each))
            log.rejected.append(each.run)
            log.record(each.run).reason = each.reason
    judged = {each.run: each.promise for each in decided_fates(journal.entries()).values()}
    text = format_workload(ended_workload(journal, entries, judged))
    (path := Path(f"{prefix}_workload.json")).write_text(text)
    events, cancelled = _events(journal)
    description: dict[str, Any] = {
        "scheduler": about.scheduler,
        "options": about.options,
        "workload": str(path),
        "platform": None,
        "hosts": len(about.nodes),
        "compute_sharing": False,
        "dynamic_jobs": True,
        "message_delays": True,
        "round_trip": about.grace / ROUND_TRIPS,
        "outages": msgspec.to_builtins(outages_of(events, len(about.nodes))),
        "cancellations": cancelled,
        "cut_off": [
            each.run for each in entries if each.outcome == COMPLETED_KILLED and not each.is_victim
        ],
        "judged": {
            run.partition("#")[0]: None if date is None else date - about.origin
            for run, date in judged.items()
            if run in over
        },
        "calendar": msgspec.to_builtins(Calendar(about.origin, about.time_zone)),
        "engine": about.mode,
        "sha256": {"workload": hashlib.sha256(text.encode()).hexdigest()},
    }
    with run_files(prefix, lasting=False) as files:
        with files.open("_jobs.csv") as stream:
            stream.write(format_jobs(_ended(journal, entries)).encode())
        return publish_run(files, module, about.scheduler, description)


def _events(journal: Journal) -> tuple[list[ExternalEvent], dict[str, float]]:
    """Return when nodes left and returned, and by run, when waiting jobs were withdrawn (s)."""
    events, cancelled = [], {}
    for _, told, _ in journal.messages():
        for each in told.events:
            body = each.body
            if not isinstance(body, Notify):
                continue
            if body.type == JOB_CANCELLED:
                cancelled[str(body.fields["job_id"])] = told.now
            elif body.type in (MACHINES_AWAY, MACHINES_BACK):
                hosts = HostSet.parse(str(body.fields["resources"]))
                events.append(ExternalEvent(told.now, body.type.removeprefix("event_"), hosts, {}))
    return events, cancelled


def has_run(entry: JobRun) -> bool:
    """Return whether a job's run has begun and ended."""
    return entry.ordered is not None and entry.outcome not in ("", REJECTED)


def _dates(entry: JobRun) -> tuple[float, float]:
    """Return a run's start and end (seconds since 1970), the best known dates if one is missing."""
    start = entry.start or entry.ordered or entry.known
    return start, max(entry.end or start, start)


def _ended(journal: Journal, entries: Sequence[JobRun]) -> EndedJobs:
    """Return the ended and refused jobs in the columns that the embedded engine writes to files."""
    about = journal.begun
    places = {name: place for place, name in enumerate(about.nodes)}
    dates = [_dates(each) if has_run(each) else (np.nan, np.nan) for each in entries]
    states = [each.outcome if has_run(each) else REJECTED for each in entries]
    limits = [-1.0 if each.limit is None else each.limit + about.margin for each in entries]
    starts, ends = np.array(dates, float).reshape(-1, 2).T - about.origin
    count = len(entries)
    return EndedJobs(
        ids=[each.run.partition("!")[2] for each in entries],
        workloads=Words.one(WORKLOAD, count),
        profiles=Words.of([delay_profile(_run_time(each))[0] for each in entries]),
        submission_times=np.array([each.submitted - about.origin for each in entries], float),
        processors=np.array([each.nodes for each in entries], np.int64),
        walltimes=np.array(limits, float),
        states=np.array([FINAL_STATES.index(state) for state in states], np.int8),
        starts=starts,
        finishes=ends,
        hosts=HostIntervals.of(
            [
                HostSet.of(places[name] for name in each.hosts) if has_run(each) else HostSet()
                for each in entries
            ]
        ),
        energy=np.full(count, -1.0),
        metadata=None,
    )


def _run_time(entry: JobRun) -> float:
    """Return how long a job's run took (seconds), or the job's time limit if it never ran."""
    if not has_run(entry):
        return entry.limit or SHORTEST
    start, end = _dates(entry)
    return max(end - start, SHORTEST)


def ended_workload(
    journal: Journal, entries: Sequence[JobRun], judged: Container[str] = ()
) -> Workload:
    """Return the ended jobs as a workload with the run times that they really had.

    Runs named in ``judged`` get the deadline that their user asked for, even if it was given
    up.
    """
    about = journal.begun
    runs = [
        (
            msgspec.structs.replace(each, deadline=each.asked) if each.run in judged else each,
            each.run.partition("!")[2],
            _run_time(each),
        )
        for each in entries
        if "#" not in each.run  # Else the same job again, which the scheduler had killed.
    ]
    made_of = {"step": "live journal", "scheduler": about.scheduler}
    workload = LiveBook(about).workload_of(runs, str(journal.path), made_of)
    workload.calendar = Calendar(about.origin, about.time_zone)
    return workload
