"""Simulations of Talby and Feitelson (1999), and what they say as plain values beside the paper's.

A year of the KTH log is simulated month by month, each by itself from an empty machine. All cases
simulate the same months, so differences between cases are paired.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
import numpy as np

from qops_batsim import Job, QosRequest, Scheduler
from qops_batsim.experiments import Interval, outcomes_of, ratio_of_means
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import SchedulerModule, make_scheduler
from qops_batsim.protocol.decisions import CallMeLater, Decision, ExecuteJob
from qops_batsim.protocol.events import JobCompleted
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload import (
    Records,
    Repairs,
    SwfLog,
    Workload,
    convert_log,
    exact_estimates,
)
from studies.request import StudyRequest
from studies.run_table import RunTable
from studies.shared import relative_difference
from studies.talby1999 import study
from studies.talby1999.study import MONTHS, PROCESSORS, Case, MonthsBy, Reading


class SlotClock(SchedulerModule):
    """A scheduler that is woken only when a job arrives or a time slot of its plan begins.

    The paper's simulator works so, as far as its numbers tell: its conservative column is that of a
    simulator that wakes at arrivals and at the beginnings of the time slots of its plan (``Tick``,
    section 2.1), and notices only then that a job has ended early. See ``README.md``.

    Time slots begin where running jobs are expected to end, and at the dates at which the
    scheduler asks to be called because it has planned a start there. A job that ends
    before that is noticed at the next such date, and its processors are idle until then.
    The scheduler must start each job on hosts of its own. All else is passed on at once.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._jobs: dict[str, Job] = {}
        self._expected_ends: list[tuple[float, str]] = []
        self._calls: list[float] = []
        self._unnoticed: list[JobCompleted] = []
        self._awake = False

    def submitted(self, job: Job) -> None:
        self._awake = True
        self._jobs[job.id] = job
        super().submitted(job)

    def completed(self, event: JobCompleted) -> None:
        """Keep it until the scheduler is woken."""
        self._unnoticed.append(event)

    def killed(self, job_ids: list[str]) -> None:
        self._awake = True
        super().killed(job_ids)

    def call(self) -> None:
        """Pass over a call: the slots know the dates."""

    def decide(self, now: float) -> list[Decision]:
        """Let the scheduler decide if this date wakes it."""
        if not (self._slot_begins(now) or self._awake):
            return []
        self._awake = False
        for event in self._unnoticed:
            self._jobs.pop(event.job_id)
            super().completed(event)
        self._unnoticed.clear()
        decisions = super().decide(now)
        for decision in list(decisions):
            if isinstance(decision, CallMeLater):
                heapq.heappush(self._calls, decision.timestamp)
            elif isinstance(decision, ExecuteJob):
                end = now + self._jobs[decision.job_id].estimate
                heapq.heappush(self._expected_ends, (end, decision.job_id))
                decisions.append(CallMeLater(end))
        return decisions

    def _slot_begins(self, now: float) -> bool:
        """Return whether a call is due, or the end of a job that the scheduler thinks runs."""
        begins = False
        while self._calls and self._calls[0] <= now + PLAN_TOLERANCE:
            heapq.heappop(self._calls)
            super().call()
            begins = True
        while self._expected_ends and self._expected_ends[0][0] <= now + PLAN_TOLERANCE:
            _, job_id = heapq.heappop(self._expected_ends)
            begins = begins or job_id in self._jobs
        return begins


def module_of(case: Case, place: int) -> SchedulerModule:
    """Return the scheduler of a case for the month of this number, from 0, as engines call it."""
    options = dict(case.options)
    if case.average_waits:
        options["average_wait"] = case.average_waits[place]
    module = make_scheduler(case.scheduler, options)
    return SlotClock(module.scheduler) if case.notice == "slots" else module


PREFERRED = 5
"""Every n-th job is preferred in the experiments with unequal priorities."""

JobGroup = Literal["all", "preferred", "others"]
GROUPS: tuple[JobGroup, ...] = ("all", "preferred", "others")


class MonthMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """Measures of one month (``YYYY-MM``): numbers of jobs, and sums of waits (seconds).

    ``late_starts`` are jobs that started after the latest start promised to them: must be 0.
    """

    month: str
    jobs: int
    wait: float
    preferred_jobs: int
    preferred_wait: float
    late_starts: int

    def of(self, group: JobGroup) -> tuple[float, int]:
        """Return the sum of the waits (seconds) and the number of a group's jobs."""
        if group == "all":
            return self.wait, self.jobs
        if group == "preferred":
            return self.preferred_wait, self.preferred_jobs
        return self.wait - self.preferred_wait, self.jobs - self.preferred_jobs

    def average(self, group: JobGroup = "all") -> float | None:
        """Return the average wait of a group (seconds); None if it is empty."""
        wait, jobs = self.of(group)
        return wait / jobs if jobs else None


class YearMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """The months of a case; averages weigh them by their jobs, as the paper does."""

    months: tuple[MonthMeasures, ...]

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return sum(month.jobs for month in self.months)

    @property
    def late_starts(self) -> int:
        """Jobs that started after their latest start."""
        return sum(month.late_starts for month in self.months)

    def average(self, group: JobGroup = "all") -> float:
        """Return the average wait of a group (seconds)."""
        each = [month.of(group) for month in self.months]
        return sum(wait for wait, _ in each) / sum(jobs for _, jobs in each)

    @property
    def gap(self) -> float:
        """Difference of the average waits of other and preferred jobs (seconds)."""
        return self.average("others") - self.average("preferred")

    def monthly(self) -> list[float]:
        """Return the average wait of each month (seconds)."""
        return [month.wait / month.jobs for month in self.months]

    def shares(self, group: JobGroup = "all") -> list[float]:
        """Return one number a month whose mean is the yearly average (seconds)."""
        each = [month.of(group) for month in self.months]
        jobs = sum(count for _, count in each)
        return [len(each) * wait / jobs for wait, _ in each]


Years = Mapping[Case, YearMeasures]


def improvement(year: YearMeasures, baseline: YearMeasures) -> float:
    """Return by how many percent the yearly average wait is below the baseline's."""
    return 100.0 * (1.0 - year.average() / baseline.average())


def improvement_interval(year: YearMeasures, baseline: YearMeasures) -> Interval:
    """Return the improvement (%) with its 95 % interval over months."""
    return relative_interval(
        [b - y for b, y in zip(baseline.shares(), year.shares(), strict=True)], baseline.shares()
    )


def relative_interval(differences: Sequence[float], base: Sequence[float]) -> Interval:
    """Return the mean difference in % of the mean of a base, with its 95 % interval over months."""
    return ratio_of_means(differences, base).mapped(lambda value: 100.0 * value)


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


def month_workload(
    log: SwfLog, records: Records, preferred: float, others: float, exact: bool = False
) -> Workload:
    """Return a month's jobs, submitted from 0 on, with their priorities.

    Run times of 0, which round half a second, become 1 s, so that no job is lost.
    """
    part = replace(log, records=records, lines=np.empty(0, np.int64))
    workload = convert_log(
        part, processors=PROCESSORS, repairs=Repairs(no_run_time="clip"), rebase=True
    ).workload
    if preferred or others:
        with_priorities(workload, preferred, others)
    return exact_estimates(workload) if exact else workload


def with_priorities(workload: Workload, preferred: float, others: float = 0.0) -> Workload:
    """Give every fifth job of a month a priority, and the others another one; return the month."""
    jobs = []
    for place, job in enumerate(workload.jobs):
        priority = preferred if place % PREFERRED == PREFERRED - 1 else others
        qos = QosRequest(user_priority=priority, political_priority=priority)
        date, size = job.submission_time, job.processors
        jobs.append(Job(job.id, date, size, job.profile, job.walltime, qos))
    workload.jobs = jobs
    return workload


def run_month(case: Case, place: int, month: str, workload: Workload) -> MonthMeasures:
    """Simulate a month, which is number ``place`` from 0 (for ``case.average_waits``)."""
    outcomes, _ = outcomes_of(workload, make_cluster(PROCESSORS), module_of(case, place))
    waits, latest = outcomes.start - outcomes.submission, outcomes.latest_start
    preferred = waits[PREFERRED - 1 :: PREFERRED]
    return MonthMeasures(
        month=month,
        jobs=len(waits),
        wait=float(waits.sum()),
        preferred_jobs=len(preferred),
        preferred_wait=float(preferred.sum()),
        late_starts=int((outcomes.start > latest + PLAN_TOLERANCE).sum()),
    )


