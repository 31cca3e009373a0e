"""The contract between a scheduler and whatever drives it.

A decision module is told what happens and is asked once, after all events of a
message, what to do. It keeps its own state, reads no clock, and draws random
numbers only from a generator seeded by its options, so equal events give equal
decisions under every engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from qops_batsim.core.options import Grace as Grace
from qops_batsim.core.options import PlannerOptions as PlannerOptions
from qops_batsim.core.options import SchedulerOptions as SchedulerOptions
from qops_batsim.core.options import seconds as seconds
from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import HostDescription, JobCompleted, Notify
from qops_batsim.scheduling.decision_log import DecisionLog
from qops_batsim.scheduling.engine_needs import EngineNeeds
from qops_batsim.scheduling.qos_log import QosLog

if TYPE_CHECKING:
    from qops_batsim.platform.model import Platform


class System(msgspec.Struct, frozen=True, kw_only=True):
    """Machine as a module knows it before the first job.

    A host's position is its id. With ``compute_sharing``, several jobs may run on one host;
    with ``dynamic_jobs``, the module may register jobs. ``profiles`` are execution profiles
    by workload and name, as far as announced.
    """

    hosts: tuple[HostDescription, ...]
    compute_sharing: bool = False
    dynamic_jobs: bool = False
    profiles: Mapping[str, Mapping[str, Mapping[str, Any]]] = {}


class DecisionModule:
    """Base of every scheduler.

    For each message of the engine, the driver calls :meth:`submitted`,
    :meth:`completed` and the others in the order of the events, then
    :meth:`decide` once.

    >>> from qops_batsim.protocol.decisions import RejectJob
    >>> class RejectAll(DecisionModule):
    ...     def begin(self, system):
    ...         self.waiting = []
    ...     def submitted(self, job):
    ...         self.waiting.append(job.id)
    ...     def decide(self, now):
    ...         rejected, self.waiting = self.waiting, []
    ...         return [RejectJob(job_id) for job_id in rejected]
    >>> from qops_batsim import simulate
    >>> {record.state for record in simulate(RejectAll, "tiny_8").ended}
    {'REJECTED'}

    Parameters
    ----------
    options
        An instance of the class's ``Options``; defaults when None.

    Attributes
    ----------
    qos_log
        Where the module may note what it knows of a job beyond its decisions,
        for ``PREFIX_qos.csv``: ``self.qos_log.record(job.id).reason = "..."``.
        The driver puts a new log here before :meth:`begin`.
    decision_log
        Where every decision and its effects are noted, for ``PREFIX_decisions.jsonl``,
        or None. Schedulers with a plan
        (:meth:`~qops_batsim.scheduling.space_sharing.SpaceSharingScheduler.new_plan`) fill
        it by themselves, others with
        :meth:`~qops_batsim.scheduling.decision_log.DecisionLog.note`.
    """

    summary: ClassVar[str] = ""
    """One line for ``qops-batsim schedulers``."""

    Options: ClassVar[type[SchedulerOptions]] = SchedulerOptions

    keeps_decisions: ClassVar[bool] = False
    """Whether the scheduler fills :attr:`decision_log`, which ``quote`` and ``explain`` read."""

    needs_deadlines: ClassVar[bool] = False
    """Whether the scheduler is of interest only where jobs have deadlines."""

    news_in_parts: bool = False
    """Whether what happens at one date is told within nanoseconds, in several messages.

    So it is on links without latency. The program that starts the engine sets it, if it knows.
    """

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        self.options = options if options is not None else self.Options()
        self.qos_log = QosLog()
        self.decision_log: DecisionLog | None = None

    def keep_decisions(self) -> bool:
        """Have every decision noted in :attr:`decision_log`; tell whether this scheduler can.

        Call it before the simulation; :func:`~qops_batsim.running.simulate.write_run`
        writes the log.
        """
        if self.keeps_decisions:
            self.decision_log = DecisionLog()
        return self.keeps_decisions

    @property
    def needs(self) -> EngineNeeds:
        """Needs of the scheduler, with its options, beside running jobs."""
        return EngineNeeds()

    @property
    def hears_of_cancellations(self) -> bool:
        """Whether it takes jobs out of its queue that their users cancel; ``live`` needs that.

        A scheduler without queue of ours says so itself, where :meth:`notified` does it.
        """
        return False

    @property
    def hears_of_others(self) -> bool:
        """Whether it can be told of jobs that somebody else has started."""
        return False

    def planned_starts(self) -> dict[str, float]:
        """Return the planned starts of waiting jobs by id (seconds), as far as there are."""
        return {}

    def use_platform(self, platform: Platform) -> None:
        """Learn the platform, where the program that starts the engine knows it.

        Called before :meth:`begin`, if at all. The protocol tells neither the speeds
        of hosts nor anything of the network.
        """

    def begin(self, system: System) -> None:
        """Start a simulation; called once, before everything else."""

    def told_at(self, now: float) -> None:
        """Hear the date of a message (seconds), before its events."""

    def submitted(self, job: Job) -> None:
        """Handle the submission of a job."""

    def completed(self, event: JobCompleted) -> None:
        """Handle that a job has left its hosts, by itself or killed."""

    def progressed(self, progress: Mapping[str, Mapping[str, Any]]) -> None:
        """Learn how far killed jobs had come; called before :meth:`killed`."""

    def killed(self, job_ids: list[str]) -> None:
        """Handle that an own KILL_JOB was carried out, for these jobs."""

    def call(self) -> None:
        """Handle that a date asked for with CALL_ME_LATER has come."""

    def notified(self, notification: Notify) -> None:
        """Handle any other notification."""

    def end(self) -> None:
        """Handle the end of the simulation."""

    def decide(self, now: float) -> list[Decision]:
        """Return what to do at this date (seconds), after all events of the message."""
        raise NotImplementedError
