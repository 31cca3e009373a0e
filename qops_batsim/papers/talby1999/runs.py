"""The simulations of Talby and Feitelson (1999): a year of the KTH log, month by month.

Each month is simulated by itself from an empty machine. All cases simulate the same
months, so differences between cases are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cached_property
from multiprocessing import get_context
from typing import Any, Literal

import msgspec
import numpy as np

from qops_batsim.experiments.intervals import Interval, paired_difference
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.papers.talby1999.numbers import AVERAGE_WAIT, MONTHS
from qops_batsim.papers.talby1999.simulator import SlotClock
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import simulate
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.from_swf import Repairs, convert_swf
from qops_batsim.workload.model import Workload
from qops_batsim.workload.swf import Records, SwfLog
from qops_batsim.workload.swf_window import LogCalendar

PROCESSORS = 128
"""The paper's machine; the log's own has 100."""

PREFERRED = 5
"""Every so many-th job is preferred in the experiments with unequal priorities."""

MonthsBy = Literal["whole", "end", "start", "submission"]
Notice = Literal["slots", "at_once"]
Group = Literal["all", "preferred", "others"]


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One set of parameters, for all months.

    Attributes
    ----------
    scheduler
        Registered name.
    options
        Its options as pairs of name and value.
    average_waits
        ``average_wait`` of the scheduler for each month (seconds); empty: the same for all.
    preferred_priority, others_priority
        User and political priority of every fifth job, and of all other jobs.
    months_by
        Which date of a job says to what month it belongs; see :func:`months_of`.
    notice
        When the scheduler gets to know that a job has ended: at the beginning of a slot of
        its plan or at an arrival (:class:`~.talby1999_simulator.SlotClock`), or at once.
    """

    scheduler: Literal["conservative", "slack"]
    options: tuple[tuple[str, Any], ...] = ()
    average_waits: tuple[float, ...] = ()
    preferred_priority: float = 0.0
    others_priority: float = 0.0
    months_by: MonthsBy = "whole"
    notice: Notice = "slots"

    def module(self, place: int) -> DecisionModule:
        """Return the decision module for the month of this number, from 0."""
        options = dict(self.options)
        if self.average_waits:
            options["average_wait"] = self.average_waits[place]
        module = make_scheduler(self.scheduler, options)
        return SlotClock(module) if self.notice == "slots" else module


def conservative(**changes: Any) -> Case:
    """Return the case of conservative backfilling."""
    return Case(scheduler="conservative", options=(("reserve", "processors"),), **changes)


def slack(
    options: Mapping[str, Any] | None = None, average_wait: float = AVERAGE_WAIT, **changes: Any
) -> Case:
    """Return the case of the slack-based scheduler with the paper's parameters, but for these."""
    settings = {
        "average_wait": average_wait,
        "early_gain": "promise",
        "removal": "compression",
        **(options or {}),
    }
    return Case(scheduler="slack", options=tuple(sorted(settings.items())), **changes)


