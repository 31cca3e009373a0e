"""The engine against recorded sessions of the real Batsim 4.2.1."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import QopsError, read_platform, read_workload, simulate
from qops_batsim.core import HostSet
from qops_batsim.engine import EngineOptions, Simulation, format_jobs, format_schedule
from qops_batsim.engine.energy import format_consumed_energy
from qops_batsim.engine.host_states import format_power_state_changes
from qops_batsim.engine.outputs import format_machine_states
from qops_batsim.platform import Platform, make_cluster
from qops_batsim.protocol import CallMeLater, Decision, ExecuteJob, JobSubmitted, Message, Stamped
from support.recordings import Case, cases, platform_of, replay

# Differ between Batsim's row of totals and ours by design.
WALL_CLOCK_COLUMNS = ("batsim_version", "scheduling_time", "simulation_time")

LOGS = {"kth": ("kth_delay.json.gz", 100), "sdsc5k": ("sdsc5k_delay.json.gz", 128)}


# Batsim 3.1.0 differs in what 4.2.1 does, and we follow 4.2.1: a killed computation returns -1
# there and -2 in 4.2.1; a computation that needs exactly its walltime is killed there.
ONLY_IN_310 = {"v310_kill": 1, "v310_walltime": 1}


@pytest.fixture(scope="module")
def zero_latency(shared: Path) -> list[Case]:
    return [case for case in cases(shared) if case.zero_latency]


def test_ended_sessions_replay_to_the_same_events_and_files(zero_latency: list[Case]) -> None:
    replayed = []
    for case in zero_latency:
        if not case.ended:
            continue
        simulation, peer = replay(case)
        differences = peer.differences
        assert len(differences) == ONLY_IN_310.get(case.name, 0), f"{case.name}: {differences[:1]}"
        if case.batsim == "4.2.1":
            assert format_jobs(simulation.ended_jobs) == case.output("jobs"), case.name
            states = format_machine_states(simulation.host_changes)
            assert states == case.output("machine_states"), case.name
            if case.name == "switch_sleep":
                assert simulation.energy is not None
                consumed = format_consumed_energy(simulation.energy.entries)
                assert consumed == case.output("consumed_energy")
                changed = format_power_state_changes(simulation.energy.switchable.noted)
                assert changed == case.output("pstate_changes")
            if not case.scheduler:
                ours, theirs = totals(format_schedule(simulation)), totals(case.output("schedule"))
                assert ours == theirs, case.name
        replayed.append(case.name)
    assert len(replayed) >= 35
    assert {
        "share_random",
        "query_energy",
        "switch_sleep",
        "events",
        "kill_nonet",
        "types_nonet",
        "dyn",
    } <= set(replayed)


def totals(text: str) -> dict[str, str]:
    (row,) = csv.DictReader(io.StringIO(text))
    return {name: value for name, value in row.items() if name not in WALL_CLOCK_COLUMNS}


def test_aborted_sessions_end_in_our_error(zero_latency: list[Case]) -> None:
    aborted = [case for case in zero_latency if not case.ended]
    assert len(aborted) >= 20
    for case in aborted:
        with pytest.raises(QopsError):
            replay(case)


@pytest.mark.parametrize(
    ("name", "workload"),
    [
        ("types_small", "inputs/types.json"),
        ("walltime_small", "inputs/walltime.json"),
        ("batsched_forward", "inputs/upstream/test_various_profile_types.json"),
    ],
)
def test_jobs_run_as_long_on_a_platform_with_a_network(
    shared: Path, name: str, workload: str
) -> None:
    """Dates differ by latencies there, but started at the recorded dates, jobs last as long."""
    directory = shared / "batsim"
    with (directory / "recorded" / f"{name}_jobs.csv").open() as stream:
        recorded = {f"w0!{row['job_id']}": row for row in csv.DictReader(stream)}
    simulation = Simulation(
        read_platform(directory / "inputs" / "upstream" / "small_platform.xml"),
        [read_workload(directory / workload)],
        ReplaySchedule(recorded),
        EngineOptions(message_delays=False),
    )
    simulation.run()
    ours = our_rows(simulation)
    assert ours.keys() == recorded.keys()
    for job_id, row in recorded.items():
        assert ours[job_id]["final_state"] == row["final_state"]
        assert ours[job_id]["execution_time"] == row["execution_time"], job_id


def test_networked_sessions_replay_to_the_same_events_and_files(shared: Path) -> None:
    """Every event at the recorded date, by our own message delays."""
    replayed = []
    for case in cases(shared):
        if case.zero_latency or not case.ended:
            continue
        simulation, peer = replay(case)
        assert not peer.differences, f"{case.name}: {peer.differences[:1]}"
        assert format_jobs(simulation.ended_jobs) == case.output("jobs"), case.name
        states = format_machine_states(simulation.host_changes)
        assert states == case.output("machine_states"), case.name
        replayed.append(case.name)
    assert len(replayed) == 22
    assert {"net_fqops_kills", "net1ms_qops", "aroma_grid", "kill_small"} <= set(replayed)


def test_actors_without_delays_replay_the_same(
    zero_latency: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where messages take no time, Batsim's actors do what the loop without them does."""
    monkeypatch.setattr(Platform, "has_latencies", True)
    replayed = 0
    for case in zero_latency:
        if case.ended and case.batsim == "4.2.1" and platform_of(case).master is not None:
            simulation, peer = replay(case)
            assert not peer.differences, f"{case.name}: {peer.differences[:1]}"
            assert format_jobs(simulation.ended_jobs) == case.output("jobs"), case.name
            replayed += 1
    assert replayed >= 28


