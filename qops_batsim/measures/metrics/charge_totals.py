"""Charges of the jobs of a finished run, by category and in total.

A scheduler does not know prices: charges are computed from what it promised and from what
ran. A job that was killed and run again is charged once, for the run that ended by itself;
the work of the runs before is the centre's loss.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.economics.billing import BillingWeights
from qops_batsim.economics.charges import (
    Charge,
    PriceFunction,
    ReferenceJob,
    ServedJob,
    SlowdownTable,
    islam2004,
    served_job,
    total,
)
from qops_batsim.economics.prices import Prices
from qops_batsim.errors import InputError, QopsError, shown
from qops_batsim.files import read_text
from qops_batsim.job_fields import is_number
from qops_batsim.measures.metrics.outcomes import JobOutcomes, fates
from qops_batsim.measures.results.host_amounts import requests_of_run, sizes_of
from qops_batsim.measures.results.result_tables import Floats, original_id, read_qos
from qops_batsim.measures.results.run_files import RunFiles
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.workload_model import Workload

References = Mapping[str, ReferenceJob]
"""The jobs of the reference run by identifier, as in the accounts."""


class JobCharge(msgspec.Struct, frozen=True, kw_only=True):
    """What one job of a run costs its user; ``charge`` is None if the job did not run to its end.

    ``work`` are the processor-seconds of the run that is charged, ``kills`` is the number of the
    job's runs that the scheduler killed, and ``wasted`` the processor-seconds lost in them. The
    ``penalty`` is the QoS charge of the promise that was broken, or of the deadline that was missed
    where none was promised, else None.
    The ``queue`` is that of a scheduler with priced queues, else ``""``, and its price a multiple
    of the usual charge. ``unused`` are the processor-seconds that a promised deadline set aside for
    the job and its user did not use: all of its estimate if the user gave the promise back
    (cancelled the job), else what the estimate was longer than the run.
    """

    id: str
    category: str
    charge: Charge | None
    work: float
    kills: int
    wasted: float
    penalty: float | None = None
    queue: str = ""
    queue_price: float = 1.0
    unused: float = 0.0


class CategoryCharges(msgspec.Struct, frozen=True, kw_only=True):
    """The charges of the jobs of one category or of one queue, or of all jobs (``"total"``).

    ``slowdown`` is the mean in the reference run (None without jobs, and for the total). Jobs that
    ran to their end are charged; work is in processor-seconds, and that of the ``kills``, the runs
    that the scheduler killed, is wasted. ``failed`` are the promises that were broken
    and, where nothing was promised, the deadlines that were missed; the ``penalty`` is what they
    would have brought. ``unused_work`` was promised and not used.
    """

    category: str
    slowdown: float | None
    jobs: int
    charged_jobs: int
    charged_work: float
    charge: Charge
    kills: int
    wasted_work: float
    failed: int
    penalty: float
    unused_work: float = 0.0

    def income(self, penalty: float, unused_promise: float = 0.0) -> Charge:
        """Return what the centre earns: the charges, minus ``penalty`` times the QoS charges of
        failed deadlines, plus a share of the price of unused promised work.

        ``unused_promise`` is the share of its resource charge that unused promised work costs.
        """
        return Charge(
            resource=self.charge.resource + unused_promise * self.unused_work,
            qos=self.charge.qos - penalty * self.penalty,
        )


class ChargeReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The charges of a run by category and in total, and the profit at given prices.

    ``queues`` are the charges by queue of a scheduler with priced ones, the dearest first.
    """

    categories: tuple[CategoryCharges, ...]
    total: CategoryCharges
    profit: float
    queues: tuple[CategoryCharges, ...] = ()


def reference_of_run(
    result: RunResult, workloads: Mapping[str, Workload] | None = None
) -> dict[str, ReferenceJob]:
    """Return the jobs that ran in a reference run, by full identifier (``"w0!15"``); O(jobs).

    The ``workloads`` that were run tell what jobs ask of hosts that they share by amounts.
    """
    columns = result.columns("execution_time", "turnaround_time", "requested_number_of_resources")
    requests = requests_of_run(result, workloads or {})
    if requests is not None:
        columns = (*columns[:2], requests.sizes)
    ran = result.executed
    rows = zip(*(column[ran].tolist() for column in columns), strict=True)
    ids = itertools.compress(result.ids, ran.tolist())
    return dict(zip(ids, map(ReferenceJob._make, rows), strict=True))


def reference_of_workload(
    workload: Workload,
    response_times: Mapping[str, float],
    prefix: str = "",
    machine: Machine | None = None,
) -> dict[str, ReferenceJob]:
    """Return the ``delay`` jobs of a workload as jobs of a reference run, given the response time
    that each job had in that run.

    All jobs are of type ``delay``. ``response_times`` are completion - submission in the reference
    run (seconds) by job id; ``prefix`` goes in front of each id of the result (``"w0!"``). The
    ``machine`` is what hosts have for jobs that share them, if they have amounts.
    """
    run_times = run_times_until_killed(workload)
    sizes = sizes_of(workload, machine).tolist()
    return {
        prefix + job_id: ReferenceJob(run_time, response_times[job_id], size)
        for job_id, run_time, size in zip(workload.columns.ids, run_times, sizes, strict=True)
        if job_id in response_times
    }


