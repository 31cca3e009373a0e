"""What promises are worth where estimates may be wrong: broken ones, by how late, and income.

A promise is *broken* if the job ends later, or is killed at an estimate before its work is done;
where latest starts are promised in place of deadlines, if the job starts later.
Charges are those of Islam et al. (2004), in % of what all users would pay for the deadlines that
they ask for: the more of it is kept, and the less is broken, the better.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qops_batsim.analysis.metrics.admission import (
    AdmissionMetrics,
    admission_metrics,
    utilization_to_the_end,
)
from qops_batsim.analysis.metrics.charges import References, charge_jobs
from qops_batsim.analysis.metrics.outcomes import JobOutcomes, is_late
from qops_batsim.analysis.results.tables import Booleans, Floats
from qops_batsim.economics.charges import SlowdownTable
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import run_times


class PromiseMetrics(AdmissionMetrics, frozen=True, kw_only=True):
    """The metrics of admission, and what became of promises; None where there is none.

    *Broken promises* are in % of those given to users. The *lateness* is that of the promises whose
    jobs were too late: seconds, and in % of the time from submission to promise. *Killed* are jobs
    whose walltime ended them before their work was done, in % of those that ran; the *useful
    utilization* leaves them and lost runs out.

    The *kept charge* is the QoS charge of the kept promises, the *broken charge* that of the broken
    ones, which a penalty is a multiple of; both in % of the charges of all deadlines asked for. The
    *income* is their difference.

    A promise's *expected risk* is how often those of its class (estimate × processors) were broken
    so far, in % on average. The *premium* is risk × charge, what is fair to ask for a penalty
    of one charge, in the same unit as these.
    """

    broken_promises: float | None = None
    lateness_median: float | None = None
    lateness_p95: float | None = None
    relative_lateness_median: float | None = None
    relative_lateness_p95: float | None = None
    killed_at_walltime: float | None = None
    useful_utilization: float | None = None
    kept_charge: float | None = None
    broken_charge: float | None = None
    expected_risk: float | None = None
    premium: float | None = None

    @property
    def income(self) -> float | None:
        """Charges of kept promises less once those of broken ones (%)."""
        if self.kept_charge is None or self.broken_charge is None:
            return None
        return self.kept_charge - self.broken_charge

    @property
    def income_with_premium(self) -> float | None:
        """The income, and the premiums for that penalty (%)."""
        if self.income is None or self.premium is None:
            return None
        return self.income + self.premium


PROMISE_METRICS = (
    *PromiseMetrics.__struct_fields__[len(AdmissionMetrics.__struct_fields__) :],
    "income",
    "income_with_premium",
)
"""Names of what it has more than the metrics of admission."""


def promise_metrics(
    outcomes: JobOutcomes,
    hosts: int,
    references: References,
    table: SlowdownTable,
    *,
    grace: float = 0.0,
) -> PromiseMetrics:
    """Compute the metrics of a run of one workload of delay jobs; O(jobs × log(jobs)).

    For ``references`` and ``table`` see :func:`~.charges.charge_jobs`.
    """
    ran = ~outcomes.refused
    (workload,) = outcomes.workloads
    killed = ran & (np.array(run_times(workload)) > outcomes.run_time + PLAN_TOLERANCE)
    useful = replace(outcomes, refused=outcomes.refused | killed, lost=outcomes.lost[:0])
    counted: dict[str, Any] = {
        "killed_at_walltime": _percent(killed.sum(), ran.sum()),
        "useful_utilization": _useful(outcomes, useful, hosts),
    }
    promised = outcomes.of_user & ran & np.isfinite(outcomes.promised)
    if promised.any():
        late = promised & is_late(outcomes.finish, outcomes.promised, grace)
        broken = late | (promised & killed)
        counted["broken_promises"] = _percent(broken.sum(), promised.sum())
        counted |= _lateness(outcomes, late & ~killed, outcomes.finish, outcomes.promised)
        charges = _charges(outcomes, killed, references, table, grace)
        whole = _asked(outcomes, references, table)
        estimates = workload.columns.estimates.tolist()
        processors = outcomes.processors.tolist()
        classes = list(map(table.categories.label, estimates, processors))
        risks = expected_risks(outcomes, promised, broken, classes)
        counted |= {
            "kept_charge": _percent(charges[promised & ~broken].sum(), whole),
            "broken_charge": _percent(charges[broken].sum(), whole),
            "expected_risk": 100.0 * float(risks[promised].mean()),
            "premium": _percent((risks * charges)[promised].sum(), whole),
        }
    elif outcomes.latest_start is not None:
        latest = outcomes.latest_start
        late = is_late(outcomes.start, latest, grace)
        counted["broken_promises"] = _percent(late.sum(), np.isfinite(latest).sum())
        counted |= _lateness(outcomes, late, outcomes.start, latest)
    usual = admission_metrics(outcomes, hosts)
    known = {name: getattr(usual, name) for name in AdmissionMetrics.__struct_fields__}
    return PromiseMetrics(**known, **counted)


def _useful(outcomes: JobOutcomes, useful: JobOutcomes, hosts: int) -> float | None:
    """Return the useful share of the time in which anything ran, in %."""
    used = utilization_to_the_end(outcomes, hosts)
    ran, counts = ~outcomes.refused, ~useful.refused
    seconds = np.where(ran, (outcomes.finish - outcomes.start) * outcomes.processors, 0.0)
    lost = float(((outcomes.lost[:, 1] - outcomes.lost[:, 0]) * outcomes.lost[:, 2]).sum())
    everything = float(seconds.sum()) + lost
    return used and used * float(seconds[counts].sum()) / everything


def _lateness(
    outcomes: JobOutcomes, late: Booleans, came: Floats, promised: Floats
) -> dict[str, float]:
    if not late.any():
        return {}
    seconds = (came - promised)[late]
    relative = 100.0 * seconds / (promised - outcomes.submission)[late]
    found = {}
    for name, values in (("lateness", seconds), ("relative_lateness", relative)):
        found[f"{name}_median"], found[f"{name}_p95"] = np.percentile(values, [50, 95]).tolist()
    return found


def _charges(
    outcomes: JobOutcomes,
    killed: Booleans,
    references: References,
    table: SlowdownTable,
    grace: float,
) -> Floats:
    """Return the QoS charge of each job's promise, kept or broken."""
    unserved = replace(outcomes, charged_time=np.where(killed, np.nan, outcomes.charged_time))
    charged = charge_jobs(unserved, references, table, grace=grace)
    return np.array(
        [
            each.penalty if each.penalty is not None else each.charge.qos if each.charge else 0.0
            for each in charged
        ]
    )


