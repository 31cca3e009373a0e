"""Accounting of batch systems: Slurm, PBS, and tables of any site."""

from qops_batsim.workload.accounting.choices import Choices

__all__ = ["Choices"]
