"""The schedulers, one file or folder for each algorithm, compiled; and how they are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.schedulers.registry import scheduler_names as scheduler_names
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "registry": "scheduler_names",
        },
    )