def charge_jobs(
    outcomes: JobOutcomes,
    references: References,
    table: SlowdownTable,
    price: PriceFunction = islam2004,
    *,
    grace: float = 0.0,
    billed: Floats | None = None,
) -> list[JobCharge]:
    """Return each job's resource and QoS charge, and the penalty for its deadline if that was
    missed; O(jobs).

    Only a promise that was kept brings a QoS charge. A promise that was broken, and a deadline that
    was missed where none was promised, have a penalty: the QoS charge for it.

    Parameters
    ----------
    outcomes
        The jobs of the run.
    references
        The same jobs in the reference run. Their run time there decides the category, since a
        refused job has none of its own; if the job is refused there as well, as it is too wide,
        the run time in the workload decides.
    table
        The slowdowns of the reference run, by category.
    price
        Returns the resource and the QoS charge of a job.
    grace
        Lateness up to which a deadline counts as met (seconds).
    billed
        What each job pays a second by weights of kinds (:func:`billed_amounts`); None: its
        processors.

    Returns
    -------
    list of JobCharge
        In the order of the outcomes.
    """
    fate = fates(outcomes, grace)
    asked = np.where(np.isnan(outcomes.promised), outcomes.deadline, outcomes.promised)
    used = np.where(outcomes.given_back, 0.0, outcomes.charged_time)
    units = outcomes.processors if billed is None else billed
    unused = units * np.maximum(outcomes.estimates - used, 0.0)
    has_promise = fate.promised | (outcomes.given_back & np.isfinite(outcomes.promised))
    columns = (
        outcomes.processors,
        outcomes.charged_time,
        outcomes.submission,
        np.where(fate.kept, outcomes.promised, np.nan),
        np.where(fate.failed, asked, np.nan),
        outcomes.killed_runs,
        outcomes.wasted,
        np.broadcast_to(outcomes.prices, asked.shape),
        np.where(has_promise & np.isfinite(unused), unused, 0.0),
        units,
    )
    queues = outcomes.queues or [""] * len(asked)
    rows = zip(outcomes.ids, queues, *(column.tolist() for column in columns), strict=True)

    # A job that is refused in both runs has no other run time than the workload's.
    alone = {
        outcomes.ids[row]: ReferenceJob(outcomes.run_time[row], math.nan, outcomes.processors[row])
        for row in np.flatnonzero(outcomes.refused).tolist()
    }
    references = {**alone, **references}

    charged = []
    for job_id, queue, processors, run_time, arrival, kept, failed, kills, *others in rows:
        wasted, factor, not_used, unit = others
        reference = _reference(references, job_id, processors)
        category = table.categories.label(reference.run_time, processors)
        job = {"category": category, "processors": processors, "arrival": arrival}
        weighted = {} if billed is None else {"billed": unit}
        pay = partial(_pay, price, table, job_id, **job, **weighted, queue_price=factor)

        charge = None
        if not math.isnan(run_time):
            charge = pay(run_time=run_time, deadline=kept)
        penalty = None
        if not math.isnan(failed):
            # What is asked for before the arrival has no price.
            lasted = reference.run_time if math.isnan(run_time) else run_time
            penalty = pay(run_time=lasted, deadline=failed).qos if failed > arrival else 0.0

        charged.append(
            JobCharge(
                id=job_id,
                category=category,
                charge=charge,
                work=0.0 if charge is None else processors * run_time,
                kills=kills,
                wasted=wasted,
                penalty=penalty,
                queue=queue,
                queue_price=factor,
                unused=not_used,
            )
        )
    return charged


def billed_amounts(
    result: RunResult,
    workloads: Mapping[str, Workload],
    outcomes: JobOutcomes,
    weights: BillingWeights,
) -> Floats:
    """Return what each job of the outcomes pays a second by weights of kinds: for what it took in
    its last run, or asked for if it was refused.

    InputError where hosts have no amounts, or the platform is not known.
    """
    requests = requests_of_run(result, workloads)
    if requests is None:
        raise InputError(
            f"{result.source}: billing_weights are for machines whose hosts have amounts, and "
            "those of this run have none, or its platform has moved or changed since; the run of "
            "a platform with amounts is expected"
        )
    taken = np.where(result.executed[:, None], requests.taken, requests.demand)
    hosts = result.allocation_sizes
    places = {job_id: place for place, job_id in enumerate(outcomes.ids)}
    billed = np.zeros(len(outcomes.ids))
    for row in np.flatnonzero(result.last_runs).tolist():
        amounts = dict(zip(requests.machine.kinds, taken[row].tolist(), strict=True))
        amounts["hosts"] = int(hosts[row])
        licences = requests.distinct[requests.of_job[row]].licences
        origin = original_id(result.id(row), places)
        if origin is not None:
            billed[places[origin]] = weights.billed(amounts, licences)
    return billed


