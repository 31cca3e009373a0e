"""Measures by kind, and the dominant share in place of processors, where jobs share hosts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from measures.conftest import Ran, Writer
from qops_batsim import read_run
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.measures.metrics.measures import Measures, run_measures
from qops_batsim.measures.metrics.outcomes import outcomes_with_deadlines
from qops_batsim.measures.results.host_amounts import requests_of_run, sizes_of
from qops_batsim.measures.results.run_result import RunResult
from qops_batsim.workload import Workload
from support.shared_hosts import platform_of, workload_of

PLATFORM = platform_of({"cores": 8, "gpus": 2, "memory": "16GB"}, {"cores": 8, "memory": "16GB"})

#  Two hosts, 16 cores, 2 GPUs, 32 GB; shares of the machine:
#  job  asks for              hosts  cores  gpus  memory   size     waits     runs
#   1   2 x 4 cores           0, 1    1/2     0      0      1       0 -  0     0 - 10
#   2   1 GPU, 1 core         0      1/16   1/2      0      1       0 -  0     0 -  5
#   3   2 GPUs, 12 GB         0        0      1     3/8     2       0 -  5     5 - 15
#   4   a whole host          1       1/2   (1/2)   1/2     1       2 - 10    10 - 20
#   5   3 tasks of 4 cores    0, 1    3/4     0      0     1.5      2 - 20    20 - 30
ASKED: list[dict[str, Any]] = [
    {"res": 2, "run_time": 10, "per_host": {"cores": 4}},
    {"run_time": 5, "per_host": {"gpus": 1, "cores": 1}},
    {"run_time": 10, "per_host": {"gpus": 2, "memory": 12e9}},
    {"run_time": 10, "subtime": 2},
    {"res": 2, "run_time": 10, "subtime": 2, "tasks": 3, "per_task": {"cores": 4}},
]
RAN = [
    Ran("1", 0, 2, 0, 10, [0, 1]),
    Ran("2", 0, 1, 0, 5, [0]),
    Ran("3", 0, 1, 5, 10, [0]),
    Ran("4", 2, 1, 10, 10, [1]),
    Ran("5", 2, 2, 20, 10, [0, 1]),
]


@pytest.fixture
def known(write_run: Writer) -> tuple[RunResult, dict[str, Workload]]:
    result = replace(read_run(write_run(RAN, hosts=2)), platform=PLATFORM)
    return result, workload_of(ASKED, hosts=2)


def test_sizes_are_dominant_shares_in_hosts(
    known: tuple[RunResult, dict[str, Workload]],
) -> None:
    result, workloads = known
    requests = requests_of_run(result, workloads)
    assert requests is not None
    assert requests.sizes.tolist() == [1.0, 1.0, 2.0, 1.0, 1.5]
    kinds = [requests.machine.kinds[each] if each >= 0 else "" for each in requests.scarcest]
    assert kinds == ["cores", "gpus", "gpus", "", "cores"]
    assert sizes_of(workloads["w0"], PLATFORM.machine).tolist() == requests.sizes.tolist()
    assert sizes_of(workloads["w0"], None).tolist() == [2.0, 1.0, 1.0, 1.0, 2.0]

    # Schedulers have the same.
    layout = NodeLayout(requests.machine)
    jobs = workloads["w0"].jobs
    of_schedulers = [layout.request(job.hosts_asked, job.processors).size for job in jobs]
    assert of_schedulers == requests.sizes.tolist()


def test_utilization_is_that_of_dominant_shares(
    known: tuple[RunResult, dict[str, Workload]],
) -> None:
    found = run_measures(*known)
    # Sizes x run times: 10 + 5 + 20 + 10 + 15 of 2 hosts x 30 s.
    assert found.utilization == pytest.approx(60 / 60)
    # Sums of sizes: 2 until 5, 3 until 10 and until 15, then 1 until 20, while job 5 waits.
    assert found.loss_of_capacity == pytest.approx(5 / 60)


def test_each_kind_has_its_use_and_its_queue(
    known: tuple[RunResult, dict[str, Workload]],
) -> None:
    found = {each.kind: each for each in run_measures(*known).kinds}
    assert list(found) == ["cores", "memory", "gpus"]
    cores, memory, gpus = found["cores"], found["memory"], found["gpus"]
    assert (cores.amount, memory.amount, gpus.amount) == (16, 32 * 10**9, 2)

    # Host 1, which job 4 takes whole, has 8 cores, 16 GB and no GPU.
    assert cores.utilization == pytest.approx((80 + 5 + 80 + 120) / (16 * 30))
    assert memory.utilization == pytest.approx((120 + 160) / (32 * 30))
    assert gpus.utilization == pytest.approx((5 + 20) / (2 * 30))

    # Cores are asked for by waiting jobs from 2 to 20; 7 idle until 5, 8 until 20.
    assert cores.loss_of_capacity == pytest.approx((3 * 7 + 15 * 8) / (16 * 30))
    # GPUs by job 3 until 5, and by job 4, as a whole host may have one, from 2 to 10.
    assert gpus.loss_of_capacity == pytest.approx(5 / (2 * 30))
    assert cores.queue_length == pytest.approx((8 + 18) / 30)
    assert cores.waiting == pytest.approx((8 * 8 + 18 * 12) / (16 * 30))
    assert gpus.waiting == pytest.approx((5 * 2 + 8 * 1) / (2 * 30))
    assert (cores.jobs, cores.scarcest, gpus.jobs, gpus.scarcest) == (4, 2, 3, 2)
    assert memory.scarcest == 0


def test_work_and_processors_of_outcomes_are_dominant_shares(
    known: tuple[RunResult, dict[str, Workload]],
) -> None:
    outcomes = outcomes_with_deadlines(*known)
    assert outcomes.processors.tolist() == [1.0, 1.0, 2.0, 1.0, 1.5]


def test_hosts_without_amounts_have_no_kinds(
    known: tuple[RunResult, dict[str, Workload]], write_run: Writer
) -> None:
    result, workloads = known
    for other in (read_run(write_run(RAN, hosts=2)), result):
        values = run_measures(other, workloads if other is not result else {})
        assert values.kinds is msgspec.UNSET
        assert "kinds" not in msgspec.to_builtins(values)
        # Hosts count: both are busy until 15, one until 20, both until 30.
        assert values.utilization == pytest.approx(55 / 60)


def test_a_later_run_asks_for_what_the_first_did(write_run: Writer) -> None:
    runs = [Ran("3", 0, 1, 0, 4, [0], state="COMPLETED_KILLED"), Ran("3#1", 0, 1, 6, 10, [0])]
    asked = [ASKED[2] | {"id": "3"}]
    result = replace(read_run(write_run(runs, hosts=2)), platform=PLATFORM)
    requests = requests_of_run(result, workload_of(asked, hosts=2))
    assert requests is not None
    assert requests.sizes.tolist() == [2.0, 2.0]
    gpus = requests.machine.kinds.index("gpus")
    assert requests.waiting(gpus).integral(0, 20) == 2 * 2
    assert requests.used(gpus).integral(0, 20) == 2 * 14


def test_a_request_in_parts_is_the_sum_of_its_parts(write_run: Writer) -> None:
    parts = [{"res": 1, "per_host": {"gpus": 1}}, {"res": 1, "exclusive": True}]
    asked = [{"res": 2, "run_time": 10, "parts": parts}]
    result = replace(read_run(write_run([Ran("1", 0, 2, 0, 10, [0, 1])], hosts=2)))
    result = replace(result, platform=PLATFORM)
    requests = requests_of_run(result, workload_of(asked, hosts=2))
    assert requests is not None
    # Half of the GPUs are one host, and so is the other part.
    assert requests.sizes.tolist() == [2.0]
    assert math.isclose(requests.taken[0].sum(), np.dot([8, 16e9, 2], [1, 1, 1]))
    stays = result.stays()
    assert np.allclose(requests.on_host(stays).sum(axis=0), requests.taken[0])


def test_measures_are_read_back(known: tuple[RunResult, dict[str, Workload]]) -> None:
    found = run_measures(*known)
    text = msgspec.json.encode(found)
    again: Measures = msgspec.json.decode(text, type=Measures)
    assert again.kinds == found.kinds
