"""The pybatsim adapter without pybatsim: what it makes of callbacks and decisions."""

from __future__ import annotations

import sys
from enum import Enum
from importlib.metadata import entry_points
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from qops_batsim import Fcfs, InputError, Job
from qops_batsim.adapters import pybatsim
from qops_batsim.adapters.pybatsim import scheduler_with
from qops_batsim.core import HostSet, System
from qops_batsim.protocol import Answer, JobCompleted, Notify
from qops_batsim.protocol import decisions as d
from support.scripted_module import ScriptedModule


class BatsimScheduler:
    """Stands for pybatsim's base class."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.base_options = options


class State(Enum):
    COMPLETED_KILLED = 6


class Spy(ScriptedModule):
    """Notes what it is told and decides what the test puts into ``next``."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []
        self.next: list[d.Decision] = []

    def begin(self, system: System) -> None:
        self.told.append(system)

    def submitted(self, job: Job) -> None:
        self.told.append(job)

    def completed(self, event: JobCompleted) -> None:
        self.told.append(event)

    def killed(self, job_ids: list[str]) -> None:
        self.told.append(("killed", job_ids))

    def call(self) -> None:
        self.told.append("call")

    def notified(self, notification: Notify) -> None:
        self.told.append(notification)

    def end(self) -> None:
        self.told.append("end")

    def decide(self, now: float) -> list[d.Decision]:
        self.told.append(("decide", now))
        return self.next


class Mine(Fcfs):
    """A scheduler in a file."""


class FakeBatsim:
    """Stands for pybatsim's ``Batsim``: notes which of its functions are called."""

    nb_resources = 3
    nb_compute_resources = 2
    nb_storage_resources = 1
    allow_compute_sharing = True
    allow_storage_sharing = False

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.batconf = {"dynamic-jobs-enabled": True, "redis-enabled": False}
        hosts = [
            {"id": 0, "name": "a", "state": "idle", "properties": {"memory": "8"}},
            {"id": 1, "name": "b", "state": "idle", "properties": {}},
        ]
        self.machines = {"compute": hosts, "storage": []}
        self.workloads = {"w0": "w.json"}
        self.profiles = {"w0": {"p": {"type": "delay", "delay": 1}}}
        self.jobs = {"w0!1": SimpleNamespace(id="w0!1"), "w0!2": SimpleNamespace(id="w0!2")}

    def time(self) -> float:
        return 7.5

    def register_job(self, *arguments: Any) -> Any:
        self.calls.append(("register_job", *arguments))
        self.sent = {"id": arguments[0], "walltime": None}
        return SimpleNamespace(json_dict=self.sent)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pybatsim, "make_scheduler", lambda scheduler, settings: Spy())
    made = scheduler_with(BatsimScheduler)({"scheduler": "spy"})
    made.bs = FakeBatsim()
    made.bs.scheduler = made
    return made


def test_all_events_of_a_message_come_before_one_decision(scheduler: Any) -> None:
    fields = {"id": "w0!1", "subtime": 7, "res": 2, "profile": "p", "user": "eve"}
    job = SimpleNamespace(
        id="w0!1",
        json_dict=fields,
        allocation="0-1",
        job_state=State.COMPLETED_KILLED,
        return_code=-1,
        progress={"progress": 0.5},
    )
    scheduler.onSimulationBegins()
    scheduler.onJobSubmission(job)
    scheduler.onJobCompletion(job)
    scheduler.onJobsKilled([job])
    scheduler.onRequestedCall()
    scheduler.onNoMoreJobsInWorkloads()
    scheduler.onNoMoreExternalEvents()
    scheduler.onNotifyEventMachineUnavailable("0 3-4")
    scheduler.onNotifyEventMachineAvailable("0")
    scheduler.onNotifyGenericEvent({"type": "lunch", "for": "all"})
    scheduler.onMachinePStateChanged((0, 0), "1")
    scheduler.onReportEnergyConsumed(3.0)
    scheduler.onJobMessage(7.5, job, "hello")
    assert scheduler.module.told == []
    scheduler.onNoMoreEvents()
    system, *rest = scheduler.module.told
    assert [host.name for host in system.hosts] == ["a", "b"]
    assert system.hosts[0].properties == {"memory": "8"}
    assert (system.compute_sharing, system.dynamic_jobs) == (True, True)
    assert system.profiles == scheduler.bs.profiles
    assert rest == [
        Job("w0!1", 7.0, 2, "p", fields=fields),
        JobCompleted("w0!1", "COMPLETED_KILLED", -1, HostSet.parse("0-1")),
        ("killed", ["w0!1"]),
        "call",
        Notify.of("no_more_static_job_to_submit"),
        Notify.of("no_more_external_event_to_occur"),
        Notify.of("event_machine_unavailable", resources="0 3-4"),
        Notify.of("event_machine_available", resources="0"),
        Notify({"type": "lunch", "for": "all"}),
        ("decide", 7.5),
    ]


