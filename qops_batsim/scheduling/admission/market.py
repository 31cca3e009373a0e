"""Opportunity cost of processors, learned from the jobs that have arrived.

Jobs that cannot wait are lost where too few processors are free when they come. Of those that
have arrived, by length and width, a multi-rate loss system (Kaufman 1981, Roberts 1981) tells
how much would be lost in the long run with so many processors free. Jobs have value for others
only if they are shorter: a processor that a long job takes is lost to many short ones, and not
the other way round.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.admission.options import ForesightOptions
from qops_batsim.scheduling.arrays import Floats, Jobs, Profile
from qops_batsim.scheduling.core.columns import ESTIMATES, TARGETS
from qops_batsim.scheduling.profile import segment_at

LENGTHS = (60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, math.inf)
"""The longest job of each class (seconds)."""

WIDTHS = 9
"""Classes of width: 1, 2, up to 4, 8, 16, ... processors."""

HOUR = 3600.0
"""Prices are made anew so often (seconds)."""

MOST_PRICES = 256
"""Beyond so many free processors, one more has no price."""

LARGE = 1e200
"""Weights of states are made smaller before they are beyond all numbers."""

EXPOSED = 14400.0
"""For so long (seconds) a job that is placed takes room from others, until plans have adapted."""

LONGEST_GAP = 10_000
"""After so many hours without arrivals nothing is left of what was learned."""

ARRIVALS_SHARE = 0.9
"""Share of the mean work of the arrivals in what a kill may waste; the rest is of the own work."""

COUNT, PROCESSORS, SECONDS, WORTH = range(4)
LAST_HOUR, SPAN, JOBS, MEASURE, WORK = range(5)


class MarketTerms(NamedTuple):
    """The options of foresight for its kernels; ``keep`` is what remains of the past in an hour."""

    blocking: float
    weight: float
    by_charge: bool
    admission_price: float
    placement_price: float
    keep: float
    urgent: float
    restart_price: float
    max_waste: float


def terms_of(options: ForesightOptions) -> MarketTerms:
    """Return the options for the kernels."""
    return MarketTerms(
        options.blocking,
        options.weight,
        options.worth == "charge",
        options.admission_price,
        options.placement_price,
        max(0.0, 1.0 - HOUR / options.memory),
        options.urgent,
        options.restart_price,
        math.inf if options.max_waste is None else options.max_waste,
    )


class Market(NamedTuple):
    """Distribution of the work that has arrived.

    Attributes
    ----------
    urgent
        Of the arrivals that could not wait, by class of length and of width: their number and
        the sums of their processors, run times (seconds) and worth. All sums fade.
    seen
        The last hour; the time seen (seconds), the number of all arrivals, and the sums of their
        work (processor-seconds) or urgency, and of their work: these fade as well.
    losses
        By class of length and number of free processors: worth of the shorter jobs that are
        lost in a second.
    lengths
        The longest job of each class (seconds).
    states, loads, rates
        Room for the loss system: weights of its states and their sums up to each; load
        (processors) and worth (per second) by width.
    """

    urgent: Floats
    seen: Floats
    losses: Floats
    lengths: Floats
    states: Floats
    loads: Floats
    rates: Floats


def new_market(machine_size: int) -> Market:
    """Return that nothing was learned; of a quarter of the machine each processor has a price."""
    classes, most = len(LENGTHS), min(-(-machine_size // 4), MOST_PRICES)
    return Market(
        np.zeros((4, classes, WIDTHS)),
        np.array([-1.0, 0.0, 0.0, 0.0, 0.0]),
        np.zeros((classes, most + 1)),
        np.array(LENGTHS),
        np.zeros((2, most + 1)),
        np.zeros(most + 1),
        np.zeros(most + 1),
    )


@kernel
def measure_of(processors: int, estimate: float, left: float, terms: MarketTerms) -> float:
    """Return the work of a job, or its urgency: the share of the time left that it runs."""
    return estimate / max(left, estimate) if terms.by_charge else processors * estimate


@kernel
def worth_of(measure: float, market: Market, terms: MarketTerms) -> float:
    """Return what a job is worth, in jobs of the mean worth."""
    seen = market.seen
    if seen[MEASURE] <= 0.0:
        return 1.0
    return float(1.0 - terms.weight + terms.weight * measure * seen[JOBS] / seen[MEASURE])


@kernel
def most_waste(processors: int, estimate: float, market: Market, terms: MarketTerms) -> float:
    """Return how much work may be wasted for a job (processor-seconds)."""
    seen, own = market.seen, processors * estimate
    mean = seen[WORK] / seen[JOBS] if seen[JOBS] > 0.0 else own
    share = terms.restart_price * (ARRIVALS_SHARE * mean + (1.0 - ARRIVALS_SHARE) * own)
    return float(min(share, terms.max_waste))


@kernel
def learn(
    now: float, processors: int, estimate: float, left: float, market: Market, terms: MarketTerms
) -> None:
    """Know of an arrival, with so many seconds left until its deadline.

    Each hour the prices are made anew: O(classes × (quarter of the machine)²).
    """
    if is_new_hour(now, market, terms):
        set_prices(market)
    count(processors, estimate, left, market, terms)


@kernel
def is_new_hour(now: float, market: Market, terms: MarketTerms) -> bool:
    """Let time pass, and tell whether another hour has begun."""
    seen = market.seen
    hour = np.floor(now / HOUR)
    hours = min(hour - seen[LAST_HOUR], LONGEST_GAP)
    if seen[LAST_HOUR] < 0:
        hours = 0.0
    elif hours <= 0:
        return False
    seen[LAST_HOUR] = hour
    fade(int(hours), market, terms)
    return bool(hours > 0)


@kernel
def count(
    processors: int, estimate: float, left: float, market: Market, terms: MarketTerms
) -> None:
    """Count an arrival."""
    if estimate == np.inf:
        return
    measure = measure_of(processors, estimate, left, terms)
    market.seen[JOBS] += 1.0
    market.seen[MEASURE] += measure
    market.seen[WORK] += processors * estimate
    if left - estimate > terms.urgent:
        return
    length, width = class_of(market.lengths, estimate), 0
    while width < WIDTHS - 1 and processors > 1 << width:
        width += 1
    market.urgent[COUNT, length, width] += 1.0
    market.urgent[PROCESSORS, length, width] += processors
    market.urgent[SECONDS, length, width] += estimate
    market.urgent[WORTH, length, width] += worth_of(measure, market, terms)


@kernel
def fade(hours: int, market: Market, terms: MarketTerms) -> None:
    """Let the past count less, after so many hours."""
    kept, span = 1.0, market.seen[SPAN]
    for _ in range(hours):
        kept *= terms.keep
        span = (span + HOUR) * terms.keep
    market.seen[SPAN] = span
    market.seen[JOBS] *= kept
    market.seen[MEASURE] *= kept
    market.seen[WORK] *= kept
    sums, lengths, widths = market.urgent.shape
    for index in range(sums):
        for length in range(lengths):
            for width in range(widths):
                market.urgent[index, length, width] *= kept


@kernel
def set_prices(market: Market) -> None:
    """Make the losses of what was learned."""
    for free in range(len(market.loads)):
        market.loads[free] = market.rates[free] = 0.0
    for length in range(len(market.lengths)):
        set_losses(length, market)
        add_loads(length, market)


@kernel
def class_of(lengths: Floats, length: float) -> int:
    """Return the first class whose jobs may be so long; the last one's may have any length."""
    index = 0
    while length > lengths[index]:
        index += 1
    return index


