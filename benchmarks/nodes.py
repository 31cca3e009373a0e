"""CPU time of planning, admitting and simulating jobs that share hosts.

    python benchmarks/nodes.py [--hosts 1000] [--waiting 1000] [--small 300] [--jobs 2600]
        [--load 1.1] [--seed 3]

Jobs are drawn from Graham's log (QOPS_SHARED, default ../shared), for the hosts of
studies/shared_nodes. First, hosts are filled with running jobs, until 3,000 of those drawn did not
fit at once. Behind them, jobs are planned one after the other, each at its earliest fit, and QoPS
decides about 200 new jobs behind 100 waiting ones; what it decides is not kept. Last, jobs with
Poisson arrivals at an offered load (dominant shares) run on fewer hosts.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from qops_batsim import InputError, Job, Qops, QosRequest, simulate
from qops_batsim.core.node_profile import NodeProfile, request_of
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.experiments import markdown_table
from qops_batsim.timing import end_of
from qops_batsim.workload import Workload, read_workload, run_times_until_killed
from studies.shared import settings_of
from studies.shared_nodes.mix import IMPORTED, demand_of, import_log, platform_of

SETTINGS = settings_of(str(Path(__file__).parents[1] / "studies" / "shared_nodes" / "study.toml"))
MACHINE = SETTINGS["machine"]

WAITING, NEW = 100, 200
"""Waiting jobs behind which QoPS decides, and how often it does."""

MISFITS = 3000
LONGEST = 259_200.0
NEW_NAME = "new"


class Probed(Qops):
    """QoPS that times its decisions about new jobs called ``new…``, and admits none of them."""

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.spent: list[float] = []
        self.beside: list[tuple[int, int]] = []

    def admit(self, job: Job) -> object:
        if NEW_NAME not in job.id:
            return super().admit(job)
        self.beside.append((len(self.plan.running), len(self.plan.waiting)))
        return super().try_admission(job) or "it was asked only"

    def decide(self) -> None:
        asked = len(self.beside)
        begin = process_time()
        super().decide()
        if len(self.beside) > asked:
            self.spent.append(process_time() - begin)


def like(
    job: Job, name: str, submission: float = 0.0, limit: float | None = None, slack: float = -1.0
) -> Job:
    """Return a job that asks for the same hosts.

    ``slack``: its deadline, as a multiple of its limit after the earliest end; below 0, none.
    """
    limit = job.walltime if limit is None else limit
    assert limit is not None
    deadline = round(submission + limit * (1 + slack), 6) if slack >= 0 else None
    asked = None if deadline is None else QosRequest(deadline=deadline)
    return Job(name, submission, job.processors, job.profile, limit, asked, None, job.hosts_asked)


def workload_of(jobs: list[Job], source: Workload) -> Workload:
    """Return a workload of drawn jobs."""
    profiles = {job.profile: source.profiles[job.profile] for job in jobs}
    return Workload(jobs=jobs, profiles=profiles, processors=1)


def filled(
    jobs: list[Job], profile: NodeProfile, rng: random.Random
) -> tuple[list[Job], list[Job]]:
    """Return jobs that all run at once, and others that have to wait, each with those before."""
    running: list[Job] = []
    others: list[Job] = []
    while len(others) < MISFITS:
        job = rng.choice(jobs)
        assert job.walltime is not None
        rest = like(job, str(len(running)), limit=max(3600.0, job.walltime * rng.random()))
        rest.request = request_of(profile.layout, rest)
        if rest.request.refusal is None and profile.fit(rest, 0.0) == 0:
            profile.take(rest, 0.0, end_of(0.0, rest.duration))
            running.append(rest)
        else:
            others.append(job)
    return running, others


def planning(jobs: list[Job], hosts: int, waiting: int, seed: int) -> Iterator[list[str]]:
    """Yield the times of plans and of decisions behind running jobs."""
    rng = random.Random(seed)
    machine = platform_of(MACHINE, hosts).machine
    assert machine is not None
    profile = NodeProfile(NodeLayout(machine))
    running, others = filled(jobs, profile, rng)

    behind = [like(job, f"w{number}") for number, job in enumerate(rng.sample(jobs, waiting))]
    for job in behind:
        job.request = request_of(profile.layout, job)
    begin = process_time()
    for job in behind:
        start = profile.fit(job, 0.0)
        profile.take(job, start, end_of(start, job.duration))
    spent = process_time() - begin
    what = f"{waiting:,} jobs planned behind {len(running):,} running ones on {hosts:,} hosts"
    yield [what, f"{spent:.3f} s"]

    yield decisions(running, others, hosts, rng)


def decisions(running: list[Job], others: list[Job], hosts: int, rng: random.Random) -> list[str]:
    """Return the time of QoPS's decisions about new jobs behind running and waiting ones."""
    name, profile = "delay", {"type": "delay", "delay": LONGEST}
    asked = [like(job, job.id, number / 1000, job.walltime) for number, job in enumerate(running)]
    asked += [
        like(job, f"waits{number}", 100 + number / 1000)
        for number, job in enumerate(others[:WAITING])
    ]
    asked += [
        like(job, f"{NEW_NAME}{number}", 200.0 + number, slack=rng.expovariate(0.5))
        for number, job in enumerate(rng.sample(others, NEW))
    ]
    for job in asked:
        job.profile = name
    workload = Workload(jobs=asked, profiles={name: profile}, processors=1)
    probed = Probed()
    simulate(probed, workload, platform_of(MACHINE, hosts))
    beside = [round(median(each)) for each in zip(*probed.beside, strict=True)]
    what = f"{len(probed.spent)} decisions of QoPS beside {beside[0]:,} running and {beside[1]:,} "
    times = sorted(probed.spent)
    worst = times[int(0.95 * len(times))]
    return [f"{what}waiting jobs", f"median {1000 * median(times):.2f} ms, 95 % {1000 * worst:.2f}"]