def test_nothing_is_decided_when_the_simulation_ends(scheduler: Any) -> None:
    scheduler.onSimulationEnds()
    scheduler.onNoMoreEvents()
    assert scheduler.module.told == ["end"]


@pytest.mark.parametrize(
    ("decision", "call"),
    [
        (d.RejectJob("w0!1"), ("reject_jobs_by_id", ["w0!1"])),
        (d.CallMeLater(9.0), ("wake_me_up_at", 9.0)),
        (d.SetJobMetadata("w0!1", "text"), ("set_job_metadata", "w0!1", "text")),
        (
            d.RegisterProfile("w1", "q", {"type": "delay"}),
            ("register_profiles", "w1", {"q": {"type": "delay"}}),
        ),
        (Notify.of("registration_finished"), ("notify_registration_finished",)),
    ],
    ids=lambda value: getattr(value, "TYPE", None),
)
def test_decisions_become_calls(scheduler: Any, decision: d.Decision, call: tuple[Any]) -> None:
    scheduler.module.next = [decision]
    scheduler.onNoMoreEvents()
    assert scheduler.bs.calls == [call]


def test_decisions_about_jobs_name_pybatsims_jobs(scheduler: Any) -> None:
    first, second = scheduler.bs.jobs.values()
    scheduler.module.next = [d.KillJob(["w0!1", "w0!2"])]
    scheduler.onNoMoreEvents()
    assert scheduler.bs.calls == [("kill_jobs", [first, second])]


def test_a_registered_job_keeps_all_its_fields(scheduler: Any) -> None:
    job = Job.from_fields(
        {"id": "new", "subtime": 7, "res": 2, "profile": "p", "qos": {"deadline": 20}}, where="job"
    )
    scheduler.module.next = [d.RegisterJob("w1!new", job)]
    scheduler.onNoMoreEvents()
    assert scheduler.bs.calls == [("register_job", "w1!new", 2, None, "p")]
    assert scheduler.bs.sent == {**job.fields, "id": "w1!new"}


def test_an_execution(scheduler: Any) -> None:
    procset = pytest.importorskip("procset")
    scheduler.module.next = [d.ExecuteJob("w0!2", HostSet.parse("0 2-3"))]
    scheduler.onNoMoreEvents()
    ((name, job),) = scheduler.bs.calls
    assert (name, job) == ("execute_job", scheduler.bs.jobs["w0!2"])
    assert job.allocation == procset.ProcSet(0, (2, 3))
    assert not hasattr(job, "mapping")

    mapping = {"0": "0", "1": "0"}
    scheduler.module.next = [d.ExecuteJob("w0!2", HostSet.parse("3"), mapping)]
    scheduler.onNoMoreEvents()
    assert scheduler.bs.calls[-1][1].mapping == mapping


