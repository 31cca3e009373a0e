"""Charges of one or two runs, and the price of one more deadline.

Islam et al. (2004), section 3: :mod:`qops_batsim.economics.charges` has the prices,
:mod:`qops_batsim.measures.metrics.charge_totals` the account of one run. Here both are put
together, with an EASY run of the same workload for the slowdowns where none is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.economics.charges import (
    BreakEven,
    ReferenceJob,
    ServedJob,
    SlowdownTable,
    break_even,
    category_slowdowns,
    served_job,
)
from qops_batsim.economics.prices import Prices
from qops_batsim.errors import InputError
from qops_batsim.measures.metrics.charge_totals import (
    ChargeReport,
    JobCharge,
    billed_amounts,
    charge_jobs,
    charge_of,
    charge_report,
    reference_of_run,
)
from qops_batsim.measures.metrics.outcomes import outcomes_of_run
from qops_batsim.measures.results.run_files import RunInfo
from qops_batsim.measures.results.run_result import (
    RunResult,
    read_run,
    recorded_platform,
    workloads_of_run,
)
from qops_batsim.platform.platform_model import Platform
from qops_batsim.running.reference import easy_references
from qops_batsim.shipped import find_input
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.workload_model import Workload


class JobPrice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job costs its user: a charge for its processors and one for its deadline (QoS).

    The resource charge in processor-seconds, and the QoS charge (category slowdown /
    slowdown granted): 0 without deadline, None if the category's slowdown is not known. What both
    ``cost`` together is told where they have prices.
    """

    category: str
    resource: float
    qos: float | None
    cost: float | None = None
    currency: str = ""


class PriceList:
    """Computes what jobs cost, by the mean slowdown of their category; ``unknown`` says why there
    are no QoS charges, if so.
    """

    def __init__(
        self,
        table: SlowdownTable | None,
        unknown: str = "",
        prices: Prices = Prices(),  # noqa: B008 - it is frozen
    ) -> None:
        prices.check()
        self._table = table
        self._prices = prices
        self._categories = prices.categories if table is None else table.categories
        self.unknown = unknown

    def price(
        self, processors: int, run_time: float | None, arrival: float, deadline: float | None
    ) -> JobPrice | None:
        """Return what a job with this promised deadline costs, None if its run time is unknown.

        Dates and durations in seconds, the deadline absolute, None for none; the arrival is
        the first submission.
        """
        if run_time is None:
            return None
        category = self._categories.label(run_time, processors)
        served = ServedJob(processors, run_time, category, math.nan, None)

        # A job without deadline has no QoS charge, and that is known.
        knows_qos = deadline is None or deadline == math.inf
        if deadline is not None and arrival < deadline < math.inf and self._table is not None:
            try:
                served = served_job(
                    self._table,
                    category=category,
                    processors=processors,
                    run_time=run_time,
                    arrival=arrival,
                    deadline=deadline,
                )
                knows_qos = True
            except InputError as error:
                self.unknown = str(error)

        charge = charge_of(self._prices.function, served, "asked about")
        return JobPrice(
            category=category,
            resource=charge.resource,
            qos=charge.qos if knows_qos else None,
            cost=self._prices.profit(charge) if knows_qos and self._prices.currency else None,
            currency=self._prices.currency or "",
        )


def price_list(
    info: RunInfo | None,
    workload: str | Path | None = None,
    prices: Prices = Prices(),  # noqa: B008 - it is frozen
) -> PriceList:
    """Return the price list for a run, whose slowdowns are those of its workload under EASY, which
    is simulated now, on the run's platform if jobs share its hosts.

    If the workload that the run names cannot be used there are no QoS charges; that the one
    given instead cannot be used is an error.
    """
    platform = recorded_platform(info)
    if workload is not None:
        return PriceList(_slowdowns(workload, prices, platform), "", prices)
    named = None if info is None else info.workload
    if isinstance(named, Sequence) and not isinstance(named, str):
        named = named[0] if len(named) == 1 else None
    if info is None or named is None:
        return PriceList(None, "the workload that was run is not known", prices)
    try:
        table = _slowdowns(named, prices, platform, info.sha256.get("workload"))
        return PriceList(table, "", prices)
    except InputError as error:
        return PriceList(None, str(error), prices)


