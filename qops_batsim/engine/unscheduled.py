"""A simulation without a decision side, as Batsim's ``--no-sched``.

All jobs start at the beginning, whatever their dates of submission, each on the first hosts of the
machine, which they share. Batsim's help promises one job after the other; this is what it does.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from qops_batsim.engine.options import EngineOptions
from qops_batsim.engine.simulation import Simulation
from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.platform.model import Platform
from qops_batsim.protocol.decisions import Decision, ExecuteJob
from qops_batsim.protocol.events import Event, JobSubmitted
from qops_batsim.protocol.messages import Message, Stamped
from qops_batsim.workload.model import Workload


class _FirstHosts:
    """Starts every job at once on as many hosts as it asks for, from host 0 on."""

    def decisions_on(self, now: float, events: Sequence[Event]) -> list[Decision]:
        return [
            ExecuteJob(event.job_id, HostSet.first(event.job.processors))
            for event in events
            if isinstance(event, JobSubmitted)
        ]

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        decisions = self.decisions_on(message.now, [item.body for item in message.events])
        return Message(message.now, [Stamped(message.now, each) for each in decisions])


def unscheduled(
    platform: Platform, workloads: Sequence[Workload], options: EngineOptions
) -> Simulation:
    """Return a simulation in which all jobs start at the beginning, each on the first hosts."""
    options = msgspec.structs.replace(
        options, scheduled=False, compute_sharing=True, dynamic_jobs=False, message_delays=False
    )
    at_once = [
        msgspec.structs.replace(workload, jobs=[_at_once(job) for job in workload.jobs])
        for workload in workloads
    ]
    return Simulation(platform, at_once, _FirstHosts(), options)


def _at_once(job: Job) -> Job:
    return Job.from_fields({**job.fields, "subtime": 0.0}, where=job.id)
