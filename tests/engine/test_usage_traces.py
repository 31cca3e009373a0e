"""Jobs whose ranks replay traces of how they used their cores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions, Simulation
from qops_batsim.errors import SimulationError
from qops_batsim.protocol import (
    CallMeLater,
    Decision,
    Event,
    ExecuteJob,
    JobKilled,
    JobSubmitted,
    KillJob,
    Message,
    RequestedCall,
    Stamped,
)
from qops_batsim.protocol.decisions import RegisterProfile
from qops_batsim.workload.batsim_json import read_workload_file
from support.platform_text import parse_zone

WATTS = '<prop id="wattage_per_state" value="10:20:60"/>'
HOSTS = (
    f'<host id="a" speed="10f" core="4">{WATTS}</host>'
    f'<host id="b" speed="5f" core="2">{WATTS}</host>'
)
TRACES = {
    "t/ranks": "r0\nr1",  # The list's last line needs no end.
    "t/r0": "# all, then one of four\n0 m_usage 1.0 40\n\n1 m_usage 1 1e9\n0 m_usage .25 10\n",
    "t/r1": "1\tm_usage 0.5 50 and more\n",
}
NETWORK = (
    '<host id="master_host" speed="1f"/><link id="l" bandwidth="1GBps" latency="3s"/>'
    '<link id="m" bandwidth="1GBps"/>'
    '<route src="a" dst="b"><link_ctn id="l"/></route>'
    '<route src="a" dst="master_host"><link_ctn id="m"/></route>'
    '<route src="b" dst="master_host"><link_ctn id="m"/></route>'
)
JOB = {"id": "1", "subtime": 0, "res": 2, "profile": "trace"}


class Starting:
    """Starts each job on both hosts, and maybe kills it at a date."""

    def __init__(self, kill_at: float | None = None) -> None:
        self._kill_at = kill_at
        self.killed: list[JobKilled] = []

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        decisions: list[Decision] = []
        for event in (item.body for item in message.events):
            if isinstance(event, JobSubmitted):
                decisions.append(ExecuteJob(event.job_id, HostSet.parse("0-1")))
                decisions += [CallMeLater(self._kill_at)] if self._kill_at else []
            elif isinstance(event, RequestedCall):
                decisions.append(KillJob(["w0!1"]))
            elif isinstance(event, JobKilled):
                self.killed.append(event)
        return Message(message.now, [Stamped(message.now, each) for each in decisions])


def simulation_of(
    directory: Path,
    *,
    job: dict[str, object] | None = None,
    peer: Starting | None = None,
    network: str = "",
    energy: bool = False,
    dynamic_jobs: bool = False,
    trace: str = "t/ranks",
    **files: str,
) -> Simulation:
    for name, text in {**TRACES, **files}.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    profiles = {
        "trace": {"type": "usage_trace", "trace": trace},
        "nap": {"type": "delay", "delay": 2},
        "twice": {"type": "composed", "seq": ["trace", "nap", "trace"]},
    }
    content = {"nb_res": 2, "jobs": [{**JOB, **(job or {})}], "profiles": profiles}
    (directory / "w.json").write_text(json.dumps(content))
    workload = read_workload_file(str(directory / "w.json"))
    options = EngineOptions(energy=energy, dynamic_jobs=dynamic_jobs)
    return Simulation(parse_zone(HOSTS + network), [workload], peer or Starting(), options)


def test_each_rank_goes_at_its_own_pace(tmp_path: Path) -> None:
    """
    a (4 × 10 flop/s)   ████ 4 ▂ 5 ─────      60 W to 4 s, 30 W to 5 s, then idle at 10 W
    b (2 × 5 flop/s)    ▅▅▅▅▅▅▅▅▅▅ 10         half of it: 40 W
    """
    simulation = simulation_of(tmp_path, energy=True)
    simulation.run()
    (record,) = simulation.ended
    assert (record.state, record.finish) == ("COMPLETED_SUCCESSFULLY", pytest.approx(10.0))
    assert record.energy == pytest.approx(4 * 60 + 30 + 5 * 10 + 10 * 40)


def test_within_a_sequence(tmp_path: Path) -> None:
    simulation = simulation_of(tmp_path, job={"profile": "twice"})
    simulation.run()
    assert simulation.ended[0].finish == pytest.approx(22.0)


@pytest.mark.parametrize(("walltime", "finish"), [(6, 6.0), (20, 10.0)])
def test_the_walltime_holds_for_all_ranks(tmp_path: Path, walltime: int, finish: float) -> None:
    simulation = simulation_of(tmp_path, job={"walltime": walltime})
    simulation.run()
    (record,) = simulation.ended
    assert record.finish == pytest.approx(finish)
    assert (record.state == "COMPLETED_WALLTIME_REACHED") is (finish == 6.0)


def test_a_kill_stops_all_ranks_and_tells_no_progress(tmp_path: Path) -> None:
    peer = Starting(kill_at=4.5)
    simulation = simulation_of(tmp_path, peer=peer)
    simulation.run()
    (record,) = simulation.ended
    assert (record.state, record.return_code, record.finish) == ("COMPLETED_KILLED", -1, 4.5)
    assert peer.killed[0].job_progress == {"w0!1": {"profile_name": "trace", "progress": 0.0}}
    assert simulation.now == 4.5


def test_ranks_take_hosts_in_turn_or_as_the_job_says(tmp_path: Path) -> None:
    # Both ranks on b: 40 flop on each of two cores, 10 on one of them; half of the cores is one.
    job = {"smpi_ranks_to_hosts_mapping": [1, 1]}
    simulation = simulation_of(tmp_path, job=job)
    simulation.run()
    (record,) = simulation.ended
    assert record.finish > 13
    (tmp_path / "t/r2").write_text("2 m_usage 1 1\n")
    third = simulation_of(tmp_path, **{"t/ranks": "r0\nr1\nr2\n", "t/r0": "\n", "t/r1": "\n"})
    third.run()
    assert third.ended[0].finish == pytest.approx(0.1)  # on host a again


@pytest.mark.parametrize("mapping", [[0], [0, 2], [0, -1], [0, "1"], {"0": 1}])
def test_a_mapping_that_does_not_fit(tmp_path: Path, mapping: object) -> None:
    simulation = simulation_of(tmp_path, job={"smpi_ranks_to_hosts_mapping": mapping})
    with pytest.raises(SimulationError, match="mapping is .*; 2 whole numbers from 0 to 1"):
        simulation.run()


def test_on_a_network_ranks_write_that_they_have_ended(tmp_path: Path) -> None:
    """The job reads on its first host, one letter after the other.

    a ends at 5 s: its letter comes by the loopback, at once here; that of b at 10 s takes 3 s.
    """
    simulation = simulation_of(tmp_path, network=NETWORK)
    simulation.run()
    (record,) = simulation.ended
    assert record.finish - record.start == pytest.approx(13.0)


def test_letters_of_many_ranks_may_have_no_way(tmp_path: Path) -> None:
    # They wait for that of rank 0, which comes by the loopback of a; none leads from b to a.
    network = NETWORK.replace('<route src="a" dst="b"><link_ctn id="l"/></route>', "")
    ranks = 3_000
    mapping = {"smpi_ranks_to_hosts_mapping": [0] + [1] * (ranks - 1)}
    traces = {"t/ranks": "r0\n" + "r1\n" * (ranks - 1), "t/r0": "\n", "t/r1": "\n"}
    simulation = simulation_of(tmp_path, job=mapping, network=network, **traces)
    simulation.run()
    assert simulation.ended[0].state == "COMPLETED_SUCCESSFULLY"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("t/ranks", "", "ranks: names no trace"),
        ("t/ranks", "r0\nr9\n", "t/r9: no such file; a usage trace is expected"),
        ("t/ranks", "r0\n/dev/zero\n", "t//?dev/zero: no such file"),
        ("t/ranks", "r0\n\0\n", "no such file"),
        (
            "t/r0",
            "0 m_usage 1 1",
            "r0: the last line does not end with a line feed, so SimGrid would leave it out; a "
            "line feed is expected",
        ),
        ("t/r0", "\n0 compute 5\n", "r0, line 2: .*compute.* was found; action m_usage"),
        ("t/r0", "0\n", "r0, line 1: .* action m_usage is expected"),
        ("t/r0", "0 m_usage 1.5 5\n", "line 1: '1.5' was found; a share of the cores from 0 to 1"),
        ("t/r0", "0 m_usage 1\n", "line 1: '' was found; a number of flop from 0 up"),
        ("t/r0", "0 m_usage 1 inf\n", "line 1: 'inf' was found; a number of flop"),
        ("t/r0", "0 m_usage 1 1_0\n", "line 1: '1_0' was found; a number of flop"),
        ("t/r0", "0 m_usage nan 1\n", "line 1: 'nan' was found; a share"),
    ],
)
def test_traces_that_cannot_be_read(tmp_path: Path, file: str, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        simulation_of(tmp_path, **{file: text})


@pytest.mark.parametrize("name", ["../secret", "t/../../secret", "t/link", "t/out/secret"])
@pytest.mark.parametrize("place", ["list", "trace"])
def test_no_trace_lies_outside_the_directory(tmp_path: Path, name: str, place: str) -> None:
    (tmp_path / "secret").write_text("not for all\n")
    inside = tmp_path / "in"
    (inside / "t").mkdir(parents=True)
    (inside / "t" / "link").symlink_to("../../secret")
    (inside / "t" / "out").symlink_to(tmp_path)
    files = {"t/ranks": f"r0\n../{name}"} if place == "trace" else {}
    with pytest.raises(InputError, match="leads out of .*, the workload's directory") as caught:
        simulation_of(inside, trace=name if place == "list" else "t/ranks", **files)
    assert name in str(caught.value)
    assert "not for all" not in str(caught.value)


def test_traces_come_with_a_workload_only(tmp_path: Path) -> None:
    class Registering(Starting):
        def exchange(self, message: Message[Event]) -> Message[Decision]:
            profile = {"type": "usage_trace", "trace": "t/ranks"}
            decision = RegisterProfile("w0", "new", profile)
            return Message(message.now, [Stamped(message.now, decision)])

    simulation = simulation_of(tmp_path, peer=Registering(), dynamic_jobs=True)
    with pytest.raises(SimulationError, match="profile w0!new is of type 'usage_trace'; only the"):
        simulation.run()
