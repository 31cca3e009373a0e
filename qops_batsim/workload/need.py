"""Deadlines by need: from what users want, without any schedule.

Each job whose user sets a deadline has one of three needs, in which its *time* is what its user
believes that it runs, the estimate (or the run time, where asked for):

- ``factor``: time × (1 + a lognormal number), whose median and spread depend on the time: who runs
  a minute waits for some, who runs a day does not wait for a week.
- ``hours``: the first of some times of day on a working day when the job can have ended: "at noon",
  "tomorrow 9:00", "Monday morning", in the calendar and time zone of the workload. Such times are
  the axis of the utility function in C. B. Lee, "Is 99% utilization of a supercomputer a good
  thing? Scheduling in context: user utility functions", a talk at UCSD, 2006 (8 and 9 am, noon to
  1 pm, 5 pm).
- ``slack``: the time and a fixed slack, for users who wait for their job. It is the 20 minutes of
  thinking that traditionally end a session (N. Zakay and D. G. Feitelson, "On identifying user
  session boundaries in parallel workload logs", JSSPP 2012).

The shares of the needs, the medians, the spreads and the times of day are ours: we know of no
survey of deadlines.
What a job draws depends on the seed and its id only.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import datetime, time, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from qops_batsim import parameters
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError, require, require_one_of
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.workload.deadlines import (
    AT_LEAST,
    DAY,
    artificial_times,
    check_others,
    least_times,
    recorded,
    users_with_deadline,
)
from qops_batsim.workload.delay_jobs import derived, with_deadline
from qops_batsim.workload.workload_model import Workload, plain_number

ARTIFICIAL_BY_NEED = ("run-time", "none")
"""Deadlines of jobs whose users set none that need no schedule."""

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_TIME_OF_DAY = re.compile(r"\d?\d:\d\d(:\d\d)?", re.ASCII)

_ABOVE_0 = f"a number above 0 and up to {MAX_SECONDS:g} is accepted"


class NeedMix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of users' deadlines made in each of three ways, which add up to 1: a multiple of the
    job's time (``factor``), working hours (``hours``), a fixed slack (``slack``).
    """

    factor: float = 0.0
    hours: float = 0.0
    slack: float = 0.0

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` unless the shares are valid."""
        for kind, share in msgspec.structs.asdict(self).items():
            require(0 <= share <= 1, f"mix: {kind}", share, "a number from 0 to 1 is accepted")
        total = self.factor + self.hours + self.slack
        if not math.isclose(total, 1):
            raise InputError(
                f"mix: factor {self.factor:g}, hours {self.hours:g} and slack {self.slack:g} add "
                f"up to {total:g}; shares that add up to 1 are expected"
            )


class FactorClass(NamedTuple):
    """A class of jobs by length, and the lognormal distribution of how long their users would wait,
    as a multiple of the job's time.

    It holds the jobs of at most ``up_to`` seconds that no earlier class holds; None: all others.
    The factor multiplies a job's own time. It has this ``median``; ``spread`` is the standard
    deviation of its logarithm.
    """

    up_to: float | None
    median: float
    spread: float


class NeedChoices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options for giving jobs deadlines without a reference schedule: by factors, working hours or
    a fixed slack.
    """

    mix: NeedMix = NeedMix(factor=0.5, hours=0.3, slack=0.2)
    factors: tuple[FactorClass, ...] = (
        FactorClass(600.0, 5.0, 1.0),
        FactorClass(3600.0, 3.0, 1.0),
        FactorClass(28_800.0, 1.5, 1.0),
        FactorClass(None, 0.75, 1.0),
    )
    """Classes of jobs by ascending times, the last for all others."""
    at: tuple[time, ...] = (time(9), time(13), time(17))
    """Times of day when results are looked for."""
    days: tuple[str, ...] = WEEKDAYS[:5]
    """Working days, of :data:`WEEKDAYS`."""
    slack: float = 1200.0
    """Fixed slack (seconds)."""
    share: float = parameters.SHARE.default
    """Share of the jobs, 0 to 1, whose users set a deadline."""
    artificial: str = parameters.ARTIFICIAL.default
    """Deadline of the other jobs: ``"run-time"`` or ``"none"``."""
    relaxation: float = parameters.RELAXATION.default
    """R of the artificial deadlines, from 1 up."""
    seed: int = 1
    """Chooses whose users set a deadline, by which need, and draws the factors."""
    calendar: Calendar | None = None
    """The dates of the seconds of a workload that does not tell them, and then does."""

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        self.mix.check()
        _check_factors(self.factors)
        fits = bool(self.at) and not any(moment.tzinfo for moment in self.at)
        accepted = 'one or more times of day as "09:00", without UTC offset, are expected'
        require(fits, "at", [moment.isoformat() for moment in self.at], accepted)
        require(bool(self.days), "days", self.days, "one or more as mon are expected")
        for day in self.days:
            require_one_of("days", day, WEEKDAYS)
        require(0 < self.slack <= MAX_SECONDS, "slack", self.slack, _ABOVE_0)
        check_others(self.share, self.artificial, ARTIFICIAL_BY_NEED, self.relaxation, self.seed)
        if self.calendar is not None:
            self.calendar.check("time zone")


def with_times(need: Any) -> Any:
    """Return the table of a need from a file with its times of day read, as far as they are any."""
    if not isinstance(need, dict) or not isinstance(need.get("at"), list):
        return need
    times = [*need["at"]]
    for place, given in enumerate(times):
        with suppress(ValueError):
            times[place] = time_of_day(given) if isinstance(given, str) else given
    return {**need, "at": times}


def time_of_day(text: str) -> time:
    """Return the time of day that ``9:00`` or ``09:00`` tells; ValueError for other texts."""
    if not _TIME_OF_DAY.fullmatch(text):
        raise ValueError(text)
    return time.fromisoformat(text.zfill(5) if len(text) < 6 else text.zfill(8))


def _check_factors(factors: tuple[FactorClass, ...]) -> None:
    """Raise an InputError unless the classes of jobs ascend by length and the last takes all
    others.
    """
    borders = [math.inf if each.up_to is None else each.up_to for each in factors]
    if borders != sorted(set(borders)) or borders[-1:] != [math.inf] or not borders[0] > 0:
        listed = ", ".join("all others" if each == math.inf else f"{each:g} s" for each in borders)
        raise InputError(
            f"factors: the classes are for jobs up to {listed or 'none'}; ascending times above 0, "
            "and a last class for all other jobs, are expected"
        )
    for each in factors:
        require(0 < each.median <= MAX_SECONDS, "factors: median", each.median, _ABOVE_0)
        accepted = "a number from 0 to 10 is accepted"
        require(0 <= each.spread <= 10, "factors: spread", each.spread, accepted)


def assign_deadlines_by_need(
    workload: Workload, choices: NeedChoices | None = None, *, at_least: str = "estimate"
) -> Workload:
    """Give the jobs of a workload deadlines made without a schedule, by factors, working hours or a
    fixed slack; any that they had are replaced.

    Jobs are of type ``delay``. No deadline is earlier than submission + time, which is the run time
    or, with ``at_least="estimate"``, the estimate if that is longer; slacks of a factor are whole
    seconds, and not none. Set in ``qos``: ``deadline`` (seconds, absolute) and
    ``has_user_deadline``. With one seed the same users set a deadline as in
    :func:`~qops_batsim.workload.deadlines.assign_deadlines`, and the shares of the needs are exact
    but for rounding. O(jobs × log(jobs)).

    Examples
    --------
    >>> from qops_batsim.workload.batsim_json import read_workload
    >>> choices = NeedChoices(mix=NeedMix(slack=1), slack=600)
    >>> found = assign_deadlines_by_need(read_workload("tiny_8"), choices)
    >>> [(job.submission_time, job.estimate, job.qos.deadline) for job in found.jobs][:2]
    [(0.0, 90.0, 690.0), (0.0, 150.0, 750.0)]
    """
    choices = choices or NeedChoices()
    choices.check()
    require_one_of("at least", at_least, AT_LEAST)
    calendar = workload.calendar or choices.calendar
    if choices.mix.hours and calendar is None:
        raise InputError(
            f"{workload.source}: does not tell the date of its second 0, which deadlines by "
            "working hours need; give the date (--begins), a workload with a calendar (workload "
            "import writes it), or a mix without hours"
        )

    needs = _needs(users_with_deadline(workload, choices.share, choices.seed), choices)
    needed = least_times(workload, at_least)
    of_others = artificial_times(choices.artificial, choices.relaxation, needed)
    jobs = []
    for job, run_time, other in zip(
        workload.jobs, needed.tolist(), of_others.tolist(), strict=True
    ):
        need = needs.get(job.id)
        due = job.submission_time + other
        if need is not None:
            due = _deadline_by_need(need, choices, calendar, job.id, job.submission_time, run_time)
        deadline = plain_number(due) if due < math.inf else None
        jobs.append(with_deadline(job, deadline, need is not None, workload=workload))
    step = {"step": "deadlines", "by": "need", **_recorded(choices)}
    made = derived(workload, jobs, None, {**step, "at_least": at_least})
    made.calendar = calendar
    return made


def _deadline_by_need(
    need: str,
    choices: NeedChoices,
    calendar: Calendar | None,
    job_id: str,
    date: float,
    seconds: float,
) -> float:
    """Return the deadline of a job submitted at ``date`` that takes ``seconds``, made in the way of
    ``need``: ``factor``, ``hours`` or ``slack``.
    """
    if need == "factor":
        return date + seconds + math.ceil(_factor(choices, seconds, job_id) * seconds)
    if need == "slack" or calendar is None:
        return date + seconds + choices.slack
    return next_working_time(date + seconds, calendar, choices)


def needed_by(
    choices: NeedChoices, calendar: Calendar | None, job_id: str, date: float, seconds: float
) -> float | None:
    """Return the deadline (seconds) that :func:`assign_deadlines_by_need` would draw for a single
    job, submitted at ``date``, that takes ``seconds``.

    None if its user sets no deadline. Seed and id decide, as where all jobs are known, but for
    shares, which are exact only there.
    """
    if _uniform(choices.seed, "deadline", job_id) >= choices.share:
        return None
    drawn = _uniform(choices.seed, "need", job_id)
    mix = choices.mix
    need = "slack" if drawn >= mix.factor + mix.hours else "hours"
    need = "factor" if drawn < mix.factor else need
    return _deadline_by_need(need, choices, calendar, job_id, date, seconds)


def _recorded(choices: NeedChoices) -> dict[str, object]:
    """Return the options that matter for the provenance, without the workload's calendar."""
    step = recorded(choices)
    of_use = {"factor": ("factors",), "hours": ("at", "days"), "slack": ("slack",)}
    of_none = {name for kind in of_use if not step["mix"][kind] for name in of_use[kind]}
    return {name: step[name] for name in step if name not in {"calendar", *of_none}}


def _needs(by_users: frozenset[str], choices: NeedChoices) -> dict[str, str]:
    """Draw how each user's deadline is made (factor, hours, slack), by job id, in exact shares."""
    ordered = sorted(by_users, key=lambda job_id: (_uniform(choices.seed, "need", job_id), job_id))
    to_hours = round(choices.mix.factor * len(ordered))
    to_slack = round((choices.mix.factor + choices.mix.hours) * len(ordered))
    return {
        job_id: "factor" if place < to_hours else "hours" if place < to_slack else "slack"
        for place, job_id in enumerate(ordered)
    }


def _factor(choices: NeedChoices, seconds: float, job_id: str) -> float:
    """Draw how long a job that takes ``seconds`` may wait, as a multiple of that time."""
    from statistics import NormalDist  # which takes a while to import

    kinds = (kind for kind in choices.factors if kind.up_to is None or seconds <= kind.up_to)
    of_job = next(kinds)
    normal = NormalDist().inv_cdf(_uniform(choices.seed, "factor", job_id))
    return of_job.median * math.exp(of_job.spread * normal)


def _uniform(seed: int, what: str, job_id: str) -> float:
    """Return a job's random number above 0 and below 1, made from the seed, its purpose (``what``)
    and the job's id.
    """
    drawn = blake2b(f"{seed} {what} {job_id}".encode(), digest_size=8).digest()
    return ((int.from_bytes(drawn, "big") >> 12) + 0.5) / 2**52


def next_working_time(seconds: float, calendar: Calendar, choices: NeedChoices) -> float:
    """Return the first date (seconds) at or after ``seconds`` that is one of the chosen times of
    day on a working day.
    """
    calendar.date(seconds + 9 * DAY)  # Which says so where dates end.
    begin = calendar.date(seconds).date()
    dates = (
        calendar.seconds(datetime.combine(date, moment))
        for date in (begin + timedelta(days) for days in range(9))
        if WEEKDAYS[date.weekday()] in choices.days
        for moment in choices.at
    )
    return min(second for second in dates if second >= seconds)
