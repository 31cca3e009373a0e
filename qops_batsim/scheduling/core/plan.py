"""The rules of a plan: what jobs that end, outlive their estimates, or start do to it.

They serve both kinds of plan: of numbers of processors and of certain hosts. The
profile holds the running and the waiting jobs; ``waiting`` is in order of planned
start, ties by arrival. The bounds on time are for numbers of processors: hosts
take ``steps × words`` instead of one for each step that a fit looks at.

Dates are nominal: a job that starts a little after its planned start, because news of
an end took time to arrive, counts as started then, and is expected to end accordingly.
So the delays of messages do not add up in the plan; what they add up to in truth is taken
up when it reaches half the grace.

Ends that come early compress the plan, which moves no start to a later date. A
running job that outlives its estimate is assumed to run until its walltime, without one
as long again, and one that outlives its prediction until its estimate is over; only then, or when
hosts leave, starts move to later dates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import (
    WINDOW,
    Claims,
    Floats,
    Ints,
    Jobs,
    Profile,
    Queue,
    Rows,
    Words,
)
from qops_batsim.scheduling.core.columns import (
    AIMS,
    ASSURED_STARTS,
    ENDS,
    ESTIMATES,
    FIXED_STARTS,
    GIVEN_FROM,
    GIVEN_UNTIL,
    IS_DYING,
    IS_HELD,
    IS_KEPT,
    KEYS,
    LAGS,
    LATEST_STARTS,
    LIMITS,
    LOST,
    LOST_DATES,
    PLACES,
    PROMISES,
    REQUESTED,
    SAVED_STARTS,
    STARTS,
    SUSPENDED,
    TARGETS,
)
from qops_batsim.scheduling.core.rows import RENEWED, append
from qops_batsim.scheduling.core.state import (
    CALLED_FOR,
    EVER,
    FREE,
    GONE,
    HAS_PROMISES,
    IS_FREED,
    IS_LATE,
    IS_RESIZED,
    LOST_HOSTS,
    MOST_LAG,
    NOW,
    PROMISED,
    PROMISES_GAINS,
    RENEWING,
    SCRATCH,
    SOONEST,
    STARTING,
    SUSPENSIONS,
    TOLERANCE,
    Given,
    State,
)
from qops_batsim.scheduling.host_fits import (
    change_hosts,
    count_free,
    earlier_in,
    fit_in,
    keeps_hosts,
)
from qops_batsim.scheduling.profile import (
    change,
    copy_row,
    drop_claim,
    end_of,
    on_grid,
    release,
    reserve,
    running_profile,
    segment_at,
    take_claims,
)
from qops_batsim.timing import DEADLINE_TOLERANCE, GRID_TOLERANCE


@kernel
def sort_slots(slots: Ints, first: int, end: int, keys: Floats) -> None:
    """Sort ``slots[first:end]`` by key, ties by arrival.

    O(n²), and linear if the order is nearly right, as after compression.
    """
    for index in range(first + 1, end):
        slot = slots[index]
        place = index
        while place > first and (
            keys[slots[place - 1]] > keys[slot]
            or (keys[slots[place - 1]] == keys[slot] and slots[place - 1] > slot)
        ):
            slots[place] = slots[place - 1]
            place -= 1
        slots[place] = slot


@kernel
def sort_ascending(values: Ints) -> None:
    """Sort integers. O(n^1.3), by Shell's method with gaps of the form (3^k - 1) / 2."""
    gap = 1
    while gap < len(values):
        gap = 3 * gap + 1
    while gap > 0:
        for index in range(gap, len(values)):
            value = values[index]
            place = index
            while place >= gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@kernel
def insert_by_start(waiting: Queue, starts: Floats, slot: int) -> None:
    """Insert the newest job among the waiting ones. O(waiting)."""
    slots = waiting.slots
    place = waiting.size[0]
    waiting.size[0] += 1
    while place > 0 and starts[slots[place - 1]] > starts[slot]:
        slots[place] = slots[place - 1]
        place -= 1
    slots[place] = slot


