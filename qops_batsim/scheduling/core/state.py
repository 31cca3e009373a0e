"""The state of a plan, in named tuples of arrays that kernels read and write.

Two drivers fill it and carry out what a decision leaves in it: the decision module, for any
engine, and the columnar loop, for whole simulations in compiled code. Jobs are known by their
slots, in the order in which they arrived.

Sizes are held in arrays of one element, so that kernels change them in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from qops_batsim.scheduling.arrays import (
    STEPS_PER_RESERVATION,
    Claims,
    Floats,
    Ints,
    Jobs,
    Profile,
    Queue,
    Rows,
    Words,
    new_claims,
    new_profile,
    new_queue,
)
from qops_batsim.scheduling.core.columns import TARGETS
from qops_batsim.scheduling.core.rows import RowLog, new_log
from qops_batsim.timing import GRACE, GRID_TOLERANCE

(
    DECIDED,
    KNOWN,
    MACHINE,
    PRESENT,
    NOTED_PRESENT,
    FREE,
    LOST_HOSTS,
    IS_RESIZED,
    IS_FINAL,
    IS_FREED,
    PHASE,
    HAS_PROMISES,
    PROMISED,
    LOGS,
    HAS_LOOKED,
    SAID_LATE,
    SAYS_SIZE,
    HAS_PROFILE,
    SUSPENSIONS,
    FIRST_NEW,
    PROMISES_GAINS,
) = range(21)
"""Indices into :attr:`State.counts`.

The first slot that no decision was made about, and the first that is no job's; hosts of the
machine, those that are there, and as many as the log has; hosts that a job can start on; hosts
lost since the plan was made; whether hosts have left or returned since, and none will any more;
whether waiting jobs gave something up; the phase of the decision; whether anything is promised,
and in which row of ``jobs.numbers``; whether decisions are logged, the log has looked at the plan
in this decision, says that news is late, has to say how many hosts are there; whether the profile
of the running jobs is that of this decision; number of suspended promises; the first new job of
the decision; whether latest starts move up with starts.
"""

IDLE, BEGUN, ASKING = range(3)
"""Phases of a decision."""

NOW, IS_LATE, NEWS_GRACE, TOLERANCE, MOST_LAG, SOONEST, CALLED_FOR = range(7)
"""Indices into :attr:`State.clock`.

The date (seconds); whether news is late, and the grace, the tolerance and the most lag of
:class:`~qops_batsim.scheduling.news.News`; no running job is expected to end before the next one;
the promised start for which a call was asked last.
"""


(
    GONE,
    STARTING,
    REJECTING,
    RENEWING,
    UNDONE,
    CULPRITS,
    CULPRIT_RUNS,
    LOSING,
    LOSSES,
    SCRATCH,
    KILLING,
    CANCELLED,
) = range(12)
"""Rows of :attr:`State.lists`, of slots of jobs.

