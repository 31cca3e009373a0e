"""Rows of ``PREFIX_qos.csv`` as texts, for tests."""

from __future__ import annotations

from qops_batsim.core import QosLog
from qops_batsim.tables import cells


def qos_rows(log: QosLog) -> list[tuple[str, ...]]:
    """Return each job's row as texts, in order of submission."""
    return list(zip(*map(cells, log.table().values()), strict=True))
