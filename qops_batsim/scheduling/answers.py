"""A scheduler's answers to a new job."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED
from qops_batsim.scheduling.qos_log import QosRecord
from qops_batsim.scheduling.refusal import OfferOutcome, Refusal, RefusalKind


class Offer(NamedTuple):
    """A later deadline offered to a user, and why the requested one could not be kept."""

    deadline: float
    taken: bool
    refusal: Refusal

    def note(self, record: QosRecord) -> str:
        """Record the offer for a job; return its metadata text."""
        record.offered_deadline = self.deadline
        if self.taken:
            record.reasons = (replace(self.refusal, offer=OfferOutcome.TAKEN),)
        # Batsim's files could not take quotation marks.
        reply = QOS_ACCEPTED if self.taken else QOS_REJECTED
        return f"offered_deadline={self.deadline:.6f};decision={reply}"


class AdmissionAnswer(NamedTuple):
    """The answer to a new job.

    Attributes
    ----------
    refusal
        Why it was not taken; None if it was.
    blamed
        Number of the job whose deadline blocked the requested one, or -1.
    offer
        The deadline offered instead, if any.
    """

    refusal: Refusal | None = None
    blamed: int = -1
    offer: Offer | None = None

    @property
    def offered(self) -> float | None:
        """The offered deadline (seconds), or None."""
        return None if self.offer is None else self.offer.deadline


def refusal_of(code: int, processors: int, size: int, gone: int) -> Refusal:
    """Return why a job of this width can never run, or was dropped from the queue.

    Parameters
    ----------
    code
        That of the kind, in a row of the log of decisions (:mod:`~qops_batsim.core.plan_log`).
    size, gone
        Hosts of the machine, and those that have gone away for ever.
    """
    match kind := RefusalKind.of_code(code):
        case RefusalKind.TOO_WIDE:
            return Refusal(kind=kind, processors=processors, machine_size=size)
        case RefusalKind.HOSTS_GONE:
            return Refusal(kind=kind, processors=processors, machine_size=size, hosts=gone)
        case RefusalKind.CANCELLED:
            return Refusal(kind=kind)
    raise ValueError(f"no row has the code {code}")
