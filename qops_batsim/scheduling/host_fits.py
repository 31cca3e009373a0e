"""Earliest fits on certain hosts, and on whatever a profile holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Ints, Profile, Rows, Words
from qops_batsim.scheduling.host_words import bit_count, keep_lowest, same_hosts
from qops_batsim.scheduling.profile import earlier_fit, earliest_fit, end_of, segment_at


@kernel
def earliest_hosts(
    profile: Profile, after: float, duration: float, processors: int, hosts: Words
) -> float:
    """As :func:`earliest_fit`, where the same hosts are free for the whole duration.

    ``hosts`` is filled with the lowest ones; without meaning if there are none.
    O(steps² × words).
    """
    counts = profile.size[:0]
    return earlier_hosts(profile, after, duration, processors, np.inf, np.inf, hosts, hosts, counts)


@kernel
def earlier_hosts(
    profile: Profile,
    after: float,
    duration: float,
    processors: int,
    limit: float,
    planned: float,
    own: Words,
    hosts: Words,
    counts: Ints,
) -> float:
    """As :func:`earlier_fit` and :func:`earliest_hosts`; ``own`` are the hosts reserved.

    From ``limit`` on nothing has changed: if that is before the planned date, the hosts stay.
    ``counts`` are the hosts that are free in each step, or empty: then they are counted here.
    """
    times, size = profile.times, profile.size[0]
    last = size if limit == np.inf else segment_at(times, size, limit) + 1
    first = begin = wide_until = segment_at(times, size, after)
    while begin < last:
        start = after if begin == first else times[begin]
        if start >= planned:
            break
        end = end_of(start, duration)
        # Up to here each step by itself has as many.
        wide_until = max(wide_until, begin)
        while (
            wide_until < size
            and (wide_until == begin or times[wide_until] < end)
            and (
                times[wide_until] >= planned
                or free_count(profile.free, counts, wide_until) >= processors
            )
        ):
            wide_until += 1
        if wide_until < size and (wide_until == begin or times[wide_until] < end):
            begin = wide_until = wide_until + 1
        elif has_common_hosts(profile, begin, end, processors, planned, own, hosts):
            return start
        else:
            begin += 1
    if limit < planned:
        for word in range(len(hosts)):
            hosts[word] = own[word]
    elif planned < np.inf:
        begin, end = segment_at(times, size, planned), end_of(planned, duration)
        has_common_hosts(profile, begin, end, processors, -np.inf, own, hosts)
    return planned


@kernel
def free_count(free: Words, counts: Ints, index: int) -> int:
    """Return how many hosts are free in a step, from their ``counts`` if there are any."""
    return int(counts[index]) if len(counts) > 0 else bit_count(free[index])


@kernel
def count_free(rows: Rows, counts: Ints, first: int, end: int) -> None:
    """Count the hosts in rows, from the first to ``end - 1``, unless they are numbers."""
    if rows.ndim == 2:
        for index in range(first, end):
            counts[index] = bit_count(rows[index])


@kernel
def has_common_hosts(
    profile: Profile,
    begin: int,
    end: float,
    processors: int,
    planned: float,
    own: Words,
    hosts: Words,
) -> bool:
    """Write the lowest hosts that are free from a step until a date; tell if there are as many.

    ``own`` are free in addition in the steps from ``planned`` on. O(steps × words).
    """
    times, free, size = profile.times, profile.free, profile.size[0]
    for word in range(len(hosts)):
        hosts[word] = ~np.uint64(0)
    index = begin
    while index < size and (index == begin or times[index] < end):
        is_own = times[index] >= planned
        for word in range(len(hosts)):
            hosts[word] &= (free[index, word] | own[word]) if is_own else free[index, word]
        if bit_count(hosts) < processors:
            return False
        index += 1
    keep_lowest(hosts, processors)
    return True


@kernel
def fit_in(
    rows: Rows, profile: Profile, after: float, duration: float, processors: int, reserved: Any
) -> float:
    """Return the earliest fit in a profile with these rows; hosts are written to ``reserved``."""
    if rows.ndim == 1:
        return earliest_fit(profile, after, duration, processors)
    else:  # noqa: RET505 - numba leaves out the branch that does not apply
        return earliest_hosts(profile, after, duration, processors, reserved)


@kernel
def earlier_in(
    rows: Rows,
    profile: Profile,
    after: float,
    duration: float,
    processors: int,
    limit: float,
    planned: float,
    reserved: Any,
    hosts: Words,
    counts: Ints,
) -> float:
    """As :func:`fit_in` for a job that has reserved what it was planned with."""
    if rows.ndim == 1:
        return earlier_fit(profile, after, duration, processors, limit, planned)
    else:  # noqa: RET505 - numba leaves out the branch that does not apply
        return earlier_hosts(
            profile, after, duration, processors, limit, planned, reserved, hosts, counts
        )


@kernel
def keeps_hosts(rows: Rows, index: int, hosts: Words) -> bool:
    """Whether a row is that of these hosts; always, if rows are numbers."""
    if rows.ndim == 1:
        return True
    else:  # noqa: RET505 - numba leaves out the branch that does not apply
        return same_hosts(rows[index], hosts)


@kernel
def change_hosts(rows: Rows, index: int, hosts: Words) -> None:
    """Make a row that of these hosts, unless rows are numbers. O(words)."""
    if rows.ndim == 2:
        for word in range(len(hosts)):
            rows[index, word] = hosts[word]
