"""A real Slurm whose jobs share nodes: its queue is planned, and decided about, node by node."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qops_batsim import read_run, verify
from qops_batsim.dates import Calendar
from qops_batsim.live import Journal, decided_fates
from qops_batsim.live.as_run import export_run
from qops_batsim.live.book import LiveBook
from qops_batsim.queue import ForecastBasis, QueueSource, queue_starts
from qops_batsim.queue.starts import StartForecast
from qops_batsim.slurm.waiting_reasons import WaitKind, is_for_resources
from support.live_process import Deciding
from support.node_queues import naive_starts
from support.pasts import past
from support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("slurm")]

SETTINGS = ["GresTypes=gpu", "SelectTypeParameters=CR_Core_Memory", "DefMemPerCPU=500"]
NODES = [
    *["CPUs=8 RealMemory=16000 Feature=ib"] * 2,
    *["CPUs=8 RealMemory=32000 Gres=gpu:a100:4 Feature=ib,new Weight=5"] * 2,
    *["CPUs=8 RealMemory=16000"] * 2,
]
PARTITIONS = [
    "PartitionName=cpu Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP",
    "PartitionName=gpu Nodes=n[3-4] MaxTime=INFINITE State=UP",
    "PartitionName=alone Nodes=n[5-6] OverSubscribe=EXCLUSIVE MaxTime=INFINITE State=UP",
]
RUNNING = [
    *["-pgpu --gres=gpu:3 -n2 --mem=4G", "-pgpu --gpus=a100:2 -c4 --mem-per-cpu=1G", "-n5"],
    *["-palone -n3", "-palone -n1", "-n6"],
]
WAITING = [
    *["-N1 --exclusive", "-n16 -N2-2 --gpus-per-node=1", "-pgpu --gres=gpu:2 -n2"],
    *["-pcpu,gpu -n6 --mem=20G", "-n8 -N2 -Cib&new", "-n20", "-palone -n1", "-pgpu -n2 --gpus=4"],
    *["-n4 --exclusive --ntasks-per-node=2", "-pgpu -n2 --gpus-per-task=1 -w n4", "-n1 --mem=0"],
    *["-N2 -n2", "-n1 --array=1-4%2 -c2", "-n1 -pgpu -N1-1 -x n3"],
]


def shared_cluster(base: Path) -> SlurmCluster:
    """Return a Slurm with GPUs (files of no device), overlapping partitions, and one that gives
    whole nodes.
    """
    base.mkdir(exist_ok=True)
    for number in range(4):
        (base / f"gpu{number}").touch()
    files = f"NodeName=n[3-4] Name=gpu Type=a100 File={base}/gpu[0-3]\n"
    (base / "gres.conf").write_text(files)
    return SlurmCluster(base, len(NODES), SETTINGS, partitions=PARTITIONS, amounts=NODES)


def test_starts_are_those_of_a_naive_planner_and_none_that_lacks_resources_is_now() -> None:
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as folder, shared_cluster(Path(folder).resolve() / "slurm") as cluster:
        cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
        for asked in [*RUNNING, *WAITING]:
            cluster.submit("sleep 600", "-t", "10", *asked.split())

        def counts() -> tuple[int, bool]:
            rows = cluster.run("squeue", "-h", "-a", "-o", "%T|%r").splitlines()
            return sum(row.startswith("RUNNING") for row in rows), "PENDING|None" in rows

        cluster.wait_for(lambda: counts() == (6, False), 30, "six jobs run, reasons are told")
        texts = {
            "json": ["squeue", "-a", "--json"],
            "text": ["scontrol", "show", "job"],
            "details": ["scontrol", "-d", "show", "job"],
        }
        nodes = cluster.base / "nodes"
        nodes.write_text(cluster.run("scontrol", "show", "node"))
        told = cluster.run("squeue", "-h", "-a", "-r", "-t", "PD", "-o", "%i|%r")
        reasons = dict(line.split("|") for line in told.splitlines())
        now = float(int(time.time()) + 1)
        for text, command in texts.items():
            path = cluster.base / text
            path.write_text(cluster.run(*command))
            state = QueueSource(path, now=now, nodes_file=nodes).state()
            assert state.nodes is not None, text
            assert state.nodes.away == {"n2": None}
            found = queue_starts(state)
            assert found.by_node
            assert not found.unexplained, text
            waits = {job.id: job for job in found.jobs}
            lacks = [job for job in reasons if is_for_resources(reasons[job])]
            assert len(lacks) >= 2
            for job in lacks:
                planned = waits[job].planned
                assert planned is not None
                assert planned - now > 60, (text, job)
                assert re.search(r"(job|jobs) \d.* on n\d", str(waits[job].lacks)), text
            # All others have a date, too, but for tasks that wait for those of their array.
            if text == "json":
                starts = naive_starts(nodes.read_text(), path.read_text(), now=now)
                planned_in = {
                    job.id: round(job.planned - now)
                    for job in found.jobs
                    if job.planned is not None
                }
                assert planned_in == {job: round(start) for job, start in starts.items()}
            undated = [job.no_date for job in found.jobs if job.no_date is not None]
            assert undated == [WaitKind.FOR_OTHERS], text

            # Jobs use half of their ten minutes, so that nobody starts within one.
            history = past(48, [(0.0, 0.0, 300.0, 600.0, 1)])
            calendar = Calendar(int(now) - 3 * 86_400, "UTC")
            for scheduler in ("easy", "slurm"):
                basis = ForecastBasis(history, calendar, scheduler)
                for start in queue_starts(state, basis, draws=10).jobs:
                    if start.id in lacks:
                        assert isinstance(start, StartForecast)
                        assert (start.early or math.inf) - now > 60, (text, scheduler, start)


LIVE_JOBS = [
    *["-n3 --mem=4G", "-n5 -N2", "-pgpu -n2 --gres=gpu:2", "-n7", "-palone -n3", "-n12"],
    *["-pcpu,gpu -n4 --mem=20G", "-N1 --exclusive -n2", "-pgpu -n2 --gpus=3", "-n2 -c3 -Cib&new"],
    *["-n2 --mem-per-cpu=6G", "-pgpu -N2 -n6 --gpus-per-node=a100:1", "-n1 -x n1,n3", "-n3 -wn4"],
    *["-n2 --mem=0", "-palone -N2 -n3"],
]


def has(cores: int) -> dict[str, int]:
    return {"cores": cores, "memory": cores * 500 << 20, "gpus": 1, "gpus:a100": 1}


def test_eighty_jobs_on_shared_nodes_three_kills_and_a_drained_node(tmp_path: Path) -> None:
    """Every promise is kept, but for those that are renewed, and told so, as a node is drained;
    jobs get just the nodes and amounts that were planned. A job of somebody else runs before.

    The first two jobs want all of n2, one after the other, with as much time as they may take. n2
    is drained while the first one runs, and comes back 35 s too late for the second to be sure.
    """
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as folder, shared_cluster(Path(folder).resolve() / "slurm") as cluster:
        stranger = cluster.submit("sleep 40", *["-N2", "-n6", "-t1", "-pgpu", "--gpus-per-node=1"])
        cluster.wait_for(lambda: "R" in cluster.run("squeue", "-h", "-o", "%t"), 20, "it runs")
        deciding = Deciding(cluster, tmp_path)
        begun = time.monotonic()

        def submit(asked: str, run_time: int, deadline: int) -> str:
            options = [*asked.split(), f"--comment=deadline={int(time.time()) + deadline}"]
            return cluster.submit(f"exec sleep {run_time}", "--hold", "-t1", *options)

        try:
            first, second = submit("-wn2 -n8", 20, 80), submit("-wn2 -n8", 2, 150)
            told = ["squeue", "-h", "-w", "n2", "-t", "R", "-o", "%i"]
            cluster.wait_for(lambda: first in cluster.run(*told), 20, "the first one runs")
            said = ["squeue", "-h", "-j", second, "-O", "admin_comment:40"]
            cluster.wait_for(lambda: "promised by" in cluster.run(*said), 20, "it is promised")
            cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
            for number in range(78):
                # Every tenth job cannot be in time.
                deadline = 30 if number % 10 == 9 else 1200
                submit(LIVE_JOBS[number % len(LIVE_JOBS)], 1 + number % 4, deadline)
                if number in (15, 37, 61):
                    deciding.kill()
                    deciding.start()
            time.sleep(max(begun + 120 - time.monotonic(), 0))
            cluster.run("scontrol", "update", "nodename=n2", "state=resume")
            cluster.wait_until_empty()
            time.sleep(2)
        finally:
            deciding.end()

    with Journal(deciding.journal) as journal:
        entries = journal.entries()
        orders = journal.orders()
        alarms = [text for _, _, text in journal.notes("alarm")]
        book = LiveBook(journal.begun)
        held = {each.job: book.held_by(each) for each in entries if each.hosts and not each.is_ours}
        export_run(journal, tmp_path / "run")  # Which replays it.

    fates = decided_fates(entries)
    assert len(fates) == 80
    assert all(fate.is_over for fate in fates.values())
    promised = {job: fate for job, fate in fates.items() if fate.promise is not None}
    assert sum(fate.answer == "refused" for fate in fates.values()) == 7
    assert len(promised) == 73
    renewed = {text.split()[1].rstrip(":") for text in alarms if "could not be kept" in text}
    assert second in renewed
    assert first not in renewed
    broken = {job for job, fate in promised.items() if not fate.end or fate.end > fate.promise}
    assert broken <= renewed

    # Each ran where its start named, with no more than was planned there.
    ours = {each.job: each for each in entries if each.ordered is not None}
    assert {order.job: order.detail for order in orders if order.kind == "start"} == {
        job: ",".join(each.hosts) for job, each in ours.items()
    }
    # Slurm has given the first node more of its tasks.
    assert held == {stranger: {2: has(5), 3: has(1)}}
    found = verify(read_run(str(tmp_path / "run")))
    assert {each.rule for each in found} <= {"admitted-deadline"}
    assert {job.partition("!")[2] for each in found for job in each.jobs} <= broken
