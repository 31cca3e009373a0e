"""MSB: deadline admission by insertion (the modified slack-based algorithm)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from qops_batsim.scheduling.admission.scheduler import AdmissionScheduler
from qops_batsim.scheduling.module import SchedulerOptions

if TYPE_CHECKING:
    from qops_batsim.scheduling.admission.plan import Search


class MsbOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Options of :class:`Msb`."""

    price: Annotated[
        Literal["moves", "delays"],
        Meta(
            description="price of a plan: sum of delay times processors over all jobs, where moves "
            "to an earlier start count as negative, or over delayed jobs only"
        ),
    ] = "moves"


class Msb(AdmissionScheduler):
    """Modified slack-based algorithm (Islam et al. 2003, section 2.2.1, Figure 1).

    A new job is tried at every position among the waiting jobs, which keep the
    order of their promised starts; the cheapest plan without a missed deadline wins.
    A job's slack is its deadline minus arrival and run time.
    """

    summary = "MSB: deadline admission at the cheapest position (Islam et al. 2003)"
    Options = MsbOptions

    def search(self) -> Search:
        """Return the search with these options."""
        from qops_batsim.scheduling.admission.searches import MsbSearch

        assert isinstance(self.options, MsbOptions)
        return MsbSearch(self.options)
