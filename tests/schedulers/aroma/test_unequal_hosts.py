"""What AROMA knows of hosts, network and work, and how it chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from qops_batsim import InputError, Job, QosRequest, read_platform
from qops_batsim.core import HostDescription
from qops_batsim.platform import Platform, make_cluster
from qops_batsim.schedulers.aroma.application import Application, Placement, SharedHost, Task
from qops_batsim.schedulers.aroma.mapping import Mapper
from qops_batsim.schedulers.aroma.recurrence import MappingPlan
from qops_batsim.schedulers.aroma.unequal_hosts import DEFAULT_SPEED, UnequalHosts
from qops_batsim.schedulers.aroma.work import Work, work_of
from qops_batsim.shipped import find_input
from support.aroma_oracles import SPEED, machine


def known(platform: Platform, **options: float) -> UnequalHosts:
    hosts = [
        HostDescription(index, host.name, properties=host.properties)
        for index, host in enumerate(platform.compute_hosts)
    ]
    return UnequalHosts(hosts, platform, **options)


GRID = known(read_platform(find_input("aroma_grid", "platforms")))


def test_speeds_come_from_the_platform() -> None:
    found = known(machine([1.0, 4.0, 4.0], [1, 2, 8], memory=[1e9, 2e9, 3e9]))
    assert [host.speed for host in found.hosts] == [SPEED, 4 * SPEED, 4 * SPEED]
    assert [host.processors for host in found.hosts] == [1, 2, 8]
    assert [host.memory for host in found.hosts] == [1e9, 2e9, 3e9]
    assert found.reference_speed == 4 * SPEED  # what most hosts have
    assert known(machine([4.0, 1.0])).reference_speed == SPEED  # of several, the lowest
    assert known(machine([4.0]), reference_speed=7.0).reference_speed == 7.0


def test_else_from_the_properties_of_the_hosts() -> None:
    described = HostDescription(0, "a", properties={"speed": "2Gf"})
    found = UnequalHosts([described, HostDescription(1, "b")])
    assert [host.speed for host in found.hosts] == [2e9, DEFAULT_SPEED]
    assert [host.processors for host in found.hosts] == [1, 1]
    assert [host.memory for host in found.hosts] == [math.inf, math.inf]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"speed": "fast"}, "host 'a': property speed"),
        ({"memory": "much"}, "host 'a': property memory is 'much'; a size: a number"),
    ],
)
def test_properties_without_sense(properties, message) -> None:
    with pytest.raises(InputError, match=message):
        UnequalHosts([HostDescription(0, "a", properties=properties)])


def test_a_platform_without_a_host_of_the_engine() -> None:
    with pytest.raises(
        InputError, match="the platform has no host 'stranger', which the engine has"
    ):
        UnequalHosts([HostDescription(0, "stranger")], machine([1.0]))


def test_the_time_of_a_task_is_its_work_over_the_speed() -> None:
    found = known(machine([1.0, 4.0]))
    assert needs(found, Work(flop=8 * SPEED)) == [8, 2]
    assert needs(found, Work(flop=8 * SPEED, seconds=3)) == [11, 5]
    assert min(needs(found, Work())) > 0


def mapped(
    machine: Any,
    work: Work,
    wanted: int,
    *,
    on: Sequence[int] | None = None,
    memory: float | None = None,
    now: float = 0.0,
) -> Placement | None:
    """Map a best-effort application with nothing else on the machine, on certain hosts or any."""
    book = MappingPlan()
    book.advance(now)
    job = Job("1", now, wanted, "", qos=QosRequest(memory=memory))
    application = Application(job, "best_effort", work, 1)
    if on is not None:
        application.only_hosts = [machine.hosts[index] for index in on]
    return Mapper(machine, book, 1.0, 0).map(application)


def needs(found: UnequalHosts, work: Work) -> list[float]:
    placement = mapped(found, work, len(found.hosts))
    assert placement is not None
    return [task.need for task in placement.tasks]


def hosts_of(*prefixes: str) -> list[int]:
    """Return one host of the grid for each prefix; the second of a name is another one."""
    names = [
        host.name for host in read_platform(find_input("aroma_grid", "platforms")).compute_hosts
    ]
    found: list[int] = []
    for prefix in prefixes:
        found.append(
            next(i for i, name in enumerate(names) if name.startswith(prefix) and i not in found)
        )
    return sorted(found)


@pytest.mark.parametrize(
    ("hosts", "bandwidth"),
    [
        (("b_node", "b_node"), 250e6),
        (("c_node", "c_node"), 12.5e6),
        (("a_node", "a_smp"), 125e6),
        (("a_node", "b_node"), 77.5e6),
        (("b_node", "c_node"), 4.25e6),
        (("a_node", "b_node", "b_node", "c_node"), 4.25e6),
    ],
)
def test_time_for_communication_is_that_over_the_worst_route(hosts, bandwidth) -> None:
    assert communication(GRID, hosts_of(*hosts)) == pytest.approx(1e9 / bandwidth)
    assert min(map(min, GRID.bandwidths)) == pytest.approx(4.25e6)


def communication(found: UnequalHosts, hosts: Sequence[int], sent: float = 1e9) -> float:
    """Return by how much data that each task sends make an application of 1 s longer."""
    placement = mapped(found, Work(seconds=1.0, sent=sent), len(hosts), on=hosts)
    assert placement is not None
    return placement.longest() - 1.0


def test_no_communication_takes_no_time() -> None:
    assert communication(GRID, hosts_of("a_node", "c_node"), sent=0.0) == 0
    assert communication(GRID, hosts_of("a_node")) == 0
    assert communication(known(machine([1.0, 1.0])), [0, 1]) == 0
    strangers = [HostDescription(0, "a"), HostDescription(1, "b")]
    assert communication(UnequalHosts(strangers), [0, 1]) == 0


def test_hosts_of_a_made_cluster_are_one_group() -> None:
    found = known(make_cluster(300, bandwidth=1e8))
    assert {host.group for host in found.hosts} == {0}
    assert communication(found, [5, 200]) == pytest.approx(10)


# What jobs have to do

PROFILES = {
    "same": {"type": "parallel_homogeneous", "cpu": 5e8, "com": 10.0},
    "total": {"type": "parallel_homogeneous_total", "cpu": 9e8, "com": 30.0},
    "unlike": {"type": "parallel", "cpu": [1e8, 3e8, 2e8], "com": [9, 1, 2, 3, 9, 4, 5, 6, 9]},
    "delay": {"type": "delay", "delay": 7},
    "steps": {"type": "composed", "repeat": 3, "seq": ["same", "delay"]},
    "once": {"type": "composed", "seq": ["same", "delay"]},
    "trace": {"type": "smpi", "trace": "x"},
}


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("same", Work(flop=5e8, sent=40.0)),
        ("total", Work(flop=3e8, sent=40.0)),
        # The third task receives 2 + 4 and sends 5 + 6.
        ("unlike", Work(flop=3e8, sent=17.0)),
        ("steps", Work(flop=15e8, seconds=21.0, sent=120.0)),
        ("once", Work(flop=5e8, seconds=7.0, sent=40.0)),
        # How long a sleep takes and what a trace does is not known: the walltime counts.
        ("delay", Work(seconds=50.0)),
        ("trace", Work(seconds=50.0)),
        ("missing", Work(seconds=50.0)),
    ],
)
def test_work_of_a_profile(profile, expected) -> None:
    assert work_of(Job("1", 0.0, 3, profile, 50.0), PROFILES, SPEED) == expected


@pytest.mark.parametrize("profile", ["same", "unlike", "steps"])
def test_the_estimate_of_the_user_counts_instead(profile) -> None:
    job = Job("1", 0.0, 3, profile, 50.0, QosRequest(estimated_runtime=20.0))
    assert work_of(job, PROFILES, SPEED).flop == 20 * SPEED
    assert (
        work_of(job, PROFILES, SPEED).sent
        == work_of(Job("1", 0.0, 3, profile), PROFILES, SPEED).sent
    )


def test_a_profile_that_contains_itself_tells_nothing() -> None:
    around = {"a": {"type": "composed", "seq": ["a", "a"]}}
    assert work_of(Job("1", 0.0, 1, "a", 5.0), around, SPEED) == Work(seconds=5.0)


# The choice of hosts


def chosen(wanted, after, *, memory=(), sent=0.0, groups=(), bandwidths=(), now=0.0, on=None):
    """Return the hosts chosen of idle ones that would be released so many seconds from now.

    A task uses 1 byte of ``memory``, and its weight is 1. None if the hosts do not suffice.
    """
    count = len(after)
    hosts = [
        SharedHost(index, 1.0 / seconds, 1, space, group)
        for index, (seconds, space, group) in enumerate(
            zip(after, memory or [math.inf] * count, groups or [0] * count, strict=True)
        )
    ]
    machine = SimpleNamespace(hosts=hosts, bandwidths=[*bandwidths] or [[math.inf]])
    placement = mapped(machine, Work(flop=1.0, sent=sent), wanted, on=on, memory=1.0, now=now)
    return placement and [task.host.index for task in placement.tasks]


def test_the_earliest_release_is_best_and_ties_go_to_the_lowest() -> None:
    assert chosen(1, [5, 3, 9, 3]) == [1]
    assert chosen(2, [5, 3, 9, 3]) == [1, 3]
    assert chosen(3, [5, 3, 9, 3]) == [0, 1, 3]
    assert chosen(2, [5, 3, 9, 3], on=[0, 2]) == [0, 2]
    assert chosen(3, [5, 3, 9, 3], on=[0, 2]) is None  # there are no more


def test_the_criterion_counts_from_now() -> None:
    # 5 × 1 against 4 × 1.5; far from the origin of dates, that must not change.
    assert chosen(1, [5, 4], memory=[math.inf, 2]) == [0]
    assert chosen(1, [5, 4], memory=[math.inf, 2], now=1e7) == [0]


def test_tasks_that_communicate_stay_together() -> None:
    # Hosts 0 and 2 are at one site; from there to host 1, the data take 10 s.
    two_sites = {"groups": [0, 1, 0], "bandwidths": [[100.0, 1.0], [1.0, 100.0]]}
    assert chosen(2, [5, 6, 7], sent=10.0, **two_sites) == [0, 2]
    assert chosen(2, [5, 6, 70], sent=10.0, **two_sites) == [0, 1]
    assert chosen(2, [5, 6, 7], **two_sites) == [0, 1]


@pytest.mark.parametrize(
    ("load", "release", "processors", "expected"),
    [
        (0, 10, 1, 14),  # idle: now and the task
        (1, 30, 1, 34),  # busy: whatever is shared, one processor does all the work
        (1, 30, 2, 30),  # one processor of two is free, and has the task done before
        (2, 30, 2, 32),
    ],
)
def test_the_release_after_one_more_task(load, release, processors, expected) -> None:
    book, host = MappingPlan(), SharedHost(0, processors=processors)
    book.advance(10.0)
    for index in range(load):
        job = Job(str(index), 0.0, 1, "")
        placement = Placement(Application(job, "best_effort", Work(), index))
        placement.start, placement.end, placement.running = 0.0, release, True
        placement.tasks = [Task(placement, host, 20.0)]
        book.add(placement)
    machine = SimpleNamespace(hosts=[host])
    job = Job("more", 10.0, 1, "")
    Mapper(machine, book, 1.0, 0).map(Application(job, "best_effort", Work(flop=4.0), load))
    assert host.release_after == expected
