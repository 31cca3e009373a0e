"""Runs as their measures see them: what several measures need is computed once.

A run is known from its files (:class:`MeasuredFiles`), or from its jobs' outcomes alone
(:class:`MeasuredJobs`), as in studies, where charges may be known as well.

Notation: a job asks for ``q`` processors for ``p`` seconds; it is a *deadline job* if its user set
the deadline (``qos.has_user_deadline`` is not false). All other jobs, those with an artificial
deadline included, are *others*. Where jobs share hosts by amounts, ``q`` is a job's dominant share
of the machine, in hosts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from qops_batsim.economics.charges import SlowdownTable
from qops_batsim.errors import InputError
from qops_batsim.measures.metrics.charge_totals import References, charge_jobs
from qops_batsim.measures.metrics.outcomes import (
    Fates,
    JobOutcomes,
    fates,
    has_user_deadlines,
    outcomes_with_deadlines,
    promises,
)
from qops_batsim.measures.results.host_amounts import RequestsOfRun, requests_of_run
from qops_batsim.measures.results.result_tables import (
    Booleans,
    Floats,
    is_continuation,
    original_id,
)
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.measures.results.series import StepSeries, busy_hosts, queue_length, window
from qops_batsim.workload.workload_model import Workload

BOUNDED_SLOWDOWN_THRESHOLD = 10.0
"""Default run time under which a job's slowdown is bounded (seconds)."""


class MeasuredRun:
    """A run as its measures see it.

    Times are arrays over the jobs that ran (seconds). Shares are from 0 to ``whole``: 1, or 100 for
    percent.
    """

    whole: float
    hosts: int
    threshold: float
    waits: Floats
    turnarounds: Floats
    run_times: Floats

    def share(self, part: float, of: float) -> float | None:
        """Return the share that a part is ``of`` a total; None of nothing."""
        return self.whole * float(part) / float(of) if of > 0 else None

    @property
    def bounded_slowdowns(self) -> Floats:
        """max(1, turnaround time / max(run time, threshold)) of each job that ran.

        Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling", JSSPP 1998.
        """
        return np.maximum(1.0, self.turnarounds / np.maximum(self.run_times, self.threshold))

    @property
    def window(self) -> tuple[float, float]:
        """First submission and last completion (seconds)."""
        raise NotImplementedError

    def busy_seconds(self, begin: float, end: float) -> float:
        """Return the time for which hosts run jobs between two dates, summed over the hosts."""
        raise NotImplementedError

    def used(self, begin: float, end: float) -> float | None:
        """Return the share of the hosts' time between two dates in which they run jobs."""
        if not end > begin:
            return None
        return self.share(self.busy_seconds(begin, end), self.hosts * (end - begin))


