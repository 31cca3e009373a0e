"""Deadline and quality-of-service batch scheduling for Batsim workloads.

The package is organised in rooms: ``jobs`` and ``platform`` (what is scheduled
and where), ``workload`` (logs and generators), ``protocol`` (what an engine and
a scheduler say to each other), ``scheduling`` (the decision modules),
``engine`` (the embedded simulator), ``analysis`` (metrics, verification,
pictures), ``running`` (putting them together), ``experiments`` (many runs), ``advice``
(quotes, explanations, prices), ``papers`` and ``cli``.

Nothing heavy is imported here: names below are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qops_batsim.version import __version__

if TYPE_CHECKING:
    from qops_batsim.platform import read_platform
    from qops_batsim.running.contract import check_scheduler
    from qops_batsim.running.simulate import simulate
    from qops_batsim.scheduling.module import DecisionModule
    from qops_batsim.workload import read_workload

__all__ = [
    "DecisionModule",
    "__version__",
    "check_scheduler",
    "read_platform",
    "read_workload",
    "simulate",
]

_WHERE = {
    "DecisionModule": "qops_batsim.scheduling.module",
    "check_scheduler": "qops_batsim.running.contract",
    "read_platform": "qops_batsim.platform",
    "read_workload": "qops_batsim.workload",
    "simulate": "qops_batsim.running.simulate",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
