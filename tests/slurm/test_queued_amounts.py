"""What records of squeue say of amounts."""

from __future__ import annotations

from typing import Any

from qops_batsim.slurm.queued_amounts import read_amounts

RECORD: dict[str, Any] = {"tres_req_str": "cpu=4,mem=2G,node=1", "cpus": 4, "node_count": 1}


def test_licences_of_a_server_keep_their_number() -> None:
    """``ansys@server:2`` are two, as ``ansys:2`` are; a name alone is one."""
    record = RECORD | {"licenses": "matlab:1,ansys@server:2,idl"}
    assert read_amounts(record, "job 1", runs=False).licences == {"matlab": 1, "ansys": 2, "idl": 1}


def test_shards_are_not_modelled_but_licences_so_named_are_no_shards() -> None:
    shards = read_amounts(RECORD | {"tres_per_node": "gres:shard:2"}, "job 1", runs=False)
    assert shards.unmodelled == ("shards of GPUs",)
    named = read_amounts(RECORD | {"tres_req_str": "cpu=4,license/shard=1"}, "job 1", runs=False)
    assert named.unmodelled == ()