@kernel
def give_back(profile: Profile, start: float, end: float, amount: Any, given: Given) -> None:
    """Give processors or hosts back that waiting jobs may move to. O(steps × words)."""
    change(profile, start, end, amount, True)
    given.dates[0], given.dates[1] = min(given.dates[0], start), max(given.dates[1], end)


@kernel
def place_job(now: float, profile: Profile, jobs: Jobs, slot: int) -> None:
    """Plan a job at its earliest fit. O(steps)."""
    duration = jobs.numbers[ESTIMATES, slot]
    jobs.numbers[STARTS, slot] = fit_in(
        profile.free, profile, now, duration, jobs.processors[slot], jobs.reserved[slot]
    )
    reserve(profile, jobs.numbers[STARTS, slot], duration, jobs.reserved[slot])
    jobs.numbers[GIVEN_FROM, slot], jobs.numbers[GIVEN_UNTIL, slot] = np.inf, -np.inf


@kernel
def reserve_number(rows: Rows, slot: int, processors: int) -> None:
    """Have a job reserve a number of processors, unless jobs reserve certain hosts."""
    if rows.ndim == 1:
        rows[slot] = processors


@kernel
def place_new(state: State, slot: int) -> None:
    """Take a new job into the plan at its earliest fit."""
    place(nominal(state), state.profile, state.jobs, state.waiting, slot, slot + 1)


@kernel
def place(now: float, profile: Profile, jobs: Jobs, waiting: Queue, first: int, end: int) -> None:
    """Plan the jobs in slots ``first`` to ``end - 1`` at their earliest fits, in that order.

    O(jobs × (steps + waiting)).
    """
    for slot in range(first, end):
        place_job(now, profile, jobs, slot)
        insert_by_start(waiting, jobs.numbers[STARTS], slot)


@kernel
def place_again(
    now: float, profile: Profile, jobs: Jobs, slot: int, first: float, last: float, given: Given
) -> bool:
    """Move a planned job to its earliest fit, and tell whether it has moved; O(steps).

    Only between two dates others have given something up since it was placed, so it fits in
    earlier only where it touches that time. Hosts are chosen anew even where the start stays;
    ``given`` has room for them, and how many are free in each step.
    """
    times, size, rows, hosts = profile.times, profile.size[0], jobs.reserved, given.hosts
    planned, duration, needed = (
        jobs.numbers[STARTS, slot],
        jobs.numbers[ESTIMATES, slot],
        jobs.processors[slot],
    )
    after, limit = max(now, times[segment_at(times, size, first - duration)]), min(last, planned)
    start = earlier_in(
        rows, profile, after, duration, needed, limit, planned, rows[slot], hosts, given.counts
    )
    if start == planned and (start == np.inf or keeps_hosts(rows, slot, hosts)):
        return False
    release(profile, planned, duration, rows[slot])
    change_hosts(rows, slot, hosts)
    jobs.numbers[STARTS, slot] = start
    reserve(profile, start, duration, rows[slot])
    return True


@kernel
def compress(
    now: float, profile: Profile, jobs: Jobs, waiting: Queue, line: Ints, given: Given
) -> None:
    """Move the waiting jobs to their earliest fits, one by one in the order of a line.

    No start moves to a later date, because the old place is free. A job is looked at where
    others have given something up since it was placed or looked at: running jobs (``given``),
    or waiting ones that have moved. O(waiting × steps), O(waiting) if none does.
    """
    any_moved, dates, counted = False, given.dates, 0
    for slot in line:
        start, duration = jobs.numbers[STARTS, slot], jobs.numbers[ESTIMATES, slot]
        end = end_of(start, duration)
        first = min(dates[0], jobs.numbers[GIVEN_FROM, slot])
        last = max(dates[1], jobs.numbers[GIVEN_UNTIL, slot])
        jobs.numbers[GIVEN_FROM, slot], jobs.numbers[GIVEN_UNTIL, slot] = np.inf, -np.inf
        if start < now:
            # Rounding made it late. A number of processors is the same at any date.
            if profile.free.ndim == 1:
                continue
            release(profile, start, duration, jobs.reserved[slot])
            place_job(now, profile, jobs, slot)
            counted = 0
        elif first >= end or last <= now:
            continue
        else:
            count_free(profile.free, given.counts, counted, profile.size[0])
            counted = profile.size[0]
            if not place_again(now, profile, jobs, slot, first, last, given):
                continue
            # It has not moved to a later date: what is before its start stays.
            counted = segment_at(profile.times, profile.size[0], jobs.numbers[STARTS, slot])
        any_moved = True
        if start < np.inf:
            jobs.numbers[GIVEN_FROM, slot], jobs.numbers[GIVEN_UNTIL, slot] = start, end
            dates[0], dates[1] = min(dates[0], start), max(dates[1], end)
    dates[0], dates[1] = np.inf, -np.inf
    if any_moved:
        tell_earlier(jobs, line)
        sort_slots(waiting.slots, 0, waiting.size[0], jobs.numbers[STARTS])


