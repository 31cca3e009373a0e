"""Any log or workload as a trace: its format is recognised, and its reader called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.traces.reading import read_partitions as read_partitions
    from qops_batsim.traces.reading import read_trace as read_trace
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "reading": "read_partitions read_trace",
        },
    )
