"""Machines whose hosts have amounts, and workloads for them, in few words."""

from __future__ import annotations

import json
from typing import Any

from qops_batsim.platform import Host, Platform
from qops_batsim.workload import Workload, parse_workload


def platform_of(*hosts: dict[str, object]) -> Platform:
    """Compute hosts with these properties, named in the order of their ids."""
    return Platform(
        compute_hosts=tuple(
            Host(
                name=f"h{number:03}",
                speeds=(1e9,),
                properties={name: str(value) for name, value in properties.items()},
            )
            for number, properties in enumerate(hosts)
        ),
        master=Host(name="master_host", speeds=(1e9,), role="master"),
    )


def workload_of(jobs: list[dict[str, Any]], hosts: int = 4) -> dict[str, Workload]:
    """Delay jobs, each ``run_time`` s long, with what stands in their other fields."""
    written = []
    for number, job in enumerate(jobs, 1):
        fields = {key: value for key, value in job.items() if key != "run_time"}
        profile = f"d{job['run_time']:g}"
        written.append({"id": str(number), "subtime": 0, "res": 1, "profile": profile} | fields)
    profiles = {
        f"d{job['run_time']:g}": {"type": "delay", "delay": job["run_time"]} for job in jobs
    }
    text = json.dumps({"nb_res": hosts, "jobs": written, "profiles": profiles})
    return {"w0": parse_workload(text, source="shared.json")}
