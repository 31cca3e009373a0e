"""The workload model of Lublin and Feitelson: sizes, run times and arrivals of rigid jobs.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the
characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003. Three
parts, each a frozen struct of parameters here:

* the *size* is 1, or 2 to the power of a two-stage uniform variable, rounded to a power of two
  for a given share of the jobs (:class:`SizeModel`);
* the natural logarithm of the *run time* follows one of two gamma distributions, and the
  probability of the first falls linearly with the size (:class:`RunTimeModel`);
* the natural logarithm of the *gap* between two arrivals follows a gamma distribution, in a time
  that runs faster in the busy half hours of the day (:class:`ArrivalModel`).

Every random value is made from uniform numbers through the inverse of its distribution
function. So a job takes the same few uniform numbers whatever the parameters, values beyond
a limit need no second draw, and workloads depend on no other random routine of numpy than
the uniform one of a PCG64 generator.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from qops_batsim.errors import InputError
from qops_batsim.workload.workload_model import check_seed

SECONDS_A_DAY = 86_400
BUCKETS_A_DAY = 48
"""The daily cycle has one weight for each half hour."""
FIRST_BUCKET = 11
"""The half hour, counted from 1, with which the cycle begins: 5:00, when machines are quietest."""

_BUCKET_SECONDS = SECONDS_A_DAY / BUCKETS_A_DAY
_TABLE_POINTS = 8193
_TABLE_DEPTH = 40.0  # e^-40 of the highest density: nothing below shows in a 53-bit uniform.

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class SizeModel(msgspec.Struct, frozen=True, kw_only=True):
    """Lublin and Feitelson's model of job sizes: serial jobs, powers of two, and others."""

    serial_share: float
    power_of_two_share: float
    """Share of all jobs that are parallel and rounded to a power of two. Some of the others come
    out as powers of two by chance.
    """
    smallest_log2: float
    middle_log2: float
    largest_log2: float
    """Binary logarithm of the size: smallest parallel job, border between the two uniform stages,
    largest job (the machine).
    """
    lower_stage_share: float
    """Share of parallel jobs in the stage from smallest to middle."""

    def for_machine(self, processors: int) -> SizeModel:
        """Return the model for a machine of another size.

        As the paper advises, the largest job becomes the machine and the border of
        the stages keeps its distance from it.
        """
        largest = math.log2(processors)
        middle = max(largest - (self.largest_log2 - self.middle_log2), 0.0)
        smallest = min(self.smallest_log2, middle)
        return msgspec.structs.replace(
            self, largest_log2=largest, middle_log2=middle, smallest_log2=smallest
        )

    def sizes(self, kind: Floats, position: Floats, processors: int) -> Integers:
        """Return each job's size (processors) from two uniform random numbers for each job, shape
        (jobs,): ``kind`` makes it serial, a power of two or other, ``position`` decides how large
        it is.
        """
        stages = [0.0, self.lower_stage_share, 1.0]
        bounds = [self.smallest_log2, self.middle_log2, self.largest_log2]
        log2 = np.interp(position, stages, bounds)
        # 100 processors: log2 is 6.64, which rounds to a job of 128. It gets 64.
        powers = np.exp2(np.minimum(np.floor(log2 + 0.5), math.floor(math.log2(processors))))
        rounded = kind < self.serial_share + self.power_of_two_share
        parallel = np.where(rounded, powers, np.floor(np.exp2(log2) + 0.5))
        parallel = np.clip(parallel, min(2, processors), processors)
        return np.where(kind < self.serial_share, 1, parallel).astype(np.int64)


class RunTimeModel(msgspec.Struct, frozen=True, kw_only=True):
    """Run time of a job (seconds): a hyper-gamma distribution of its natural logarithm."""

    short_shape: float
    short_scale: float
    """Gamma distribution of the first, shorter kind of jobs."""
    long_shape: float
    long_scale: float
    """Gamma distribution of the second, longer kind."""
    short_share_slope: float
    short_share_base: float
    """A job on n processors is of the first kind with probability base + slope x n, kept between 0
    and 1. The slope is negative: larger jobs run longer.
    """
    longest: int
    """Longest run time (seconds)."""

    def run_times(self, sizes: Integers, kind: Floats, position: Floats) -> Integers:
        """Return each job's run time (whole seconds, at least 1) from two uniform random numbers:
        ``kind`` makes it short or long, ``position`` decides how long it is.
        """
        limit = math.log(self.longest)
        short = gamma_table(self.short_shape, self.short_scale)
        long = gamma_table(self.long_shape, self.long_scale)
        below_short = short.cdf(limit)
        below_long = long.cdf(limit)
        share = np.clip(self.short_share_base + self.short_share_slope * sizes, 0.0, 1.0)
        # A value above the limit is drawn again, its kind included.
        accepted = share * below_short
        is_short = kind * (accepted + (1 - share) * below_long) < accepted
        shorter = short.quantile(position * below_short)
        logarithm = np.where(is_short, shorter, long.quantile(position * below_long))
        return np.clip(np.floor(np.exp(logarithm)), 1, self.longest).astype(np.int64)


