"""Simulations under a compiled policy: what its scheduler decides at each message, in kernels.

Each loop goes on until there is no next message, and returns why.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import lean_kernel
from qops_batsim.running.event_kernels import (
    ARRIVED,
    FREE,
    NEXT,
    Events,
    next_message,
    reject,
    start,
)
from qops_batsim.scheduling.easy_kernel import (
    Line,
    Running,
    append,
    easy_pass,
    new_line,
    new_running,
)
from qops_batsim.scheduling.plan_kernels import (
    Given,
    compress,
    give_back,
    insert_by_start,
    more_time,
    new_given,
    place_job,
    rebuild,
)
from qops_batsim.scheduling.profile import (
    STEPS_PER_RESERVATION,
    Floats,
    Ints,
    Jobs,
    Profile,
    Queue,
    end_of,
    new_profile,
    new_queue,
    on_grid,
    trim,
)
from qops_batsim.timing import GRID, GRID_TOLERANCE, SAME_DATE


@lean_kernel
def accept(events: Events, job: int, hosts: int) -> bool:
    """Whether a job that was submitted now can ever run; if not, reject it."""
    if 1 <= events.processors[job] <= hosts:
        return True
    reject(events, job)
    return False


class FcfsState(NamedTuple):
    """The waiting jobs from ``bounds[0]`` to ``bounds[1] - 1`` of ``line``, by arrival."""

    gone: Queue
    line: Ints
    bounds: Ints


def new_fcfs_state(jobs: int, hosts: int) -> FcfsState:
    return FcfsState(new_queue(hosts), np.empty(jobs, np.int64), np.zeros(2, np.int64))


@lean_kernel
def run_fcfs(events: Events, state: FcfsState, hosts: int) -> int:
    """Start jobs in order of arrival, as :class:`~qops_batsim.scheduling.fcfs.Fcfs`."""
    counts, line, bounds = events.counts, state.line, state.bounds
    while True:
        said = next_message(events, state.gone)
        if said < 0:
            return said
        for job in range(counts[ARRIVED], counts[NEXT]):
            if accept(events, job, hosts):
                line[bounds[1]] = job
                bounds[1] += 1
        while bounds[0] < bounds[1] and events.processors[line[bounds[0]]] <= counts[FREE]:
            start(events, line[bounds[0]])
            bounds[0] += 1


class EasyState(NamedTuple):
    """What :func:`~qops_batsim.scheduling.easy_kernel.easy_pass` keeps.

    ``size`` holds how many jobs run.
    """

    gone: Queue
    line: Line
    running: Running
    started: Ints
    size: Ints


def new_easy_state(jobs: int, hosts: int) -> EasyState:
    most = 2 * hosts + 1
    return EasyState(
        new_queue(most),
        new_line(jobs),
        new_running(most),
        np.zeros(most, np.int64),
        np.zeros(1, np.int64),
    )


@lean_kernel
def run_easy(events: Events, state: EasyState, hosts: int, estimates: Floats) -> int:
    """Backfill without delaying the first job, as :class:`~qops_batsim.scheduling.easy.Easy`."""
    counts, size = events.counts, state.size
    while True:
        said = next_message(events, state.gone)
        if said < 0:
            return said
        for job in range(counts[ARRIVED], counts[NEXT]):
            if accept(events, job, hosts):
                append(state.line, job)
        count, size[0] = easy_pass(
            events.dates[0],
            0.0,
            counts[FREE],
            hosts,
            events.processors,
            estimates,
            state.line,
            state.running,
            size[0],
            state.gone,
            state.started,
        )
        for index in range(count):
            start(events, state.started[index])


class PlanState(NamedTuple):
    """What a :class:`~qops_batsim.scheduling.plan.Plan` keeps of numbers of processors.

    Attributes
    ----------
    jobs, profile, waiting, running, given
        As there.
    lags
        By how much each running job started later than planned (seconds).
    places
        Where running jobs stand among the running ones.
    soonest
        No running job is expected to end before that date (seconds).
    """

    gone: Queue
    jobs: Jobs
    profile: Profile
    waiting: Queue
    running: Queue
    given: Given
    lags: Floats
    places: Ints
    soonest: Floats


def new_plan_state(
    hosts: int,
    processors: Ints,
    estimates: Floats,
    limits: Floats,
    deadlines: Floats,
    targets: Floats,
) -> PlanState:
    """Return an empty plan, in seconds; limits and deadlines are infinite where there are none."""
    jobs = len(processors)
    columns = Jobs(
        processors,
        estimates,
        processors,
        deadlines,
        deadlines,
        targets,
        np.full(jobs, np.inf),
        np.zeros(jobs),
        np.zeros(jobs),
        np.full(jobs, np.inf),
        np.full(jobs, np.inf),
        np.full(jobs, -np.inf),
        np.zeros(jobs),
        limits,
    )
    profile = new_profile(hosts, steps_for(jobs, hosts))
    running = new_queue(hosts + 1)
    lags, places = np.zeros(jobs), np.zeros(jobs, np.int64)
    waiting, soonest = new_queue(jobs), np.full(1, np.inf)
    return PlanState(
        new_queue(hosts), columns, profile, waiting, running, new_given(0), lags, places, soonest
    )


def steps_for(jobs: int, hosts: int) -> int:
    """Return the most steps that a profile of so many jobs has."""
    return STEPS_PER_RESERVATION * (jobs + min(hosts, jobs) + 2)


@lean_kernel
def up_to_grid(date: float) -> float:
    """As :func:`~qops_batsim.timing.up_to_grid`."""
    if np.floor(date) == date:
        return date
    rounded = on_grid(date)
    return on_grid(rounded + 1 / GRID) if date - rounded > SAME_DATE else rounded


@lean_kernel
def durations_on_grid(durations: Floats) -> None:
    """Put durations on the grid, as :func:`~qops_batsim.timing.duration_on_grid`."""
    for index in range(len(durations)):
        durations[index] = max(up_to_grid(durations[index]), 1e-6)


@lean_kernel
def expect(state: PlanState, job: int, end: float) -> None:
    """Expect a running job to end at a date (seconds)."""
    state.jobs.ends[job] = end
    state.soonest[0] = min(state.soonest[0], end)


@lean_kernel
def forget_gone(state: PlanState, now: float) -> bool:
    """Give back the rest of ended jobs' reservations; return whether there was any."""
    slots, size = state.running
    early = False
    for index in range(state.gone.size[0]):
        job = state.gone.slots[index]
        if state.jobs.ends[job] > now + GRID_TOLERANCE:
            end = state.jobs.ends[job]
            give_back(state.profile, now, end, state.jobs.reserved[job], state.given)
            early = True
        size[0] -= 1
        moved, place = slots[size[0]], state.places[job]
        slots[place], state.places[moved] = moved, place
    return early


