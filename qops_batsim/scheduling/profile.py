"""The availability profile: what is free over future time, in arrays for kernels.

A :class:`Profile` is a step function: from ``times[i]`` up to ``times[i + 1]`` the
processors ``free[i]`` are free, and from the last time on the last row holds for
ever. There are two kinds of rows: a number of processors (int64), or the certain hosts
that are free, as bits of 64-bit words (a row of uint64). The kernels below work on
both; what a job takes or gives back is a number or a row of words accordingly.

All dates are on the grid of :mod:`qops_batsim.timing`, and compared exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import WINDOW, Claims, Floats, Ints, Jobs, Profile, Queue, Rows
from qops_batsim.scheduling.core.columns import ENDS
from qops_batsim.scheduling.host_words import same_hosts
from qops_batsim.timing import GRID, GRID_END, SAME_DATE

Fit = tuple[float, Any, Any]
"""A start (seconds), the step that holds it, and the first step not before the end."""

CLEARLY = 1e-3
"""Difference of dates that no rounding explains (seconds)."""

ONE = np.uintp(1)
"""A step forward in hot loops, whose indices are unsigned: of others compiled code asks each time
whether they are negative, as those of Python may be."""


@kernel
def on_grid(date: float) -> float:
    """As :func:`qops_batsim.timing.on_grid`, which is compiled ahead of time."""
    if -GRID_END < date < GRID_END:
        return round(date * GRID) / GRID
    return date


@kernel
def up_to_grid(date: float) -> float:
    """As :func:`qops_batsim.timing.up_to_grid`."""
    if date % 1.0 == 0.0 or not -GRID_END < date < GRID_END:
        return date
    rounded = round(date * GRID) / GRID
    return round((rounded + 1 / GRID) * GRID) / GRID if date - rounded > SAME_DATE else rounded


@kernel
def end_of(start: float, duration: float) -> float:
    """As :func:`qops_batsim.timing.end_of`."""
    end = start + max(duration, start * 2.0**-52)
    return round(end * GRID) / GRID if -GRID_END < end < GRID_END else end


@kernel
def segment_at(times: Floats, size: int, date: float) -> int:
    """Return the index of the step that holds a date, at least 0. O(log steps)."""
    if size == 1 or date < times[1]:
        return 0  # As for most questions about now.
    return int(np.int64(last_until(times, ONE, np.uintp(size), date)))


@kernel
def last_until(times: Floats, low: Any, high: Any, date: float) -> Any:
    """Return the last step from ``low`` to ``high - 1`` that begins by a date, else ``low``."""
    while high - low > ONE:
        middle = (low + high) >> ONE
        if times[middle] <= date:
            low = middle
        else:
            high = middle
    return low


@kernel
def earliest_fit(profile: Profile, after: float, duration: float, processors: int) -> float:
    """Return the first date from which a number of processors is free for a duration.

    The profile is one of numbers. The date is ``after``, which must not be before the
    first step, or that of a step; infinite if there is none. O(steps).
    """
    return earlier_fit(profile, after, duration, processors, np.inf, np.inf)


@kernel
def earlier_fit(
    profile: Profile, after: float, duration: float, processors: int, limit: float, planned: float
) -> float:
    """As :func:`earliest_fit`, for a job that has reserved the processors from ``planned`` on.

    Returned is the planned date if there is no earlier one; those beyond ``limit`` are
    not tried.
    """
    return float(locate_fit(profile, after, duration, processors, limit, planned)[0])


@kernel
def locate_earliest(profile: Profile, after: float, duration: float, processors: int) -> Fit:
    """As :func:`earliest_fit`, with the steps between which it lies for :func:`reserve_fit`."""
    return locate_fit(profile, after, duration, processors, np.inf, np.inf)


@kernel
def locate_fit(
    profile: Profile, after: float, duration: float, processors: int, limit: float, planned: float
) -> Fit:
    """Return the date of :func:`earlier_fit`, its step, and the first step not before the end."""
    times, free, size = profile.times, profile.free, np.uintp(profile.size[0])
    last = size if limit == np.inf else np.uintp(segment_at(times, profile.size[0], limit) + 1)
    first = index = np.uintp(segment_at(times, profile.size[0], after))
    start = after
    while True:
        if free[index] < processors:
            # The job cannot overlap this segment: try from its end on.
            index += ONE
            while index < last and free[index] < processors:
                index += ONE
            if index >= last:
                return planned, index, index
            first, start = index, times[index]
        # To round the end to the grid takes longer than most looks: it is left to the last ones.
        end = min(start + duration, planned) - CLEARLY
        index += ONE
        while index < size and times[index] < end and free[index] >= processors:
            index += ONE
        if index < size and times[index] < end:
            continue
        end = min(end_of(start, duration), planned)
        while index < size and times[index] < end and free[index] >= processors:
            index += ONE
        if index == size or times[index] >= end:
            return start, first, index


@kernel
def lowest_free(profile: Profile, start: float, end: float) -> int:
    """Return the least number of processors that are free between two dates. O(steps)."""
    times, free, size = profile.times, profile.free, profile.size[0]
    index = segment_at(times, size, start)
    lowest = free[index]
    index += 1
    while index < size and times[index] < end:
        lowest = min(lowest, free[index])
        index += 1
    return int(lowest)


@kernel
def copy_row(rows: Rows, index: Any, to: Rows, at: Any) -> None:
    """Make a row of a profile that of another step. O(words)."""
    if rows.ndim == 1:
        to[at] = rows[index]
    else:
        for word in range(rows.shape[1]):
            to[at, word] = rows[index, word]


@kernel
def step_at(times: Floats, free: Rows, size: Ints, low: Any, date: float) -> Any:
    """Make a step at a date, not before the step ``low``, unless there is one; return its index.

    O(steps), and fast for a date soon after that step.
    """
    count, stride = np.uintp(size[0]), ONE
    while low + stride < count and times[low + stride] <= date:
        low += stride
        stride += stride
    low = last_until(times, low, min(low + stride, count), date)
    if times[low] >= date:
        return low
    insert_step(times, free, size, low + ONE, date)
    return low + ONE


@kernel
def insert_step(times: Floats, free: Rows, size: Ints, at: Any, date: float) -> None:
    """Make a step at a date and an index, which changes nothing. O(steps behind it)."""
    count = np.uintp(size[0])
    place = count
    while place > at:
        times[place] = times[place - ONE]
        place -= ONE
    place = count
    while place >= at:
        copy_row(free, place - ONE, free, place)
        place -= ONE
    times[at] = date
    size[0] += 1


@kernel
def remove_steps(times: Floats, free: Rows, size: Ints, first: Any, end: Any) -> None:
    """Remove the steps from ``first`` to ``end - 1``. O(steps)."""
    count, removed = np.uintp(size[0]), end - first
    for place in range(end, count):
        times[place - removed] = times[place]
    for place in range(end, count):
        copy_row(free, place, free, place - removed)
    size[0] = count - removed


@kernel
def same_rows(free: Rows, one: Any, other: Any) -> bool:
    """Whether two steps have the same free. O(words)."""
    if free.ndim == 1:
        return bool(free[one] == free[other])
    else:  # noqa: RET505 - numba leaves out the branch that does not apply
        return same_hosts(free[one], free[other])


@kernel
def change_rows(free: Rows, first: Any, end: Any, amount: Any, given: bool) -> None:
    """Give an amount to the rows from ``first`` to ``end - 1``, or take it. O(rows × words)."""
    if free.ndim == 1:
        more = amount if given else -amount
        for index in range(first, end):
            free[index] += more
    else:
        for index in range(first, end):
            for word in range(len(amount)):
                if given:
                    free[index, word] |= amount[word]
                else:
                    free[index, word] &= ~amount[word]


@kernel
def change(profile: Profile, start: float, end: float, amount: Any, given: bool) -> None:
    """Give (else take) processors or hosts from ``start`` up to ``end``.

    The arrays need room for two more steps. A start before the first step counts
    as the first step; an infinite start, or an end not after the start, changes
    nothing. O(steps × words).
    """
    times, free, size = profile
    if start == np.inf or end <= start or end <= times[0]:
        return
    first = step_at(times, free, size, np.uintp(segment_at(times, size[0], start)), start)
    last = np.uintp(size[0]) if end == np.inf else step_at(times, free, size, first, end)
    change_steps(profile, first, last, amount, given)


@kernel
def change_steps(profile: Profile, first: Any, last: Any, amount: Any, given: bool) -> None:
    """Give to (else take from) the steps from ``first`` to before ``last``. O(steps × words)."""
    times, free, size = profile
    change_rows(free, first, last, amount, given)
    # Only the two borders can have become steps that change nothing.
    if last < np.uintp(size[0]) and same_rows(free, last, last - ONE):
        remove_steps(times, free, size, last, last + ONE)
    if first >= ONE and same_rows(free, first, first - ONE):
        remove_steps(times, free, size, first, first + ONE)


@kernel
def reserve(profile: Profile, start: float, duration: float, amount: Any) -> None:
    """Take processors or hosts; see :func:`change`."""
    change(profile, start, end_of(start, duration), amount, False)


@kernel
def reserve_fit(profile: Profile, fit: Fit, duration: float, processors: int) -> None:
    """Take processors where a job was just found to fit. O(steps), and fast near the last one."""
    (start, first, last), (times, free, size) = fit, profile
    if start == np.inf:
        return
    if times[first] < start:
        first, last = first + ONE, last + ONE
        insert_step(times, free, size, first, start)
    end = end_of(start, duration)
    if end < np.inf and (last == np.uintp(size[0]) or times[last] > end):
        insert_step(times, free, size, last, end)
    change_steps(profile, first, last, processors, False)


@kernel
def release(profile: Profile, start: float, duration: float, amount: Any) -> None:
    """Give processors or hosts back; see :func:`change`."""
    change(profile, start, end_of(start, duration), amount, True)


@kernel
def trim(profile: Profile, now: float) -> None:
    """Forget what lies before a date. O(steps)."""
    times, free, size = profile
    remove_steps(times, free, size, np.uintp(0), np.uintp(segment_at(times, size[0], now)))
    if times[0] < now:
        times[0] = now


@kernel
def copy_profile(profile: Profile, to: Profile) -> None:
    """Make another profile the same. O(steps)."""
    times, free, size = profile
    for index in range(size[0]):
        to.times[index] = times[index]
        copy_row(free, index, to.free, index)
    to.size[0] = size[0]


@kernel
def set_everything(free: Rows, everything: Any) -> None:
    """Make a number of processors or a row of hosts the first row."""
    if free.ndim == 1:
        free[0] = everything
    else:
        for word in range(len(everything)):
            free[0, word] = everything[word]


@kernel
def running_profile(
    profile: Profile, everything: Any, now: float, running: Queue, claims: Claims, jobs: Jobs
) -> None:
    """Write the profile of what runs and of what is claimed; ``everything`` is free else.

    O(running² + claims × steps).
    """
    profile.times[0] = now
    set_everything(profile.free, everything)
    profile.size[0] = 1
    take_running(profile.free, profile, now, running, jobs)
    take_claims(profile, now, claims, False)
    take_claims(profile, now, claims, True)


@kernel
def take_claims(profile: Profile, now: float, claims: Claims, windows: bool) -> None:
    """Take what promised starts, or maintenance ``windows``, have claimed. O(claims × steps)."""
    for index in range(claims.size[0]):
        if (claims.slots[index] == WINDOW) == windows:
            first, end = max(now, claims.dates[index, 0]), claims.dates[index, 1]
            change(profile, first, end, claims.amounts[index], False)


@kernel
def drop_claim(claims: Claims, place: int) -> None:
    """Take a claim out; those behind it move up. O(claims)."""
    claims.size[0] -= 1
    for index in range(place, claims.size[0]):
        claims.dates[index, 0] = claims.dates[index + 1, 0]
        claims.dates[index, 1] = claims.dates[index + 1, 1]
        copy_row(claims.amounts, index + 1, claims.amounts, index)
        claims.slots[index] = claims.slots[index + 1]


@kernel
def take_running(rows: Rows, profile: Profile, now: float, running: Queue, jobs: Jobs) -> None:
    """Take what the running jobs have from a profile of one step, whose ``rows`` these are."""
    if rows.ndim == 1:
        take_numbers(profile, now, running, jobs)
    else:
        for index in range(running.size[0]):
            slot = running.slots[index]
            change(profile, now, jobs.numbers[ENDS, slot], jobs.reserved[slot], False)


@kernel
def take_numbers(profile: Profile, now: float, running: Queue, jobs: Jobs) -> None:
    """Take the processors of running jobs from a profile of one step. O(running²), a short one.

    Each step holds what comes free then, until all are known.
    """
    times, free, size = profile
    count = 1
    for index in range(running.size[0]):
        slot = running.slots[index]
        end, amount = jobs.numbers[ENDS, slot], jobs.reserved[slot]
        if end <= now or amount == 0:
            continue
        free[0] -= amount
        if end == np.inf:
            continue
        place = segment_at(times, count, end)
        if times[place] == end:
            free[place] += amount
            continue
        for later in range(count, place + 1, -1):
            times[later], free[later] = times[later - 1], free[later - 1]
        times[place + 1], free[place + 1] = end, amount
        count += 1
    for index in range(1, count):
        free[index] += free[index - 1]
    size[0] = count
