"""Metrics of deadline admission: refusals and their cost, promises kept and broken.

The metrics of Islam et al. (2003), section 5. Jobs are of type ``delay``, so the
work of a job that was refused is known from the workload.

Notation: a job asks for ``q`` processors for ``p`` seconds; it is a *deadline job* if
its user set the deadline (``qos.has_user_deadline`` is not false). All other jobs,
those with an artificial deadline included, are *jobs without user deadline*.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from qops_batsim.economics.charges import SlowdownTable
from qops_batsim.errors import InputError, shown
from qops_batsim.measures.metrics.charge_totals import References, charge_jobs
from qops_batsim.measures.metrics.outcomes import JobOutcomes, fates, promises
from qops_batsim.measures.metrics.run_metrics import BOUNDED_SLOWDOWN_THRESHOLD, bounded_slowdown
from qops_batsim.measures.results.result_tables import Booleans, Floats, mean
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.workload_model import offered_load


class AdmissionMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of a run's admission control: refusals, missed deadlines, utilization, response
    times. A value is None where no job of the run counts for it.

    The *offered load* is Σ q p of all jobs / (hosts × time from first to last submission).
    *Unadmitted* jobs and work (processor-seconds) are in % of all jobs and of Σ q p, or of those of
    the deadline jobs only. *Missed* and *met deadlines* are in % of the deadline jobs, as
    :class:`~qops_batsim.measures.metrics.outcomes.Fates` defines them; refused jobs are neither.

    The *utilization* is the share of the hosts' time that ran jobs, lost runs included, in %, from
    the first submission to the last completion (the window of ``qops-batsim metrics``), or to the
    last submission: without the time in which the machine only drains.

    Response time, slowdown and bounded slowdown *of others* are means over the jobs without user
    deadline that ran: completion - submission (seconds), that divided by the run time (jobs with
    run time 0 left out), and max(1, response time / max(run time, 10 s)). The wait, start -
    submission (seconds), and ``bounded_slowdown_of_all`` are means over all jobs that ran.

    *Kills* are the runs that the scheduler killed; the *wasted work* are their processor-seconds
    that were not saved, in % of Σ q p. *Broken promises* are in % of those given
    (:func:`~qops_batsim.measures.metrics.outcomes.promises`).
    """

    jobs: int
    deadline_jobs: int
    offered_load: float | None
    unadmitted_jobs: float
    unadmitted_work: float | None
    unadmitted_deadline_jobs: float | None
    unadmitted_deadline_work: float | None
    missed_deadlines: float | None
    utilization: float | None
    utilization_during_submissions: float | None
    response_time_of_others: float | None
    slowdown_of_others: float | None
    bounded_slowdown_of_others: float | None
    kills: int
    wasted_work: float | None
    met_deadlines: float | None
    wait: float | None
    bounded_slowdown_of_all: float | None
    broken_promises: float | None


def admission_metrics(outcomes: JobOutcomes, hosts: int) -> AdmissionMetrics:
    """Compute the admission metrics of a run from its jobs' outcomes; O(jobs)."""
    if hosts < 1:
        raise InputError(f"number of hosts is {hosts}; at least 1 is expected")
    ran = ~outcomes.refused
    work = outcomes.processors * outcomes.run_time
    of_user = outcomes.of_user
    found = fates(outcomes)
    promised, broken = promises(outcomes)
    begin = float(outcomes.submission.min())
    last_submission = float(outcomes.submission.max())
    others = ~of_user[ran]
    of_all, lasted = (outcomes.finish - outcomes.submission)[ran], outcomes.lasted[ran]
    response, run_time = of_all[others], lasted[others]
    long_enough = run_time > 0
    stretches = response[long_enough] / run_time[long_enough]
    bounded = bounded_slowdown(of_all, lasted, BOUNDED_SLOWDOWN_THRESHOLD)
    return AdmissionMetrics(
        jobs=len(outcomes.ids),
        deadline_jobs=int(of_user.sum()),
        offered_load=offered_load(work, outcomes.submission, hosts),
        unadmitted_jobs=100.0 * float(outcomes.refused.mean()),
        unadmitted_work=_percent(work[outcomes.refused].sum(), work.sum()),
        unadmitted_deadline_jobs=_percent(found.refused.sum(), of_user.sum()),
        unadmitted_deadline_work=_percent(work[found.refused].sum(), work[of_user].sum()),
        missed_deadlines=_percent(found.missed.sum(), of_user.sum()),
        utilization=utilization_to_the_end(outcomes, hosts),
        utilization_during_submissions=_utilization(outcomes, hosts, begin, last_submission),
        response_time_of_others=mean(response),
        slowdown_of_others=mean(stretches),
        bounded_slowdown_of_others=mean(bounded[others]),
        kills=int(outcomes.killed_runs.sum()),
        wasted_work=_percent(outcomes.wasted.sum(), work.sum()),
        met_deadlines=_percent(found.met.sum(), of_user.sum()),
        wait=mean(outcomes.wait[ran]),
        bounded_slowdown_of_all=mean(bounded),
        broken_promises=_percent(broken.sum(), promised.sum()),
    )