def _slowdowns(
    name: str | Path, prices: Prices, platform: Platform | None, digest: str | None = None
) -> SlowdownTable:
    workload = read_workload(find_input(name, "workloads"))
    if digest not in (None, workload.sha256):
        raise InputError(f"{workload.source} has changed since the run")
    if platform is not None and platform.machine is None:
        platform = None
    references = easy_references(workload, of_all=False, platform=platform).values()
    return category_slowdowns(references, prices.categories, bound=prices.slowdown_bound)


class RunCharges(msgspec.Struct, frozen=True, kw_only=True):
    """What the jobs of a run cost: job by job, and summed by category."""

    run: str
    jobs: list[JobCharge]
    report: ChargeReport


class ChargeComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Charges of one or two runs; for two, also the price of QoS charges relative to core-hours at
    which both earn the same.
    """

    prices: Prices
    runs: list[RunCharges]
    break_even: BreakEven | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the charges by category and in total as plain values for JSON."""
        data: dict[str, Any] = {
            "weights": dict(zip(("resource", "qos"), self.prices.weights, strict=True)),
            "categories": msgspec.to_builtins(self.prices.categories),
            "slowdown_bound": self.prices.slowdown_bound,
            "penalty": self.prices.penalty,
            "unused_promise": self.prices.unused_promise,
            "runs": [{"run": one.run, **msgspec.to_builtins(one.report)} for one in self.runs],
        }
        if self.prices.billing_weights is not None:
            data |= {"billing_weights": self.prices.billing_weights, "billing": self.prices.billing}
        if self.break_even is not None:
            data["break_even"] = msgspec.to_builtins(self.break_even)
        return data


def charge_runs(
    run: str,
    against: str | None = None,
    *,
    prices: Prices = Prices(),  # noqa: B008 - it is frozen
    workloads: list[Path] | None = None,
    reference: str | None = None,
) -> ChargeComparison:
    """Compute what the jobs of a run cost their users, and to compare them the jobs of ``against``,
    another run of the same workload.

    ``workloads`` are what was run, in order; by default what the run's description names.
    Slowdowns are those of the run ``reference``; by default of EASY, run now on as many hosts
    as the workload is for, or on the run's own where they have amounts.
    """
    prices.check(by_weights=True)
    names = [run] if against is None else [run, against]
    results = [read_run(name) for name in names]

    known, doubt = workloads_of_run(results[0], workloads)
    if not known:
        raise InputError(
            f"{results[0].source}: {doubt or 'its workload is not known'}; --workload FILE is "
            "expected"
        )
    references = _references(known, reference, results[0])
    # Before any job is charged: a run that cannot be read is told first.
    outcomes = [outcomes_of_run(result, known) for result in results]
    table = category_slowdowns(references.values(), prices.categories, bound=prices.slowdown_bound)

    runs = []
    weights = prices.by_kind
    for name, result, outcome in zip(names, results, outcomes, strict=True):
        try:
            billed = None if weights is None else billed_amounts(result, known, outcome, weights)
            jobs = charge_jobs(
                outcome, references, table, prices.function, grace=result.grace, billed=billed
            )
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        report = charge_report(jobs, table, prices)
        runs.append(RunCharges(run=name, jobs=jobs, report=report))

    crossing = None
    if against is not None:
        rates = prices.penalty, prices.unused_promise
        crossing = break_even(*(charges.report.total.income(*rates) for charges in runs))
    return ChargeComparison(prices=prices, runs=runs, break_even=crossing)


def _references(
    workloads: Mapping[str, Workload], reference: str | None, result: RunResult
) -> dict[str, ReferenceJob]:
    if reference is not None:
        found = read_run(reference)
        if found.machine is None:
            found = replace(found, platform=result.shared_platform)
        return reference_of_run(found, workloads)
    if len(workloads) > 1:
        raise InputError(
            f"the run has {len(workloads)} workloads; a run of the same workloads whose slowdowns "
            "set the charges is expected (--reference PREFIX)"
        )
    ((name, workload),) = workloads.items()
    return easy_references(workload, f"{name}!", of_all=False, platform=result.shared_platform)