def _pay(
    price: PriceFunction, table: SlowdownTable, job_id: str, *, deadline: float, **job: Any
) -> Charge:
    """Return the charge that a price function sets for a job; ``deadline`` (seconds) is NaN for a
    job without one.
    """
    served = served_job(table, **job, deadline=None if math.isnan(deadline) else deadline)
    return charge_of(price, served, job_id)


def _reference(references: References, job_id: str, processors: float) -> ReferenceJob:
    found = references.get(job_id)
    if found is None:
        raise InputError(
            f"job {shown(job_id)} is not in the reference run; a reference run of the same "
            "workload is expected"
        )

    if found.processors != processors:
        raise InputError(
            f"job {shown(job_id)} asks for {processors:.0f} processors, but for "
            f"{found.processors:g} in the reference run; a reference run of the same "
            "workload is expected"
        )

    return found


def charge_of(price: PriceFunction, served: ServedJob, job_id: str) -> Charge:
    """Call a price function for a job and return its charge; InputError if the function fails or
    the charge is not finite.
    """
    try:
        charge: object = price(served)
    except QopsError:
        raise
    except Exception as error:
        raise InputError(
            f"the price function fails for job {shown(job_id)} ({type(error).__name__}: {error})"
        ) from error

    if not isinstance(charge, Charge):
        raise InputError(
            f"the price function returns a value of type {type(charge).__name__} for job "
            f"{shown(job_id)}; a qops_batsim.economics.Charge is expected"
        )

    if not (is_number(charge.resource) and is_number(charge.qos)):
        raise InputError(
            f"the price function charges job {shown(job_id)} {shown(charge.resource)} for "
            f"resources and {shown(charge.qos)} for QoS; two finite numbers are expected"
        )

    return charge


def charge_report(
    charged: Sequence[JobCharge],
    table: SlowdownTable,
    prices: Prices = Prices(),  # noqa: B008 - it is frozen
) -> ChargeReport:
    """Sum up the jobs' charges by category (in the order of their labels), by queue and in total,
    and compute the profit at the given prices; O(jobs).
    """
    prices.check(by_weights=True)
    by_category: dict[str, list[JobCharge]] = {label: [] for label in table.categories.labels()}
    by_queue: dict[tuple[float, str], list[JobCharge]] = {}
    for job in charged:
        by_category[job.category].append(job)
        if job.queue:
            by_queue.setdefault((-job.queue_price, job.queue), []).append(job)

    slowdowns = {row.category: row.mean for row in table.slowdowns}
    everything = _sum_up("total", None, charged)
    return ChargeReport(
        categories=tuple(
            _sum_up(name, slowdowns[name], jobs) for name, jobs in by_category.items()
        ),
        total=everything,
        profit=prices.profit(everything.income(prices.penalty, prices.unused_promise)),
        queues=tuple(_sum_up(name, None, jobs) for (_, name), jobs in sorted(by_queue.items())),
    )


def fill_qos_file(files: RunFiles, charged: Iterable[JobCharge]) -> Path:
    """Write each job's category and charges into the columns of the run's ``_qos.csv``.

    The category of a job is filled in whether it was accepted or not, its charges only if
    it pays; a job's later runs (``w0!15#1``) stay without, since it is charged once.
    """
    known = {job.id: job for job in charged}
    path = files.qos
    if path is None:
        raise InputError(
            f"{files.prefix}_qos.csv: no such file; a run by qops-batsim, which writes this file, "
            "is expected"
        )

    text = read_text(path, what="a _qos.csv")
    reader = csv.DictReader(io.StringIO(text))
    columns = list(reader.fieldnames or [])
    needed = ("job_id", "category", "resource_charge", "qos_charge")
    missing = [name for name in needed if name not in columns]
    if missing:
        raise InputError(f"{path}: column {missing[0]} is missing; a _qos.csv needs it")

    written = io.StringIO()
    writer = csv.DictWriter(written, columns, lineterminator="\n")
    writer.writeheader()
    for row, job_id in zip(reader, read_qos(path).ids, strict=True):
        job = known.get(job_id)
        if job is not None:
            row["category"] = job.category
            paid = job.charge
            row["resource_charge"] = "" if paid is None else f"{paid.resource:.6f}"
            row["qos_charge"] = "" if paid is None else f"{paid.qos:.6f}"

        writer.writerow(row)

    files.replace("_qos.csv", path, written.getvalue())
    return path


def _sum_up(name: str, slowdown: float | None, jobs: Sequence[JobCharge]) -> CategoryCharges:
    paid = [job.charge for job in jobs if job.charge is not None]
    return CategoryCharges(
        category=name,
        slowdown=slowdown,
        jobs=len(jobs),
        charged_jobs=len(paid),
        charged_work=math.fsum(job.work for job in jobs),
        charge=total(paid),
        kills=sum(job.kills for job in jobs),
        wasted_work=math.fsum(job.wasted for job in jobs),
        failed=sum(job.penalty is not None for job in jobs),
        penalty=math.fsum(job.penalty or 0.0 for job in jobs),
        unused_work=math.fsum(job.unused for job in jobs),
    )
