"""Hosts, host sets and SimGrid platforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.platform.equal_hosts import EqualHosts as EqualHosts
    from qops_batsim.platform.equal_hosts import make_cluster as make_cluster
    from qops_batsim.platform.equal_hosts import make_mixed_cluster as make_mixed_cluster
    from qops_batsim.platform.platform_model import Host as Host
    from qops_batsim.platform.platform_model import Link as Link
    from qops_batsim.platform.platform_model import Platform as Platform
    from qops_batsim.platform.platform_model import Zone as Zone
    from qops_batsim.platform.simgrid_read import parse_platform as parse_platform
    from qops_batsim.platform.simgrid_read import read_platform as read_platform
    from qops_batsim.platform.simgrid_write import write_platform as write_platform
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "equal_hosts": "EqualHosts make_cluster make_mixed_cluster",
            "platform_model": "Host Link Platform Zone",
            "simgrid_read": "parse_platform read_platform",
            "simgrid_write": "write_platform",
        },
    )
