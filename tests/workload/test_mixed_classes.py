"""Made-up applications of all classes of service."""

from __future__ import annotations

from typing import Any

import pytest

from qops_batsim import InputError, Job, read_platform, read_workload, simulate
from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.shipped import find_input
from qops_batsim.workload import format_workload, parse_workload
from qops_batsim.workload.service_classes import count_classes, mixed_workload


def test_the_shipped_workload_is_what_is_made() -> None:
    content = find_input("aroma_mixed", "workloads").read_text()
    assert content == format_workload(mixed_workload())
    assert len(content) < 50_000


def test_equal_seeds_give_equal_workloads() -> None:
    first = format_workload(mixed_workload(30, 5))
    assert format_workload(mixed_workload(30, 5)) == first
    assert format_workload(mixed_workload(30, 6)) != first
    assert format_workload(parse_workload(first, source="x")) == first
    # More applications begin with the same ones.
    fewer, more = mixed_workload(10, 5), mixed_workload(30, 5)
    assert more.jobs[: len(fewer.jobs)] == fewer.jobs


def test_applications_are_as_chosen() -> None:
    workload = mixed_workload(400, 2, processors=8)
    counts = count_classes(workload)
    assert sum(counts.values()) == 400
    # Relative frequencies are 4, 2, 1 and 3 of 10.
    assert list(counts) == list(QOS_CLASSES)
    assert 120 < counts["deadline"] < 200
    assert 20 < counts["dedicated"] < 70
    origins = set()
    for job in workload.jobs:
        qos, profile = job.qos, workload.profiles[job.profile]
        assert qos is not None
        assert qos.estimated_runtime is not None
        assert 300 <= qos.estimated_runtime <= 5_400
        assert profile["cpu"] == qos.estimated_runtime * 500e6
        assert profile["com"] == 0 or 1e5 <= profile["com"] <= 1e7
        assert profile["com"] == 0 or job.processors > 1
        assert 1 <= job.processors <= 8
        assert qos.memory in [n << 20 for n in range(16, 385)]
        expected = job.submission_time + 5 * qos.estimated_runtime
        assert qos.deadline == (expected if qos.service_class == "deadline" else None)
        origins.add(qos.origin)
    assert origins == {"site_a", "site_b", "site_c"}


def test_tasks_of_their_own_share_a_name() -> None:
    parts: dict[str, list[Job]] = {}
    for job in mixed_workload(100, 1).jobs:
        if job.qos is not None and job.qos.application is not None:
            parts.setdefault(job.qos.application, []).append(job)
    assert parts
    for name, jobs in parts.items():
        assert 2 <= len(jobs) <= 4
        assert [job.id for job in jobs] == [f"{name}t{n}" for n in range(1, len(jobs) + 1)]
        assert {job.processors for job in jobs} == {1}
        assert len({job.submission_time for job in jobs}) == 1
        assert all(job.qos and job.qos.service_class == "best_effort" for job in jobs)


def test_the_example_runs_on_the_grid_and_shares_hosts() -> None:
    workload = read_workload(find_input("aroma_mixed", "workloads"))
    platform = read_platform(find_input("aroma_grid", "platforms"))
    assert len(platform.compute_hosts) == workload.processors
    simulation = simulate("aroma", workload, platform)
    ran = [record for record in simulation.ended if record.hosts]
    together = 0
    for one in ran:
        for other in ran:
            if one is not other and one.start <= other.start < one.finish:
                together += len(set(one.hosts) & set(other.hosts)) > 0
    assert together > 0
    sites = {platform.compute_hosts[host].name[0] for record in ran for host in record.hosts}
    assert sites == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"applications": 0}, "applications is 0; a whole number from 1"),
        ({"seed": -1}, "seed is -1"),
        ({"processors": 0}, "processors is 0; a whole number from 1"),
    ],
)
def test_choices_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mixed_workload(**arguments)