def _asked(outcomes: JobOutcomes, references: References, table: SlowdownTable) -> float:
    """Return the sum of the QoS charges of all deadlines that users asked for."""
    run_time = np.array([references[job_id].run_time for job_id in outcomes.ids])
    ideal = replace(
        outcomes,
        refused=np.zeros(len(run_time), np.bool_),
        promised=np.where(outcomes.of_user, outcomes.deadline, np.nan),
        finish=outcomes.submission,
        charged_time=run_time,
    )
    charged = charge_jobs(ideal, references, table)
    return sum(each.charge.qos for each in charged if each.charge is not None)


def expected_risks(
    outcomes: JobOutcomes, promised: Booleans, broken: Booleans, classes: Sequence[str]
) -> Floats:
    """Return the probability, by what was known at its submission, that a promise is broken.

    It is the share of broken promises of its class whose fate was known, among them one more that
    is broken with the probability of all classes. Fates are known at the end of a job, that of a
    broken promise at its date. O(jobs × log(jobs)).
    """
    known_at = np.where(broken, np.minimum(outcomes.finish, outcomes.promised), outcomes.finish)
    risks = np.zeros(len(promised))
    waiting: list[tuple[float, int]] = []
    total = np.zeros(2)
    by_class: dict[str, Floats] = {}
    for row in np.argsort(outcomes.submission, kind="stable").tolist():
        if not promised[row]:
            continue
        while waiting and waiting[0][0] <= outcomes.submission[row]:
            other = heapq.heappop(waiting)[1]
            counts = by_class.setdefault(classes[other], np.zeros(2))
            for sums in (total, counts):
                sums += (1.0, float(broken[other]))
        overall = (total[1] + 0.5) / (total[0] + 1.0)
        jobs, failed = by_class.get(classes[row], np.zeros(2))
        risks[row] = (failed + overall) / (jobs + 1.0)
        heapq.heappush(waiting, (float(known_at[row]), row))
    return risks


def _percent(part: float, whole: float) -> float | None:
    return 100.0 * float(part) / float(whole) if whole > 0 else None
