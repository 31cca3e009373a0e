"""The log of a scheduler's decisions: ``PREFIX_decisions.jsonl``.

Schedulers with a plan log decisions in rows; text is made of them where it is asked for. Nothing
is logged unless :meth:`~qops_batsim.protocol.port.SchedulerModule.keep_decisions` was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from qops_batsim.core.decision_events import (
    FORMAT,
    VERSION,
    Event,
    LogHeader,
)
from qops_batsim.version import __version__

BLOCK = 1024
"""Events that are put into words and written at once."""


class DecisionLog:
    """The events of a scheduler's decisions in one simulation, for ``PREFIX_decisions.jsonl``.

    Attributes
    ----------
    events
        Returns the events so far in order.
    """

    def __init__(self) -> None:
        self.processors = 0
        self.events: Callable[[], Iterator[Event]] = lambda: iter(())

    def follow(self, machine_size: int, events: Callable[[], Iterator[Event]]) -> None:
        """Set the machine's size, and the scheduler's function that yields the events so far."""
        self.processors, self.events = machine_size, events

    def lines(self) -> Iterator[bytes]:
        """Return the events so far, in order, each as a line of JSON."""
        return map(msgspec.json.Encoder().encode, self.events())


def format_decisions(
    log: DecisionLog, *, run_id: str, scheduler: str, options: dict[str, Any]
) -> Iterator[bytes]:
    """Yield the contents of ``PREFIX_decisions.jsonl`` in blocks of lines: a header, then the
    events.
    """
    header = LogHeader(
        format=FORMAT,
        version=VERSION,
        scheduler=scheduler,
        options=options,
        processors=log.processors,
        package_version=__version__,
        run_id=run_id,
    )
    encoder, events = msgspec.json.Encoder(), log.events()
    yield encoder.encode_lines([header])
    while block := list(islice(events, BLOCK)):
        yield encoder.encode_lines(block)
