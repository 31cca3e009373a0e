"""How long each category of jobs has to wait, measured by a run of EASY backfilling.

Islam et al. (2004), section 3: categories that are hard to schedule have a large mean
slowdown, and a job of such a category pays more for the same urgency.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from qops_batsim.economics.categories import Categories
from qops_batsim.errors import InputError


class ReferenceJob(NamedTuple):
    """A job of the run that slowdowns are taken from.

    Times are in seconds; the response time is completion - submission.
    """

    run_time: float
    response_time: float
    processors: float


class CategorySlowdown(msgspec.Struct, frozen=True, kw_only=True):
    """The mean slowdown of the jobs of one category; None without jobs."""

    category: str
    jobs: int
    mean: float | None


class SlowdownTable(msgspec.Struct, frozen=True, kw_only=True):
    """Mean slowdown of every category, in the order of :meth:`Categories.labels`.

    Run times below ``bound`` (seconds) count as this much, in the table as well as in a
    job's own slowdown; None: they count as they are, as in the paper.
    """

    categories: Categories
    bound: float | None
    slowdowns: tuple[CategorySlowdown, ...]

    def of(self, category: str) -> float:
        """Return the mean slowdown of a category; without one, an error tells which have one."""
        for each in self.slowdowns:
            if each.category == category and each.mean is not None:
                return each.mean
        known = ", ".join(each.category for each in self.slowdowns if each.mean is not None)
        raise InputError(
            f"category {category!r} has no slowdown, since no job of the reference run was in it "
            f"(categories with one: {known or 'none'}); a reference run of the same workload is "
            "expected"
        )


def slowdown(run_time: float, response_time: float, bound: float | None = None) -> float:
    """Return response time / run time, infinite for a job that runs no time at all.

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
    """Return the mean slowdown of each category over the jobs of the reference run; O(jobs).

    Jobs that run no time at all have no plain slowdown and are left out. For ``bound`` see
    :class:`SlowdownTable`.
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
