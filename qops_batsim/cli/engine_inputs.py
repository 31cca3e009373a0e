"""What the command lines of all versions of Batsim share: inputs, and last words."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qops_batsim.errors import InputError, shown

if TYPE_CHECKING:
    from qops_batsim.engine.simulation import Simulation
    from qops_batsim.platform.platform_model import Platform
    from qops_batsim.workload.workload_model import Workload


def read_inputs(
    platform: str,
    workloads: Sequence[str],
    master: str,
    read_workload: Callable[[str], Workload],
    *,
    master_option: str | None,
) -> tuple[Platform, list[Workload]]:
    """Read platform and workloads, each given by a file or the name of a shipped one.

    If the platform has no host named ``master``, an InputError names ``master_option``; if that
    is None, a missing master is accepted.
    """
    from qops_batsim.platform.simgrid_read import read_platform
    from qops_batsim.shipped import resolve_path

    machine = read_platform(resolve_path(platform, "platforms"), master_host=master)
    if machine.master is None and master_option is not None:
        raise InputError(
            f"{machine.source}: there is no host {shown(master)}; {master_option} expects the name "
            "of a host of the platform"
        )
    # Absolute, because decision processes are told these names.
    shipped = [resolve_path(file, "workloads") for file in workloads]
    return machine, [read_workload(os.path.join(os.getcwd(), file)) for file in shipped]


def hosts_to_use(mmax: int, workloads: Iterable[Workload]) -> int | None:
    """Return the number of hosts by ``--mmax`` (0: all), and as many as the workloads are for."""
    limits = (mmax, max((workload.processors for workload in workloads), default=0))
    return min(filter(None, limits), default=None)


def say_end(simulation: Simulation, paths: Sequence[Path]) -> None:
    """Tell on stderr what was simulated and written, where Batsim tells such things."""
    sys.stderr.write(
        f"simulated {len(simulation.ended):,} jobs until {simulation.now:.6f} s\n"
        f"wrote {', '.join(map(str, paths))}\n"
    )
