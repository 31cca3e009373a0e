"""Deadlines from the response times of a reference schedule.

M. Islam, P. Balaji, P. Sadayappan and D. K. Panda, "QoPS: A QoS based scheme for parallel job
scheduling", 2003, section 4: logs tell nothing about deadlines, so each job must end somewhat
earlier than it would under EASY backfilling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from qops_batsim import parameters
from qops_batsim.errors import InputError, require, require_one_of, shown
from qops_batsim.jobs import Job
from qops_batsim.tables import Floats
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.delay_jobs import (
    changed_job,
    derived,
    jobs_until_killed,
    plain_values,
    run_times_until_killed,
    with_deadline,
)
from qops_batsim.workload.workload_model import Workload, check_seed, check_share, plain_number

ARTIFICIAL = ("run-time", "turnaround", "none")

AT_LEAST = ("run-time", "estimate")
"""Least times from submission to a user's deadline."""

DAY = 86400
"""Least time until an artificial deadline (seconds)."""


class DeadlineChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Options for giving jobs deadlines from the response times of a reference schedule."""

    stringency: float = parameters.STRINGENCY.default
    """S, from 0 (the job may end when it does in the reference schedule) to below 1."""
    share: float = parameters.SHARE.default
    """Share of the jobs, 0 to 1, whose users set a deadline."""
    artificial: str = parameters.ARTIFICIAL.default
    """Deadline of the other jobs, against starvation: ``"run-time"`` is max(24 h, R x run time)
    after the submission (the paper's text), ``"turnaround"`` max(24 h, R x response time in the
    reference schedule) (its slides), ``"none"`` is none.
    """
    relaxation: float = parameters.RELAXATION.default
    """R, from 1 up."""
    seed: int = 1
    """Chooses whose users set a deadline."""

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        accepted = "a number from 0 to below 1 is accepted"
        require(0 <= self.stringency < 1, "stringency", self.stringency, accepted)
        check_others(self.share, self.artificial, ARTIFICIAL, self.relaxation, self.seed)


def check_others(
    share: float, artificial: str, known: tuple[str, ...], relaxation: float, seed: int
) -> None:
    """Raise an InputError if a share, a relaxation, a seed or a kind of artificial deadline is out
    of range; ``known`` are the accepted kinds.
    """
    check_share(share)
    require_one_of("artificial", artificial, known)
    fits = 1 <= relaxation < math.inf
    require(fits, "relaxation", relaxation, "a number from 1 up is accepted")
    check_seed(seed)


class DeadlineCounts(msgspec.Struct, frozen=True):
    """Numbers of jobs with a user's deadline, an artificial one, or none.

    ``without_laxity``: jobs with a user's deadline that must start at once to meet it.
    """

    user: int
    artificial: int
    none: int
    without_laxity: int


def assign_deadlines(
    workload: Workload,
    response_times: Mapping[str, float],
    choices: DeadlineChoices | None = None,
    *,
    at_least: str = "run-time",
) -> Workload:
    """Give the jobs of a workload deadlines made from their ``response_times`` (seconds, by job id)
    in a reference schedule; any that they had are replaced.

    A user's deadline is submission + max(run time, (1 - S) × response time); ``response_times``
    are completion - submission in the reference schedule (seconds) by job id. Set in ``qos``:
    ``deadline`` (seconds, absolute) and ``has_user_deadline``. With one seed the shares nest, and
    a job keeps its place in that order in any workload, so a load scaled by duplication hardly
    changes who is chosen. Jobs are of type ``delay``, and estimates should be exact; where they are
    not, ``at_least="estimate"`` takes them in place of run times.
    """
    choices = choices or DeadlineChoices()
    choices.check()
    require_one_of("at least", at_least, AT_LEAST)

    columns = workload.columns
    needed = least_times(workload, at_least)
    responses = np.array([response_times.get(job_id, math.nan) for job_id in columns.ids])
    if np.isnan(responses).any():
        job_id = columns.ids[int(np.isnan(responses).argmax())]
        raise InputError(
            f"{workload.source}: job {shown(job_id)} has no response time in the reference "
            "schedule; a response time of each job is expected"
        )

    by_users = users_with_deadline(workload, choices.share, choices.seed)
    of_user = np.array([job_id in by_users for job_id in columns.ids])
    of_users = np.maximum(needed, (1 - choices.stringency) * responses)
    base = responses if choices.artificial == "turnaround" else needed
    of_others = artificial_times(choices.artificial, choices.relaxation, base)
    dates = (columns.submission_times + np.where(of_user, of_users, of_others)).tolist()
    jobs = []
    for job, date, is_of_user in zip(workload.jobs, dates, of_user.tolist(), strict=True):
        deadline = plain_number(date) if date < math.inf else None
        jobs.append(with_deadline(job, deadline, is_of_user, workload=workload))
    at = {} if at_least == "run-time" else {"at_least": at_least}
    return derived(workload, jobs, None, {"step": "deadlines", **recorded(choices), **at})


def least_times(workload: Workload, at_least: str) -> Floats:
    """Return the time (seconds) that each job needs at least until its deadline: its run time, or
    by ``at_least="estimate"`` its estimate, where that is longer.
    """
    times = np.array(run_times_until_killed(workload))
    estimates = workload.columns.estimates
    longer = (estimates > times) & (estimates < math.inf) & (at_least == "estimate")
    return np.where(longer, estimates, times)


def without_deadlines(workload: Workload) -> Workload:
    """Return the workload without any deadline."""
    none = {"deadline": None, "has_user_deadline": None}
    jobs = [
        job if job.qos is None else changed_job(job, {}, none, workload=workload)
        for job in workload.jobs
    ]
    return derived(workload, jobs, None, {"step": "without deadlines"})


def users_with_deadline(workload: Workload, share: float, seed: int) -> frozenset[str]:
    """Draw the share of jobs whose users set a deadline; return their ids.

    Each job has a random number of its own, made from seed and id; the least are taken.
    """

    def drawn(job: Job) -> tuple[bytes, str]:
        return blake2b(f"{seed} {job.id}".encode(), digest_size=8).digest(), job.id

    ordered = sorted(map(drawn, workload.jobs))
    return frozenset(job_id for _, job_id in ordered[: round(share * len(ordered))])


def count_deadlines(workload: Workload) -> DeadlineCounts:
    """Return how many jobs have a user's, an artificial, or no deadline."""
    counts: Counter[str] = Counter()
    for job, run_time in jobs_until_killed(workload):
        if job.qos is None or job.qos.deadline is None:
            counts["none"] += 1
        elif job.qos.has_user_deadline is False:
            counts["artificial"] += 1
        else:
            counts["user"] += 1
            counts["tight"] += job.qos.deadline <= job.submission_time + run_time
    return DeadlineCounts(counts["user"], counts["artificial"], counts["none"], counts["tight"])