class MeasuredFiles(MeasuredRun):
    """A run as read from its files; shares are from 0 to 1.

    ``workloads`` are those that were run, by name (``"w0"``); without them, no deadlines are known.
    Run times below the ``threshold`` (seconds) count as this in the bounded slowdown.
    """

    whole = 1.0

    def __init__(
        self,
        result: RunResult,
        workloads: Mapping[str, Workload],
        threshold: float = BOUNDED_SLOWDOWN_THRESHOLD,
    ) -> None:
        if not 0 < threshold < math.inf:
            raise InputError(
                f"bounded slowdown threshold is {threshold}; "
                "a number of seconds above 0 is expected"
            )
        self.result = result
        self.workloads = workloads
        self.threshold = threshold
        self.hosts = result.hosts
        ran = result.executed & result.last_runs
        sizes = result.column("requested_number_of_resources")
        if self.requests is not None:
            sizes = self.requests.sizes
        elif result.machine is not None:
            sizes = np.full(len(sizes), np.nan)  # Only the workload tells dominant shares.
        times = (each[ran] for each in _times_of_rows(result, sizes))
        self.waits, self.turnarounds, self.run_times, self.stretches = times

    @cached_property
    def window(self) -> tuple[float, float]:
        return window(self.result)

    @cached_property
    def requests(self) -> RequestsOfRun | None:
        """What the jobs ask of hosts that they share by amounts; None on other hosts."""
        return requests_of_run(self.result, self.workloads)

    @cached_property
    def busy(self) -> StepSeries:
        """Number of busy hosts over time; dominant shares of jobs that share hosts by amounts."""
        return busy_hosts(self.result) if self.requests is None else self.requests.busy

    @cached_property
    def queue(self) -> StepSeries:
        """Number of waiting jobs over time."""
        return queue_length(self.result)

    def busy_seconds(self, begin: float, end: float) -> float:
        return self.busy.integral(begin, end)

    def ended(self, state: str) -> int:
        """Return how many jobs ended in a final state, by their last runs."""
        return int((self.result.ended_as(state) & self.result.last_runs).sum())

    @cached_property
    def asked(self) -> bool:
        """Whether any user set a deadline."""
        return any(map(has_user_deadlines, self.workloads.values()))

    @cached_property
    def outcomes(self) -> JobOutcomes | None:
        """What became of the jobs; None if nobody set a deadline and nothing was promised."""
        decided = self.result.decisions
        promised = bool(self.workloads) and decided is not None and decided.has_promises
        if not (self.asked or promised):
            return None
        return outcomes_with_deadlines(self.result, self.workloads)


