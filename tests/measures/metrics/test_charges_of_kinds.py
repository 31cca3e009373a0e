"""Charges where jobs share hosts: by dominant shares, or by weights of kinds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from measures.conftest import Ran, Writer, qos_csv
from qops_batsim import InputError, read_run
from qops_batsim.economics.billing import read_weights
from qops_batsim.economics.charges import category_slowdowns
from qops_batsim.measures.metrics.charge_totals import (
    billed_amounts,
    charge_jobs,
    reference_of_run,
    reference_of_workload,
)
from qops_batsim.measures.metrics.outcomes import outcomes_of_run
from qops_batsim.measures.results.run_result import RunResult
from support.shared_hosts import platform_of, workload_of

PLATFORM = platform_of({"cores": 8, "gpus": 2, "licence:ansys": 4}, {"cores": 8})

#   job  asks for                     size  cores, GPUs, licences taken
#    1   2 x 4 cores                    1    8, 0
#    2   1 GPU, 2 licences              1    0, 1, 2
#    3   a whole host (host 0)          1    8, 2
#    4   3 GPUs: refused                3    0, 3
#    5   3 tasks of 2 cores            3/4   6, 0
ASKED = [
    {"res": 2, "run_time": 10, "per_host": {"cores": 4}},
    {"run_time": 20, "per_host": {"gpus": 1}, "licences": {"ansys": 2}},
    {"run_time": 30},
    {"run_time": 40, "per_host": {"gpus": 3}},
    {"res": 2, "run_time": 50, "tasks": 3, "per_task": {"cores": 2}},
]
RAN = [
    Ran("1", 0, 2, 0, 10, [0, 1]),
    Ran("2", 0, 1, 0, 20, [0]),
    Ran("3", 0, 1, 20, 30, [0]),
    Ran("4", 0, 1),
    Ran("5", 0, 2, 50, 50, [0, 1]),
]


@pytest.fixture
def result(write_run: Writer) -> RunResult:
    prefix = write_run(RAN, hosts=2)
    Path(f"{prefix}_qos.csv").write_text(qos_csv(RAN))
    return replace(read_run(prefix), platform=PLATFORM)


WORKLOADS = workload_of(ASKED, hosts=2)


def test_each_job_is_billed_for_what_it_took(result: RunResult) -> None:
    outcomes = outcomes_of_run(result, WORKLOADS)
    weights = read_weights("CPU=1,GRES/gpu=10,License/ansys=100,Node=1000", "sum", where="w")
    billed = billed_amounts(result, WORKLOADS, outcomes, weights)
    assert billed.tolist() == [2008, 1210, 1028, 30, 2006]


def test_weights_take_the_place_of_dominant_shares(result: RunResult) -> None:
    outcomes = outcomes_of_run(result, WORKLOADS)
    references = reference_of_run(result, WORKLOADS)
    table = category_slowdowns(references.values())
    plain = charge_jobs(outcomes, references, table)
    assert [each.charge and each.charge.resource for each in plain] == [10, 20, 30, None, 37.5]
    weights = read_weights("CPU=1,GRES/gpu=10", "max", where="w")
    billed = billed_amounts(result, WORKLOADS, outcomes, weights)
    weighted = charge_jobs(outcomes, references, table, billed=billed)
    assert [each.charge and each.charge.resource for each in weighted] == [80, 200, 600, None, 300]
    # Categories and work are those of the dominant shares.
    assert [each.category for each in weighted] == [each.category for each in plain]
    assert [each.work for each in weighted] == [each.work for each in plain]


def test_references_have_the_same_sizes_whatever_they_are_made_of(result: RunResult) -> None:
    of_run = reference_of_run(result, WORKLOADS)
    times = {name.removeprefix("w0!"): each.response_time for name, each in of_run.items()}
    of_workload = reference_of_workload(WORKLOADS["w0"], times, "w0!", PLATFORM.machine)
    assert of_workload == of_run
    assert of_run["w0!5"].processors == 0.75


def test_weights_need_hosts_with_amounts(result: RunResult) -> None:
    plain = replace(result, platform=None)
    outcomes = outcomes_of_run(plain, WORKLOADS)
    weights = read_weights("CPU=1", "sum", where="w")
    with pytest.raises(InputError, match="billing_weights are for machines whose hosts have"):
        billed_amounts(plain, WORKLOADS, outcomes, weights)


def test_the_platform_of_the_description_is_read_if_hosts_were_shared(
    result: RunResult, tmp_path: Path
) -> None:
    from qops_batsim.platform import write_platform

    file = tmp_path / "machine.xml"
    write_platform(PLATFORM, file)
    told = {"hosts": 2, "platform": str(file)}
    description = tmp_path / "run_run.json"
    for sharing, digest, known in ((True, {}, True), (False, {}, False), (True, {"x": 1}, False)):
        sha256 = {"platform": "0" * 64} if digest else {}
        text = json.dumps(told | {"compute_sharing": sharing, "sha256": sha256})
        description.write_text(text)
        machine = read_run(tmp_path / "run").machine
        assert machine == (PLATFORM.machine if known else None)
    assert read_run(tmp_path / "run", platform=file).machine == PLATFORM.machine
    with pytest.raises(InputError, match="has 2 compute hosts, and the run 3"):
        _ = read_run(tmp_path / "run", platform=file, hosts=3).machine
