"""FQoPS: QoPS with feedback, tolerance, slack, kill-and-restart (Islam et al. 2004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.economics.tolerance import FixedTolerance, RandomTolerance, Tolerance
from qops_batsim.jobs import COMPLETED_KILLED, QOS_REJECTED, Job
from qops_batsim.protocol.decisions import KillJob, RegisterJob, SetJobMetadata
from qops_batsim.protocol.events import NO_MORE_STATIC_JOBS, JobCompleted, Notify
from qops_batsim.scheduling.admission.options import FqopsOptions
from qops_batsim.scheduling.engine_needs import EngineNeeds
from qops_batsim.scheduling.module import SchedulerOptions, System
from qops_batsim.scheduling.refusal import Refusal, RefusalKind
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.admission.feedback import OfferTerms
    from qops_batsim.scheduling.answers import AdmissionAnswer, Kill
    from qops_batsim.scheduling.plan import Plan
    from qops_batsim.scheduling.qos_log import QosLog


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
        self._kills: dict[str, Kill] = {}
        self._dead: list[tuple[Kill, bool]] = []
        self._restarted: set[str] = set()
        self._registering = False
        self._all_submitted = False

    @property
    def needs(self) -> EngineNeeds:
        """To register killed jobs again, where jobs are killed."""
        kills = self.options.kill_and_restart
        return EngineNeeds(dynamic_jobs=kills, profile_reuse=kills, why="kill_and_restart is on")

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
        from qops_batsim.scheduling.admission.qops_search import QopsSearch, rules_of
        from qops_batsim.scheduling.plan import Plan

        search, rules = QopsSearch(self.options), rules_of(self.options)
        return Plan(machine_size, FeedbackAdmission(search, rules, self.terms, self.tolerance()))

    @property
    def terms(self) -> OfferTerms:
        """The options for the kernels."""
        from qops_batsim.scheduling.admission.feedback import OfferTerms

        options, most = self.options, self.options.max_kills_per_job
        return OfferTerms(
            float(options.slack_factor),
            options.retry_count,
            options.kill_and_restart,
            -1 if most is None else most,
            float(options.kill_after),
        )

    def begin(self, system: System) -> None:
        """Start with an empty plan."""
        super().begin(system)
        self._kills = {}
        self._dead = []
        self._restarted = set()
        self._registering = system.dynamic_jobs
        self._all_submitted = False

    def submitted(self, job: Job) -> None:
        """Queue a job, unless it is the announcement of one that was registered here."""
        if job.id not in self._restarted:
            super().submitted(job)

    def completed(self, event: JobCompleted) -> None:
        """Take the job's hosts back; one that was to be killed is registered again if it was."""
        super().completed(event)
        kill = self._kills.pop(event.job_id, None)
        if kill is not None:
            self._dead.append((kill, event.job_state == COMPLETED_KILLED))

    def notified(self, notification: Notify) -> None:
        """Learn that users submit nothing more, and what every scheduler learns."""
        super().notified(notification)
        if notification.type == NO_MORE_STATIC_JOBS:
            self._all_submitted = True

    def schedule(self, now: float) -> None:
        """Register what was killed, then admit, refuse, kill and start."""
        for kill, was_killed in self._dead:
            self._run_again(now, kill, was_killed)
        self._dead.clear()
        self._victims: list[str] = []
        super().schedule(now)
        if self._victims:
            self._decisions.append(KillJob(self._victims))
        if self._registering and self._all_submitted and not self._kills:
            # Only new jobs lead to kills. Batsim goes on until it hears this.
            self._registering = False
            self._decisions.append(Notify.of("registration_finished"))

    def _run_again(self, now: float, kill: Kill, was_killed: bool) -> None:
        """Register a killed job again; drop it from the plan if it has ended by itself."""
        plan = self._planned()
        if not was_killed:
            plan.undo_kill(kill)
            return
        original, sake = (plan.table.original(slot).id for slot in (kill.slot, kill.sake))
        self._restarted.add(kill.again.id)
        wasted = kill.victim.processors * (now - kill.since)
        again, killed = kill.again.id, kill.victim.id
        told = note_restart(self.qos_log, again, original, killed, sake, wasted)
        self._decisions += (RegisterJob(again, kill.again), SetJobMetadata(again, told))
        plan.release(kill.slot)
        # Hosts may have gone for ever since the kill.
        self._may_be_too_wide = self.capacity.is_final

    def reject(self, job: Job, reason: str | Refusal) -> None:
        """Reject a job that waits, also one that has been run before."""
        super().reject(job, reason)
        if job.id in self._restarted:
            original = self.original_id(self._planned().table.slot_of(job.id))
            record = self.qos_log.record(original)
            record.decision, record.reasons = QOS_REJECTED, self.qos_log.record(job.id).reasons

    def original_id(self, slot: int) -> str:
        """Return the id under which a job was submitted, which may be run again."""
        return self._planned().table.original(slot).id

    def answered(self, slot: int, answer: AdmissionAnswer) -> None:
        """Note an offer and a kill, and what every scheduler notes."""
        offer, kill = answer.offer, answer.kill
        job = self._planned().table.jobs[slot]
        if offer is not None:
            # Before a rejection, with which Batsim is done with a job.
            told = offer.note(self.qos_log.record(job.id))
            self._decisions.append(SetJobMetadata(job.id, told))
        super().answered(slot, answer)
        if kill is not None:
            self._kills[kill.victim.id] = kill
            self._victims.append(kill.victim.id)


def note_restart(
    log: QosLog, again: str, original: str, killed: str, sake: str, wasted: float
) -> str:
    """Log that a killed job runs again, and return its metadata.

    Parameters
    ----------
    again, original, killed
        Identifiers of the job: from now on, as it was submitted, and as it was killed.
    sake
        Identifier of the job for which it was killed.
    wasted
        Work that was lost (processor-seconds).
    """
    log.restarted(again, original)
    record = log.record(original)
    record.wasted_processor_seconds = (record.wasted_processor_seconds or 0.0) + wasted
    log.record(sake).reasons = (Refusal(kind=RefusalKind.KILLED_FOR_IT, blamed=killed),)
    return f"restart_of={original};killed_for={sake}"
