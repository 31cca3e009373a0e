"""Simulations under a compiled policy of admission: QoPS, foresight, MSB or MRT.

That is what :class:`~qops_batsim.scheduling.admission.policy.Admission` decides about each new
job, without offers and kills, while all hosts are there and news is on time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import lean_kernel
from qops_batsim.running.event_kernels import ARRIVED, NEXT, Events, next_message, reject
from qops_batsim.running.policy_kernels import (
    PlanState,
    accept,
    new_plan_state,
    start_planned,
    steps_for,
    update_plan,
)
from qops_batsim.scheduling.admission.foresight_search import foresight_search
from qops_batsim.scheduling.admission.market import Market, Terms
from qops_batsim.scheduling.admission.mrt_search import Room, mrt_search
from qops_batsim.scheduling.admission.msb_search import Prices, msb_search
from qops_batsim.scheduling.admission.qops_search import Rules, qops_search
from qops_batsim.scheduling.admission.search import NO_PLAN, Draft, new_draft
from qops_batsim.scheduling.plan_kernels import adopt, aim_again
from qops_batsim.scheduling.profile import (
    Floats,
    Ints,
    Profile,
    Queue,
    copy_profile,
    new_profile,
    new_queue,
    running_profile,
    trim,
)
from qops_batsim.timing import DEADLINE_TOLERANCE

TAKEN, TOO_SHORT, REFUSED, TOO_DEAR = 0, 1, 2, 3
"""What became of a job.

It was taken, or has no time left, or another deadline is in the way, or it is not worth its cost.
"""


class Answers(NamedTuple):
    """What was answered to each job.

    Attributes
    ----------
    verdicts
        :data:`TAKEN` or one of the others.
    blamed, dates
        The job whose target stood in the way, and that target (seconds); of a job that has no
        time left, the time that it has.
    places, waiting
        Where the search gave up (insertion point, steps back), and how many jobs waited.
    worths
        What a job that cost too much is worth; the cost is its date.
    """

    verdicts: Ints
    blamed: Ints
    dates: Floats
    places: Ints
    waiting: Ints
    worths: Floats


class AdmissionState(NamedTuple):
    """A plan and what is needed to ask a search about new jobs.

    Attributes
    ----------
    plan
        The plan.
    asked
        The new jobs of a message.
    free
        What the running jobs leave free.
    draft, room
        The plan that the search makes, and a profile to work with.
    answers
        What was answered.
    """

    plan: PlanState
    asked: Queue
    free: Profile
    draft: Draft
    room: Profile
    answers: Answers


def new_admission_state(
    hosts: int,
    processors: Ints,
    estimates: Floats,
    limits: Floats,
    deadlines: Floats,
    targets: Floats,
) -> AdmissionState:
    """Return an empty plan; see :func:`~.policy_kernels.new_plan_state`."""
    jobs = len(processors)
    steps = steps_for(jobs, hosts)
    numbers = np.zeros((4, jobs), np.int64)
    return AdmissionState(
        new_plan_state(hosts, processors, estimates, limits, deadlines, targets),
        new_queue(jobs),
        new_profile(0, steps),
        new_draft(steps, jobs + 1),
        new_profile(0, steps),
        Answers(numbers[0], numbers[1], np.zeros(jobs), numbers[2], numbers[3], np.zeros(jobs)),
    )


@lean_kernel
def next_questions(events: Events, state: AdmissionState, hosts: int) -> tuple[int, float]:
    """Let happen what happens next; return why nothing does, if so, and the date (seconds).

    ``asked`` are the jobs to decide about.
    """
    counts, asked, plan = events.counts, state.asked, state.plan
    asked.size[0] = 0
    said = next_message(events, plan.gone)
    if said < 0:
        return said, 0.0
    for job in range(counts[ARRIVED], counts[NEXT]):
        if accept(events, job, hosts):
            asked.slots[asked.size[0]] = job
            asked.size[0] += 1
    now = update_plan(events, plan, hosts, True)
    if asked.size[0]:
        trim(plan.profile, now)
        aim_again(plan.jobs, plan.waiting)
        running_profile(state.free, hosts, now, plan.running, plan.jobs)
    return said, now


@lean_kernel
def has_time(events: Events, state: AdmissionState, now: float, job: int) -> bool:
    """Whether a job could end in time on an empty machine; if not, refuse it."""
    left = state.plan.jobs.targets[job] - now
    if not state.plan.jobs.estimates[job] > left + DEADLINE_TOLERANCE:
        return True
    state.answers.verdicts[job], state.answers.dates[job] = TOO_SHORT, left
    reject(events, job)
    return False


@lean_kernel
def answer(
    events: Events, state: AdmissionState, job: int, found: bool, blamed: int, place: int
) -> None:
    """Make the plan that a search has found the plan, or refuse the job."""
    plan, answers = state.plan, state.answers
    if found:
        count = plan.waiting.size[0] + 1
        adopt(state.draft.order, state.draft.starts, count, plan.jobs, plan.waiting, plan.given)
        copy_profile(state.draft.profile, plan.profile)
        return
    answers.verdicts[job], answers.blamed[job] = REFUSED, blamed
    answers.dates[job], answers.places[job] = plan.jobs.targets[blamed], place
    answers.waiting[job] = plan.waiting.size[0]
    reject(events, job)


@lean_kernel
def run_qops(events: Events, state: AdmissionState, hosts: int, rules: Rules) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.qops.Qops`."""
    plan, asked, draft, room = state.plan, state.asked, state.draft, state.room
    while True:
        said, now = next_questions(events, state, hosts)
        if said < 0:
            return said
        for job in asked.slots[: asked.size[0]]:
            if has_time(events, state, now, job):
                found, blamed, point = qops_search(
                    now, state.free, plan.jobs, plan.waiting, job, rules, draft, room
                )
                answer(events, state, job, found, blamed, point)
        start_planned(events, plan, hosts, now, True)


