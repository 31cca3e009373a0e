"""The options of AROMA."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qops_batsim.scheduling.module import PlannerOptions


class AromaOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of :class:`~qops_batsim.scheduling.aroma.scheduler.Aroma`."""

    default_class: Annotated[
        Literal["high_priority", "dedicated", "best_effort"],
        Meta(description="class of service of jobs without `qos.class` and without a deadline"),
    ] = "best_effort"
    start_tolerance: Annotated[
        float,
        Meta(
            ge=0,
            description="how long after its submission a high priority job may start",
            extra={"unit": "s"},
        ),
    ] = 5.0
    memory_weight: Annotated[
        float,
        Meta(ge=0, description="M_f of criterion (1): weight of the share of memory in use"),
    ] = 1.0
    revisions: Annotated[
        int,
        Meta(ge=0, description="how often the choice of hosts is revised at one start date"),
    ] = 4
    moves: Annotated[
        int,
        Meta(
            ge=0,
            description="how many planned applications of weaker classes are tried to be moved "
            "for one that finds no place",
        ),
    ] = 8
    stops: Annotated[
        int,
        Meta(
            ge=0,
            description="how many running applications of weaker classes are tried to be stopped "
            "for it, where the engine allows dynamic jobs",
        ),
    ] = 8
    reference_speed: Annotated[
        float,
        Meta(
            ge=0,
            description="speed of the hosts that estimated run times are about (C(m) = 1); "
            "0: the speed that most hosts have",
            extra={"unit": "flop/s"},
        ),
    ] = 0.0
    platform: Annotated[
        str,
        Meta(
            description="platform to look up speeds and routes in, a file or the name of a shipped "
            "one; needed only where the engine is not ours to start (serve, pybatsim)"
        ),
    ] = ""
