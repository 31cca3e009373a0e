"""What AROMA knows of hosts, network and work, and how it chooses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qops_batsim.errors import InputError
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.platform.model import Platform
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.protocol.events import HostDescription
from qops_batsim.scheduling.aroma.application import Work, work_of
from qops_batsim.scheduling.aroma.machine import DEFAULT_SPEED, UnequalHosts
from qops_batsim.scheduling.aroma.mapping import FOUND, choose, network_seconds, release_after
from qops_batsim.scheduling.aroma.recurrence import HOST
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
    assert found.speeds.tolist() == [SPEED, 4 * SPEED, 4 * SPEED]
    assert found.hosts["processors"].tolist() == [1, 2, 8]
    assert found.hosts["memory"].tolist() == [1e9, 2e9, 3e9]
    assert found.reference_speed == 4 * SPEED  # what most hosts have
    assert known(machine([4.0, 1.0])).reference_speed == SPEED  # of several, the lowest
    assert known(machine([4.0]), reference_speed=7.0).reference_speed == 7.0


def test_else_from_the_properties_of_the_hosts() -> None:
    described = HostDescription(0, "a", properties={"speed": "2Gf", "cores": "4"})
    found = UnequalHosts([described, HostDescription(1, "b")])
    assert found.speeds.tolist() == [2e9, DEFAULT_SPEED]
    assert found.hosts["processors"].tolist() == [4, 1]
    assert found.hosts["memory"].tolist() == [math.inf, math.inf]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"speed": "fast"}, "host 'a': property speed"),
        ({"cores": "0"}, "host 'a': property cores is '0'; a number above 0 is expected"),
        ({"memory": "much"}, "host 'a': property memory is 'much'; a number above 0 is"),
    ],
)
def test_properties_without_sense(properties, message) -> None:
    with pytest.raises(InputError, match=message):
        UnequalHosts([HostDescription(0, "a", properties=properties)])


def test_a_platform_without_a_host_of_the_engine() -> None:
    with pytest.raises(InputError, match="it has no host 'stranger', which the engine has"):
        UnequalHosts([HostDescription(0, "stranger")], machine([1.0]))


def test_the_time_of_a_task_is_its_work_over_the_speed() -> None:
    found = known(machine([1.0, 4.0]))
    assert found.needs(Work(flop=8 * SPEED)).tolist() == [8, 2]
    assert found.needs(Work(flop=8 * SPEED, seconds=3)).tolist() == [11, 5]
    assert (found.needs(Work()) > 0).all()


def hosts_of(*prefixes: str) -> np.ndarray:
    """Return one host of the grid for each prefix; the second of a name is another one."""
    names = [
        host.name for host in read_platform(find_input("aroma_grid", "platforms")).compute_hosts
    ]
    found: list[int] = []
    for prefix in prefixes:
        found.append(
            next(i for i, name in enumerate(names) if name.startswith(prefix) and i not in found)
        )
    return np.array(sorted(found))


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
    assert GRID.bandwidths.min() == pytest.approx(4.25e6)


def communication(found: UnequalHosts, hosts: np.ndarray, sent: float = 1e9) -> float:
    return network_seconds(hosts, sent, found.hosts, found.bandwidths)


def test_no_communication_takes_no_time() -> None:
    assert communication(GRID, hosts_of("a_node", "c_node"), sent=0.0) == 0
    assert communication(GRID, hosts_of("a_node")) == 0
    assert communication(known(machine([1.0, 1.0])), np.array([0, 1])) == 0
    strangers = [HostDescription(0, "a"), HostDescription(1, "b")]
    assert communication(UnequalHosts(strangers), np.array([0, 1])) == 0


def test_hosts_of_a_made_cluster_are_one_group() -> None:
    found = known(make_cluster(300, bandwidth=1e8))
    assert set(found.hosts["group"].tolist()) == {0}
    assert communication(found, np.array([5, 200])) == pytest.approx(10)


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


def chosen(wanted, after, *, weights=None, sent=0.0, groups=(), bandwidths=(), now=0.0, free=None):
    count = len(after)
    hosts = np.zeros(count, HOST)
    hosts["group"] = groups or 0
    return choose(
        wanted,
        now,
        np.ones(count, np.bool_) if free is None else np.array(free, np.bool_),
        np.array(after, float),
        np.ones(count) if weights is None else np.array(weights, float),
        sent,
        hosts,
        np.array(bandwidths or [[math.inf]], float),
    ).tolist()


def test_the_earliest_release_is_best_and_ties_go_to_the_lowest() -> None:
    assert chosen(3, [5, 3, 9, 3]) == [1, 3, 0]
    assert chosen(2, [5, 3, 9, 3], free=[1, 0, 1, 0]) == [0, 2]
    assert chosen(3, [5, 3, 9, 3], free=[1, 0, 1, 0]) == [0, 2]  # there are no more


def test_the_criterion_counts_from_now() -> None:
    # 5 × 1 against 4 × 1.5; far from the origin of dates, that must not change.
    assert chosen(1, [5, 4], weights=[1, 1.5]) == [0]
    assert chosen(1, [1e7 + 5, 1e7 + 4], weights=[1, 1.5], now=1e7) == [0]


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
    hosts, found = np.zeros(1, HOST), np.zeros(1, FOUND)
    hosts["processors"], found["load"], found["release"] = processors, load, release
    assert release_after(10.0, np.array([4.0]), hosts, found)[0] == expected
