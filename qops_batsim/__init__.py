"""Deadline and quality-of-service batch scheduling for Batsim workloads.

What users call and subclass stands here; ``dir(qops_batsim)`` lists it:

>>> from qops_batsim import run
>>> run("easy", "tiny_8", out="out/tiny")
<Run out/tiny: easy on tiny_8, 8 jobs on 4 hosts, verified>

Behind it are rooms: ``platform`` (machines), ``workload`` (logs, generators, everything
about jobs before a simulation), ``protocol`` (what an engine and a scheduler say to each
other), ``economics`` (categories, charges), ``scheduling`` (the decision modules), ``engine``
(the embedded simulator), ``analysis`` (metrics, verification, pictures), ``running`` (putting
them together), ``experiments`` (many runs), ``advice`` (quotes, explanations, prices),
``papers``, ``adapters`` and ``cli``.

Nothing heavy is imported here: the names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qops_batsim.version import __version__

if TYPE_CHECKING:
    from qops_batsim.advice.advise import advise
    from qops_batsim.advice.explain import explain
    from qops_batsim.advice.quote import quote
    from qops_batsim.analysis.metrics.run_metrics import metrics
    from qops_batsim.analysis.plots.gantt import gantt
    from qops_batsim.analysis.results.run import read_run
    from qops_batsim.analysis.verify.verifier import verify
    from qops_batsim.experiments.compare import compare
    from qops_batsim.jobs import Job, QosRequest
    from qops_batsim.platform import read_platform
    from qops_batsim.running.contract import check_scheduler
    from qops_batsim.running.run import run, run_again
    from qops_batsim.running.simulate import simulate
    from qops_batsim.scheduling.admission.own import DeadlineScheduler
    from qops_batsim.scheduling.availability import AvailabilityProfile
    from qops_batsim.scheduling.easy import Easy
    from qops_batsim.scheduling.engine_needs import EngineNeeds
    from qops_batsim.scheduling.module import DecisionModule, SchedulerOptions
    from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler
    from qops_batsim.workload import read_workload
    from qops_batsim.workload.swf import read_swf

__all__ = [
    "AvailabilityProfile",
    "DeadlineScheduler",
    "DecisionModule",
    "Easy",
    "EngineNeeds",
    "Job",
    "QosRequest",
    "SchedulerOptions",
    "SpaceSharingScheduler",
    "__version__",
    "advise",
    "check_scheduler",
    "compare",
    "explain",
    "gantt",
    "metrics",
    "quote",
    "read_platform",
    "read_run",
    "read_swf",
    "read_workload",
    "run",
    "run_again",
    "simulate",
    "verify",
]

_WHERE = {
    "AvailabilityProfile": "scheduling.availability",
    "DeadlineScheduler": "scheduling.admission.own",
    "DecisionModule": "scheduling.module",
    "Easy": "scheduling.easy",
    "EngineNeeds": "scheduling.engine_needs",
    "Job": "jobs",
    "QosRequest": "jobs",
    "SchedulerOptions": "scheduling.module",
    "SpaceSharingScheduler": "scheduling.space_sharing",
    "advise": "advice.advise",
    "check_scheduler": "running.contract",
    "compare": "experiments.compare",
    "explain": "advice.explain",
    "gantt": "analysis.plots.gantt",
    "metrics": "analysis.metrics.run_metrics",
    "quote": "advice.quote",
    "read_platform": "platform",
    "read_run": "analysis.results.run",
    "read_swf": "workload.swf",
    "read_workload": "workload",
    "run": "running.run",
    "run_again": "running.run",
    "simulate": "running.simulate",
    "verify": "analysis.verify.verifier",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
