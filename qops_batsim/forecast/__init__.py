"""Forecasts of when waiting jobs will start, and how accurate such forecasts were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.forecast.forecast import moment_of as moment_of
    from qops_batsim.forecast.past import Past as Past
    from qops_batsim.forecast.past import past_of as past_of
    from qops_batsim.forecast.queue_forecast import queue_at as queue_at
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, {"forecast": "moment_of", "past": "Past past_of", "queue_forecast": "queue_at"}
    )
