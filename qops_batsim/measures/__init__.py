"""Results of runs: ``results`` (reading them), ``metrics``, ``verify`` and ``plots``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.measures.metrics.charge_totals import charge_jobs as charge_jobs
    from qops_batsim.measures.metrics.charge_totals import charge_report as charge_report
    from qops_batsim.measures.metrics.measures import Measures as Measures
    from qops_batsim.measures.metrics.measures import measure_names as measure_names
    from qops_batsim.measures.metrics.measures import study_measures as study_measures
    from qops_batsim.measures.metrics.outcomes import JobOutcomes as JobOutcomes
    from qops_batsim.measures.metrics.outcomes import fates as fates
    from qops_batsim.measures.metrics.outcomes import (
        outcomes_of_simulation as outcomes_of_simulation,
    )
    from qops_batsim.measures.plots.drawing import COLORS as COLORS
    from qops_batsim.measures.plots.drawing import MARKERS as MARKERS
    from qops_batsim.measures.plots.drawing import picture as picture
    from qops_batsim.measures.plots.gantt import to_jobset as to_jobset
    from qops_batsim.measures.results.result_tables import mean as mean
    from qops_batsim.measures.results.result_tables import original_id as original_id
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "metrics.charge_totals": "charge_jobs charge_report",
            "metrics.outcomes": "JobOutcomes fates outcomes_of_simulation",
            "metrics.measured": "BOUNDED_SLOWDOWN_THRESHOLD",
            "metrics.measures": "Measures measure_names study_measures",
            "plots.drawing": "COLORS MARKERS picture",
            "plots.gantt": "to_jobset",
            "results.result_tables": "mean original_id",
        },
    )
