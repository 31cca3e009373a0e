"""Results of runs: ``results`` (reading them), ``metrics``, ``verify`` and ``plots``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.measures.metrics.charge_totals import charge_jobs as charge_jobs
    from qops_batsim.measures.metrics.charge_totals import charge_report as charge_report
    from qops_batsim.measures.metrics.measured import (
        BOUNDED_SLOWDOWN_THRESHOLD as BOUNDED_SLOWDOWN_THRESHOLD,
    )
    from qops_batsim.measures.metrics.measures import Measures as Measures
    from qops_batsim.measures.metrics.measures import measure_names as measure_names
    from qops_batsim.measures.metrics.measures import run_measures as run_measures
    from qops_batsim.measures.metrics.measures import study_measures as study_measures
    from qops_batsim.measures.metrics.outcomes import JobOutcomes as JobOutcomes
    from qops_batsim.measures.metrics.outcomes import fates as fates
    from qops_batsim.measures.metrics.outcomes import outcomes_of_run as outcomes_of_run
    from qops_batsim.measures.metrics.outcomes import (
        outcomes_of_simulation as outcomes_of_simulation,
    )
    from qops_batsim.measures.plots.drawing import COLORS as COLORS
    from qops_batsim.measures.plots.drawing import MARKERS as MARKERS
    from qops_batsim.measures.plots.drawing import picture as picture
    from qops_batsim.measures.plots.gantt import to_jobset as to_jobset
    from qops_batsim.measures.results.difference import compare_runs as compare_runs
    from qops_batsim.measures.results.result_tables import mean as mean
    from qops_batsim.measures.results.result_tables import original_id as original_id
    from qops_batsim.measures.results.run_files import find_run as find_run
    from qops_batsim.measures.results.series import busy_hosts as busy_hosts
    from qops_batsim.measures.verify.outcome_rules import broken_rule as broken_rule
    from qops_batsim.measures.verify.verifier import Verification as Verification
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "metrics.charge_totals": "charge_jobs charge_report",
            "metrics.measured": "BOUNDED_SLOWDOWN_THRESHOLD",
            "metrics.measures": "Measures measure_names run_measures study_measures",
            "metrics.outcomes": "JobOutcomes fates outcomes_of_run outcomes_of_simulation",
            "plots.drawing": "COLORS MARKERS picture",
            "plots.gantt": "to_jobset",
            "results.difference": "compare_runs",
            "results.result_tables": "mean original_id",
            "results.run_files": "find_run",
            "results.series": "busy_hosts",
            "verify.outcome_rules": "broken_rule",
            "verify.verifier": "Verification",
        },
    )
