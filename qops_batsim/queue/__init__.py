"""A queue as it is: reading it, quoting ends, forecasting starts, and serving both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.queue.forecast import WEEK as WEEK
    from qops_batsim.queue.forecast import Moment as Moment
    from qops_batsim.queue.forecast import Simulator as Simulator
    from qops_batsim.queue.forecast import moment_of as moment_of
    from qops_batsim.queue.past import Past as Past
    from qops_batsim.queue.past import past_of as past_of
    from qops_batsim.queue.queue_quote import QueueAnswer as QueueAnswer
    from qops_batsim.queue.queue_quote import QueueAsker as QueueAsker
    from qops_batsim.queue.queue_reading import read_queue as read_queue
    from qops_batsim.queue.queue_rows import queue_at as queue_at
    from qops_batsim.queue.queue_state import Ask as Ask
    from qops_batsim.queue.queue_state import QueuedJob as QueuedJob
    from qops_batsim.queue.queue_state import QueueState as QueueState
    from qops_batsim.queue.source import QueueSource as QueueSource
    from qops_batsim.queue.starts import ForecastBasis as ForecastBasis
    from qops_batsim.queue.starts import QueueStarts as QueueStarts
    from qops_batsim.queue.starts import asked_starts as asked_starts
    from qops_batsim.queue.starts import queue_starts as queue_starts
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "forecast": "Moment Simulator WEEK moment_of",
            "past": "Past past_of",
            "queue_quote": "QueueAnswer QueueAsker",
            "queue_reading": "read_queue",
            "queue_rows": "queue_at",
            "queue_state": "Ask QueueState QueuedJob",
            "source": "QueueSource",
            "starts": "ForecastBasis QueueStarts asked_starts queue_starts",
        },
    )
