"""Charges of jobs: categories, their slowdowns, prices, and the income of policies.

M. Islam, P. Balaji, P. Sadayappan and D. K. Panda, "Towards provision of quality of
service guarantees in job scheduling", IEEE Cluster 2004, section 3: a job pays for the
resources that it uses and for the urgency with which it is served.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from qops_batsim.errors import InputError, shown

RUN_TIME_CLASSES = ("very-short", "short", "long", "very-long")
"""Classes of run time, ascending."""

PROCESSOR_CLASSES = ("sequential", "narrow", "wide", "very-wide")
"""Classes of numbers of processors, ascending."""

RUN_TIME_EDGES = (600.0, 3600.0, 28_800.0)
"""Default longest run time of each class but the last (seconds): 10 min, 1 h, 8 h."""

PROCESSOR_EDGES = (1, 8, 32)
"""Default most processors of each class but the last."""


class Categories(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the categories of jobs, ascending: longest run times (seconds) and most processors
    of each class.

    The last class of run times and that of processors have no limit.
    """

    run_times: tuple[float, float, float] = RUN_TIME_EDGES
    processors: tuple[float, float, float] = PROCESSOR_EDGES

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` unless limits are above 0 and ascend."""
        _check_edges(self.run_times, "run_times")
        _check_edges(self.processors, "processors")

    def label(self, run_time: float, processors: float) -> str:
        """Return the category of a job, such as ``"short-narrow"`` (run time in seconds); O(1)."""
        of_time = RUN_TIME_CLASSES[bisect_left(self.run_times, run_time)]
        return f"{of_time}-{PROCESSOR_CLASSES[bisect_left(self.processors, processors)]}"

    def labels(self) -> tuple[str, ...]:
        """Return the labels of all sixteen categories, by run time and then by processors,
        ascending.
        """
        return tuple(
            f"{first}-{second}" for first in RUN_TIME_CLASSES for second in PROCESSOR_CLASSES
        )


def _check_edges(edges: Sequence[float], field: str) -> None:
    if not (0 < edges[0] < edges[1] < edges[2] < math.inf):
        found = ", ".join(f"{edge:g}" for edge in edges)
        raise InputError(
            f"categories.{field} is [{found}]; three ascending numbers above 0 are expected"
        )


class ReferenceJob(NamedTuple):
    """A job as it ran in the reference run, from which the mean slowdown of each category is
    computed.

    Times are in seconds; the response time is completion - submission.
    """

    run_time: float
    response_time: float
    processors: float


class CategorySlowdown(msgspec.Struct, frozen=True, kw_only=True):
    """The mean slowdown of the jobs of one category in the reference run; None if it has no such
    job.
    """

    category: str
    jobs: int
    mean: float | None


class SlowdownTable(msgspec.Struct, frozen=True, kw_only=True):
    """Mean slowdown of each category in the reference run, in the order of
    :meth:`Categories.labels`.

    Run times below ``bound`` (seconds) count as this much, in the table as well as in a
    job's own slowdown; None: they count as they are, as in the paper.
    """

    categories: Categories
    bound: float | None
    slowdowns: tuple[CategorySlowdown, ...]

    def of(self, category: str) -> float:
        """Return the mean slowdown of a category; InputError if the reference run had no job of
        that category.
        """
        for each in self.slowdowns:
            if each.category == category and each.mean is not None:
                return each.mean
        known = ", ".join(each.category for each in self.slowdowns if each.mean is not None)
        raise InputError(
            f"category {category!r} has no mean slowdown, since the reference run has no job of it "
            f"(it has jobs of: {known or 'no category'}); a reference run of the same workload is "
            "expected"
        )


def slowdown(run_time: float, response_time: float, bound: float | None = None) -> float:
    """Return the slowdown, response time / run time, which is infinite for a run time of 0.

    With a ``bound``, all in seconds, it is the bounded slowdown
    max(1, response time / max(run time, bound)) (Feitelson and Rudolph, JSSPP 1998).
    """
    if bound is not None:
        return max(1.0, response_time / max(run_time, bound))
    return response_time / run_time if run_time > 0 else math.inf


def category_slowdowns(
    jobs: Iterable[ReferenceJob],
    categories: Categories | None = None,
    *,
    bound: float | None = None,
) -> SlowdownTable:
    """Return each category's mean slowdown in the reference run; O(jobs).

    Parameters
    ----------
    jobs
        The jobs of the reference run. Those with a run time of 0 have no plain slowdown and are
        left out.
    categories
        Categories of jobs; None: those of the paper.
    bound
        Threshold of bounded slowdowns (seconds); None: plain ones. See :class:`SlowdownTable`.
    """
    categories = categories or Categories()
    categories.check()
    if bound is not None and not 0 < bound < math.inf:
        raise InputError(f"slowdown bound is {bound:g}; a number of seconds above 0 is expected")
    found: dict[str, list[float]] = {label: [] for label in categories.labels()}
    for job in jobs:
        value = slowdown(job.run_time, job.response_time, bound)
        if value < math.inf:
            found[categories.label(job.run_time, job.processors)].append(value)
    return SlowdownTable(
        categories=categories,
        bound=bound,
        slowdowns=tuple(
            CategorySlowdown(
                category=label,
                jobs=len(values),
                mean=math.fsum(values) / len(values) if values else None,
            )
            for label, values in found.items()
        ),
    )


class ServedJob(NamedTuple):
    """What a price function is told of a job: its resources, its category, and the slowdown that
    its deadline grants.

    Attributes
    ----------
    run_time
        Seconds that the job ran to its end; work lost in earlier runs does not count.
    category_slowdown
        Mean slowdown of that category in the reference run; NaN where
        ``obtained_slowdown`` is None, or infinite.
    obtained_slowdown
        (admitted deadline - arrival) / run time; None for a job whose user asked for no
        deadline.
    queue_price
        Multiple of the usual charge that the queue costs in which the job was, 1 without queues.
    billed
        Weighted sum of the amounts that it takes of shared hosts, which counts in place of its
        processors; None without weights. Without, ``processors`` are its dominant share, in hosts.
    """

    processors: float
    run_time: float
    category: str
    category_slowdown: float
    obtained_slowdown: float | None
    queue_price: float = 1.0
    billed: float | None = None


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """Charge of a job, or of many jobs, for resources and for quality of service.

    In the paper's prices these are processor-seconds and a ratio of slowdowns.
    """

    resource: float = 0.0
    qos: float = 0.0


PriceFunction = Callable[[ServedJob], Charge]
"""Says what a job pays; it must depend on nothing else, so that reports are repeatable."""


def islam2004(job: ServedJob) -> Charge:
    """Price function of Islam et al. (2004), section 3: return the resource and the QoS charge of a
    job.

    ResourceCharge = processors (or weighted amounts) × run time, times the price of the queue where
    there are priced ones, as in section 1 of the authors' report of 2003. QoSCharge = category
    slowdown / obtained slowdown for a job whose user asked for a deadline, else 0 (section 8: the
    others pay only the resource charge). The paper writes *RequestedSlowdown*; a user who took an
    offer gets, and pays for, what was offered, or the charge could not fall with the
    tolerance of users (section 6.1).
    """
    units = job.processors if job.billed is None else job.billed
    resource = units * job.run_time * job.queue_price
    if job.obtained_slowdown is None or job.obtained_slowdown == math.inf:
        return Charge(resource=resource)
    return Charge(resource=resource, qos=job.category_slowdown / job.obtained_slowdown)


def served_job(
    table: SlowdownTable,
    *,
    category: str,
    processors: float,
    run_time: float,
    arrival: float,
    deadline: float | None,
    queue_price: float = 1.0,
    billed: float | None = None,
) -> ServedJob:
    """Return the input of a price function for a job; the job's deadline must be after its arrival.

    ``arrival`` is the first submission, which a job that was killed and run again keeps,
    and ``deadline`` what the scheduler promised to a user, or None (all in seconds).
    """
    if deadline is None:
        return ServedJob(processors, run_time, category, math.nan, None, queue_price, billed)
    if deadline <= arrival and run_time > 0:
        raise InputError(
            f"admitted deadline is {deadline:g} s, but the job arrives at {arrival:g} s; "
            "a deadline after the arrival is expected"
        )
    obtained = slowdown(run_time, deadline - arrival, table.bound)
    known = math.nan if obtained == math.inf else table.of(category)
    return ServedJob(processors, run_time, category, known, obtained, queue_price, billed)


def total(charges: Iterable[Charge]) -> Charge:
    """Return the sum of charges; only the sum is rounded."""
    listed = list(charges)
    return Charge(
        resource=math.fsum(each.resource for each in listed),
        qos=math.fsum(each.qos for each in listed),
    )


class BreakEven(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio of the prices of QoS and resources at which two policies earn the same, and which
    one earns more on either side.

    The ratio is None if there is none above 0, or if they always earn the same; ``below`` and
    ``above`` are equal then.
    """

    ratio: float | None
    below: Literal["first", "second", "equal"]
    above: Literal["first", "second", "equal"]


def break_even(first: Charge, second: Charge) -> BreakEven:
    """Return the ratio of the price of QoS, w_q, to that of resources, w_r, at which two policies
    with these total charges earn the same.

    w_r R₁ + w_q Q₁ = w_r R₂ + w_q Q₂ gives w_q / w_r = (R₁ - R₂) / (Q₂ - Q₁), which
    only counts if it is above 0: otherwise one policy earns no less of both charges.
    """
    resource = first.resource - second.resource
    qos = first.qos - second.qos
    if resource == 0 and qos == 0:
        return BreakEven(ratio=None, below="equal", above="equal")
    if resource * qos < 0:
        below: Literal["first", "second"] = "first" if resource > 0 else "second"
        above: Literal["first", "second"] = "second" if resource > 0 else "first"
        return BreakEven(ratio=-resource / qos, below=below, above=above)
    better: Literal["first", "second"] = "first" if resource > 0 or qos > 0 else "second"
    return BreakEven(ratio=None, below=better, above=better)


def load_price(name: str) -> PriceFunction:
    """Import a price function given as ``MODULE:FUNCTION``."""
    from importlib import import_module

    module_name, _, function = name.partition(":")
    if not module_name or not function or module_name.startswith("."):
        raise InputError(f"price function is {shown(name)}; MODULE:FUNCTION is expected")
    try:
        found = getattr(import_module(module_name), function, None)
    except Exception as error:
        raise InputError(
            f"price function {shown(name)}: cannot be imported ({type(error).__name__}: {error})"
        ) from error

    if not callable(found):
        raise InputError(
            f"price function {shown(name)}: module {module_name} has no function {shown(function)}"
        )

    price: PriceFunction = found
    return price
