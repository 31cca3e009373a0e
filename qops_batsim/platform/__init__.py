"""Hosts, host sets and SimGrid platforms."""

from qops_batsim.platform.hostset import HostSet
from qops_batsim.platform.model import Host, Link, Platform
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.platform.simgrid_write import write_platform

__all__ = ["Host", "HostSet", "Link", "Platform", "read_platform", "write_platform"]
