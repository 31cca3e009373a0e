"""Options of the deadline schedulers: for their classes and their searches alike."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qops_batsim.limits import MAX_SECONDS
from qops_batsim.scheduling.module import Grace, PlannerOptions, SchedulerOptions, seconds
from qops_batsim.timing import GRACE

Order = Annotated[
    Literal["least_laxity", "earliest_deadline"],
    Meta(
        description="order in which jobs are placed: by deadline minus estimate, or by deadline; "
        "ties by arrival"
    ),
]


KillAndRestart = Annotated[
    bool,
    Meta(
        description="where there is no plan, and before an offer is made, try to meet the request "
        "by killing a running job that can be run again from scratch by its own deadline"
    ),
]
MaxKills = Annotated[
    Annotated[int, Meta(ge=0)] | None,
    Meta(description="most kills of one job; none for any number"),
]
KillAfter = Annotated[
    float,
    seconds("run time before which no job is killed", ge=0, le=MAX_SECONDS),
]


ToleranceFactor = Annotated[
    float,
    Meta(
        ge=0,
        le=1e6,
        description="users take an offer up to this many times the requested response time; "
        "qos.tolerance_factor of a job goes before",
    ),
]


class QopsOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Options of ``Qops``."""

    grace: Grace = GRACE
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
    undo: Annotated[
        Literal["placed_later", "starting_later", "all"],
        Meta(
            description="what a violation takes out again, of the jobs placed from the insertion "
            "point on: the half placed later, the half that starts later, or all of them, so that "
            "the critical job goes to the head of the list, as the text of section 3 has it"
        ),
    ] = "placed_later"
    insertion: Annotated[
        Literal["first", "best", "last"],
        Meta(
            description="which insertion point gives the plan, of those that have one: the first, "
            "the best by best_by (section 6), or the last, since Figure 3 goes on after a success"
        ),
    ] = "first"
    best_by: Annotated[
        Literal["work", "response", "slack"],
        Meta(
            description="what the best insertion point has the least of: waits times processors, "
            "waits, or lost slack (sum of -log(slack + 60 s), over all jobs with deadlines)"
        ),
    ] = "work"
    headroom: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="share of the machine that stays free beside a job with more than a minute "
            "of laxity, where it ends in time even so; else it is placed as without",
        ),
    ] = 0.0
    run_times: Annotated[
        Literal["estimated", "predicted"],
        Meta(
            description="what is planned with: estimates, or run times predicted from the last two "
            "jobs of the user, which may be too short, so that promises may be broken"
        ),
    ] = "estimated"


class ForesightOptions(QopsOptions, frozen=True, kw_only=True):
    """Options of ``Foresight``: those of QoPS and the following."""

    worth: Annotated[
        Literal["work", "charge"],
        Meta(
            description="what a job is worth beside counting as one: its work, or its urgency, "
            "run time over time left, to which the QoS charge is proportional"
        ),
    ] = "work"
    weight: Annotated[
        float,
        Meta(ge=0, le=1, description="weight of that, against counting as one; both in the mean 1"),
    ] = 0.5
    admission_price: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="a job is refused if it is worth less than so many times what it is "
            "expected to turn away; 0 refuses none",
        ),
    ] = 1.0
    placement_price: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="jobs that can wait leave so much free that they are worth no less than so "
            "many times what they are expected to turn away in their first 4 h",
        ),
    ] = 2.0
    blocking: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="but no more than keeps the expected losses below this share of the worth "
            "of the shorter jobs that cannot wait",
        ),
    ] = 0.2
    urgent: Annotated[
        float,
        seconds(
            "most laxity at submission of a job that counts as one which cannot wait",
            ge=0,
            le=MAX_SECONDS,
        ),
    ] = 600.0
    memory: Annotated[
        float,
        seconds("mean age of the arrivals that count", ge=3600, le=MAX_SECONDS),
    ] = 604800.0
    kill_and_restart: KillAndRestart = False
    max_kills_per_job: MaxKills = None
    kill_after: KillAfter = 1.0
    restart_price: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="most work that a kill may waste, as a share of nine tenths of the mean "
            "work of the arrivals and a tenth of the work of the job that it is for",
        ),
    ] = 0.5
    max_waste: Annotated[
        Annotated[float, Meta(ge=0, le=1e18)] | None,
        Meta(
            description="most work that the kills for one job may waste; none for any amount",
            extra={"unit": "processor-seconds"},
        ),
    ] = None


class MsbOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of ``Msb``."""

    order: Annotated[
        Literal["scheduled_start", "least_laxity", "earliest_deadline"],
        Meta(
            description="order in which the waiting jobs behind a position are placed anew: by "
            "planned start, as Figure 1 has it, by deadline minus estimate, or by deadline; ties "
            "by arrival"
        ),
    ] = "scheduled_start"
    price: Annotated[
        Literal["moves", "delays"],
        Meta(
            description="price of a plan: sum of delay times processors over all jobs, where moves "
            "to an earlier start count as negative, or over delayed jobs only"
        ),
    ] = "moves"
    fairness: Annotated[
        bool,
        Meta(
            description="weigh the move of a job by its slack over what is left of it, as the "
            "original slack-based algorithm does"
        ),
    ] = False


class MrtOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of ``Mrt``."""

    order: Order = "least_laxity"
    max_backtracks: Annotated[
        int, Meta(ge=0, description="most candidates given up before the new job is rejected")
    ] = 10


class FqopsOptions(QopsOptions, frozen=True, kw_only=True):
    """Options of ``Fqops``: those of QoPS and the following."""

    retry_count: Annotated[
        int,
        Meta(
            ge=0,
            le=60,
            description="how often the interval of the earliest deadline is halved; what is "
            "left of it is the resolution of offers",
        ),
    ] = 10
    tolerance: Annotated[
        Literal["fixed", "random"],
        Meta(
            description="tolerance factors of jobs that bring none along: all alike, or each "
            "uniform between 0 and twice tolerance_factor"
        ),
    ] = "fixed"
    tolerance_factor: ToleranceFactor = 1.0
    seed: Annotated[int, Meta(description="chooses random tolerance factors")] = 0
    slack_factor: Annotated[
        float,
        Meta(
            ge=1,
            le=1e6,
            description="artificial slack: offers are later than the earliest deadline by this "
            "factor, counted from the arrival",
        ),
    ] = 1.0
    kill_and_restart: KillAndRestart = False
    max_kills_per_job: MaxKills = None
    kill_after: KillAfter = 1.0
