"""What is probably not meant in a run that is possible: said before it begins, not refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qops_batsim.platform.model import Platform
from qops_batsim.scheduling.admission.options import FqopsOptions
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.workload.deadlines import too_early
from qops_batsim.workload.model import Workload


def doubts(module: DecisionModule, workload: Workload, platform: Platform) -> Iterator[str]:
    """Yield what a user should know of a scheduler, workload and platform that do not fit well."""
    if module.needs_deadlines:
        yield from _about_deadlines(module, workload)
    speeds = [host.speed for host in platform.compute_hosts]
    name = Path(workload.source).name
    measured = _measured_speed(workload.provenance)
    if measured is not None and not min(speeds) / 2 <= measured <= 2 * max(speeds):
        nearest = min(speeds) if measured < min(speeds) else max(speeds)
        yield (
            f"the CPU times of {name} are of hosts of {measured:g} flop/s, but those of "
            f"the platform compute {nearest:g} flop/s: tasks take {measured / nearest:.3g} times "
            f"as long (`workload classes --speed {nearest:g}` makes them fit)"
        )


def _about_deadlines(module: DecisionModule, workload: Workload) -> Iterator[str]:
    requests = [each for each in workload.columns.requests or () if each is not None]
    if all(each.deadline is None for each in requests):
        yield (
            f"no job of {Path(workload.source).name} has a deadline, so nothing can be promised "
            "(`qops-batsim workload deadlines` gives jobs deadlines)"
        )
        return
    if doubt := too_early(workload, "`workload deadlines --at-least estimate`"):
        yield doubt
    options = module.options
    if isinstance(options, FqopsOptions) and not options.kill_and_restart:
        most = options.tolerance_factor * (2 if options.tolerance == "random" else 1)
        if max([most, *(each.tolerance_factor or 0.0 for each in requests)]) <= 1:
            yield (
                "with these options and jobs fqops is qops: no tolerance factor is above 1, "
                "so that no offer is taken, and kill_and_restart is off (--set tolerance_factor=2)"
            )


def _measured_speed(provenance: Mapping[str, Any]) -> float | None:
    """Return the speed (flop/s) for which `workload classes` made computations, if it did."""
    at: Any = provenance
    while isinstance(at, Mapping):
        speed = at.get("speed")
        if at.get("step") == "classes" and isinstance(speed, (int, float)) and speed > 0:
            return float(speed)
        at = at.get("made_from")
    return None
