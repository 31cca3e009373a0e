"""A scheduler's answers to a new job."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from qops_batsim.core.qos_log import QosRecord
from qops_batsim.core.refusal import OfferOutcome, Refusal
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED


class Offer(NamedTuple):
    """A later deadline (seconds) offered to a job whose requested deadline could not be kept, and
    why not.
    """

    deadline: float
    taken: bool
    refusal: Refusal

    def note(self, record: QosRecord) -> str:
        """Write the offer into the job's record; return a text about it for the job's metadata."""
        record.offered_deadline = self.deadline
        if self.taken:
            record.reasons = (replace(self.refusal, offer=OfferOutcome.TAKEN),)
        # Batsim's files could not take quotation marks.
        reply = QOS_ACCEPTED if self.taken else QOS_REJECTED
        return f"offered_deadline={self.deadline:.6f};decision={reply}"


class AdmissionAnswer(NamedTuple):
    """A scheduler's answer to a new job: admitted, refused, or offered a later deadline.

    Attributes
    ----------
    refusal
        Why the job was not admitted with its own deadline; None if it was.
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
        """The deadline (seconds) that was offered instead of the requested one, None without an
        offer.
        """
        return None if self.offer is None else self.offer.deadline
