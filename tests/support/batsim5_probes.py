"""Wrong and odd inputs for Batsim 5, one by one, each under the name with which it was recorded.

``aborts.jsonl`` of the shared directory tells what the real 5.0.0-rc2 did on each of them; here is
what was given to it, and which refusal of the embedded engine stands where it aborts or crashes.
"""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Told = tuple[str, dict[str, Any]]
"""Type and content of an event."""

HOSTS = 4

DELAY = {"type": "DelayProfile", "delay": 10}
FIRST: dict[str, Any] = {"id": "1", "subtime": 0, "walltime": 100, "res": 2, "profile": "d10"}
SECOND = {**FIRST, "id": "2", "subtime": 5}

FEATURES = (
    *("dynamic_registration", "profile_reuse", "acknowledge_dynamic_jobs"),
    *("forward_profiles_on_job_submission", "forward_profiles_on_jobs_killed"),
    "forward_profiles_on_simulation_begins",
)


@dataclass(frozen=True)
class Probe:
    """One input, and what is expected of it.

    Attributes
    ----------
    refusal
        Pattern of the error of the embedded engine; empty: it accepts this.
    workload
        What differs from a workload with two jobs; a field of None is left out.
    hello
        What becomes of the introduction of the decision process, and its flags.
    features
        Features that the decision process asks for.
    answers
        What is decided on a job's submission or end, or on a call, instead of starting the jobs
        that fit; on a job that is not named so nothing else happens.
    text
        What becomes of the text of an answer, by what it answers.
    starts
        Whether jobs are started at all.
    stricter
        Whether the embedded engine refuses what Batsim accepts.
    """

    refusal: str = ""
    workload: dict[str, Any] = field(default_factory=dict)
    hello: Callable[[dict[str, Any]], tuple[int, bytes] | bytes] | None = None
    features: tuple[str, ...] = ()
    answers: dict[str, list[Told | tuple[str, dict[str, Any], float]]] = field(default_factory=dict)
    text: dict[str, Callable[[dict[str, Any]], bytes]] = field(default_factory=dict)
    starts: bool = True
    stricter: bool = False

    def content(self) -> dict[str, Any]:
        """Return the content of the workload's file."""
        usual = {"nb_res": HOSTS, "jobs": [FIRST, SECOND], "profiles": {"d10": DELAY}}
        return {name: each for name, each in (usual | self.workload).items() if each is not None}


