"""State of the scheduler ``slurm`` in arrays, and its options as numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.scheduling.arrays import Floats, Ints, Words
from qops_batsim.scheduling.host_words import WORD_BITS

WAITING, RUNNING, RECORDS, USERS, CHANGED, WAITED, STARTED, CANCELLED, GONE = range(9)
"""Indices into :attr:`Book.counts`: jobs of the line, running jobs, records of the map, users that
are known, whether anything has changed since the last backfill pass, whether jobs waited before;
how many jobs start now, are cancelled now, and have ended since the last decision."""

TICK, BACKFILL, ASKED, LATE, FRACTION = range(5)
"""Indices into :attr:`Book.dates` (seconds): of the next calculation of priorities, of the last
backfill pass, of the next call asked for, and of the pass that finds the next job late; what now is
after the last whole second."""

USER_LEVEL, ACCOUNT_LEVEL, ACCOUNT_SHARES, ACCOUNT_USAGE = range(4)
"""Rows of :attr:`Book.levels`: level factors of users and of accounts, shares and usage of the
users of an account."""

JOBS_PER_USER, PROCESSORS_PER_USER, JOBS, PROCESSORS = range(4)
"""Columns of :attr:`Rules.limits`."""


class Rules(NamedTuple):
    """Options of ``slurm``, as :class:`~qops_batsim.scheduling.slurm.options.SlurmOptions` has
    them.

    ``limits`` are by QOS, and in the last row those of every user; ``decay`` is the factor by
    which usage fades in a second.
    """

    weight_age: float
    weight_fairshare: float
    max_age: float
    calc_period: float
    decay: float
    interval: float
    resolution: float
    window: float
    max_job_test: int
    cancels: bool
    limits: Floats


class Book(NamedTuple):
    """Jobs, users and hosts as ``slurm`` knows them.

    Attributes
    ----------
    base, priorities
        By slot: the part of the priority that does not change, and the priority.
    users, qos
        By slot: which user, and the row of the limits of its QOS.
    line
        Slots of the waiting jobs by descending priority.
    run_slots, run_ends, run_hosts
        By place: running jobs, their expected ends and hosts.
    run_starts, run_places
        By place: since when usage is not counted. The places in use by expected end, then the
        unused ones.
    map_begins, map_ends, map_hosts, map_next
        Records of the backfill map: from when until when these hosts are not reserved, and which
        record follows (0: none).
    accounts, user_shares, account_shares, usage, factors
        By user or account: the account of a user, shares, decayed processor-seconds, and the
        fair-share factor.
    levels, order
        Rows by user or account; users in the order of their ranks.
    user_jobs, user_processors, qos_jobs, qos_processors
        What runs: by QOS and user, and by QOS; the last row is that of all QOS.
    free, present
        Hosts that are free, and that are there.
    window_dates, window_hosts
        Maintenance windows to come: when each begins and ends, and its hosts.
    trial, chosen, future, left
        Room for sets of hosts.
    started, cancelled, gone
        Places of jobs that start now; slots of those cancelled, and of those that have ended.
    cancel_dates
        By slot, when it was cancelled (seconds); NaN if it was not.
    dates, counts
        See the indices.
    """

    base: Floats
    priorities: Floats
    users: Ints
    qos: Ints
    line: Ints
    run_slots: Ints
    run_ends: Floats
    run_starts: Floats
    run_hosts: Words
    run_places: Ints
    map_begins: Floats
    map_ends: Floats
    map_hosts: Words
    map_next: Ints
    accounts: Ints
    user_shares: Floats
    account_shares: Floats
    usage: Floats
    factors: Floats
    levels: Floats
    order: Ints
    user_jobs: Ints
    user_processors: Ints
    qos_jobs: Ints
    qos_processors: Ints
    free: Words
    present: Words
    window_dates: Floats
    window_hosts: Words
    trial: Words
    chosen: Words
    future: Words
    left: Words
    started: Ints
    cancelled: Ints
    gone: Ints
    cancel_dates: Floats
    dates: Floats
    counts: Ints


def new_book(slots: int, users: int, hosts: int, rules: Rules) -> Book:
    """Return an empty machine with room for so many jobs and users."""
    words, most = max(1, -(-hosts // WORD_BITS)), hosts + 1
    records, kinds = 2 * rules.max_job_test + 4, len(rules.limits)
    everything = np.zeros(words, np.uint64)
    for host in range(hosts):
        everything[host // WORD_BITS] |= np.uint64(1) << np.uint64(host % WORD_BITS)
    return Book(
        base=np.zeros(slots),
        priorities=np.zeros(slots),
        users=np.zeros(slots, np.int64),
        qos=np.zeros(slots, np.int64),
        line=np.zeros(slots, np.int64),
        run_slots=np.zeros(most, np.int64),
        run_ends=np.zeros(most),
        run_starts=np.zeros(most),
        run_hosts=np.zeros((most, words), np.uint64),
        run_places=np.arange(most),
        map_begins=np.zeros(records),
        map_ends=np.zeros(records),
        map_hosts=np.zeros((records, words), np.uint64),
        map_next=np.zeros(records, np.int64),
        accounts=np.zeros(users, np.int64),
        user_shares=np.ones(users),
        account_shares=np.ones(users),
        usage=np.zeros(users),
        factors=np.ones(users),
        levels=np.zeros((4, users)),
        order=np.arange(users),
        user_jobs=np.zeros((kinds, users), np.int64),
        user_processors=np.zeros((kinds, users), np.int64),
        qos_jobs=np.zeros(kinds, np.int64),
        qos_processors=np.zeros(kinds, np.int64),
        free=everything.copy(),
        present=everything,
        window_dates=np.zeros((0, 2)),
        window_hosts=np.zeros((0, words), np.uint64),
        trial=np.zeros(words, np.uint64),
        chosen=np.zeros(words, np.uint64),
        future=np.zeros(words, np.uint64),
        left=np.zeros(words, np.uint64),
        started=np.zeros(most, np.int64),
        cancelled=np.zeros(slots, np.int64),
        gone=np.zeros(most, np.int64),
        cancel_dates=np.full(slots, np.nan),
        dates=np.array([0.0, -np.inf, np.inf, np.inf, 0.0]),
        counts=np.zeros(9, np.int64),
    )