@kernel
def tell_earlier(jobs: Jobs, line: Ints) -> None:
    """Note for each job of a line what those behind it have given up, in place of what it has."""
    first, last = np.inf, -np.inf
    for place in range(len(line) - 1, -1, -1):
        slot = line[place]
        own_first, own_last = jobs.numbers[GIVEN_FROM, slot], jobs.numbers[GIVEN_UNTIL, slot]
        jobs.numbers[GIVEN_FROM, slot], jobs.numbers[GIVEN_UNTIL, slot] = first, last
        first, last = min(first, own_first), max(last, own_last)


@kernel
def rebuild(state: State, mend: bool) -> None:
    """Make the plan anew because running jobs will not end when it assumed.

    Waiting jobs are placed in the order of the starts they had; these rested on the
    assumption, so starts may move to later dates. To ``mend`` promises, they are placed in the
    order of their latest starts instead, if fewer are late then. A job that will be late for that
    reason aims at its new end from now on: otherwise no plan could meet its target. With ``mend``,
    that is until it can be held to an earlier one (:func:`aim_again`). O(waiting × steps).
    """
    numbers, (slots, size) = state.jobs.numbers, state.waiting
    late = place_waiting(state)
    if mend and late > 0:
        for index in range(size[0]):
            slot = slots[index]
            target = min(numbers[AIMS, slot], numbers[TARGETS, slot])
            numbers[KEYS, slot] = target - numbers[ESTIMATES, slot]
        sort_slots(slots, 0, size[0], numbers[KEYS])
        for index in range(size[0]):
            numbers[KEYS, slots[index]] = numbers[STARTS, slots[index]]
        if place_waiting(state) >= late:
            for index in range(size[0]):
                numbers[STARTS, slots[index]] = numbers[KEYS, slots[index]]
            reserve_plan(state, state.clock[NOW])
    for index in range(size[0]):
        slot = slots[index]
        end = end_of(numbers[STARTS, slot], numbers[ESTIMATES, slot])
        if end > numbers[TARGETS, slot] + DEADLINE_TOLERANCE:
            if mend:
                numbers[AIMS, slot] = min(numbers[AIMS, slot], numbers[TARGETS, slot])
            numbers[TARGETS, slot] = end
    sort_slots(slots, 0, size[0], numbers[STARTS])


@kernel
def more_time(so_far: float, limit: float) -> float:
    """Return how much longer a job is assumed to run that outlives its estimate (seconds).

    Until it is killed, or if nothing kills it, as long again.
    """
    return max(limit - so_far if limit < np.inf else so_far, 1.0)


@kernel
def place_waiting(state: State) -> int:
    """Place the waiting jobs as they stand beside the running ones; return how many are late."""
    now, profile, jobs = state.clock[NOW], state.profile, state.jobs
    reserve_running(state, profile, now)
    late = 0
    for index in range(state.waiting.size[0]):
        slot = state.waiting.slots[index]
        place_job(now, profile, jobs, slot)
        target = min(jobs.numbers[AIMS, slot], jobs.numbers[TARGETS, slot])
        end = end_of(jobs.numbers[STARTS, slot], jobs.numbers[ESTIMATES, slot])
        late += end > target + DEADLINE_TOLERANCE
    return late