def _times_of_rows(result: RunResult, sizes: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return waiting, turnaround and run time (seconds) and slowdown of each row of ``_jobs.csv``;
    the runs of a job that was stopped and continued count together.

    A job that goes on where it was stopped waited only for its first run, and ran as
    long as all its runs together; one that was killed, for its last one, and ran as long as that
    and what was saved of those before it. What it lost is told as work, by its size.
    """
    names = ("waiting_time", "turnaround_time", "execution_time", "stretch")
    waiting, turnaround, run_time, stretch = (result.column(name).copy() for name in names)
    profiles = result.text("profile")
    earlier = result.earlier_runs
    rests = [row for row in earlier.keys() - earlier.values() if is_continuation(profiles[row])]

    decisions = result.decisions if rests else None
    wasted = {} if decisions is None else decisions.by_id("wasted_processor_seconds")

    for row in rests:
        lost = wasted.get(original_id(result.ids[row], wasted) or "")
        was_killed = lost is not None
        runs = [row]
        while runs[-1] in earlier and (was_killed or is_continuation(profiles[runs[-1]])):
            runs.append(earlier[runs[-1]])

        lasted = run_time[runs].sum()
        if lost is not None:
            lasted -= lost / sizes[row]
        else:
            waiting[row] = waiting[runs[-1]]

        run_time[row] = lasted
        stretch[row] = turnaround[row] / lasted if lasted > 0 else np.nan

    return waiting, turnaround, run_time, stretch


class MeasuredJobs(MeasuredRun):
    """A run as the outcomes of its jobs, of type ``delay`` where their work counts; shares in %.

    ``references`` are the jobs of a reference run and ``slowdowns`` its slowdowns, as for
    :func:`~qops_batsim.measures.metrics.charge_totals.charge_jobs`; only with them are there
    charges.
    """

    whole = 100.0
    threshold = BOUNDED_SLOWDOWN_THRESHOLD

    def __init__(
        self,
        outcomes: JobOutcomes,
        hosts: int,
        references: References | None = None,
        slowdowns: SlowdownTable | None = None,
    ) -> None:
        if hosts < 1:
            raise InputError(f"number of hosts is {hosts}; at least 1 is expected")
        self.outcomes = outcomes
        self.hosts = hosts
        self.references = references
        self.slowdowns = slowdowns
        self.ran: Booleans = ~outcomes.refused
        self.waits = outcomes.wait[self.ran]
        self.turnarounds = (outcomes.finish - outcomes.submission)[self.ran]
        self.run_times = outcomes.lasted[self.ran]
        self.others: Booleans = ~outcomes.of_user[self.ran]
        """Which of the jobs that ran had no deadline of their user."""

    @cached_property
    def window(self) -> tuple[float, float]:
        begin = float(self.outcomes.submission.min())
        return begin, float(self.outcomes.finish[self.ran].max(initial=begin))

    def busy_seconds(self, begin: float, end: float) -> float:
        start, finish, processors = self.outcomes.spans.T
        inside = np.minimum(finish, end) - np.maximum(start, begin)
        return float((processors * np.maximum(inside, 0.0)).sum())

    @cached_property
    def work(self) -> Floats:
        """Work of each job, refused ones included (processor-seconds)."""
        return self.outcomes.processors * self.outcomes.run_time

    @cached_property
    def fates(self) -> Fates:
        """What became of the deadlines that users set."""
        return fates(self.outcomes)

    @cached_property
    def promises(self) -> tuple[Booleans, Booleans]:
        """Which jobs were promised anything, and which promises were broken."""
        return promises(self.outcomes)

    @cached_property
    def lateness(self) -> tuple[Floats, Floats]:
        """By how much the late ones among the promises were late: seconds, and in % of the time
        from submission to promise.

        Of what is promised at once every lateness is without measure.
        """
        jobs = self.outcomes
        if self.fates.promised.any():
            actual = jobs.finish
            promised = jobs.promised
            late = self.fates.promised & jobs.work_done & jobs.is_late(actual, promised, 0.0)
        else:
            actual = jobs.start
            promised = np.broadcast_to(jobs.latest_start, actual.shape)
            late = jobs.is_late(actual, promised, 0.0)

        seconds = (actual - promised)[late]
        granted = (promised - jobs.submission)[late]
        return seconds, 100.0 * seconds[granted > 0] / granted[granted > 0]

    @cached_property
    def charges(self) -> Floats | None:
        """Each job's QoS charge: what its kept promise brings, or what its broken promise would
        have brought; None if nothing was promised.
        """
        if not self.fates.promised.any():
            return None

        jobs = self.outcomes
        unserved = np.where(jobs.work_done, jobs.charged_time, np.nan)
        assert self.references is not None
        assert self.slowdowns is not None
        charged = charge_jobs(replace(jobs, charged_time=unserved), self.references, self.slowdowns)

        return np.array(
            [
                each.penalty if each.penalty is not None else each.charge.qos if each.charge else 0
                for each in charged
            ],
            np.float64,
        )

    @cached_property
    def asked_charge(self) -> float:
        """Sum of the QoS charges that all requested deadlines would bring if they were met."""
        assert self.references is not None
        assert self.slowdowns is not None
        jobs = self.outcomes
        run_time = np.array([self.references[job_id].run_time for job_id in jobs.ids])
        ideal = replace(
            jobs,
            refused=np.zeros(len(run_time), np.bool_),
            promised=np.where(jobs.of_user, jobs.deadline, np.nan),
            finish=jobs.submission,
            charged_time=run_time,
            at_walltime=False,
        )
        charged = charge_jobs(ideal, self.references, self.slowdowns)
        return sum(each.charge.qos for each in charged if each.charge is not None)

    def charge_share(self, values: Floats, which: Booleans) -> float | None:
        """Return the sum of ``values`` (charges) of some jobs, in % of what was asked for."""
        return self.share(values[which].sum(), self.asked_charge)

    @cached_property
    def risks(self) -> Floats:
        """Risk (0 to 1) of each promise, as known when its job was submitted."""
        assert self.slowdowns is not None
        jobs = self.outcomes
        sizes = zip(jobs.estimates.tolist(), jobs.processors.tolist(), strict=True)
        classes = [self.slowdowns.categories.label(*size) for size in sizes]
        return expected_risks(jobs, self.fates.promised, self.fates.broken, classes)


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

        # What has come out since the job before.
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
