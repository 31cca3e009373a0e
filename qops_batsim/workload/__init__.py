"""Workloads: reading, writing, making and changing them."""

from qops_batsim.workload.batsim_json import format_workload, read_workload, write_workload
from qops_batsim.workload.model import Workload, delay_profile

__all__ = ["Workload", "delay_profile", "format_workload", "read_workload", "write_workload"]
