"""The Batsim protocol: typed events and decisions, their JSON, and the port for schedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.protocol.port import SchedulerModule as SchedulerModule
    from qops_batsim.protocol.port import make_scheduler as make_scheduler
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "port": "SchedulerModule make_scheduler",
        },
    )
