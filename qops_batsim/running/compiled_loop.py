"""Whole simulations in compiled code, where engine and scheduler are simple enough.

That is where jobs only sleep, each on hosts of its own, all hosts are always there, news takes
no time, and the scheduler is exactly one of some of ours. The schedule is the same to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from qops_batsim.engine.simulation import Simulation
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.running.compiled_admission import DEADLINE_SCHEDULERS, AdmissionLoop
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.conservative import Conservative
from qops_batsim.scheduling.driver import ModuleDriver
from qops_batsim.scheduling.easy import Easy
from qops_batsim.scheduling.fcfs import Fcfs
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.qos_log import QosLog, ToldJobs
from qops_batsim.tables import Words
from qops_batsim.workload.model import Workload

if TYPE_CHECKING:
    from qops_batsim.engine.delay_jobs import DelayJobs, Outcome
    from qops_batsim.running.event_kernels import Events
    from qops_batsim.scheduling.refusal import Refusal

MESSAGES_AT_A_TIME = 20_000
"""After so many messages progress is reported, and an interrupt is noticed."""


def is_compiled(module: DecisionModule) -> bool:
    """Tell whether there is a compiled loop for a scheduler."""
    if type(module) is Conservative:
        return module.options.reserve == "processors" and module.decision_log is None
    if type(module) in DEADLINE_SCHEDULERS:
        return module.decision_log is None
    return type(module) in (Easy, Fcfs)


def run_compiled(
    simulation: Simulation,
    workload: Workload,
    driver: ModuleDriver,
    on_progress: Callable[[int], None] | None,
) -> bool:
    """Run a simulation in compiled code if that is possible; tell whether it was."""
    if not is_compiled(driver.module):
        return False
    jobs = simulation.delay_jobs
    if jobs is None:
        return False
    from qops_batsim.running import event_kernels as kernels

    hosts = len(simulation.hosts)
    times, processors, run_times = jobs.submission_times, jobs.processors, jobs.run_times
    events = kernels.new_events(times, processors, run_times, hosts)
    loop = _loop(driver.module, jobs, hosts)
    run = loop.run if isinstance(loop, AdmissionLoop) else loop
    while True:
        events.counts[kernels.LEFT] = MESSAGES_AT_A_TIME
        said = run(events)
        if said == kernels.OVER:
            break
        if said == kernels.FULL:
            events = kernels.with_room(events)
        elif on_progress is not None:
            on_progress(int(events.counts[kernels.ENDED]))
    outcome = _outcome(jobs, events)
    simulation.finish(lambda: outcome, float(events.dates[0]), len(outcome.ended))
    refusals = loop.log(driver.log) if isinstance(loop, AdmissionLoop) else {}
    _log(driver.log, workload, outcome, hosts, refusals)
    if on_progress is not None:
        on_progress(int(events.counts[kernels.ENDED]))
    return True


def _loop(
    module: DecisionModule, jobs: DelayJobs, hosts: int
) -> AdmissionLoop | Callable[[Events], int]:
    """Return the loop of a scheduler, with the state that it keeps."""
    from qops_batsim.running import policy_kernels as policies

    count, estimates = len(jobs.processors), jobs.estimates.copy()
    policies.durations_on_grid(estimates)
    state: Any
    if type(module) is Fcfs:
        state = policies.new_fcfs_state(count, hosts)
        return lambda events: policies.run_fcfs(events, state, hosts)
    if type(module) is Easy:
        state = policies.new_easy_state(count, hosts)
        return lambda events: policies.run_easy(events, state, hosts, estimates)
    if type(module) in DEADLINE_SCHEDULERS:
        return AdmissionLoop(module, jobs, hosts, estimates)
    never = np.full(count, np.inf)
    state = policies.new_plan_state(
        hosts, jobs.processors, estimates, jobs.columns.walltimes[jobs.places], never, never
    )
    return lambda events: policies.run_conservative(events, state, hosts)


def _outcome(jobs: DelayJobs, events: Events) -> Outcome:
    """Return what became of the jobs."""
    from qops_batsim.engine.delay_jobs import Outcome
    from qops_batsim.running import event_kernels as kernels

    ended = events.ended[: events.counts[kernels.ENDED]]
    changes = events.counts[kernels.CHANGES]
    return Outcome(
        jobs=jobs,
        ended=ended,
        starts=events.starts,
        finishes=events.finishes,
        hosts=HostIntervals(*kernels.intervals_of(events, ended)),
        change_dates=events.change_dates[:changes],
        computing=events.computing[:changes],
    )


def _log(
    log: QosLog, workload: Workload, outcome: Outcome, hosts: int, refusals: Mapping[int, Refusal]
) -> None:
    """Log what was decided about the jobs, and say why those were rejected that were.

    ``refusals`` are by position; the others are too wide.
    """
    places, name, columns = outcome.jobs.places.tolist(), outcome.jobs.name, outcome.jobs.columns
    capacity = Capacity(hosts)
    rejected: dict[str, None] = {}  # In the order in which they were.
    for index in outcome.ended[np.isnan(outcome.starts[outcome.ended])].tolist():
        job_id = f"{name}!{columns.ids[places[index]]}"
        rejected[job_id] = None
        wide = capacity.never_fits(int(outcome.jobs.processors[index]))
        refusal = refusals.get(index, wide)
        log.record(job_id).reasons = () if refusal is None else (refusal,)

    def fill(log: QosLog) -> None:
        for job in map(workload.jobs.__getitem__, places):
            told = job.renamed(f"{name}!{job.id}")
            log.jobs.append(told)
            if told.id not in rejected:
                log.started.append(told.id)
        log.rejected.extend(rejected)

    def tell() -> ToldJobs:
        ids = [f"{name}!{columns.ids[place]}" for place in places]
        requests = columns.requests
        return ToldJobs(
            ids=ids,
            requests=requests and [requests[place] for place in places],
            decisions=Words.of([QOS_REJECTED if each in rejected else QOS_ACCEPTED for each in ids])
            if rejected
            else Words.one(QOS_ACCEPTED, len(ids)),
        )

    log.fill_later(fill, tell)
