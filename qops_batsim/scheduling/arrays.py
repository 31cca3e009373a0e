"""Arrays of plans in named tuples: jobs, queues, profiles, claims, with room to grow.

Sizes are held in arrays of one element, so that kernels change them in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from qops_batsim.scheduling.core.columns import (
    AIMS,
    ASSURED_STARTS,
    CHECKPOINTS,
    DEADLINES,
    FIXED_STARTS,
    LIMITS,
    MARKS,
    NUMBERS,
    PLACES,
    PROMISES,
    SUSPENDED,
    TARGETS,
    USERS,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[Any]
"""A number of processors for each index, or a row of words of host bits."""

STEPS_PER_RESERVATION = 2
"""A reservation adds at most so many steps."""


class Profile(NamedTuple):
    """Availability over future time; ``size`` holds the number of steps in use."""

    times: Floats
    free: Rows
    size: Ints


class Jobs(NamedTuple):
    """Numbers of jobs by slot, with room to grow.

    In Python each row of ``numbers`` and ``marks`` is an attribute: ``jobs.starts`` is
    ``jobs.numbers[STARTS]``. Kernels are compiled faster for few arrays.

    Attributes
    ----------
    processors
        What a job needs.
    reserved
        What it takes from a profile, processors or rows of hosts: of a running job only
        what is there, not the hosts that have gone away under it.
    numbers, marks
        By quantity (:mod:`~qops_batsim.scheduling.core.columns`) and slot.
    """

    processors: Ints
    reserved: Rows
    numbers: Floats
    marks: Ints

    def __getattr__(self, name: str) -> Any:
        """Return the row of a quantity, by its name in small letters."""
        if name in NUMBERS:
            return self.numbers[NUMBERS[name]]
        if name in MARKS:
            return self.marks[MARKS[name]]
        raise AttributeError(f"jobs have no {name}")


def new_jobs(slots: int, words: int = 0) -> Jobs:
    """Return room for so many jobs, which reserve numbers, or rows of hosts of so many words."""
    processors = np.zeros(slots, np.int64)
    rows = np.zeros((slots, words), np.uint64) if words else processors.copy()
    numbers, marks = np.zeros((len(NUMBERS), slots)), np.zeros((len(MARKS), slots), np.int64)
    _clear(numbers, marks)
    return Jobs(processors, rows, numbers, marks)


def grown_jobs(jobs: Jobs) -> Jobs:
    """Return the same with room for twice as many jobs."""
    size = len(jobs.processors)
    numbers, marks = (np.concatenate([each, each], axis=1) for each in (jobs.numbers, jobs.marks))
    numbers[:, size:], marks[:, size:] = 0.0, 0
    _clear(numbers[:, size:], marks[:, size:])
    return Jobs(grown(jobs.processors), grown(jobs.reserved), numbers, marks)


def _clear(numbers: Floats, marks: Ints) -> None:
    """Write what holds of a job of which nothing is known."""
    numbers[[LIMITS, DEADLINES, PROMISES, TARGETS, AIMS]] = np.inf
    numbers[[ASSURED_STARTS, FIXED_STARTS, CHECKPOINTS]] = np.inf
    numbers[SUSPENDED], marks[[PLACES, USERS]] = np.nan, -1


class Queue(NamedTuple):
    """Slots of jobs in an order; ``size`` holds how many."""

    slots: Ints
    size: Ints


class Claims(NamedTuple):
    """Reservations at fixed dates: of jobs with promised starts, and maintenance windows.

    Attributes
    ----------
    dates
        First and last date of each (seconds).
    amounts
        Processors, or a row of hosts.
    slots
        The job, or :data:`WINDOW`.
    size
        How many there are.
    """

    dates: Floats
    amounts: Rows
    slots: Ints
    size: Ints


WINDOW = -1
"""In place of the slot of a job: a maintenance window."""


def new_claims(room: int = 0, words: int = 0) -> Claims:
    """Return no claims, on processors or on hosts of so many words, with room for so many."""
    amounts = np.zeros((room, words), np.uint64) if words else np.zeros(room, np.int64)
    return Claims(np.zeros((room, 2)), amounts, np.zeros(room, np.int64), np.zeros(1, np.int64))


def with_room(claims: Claims, more: int) -> Claims:
    """Return the same claims, with room for so many more."""
    count = int(claims.size[0])
    if len(claims.slots) >= count + more:
        return claims
    words = claims.amounts.shape[1] if claims.amounts.ndim == 2 else 0
    larger = new_claims(2 * (count + more) + 8, words)
    for old, new in zip(claims[:3], larger[:3], strict=True):
        new[: len(old)] = old
    larger.size[0] = count
    return larger


def new_profile(everything: int | Words, steps: int = 64) -> Profile:
    """Return a profile from 0 on with everything free, and room for so many steps.

    ``everything`` is a number of processors, or one row of words of hosts.
    """
    row = np.asarray(everything)
    free = np.zeros((steps, *row.shape), row.dtype)
    free[0] = row
    return Profile(np.zeros(steps), free, np.ones(1, np.int64))


def new_queue(room: int) -> Queue:
    """Return an empty queue."""
    return Queue(np.zeros(room, np.int64), np.zeros(1, np.int64))


def grown(array: Any) -> Any:
    """Return a copy of an array with twice the rows, the new ones zero."""
    larger = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
