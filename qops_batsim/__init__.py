"""Deadline and quality-of-service batch scheduling for Batsim workloads.

What users call and subclass stands here; ``dir(qops_batsim)`` lists it:

>>> from qops_batsim import run
>>> run("easy", "tiny_8", out="out/tiny")
<Run out/tiny: easy on tiny_8, 8 jobs on 4 hosts, verified>

Behind it are rooms: ``core`` and ``schedulers`` (who starts which job when), ``platform``
(machines), ``economics`` (categories, charges), ``protocol`` (what an engine and a scheduler say to
each other), ``workload`` (everything about jobs before a simulation), ``slurm`` (what Slurm
prints), ``traces`` (any log), ``engine`` (the embedded simulator), ``measures`` (metrics,
verification, pictures), ``running`` (putting them together), ``experiments`` (many runs), ``queue``
(a queue as it is), ``advice`` (explanations, prices), ``live``, ``adapters`` and ``cli``; what they
offer to studies is in their ``__all__``.

Nothing heavy is imported here: the names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.compiled import is_compiled as is_compiled
from qops_batsim.compiled import use_compiled
from qops_batsim.lazy import lazy_names
from qops_batsim.version import __version__ as __version__

use_compiled()

if TYPE_CHECKING:
    from qops_batsim.advice.advise import advise as advise
    from qops_batsim.advice.explain import explain as explain
    from qops_batsim.advice.quote import quote as quote
    from qops_batsim.core.availability import AvailabilityProfile as AvailabilityProfile
    from qops_batsim.core.needs import EngineNeeds as EngineNeeds
    from qops_batsim.core.options import SchedulerOptions as SchedulerOptions
    from qops_batsim.core.scheduler import Scheduler as Scheduler
    from qops_batsim.errors import InputError as InputError
    from qops_batsim.errors import QopsError as QopsError
    from qops_batsim.experiments.compare import compare as compare
    from qops_batsim.jobs import Job as Job
    from qops_batsim.jobs import QosRequest as QosRequest
    from qops_batsim.measures.metrics.measures import metrics as metrics
    from qops_batsim.measures.plots.gantt import gantt as gantt
    from qops_batsim.measures.results.run_result import read_run as read_run
    from qops_batsim.measures.verify.verifier import verify as verify
    from qops_batsim.platform import read_platform as read_platform
    from qops_batsim.running.contract import check_scheduler as check_scheduler
    from qops_batsim.running.run import run as run
    from qops_batsim.running.run import run_again as run_again
    from qops_batsim.running.simulate import simulate as simulate
    from qops_batsim.schedulers.aroma.aroma_scheduler import Aroma as Aroma
    from qops_batsim.schedulers.conservative import Conservative as Conservative
    from qops_batsim.schedulers.deadline import DeadlineScheduler as DeadlineScheduler
    from qops_batsim.schedulers.easy import Easy as Easy
    from qops_batsim.schedulers.fcfs import Fcfs as Fcfs
    from qops_batsim.schedulers.fqops import Fqops as Fqops
    from qops_batsim.schedulers.mrt import Mrt as Mrt
    from qops_batsim.schedulers.msb import Msb as Msb
    from qops_batsim.schedulers.nqs import Nqs as Nqs
    from qops_batsim.schedulers.priced_queues import PricedQueues as PricedQueues
    from qops_batsim.schedulers.qops import Qops as Qops
    from qops_batsim.schedulers.queue_scheduler import QueueScheduler as QueueScheduler
    from qops_batsim.schedulers.slack import Slack as Slack
    from qops_batsim.schedulers.slurm.slurm_scheduler import Slurm as Slurm
    from qops_batsim.workload import read_workload as read_workload
    from qops_batsim.workload.swf import read_swf as read_swf

else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "advice.advise": "advise",
            "advice.explain": "explain",
            "advice.quote": "quote",
            "measures.metrics.measures": "metrics",
            "measures.plots.gantt": "gantt",
            "measures.results.run_result": "read_run",
            "measures.verify.verifier": "verify",
            "compiled": "is_compiled",
            "core.needs": "EngineNeeds",
            "core.options": "SchedulerOptions",
            "core.scheduler": "Scheduler",
            "errors": "InputError QopsError",
            "experiments.compare": "compare",
            "jobs": "Job QosRequest",
            "platform": "read_platform",
            "running.contract": "check_scheduler",
            "running.run": "run run_again",
            "running.simulate": "simulate",
            "schedulers.deadline": "DeadlineScheduler",
            "core.availability": "AvailabilityProfile",
            "schedulers.easy": "Easy",
            "schedulers.queue_scheduler": "QueueScheduler",
            "schedulers.fcfs": "Fcfs",
            "schedulers.conservative": "Conservative",
            "schedulers.qops": "Qops",
            "schedulers.fqops": "Fqops",
            "schedulers.msb": "Msb",
            "schedulers.mrt": "Mrt",
            "schedulers.slack": "Slack",
            "schedulers.nqs": "Nqs",
            "schedulers.priced_queues": "PricedQueues",
            "schedulers.slurm.slurm_scheduler": "Slurm",
            "schedulers.aroma.aroma_scheduler": "Aroma",
            "version": "__version__",
            "workload": "read_workload",
            "workload.swf": "read_swf",
        },
    )
