"""The engine side of Batsim 5: our events and its decisions, in its terms.

What is decided is read as strictly as Batsim 5 does: it aborts on unknown fields and types, and on
dates that are out of order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.platform.platform_model import Host
from qops_batsim.protocol import decisions as d
from qops_batsim.protocol import events as e
from qops_batsim.protocol.messages import Message, MessageDecoder, Stamped, check_now, rounded_value
from qops_batsim.protocol.v5.handshake import VERSION, Features, greeting, read_answer
from qops_batsim.protocol.v5.profiles import (
    JobBody,
    ProfileAndId,
    body_of,
    full_id,
    job_of,
    of_message,
    to_message,
)

DECIMALS = 12
"""Decimals of numbers in messages."""

ATOMIC, SEQUENTIAL = "KillProgressAtomicProfile", "KillProgressSequentialProfile"

_SECONDS = {"Second": 1.0, "Millisecond": 1e-3}


Switch = d.SetResourceState | d.ChangePowerState


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    """Base class of a decision's parts in which Batsim 5 refuses unknown fields."""


class _Placement(_Strict):
    strategy: Literal["SpreadOverHostsFirst", "FillOneHostCoresFirst"] = "SpreadOverHostsFirst"


class _Mapping(_Strict):
    mapping: list[int] = []


class _Allocation(_Strict):
    host_allocation: str
    executor_placement_type: Literal[
        "PredefinedExecutorPlacementStrategyWrapper", "CustomExecutorToHostMapping"
    ]
    executor_placement: msgspec.Raw


class _Storage(_Strict):
    storage_name: str
    host_id: int = 0


class _Execute(_Strict):
    job_id: str
    allocation: _Allocation
    profile_allocation_override: list[Any] = []
    storage_placement: list[_Storage] = []


class _Reject(_Strict):
    job_id: str


class _Kill(_Strict):
    job_ids: list[str]


class _CallLater(_Strict):
    call_me_later_id: str
    when_type: Literal["OneShot", "Periodic"]
    when: msgspec.Raw


class _OneShot(_Strict):
    time: int = 0
    time_unit: Literal["Second", "Millisecond"] = "Second"


class _Periodic(_Strict):
    period: int = 0
    offset: int = 0
    time_unit: Literal["Second", "Millisecond"] = "Second"
    mode_type: Literal["Infinite", "FinitePeriodNumber"] = "Infinite"
    mode: dict[str, int] = {}


class _StopCalls(_Strict):
    call_me_later_id: str


class _StrictProfile(ProfileAndId, forbid_unknown_fields=True):
    pass


class _RegisterProfile(_Strict):
    profile: _StrictProfile


class _StrictJob(JobBody, forbid_unknown_fields=True):
    rigid: bool = True


class _RegisterJob(_Strict):
    job_id: str
    job: _StrictJob


class _TurnOnOff(_Strict):
    host_ids: str
    state: int = 0


class _ChangePowerState(_Strict):
    host_ids: str
    pstate: int = 0


class _Finish(_Strict):
    pass


class _ForceStop(_Strict):
    pass


class _CreateProbe(msgspec.Struct):
    pass


_messages = MessageDecoder(
    {
        "ExecuteJobEvent": _Execute,
        "RejectJobEvent": _Reject,
        "KillJobsEvent": _Kill,
        "CallMeLaterEvent": _CallLater,
        "StopCallMeLaterEvent": _StopCalls,
        "RegisterProfileEvent": _RegisterProfile,
        "RegisterJobEvent": _RegisterJob,
        "FinishRegistrationEvent": _Finish,
        "ForceSimulationStopEvent": _ForceStop,
        "TurnOnOffHostsEvent": _TurnOnOff,
        "ChangeHostsPStateEvent": _ChangePowerState,
        "CreateProbeEvent": _CreateProbe,
    },
    "event_type",
    "event",
)


