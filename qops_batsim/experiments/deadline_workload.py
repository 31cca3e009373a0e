"""From a trace to a deadline workload: scale the load, run EASY, set deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qops_batsim.errors import InputError, require_one_of, shown
from qops_batsim.running.reference import easy_response_times
from qops_batsim.workload.deadlines import DeadlineChoices, assign_deadlines, without_deadlines
from qops_batsim.workload.delay_jobs import derived, exact_estimates
from qops_batsim.workload.estimates import EstimateChoices, users_estimates, with_estimates
from qops_batsim.workload.model import Workload
from qops_batsim.workload.scale import origin_of_duplicate, originals, scale_load, subset

REFERENCES = ("scaled", "unscaled")


def give_deadlines(
    workload: Workload,
    choices: DeadlineChoices | None = None,
    *,
    reference: str = "scaled",
    keep_estimates: bool = True,
    at_least: str | None = None,
) -> Workload:
    """Return the workload with deadlines derived from its own EASY schedule.

    Jobs are of type ``delay``. EASY runs on the workload as it is (reference ``"scaled"``, Islam
    et al. 2003) or without the duplicates of :func:`~qops_batsim.workload.scale.scale_load`
    (``"unscaled"``, 2004), each of which gets the response time of its original, and so its
    deadline relative to the submission. Estimates are those of the log
    (:func:`~qops_batsim.workload.estimates.users_estimates`), or if they are not kept, exact
    (:func:`~qops_batsim.workload.delay_jobs.exact_estimates`). A user's deadline leaves
    ``at_least`` the ``"estimate"``, or the ``"run-time"``, in which nothing can be promised to many
    jobs whose estimate is not exact. By default it leaves the estimate.
    """
    choices = choices or DeadlineChoices()
    choices.check()
    measured = measure(workload, reference=reference, keep_estimates=keep_estimates)
    return measured.give(choices, at_least=at_least)


@dataclass(frozen=True)
class Measured:
    """A workload with its EASY schedule, from which all its deadlines are derived."""

    workload: Workload
    prepared: Workload
    response_times: Mapping[str, float]
    reference: str
    keep_estimates: bool

    def give(self, choices: DeadlineChoices, *, at_least: str | None = None) -> Workload:
        """Return the workload with deadlines."""
        # Exact estimates are the run times.
        at_least = at_least or ("estimate" if self.keep_estimates else "run-time")
        result = assign_deadlines(self.prepared, self.response_times, choices, at_least=at_least)
        step = {
            **{name: value for name, value in result.provenance.items() if name != "made_from"},
            "reference": {"scheduler": "easy", "workload": self.reference},
            "estimates": "kept" if self.keep_estimates else "exact",
        }
        return derived(self.workload, result.jobs, result.profiles, step)


def measure(
    workload: Workload, *, reference: str = "scaled", keep_estimates: bool = True
) -> Measured:
    """Run EASY on a workload, as :func:`give_deadlines` does."""
    require_one_of("reference", reference, REFERENCES)
    prepared = users_estimates(workload) if keep_estimates else exact_estimates(workload)
    respond = _original_response_times if reference == "unscaled" else easy_response_times
    return Measured(workload, prepared, respond(prepared), reference, keep_estimates)


def give_estimates(
    workload: Workload, choices: EstimateChoices, *, requests: Workload | None = None
) -> Workload:
    """Return the workload with estimates of a model; deadlines stay.

    ``requests`` is the workload of the same jobs that still has the users' walltimes, if this one
    has not. Where a model asks when a job's run time is known, that is its end under EASY with
    these.
    """
    ends = easy_ends(requests or workload) if choices.needs_ends else None
    return with_estimates(workload, choices, requests=requests, ends=ends)


def easy_ends(workload: Workload) -> dict[str, float]:
    """Return the date (seconds) when each job ends under EASY backfilling, by id."""
    known = easy_response_times(workload)
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
    """Make the workload of one experiment from a trace: subset, load, deadlines.

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
    """Make a workload from a trace without the deadlines: see :func:`deadline_workload`."""
    part = subset(trace, first=first, skip=skip)
    if any(job.qos is not None and job.qos.deadline is not None for job in part.jobs):
        part = without_deadlines(part)
    return scale_load(part, load, method=method, seed=seed, same_time=same_time)


def _original_response_times(workload: Workload) -> dict[str, float]:
    """Return response times by id, of the workload without duplicates."""
    if _was_expanded(workload.provenance):
        raise InputError(
            f"{workload.source}: was scaled by expansion, so that the unscaled workload is not "
            "known; reference scaled is accepted"
        )
    known = easy_response_times(originals(workload))
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


def _was_expanded(provenance: Any) -> bool:
    while isinstance(provenance, dict):
        if provenance.get("step") == "scale" and provenance.get("method") == "expansion":
            return True
        provenance = provenance.get("made_from")
    return False