def broken_rule(
    outcomes: JobOutcomes, hosts: int, *, grace: float = 0.0, strict: bool = True
) -> str | None:
    """Check a run's outcomes against the rules of a valid schedule; return a sentence on the first
    rule that is broken, or None. O(n log n).

    The rules of ``qops-batsim verify`` that need no hosts by name: every job starts after its
    submission, runs for its run time and ends by its promised deadline, and starts by its promised
    latest start, or less than ``grace`` (seconds) later, unless jobs outlive their estimates; never
    do more processors compute than there are (``hosts``). Promises are only checked if ``strict``.
    """
    o = outcomes
    ran = ~o.refused
    promised = np.isfinite(o.promised)
    latest = np.full(len(o.ids), np.nan) if o.latest_start is None else o.latest_start
    checks = (
        ("starts at", ran & (o.start < o.submission - PLAN_TOLERANCE), "before its submission"),
        (
            "starts at",
            ran & (np.abs(o.lasted - o.run_time) > PLAN_TOLERANCE),
            "and does not run for its run time",
        ),
        (
            "ends after its promised deadline, starting at",
            _unexcused(o, ran & o.is_late(o.finish, o.promised, grace)),
            "although it was admitted",
        ),
        (
            "starts after its promised latest start, at",
            _unexcused(o, o.is_late(o.start, latest, grace)),
            "although that was promised",
        ),
        ("was promised a deadline, submitted at", o.refused & promised, "but is refused"),
    )
    for words, broken, rest in checks if strict else checks[:2]:
        if broken.any():
            row = int(np.flatnonzero(broken)[0])
            date = o.submission[row] if math.isnan(o.start[row]) else o.start[row]
            return f"job {shown(o.ids[row])} {words} {date:.6f} s {rest}"
    spans = _spans(o)
    start, finish, processors = spans[spans[:, 1] > spans[:, 0]].T
    dates = np.concatenate([start, finish])
    changes = np.concatenate([processors, -processors])
    # At one date, ends come before starts.
    order = np.lexsort((changes, dates))
    busy = np.cumsum(changes[order])
    if len(busy) and busy.max() > hosts:
        date = dates[order][int(np.argmax(busy > hosts))]
        return f"{busy.max():g} processors compute at {date:.6f} s, but there are {hosts}"
    return None


def _unexcused(outcomes: JobOutcomes, late: Booleans) -> Booleans:
    """Return ``late`` as it is, or all false if any job ran longer than its estimate (or predicted
    run time): that excuses all late jobs.
    """
    if late.any():
        estimates = np.concatenate([each.columns.estimates for each in outcomes.workloads])
        if outcomes.predicted is not None:
            estimates = np.fmin(estimates, outcomes.predicted)
        if (outcomes.run_time > estimates + PLAN_TOLERANCE).any():
            return np.zeros_like(late)
    return late