class EngineSide:
    """Reads and writes Batsim 5's messages on the engine's side, in one simulation.

    Parameters
    ----------
    configuration
        Text for the decision process, sent in the first frame.
    hosts, storages
        The compute hosts in use, and the storage hosts.
    version, arguments, context
        The engine's version, its command line, and a JSON text, all sent in the first event.
    event_lists
        Files of external events, in order.
    """

    def __init__(
        self,
        configuration: str,
        hosts: Sequence[Host],
        storages: Sequence[Host] = (),
        *,
        version: str,
        arguments: Sequence[str] = (),
        context: str = "{}",
        event_lists: Sequence[str] = (),
    ) -> None:
        self._configuration = configuration
        self._hosts = hosts
        self._storages = storages

        self._about = {
            "batprotocol_version": VERSION,
            "batsim_version": version,
            "batsim_commit": "",
        }
        self._told = {"batsim_arguments": list(arguments), "batsim_execution_context_json": context}
        self._event_lists = [
            {"name": f"ee{number}", "filename": name} for number, name in enumerate(event_lists)
        ]

        self.features = Features()
        self._touched = 0.0
        self._profiles: dict[str, dict[str, dict[str, Any]]] = {}
        self._jobs: dict[str, Job] = {}
        self._switches: dict[tuple[str, str], tuple[str, str]] = {}
        self._now = 0.0

    def greeting(self) -> bytes:
        """Return the engine's first frame, which hands the configuration to the decision
        process.
        """
        return greeting(self._configuration)

    def read_hello(self, frame: bytes) -> Features:
        """Return the features that the decision process requests in its answer to the first
        frame.
        """
        self.features = read_answer(frame).requested_simulation_features
        return self.features

    # Events

    def encode(self, message: Message[e.Event]) -> bytes:
        """Return events as a message of Batsim 5: JSON text with a trailing NUL."""
        items = []
        self._now = message.now
        for item in message.events:
            kind, data, is_stale = self._said(item.body)
            if not is_stale:
                self._touched = item.timestamp
            items.append({"timestamp": self._touched, "event_type": kind, "event": data})
        self._touched = message.now
        text = msgspec.json.encode({"now": message.now, "events": items})
        return text + b"\0"

    def _said(self, event: e.Event) -> tuple[str, Any, bool]:
        """Return an event's type and content, and whether Batsim 5 stamps it with an earlier
        event's date.
        """
        match event:
            case e.SimulationBegins():
                return "SimulationBeginsEvent", self._begins(event), False
            case e.JobSubmitted(job_id, job, profile):
                return "JobSubmittedEvent", self._submitted(job_id, job, profile), False
            case e.JobCompleted(job_id, state, code):
                told = {"job_id": job_id, "state": state, "return_code": code & 0xFFFFFFFF}
                return "JobCompletedEvent", told, False
            case e.JobKilled(job_ids, progress):
                return "JobsKilledEvent", self._killed(job_ids, progress), False
            case e.RequestedCall(call_id, last):
                call = {"call_me_later_id": call_id, "last_periodic_call": last}
                return "RequestedCallEvent", call, False
            case e.ResourceStateChanged(hosts, state):
                kind, field = self._switches[str(hosts), state]
                return kind, {"host_ids": str(hosts), field: int(state)}, True
            case e.SimulationEnds():
                return "SimulationEndsEvent", {}, False
            case e.Notify():
                return _notice(event)
        raise NotImplementedError(type(event).__name__)

    def _begins(self, event: e.SimulationBegins) -> dict[str, Any]:
        self._profiles = event.profiles
        told = []
        if self.features.forward_profiles_on_simulation_begins:
            told = [
                _profile(workload, name, profile)
                for workload, profiles in sorted(event.profiles.items())
                for name, profile in sorted(profiles.items())
            ]

        count = len(self._hosts)
        return {
            **self._about,
            "host_number": count + len(self._storages),
            "computation_host_number": count,
            "computation_hosts": [_host(n, host) for n, host in enumerate(self._hosts)],
            "storage_host_number": len(self._storages),
            "storage_hosts": [_host(n, host) for n, host in enumerate(self._storages, count)],
            **self._told,
            "workloads": [{"name": n, "filename": path} for n, path in event.workloads.items()],
            "profiles": told,
            "external_event_lists": self._event_lists,
        }

    def _submitted(self, job_id: str, job: Job, profile: dict[str, Any] | None) -> dict[str, Any]:
        workload = job_id.partition("!")[0]
        self._jobs[job_id] = job
        body = body_of(job, job_id, job.fields.get("extra_data"))

        told: dict[str, Any] = {
            "resource_request": body.resource_request,
            "walltime": None if body.walltime is None else round(body.walltime, DECIMALS),
            "extra_data": body.extra_data or "",
            "rigid": True,
            "profile_id": body.profile_id,
        }

        data = {
            "job_id": job_id,
            "job": told,
            "submission_time": round(job.submission_time, DECIMALS),
        }

        if profile is not None:
            data["profile"] = _profile(*_parts(full_id(workload, job.profile)), profile)
        return data

    def _killed(self, job_ids: list[str], progress: dict[str, dict[str, Any]]) -> dict[str, Any]:
        workload_of = {job_id: job_id.partition("!")[0] for job_id in job_ids}
        told: dict[str, Any] = {
            "job_ids": job_ids,
            "progresses": [
                {"job_id": job_id, "wrapper": self._progress(workload_of[job_id], share)}
                for job_id, share in progress.items()
            ],
        }
        if self.features.forward_profiles_on_jobs_killed:
            names = [full_id(workload_of[job_id], self._jobs[job_id].profile) for job_id in job_ids]
            parts = [_parts(name) for name in dict.fromkeys(names)]
            told["profiles"] = [_profile(w, n, self._profiles[w][n]) for w, n in parts]
        return told

    def _progress(self, workload: str, told: dict[str, Any]) -> dict[str, Any]:
        name = full_id(workload, told["profile_name"])
        if "current_task" not in told:
            data = {"profile_id": name, "progress": told["progress"]}
            return {"kill_progress_type": ATOMIC, "kill_progress": data}

        home, local = _parts(name)
        tasks = len(self._profiles[home][local]["seq"])
        repetition, task = divmod(told["current_task_index"], tasks)
        data = {
            "profile_id": name,
            "current_repetition": repetition,
            "current_task_index": task,
            "current_task_progress": self._progress(workload, told["current_task"]),
        }
        return {"kill_progress_type": SEQUENTIAL, "kill_progress": data}

    # Decisions

    def decode(self, text: bytes) -> Message[Any]:
        """Return the decisions in a message; an InputError names the field on which Batsim 5 would
        abort.
        """
        told = _messages.decode(text.rstrip(b"\0"))
        check_now(told.now)
        found: list[Stamped[Any]] = []

        before = -math.inf

        for index, item in enumerate(told.events):
            where = f"message at {told.now:g} s, event {index} ({type(item.body).__name__[1:]})"
            date = item.timestamp
            if not before <= date <= told.now:
                raise InputError(
                    f"{where}: timestamp is {date:g} s; a date from that of the previous event to "
                    f"the message's own, {told.now:g} s, is expected"
                )

            before = date
            try:
                found.append(Stamped(date, self._decision(item.body)))
            except (InputError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise InputError(f"{where}: {error}") from None
        return Message(told.now, found)

    def _decision(self, told: Any) -> d.AnyDecision:
        match told:
            case _Execute():
                return self._execute(told)
            case _Reject(job_id):
                return d.RejectJob(job_id)
            case _Kill(job_ids):
                if not job_ids:
                    raise InputError("job_ids is []; at least one job is expected")
                return d.KillJob(job_ids)
            case _CallLater():
                return _call(told)
            case _StopCalls(call_id):
                return d.StopCalls(call_id)
            case _RegisterProfile(profile):
                workload, name, ours = of_message(profile)
                return d.RegisterProfile(workload, name, ours)
            case _RegisterJob(job_id, body):
                if job_id.count("!") != 1:
                    raise InputError(
                        f"job_id is {shown(job_id)}; WORKLOAD!NAME, such as 'w0!15', is expected"
                    )
                job = job_of(body, job_id, self._now, as_told=True)
                self._jobs[job_id] = job
                return d.RegisterJob(job_id, job)
            case _TurnOnOff(hosts, state):
                return self._switch(d.SetResourceState, hosts, state, "HostsTurnedOnOffEvent")
            case _ChangePowerState(hosts, state):
                return self._switch(d.ChangePowerState, hosts, state, "HostsPStateChangedEvent")
            case _Finish():
                return d.Notify.of("registration_finished")
            case _CreateProbe():
                raise InputError("CreateProbeEvent is not supported by the embedded engine")
        return d.StopSimulation()

    def _execute(self, told: _Execute) -> d.ExecuteJob:
        hosts = _hosts(told.allocation.host_allocation, "host_allocation")
        if told.profile_allocation_override:
            raise InputError(
                "profile_allocation_override is given, which the embedded engine does not support"
            )

        count = len(hosts)
        job = self._jobs.get(told.job_id)
        kind = told.allocation.executor_placement_type
        raw = told.allocation.executor_placement

        places: list[int] | None = None
        if kind == "CustomExecutorToHostMapping":
            places = msgspec.json.decode(raw, type=_Mapping).mapping
        elif msgspec.json.decode(raw, type=_Placement).strategy == "FillOneHostCoresFirst":
            every = list(hosts)
            cores = [n for n, host in enumerate(every) for _ in range(self._cores(host))]
            places = [
                cores[executor % len(cores)] for executor in range(job.processors if job else 0)
            ]
        elif job is not None and job.processors != count:
            places = [executor % count for executor in range(job.processors)]
        mapping = None if places is None else {str(n): str(place) for n, place in enumerate(places)}
        storages = {storage.storage_name: storage.host_id for storage in told.storage_placement}
        return d.ExecuteJob(told.job_id, hosts, mapping, storages or None)

    def _cores(self, host: int) -> int:
        return self._hosts[host].cores if host < len(self._hosts) else 1

    def _switch(
        self, made: type[Switch], hosts: str, state: int, kind: str
    ) -> d.SetResourceState | d.ChangePowerState:
        switched = _hosts(hosts, "host_ids")
        field = "state" if made is d.SetResourceState else "pstate"
        self._switches[str(switched), str(state)] = kind, field
        return made(switched, str(state))


def _hosts(text: str, field: str) -> HostSet:
    """Return the hosts named in the text of a field; empty texts and commas are refused, as in
    Batsim 5.
    """
    if not text.strip() or "," in text:
        raise InputError(
            f"{field} is {shown(text)}; host numbers with spaces between, such as '0-3 5', are "
            "expected"
        )
    return HostSet.parse(text)


def _call(told: _CallLater) -> d.CallMeLater | d.CallPeriodically:
    name = told.call_me_later_id
    if not name:
        raise InputError("call_me_later_id is empty; a name for the call is expected")
    if told.when_type == "OneShot":
        once = msgspec.json.decode(told.when, type=_OneShot)
        return d.CallMeLater(_seconds("time", once.time, once.time_unit, 0), name)
    often = msgspec.json.decode(told.when, type=_Periodic)
    if often.offset:
        raise InputError(
            f"offset of the periodic call is {often.offset}; 0, the only one supported, is expected"
        )
    count = often.mode.get("nb_periods", 0) if often.mode_type == "FinitePeriodNumber" else None
    return d.CallPeriodically(name, _seconds("period", often.period, often.time_unit, 1), count)


def _seconds(field: str, value: int, unit: str, least: int) -> float:
    most = round(MAX_SECONDS / _SECONDS[unit])
    if not least <= value <= most:
        raise InputError(
            f"{field} is {shown(value)}; a whole number from {least} to {most} is expected"
        )
    return value * _SECONDS[unit]


def _parts(name: str) -> tuple[str, str]:
    workload, _, local = name.partition("!")
    return workload, local


def _profile(workload: str, name: str, profile: dict[str, Any]) -> ProfileAndId:
    return to_message(workload, name, rounded_value(profile, DECIMALS))


def _host(number: int, host: Host) -> dict[str, Any]:
    def listed(properties: Mapping[str, str]) -> list[dict[str, str]]:
        return [{"key": key, "value": properties[key]} for key in sorted(properties)]

    return {
        "id": number,
        "name": host.name,
        "pstate": host.power_state,
        "pstate_count": len(host.speeds),
        "state": "IDLE",
        "properties": listed(host.properties),
        "zone_properties": listed(host.zone_properties),
        "core_count": host.cores,
        "computation_speed": list(host.speeds),
    }


def _notice(event: e.Notify) -> tuple[str, Any, bool]:
    if event.type == e.NO_MORE_STATIC_JOBS:
        return "AllStaticJobsHaveBeenSubmittedEvent", {}, False
    if event.type == e.NO_MORE_EXTERNAL_EVENTS:
        return "AllStaticExternalEventsHaveBeenInjectedEvent", {}, False
    data = {
        "id": event.fields.get("id", ""),
        "external_event_type": "GenericExternalEvent",
        "external_event": {"data": event.fields.get("data", "")},
    }
    return "ExternalEventOccurredEvent", data, True
