"""Common parts of the admission searches: question, answer, kernels over a plan being made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from qops_batsim.kernels import kernel
from qops_batsim.scheduling.arrays import Floats, Ints, Jobs, Profile, Queue, new_profile
from qops_batsim.scheduling.core.columns import ESTIMATES, KEYS, PROMISES, STARTS, TARGETS
from qops_batsim.scheduling.core.plan import sort_slots
from qops_batsim.scheduling.profile import end_of, reserve
from qops_batsim.scheduling.refusal import Refusal, missed_deadline
from qops_batsim.scheduling.table import SlotTable
from qops_batsim.timing import DEADLINE_TOLERANCE

NO_PLAN = -1
"""In place of a slot that stands in the way: none does."""


KEPT = 16
"""Most profiles of a part of a plan that a search keeps to go back to."""


class Draft(NamedTuple):
    """A plan that a search makes: its profile, and slots and starts in the same order."""

    profile: Profile
    order: Ints
    starts: Floats


def new_draft(steps: int, jobs: int) -> Draft:
    """Return a draft with room for so many."""
    return Draft(new_profile(0, steps), np.zeros(jobs, np.int64), np.zeros(jobs))


class Room(NamedTuple):
    """Room that a search works in.

    Attributes
    ----------
    free
        What the running jobs leave free.
    draft
        The plan that the search makes.
    base
        A profile to work with.
    kept
        Profiles of parts of the draft to go back to: of each a row of times, a row of what is free,
        and its size.
    """

    free: Profile
    draft: Draft
    base: Profile
    kept: Profile


def new_room(steps: int, jobs: int) -> Room:
    """Return room for plans of so many jobs and profiles of so many steps."""
    ints = np.int64
    kept = Profile(np.zeros((KEPT, steps)), np.zeros((KEPT, steps), ints), np.zeros(KEPT, ints))
    return Room(new_profile(0, steps), new_draft(steps, jobs), new_profile(0, steps), kept)


class Question(NamedTuple):
    """Question to a search: can the new job be taken, and how?

    Attributes
    ----------
    now
        Date (seconds).
    jobs, table
        All jobs by slot.
    waiting
        Slots of the admitted jobs that wait, by planned start.
    new
        Slot of the new job.
    room
        What the running jobs leave free, where the search writes the plan that it found, and room
        to work in.
    """

    now: float
    jobs: Jobs
    table: SlotTable
    waiting: Queue
    new: int
    room: Room


class Verdict(NamedTuple):
    """Answer of a search.

    Attributes
    ----------
    found
        Whether the draft holds a plan.
    blamed
        If not, slot of the job whose target stood in the way, if one did.
    refusal
        If not, why, and where the search gave up.
    """

    found: bool
    blamed: int = NO_PLAN
    refusal: Refusal | None = None


FOUND = Verdict(True)

Search = Callable[[Question], Verdict]
"""Proposes a plan for a new job, or tells which target stands in the way."""


def missed(
    question: Question,
    blamed: int,
    *,
    insertion_point: int | None = None,
    waiting: int | None = None,
    positions: int | None = None,
    steps_back: int | None = None,
) -> Verdict:
    """Return that a search gave up at a place, where the target of a job stood in the way."""
    refusal = missed_deadline(
        question.table.jobs[blamed].id,
        float(question.jobs.numbers[TARGETS, blamed]),
        own=blamed == question.new,
        insertion_point=insertion_point,
        waiting=waiting,
        positions=positions,
        steps_back=steps_back,
    )
    return Verdict(False, blamed, refusal)


@kernel
def meets(start: float, estimate: float, target: float) -> bool:
    """Whether a job that starts then is expected to end in time."""
    return end_of(start, estimate) <= target + DEADLINE_TOLERANCE


@kernel
def set_keys(jobs: Jobs, waiting: Queue, new: int, by_laxity: bool) -> None:
    """Set what the order heuristic compares: promises, or promises minus estimates. O(waiting)."""
    for index in range(waiting.size[0] + 1):
        slot = new if index == waiting.size[0] else waiting.slots[index]
        key = jobs.numbers[PROMISES, slot]
        # Without deadline nothing is as patient, estimate or not.
        if by_laxity and key < np.inf:
            key -= jobs.numbers[ESTIMATES, slot]
        jobs.numbers[KEYS, slot] = key


@kernel
def lift(order: Ints, place: int, to: int) -> None:
    """Move the slot at ``place`` to the earlier place ``to``. O(place - to)."""
    slot = order[place]
    for index in range(place, to, -1):
        order[index] = order[index - 1]
    order[to] = slot


@kernel
def line_up(point: int, jobs: Jobs, waiting: Queue, new: int, draft: Draft) -> None:
    """Put the waiting jobs from a point on and the new one in the order of their keys."""
    count = waiting.size[0]
    for index in range(point, count):
        draft.order[index] = waiting.slots[index]
    draft.order[count] = new
    sort_slots(draft.order, point, count + 1, jobs.numbers[KEYS])


@kernel
def keep_up_to(point: int, kept: int, base: Profile, jobs: Jobs, waiting: Queue, d: Draft) -> None:
    """Let the waiting jobs from ``kept`` up to a point keep their reservations."""
    for index in range(kept, point):
        slot = waiting.slots[index]
        reserve(
            base, jobs.numbers[STARTS, slot], jobs.numbers[ESTIMATES, slot], jobs.processors[slot]
        )
        d.order[index] = slot
        d.starts[index] = jobs.numbers[STARTS, slot]
