"""What a plan says of jobs: the answer to a new one, and what it holds."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from qops_batsim.jobs import Job
from qops_batsim.scheduling.refusal import Refusal


class Offer(NamedTuple):
    """A deadline offered instead of the requested one, and why that could not be kept."""

    deadline: float
    taken: bool
    refusal: Refusal


class Kill(NamedTuple):
    """A running job that is to be killed, and run again from scratch.

    Attributes
    ----------
    slot
        Its slot, which the same work, run again, keeps.
    victim, again
        The job as it runs, and the same work under the identifier under which it is to
        be registered.
    sake
        Slot of the job that is admitted thereby.
    since
        When the victim started (seconds).
    """

    slot: int
    victim: Job
    again: Job
    sake: int
    since: float


class Answer(NamedTuple):
    """What became of a new job.

    Attributes
    ----------
    refusal
        Why it was not taken; None if it was.
    blamed
        Slot of the job whose deadline stood in the way of the requested one, or -1.
    offer
        The deadline offered instead, if any.
    kill
        What is to be killed for it, if anything.
    """

    refusal: Refusal | None = None
    blamed: int = -1
    offer: Offer | None = None
    kill: Kill | None = None

    @property
    def offered(self) -> float | None:
        """The deadline that was offered (seconds), or None."""
        return None if self.offer is None else self.offer.deadline


class Held(NamedTuple):
    """A job that a plan holds.

    Attributes
    ----------
    job
        The job; its deadline is the promised one.
    start
        Planned start, or actual one if it runs (seconds).
    end
        Expected end if it runs (seconds), else None.
    target
        What the plan aims at (seconds; infinite without a deadline).
    original
        The job as it was submitted, if it was killed and is run again.
    kills
        How often it was killed.
    lag
        By how much it really started later than that (seconds), if it runs.
    """

    job: Job
    start: float
    end: float | None
    target: float
    original: Job | None = None
    kills: int = 0
    lag: float = 0.0


class Observer(Protocol):
    """What is told of each new job before and after the policy's answer."""

    def asked(self, now: float, slot: int) -> None:
        """Look at the plan before the answer."""

    def answered(self, now: float, slot: int, answer: Answer) -> None:
        """Look at the plan after the answer."""
