"""FQoPS: QoPS with feedback, tolerance, slack, kill-and-restart (Islam et al. 2004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.economics.tolerance import FixedTolerance, RandomTolerance, Tolerance
from qops_batsim.scheduling.admission.options import FqopsOptions
from qops_batsim.scheduling.engine_needs import EngineNeeds
from qops_batsim.scheduling.killed_jobs import restart_needs
from qops_batsim.scheduling.module import SchedulerOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.admission.feedback import OfferTerms
    from qops_batsim.scheduling.plan import Plan


class Fqops(SpaceSharingScheduler):
    """QoPS with feedback (Islam et al. 2004): who cannot be served in time gets an offer.

    If QoPS refuses a job, the earliest deadline that it could keep is looked for, and
    offered; the job is admitted with it if the user's tolerance allows. With
    ``kill_and_restart``, a running job may be killed for it before that; it is
    registered again, as ``w0!12#1`` if it was ``w0!12``, which needs dynamic jobs.

    Parameters
    ----------
    options
        See :class:`FqopsOptions`.
    accepts
        Speaks for the users instead of the options ``tolerance``, ``tolerance_factor``
        and ``seed``: a function of the job and the offered deadline (seconds).
    """

    summary = "QoPS with feedback, tolerance, slack, kill-and-restart (Islam et al. 2004)"
    Options = FqopsOptions
    options: FqopsOptions
    keeps_decisions = True
    needs_deadlines = True

    def __init__(
        self, options: SchedulerOptions | None = None, accepts: Tolerance | None = None
    ) -> None:
        super().__init__(options)
        self.accepts = accepts

    @property
    def needs(self) -> EngineNeeds:
        """To register killed jobs again, where jobs are killed."""
        return restart_needs(self.options.kill_and_restart)

    def tolerance(self) -> Tolerance:
        """Return who speaks for the users."""
        options = self.options
        if self.accepts is not None:
            return self.accepts
        if options.tolerance == "random":
            return RandomTolerance(options.tolerance_factor, options.seed)
        return FixedTolerance(options.tolerance_factor)

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that searches, kills and makes offers with these options."""
        from qops_batsim.scheduling.admission.policy import FeedbackAdmission
        from qops_batsim.scheduling.admission.qops_search import QopsSearch
        from qops_batsim.scheduling.plan import Plan

        search = QopsSearch(self.options)
        return Plan(machine_size, FeedbackAdmission(search, self.terms, self.tolerance()))

    @property
    def terms(self) -> OfferTerms:
        """The options for the kernels."""
        from qops_batsim.scheduling.admission.feedback import OfferTerms
        from qops_batsim.scheduling.admission.qops_search import rules_of
        from qops_batsim.scheduling.admission.restarts import kill_terms

        options = self.options
        return OfferTerms(
            float(options.slack_factor),
            options.retry_count,
            kill_terms(options),
            rules_of(options),
        )
