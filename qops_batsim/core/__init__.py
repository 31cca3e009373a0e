"""The core of all schedulers: jobs, sets of hosts, plans, profiles of free processors, the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.core.hostset import HostSet as HostSet
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "hostset": "HostSet",
        },
    )
