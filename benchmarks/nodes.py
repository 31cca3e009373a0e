"""CPU time of planning, admitting and simulating jobs that share hosts.

    python benchmarks/nodes.py [--hosts 1000] [--waiting 1000] [--small 300] [--jobs 2600]
        [--load 1.1] [--seed 3] [--only-queue]

First, the queue of a made centre (benchmarks/shared_queue.py) with four running jobs a host is
read, planned by limits, asked for quotes, and simulated until all have started. Two installations
that print the same sums plan the same.

Other jobs are drawn from Graham's log (QOPS_SHARED, default ../shared), for the hosts of
studies/shared_nodes. Hosts are filled with running jobs, until 3,000 of those drawn did not
fit at once. Behind them, jobs are planned one after the other, each at its earliest fit, and QoPS
decides about 200 new jobs behind 100 waiting ones; what it decides is not kept. Last, jobs with
Poisson arrivals at an offered load (dominant shares) run on fewer hosts.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

sys.path.append(str(Path(__file__).resolve().parents[1]))

from shared_queue import NOW, made_nodes, made_queue

from qops_batsim import InputError, Job, Qops, QosRequest, simulate
from qops_batsim.core.node_profile import NodeProfile, request_of
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.experiments import markdown_table
from qops_batsim.job_fields import AskedPart, HostsAsked
from qops_batsim.platform import EqualHosts, make_mixed_cluster
from qops_batsim.queue.queue_quote import QueueAsker
from qops_batsim.queue.queue_state import QueueState, limit_of, parse_ask
from qops_batsim.queue.source import QueueSource
from qops_batsim.queue.starts import queue_starts
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


Result = TypeVar("Result")


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


ASKS = ("1x1h", "64x24h,nodes=1", "256x4h,nodes=4,memory=64GB", "8x2h,gpus=2", "128x2h")


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of a function and its CPU time (seconds)."""
    begin = process_time()
    result = work()
    return result, process_time() - begin


def queue(hosts: int, waiting: int, seed: int) -> Iterator[list[str]]:
    """Yield the times of reading and planning a queue, of quotes, and of its simulation."""
    nodes, jobs = made_queue(hosts, 4 * hosts, waiting, seed)
    with TemporaryDirectory() as directory:
        (Path(directory) / "nodes.txt").write_text(nodes)
        (Path(directory) / "queue.json").write_text(jobs)
        source = QueueSource(
            Path(directory) / "queue.json", now=NOW, nodes_file=Path(directory) / "nodes.txt"
        )
        state, spent = timed(source.state)
    what = f"queue of {state.count_running():,} running and {waiting:,} waiting jobs, "
    yield [f"{what}{hosts:,} hosts: read", f"{spent:.3f} s"]

    found, spent = timed(partial(queue_starts, state))
    total = sum(job.planned - NOW for job in found.jobs if job.planned is not None)
    yield [f"planned by limits, what they lack (sum of waits {total:,.0f} s)", f"{spent:.3f} s"]

    for may_wait in (False, True):
        who = "waiting jobs may wait longer" if may_wait else "waiting jobs keep planned ends"
        asker, spent = timed(partial(QueueAsker, state, may_wait=may_wait))
        yield [f"ready for quotes, {who}", f"{spent:.3f} s"]
        asked = [timed(partial(asker.ask, parse_ask(text))) for text in 2 * ASKS]
        ends = sum(answer.response or 0.0 for answer, _ in asked)
        worst = 1000 * max(spent for _, spent in asked)
        middle = 1000 * median(spent for _, spent in asked)
        what = f"{len(asked)} quotes (sum of responses {ends:,.0f} s)"
        yield [what, f"first {1000 * asked[0][1]:.1f} ms, median {middle:.1f}, longest {worst:.1f}"]
    yield started(state, made_nodes(hosts, seed), seed)


def started(state: QueueState, nodes: Sequence[Mapping[str, Any]], seed: int) -> list[str]:
    """Return the time of a simulation under EASY from when the waiting jobs come, until all have
    ended.
    """
    rng = random.Random(seed)
    platform = make_mixed_cluster(
        [
            EqualHosts(
                hosts=1,
                cores=node["cores"],
                memory=node["memory"] << 20,
                gpus={"a100": node["gpus"]} if node["gpus"] else None,
                labels=node["partitions"],
            )
            for node in nodes
        ]
    )
    assert platform.machine is not None
    largest = platform.machine.of_host(0) | platform.machine.of_host(len(nodes) - 1)
    running: list[Job] = []
    others: list[Job] = []
    profiles = {}
    for job in state.jobs:
        (told,) = job.amounts
        if job.start is None:
            limit = job.estimate or LONGEST
            part = replace(told.part(largest), labels=told.partitions[:1])
        else:
            limit = max(limit_of(job) - state.now, 1.0)
            held = next(iter(told.held.values()))
            amounts = {kind: amount for kind, amount in held.items() if amount}
            part = AskedPart(hosts=len(told.held), amounts=amounts)
        profiles[job.id] = {"type": "delay", "delay": max(1.0, limit * rng.random())}
        asked = HostsAsked(parts=(part,))
        into, date = (others, 1.0) if job.start is None else (running, 0.0)
        into.append(Job(job.id, date, part.hosts, job.id, limit, None, None, asked))

    def simulated(jobs: list[Job]) -> Any:
        again = [like(job, job.id, job.submission_time) for job in jobs]
        workload = Workload(jobs=again, profiles=profiles, processors=1)
        return simulate("easy", workload, platform).ended_jobs

    _, before = timed(partial(simulated, running))
    ended, spent = timed(partial(simulated, [*running, *others]))
    waits = (ended.starts - ended.submission_times)[ended.ran].sum()
    what = f"the same simulated under easy until all have ended (sum of waits {waits:,.0f} s)"
    return [what, f"{spent - before:.3f} s, and {before:.3f} for those that run"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("hosts", 1000), ("waiting", 1000), ("small", 300), ("jobs", 2600)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--load", type=float, default=1.1)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only-queue", action="store_true", help="needs no log")
    asked = parser.parse_args()
    rows = list(queue(asked.hosts, asked.waiting, asked.seed))
    if asked.only_queue:
        print("\n".join(markdown_table(["what", "CPU time"], rows)))
        return

    with TemporaryDirectory() as directory:
        import_log(SETTINGS, Path(directory))
        source = read_workload(Path(directory) / IMPORTED)

    def taken(hosts: int) -> list[Job]:
        return [
            job
            for job in source.jobs
            if 8 * job.processors <= hosts and (job.walltime or 0) <= LONGEST
        ]

    rows += [
        *planning(taken(asked.hosts), asked.hosts, asked.waiting, asked.seed),
        *simulations(source, taken(asked.small), asked.small, asked.jobs, asked.load, asked.seed),
    ]
    print("\n".join(markdown_table(["what", "CPU time"], rows)))


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
