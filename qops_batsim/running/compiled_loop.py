"""Whole simulations in compiled code, where engine and scheduler are simple enough.

That is where jobs only sleep, each on hosts of its own, all hosts are always there, news takes
no time, and the scheduler is exactly one of some of ours. The schedule is the same to the byte,
and so are the logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qops_batsim.engine.simulation import Simulation
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED, Job
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.qos_log import QosLog, ToldJobs
from qops_batsim.scheduling.refusal import Refusal
from qops_batsim.scheduling.slurm.scheduler import Slurm
from qops_batsim.scheduling.table import durations_on_grid, is_kept, set_jobs
from qops_batsim.tables import Words
from qops_batsim.timing import on_grid
from qops_batsim.workload.model import Workload

if TYPE_CHECKING:
    from qops_batsim.engine.delay_jobs import DelayJobs, Outcome
    from qops_batsim.running.event_kernels import Events

AT_A_TIME = 0.05
"""After about so long progress is reported, and an interrupt is noticed (seconds of CPU)."""

CALLS = 64
"""Room for so many calls at first."""


def is_compiled(module: DecisionModule) -> bool:
    """Return whether there is a compiled loop for a scheduler."""
    return type(module) is Slurm


def run_compiled(
    simulation: Simulation,
    workload: Workload,
    driver: ModuleDriver,
    on_progress: Callable[[int], None] | None,
) -> bool:
    """Run a simulation in compiled code if that is possible; tell whether it was."""
    module = driver.module
    jobs = simulation.delay_jobs() if is_compiled(module) else None
    if jobs is None or np.isfinite(_fixed_starts(jobs)).any():
        return False
    from qops_batsim.running import event_kernels as kernels

    hosts, announces = len(simulation.hosts), simulation.options.acknowledge_dynamic_jobs
    # Each promise, and each start, leads to one more at most.
    events = _new_events(jobs, hosts, announces=announces, calls=CALLS)
    assert isinstance(module, Slurm)
    planner = _SlurmLoop(module, jobs, workload, hosts)
    messages = 20
    while True:
        events.counts[kernels.LEFT] = messages
        begin = time.thread_time()
        reason = planner.run(events)
        if reason == kernels.OVER:
            break
        if reason == kernels.FULL:
            events = kernels.with_room(events)
        else:
            if time.thread_time() - begin < AT_A_TIME:
                messages *= 2
            if on_progress is not None:
                on_progress(int(events.counts[kernels.ENDED]))
    noted = planner.log(driver.log)
    outcome = _outcome(jobs, events, noted)
    ended = len(outcome.ended) - len(outcome.jobs.restarts)
    simulation.finish(lambda: outcome, float(events.dates[0]), ended)
    _log(driver.log, workload, outcome, hosts, noted.refusals, announces=announces)
    if on_progress is not None:
        on_progress(int(events.counts[kernels.ENDED]))
    return True


def _new_events(jobs: DelayJobs, hosts: int, *, announces: bool, calls: int) -> Events:
    """Return a simulation that has not begun, with room for so many calls at first.

    What is registered again may be announced.
    """
    from qops_batsim.running.event_kernels import new_events

    return new_events(
        jobs.submission_times,
        jobs.processors,
        jobs.run_times,
        hosts,
        run_times_again=None,
        after_kill=2 if announces else 1,
        calls=calls,
    )


def _plan_jobs(jobs: DelayJobs, words: int = 0) -> Any:
    """Return the jobs as plans have them, with rows of hosts of so many words, if any."""
    from qops_batsim.scheduling.arrays import new_jobs

    made, estimates = new_jobs(len(jobs.processors), words), jobs.estimates.astype(float)
    set_jobs(
        made,
        slice(None),
        submissions=jobs.submission_times.astype(float),
        processors=jobs.processors,
        estimates=estimates,
        whole_estimates=durations_on_grid(estimates),
        limits=jobs.walltimes,
        deadlines=jobs.columns.asked("deadline")[jobs.places],
    )
    requests = jobs.columns.requests
    if requests is not None:
        made.is_kept[:] = np.array([is_kept(each) for each in requests])[jobs.places]
    made.fixed_starts[:] = _fixed_starts(jobs)
    return made


def _fixed_starts(jobs: DelayJobs) -> np.ndarray:
    """Return the starts that jobs insist on (seconds), infinite without."""
    starts: np.ndarray = jobs.columns.asked("start")[jobs.places]
    for place in np.flatnonzero(np.isfinite(starts)).tolist():
        starts[place] = on_grid(float(starts[place]))
    return starts


class _SlurmLoop:
    """The loop of ``slurm``, with its state and the jobs as they are told."""

    def __init__(self, module: Slurm, jobs: DelayJobs, workload: Workload, hosts: int) -> None:
        from qops_batsim.engine.delay_jobs import told_jobs

        self._module, self._hosts, self._jobs = module, hosts, _plan_jobs(jobs)
        self._told: dict[int, Job] = {}
        module.new_book(hosts, len(jobs.processors))
        for position, job in told_jobs(jobs, workload.jobs):
            if 1 <= job.processors <= hosts:
                module.enrol(position, job)
                self._told[position] = job

    def run(self, events: Events) -> int:
        """Go on until something is needed, and return what."""
        from qops_batsim.running import compiled

        module = self._module
        return compiled.run_slurm(events, self._hosts, module.rules, self._jobs, module.book)

    def log(self, log: QosLog) -> _Noted:
        """Return why jobs were cancelled, all that neither run nor are too wide."""
        slots = [slot for slot in self._told if self._module.book.cancel_dates[slot] >= 0]
        refusals = {slot: self._module.why_cancelled(slot, self._told[slot]) for slot in slots}
        return _Noted(refusals, {})


class _Noted(NamedTuple):
    """Reasons of refusals and metadata of jobs, by position."""

    refusals: dict[int, Refusal]
    metadata: dict[int, str]


def _outcome(jobs: DelayJobs, events: Events, noted: _Noted) -> Outcome:
    """Return what became of the jobs."""
    from qops_batsim.engine.delay_jobs import Outcome
    from qops_batsim.running import event_kernels as kernels

    ended = events.ended[: events.counts[kernels.ENDED]]
    changes = events.counts[kernels.CHANGES]
    return Outcome(
        jobs=jobs,
        ended=ended,
        starts=events.starts[: len(jobs.places)],
        finishes=events.finishes[: len(jobs.places)],
        hosts=HostIntervals(*kernels.intervals_of(events, ended)),
        change_dates=events.change_dates[:changes],
        computing=events.computing[:changes],
        metadata=noted.metadata,
    )


def _log(
    log: QosLog,
    workload: Workload,
    outcome: Outcome,
    hosts: int,
    refusals: Mapping[int, Refusal],
    *,
    announces: bool,
) -> None:
    """Log what was decided about the jobs, and say why those were rejected that were.

    ``refusals`` are by position; the others are too wide. What was registered again may have been
    announced.
    """
    jobs, name, columns = outcome.jobs, outcome.jobs.name, outcome.jobs.columns
    places = jobs.places[: jobs.submitted].tolist()
    capacity = Capacity(hosts)
    rejected: dict[str, None] = {}  # In the order in which they were.
    for index in outcome.ended[np.isnan(outcome.starts[outcome.ended])].tolist():
        job_id = f"{name}!{columns.ids[places[index]]}"
        rejected[job_id] = None
        wide = capacity.never_fits(int(outcome.jobs.processors[index]))
        refusal = refusals.get(index, wide)
        log.record(job_id).reasons = () if refusal is None else (refusal,)

    def fill(log: QosLog) -> None:
        from qops_batsim.engine.delay_jobs import told_jobs
        from qops_batsim.engine.registration import as_registered

        announced: list[Job] = []
        for position, told in told_jobs(jobs, workload.jobs):
            if position >= jobs.submitted:
                if announces:
                    announced.append(as_registered(told.id, told))
            elif announced:
                log.jobs.extend(announced)
                announced.clear()
            log.jobs.append(told)
            if told.id not in rejected:
                log.started.append(told.id)
        log.jobs.extend(announced)
        log.rejected.extend(rejected)

    def tell() -> ToldJobs:
        ids = [f"{name}!{columns.ids[place]}" for place in places]
        requests = columns.requests
        return ToldJobs(
            ids=ids,
            requests=requests and [requests[place] for place in places],
            decisions=Words(
                (QOS_ACCEPTED, QOS_REJECTED),
                np.fromiter((each in rejected for each in ids), np.int64, len(ids)),
            ),
        )

    log.fill_later(fill, tell)
