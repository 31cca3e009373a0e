"""Runs: engine and scheduler together, simulated, verified and written; the real Batsim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.running.reference import easy_references as easy_references
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "reference": "easy_references",
        },
    )