@kernel
def aim_again(jobs: Jobs, waiting: Queue) -> None:
    """Hold jobs that will be late to the ends that are planned now, or to what they aimed at."""
    for index in range(waiting.size[0]):
        slot = waiting.slots[index]
        if jobs.numbers[AIMS, slot] < jobs.numbers[TARGETS, slot] < np.inf:
            end = end_of(jobs.numbers[STARTS, slot], jobs.numbers[ESTIMATES, slot])
            jobs.numbers[TARGETS, slot] = max(jobs.numbers[AIMS, slot], end)


@kernel
def adopt(
    order: Ints, planned: Floats, count: int, jobs: Jobs, waiting: Queue, given: Given
) -> None:
    """Make a new plan the plan: slots and their starts, in any order.

    O(count²), and linear if they are nearly in order of start.
    """
    for index in range(count):
        waiting.slots[index] = order[index]
        jobs.numbers[STARTS, order[index]] = planned[index]
    given.dates[0], given.dates[1] = EVER
    waiting.size[0] = count
    sort_slots(waiting.slots, 0, count, jobs.numbers[STARTS])


# A whole plan


@kernel
def everything_of(rows: Rows, everything: Rows) -> Any:
    """Return what is there as a profile takes it: a number of processors, or a row of hosts."""
    if rows.ndim == 1:
        return everything[0]
    else:  # noqa: RET505 - numba leaves out the branch that does not apply
        return everything


@kernel
def nominal(state: State) -> float:
    """Return the date (seconds) to plan from: now, or the start that news still holds up."""
    slots, size = state.waiting
    now, claims = state.clock[NOW], state.claims
    if state.clock[IS_LATE] == 0.0:
        return float(now)
    if size[0] > 0:
        now = min(now, state.jobs.numbers[STARTS, slots[0]])
    for place in range(claims.size[0]):
        if claims.slots[place] != WINDOW:
            now = min(now, claims.dates[place, 0])
    return float(now)


@kernel
def expect_end(state: State, slot: int, end: float) -> None:
    """Expect a running job to end at a date (seconds). O(1)."""
    state.jobs.numbers[ENDS, slot] = end
    state.clock[SOONEST] = min(state.clock[SOONEST], end)


@kernel
def add_running(state: State, slot: int, end: float, lag: float) -> None:
    """Count a job among the running ones, which started so much later than planned. O(1)."""
    slots, size = state.running
    state.jobs.marks[PLACES, slot] = size[0]
    slots[size[0]] = slot
    size[0] += 1
    state.jobs.numbers[LAGS, slot] = lag
    expect_end(state, slot, end)


@kernel
def remove_running(state: State, slot: int) -> None:
    """Take a job out of the running ones; the last of them takes its place. O(1)."""
    slots, size = state.running
    size[0] -= 1
    place, moved = state.jobs.marks[PLACES, slot], slots[size[0]]
    slots[place], state.jobs.marks[PLACES, moved] = moved, place
    state.jobs.marks[PLACES, slot] = -1
    state.jobs.numbers[LAGS, slot] = 0.0
    state.jobs.marks[IS_DYING, slot] = False


@kernel
def actual_start(state: State, slot: int) -> float:
    """Return when a running job was started (seconds). O(1)."""
    return float(on_grid(state.jobs.numbers[STARTS, slot] + state.jobs.numbers[LAGS, slot]))


@kernel
def forget_gone(state: State) -> bool:
    """Give back the rest of ended jobs' reservations; return whether to compress. O(gone)."""
    now, ends = state.clock[NOW], state.jobs.numbers[ENDS]
    by_host = state.jobs.reserved.ndim == 2
    gone = state.sizes[GONE]
    early = state.counts[IS_FREED] != 0 or (by_host and gone > 0)
    state.counts[IS_FREED] = 0
    for index in range(gone):
        slot = state.lists[GONE, index]
        end = ends[slot]
        if end > now + GRID_TOLERANCE:
            give_back(state.profile, now, end, state.jobs.reserved[slot], state.given)
            early = True
        remove_running(state, slot)
    state.sizes[GONE] = 0
    return bool(early)


