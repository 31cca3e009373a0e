"""Earliest fits on certain hosts, and on whatever a profile holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.host_words import bit_count, keep_lowest, same_hosts
from qops_batsim.scheduling.profile import (
    Profile,
    Rows,
    Words,
    earlier_fit,
    earliest_fit,
    end_of,
    segment_at,
)


@kernel
def earliest_hosts(
    profile: Profile, after: float, duration: float, processors: int, hosts: Words
) -> float:
    """As :func:`earliest_fit`, where the same hosts are free for the whole duration.

    ``hosts`` is filled with the lowest ones; without meaning if there are none.
    O(steps² × words).
    """
    return earlier_hosts(profile, after, duration, processors, np.inf, np.inf, hosts, hosts)


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
) -> float:
    """As :func:`earlier_fit` and :func:`earliest_hosts`; ``own`` are the hosts reserved.

    From ``limit`` on nothing has changed: if that is before the planned date, the hosts stay.
    """
    times, size = profile.times, profile.size[0]
    last = size if limit == np.inf else segment_at(times, size, limit) + 1
    first = begin = segment_at(times, size, after)
    while begin < last:
        start = after if begin == first else times[begin]
        if start >= planned:
            break
        end = end_of(start, duration)
        too_few = common_hosts(profile, begin, end, processors, planned, own, hosts)
        if too_few == size:
            return start
        begin = max(begin, too_few) + 1
    if limit < planned:
        for word in range(len(hosts)):
            hosts[word] = own[word]
    elif planned < np.inf:
        begin, end = segment_at(times, size, planned), end_of(planned, duration)
        common_hosts(profile, begin, end, processors, -np.inf, own, hosts)
    return planned


@kernel
def common_hosts(
    profile: Profile,
    begin: int,
    end: float,
    processors: int,
    planned: float,
    own: Words,
    hosts: Words,
) -> int:
    """Write the lowest hosts that are free from a step until a date.

    ``own`` are free in addition in the steps from ``planned`` on. Returned is the number of
    steps, or if there are not as many hosts, the last step of which that is known: ``begin``,
    or a later one that alone has not as many. O(steps × words).
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
            alone = not is_own and bit_count(free[index]) < processors
            return int(index if alone else begin)
        index += 1
    keep_lowest(hosts, processors)
    return int(size)


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
) -> float:
    """As :func:`fit_in` for a job that has reserved what it was planned with."""
    if rows.ndim == 1:
        return earlier_fit(profile, after, duration, processors, limit, planned)
    else:  # noqa: RET505 - numba leaves out the branch that does not apply
        return earlier_hosts(profile, after, duration, processors, limit, planned, reserved, hosts)


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
