"""FQoPS: QoPS with feedback, tolerance and artificial slack (Islam et al. 2004)."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from qops_batsim.core.answers import Offer
from qops_batsim.core.job import Job, tried_places
from qops_batsim.core.node_request import Places
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.refusal import OfferOutcome, Refusal, as_refusal
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.economics.tolerance import (
    FactorTolerance,
    RandomTolerance,
    Tolerance,
)
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.schedulers.deadline import meets
from qops_batsim.schedulers.qops import QopsOptions
from qops_batsim.schedulers.restarting import (
    KillAfter,
    KillAndRestart,
    MaxKills,
    RestartingQops,
    RestartPrice,
)
from qops_batsim.timing import end_of

INFINITY = math.inf

ToleranceFactor = Annotated[
    float,
    Meta(
        ge=0,
        le=1e6,
        description="users take an offer up to this many times the requested response time; "
        "qos.tolerance_factor of a job goes before",
    ),
]


class FqopsOptions(QopsOptions, frozen=True, kw_only=True):
    """Options of :class:`Fqops`, in addition to those of QoPS."""

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
    restart_price: RestartPrice = None


class Fqops(RestartingQops):
    """QoPS with feedback: a user whose deadline cannot be kept is offered a later one.

    1. A job is admitted as by QoPS if that can be.
    2. Else, with ``kill_and_restart``, a running job may be killed for it (:meth:`kill_for`).
    3. Else the earliest deadline is sought that QoPS could keep (:meth:`find_earliest`). It is
       offered, later by the slack factor, counted from the arrival. The user takes it if it is no
       later than the tolerance factor times the requested response time, or as ``accepts`` says.
       The job is admitted with the offered deadline then, else rejected.

    M. Islam, P. Balaji, P. Sadayappan, D. K. Panda, "Towards provision of quality of service
    guarantees in job scheduling", Cluster 2004, sections 6 and 7.

    Parameters
    ----------
    options
        See :class:`FqopsOptions`.
    accepts
        Speaks for the users instead of the options ``tolerance``, ``tolerance_factor`` and
        ``seed``: a function of the job and the offered deadline (seconds).

    Attributes
    ----------
    failed
        The latest deadline before the earliest one that was sought in vain last (seconds).

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> patient = Fqops(Fqops.Options(tolerance_factor=4.0), accepts=lambda job, deadline: True)
    >>> len(simulate(patient, "sdsc_sp2_deadlines_500").ended)
    500
    """

    summary = "QoPS with feedback, tolerance, slack, kill-and-restart (Islam et al. 2004)"
    Options: type[SchedulerOptions] = FqopsOptions

    def __init__(
        self, options: SchedulerOptions | None = None, accepts: Tolerance | None = None
    ) -> None:
        RestartingQops.__init__(self, options)
        chosen = self.options
        self.slack = float(chosen.slack_factor)
        self.retries = chosen.retry_count
        self.tolerance: Tolerance = FactorTolerance(chosen.tolerance_factor)
        if accepts is not None:
            self.tolerance = accepts
        elif chosen.tolerance == "random":
            self.tolerance = RandomTolerance(chosen.tolerance_factor, chosen.seed)

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        RestartingQops.begin(self, manager)
        self.spare = self.plan.empty_profile()
        self.best: list[Job] = []
        self.starts: list[float] = []
        self.places: list[Places] = []
        self.failed = INFINITY

    def answer(self, job: Job) -> None:
        """Admit a new job as requested, else with an offered later deadline, else reject it."""
        self.count(job.size, job.requested)
        refusal = self.attempt(job)
        if refusal is not None:
            self.answer_otherwise(job, as_refusal(refusal))

    def answer_otherwise(self, job: Job, why: Refusal) -> None:
        """Answer a job that cannot be admitted as asked: kill for it if allowed, else offer a later
        deadline, or reject it.
        """
        if job.target == INFINITY:
            # Its earliest fit moves no other job, and is always possible.
            self.plan.place_new(job)
            self.note_admission(job)
            return
        if self.kills and self.why_impossible(job) is None and self.kill_for(job):
            return

        # No offer is made that the user is known not to take.
        slack = self.slack
        factor = math.nan
        if isinstance(self.tolerance, FactorTolerance):
            factor = self.tolerance.factor_of(job)
        if factor < slack:
            outcome = OfferOutcome.NOT_WORTH_MAKING
            self.refused(job, replace(why, offer=outcome, tolerance=factor, slack_factor=slack))
            return

        soonest = self.find_earliest(job)
        if soonest == INFINITY:
            self.refused(job, replace(why, offer=OfferOutcome.NO_DATE))
            return
        if soonest <= job.deadline:
            # The plan made for a job without deadline happens to keep the requested one.
            self.adopt()
            self.note_admission(job)
            return

        # Without artificial slack it is not rounded again.
        offered = soonest if slack == 1.0 else job.arrival + slack * (soonest - job.arrival)
        if offered > MAX_SECONDS:
            self.refused(job, replace(why, offer=OfferOutcome.TOO_LATE, offered=offered))
        elif self.tolerance(job, offered):
            offer = Offer(offered, True, why)
            self.note_offer(job, offer)
            self.admit_with(job, offered, soonest)
            self.note_admission(job, offer)
        else:
            offer = Offer(offered, False, why)
            self.note_offer(job, offer)
            told = replace(why, offer=OfferOutcome.NOT_TAKEN, offered=offered)
            self.refused(job, told, offer)

    def note_offer(self, job: Job, offer: Offer) -> None:
        """Record an offer to a job's user, accepted or not."""
        self.manager.note_metadata(job, offer.note(self.manager.record(job)))

    def admit_with(self, job: Job, offered: float, soonest: float) -> None:
        """Admit a job with an offered deadline, by a plan for this deadline or for the ``soonest``
        one.
        """
        lag = job.target - job.deadline
        if offered > soonest:
            self.promise(job, offered, lag)
            self.prepare()
            if not self.search(job):
                # The search overlooks plans: that for the earlier deadline is good as well.
                self.promise(job, job.deadline, lag)
                self.find_earliest(job)
        self.promise(job, offered, lag)
        self.adopt()

    # The earliest deadline

    def promise(self, job: Job, deadline: float, lag: float) -> None:
        """Set the promise of a new job to ``deadline`` (seconds) instead of its requested deadline,
        and its target ``lag`` seconds later.

        Its target is later by the ``lag`` with which its submission was told.
        """
        job.promise = deadline
        job.target = deadline + lag

    def find_earliest(self, new: Job) -> float:
        """Return the earliest deadline that can be promised to a new job (seconds), and leave its
        plan in ``draft``.

        1. The job is planned without deadline. If its end there keeps the requested deadline, that
           is returned; infinity if there is no such plan or end.
        2. Else the interval from the requested deadline to that end is halved ``retry_count``
           times: to the lower half if there is a plan with the deadline in the middle, else to
           the upper one.

        O(retries) searches. That is Figure 2 of the paper.
        """
        self.prepare()
        lag = new.target - new.deadline
        low = new.deadline
        retries = self.retries
        soonest = self.running.try_fit(new, self.plan.nominal())
        self.promise(new, INFINITY, lag)
        high = INFINITY
        if self.search(new):
            high = max(end_of(new.trial, new.duration) - lag, low)
            self.keep_draft()

        while high < INFINITY and high - low > 0.0 and retries > 0:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            retries -= 1
            # Too early even with no other job waiting: no search could find a plan.
            works = meets(soonest, new.duration, middle + lag)
            if works:
                self.promise(new, middle, lag)
                works = self.search(new)
            if works:
                # The search bears an end that rounding to the grid made late: an offer does not.
                high = max(middle, end_of(new.trial, new.duration) - lag)
                self.keep_draft()
            else:
                low = middle

        self.promise(new, new.deadline, lag)
        self.failed = low
        if high < INFINITY:
            self.take_kept_draft()
        return high

    def keep_draft(self) -> None:
        """Save the plan that the search has just found, while others are tried. O(jobs)."""
        self.best = self.order
        self.starts = [job.trial for job in self.order]
        self.places = tried_places(self.order)
        self.draft, self.spare = self.spare, self.draft

    def take_kept_draft(self) -> None:
        """Restore the plan saved by :meth:`keep_draft`. O(jobs)."""
        self.order = self.best
        for place in range(len(self.order)):
            job = self.order[place]
            job.trial = self.starts[place]
            if job.request is not None:
                job.request.tried.copy_from(self.places[place])
        self.draft, self.spare = self.spare, self.draft
