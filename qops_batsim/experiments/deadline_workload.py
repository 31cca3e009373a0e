"""Deadline workloads from a log: scale the load, run EASY, set deadlines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError, require, require_one_of, shown
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.platform.platform_model import Platform
from qops_batsim.running.reference import easy_response_times
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.deadlines import DeadlineChoices, assign_deadlines, without_deadlines
from qops_batsim.workload.delay_jobs import derived, exact_estimates, run_times_until_killed
from qops_batsim.workload.estimates import EstimateChoices, users_estimates, with_estimates
from qops_batsim.workload.need import NeedChoices, assign_deadlines_by_need
from qops_batsim.workload.scale import origin_of_duplicate, originals, scale_load, subset
from qops_batsim.workload.workload_model import Workload, settled

REFERENCES = ("scaled", "unscaled")


def give_deadlines(
    workload: Workload,
    choices: DeadlineChoices | None = None,
    *,
    reference: str = "scaled",
    keep_estimates: bool = True,
    at_least: str | None = None,
    platform: Platform | None = None,
) -> Workload:
    """Return the workload with deadlines computed from its own schedule under EASY.

    Jobs are of type ``delay``. EASY runs on the workload as it is (reference ``"scaled"``, Islam
    et al. 2003) or without the duplicates of :func:`~qops_batsim.workload.scale.scale_load`
    (``"unscaled"``, 2004), each of which gets the response time of its original, and so its
    deadline relative to the submission. Estimates are those of the log
    (:func:`~qops_batsim.workload.estimates.users_estimates`), or if they are not kept, exact
    (:func:`~qops_batsim.workload.delay_jobs.exact_estimates`). A user's deadline leaves
    ``at_least`` the ``"estimate"``, or the ``"run-time"``, in which nothing can be promised to many
    jobs whose estimate is not exact. By default it leaves the estimate. EASY runs on the
    ``platform``, which jobs that ask for parts of hosts need, or on as many whole hosts as the
    workload has processors.
    """
    choices = choices or DeadlineChoices()
    choices.check()
    measured = measure(
        workload, reference=reference, keep_estimates=keep_estimates, platform=platform
    )
    return measured.give(choices, at_least=at_least)


@dataclass(frozen=True)
class Measured:
    """A workload and its schedule under EASY, from which deadlines are computed."""

    workload: Workload
    prepared: Workload
    response_times: Mapping[str, float]
    reference: str
    keep_estimates: bool

    def give(
        self, choices: DeadlineChoices | NeedChoices, *, at_least: str | None = None
    ) -> Workload:
        """Return the workload with deadlines from EASY's schedule, or from users' needs."""
        if isinstance(choices, NeedChoices):
            about: dict[str, Any] = {"keep_estimates": self.keep_estimates, "at_least": at_least}
            return give_deadlines_by_need(self.workload, choices, **about)
        at_least = at_least or _at_least(self.keep_estimates)
        result = assign_deadlines(self.prepared, self.response_times, choices, at_least=at_least)
        told = {"reference": {"scheduler": "easy", "workload": self.reference}}
        return _in_one_step(self.workload, result, self.keep_estimates, told)


def give_deadlines_by_need(
    workload: Workload,
    choices: NeedChoices | None = None,
    *,
    keep_estimates: bool = True,
    at_least: str | None = None,
) -> Workload:
    """Return the workload with deadlines from users' needs, independent of any schedule.

    Estimates and ``at_least`` are as in :func:`give_deadlines`, the rest as in
    :func:`~qops_batsim.workload.need.assign_deadlines_by_need`.
    """
    prepared = _prepared(workload, keep_estimates)
    at_least = at_least or _at_least(keep_estimates)
    result = assign_deadlines_by_need(prepared, choices, at_least=at_least)
    made = _in_one_step(workload, result, keep_estimates, {})
    made.calendar = result.calendar
    return made


def _prepared(workload: Workload, keep_estimates: bool) -> Workload:
    return settled(users_estimates(workload) if keep_estimates else exact_estimates(workload))


def _at_least(keep_estimates: bool) -> str:
    # Exact estimates are the run times.
    return "estimate" if keep_estimates else "run-time"


def _in_one_step(
    workload: Workload, result: Workload, keep_estimates: bool, told: Mapping[str, Any]
) -> Workload:
    """Return a workload whose provenance records several steps as one step."""
    step = {name: value for name, value in result.provenance.items() if name != "made_from"}
    step |= {**told, "estimates": "kept" if keep_estimates else "exact"}
    return derived(workload, result.jobs, result.profiles, step)


REACTION = 60.0
"""Time that a scheduler may take until it starts a job (seconds); the number is ours."""


class DeadlineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How tight the deadlines of users are, and how many of them EASY meets.

    They are ``made_by`` EASY's schedule (``"easy"``), by ``"need"``, or in a way that is not known
    (empty). Laxity is the time from submission to deadline less the estimate, or without one the
    run time.
    """

    made_by: str
    deadlines: int
    reaction: float
    """Reaction time of a scheduler (seconds)."""
    hurried: int
    """Deadlines with less laxity than that."""
    met: int
    """Deadlines that EASY meets."""
    unwaited: int
    """Jobs with a deadline that EASY starts at once."""

    @property
    def text(self) -> str:
        """Return how tight the deadlines are and how many EASY meets, as a sentence."""

        def told(count: int) -> str:
            return f"{count:,} ({100 * count / max(self.deadlines, 1):.1f} %)"

        by = {"easy": ", by construction", "need": ", none by construction"}.get(self.made_by, "")
        return (
            f"less laxity than {self.reaction:g} s: {told(self.hurried)} of {self.deadlines:,}; "
            f"EASY meets {told(self.met)}{by}, and starts {told(self.unwaited)} at "
            "once"
        )