class _Log:
    """Simulation of a case's year; remembers the months that it has cut."""

    def __init__(self, log: SwfLog) -> None:
        self._log = log
        self._months: dict[MonthsBy, list[tuple[str, Records]]] = {}

    def __call__(self, case: Case) -> YearMeasures:
        if case.months_by not in self._months:
            self._months[case.months_by] = months_of(self._log, case.months_by)
        changes = case.preferred_priority, case.others_priority, case.exact
        return YearMeasures(
            months=tuple(
                run_month(case, place, month, month_workload(self._log, records, *changes))
                for place, (month, records) in enumerate(self._months[case.months_by])
            )
        )


def run_years(
    log: SwfLog, cases: Sequence[Case], request: StudyRequest
) -> RunTable[Case, YearMeasures]:
    """Run cases on the paper's year of a log."""
    made_of = [log.sha256, len(log)]
    return request.run(_Log(log), cases, YearMeasures, made_of)


WAITS = ("equal", "unequal", "high_priority", "low_priority")
"""The average waits of section 5.3: equal priorities, and unequal ones for all and by group."""


def monthly_values(years: Years) -> dict[str, Any]:
    """Return the numbers of the quick part by table."""
    return {
        "equal_priorities": _with_months(years, equal_priorities),
        "conservative_column": conservative_column(years),
        "easy": easy_values(years),
    }


def all_values(years: Years) -> dict[str, Any]:
    """Return all numbers by table; where a reading matters, ``literal`` ones in each row."""
    by_heuristic = {name: heuristics(years, each) for name, each in study.BOTH.items()}
    chosen, literal = (by_parameter(years, each) for each in study.BOTH.values())
    return {
        **monthly_values(years),
        "heuristics": {
            name: {**row, "literal": _own(by_heuristic["literal"][name])}
            for name, row in by_heuristic["chosen"].items()
        },
        "unequal_priorities": _with_months(years, unequal_priorities),
        **{name: _beside_literal(rows, literal[name]) for name, rows in chosen.items()},
        "monthly_average_wait": {
            **monthly_average_wait(years, study.CHOSEN),
            "literal": monthly_average_wait(years, study.LITERAL),
        },
        "readings": readings(years),
    }


def _with_months(years: Years, table: Callable[[Years, Reading], dict[str, Any]]) -> Any:
    """Return the year and its months in the reading chosen, each with that in the literal one."""
    chosen, literal = (table(years, reading) for reading in study.BOTH.values())
    months = _beside_literal(chosen["months"], literal.pop("months"))
    return {**chosen, "literal": _own(literal), "months": months}


