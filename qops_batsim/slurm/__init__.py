"""All that Slurm prints, read once: accounting, queues, nodes, reservations, configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.slurm.nodes import read_nodes as read_nodes
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "nodes": "read_nodes",
        },
    )