Running jobs that were told to have ended since the last decision; what was decided last: the jobs
that start now, in order, those that never run, and those whose promises were made anew; killed jobs
whose runs had ended by themselves, told since the last decision; who is to blame for what was moved
in this decision, and the numbers of their runs; running jobs with hosts that have gone away, and
how many; room; jobs that were decided to be killed, and run again; jobs that users cancelled since
the last decision.
"""


class Given(NamedTuple):
    """Reservations that others than waiting jobs have given up since the last compression.

    Attributes
    ----------
    dates
        First and last date of it (seconds).
    hosts
        Room for a row of hosts.
    counts
        Room for how many hosts are free in each step of the profile.
    """

    dates: Floats
    hosts: Words
    counts: Ints


EVER = -np.inf, np.inf
"""First and last date of what may have been given up at any date."""


def new_given(words: int) -> Given:
    """Return that nothing was given up, with room for rows of so many words."""
    return Given(np.array([np.inf, -np.inf]), np.zeros(words, np.uint64), np.zeros(0, np.int64))


class State(NamedTuple):
    """A plan.

    Attributes
    ----------
    jobs
        All jobs by slot.
    profile
        What is free beside the running and the waiting jobs.
    waiting
        The waiting jobs by planned start, ties by arrival.
    running
        The running jobs in any order, also killed ones until their ends are told.
    claims
        Promised starts and maintenance windows to come.
    lists, sizes
        Lists of slots and their lengths: see :data:`GONE` and the others.
    given
        What was given up since the last compression.
    counts, clock
        See :data:`DECIDED` and :data:`NOW` and the others.
    everything
        What is there: one number of processors, or a row of hosts.
    free_hosts
        Hosts that a job can start on, where jobs reserve certain hosts.
    log
        What was decided, in rows.
    past
        By user, run times of the last two jobs that have ended (seconds), where run times are
        predicted from them; else empty.
    """

    jobs: Jobs
    profile: Profile
    waiting: Queue
    running: Queue
    claims: Claims
    lists: Ints
    sizes: Ints
    given: Given
    counts: Ints
    clock: Floats
    everything: Rows
    free_hosts: Words
    log: RowLog
    past: Floats


def new_state(
    jobs: Jobs,
    machine_size: int,
    *,
    words: int = 0,
    promises: bool = False,
    promised: int = TARGETS,
    logs: bool = False,
    claims: int = 0,
) -> State:
    """Return an empty plan for these jobs, none of which has arrived.

    Parameters
    ----------
    words
        Words of a row of hosts, where jobs reserve certain hosts.
    promises, promised
        Whether anything is promised, and the row of ``jobs.numbers`` with what is: targets, or
        latest starts.
    logs
        Whether decisions are logged.
    claims
        Room for so many promised starts and windows.
    """
    slots, most = len(jobs.processors), 2 * machine_size + 2
    counts, clock = np.zeros(21, np.int64), np.zeros(7)
    counts[MACHINE] = counts[PRESENT] = counts[NOTED_PRESENT] = counts[FREE] = machine_size
    counts[HAS_PROMISES], counts[PROMISED], counts[LOGS] = promises, promised, logs
    clock[NEWS_GRACE], clock[TOLERANCE], clock[MOST_LAG] = GRACE, GRID_TOLERANCE, GRID_TOLERANCE
    clock[SOONEST], clock[CALLED_FOR] = np.inf, -np.inf
    everything: Any = np.array([machine_size], np.int64)
    free: Any = np.zeros(0, np.uint64)
    profile = new_profile(machine_size)
    if words:
        everything, free = all_hosts(machine_size, words), all_hosts(machine_size, words)
        profile = new_profile(everything)
    made = State(
        jobs=jobs,
        profile=profile,
        waiting=new_queue(slots),
        running=new_queue(most),
        claims=new_claims(claims, words),
        lists=np.zeros((12, slots + most), np.int64),
        sizes=np.zeros(12, np.int64),
        given=new_given(words),
        counts=counts,
        clock=clock,
        everything=everything,
        free_hosts=free,
        log=new_log(),
        past=np.zeros((0, 2)),
    )
    return with_profile(made, profile)


def with_profile(state: State, profile: Profile) -> State:
    """Return the same plan with the same profile in larger arrays."""
    steps = len(profile.times) if profile.free.ndim == 2 else 0
    given = state.given._replace(counts=np.zeros(steps, np.int64))
    return state._replace(profile=profile, given=given)


def with_jobs(state: State, jobs: Jobs) -> State:
    """Return the same plan with the same jobs in larger arrays."""
    slots, most = len(jobs.processors), len(state.running.slots)
    lists = np.zeros((len(state.sizes), slots + most), np.int64)
    lists[:, : state.lists.shape[1]] = state.lists
    waiting = np.zeros(slots, np.int64)
    waiting[: len(state.waiting.slots)] = state.waiting.slots
    return state._replace(jobs=jobs, lists=lists, waiting=Queue(waiting, state.waiting.size))


def all_hosts(hosts: int, words: int) -> Words:
    """Return the row of the first so many hosts."""
    bits = np.zeros(64 * words, np.uint8)
    bits[:hosts] = 1
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)


def steps_for(jobs: int, running: int) -> int:
    """Return the most steps of a profile of so many jobs, of which so many run."""
    return STEPS_PER_RESERVATION * (jobs + running + 2)
