"""Events that an engine reports to a scheduler (Batsim protocol v4).

Each class is the ``data`` object of one event type; the date is carried next to
it, in :class:`~qops_batsim.protocol.messages.Stamped`. The same objects travel
in process and, encoded as JSON, over the wire.
"""

from __future__ import annotations

from typing import Any, ClassVar, get_args

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.system import HostDescription
from qops_batsim.jobs import Job

NO_MORE_STATIC_JOBS = "no_more_static_job_to_submit"
MACHINES_AWAY = "event_machine_unavailable"
MACHINES_BACK = "event_machine_available"
NO_MORE_EXTERNAL_EVENTS = "no_more_external_event_to_occur"
JOB_CANCELLED = "job_cancelled"
"""Of ours: a user cancels a job that waits (``job_id``)."""
MAINTENANCE = "maintenance"
"""Of ours: hosts (``resources``) will be away from one date to another (``start``, ``end``)."""

JOB_RUNS = "job_runs"
"""Of ours: a job runs that the module has not started, and is told to have ended like any other.

``job_id``, ``resources`` (its hosts), ``start``, and ``walltime`` (seconds), if it has one.
"""


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The engine's options in the ``config`` object of :class:`SimulationBegins`; all have
    defaults.

    Batsim 3.1 never forgets a profile, and does not tell whether it may be reused.
    """

    redis_enabled: bool = False
    redis_hostname: str = "127.0.0.1"
    redis_port: int = 6379
    redis_prefix: str = "default"
    profiles_forwarded_on_submission: bool = False
    dynamic_jobs_enabled: bool = False
    dynamic_jobs_acknowledged: bool = False
    profile_reuse_enabled: bool | msgspec.UnsetType = msgspec.UNSET
    sched_config: str = ""
    forward_unknown_events: bool = False


class SimulationBegins(msgspec.Struct, frozen=True, kw_only=True):
    """First event of a simulation: the hosts, the engine's options, and the jobs' execution
    profiles.
    """

    TYPE: ClassVar = "SIMULATION_BEGINS"
    nb_resources: int
    nb_compute_resources: int
    nb_storage_resources: int = 0
    allow_compute_sharing: bool = False
    allow_storage_sharing: bool = True
    config: EngineConfig
    compute_resources: list[HostDescription]
    storage_resources: list[HostDescription] = []
    workloads: dict[str, str] = {}
    profiles: dict[str, dict[str, dict[str, Any]]] = {}


class SimulationEnds(msgspec.Struct, frozen=True):
    """Last event of a simulation: nothing more will happen."""

    TYPE: ClassVar = "SIMULATION_ENDS"


class JobSubmitted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user submitted a job; ``profile`` is given only if the engine forwards execution
    profiles.
    """

    TYPE: ClassVar = "JOB_SUBMITTED"
    job_id: str
    job: Job
    profile: dict[str, Any] | None = None


class JobCompleted(msgspec.Struct, frozen=True):
    """A job has ended: by itself, at its walltime, or killed."""

    TYPE: ClassVar = "JOB_COMPLETED"
    job_id: str
    job_state: str
    return_code: int
    alloc: HostSet


class JobKilled(msgspec.Struct, frozen=True):
    """The engine has carried out a KILL_JOB decision; ``job_progress`` is of the jobs that were
    really killed.
    """

    TYPE: ClassVar = "JOB_KILLED"
    job_ids: list[str]
    job_progress: dict[str, dict[str, Any]] = {}


class RequestedCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """The date for which a scheduler asked by CALL_ME_LATER has come.

    In Batsim 5 the call has the name ``call_id``; ``last`` tells that it is the last of several.
    """

    TYPE: ClassVar = "REQUESTED_CALL"
    call_id: str = ""
    last: bool = False


class HostsInState(msgspec.Struct, frozen=True):
    """Some hosts, and the power state that they are in or shall get."""

    resources: HostSet
    state: str


class ResourceStateChanged(HostsInState, frozen=True):
    """Hosts have reached the power state that the scheduler asked for."""

    TYPE: ClassVar = "RESOURCE_STATE_CHANGED"


class JobMessage(msgspec.Struct, frozen=True):
    """A message from a job to the scheduler or from the scheduler to a job."""

    job_id: str
    msg: Any


class FromJobMessage(JobMessage, frozen=True):
    """A running job has sent a message to the scheduler."""

    TYPE: ClassVar = "FROM_JOB_MSG"


class OpenObject:
    """An event or decision whose JSON object may have any fields; they are kept in ``fields``."""

    __slots__ = ("fields",)
    TYPE: ClassVar[str]

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fields!r})"


class Notify(OpenObject):
    """A notification: its ``type`` says what happened, further fields depend on the type.

    From Batsim: ``no_more_static_job_to_submit``, ``event_machine_available``…, and external events
    it was told to forward. From a scheduler: ``registration_finished``, ``continue_registration``.
    """

    __slots__ = ()
    TYPE = "NOTIFY"

    @classmethod
    def of(cls, type: str, **fields: Any) -> Notify:  # noqa: A002 - the field's name in Batsim
        """Return a notification of the given type with further fields."""
        return cls({"type": type, **fields})

    @property
    def type(self) -> str:
        return str(self.fields.get("type", ""))


class Query(OpenObject):
    """A question of the engine or the scheduler, such as ``{"requests": {"consumed_energy": {}}}``.

    Batsim asks for ``estimate_waiting_time``; a scheduler asks for ``consumed_energy``.
    """

    __slots__ = ()
    TYPE = "QUERY"


class Answer(OpenObject):
    """The answer to a :class:`Query`, such as the consumed energy."""

    __slots__ = ()
    TYPE = "ANSWER"


Event = (
    SimulationBegins
    | SimulationEnds
    | JobSubmitted
    | JobCompleted
    | JobKilled
    | RequestedCall
    | ResourceStateChanged
    | FromJobMessage
    | Notify
    | Query
    | Answer
)

EVENT_TYPES = {kind.TYPE: kind for kind in get_args(Event)}
"""Every event type of the protocol by its name on the wire."""


def told_in_text(text: str) -> dict[str, Any]:
    """Return the Batsim 4 event that is written as JSON in a Batsim 5 event's text; {} if there is
    none.

    >>> told_in_text('{"type": "machine_unavailable", "resources": "0-3"}')["resources"]
    '0-3'
    """
    try:
        fields = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return fields if isinstance(fields.get("type"), str) else {}
