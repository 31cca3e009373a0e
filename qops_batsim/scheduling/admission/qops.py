"""QoPS: deadline admission by reordering (Islam et al. 2003)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from qops_batsim.scheduling.module import SchedulerOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.plan import Plan

Order = Annotated[
    Literal["least_laxity", "earliest_deadline"],
    Meta(
        description="order in which jobs are placed: by deadline minus estimate, or by deadline; "
        "ties by arrival"
    ),
]


class QopsOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Options of :class:`Qops`."""

    order: Order = "least_laxity"
    k_factor: Annotated[
        int,
        Meta(ge=0, description="most deadline violations repaired at one insertion point"),
    ] = 5
    on_failure: Annotated[
        Literal["next_point", "reject"],
        Meta(
            description="when an insertion point fails: go on to the next one, or reject the job "
            "as Figure 3 has it literally"
        ),
    ] = "next_point"
    new_job: Annotated[
        Literal["in_order", "first"],
        Meta(
            description="at insertion points after the first: place the new job in heuristic "
            "order, or before the jobs that are placed anew, as the text of section 3 has it"
        ),
    ] = "in_order"


class Qops(SpaceSharingScheduler):
    """QoPS (Islam et al. 2003, section 3): admit a job if some reordering keeps every deadline.

    A new job is tried at few insertion points of the plan, 0, N/2, 3N/4, ...; the
    jobs behind each are placed anew in heuristic order. A job that would be late is
    pushed towards the front, up to ``k_factor`` times at each insertion point.
    """

    summary = "QoPS: deadline admission, reordering waiting jobs (Islam et al. 2003)"
    Options = QopsOptions
    options: QopsOptions
    keeps_decisions = True
    needs_deadlines = True

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that searches with these options."""
        from qops_batsim.scheduling.admission.policy import Admission
        from qops_batsim.scheduling.admission.qops_search import QopsSearch
        from qops_batsim.scheduling.plan import Plan

        return Plan(machine_size, Admission(QopsSearch(self.options)))
