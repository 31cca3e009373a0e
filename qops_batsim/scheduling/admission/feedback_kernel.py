"""The search for the earliest deadline that can be kept (Islam et al. 2004, Figure 2)."""

from __future__ import annotations

import numpy as np

from qops_batsim.scheduling.admission.common_kernels import REJECTED, copy_profile, meets
from qops_batsim.scheduling.admission.qops_kernel import qops_search
from qops_batsim.scheduling.kernels import kernel
from qops_batsim.scheduling.profile import Floats, Ints, earliest_fit


@kernel
def set_deadline(
    slot: int, deadline: float, estimates: Floats, deadlines: Floats, keys: Floats, laxity: bool
) -> None:
    """Give a job another deadline, and the key that follows from it: laxity or deadline."""
    deadlines[slot] = deadline
    keys[slot] = deadline
    if laxity and deadline < np.inf:
        keys[slot] -= estimates[slot]


@kernel
def end_of(slot: int, order: Ints, planned: Floats, count: int, estimates: Floats) -> float:
    """Return when a job ends in a plan of ``count`` jobs. O(count)."""
    end = np.inf
    for index in range(count):
        if order[index] == slot:
            end = planned[index] + estimates[slot]
    return end


@kernel
def earliest_deadline(
    now: float,
    base_times: Floats,
    base_free: Ints,
    base_steps: int,
    waiting: Ints,
    count: int,
    new: int,
    starts: Floats,
    processors: Ints,
    estimates: Floats,
    deadlines: Floats,
    keys: Floats,
    laxity: bool,
    k_factor: int,
    stop_at_first_failure: bool,
    new_job_first: bool,
    retry_count: int,
    times: Floats,
    free: Ints,
    order: Ints,
    planned: Floats,
    spare_base_times: Floats,
    spare_base_free: Ints,
    spare_times: Floats,
    spare_free: Ints,
    spare_order: Ints,
    spare_planned: Floats,
) -> tuple[int, float, float]:
    """Look for the earliest deadline with which QoPS would take the new job.

    The job is planned without deadline first. Then the interval from its requested
    deadline to its end in that plan is halved ``retry_count`` times: to the lower half
    if QoPS finds a plan with the deadline in the middle, else to the upper one.
    Figure 2 calls the ends of the interval StartPos and EndPos.

    Parameters
    ----------
    now, base_times, base_free, base_steps, waiting, count, new, starts, processors, estimates,
    deadlines, keys, order, planned
        See :mod:`~qops_batsim.scheduling.admission.common_kernels`; the new job's
        deadline is the requested one.
    laxity
        Whether keys are laxities rather than deadlines.
    k_factor, stop_at_first_failure, new_job_first
        See :func:`~qops_batsim.scheduling.admission.qops_kernel.qops_search`.
    times, free
        Filled with the profile of the plan for the earliest deadline.
    spare_base_times, spare_base_free, spare_times, spare_free, spare_order, spare_planned
        Room for trials.

    Returns
    -------
    tuple
        Steps of the plan's profile, or ``REJECTED`` if there is none even without
        deadline; the ends of the last interval (seconds): the latest deadline that
        failed and the earliest one that did not. The second is infinite if the
        job would have to wait for a job without estimate. If the plan without deadline
        already keeps the requested one, both are that. O(retries) searches.
    """
    requested = deadlines[new]
    soonest = earliest_fit(base_times, base_free, base_steps, now, estimates[new], processors[new])
    set_deadline(new, np.inf, estimates, deadlines, keys, laxity)
    base = copy_profile(base_times, base_free, base_steps, spare_base_times, spare_base_free)
    steps, _, _ = qops_search(
        now, spare_base_times, spare_base_free, base, waiting, count, new, starts, processors,
        estimates, deadlines, keys, k_factor, stop_at_first_failure, new_job_first,
        times, free, order, planned,
    )  # fmt: skip
    low = requested
    high = np.inf
    if steps != REJECTED:
        high = max(end_of(new, order, planned, count + 1, estimates), requested)
    if high < np.inf:
        for _ in range(retry_count):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if not meets(soonest, estimates[new], middle):
                # Too early even with nobody else waiting: no search could find a plan.
                low = middle
                continue
            set_deadline(new, middle, estimates, deadlines, keys, laxity)
            base = copy_profile(
                base_times, base_free, base_steps, spare_base_times, spare_base_free
            )
            found, _, _ = qops_search(
                now, spare_base_times, spare_base_free, base, waiting, count, new, starts,
                processors, estimates, deadlines, keys, k_factor, stop_at_first_failure,
                new_job_first, spare_times, spare_free, spare_order, spare_planned,
            )  # fmt: skip
            if found == REJECTED:
                low = middle
                continue
            high = middle
            steps = copy_profile(spare_times, spare_free, found, times, free)
            for index in range(count + 1):
                order[index] = spare_order[index]
                planned[index] = spare_planned[index]
    set_deadline(new, requested, estimates, deadlines, keys, laxity)
    return steps, low, high
