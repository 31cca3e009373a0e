"""A scheduler in this process against one behind texts: the same files and log, to the byte."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from qops_batsim import Easy, Job, QosRequest, Scheduler, read_platform, read_workload
from qops_batsim.core import format_qos
from qops_batsim.engine import Simulation
from qops_batsim.engine.outputs import add_outputs
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import ModuleDriver, SchedulerModule, make_scheduler
from qops_batsim.running import default_engine
from qops_batsim.running.in_loop import drive
from qops_batsim.shipped import find_input
from qops_batsim.workload import Workload, delay_profile, subset
from support.aroma_oracles import machine, work
from support.kept_files import Kept
from support.only_texts import OnlyTexts


class SmallestFirst(Easy):
    """EASY by processors, the smallest job first, as a user writes it."""

    def key(self, job: Job) -> float:
        return self._size(job)

    def _size(self, job: Job) -> float:
        return job.processors


Named = str | type[Scheduler]

ON_MANY = [
    ("fcfs", {}),
    ("easy", {}),
    ("easy", {"order": "f2"}),
    ("easy", {"order": "wfp3", "backfill_order": "ljf", "starvation_bound": 4.0}),
    ("easy", {"run_times": "predicted"}),
    ("easy", {"run_times": "predicted", "backfill_order": "sjf"}),
    (SmallestFirst, {}),
    ("priced-queues", {"history": 2, "priority_limit": 2, "priority_period": 20.0}),
    ("priced-queues", {"choice": "stated"}),
    ("conservative", {"reserve": "hosts"}),
    ("conservative", {"reserve": "processors"}),
    ("qops", {}),
    ("qops", {"order": "earliest_deadline", "k_factor": 1, "undo": "starting_later"}),
    ("qops", {"headroom": 0.1}),
    ("fqops", {}),
    ("fqops", {"tolerance_factor": 4.0, "slack_factor": 2.0}),
    ("fqops", {"tolerance": "random", "tolerance_factor": 3.0, "retry_count": 2}),
    ("msb", {}),
    ("msb", {"price": "delays", "fairness": True}),
    ("mrt", {}),
]
SWEEP = pytest.mark.sweep
EXAMPLES = settings.default.max_examples // 8
"""Random workloads for each scheduler with options, of which there are more than thirty."""
ON_FEWER = [
    ("slurm", {}),
    ("slurm", {"bf_interval": 3.0, "bf_resolution": 2.0, "calc_period": 20.0, "deadlines": False}),
    ("slack", {}),
    (
        "slack",
        {
            "average_wait_source": "learned",
            "average_wait": 20.0,
            "average_wait_window": 100.0,
            "average_wait_edges": [4.0, 3600.0],
            "early_gain": "promise",
            "heuristic": "descending_cost",
        },
    ),
    ("fqops", {"kill_and_restart": True, "kill_after": 0.0}),
    ("fqops", {"kill_and_restart": True, "kill_after": 0.0, "restart_price": 9.0}),
    ("qops", {"run_times": "predicted"}),
    (
        "fqops",
        {"kill_and_restart": True, "restart_price": 9.0, "run_times": "predicted"},
    ),
    ("fqops", {"kill_and_restart": True, "max_kills_per_job": None, "tolerance_factor": 4.0}),
]


class Loops:
    """The same simulation in both ways."""

    def __init__(
        self,
        workload: Workload,
        hosts: int,
        scheduler: Named,
        options: Any,
        *,
        engine: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.workload, self.machine = workload, make_cluster(hosts)
        self.scheduler, self.options, self.engine = scheduler, options, engine

    def outputs(self, *, in_texts: bool) -> dict[str, Any]:
        """Return the files of a run, and what Python users see."""
        module = make_scheduler(self.scheduler, self.options)
        module.keep_decisions()
        driver = ModuleDriver(module, any_engine=True)
        peer = OnlyTexts(driver) if in_texts else driver
        engine = msgspec.structs.replace(default_engine(module), **self.engine)
        simulation = Simulation(self.machine, [self.workload], peer, engine)
        assert isinstance(module, SchedulerModule)
        if in_texts:
            simulation.run()
        else:
            drive(simulation, self.workload, module, None)
        files = Kept()
        add_outputs(files, simulation)
        told: dict[str, Any] = {**files, "_qos.csv": b"".join(format_qos(driver.log))}
        told["records"] = [
            (name, repr(record), record.return_code) for name, record in simulation.records.items()
        ]
        told["ended"] = [record.job.id for record in simulation.ended]
        if module.scheduler.logs:
            told["decisions"] = list(module.decision_lines())
        return told | {
            "changes": simulation.computing_changes,
            "log": (
                # One that was registered and then announced is in it twice.
                list({job.id: None for job in driver.log.jobs}),
                sorted(driver.log.started),
                driver.log.rejected,
                driver.log.kills,
            ),
            "now": simulation.now,
            "repr": repr(simulation),
        }

    def check(self) -> str:
        """Compare both; return the table of jobs."""
        plain = self.outputs(in_texts=True)
        for what, told in self.outputs(in_texts=False).items():
            assert told == plain[what], what
        return plain["_jobs.csv"].decode()


def shipped(name: str, jobs: int = 150) -> Workload:
    """Return so many jobs of a shipped workload."""
    whole = read_workload(find_input(name, "workloads"))
    return subset(whole, first=min(jobs, len(whole.jobs)))


@pytest.mark.parametrize(("scheduler", "options"), ON_MANY)
@pytest.mark.parametrize(
    "name",
    ["kth_sp2_mixed_500", "sdsc_sp2_deadlines_500", "tiny_8"],
)
def test_shipped_workloads_give_the_same_files(
    name: str, scheduler: Named, options: dict[str, str]
) -> None:
    workload = shipped(name)
    Loops(workload, workload.processors, scheduler, options).check()


dates = st.one_of(
    st.integers(0, 12),
    st.floats(0, 12),
    st.sampled_from([3.0, 3.0 + 5e-10, 3.0 + 1.5e-9, 0.1 + 0.2, 0.3, -2.5, 1e7 + 0.1]),
)
durations = st.one_of(
    st.integers(1, 9),
    st.floats(1e-9, 9),
    st.sampled_from([1e-10, 1e-6, 0.1, 0.3, 3.0000001]),
)


@st.composite
def workloads(draw: st.DrawFn, shortest: float = 0.0) -> Workload:
    """Return jobs at close dates, some of them too wide or without processors."""
    lasting = durations.map(lambda seconds: max(seconds, shortest))
    jobs, profiles = [], {}
    count = draw(st.integers(1, 14))
    names = draw(st.permutations([str(number) for number in range(count)]))
    for index, name in enumerate(names):
        delay = draw(lasting)
        # As long as the job, half as long, twice as long, or none.
        walltime = draw(st.sampled_from([None, 1.0, 0.5, 2.0]))
        estimate = draw(st.one_of(st.none(), lasting))
        deadline = draw(st.one_of(st.none(), st.floats(0, 30)))
        asked = None
        if estimate is not None or deadline is not None:
            queue = draw(st.sampled_from([None, "premium", "low", "elsewhere"]))
            checkpoint = draw(st.sampled_from([None, None, 0.5, 1.0000004]))
            asked = QosRequest(
                estimated_runtime=estimate,
                deadline=deadline,
                category="a,b",
                queue=queue,
                checkpoint=checkpoint,
            )
        profiles[f"p{index}"] = {"type": "delay", "delay": delay}
        if draw(st.booleans()):
            profiles[f"p{index}"]["ret"] = draw(st.integers(0, 2))
        jobs.append(
            Job(
                name,
                float(draw(dates)),
                draw(st.integers(0, 6)),
                f"p{index}",
                None if walltime is None else walltime * delay,
                asked,
            )
        )
    return Workload(jobs=jobs, profiles=profiles, processors=5)


@pytest.mark.parametrize(("scheduler", "options"), ON_MANY)
@given(workload=workloads())
@settings(max_examples=EXAMPLES)
def test_random_workloads_give_the_same_files(
    workload: Workload,
    scheduler: Named,
    options: dict[str, str],
) -> None:
    Loops(workload, 5, scheduler, options).check()


@pytest.mark.parametrize(("scheduler", "options"), ON_FEWER)
@given(workload=workloads(shortest=2e-6))
@settings(max_examples=EXAMPLES)
def test_random_workloads_of_longer_jobs_give_the_same_files(
    workload: Workload,
    scheduler: Named,
    options: dict[str, str],
) -> None:
    Loops(workload, 5, scheduler, options).check()


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("conservative", {}),
        ("conservative", {"reserve": "processors"}),
        ("slack", {}),
        ("qops", {}),
        ("fqops", {"tolerance_factor": 4.0, "slack_factor": 2.0}),
        ("msb", {}),
        ("mrt", {}),
    ],
)
@given(workload=workloads(), wanted=st.lists(st.integers(0, 20), min_size=14, max_size=14))
@settings(max_examples=EXAMPLES)
def test_fixed_starts_give_the_same_files(
    workload: Workload,
    wanted: list[int],
    scheduler: str,
    options: dict[str, Any],
) -> None:
    jobs = []
    for job, start in zip(workload.jobs, wanted, strict=False):
        asked = job.qos or QosRequest(estimated_runtime=4.0)
        if start > 10:
            asked = msgspec.structs.replace(asked, deadline=None, start=float(start))
        given = job.id, job.submission_time, job.processors, job.profile, job.walltime
        jobs.append(Job(*given, asked))
    made = Workload(jobs=jobs, profiles=workload.profiles, processors=5)
    Loops(made, 5, scheduler, options).check()


@SWEEP
@pytest.mark.parametrize("scheduler", ["easy", "qops"])
def test_a_recorded_log_gives_the_same_files(scheduler: str, shared: Path) -> None:
    workload = read_workload(shared / "batsim" / "inputs" / "sdsc5k_delay.json.gz")
    Loops(workload, 128, scheduler, {}).check()


def test_slack_is_called_as_often_as_it_asks() -> None:
    jobs, profiles = [], {}
    for index in range(60):
        estimate = 2 + 7 * index % 11
        name, profile = delay_profile(estimate * (0.4 if index % 3 else 0.9))
        profiles[name] = profile
        asked = QosRequest(estimated_runtime=estimate)
        jobs.append(Job(f"{index:02}", 1.1 * index, 1 + index % 4, name, None, asked))
    workload = Workload(jobs=jobs, profiles=profiles, processors=5)
    Loops(workload, 5, "slack", {"average_wait": 8.0, "removal": "compression"}).check()


def killing(jobs: int, *, saves: bool = False) -> Workload:
    """Return jobs whose deadlines are so tight that some are met only by killing others.

    Most of them save their work now and then, if any do.
    """
    listed, profiles = [], {}
    for index in range(jobs):
        delay = 1.3 * (2 + 7 * index % 11)
        name, profile = delay_profile(delay)
        profiles[name] = profile
        date = 1.1 * index
        asked = QosRequest(
            deadline=date + delay * (1.1 if index % 3 else 6),
            estimated_runtime=delay,
            checkpoint=(0.4, 1.1, 2.0000005, None)[index % 4] if saves else None,
        )
        # A walltime with more decimals than a registered job keeps.
        walltime = delay / 3 if index % 5 == 0 else None
        listed.append(Job(str(index), date, 1 + index % 3, name, walltime, asked))
    return Workload(jobs=listed, profiles=profiles, processors=5)


@pytest.mark.parametrize(("scheduler", "options"), ON_FEWER)
def test_a_shipped_workload_gives_the_same_files(scheduler: Named, options: dict[str, str]) -> None:
    workload = shipped("kth_sp2_mixed_500")
    Loops(workload, workload.processors, scheduler, options).check()


@pytest.mark.parametrize("price", [None, 9.0])
@pytest.mark.parametrize("announces", [True, False])
@pytest.mark.parametrize("saves", [False, True])
def test_killed_jobs_run_again(price: float | None, announces: bool, saves: bool) -> None:
    options = {"kill_and_restart": True, "kill_after": 0.0, "max_kills_per_job": None}
    options["restart_price"] = price
    engine = {"acknowledge_dynamic_jobs": announces}
    jobs = Loops(killing(90, saves=saves), 5, "fqops", options, engine=engine).check()
    assert "#1,w0" in jobs
    assert "#2,w0" in jobs
    # What is left of work that was saved has a profile of its own.
    assert saves == bool(re.search(r"#2,w0,delay[0-9.]+#[0-9]+#2,", jobs))


def test_more_runs_are_killed_than_jobs_come() -> None:
    """Four long jobs of one processor give way to each of twelve urgent jobs of four."""
    (long, sleep), (short, nap) = delay_profile(100.0), delay_profile(1.0)
    jobs = [Job(f"l{n}", 0.0, 1, long, None, QosRequest(estimated_runtime=100.0)) for n in range(4)]
    for number in range(12):
        asked = QosRequest(deadline=4.0 + 3 * number, estimated_runtime=1.0)
        jobs.append(Job(f"u{number:02}", 3.0 + 3 * number, 4, short, None, asked))
    workload = Workload(jobs=jobs, profiles={long: sleep, short: nap}, processors=4)
    options = {"kill_and_restart": True, "restart_price": 99.0, "tolerance_factor": 0.0}
    jobs_table = Loops(workload, 4, "fqops", options).check()
    assert jobs_table.count("COMPLETED_KILLED") == 48


@pytest.mark.parametrize(("name", "estimate"), [("1#1", 2.0), ("1", 1e-7)])
def test_what_could_not_be_registered_again(name: str, estimate: float) -> None:
    profile, delay = delay_profile(2.0)
    jobs = [Job(name, 0.0, 1, profile, None, QosRequest(estimated_runtime=estimate))]
    workload = Workload(jobs=jobs, profiles={profile: delay}, processors=1)
    Loops(workload, 1, "fqops", {"kill_and_restart": True}).check()


@pytest.mark.parametrize("option", ["compute_sharing", "forward_profiles"])
def test_what_an_engine_may_be_told(option: str) -> None:
    Loops(shipped("tiny_8"), 8, "slurm", {}, engine={option: True}).check()


def test_jobs_that_share_hosts_and_go_on_as_others() -> None:
    workload = read_workload(find_input("aroma_mixed", "workloads"))
    loops = Loops(workload, workload.processors, "aroma", {"stops": 3})
    loops.machine = read_platform(find_input("aroma_grid", "platforms"))
    loops.machine = msgspec.structs.replace(loops.machine, master=None)
    loops.check()


def test_a_stopped_application_goes_on_as_another_job() -> None:
    long = {"service_class": "dedicated", "seconds": 50}
    urgent = {"service_class": "high_priority", "seconds": 5}
    loops = Loops(work(long, {**urgent, "at": 10}, {**urgent, "at": 30}), 1, "aroma", {})
    loops.machine = machine([1.0])
    assert "0#2" in loops.check()