def _beside_literal(
    chosen: Sequence[dict[str, Any]], literal: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    rows = zip(chosen, literal, strict=True)
    return [{**row, "literal": _own(other)} for row, other in rows]


def _own(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without the paper's numbers."""
    return {key: value for key, value in row.items() if not key.startswith("paper")}


def equal_priorities(years: Years, reading: Reading) -> dict[str, Any]:
    """Return the monthly table of section 5.2."""
    base, year = years[study.BASELINE], years[reading.equal]
    interval = improvement_interval(year, base)
    rows = []
    for month, before, after in zip(base.months, base.monthly(), year.monthly(), strict=True):
        told = study.MONTHS[month.month]
        rows.append(
            {
                "month": month.month,
                "jobs": month.jobs,
                "conservative": before,
                "slack": after,
                "improvement_percent": fall(before, after),
                "paper_conservative": told.conservative,
                "paper_slack": told.slack,
                "paper_improvement_percent": fall(told.conservative, told.slack),
            }
        )
    before, after, told = base.average(), year.average(), study.YEAR
    return {
        "improvement_percent": improvement(year, base),
        "improvement_interval": [interval.low, interval.high],
        "paper_improvement_percent": study.IMPROVEMENT,
        "jobs": base.jobs,
        "conservative_average": before,
        "slack_average": after,
        "paper_conservative_average": told.conservative,
        "paper_slack_average": told.slack,
        "late_starts": year.late_starts,
        "months": rows,
    }


def easy_values(years: Years) -> list[dict[str, Any]]:
    """Return how the scheduler compares with EASY, in the paper's simulator and in a usual one."""
    rows = []
    for name, easy, base, of in (
        ("the paper's", study.EASY, study.BASELINE, "equal"),
        ("usual", study.PLAIN_EASY, study.PLAIN, "plain"),
    ):
        if easy not in years:  # The quick part has the paper's simulator only.
            continue
        row: dict[str, Any] = {
            "simulator": name,
            "easy": years[easy].average(),
            "conservative": years[base].average(),
            "conservative_improvement_percent": improvement(years[base], years[easy]),
            "paper_improvement_percent": study.NUMBERS["improvement_over_easy"],
        }
        for which, reading in study.BOTH.items():
            year = years[getattr(reading, of)]
            row[which] = {"average": year.average(), **_improvement(year, years[easy])}
        rows.append(row)
    return rows


def conservative_column(years: Years) -> list[dict[str, Any]]:
    """Return how near each way to simulate conservative backfilling comes to the paper."""
    rows = []
    for case in study.CONSERVATIVE:
        year = years[case]
        told = [study.MONTHS[month.month].conservative for month in year.months]
        pairs = [
            (ours, theirs)
            for month, ours, theirs in zip(year.months, year.monthly(), told, strict=True)
            if month.month != study.FIRST_MONTH
        ]
        average, first = year.average(), year.months[0]
        weighted = sum(month.jobs * wait for month, wait in zip(year.months, told, strict=True))
        rows.append(
            {
                "months_by": case.months_by,
                "notice": case.notice,
                "jobs": year.jobs,
                "average": average,
                "difference_percent": relative_difference(average, study.YEAR.conservative),
                "rms_difference_percent": _rms_difference(pairs),
                "correlation": _correlation(pairs),
                "first_month_total_wait": first.wait,
                "first_month_jobs": first.jobs,
                # The paper's months weighed by our jobs: tells whose months are the paper's.
                "paper_average_by_these_jobs": weighted / year.jobs,
            }
        )
    return rows


def heuristics(years: Years, reading: Reading) -> dict[str, Any]:
    """Return section 5.2's improvements and the table of section 5.3, by heuristic."""
    base = years[study.BASELINE]
    best = years[reading.equal].average()
    equals, unequals = reading.heuristics(), reading.heuristics(1.0)
    rows: dict[str, Any] = {}
    for name, told in study.HEURISTICS.items():
        equal, unequal = years[equals[name]], years[unequals[name]]
        averages = _waits(equal, unequal)
        rows[name] = {
            **_improvement(equal, base),
            "paper_improvement_percent": study.HEURISTIC_IMPROVEMENTS[name],
            **averages,
            "performance_loss_percent": relative_difference(unequal.average(), best),
            "gap": unequal.gap,
            "paper": dict(zip(WAITS, told, strict=True)),
        }
    return rows


def unequal_priorities(years: Years, reading: Reading) -> dict[str, Any]:
    """Return the monthly table of section 5.3."""
    equal, year = years[reading.equal], years[reading.unequal]
    rows = [
        {"month": month.month}
        | _beside_paper(_waits(before, month), study.MONTHS[month.month].with_priorities())
        for before, month in zip(equal.months, year.months, strict=True)
    ]
    told = study.YEAR.with_priorities()
    averages = _waits(equal, year)
    return {
        **averages,
        "loss_percent": relative_difference(year.average(), equal.average()),
        **_beside_paper(averages, told),
        "paper_loss_percent": relative_difference(told[1], told[0]),
        "months": rows,
    }


def by_parameter(years: Years, reading: Reading) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of tables in which a parameter varies.

    These are the improvement by slack factor (section 5.2), average waits by the gap between every
    fifth job and the others, and by the weight of all but priority, and the average wait if all
    jobs have the same, higher priority.
    """
    base, told = years[study.BASELINE], study.YEAR
    improvements = {
        3.0: study.IMPROVEMENT,
        9.0: study.NUMBERS["improvement_slack_factor_9"],
        0.0: 0.0,
    }
    unequal = {0.0: told.slack, 2.0: told.unequal}
    return {
        "slack_factors": [
            {
                "slack_factor": factor,
                "average": years[case].average(),
                **_improvement(years[case], base),
                "paper_improvement_percent": improvements.get(factor),
            }
            for factor, case in reading.slack_factors().items()
        ],
        "priority_gap": [
            {"gap": gap, **_groups(years[case]), "paper_unequal": unequal.get(gap)}
            for gap, case in reading.gaps().items()
        ],
        "weights": [
            {"other_weights": weight, **_groups(years[case]), "gap": years[case].gap}
            for weight, case in reading.other_weights().items()
        ],
        "all_priorities": [
            {
                "priority": level,
                "average": years[case].average(),
                "improvement_percent": improvement(years[case], base),
            }
            for level, case in reading.all_priorities().items()
        ],
    }


def monthly_average_case(years: Years, reading: Reading) -> study.Case:
    """Return the case in which each month's average wait is that of its conservative run."""
    return reading.monthly(years[study.BASELINE].monthly())


def monthly_average_wait(years: Years, reading: Reading) -> dict[str, Any]:
    """Return the improvement by an average wait of each month."""
    year, base = years[monthly_average_case(years, reading)], years[study.BASELINE]
    return {
        "average": year.average(),
        **_improvement(year, base),
        "fixed_improvement_percent": improvement(years[reading.equal], base),
    }


def readings(years: Years) -> list[dict[str, Any]]:
    """Return how near each reading of removal comes to the paper."""
    base = years[study.BASELINE]
    rows = []
    for reading in study.READINGS:
        found = {name: years[case] for name, case in reading.compared().items()}
        rows.append(
            {
                "removal": reading.removal,
                "early_gain": reading.early_gain,
                "improvement_percent": improvement(found["slack_factor_3"], base),
                "smallest_month_percent": min(
                    monthly_improvements(base, found["slack_factor_3"]), default=None
                ),
                "slack_factor_0_percent": improvement(found["slack_factor_0"], base),
                "slack_factor_9_percent": improvement(found["slack_factor_9"], base),
                **_groups(found["unequal"]),
                "gap": found["unequal"].gap,
                "plain_improvement_percent": improvement(found["plain"], years[study.PLAIN]),
            }
        )
    return rows


def monthly_improvements(base: YearMeasures, year: YearMeasures) -> list[float]:
    """Return the improvement (%) of each month, September aside."""
    waits = zip(base.months, base.monthly(), year.monthly(), strict=True)
    return [
        fall(before, after) for month, before, after in waits if month.month != study.FIRST_MONTH
    ]


def fall(before: float, after: float) -> float:
    """Return by how many percent a wait has become shorter; 0 if there was none."""
    return 100.0 * (1.0 - after / before) if before else 0.0


def _improvement(year: YearMeasures, base: YearMeasures) -> dict[str, Any]:
    interval = improvement_interval(year, base)
    return {
        "improvement_percent": interval.mean,
        "improvement_interval": [interval.low, interval.high],
    }


def _groups(found: YearMeasures | MonthMeasures) -> dict[str, float | None]:
    """Return the average waits with unequal priorities, of all jobs and by group."""
    return {key: found.average(group) for key, group in zip(WAITS[1:], GROUPS, strict=True)}


def _waits(
    equal: YearMeasures | MonthMeasures, unequal: YearMeasures | MonthMeasures
) -> dict[str, float | None]:
    return {"equal": equal.average(), **_groups(unequal)}


def _beside_paper(averages: Mapping[str, float | None], told: Sequence[float]) -> dict[str, Any]:
    return {
        **averages,
        **{f"paper_{key}": wait for key, wait in zip(WAITS, told, strict=True)},
    }


def _rms_difference(pairs: list[tuple[float, float]]) -> float | None:
    if not pairs:
        return None
    squares = [relative_difference(ours, told) ** 2 for ours, told in pairs]
    return math.sqrt(sum(squares) / len(squares))


def _correlation(pairs: list[tuple[float, float]]) -> float | None:
    if len(pairs) < 3:
        return None
    ours, told = zip(*pairs, strict=True)
    return float(np.corrcoef(ours, told)[0, 1]) if len(set(ours)) > 1 else None