@kernel
def extend_overdue(state: State) -> bool:
    """Assume that jobs which outlive their estimate run on; tell if any do. O(running) if so."""
    now, due = state.clock[NOW], state.clock[NOW] - state.clock[TOLERANCE]
    if state.clock[SOONEST] >= due:
        return False
    state.clock[SOONEST] = np.inf
    found = False
    starts, ends = state.jobs.numbers[STARTS], state.jobs.numbers[ENDS]
    for index in range(state.running.size[0]):
        slot = state.running.slots[index]
        if state.jobs.marks[IS_DYING, slot]:
            continue
        end = ends[slot]
        if end < due:
            found = True
            start = starts[slot] = actual_start(state, slot)
            state.jobs.numbers[LAGS, slot] = 0.0
            limit = state.jobs.numbers[LIMITS, slot]
            if now - start < state.jobs.numbers[REQUESTED, slot]:
                limit = state.jobs.numbers[REQUESTED, slot]
            end = end_of(now, more_time(now - start, limit))
        expect_end(state, slot, end)
    return found


@kernel
def has_missed_start(state: State) -> bool:
    """Tell whether a job should have started before: its processors come free only now."""
    slots, size = state.waiting
    due = state.clock[NOW] - state.clock[TOLERANCE]
    return bool(size[0] > 0 and state.jobs.numbers[STARTS, slots[0]] < due)


@kernel
def take_up_lags(state: State) -> None:
    """Count all running jobs from their actual starts. O(running)."""
    starts, ends, lags = (
        state.jobs.numbers[STARTS],
        state.jobs.numbers[ENDS],
        state.jobs.numbers[LAGS],
    )
    for index in range(state.running.size[0]):
        slot = state.running.slots[index]
        if lags[slot] != 0.0:
            starts[slot] = on_grid(starts[slot] + lags[slot])
            expect_end(state, slot, on_grid(ends[slot] + lags[slot]))
            lags[slot] = 0.0


@kernel
def compress_plan(state: State, now: float) -> None:
    """Move waiting jobs up to their earliest fits, by start, or by arrival if by host."""
    size = state.waiting.size[0]
    line = state.waiting.slots[:size]
    if state.jobs.reserved.ndim == 2:
        line = state.lists[SCRATCH, :size]
        for index in range(size):
            line[index] = state.waiting.slots[index]
        sort_ascending(line)
    compress(now, state.profile, state.jobs, state.waiting, line, state.given)


@kernel
def rebuild_plan(state: State) -> None:
    """Make the plan anew, because it assumed what is not so; see :func:`rebuild`.

    Where news is late promises are not mended: that is made up for otherwise. Latest starts
    follow starts, which no promise foresaw.
    """
    by_start = state.counts[PROMISED] == LATEST_STARTS
    if by_start:
        save_starts(state)
    rebuild(state, state.counts[HAS_PROMISES] != 0 and state.clock[IS_LATE] == 0.0)
    if by_start:
        # Besides an end that comes late there can be one that comes early.
        promise_gains(state)
        starts, latest = state.jobs.numbers[STARTS], state.jobs.numbers[LATEST_STARTS]
        for index in range(state.waiting.size[0]):
            slot = state.waiting.slots[index]
            latest[slot] = max(latest[slot], starts[slot])


@kernel
def save_starts(state: State) -> None:
    """Save the starts of the waiting jobs, for :func:`promise_gains`."""
    numbers = state.jobs.numbers
    for index in range(state.waiting.size[0]):
        slot = state.waiting.slots[index]
        numbers[SAVED_STARTS, slot] = numbers[STARTS, slot]


@kernel
def promise_gains(state: State) -> None:
    """Turn what jobs have gained since their starts were saved into promises, if they are."""
    if state.counts[PROMISES_GAINS] == 0:
        return
    numbers = state.jobs.numbers
    for index in range(state.waiting.size[0]):
        slot = state.waiting.slots[index]
        # From infinite to finite is no gain of so many seconds, but a first start.
        if numbers[STARTS, slot] < numbers[SAVED_STARTS, slot] < np.inf:
            gain = numbers[SAVED_STARTS, slot] - numbers[STARTS, slot]
            latest = numbers[LATEST_STARTS, slot] = on_grid(numbers[LATEST_STARTS, slot] - gain)
            numbers[ASSURED_STARTS, slot] = min(numbers[ASSURED_STARTS, slot], latest)


