"""The decision side of Batsim 5: its messages become our events, our decisions its events.

Batsim 5 leaves out what a decision process can know by itself: where a job runs that has ended.
Two things it does in another way, which no scheduler notices. It calls in whole milliseconds; for
a date between two, the call is asked for at the one before, and its answer says that nothing is to
be heard until the date, and to be called then. And it switches hosts to sleep, and between power
states in which they compute, by two decisions for which ours has one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import msgspec

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.system import HostDescription
from qops_batsim.errors import InputError, SimulationError, shown
from qops_batsim.job_fields import extra_data_of, is_number
from qops_batsim.protocol import decisions as d
from qops_batsim.protocol import events as e
from qops_batsim.protocol.messages import Message, MessageDecoder, Stamped
from qops_batsim.protocol.v5.handshake import VERSION, Features, Hello, answer_of, read_greeting
from qops_batsim.protocol.v5.profiles import (
    JobBody,
    ProfileAndId,
    body_of,
    job_of,
    local_id,
    of_message,
    to_message,
)
from qops_batsim.timing import PLAN_TOLERANCE, TOLD_DECIMALS, up_to_grid

MILLISECONDS = 1000
"""Calls are asked for in these."""

_SOON = "at the date itself"
"""Identifier of the call that comes when the answer's date has come."""

SIGN = 1 << 31
"""Return codes of 32 bits from here on are below 0, wherever they are told without a sign."""


class _Property(msgspec.Struct):
    key: str
    value: str


class _Host(msgspec.Struct):
    id: int
    name: str
    state: str = "IDLE"
    pstate: int = 0
    properties: list[_Property] | None = None
    zone_properties: list[_Property] | None = None


class _Workload(msgspec.Struct):
    name: str
    filename: str = ""


class _SimulationBegins(msgspec.Struct):
    computation_host_number: int
    computation_hosts: list[_Host]
    storage_hosts: list[_Host] | None = None
    workloads: list[_Workload] | None = None
    profiles: list[ProfileAndId] | None = None


class _JobSubmitted(msgspec.Struct):
    job_id: str
    job: JobBody
    submission_time: float
    profile: ProfileAndId | None = None


class _JobCompleted(msgspec.Struct):
    job_id: str
    state: str
    return_code: int = 0


class _Progress(msgspec.Struct):
    kill_progress_type: str
    kill_progress: dict[str, Any]


class _JobProgress(msgspec.Struct):
    job_id: str
    wrapper: _Progress


class _JobsKilled(msgspec.Struct):
    job_ids: list[str]
    progresses: list[_JobProgress] | None = None


class _RequestedCall(msgspec.Struct):
    call_me_later_id: str


class _Generic(msgspec.Struct):
    data: str = ""


class _ExternalEvent(msgspec.Struct):
    id: str
    external_event: _Generic


class _TurnedOnOff(msgspec.Struct):
    host_ids: str
    state: int = 0


class _PowerStateChanged(msgspec.Struct):
    host_ids: str
    pstate: int = 0


class _JobsSubmitted(msgspec.Struct):
    pass


class _EventsInjected(msgspec.Struct):
    pass


class _SimulationEnds(msgspec.Struct):
    pass


class _ProbeData(msgspec.Struct):
    probe_id: str
    data: dict[str, Any] = {}


_messages = MessageDecoder(
    {
        "SimulationBeginsEvent": _SimulationBegins,
        "JobSubmittedEvent": _JobSubmitted,
        "JobCompletedEvent": _JobCompleted,
        "JobsKilledEvent": _JobsKilled,
        "RequestedCallEvent": _RequestedCall,
        "ExternalEventOccurredEvent": _ExternalEvent,
        "HostsTurnedOnOffEvent": _TurnedOnOff,
        "HostsPStateChangedEvent": _PowerStateChanged,
        "AllStaticJobsHaveBeenSubmittedEvent": _JobsSubmitted,
        "AllStaticExternalEventsHaveBeenInjectedEvent": _EventsInjected,
        "SimulationEndsEvent": _SimulationEnds,
        "ProbeDataEmittedEvent": _ProbeData,
    },
    "event_type",
    "event",
)

_STALE = (_ExternalEvent, _TurnedOnOff, _PowerStateChanged)
"""Events whose timestamp is of an earlier message."""

_UNUSED = (d.SetJobMetadata,)
"""Decisions that change no schedule and for which Batsim 5 has nothing: they are left out."""