@lean_kernel
def extend_overdue(state: PlanState, now: float) -> bool:
    """Assume that jobs which outlive their estimate run on; tell if any do."""
    due = now - GRID_TOLERANCE
    if state.soonest[0] >= due:
        return False
    state.soonest[0] = np.inf
    found = False
    starts, ends = state.jobs.starts, state.jobs.ends
    for index in range(state.running.size[0]):
        job = state.running.slots[index]
        end = ends[job]
        if end < due:
            found = True
            starts[job] = on_grid(starts[job] + state.lags[job])
            state.lags[job] = 0.0
            end = end_of(now, more_time(now - starts[job], state.jobs.limits[job]))
        expect(state, job, end)
    return found


@lean_kernel
def start_due(events: Events, state: PlanState, now: float) -> tuple[int, bool]:
    """Start what is due and fits; return how many, and whether one is too late for the plan."""
    slots, size = state.waiting
    jobs, count, late = state.jobs, 0, False
    while events.counts[FREE] and count < size[0]:
        job = slots[count]
        planned = jobs.starts[job]
        if planned > now + GRID_TOLERANCE or events.processors[job] > events.counts[FREE]:
            break
        late = late or planned < now - GRID_TOLERANCE
        start(events, job)
        state.lags[job] = 0.0 if planned == now else on_grid(now - planned)
        place = state.running.size[0]
        state.running.slots[place], state.places[job] = job, place
        state.running.size[0] += 1
        expect(state, job, end_of(planned, jobs.estimates[job]))
        count += 1
    for index in range(count, size[0]):
        slots[index - count] = slots[index]
    size[0] -= count
    return count, late


@lean_kernel
def take_up_lags(state: PlanState) -> None:
    """Count all jobs from their actual starts."""
    starts, ends, lags = state.jobs.starts, state.jobs.ends, state.lags
    for index in range(state.running.size[0]):
        job = state.running.slots[index]
        if lags[job] != 0.0:
            starts[job] = on_grid(starts[job] + lags[job])
            expect(state, job, on_grid(ends[job] + lags[job]))
            lags[job] = 0.0


@lean_kernel
def update_plan(events: Events, state: PlanState, hosts: int, mend: bool) -> float:
    """Let a plan know what has ended, and what has not as it should; return the date (seconds)."""
    waiting = state.waiting
    now = up_to_grid(events.dates[0])
    early = forget_gone(state, now)
    overdue = extend_overdue(state, now)
    if waiting.size[0] and not overdue:
        overdue = state.jobs.starts[waiting.slots[0]] < now - GRID_TOLERANCE
    if overdue:
        rebuild(now, state.profile, hosts, state.running, state.jobs, waiting, mend)
    elif early:
        line = waiting.slots[: waiting.size[0]]
        compress(now, state.profile, state.jobs, waiting, line, state.given)
    return now


@lean_kernel
def start_planned(events: Events, state: PlanState, hosts: int, now: float, mend: bool) -> None:
    """Start what is due, and make the plan anew where that is not as it assumed."""
    waiting, running = state.waiting, state.running
    started, late = start_due(events, state, now)
    if started == 0 and waiting.size[0] and running.size[0] == 0:
        rebuild(now, state.profile, hosts, running, state.jobs, waiting, mend)
        started, late = start_due(events, state, now)
    if late:
        take_up_lags(state)
        rebuild(now, state.profile, hosts, running, state.jobs, waiting, mend)


@lean_kernel
def run_conservative(events: Events, state: PlanState, hosts: int) -> int:
    """Reserve for every job, as :class:`~qops_batsim.scheduling.conservative.Conservative`.

    That is one with numbers of processors, and what :class:`~qops_batsim.scheduling.plan.Plan`
    decides without a policy, while all hosts are there and news is on time.
    """
    counts = events.counts
    while True:
        said = next_message(events, state.gone)
        if said < 0:
            return said
        now = update_plan(events, state, hosts, False)
        is_trimmed = False
        for job in range(counts[ARRIVED], counts[NEXT]):
            if accept(events, job, hosts):
                if not is_trimmed:
                    trim(state.profile, now)
                    is_trimmed = True
                place_job(now, state.profile, state.jobs, job)
                insert_by_start(state.waiting, state.jobs.starts, job)
        start_planned(events, state, hosts, now, False)
