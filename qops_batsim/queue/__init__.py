"""A queue as it is: reading it, quoting ends, forecasting starts, and serving both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.queue.forecast import WEEK as WEEK
    from qops_batsim.queue.forecast import Simulator as Simulator
    from qops_batsim.queue.forecast import moment_of as moment_of
    from qops_batsim.queue.past import Past as Past
    from qops_batsim.queue.past import past_of as past_of
    from qops_batsim.queue.queue_forecast import ForecastBasis as ForecastBasis
    from qops_batsim.queue.queue_forecast import forecast_queue as forecast_queue
    from qops_batsim.queue.queue_forecast import queue_at as queue_at
    from qops_batsim.queue.queue_quote import Ask as Ask
    from qops_batsim.queue.queue_quote import QueueAsker as QueueAsker
    from qops_batsim.queue.queue_reading import read_queue as read_queue
    from qops_batsim.queue.queue_state import QueuedJob as QueuedJob
    from qops_batsim.queue.queue_state import QueueState as QueueState
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "forecast": "Simulator WEEK moment_of",
            "past": "Past past_of",
            "queue_forecast": "ForecastBasis forecast_queue queue_at",
            "queue_quote": "Ask QueueAsker",
            "queue_reading": "read_queue",
            "queue_state": "QueueState QueuedJob",
        },
    )
