"""Workloads: reading, writing, making and changing them.

Every function raises :class:`~qops_batsim.errors.InputError` for a file that it cannot read
or write (naming file, line or field) and for a parameter out of range, a job or a profile
that it has no use for (naming it, its value and what is accepted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.jobs import QOS_CLASSES as QOS_CLASSES
    from qops_batsim.workload.batsim_json import format_workload as format_workload
    from qops_batsim.workload.batsim_json import parse_workload as parse_workload
    from qops_batsim.workload.batsim_json import read_workload as read_workload
    from qops_batsim.workload.batsim_json import write_workload as write_workload
    from qops_batsim.workload.conversion import Conversion as Conversion
    from qops_batsim.workload.conversion import Repairs as Repairs
    from qops_batsim.workload.conversion import convert_log as convert_log
    from qops_batsim.workload.deadlines import DAY as DAY
    from qops_batsim.workload.deadlines import DeadlineChoices as DeadlineChoices
    from qops_batsim.workload.delay_jobs import exact_estimates as exact_estimates
    from qops_batsim.workload.delay_jobs import run_times as run_times
    from qops_batsim.workload.delay_jobs import run_times_until_killed as run_times_until_killed
    from qops_batsim.workload.estimates import EstimateChoices as EstimateChoices
    from qops_batsim.workload.estimates import EstimateModel as EstimateModel
    from qops_batsim.workload.estimates import fit_estimates as fit_estimates
    from qops_batsim.workload.estimates import sample_estimates as sample_estimates
    from qops_batsim.workload.log_records import Records as Records
    from qops_batsim.workload.need import NeedChoices as NeedChoices
    from qops_batsim.workload.need import NeedMix as NeedMix
    from qops_batsim.workload.scale import origin_of_duplicate as origin_of_duplicate
    from qops_batsim.workload.scale import scale_load as scale_load
    from qops_batsim.workload.scale import subset as subset
    from qops_batsim.workload.service_classes import APART as APART
    from qops_batsim.workload.service_classes import TOGETHER as TOGETHER
    from qops_batsim.workload.service_classes import ClassChoices as ClassChoices
    from qops_batsim.workload.service_classes import LogFacts as LogFacts
    from qops_batsim.workload.service_classes import application_of as application_of
    from qops_batsim.workload.service_classes import assign_classes as assign_classes
    from qops_batsim.workload.service_classes import name_queues as name_queues
    from qops_batsim.workload.swf import SwfLog as SwfLog
    from qops_batsim.workload.swf import read_swf as read_swf
    from qops_batsim.workload.synthetic import PRESETS as PRESETS
    from qops_batsim.workload.synthetic import generate_workload as generate_workload
    from qops_batsim.workload.workload_model import Workload as Workload
    from qops_batsim.workload.workload_model import delay_profile as delay_profile
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "batsim_json": "format_workload parse_workload read_workload write_workload",
            "conversion": "Conversion Repairs convert_log",
            "deadlines": "DAY DeadlineChoices",
            "delay_jobs": "exact_estimates run_times run_times_until_killed",
            "estimates": "EstimateChoices EstimateModel fit_estimates sample_estimates",
            "log_records": "Records",
            "need": "NeedChoices NeedMix",
            "scale": "origin_of_duplicate scale_load subset",
            "service_classes": (
                "APART ClassChoices LogFacts QOS_CLASSES TOGETHER application_of assign_classes "
                "name_queues"
            ),
            "swf": "SwfLog read_swf",
            "synthetic": "PRESETS generate_workload",
            "workload_model": "Workload delay_profile",
        },
    )
