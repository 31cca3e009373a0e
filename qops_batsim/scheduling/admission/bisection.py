"""The search for the earliest deadline that can be kept (Islam et al. 2004, Figure 2)."""

from __future__ import annotations

from collections.abc import Callable


def earliest_deadline(
    works: Callable[[float], bool],
    low: float,
    high: float,
    *,
    retries: int | None = None,
    resolution: float = 0.0,
) -> tuple[float, float]:
    """Halve the interval between a deadline that fails and one that works.

    Figure 2 calls the ends of the interval StartPos and EndPos. Since searches are
    heuristic, a deadline earlier than the one found might work as well.

    Parameters
    ----------
    works
        Whether a deadline (seconds, absolute) can be kept.
    low, high
        One that fails and one that works.
    retries
        Most halvings, if limited.
    resolution
        Length of an interval (seconds) that is not halved any more.

    Returns
    -------
    tuple of float
        The ends of the last interval. O(log((high - low) / resolution)) tries.
    """
    while high - low > resolution and (retries is None or retries > 0):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if works(middle):
            high = middle
        else:
            low = middle
        if retries is not None:
            retries -= 1
    return low, high
