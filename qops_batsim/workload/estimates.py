"""Run-time estimates: users' requests, and models of accurate and inaccurate ones.

Users give few round values, usually far too long, in the spirit of D. Tsafrir, Y. Etsion and D. G.
Feitelson, "Modeling user runtime estimates", Job Scheduling Strategies for Parallel Processing,
2005: about twenty values cover most requests, the longest allowed is among the most popular, and
some jobs run until their estimate is used up.

The model of users here is simpler than theirs: a killed job runs for exactly the value nearest to
the run time it would have had, any other takes a value that is not below its run time from a fixed
list, with fixed weights.

A model changes what planning uses (``qos.estimated_runtime``) and what the engine kills at
(``walltime``), never how long a job would run or when it is due: so what schedulers make of two
models can be compared job by job.

- ``exact``: the run times.
- ``users``: the walltimes of the log, which users gave (:func:`users_estimates`).
- ``f-model``: run time × a number that is uniform between 1 and f + 1 (A. W. Mu'alem and D. G.
  Feitelson, IEEE Transactions on Parallel and Distributed Systems, 2001).
- ``modal``: the values that users like, fitted to the log.
- ``predicted``: the mean of the last two run times of the same user that are known when the job is
  submitted, the walltime until there are two (D. Tsafrir, Y. Etsion and D. G. Feitelson, IEEE
  Transactions on Parallel and Distributed Systems, 2007).
- ``error``: run time × exp(a normal number): too long as often as too short.

The last two are predictions, which may be too short.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from qops_batsim.errors import InputError, require, require_one_of, shown
from qops_batsim.jobs import Job
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import (
    ProfileTable,
    changed_job,
    derived,
    exact_estimates,
    jobs_until_killed,
    plain_values,
    run_times,
    run_times_until_killed,
)
from qops_batsim.workload.lublin import random_stream
from qops_batsim.workload.workload_model import Workload, check_seed, plain_number

Integers = NDArray[np.int64]

HOUR = 3600


class EstimateModel(msgspec.Struct, frozen=True, kw_only=True):
    """Model of the walltimes that users request: how often each value is chosen, and how often jobs
    are killed at it.
    """

    table: tuple[tuple[int, float, float], ...]
    """Rows (value, weight, killed share), values ascending: a requested time (whole seconds), its
    weight among the values not below a job's run time, and the share killed at it of the jobs whose
    run time is nearest to it in ratio. The last value is the longest run time of all.
    """

    @property
    def values(self) -> tuple[int, ...]:
        """Requested times (whole seconds), ascending."""
        return tuple(value for value, _, _ in self.table)


def sample_estimates(
    model: EstimateModel, run_times: Integers, generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """Draw an estimate for each job, and its run time, which is shorter or longer than given where
    the job is killed at its estimate (seconds, shape (jobs,) each).

    Parameters
    ----------
    model
        The model of users' requests.
    run_times
        Seconds from 1 up, shape (jobs,).
    generator
        Gives two uniform numbers a job.

    Returns
    -------
    run times, estimates
        Every estimate is at least the run time; for jobs that are killed at it, both are equal.
    """
    values = np.array(model.values, dtype=np.int64)
    weights, killed_shares = np.array([row[1:] for row in model.table], dtype=np.float64).T
    uniform = generator.random((len(run_times), 2))
    run_times = np.minimum(run_times, values[-1])
    nearest = nearest_value(values, run_times)

    killed = uniform[:, 0] < killed_shares[nearest]
    run_times = np.where(killed, values[nearest], run_times)

    # Cumulative weights from 0: the values not below the run time are a tail of them.
    cumulative = np.concatenate(([0.0], np.cumsum(weights)))
    smallest = np.searchsorted(values, run_times)
    below = cumulative[smallest]
    target = below + uniform[:, 1] * (cumulative[-1] - below)
    chosen = np.searchsorted(cumulative, target, side="right") - 1
    chosen = np.clip(chosen, smallest, len(values) - 1)
    return run_times, np.where(killed, run_times, values[chosen])


def nearest_value(values: Integers, run_times: Integers) -> Integers:
    """Return, for each run time, the index of the value that is nearest to it by ratio; ``values``
    ascend.
    """
    borders = np.sqrt(values[:-1].astype(float) * values[1:])
    return np.searchsorted(borders, run_times)


def fit_estimates(
    run_times: NDArray[Any], requests: NDArray[Any], killed_from: float = 1.0
) -> EstimateModel:
    """Fit the model of users' requested times to the jobs of a log (times in seconds).

    Parameters
    ----------
    run_times, requests
        Seconds, shape (jobs,) each.
    killed_from
        Jobs that used at least this share of their request count as killed at it.

    Returns
    -------
    EstimateModel
        With the twenty most common requests, the most common whole hours above them, and the
        longest request of all but a thousandth.
    """
    values_asked, counts = np.unique(requests, return_counts=True)
    longest = math.ceil(np.percentile(requests, 99.9, method="higher") / HOUR) * HOUR
    by_count = values_asked[np.argsort(-counts, kind="stable")]
    common = by_count[:20]
    hours = by_count[(by_count > common.max()) & (by_count < longest) & (by_count % HOUR == 0)]
    values = np.unique(np.concatenate((common, hours[:1], [longest])))

    given = values[np.searchsorted(values, np.minimum(requests, longest))]
    killed = run_times >= killed_from * requests
    # The nearest value to a killed job's run time is what it was killed at.
    nearest = nearest_value(values, np.minimum(run_times, values[-1]))

    table = []
    remaining = 1.0  # The weight that the values so far have left.
    for index, value in enumerate(values):
        near = killed[nearest == index]
        killed_share = float(near.mean()) if len(near) else 0.0
        at_risk = given[~killed & (run_times <= value) & (given >= value)]
        hazard = float((at_risk == value).mean()) if len(at_risk) else 0.0
        table.append((int(value), round(remaining * hazard, 5), round(killed_share, 4)))
        remaining *= 1 - hazard
    return EstimateModel(table=tuple(table))


def users_estimates(workload: Workload) -> Workload:
    """Return the workload with users' walltimes as estimates, and a walltime for each job.

    A job that has none gets the longest of all others as its walltime, or its run
    time if that is longer; where no job has one, all have exact ones.
    """
    limits = workload.columns.estimates
    lacking = limits == math.inf
    if lacking.all():
        return exact_estimates(workload)
    if not lacking.any():
        return workload

    longest = float(limits[~lacking].max())
    jobs = [
        changed_job(job, {"walltime": plain_number(max(longest, time))}, {}, workload=workload)
        if lacks
        else job
        for (job, time), lacks in zip(jobs_until_killed(workload), lacking.tolist(), strict=True)
    ]
    step = {"step": "walltimes", "jobs": int(lacking.sum()), "walltime": plain_number(longest)}
    return derived(workload, jobs, None, step)


def estimates_sentence(workload: Workload, estimates: str) -> str:
    """Return a sentence that says whether deadlines and schedulers use users' walltimes or run
    times.

    ``estimates`` are ``"users"``, as of :func:`users_estimates`, or ``"exact"``. O(jobs).
    """
    limits = workload.columns.estimates
    count = len(workload.jobs)
    lacking = limits == math.inf
    exact = "deadlines are made from run times, and schedulers know these in advance: "
    if lacking.all():
        return exact + "the log has no walltimes"
    wrong = int((limits != run_times_until_killed(workload)).sum())
    if estimates == "exact":
        return exact + f"they replace the walltimes of {wrong:,} of {count:,} jobs"

    said = "deadlines are made from the log's walltimes, and schedulers plan with them"
    if not wrong:
        said += "; all of them are the run times"
    if lacking.any():
        longest = float(limits[~lacking].max())
        said += f"; {int(lacking.sum()):,} of {count:,} jobs have none and get the longest, "
        said += f"{longest:g} s"
    return said


Floats = NDArray[np.float64]

REQUESTS = ("exact", "users", "f-model", "modal")
PREDICTIONS = ("predicted", "error")
MODELS = REQUESTS + PREDICTIONS
RANDOM = ("f-model", "modal", "error")
_OF_USE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("margin", "risk", "overrun"), PREDICTIONS),
    "badness": ("f-model",),
    "spread": ("error",),
}
OVERRUNS = ("run", "kill")

# A stream of the seed that nothing else uses.
_ESTIMATES = 17

LEAST = 1.0
"""Least estimate (seconds), where the walltime is not shorter."""

_DECIMALS = 6
"""Decimals of estimates: Batsim sends dates with as many."""


class EstimateChoices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a model of estimates, and what happens to jobs that run longer than estimated."""

    model: str = "exact"
    """One of :data:`MODELS`."""
    margin: float = 1.0
    """Predictions are multiplied by it."""
    risk: float | None = None
    """In place of the margin: the share of jobs that may outlive their prediction, above 0 and
    below 1. The margin of a job is learned from those that have ended before (:func:`learned`).
    """
    overrun: str = "run"
    """A job that outlives its prediction may ``"run"`` up to its walltime, or it is a ``"kill"``:
    the prediction is its walltime.
    """
    badness: float = 5.0
    """f of the f-model, from 0, which is exact."""
    spread: float = 1.0
    """Standard deviation of the logarithm of the error."""
    seed: int = 1
    """Draws the numbers of f-model, modal and error."""

    @property
    def name(self) -> str:
        """Name of the model for tables, with those of its options that are not the defaults."""
        others = [
            f"{field} {value:g}" if isinstance(value, float) else f"{field} {value}"
            for field, value in self.changed.items()
        ]
        return ", ".join([self.model, *others])

    @property
    def changed(self) -> dict[str, Any]:
        """The options that are not the defaults, without the model."""
        usual = EstimateChoices()
        values = {field: getattr(self, field) for field in self.__struct_fields__[1:]}
        return {field: value for field, value in values.items() if value != getattr(usual, field)}

    @property
    def needs_ends(self) -> bool:
        """Whether the model learns from jobs that have ended, and so needs their ends."""
        return self.model == "predicted" or self.risk is not None

    def check(self) -> None:
        """Raise an InputError if an option is out of range, or has no effect on this model."""
        require_one_of("model", self.model, MODELS)
        require_one_of("overrun", self.overrun, OVERRUNS)
        fits = 0 < self.margin < math.inf
        require(fits, "margin", self.margin, "a number above 0 is accepted")
        require(0 <= self.badness < math.inf, "badness", self.badness, "0 or more is accepted")
        require(0 <= self.spread <= 10, "spread", self.spread, "a number from 0 to 10 is accepted")
        if self.risk is not None:
            accepted = "a share above 0 and below 1 is accepted"
            require(0 < self.risk < 1, "risk", self.risk, accepted)
        check_seed(self.seed)

        for field, models in _OF_USE.items():
            fits = field not in self.changed or self.model in models
            require(fits, "model", self.model, f"{field} is for {' or '.join(models)}")
        if self.risk is not None and self.margin != 1:
            raise InputError(
                f"margin is {self.margin:g}, and risk is {self.risk:g}; with a risk the margin is "
                "learned, so give only one of the two"
            )


