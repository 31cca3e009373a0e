"""The batsim-py adapter without batsim-py: what it makes of events and decisions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.core import HostSet
from qops_batsim.errors import SimulationError
from qops_batsim.protocol import decisions as d
from support.scripted_module import ScriptedModule

JobEvent = Enum("JobEvent", ["SUBMITTED", "COMPLETED"])
HostEvent = Enum("HostEvent", ["STATE_CHANGED"])
SimulatorEvent = Enum("SimulatorEvent", ["SIMULATION_BEGINS", "SIMULATION_ENDS"])
JobState = Enum("JobState", ["RUNNING", "COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED"])


@pytest.fixture(autouse=True)
def fake_batsim_py(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("batsim_py")
    fake.__dict__.update(JobEvent=JobEvent, HostEvent=HostEvent, SimulatorEvent=SimulatorEvent)
    monkeypatch.setitem(sys.modules, "batsim_py", fake)


class FakeJob:
    walltime = None
    allocation = (0, 2)

    def __init__(self, job_id: str, **metadata: Any) -> None:
        self.id = job_id
        self.res = 2
        self.subtime = 7.0
        self.profile = SimpleNamespace(name="p")
        self.metadata = metadata
        self.state = JobState.RUNNING

    @property
    def is_finished(self) -> bool:
        return self.state is not JobState.RUNNING


class FakeSimulator:
    """Stands for batsim-py's ``SimulatorHandler``: notes what is asked of it."""

    is_running = False
    is_submitter_finished = False
    current_time = 7

    def __init__(self) -> None:
        self.subscribed: dict[Any, list[Any]] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.ends_on_kill: dict[FakeJob, JobState] = {}
        hosts = [
            SimpleNamespace(id=index, name=f"h{index}", metadata=None, is_shareable=False)
            for index in range(3)
        ]
        self.platform = SimpleNamespace(hosts=iter(hosts), size=4)

    def subscribe(self, event: Any, call: Any) -> None:
        self.subscribed.setdefault(event, []).append(call)

    def dispatch(self, event: Any, sender: Any) -> None:
        for call in self.subscribed[event]:
            call(sender)

    def allocate(self, job_id: str, hosts: list[int], storage_mapping: Any) -> None:
        if job_id == "w0!busy":
            raise RuntimeError("This host cannot be used by multiple jobs.")
        self.calls.append(("allocate", job_id, hosts, storage_mapping))

    def reject_job(self, job_id: str) -> None:
        self.calls.append(("reject", job_id))

    def kill_job(self, job_id: str) -> None:
        self.calls.append(("kill", job_id))
        for job, state in self.ends_on_kill.items():
            job.state = state
            self.dispatch(JobEvent.COMPLETED, job)

    def set_callback(self, at: int, call: Any) -> None:
        self.calls.append(("callback", at))
        self.callback = call

    def close(self) -> None:
        self.calls.append(("close",))
        self.is_running = False


