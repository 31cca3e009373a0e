"""Quotes, explanations, charges and advice for operators of a centre."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.lazy import lazy_names

if TYPE_CHECKING:
    from qops_batsim.advice.queue_quote import Ask as Ask
    from qops_batsim.advice.queue_quote import QueueAsker as QueueAsker
    from qops_batsim.advice.queue_state import QueuedJob as QueuedJob
    from qops_batsim.advice.queue_state import QueueState as QueueState
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, {"queue_quote": "Ask QueueAsker", "queue_state": "QueueState QueuedJob"}
    )