class Batsim5Dialect:
    """Reads and writes Batsim 5's messages on the scheduler's side, in one simulation.

    Attributes
    ----------
    configuration
        The scheduler's configuration, a text from the engine's command line.
    """

    def __init__(self, first_frame: bytes) -> None:
        self.configuration = read_greeting(first_frame)
        self._features = Features()
        self._date = 0.0

        self._hosts_of: dict[str, HostSet] = {}
        self._killed: set[str] = set()

        # Shared with whoever was told of the beginning: it fills as profiles are told.
        self._profiles: dict[str, dict[str, dict[str, Any]]] = {}

        self._asked = 0
        self._calls: dict[str, float] = {}
        self._between: list[float] = []
        self._called_soon = False

        self._sleep_states: dict[int, set[int]] = {}
        self._asleep: set[int] = set()

        self._reads: dict[type, Callable[[Any], e.Event | None]] = {
            _SimulationBegins: self._begins,
            _JobSubmitted: self._submitted,
            _JobCompleted: self._completed,
            _JobsKilled: self._jobs_killed,
            _RequestedCall: self._call,
            _ExternalEvent: _happened,
            _TurnedOnOff: lambda it: self._switched(it.host_ids, it.state),
            _PowerStateChanged: lambda it: self._switched(it.host_ids, it.pstate),
            _JobsSubmitted: lambda _: e.Notify.of(e.NO_MORE_STATIC_JOBS),
            _EventsInjected: lambda _: e.Notify.of(e.NO_MORE_EXTERNAL_EVENTS),
            _SimulationEnds: lambda _: e.SimulationEnds(),
            _ProbeData: lambda it: e.Answer({"probe_id": it.probe_id, **it.data}),
        }
        self._writes: dict[type, Callable[[Any], tuple[str, Any]]] = {
            d.ExecuteJob: self._execute,
            d.RejectJob: lambda it: ("RejectJobEvent", {"job_id": it.job_id}),
            d.KillJob: self._kill,
            d.CallMeLater: self._call_later,
            d.RegisterJob: _register_job,
            d.RegisterProfile: self._register_profile,
            d.SetResourceState: self._switch,
            d.Notify: _notify,
        }

    def hello(self, name: str, version: str, features: Features) -> bytes:
        """Return the frame that answers the engine's first one: the scheduler's name, version and
        features.
        """
        self._features = features
        return answer_of(
            Hello(
                batprotocol_version=VERSION,
                decision_component_name=name,
                decision_component_version=version,
                decision_component_commit="",
                requested_simulation_features=features,
            )
        )

    def decode(
        self, text: bytes, on_unknown: Callable[[str, float], None] | None = None
    ) -> Message[e.Event] | None:
        """Return the events of an engine's message; dates are rounded to six decimals as in Batsim
        4.

        Return None if no event of the message concerns the scheduler.
        """
        told = _messages.decode(text.rstrip(b"\0"), on_unknown)
        self._date = told.now
        now = round(told.now, TOLD_DECIMALS)

        events: list[Stamped[e.Event]] = []
        for index, item in enumerate(told.events):
            kind = type(item.body)
            try:
                event = self._reads[kind](item.body)
            except InputError as error:
                name = f"{kind.__name__[1:]}"
                where = f"message at {told.now:g} s, event {index} ({name})"
                raise InputError(f"{where}: {error}") from None
            if event is not None:
                date = now if kind in _STALE else round(item.timestamp, TOLD_DECIMALS)
                events.append(Stamped(date, event))

        # Calls that were asked for at the millisecond before come at their own dates.
        due = told.now + PLAN_TOLERANCE / 2
        while self._between and self._between[0] <= due:
            events.append(Stamped(heapq.heappop(self._between), e.RequestedCall()))
        return Message(now, events) if events or not told.events else None

    def encode(self, answer: Message[d.Decision] | None) -> bytes:
        """Return decisions (None: no decision) as a message of Batsim 5.

        SimulationError if Batsim 5's protocol cannot express one of the decisions.
        """
        events = []
        for item in [] if answer is None else answer.events:
            kind, data = self._written(item.body)
            if kind:
                date = min(item.timestamp, self._date)
                events.append({"timestamp": date, "event_type": kind, "event": data})

        now = self._date
        if self._between and not self._called_soon:
            # The engine waits until ``now``, the date of this answer; the call comes at once then.
            self._called_soon = True
            now = self._between[0]
            soon = _one_shot(_SOON, int(now * MILLISECONDS))
            events.append({"timestamp": now, "event_type": "CallMeLaterEvent", "event": soon})
        return msgspec.json.encode({"now": now, "events": events})

    # Events

    def _begins(self, told: _SimulationBegins) -> e.Event:
        hosts, storages = ([_host(host) for host in listed or []] for listed in (
            told.computation_hosts,
            told.storage_hosts,
        ))  # fmt: skip

        for host in hosts:
            text = host.properties.get("sleep_pstates", "")
            self._sleep_states[host.id] = {int(part) for part in _first_numbers(text)}

        for workload in told.workloads or []:
            self._profiles.setdefault(workload.name, {})
        for profile in told.profiles or []:
            self._note_profile(*of_message(profile))

        asked = self._features
        return e.SimulationBegins(
            nb_resources=len(hosts) + len(storages),
            nb_compute_resources=told.computation_host_number,
            nb_storage_resources=len(storages),
            allow_compute_sharing=True,
            config=e.EngineConfig(
                profiles_forwarded_on_submission=asked.forward_profiles_on_job_submission,
                dynamic_jobs_enabled=asked.dynamic_registration,
                dynamic_jobs_acknowledged=asked.acknowledge_dynamic_jobs,
                profile_reuse_enabled=asked.profile_reuse,
                sched_config=self.configuration or "",
                forward_unknown_events=True,
            ),
            compute_resources=hosts,
            storage_resources=storages,
            workloads={workload.name: workload.filename for workload in told.workloads or []},
            profiles=self._profiles,
        )

    def _note_profile(self, workload: str, name: str, profile: dict[str, Any]) -> None:
        self._profiles.setdefault(workload, {})[name] = profile

    def _submitted(self, told: _JobSubmitted) -> e.Event:
        date = round(told.submission_time, TOLD_DECIMALS)
        job = job_of(told.job, told.job_id, date)
        if told.profile is None:
            return e.JobSubmitted(told.job_id, job)
        named = of_message(told.profile)
        self._note_profile(*named)
        return e.JobSubmitted(told.job_id, job, named[2])

    def _completed(self, told: _JobCompleted) -> e.Event:
        code = told.return_code
        code -= 2 * SIGN if code >= SIGN else 0
        hosts = self._hosts_of.pop(told.job_id, HostSet())
        return e.JobCompleted(told.job_id, told.state, code, hosts)

    def _jobs_killed(self, told: _JobsKilled) -> e.Event:
        progress = {
            killed.job_id: self._progress(killed.wrapper, killed.job_id.partition("!")[0])
            for killed in told.progresses or []
        }
        return e.JobKilled(told.job_ids, progress)

    def _progress(self, told: _Progress, workload: str) -> dict[str, Any]:
        """Return a killed job's progress in Batsim 4's form, where task indexes count over all
        repetitions.
        """
        data = told.kill_progress
        name = str(data.get("profile_id", ""))
        made: dict[str, Any] = {"profile_name": local_id(workload, name)}
        if told.kill_progress_type == "KillProgressAtomicProfile":
            share = data.get("progress", 0.0)
            return made | {"progress": round(share, TOLD_DECIMALS) if is_number(share) else share}

        try:
            inside = msgspec.convert(data.get("current_task_progress"), _Progress)
            index = msgspec.convert(data.get("current_task_index", 0), int)
            before = msgspec.convert(data.get("current_repetition", 0), int)
        except msgspec.ValidationError as error:
            raise InputError(
                f"progress of the killed job's profile {shown(name)} is not valid: {error}"
            ) from None

        sequence = self._profiles.get(name.partition("!")[0], {}).get(name.partition("!")[2], {})
        index += before * len(sequence.get("seq") or ())
        return made | {
            "current_task_index": index,
            "current_task": self._progress(inside, workload),
        }

    def _call(self, told: _RequestedCall) -> e.Event | None:
        if told.call_me_later_id == _SOON:
            self._called_soon = False
            return None
        date = self._calls.pop(told.call_me_later_id, self._date)
        if date <= self._date + PLAN_TOLERANCE / 2:
            return e.RequestedCall()
        heapq.heappush(self._between, date)
        return None

    def _switched(self, host_ids: str, state: int) -> e.Event:
        hosts = HostSet.parse(host_ids)
        for host in hosts:
            sleeps = state in self._sleep_states.get(host, ())
            (self._asleep.add if sleeps else self._asleep.discard)(host)
        return e.ResourceStateChanged(hosts, str(state))

    # Decisions

    def _written(self, decision: d.Decision) -> tuple[str, Any]:
        """Return a decision's type and content in Batsim 5's form; an empty type if it is to be
        left out.
        """
        write = self._writes.get(type(decision))
        if write is not None:
            try:
                return write(decision)
            except InputError as error:
                raise SimulationError(f"at {self._date:.6f} s: {decision.TYPE}: {error}") from None
        if isinstance(decision, _UNUSED):
            return "", None
        raise SimulationError(
            f"at {self._date:.6f} s: the scheduler decides {decision.TYPE}, which Batsim 5 does "
            "not support"
        )

    def _execute(self, decision: d.ExecuteJob) -> tuple[str, Any]:
        if decision.additional_io_job is not None:
            raise InputError("field additional_io_job is given, which Batsim 5 does not support")
        self._hosts_of[decision.job_id] = decision.alloc
        kind: str = "PredefinedExecutorPlacementStrategyWrapper"
        placement: dict[str, Any] = {"strategy": "SpreadOverHostsFirst"}
        if decision.mapping is not None:
            kind = "CustomExecutorToHostMapping"
            mapping = decision.mapping
            placement = {
                "mapping": [int(mapping[str(executor)]) for executor in range(len(mapping))]
            }

        data: dict[str, Any] = {
            "job_id": decision.job_id,
            "allocation": {
                "host_allocation": str(decision.alloc),
                "executor_placement_type": kind,
                "executor_placement": placement,
            },
        }

        if decision.storage_mapping:
            mapped = decision.storage_mapping.items()
            data["storage_placement"] = [{"storage_name": n, "host_id": h} for n, h in mapped]
        return "ExecuteJobEvent", data

    def _kill(self, decision: d.KillJob) -> tuple[str, Any]:
        # Batsim 4 passes over what is being killed, Batsim 5 aborts.
        victims = [
            job_id for job_id in dict.fromkeys(decision.job_ids) if job_id not in self._killed
        ]
        self._killed.update(victims)
        return "KillJobsEvent" if victims else "", {"job_ids": victims}

    def _call_later(self, decision: d.CallMeLater) -> tuple[str, Any]:
        date = max(0.0, up_to_grid(decision.timestamp))
        whole = round(date * MILLISECONDS)
        if whole / MILLISECONDS > date + PLAN_TOLERANCE / 2:
            whole -= 1
        self._asked += 1
        self._calls[str(self._asked)] = date
        return "CallMeLaterEvent", _one_shot(str(self._asked), whole)

    def _register_profile(self, decision: d.RegisterProfile) -> tuple[str, Any]:
        given = decision.workload_name, decision.profile_name, decision.profile
        self._note_profile(*given)
        return "RegisterProfileEvent", {"profile": to_message(*given)}

    def _switch(self, decision: d.SetResourceState) -> tuple[str, Any]:
        text = decision.state
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InputError(
                f"power state of the hosts is {shown(text)}; its number, such as '1', is expected"
            )
        state = int(text)
        hosts = decision.resources
        data: dict[str, Any] = {"host_ids": str(hosts)}
        sleeps = any(state in self._sleep_states.get(host, ()) for host in hosts)
        if sleeps or any(host in self._asleep for host in hosts):
            return "TurnOnOffHostsEvent", data | {"state": state}
        return "ChangeHostsPStateEvent", data | {"pstate": state}


