"""Workloads: reading, writing, making and changing them.

Every function raises :class:`~qops_batsim.errors.InputError` for a file that it cannot read
or write (naming file, line or field) and for a parameter out of range, a job or a profile
that it has no use for (naming it, its value and what is accepted).
"""

from qops_batsim.workload.batsim_json import format_workload, read_workload, write_workload
from qops_batsim.workload.model import Workload, delay_profile

__all__ = ["Workload", "delay_profile", "format_workload", "read_workload", "write_workload"]