def utilization_to_the_end(outcomes: JobOutcomes, hosts: int) -> float | None:
    """Return the share (%) of the hosts' time that ran jobs, from the first submission to the last
    completion, for jobs of any type. O(jobs).
    """
    begin = float(outcomes.submission.min())
    end = float(outcomes.finish[~outcomes.refused].max(initial=begin))
    return _utilization(outcomes, hosts, begin, end)


def _utilization(outcomes: JobOutcomes, hosts: int, begin: float, end: float) -> float | None:
    """Return the busy share (%) of the hosts' time between two dates."""
    if not end > begin:
        return None
    start, finish, processors = _spans(outcomes).T
    inside = np.minimum(finish, end) - np.maximum(start, begin)
    used = float((processors * np.maximum(inside, 0.0)).sum())
    return 100.0 * used / (hosts * (end - begin))


def _spans(outcomes: JobOutcomes) -> Floats:
    """Return start, finish and processors of every run, killed ones included: shape (runs, 3)."""
    ran = ~outcomes.refused
    last = np.column_stack([outcomes.start, outcomes.finish, outcomes.processors])[ran]
    return np.concatenate([last, outcomes.lost])


class PromiseMetrics(AdmissionMetrics, frozen=True, kw_only=True):
    """Admission metrics plus metrics of promised deadlines: lateness, charges and risk, which are
    None if nothing was promised.

    The *lateness* is that of the promises whose jobs were too late: seconds, and in % of the time
    from submission to promise. *Killed at walltime* are the jobs in that final state, *cut short*
    those of them whose work was not done, both in % of the jobs that ran; the *useful utilization*
    counts neither jobs whose work was not done nor lost runs.

    The *kept charge* is the QoS charge of the kept promises, the *broken charge* that of the broken
    ones, which a penalty is a multiple of; both in % of the charges of all deadlines asked for. The
    *income* is their difference.

    A promise's *expected risk* is how often those of its class (estimate × processors) were broken
    so far, in % on average. The *premium* is risk × charge, what is fair to ask for a penalty
    of one charge, in the same unit as these.
    """

    lateness_median: float | None = None
    lateness_p95: float | None = None
    relative_lateness_median: float | None = None
    relative_lateness_p95: float | None = None
    killed_at_walltime: float | None = None
    cut_short: float | None = None
    useful_utilization: float | None = None
    kept_charge: float | None = None
    broken_charge: float | None = None
    expected_risk: float | None = None
    premium: float | None = None

    @property
    def income(self) -> float | None:
        """QoS charges of kept promises minus those of broken ones, in % of the charges of all
        requested deadlines.
        """
        if self.kept_charge is None or self.broken_charge is None:
            return None
        return self.kept_charge - self.broken_charge

    @property
    def income_with_premium(self) -> float | None:
        """``income`` plus the premiums (risk × QoS charge) that pay for the penalties of broken
        promises, in the same unit.
        """
        if self.income is None or self.premium is None:
            return None
        return self.income + self.premium


PROMISE_METRICS = (
    *PromiseMetrics.__struct_fields__[len(AdmissionMetrics.__struct_fields__) :],
    "income",
    "income_with_premium",
)
"""Names of the metrics that :class:`PromiseMetrics` has in addition to those of admission."""


