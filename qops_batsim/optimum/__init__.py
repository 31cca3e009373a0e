"""The best possible admission: schedules that know the future, and upper bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.optimum.best import Limits as Limits
    from qops_batsim.optimum.best import best_possible as best_possible
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "best": "Limits best_possible",
        },
    )
