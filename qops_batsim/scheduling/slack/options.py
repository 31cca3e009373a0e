"""Options of slack-based backfilling."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta

from qops_batsim.errors import InputError
from qops_batsim.scheduling.module import PlannerOptions, seconds


class SlackOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of :class:`~qops_batsim.scheduling.slack.scheduler.Slack`."""

    slack_factor: Annotated[
        float,
        Meta(ge=0, description="initial slack of a job of priority 0, in average wait times"),
    ] = 3.0
    average_wait: Annotated[
        float,
        seconds(
            "average wait time of the system; the default is the paper's, of the KTH "
            "SP2 in 1996/97. Where it is learned: what to assume at first",
            gt=0,
        ),
    ] = 2401.0
    average_wait_source: Annotated[
        Literal["fixed", "learned"],
        Meta(
            description="whether that number holds throughout, or the mean wait of the jobs that "
            "started within average_wait_window"
        ),
    ] = "fixed"
    average_wait_window: Annotated[
        float,
        seconds("how long a learned average remembers starts; the default is 30 days", gt=0),
    ] = 2_592_000.0
    average_wait_edges: Annotated[
        tuple[float, ...],
        seconds(
            "estimated run times that divide jobs into classes, each with its own "
            "learned average: [600, 3600, 28800]"
        ),
    ] = ()
    utilization_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the processors of moved jobs")
    ] = 1.0
    time_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the lengths of waits and moves")
    ] = 1.0
    priority_weight: Annotated[
        float,
        Meta(ge=0, le=1, description="importance of priorities; that of fairness is its product"),
    ] = 1.0
    fairness_weight: Annotated[
        float, Meta(ge=0, le=1, description="importance of the part of its slack a job has used")
    ] = 1.0
    heuristic: Annotated[
        Literal[
            "ascending_scheduled_time",
            "ascending_arrival_time",
            "descending_utilization",
            "descending_cost",
            "descending_priority",
            "exhaustive",
        ],
        Meta(
            description="order in which delayed jobs are placed again; exhaustive: every order, "
            "up to exhaustive_up_to waiting jobs, and ascending_scheduled_time beyond"
        ),
    ] = "ascending_scheduled_time"
    exhaustive_up_to: Annotated[
        int,
        Meta(ge=0, le=9, description="most waiting jobs of which an exhaustive search tries all"),
    ] = 6
    removal: Annotated[
        Literal["cheapest", "compression", "null_job"],
        Meta(
            description="what an early end leads to: compression as in conservative backfilling, "
            "the cheapest schedule with a null job (which may leave gaps), or the cheaper of both"
        ),
    ] = "cheapest"
    early_gain: Annotated[
        Literal["slack", "promise"],
        Meta(
            description="what a job that moves up at an early end gains: slack, or an earlier "
            "promise (its latest start moves up as much)"
        ),
    ] = "slack"
    on_overrun: Annotated[
        Literal["none", "kill", "extend"],
        Meta(
            description="what to do about a job without walltime that reaches its estimate: "
            "nothing (promises move), kill it, or give it 10 % more where that is cheaper"
        ),
    ] = "none"

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if options make no sense together."""
        for name in ("slack_factor", "average_wait", "average_wait_window"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise InputError(
                    f"scheduler 'slack': option {name} is {value}; it has to be finite"
                )
        edges = self.average_wait_edges
        shown = f"scheduler 'slack': option average_wait_edges is {list(edges)}"
        # Also what is no number is not in order.
        if not all(low < high for low, high in pairwise((0.0, *edges, math.inf))):
            raise InputError(f"{shown}; seconds above 0 in ascending order are expected")
        if edges and self.average_wait_source == "fixed":
            raise InputError(f"{shown}, which needs average_wait_source=learned")