def promise_metrics(
    outcomes: JobOutcomes,
    hosts: int,
    references: References,
    table: SlowdownTable,
) -> PromiseMetrics:
    """Compute the metrics of promises in a run of one workload of ``delay`` jobs; charges are
    relative to a reference run. O(jobs × log(jobs)).

    ``references`` are the jobs of the reference run and ``table`` its slowdowns, as for
    :func:`~qops_batsim.measures.metrics.charge_totals.charge_jobs`.
    """
    ran = ~outcomes.refused
    (workload,) = outcomes.workloads
    counted: dict[str, Any] = {
        "killed_at_walltime": _percent(float(np.sum(outcomes.at_walltime)), ran.sum()),
        "cut_short": _percent(outcomes.cut_short.sum(), ran.sum()),
        "useful_utilization": _useful(outcomes, hosts),
    }
    found = fates(outcomes)
    if found.promised.any():
        late = found.promised & outcomes.is_late(outcomes.finish, outcomes.promised, 0.0)
        late &= outcomes.work_done
        counted |= _lateness(outcomes, late, outcomes.finish, outcomes.promised)
        charges = _charges(outcomes, references, table)
        whole = _asked(outcomes, references, table)
        estimates = workload.columns.estimates.tolist()
        processors = outcomes.processors.tolist()
        classes = list(map(table.categories.label, estimates, processors))
        risks = expected_risks(outcomes, found.promised, found.broken, classes)
        counted |= {
            "kept_charge": _percent(charges[found.kept].sum(), whole),
            "broken_charge": _percent(charges[found.broken].sum(), whole),
            "expected_risk": 100.0 * float(risks[found.promised].mean()),
            "premium": _percent((risks * charges)[found.promised].sum(), whole),
        }
    elif outcomes.latest_start is not None:
        late = outcomes.is_late(outcomes.start, outcomes.latest_start, 0.0)
        counted |= _lateness(outcomes, late, outcomes.start, outcomes.latest_start)
    usual = admission_metrics(outcomes, hosts)
    known = {name: getattr(usual, name) for name in AdmissionMetrics.__struct_fields__}
    return PromiseMetrics(**known, **counted)


def _useful(outcomes: JobOutcomes, hosts: int) -> float | None:
    """Return the utilization (%) by jobs whose work was done: neither lost runs count nor jobs
    that were killed.
    """
    used = utilization_to_the_end(outcomes, hosts)
    seconds = np.where(outcomes.refused, 0.0, outcomes.lasted * outcomes.processors)
    everything = float(seconds.sum()) + outcomes.lost_work
    return used and used * float(seconds[outcomes.work_done].sum()) / everything


def _lateness(
    outcomes: JobOutcomes, late: Booleans, actual: Floats, promised: Floats
) -> dict[str, float]:
    if not late.any():
        return {}
    seconds = (actual - promised)[late]
    told = (promised - outcomes.submission)[late]
    relative = 100.0 * seconds[told > 0] / told[told > 0]
    found = {}
    for name, values in (("lateness", seconds), ("relative_lateness", relative)):
        if not len(values):
            continue  # Of what is promised at once every lateness is without measure.
        found[f"{name}_median"], found[f"{name}_p95"] = np.percentile(values, [50, 95]).tolist()
    return found


def _charges(outcomes: JobOutcomes, references: References, table: SlowdownTable) -> Floats:
    """Return each job's QoS charge: what its kept promise brings, or what its broken promise would
    have brought.
    """
    unserved = np.where(outcomes.work_done, outcomes.charged_time, np.nan)
    charged = charge_jobs(replace(outcomes, charged_time=unserved), references, table)
    return np.array(
        [
            each.penalty if each.penalty is not None else each.charge.qos if each.charge else 0.0
            for each in charged
        ]
    )


def _asked(outcomes: JobOutcomes, references: References, table: SlowdownTable) -> float:
    """Return the sum of the QoS charges that all requested deadlines would bring if met."""
    run_time = np.array([references[job_id].run_time for job_id in outcomes.ids])
    ideal = replace(
        outcomes,
        refused=np.zeros(len(run_time), np.bool_),
        promised=np.where(outcomes.of_user, outcomes.deadline, np.nan),
        finish=outcomes.submission,
        charged_time=run_time,
        at_walltime=False,
    )
    charged = charge_jobs(ideal, references, table)
    return sum(each.charge.qos for each in charged if each.charge is not None)


def expected_risks(
    outcomes: JobOutcomes, promised: Booleans, broken: Booleans, classes: Sequence[str]
) -> Floats:
    """Estimate the risk (0 to 1) that each promise is broken, from the promises known to be kept or
    broken when its job was submitted.

    The risk is the share of broken ones among these promises to jobs of the same class, and one
    more, which counts as broken by the share of all classes. Whether a promise is broken is known
    at the end of its job, or at the promised date once that has passed. ``classes`` has a label for
    each job. O(jobs × log(jobs)).
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
