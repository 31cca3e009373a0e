"""The schedulers, one file or folder for each algorithm, compiled; and how they are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.schedulers.qops import QopsOptions as QopsOptions
    from qops_batsim.schedulers.registry import scheduler_class as scheduler_class
    from qops_batsim.schedulers.registry import scheduler_names as scheduler_names
    from qops_batsim.schedulers.slack import SlackOptions as SlackOptions
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "qops": "QopsOptions",
            "registry": "scheduler_class scheduler_names",
            "slack": "SlackOptions",
        },
    )
