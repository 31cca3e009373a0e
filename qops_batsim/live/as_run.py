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
from qops_batsim.live.journal import About, JobRun, Journal
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.platform.platform_model import Host, Platform
from qops_batsim.platform.simgrid_write import write_platform
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

    # What waits and runs is in no file of a run.
    runs = journal.entries()
    ended = [run for run in runs if run.phase == "gone" and run.is_ours]
    names = {run.run for run in ended}
    log = module.qos_log
    log.jobs[:] = [job for job in log.jobs if job.id in names]
    book = LiveBook(about)
    for run in ended:
        if run.is_untold:
            log.jobs.append(book.job_of(run))
            log.rejected.append(run.run)
            log.record(run.run).reason = run.reason

    judged = {fate.run: fate.promise for fate in decided_fates(runs).values()}
    text = format_workload(ended_workload(journal, ended, judged))
    path = Path(f"{prefix}_workload.json")
    path.write_text(text)
    events, cancelled = _events(journal)
    platform = platform_of(about)
    machine_file = None
    if platform is not None:
        machine_file = f"{prefix}_platform.xml"
        write_platform(platform, machine_file)
    description: dict[str, Any] = {
        "scheduler": about.scheduler,
        "options": about.options,
        "workload": str(path),
        "platform": machine_file,
        "hosts": len(about.nodes),
        "compute_sharing": platform is not None,
        "dynamic_jobs": True,
        "message_delays": True,
        "round_trip": about.grace / ROUND_TRIPS,
        "outages": msgspec.to_builtins(outages_of(events, len(about.nodes))),
        "cancellations": cancelled,
        "cut_off": [
            run.run for run in ended if run.outcome == COMPLETED_KILLED and not run.is_victim
        ],
        "judged": {
            name.partition("#")[0]: None if date is None else date - about.origin
            for name, date in judged.items()
            if name in names
        },
        "calendar": msgspec.to_builtins(Calendar(about.origin, about.time_zone)),
        "engine": about.mode,
        "sha256": {"workload": hashlib.sha256(text.encode()).hexdigest()},
    }
    with run_files(prefix, lasting=False) as files:
        with files.open("_jobs.csv") as stream:
            stream.write(format_jobs(_ended(journal, ended)).encode())
        return publish_run(files, module, about.scheduler, description)


def _events(journal: Journal) -> tuple[list[ExternalEvent], dict[str, float]]:
    """Return when nodes left and returned, and by run, when waiting jobs were withdrawn (s)."""
    events: list[ExternalEvent] = []
    cancelled: dict[str, float] = {}
    for _, told, _ in journal.messages():
        for stamped in told.events:
            event = stamped.body
            if not isinstance(event, Notify):
                continue
            if event.type == JOB_CANCELLED:
                cancelled[str(event.fields["job_id"])] = told.now
            elif event.type in (MACHINES_AWAY, MACHINES_BACK):
                hosts = HostSet.parse(str(event.fields["resources"]))
                kind = event.type.removeprefix("event_")
                events.append(ExternalEvent(told.now, kind, hosts, {}))
    return events, cancelled


def platform_of(about: About) -> Platform | None:
    """Return a journal's nodes as a platform, where jobs share them."""
    if not about.hosts:
        return None
    named = zip(about.nodes, about.hosts, strict=True)
    hosts = [Host(name=name, speeds=(1e9,), properties=properties) for name, properties in named]
    return Platform(compute_hosts=tuple(hosts), source="the journal")


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
    count = len(entries)
    starts = np.full(count, np.nan)
    finishes = np.full(count, np.nan)
    states = np.full(count, FINAL_STATES.index(REJECTED), np.int8)
    hosts = [HostSet()] * count
    for row, run in enumerate(entries):
        if has_run(run):
            starts[row], finishes[row] = _dates(run)
            states[row] = FINAL_STATES.index(run.outcome)
            hosts[row] = HostSet.of(places[name] for name in run.hosts)

    limits = [-1.0 if run.limit is None else run.limit + about.margin for run in entries]
    return EndedJobs(
        names=Words.of([run.run.partition("!")[2] for run in entries]),
        workloads=Words.one(WORKLOAD, count),
        profiles=Words.of([delay_profile(_run_time(run))[0] for run in entries]),
        submission_times=np.array([run.submitted - about.origin for run in entries], float),
        processors=np.array([run.nodes for run in entries], np.int64),
        walltimes=np.array(limits, float),
        states=states,
        starts=starts - about.origin,
        finishes=finishes - about.origin,
        hosts=HostIntervals.of(hosts),
        energy=np.full(count, -1.0),
        metadata=None,
    )


def _run_time(entry: JobRun) -> float:
    """Return how long a job's run took (seconds), or the job's time limit if it never ran."""
    if not has_run(entry):
        return entry.limit or SHORTEST
    start, end = _dates(entry)
    return max(end - start, SHORTEST)


def ended_workload(journal: Journal, entries: Sequence[JobRun], judged: Container[str]) -> Workload:
    """Return the ended jobs as a workload with the run times that they really had.

    Runs named in ``judged`` get the deadline that their user asked for, even if it was given
    up.
    """
    about = journal.begun
    runs = []
    for run in entries:
        if "#" in run.run:
            continue  # The same job again, which the scheduler had killed.
        asked = msgspec.structs.replace(run, deadline=run.asked) if run.run in judged else run
        runs.append((asked, run.run.partition("!")[2], _run_time(run)))
    made_of = {"step": "live journal", "scheduler": about.scheduler}
    workload = LiveBook(about).workload_of(runs, str(journal.path), made_of)
    workload.calendar = Calendar(about.origin, about.time_zone)
    return workload
