"""What stands in the way of the end of a simulation when nothing will happen any more."""

from __future__ import annotations

from qops_batsim.engine.world import World
from qops_batsim.jobs import RUNNING, SUBMITTED

_TROUBLE = {
    SUBMITTED: "{} jobs were submitted and neither started nor rejected, "
    "and nothing else will happen",
    RUNNING: "jobs run that will never end",
}


def left_over(world: World) -> str:
    """Say what is left that nothing will ever do, if anything is. O(jobs)."""
    for state, trouble in _TROUBLE.items():
        left = [each.job.id for each in world.records.values() if each.state == state]
        if left:
            more = f" and {len(left) - 5} more" if len(left) > 5 else ""
            return f"{trouble.format(len(left))}: {', '.join(left[:5])}{more}"
    if world.registering:
        return "dynamic jobs are enabled and the module never sent NOTIFY registration_finished"
    return ""
