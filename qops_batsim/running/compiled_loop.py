"""Whole simulations in compiled code, where engine and scheduler are simple enough.

That is where jobs only sleep, each on hosts of its own, all hosts are always there, news takes
no time, and the scheduler is exactly one of some of ours. The schedule is the same to the byte,
and so are the logs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qops_batsim.economics.tolerance import FactorTolerance
from qops_batsim.engine.simulation import Simulation
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED, Job
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.scheduling.admission.foresight import Foresight
from qops_batsim.scheduling.admission.fqops import Fqops
from qops_batsim.scheduling.admission.mrt import Mrt
from qops_batsim.scheduling.admission.msb import Msb
from qops_batsim.scheduling.admission.qops import Qops
from qops_batsim.scheduling.capacity import Capacity
from qops_batsim.scheduling.conservative import Conservative
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
    from qops_batsim.scheduling.core.state import State
    from qops_batsim.scheduling.decision_events import Submission

AT_A_TIME = 0.05
"""After about so long progress is reported, and an interrupt is noticed (seconds of CPU)."""

PLANNERS = (Conservative, Qops, Fqops, Foresight, Msb, Mrt)
"""Schedulers with a plan for which there is a loop."""

CALLS = 64
"""Room for so many calls at first."""


def is_compiled(module: DecisionModule) -> bool:
    """Return whether there is a compiled loop for a scheduler."""
    if isinstance(module, Fqops) and module.accepts:
        return False
    return type(module) in (Slurm, *PLANNERS)


def _kills(module: DecisionModule) -> bool:
    """Return whether a scheduler may kill jobs, and have them run again."""
    return isinstance(module, Fqops | Foresight) and module.options.kill_and_restart


def _can_go_on(jobs: DelayJobs, workload: Workload) -> bool:
    """Return whether what is left of each job that saves its work can be registered."""
    names, saves = jobs.columns.profile_names, np.isfinite(jobs.columns.checkpoints)
    used = [names[each] for each in np.unique(jobs.columns.profiles[saves]).tolist()]
    kinds = {workload.profiles[name].get("type") for name in used}
    return kinds <= {"delay"} and not (kinds and any("#" in name for name in workload.profiles))


def run_compiled(
    simulation: Simulation,
    workload: Workload,
    driver: ModuleDriver,
    on_progress: Callable[[int], None] | None,
) -> bool:
    """Run a simulation in compiled code if that is possible; tell whether it was."""
    module = driver.module
    jobs = simulation.delay_jobs(dynamic=_kills(module)) if is_compiled(module) else None
    if jobs is None:
        return False
    if _kills(module) and not _can_go_on(jobs, workload):
        return False
    reservations = int(np.isfinite(_fixed_starts(jobs)).sum())
    if reservations and (type(module) not in PLANNERS or _kills(module)):
        return False
    from qops_batsim.running import event_kernels as kernels

    hosts, announces = len(simulation.hosts), simulation.options.acknowledge_dynamic_jobs
    # Each promise, and each start, leads to one more at most.
    calls = CALLS if isinstance(module, Slurm) else 0
    calls += 2 * reservations
    events = _new_events(jobs, hosts, kills=_kills(module), announces=announces, calls=calls)
    planner: _PlannerLoop | _SlurmLoop
    if isinstance(module, Slurm):
        planner = _SlurmLoop(module, jobs, workload, hosts)
    else:
        planner = _PlannerLoop(module, jobs, workload.jobs, hosts, reservations)
    messages = 20
    while True:
        events.counts[kernels.LEFT] = messages
        begin = time.thread_time()
        reason = planner.run(events)
        if reason == kernels.OVER:
            break
        if reason == kernels.FULL:
            events = kernels.with_room(events)
        elif reason == kernels.LOG_FULL:
            assert isinstance(planner, _PlannerLoop)
            planner.enlarge_log()
        else:
            if time.thread_time() - begin < AT_A_TIME:
                messages *= 2
            if on_progress is not None:
                on_progress(int(events.counts[kernels.ENDED]))
    noted = planner.log(driver.log)
    outcome = _outcome(jobs, events, noted)
    ended = len(outcome.ended) - len(outcome.jobs.restarts)
    simulation.finish(lambda: outcome, float(events.dates[0]), ended)
    _log_kills(driver.log, outcome, noted)
    _log(driver.log, workload, outcome, hosts, noted.refusals, announces=announces)
    if on_progress is not None:
        on_progress(int(events.counts[kernels.ENDED]))
    return True


def _new_events(jobs: DelayJobs, hosts: int, *, kills: bool, announces: bool, calls: int) -> Events:
    """Return a simulation that has not begun, with room for so many calls at first.

    What is registered again may be announced.
    """
    from qops_batsim.engine.delay_jobs import run_times_again
    from qops_batsim.running.event_kernels import new_events

    return new_events(
        jobs.submission_times,
        jobs.processors,
        jobs.run_times,
        hosts,
        run_times_again=run_times_again(jobs) if kills else None,
        after_kill=2 if announces else 1,
        calls=calls,
    )


def _number_users(planned: Any, jobs: DelayJobs, listed: Sequence[Job]) -> np.ndarray:
    """Write the numbers of the users into the jobs; return room for their past run times."""
    from qops_batsim.scheduling.predictions import Users, new_past

    users = Users()
    planned.users[:] = [users.number(listed[place].user) for place in jobs.places.tolist()]
    return new_past(int(planned.users.max(initial=0)) + 1)


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


class _PlannerLoop:
    """The loop of a scheduler that keeps a plan."""

    def __init__(
        self,
        module: DecisionModule,
        jobs: DelayJobs,
        listed: Sequence[Job],
        hosts: int,
        reservations: int,
    ) -> None:
        from qops_batsim.scheduling.arrays import new_profile
        from qops_batsim.scheduling.core.columns import TARGETS
        from qops_batsim.scheduling.core.rows import new_log
        from qops_batsim.scheduling.core.state import new_state, steps_for, with_profile
        from qops_batsim.scheduling.host_words import WORD_BITS

        self._module, self._jobs, self._hosts = module, jobs, hosts
        count = len(jobs.processors)
        self._steps = steps_for(count, min(hosts, count))
        promises, logs = type(module) is not Conservative, module.decision_log is not None
        words = 0
        if isinstance(module, Conservative) and module.options.reserve == "hosts":
            words = -(-hosts // WORD_BITS)
        planned = _plan_jobs(jobs, words)
        if _kills(module):
            planned.checkpoints[:] = durations_on_grid(jobs.columns.checkpoints[jobs.places])
        if isinstance(module, Fqops):
            planned.tolerances[:] = _tolerances(module, jobs)
        state = new_state(
            planned,
            hosts,
            words=words,
            promises=promises,
            promised=TARGETS,
            logs=logs,
            claims=reservations,
        )
        everything = state.everything if words else hosts
        profile, log = new_profile(everything, self._steps), new_log(max(8 * count, 1024))
        self._state: State = with_profile(state, profile)._replace(log=log)
        self._predicts = getattr(module.options, "run_times", "estimated") == "predicted"
        if self._predicts:
            self._state = self._state._replace(past=_number_users(planned, jobs, listed))
        self._call = self._loop()

    def run(self, events: Events) -> int:
        """Go on until something is needed, and return what."""
        return self._call(events, self._state)

    def enlarge_log(self) -> None:
        """Give the log of decisions twice the room."""
        from qops_batsim.scheduling.core.rows import larger_log

        self._state = self._state._replace(log=larger_log(self._state.log))

    def _loop(self) -> Callable[[Events, State], int]:
        """Return the loop of the scheduler with what it needs beside the plan."""
        from qops_batsim.running import compiled
        from qops_batsim.scheduling.admission.feedback import new_offer_room
        from qops_batsim.scheduling.admission.foresight_search import new_foresight_room
        from qops_batsim.scheduling.admission.mrt_search import new_notes
        from qops_batsim.scheduling.admission.msb_search import new_prices
        from qops_batsim.scheduling.admission.qops_search import rules_of
        from qops_batsim.scheduling.admission.search import new_room

        module, jobs = self._module, self._jobs
        kernel: Callable[..., int]
        arguments: tuple[Any, ...]
        if isinstance(module, Conservative):
            return compiled.run_conservative
        count, steps = len(jobs.processors), self._steps
        room = new_room(steps, count + 1)
        if isinstance(module, Qops):
            kernel, arguments = compiled.run_qops, (rules_of(module.options),)
        elif isinstance(module, Fqops):
            offers = new_offer_room(steps, count + 1)
            kernel, arguments = compiled.run_fqops, (offers, module.terms)
        elif isinstance(module, Foresight):
            foresight = new_foresight_room(module.options, self._hosts, count + 1)
            kernel, arguments = compiled.run_foresight, (foresight,)
        elif isinstance(module, Msb):
            prices = new_prices(module.options, jobs.submission_times, count, count + 1, steps)
            kernel, arguments = compiled.run_msb, (prices,)
        else:
            assert isinstance(module, Mrt)
            notes = new_notes(module.options, count, count + 1)
            kernel, arguments = compiled.run_mrt, (notes,)
        return lambda events, state: kernel(events, state, room, *arguments)

    def _predicted(self) -> dict[int, float]:
        """Return by slot what jobs are planned with that is less than their estimates (seconds)."""
        planned = self._state.jobs
        slots = np.flatnonzero(planned.estimates < planned.requested).tolist()
        found = {slot: float(planned.estimates[slot]) for slot in slots}
        for kill in self._killed() if found else ():
            if kill.victim in found:
                found[kill.victim] = on_grid(found[kill.victim] + kill.saved)
        return found

    def _killed(self) -> list[_Kill]:
        """Return the kills that the log of decisions has."""
        from qops_batsim.scheduling.core.rows import KILLED

        log = self._state.log
        rows = np.flatnonzero(log.codes[: log.size[0], 0] == KILLED)
        told = zip(log.codes[rows, 1:3].tolist(), log.numbers[rows, 2:4].tolist(), strict=True)
        return [_Kill(victim, sake, since, saved) for (victim, sake), (since, saved) in told]

    def _submissions(self) -> list[Submission]:
        """Return the requests of all jobs by slot."""
        from qops_batsim.scheduling.decision_rows import submissions_of

        jobs, requests = self._jobs, self._jobs.columns.requests
        estimates, predicted = jobs.estimates.copy(), self._predicted()
        estimates[list(predicted)] = list(predicted.values())
        return submissions_of(
            jobs.full_ids(),
            jobs.submission_times.tolist(),
            jobs.processors.tolist(),
            estimates.tolist(),
            [requests[place] if requests else None for place in jobs.places.tolist()],
        )

    def log(self, log: QosLog) -> _Noted:
        """Log what was decided; return why jobs were refused, and their metadata."""
        from qops_batsim.scheduling.core import rows
        from qops_batsim.scheduling.decision_rows import answers_in

        jobs, state = self._jobs, self._state
        id_of = jobs.full_ids().__getitem__
        size = int(state.log.size[0])
        codes, numbers = state.log.codes[:size], state.log.numbers[:size]
        if self._module.decision_log is not None:
            self._module.decision_log.fill(self._hosts, codes, numbers, self._submissions)

        for slot, seconds in self._predicted().items():
            log.record(id_of(slot)).predicted_run_time = seconds
        admitted = codes[:, 0] == rows.ADMITTED
        slots, promises = codes[admitted, 1], numbers[admitted, 2]
        assured = state.jobs.assured_starts
        dated = np.flatnonzero(assured < MAX_SECONDS)
        for slot, date in zip(dated.tolist(), assured[dated].tolist(), strict=True):
            log.record(id_of(slot)).latest_start = date
        asked = state.jobs.deadlines[slots] < math.inf
        for slot, promise in zip(slots[asked].tolist(), promises[asked].tolist(), strict=True):
            log.record(id_of(slot)).admitted_deadline = promise
        kinds = (rows.REFUSED, rows.OFFERED, rows.REASON, rows.KILLED)
        told = np.flatnonzero(np.isin(codes[:, 0], kinds))
        needed = jobs.processors.tolist().__getitem__
        noted = _Noted({}, {}, self._killed())
        for slot, answer in answers_in(codes[told], numbers[told], id_of, needed):
            if answer.refusal is not None:
                noted.refusals[slot] = answer.refusal
            if answer.offer is not None:
                noted.metadata[slot] = answer.offer.note(log.record(id_of(slot)))
        return noted


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
        return _Noted(refusals, {}, [])


class _Kill(NamedTuple):
    """Positions of a job that was killed, and of that for which it was; start of the run, and how
    much of it was saved (seconds).
    """

    victim: int
    sake: int
    since: float
    saved: float


class _Noted(NamedTuple):
    """Reasons of refusals and metadata of jobs, by position; and the kills."""

    refusals: dict[int, Refusal]
    metadata: dict[int, str]
    kills: list[_Kill]


def _tolerances(module: Fqops, jobs: DelayJobs) -> np.ndarray:
    """Return the tolerance factors of the users, by job."""
    tolerance = module.tolerance()
    assert isinstance(tolerance, FactorTolerance)
    columns, name = jobs.columns, jobs.name
    requests = columns.requests or [None] * len(columns.ids)
    factor_for = tolerance.factor_for
    factors = map(factor_for, [f"{name}!{job_id}" for job_id in columns.ids], requests)
    found: np.ndarray = np.array(list(factors))[jobs.places]
    return found


def _outcome(jobs: DelayJobs, events: Events, noted: _Noted) -> Outcome:
    """Return what became of the jobs."""
    from qops_batsim.engine.delay_jobs import Outcome, with_restarts
    from qops_batsim.running import event_kernels as kernels

    count, runs = len(jobs.places), int(events.counts[kernels.RUNS])
    if noted.kills:
        saved = [each.saved for each in noted.kills]
        jobs = with_restarts(jobs, events.jobs[count:runs], events.submitted[count:runs], saved)
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


def _log_kills(log: QosLog, outcome: Outcome, noted: _Noted) -> None:
    """Log which jobs were killed for which, and the work that was lost; note their metadata."""
    jobs = outcome.jobs
    if not noted.kills:
        return
    ids, latest = jobs.full_ids(), list(range(jobs.submitted))
    for again, (victim, sake, since, saved) in enumerate(noted.kills, jobs.submitted):
        killed, latest[victim] = latest[victim], again
        lost = float(outcome.finishes[killed]) - since - saved
        wasted = int(jobs.processors[victim]) * lost
        told = log.note_restart(ids[again], ids[victim], ids[killed], ids[sake], wasted)
        noted.metadata[again] = told
        log.kills[ids[killed]] += 1


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
