"""Costs of schedules (Talby and Feitelson 1999, sections 4.2 and 4.4).

Weights recur: an array of the importance of utilization, time, priority and
fairness (the paper's alpha_u, alpha_t, alpha_p, alpha_f), each from 0 to 1.
"""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats

UTILIZATION, TIME, PRIORITY, FAIRNESS = range(4)
"""Places in an array of weights."""

FOREVER = 1e12
"""Price of a second's worth of endless delay (seconds): more than any date."""

LEAST_PRIORITY = 1e-6
"""Lower priorities of a moved job count as this one.

Otherwise there would be no gain in moving up a job without priority, which nothing hinders.
"""

LEAST_SLACK = 1.0
"""Shorter slacks count as this one (seconds), so that their ratio is a number."""

PRICE_TOLERANCE = 1e-9
"""Prices that differ by less than this part of them are equal."""


@kernel
def power(base: float, exponent: float) -> float:
    """Return a power; exponent 1, the usual one, costs nothing."""
    return base if exponent == 1.0 else base**exponent


@kernel
def price_of_wait(wait: float, processors: int, weights: Floats) -> float:
    """Return what the new job's own wait (seconds) costs: the first term of the price."""
    return power(min(wait, FOREVER), weights[TIME]) * power(float(processors), weights[UTILIZATION])


@kernel
def rate_of_moves(
    processors: int,
    priority: float,
    first_slack: float,
    slack: float,
    new_priority: float,
    weights: Floats,
) -> float:
    """Return what moving a job costs, but for the factor that depends on how far.

    ``slack`` (seconds) is what is left of its initial slack before the move; without any
    bound on its start (infinite, or no number) the two count as equal. ``new_priority``,
    above 0, is that of the job in whose favour it is moved.
    """
    rate = power(float(processors), weights[UTILIZATION])
    rate *= power(max(priority, LEAST_PRIORITY) / new_priority, weights[PRIORITY])
    if slack < np.inf:
        used = max(first_slack, LEAST_SLACK) / max(slack, LEAST_SLACK)
        rate *= power(used, weights[PRIORITY] * weights[FAIRNESS])
    return rate


@kernel
def cost_of_move(delay: float, rate: float, over_quota: bool, weights: Floats) -> float:
    """Return what it costs to move a job by ``delay`` seconds (negative: to move it up).

    Whether its slack allows that is not asked here. Delaying a job over its quota
    costs nothing. A job that had no start and has none now (the delay is no number)
    is not moved; from or to no start, the delay counts as :data:`FOREVER`.
    """
    if np.isnan(delay) or delay == 0.0 or (over_quota and delay > 0.0):
        return 0.0
    distance = power(min(abs(delay), FOREVER), weights[TIME])
    return math.copysign(distance * rate, delay)


@kernel
def price_of_killing(processors: int, estimate: float, weights: Floats) -> float:
    """Return what killing a job at its estimate (seconds) costs (section 4.7)."""
    return power(float(processors), weights[UTILIZATION]) * power(estimate, weights[TIME])
