"""Live decisions: the same schedulers decide for a real resource manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.live.centre import LIVE as LIVE
    from qops_batsim.live.centre import SHADOW as SHADOW
    from qops_batsim.live.centre import LiveCentre as LiveCentre
    from qops_batsim.live.fates import counts as counts
    from qops_batsim.live.fates import decided_fates as decided_fates
    from qops_batsim.live.journal import About as About
    from qops_batsim.live.journal import JobRun as JobRun
    from qops_batsim.live.journal import Journal as Journal
    from qops_batsim.live.journal_report import report as report
    from qops_batsim.live.manager import CentreManager as CentreManager
    from qops_batsim.live.manager import CommandFailed as CommandFailed
    from qops_batsim.live.manager import JobPhase as JobPhase
    from qops_batsim.live.manager import NodeState as NodeState
    from qops_batsim.live.manager import SeenJob as SeenJob
    from qops_batsim.live.manager import Unreachable as Unreachable
    from qops_batsim.live.shadow import ShadowManager as ShadowManager
    from qops_batsim.live.slurm_manager import SlurmManager as SlurmManager
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "centre": "LIVE LiveCentre SHADOW",
            "fates": "counts decided_fates",
            "journal": "About JobRun Journal",
            "journal_report": "report",
            "manager": "CentreManager CommandFailed JobPhase NodeState SeenJob Unreachable",
            "shadow": "ShadowManager",
            "slurm_manager": "SlurmManager",
        },
    )
