"""The availability profile with names: which hosts are free over future time.

As :mod:`~qops_batsim.scheduling.profile`, but each step holds the set of free
hosts, as bits of a row of 64-bit words, and a reservation is of certain hosts
for its whole duration.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.profile import remove_step, segment_at, step_at
from qops_batsim.timing import PLAN_TOLERANCE

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

WORD_BITS = 64
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@kernel
def bit_count(words: Words) -> int:
    """Return the number of bits set. O(words), and O(1) for each word."""
    total = 0
    for word in words:
        # Add neighbouring bits, then pairs, then nibbles; the product sums the bytes.
        word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
        word = (word & np.uint64(0x3333333333333333)) + (
            (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
        )
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        total += int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return total


@kernel
def keep_lowest(words: Words, wanted: int) -> None:
    """Clear all but the ``wanted`` lowest bits that are set. O(bits)."""
    for index in range(len(words)):
        word = words[index]
        kept = _ZERO
        while word != _ZERO and wanted > 0:
            low = word & (~word + _ONE)
            kept |= low
            word ^= low
            wanted -= 1
        words[index] = kept


@kernel
def earliest_hosts(
    times: Floats,
    free: Words,
    count: int,
    after: float,
    duration: float,
    processors: int,
    hosts: Words,
) -> float:
    """Return the first date from which the same hosts are free for the whole duration.

    Parameters
    ----------
    times, free, count
        The profile: dates (seconds), free hosts from each on, number of steps.
    after
        Earliest date accepted (seconds), not before the first step.
    duration
        Seconds, possibly infinite.
    processors
        Number of hosts needed.
    hosts
        Filled with the lowest hosts that are free; without meaning if there are none.

    Returns
    -------
    float
        Date (seconds), infinite if the job never fits. O(steps² × words).
    """
    first = segment_at(times, count, after)
    for begin in range(first, count):
        start = after if begin == first else times[begin]
        end = start + duration
        hosts[:] = free[begin]
        index = begin + 1
        while bit_count(hosts) >= processors:
            if index == count or times[index] >= end - PLAN_TOLERANCE:
                keep_lowest(hosts, processors)
                return start
            for word in range(len(hosts)):
                hosts[word] &= free[index, word]
            index += 1
    return np.inf


@kernel
def change_hosts(
    times: Floats, free: Words, count: int, start: float, end: float, hosts: Words, give: bool
) -> int:
    """Give back or take hosts from ``start`` up to ``end``; return the number of steps.

    The arrays need room for two more steps. O(steps × words).
    """
    if start == np.inf or end <= start + PLAN_TOLERANCE or end <= times[0] + PLAN_TOLERANCE:
        return count
    first, count = step_at(times, free, count, start)
    if end == np.inf:
        last = count
    else:
        last, count = step_at(times, free, count, end)
    for index in range(first, last):
        for word in range(len(hosts)):
            if give:
                free[index, word] |= hosts[word]
            else:
                free[index, word] &= ~hosts[word]
    if 0 < last < count and np.all(free[last] == free[last - 1]):
        count = remove_step(times, free, count, last)
    if first > 0 and np.all(free[first] == free[first - 1]):
        count = remove_step(times, free, count, first)
    return count
