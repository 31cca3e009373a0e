"""Compiling the kernels of plans before the first message."""

from __future__ import annotations

from qops_batsim.jobs import Job, QosRequest
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.plan import Plan


def warm_up(plan: Plan) -> None:
    """Compile the kernels of an empty plan of one processor: each of them works once."""
    for index, deadline in enumerate((10.0, 60.0, 40.0, 30.0)):
        qos = QosRequest(deadline=deadline, estimated_runtime=10.0)
        plan.arrived(Job(f"warm-up!{index}", 0.0, 1, "none", qos=qos))
    plan.decide(0.0, HostSet.first(1))
    plan.left("warm-up!0")
    plan.decide(5.0, HostSet.first(1))
    plan.decide(30.0, HostSet())
