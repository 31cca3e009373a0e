"""Between engines and schedulers: registry, messages, late news, refusals, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.scheduling.port import SchedulerModule as SchedulerModule
    from qops_batsim.scheduling.registry import make_scheduler as make_scheduler
    from qops_batsim.scheduling.registry import scheduler_names as scheduler_names
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "port": "SchedulerModule",
            "registry": "make_scheduler scheduler_names",
        },
    )
