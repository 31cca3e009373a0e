"""Decisions of a scheduler, including those that only Batsim 5 has.

Each class of a :data:`Decision` is the ``data`` object of one decision type of the protocol of
Batsim 4; see :mod:`qops_batsim.protocol.events`.
"""

from __future__ import annotations

from typing import Any, ClassVar, get_args

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.jobs import Job
from qops_batsim.protocol.events import Answer as Answer
from qops_batsim.protocol.events import HostsInState, JobMessage
from qops_batsim.protocol.events import Notify as Notify
from qops_batsim.protocol.events import Query as Query


class ExecuteJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """Start a submitted job on these hosts.

    ``mapping`` gives, for each executor, the index of its host within ``alloc``,
    ``storage_mapping`` the storage host of each label. Batsim merges the profile of an
    ``additional_io_job`` into the job's.
    """

    TYPE: ClassVar = "EXECUTE_JOB"
    job_id: str
    alloc: HostSet
    mapping: dict[str, str] | None = None
    storage_mapping: dict[str, int] | None = None
    additional_io_job: dict[str, Any] | None = None


class RejectJob(msgspec.Struct, frozen=True):
    """Refuse a submitted job for good."""

    TYPE: ClassVar = "REJECT_JOB"
    job_id: str


class KillJob(msgspec.Struct, frozen=True):
    """Kill running jobs; the engine answers with JOB_COMPLETED for each job and one JOB_KILLED for
    all.
    """

    TYPE: ClassVar = "KILL_JOB"
    job_ids: list[str]


class CallMeLater(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ask the engine for a REQUESTED_CALL event at a later date (seconds)."""

    TYPE: ClassVar = "CALL_ME_LATER"
    timestamp: float
    call_id: str = ""


class RegisterJob(msgspec.Struct, frozen=True):
    """Submit a new job during the simulation; its execution profile must exist in its workload."""

    TYPE: ClassVar = "REGISTER_JOB"
    job_id: str
    job: Job


class RegisterProfile(msgspec.Struct, frozen=True):
    """Add an execution profile to a workload; the workload is made if it does not exist."""

    TYPE: ClassVar = "REGISTER_PROFILE"
    workload_name: str
    profile_name: str
    profile: dict[str, Any]


class SetJobMetadata(msgspec.Struct, frozen=True):
    """Attach a text to a job; Batsim writes it to the last column of ``_jobs.csv``."""

    TYPE: ClassVar = "SET_JOB_METADATA"
    job_id: str
    metadata: str


class ChangeJobState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Set a job's state, for schedulers that execute jobs themselves instead of the engine."""

    TYPE: ClassVar = "CHANGE_JOB_STATE"
    job_id: str
    job_state: str
    kill_reason: str | None = None


class SetResourceState(HostsInState, frozen=True):
    """Switch hosts to another power state."""

    TYPE: ClassVar = "SET_RESOURCE_STATE"


class ToJobMessage(JobMessage, frozen=True):
    """Send a message to a running job."""

    TYPE: ClassVar = "TO_JOB_MSG"


Decision = (
    ExecuteJob
    | RejectJob
    | KillJob
    | CallMeLater
    | RegisterJob
    | RegisterProfile
    | SetJobMetadata
    | ChangeJobState
    | SetResourceState
    | ToJobMessage
    | Query
    | Notify
    | Answer
)

DECISION_TYPES = {kind.TYPE: kind for kind in get_args(Decision)}
"""Every decision type of the protocol by its name on the wire."""


class CallPeriodically(msgspec.Struct, frozen=True):
    """Ask the engine for an event every ``period`` seconds, ``count`` times or (None) until
    stopped.
    """

    TYPE: ClassVar = "CallMeLaterEvent"
    call_id: str
    period: float
    count: int | None


class ChangePowerState(HostsInState, frozen=True):
    """Put hosts into a power state at once, without the time and energy of a transition."""

    TYPE: ClassVar = "ChangeHostsPStateEvent"


class StopCalls(msgspec.Struct, frozen=True):
    """Stop the periodic calls named ``call_id``."""

    TYPE: ClassVar = "StopCallMeLaterEvent"
    call_id: str


class StopSimulation(msgspec.Struct, frozen=True):
    """End the simulation now, even if jobs are running or waiting."""

    TYPE: ClassVar = "ForceSimulationStopEvent"


AnyDecision = Decision | CallPeriodically | ChangePowerState | StopCalls | StopSimulation
"""Decisions of a decision process of any version; the last four are Batsim 5's alone."""