class ReplaySchedule:
    """Starts every job at its recorded date on its recorded hosts."""

    def __init__(self, rows: dict[str, dict[str, str]]) -> None:
        self._rows = rows
        self._due: dict[float, list[str]] = {}

    def exchange(self, message: Message[Any]) -> Message[Decision]:
        now = message.now
        decisions: list[Decision] = []
        for item in message.events:
            if isinstance(item.body, JobSubmitted):
                start = float(self._rows[item.body.job_id]["starting_time"])
                if start not in self._due and start > now:
                    decisions.append(CallMeLater(start))
                self._due.setdefault(start, []).append(item.body.job_id)
        # Batsim never calls earlier than 10 us after it was asked.
        for start in [start for start in self._due if start <= now + 1.1e-5]:
            for job_id in self._due.pop(start):
                hosts = HostSet.parse(self._rows[job_id]["allocated_resources"])
                decisions.append(ExecuteJob(job_id, hosts))
        return Message(now, [Stamped(now, decision) for decision in decisions])


def recorded_rows(shared: Path, log: str, policy: str) -> dict[str, dict[str, str]]:
    path = shared / "batsim" / "recorded" / f"batsched_{log}_{policy}_jobs.csv.gz"
    with gzip.open(path, "rt") as stream:
        return {f"w0!{row['job_id']}": row for row in csv.DictReader(stream)}


def rows_of(text: str) -> dict[str, dict[str, str]]:
    rows = csv.DictReader(io.StringIO(text))
    return {f"{row['workload_name']}!{row['job_id']}": row for row in rows}


def our_rows(simulation: Simulation) -> dict[str, dict[str, str]]:
    return rows_of(format_jobs(simulation.ended_jobs))


def run(
    shared: Path, log: str, scheduler: str, settings: dict[str, str] | None = None
) -> Simulation:
    name, hosts = LOGS[log]
    workload = read_workload(shared / "batsim" / "inputs" / name)
    return simulate(
        scheduler, workload, make_cluster(128), settings, engine=EngineOptions(hosts=hosts)
    )


def mean_wait(rows: dict[str, dict[str, str]]) -> float:
    return sum(float(row["waiting_time"]) for row in rows.values()) / len(rows)


@pytest.mark.parametrize("log", LOGS)
def test_fcfs_equals_batsched_job_by_job(shared: Path, log: str) -> None:
    assert our_rows(run(shared, log, "fcfs")) == recorded_rows(shared, log, "fcfs")


@pytest.mark.sweep  # Half a minute uncompiled.
@pytest.mark.parametrize("log", LOGS)
def test_conservative_with_hosts_equals_batsched_job_by_job(shared: Path, log: str) -> None:
    ours = our_rows(run(shared, log, "conservative", {"reserve": "hosts"}))
    assert ours == recorded_rows(shared, log, "conservative_bf")


@pytest.mark.parametrize(
    ("log", "ours", "within"), [("kth", 6351.493, 0.01), ("sdsc5k", 3641.380, 0.01)]
)
def test_easy_is_close_to_batscheds_mean_wait(
    shared: Path, log: str, ours: float, within: float
) -> None:
    rows = our_rows(run(shared, log, "easy"))
    recorded = recorded_rows(shared, log, "easy_bf")
    assert mean_wait(rows) == pytest.approx(mean_wait(recorded), rel=within)
    assert mean_wait(rows) == pytest.approx(ours, abs=5e-4)
    states = {job: row["final_state"] for job, row in rows.items()}
    assert states == {job: row["final_state"] for job, row in recorded.items()}


@pytest.mark.sweep
@pytest.mark.parametrize(("log", "ours"), [("kth", 7008.948), ("sdsc5k", 3899.183)])
def test_conservative_planning_processors_waits_less(shared: Path, log: str, ours: float) -> None:
    rows = our_rows(run(shared, log, "conservative", {"reserve": "processors"}))
    assert mean_wait(rows) == pytest.approx(ours, abs=5e-4)
    assert mean_wait(rows) < mean_wait(recorded_rows(shared, log, "conservative_bf"))


@pytest.mark.parametrize("policy", ["easy_bf", "conservative_bf"])
@pytest.mark.parametrize("log", LOGS)
def test_recorded_starts_and_hosts_give_the_recorded_ends(
    shared: Path, log: str, policy: str
) -> None:
    name, hosts = LOGS[log]
    recorded = recorded_rows(shared, log, policy)
    workload = read_workload(shared / "batsim" / "inputs" / name)
    simulation = Simulation(
        make_cluster(128), [workload], ReplaySchedule(recorded), EngineOptions(hosts=hosts)
    )
    simulation.run()
    assert our_rows(simulation) == recorded
