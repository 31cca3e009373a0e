"""Jobs that do more than sleep: a scheduler in this process against texts, to the byte."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from qops_batsim import Conservative, Easy, Fcfs, Job, Qops, Scheduler, simulate
from qops_batsim.core import HostSet, ResourceManager, format_qos
from qops_batsim.engine import EngineOptions, ExternalEvent, Simulation, write_outputs
from qops_batsim.engine.simulation import Deadlock
from qops_batsim.platform import Platform
from qops_batsim.protocol import ModuleDriver, make_scheduler
from qops_batsim.workload import Workload
from support.only_texts import OnlyTexts
from support.platform_text import parse_zone

HOSTS = 6
PROFILES = {
    **{f"sleep {seconds}": {"type": "delay", "delay": seconds} for seconds in range(1, 20)},
    "fail": {"type": "delay", "delay": 4, "ret": 3},
    "compute": {"type": "parallel_homogeneous", "cpu": 80, "com": 0},
    "send": {"type": "parallel_homogeneous", "cpu": 30, "com": 50},
    "total": {"type": "parallel_homogeneous_total", "cpu": 200, "com": 300},
    "store": {
        "type": "parallel_homogeneous_pfs",
        "bytes_to_read": 40,
        "bytes_to_write": 20,
        "storage": "disk",
    },
    "steps": {"type": "composed", "repeat": 2, "seq": ["sleep 2", "compute", "sleep 1"]},
    "mixed": {"type": "composed", "seq": ["send", "store", "fail", "sleep 5"]},
    "many": {"type": "composed", "repeat": 2000, "seq": ["sleep 1"]},
}


def platform() -> Platform:
    """Hosts of 10 or 8 flop/s whose links meet in one, with latencies, and a disk; no master."""
    watts = '<prop id="wattage_per_state" value="10:20:60"/>'
    storage = '<prop id="role" value="storage"/>'
    names = [*(f"h{number}" for number in range(HOSTS)), "disk"]
    hosts = "".join(
        f'<host id="{name}" speed="{8 if name == "h2" else 10}f">{watts}'
        f"{storage if name == 'disk' else ''}</host>"
        f'<link id="of {name}" bandwidth="20Bps" latency="500ms"/>'
        for name in names
    )
    routes = "".join(
        f'<route src="{a}" dst="{b}"><link_ctn id="of {a}"/><link_ctn id="shared"/>'
        f'<link_ctn id="of {b}"/></route>'
        for index, a in enumerate(names)
        for b in names[index + 1 :]
    )
    return parse_zone(f'{hosts}<link id="shared" bandwidth="35Bps"/>{routes}')


def workload(seed: int, *, names: list[str] | None = None) -> Workload:
    """Return jobs of all profiles, many of which begin and end at one date."""
    rng, jobs, date = random.Random(seed), [], 0.0
    for number in range(40):
        date += rng.choice([0.0, 0.0, rng.randint(1, 12)])
        name = rng.choice(names or [each for each in PROFILES if each != "many"])
        limit = rng.choice([60, rng.randint(3, 30)])
        jobs.append(Job(str(number), date, rng.randint(1, HOSTS + 1), name, walltime=limit))
    return Workload(jobs=jobs, profiles=PROFILES, processors=HOSTS, source="test.json")


def outages(seed: int) -> tuple[ExternalEvent, ...]:
    rng, hosts = random.Random(seed), HostSet.parse("1-2")
    kinds = ("machine_unavailable", "machine_available")
    return tuple(
        ExternalEvent(float(date), kinds[turn % 2], hosts, {"type": kinds[turn % 2]})
        for turn, date in enumerate(sorted(rng.sample(range(200), 4)))
    )


def files_of(simulation: Simulation, log: object, directory: Path) -> dict[str, bytes]:
    """Return what is written of a run."""
    paths = write_outputs(simulation, directory / "run")
    written = {path.name: path.read_bytes() for path in paths}
    return written | {"qos": b"".join(format_qos(log))}


def both_ways(
    kind: type[Scheduler], jobs: Workload, engine: EngineOptions, directory: Path
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the files of a run in this process, and of the same run in texts."""
    module = make_scheduler(kind)
    done = simulate(module, jobs, platform(), engine=engine)
    here = files_of(done, module.qos_log, directory)
    module = make_scheduler(kind)
    peer = OnlyTexts(ModuleDriver(module, any_engine=True))
    told = Simulation(platform(), [jobs], peer, engine)
    told.run()
    assert told.happened == done.happened
    states = [
        [(each.job.id, each.state, each.return_code) for each in run.ended] for run in (done, told)
    ]
    assert states[0] == states[1]
    return here, files_of(told, module.qos_log, directory)


