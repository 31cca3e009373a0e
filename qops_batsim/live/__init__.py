"""Live decisions: the same schedulers decide for a real resource manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.live.centre import LiveCentre as LiveCentre
    from qops_batsim.live.journal import Journal as Journal
    from qops_batsim.live.manager import CommandFailed as CommandFailed
    from qops_batsim.live.manager import JobPhase as JobPhase
    from qops_batsim.live.manager import NodeState as NodeState
    from qops_batsim.live.manager import Unreachable as Unreachable
    from qops_batsim.live.queue_source import QueueSource as QueueSource
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "centre": "LiveCentre",
            "journal": "Journal",
            "manager": "CommandFailed JobPhase NodeState Unreachable",
            "queue_source": "QueueSource",
        },
    )
