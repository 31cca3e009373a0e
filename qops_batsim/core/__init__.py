"""The core of all schedulers: jobs, sets of hosts, plans, profiles of free processors, the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.core.hostset import HostSet as HostSet
    from qops_batsim.core.job import OVER as OVER
    from qops_batsim.core.job import RUNNING as RUNNING
    from qops_batsim.core.job import WAITING as WAITING
    from qops_batsim.core.news import News as News
    from qops_batsim.core.plan import Plan as Plan
    from qops_batsim.core.qos_log import QosLog as QosLog
    from qops_batsim.core.qos_log import format_qos as format_qos
    from qops_batsim.core.scheduler import ResourceManager as ResourceManager
    from qops_batsim.core.system import HostDescription as HostDescription
    from qops_batsim.core.system import System as System
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "hostset": "HostSet",
            "job": "OVER RUNNING WAITING",
            "news": "News",
            "plan": "Plan",
            "qos_log": "QosLog format_qos",
            "scheduler": "ResourceManager",
            "system": "HostDescription System",
        },
    )