class ArrivalModel(msgspec.Struct, frozen=True, kw_only=True):
    """Lublin and Feitelson's model of the gaps between submissions, with a daily cycle."""

    gap_shape: float
    gap_scale: float
    longest_gap: float
    """Gamma distribution of the natural logarithm of the gap (seconds) at the day's mean rate, and
    where it ends (seconds).
    """
    cycle_shape: float
    cycle_scale: float
    """Gamma distribution of the half hour in which jobs arrive, counted from 1 at midnight, over
    the day that begins with :data:`FIRST_BUCKET`.
    """

    def weights(self) -> Floats:
        """Return the rate of submissions in each half hour of the day, relative to the mean, shape
        (48,).
        """
        borders = np.arange(FIRST_BUCKET, FIRST_BUCKET + BUCKETS_A_DAY + 1) - 0.5
        shares = np.diff(gamma_table(self.cycle_shape, self.cycle_scale).cdf(borders))
        return np.roll(shares / shares.mean(), FIRST_BUCKET - 1)

    def gaps(self, position: Floats) -> Floats:
        """Return the gap before each submission (seconds), without the daily cycle, from a uniform
        random number for each job.
        """
        table = gamma_table(self.gap_shape, self.gap_scale)
        return np.exp(table.quantile(position * table.cdf(math.log(self.longest_gap))))

    def to_clock(self, mean_rate_time: Floats) -> Floats:
        """Convert submission times at a constant rate to times that follow the daily cycle (both in
        seconds from the first midnight).
        """
        ends = np.concatenate(([0.0], np.cumsum(self.weights()))) * _BUCKET_SECONDS
        ends[-1] = SECONDS_A_DAY
        clock = np.arange(BUCKETS_A_DAY + 1) * _BUCKET_SECONDS
        days = np.floor(mean_rate_time / SECONDS_A_DAY)
        within: Floats = np.interp(mean_rate_time - days * SECONDS_A_DAY, ends, clock)
        return days * SECONDS_A_DAY + within


class LublinModel(msgspec.Struct, frozen=True, kw_only=True):
    """Lublin and Feitelson's model of sizes, run times and arrivals, for a machine of
    ``processors``.
    """

    processors: int
    sizes: SizeModel
    run_times: RunTimeModel
    arrivals: ArrivalModel

    def for_machine(self, processors: int) -> LublinModel:
        """Return the model for a machine of another size; see :meth:`SizeModel.for_machine`."""
        if processors == self.processors:
            return self
        return msgspec.structs.replace(
            self, processors=processors, sizes=self.sizes.for_machine(processors)
        )


def random_stream(seed: int, stream: int) -> np.random.Generator:
    """Return the random generator number ``stream`` of a seed, independent of its other ones.

    Each aspect of a workload has its own, so that deadlines, say, do not change the jobs.
    """
    check_seed(seed)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))


def sample_sizes_and_run_times(
    model: LublinModel, jobs: int, seed: int
) -> tuple[Integers, Integers]:
    """Return sizes (processors) and run times (seconds), shape (jobs,) each."""
    uniform = random_stream(seed, 0).random((jobs, 4))
    sizes = model.sizes.sizes(uniform[:, 0], uniform[:, 1], model.processors)
    return sizes, model.run_times.run_times(sizes, uniform[:, 2], uniform[:, 3])


def sample_submissions(
    model: LublinModel, jobs: int, seed: int, *, period: float | None = None
) -> Integers:
    """Return submission times (whole seconds from midnight of the first day), ascending.

    ``period`` is the time between first and last submission to bring about (seconds), by one
    factor on all gaps; the daily cycle keeps its 24 hours. None: as sampled.
    """
    times = np.cumsum(model.arrivals.gaps(random_stream(seed, 1).random(jobs)))
    if period is not None:
        if jobs < 2:
            raise InputError(
                f"load is given for {jobs} job, which has no load; at least 2 jobs are expected"
            )
        times = times * _period_factor(model.arrivals, float(times[0]), float(times[-1]), period)
    return np.floor(model.arrivals.to_clock(times)).astype(np.int64)


def _period_factor(arrivals: ArrivalModel, first: float, last: float, period: float) -> float:
    """Return the factor on all submission times with which first and last are a period apart.

    The factor is applied before the daily cycle; ``period`` is in seconds by the clock.
    """

    def clock_period(factor: float) -> float:
        ends = arrivals.to_clock(np.array([first, last]) * factor)
        return float(ends[1] - ends[0])

    low = 0.0
    high = 1.0
    while clock_period(high) < period:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if clock_period(middle) < period:
            low = middle
        else:
            high = middle
    return high


class GammaTable(NamedTuple):
    """A gamma distribution as a table: ``probabilities`` of values up to each of ``values``."""

    values: Floats
    probabilities: Floats

    def cdf(self, value: Any) -> Any:
        """Return the probability of values up to ``value``."""
        return np.interp(value, self.values, self.probabilities)

    def quantile(self, probability: Floats) -> Floats:
        """Return the value below which the given probability lies."""
        value: Floats = np.interp(probability, self.probabilities, self.values)
        return value


def gamma_table(shape: float, scale: float) -> GammaTable:
    """Tabulate the gamma distribution with the given shape and scale (mean: their product).

    The density of the logarithm, smooth and bounded for every shape, is summed (trapezoids)
    between the points where it has fallen to e^-40 of its peak. With t the logarithm's distance
    from the peak, its log falls by shape × (e^t - 1 - t). Error of the sum: below 1e-5.
    """
    fall = _TABLE_DEPTH / shape
    # Bounds of the solution of e^t - 1 - t = fall on either side.
    left = -(fall + math.sqrt(fall * fall + 8 * fall)) / 2
    right = min(math.sqrt(2 * fall), math.log(2 * (fall + 1)))
    distance = np.linspace(left, right, _TABLE_POINTS)
    density = np.exp(-shape * (np.expm1(distance) - distance))
    summed = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return GammaTable(shape * scale * np.exp(distance), summed / summed[-1])