@kernel
def reserve_running(state: State, profile: Profile, now: float) -> None:
    """Write the profile of what runs and of what is claimed. O(running² + claims × steps)."""
    everything = everything_of(state.jobs.reserved, state.everything)
    running_profile(profile, everything, now, state.running, state.claims, state.jobs)


@kernel
def reserve_plan(state: State, now: float) -> None:
    """Write the profile of the running and the waiting jobs where they are planned. O(jobs²)."""
    jobs, profile = state.jobs, state.profile
    reserve_running(state, profile, now)
    for index in range(state.waiting.size[0]):
        slot = state.waiting.slots[index]
        start, estimate = jobs.numbers[STARTS, slot], jobs.numbers[ESTIMATES, slot]
        reserve(profile, start, estimate, jobs.reserved[slot])


# Hosts that leave and return


@kernel
def has_lost_hosts(state: State) -> bool:
    """Tell whether hosts have left since the plan was made, and count it as fitted to those there.

    If so the promises of waiting jobs are *suspended*: each is renewed with the start that the job
    gets (:func:`settle`), unless that keeps it. O(waiting).
    """
    counts, waiting, jobs = state.counts, state.waiting, state.jobs
    lost = counts[LOST_HOSTS]
    counts[IS_RESIZED] = counts[LOST_HOSTS] = 0
    if lost > 0 and (counts[HAS_PROMISES] != 0 or counts[PROMISED] == LATEST_STARTS):
        for index in range(waiting.size[0]):
            slot = waiting.slots[index]
            if jobs.numbers[counts[PROMISED], slot] < np.inf:
                if np.isnan(jobs.numbers[SUSPENDED, slot]):
                    counts[SUSPENSIONS] += 1
                jobs.numbers[SUSPENDED, slot] = jobs.numbers[counts[PROMISED], slot]
                jobs.marks[LOST, slot], jobs.numbers[LOST_DATES, slot] = lost, state.clock[NOW]
    return bool(lost > 0)


@kernel
def reserve_anew(state: State) -> float:
    """Write the profile with the hosts that are there; return the date from which to compress."""
    date = nominal(state)
    reserve_plan(state, date)
    state.given.dates[0], state.given.dates[1] = EVER
    return date


@kernel
def settle(state: State) -> None:
    """Renew the suspended promises that cannot be kept, as far as there is a start. O(waiting)."""
    counts, jobs, suspended = state.counts, state.jobs, state.jobs.numbers[SUSPENDED]
    by_start, promised = counts[PROMISED] == LATEST_STARTS, jobs.numbers[counts[PROMISED]]
    for index in range(state.waiting.size[0]):
        slot = state.waiting.slots[index]
        promise = suspended[slot]
        if np.isnan(promise):
            continue
        planned = jobs.numbers[STARTS, slot]
        if not by_start:
            planned = end_of(planned, jobs.numbers[ESTIMATES, slot])
        if planned == np.inf:
            promised[slot] = np.inf
            continue
        suspended[slot] = np.nan
        counts[SUSPENSIONS] -= 1
        promised[slot] = promise
        state.lists[RENEWING, state.sizes[RENEWING]] = slot
        state.sizes[RENEWING] += 1
        if planned > promise + DEADLINE_TOLERANCE:
            promised[slot] = planned
            lost, date = state.jobs.marks[LOST, slot], state.jobs.numbers[LOST_DATES, slot]
            append(state.log, state.clock[NOW], RENEWED, slot, lost, 0, promise, planned, date)
            if not by_start:
                jobs.numbers[PROMISES, slot], jobs.numbers[AIMS, slot] = planned, np.inf


# Starts


@kernel
def has_free_hosts(rows: Rows, slot: int, free_hosts: Words) -> bool:
    """Tell whether the hosts that a job has reserved are free, if it has. O(words)."""
    if rows.ndim == 2:
        for word in range(len(free_hosts)):
            if rows[slot, word] & ~free_hosts[word]:
                return False
    return True


