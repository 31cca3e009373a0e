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

from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import HostDescription, JobCompleted, Notify
from qops_batsim.scheduling.qos_log import QosLog

if TYPE_CHECKING:
    from qops_batsim.platform.model import Platform


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every scheduler's options: one typed field each, all with defaults.

    Document a field with ``Annotated[type, msgspec.Meta(description=...,
    extra={"unit": ...})]``; constraints such as ``ge=0`` go there as well.
    """


class System(msgspec.Struct, frozen=True, kw_only=True):
    """What a module knows of the machine before the first job.

    Attributes
    ----------
    hosts
        The compute hosts; the position is the host id.
    compute_sharing
        Whether several jobs may run on one host.
    dynamic_jobs
        Whether the module may register jobs.
    profiles
        Execution profiles by workload and name, as far as announced.
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
    """

    summary: ClassVar[str] = ""
    """One line for ``qops-batsim schedulers``."""

    Options: ClassVar[type[SchedulerOptions]] = SchedulerOptions

    needs_deadlines: ClassVar[bool] = False
    """Whether the scheduler is of interest only where jobs have deadlines."""

    wants_compute_sharing: ClassVar[bool] = False
    """Whether the scheduler is meant for engines that let several jobs run on one host."""

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        self.options = options if options is not None else self.Options()
        self.qos_log = QosLog()

    @property
    def needs_dynamic_jobs(self) -> bool:
        """Whether the scheduler, with its options, registers jobs."""
        return False

    @classmethod
    def prepare(cls) -> None:
        """Load what is slow to load (compiled kernels) before the first message."""

    def use_platform(self, platform: Platform) -> None:
        """Take note of the platform, where whoever starts the engine knows it.

        Called before :meth:`begin`, if at all. The protocol tells neither the speeds
        of hosts nor anything of the network.
        """

    def begin(self, system: System) -> None:
        """Start a simulation; called once, before everything else."""

    def submitted(self, job: Job) -> None:
        """Take note that a user has submitted a job."""

    def completed(self, event: JobCompleted) -> None:
        """Take note that a job has left its hosts, by itself or killed."""

    def progressed(self, progress: Mapping[str, Mapping[str, Any]]) -> None:
        """Take note how far jobs had come that were killed; called before :meth:`killed`."""

    def killed(self, job_ids: list[str]) -> None:
        """Take note that an own KILL_JOB was carried out, for these jobs."""

    def call(self) -> None:
        """Take note that a date asked for with CALL_ME_LATER has come."""

    def notified(self, notification: Notify) -> None:
        """Take note of any other notification."""

    def end(self) -> None:
        """Take note that the simulation is over."""

    def decide(self, now: float) -> list[Decision]:
        """Return what to do at this date (seconds), after all events of the message."""
        raise NotImplementedError