def with_estimates(
    workload: Workload,
    choices: EstimateChoices,
    *,
    requests: Workload | None = None,
    ends: Mapping[str, float] | None = None,
) -> Workload:
    """Return the workload with the estimates of a model (``choices``); O(jobs × log(jobs)).

    Jobs are of type ``delay``, and last as long as before, to their end or their walltime.
    ``requests`` is the workload, of the same jobs, that still has the users' walltimes, if this one
    has not. ``ends`` are the dates (seconds) by job id when it is known how long each has run, in
    some schedule of the same jobs; only :attr:`EstimateChoices.needs_ends` asks for them.

    A request is never shorter than the run time; a prediction may be, but is never longer than the
    walltime, if the log knows that.

    Examples
    --------
    >>> from qops_batsim.workload.batsim_json import read_workload
    >>> found = with_estimates(read_workload("tiny_8"), EstimateChoices(model="users"))
    >>> [job.estimate for job in found.jobs][:3]
    [90.0, 150.0, 80.0]
    """
    choices.check()
    if choices.model == "exact":
        return exact_estimates(workload)
    run_times = np.array(run_times_until_killed(workload))
    limits = _walltimes(workload, requests or workload)
    estimates = _estimates(workload, choices, run_times, limits, ends)

    profiles = ProfileTable(workload.profiles)
    changed = []
    columns = (column.tolist() for column in (run_times, estimates, limits))
    for job, seconds, estimate, limit in zip(workload.jobs, *columns, strict=True):
        walltime = limit if choices.model in PREDICTIONS and choices.overrun == "run" else estimate
        fields = {
            "profile": profiles.name(job.profile, seconds),
            "walltime": None if walltime == math.inf else plain_number(walltime),
        }
        qos = {"estimated_runtime": plain_number(estimate)}
        changed.append(changed_job(job, fields, qos, workload=workload))
    step = {"step": "estimates", "model": choices.model, **plain_values(choices.changed)}
    return derived(workload, changed, profiles.new, step)


