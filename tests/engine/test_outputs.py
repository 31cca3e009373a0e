"""The output files against the same written naively, row by row."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from qops_batsim import InputError, Job, read_run, run, simulate, tables
from qops_batsim.core import HostSet, System
from qops_batsim.engine import EngineOptions, Simulation, format_jobs, format_schedule
from qops_batsim.engine.ended_jobs import STATE_CODES
from qops_batsim.engine.outputs import format_machine_states
from qops_batsim.errors import SimulationError
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import Host, Platform, make_cluster
from qops_batsim.protocol import Decision, ExecuteJob, Notify, RejectJob, make_scheduler
from qops_batsim.running.contract import cases
from qops_batsim.workload import Workload, delay_profile
from support.output_oracles import plain_jobs, plain_machine_states, plain_schedule
from support.scripted_module import ScriptedModule


class Crowd(ScriptedModule):
    """Starts every job at once on the lowest hosts, many on one; rejects what is too wide."""

    def begin(self, system: System) -> None:
        self._hosts = HostSet.first(len(system.hosts))
        self._new: list[Job] = []

    def submitted(self, job: Job) -> None:
        self._new.append(job)

    def notified(self, notification: Notify) -> None:
        hosts = HostSet.parse(notification.fields.get("resources", ""))
        away = notification.type == "event_machine_unavailable"
        self._hosts = self._hosts - hosts if away else self._hosts | hosts

    def decide(self, now: float) -> list[Decision]:
        new, self._new = self._new, []
        return [
            ExecuteJob(job.id, self._hosts.lowest(job.processors))
            if 1 <= job.processors <= len(self._hosts)
            else RejectJob(job.id)
            for job in new
        ]


def simulations() -> Iterator[Simulation]:
    """Yield simulations of small workloads, also with sharing, outages and energy."""
    for case in cases():
        if case.platform is not None:
            continue  # Its hosts are shared by amounts, not by a crowd.
        machine = Platform(
            compute_hosts=[
                Host(
                    name=f"h{index}",
                    speeds=(1e8,),
                    properties={"wattage_per_state": "90:105:180"},
                )
                for index in range(case.hosts)
            ]
        )
        for sharing in (False, True):
            for energy in (False, True):
                yield simulate(
                    Crowd() if sharing else make_scheduler("easy"),
                    case.workload,
                    machine,
                    engine=EngineOptions(
                        compute_sharing=sharing,
                        energy=energy,
                        external_events=case.events,
                    ),
                )


def test_files_are_those_written_row_by_row() -> None:
    rejected = shared = away = 0
    for simulation in simulations():
        assert format_jobs(simulation.ended_jobs) == plain_jobs(simulation.ended)
        assert format_schedule(simulation) == plain_schedule(simulation)
        changes = simulation.computing_changes
        assert format_machine_states(simulation.host_changes) == plain_machine_states(changes)
        rejected += any(record.state == REJECTED for record in simulation.ended)
        shared += simulation.options.compute_sharing
        away += bool(simulation.outages)
    assert min(rejected, shared, away) > 0


def test_columns_hold_what_the_records_hold() -> None:
    for simulation in simulations():
        jobs = simulation.ended_jobs
        assert simulation.ended_jobs is jobs
        for index, record in enumerate(simulation.ended):
            assert f"{jobs.workloads.texts()[index]}!{jobs.ids[index]}" == record.job.id
            assert jobs.profiles.texts()[index] == record.job.profile
            assert jobs.submission_times[index] == record.submission_time
            assert jobs.processors[index] == record.job.processors
            assert jobs.states[index] == STATE_CODES[record.state]
            assert tables.cells(jobs.hosts)[index] == str(record.hosts)
            assert jobs.ran[index] == (not math.isnan(record.start))
        assert len(jobs.ids) == len(simulation.ended)


@pytest.mark.parametrize("date", [0.0, 5e11])
def test_what_ends_as_it_starts_is_written_later(date: float) -> None:
    name, profile = delay_profile(1e-12)
    jobs = [Job("1", date, 1, name)]
    done = simulate("fcfs", Workload(jobs, {name: profile}, 1), make_cluster(1))
    assert done.ended_jobs.table()["finish_time"][0] == (date + math.ulp(date) if date else 1e-12)


@pytest.mark.parametrize(
    ("submission", "delay"),
    [(1e12, 1e12), (1e12, 60), (2e11, 1e-6), (-1e12, 1e12), (-1e12, 1e-9), (5, 1e-8), (0, 5e-324)],
)
@pytest.mark.parametrize("scheduler", ["easy", "qops", "slack"])
def test_extreme_dates_are_written_so_that_they_are_read(
    tmp_path: Path, scheduler: str, submission: float, delay: float
) -> None:
    name, profile = delay_profile(delay)
    jobs = [Job("1", submission, 2, name), Job("2", submission, 2, name)]
    workload = Workload(jobs, {name: profile}, 4)
    found = run(scheduler, workload, out=tmp_path / "x")
    assert found.violations == []
    assert found.metrics["jobs_submitted"] == 2


def test_dates_that_no_reader_accepts_are_not_written(tmp_path: Path) -> None:
    name, profile = delay_profile(1e12)
    jobs = [Job(str(number), 1e12, 4, name) for number in range(2)]
    with pytest.raises(
        SimulationError, match="on a cluster of 4 hosts: job '1' ends at 3000000000000"
    ):
        run("easy", Workload(jobs, {name: profile}, 4), out=tmp_path / "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "job", [Job("a,b", 0, 1, "p"), Job("1", 2e12, 1, "p"), Job("1", 0, -1, "p")]
)
def test_jobs_of_a_program_are_held_to_what_a_file_may_say(job: Job) -> None:
    with pytest.raises(InputError, match="a workload: job"):
        simulate("easy", Workload([job], {"p": {"type": "delay", "delay": 1}}, 4), None)


REASON = """
from qops_batsim import Easy


class Formula(Easy):
    def submitted(self, job):
        super().submitted(job)
        self.manager.record(job).reason = "=1+1, once"
        self.manager.record(job).category = "@x"
"""


@pytest.mark.parametrize("engine_rows", ["few", "many"])
def test_no_spreadsheet_computes_what_others_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_rows: str
) -> None:
    if engine_rows == "many":
        monkeypatch.setattr(tables, "ROWS_AT_ONCE", 3)
        monkeypatch.setattr(tables, "FEW_BYTES", 0)
    (tmp_path / "f.py").write_text(REASON)
    ids = ["=1+1", "-5", "+1", "@x", "-x", "'=y", "plain", "='z"]
    profiles = {f"={each}": profile for each, profile in [delay_profile(3)]}
    jobs = [Job(each, 0.0, 1, next(iter(profiles)), 5.0) for each in ids]
    workload = Workload(jobs=jobs, profiles=profiles, processors=2, source="here")
    done = run(f"{tmp_path}/f.py:Formula", workload, out=tmp_path / "run")
    assert done.violations == []
    assert sorted(done.result.text("job_id")) == sorted(ids)
    assert set(done.result.text("profile")) == set(profiles)
    for ending in ("jobs", "qos"):
        with (tmp_path / f"run_{ending}.csv").open(newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert {each for each in cells if each.startswith(("=", "+", "-", "@"))} <= {
            *("-5", "+1", "-1.000000")
        }
    told = read_run(tmp_path / "run").qos.set_index("id")
    assert told["reason"]["w0!plain"] == "=1+1, once"
    assert sorted(told["job_id"]) == sorted(ids)