@kernel
def take_free_hosts(rows: Rows, slot: int, free_hosts: Words) -> None:
    """Count the hosts that a job has reserved as used, if it has. O(words)."""
    if rows.ndim == 2:
        for word in range(len(free_hosts)):
            free_hosts[word] &= ~rows[slot, word]


@kernel
def can_start(state: State, slot: int) -> bool:
    """Tell whether the hosts of a due job are free. O(words)."""
    if state.jobs.marks[IS_HELD, slot] or state.jobs.processors[slot] > state.counts[FREE]:
        return False
    return has_free_hosts(state.jobs.reserved, slot, state.free_hosts)


@kernel
def start_now(state: State, slot: int) -> bool:
    """Start a job that is due and fits; tell whether the plan has to know that it was late."""
    now, jobs = state.clock[NOW], state.jobs
    start = jobs.numbers[STARTS, slot]
    state.counts[FREE] -= jobs.processors[slot]
    take_free_hosts(jobs.reserved, slot, state.free_hosts)
    lag = 0.0 if start == now else on_grid(now - start)
    add_running(state, slot, end_of(start, jobs.numbers[ESTIMATES, slot]), lag)
    state.lists[STARTING, state.sizes[STARTING]] = slot
    state.sizes[STARTING] += 1
    return bool(start < now - state.clock[MOST_LAG])


@kernel
def start_due(state: State) -> bool:
    """Start what is due and fits; tell whether the plan has to know that it was late."""
    slots, size = state.waiting
    late, soon = start_claimed(state), state.clock[NOW] + GRID_TOLERANCE
    count = 0
    while state.counts[FREE] > 0 and count < size[0]:
        slot = slots[count]
        if state.jobs.numbers[STARTS, slot] > soon or not can_start(state, slot):
            break
        late = start_now(state, slot) or late
        count += 1
    if count > 0:
        for index in range(count, size[0]):
            slots[index - count] = slots[index]
        size[0] -= count
    return late


# Promised starts


@kernel
def start_claimed(state: State) -> bool:
    """Start the jobs whose promised starts are due; tell whether the plan has to know."""
    late, place, claims = False, 0, state.claims
    soon = state.clock[NOW] + GRID_TOLERANCE
    while place < claims.size[0]:
        slot = claims.slots[place]
        if slot != WINDOW and claims.dates[place, 0] <= soon and can_start(state, slot):
            late = start_now(state, slot) or late
            drop_claim(claims, place)
            note_broken_start(state, slot)
        else:
            place += 1
    return late


@kernel
def note_broken_start(state: State, slot: int) -> None:
    """Log that a job starts later than it was promised, if hosts had left before."""
    promised, start = state.jobs.numbers[FIXED_STARTS, slot], state.jobs.numbers[STARTS, slot]
    lost, date = state.jobs.marks[LOST, slot], state.jobs.numbers[LOST_DATES, slot]
    if lost > 0 and start > promised + DEADLINE_TOLERANCE:
        append(state.log, state.clock[NOW], RENEWED, slot, lost, 0, promised, start, date)


@kernel
def promise_start(profile: Profile, claims: Claims, jobs: Jobs, slot: int, now: float) -> float:
    """Promise a job the start that it asks for, if it fits there beside all that a profile holds.

    Returned is the first date from then on at which it fits, NaN if it would end too late.
    """
    numbers = jobs.numbers
    asked, estimate = numbers[FIXED_STARTS, slot], numbers[ESTIMATES, slot]
    if end_of(asked, estimate) > numbers[TARGETS, slot] + DEADLINE_TOLERANCE:
        return float(np.nan)
    after, needed = max(now, asked), jobs.processors[slot]
    start = fit_in(profile.free, profile, after, estimate, needed, jobs.reserved[slot])
    if start <= asked:
        claim(profile, claims, jobs, slot, asked)
    return float(start)


