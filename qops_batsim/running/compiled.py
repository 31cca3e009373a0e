"""Whole simulations in compiled code: the events of a simulation, and the decisions about them.

Each loop goes on until nothing happens any more, or until it needs something, and returns why.
The rules are those of :mod:`qops_batsim.scheduling`, which the decision modules call as well.
"""

from __future__ import annotations

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.running.event_kernels import (
    ARRIVED,
    NEXT,
    REASON,
    Events,
    begin,
    call_at,
    next_message,
    reject,
    take_these_hosts,
)
from qops_batsim.scheduling.arrays import Jobs, Queue
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