@kernel
def add_loads(length: int, market: Market) -> None:
    """Let the urgent jobs of a class of length count from now on."""
    urgent, span = market.urgent, market.seen[SPAN]
    for width in range(WIDTHS):
        count = urgent[COUNT, length, width]
        if count > 0.0 and span > 0.0:
            processors = int(urgent[PROCESSORS, length, width] / count + 0.5)
            if processors < len(market.loads):
                market.loads[processors] += processors * urgent[SECONDS, length, width] / span
                market.rates[processors] += urgent[WORTH, length, width] / span


@kernel
def set_losses(length: int, market: Market) -> None:
    """Compute what the jobs that count lose with so many processors free, by the recursion.

    A state with ``n`` busy processors has the weight q(n) = Σ load × q(n - processors) / n; a job
    is lost in the last ones.
    """
    states, sums = market.states
    states[0] = sums[0] = 1.0
    for free in range(len(market.loads)):
        if free:
            flow = 0.0
            for processors in range(1, free + 1):
                flow += market.loads[processors] * states[free - processors]
            states[free] = flow / free
            sums[free] = sums[free - 1] + states[free]
            if sums[free] > LARGE:
                for state in range(free + 1):
                    states[state] /= LARGE
                    sums[state] /= LARGE
        lost = 0.0
        for processors in range(1, len(market.rates)):
            if market.rates[processors] > 0.0:
                served = sums[free - processors] if processors <= free else 0.0
                lost += market.rates[processors] * (sums[free] - served) / sums[free]
        market.losses[length, free] = lost


@kernel
def displaced(
    profile: Profile, start: float, estimate: float, processors: int, market: Market
) -> float:
    """Return the worth that a job which is in the profile is expected to turn away. O(steps)."""
    times, free, size = profile.times, profile.free, profile.size[0]
    losses, most = market.losses, len(market.loads) - 1
    length = class_of(market.lengths, estimate)
    index, date, end, total = segment_at(times, size, start), start, start + estimate, 0.0
    while date < end:
        until = min(end, times[index + 1]) if index + 1 < size else end
        left = max(free[index], 0)
        now, without = min(left, most), min(left + processors, most)
        total += (until - date) * (losses[length, now] - losses[length, without])
        date = until
        index += 1
    return total


@kernel
def headroom_of(now: float, jobs: Jobs, slot: int, market: Market, terms: MarketTerms) -> float:
    """Return how many processors should stay free beside a job that can wait.

    So many that it turns away little of what comes in its first hours, compared with its worth,
    or little of all that cannot wait. O(log machine).
    """
    estimate, most = jobs.numbers[ESTIMATES, slot], len(market.loads) - 1
    losses, length = market.losses, class_of(market.lengths, estimate)
    if estimate == np.inf:
        return 0.0
    measure = measure_of(jobs.processors[slot], estimate, jobs.numbers[TARGETS, slot] - now, terms)
    worth = worth_of(measure, market, terms)
    exposed = terms.placement_price * min(estimate, EXPOSED)
    enough = max(terms.blocking * losses[length, 0], worth / exposed if exposed > 0 else np.inf)
    low, high = -1, most
    # Losses fall with what is free.
    while high - low > 1:
        middle = (low + high) // 2
        if losses[length, middle] > enough:
            low = middle
        else:
            high = middle
    return float(high)
