"""The adversarial workloads of the contract test: small, and each odd in one way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from qops_batsim.engine.options import AVAILABLE, UNAVAILABLE, ExternalEvent
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.hostset import HostSet
from qops_batsim.workload.model import Workload, delay_profile

Row = tuple[float, int, float, float | None] | tuple[float, int, float, float | None, QosRequest]
"""Submission (s), processors, run time (s), walltime (s), and what the user asks for."""

_QOS = QosRequest

_CASES: dict[str, tuple[int, Sequence[Row]]] = {
    "no job": (4, []),
    "one job": (4, [(0, 2, 10, 20)]),
    "equal arrivals": (4, [(0, 1 + i % 4, 10, 20) for i in range(12)]),
    "whole machine again and again": (3, [(i, 3, 5, 5.5) for i in range(8)]),
    "one host": (1, [(i // 3, 1, 1 + i, 10) for i in range(9)]),
    "wider than the machine": (4, [(0, 5, 10, 20), (1, 4, 10, 20), (2, 99, 1, 2)]),
    "no processor": (4, [(0, 0, 10, 20), (0, 1, 10, 20)]),
    "killed at the walltime": (4, [(0, 3, 50, 10), (1, 3, 10, 10), (2, 1, 9, 10)]),
    "early ends": (4, [(i, 1 + i % 3, 1, 1000) for i in range(20)]),
    "no estimate": (4, [(0, 3, 5, None), (1, 2, 5, 10), (2, 2, 5, None)]),
    "outlives its estimate": (
        4,
        [
            (submission, processors, run_time, None, _QOS(estimated_runtime=10.0))
            for submission, processors, run_time in ((0, 3, 100), (1, 4, 5), (2, 1, 30), (60, 2, 5))
        ],
    ),
    "dates within the tolerance": (
        2,
        [
            (0, 1, 10, 10.5),
            (0, 1, 10.0000004, 11),
            (1e-7, 2, 3, 3.1),
            (10, 1, 2, 2.1),
            (10, 2, 2, 3),
        ],
    ),
    "estimates off by less than a tolerance": (
        1,
        [(0, 1, 2, 2.0000009), (0.1, 1, 1, 1.0000004), (0.1, 1, 1, None)],
    ),
    "estimates that are far off": (
        2,
        [
            (0, 2, 9, None, _QOS(estimated_runtime=1.0)),
            (0, 2, 4, None, _QOS(estimated_runtime=0.04)),
            (0, 2, 4, None, _QOS(estimated_runtime=7.0)),
            (3.5, 3, 4, None, _QOS()),
        ],
    ),
    "deadlines": (
        4,
        [
            (0, 4, 10, None, _QOS(deadline=20.0, estimated_runtime=10.0)),
            (1, 4, 10, None, _QOS(deadline=12.0, estimated_runtime=10.0)),
            (2, 2, 5, None, _QOS(deadline=1.0, estimated_runtime=5.0)),
            (3, 1, 5, None, _QOS(estimated_runtime=5.0)),
        ],
    ),
}


_AWAY = (
    (4.0, UNAVAILABLE, "0 5-7"),
    (15.0, UNAVAILABLE, "2"),
    (40.0, AVAILABLE, "0 2 6"),
    (70.0, UNAVAILABLE, "0-1"),
    (90.0, AVAILABLE, "0-1 5 7"),
)
"""Date (s), what happens, and to which of eight hosts: up to five are away, none for ever."""


class Case(NamedTuple):
    """A case: its name, number of hosts, workload, and what happens to hosts meanwhile."""

    name: str
    hosts: int
    workload: Workload
    events: tuple[ExternalEvent, ...] | None = None


def cases() -> Iterator[Case]:
    """Yield the cases."""
    for name, (hosts, rows) in _CASES.items():
        yield Case(name, hosts, _workload(hosts, rows))
    for seed in range(3):
        yield Case(f"random burst {seed}", 8, _workload(8, _random_burst(seed)))
    events = tuple(
        ExternalEvent(date, kind, HostSet.parse(hosts), {}) for date, kind, hosts in _AWAY
    )
    yield Case("hosts that go away and return", 8, _workload(8, _random_burst(3)), events)


def _workload(processors: int, rows: Sequence[Row]) -> Workload:
    jobs, profiles = [], {}
    for index, row in enumerate(rows):
        submission, needed, run_time, walltime = row[:4]
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        qos = row[4] if len(row) == 5 else None
        jobs.append(Job(str(index), float(submission), needed, name, walltime, qos))
    return Workload(jobs=jobs, profiles=profiles, processors=processors, source="contract case")


def _random_burst(seed: int) -> list[Row]:
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for _ in range(60):
        estimate = float(random.integers(2, 50))
        run_time = float(random.choice([estimate / 2, estimate - 1, estimate, estimate + 5]))
        rows.append((float(random.integers(0, 60)), int(random.integers(1, 9)), run_time, estimate))
    return rows