def _walltimes(workload: Workload, requests: Workload) -> Floats:
    """Return the users' walltimes (seconds) of the jobs, as ``requests`` has them; infinite where
    missing.
    """
    known = {job.id: job for job in requests.jobs}
    limits = np.full(len(workload.jobs), math.inf)
    expected = "a workload of the same jobs, with users' walltimes, is expected"
    for place, job in enumerate(workload.jobs):
        asked = known.get(job.id)
        if asked is None or asked.processors != job.processors:
            fault = f"of {workload.source} is missing"
            if asked is not None:
                fault = f"asks for {asked.processors} processors, but for {job.processors} in "
                fault += workload.source
            raise InputError(f"{requests.source}: job {shown(job.id)} {fault}; {expected}")
        if asked.walltime is not None:
            limits[place] = asked.walltime
    return limits


def _estimates(
    workload: Workload,
    choices: EstimateChoices,
    run_times: Floats,
    limits: Floats,
    ends: Mapping[str, float] | None,
) -> Floats:
    """Return the model's estimate of each job (seconds); ``limits`` are the users' walltimes."""
    random = random_stream(choices.seed, _ESTIMATES)
    asked = limits < math.inf
    if choices.model in ("users", "predicted") and not asked.all():
        job = workload.jobs[int((~asked).argmax())]
        raise InputError(
            f"{workload.source}: job {shown(job.id)} has no walltime; model {choices.model} "
            "expects one for each job (--requests names a workload of the same jobs with them)"
        )

    if choices.model == "users":
        users: Floats = np.maximum(limits, run_times)
        return users
    if choices.model == "f-model":
        drawn = run_times * random.uniform(1.0, choices.badness + 1.0, len(run_times))
        return np.maximum(drawn.round(_DECIMALS), run_times)
    if choices.model == "modal":
        return _modal(workload, run_times, limits, random)
    if choices.model == "error":
        predicted = run_times * np.exp(choices.spread * random.standard_normal(len(run_times)))
    else:
        predicted = predictions(workload.jobs, run_times.tolist(), _known(workload, ends))
    margins: float | Floats = choices.margin
    if choices.risk is not None:
        dates = _known(workload, ends)
        margins = learned(workload.jobs, run_times / predicted, dates, choices.risk)

    # Without a prediction or a margin there is the walltime, or where there is none, the truth.
    last = np.where(asked, limits, run_times)
    with np.errstate(invalid="ignore"):
        predicted = (predicted * margins).round(_DECIMALS)
    estimates = np.where(np.isfinite(predicted), np.maximum(predicted, LEAST), last)
    return np.minimum(estimates, limits)


