"""The plan of a queue node by node, against a naive planner that reads the same text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.queue.source import QueueSource
from qops_batsim.queue.starts import queue_starts
from support.node_queues import NOW, naive_starts, random_queue


def source_of(folder: Path, nodes: str, queue: str, **more: Any) -> QueueSource:
    """Return a queue and its nodes as read from files."""
    (folder / "nodes.txt").write_text(nodes)
    (folder / "queue.txt").write_text(queue)
    nodes_file = folder / "nodes.txt"
    return QueueSource(folder / "queue.txt", now=float(NOW), nodes_file=nodes_file, **more)


def starts_of(folder: Path, nodes: str, queue: str) -> dict[str, float]:
    """Return the starts of waiting jobs by limits (seconds from now; infinite: none), by id."""
    found = queue_starts(source_of(folder, nodes, queue).state())
    assert found.by_node is True
    return {
        job.id: math.inf if job.planned is None else job.planned - found.now for job in found.jobs
    }


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_starts_are_those_of_a_naive_planner_of_the_same_text(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        nodes, queue = random_queue(seed)
        assert starts_of(tmp_path, nodes, queue) == naive_starts(nodes, queue), seed
