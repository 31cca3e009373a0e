"""Runs: engine and scheduler together, simulated, verified and written; the real Batsim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.running.history import DecisionHistory as DecisionHistory
    from qops_batsim.running.history import read_history as read_history
    from qops_batsim.running.plan_asker import PlanAsker as PlanAsker
    from qops_batsim.running.reference import easy_references as easy_references
    from qops_batsim.running.run import Run as Run
    from qops_batsim.running.simulate import default_engine as default_engine
    from qops_batsim.running.simulate import write_run as write_run
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "history": "DecisionHistory read_history",
            "plan_asker": "PlanAsker",
            "reference": "easy_references",
            "run": "Run",
            "simulate": "default_engine write_run",
        },
    )
