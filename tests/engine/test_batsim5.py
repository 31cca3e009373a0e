"""Our engine as Batsim 5: every recorded session again, and what the real one aborts on."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from batsim5_recordings import play
from damaged_messages import damaged
from qops_batsim.cli.engine5 import read_workload5
from qops_batsim.engine.options import BATSIM_5, EngineOptions
from qops_batsim.engine.outputs import add_batsim5_outputs
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import InputError, QopsError, SimulationError
from qops_batsim.file_set import FileSet
from qops_batsim.platform.generate import make_cluster
from qops_batsim.protocol.v5.components import Component
from qops_batsim.protocol.v5.engine_side import EngineSide
from qops_batsim.protocol.v5.handshake import Features, Hello, answer_of
from qops_batsim.workload.batsim_json import parse_workload

NAMES = (
    *("allocations", "calls_nonet", "delays_nonet", "dynamic_ack", "dynamic_noack"),
    *("easy_net100", "empty", "external_events", "extra_data", "force_stop", "future_reply"),
    *("het_nonet", "kills_net", "kills_nonet", "latency_net", "reject_all", "same_date"),
    *("share_host", "share_random", "switching", "two_workloads", "types_net", "types_nonet"),
    "walltimes_nonet",
)
"""All sessions but that of a probe, which we have not, and one in which Batsim aborts."""

WRONG = ("time_computing", "time_idle", "batsim_version")
"""Totals that are wrong in 5.0.0-rc2, or name another program."""


@pytest.mark.parametrize("name", NAMES)
def test_every_message_and_row_is_that_of_the_real_batsim_5(
    batsim5_sessions: Path, tmp_path: Path, name: str
) -> None:
    simulation, peer = play(batsim5_sessions / name)
    assert peer.differences == []
    assert peer.place == len(peer.lines)
    with FileSet(f"{tmp_path}/", "run.json", ()) as files:
        add_batsim5_outputs(files, simulation)
        files.publish_alone()
    real = batsim5_sessions / name / "out"
    assert (tmp_path / "jobs.csv").read_bytes() == (real / "jobs.csv").read_bytes()
    ours, theirs = (
        (each / "schedule.json").read_text().replace("-nan", "null") for each in (tmp_path, real)
    )
    pairs = json.loads(ours), json.loads(theirs)
    assert list(pairs[0]) == list(pairs[1])
    for field, value in pairs[1].items():
        if field not in WRONG:
            assert pairs[0][field] == pytest.approx(value, abs=2e-6), field


def test_a_kill_that_the_real_one_aborts_on(batsim5_sessions: Path) -> None:
    with pytest.raises(SimulationError, match="job 'w0!1' cannot be killed: it is COMPLETED"):
        play(batsim5_sessions / "kill_same_date")


# What it refuses

DELAY: dict[str, Any] = {"type": "DelayProfile", "delay": 10}
JOBS: list[dict[str, Any]] = [
    {"id": "1", "subtime": 0, "res": 2, "profile": "d10"},
    {"id": "2", "subtime": 5, "res": 2, "profile": "d10"},
]

LOADS: dict[str, tuple[dict[str, Any], str]] = {
    "delay 0": ({"profiles": {"d10": {"type": "DelayProfile", "delay": 0}}}, "delay is 0"),
    "type of Batsim 4": ({"profiles": {"d10": {"type": "delay", "delay": 1}}}, "type is 'delay'"),
    "duplicate id": ({"jobs": [JOBS[0], JOBS[0]]}, "'1'"),
    "ids '1' and 1": ({"jobs": [JOBS[0], {**JOBS[0], "id": 1}]}, "'1'"),
    "no id": ({"jobs": [{"subtime": 0, "res": 2, "profile": "d10"}]}, "field 'id' is missing"),
    "no res": ({"jobs": [{"id": "1", "subtime": 0, "profile": "d10"}]}, "'res' is missing"),
    "no subtime": ({"jobs": [{"id": "1", "res": 1, "profile": "d10"}]}, "'subtime' is missing"),
    "unknown profile": ({"jobs": [{**JOBS[0], "profile": "nope"}]}, "profile 'nope'"),
    "walltime -1": ({"jobs": [{**JOBS[0], "walltime": -1}]}, "jobs with walltime -1"),
    "walltime 0": ({"jobs": [{**JOBS[0], "walltime": 0}]}, "'walltime' is 0"),
    "id with !": ({"jobs": [{**JOBS[0], "id": "a!b"}]}, "a!b"),
    "id with w0": ({"jobs": [{**JOBS[0], "id": "w0x"}]}, "the workload's name, w0, in their id"),
    "float id": ({"jobs": [{**JOBS[0], "id": 1.5}]}, "'id' is 1.5"),
    "no nb_res": ({"nb_res": None}, "nb_res"),
    "nothing to do": (
        {
            "profiles": {
                "d10": DELAY,
                "z": {"type": "ParallelTaskHomogeneousProfile", "cpu": 0, "com": 0},
            }
        },
        "homogeneous tasks with cpu 0 and com 0",
    ),
    "homogeneous without com": (
        {"profiles": {"d10": {"type": "ParallelTaskHomogeneousProfile", "cpu": 1}}},
        "field 'com' is missing",
    ),
}


@pytest.mark.parametrize("case", LOADS)
def test_workloads_that_batsim_5_aborts_on(tmp_path: Path, case: str) -> None:
    changed, message = LOADS[case]
    content = {"nb_res": 4, "jobs": JOBS, "profiles": {"d10": DELAY}, **changed}
    path = tmp_path / "w.json"
    path.write_text(json.dumps({name: each for name, each in content.items() if each is not None}))
    with pytest.raises(InputError, match=message):
        read_workload5(path)


class Scripted(Component):
    """A decision process that answers the messages with these events or texts, by number."""

    def __init__(self, features: Features, answers: dict[int, Any]) -> None:
        platform = make_cluster(4)
        super().__init__("scripted", EngineSide("", platform.compute_hosts, version="5"))
        self.answers, self.features, self.number = answers, features, -1

    def ask(self, frame: bytes) -> bytes:
        self.number += 1
        if not self.number:
            return answer_of(
                Hello(
                    batprotocol_version="1",
                    decision_component_name="t",
                    decision_component_version="1",
                    decision_component_commit="",
                    requested_simulation_features=self.features,
                )
            )
        now = json.loads(frame.rstrip(b"\0"))["now"]
        answer = self.answers.get(self.number, [])
        if isinstance(answer, bytes):
            return answer
        items = [
            {"timestamp": now, "event_type": kind, "event": data, **(more[0] if more else {})}
            for kind, data, *more in answer
        ]
        return json.dumps({"now": now, "events": items}).encode()


def simulate(answers: dict[int, Any], features: Features | None = None) -> Simulation:
    workload = parse_workload(
        json.dumps({"nb_res": 4, "jobs": JOBS, "profiles": {"d10": DELAY}}), source="w.json"
    )
    peer = Scripted(features or Features(), answers)
    options = EngineOptions(compute_sharing=True, rules=BATSIM_5)
    simulation = Simulation(make_cluster(4), [workload], peer, peer.begin(options))
    simulation.run()
    return simulation


def execute(job: str = "w0!1", hosts: str = "0-1", **more: Any) -> tuple[str, Any]:
    placement = {
        "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
        "executor_placement": {},
    }
    return "ExecuteJobEvent", {
        "job_id": job,
        "allocation": {"host_allocation": hosts, **placement, **more},
    }


def call(**when: Any) -> tuple[str, Any]:
    kind = "Periodic" if "period" in when else "OneShot"
    return "CallMeLaterEvent", {"call_me_later_id": "c", "when_type": kind, "when": when}


def kill(*jobs: str) -> tuple[str, Any]:
    return "KillJobsEvent", {"job_ids": list(jobs)}


SECOND: dict[int, Any] = {3: [execute("w0!2")]}

MESSAGES: dict[str, tuple[dict[int, Any], str]] = {
    "host 9": ({2: [execute(hosts="9")]}, "host 9"),
    "no host": ({2: [execute(hosts="")]}, "host_allocation is ''"),
    "hosts backwards": ({2: [execute(hosts="1-0")]}, "'1-0' ends before it starts"),
    "no placement": (
        {2: [("ExecuteJobEvent", {"job_id": "w0!1", "allocation": {"host_allocation": "0"}})]},
        "executor_placement_type",
    ),
    "wrong mapping": (
        {
            2: [
                execute(
                    executor_placement_type="CustomExecutorToHostMapping",
                    executor_placement={"mapping": [0, 7]},
                )
            ]
        },
        "executor 1 is mapped to '7'",
    ),
    "unknown job": ({2: [execute("w0!9")]}, "'w0!9', which does not exist"),
    "job not submitted": ({2: [execute("w0!2")]}, "'w0!2' cannot be started: it is NOT_SUBMITTED"),
    "executed twice": ({2: [execute(), execute()]}, "it is RUNNING"),
    "rejected unknown": ({2: [("RejectJobEvent", {"job_id": "w0!9"})]}, "'w0!9'"),
    "rejected running": ({2: [execute(), ("RejectJobEvent", {"job_id": "w0!1"})]}, "RUNNING"),
    "kill not submitted": ({2: [kill("w0!2")]}, "'w0!2' cannot be killed: it is NOT_SUBMITTED"),
    "kill queued": ({2: [kill("w0!1")]}, "'w0!1' cannot be killed: it is SUBMITTED"),
    "kill unknown": ({2: [kill("w0!9")]}, "'w0!9'"),
    "kill none": ({2: [kill()]}, r"job_ids is \[\]"),
    "kill twice": ({2: [execute()], 3: [kill("w0!1"), kill("w0!1")]}, "w0!1, killed already"),
    "call at a fraction": ({2: [call(time=7.5)]}, "Expected `int`, got `float`"),
    "period 0": ({2: [call(period=0)]}, "period is 0"),
    "register twice": (
        {2: [("RegisterJobEvent", {"job_id": "w0!2", "job": {"resource_request": 1,
                                                             "profile_id": "w0!d10"}})]},
        "'w0!2' already exists",
    ),
    "register without workload": (
        {2: [("RegisterJobEvent", {"job_id": "x", "job": {"resource_request": 1,
                                                          "profile_id": "w0!d10"}})]},
        "job_id is 'x'",
    ),
    "unknown event": ({2: [("FooEvent", {})]}, "unknown type 'FooEvent'"),
    "event of Batsim's side": ({2: [("SimulationEndsEvent", {})]}, "'SimulationEndsEvent'"),
    "unknown field": ({2: [("RejectJobEvent", {"job_id": "w0!1", "reason": ""})]}, "reason"),
    "timestamp after now": ({2: [(*execute(), {"timestamp": 1.0})]}, "timestamp is 1"),
    "timestamps not ascending": (
        {2: [execute()], 3: [(*call(time=20),), (*call(time=20), {"timestamp": 0.0})]},
        "timestamp is 0",
    ),
    "empty reply": ({2: b""}, "message"),
    "no events": ({2: b"{}"}, "missing required field"),
    "cut": ({2: b'{"now": 0.0, "events": ['}, "message"),
}  # fmt: skip


@pytest.mark.parametrize("case", MESSAGES)
def test_decisions_that_batsim_5_aborts_on(case: str) -> None:
    answers, message = MESSAGES[case]
    with pytest.raises(QopsError, match=message):
        simulate(answers, Features(dynamic_registration=case.startswith("register")))


def test_damaged_decisions_are_refused_or_read(batsim5_sessions: Path) -> None:
    lines = [
        line for name in NAMES for line in (batsim5_sessions / name / "transcript.jsonl").open()
    ]
    told = [each["raw"] for each in map(json.loads, lines) if each["from"] == "edc"]
    answers = [each.encode() for each in told if isinstance(each, str)]
    rng, refused = random.Random(77), 0
    for _ in range(3000):
        side = EngineSide("", make_cluster(4).compute_hosts, version="5")
        try:
            side.decode(damaged(rng.choice(answers), rng))
        except QopsError:
            refused += 1
    assert refused > 1000


def test_what_batsim_5_does_accept() -> None:
    done = simulate({2: [execute(hosts="0-2")], 3: [execute("w0!2", hosts="0")]})
    assert [str(each.hosts) for each in done.ended] == ["0-2", "0"]
    assert [each.finish for each in done.ended] == [10.0, 15.0]
    done = simulate({2: [execute(), kill("w0!1", "w0!1")], 4: [execute("w0!2")]})
    assert [each.state for each in done.ended] == ["COMPLETED_KILLED", "COMPLETED_SUCCESSFULLY"]
    done = simulate({2: [execute()], 3: [execute("w0!2"), call(time=5)], 4: [], 5: []})
    assert done.now == 15.0


def test_a_registration_that_is_never_finished_is_a_deadlock() -> None:
    answers = {2: [execute()], 3: [execute("w0!2")]}
    with pytest.raises(SimulationError, match="registration_finished"):
        simulate(answers, Features(dynamic_registration=True))
