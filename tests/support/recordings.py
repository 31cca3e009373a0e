"""The recorded sessions of the real Batsim, for differential tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim import read_platform, read_workload
from qops_batsim.engine import EngineOptions, Simulation, read_external_events
from qops_batsim.platform import Host, Platform
from qops_batsim.protocol import Decision, Event, Message, decode_decisions, encode_message


class Case(msgspec.Struct):
    """An entry of cases.json, with where the recordings lie."""

    name: str
    platform: str
    workloads: list[str]
    hosts: int
    compute_sharing: bool
    config: dict[str, Any]
    ended: bool
    batsim: str
    scheduler: str = ""
    directory: Path = Path()
    recorded: str = "recorded"
    energy: bool = False
    events: str = ""

    @property
    def zero_latency(self) -> bool:
        return "nonet" in self.platform

    def messages(self) -> list[dict[str, Any]]:
        text = self._recorded(f"{self.name}.transcript.jsonl")
        return [json.loads(line) for line in text.splitlines()]

    def output(self, kind: str) -> str:
        return self._recorded(f"{self.name}_{kind}.csv")

    def _recorded(self, name: str) -> str:
        path = self.directory / self.recorded / name
        if path.exists():
            return path.read_text()
        return gzip.decompress(path.with_name(f"{name}.gz").read_bytes()).decode()


def cases(shared: Path) -> list[Case]:
    read = []
    for directory in (shared / "batsim", shared / "batsim" / "networked"):
        entries = json.loads((directory / "cases.json").read_text())
        for case in (msgspec.convert(entry, Case) for entry in entries):
            case.directory = directory
            case.energy = "energy" in case.name
            case.events = "inputs/ev.txt" if case.name == "events" else ""
            read.append(case)
    return [*read, switching_case(shared)]


def switching_case(shared: Path) -> Case:
    """A session in which hosts go to sleep and wake up."""
    inputs = {"platform": "sw4_nonet.xml", "workloads": ["sw.json"], "energy": True}
    return case_in(shared / "batsim" / "switching", "switch_sleep", **inputs)


def case_in(directory: Path, name: str, **inputs: Any) -> Case:
    """A session of 4.2.1 that lies beside its inputs, with the options that it announces."""
    transcript = (directory / f"{name}.transcript.jsonl").read_text().splitlines()
    begins = json.loads(json.loads(transcript[0])["raw"])["events"][0]["data"]
    return Case(
        name=name,
        hosts=begins["nb_compute_resources"],
        compute_sharing=begins["allow_compute_sharing"],
        config=begins["config"],
        ended=True,
        batsim="4.2.1",
        directory=directory,
        recorded=".",
        **inputs,
    )


class Replay:
    """Answers each message with the recorded decisions, and compares it with the recorded one."""

    def __init__(self, case: Case) -> None:
        self._messages = case.messages()
        self._next = 0
        self.differences: list[str] = []

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        if self._next >= len(self._messages):
            raise AssertionError(f"the engine says more than was recorded: {message}")
        expected = json.loads(self._messages[self._next]["raw"])
        got = json.loads(encode_message(message))
        if self._next == 0:
            _make_comparable(got["events"][0]["data"], expected["events"][0]["data"])
        if not close(got, expected):
            self.differences.append(f"message {self._next // 2}: {got} instead of {expected}")
        answer = self._messages[self._next + 1]["raw"]
        self._next += 2
        return decode_decisions(answer)


def _make_comparable(got: dict[str, Any], expected: dict[str, Any]) -> None:
    """Drop what may differ in SIMULATION_BEGINS: paths of files, and what 3.1.0 does not tell."""
    expected["workloads"] = got["workloads"]
    for name in set(got["config"]) - set(expected["config"]):
        del got["config"][name]
    for ours, theirs in zip(got["compute_resources"], expected["compute_resources"], strict=True):
        if "zone_properties" not in theirs:
            del ours["zone_properties"]


def close(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, numbers within 1e-6 (Batsim sends six decimals)."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(close(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            close(a, b) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return abs(left - right) <= 1.000001e-6
    return bool(left == right)


def platform_of(case: Case) -> Platform:
    """The case's platform; where that is not at hand, the hosts that the session announced."""
    platform = read_platform(case.directory / case.platform)
    begins = json.loads(case.messages()[0]["raw"])["events"][0]["data"]
    announced = begins["compute_resources"]
    if len(announced) <= len(platform.compute_hosts):
        return platform
    return Platform(
        compute_hosts=tuple(
            Host(
                name=host["name"],
                speeds=(1e8,) * len(host["properties"].get("wattage_per_state", "").split(",")),
                properties=host["properties"],
            )
            for host in announced
        )
    )


def engine_options(case: Case) -> EngineOptions:
    """The options under which the case was recorded."""
    config = case.config
    events = None
    if case.events:
        events = read_external_events(case.directory / case.events, forward_unknown=True)
    return EngineOptions(
        hosts=case.hosts,
        compute_sharing=case.compute_sharing,
        dynamic_jobs=config["dynamic-jobs-enabled"],
        acknowledge_dynamic_jobs=config["dynamic-jobs-acknowledged"],
        profile_reuse=config.get("profile-reuse-enabled", False),
        forward_profiles=config["profiles-forwarded-on-submission"],
        sched_config=config.get("sched-config", ""),
        forward_unknown_events=config["forward-unknown-events"],
        energy=case.energy,
        external_events=events,
    )


def replay(case: Case) -> tuple[Simulation, Replay]:
    """Run the case's recorded decisions on our engine."""
    peer = Replay(case)
    workloads = [read_workload(case.directory / workload) for workload in case.workloads]
    simulation = Simulation(platform_of(case), workloads, peer, engine_options(case))
    simulation.run()
    return simulation, peer