def _modal(
    workload: Workload, run_times: Floats, limits: Floats, random: np.random.Generator
) -> Floats:
    asked = limits < math.inf
    if not asked.any():
        raise InputError(
            f"{workload.source}: no job has a walltime; model modal expects some, to which it "
            "is fitted (--requests names a workload of the same jobs with walltimes)"
        )

    whole = np.ceil(limits[asked]).astype(np.int64)
    fitted = fit_estimates(run_times[asked], whole)
    # Run times stay: of the jobs that were killed at a value, it is not below that.
    table = tuple((value, weight, 0.0) for value, weight, _ in fitted.table)
    fitted = msgspec.structs.replace(fitted, table=table)
    _, estimates = sample_estimates(fitted, np.ceil(run_times).astype(np.int64), random)
    return np.maximum(estimates, run_times)


def _known(workload: Workload, ends: Mapping[str, float] | None) -> list[float]:
    """Return the date of each job's end (seconds), from ``ends`` by job id; InputError if one is
    missing.
    """
    if ends is None or not all(job.id in ends for job in workload.jobs):
        raise InputError(
            f"{workload.source}: predictions need the date at which each job ends; the end of "
            "each job in some schedule is expected"
        )
    return [ends[job.id] for job in workload.jobs]


def predictions(jobs: Sequence[Job], run_times: Sequence[float], ends: Sequence[float]) -> Floats:
    """Predict each job's run time (seconds): the mean of its user's last two jobs that had ended
    when it was submitted; infinite if there are not two.

    The last are so by date of the end, ties by place.
    """
    users = [job.fields.get("user") for job in jobs]
    if None in users:
        job = jobs[users.index(None)]
        raise InputError(
            f"job {shown(job.id)} has no user; model predicted expects the field user in each job, "
            "which `workload import` writes if the log tells the users"
        )

    last: defaultdict[Any, tuple[float, float]] = defaultdict(lambda: (math.inf, math.inf))
    predicted = np.full(len(jobs), math.inf)
    for place, ended in _in_turn(jobs, ends):
        for other in ended:
            last[users[other]] = last[users[other]][1], run_times[other]
        predicted[place] = sum(last[users[place]]) / 2
    return predicted