def deadline_facts(
    workload: Workload,
    response_times: Mapping[str, float] | None = None,
    *,
    reaction: float = REACTION,
    platform: Platform | None = None,
) -> DeadlineFacts:
    """Return how tight the users' deadlines of a workload are, and how many EASY meets; O(jobs).

    Parameters
    ----------
    workload
        Jobs of type ``delay``.
    response_times
        Response times (seconds) of its EASY schedule by job id; None: EASY runs now. A job that
        EASY rejects misses its deadline.
    reaction
        Laxity below which a deadline counts as tight (seconds).
    platform
        Where EASY runs; None: on as many whole hosts as the workload has processors.
    """
    accepted = f"a number from 0 to {MAX_SECONDS:g} is accepted"
    require(0 <= reaction <= MAX_SECONDS, "reaction", reaction, accepted)
    if response_times is None:
        response_times = easy_response_times(workload, of_all=False, platform=platform)
    columns, run_times = workload.columns, np.array(run_times_until_killed(workload))
    given = columns.asked("deadline") - columns.submission_times
    of_users = np.isfinite(given) & [
        each is not None and each.has_user_deadline is not False
        for each in columns.requests or [None] * len(given)
    ]
    planned = np.where(np.isfinite(columns.estimates), columns.estimates, run_times)
    responses = np.array([response_times.get(each, np.inf) for each in columns.ids])
    return DeadlineFacts(
        made_by=next((str(step.get("by", "easy")) for step in _steps(workload, "deadlines")), ""),
        deadlines=int(of_users.sum()),
        reaction=reaction,
        hurried=int((of_users & (given - planned < reaction - PLAN_TOLERANCE)).sum()),
        met=int((of_users & (responses <= given + PLAN_TOLERANCE)).sum()),
        unwaited=int((of_users & (responses <= run_times + PLAN_TOLERANCE)).sum()),
    )


