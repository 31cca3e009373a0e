"""The queue of a real Slurm: all of its texts tell the same, and asking changes nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qops_batsim.queue import Ask, QueueSource, QueueState, queue_starts, read_queue
from qops_batsim.queue.source import live_config
from qops_batsim.slurm.commands import run_command
from qops_batsim.slurm.squeue_text import FORMAT
from support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("slurm")]

NODES, CPUS = 2, 2048
LIMITED = ["PartitionName=main Nodes=ALL Default=YES MaxTime=300 State=UP"]
MULTIFACTOR = ["EnforcePartLimits=NO", "PriorityType=priority/multifactor", "PriorityWeightAge=9"]


def submit_all_kinds(cluster: SlurmCluster) -> None:
    """Submit jobs that run, wait for processors, and cannot start."""
    name = "a b|c UserId=x(0) GroupId=y JobState=RUNNING"
    first = cluster.submit("sleep 300", "-n", "2048", "-t", "5", "-J", name)
    cluster.submit("sleep 300", "-n", "1", "-t", "90", "--array=1-9:2%2")
    cluster.submit("sleep 300", "-n", "3", "-H")
    cluster.submit("sleep 300", "-n", "3", "--begin=now+2hours", "--deadline=now+9hours")
    cluster.submit("sleep 300", "-n", "3", f"--dependency=afterok:{first}")
    cluster.submit("sleep 300", "-n", "3", "-t", "400")
    cluster.submit("sleep 300", "-N", "2", "-t", "10", "--exclusive")
    cluster.submit("sleep 300", "-t", "10", "-H", "--array=1-3,7,9-400")
    script = cluster.base / "components"
    script.write_text("#!/bin/sh\nsleep 300\n")
    cluster.run("sbatch", "-n", "1500", "-t", "9", ":", "-n", "900", "-t", "5", str(script))


def told(state: QueueState) -> list[object]:
    """Return what all texts tell: squeue's has no ``%2`` of tasks that run."""
    return sorted(
        (job.id, job.processors, job.estimate, job.submission, job.start, job.planned_start,
         job.deadline, job.priority, job.user, job.partition, job.reason, job.components)
        for job in [*state.jobs, *state.blocked]
    )  # fmt: skip


def test_all_texts_of_a_real_slurm_tell_the_same_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as base, SlurmCluster(
        Path(base), NODES, MULTIFACTOR, cpus=CPUS, partitions=LIMITED
    ) as cluster:  # fmt: skip
        submit_all_kinds(cluster)
        running = ["squeue", "-h", "-t", "R", "-o", "%i"]
        cluster.wait_for(lambda: len(cluster.run(*running).split()) == 3, 30, "three jobs run")
        is_told = ["squeue", "-h", "-t", "PD", "-o", "%r"]
        cluster.wait_for(lambda: "Resources" in cluster.run(*is_told), 30, "it waits for nodes")
        # Dates of text are of this machine's clock.
        del cluster.env["SLURM_TIME_FORMAT"]
        texts = [
            cluster.run(*command)
            for command in (
                ("squeue", "-a", "--json"),
                ("squeue", "-a", "-O", FORMAT),
                ("scontrol", "show", "job"),
                ("scontrol", "-o", "show", "job"),
            )
        ]
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        monkeypatch.setenv("PATH", cluster.env["PATH"])
        asked: list[list[str]] = []

        def run(command: Sequence[str], form: str) -> str:
            asked.append([*command])
            return run_command(command, form)

        live, config = QueueSource(None, run=run).state(), live_config(run)
    assert os.environ["SLURM_CONF"] == str(cluster.conf)
    size = {"processors": NODES * CPUS, "now": live.now, "node_size": CPUS}
    states = [read_queue(text.encode(), "told", **size) for text in texts]
    assert all(told(each) == told(states[0]) for each in states)
    assert told(live) == told(states[0])
    assert live.processors == NODES * CPUS
    assert {job.id: str(job.meaning.cause) for job in live.blocked} == {
        "3": "hold",
        "4": "begin time",
        "5": "dependency",
        "6": "partition",
        "8_[1-3,7,9-400]": "hold",
    }
    (whole,) = (job for job in live.jobs if job.components)
    assert (whole.id, whole.components) == ("9", ("9+0", "9+1"))
    assert (whole.processors, whole.estimate, whole.start) == (2400, 540.0, None)
    assert config.options["weight_age"] == 9
    assert "7" in config.priorities
    assert asked == [
        ["scontrol", "show", "node"],
        ["squeue", "-a", "--json"],
        ["scontrol", "show", "config"],
        ["sprio"],
    ]


SHARED = [
    "PartitionName=main Nodes=ALL Default=YES MaxTime=300 State=UP",
    "PartitionName=whole Nodes=ALL MaxTime=300 State=UP OverSubscribe=EXCLUSIVE",
]


def test_fragments_of_nodes_that_another_partition_takes_whole_are_not_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seven of 16 processors are free on each of three nodes, and none on the fourth: nothing that
    wants ten on one node, or whole nodes, starts now, though 21 are free in all. 5 gets the fourth
    node when it is free, at 30 minutes, and 6 and 7 get others at 60.
    """
    place = TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
    with place as base, SlurmCluster(
        Path(base), 4, ["SchedulerParameters=bf_interval=1"], cpus=16, partitions=SHARED
    ) as cluster:  # fmt: skip
        for _ in range(3):
            cluster.submit("sleep 300", "-n", "9", "-N", "1", "-t", "60")
        cluster.submit("sleep 300", "-n", "2", "-N", "1", "-t", "30", "-p", "whole")
        running = ["squeue", "-h", "-t", "R", "-o", "%i"]
        cluster.wait_for(lambda: len(cluster.run(*running).split()) == 4, 30, "four jobs run")
        cluster.submit("sleep 300", "-n", "10", "-N", "1", "-t", "30")
        cluster.submit("sleep 300", "-n", "2", "-N", "2", "-t", "30", "-p", "whole")
        cluster.submit("sleep 300", "-n", "12", "-N", "1", "-t", "20")
        is_told = ["squeue", "-h", "-t", "PD", "-o", "%i %r"]
        cluster.wait_for(lambda: "5 Resources" in cluster.run(*is_told), 30, "5 waits for a node")
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        monkeypatch.setenv("PATH", cluster.env["PATH"])
        source = QueueSource(None)
        found = queue_starts(source.state())
        answer = source.asker().ask(Ask(processors=1, time=60.0))
    assert {job.id for job in found.jobs} == {"5", "6", "7"}
    assert not found.unexplained
    waits = {job.id: (job.planned or math.inf) - found.now for job in found.jobs}
    for job, minutes in (("5", 30), ("6", 60), ("7", 60)):
        assert 60 * minutes - 40 < waits[job] <= 60 * minutes, job
    assert answer.wait == 0.0
