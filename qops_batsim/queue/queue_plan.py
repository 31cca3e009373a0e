"""The plan of a queue by time limits: what would start when if each job ran to its limit.

It needs no history and is no forecast: most jobs end before their limits, and jobs that are still
to come may go first. Forecasts (:mod:`qops_batsim.queue.queue_forecast`) begin with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.queue.forecast import Moment, Simulator
from qops_batsim.queue.past import LEAST_LIMIT, Past, groups_of
from qops_batsim.queue.queue_state import QueuedJob, QueueState, by_priority, date_text
from qops_batsim.queue.unexplained_waits import UnexplainedWait, without_date
from qops_batsim.queue.zones import refuse_later_history
from qops_batsim.schedulers.registry import read_options
from qops_batsim.schedulers.slurm.slurm_options import SlurmOptions
from qops_batsim.schedulers.slurm.slurm_scheduler import Slurm
from qops_batsim.slurm.heterogeneous_jobs import listed
from qops_batsim.slurm.waiting_reasons import ARRAY_LIMIT, Cause, WaitKind


class PlannedStart(msgspec.Struct, frozen=True, kw_only=True):
    """When a waiting job starts in the plan by time limits; dates in seconds since 1970.

    Attributes
    ----------
    components
        Ids of a heterogeneous job's components.
    waits_for, reason
        What it waits for, and the reason as Slurm says it; the latter is empty if not told.
    no_date
        Why it has no dates, None if it has.
    planned
        Start in the plan by time limits, None if it never fits.
    """

    id: str
    components: tuple[str, ...] = ()
    user: str
    processors: int
    limit: float | None
    waits_for: Cause
    reason: str
    no_date: WaitKind | None
    planned: float | None

    @property
    def name(self) -> str:
        """Return the job's id, with those of its components: ``20 (20+0, 20+1)``."""
        return f"{self.id} ({listed(self.components)})" if self.components else self.id


class QueueStarts(msgspec.Struct, frozen=True, kw_only=True):
    """What plans and forecasts of the starts of a queue's waiting jobs have in common.

    Attributes
    ----------
    is_forecast
        Whether they are forecast from a history.
    source, now, processors
        The queue, its date (seconds since 1970), and the processors that are there.
    running
        Number of running jobs.
    left_out, unsure
        Numbers of jobs by why they are not planned, and by what is not known of them.
    unexplained
        WaitKind because of which jobs have no date.
    scheduler
        The scheduler that decides on the machine.
    """

    is_forecast: bool
    source: str
    now: float
    processors: int
    running: int
    left_out: dict[str, int]
    unsure: dict[str, int]
    unexplained: list[UnexplainedWait] = []
    scheduler: str


class QueuePlan(QueueStarts, frozen=True, kw_only=True):
    """The starts of all waiting jobs of a queue at a date in the plan by time limits."""

    is_forecast: bool = False
    jobs: list[PlannedStart]


class AskedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is not submitted yet and whose start is asked for: processors and time limit
    (seconds).
    """

    processors: int
    limit: float
    user: str = ""
    application: str = ""
    partition: str = ""


_Start = TypeVar("_Start", bound=PlannedStart)


class AskedStarts(msgspec.Struct, Generic[_Start], frozen=True, kw_only=True):
    """The starts of jobs that are not submitted yet, and the waits in the queue at a date (seconds
    since 1970) because of which they have none.
    """

    is_forecast: bool
    now: float
    unexplained: list[UnexplainedWait]
    jobs: list[_Start]


NO_FORECAST = (
    "this is the plan by time limits, no forecast: most jobs end before their limits, and jobs "
    "that are still to come may go first; a forecast needs the machine's history (--history)"
)


def plan_queue(
    state: QueueState, scheduler: str = "easy", settings: Mapping[str, Any] = MappingProxyType({})
) -> QueuePlan:
    """Plan a queue by the time limits of its jobs, without a history.

    Parameters
    ----------
    state
        The queue. Waiting jobs stand in line by priority, planned start and submission. Behind a
        job without a limit that has to end first nothing has a date.
    scheduler, settings
        The scheduler that decides on the machine, and its options.
    """
    moment, starts = _planned(state, scheduler, settings)
    waiting, blocked = line_of(state)
    unexplained, no_date = not_explained(state, starts - state.now)
    jobs = [
        _planned_start(job, start, no_date.get(job.id), is_first=not place)
        for place, (job, start) in enumerate(zip(waiting, starts.tolist(), strict=True))
    ]
    cannot = [
        PlannedStart(**about_job(job), no_date=job.meaning.waits, planned=None) for job in blocked
    ]
    return QueuePlan(
        source=state.source,
        now=state.now,
        processors=state.processors,
        running=len(moment.running) - len(state.closed) + len(state.apart),
        left_out=state.left_out,
        unsure=state.unsure,
        unexplained=unexplained,
        scheduler=scheduler,
        jobs=[*jobs, *cannot],
    )


def plan_asked(
    state: QueueState,
    asked: Sequence[AskedJob],
    scheduler: str = "easy",
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> AskedStarts[PlannedStart]:
    """Plan jobs by time limits as if they were submitted now, each as the only new one, the last of
    the queue. InputError for a job that is wider than the machine.
    """
    check_asked(state, asked)
    starts = _planned(state, scheduler, settings)[1]
    unexplained = not_explained(state, starts - state.now)[0]
    jobs = []
    for job in asked:
        new = submitted(job, state.now, asked_name(job))
        if unexplained:
            jobs.append(PlannedStart(**about_job(new), no_date=WaitKind.BEHIND, planned=None))
            continue
        start = float(_planned(state, scheduler, settings, [job])[1][-1])
        jobs.append(_planned_start(new, start, None, is_first=not len(starts)))
    return AskedStarts(is_forecast=False, now=state.now, unexplained=unexplained, jobs=jobs)


def _planned(
    state: QueueState,
    scheduler: str,
    settings: Mapping[str, Any],
    asked: Sequence[AskedJob] = (),
) -> tuple[Moment, np.ndarray]:
    """Return the queue, with the new jobs behind it, and the starts of all that wait (seconds since
    1970; infinite: never).
    """
    dates = [date for job in state.jobs for date in (job.start, job.submission) if date is not None]
    begin = math.floor(min([state.now, *dates]))
    _, moment, simulator = simulation_of(
        state, _no_past(state.processors), Calendar(begin, "UTC"), asked, scheduler, settings
    )
    starts = simulator.planned(moment) + begin
    # What starts when a job without a limit ends may never start.
    return moment, np.where(starts < state.now + MAX_SECONDS / 2, starts, np.inf)


def _planned_start(
    job: QueuedJob, start: float, no_date: WaitKind | None, *, is_first: bool
) -> PlannedStart:
    is_never = no_date is None and not math.isfinite(start)
    return PlannedStart(
        **about_job(job, is_first=is_first),
        no_date=WaitKind.CANNOT_START if is_never else no_date,
        planned=start if no_date is None and not is_never else None,
    )


def _no_past(processors: int) -> Past:
    """Return the past of a machine of which no job is known."""
    none = np.empty(0)
    return Past(
        processors=processors,
        submissions=none,
        starts=none,
        cancelled=none,
        run_times=none,
        limits=none,
        widths=np.empty(0, np.int64),
        groups=np.empty((0, 5), np.int64),
        names=np.empty((0, 3), object),
        jobs=[],
        history=0,
    )


def chosen_jobs(jobs: list[_Start], now: float, job: str | None, user: str | None) -> list[_Start]:
    """Return those of a queue's jobs that are asked about, by id (of a job, an array, or a
    component of a heterogeneous job) or user. InputError if none has the id.

    The queue is of the date ``now`` (seconds since 1970).
    """
    if job is not None:
        jobs = [
            each
            for each in jobs
            if each.id == job or each.id.startswith(f"{job}_") or job in each.components
        ]
        if not jobs:
            raise InputError(
                f"job {shown(job)} is not among the waiting jobs of the queue of {date_text(now)}"
            )
    if user is not None:
        jobs = [each for each in jobs if each.user == user]
    return jobs


def about_job(job: QueuedJob, *, is_first: bool | None = None) -> dict[str, Any]:
    """Return what is told of a waiting job without its dates.

    A job of which Slurm has said nothing waits for processors if it is the first of the line
    (``is_first``), else for its turn; None: it is in no line.
    """
    # Slurm says nothing of a job that it has not looked at yet.
    is_told = is_first is None or job.reason not in ("", "None")
    own = Cause.RESOURCES if is_first else Cause.PRIORITY
    return {
        "id": job.id,
        "components": job.components,
        "user": job.user,
        "processors": job.processors,
        "limit": job.estimate,
        "waits_for": job.meaning.cause if is_told else own,
        "reason": job.reason,
    }


def not_explained(
    state: QueueState, waits: np.ndarray
) -> tuple[list[UnexplainedWait], dict[str, WaitKind]]:
    """Return the waits of a queue that its plan does not explain, and why jobs have no date, by id.

    ``waits`` are from now to the planned starts of the jobs in line (seconds).
    """
    planned = dict(zip([job.id for job in line_of(state)[0]], waits.tolist(), strict=True))
    return without_date(state, planned)


def line_of(state: QueueState) -> tuple[list[QueuedJob], list[QueuedJob]]:
    """Return the waiting jobs of a queue that can start, in the order of their priority, and the
    waiting jobs that cannot.

    Of an array, no more tasks can start than may run at once, with those that run.
    """
    room = {job.array: job.at_once for job in state.jobs if job.at_once}
    for job in [*state.jobs, *state.apart]:
        if job.start is not None and job.array in room:
            room[job.array] -= 1
    line, beyond = [], dict[str, list[QueuedJob]]()
    for job in sorted((job for job in state.jobs if job.start is None), key=by_priority):
        if room.get(job.array, 1) > 0:
            line.append(job)
        else:
            beyond.setdefault(job.array, []).append(job)
        if job.array in room:
            room[job.array] -= 1
    waiting = [_together(tasks) for tasks in beyond.values()]
    return line, [*waiting, *state.blocked]


def _together(tasks: Sequence[QueuedJob]) -> QueuedJob:
    """Return waiting tasks of one array as a single job, named as squeue does: ``4711_[3-9]``."""
    spans: list[list[int]] = []
    for number in sorted(int(task.id.rpartition("_")[2]) for task in tasks):
        if spans and spans[-1][-1] == number - 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    told = ",".join("-".join(map(str, span)) for span in spans)
    whole = f"{tasks[0].array}_[{told}]"
    return msgspec.structs.replace(tasks[0], id=whole, reason=ARRAY_LIMIT)


def simulation_of(
    state: QueueState,
    past: Past,
    calendar: Calendar,
    asked: Sequence[AskedJob],
    scheduler: str,
    settings: Mapping[str, Any],
) -> tuple[Past, Moment, Simulator]:
    """Return a history with the queue's jobs, and then the new ones, behind it; the queue as rows
    of it; and what simulates how its scheduler goes on.
    """
    bases: dict[str, float] = {}
    if scheduler == "slurm":
        bases, settings = told_priorities(state, settings)
    everything, moment = _with_queue(past, state, calendar, asked, bases)
    return everything, moment, Simulator(everything, scheduler, settings)


def check_asked(state: QueueState, asked: Sequence[AskedJob]) -> None:
    """Raise InputError for a job that is wider than the machine, or has no processors."""
    for job in asked:
        state.check_width(job.processors)


def asked_name(job: AskedJob) -> str:
    """Return the name of a job that is not submitted yet: ``64x2h``."""
    return f"{job.processors}x{_short(job.limit)}"


def _short(seconds: float) -> str:
    """Format a duration in short form: ``2h``."""
    return next(
        f"{seconds / size:g}{unit}"
        for size, unit in ((3600.0, "h"), (60.0, "m"), (1.0, "s"))
        if size == 1.0 or seconds % size == 0
    )


def told_priorities(
    state: QueueState, settings: Mapping[str, Any]
) -> tuple[dict[str, float], Mapping[str, Any]]:
    """Return the waiting jobs' priorities by id, without the part for age, and Slurm options by
    which all other jobs get the priority of a usual job.

    A queue has the sum of all factors of a job; the simulation adds age to the rest of it. Of other
    jobs, as those that arrive later, shares, QOS and partition are unknown: they get what the
    median job has beyond age and size.
    """
    told = [job for job in state.jobs if job.start is None and job.priority > 0]
    if not told:
        return {}, settings
    options = read_options("slurm", Slurm, settings)
    assert isinstance(options, SlurmOptions)
    bases, further = {}, []
    for job in told:
        waited = state.now - (state.now if job.submission is None else job.submission)
        age = options.weight_age * min(max(waited, 0.0) / options.max_age, 1.0)
        size = job.processors / state.processors
        bases[job.id] = job.priority - age
        part = 1 - size if options.favor_small else size
        further.append(bases[job.id] - options.weight_size * part)
    known = {"weight_qos": 0.0, "weight_fairshare": 0.0, "partitions": {}}
    weights = options.weight_qos + options.weight_fairshare + options.weight_partition
    usual = max(float(np.median(further)), 0.0) if weights else 0.0
    return bases, {**settings, **known, "weight_partition": usual}


def _with_queue(
    past: Past,
    state: QueueState,
    calendar: Calendar,
    asked: Sequence[AskedJob],
    bases: Mapping[str, float],
) -> tuple[Past, Moment]:
    """Append the queue's jobs, then the new jobs ``asked``, to the history; return the result, and
    the queue as row numbers in it.

    Jobs that are asked about are the last of those that wait; the bases of priorities are by id.
    """
    now = state.now - calendar.unix_start
    if past.history:
        ahead = float(past.submissions[past.history - 1]) - now
        refuse_later_history(state, ahead, calendar.time_zone)
    running = [job for job in state.jobs if job.start is not None] + state.closed
    queued = [*running, *line_of(state)[0], *(submitted(job, state.now) for job in asked)]
    longest = float(past.limits.max()) if past.history else MAX_SECONDS
    limits = np.array([max(job.estimate or longest, LEAST_LIMIT) for job in queued])
    dates = [job.submission if job.submission is not None else state.now for job in queued]
    begun = [np.nan if job.start is None else job.start - calendar.unix_start for job in queued]
    names = np.array(
        [[job.user, job.application, job.partition] for job in queued], object
    ).reshape(-1, 3)
    submissions = np.minimum(np.array(dates) - calendar.unix_start, now)
    jobs = [
        Job(job.id, date, job.processors, "", limit, None, _fields(job, bases))
        for job, date, limit in zip(queued, submissions.tolist(), limits.tolist(), strict=True)
    ]
    everything = past._replace(
        processors=state.processors,
        submissions=np.concatenate([past.submissions, submissions]),
        starts=np.concatenate([past.starts, begun]),
        cancelled=np.concatenate([past.cancelled, np.full(len(queued), np.nan)]),
        run_times=np.concatenate([past.run_times, limits]),
        limits=np.concatenate([past.limits, limits]),
        widths=np.concatenate([past.widths, [job.processors for job in queued]]).astype(np.int64),
        groups=np.concatenate([past.groups, groups_of(names, limits, past)]),
        names=np.concatenate([past.names, names]),
        jobs=[*past.jobs, *jobs],
    )
    rows = np.arange(past.history, past.history + len(queued))
    return everything, Moment(now, rows[: len(running)], rows[len(running) :])


def submitted(asked: AskedJob, now: float, name: str = "asked") -> QueuedJob:
    """Return the new job as a waiting job of the queue that is submitted at ``now`` (seconds since
    1970).
    """
    return QueuedJob(
        id=name,
        processors=asked.processors,
        estimate=asked.limit,
        submission=now,
        user=asked.user,
        application=asked.application,
        partition=asked.partition,
    )


def _fields(job: QueuedJob, bases: Mapping[str, float]) -> dict[str, object]:
    """Return the job's fields that a scheduler may read: user, queue and, if it is in ``bases``,
    priority.
    """
    told = {"base_priority": bases[job.id]} if job.id in bases else {}
    return {"user": job.user, "queue": job.partition, **told}
