"""What a deadline costs at a centre: prices by the categories of a run's workload."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from qops_batsim.analysis.metrics.charges import reference_of_workload
from qops_batsim.analysis.results.run_files import RunInfo
from qops_batsim.economics.charges import (
    Categories,
    SlowdownTable,
    category_slowdowns,
    islam2004,
    served_job,
)
from qops_batsim.errors import InputError
from qops_batsim.running.reference import easy_response_times
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a job of a category would pay.

    The resource charge in processor-seconds, and the QoS charge (category slowdown /
    slowdown granted): 0 without deadline, None if the category's slowdown is not known.
    """

    category: str
    resource: float
    qos: float | None


class PriceList:
    """Prices of Islam et al. (2004), section 3; ``unknown`` says why there is no table."""

    def __init__(self, table: SlowdownTable | None, unknown: str = "") -> None:
        self._table = table
        self._categories = Categories() if table is None else table.categories
        self.unknown = unknown

    def price(
        self, processors: int, run_time: float | None, arrival: float, deadline: float | None
    ) -> Price | None:
        """Return what a job pays for a promised deadline, or None if its run time is not known.

        Dates and durations in seconds, the deadline absolute, None for none; the arrival is
        the first submission.
        """
        if run_time is None:
            return None
        category = self._categories.label(run_time, processors)
        if deadline is None or deadline == math.inf:
            return Price(category=category, resource=processors * run_time, qos=0.0)
        if self._table is not None and deadline > arrival:
            try:
                job = served_job(
                    self._table,
                    category=category,
                    processors=processors,
                    run_time=run_time,
                    arrival=arrival,
                    deadline=deadline,
                )
            except InputError as error:
                self.unknown = str(error)
            else:
                charge = islam2004(job)
                return Price(category=category, resource=charge.resource, qos=charge.qos)
        return Price(category=category, resource=processors * run_time, qos=None)


def price_list(info: RunInfo | None, workload: str | Path | None = None) -> PriceList:
    """Return the prices for the workload of a run, from an EASY run of it made now.

    If the workload that the run names cannot be used there are no QoS charges; that the one
    given instead cannot be used is an error.
    """
    if workload is not None:
        return PriceList(_slowdowns(workload))
    named = None if info is None else info.workload
    if isinstance(named, Sequence) and not isinstance(named, str):
        named = named[0] if len(named) == 1 else None
    if info is None or named is None:
        return PriceList(None, "the workload that was run is not known")
    try:
        return PriceList(_slowdowns(named, info.sha256.get("workload")))
    except InputError as error:
        return PriceList(None, str(error))


def _slowdowns(name: str | Path, digest: str | None = None) -> SlowdownTable:
    workload = read_workload(find_input(name, "workloads"))
    if digest not in (None, workload.sha256):
        raise InputError(f"{workload.source} has changed since the run")
    reference = reference_of_workload(workload, easy_response_times(workload))
    return category_slowdowns(reference.values())
