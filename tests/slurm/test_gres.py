"""Amounts in Slurm's lists of resources, whatever types are called."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.slurm import read_nodes
from qops_batsim.slurm.resources import amount_of, generic_amounts, gpus_of
from qops_batsim.traces import read_partitions

GRES = [
    ("gpu:2080ti:8", 8),
    ("gpu:1080ti:2,gpu:2080ti:1,gpu:3090:3,gpu:980gtx:1", 7),
    ("gpu:4090:4", 4),
    ("gpu:1g.10gb:7", 7),
    ("gpu:1g.5gb+me:1,gpu:3g.40gb:2", 3),
    ("gpu:a100_1g.5gb:7(S:0-1)", 7),
    ("gpu:nvidia_a100-sxm4-40gb:4", 4),
    ("gpu:4", 4),
    ("gpu:8(IDX:0-3,5-7)", 8),
    ("gpu:0", 0),
    ("gpu", 1),
    ("shard:4090:32(S:0),gpu:4090:2(S:0,1),mps:400,nvme:1", 2),
    ("shard:32,mps:2080ti:400", 0),
    ("gpus:3,gpumem:80", 0),
    ("gres/gpu=4", 4),
    ("cpu=8,gres/gpu:2080ti=2,gres/gpu=2,gres/gpumem=80", 2),
    ("(null)", 0),
    ("", 0),
    ("N/A", 0),
]


@pytest.mark.parametrize(("gres", "gpus"), GRES)
def test_gpus_of_a_node(gres: str, gpus: int) -> None:
    assert gpus_of(gres) == gpus


@pytest.mark.parametrize(("gres", "gpus"), [each for each in GRES if "=" not in each[0]])
def test_text_and_tables_of_nodes_tell_the_same(gres: str, gpus: int, tmp_path: Path) -> None:
    listed = tmp_path / "nodes.txt"
    for text in (
        f"NodeName=n1 CPUAlloc=0 CPUTot=64\n   Gres={gres}\n   State=IDLE Partitions=gpu\n",
        f"PARTITION|CPUS|GRES|STATE|NODELIST\ngpu*|64|{gres}|idle|n1\n",
    ):
        listed.write_text(text)
        assert read_nodes(listed)["gpu"] == {"cores": 64, "nodes": 1, "gpus": gpus}


@pytest.mark.parametrize("gres", ["gpu:4090", "gpu:nvidia_a100-sxm", "gpu:2080ti:", "gpu:a100:x"])
def test_what_may_be_a_type_or_a_count_is_refused(gres: str, tmp_path: Path) -> None:
    """In a column of 20 letters, as of sinfo -O Gres, the count may be cut."""
    listed = tmp_path / "nodes.txt"
    listed.write_text(f"PARTITION|CPUS|GRES|NODELIST\ngpu*|64|{gres}|n1\n")
    with pytest.raises(InputError, match=f"nodes.txt: '{gres}' does not tell how many GPUs"):
        read_nodes(listed)


@pytest.mark.parametrize(
    ("tres", "name", "amount"),
    [
        ("cpu=4,gres/gpu:2080ti=2,gres/gpu:1g.10gb=1", "gres/gpu", 3),
        ("gres/gpu:2080ti=2,gres/gpu=2,gres/shard=9", "gres/gpu", 2),
        ("cpu=4,mem=4G,node=1,billing=4", "cpu", 4),
        ("mem=4G", "mem", math.nan),
        ("gres/gpumem=80", "gres/gpu", math.nan),
    ],
)
def test_amounts_of_tres(tres: str, name: str, amount: float) -> None:
    assert amount_of(tres, name) == pytest.approx(amount, nan_ok=True)


def test_jobs_of_types_that_begin_with_a_digit_are_read(tmp_path: Path) -> None:
    """Two jobs of 2 GPUs each at once, also where a MIG profile has a plus: 4 GPUs in use."""
    head = "JobID|Partition|State|Submit|Start|End|AllocCPUS|AllocTRES|Comment|Timelimit\n"
    row = "{}|gpu|COMPLETED|2026-05-02T08:00:00|2026-05-02T08:00:00|2026-05-02T09:00:00|8|{}|c|60\n"
    jobs = tmp_path / "jobs.txt"
    types = ("cpu=8,gres/gpu:2080ti=2,gres/gpu=2", "cpu=8,gres/gpu:1g.5gb+me=2")
    jobs.write_text(head + "".join(row.format(at, each) for at, each in enumerate(types, 1)))
    (trace,) = read_partitions(jobs, by="gpus")[0].values()
    assert trace.workload.processors == 4


@pytest.mark.parametrize(
    ("gres", "amounts"),
    [
        # A name alone is one of it, as for the sizes of partitions.
        ("gpu", {"gpus": 1}),
        ("gpu:8,gpu:4090:2", {"gpus": 10, "gpus:4090": 2}),
        ("gres/gpu=2,gres/gpu:a100=2", {"gpus": 2, "gpus:a100": 2}),
        # What a site calls gpus is none of Slurm's GPUs.
        ("gpus:3,nvme:1", {"nvme": 1}),
    ],
)
def test_generic_amounts_of_a_node(gres: str, amounts: dict[str, int]) -> None:
    assert generic_amounts(gres) == amounts
    assert gpus_of(gres) == amounts.get("gpus", 0)
