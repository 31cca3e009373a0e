"""What the jobs of a finished run pay, by category and in total.

A scheduler does not know prices: charges are computed from what it promised and from what
ran. A job that was killed and started anew under an identifier ``15#1`` is one job, charged
once for the run that ended by itself; the work of the runs before is the centre's loss.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from qops_batsim.analysis.metrics.accounts import Account
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.economics.charges import Charge, Price, Weights, islam2004, served_job, total
from qops_batsim.economics.slowdowns import ReferenceJob, SlowdownTable
from qops_batsim.errors import InputError, shown
from qops_batsim.files import read_text, write_text
from qops_batsim.workload.delay_jobs import run_times_until_killed
from qops_batsim.workload.model import Workload

References = Mapping[str, ReferenceJob]
"""The jobs of the reference run by identifier, as in the accounts."""


class JobCharge(msgspec.Struct, frozen=True, kw_only=True):
    """What one job pays: nothing unless it ran to its end.

    Attributes
    ----------
    account
        What became of it.
    category
        Label of its category.
    charge
        What it pays, or None.
    """

    account: Account
    category: str
    charge: Charge | None


class CategoryCharges(msgspec.Struct, frozen=True, kw_only=True):
    """The charges of one category, or of all.

    Attributes
    ----------
    category
        Label, or ``"total"``.
    slowdown
        Mean slowdown in the reference run; None without jobs, and for the total.
    jobs
        Submitted jobs.
    charged_jobs
        Those that ran to their end, and pay.
    charged_work
        Their processor-seconds.
    charge
        What they pay together.
    kills
        Runs that the scheduler killed.
    wasted_work
        Processor-seconds of these.
    """

    category: str
    slowdown: float | None
    jobs: int
    charged_jobs: int
    charged_work: float
    charge: Charge
    kills: int
    wasted_work: float


class ChargeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The charges of a run.

    Attributes
    ----------
    categories
        One entry a category, in the order of
        :meth:`~qops_batsim.economics.categories.Categories.labels`.
    total
        All of them.
    profit
        w_r × resource charge + w_q × QoS charge.
    """

    categories: tuple[CategoryCharges, ...]
    total: CategoryCharges
    profit: float


def reference_of_run(result: RunResult) -> dict[str, ReferenceJob]:
    """Return the jobs of a reference run that ran, by full identifier; O(jobs)."""
    ran = result.executed.tolist()
    columns = zip(
        result.jobs["id"],
        result.column("execution_time").tolist(),
        result.column("turnaround_time").tolist(),
        result.column("requested_number_of_resources").tolist(),
        strict=True,
    )
    return {
        str(job_id): ReferenceJob(*values)
        for (job_id, *values), runs in zip(columns, ran, strict=True)
        if runs
    }


def reference_of_workload(
    workload: Workload, response_times: Mapping[str, float], prefix: str = ""
) -> dict[str, ReferenceJob]:
    """Return the jobs of a reference run, given its response times.

    Parameters
    ----------
    workload
        Jobs of type ``delay``.
    response_times
        Completion - submission in the reference run (seconds) by job id.
    prefix
        Goes in front of each id of the result (``"w0!"``).

    Raises
    ------
    InputError
        A job is none of type ``delay``.
    """
    return {
        prefix + job.id: ReferenceJob(run_time, response_times[job.id], job.processors)
        for job, run_time in zip(workload.jobs, run_times_until_killed(workload), strict=True)
    }