@lean_kernel
def run_foresight(
    events: Events, state: AdmissionState, hosts: int, rules: Rules, market: Market, terms: Terms
) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.foresight.Foresight`."""
    plan, asked, draft, answers = state.plan, state.asked, state.draft, state.answers
    free, jobs, waiting, room = state.free, plan.jobs, plan.waiting, state.room
    while True:
        said, now = next_questions(events, state, hosts)
        if said < 0:
            return said
        for job in asked.slots[: asked.size[0]]:
            if has_time(events, state, now, job):
                found, blamed, point, cost, worth = foresight_search(
                    now, free, jobs, waiting, job, rules, draft, room, market, terms
                )
                if found or blamed != NO_PLAN:
                    answer(events, state, job, found, blamed, point)
                else:
                    answers.verdicts[job] = TOO_DEAR
                    answers.dates[job], answers.worths[job] = cost, worth
                    reject(events, job)
        start_planned(events, plan, hosts, now, True)


@lean_kernel
def run_msb(events: Events, state: AdmissionState, hosts: int, prices: Prices, trial: Draft) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.msb.Msb`."""
    plan, asked, draft, room = state.plan, state.asked, state.draft, state.room
    while True:
        said, now = next_questions(events, state, hosts)
        if said < 0:
            return said
        for job in asked.slots[: asked.size[0]]:
            if has_time(events, state, now, job):
                found = msb_search(
                    now, state.free, plan.jobs, plan.waiting, job, prices, draft, room, trial
                )
                answer(events, state, job, found, job, 0)
        start_planned(events, plan, hosts, now, True)


@lean_kernel
def run_mrt(
    events: Events, state: AdmissionState, hosts: int, by_laxity: bool, most: int, notes: Room
) -> int:
    """Admit jobs as :class:`~qops_batsim.scheduling.admission.mrt.Mrt`."""
    plan, asked, draft = state.plan, state.asked, state.draft
    while True:
        said, now = next_questions(events, state, hosts)
        if said < 0:
            return said
        for job in asked.slots[: asked.size[0]]:
            if has_time(events, state, now, job):
                found, blamed, steps = mrt_search(
                    now, state.free, plan.jobs, plan.waiting, job, by_laxity, most, draft, notes
                )
                answer(events, state, job, found, blamed, steps)
        start_planned(events, plan, hosts, now, True)
