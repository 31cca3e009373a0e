"""Parts of queues drawn by hand, as Slurm tells of them."""

from __future__ import annotations

from typing import Any

from support.node_queues import NOW

NODE = """NodeName={name} CoresPerSocket=8
   CPUAlloc={used} CPUTot=8
   Gres={gres}
   RealMemory=16000 AllocMem=2000
   State=MIXED Weight=1
   Partitions={partitions}
"""


def job(number: int, cores: int, gpus: int = 0, minutes: int = 30, **more: Any) -> dict[str, Any]:
    """Return a waiting job as squeue tells of it."""
    return {
        "job_id": number,
        "job_state": "PENDING",
        "cpus": cores,
        "node_count": 1,
        "time_limit": minutes,
        "partition": "gpu" if gpus else "cpu",
        "state_reason": "Priority",
        "priority": 1000 - number,
        "memory_per_node": 1000,
        "tasks": 1,
        "tres_req_str": f"cpu={cores},mem=1000M,node=1",
        "tres_per_node": f"gres:gpu:{gpus}" if gpus else "",
        **more,
    }


def runs(left: int, node: str, told: dict[str, Any]) -> dict[str, Any]:
    """Return the job as it runs on a node for so many more minutes."""
    gres = told["tres_per_node"].removeprefix("gres:")
    return told | {
        "job_state": "RUNNING",
        "start_time": NOW - 600,
        "end_time": NOW + 60 * left,
        "nodes": node,
        "tres_alloc_str": told["tres_req_str"],
        "gres_detail": [f"{gres}(IDX:0)"] if gres else [],
    }