@pytest.mark.parametrize("kind", [Fcfs, Easy, Conservative, Qops])
@pytest.mark.parametrize("energy", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_jobs_of_all_profiles(
    kind: type[Scheduler], energy: bool, seed: int, tmp_path: Path
) -> None:
    here, told = both_ways(kind, workload(seed), EngineOptions(energy=energy), tmp_path)
    assert here == told
    assert ("run_consumed_energy.csv" in told) == energy
    states = set(told["run_jobs.csv"].replace(b"\n", b",").split(b","))
    ends = {b"COMPLETED_SUCCESSFULLY", b"COMPLETED_FAILED", b"COMPLETED_WALLTIME_REACHED"}
    assert ends <= states


@pytest.mark.parametrize("kind", [Easy, Conservative])
@pytest.mark.parametrize("energy", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_hosts_that_leave_and_return(
    kind: type[Scheduler], energy: bool, seed: int, tmp_path: Path
) -> None:
    engine = EngineOptions(energy=energy, external_events=outages(seed))
    here, told = both_ways(kind, workload(seed), engine, tmp_path)
    assert here == told


class Ticking(Scheduler):
    """Start what fits as it comes; ask for a call a second later between the starts."""

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        self.waiting: list[Job] = []
        self.calls = 0

    def submitted(self, job: Job) -> None:
        if job.processors > HOSTS:
            self.manager.reject(job, "too wide")
        else:
            self.waiting.append(job)

    def called(self) -> None:
        self.calls += 1

    def decide(self) -> None:
        for job in list(self.waiting):
            if job.processors <= self.manager.free:
                self.waiting.remove(job)
                self.manager.start(job)
                self.manager.note_metadata(job, f"after {self.calls} calls")
                self.manager.call_at(self.manager.now + 4.0)


@pytest.mark.parametrize("seed", range(2))
def test_calls_among_starts_keep_their_place(seed: int, tmp_path: Path) -> None:
    """Calls, sleeping jobs and computations end at one date, in the order in which they began."""
    jobs = workload(seed, names=["sleep 4", "fail", "compute", "steps"])
    here, told = both_ways(Ticking, jobs, EngineOptions(energy=True), tmp_path)
    assert here == told
    assert told["run_jobs.csv"].count(b" calls") > 20


def test_thousands_of_steps_of_which_nobody_is_told(tmp_path: Path) -> None:
    jobs = msgspec.structs.replace(workload(0), jobs=[Job("1", 0.0, 1, "many", walltime=1e6)])
    here, told = both_ways(Fcfs, jobs, EngineOptions(), tmp_path)
    assert here == told


def test_no_jobs_at_all(tmp_path: Path) -> None:
    jobs = msgspec.structs.replace(workload(0), jobs=[])
    here, told = both_ways(Fcfs, jobs, EngineOptions(), tmp_path)
    assert here == told


def test_a_job_that_nobody_starts_is_a_deadlock() -> None:
    with pytest.raises(Deadlock, match="1 jobs were submitted and neither started nor rejected"):
        simulate(
            Scheduler,
            Workload(jobs=[Job("1", 0.0, 1, "send")], profiles=PROFILES, processors=HOSTS),
            platform(),
        )