@pytest.mark.parametrize(
    "decision",
    [
        d.ChangeJobState("w0!1", "COMPLETED_KILLED"),
        d.ExecuteJob("w0!2", HostSet.parse("0"), None, {"disk": 7}),
        d.SetResourceState(HostSet.parse("0-1"), "2"),
        d.Query({"requests": {"consumed_energy": {}}}),
        Answer({}),
        Notify.of("lunch"),
    ],
    ids=lambda decision: decision.TYPE,
)
def test_a_decision_that_pybatsim_cannot_send_ends_it(scheduler: Any, decision: d.Decision) -> None:
    scheduler.module.next = [decision]
    with pytest.raises(SystemExit) as stop:
        scheduler.onNoMoreEvents()
    assert stop.value.code == (
        f"qops-batsim: error: at 7.500000 s: {decision.TYPE} cannot be sent through pybatsim"
    )


def test_a_wrapped_scheduler_ends_at_once(scheduler: Any) -> None:
    scheduler.bs.scheduler = "a ValidatingMachine"
    with pytest.raises(
        SystemExit, match="cannot run with pybatsim's --protect; start pybatsim without this option"
    ):
        scheduler.onSimulationBegins()


def test_options_reach_module_and_base_class() -> None:
    options = {"scheduler": "conservative", "reserve": "processors"}
    made = scheduler_with(BatsimScheduler)(options)
    assert made.module.options.reserve == "processors"
    assert made.base_options == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": f"{__file__}:Mine", "x": 1}, "has no option 'x'"),
        ({"scheduler": "easi"}, "unknown scheduler 'easi'; did you mean 'easy'?"),
        ({"order": "fcfs"}, """-o '{"scheduler": "easy"}' is expected, or another of aroma,"""),
    ],
)
def test_mistakes_in_options_end_it_with_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SystemExit) as stop:
        scheduler_with(BatsimScheduler)(options)
    assert str(stop.value.code).startswith("qops-batsim: error: ")
    assert message in str(stop.value.code)


def test_the_class_is_made_for_the_pybatsim_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("fake_pybatsim")
    fake.BatsimScheduler = BatsimScheduler
    monkeypatch.setitem(sys.modules, "fake_pybatsim", fake)
    monkeypatch.setattr(pybatsim, "BASES", ("not_installed.batsim", "fake_pybatsim"))
    (entry,) = [
        entry
        for entry in entry_points(group="pybatsim.schedulers")
        if entry.value.startswith("qops_batsim.")
    ]
    made = entry.load()
    assert (entry.name, made.__name__) == ("qops", "Qops")
    assert issubclass(made, BatsimScheduler)
    with pytest.raises(ImportError):
        from qops_batsim.adapters.pybatsim import QopsEasy  # noqa: F401


def test_a_missing_pybatsim_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pybatsim, "BASES", ("not_installed.batsim.batsim", "nor_that.batsim"))
    with pytest.raises(InputError, match="pybatsim is not installed; pip install --no-deps"):
        pybatsim.Qops  # noqa: B018


def test_a_broken_pybatsim_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "broken_pybatsim.py").write_text("import package_that_it_needs\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(pybatsim, "BASES", ("broken_pybatsim",))
    with pytest.raises(ModuleNotFoundError, match="package_that_it_needs"):
        pybatsim.Qops  # noqa: B018


def test_jobs_share_hosts_by_amounts() -> None:
    # Of 8 cores two jobs of 3 run at once on host a, which b, with a GPU, is kept from.
    procset = pytest.importorskip("procset")
    made: Any = scheduler_with(BatsimScheduler)({"scheduler": "fcfs"})
    made.bs = FakeBatsim()
    made.bs.scheduler = made
    for host, has in zip(made.bs.machines["compute"], ({}, {"gpus": "1"}), strict=True):
        host["properties"] = {"cores": "8", **has}
    made.onSimulationBegins()
    for name in ("w0!1", "w0!2"):
        fields = {"id": name, "subtime": 7, "res": 1, "profile": "p", "per_host": {"cores": 3}}
        made.onJobSubmission(SimpleNamespace(id=name, json_dict=fields))
    made.onNoMoreEvents()
    assert [job.id for _, job in made.bs.calls] == ["w0!1", "w0!2"]
    assert [job.allocation for _, job in made.bs.calls] == [procset.ProcSet(0)] * 2