class Month(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of one month.

    Attributes
    ----------
    month
        ``YYYY-MM``.
    jobs, wait
        Number of jobs and the sum of their waits (seconds).
    preferred_jobs, preferred_wait
        The same of every fifth job.
    late_starts
        Jobs that started after the latest start promised to them: must be 0.
    """

    month: str
    jobs: int
    wait: float
    preferred_jobs: int
    preferred_wait: float
    late_starts: int

    @property
    def average(self) -> float:
        """Average wait (seconds)."""
        return self.wait / self.jobs

    @property
    def preferred_average(self) -> float:
        """Average wait of the preferred jobs (seconds)."""
        return self.preferred_wait / self.preferred_jobs

    @property
    def others_average(self) -> float:
        """Average wait of the other jobs (seconds)."""
        return (self.wait - self.preferred_wait) / (self.jobs - self.preferred_jobs)


class Year(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The months of a case; averages weigh them by their jobs, as the paper does."""

    months: tuple[Month, ...]

    @cached_property
    def jobs(self) -> int:
        """Number of jobs."""
        return sum(month.jobs for month in self.months)

    @cached_property
    def average(self) -> float:
        """Average wait (seconds)."""
        return sum(month.wait for month in self.months) / self.jobs

    @cached_property
    def preferred_average(self) -> float:
        """Average wait of the preferred jobs (seconds)."""
        jobs = sum(month.preferred_jobs for month in self.months)
        return sum(month.preferred_wait for month in self.months) / jobs

    @cached_property
    def others_average(self) -> float:
        """Average wait of the other jobs (seconds)."""
        jobs = sum(month.jobs - month.preferred_jobs for month in self.months)
        return sum(month.wait - month.preferred_wait for month in self.months) / jobs

    @property
    def gap(self) -> float:
        """By how much preferred jobs wait less than the others (seconds)."""
        return self.others_average - self.preferred_average

    def monthly(self) -> list[float]:
        """Return the average wait of each month (seconds)."""
        return [month.average for month in self.months]

    def shares(self, what: Group = "all") -> list[float]:
        """Return one number a month whose mean is the yearly average (seconds)."""
        if what == "all":
            each = [(month.wait, month.jobs) for month in self.months]
        elif what == "preferred":
            each = [(month.preferred_wait, month.preferred_jobs) for month in self.months]
        else:
            each = [
                (month.wait - month.preferred_wait, month.jobs - month.preferred_jobs)
                for month in self.months
            ]
        jobs = sum(count for _, count in each)
        return [len(each) * wait / jobs for wait, _ in each]


def improvement(year: Year, baseline: Year) -> float:
    """Return by how many percent the yearly average wait is below the baseline's."""
    return 100.0 * (1.0 - year.average / baseline.average)


def improvement_interval(year: Year, baseline: Year) -> Interval:
    """Return the improvement (%) with its 95 % interval over months."""
    found = paired_difference(baseline.shares(), year.shares())
    scale = 100.0 / baseline.average
    return Interval(
        mean=scale * found.mean,
        low=None if found.low is None else scale * found.low,
        high=None if found.high is None else scale * found.high,
        count=found.count,
    )


def months_of(log: SwfLog, by: MonthsBy) -> list[tuple[str, Records]]:
    """Return the paper's months with their records, as far as the log has any.

    Parameters
    ----------
    log
        The log, with the site's time zone in its header.
    by
        Date of a job that counts: its submission, start or end. Accounting files, which
        get a record when a job ends, have months by end. ``"whole"``: both submission and
        end are in the month; jobs that were submitted in another one are left out.
    """
    calendar = LogCalendar.of(log)
    submitted = log.records["submit_time"].astype(np.float64)
    started = submitted + np.maximum(log.records["wait_time"], 0)
    ended = started + np.maximum(log.records["run_time"], 0)
    dates = {
        "whole": (submitted, ended),
        "end": (ended,),
        "start": (started,),
        "submission": (submitted,),
    }[by]
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
    workload = convert_swf(
        part, processors=PROCESSORS, repairs=Repairs(no_run_time="clip"), rebase=True
    ).workload
    if preferred or others:
        workload.jobs = [
            _with_priority(job, preferred if is_preferred(place) else others)
            for place, job in enumerate(workload.jobs)
        ]
    return workload


def is_preferred(place: int) -> bool:
    """Whether the job at this place of a month, from 0, is one of every fifth."""
    return place % PREFERRED == PREFERRED - 1


def _with_priority(job: Job, priority: float) -> Job:
    qos = QosRequest(user_priority=priority, political_priority=priority)
    return Job(job.id, job.submission_time, job.processors, job.profile, job.walltime, qos)


def run_month(case: Case, place: int, month: str, workload: Workload) -> Month:
    """Simulate a month.

    Parameters
    ----------
    case
        What to simulate.
    place
        Number of the month from 0, for ``case.average_waits``.
    month
        Its name.
    workload
        Its jobs.
    """
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


class _Worker:
    """Runs cases on one log; remembers the months it has cut."""

    def __init__(self, log: SwfLog) -> None:
        self._log = log
        self._months: dict[MonthsBy, list[tuple[str, Records]]] = {}

    def run(self, case: Case) -> Year:
        if case.months_by not in self._months:
            self._months[case.months_by] = months_of(self._log, case.months_by)
        priorities = case.preferred_priority, case.others_priority
        return Year(
            months=tuple(
                run_month(case, place, month, month_workload(self._log, records, *priorities))
                for place, (month, records) in enumerate(self._months[case.months_by])
            )
        )


_worker: _Worker | None = None


def _begin_work(log: SwfLog) -> None:
    global _worker
    _worker = _Worker(log)


def _run_of_worker(case: Case) -> Year:
    assert _worker is not None
    return _worker.run(case)


def run_cases(
    log: SwfLog,
    cases: Sequence[Case],
    *,
    workers: int = 1,
    on_year: Callable[[], None] | None = None,
) -> dict[Case, Year]:
    """Run cases, each once.

    Parameters
    ----------
    log
        The year.
    cases
        What to simulate; repeated ones are simulated once.
    workers
        Processes; the result does not depend on it.
    on_year
        Called after each case.
    """
    wanted = list(dict.fromkeys(cases))
    for name in dict.fromkeys(case.scheduler for case in wanted):
        # Also for the workers: they find the compiled kernels in the cache.
        make_scheduler(name).prepare()
    years = {}
    for case, year in zip(wanted, _run_all(log, wanted, min(workers, len(wanted))), strict=True):
        years[case] = year
        if on_year is not None:
            on_year()
    return years


def _run_all(log: SwfLog, cases: Sequence[Case], workers: int) -> Iterator[Year]:
    if workers <= 1:
        worker = _Worker(log)
        for case in cases:
            yield worker.run(case)
        return
    # Fresh processes behave alike on every system.
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin_work, initargs=(log,)
    ) as pool:
        try:
            yield from pool.map(_run_of_worker, cases)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