class Spy(ScriptedModule):
    """Notes what it is told and decides what the test puts into ``next``, message by message."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []
        self.next: list[list[d.Decision]] = []

    def begin(self, system: Any) -> None:
        self.told.append(("begin", [host.name for host in system.hosts], system.compute_sharing))

    def submitted(self, job: Any) -> None:
        self.told.append(("submitted", job.fields))

    def completed(self, event: Any) -> None:
        self.told.append((event.job_id, event.job_state, event.return_code, str(event.alloc)))

    def killed(self, job_ids: list[str]) -> None:
        self.told.append(("killed", job_ids))

    def call(self) -> None:
        self.told.append("call")

    def notified(self, notification: Any) -> None:
        self.told.append((notification.type, notification.fields.get("resources")))

    def end(self) -> None:
        self.told.append("end")

    def decide(self, now: float) -> list[d.Decision]:
        self.told.append(("decide", now))
        return self.next.pop(0) if self.next else []


@pytest.fixture
def simulator() -> FakeSimulator:
    return FakeSimulator()


@pytest.fixture
def module() -> Spy:
    return Spy()


@pytest.fixture
def agent(simulator: FakeSimulator, module: Spy) -> Any:
    from qops_batsim.adapters.batsim_py import ModuleAgent

    return ModuleAgent(simulator, module)


def test_all_events_come_before_one_decision(
    agent: Any, simulator: FakeSimulator, module: Spy
) -> None:
    job = FakeJob("w0!1", subtime=6.5, qos={"deadline": 20})
    simulator.dispatch(SimulatorEvent.SIMULATION_BEGINS, simulator)
    simulator.dispatch(JobEvent.SUBMITTED, job)
    job.state = JobState.COMPLETED_SUCCESSFULLY
    simulator.dispatch(JobEvent.COMPLETED, job)
    simulator.is_submitter_finished = True
    assert module.told == []
    agent.act()
    agent.act()
    fields = {"subtime": 6.5, "qos": {"deadline": 20}, "id": "w0!1", "res": 2, "profile": "p"}
    assert module.told == [
        ("begin", ["h0", "h1", "h2"], False),
        ("submitted", fields),
        ("w0!1", "COMPLETED_SUCCESSFULLY", 0, "0 2"),
        ("no_more_static_job_to_submit", None),
        ("decide", 7.0),
        ("decide", 7.0),
    ]


def test_decisions_become_calls(agent: Any, simulator: FakeSimulator, module: Spy) -> None:
    job = FakeJob("w0!1")
    simulator.dispatch(JobEvent.SUBMITTED, job)
    module.next = [
        [
            d.ExecuteJob("w0!1", HostSet.parse("0 2-3"), {"0": "2", "1": "0", "2": "1"}),
            d.RejectJob("w0!2"),
            d.CallMeLater(9.25),
            d.SetJobMetadata("w0!1", "text"),
        ]
    ]
    agent.act()
    assert simulator.calls == [
        ("allocate", "w0!1", [0, 2, 3], None),
        ("reject", "w0!2"),
        # Not before the date: batsim-py tells a call's date without its fraction.
        ("callback", 10),
    ]
    assert job.metadata == {"metadata": "text"}
    simulator.callback(10.0)
    agent.act()
    assert module.told[-2:] == ["call", ("decide", 7.0)]


def test_after_a_kill_the_module_is_asked_again(
    agent: Any, simulator: FakeSimulator, module: Spy
) -> None:
    killed, ended = FakeJob("w0!1"), FakeJob("w0!2")
    for job in (killed, ended):
        simulator.dispatch(JobEvent.SUBMITTED, job)
    simulator.ends_on_kill = {
        ended: JobState.COMPLETED_SUCCESSFULLY,
        killed: JobState.COMPLETED_KILLED,
    }
    agent.act()
    module.told.clear()
    module.next = [[d.KillJob(["w0!1", "w0!2"]), d.RejectJob("w0!3")], [d.RejectJob("w0!4")]]
    agent.act()
    # The second job ended in the same message as the first was killed: that kill is too late.
    assert simulator.calls == [("kill", "w0!1"), ("reject", "w0!3"), ("reject", "w0!4")]
    assert module.told == [
        ("decide", 7.0),
        ("w0!2", "COMPLETED_SUCCESSFULLY", 0, "0 2"),
        ("w0!1", "COMPLETED_KILLED", -1, "0 2"),
        ("killed", ["w0!1"]),
        ("decide", 7.0),
    ]


def test_hosts_that_come_and_go(agent: Any, simulator: FakeSimulator, module: Spy) -> None:
    for unavailable in (False, True, True, False, False):
        host = SimpleNamespace(id=5, is_unavailable=unavailable)
        simulator.dispatch(HostEvent.STATE_CHANGED, host)
    agent.act()
    assert module.told[:-1] == [
        ("event_machine_unavailable", "5"),
        ("event_machine_available", "5"),
    ]


@pytest.mark.parametrize(
    "decision",
    [
        d.RegisterProfile("w0", "p", {}),
        d.Query({}),
    ],
    ids=lambda decision: decision.TYPE,
)
def test_what_batsim_py_cannot_do_is_named(agent: Any, module: Spy, decision: d.Decision) -> None:
    module.next = [[decision]]
    with pytest.raises(SimulationError) as caught:
        agent.act()
    assert str(caught.value).startswith(
        f"at 7.000000 s: {decision.TYPE} is not possible in batsim-py ({type(decision).__name__}("
    )


def test_a_job_whose_tasks_share_hosts_is_named(agent: Any, module: Spy) -> None:
    module.next = [[d.ExecuteJob("w0!1", HostSet.parse("0"), {"0": "0", "1": "0"})]]
    with pytest.raises(SimulationError, match="at 7.0* s: job 'w0!1' has tasks that share hosts"):
        agent.act()


def test_jobs_share_hosts_by_amounts(simulator: FakeSimulator) -> None:
    from qops_batsim.adapters.batsim_py import ModuleAgent

    # Of 8 cores two jobs of 3 run at once on the first host.
    simulator.platform.hosts = [
        SimpleNamespace(id=index, name=f"h{index}", metadata={"cores": "8"}, is_shareable=True)
        for index in range(2)
    ]
    agent = ModuleAgent(simulator, "fcfs")
    simulator.dispatch(SimulatorEvent.SIMULATION_BEGINS, simulator)
    for name in ("w0!1", "w0!2"):
        job = FakeJob(name, per_host={"cores": 3})
        job.res = 1
        simulator.dispatch(JobEvent.SUBMITTED, job)
    agent.act()
    assert simulator.calls == [("allocate", "w0!1", [0], None), ("allocate", "w0!2", [0], None)]


def test_what_batsim_py_refuses_is_named(agent: Any, module: Spy) -> None:
    module.next = [[d.ExecuteJob("w0!busy", HostSet.parse("0"))]]
    with pytest.raises(
        SimulationError, match="at 7.000000 s: batsim-py refuses ExecuteJob.*w0!bus"
    ):
        agent.act()


def test_an_agent_must_come_first(simulator: FakeSimulator, module: Spy) -> None:
    from qops_batsim.adapters.batsim_py import ModuleAgent

    simulator.is_running = True
    with pytest.raises(InputError, match="before simulator.start"):
        ModuleAgent(simulator, module)


class OneMessage(FakeSimulator):
    """A simulation that begins and then ends, or breaks."""

    broken = False

    def start(self, **arguments: Any) -> None:
        self.calls.append(("start", arguments))
        self.is_running = True
        self.dispatch(SimulatorEvent.SIMULATION_BEGINS, self)

    def proceed_time(self) -> None:
        if self.broken:
            raise RuntimeError("broken")
        self.is_running = False
        self.dispatch(SimulatorEvent.SIMULATION_ENDS, self)


def test_run_scheduler_begins_decides_and_ends() -> None:
    from qops_batsim.adapters.batsim_py import run_scheduler

    simulator = OneMessage()
    module = run_scheduler(simulator, Spy(), platform="p.xml", workload="w.json", verbosity="debug")
    assert isinstance(module, Spy)
    assert module.told == [("begin", ["h0", "h1", "h2"], False), ("decide", 7.0), "end"]
    start = {"platform": "p.xml", "workload": "w.json", "verbosity": "debug"}
    assert simulator.calls == [("start", start), ("close",)]


def test_run_scheduler_closes_the_simulation_after_an_error() -> None:
    from qops_batsim.adapters.batsim_py import run_scheduler

    simulator = OneMessage()
    simulator.broken = True
    with pytest.raises(RuntimeError, match="broken"):
        run_scheduler(simulator, "fcfs", platform="p.xml", workload="w.json")
    assert simulator.calls[-1] == ("close",)


WAYS_TO_END = {
    "exit code 3": "raise SystemExit(3)",
    "signal 9": "import os; os.kill(os.getpid(), 9)",
    "exit code 0": "",
    "signal 15": "import os; os.kill(os.getpid(), 15)",
}


@pytest.mark.parametrize("way", WAYS_TO_END)
def test_an_engine_that_dies_is_noticed(simulator: FakeSimulator, way: str) -> None:
    from qops_batsim.adapters.batsim_py import engine_watched

    def wait_for_the_end() -> None:
        code = f"import sys; sys.stdin.read(); {WAYS_TO_END[way]}"
        engine = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
        setattr(simulator, "_SimulatorHandler__simulator", engine)  # noqa: B010
        try:
            with engine_watched(simulator):
                assert engine.stdin is not None
                engine.stdin.close()
                os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT)
        finally:
            engine.wait(120)

    before = signal.getsignal(signal.SIGCHLD)
    if way in ("exit code 0", "signal 15"):
        wait_for_the_end()
    else:
        with pytest.raises(SimulationError, match=f"at 7.000000 s: batsim has ended with {way}"):
            wait_for_the_end()
    assert signal.getsignal(signal.SIGCHLD) == before


def test_options_are_checked_before_anything_starts() -> None:
    from qops_batsim.adapters.batsim_py import run_scheduler

    simulator = OneMessage()
    with pytest.raises(InputError, match="scheduler 'conservative' has no option 'reserv'"):
        run_scheduler(simulator, "conservative", {"reserv": 1}, platform="p.xml", workload="w.json")
    assert simulator.calls == []
