"""Driving a scheduler by messages: events become calls, decisions become messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qops_batsim.core.host_properties import are_shared
from qops_batsim.core.qos_log import QosLog
from qops_batsim.core.system import System
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import Decision, ExecuteJob, RegisterJob, RejectJob
from qops_batsim.protocol.engine_needs import SHARING_OPTION, missing_options
from qops_batsim.protocol.events import (
    Event,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    Notify,
    RequestedCall,
    SimulationBegins,
    SimulationEnds,
)
from qops_batsim.protocol.messages import Message, Stamped
from qops_batsim.protocol.port import SchedulerModule
from qops_batsim.schedulers.registry import registered_name

LAST_DECIMAL = 1e-6
"""Unit of the last decimal of the dates that Batsim tells (seconds).

It rounds its clock to them. Decisions of a date that was rounded up would wait for that date;
those of an earlier one take effect at once. So they are dated by so much earlier.
"""


class ModuleDriver:
    """Drives a scheduler in a simulation: calls it with the engine's events, returns its decisions.

    The same driver serves the embedded engine in the same process and any engine over a socket.
    Events that no scheduler needs (answers, messages of jobs, power states) are ignored.

    Parameters
    ----------
    any_engine
        Accept an engine without features that the scheduler wants but can do without.

    Attributes
    ----------
    log
        What the scheduler has decided and recorded about each job so far; the module's ``qos_log``.
    """

    def __init__(self, module: SchedulerModule, *, any_engine: bool = False) -> None:
        self.module = module
        self._any_engine = any_engine
        self._begin_log()
        self._handlers: dict[type, Callable[[Any], None]] = {
            JobKilled: self._killed,
            RequestedCall: lambda _: module.call(),
            Notify: module.notified,
            SimulationBegins: self._begins,
            SimulationEnds: lambda _: module.end(),
        }

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        """Give a message's events to the scheduler and return its decisions, dated as the message.

        InputError if the engine lacks a feature that the scheduler requires.
        """
        now = message.now
        date = max(now - LAST_DECIMAL, 0.0)
        decisions = self.decisions_on(now, [item.body for item in message.events])
        return Message(now, [Stamped(date, decision) for decision in decisions])

    def decisions_on(self, now: float, events: Sequence[Event]) -> list[Decision]:
        """Give events at the date ``now`` (seconds) to the scheduler and return its decisions.

        This is how an engine in the same process asks, without messages.
        """
        module = self.module
        kind: type = type(None)
        module.told_at(now)

        for event in events:
            # This runs for every job: the most frequent classes come first.
            kind = type(event)
            if isinstance(event, JobCompleted):
                module.completed(event)
            elif isinstance(event, JobSubmitted):
                self._jobs.append(event.job)
                module.submitted(event.job)
            elif kind in self._handlers:
                self._handlers[kind](event)

        if kind is SimulationEnds:
            return []
        decisions = module.decide(now)

        for decision in decisions:
            if type(decision) is ExecuteJob:
                self._started.append(decision.job_id)
            elif type(decision) is RejectJob:
                self.log.rejected.append(decision.job_id)
            elif type(decision) is RegisterJob:
                self._jobs.append(_with_full_id(decision))
        return decisions

    def _begin_log(self) -> None:
        self.log = QosLog()
        self.module.qos_log = self.log
        # Noted for every job: the log itself would look each time whether they are filled.
        self._jobs = self.log.jobs
        self._started = self.log.started

    def _begins(self, event: SimulationBegins) -> None:
        check_needs(self.module, event, any_engine=self._any_engine)
        self._begin_log()
        self.module.begin(system_of(event))

    def _killed(self, event: JobKilled) -> None:
        self.log.kills.update(event.job_ids)
        self.module.progressed(event.job_progress)
        self.module.killed(event.job_ids)


def _with_full_id(decision: RegisterJob) -> Job:
    job = decision.job
    return job if job.id == decision.job_id else job.renamed(decision.job_id)


def check_needs(module: SchedulerModule, event: SimulationBegins, *, any_engine: bool) -> None:
    """Raise an InputError if the engine lacks an option that the scheduler or the hosts require."""
    if event.config.redis_enabled:
        raise InputError(
            "the engine was started with --enable-redis, so its messages have no descriptions of "
            "jobs, and qops-batsim's schedulers do not read Redis; start the engine without it"
        )

    if not event.allow_compute_sharing:
        for host in event.compute_resources:
            if are_shared((host.properties,)):
                raise InputError(
                    f"host {shown(host.name)} has amounts that jobs share, but the engine was not "
                    f"started with {SHARING_OPTION}"
                )

    needs = module.needs
    missing = missing_options(needs, event)
    if not missing or (any_engine and needs.dispensable):
        return

    kind = type(module.scheduler)
    why = f"{needs.why}, but " if needs.why else ""
    raise InputError(
        f"scheduler {registered_name(kind) or kind.__name__!r}: {why}the engine was not "
        f"started with {' '.join(missing)}"
    )


def system_of(event: SimulationBegins) -> System:
    """Return the machine as the engine describes it at the beginning: hosts, options, execution
    profiles.
    """
    return System(
        hosts=tuple(event.compute_resources),
        compute_sharing=event.allow_compute_sharing,
        dynamic_jobs=event.config.dynamic_jobs_enabled,
        profiles=event.profiles,
    )