@kernel
def claim(profile: Profile, claims: Claims, jobs: Jobs, slot: int, start: float) -> None:
    """Promise a start to a job that fits there: no other job is planned in its place, nor it moved.

    It ends in time, and is never killed for another one.
    """
    place, end = claims.size[0], end_of(start, jobs.numbers[ESTIMATES, slot])
    claims.dates[place, 0], claims.dates[place, 1] = start, end
    claims.slots[place] = slot
    copy_row(jobs.reserved, slot, claims.amounts, place)
    claims.size[0] = place + 1
    change(profile, start, end, jobs.reserved[slot], False)
    jobs.marks[IS_KEPT, slot] = 1
    jobs.numbers[STARTS, slot] = jobs.numbers[ASSURED_STARTS, slot] = start


@kernel
def has_claims_before(claims: Claims, date: float) -> bool:
    """Return whether any start is promised before a date, which may be infinite. O(claims)."""
    for place in range(claims.size[0]):
        if claims.slots[place] != WINDOW and claims.dates[place, 0] < date:
            return True
    return False


@kernel
def refit_claims(state: State) -> None:
    """Fit promised starts anew, as hosts have left or returned, or some are late.

    The profile is not that of the plan then, which is made anew. O(claims × steps).
    """
    claims, jobs, now, lost = state.claims, state.jobs, state.clock[NOW], state.counts[LOST_HOSTS]
    for place in range(claims.size[0]):
        slot = claims.slots[place]
        if lost > 0 and slot != WINDOW:
            jobs.marks[LOST, slot], jobs.numbers[LOST_DATES, slot] = lost, now
    running = state.running.size[0]
    due = now - state.clock[TOLERANCE]
    count = claims.size[0]
    for is_idle in (False, True):
        claims.size[0], state.running.size[0] = 0, 0 if is_idle else running
        reserve_running(state, state.profile, now)
        claims.size[0], state.running.size[0] = count, running
        take_claims(state.profile, now, claims, True)
        if not fit_claims(state.profile, now, due, claims, jobs, is_idle):
            break


@kernel
def fit_claims(
    profile: Profile, now: float, due: float, claims: Claims, jobs: Jobs, is_idle: bool
) -> bool:
    """Fit promised starts into a profile of running jobs and maintenance; tell if any are left.

    Starts keep their dates, or move to the next fit. Those that were promised before a date
    (``due``) leave all others their places; the ones are left that do not fit at once. In the
    profile of an idle machine these are as early as maintenance and the others let them: nobody
    knows when what runs will end, and late ones do not wait for each other.
    """
    is_left, numbers = False, jobs.numbers
    for is_due in (False, True):
        for place in range(claims.size[0]):
            slot, date, end = claims.slots[place], claims.dates[place, 0], claims.dates[place, 1]
            if slot == WINDOW or (min(date, numbers[FIXED_STARTS, slot]) < due) != is_due:
                continue
            if is_idle and end > -np.inf:
                change(profile, date, end, claims.amounts[place], False)
                continue
            reserved, duration = jobs.reserved[slot], numbers[ESTIMATES, slot]
            after = max(now, date)
            start = fit_in(profile.free, profile, after, duration, jobs.processors[slot], reserved)
            if is_due and not is_idle and start > after:
                claims.dates[place, 1], is_left = -np.inf, True
                continue
            if start < np.inf:
                copy_row(jobs.reserved, slot, claims.amounts, place)
            else:
                copy_row(claims.amounts, place, jobs.reserved, slot)
                start = after
            end = end_of(start, duration)
            numbers[STARTS, slot] = claims.dates[place, 0] = start
            claims.dates[place, 1] = end
            if not is_idle:
                change(profile, start, end, reserved, False)
    return is_left


@kernel
def call_for_start(state: State) -> float:
    """Return the date of the next promised start (seconds) once; infinite if there is none."""
    date, now, claims = np.inf, state.clock[NOW], state.claims
    for place in range(claims.size[0]):
        if claims.slots[place] != WINDOW and claims.dates[place, 0] > now:
            date = min(date, claims.dates[place, 0])
    if date == np.inf or date == state.clock[CALLED_FOR]:
        return np.inf
    state.clock[CALLED_FOR] = date
    return float(date)
