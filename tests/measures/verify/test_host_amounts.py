"""The rule ``host-amounts``: what hosts give at any date, labels, licences, whole hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from measures.conftest import Ran, Writer
from qops_batsim import read_run, run
from qops_batsim.measures import Verification
from qops_batsim.measures.verify.rule import Violation
from qops_batsim.measures.verify.rules_hosts import _can_be_spread
from support.shared_hosts import platform_of, workload_of

GB = 10**9

#   host      0          1          2            3
#   cores     8          8          4            4
#   memory   32 GB      32 GB      64 GB        64 GB
#   gpus      2          -          4 a100       -
#   fpga      -          -          -            3
#   labels    gpu        cpu        gpu,big      cpu,big
PLATFORM = platform_of(
    {"cores": 8, "memory": "32GB", "gpus": 2, "labels": "gpu", "licence:ansys": 2},
    {"cores": 8, "memory": "32GB", "labels": "cpu"},
    {"cores": 4, "memory": "64GB", "gpus:a100": 4, "labels": "gpu,big"},
    {"cores": 4, "memory": "64GB", "kind:fpga": 3, "labels": "cpu,big"},
)


@dataclass
class Placed:
    """A job that ran from ``start`` for ``run_time`` on some hosts, and what it asked for."""

    start: float
    run_time: float
    hosts: list[int]
    fields: dict[str, Any]


Check = Callable[..., list[Violation]]


@pytest.fixture
def check(write_run: Writer) -> Check:
    return lambda *placed, platform=PLATFORM: violations(write_run, list(placed), platform)


def verification(write_run: Writer, placed: list[Placed], platform: Any) -> Verification:
    jobs = [{"res": len(each.hosts), "run_time": each.run_time} | each.fields for each in placed]
    ran = [
        Ran(str(number), 0, job["res"], each.start, each.run_time, each.hosts)
        for number, (each, job) in enumerate(zip(placed, jobs, strict=True), 1)
    ]
    hosts = len(platform.compute_hosts)
    result = replace(read_run(write_run(ran), hosts=hosts), platform=platform)
    return Verification(result, workloads=workload_of(jobs), compute_sharing=True)


def violations(write_run: Writer, placed: list[Placed], platform: Any) -> list[Violation]:
    found = verification(write_run, placed, platform).violations()
    assert {each.rule for each in found} <= {"host-amounts"}
    return found


def each(host: int, start: float, run_time: float, **amounts: int) -> Placed:
    return Placed(start, run_time, [host], {"per_host": amounts})


@pytest.mark.parametrize(
    ("host", "kind", "most"),
    [
        (0, "cores", 8),
        (1, "memory", 32 * GB),
        (0, "gpus", 2),
        (2, "gpus:a100", 4),
        (3, "fpga", 3),
    ],
)
def test_one_unit_too_much_on_one_host_is_seen(
    host: int, kind: str, most: int, check: Check
) -> None:
    #  most - 1  |=========|            |====|
    #         1     |====|              0    10
    full = each(host, 0, 10, **{kind: most - 1})
    assert check(full, each(host, 3, 5, **{kind: 1})) == []
    found = check(full, each(host, 3, 5, **{kind: 2}))
    assert {(each.host, each.time, each.jobs) for each in found} == {(host, 3.0, ("w0!2",))}
    assert kind in found[-1].message or kind == "memory"


def test_what_is_given_back_can_be_given_at_once(check: Check) -> None:
    assert check(each(0, 0, 10, cores=8), each(0, 10, 5, cores=8), each(0, 15, 5, cores=8)) == []
    (found,) = check(each(0, 0, 10, cores=8), each(0, 9.99, 5, cores=1))
    assert found.message == (
        "host 0 gives 9 cores from 9.990000 s on, when job 'w0!2' starts, but has 8"
    )


def test_a_host_has_nothing_of_a_kind_that_others_have(check: Check) -> None:
    (found,) = check(each(1, 0, 10, gpus=1))
    assert "host 1 gives 1 gpus" in found.message
    (found,) = check(each(1, 0, 10, asics=1))
    assert found.message == "job 'w0!1' runs, but no host has the asics it asks for"


@pytest.mark.parametrize("fields", [{}, {"exclusive": True}, {"hosts_with": ["gpu"]}])
def test_whole_hosts_are_alone(fields: dict[str, Any], check: Check) -> None:
    small = each(0, 5, 10, cores=1)
    assert check(Placed(0, 5, [0, 2], fields), small) == []
    (found,) = check(Placed(0, 6, [0, 2], fields), small)
    assert "shares host 0 from 5.000000 s on" in found.message
    (found,) = check(small, Placed(7, 6, [0, 2], fields))
    assert found.jobs == ("w0!2",)


def test_an_exclusive_host_has_at_least_the_amounts(check: Check) -> None:
    asked = {"exclusive": True, "per_host": {"gpus": 3}}
    assert check(Placed(0, 5, [2], asked)) == []
    (found,) = check(Placed(0, 5, [0], asked))
    assert "gives 3 gpus" in found.message


def test_hosts_have_the_labels(check: Check) -> None:
    asked = {"hosts_with": ["gpu", "big"], "per_host": {"cores": 1}}
    assert check(Placed(0, 5, [2], asked)) == []
    (found,) = check(Placed(0, 5, [0, 2], asked))
    assert found.message == "job 'w0!1' runs on host 0, which is not labelled gpu, big"


def test_licences_are_of_the_machine(check: Check) -> None:
    def licensed(host: int, count: int) -> Placed:
        return Placed(0, 5, [host], {"per_host": {"cores": 1}, "licences": {"ansys": count}})

    assert check(licensed(0, 1), licensed(3, 1)) == []
    (found,) = check(licensed(0, 1), licensed(3, 2))
    assert "makes 3 licences of ansys used from 0.000000 s on, there are 2" in found.message


def test_tasks_find_room_on_the_hosts(check: Check) -> None:
    # Five tasks of 2 cores: at most 4 on host 0, 2 on host 2; one core of host 0 is taken.
    asked = {"res": 3, "tasks": 5, "per_task": {"cores": 2}}
    other = each(0, 4, 10, cores=1)
    assert check(Placed(0, 5, [0, 2], asked), other) == []
    (found,) = check(Placed(0, 5, [0, 2], asked | {"tasks": 6}), other)
    assert found.message == (
        "job 'w0!1' starts at 0.000000 s, when its hosts have room for 5 of its 6 tasks"
    )
    assert check(Placed(0, 4, [0, 2], asked | {"tasks": 6}), other) == []


def test_tasks_get_no_more_hosts_than_they_may(write_run: Writer) -> None:
    asked = {"res": 1, "tasks": 5, "per_task": {"cores": 2}}
    found = verification(write_run, [Placed(0, 5, [0, 2], asked)], PLATFORM).violations()
    assert [each.rule for each in found] == ["allocation-size"]


def test_parts_find_different_hosts(check: Check) -> None:
    # A part with GPUs fits on hosts 0 and 2, one with FPGAs on 3.
    parts = [{"res": 2, "per_host": {"gpus": 2}}, {"res": 1, "per_host": {"fpga": 1}}]
    assert check(Placed(0, 5, [0, 2, 3], {"parts": parts})) == []
    assert len(check(Placed(0, 5, [0, 1, 2], {"parts": parts}))) == 1
    beside = each(2, 3, 5, gpus=3)
    (found,) = check(Placed(0, 5, [0, 2, 3], {"parts": parts}), beside)
    assert found.message.endswith("its hosts have no room for all of its parts")
    labelled = [parts[0] | {"hosts_with": ["big"]}, parts[1]]
    assert len(check(Placed(0, 5, [0, 2, 3], {"parts": labelled}))) == 1


def test_parts_are_spread_as_by_trial() -> None:
    fits = np.array([[True, True, False], [True, False, False], [False, False, True]])
    assert _can_be_spread([1, 1, 1], fits)
    assert not _can_be_spread([2, 1, 0], fits)
    assert not _can_be_spread([1, 1, 1], fits & np.array([True, False, True]))


def test_it_takes_the_place_of_exclusive_hosts(write_run: Writer) -> None:
    placed = [each(0, 0, 10, cores=4), each(0, 5, 10, cores=4)]
    found = verification(write_run, placed, PLATFORM)
    names = [rule.name for rule in found.rules]
    assert "host-amounts" in names
    assert "exclusive-hosts" not in names
    assert not any(
        "host" in name for names in found.rules_left_out().values() for name in names[:1]
    )

    # Without the platform, what is missing is said.
    unknown = verification(write_run, placed, platform_of({}, {}, {}, {}))
    assert unknown.rules_left_out()["the workload and the platform"] == ["host-amounts"]


Drawn = list[tuple[int, int, int, int, int, bool]]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=st.lists(
        st.tuples(
            st.integers(0, 7), st.integers(1, 5), st.integers(0, 3), st.integers(0, 3),
            st.integers(0, 2), st.booleans(),
        ),
        min_size=1,
        max_size=7,
    )
)  # fmt: skip
def test_it_agrees_with_a_count_at_each_date(drawn: Drawn, write_run: Writer) -> None:
    platform = platform_of({"cores": 4, "gpus": 2}, {"cores": 3, "gpus": 1})
    placed = []
    for start, run_time, hosts, cores, gpus, exclusive in drawn:
        chosen = [host for host in (0, 1) if hosts >> host & 1] or [0]
        amounts = {"cores": cores + 1, "gpus": gpus}
        fields = {"per_host": amounts, "exclusive": exclusive and gpus == 0}
        placed.append(Placed(float(start), float(run_time), chosen, fields))

    def wrong(date: float, host: int) -> bool:
        there = [
            job.fields
            for job in placed
            if host in job.hosts and job.start <= date < job.start + job.run_time
        ]
        cores = sum(each["per_host"]["cores"] for each in there)
        gpus = sum(each["per_host"]["gpus"] for each in there)
        alone = len(there) == 1 or not any(each["exclusive"] for each in there)
        return cores > (4, 3)[host] or gpus > (2, 1)[host] or not alone

    expected = {host for host in (0, 1) if any(wrong(job.start, host) for job in placed)}
    found = {each.host for each in violations(write_run, placed, platform)}
    assert found <= expected
    assert bool(found) == bool(expected)


@pytest.mark.parametrize("kind", ["cores", "memory", "gpus", "gpus:a100", "fpga", "ansys"])
def test_an_engine_that_overbooks_a_kind_by_one_unit_is_seen(kind: str, tmp_path: Path) -> None:
    """The engine is told that one host has one unit more than it has."""
    has = {"cores": 3, "memory": 3, "gpus": 3, "gpus:a100": 3, "kind:fpga": 3, "licence:ansys": 3}
    prefix = {"fpga": "kind:", "ansys": "licence:"}.get(kind, "")
    more = {name: amount + (name == prefix + kind) for name, amount in has.items()}
    more["gpus"] += kind == "gpus:a100"
    other = {name: amount for name, amount in has.items() if not name.startswith("licence:")}
    asked: dict[str, Any] = {"per_host": {kind: 1}}
    if kind == "ansys":
        asked = {"per_host": {"cores": 1}, "licences": {kind: 1}}
    jobs = [{"run_time": 10 + number} | asked for number in range(9)]

    (workload,) = workload_of(jobs, hosts=2).values()
    done = run("easy", workload, platform=platform_of(more, other), out=tmp_path / "easy")
    assert done.violations == []
    result = replace(done.result, platform=platform_of(has, other))
    found = Verification(result, workloads={"w0": workload}).violations()
    assert {each.rule for each in found} == {"host-amounts"}