def _steps(workload: Workload, name: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of a name in a workload's provenance, the last one first."""
    step: Any = workload.provenance
    while isinstance(step, dict):
        if step.get("step") == name:
            yield step
        step = step.get("made_from")


def measure(
    workload: Workload,
    *,
    reference: str = "scaled",
    keep_estimates: bool = True,
    platform: Platform | None = None,
) -> Measured:
    """Simulate EASY on a workload; arguments as for :func:`give_deadlines`."""
    require_one_of("reference", reference, REFERENCES)
    workload = settled(workload)
    prepared = _prepared(workload, keep_estimates)
    if reference == "unscaled":
        response_times = _original_response_times(prepared, platform)
    else:
        response_times = easy_response_times(prepared, platform=platform)
    return Measured(workload, prepared, response_times, reference, keep_estimates)


def give_estimates(
    workload: Workload,
    choices: EstimateChoices,
    *,
    requests: Workload | None = None,
    platform: Platform | None = None,
) -> Workload:
    """Return the workload with estimates drawn by a model; deadlines stay as they are.

    ``requests`` is the workload of the same jobs that still has the users' walltimes, if this one
    has not. Where a model asks when a job's run time is known, that is its end under EASY with
    these, on the ``platform`` or as many whole hosts as the workload has processors.
    """
    ends = easy_ends(requests or workload, platform) if choices.needs_ends else None
    return with_estimates(workload, choices, requests=requests, ends=ends)


def easy_ends(workload: Workload, platform: Platform | None = None) -> dict[str, float]:
    """Return the date (seconds) when each job ends under EASY backfilling, by id."""
    known = easy_response_times(workload, platform=platform)
    return {job.id: max(job.submission_time, 0.0) + known[job.id] for job in workload.jobs}


def deadline_workload(
    trace: Workload,
    choices: DeadlineChoices | None = None,
    *,
    load: float = 1.0,
    method: str = "duplication",
    same_time: bool = False,
    skip: int = 0,
    first: int | None = None,
    reference: str = "scaled",
    keep_estimates: bool = True,
) -> Workload:
    """Make the workload of an experiment from a log: take a window, scale the load, set deadlines.

    Deadlines that the trace has are left out. The seed of ``choices`` also chooses the
    duplicates. For the other parameters see :func:`~qops_batsim.workload.scale.subset`,
    :func:`~qops_batsim.workload.scale.scale_load` and :func:`give_deadlines`.
    """
    choices = choices or DeadlineChoices()
    choices.check()
    scaled = scaled_workload(
        trace, load, method=method, same_time=same_time, skip=skip, first=first, seed=choices.seed
    )
    return give_deadlines(scaled, choices, reference=reference, keep_estimates=keep_estimates)


def scaled_workload(
    trace: Workload,
    load: float,
    *,
    method: str = "duplication",
    same_time: bool = False,
    skip: int = 0,
    first: int | None = None,
    seed: int = 1,
) -> Workload:
    """Make a workload without deadlines; arguments as for :func:`deadline_workload`."""
    part = subset(trace, first=first, skip=skip)
    if any(job.qos is not None and job.qos.deadline is not None for job in part.jobs):
        part = without_deadlines(part)
    return scale_load(part, load, method=method, seed=seed, same_time=same_time)


def _original_response_times(workload: Workload, platform: Platform | None) -> dict[str, float]:
    """Return response times (s) under EASY by job id, without the duplicated jobs."""
    if any(step.get("method") == "expansion" for step in _steps(workload, "scale")):
        raise InputError(
            f"{workload.source}: was scaled by expansion, so that the unscaled workload is not "
            "known; reference scaled is accepted"
        )
    known = easy_response_times(originals(workload), platform=platform)
    response_times = {}
    for job in workload.jobs:
        origin = origin_of_duplicate(job) or job.id
        if origin not in known:
            raise InputError(
                f"{workload.source}: job {shown(job.id)} is a duplicate of {shown(origin)}, which "
                "is not among the jobs; every original is expected for reference unscaled"
            )
        response_times[job.id] = known[origin]
    return response_times
