"""Search for the earliest deadline that can be kept (Islam et al. 2004, Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

MOST_DOUBLINGS = 20
"""Most times that a deadline that cannot be kept is put off to twice the distance."""

A = TypeVar("A")


def earliest_deadline(
    ask: Callable[[float], A | None],
    low: float,
    high: float,
    *,
    resolution: Callable[[float], float],
    planned_end: Callable[[A], float],
    granted: A | None = None,
) -> tuple[float, A] | None:
    """Find the earliest granted deadline by bisection between a refused and a granted one.

    Figure 2 calls the ends of the interval StartPos and EndPos. Since searches are
    heuristic, a deadline earlier than the one found might be granted as well; the one found
    was asked for.

    Parameters
    ----------
    ask
        Returns the answer to a deadline (seconds, absolute), None if it is refused.
    low, high
        One that is refused, and a later one that should be granted; if it is not, deadlines
        twice as far from the first one are tried.
    resolution
        Length of an interval (seconds) that is not halved any more, by its later end.
    planned_end
        Returns the end planned in an answer (seconds). Such an end can be promised as a rule:
        it is tried where it shortens the interval by more than a halving would, and at last.
    granted
        The answer to the later one, if it is known; then it is not asked for.

    Returns
    -------
    tuple or None
        The deadline and the answer to it; None if nothing is granted.
        O(log((high - low) / resolution)) questions.
    """
    origin = low
    answer = ask(high) if granted is None else granted
    for _ in range(MOST_DOUBLINGS):
        if answer is not None or high == math.inf:
            break
        low, high = high, high + max(high - origin, 1.0)
        answer = ask(high)
    if answer is None:
        return None

    def try_end(answer: A, below: float) -> tuple[float, A] | None:
        end = planned_end(answer)
        again = ask(end) if low < end <= below else None
        return None if again is None else (end, again)

    while resolution(high) < high - low < math.inf:
        middle = (low + high) / 2
        if not low < middle < high:
            break  # No float lies between them.
        closer = ask(middle)
        if closer is None:
            low = middle
        else:
            high, answer = try_end(closer, (low + middle) / 2) or (middle, closer)

    # The job may end a little before: a date that a user rather reads.
    return try_end(answer, math.nextafter(high, low)) or (high, answer)
