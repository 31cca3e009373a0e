"""Results of runs: ``results`` (reading them), ``metrics``, ``verify`` and ``plots``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.analysis.metrics.admission import AdmissionMetrics as AdmissionMetrics
    from qops_batsim.analysis.metrics.admission import admission_metrics as admission_metrics
    from qops_batsim.analysis.metrics.charges import charge_jobs as charge_jobs
    from qops_batsim.analysis.metrics.charges import charge_report as charge_report
    from qops_batsim.analysis.metrics.outcomes import JobOutcomes as JobOutcomes
    from qops_batsim.analysis.metrics.run_metrics import (
        BOUNDED_SLOWDOWN_THRESHOLD as BOUNDED_SLOWDOWN_THRESHOLD,
    )
    from qops_batsim.analysis.results.tables import mean as mean
    from qops_batsim.analysis.results.tables import original_id as original_id
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "metrics.admission": "AdmissionMetrics admission_metrics",
            "metrics.charges": "charge_jobs charge_report",
            "metrics.outcomes": "JobOutcomes",
            "metrics.run_metrics": "BOUNDED_SLOWDOWN_THRESHOLD",
            "results.tables": "mean original_id",
        },
    )
