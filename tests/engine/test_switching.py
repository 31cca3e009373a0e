"""Hosts that change their power state."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, Job
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions, ExternalEvent, Simulation, write_outputs
from qops_batsim.errors import SimulationError
from qops_batsim.platform import Host, Platform
from qops_batsim.protocol import (
    Answer,
    Decision,
    Event,
    ExecuteJob,
    JobSubmitted,
    Message,
    RejectJob,
    Stamped,
)
from qops_batsim.protocol.decisions import Query, SetResourceState
from qops_batsim.protocol.events import ResourceStateChanged
from qops_batsim.workload import Workload

MASTER = Host(name="master_host", speeds=(1e8,), role="master")
Script = dict[float, list[Decision]]


def machine(hosts: int = 2, **changed: Any) -> Platform:
    """Hosts that compute in power states 0 and 1, and sleep in 2: off in 2 s, on in 4 s."""
    properties = {"wattage_per_state": "30:40:100,20:25:60,5:5:5,50:50:50,80:80:80"}
    host: dict[str, Any] = {
        "speeds": (1e8, 5e7, 1e-3, 0.5, 0.25),
        "properties": properties | {"sleep_pstates": "2:3:4"},
    }
    listed = tuple(Host(name=f"h{number}", **(host | changed)) for number in range(hosts))
    return Platform(compute_hosts=listed, master=MASTER)


def state(hosts: str, number: object) -> SetResourceState:
    return SetResourceState(HostSet.parse(hosts), str(number))


def execute(job: str, hosts: str) -> ExecuteJob:
    return ExecuteJob(f"w0!{job}", HostSet.parse(hosts))


def compute(flop: float, *submitted: float, processors: int = 1) -> Workload:
    profiles = {"c": {"type": "parallel_homogeneous", "cpu": flop, "com": 0}}
    jobs = [Job(str(n), date, processors, "c") for n, date in enumerate(submitted)]
    return Workload(jobs=jobs, profiles=profiles, processors=2, source="test.json")


class Follows:
    """Says what a script has for a date when it is first asked then; hears of hosts and jobs."""

    def __init__(self, script: Script) -> None:
        self._script = dict(script)
        self.heard: list[tuple[float, str]] = []

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        now = message.now
        for item in message.events:
            if isinstance(item.body, ResourceStateChanged):
                self.heard.append((now, f"{item.body.resources} in {item.body.state}"))
            elif isinstance(item.body, Answer):
                self.heard.append((now, f"{item.body.fields['consumed_energy']:g} J"))
        said: Iterable[Decision] = ()
        if now in self._script and any(isinstance(e.body, JobSubmitted) for e in message.events):
            said = self._script.pop(now)
        return Message(now, [Stamped(now, decision) for decision in said])


def run(script: Script, jobs: Workload, **more: Any) -> tuple[Simulation, list[tuple[float, str]]]:
    platform = more.pop("platform", None) or machine()
    peer = Follows(script)
    options = EngineOptions(energy=True, **more)
    simulation = Simulation(platform, [jobs], peer, options)
    simulation.run()
    return simulation, peer.heard


def test_hosts_sleep_and_wake_up_through_states_of_their_own(tmp_path: Path) -> None:
    script: Script = {
        0.0: [execute("0", "0"), state("1", 2)],
        10.0: [state("1", 0), execute("1", "0")],
        20.0: [execute("2", "1")],
    }
    simulation, heard = run(script, compute(1e8, 0.0, 10.0, 20.0))
    assert heard == [(2.0, "1 in 2"), (14.0, "1 in 0")]
    write_outputs(simulation, tmp_path / "out")
    files = {kind: (tmp_path / f"out_{kind}.csv").read_text().splitlines()[1:] for kind in FILES}
    assert files["pstate_changes"] == ["0,0-1,0", "0,1,-2", "2,1,2", "10,1,-1", "14,1,0"]
    assert files["machine_states"] == [
        "0,0,0,0,1,1",
        "0,0,0,1,0,1",
        "1,0,0,1,1,0",
        "2,1,0,0,1,0",
        "10,0,1,0,1,0",
        "10,0,1,0,0,1",
        "11,0,1,0,1,0",
        "14,0,0,0,2,0",
        "20,0,0,0,1,1",
        "21,0,0,0,2,0",
    ]
    # Host 0: 100 W for 2 s of computing, else 30. Host 1: 2 s off (50), 8 s asleep (5), 4 s on
    # (80), 6 s idle (30), 1 s computing.
    assert files["consumed_energy"][-1] == "21.000000,1510.000000,e,80.000000,130.000000"
    (row,) = files["schedule"]
    assert row.endswith("3.000000,15.000000,8.000000,2.000000,4.000000,0.000000")
    assert ",2,2,3,3,0,0,3,2," in row  # hosts, groups switched; hosts switched


FILES = ("pstate_changes", "machine_states", "consumed_energy", "schedule")


def test_a_slower_power_state_slows_the_job_that_runs() -> None:
    script: Script = {
        0.0: [execute("0", "0-1")],
        2.0: [state("1", 1), RejectJob("w0!1")],
        4.0: [state("1", 0), RejectJob("w0!2")],
    }
    simulation, heard = run(script, compute(1e9, 0.0, 2.0, 4.0, processors=2))
    assert heard == [(2.0, "1 in 1"), (4.0, "1 in 0")]
    # 2 s at full speed, 2 s at half of it, the rest at full speed.
    record = simulation.records["w0!0"]
    assert record.finish == pytest.approx(11.0)
    assert record.energy == pytest.approx(9 * 200 + 2 * (70 + 60))


def test_a_job_starts_slowly_on_a_host_in_a_slow_state() -> None:
    script: Script = {0.0: [state("0", 1), execute("0", "0")]}
    simulation, heard = run(script, compute(1e8, 0.0))
    assert heard == [(0.0, "0 in 1")]
    assert simulation.records["w0!0"].finish == 2.0
    assert simulation.records["w0!0"].energy == 120.0


def test_the_end_of_the_simulation_waits_for_switches() -> None:
    simulation, heard = run({0.0: [execute("0", "0"), state("1", 2)]}, compute(1e8, 0.0))
    assert heard == [(2.0, "1 in 2")]
    assert simulation.now == 2.0


def test_storage_hosts_have_watts_as_well() -> None:
    store = Host(name="s", speeds=(1.0,), role="storage", properties={"wattage_per_state": "7:7:7"})
    machines = machine(1)
    platform = Platform(compute_hosts=machines.compute_hosts, storage_hosts=(store,), master=MASTER)
    script: Script = {
        0.0: [execute("0", "0")],
        10.0: [Query({"requests": {"consumed_energy": {}}})],
    }
    script[10.0].append(execute("1", "0"))
    _, heard = run(script, compute(1e8, 0.0, 10.0), platform=platform)
    assert heard == [(10.0, f"{100 + 9 * 30 + 10 * 7} J")]


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        (
            [state("1", 5)],
            r"host 1 \(h1\) cannot be switched from power state 0 to 5: it has power",
        ),
        ([state("1", 3)], "0 to 3: it only passes through that while it is switched"),
        ([state("1", 2), state("1", 0)], "from power state 3 to 0: it is being switched"),
        ([execute("0", "1"), state("0-1", 2)], "from power state 0 to 2: it is computing"),
        ([state("1", 2), execute("0", "1")], "cannot start on host 1: it is switching off"),
        ([state("2", 1)], "host 2 cannot be switched: hosts are 0 to 1"),
        ([state("", 1)], "SET_RESOURCE_STATE names no host; at least one is expected"),
        ([state("1", -1)], "asks for state '-1'; the number of a power state"),
        ([state("1", "off")], "asks for state 'off'"),
    ],
)
def test_switches_that_batsim_does_not_carry_out_are_refused(
    decisions: list[Decision], message: str
) -> None:
    with pytest.raises(SimulationError, match=message):
        run({0.0: decisions}, compute(1e8, 0.0))


@pytest.mark.parametrize(
    ("changed", "decision", "message"),
    [
        ({"power_state": 2}, state("0", 2), "from power state 2 to 2: it sleeps"),
        ({"power_state": 2}, execute("0", "0"), "it is in power state 2, in which it does not"),
        ({"speeds": (1e8, 5e7, 0.0, 0.0, 0.25)}, state("0", 2), "power state 3, .* no speed"),
    ],
)
def test_states_at_the_beginning(changed: dict[str, Any], decision: Decision, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        run({0.0: [decision]}, compute(1e8, 0.0), platform=machine(**changed))


def test_a_host_that_is_away_cannot_go_to_sleep() -> None:
    away = ExternalEvent(0.0, "machine_unavailable", HostSet.parse("1"), {})
    with pytest.raises(SimulationError, match="from power state 0 to 2: it is unavailable"):
        run({1.0: [state("1", 2)]}, compute(1e8, 1.0), external_events=(away,))


@pytest.mark.parametrize("back", [None, 1.5, 10.0])
def test_a_host_that_leaves_falls_asleep_all_the_same(tmp_path: Path, back: float | None) -> None:
    # As recorded from Batsim, which aborts where a host returns that fell asleep meanwhile.
    events = [ExternalEvent(1.0, "machine_unavailable", HostSet.parse("1"), {})]
    script: Script = {0.0: [execute("0", "0"), state("1", 2)], 20.0: [execute("1", "0")]}
    if back is not None:
        events.append(ExternalEvent(back, "machine_available", HostSet.parse("1"), {}))
        script[20.0].append(state("1", 0))
    simulation, heard = run(script, compute(1e8, 0.0, 20.0), external_events=tuple(events))
    woken = [] if back is None else [(24.0, "1 in 0")]
    assert heard == [(2.0, "1 in 2"), *woken]
    write_outputs(simulation, tmp_path / "out")
    states = (tmp_path / "out_machine_states.csv").read_text().splitlines()
    assert "2,1,0,0,1,0" in states
    assert states[-1] == ("21,1,0,0,1,0" if back is None else "24,0,0,0,2,0")


def test_without_energy_hosts_cannot_be_switched() -> None:
    peer = Follows({0.0: [state("1", 2)]})
    with pytest.raises(SimulationError, match="SET_RESOURCE_STATE was received but energy is not"):
        Simulation(machine(), [compute(1e8, 0.0)], peer).run()


def test_a_platform_without_readable_watts_is_refused() -> None:
    odd = machine(properties={"wattage_per_state": "30:40:100"})
    with pytest.raises(InputError, match="host 'h0': property wattage_per_state .* 5 power states"):
        run({}, compute(1e8, 0.0), platform=odd)
