"""The embedded engine: simulates a workload on a platform, as Batsim does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.engine.engine_options import UNAVAILABLE as UNAVAILABLE
    from qops_batsim.engine.engine_options import EngineOptions as EngineOptions
    from qops_batsim.engine.engine_options import ExternalEvent as ExternalEvent
    from qops_batsim.engine.engine_options import events_in_order as events_in_order
    from qops_batsim.engine.engine_options import maintenance_events as maintenance_events
    from qops_batsim.engine.engine_options import read_external_events as read_external_events
    from qops_batsim.engine.outputs import format_jobs as format_jobs
    from qops_batsim.engine.outputs import format_schedule as format_schedule
    from qops_batsim.engine.outputs import write_outputs as write_outputs
    from qops_batsim.engine.records import JobRecord as JobRecord
    from qops_batsim.engine.simulation import Simulation as Simulation
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "engine_options": (
                "EngineOptions ExternalEvent UNAVAILABLE events_in_order maintenance_events "
                "read_external_events"
            ),
            "outputs": "format_jobs format_schedule write_outputs",
            "records": "JobRecord",
            "simulation": "Simulation",
        },
    )
