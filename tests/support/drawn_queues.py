"""Parts of queues drawn by hand, as Slurm tells of them."""

from __future__ import annotations

import json
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


# Two nodes of 8 cores and 2 GPUs (minutes from now; jobs use half of their limits):
#
#   n1 |11: 1 core, 2 GPUs, until 60 at most, 25 as drawn |
#   n2 |12: 1 core, 2 GPUs, until 30 at most, 10 as drawn |
#
# Of 16 cores 14 are free, so by processors all that wait start now. 20 asks for a GPU: on n2, when
# 12 ends. 21 asks for 2 of a node: on n1, when 11 ends, as 20 has one of n2. 22 asks for cores.
GPUS = "".join(
    NODE.format(name=name, used=1, gres="gpu:2", partitions="gpu") for name in ("n1", "n2")
)


def gpu_queue(**of_20: Any) -> str:
    running = [runs(60, "n1", job(11, 1, 2)), runs(30, "n2", job(12, 1, 2))]
    waiting = [job(20, 1, 1, 60, **of_20), job(21, 1, 2, 10), job(22, 4, partition="gpu")]
    return json.dumps({"meta": {}, "jobs": [*running, *waiting]})
