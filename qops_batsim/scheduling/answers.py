"""Answers of a plan: to a new job, and about those that it holds."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec.structs import replace

from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED, Job, QosRequest
from qops_batsim.scheduling.qos_log import QosRecord
from qops_batsim.scheduling.refusal import (
    OfferOutcome,
    Refusal,
    RefusalKind,
    missed_deadline,
    no_time,
    start_taken,
)


class Offer(NamedTuple):
    """A deadline offered instead of the requested one, and why that could not be kept."""

    deadline: float
    taken: bool
    refusal: Refusal

    def note(self, record: QosRecord) -> str:
        """Note the offer in the record of a job; return the job's metadata for Batsim's files."""
        record.offered_deadline = self.deadline
        if self.taken:
            record.reasons = (replace(self.refusal, offer=OfferOutcome.TAKEN),)
        # Batsim's files could not take quotation marks.
        reply = QOS_ACCEPTED if self.taken else QOS_REJECTED
        return f"offered_deadline={self.deadline:.6f};decision={reply}"


class Kill(NamedTuple):
    """A running job that is to be killed, and run again.

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
    saved
        How much of its run is saved, so that it is not run again (seconds).
    """

    slot: int
    victim: Job
    again: Job
    sake: int
    since: float
    saved: float = 0.0


class AdmissionAnswer(NamedTuple):
    """Answer to a new job.

    Attributes
    ----------
    refusal
        Why it was not taken; None if it was.
    blamed
        Slot of the job whose deadline stood in the way of the requested one, or -1.
    offer
        The deadline offered instead, if any.
    kills
        What is to be killed for it.
    """

    refusal: Refusal | None = None
    blamed: int = -1
    offer: Offer | None = None
    kills: tuple[Kill, ...] = ()

    @property
    def offered(self) -> float | None:
        """The deadline that was offered (seconds), or None."""
        return None if self.offer is None else self.offer.deadline


def note_answer(
    answer: AdmissionAnswer, record: QosRecord, qos: QosRequest | None, promise: float
) -> str | None:
    """Note an answer to a new job in its record; return the job's metadata, if there is any.

    Parameters
    ----------
    qos
        What the job asks for.
    promise
        The deadline with which it was admitted, if it was (seconds).
    """
    if answer.refusal is None and qos is not None:
        if qos.start is not None:
            record.latest_start = qos.start
        if qos.deadline is not None:
            record.admitted_deadline = promise
    return None if answer.offer is None else answer.offer.note(record)


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
    """Observer of new jobs, told of each before the policy is asked."""

    def asked(self, now: float, slot: int) -> None:
        """Look at the plan before the answer."""


def with_offer(
    refusal: Refusal, blamed: int, told: tuple[int, float, float, float]
) -> AdmissionAnswer:
    """Return the answer to a job that was refused as requested, and what became of an offer.

    ``told`` is an OFFERED row of the log: its code and numbers.
    """
    code, offered, tolerance, slack_factor = told
    outcome = OfferOutcome.of_code(code)
    match outcome:
        case OfferOutcome.TAKEN:
            return AdmissionAnswer(None, blamed, Offer(offered, True, refusal))
        case OfferOutcome.NOT_WORTH_MAKING:
            why = replace(refusal, offer=outcome, tolerance=tolerance, slack_factor=slack_factor)
        case OfferOutcome.NO_DATE:
            why = replace(refusal, offer=outcome)
        case _:
            why = replace(refusal, offer=outcome, offered=offered)
    offer = Offer(offered, False, refusal) if outcome is OfferOutcome.NOT_TAKEN else None
    return AdmissionAnswer(why, blamed, offer)


PLACES = ("", "insertion_point", "positions", "steps_back")
"""Where a search gave up, by the hundreds of a code."""


def refusal_of(
    code: int, processors: int, blamed: str, numbers: tuple[float, float, float]
) -> Refusal:
    """Return the refusal of a row in the log of decisions.

    Parameters
    ----------
    code
        The code of the kind, and where the search gave up (:data:`PLACES`).
    processors
        What the job asks for.
    blamed
        Full id of the job whose deadline stood in the way, if one did.
    numbers
        Those of the row: see :mod:`~qops_batsim.core.log`.
    """
    place, number = divmod(code, 100)
    kind, (first, second, third) = RefusalKind.of_code(number), numbers
    match kind:
        case RefusalKind.TOO_WIDE:
            return Refusal(kind=kind, processors=processors, machine_size=int(first))
        case RefusalKind.HOSTS_GONE | RefusalKind.HOSTS_AWAY:
            size, gone = int(first), int(second)
            return Refusal(kind=kind, processors=processors, machine_size=size, hosts=gone)
        case RefusalKind.CANCELLED:
            return Refusal(kind=kind)
        case RefusalKind.START_TAKEN:
            return start_taken(first, second)
        case RefusalKind.NO_TIME:
            return no_time(first, second, third)
        case RefusalKind.TOO_DEAR:
            return Refusal(kind=kind, cost=first, worth=second, price=third)
        case RefusalKind.OWN_DEADLINE | RefusalKind.OTHER_DEADLINE:
            where = {PLACES[place]: int(second)} if place else {}
            if place == 1:
                where["waiting"] = int(third)
            own = kind is RefusalKind.OWN_DEADLINE
            return missed_deadline(blamed, first, own=own, **where)
    raise ValueError(f"no row has the code {code}")
