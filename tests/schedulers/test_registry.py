"""Schedulers by name, their options, and the driver that calls them."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import msgspec
import pytest

from qops_batsim import Conservative, Fcfs, InputError, Job, SchedulerOptions
from qops_batsim.core import HostDescription, HostSet, System
from qops_batsim.protocol import (
    CallMeLater,
    Decision,
    EngineConfig,
    JobCompleted,
    JobKilled,
    JobSubmitted,
    Message,
    ModuleDriver,
    Notify,
    RequestedCall,
    SchedulerModule,
    SimulationBegins,
    Stamped,
    make_scheduler,
)
from qops_batsim.protocol.events import SimulationEnds
from qops_batsim.schedulers import scheduler_class, scheduler_names
from qops_batsim.schedulers.registry import GROUP, OURS, parse_settings, read_options
from support.scripted_module import ScriptedModule


class Options(SchedulerOptions, frozen=True, kw_only=True):
    k_factor: Annotated[int, msgspec.Meta(ge=0)] = 5
    order: str = "least_laxity"
    share: float = 0.5


class Configured(Fcfs):
    """Has options."""

    Options = Options


class Listener(ScriptedModule):
    """Writes down what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def begin(self, system: System) -> None:
        self.heard.append(f"begin {len(system.hosts)} {system.dynamic_jobs}")

    def submitted(self, job: Job) -> None:
        self.heard.append(f"submitted {job.id}")

    def completed(self, event: JobCompleted) -> None:
        self.heard.append(f"completed {event.job_id} {event.alloc}")

    def killed(self, job_ids: list[str]) -> None:
        self.heard.append(f"killed {job_ids}")

    def call(self) -> None:
        self.heard.append("call")

    def notified(self, notification: Notify) -> None:
        self.heard.append(f"notified {notification.type}")

    def end(self) -> None:
        self.heard.append("end")

    def decide(self, now: float) -> list[Decision]:
        self.heard.append(f"decide {now:g}")
        return [CallMeLater(now + 1)]


def test_our_schedulers_are_registered() -> None:
    installed = entry_points(group=GROUP)
    assert {each.name: each.value for each in installed if each.value.startswith("qops_")} == OURS
    assert OURS.keys() <= set(scheduler_names())
    assert scheduler_class("fcfs") is Fcfs
    module = make_scheduler("conservative", {"reserve": "processors"})
    assert isinstance(module, SchedulerModule)
    assert isinstance(module.scheduler, Conservative)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown scheduler 'easi'; did you mean 'easy'"):
        scheduler_class("easi")


def test_options_are_converted_and_checked() -> None:
    settings = parse_settings(["k_factor=3", "order=earliest_deadline", "share=1"])
    assert settings == {"k_factor": 3, "order": "earliest_deadline", "share": 1}
    read = read_options("configured", Configured, settings)
    assert read == Options(k_factor=3, order="earliest_deadline", share=1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k_facto": 3}, "has no option 'k_facto'; did you mean 'k_factor'"),
        ({"k_factor": "many"}, "option k_factor is 'many'; a whole number from 0 up is expected"),
        ({"k_factor": -1}, "option k_factor is -1"),
        ({"k_factor": 1 << 63}, "option k_factor is 9223372036854775808; a whole number up to"),
        ({"share": None}, "option share is null"),
    ],
)
def test_wrong_options_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_options("configured", Configured, settings)


@pytest.mark.parametrize("text", ["k_factor", "=3", ""])
def test_a_setting_needs_name_and_value(text: str) -> None:
    with pytest.raises(InputError, match="NAME=VALUE is expected"):
        parse_settings([text])


def test_a_setting_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match="'a' is given twice"):
        parse_settings(["a=1", "a=2"])


def test_the_driver_tells_events_in_order_and_asks_once() -> None:
    listener = Listener()
    driver = ModuleDriver(listener)
    begins = SimulationBegins(
        nb_resources=1,
        nb_compute_resources=1,
        config=EngineConfig(dynamic_jobs_enabled=True),
        compute_resources=[HostDescription(0, "host0")],
    )
    assert driver.exchange(Message(0.0, [Stamped(0.0, begins)])).events == [
        Stamped(0.0, CallMeLater(1.0))
    ]
    job = Job("w0!1", 3.0, 1, "p")
    events = [
        RequestedCall(),
        JobSubmitted("w0!1", job),
        JobCompleted("w0!0", "COMPLETED_KILLED", -1, HostSet.parse("0")),
        JobKilled(["w0!0"]),
        Notify.of("no_more_static_job_to_submit"),
    ]
    driver.exchange(Message(3.0, [Stamped(3.0, event) for event in events]))
    assert driver.exchange(Message(4.0, [Stamped(4.0, SimulationEnds())])).events == []
    assert listener.heard == [
        "begin 1 True",
        "decide 0",
        "call",
        "submitted w0!1",
        "completed w0!0 0",
        "killed ['w0!0']",
        "notified no_more_static_job_to_submit",
        "decide 3",
        "end",
    ]
