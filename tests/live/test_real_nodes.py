"""A real Slurm whose jobs share nodes: its queue is planned node by node."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qops_batsim.dates import Calendar
from qops_batsim.queue import ForecastBasis, QueueSource, queue_starts
from qops_batsim.queue.starts import StartForecast
from qops_batsim.slurm.waiting_reasons import WaitKind, is_for_resources
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
