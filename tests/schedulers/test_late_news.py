"""Plans where news is late: nominal dates, and promises kept on platforms with latencies."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from qops_batsim import Conservative, Job, QosRequest, read_platform, simulate
from qops_batsim import run as run_and_verify
from qops_batsim.core import OVER, WAITING, News, QosLog, ResourceManager
from qops_batsim.engine import EngineOptions
from qops_batsim.jobs import COMPLETED_KILLED, REJECTED
from qops_batsim.measures.results.run_files import RunInfo
from qops_batsim.platform import Platform, make_cluster
from qops_batsim.platform.network import longest_round_trip
from qops_batsim.protocol import make_scheduler
from qops_batsim.running.inputs import input_warnings
from qops_batsim.schedulers.conservative import ConservativeOptions
from qops_batsim.workload import Workload, delay_profile

LAG = 0.002


class Machine(ResourceManager):
    """One host on which every start takes effect, and nothing else is asked for."""

    def start_job(self, job: Job, hosts: object) -> None:
        """Do nothing."""

    def count_free(self) -> None:
        """Do nothing: the tests tell what is free."""

    def call_at(self, date: float) -> None:
        """Do nothing: the tests tell the dates."""


class Planner:
    """A conservative plan that is told what happens, on a machine that does what it wants."""

    def __init__(self, *, late: bool) -> None:
        options = ConservativeOptions(reserve="processors")
        self.manager = Machine(1)
        self.manager.news, self.manager.qos_log = News.of(options), QosLog()
        self.scheduler = Conservative(options)
        if late:
            self.manager.news.mark_late()
        self.scheduler.begin(self.manager)

    def arrive(self, name: str, date: float) -> Job:
        job = Job(name, date, 1, "p", qos=QosRequest(estimated_runtime=10.0))
        job.phase = WAITING
        self.scheduler.submitted(job)
        return job

    def leave(self, job: Job) -> None:
        job.phase = OVER
        self.scheduler.ended(job)

    def started(self, now: float, free: int) -> list[str]:
        self.manager.now, self.manager.free = now, free
        self.scheduler.decide()
        return [job.id for job in self.scheduler.plan.starting]


def test_lags_do_not_add_up_along_a_chain() -> None:
    """A 0-10, B 10-20, C 20-30 on one processor, each end told a little later."""
    planner = Planner(late=True)
    jobs = [planner.arrive(name, 0.0) for name in "ABC"]
    assert planner.started(0.0, 1) == ["A"]
    for index in (0, 1):
        told = 10 * (index + 1) + LAG * (index + 1)
        planner.leave(jobs[index])
        assert planner.started(told, 1) == ["BC"[index]]
        following = jobs[index + 1]
        assert following.start + following.lag == pytest.approx(told)
    assert [job.start for job in jobs] == [0, 10, 20]
    assert [job.end for job in jobs] == [10, 20, 30]


def test_a_job_has_not_outlived_its_estimate_before_the_grace_has_passed() -> None:
    planner = Planner(late=True)
    a = planner.arrive("A", 0.0)
    planner.started(0.0, 1)
    planner.started(10.9, 0)
    assert a.end == 10
    planner.started(11.1, 0)
    assert a.end == pytest.approx(22.2)


def test_dates_are_the_actual_ones_from_half_the_grace_on() -> None:
    planner = Planner(late=True)
    a, b, c = (planner.arrive(name, 0.0) for name in "ABC")
    planner.started(0.0, 1)
    planner.leave(a)
    assert planner.started(10.6, 1) == ["B"]
    assert (b.start, b.end, b.lag) == (10.6, 20.6, 0.0)
    assert c.start == 20.6
    assert a.start == 0


def test_until_news_was_late_nothing_is_different() -> None:
    planner = Planner(late=False)
    a, b = (planner.arrive(name, 0.0) for name in "AB")
    planner.started(0.0, 1)
    planner.arrive("C", 10.5)
    assert planner.started(10.5, 0) == []
    assert a.end == 21
    assert b.start == 21


def test_easy_chooses_as_if_what_is_about_to_be_told_to_end_had_ended() -> None:
    """A and B end at 10, told one by one; wide C waits for both, and D must not slip in.

    The head H (4 processors) waits for E, which runs long.
    """
    rows = [
        ("A", 0, 1, 10), ("B", 0, 1, 10), ("E", 0, 2, 100), ("H", 1, 4, 10),
        ("C", 2, 2, 80), ("D", 3, 1, 80),
    ]  # fmt: skip
    for latency in (0.0, 0.005):
        starts = run("easy", rows_of(rows), 4, make_cluster(4, bandwidth=1e9, latency=latency))
        assert [round(starts[name]) for name in "ABECHD"] == [0, 0, 0, 10, 100, 110], latency


def rows_of(rows: list[tuple[str, int, int, int]]) -> Workload:
    jobs, profiles = [], {}
    for name, arrival, processors, run_time in rows:
        profile, profiles[profile] = delay_profile(run_time)
        jobs.append(Job(name, float(arrival), processors, profile, walltime=run_time + 1e-6))
    return Workload(jobs=jobs, profiles=profiles, processors=4)


def run(scheduler: str, workload: Workload, hosts: int, platform: object) -> dict[str, float]:
    done = simulate(scheduler, workload, platform)
    return {record.job.id.partition("!")[2]: record.start for record in done.ended}


# Random platforms


def uneven_cluster(rng: random.Random, hosts: int, folder: Path) -> Path:
    """Write a cluster in which each link has a latency of its own, up to 5 ms."""
    names = ["master_host", *(f"h{index:02d}" for index in range(hosts))]
    link = '<link id="{}_link" bandwidth="1GBps" latency="{:.6f}s" sharing_policy="SPLITDUPLEX"/>'
    lines = [
        "<?xml version='1.0'?>",
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
        '<platform version="4.1"><zone id="AS0" routing="Cluster">',
        *(link.format(name, rng.uniform(0, 0.005)) for name in names),
        *(f'<host id="{name}" speed="100Mf"/>' for name in names),
        *(
            f'<host_link id="{name}" up="{name}_link_UP" down="{name}_link_DOWN"/>'
            for name in names
        ),
        "</zone></platform>",
    ]
    path = folder / "uneven.xml"
    path.write_text("\n".join(lines))
    return path


def busy_workload(rng: random.Random, hosts: int, jobs: int = 80) -> Workload:
    """Jobs for more than the machine, many of them urgent; some end early, some arrive at once."""
    made, profiles, date, scale = [], {}, 0.0, rng.choice([20, 300, 3600])
    for index in range(jobs):
        date += rng.choice([0, 1, 1]) * rng.randint(0, scale // max(1, hosts // 3))
        run_time = rng.randint(1, 2 * scale)
        estimate = run_time * rng.choice([1.0, 1.0, 1.5, 3.0])
        name, profiles[name] = delay_profile(run_time)
        deadline = date + estimate * rng.choice([1, 1, 1.2, 2, 5, 10])
        qos = QosRequest(deadline=deadline, estimated_runtime=estimate)
        made.append(Job(str(index), date, rng.randint(1, hosts), name, qos=qos))
    return Workload(jobs=made, profiles=profiles, processors=hosts)


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("qops", {}),
        pytest.param("msb", {}, marks=pytest.mark.sweep),
        pytest.param("mrt", {}, marks=pytest.mark.sweep),
        pytest.param(
            "fqops", {"tolerance_factor": 4.0, "slack_factor": 2.0}, marks=pytest.mark.sweep
        ),
        ("fqops", {"tolerance_factor": 4.0, "kill_and_restart": True}),
    ],
)
def test_promises_hold_on_platforms_with_latencies_and_as_many_jobs_are_admitted(
    scheduler: str, options: dict[str, object], tmp_path: Path
) -> None:
    refused = {True: 0, False: 0}
    submitted = 0
    for seed in range(4):
        rng = random.Random(seed)
        hosts = rng.choice([4, 16])
        workload = busy_workload(rng, hosts)
        submitted += len(workload.jobs)
        for platform in (make_cluster(hosts), read_platform(uneven_cluster(rng, hosts, tmp_path))):
            module = make_scheduler(scheduler, options)
            done = simulate(module, workload, platform)
            late_news = module.scheduler.manager.news.late
            refused[late_news] += sum(record.state == REJECTED for record in done.ended)
            for record in done.ended:
                promise = module.qos_log.record(record.job.id).admitted_deadline
                if promise is not None and record.state not in (REJECTED, COMPLETED_KILLED):
                    lateness = record.finish - promise
                    assert lateness <= (module.options.grace if late_news else 1.1e-6)
    assert abs(refused[True] - refused[False]) <= 0.02 * submitted


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        ("easy", {}),
        ("conservative", {"reserve": "processors"}),
        pytest.param("conservative", {}, marks=pytest.mark.sweep),
    ],
)
@pytest.mark.parametrize("latency", [pytest.param(50e-6, marks=pytest.mark.sweep), 1e-3])
def test_waits_are_those_of_a_machine_without_latencies(
    scheduler: str, options: dict[str, str], latency: float
) -> None:
    waits = []
    for platform in (make_cluster(100), make_cluster(100, bandwidth=1.25e8, latency=latency)):
        done = simulate(scheduler, "kth_sp2_1000", platform, options)
        waits.append(sum(record.start - record.job.submission_time for record in done.ended))
    assert waits[1] == pytest.approx(waits[0], rel=0.01)


# The least grace of a platform

ADMITTING = ("qops", "msb", "mrt", "fqops")
SLOW = 0.03
"""Latency of each link (seconds); a message crosses two."""


def burst(seed: int) -> Workload:
    """Return sixty jobs of about a second for four hosts, several at a date, with deadlines."""
    rng, now = random.Random(seed), 0.0
    jobs, profiles = [], {}
    for number in range(60):
        now += rng.choice([0.0, 0.0, rng.expovariate(10.0)])
        seconds = round(rng.expovariate(1.0) + 0.05, 3)
        profiles[f"p{number}"] = {"type": "delay", "delay": seconds}
        qos = QosRequest(deadline=round(now + rng.choice([1, 1.2, 2, 5, 10]) * seconds, 3))
        walltime = round(rng.choice([1, 2]) * seconds + 0.001, 3)
        name, processors = str(number), rng.randint(1, 4)
        jobs.append(Job(name, round(now, 3), processors, f"p{number}", walltime, qos))
    return Workload(processors=4, jobs=jobs, profiles=profiles)


@pytest.mark.parametrize("scheduler", ADMITTING)
def test_promises_are_kept_on_slow_links_with_the_least_grace(
    tmp_path: Path, scheduler: str
) -> None:
    platform = make_cluster(4, bandwidth=1e9, latency=SLOW)
    promised = 0
    for seed in range(3):
        done = run_and_verify(scheduler, burst(seed), platform, out=tmp_path / str(seed))
        assert done.violations == []
        assert done.lateness is not None
        promised += done.lateness.checked
    assert promised > 60


def test_the_least_grace_is_that_of_the_longest_round_trip_unless_one_was_given() -> None:
    quick, slow = (make_cluster(4, bandwidth=1e9, latency=each) for each in (1e-4, SLOW))
    assert longest_round_trip(quick) == pytest.approx(4e-4)
    assert longest_round_trip(make_cluster(4)) == 0.0
    for name in (*ADMITTING, "easy", "conservative", "slack", "aroma"):
        module = make_scheduler(name)
        module.use_platform(slow)
        assert module.options.grace == pytest.approx(64 * 4 * SLOW)
        module.use_platform(quick)
        assert module.options.grace == 1.0
        given = make_scheduler(name, {"grace": 0.5})
        given.use_platform(slow)
        assert given.options.grace == 0.5


def test_a_grace_that_is_too_small_for_the_platform_is_warned_of() -> None:
    workload, engine = burst(0), EngineOptions()
    slow = make_cluster(4, bandwidth=1e9, latency=SLOW)

    def warnings(platform: Platform, engine: EngineOptions = engine, **settings: float) -> str:
        module = make_scheduler("easy", settings)
        return " ".join(input_warnings(module, workload, platform, engine))

    told = "grace is 2 s, but messages take up to 0.12 s there and back on this platform"
    assert warnings(slow, grace=2.0).startswith(told)
    assert warnings(slow) == warnings(slow, grace=8.0) == ""
    assert warnings(make_cluster(4), grace=0.5) == ""
    assert warnings(slow, EngineOptions(message_delays=False), grace=0.5) == ""


def test_no_option_of_a_scheduler_makes_the_verifier_bear_more_than_messages_can_explain() -> None:
    def tolerance(**told: object) -> float:
        return RunInfo(**{"message_delays": True, **told}).grace

    assert tolerance(options={"grace": 1e6}, round_trip=0.12) == pytest.approx(64 * 0.12)
    assert tolerance(options={"grace": 1e6}, round_trip=1e-4) == 1.0
    assert tolerance(options={"grace": 0.25}, round_trip=0.12) == 0.25
    assert tolerance(options={"grace": 1e6}) == 1.0
    assert tolerance(options={"grace": 1e6}, message_delays=False) == 0.0
    assert tolerance(options={}, round_trip=0.12) == 0.0
    assert tolerance(options={"grace": 5.0}, round_trip=-1.0) == 0.0


def test_slurm_asks_for_calls_that_can_still_come() -> None:
    """Messages take 60 ms and more: a pass that is due in 10 ms cannot be asked for any more.

    Both processors, dates on links of 30 ms::

        0.24    4.24 4.36   8.36 8.48  11.48
          |--1--|      |--2--|      |--3--|
    """
    delays = {name: {"type": "delay", "delay": int(name[1:])} for name in ("d3", "d4")}
    told = [("1", 0.0, 2, "d4", 7.0), ("2", 2.0, 2, "d4", 5.0), ("3", 3.0, 1, "d3", 8.0)]
    workload = Workload(processors=2, jobs=[Job(*each) for each in told], profiles=delays)
    slow = make_cluster(2, bandwidth=1e9, latency=0.03)
    done = simulate("slurm", workload, slow, {"bf_interval": "1"})
    starts = {each.job.id: each.start for each in done.ended}
    assert starts == pytest.approx({"w0!1": 0.24, "w0!2": 4.36, "w0!3": 8.48}, abs=1e-5)