class ProbeDecider:
    """Decision process of a probe: it starts jobs in order on the first free hosts."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._waiting: list[tuple[str, int]] = []
        self._hosts: dict[str, list[int]] = {}
        self._greeted = False
        self.exchanges: list[tuple[float, list[str]]] = []
        self.submitted: list[dict[str, Any]] = []

    def answer(self, frame: bytes) -> bytes:
        """Return the answer to a frame of the engine."""
        if not self._greeted:
            self._greeted = True
            return self._hello()
        told = json.loads(frame.rstrip(b"\0"))
        self.exchanges.append((told["now"], [each["event_type"] for each in told["events"]]))
        probe, now = self._probe, told["now"]
        decided: list[Any] = []
        change = None
        for each in told["events"]:
            name, usual = self._seen(each["event_type"], each["event"])
            decided += probe.answers.get(name, usual)
            change = change or probe.text.get(name)
        decided += self._started()
        items = [
            {"timestamp": more[0] if more else now, "event_type": kind, "event": data}
            for kind, data, *more in decided
        ]
        message = {"now": now, "events": items}
        return json.dumps(message).encode() if change is None else change(message)

    def _hello(self) -> bytes:
        event: dict[str, Any] = {
            "batprotocol_version": "1.0.0",
            "decision_component_name": "probe",
            "decision_component_version": "1",
            "decision_component_commit": "",
            "requested_simulation_features": dict.fromkeys(self._probe.features, True),
        }
        item = {"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": event}
        message = {"now": 0.0, "events": [item]}
        made: Any = 2, json.dumps(message).encode()
        if self._probe.hello is not None:
            made = self._probe.hello(message)
        return made if isinstance(made, bytes) else struct.pack("=I", made[0]) + made[1]

    def _seen(self, kind: str, data: dict[str, Any]) -> tuple[str, list[Told]]:
        """Return the name of what has happened, and what is usually decided on it."""
        if kind == "RequestedCallEvent":
            return "call", []
        job_id = data.get("job_id", "")
        if kind == "JobCompletedEvent":
            self._hosts.pop(job_id, None)
            return f"end {job_id}", []
        if kind != "JobSubmittedEvent":
            return kind, []
        self.submitted.append(data)
        name, wanted = f"job {job_id}", data["job"]["resource_request"]
        if not 0 < wanted <= HOSTS:
            return name, [reject(job_id)]
        is_told = any(each[1].get("job_id") == job_id for each in self._probe.answers.get(name, ()))
        if self._probe.starts and not is_told:
            self._waiting.append((job_id, wanted))
        return name, []

    def _started(self) -> list[Told]:
        started = []
        while self._waiting:
            job_id, wanted = self._waiting[0]
            taken = {host for hosts in self._hosts.values() for host in hosts}
            free = [host for host in range(HOSTS) if host not in taken]
            if wanted > len(free):
                break
            self._hosts[job_id] = free[:wanted]
            started.append(execute(job_id, " ".join(map(str, free[:wanted]))))
            del self._waiting[0]
        return started


# Decisions


def execute(job: str = "w0!1", hosts: str = "0-1", **changed: Any) -> Told:
    allocation: dict[str, Any] = {
        "host_allocation": hosts,
        "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
        "executor_placement": {"strategy": "SpreadOverHostsFirst"},
    } | changed
    there = {name: each for name, each in allocation.items() if each is not None}
    return "ExecuteJobEvent", {"job_id": job, "allocation": there}


def mapped(*places: int) -> dict[str, Any]:
    kind = "CustomExecutorToHostMapping"
    return {"executor_placement_type": kind, "executor_placement": {"mapping": list(places)}}


def reject(job: str) -> Told:
    return "RejectJobEvent", {"job_id": job}


def kill(*jobs: str) -> Told:
    return "KillJobsEvent", {"job_ids": list(jobs)}


def call(name: str = "c", **when: Any) -> Told:
    kind = "Periodic" if "period" in when else "OneShot"
    return "CallMeLaterEvent", {"call_me_later_id": name, "when_type": kind, "when": when}


def stop_calls(name: str) -> Told:
    return "StopCallMeLaterEvent", {"call_me_later_id": name}


def register(job: str, profile: str = "w0!d10", **more: Any) -> Told:
    body = {"resource_request": 1, "profile_id": profile, **more}
    return "RegisterJobEvent", {"job_id": job, "job": body}


FINISH: Told = ("FinishRegistrationEvent", {})


# The probes


def _loads(refusal: str = "", profiles: Any = None, **job: Any) -> Probe:
    """Return a probe of a workload with one job; a field of None is left out of it."""
    fields = {name: each for name, each in (FIRST | {"res": 1} | job).items() if each is not None}
    return Probe(refusal, {"jobs": [fields], "profiles": {"d10": DELAY, **(profiles or {})}})


def _greets(change: Callable[[dict[str, Any]], Any], refusal: str = "", flags: int = 2) -> Probe:
    """Return a probe of an introduction, changed in place, or replaced, by ``change``."""

    def hello(message: dict[str, Any]) -> tuple[int, bytes] | bytes:
        made = change(message)
        if isinstance(made, bytes):
            return flags, made
        return flags, json.dumps(message if made is None else made).encode()

    return Probe(refusal, hello=hello)


def _of_hello(message: dict[str, Any]) -> dict[str, Any]:
    event: dict[str, Any] = message["events"][0]["event"]
    return event


def _without(name: str) -> Callable[[dict[str, Any]], None]:
    def left_out(message: dict[str, Any]) -> None:
        del _of_hello(message)[name]

    return left_out


def _with(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda message: _of_hello(message).update({name: value})


def _event_first(message: dict[str, Any]) -> dict[str, Any]:
    (item,) = message["events"]
    return message | {"events": [dict(reversed(item.items()))]}


def _first(*decided: Any, refusal: str = "", **more: Any) -> Probe:
    """Return a probe of what is decided when the first job is submitted, at 0."""
    return Probe(refusal, answers={"job w0!1": list(decided)}, **more)


def _second(*decided: Any, refusal: str = "", **more: Any) -> Probe:
    """Return a probe of what is decided when the second job is submitted, at 5."""
    return Probe(refusal, answers={"job w0!2": list(decided)}, **more)


def _says(name: str, text: Callable[[dict[str, Any]], bytes], refusal: str = "") -> Probe:
    return Probe(refusal, text={name: text})


def _dynamic(probe: Probe, *further: str) -> Probe:
    return replace(probe, features=("dynamic_registration", *further))


TASK, TASKS = "ParallelTaskHomogeneousProfile", "ParallelTaskProfile"

PROBES: dict[str, Probe] = {
    "load: delay 0": _loads("delay is 0", {"z": {"type": "DelayProfile", "delay": 0}}),
    "load: profile type of Batsim 4 (delay)": _loads(
        "profile 'z': type is 'delay'", {"z": {"type": "delay", "delay": 1}}, profile="z"
    ),
    "load: duplicate job id": Probe("'1'", {"jobs": [FIRST, FIRST]}),
    "load: id '1' and id 1": Probe("'1'", {"jobs": [FIRST, {**FIRST, "id": 1}]}),
    "load: no id": _loads("field 'id' is missing", id=None),
    "load: no res": _loads("field 'res' is missing", res=None),
    "load: res 0": _loads(res=0),
    "load: res 5 of 4 (executed nowhere, rejected by EDC)": _loads(res=5),
    "load: unknown profile": _loads("profile 'nope'", profile="nope"),
    "load: walltime -1": _loads("walltime -1", walltime=-1),
    "load: walltime 0": _loads("field 'walltime' is 0", walltime=0),
    "load: no walltime": _loads(walltime=None),
    "load: subtime -5": _loads(subtime=-5),
    "load: no subtime": _loads("field 'subtime' is missing", subtime=None),
    "load: id with '!'": _loads("'a!b'", id="a!b"),
    "load: id 'w0!1'": replace(_loads("'w0!1'", id="w0!1"), stricter=True),
    "load: id containing w0": _loads("the workload's name, w0, in their id", id="w0x"),
    "load: float id": _loads("field 'id' is 1.5", id=1.5),
    "load: extra_data is an object": _loads(extra_data={"a": [1]}),
    "load: extra_data is a string": _loads(extra_data="a"),
    "load: no nb_res": replace(_loads("nb_res"), workload={"nb_res": None}),
    "load: homogeneous 0/0": _loads(
        "homogeneous tasks with cpu 0 and com 0", {"z": {"type": TASK, "cpu": 0, "com": 0}},
        profile="z",
    ),
    "load: homogeneous without com": _loads(
        "profile 'z': field 'com' is missing", {"z": {"type": TASK, "cpu": 1e9}}, profile="z"
    ),
    "load: parallel task size 2 for res 1": _loads(
        "profile 'z'", {"z": {"type": TASKS, "cpu": [1e9, 1e9], "com": [0, 0, 0, 0]}}, profile="z"
    ),
    "load: empty workload": Probe(workload={"jobs": []}),
    "hello: no commit": _greets(_without("decision_component_commit"), "decision_component_commit"),
    "hello: no requested_simulation_features": _greets(
        _without("requested_simulation_features"), "requested_simulation_features"
    ),
    "hello: no name": _greets(_without("decision_component_name"), "decision_component_name"),
    "hello: unknown version": _greets(_with("batprotocol_version", "99")),
    "hello: no events": _greets(lambda _: {"now": 0, "events": []}, r"events are \[\]"),
    "hello: no events field": _greets(lambda _: {"now": 0}, "`events`"),
    "hello: not JSON": _greets(lambda _: b"hello", "the answer to the greeting"),
    "hello: event before event_type": _greets(_event_first),
    "hello: flags 1 with JSON text": _greets(lambda _: None, "flags are 1", flags=1),
    "hello: flags 3": _greets(lambda _: None, flags=3),
    "hello: flags 0": _greets(lambda _: None, "flags are 0", flags=0),
    "hello: 2 bytes only": Probe("has 2 bytes", hello=lambda _: b"\x02\0"),
    "hello: unknown field": _greets(_with("foo", 1), "foo"),
    "hello: integers for dates": _greets(
        lambda message: {"now": 0, "events": [message["events"][0] | {"timestamp": 0}]}
    ),
    "hello: now 2.5": _greets(lambda message: message | {"now": 2.5}),
    "execute: 1 host for res 2": _first(execute(hosts="0")),
    "execute: 3 hosts for res 2": _first(execute(hosts="0-2")),
    "execute: hosts with comma": _first(
        execute(hosts="0,1"), refusal="host_allocation is '0,1'", stricter=True
    ),
    "execute: host 9": _first(execute(hosts="9"), refusal="host 9"),
    "execute: no host": _first(execute(hosts=""), refusal="host_allocation is ''"),
    "execute: '1 0'": _first(execute(hosts="1 0")),
    "execute: '1-0'": _first(execute(hosts="1-0"), refusal="'1-0' ends before it starts"),
    "execute: custom mapping": _first(execute(**mapped(1, 0))),
    "execute: custom mapping two on one host": _first(execute(**mapped(0, 0))),
    "execute: no executor_placement": _first(
        execute(executor_placement=None), refusal="executor_placement"
    ),
    "execute: empty placement object": _first(execute(executor_placement={})),
    "execute: twice": _first(execute(), execute(), refusal="'w0!1' cannot be started: it is RUN"),
    "execute: unknown job": _first(execute("w0!9"), refusal="'w0!9', which does not exist"),
    "execute: id without workload": _first(execute("1"), refusal="'1', which does not exist"),
    "execute: job not yet submitted": _first(
        execute("w0!2"), refusal="'w0!2' cannot be started: it is NOT_SUBMITTED"
    ),
    "reject: running job": _second(reject("w0!1"), refusal="'w0!1' cannot be rejected: it is RUN"),
    "kill: not submitted": _first(
        kill("w0!2"), refusal="'w0!2' cannot be killed: it is NOT_SUBMITTED"
    ),
    "kill: queued": _first(
        kill("w0!1"), refusal="'w0!1' cannot be killed: it is SUBMITTED", starts=False
    ),
    "kill: unknown": _first(kill("w0!9"), refusal="'w0!9', which does not exist"),
    "kill: empty list": _first(kill(), refusal=r"job_ids is \[\]"),
    "kill: running job twice in one message": _second(
        kill("w0!1"), kill("w0!1"), refusal="KILL_JOB names w0!1, killed already"
    ),
    "kill: running job named twice in one event": _second(kill("w0!1", "w0!1")),
    "kill: job whose completion came in the same message": Probe(
        "'w0!1' cannot be killed: it is COMPLETED", answers={"end w0!1": [kill("w0!1")]}
    ),
    "kill: started in the same message": _first(execute(), kill("w0!1")),
    "call: past date": _second(call(time=1)),
    "call: now": _second(call(time=5)),
    "call: fractional date 7.5": _second(call(time=7.5), refusal="Expected `int`, got `float`"),
    "call: same id twice": _second(call(time=6), call(time=7)),
    "call: after the end (30)": _second(call(time=30)),
    "call: period 0": _first(call(period=0), refusal="period is 0"),
    "call: stop unknown": _second(stop_calls("nobody")),
    "call: stop one-shot": _second(call(time=8), stop_calls("c")),
    "register: feature not asked for": _first(
        ("RegisterProfileEvent", {"profile": {"id": "w0!y", "profile_type": "DelayProfile",
                                              "profile": {"delay": 3}}}),
        FINISH,
    ),
    "register: registration never finished": _dynamic(
        _first(refusal="registration_finished")
    ),
    "register: job with the id of another": _dynamic(
        _first(register("w0!2"), refusal="'w0!2' already exists")
    ),
    "register: id without workload": _dynamic(_first(register("x"), refusal="job_id is 'x'")),
    "register: short profile name": _dynamic(
        _first(register("w0!x", "d10"), FINISH), "acknowledge_dynamic_jobs"
    ),
    "register: walltime -1": _dynamic(
        _first(register("w0!x", walltime=-1), FINISH), "acknowledge_dynamic_jobs"
    ),
    "register: profile already forgotten (no profile_reuse)": Probe(
        "profile 'd10' of job 'w0!x' was forgotten",
        features=("dynamic_registration", "acknowledge_dynamic_jobs"),
        answers={"job w0!2": [call(time=30)], "call": [register("w0!x"), FINISH]},
    ),
    "register: same with profile_reuse": Probe(
        features=("dynamic_registration", "acknowledge_dynamic_jobs", "profile_reuse"),
        answers={"job w0!2": [call(time=30)], "call": [register("w0!x"), FINISH]},
    ),
    "message: unknown event type": _first(("FooEvent", {}), refusal="unknown type 'FooEvent'"),
    "message: event of Batsim's side": _first(
        ("SimulationEndsEvent", {}), refusal="'SimulationEndsEvent'"
    ),
    "message: unknown field": _first(
        ("RejectJobEvent", {"job_id": "w0!1", "reason": "r"}), refusal="reason"
    ),
    "message: timestamp after now": _first((*call(time=20), 1.0), refusal="timestamp is 1"),
    "message: timestamp before now": _second((*call(time=8), 1.0)),
    "message: timestamps not ascending": _second(
        call(time=20), (*call(time=20), 0.0), refusal="timestamp is 0"
    ),
    "message: now in the past": _says(
        "AllStaticJobsHaveBeenSubmittedEvent", lambda _: b'{"now": 1.0, "events": []}'
    ),
    "message: empty reply": _says("job w0!2", lambda _: b"", "message"),
    "message: {}": _says("job w0!2", lambda _: b"{}", "field now is missing"),
    "message: no events field": _says(
        "end w0!1", lambda _: b'{"now": 10.0}', "field events is missing"
    ),
    "message: truncated JSON": _says(
        "job w0!2", lambda message: json.dumps(message).encode()[:-2], "message"
    ),
    "message: trailing NUL": _says(
        "job w0!2", lambda message: json.dumps(message).encode() + b"\0"
    ),
    "EDC never executes anything": Probe("deadlock: .*w0!1", starts=False),
}  # fmt: skip
"""All probes by name, but that of a decision process that dies."""


def recorded_probes(sessions: Path) -> dict[str, dict[str, Any]]:
    """Return what the real Batsim 5 did, by the names of probes."""
    lines = map(json.loads, (sessions / "aborts.jsonl").open())
    return {each["case"]: each for each in lines}


def jobs_of(directory: Path) -> str:
    """Return the jobs in a directory of results as they are recorded."""
    columns = "job_id", "final_state", "starting_time", "finish_time", "allocated_resources"
    with (directory / "jobs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    return " | ".join(",".join(row[name] for name in columns) for row in rows)