def _host(told: _Host) -> HostDescription:
    own, outer = (
        {pair.key: pair.value for pair in listed or []}
        for listed in (told.properties, told.zone_properties)
    )
    return HostDescription(told.id, told.name, told.state.lower(), own, outer)


def _first_numbers(text: str) -> list[str]:
    """Return the sleep states in a host's ``sleep_pstates`` text: the first number of each
    comma-separated group.
    """
    first = (part.partition(":")[0].strip() for part in text.split(","))
    return [number for number in first if number.isdecimal()]


def _happened(told: _ExternalEvent) -> e.Event:
    """Return the Batsim 4 event written in an external event's text, or a generic notification.

    Batsim 5 itself knows of no kinds of events.
    """
    fields = e.told_in_text(told.external_event.data)
    if not fields:
        return e.Notify.of("generic", id=told.id, data=told.external_event.data)
    kind = fields["type"]
    if f"event_{kind}" in (e.MACHINES_AWAY, e.MACHINES_BACK):
        kind = f"event_{kind}"
    return e.Notify({**fields, "type": kind})


def _one_shot(call_id: str, milliseconds: int) -> dict[str, Any]:
    when = {"time": milliseconds, "time_unit": "Millisecond"}
    return {"call_me_later_id": call_id, "when_type": "OneShot", "when": when}


def _register_job(decision: d.RegisterJob) -> tuple[str, Any]:
    body = body_of(decision.job, decision.job_id, extra_data_of(decision.job.fields))
    return "RegisterJobEvent", {"job_id": decision.job_id, "job": body}


def _notify(decision: d.Notify) -> tuple[str, Any]:
    if decision.type == "registration_finished":
        return "FinishRegistrationEvent", {}
    if decision.type == "continue_registration":
        return "", None  # So it is until it is finished, which is final.
    raise InputError(
        f"type is {shown(decision.type)}, which Batsim 5 does not support; registration_finished "
        "is expected"
    )