def learned(jobs: Sequence[Job], ratios: Floats, ends: Sequence[float], risk: float) -> Floats:
    """Return the factor by which to multiply each job's predicted run time, learned from jobs that
    had ended; infinite while they are too few. O(jobs²).

    ``ratios`` are run time over prediction. Were all of a kind, in any order, then the next one
    exceeded the k-th least of n with probability 1 - k / (n + 1) at most: so k is the least for
    which that is within the ``risk`` (V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in
    a random world", 2005). Jobs without a prediction do not count.
    """
    known: list[float] = []
    factors = np.full(len(jobs), math.inf)
    for place, ended in _in_turn(jobs, ends):
        for other in ended:
            if ratios[other] > 0:
                insort(known, float(ratios[other]))
        k = math.ceil((len(known) + 1) * (1 - risk))
        if k <= len(known):
            factors[place] = known[k - 1]
    return factors


def _in_turn(jobs: Sequence[Job], ends: Sequence[float]) -> Iterator[tuple[int, list[int]]]:
    """Yield the index of each job by submission, and the indices of the jobs that ended since the
    previous submission.
    """
    running: list[tuple[float, int]] = []
    for place in sorted(range(len(jobs)), key=lambda place: jobs[place].submission_time):
        ended = []
        while running and running[0][0] <= jobs[place].submission_time:
            ended.append(heapq.heappop(running)[1])
        yield place, ended
        heapq.heappush(running, (ends[place], place))


class EstimateCounts(msgspec.Struct, frozen=True):
    """Numbers of all jobs, of those that run longer than estimated, and of those that are killed.

    ``median`` is that of estimate over run time.
    """

    jobs: int
    too_short: int
    killed: int
    median: float


def count_estimates(workload: Workload) -> EstimateCounts:
    """Count the jobs whose estimate is shorter than their run time, or that are killed; O(jobs)."""
    delays = np.array(run_times(workload))
    columns = workload.columns
    killed = delays > columns.walltimes
    too_short = (delays > columns.estimates + PLAN_TOLERANCE) | killed
    ratios = columns.estimates / np.maximum(delays, LEAST)
    return EstimateCounts(
        len(delays), int(too_short.sum()), int(killed.sum()), float(np.median(ratios))
    )
