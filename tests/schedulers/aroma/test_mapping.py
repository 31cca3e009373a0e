"""Where and when AROMA maps, against looking at every host and every date."""

from __future__ import annotations

import numpy as np
import pytest

from qops_batsim.engine import JobRecord, Simulation
from support.aroma_oracles import host_ends, machine, run, work


def in_order(simulation: Simulation) -> list[JobRecord]:
    return sorted(simulation.ended, key=lambda record: int(record.local_id))


@pytest.mark.parametrize("seed", range(15))
def test_best_effort_goes_where_the_release_is_first(seed: int) -> None:
    random = np.random.default_rng(seed)
    hosts = int(random.integers(1, 7))
    speeds = [float(random.choice([0.5, 1.0, 2.0])) for _ in range(hosts)]
    dates = np.cumsum(random.exponential(4.0, 40))
    seconds = random.uniform(1.0, 40.0, 40)
    jobs = [
        {"at": float(at), "seconds": float(needed)}
        for at, needed in zip(dates, seconds, strict=True)
    ]
    simulation, _ = run(work(*jobs, processors=hosts), machine(speeds))
    mapped: list[list[tuple[float, float]]] = [[] for _ in range(hosts)]
    for record, at, needed in zip(in_order(simulation), dates, seconds, strict=True):
        assert record.start == at
        releases = [
            max([at, *host_ends(tasks, 1)]) + needed / speed if tasks else at + needed / speed
            for tasks, speed in zip(mapped, speeds, strict=True)
        ]
        (chosen,) = record.hosts
        assert releases[chosen] == pytest.approx(min(releases), abs=1e-9)
        mapped[chosen].append((at, needed / speeds[chosen]))


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("unequal", [False, True])
def test_dedicated_starts_at_the_first_date_that_will_do(seed: int, unequal: bool) -> None:
    random = np.random.default_rng(seed)
    hosts = int(random.integers(1, 7))
    speeds = [float(random.choice([0.5, 1.0, 2.0])) if unequal else 1.0 for _ in range(hosts)]
    dates = np.cumsum(random.exponential(6.0, 30))
    jobs = [
        {
            "at": float(at),
            "tasks": int(random.integers(1, hosts + 1)),
            "seconds": float(random.uniform(1.0, 40.0)),
            "service_class": "dedicated",
        }
        for at in dates
    ]
    simulation, _ = run(work(*jobs, processors=hosts), machine(speeds))
    taken: list[list[tuple[float, float]]] = [[] for _ in range(hosts)]
    ends: list[float] = []
    for record, job in zip(in_order(simulation), jobs, strict=True):
        found = []
        for date in sorted([job["at"], *(end for end in ends if end > job["at"])]):
            for length in sorted({job["seconds"] / speed for speed in speeds}):
                fits = [
                    host
                    for host in range(hosts)
                    if job["seconds"] / speeds[host] <= length
                    and all(
                        end <= date + 1e-6 or start >= date + length - 1e-6
                        for start, end in taken[host]
                    )
                ]
                if len(fits) >= job["tasks"]:
                    found.append((date, date + length))
        assert (record.start, record.finish) == pytest.approx(found[0], abs=1e-6)
        for host in record.hosts:
            taken[host].append((record.start, record.finish))
        ends.append(record.finish)
