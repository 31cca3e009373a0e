"""Whole simulations in compiled code: the events of a simulation, and the decisions about them.

Each loop goes on until nothing happens any more, or until it needs something, and returns why.
The rules are those of :mod:`qops_batsim.scheduling`, which the decision modules call as well.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.running.event_kernels import (
    ARRIVED,
    FREE,
    LOG_FULL,
    NEXT,
    REASON,
    Events,
    begin,
    call_at,
    kill,
    next_message,
    reject,
    start,
    take_these_hosts,
)
from qops_batsim.scheduling.admission.feedback import OfferRoom, OfferTerms, decide_fqops
from qops_batsim.scheduling.admission.foresight_search import ForesightRoom, decide_foresight
from qops_batsim.scheduling.admission.mrt_search import Notes, decide_mrt
from qops_batsim.scheduling.admission.msb_search import Prices, decide_msb
from qops_batsim.scheduling.admission.qops_search import QopsRules, decide_qops
from qops_batsim.scheduling.admission.search import Room
from qops_batsim.scheduling.arrays import Jobs, Queue, Rows
from qops_batsim.scheduling.core.columns import CHECKPOINTED, IS_HELD
from qops_batsim.scheduling.core.decision import decide_conservative
from qops_batsim.scheduling.core.plan import call_for_start
from qops_batsim.scheduling.core.state import FREE as PLAN_FREE
from qops_batsim.scheduling.core.state import (
    GONE,
    IDLE,
    KILLING,
    KNOWN,
    NOW,
    PHASE,
    REJECTING,
    STARTING,
    State,
)
from qops_batsim.scheduling.predictions import renew_estimates
from qops_batsim.scheduling.profile import up_to_grid
from qops_batsim.scheduling.slurm.book import CANCELLED, STARTED, Book, Rules
from qops_batsim.scheduling.slurm.book import GONE as SLURM_GONE
from qops_batsim.scheduling.slurm.passes import arrive, decide_slurm


@kernel
def fits(events: Events, job: int, hosts: int) -> bool:
    """Tell whether a job that was submitted now can ever run; if not, reject it."""
    if 1 <= events.processors[job] <= hosts:
        return True
    reject(events, job)
    return False


# Schedulers that keep a plan


@kernel
def next_decision(events: Events, state: State) -> bool:
    """Let happen what happens next, and tell the plan; False if nothing does, or for want of room.

    A decision that was broken off for want of room goes on.
    """
    if state.counts[PHASE] == IDLE:
        running, log = state.running.size[0], state.log
        if log.size[0] + 2 * running + 64 > len(log.codes):
            events.counts[REASON] = LOG_FULL
            return False
        if not next_message(events, gone_in(state)):
            return False
        tell_ends(events, state)
        return_free_hosts(state.jobs.reserved, state)
        state.clock[NOW] = up_to_grid(events.dates[0])
        state.counts[KNOWN] = events.counts[NEXT]
        renew_estimates(state)
        state.counts[PLAN_FREE] = events.counts[FREE]
    return True


@kernel
def gone_in(state: State) -> Queue:
    """Return the list of what has ended since the last decision."""
    return Queue(state.lists[GONE], state.sizes[GONE : GONE + 1])


@kernel
def tell_ends(events: Events, state: State) -> None:
    """Tell the plan which jobs have ended; those that were killed may start again."""
    for index in range(state.sizes[GONE]):
        slot = events.jobs[state.lists[GONE, index]]
        state.lists[GONE, index] = slot
        state.jobs.marks[IS_HELD, slot] = 0


@kernel
def carry_out(events: Events, state: State, is_made: bool) -> bool:
    """Carry a decision out, if the log had the room that it could be made; tell whether."""
    if not is_made:
        events.counts[REASON] = LOG_FULL
        return False
    for index in range(state.sizes[REJECTING]):
        reject(events, state.lists[REJECTING, index])
    for index in range(state.sizes[STARTING]):
        start_reserved(events, state.jobs.reserved, state.lists[STARTING, index])
    date = call_for_start(state)
    if date < np.inf:
        call_at(events, date)
    for index in range(state.sizes[KILLING]):
        slot = state.lists[KILLING, index]
        kill(events, gone_in(state), slot, state.jobs.numbers[CHECKPOINTED, slot])
    return True


@kernel
def return_free_hosts(rows: Rows, state: State) -> None:
    """Count the hosts of jobs that have ended as free, where jobs reserve certain hosts."""
    if rows.ndim == 2:
        for index in range(state.sizes[GONE]):
            slot = state.lists[GONE, index]
            for word in range(len(state.free_hosts)):
                state.free_hosts[word] |= rows[slot, word]


@kernel
def start_reserved(events: Events, rows: Rows, job: int) -> None:
    """Start a job now on the hosts that it has reserved, or the lowest free ones."""
    run = events.latest[job]
    if rows.ndim == 2:
        take_these_hosts(events, run, rows[job])
        begin(events, run)
    else:
        start(events, run)


@kernel
def run_conservative(events: Events, state: State) -> int:
    """Reserve for every job, as :class:`~qops_batsim.scheduling.conservative.Conservative`."""
    while next_decision(events, state):
        if not carry_out(events, state, decide_conservative(state)):
            break
    return int(events.counts[REASON])


@kernel
def run_qops(events: Events, state: State, room: Room, rules: QopsRules) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.qops.Qops`."""
    while next_decision(events, state):
        if not carry_out(events, state, decide_qops(state, room, rules)):
            break
    return int(events.counts[REASON])


@kernel
def run_fqops(
    events: Events, state: State, room: Room, offers: OfferRoom, terms: OfferTerms
) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.fqops.Fqops`."""
    while next_decision(events, state):
        if not carry_out(events, state, decide_fqops(state, room, offers, terms)):
            break
    return int(events.counts[REASON])


@kernel
def run_foresight(events: Events, state: State, room: Room, foresight: ForesightRoom) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.foresight.Foresight`."""
    while next_decision(events, state):
        if not carry_out(events, state, decide_foresight(state, room, foresight)):
            break
    return int(events.counts[REASON])


@kernel
def run_msb(events: Events, state: State, room: Room, prices: Prices) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.msb.Msb`."""
    while next_decision(events, state):
        if not carry_out(events, state, decide_msb(state, room, prices)):
            break
    return int(events.counts[REASON])


@kernel
def run_mrt(events: Events, state: State, room: Room, notes: Notes) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.mrt.Mrt`."""
    while next_decision(events, state):
        if not carry_out(events, state, decide_mrt(state, room, notes)):
            break
    return int(events.counts[REASON])


@kernel
def run_slurm(events: Events, hosts: int, rules: Rules, jobs: Jobs, book: Book) -> int:
    """Let Slurm's passes decide, as :class:`~qops_batsim.scheduling.slurm.scheduler.Slurm`."""
    counts, gone = events.counts, Queue(book.gone, book.counts[SLURM_GONE : SLURM_GONE + 1])
    while next_message(events, gone):
        for job in range(counts[ARRIVED], counts[NEXT]):
            if fits(events, job, hosts):
                arrive(rules, jobs, book, job)
        date = decide_slurm(up_to_grid(events.dates[0]), rules, jobs, book)
        for index in range(book.counts[CANCELLED]):
            reject(events, book.cancelled[index])
        for index in range(book.counts[STARTED]):
            place = book.started[index]
            take_these_hosts(events, book.run_slots[place], book.run_hosts[place])
            begin(events, book.run_slots[place])
        book.counts[CANCELLED] = book.counts[STARTED] = 0
        if date < np.inf:
            call_at(events, date)
    return int(counts[REASON])