def simulations(
    source: Workload, jobs: list[Job], hosts: int, count: int, load: float, seed: int
) -> Iterator[list[str]]:
    """Yield the times of simulations of jobs with Poisson arrivals."""
    rng = random.Random(seed)
    drawn = workload_of(
        [like(job, str(n)) for n, job in enumerate(rng.choices(jobs, k=count))], source
    )
    demand = demand_of(drawn, MACHINE)
    work = demand.shares(MACHINE, hosts) * np.array(run_times_until_killed(drawn))
    between = float(work.mean()) / load

    now = 0.0
    arriving = []
    for job in drawn.jobs:
        now += rng.expovariate(1 / between)
        arriving.append(like(job, job.id, round(now, 6), slack=rng.expovariate(0.5)))
    workload = workload_of(arriving, source)
    platform = platform_of(MACHINE, hosts)
    for scheduler in ("easy", "qops"):
        begin = process_time()
        ended = simulate(scheduler, workload, platform).ended_jobs
        spent = process_time() - begin
        waits = (ended.starts - ended.submission_times)[ended.ran]
        what = f"{count:,} jobs at load {load:g} on {hosts:,} hosts under {scheduler} "
        what += f"({int(ended.ran.sum()):,} ran, mean wait {waits.mean() / 3600:.2f} h)"
        yield [what, f"{spent:.2f} s"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("hosts", 1000), ("waiting", 1000), ("small", 300), ("jobs", 2600)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--load", type=float, default=1.1)
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    with TemporaryDirectory() as directory:
        import_log(SETTINGS, Path(directory))
        source = read_workload(Path(directory) / IMPORTED)

    def taken(hosts: int) -> list[Job]:
        return [
            job
            for job in source.jobs
            if 8 * job.processors <= hosts and (job.walltime or 0) <= LONGEST
        ]

    rows: Iterable[list[str]] = [
        *planning(taken(asked.hosts), asked.hosts, asked.waiting, asked.seed),
        *simulations(source, taken(asked.small), asked.small, asked.jobs, asked.load, asked.seed),
    ]
    print("\n".join(markdown_table(["what", "CPU time"], list(rows))))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