def early_deadlines_warning(workload: Workload, remedy: str = "") -> str:
    """Return a warning about users' deadlines that cannot be promised, "" if none. O(jobs).

    They are before submission + estimate, for which there may be a ``remedy``, or of jobs without
    any estimate.
    """
    columns = workload.columns
    artificial = [
        request is not None and request.has_user_deadline is False
        for request in columns.requests or ()
    ]
    dates = columns.asked("deadline")
    dates[: len(artificial)][artificial] = math.inf
    soonest = columns.submission_times.clip(0.0) + columns.estimates - PLAN_TOLERANCE
    is_endless = columns.estimates == math.inf
    count = int((dates < math.inf).sum())
    endless = int((dates[is_endless] < math.inf).sum())
    early = int((dates < soonest).sum()) - endless

    said = []
    for number, fault, hint in (
        (
            endless,
            "of jobs without walltime and estimated run time",
            "`workload estimates --model exact`, or f-model, gives jobs estimates",
        ),
        (early, "earlier than submission + estimate", remedy),
    ):
        if number:
            told = f"{number:,} of {count:,} users' deadlines are {fault}"
            said.append(f"{told}, so that they cannot be promised" + (hint and f" ({hint})"))
    return "; ".join(said)


def recorded(choices: Any) -> dict[str, Any]:
    """Return the options that had an effect, for a workload's provenance, as plain JSON values."""
    step: dict[str, Any] = plain_values(msgspec.to_builtins(choices))
    if choices.artificial == "none" or choices.share == 1:
        del step["relaxation"]
    if choices.share == 1:
        del step["artificial"]
    return step


def artificial_times(artificial: str, relaxation: float, base: Floats) -> Floats:
    """Return the seconds from each job's submission to its artificial deadline, infinite if it gets
    none.

    ``base`` is the job's run time or response time (seconds), of which this is a multiple, but at
    least a day.
    """
    if artificial == "none":
        return np.full(len(base), math.inf)
    return np.maximum(DAY, relaxation * base)