def charge_jobs(
    accounts: Iterable[Account],
    references: References,
    table: SlowdownTable,
    price: Price = islam2004,
) -> list[JobCharge]:
    """Return what each job pays; O(jobs).

    Parameters
    ----------
    accounts
        What became of the jobs.
    references
        The same jobs in the reference run; their run time there decides the category, since
        a refused job has none of its own.
    table
        Slowdowns of the categories.
    price
        Says what a job pays.

    Raises
    ------
    InputError
        A job is not in the reference run or has other processors there, its category has no
        slowdown, or the price is no :class:`Charge` of finite numbers.
    """
    charged = []
    for account in accounts:
        reference = references.get(account.id)
        if reference is None:
            raise InputError(
                f"job {shown(account.id)} is not in the reference run; a reference run of the same "
                "workload is expected"
            )
        if reference.processors != account.processors:
            raise InputError(
                f"job {shown(account.id)} asks for {account.processors} processors, and for "
                f"{reference.processors:g} in the reference run; a reference run of the same "
                "workload is expected"
            )
        category = table.categories.label(reference.run_time, account.processors)
        charge = None
        if account.run_time is not None:
            charge = price(
                served_job(
                    table,
                    category=category,
                    processors=account.processors,
                    run_time=account.run_time,
                    arrival=account.arrival,
                    deadline=account.deadline if account.of_user else None,
                )
            )
            if not isinstance(charge, Charge):
                raise InputError(
                    f"the price of job {shown(account.id)} is of type {type(charge).__name__}; "
                    "a Charge is expected"
                )
            if not (math.isfinite(charge.resource) and math.isfinite(charge.qos)):
                raise InputError(
                    f"the price of job {shown(account.id)} is {charge.resource} for resources and "
                    f"{charge.qos} for QoS; finite numbers are expected"
                )
        charged.append(JobCharge(account=account, category=category, charge=charge))
    return charged


def charge_report(
    charged: Sequence[JobCharge], table: SlowdownTable, weights: Weights | None = None
) -> ChargeReport:
    """Return charges by category and in total; O(jobs).

    Raises
    ------
    InputError
        A weight is out of range.
    """
    weights = weights or Weights()
    weights.check()
    groups: dict[str, list[JobCharge]] = {label: [] for label in table.categories.labels()}
    for each in charged:
        groups[each.category].append(each)
    means = {each.category: each.mean for each in table.slowdowns}
    everything = _sum_up("total", None, charged)
    return ChargeReport(
        categories=tuple(_sum_up(name, means[name], jobs) for name, jobs in groups.items()),
        total=everything,
        profit=weights.profit(everything.charge),
    )


def fill_qos_file(path: Path, charged: Iterable[JobCharge]) -> None:
    """Write category and charges of each job into the columns of a ``_qos.csv``.

    The category of a job is filled in whether it was accepted or not, its charges only if
    it pays; a job's later runs (``w0!15#1``) stay without, since it is charged once.

    Parameters
    ----------
    path
        The file; it is replaced.
    charged
        Charges by full identifier.

    Raises
    ------
    InputError
        The file cannot be read or written, or lacks a column.
    """
    known = {each.account.id: each for each in charged}
    text = read_text(path, what="a _qos.csv")
    reader = csv.DictReader(io.StringIO(text))
    columns = list(reader.fieldnames or [])
    needed = ("job_id", "category", "resource_charge", "qos_charge")
    missing = [name for name in needed if name not in columns]
    if missing:
        raise InputError(f"{path}: column {missing[0]} missing; a _qos.csv is expected")
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, lineterminator="\n")
    writer.writeheader()
    for row in reader:
        job = known.get(row["job_id"])
        if job is not None:
            row["category"] = job.category
            paid = job.charge
            row["resource_charge"] = "" if paid is None else f"{paid.resource:.6f}"
            row["qos_charge"] = "" if paid is None else f"{paid.qos:.6f}"
        writer.writerow(row)
    write_text(path, written.getvalue())


def _sum_up(name: str, slowdown: float | None, jobs: Sequence[JobCharge]) -> CategoryCharges:
    paying = [each for each in jobs if each.charge is not None]
    return CategoryCharges(
        category=name,
        slowdown=slowdown,
        jobs=len(jobs),
        charged_jobs=len(paying),
        charged_work=math.fsum(
            each.account.processors * (each.account.run_time or 0.0) for each in paying
        ),
        charge=total(each.charge for each in paying if each.charge is not None),
        kills=sum(each.account.kills for each in jobs),
        wasted_work=math.fsum(each.account.wasted for each in jobs),
    )
