"""The simulations of Talby and Feitelson (1999): a year of the KTH log, month by month.

Each month is simulated by itself from an empty machine. All cases simulate the same
months, so differences between cases are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from qops_batsim.experiments.intervals import Interval, paired_difference
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.papers.report import PaperRequest
from qops_batsim.papers.talby1999.cases import Case, MonthsBy
from qops_batsim.papers.talby1999.choices import PROCESSORS
from qops_batsim.papers.talby1999.numbers import MONTHS
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.conversion import Repairs, convert_log
from qops_batsim.workload.log import Records
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import SwfLog

PREFERRED = 5
"""Every so many-th job is preferred in the experiments with unequal priorities."""

Group = Literal["all", "preferred", "others"]
GROUPS: tuple[Group, ...] = ("all", "preferred", "others")


class Month(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of one month (``YYYY-MM``): numbers of jobs, and sums of waits (seconds).

    ``late_starts`` are jobs that started after the latest start promised to them: must be 0.
    """

    month: str
    jobs: int
    wait: float
    preferred_jobs: int
    preferred_wait: float
    late_starts: int

    def of(self, group: Group) -> tuple[float, int]:
        """Return the sum of the waits (seconds) and the number of a group's jobs."""
        if group == "all":
            return self.wait, self.jobs
        if group == "preferred":
            return self.preferred_wait, self.preferred_jobs
        return self.wait - self.preferred_wait, self.jobs - self.preferred_jobs

    def average(self, group: Group = "all") -> float | None:
        """Return the average wait of a group (seconds); None if it is empty."""
        wait, jobs = self.of(group)
        return wait / jobs if jobs else None


class Year(msgspec.Struct, frozen=True, kw_only=True):
    """The months of a case; averages weigh them by their jobs, as the paper does."""

    months: tuple[Month, ...]

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return sum(month.jobs for month in self.months)

    @property
    def late_starts(self) -> int:
        """Jobs that started after their latest start."""
        return sum(month.late_starts for month in self.months)

    def average(self, group: Group = "all") -> float:
        """Return the average wait of a group (seconds)."""
        each = [month.of(group) for month in self.months]
        return sum(wait for wait, _ in each) / sum(jobs for _, jobs in each)

    @property
    def gap(self) -> float:
        """By how much preferred jobs wait less than the others (seconds)."""
        return self.average("others") - self.average("preferred")

    def monthly(self) -> list[float]:
        """Return the average wait of each month (seconds)."""
        return [month.wait / month.jobs for month in self.months]

    def shares(self, group: Group = "all") -> list[float]:
        """Return one number a month whose mean is the yearly average (seconds)."""
        each = [month.of(group) for month in self.months]
        jobs = sum(count for _, count in each)
        return [len(each) * wait / jobs for wait, _ in each]


Years = Mapping[Case, Year]


def improvement(year: Year, baseline: Year) -> float:
    """Return by how many percent the yearly average wait is below the baseline's."""
    return 100.0 * (1.0 - year.average() / baseline.average())


def improvement_interval(year: Year, baseline: Year) -> Interval:
    """Return the improvement (%) with its 95 % interval over months."""
    found = paired_difference(baseline.shares(), year.shares())
    return found.scaled(100.0 / baseline.average())


def months_of(log: SwfLog, by: MonthsBy) -> list[tuple[str, Records]]:
    """Return the paper's months with their records, as far as the log has any.

    The log has the site's time zone in its header. The date that counts is a job's submission,
    start or end; accounting files, which get a record when a job ends, have months by end.
    ``"whole"``: submission and end are in the month; other jobs are left out.
    """
    calendar = log.calendar()
    submitted = log.records["submit_time"].astype(np.float64)
    started = submitted + np.maximum(log.records["wait_time"], 0)
    ended = started + np.maximum(log.records["run_time"], 0)
    by_one = {"end": ended, "start": started, "submission": submitted}
    dates = (submitted, ended) if by == "whole" else (by_one[by],)
    found = []
    for month in MONTHS:
        begin, end = calendar.month(month)
        chosen = np.ones(len(log), dtype=np.bool_)
        for date in dates:
            chosen &= (date >= begin) & (date < end)
        if chosen.any():
            found.append((month, log.records[chosen]))
    return found


def month_workload(log: SwfLog, records: Records, preferred: float, others: float) -> Workload:
    """Return a month's jobs, submitted from 0 on, with their priorities.

    Run times of 0, which round half a second, become 1 s, so that no job is lost.
    """
    part = replace(log, records=records, lines=np.empty(0, np.int64))
    workload = convert_log(
        part, processors=PROCESSORS, repairs=Repairs(no_run_time="clip"), rebase=True
    ).workload
    if preferred or others:
        jobs = []
        for place, job in enumerate(workload.jobs):
            priority = preferred if is_preferred(place) else others
            qos = QosRequest(user_priority=priority, political_priority=priority)
            date, size = job.submission_time, job.processors
            jobs.append(Job(job.id, date, size, job.profile, job.walltime, qos))
        workload.jobs = jobs
    return workload


def is_preferred(place: int) -> bool:
    """Whether the job at this place of a month, from 0, is one of every fifth."""
    return place % PREFERRED == PREFERRED - 1


def run_month(case: Case, place: int, month: str, workload: Workload) -> Month:
    """Simulate a month, which is number ``place`` from 0 (for ``case.average_waits``)."""
    module = case.module(place)
    simulation = simulate(workload, make_cluster(PROCESSORS), module)
    preferred = {job.id for index, job in enumerate(workload.jobs) if is_preferred(index)}
    wait = preferred_wait = 0.0
    late = 0
    for record in simulation.ended:
        own = record.start - record.submission_time
        wait += own
        if record.local_id in preferred:
            preferred_wait += own
        latest = module.qos_log.record(record.job.id).latest_start
        late += latest is not None and record.start > latest + PLAN_TOLERANCE
    return Month(
        month=month,
        jobs=len(simulation.ended),
        wait=wait,
        preferred_jobs=len(preferred),
        preferred_wait=preferred_wait,
        late_starts=late,
    )


class _Log:
    """Simulates the year of a case; remembers the months that it has cut."""

    def __init__(self, log: SwfLog) -> None:
        self._log = log
        self._months: dict[MonthsBy, list[tuple[str, Records]]] = {}

    def __call__(self, case: Case) -> Year:
        if case.months_by not in self._months:
            self._months[case.months_by] = months_of(self._log, case.months_by)
        priorities = case.preferred_priority, case.others_priority
        return Year(
            months=tuple(
                run_month(case, place, month, month_workload(self._log, records, *priorities))
                for place, (month, records) in enumerate(self._months[case.months_by])
            )
        )


def run_years(
    log: SwfLog,
    cases: Sequence[Case],
    request: PaperRequest,
    *,
    before: int = 0,
    total: int | None = None,
) -> dict[Case, Year]:
    """Run cases; ``before`` and ``total`` as of :meth:`~.report.PaperRequest.run`."""
    for name in dict.fromkeys(case.scheduler for case in cases):
        # Also for the workers: they find the compiled kernels in the cache.
        make_scheduler(name).prepare()
    made_of = [log.sha256, len(log)]
    return request.run(_Log(log), cases, Year, made_of, before=before, total=total)
