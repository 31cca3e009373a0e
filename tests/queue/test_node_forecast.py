"""Forecasts of queues whose jobs share nodes: what is simulated, and on which machine."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from qops_batsim.dates import Calendar
from qops_batsim.queue.past import Past
from qops_batsim.queue.queue_state import QueueState
from qops_batsim.queue.source import QueueSource
from qops_batsim.queue.starts import (
    ForecastBasis,
    QueueStarts,
    StartForecast,
    asked_starts,
    queue_starts,
)
from support.node_oracles import EasyFromNow, NodeJob
from support.node_queues import NOW, naive_queue, naive_starts, random_queue
from support.pasts import past

DAY = 86_400.0


def state_of(folder: Path, nodes: str, queue: str) -> QueueState:
    (folder / "nodes.txt").write_text(nodes)
    (folder / "queue.txt").write_text(queue)
    nodes_file = folder / "nodes.txt"
    return QueueSource(folder / "queue.txt", now=float(NOW), nodes_file=nodes_file).state()


def used_up() -> Past:
    """Return a history of three days in which the only job used up its limit."""
    return past(8, [(0.0, 0.0, 3600.0, 3600.0, 1)])


def basis_of(history: Past, scheduler: str = "") -> ForecastBasis:
    return ForecastBasis(history, Calendar(int(NOW - 3 * DAY), "UTC"), scheduler)


def of_one_partition(queue: str) -> str:
    """Return a queue whose jobs ask for the first of their partitions only."""
    return re.sub(r'(Partition=|"partition": ")(\w+)(?:,\w+)+', r"\1\2", queue)


def told(found: QueueStarts) -> dict[str, tuple[float, ...]]:
    """Return planned, early, median and late start of each job (seconds from now), by id."""
    starts: dict[str, tuple[float, ...]] = {}
    for job in found.jobs:
        assert isinstance(job, StartForecast)
        dates = (job.planned, job.early, job.median, job.late)
        starts[job.id] = tuple(math.inf if date is None else date - NOW for date in dates)
    return starts


@pytest.mark.parametrize("first", [0, 15])
def test_if_all_use_up_their_limits_draws_are_the_plan(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 15):
        nodes, queue = random_queue(seed)
        queue = of_one_partition(queue)
        state = state_of(tmp_path, nodes, queue)
        plan = naive_starts(nodes, queue)
        found = queue_starts(state, basis_of(used_up(), "conservative"), draws=3)
        assert found.by_node is True
        assert told(found) == {name: (start,) * 4 for name, start in plan.items()}, seed

        read = naive_queue(nodes, queue)
        jobs = [job for (job,) in read.waiting.values()]
        outcome = EasyFromNow(read.machine, jobs, read.held).run()
        ran = dict(zip(read.waiting, (outcome[place] for place in range(len(jobs))), strict=True))
        by_easy = {name: math.inf if one is None else one.start for name, one in ran.items()}
        found = queue_starts(state, basis_of(used_up()), draws=3)
        assert told(found) == {name: (start,) * 4 for name, start in by_easy.items()}, seed
