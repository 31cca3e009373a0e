"""The events of a simulation in which jobs only sleep, compiled: dates, hosts, ends, submissions.

The order of events is that of :mod:`~qops_batsim.engine.simulation`, to the last bit of each
date. Jobs are known by their positions in the order of submission.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Ints, Queue, Words, grown, new_queue
from qops_batsim.scheduling.host_words import has_host
from qops_batsim.scheduling.profile import on_grid
from qops_batsim.timing import SAME_DATE, SHORTEST_CALL_DELAY

NO_JOB = -1
"""In place of a job: none."""

OVER, PAUSED, FULL, LOG_FULL = range(4)
"""Why there is no next message.

Nothing happens any more, so many were told, or no room is left for hosts, or in the log of
decisions.
"""

(
    NEXT,
    ARRIVED,
    BEGAN,
    SUBMITTER,
    AGAIN,
    LEFT,
    ENDED,
    CHANGES,
    BUSY,
    FREE,
    GAPS,
    USED,
    REASON,
    RUNS,
    KILLED,
    AFTER_KILL,
    IDLE_CALL,
) = range(17)
"""Indices into :attr:`Events.counts`.

The next job to submit, and the first of those told now; how many waits began, the number of the
submitter's; how many more messages there are at this date; how many messages may still be told;
lengths of ``ended`` and of ``change_dates``; busy and free hosts; intervals of free hosts, and of
those of runs; why there was no next message; number of runs; how many were killed since the last
message, and how many messages follow a kill at its date; a run that stood for a call that has come,
or -1.
"""


class Events(NamedTuple):
    """A simulation in arrays.

    The first run of each job has the job's number; each time that a run is killed to be run again,
    that makes another run. A call at a date is a run of no job, until it comes.

    Attributes
    ----------
    submission_times, run_times_again
        By job (seconds): when it is submitted, and how long it takes when it is run again.
    rests
        By job, how much of its run time is left since its work was saved last (seconds).
    processors, run_times
        By run (seconds).
    starts, finishes
        Dates by run (seconds); of a running one when it will end, NaN if it has not started.
    numbers
        When each wait for the end of a run began, among all waits.
    latest, jobs
        The latest run of each job; the job of each run, -1 for a call.
    submitted
        By run, for those that are not first: how many jobs were submitted before; of a call that
        has come, the one that came before it.
    waits
        What runs, as a heap by end and number.
    dates
        Now, and the date of the next submission (seconds).
    counts
        See :data:`NEXT` and the others.
    ended, change_dates, computing
        As in :class:`~qops_batsim.engine.delay_jobs.Outcome`.
    gap_first, gap_last
        Intervals of free hosts, the lowest one last.
    first, last
        Intervals of the hosts of all runs that have started.
    offsets, pieces
        Where those of each job begin, and how many they are.
    """

    submission_times: Floats
    run_times_again: Floats
    rests: Floats
    processors: Ints
    run_times: Floats
    starts: Floats
    finishes: Floats
    numbers: Ints
    latest: Ints
    jobs: Ints
    submitted: Ints
    waits: Queue
    dates: Floats
    counts: Ints
    ended: Ints
    change_dates: Floats
    computing: Ints
    gap_first: Ints
    gap_last: Ints
    first: Ints
    last: Ints
    offsets: Ints
    pieces: Ints


def new_events(
    submission_times: Floats,
    processors: Ints,
    run_times: Floats,
    hosts: int,
    *,
    run_times_again: Floats | None = None,
    after_kill: int = 1,
    calls: int = 0,
) -> Events:
    """Return a simulation of these jobs, at least one, that has not begun.

    ``run_times_again`` are given where jobs may be killed and run again, ``after_kill`` how many
    messages follow then. ``calls`` is how many calls there is room for, if any are asked for.
    """
    jobs, rests = len(processors), run_times
    again, runs = run_times, jobs + calls
    if run_times_again is not None:
        # As a rule no more runs are killed than jobs come; else there is more room.
        again, rests, runs = run_times_again, run_times.copy(), 2 * jobs
        processors, run_times = grown(processors), grown(run_times)
    counts = np.zeros(17, np.int64)
    counts[BEGAN] = counts[GAPS] = 1  # The submitter waits, and all hosts are one interval.
    counts[IDLE_CALL] = NO_JOB
    counts[FREE], counts[RUNS], counts[AFTER_KILL] = hosts, jobs, after_kill
    events = Events(
        submission_times,
        again,
        rests,
        processors,
        run_times,
        starts=np.full(runs, np.nan),
        finishes=np.full(runs, np.nan),
        numbers=np.zeros(runs, np.int64),
        latest=np.arange(jobs),
        jobs=np.arange(runs),
        submitted=np.zeros(runs, np.int64),
        waits=new_queue(min(hosts, jobs) + calls),
        dates=np.array([0.0, max(0.0, submission_times[0])]),
        counts=counts,
        ended=np.empty(runs, np.int64),
        change_dates=np.empty(2 * runs),
        computing=np.empty(2 * runs, np.int64),
        gap_first=np.zeros(hosts + 1, np.int64),
        gap_last=np.zeros(hosts + 1, np.int64),
        first=np.empty(2 * hosts + jobs, np.int64),
        last=np.empty(2 * hosts + jobs, np.int64),
        offsets=np.zeros(runs, np.int64),
        pieces=np.zeros(runs, np.int64),
    )
    events.gap_last[0] = hosts - 1
    return events


def with_room(events: Events) -> Events:
    """Return the same with twice the room for what has none: intervals of hosts, calls, or runs."""
    if not lacks_run(events):
        return events._replace(first=grown(events.first), last=grown(events.last))
    names = ["starts", "finishes", "numbers", "jobs", "submitted"]
    if may_kill(events):
        names += ["processors", "run_times", "ended", "change_dates", "computing"]
        names += ["offsets", "pieces"]
    more = {name: grown(getattr(events, name)) for name in names}
    more["starts"][len(events.starts) :] = more["finishes"][len(events.starts) :] = np.nan
    waits = (
        events.waits if may_kill(events) else Queue(grown(events.waits.slots), events.waits.size)
    )
    return events._replace(**more, waits=waits)


@kernel
def may_kill(events: Events) -> bool:
    """Return whether jobs may be killed and run again."""
    return len(events.processors) > len(events.submission_times)


@kernel
def lacks_run(events: Events) -> bool:
    """Return whether there may be too little room for calls, or for what is killed next."""
    counts, runs = events.counts, len(events.jobs)
    if may_kill(events):
        return bool(counts[RUNS] + events.waits.size[0] > runs)
    full = counts[RUNS] == runs and counts[IDLE_CALL] == NO_JOB
    return bool(full and runs > len(events.submission_times))


def intervals_of(events: Events, runs: Ints) -> tuple[Ints, Ints, Ints]:
    """Return where the intervals of the hosts of runs begin, and these intervals."""
    pieces = events.pieces[runs]
    offsets = np.zeros(len(runs) + 1, np.int64)
    np.cumsum(pieces, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(events.offsets[runs] - offsets[:-1], pieces)
    return offsets, events.first[places], events.last[places]


@kernel
def comes_before(events: Events, run: int, other: int) -> bool:
    """Whether something that runs ends before something else."""
    date, later = events.finishes[run], events.finishes[other]
    return bool(date < later or (date == later and events.numbers[run] < events.numbers[other]))


@kernel
def push(events: Events, run: int) -> None:
    """Wait for the end of a run. O(log running)."""
    heap, size = events.waits
    place = size[0]
    size[0] += 1
    while place > 0:
        above = (place - 1) // 2
        if not comes_before(events, run, heap[above]):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = run


@kernel
def leave(events: Events, run: int) -> None:
    """Wait for the end of a run no more. O(running)."""
    heap, place = events.waits.slots, 0
    while heap[place] != run:
        place += 1
    while place > 0:
        above = (place - 1) // 2
        heap[place] = heap[above]
        place = above
    heap[0] = run
    pop(events)


@kernel
def pop(events: Events) -> int:
    """Take the run out that ends first. O(log running)."""
    heap, size = events.waits
    first = heap[0]
    size[0] -= 1
    count = size[0]
    run, place = heap[count], 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and comes_before(events, heap[below + 1], heap[below]):
            below += 1
        if not comes_before(events, heap[below], run):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = run
    return int(first)


@kernel
def take_hosts(events: Events, job: int) -> None:
    """Give a job the lowest free hosts. O(intervals)."""
    counts = events.counts
    missing, gaps, used = events.processors[job], counts[GAPS], counts[USED]
    counts[FREE] -= missing
    events.offsets[job] = used
    while missing > 0:
        low, high = events.gap_first[gaps - 1], events.gap_last[gaps - 1]
        if high - low + 1 > missing:
            high = low + missing - 1
            events.gap_first[gaps - 1] = high + 1
        else:
            gaps -= 1
        events.first[used], events.last[used] = low, high
        used += 1
        missing -= high - low + 1
    events.pieces[job] = used - counts[USED]
    counts[GAPS], counts[USED] = gaps, used


@kernel
def gap_of(events: Events, host: int) -> int:
    """Return the first interval of free hosts that does not begin behind a host. O(log free)."""
    begin, end = 0, events.counts[GAPS]
    while begin < end:
        middle = (begin + end) // 2
        if events.gap_first[middle] > host:
            begin = middle + 1
        else:
            end = middle
    return int(begin)


@kernel
def take_interval(events: Events, low: int, high: int) -> None:
    """Take an interval out of the free hosts, all of which are free. O(intervals)."""
    gap_first, gap_last, gaps = events.gap_first, events.gap_last, events.counts[GAPS]
    gap = gap_of(events, low)
    first, last = gap_first[gap], gap_last[gap]
    if first == low and last == high:
        for place in range(gap, gaps - 1):
            gap_first[place], gap_last[place] = gap_first[place + 1], gap_last[place + 1]
        events.counts[GAPS] = gaps - 1
    elif first == low:
        gap_first[gap] = high + 1
    elif last == high:
        gap_last[gap] = low - 1
    else:
        for place in range(gaps, gap + 1, -1):
            gap_first[place], gap_last[place] = gap_first[place - 1], gap_last[place - 1]
        gap_first[gap], gap_last[gap + 1] = high + 1, low - 1
        gap_first[gap + 1] = first
        events.counts[GAPS] = gaps + 1


@kernel
def take_these_hosts(events: Events, job: int, hosts: Words) -> None:
    """Give a job certain hosts, which are free: a row of bits. O(machine)."""
    counts = events.counts
    used = events.offsets[job] = counts[USED]
    counts[FREE] -= events.processors[job]
    host, end = 0, 64 * len(hosts)
    while host < end:
        if host % 64 == 0 and hosts[host // 64] == 0:
            host += 64
            continue
        if not has_host(hosts, host):
            host += 1
            continue
        low = host
        while host < end and has_host(hosts, host):
            host += 1
        take_interval(events, low, host - 1)
        events.first[used], events.last[used] = low, host - 1
        used += 1
    events.pieces[job] = used - counts[USED]
    counts[USED] = used


@kernel
def return_hosts(events: Events, job: int) -> None:
    """Count the hosts of a job among the free ones. O(intervals × log free + free)."""
    counts, gap_first, gap_last = events.counts, events.gap_first, events.gap_last
    counts[FREE] += events.processors[job]
    gaps = counts[GAPS]
    for piece in range(events.offsets[job], events.offsets[job] + events.pieces[job]):
        low, high = events.first[piece], events.last[piece]
        counts[GAPS] = gaps
        begin = gap_of(events, low)
        # Those before are higher, those from there on are lower.
        joins_higher = begin > 0 and gap_first[begin - 1] == high + 1
        joins_lower = begin < gaps and gap_last[begin] == low - 1
        if joins_higher and joins_lower:
            gap_first[begin - 1] = gap_first[begin]
            gaps -= 1
            for place in range(begin, gaps):
                gap_first[place], gap_last[place] = gap_first[place + 1], gap_last[place + 1]
        elif joins_higher:
            gap_first[begin - 1] = low
        elif joins_lower:
            gap_last[begin] = high
        else:
            for place in range(gaps, begin, -1):
                gap_first[place], gap_last[place] = gap_first[place - 1], gap_last[place - 1]
            gap_first[begin], gap_last[begin] = low, high
            gaps += 1
    counts[GAPS] = gaps


@kernel
def count_busy(events: Events, more: int) -> None:
    """Note that more hosts compute from now on, or fewer."""
    counts = events.counts
    counts[BUSY] += more
    events.change_dates[counts[CHANGES]] = events.dates[0]
    events.computing[counts[CHANGES]] = counts[BUSY]
    counts[CHANGES] += 1


@kernel
def start(events: Events, job: int) -> None:
    """Start a job now, on the lowest free hosts."""
    take_hosts(events, job)
    begin(events, job)


@kernel
def begin(events: Events, job: int) -> None:
    """Have a job run that has its hosts."""
    now = events.dates[0]
    count_busy(events, events.processors[job])
    events.starts[job] = now
    events.finishes[job] = now + events.run_times[job]
    events.numbers[job] = events.counts[BEGAN]
    events.counts[BEGAN] += 1
    push(events, job)


@kernel
def end(events: Events, job: int) -> None:
    """End a job now."""
    events.finishes[job] = events.dates[0]
    return_hosts(events, job)
    count_busy(events, -events.processors[job])
    reject(events, job)


@kernel
def kill(events: Events, gone: Queue, job: int, saved: float) -> None:
    """Kill what runs of a job now, and have it wait to be run again; the next message tells it.

    The seconds of the run that were saved are not run again.
    """
    counts, run, again = events.counts, events.latest[job], events.counts[RUNS]
    leave(events, run)
    end(events, run)
    gone.slots[counts[KILLED]] = run
    counts[KILLED] += 1
    counts[AGAIN] = counts[AFTER_KILL]
    counts[RUNS] += 1
    events.latest[job], events.jobs[again] = again, job
    events.processors[again] = events.processors[run]
    if saved > 0.0:
        events.rests[job] = on_grid(events.rests[job] - saved)
        events.run_times_again[job] = events.rests[job]
    events.run_times[again] = events.run_times_again[job]
    events.submitted[again] = counts[NEXT]


@kernel
def reject(events: Events, job: int) -> None:
    """Note that nothing more becomes of a job."""
    events.ended[events.counts[ENDED]] = job
    events.counts[ENDED] += 1


@kernel
def call_at(events: Events, date: float) -> None:
    """Have a message at a later date, whatever happens."""
    counts = events.counts
    run = counts[IDLE_CALL]
    if run == NO_JOB:
        run = counts[RUNS]
        counts[RUNS] += 1
    else:
        counts[IDLE_CALL] = events.submitted[run]
    events.jobs[run] = NO_JOB
    events.finishes[run] = max(date, events.dates[0] + SHORTEST_CALL_DELAY)
    events.numbers[run] = counts[BEGAN]
    counts[BEGAN] += 1
    push(events, run)


@kernel
def submit(events: Events) -> None:
    """Submit the jobs of this date, and wait for that of the next ones."""
    dates, counts, jobs = events.submission_times, events.counts, len(events.submission_times)
    job = counts[NEXT]
    latest = max(events.dates[0], dates[job])
    while job < jobs and dates[job] <= latest:
        job += 1
    counts[NEXT] = job
    events.dates[1] = dates[job] if job < jobs else np.inf
    counts[SUBMITTER] = counts[BEGAN]
    if job < jobs:
        counts[BEGAN] += 1
    else:
        counts[AGAIN] = 1  # That no more will come is told alone, unless an end follows.


@kernel
def next_message(events: Events, gone: Queue) -> bool:
    """Let happen what happens next; False if nothing does, for :data:`OVER` or another reason.

    The message tells that the jobs from :data:`ARRIVED` to :data:`NEXT` were submitted, and
    those of ``gone`` have ended. O(ended × (log running + ended)).
    """
    counts, dates, waits = events.counts, events.dates, events.waits
    gone.size[0] = counts[KILLED]
    counts[KILLED] = 0
    counts[ARRIVED] = counts[NEXT]
    if counts[AGAIN]:
        counts[AGAIN] -= 1
        return True
    date = dates[1]
    if waits.size[0]:
        date = min(date, events.finishes[waits.slots[0]])
    if date == np.inf:
        counts[REASON] = OVER
        return False
    if counts[LEFT] == 0:
        counts[REASON] = PAUSED
        return False
    if len(events.first) - counts[USED] < len(events.gap_first) or lacks_run(events):
        counts[REASON] = FULL
        return False
    counts[LEFT] -= 1
    dates[0] = max(dates[0], date)
    soon = dates[0] + SAME_DATE
    while True:
        told, called = gone.size[0], -1
        while waits.size[0] and events.finishes[waits.slots[0]] <= soon:
            job, place = pop(events), gone.size[0]
            if events.jobs[job] == NO_JOB:
                called = max(called, events.numbers[job])
                events.submitted[job], counts[IDLE_CALL] = counts[IDLE_CALL], job
                continue
            gone.size[0] += 1
            while place > told and events.numbers[gone.slots[place - 1]] > events.numbers[job]:
                gone.slots[place] = gone.slots[place - 1]
                place -= 1
            gone.slots[place] = job
        submits, submitter = dates[1] <= soon, counts[SUBMITTER]
        if told == gone.size[0] and not submits and called < 0:
            return True
        if not submits:
            submitter = -1
        for place in range(told, gone.size[0]):
            job = gone.slots[place]
            if submits and counts[SUBMITTER] < events.numbers[job]:
                submit(events)
                submits = False
            counts[AGAIN] = 0
            end(events, job)
        if submits:
            submit(events)
        if called > submitter:
            counts[AGAIN] = 0
