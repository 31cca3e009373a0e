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
    LogHeader,
)
from qops_batsim.version import __version__

BLOCK = 1024
"""Events that are put into words and written at once."""


class DecisionLog:
    """The events of a scheduler's decisions in one simulation, for ``PREFIX_decisions.jsonl``.

    Attributes
    ----------
    lines
        Returns the events so far in order, each as a line of JSON without line end.
    """

    def __init__(self) -> None:
        self.processors = 0
        self.lines: Callable[[], Iterator[str]] = lambda: iter(())

    def follow(self, machine_size: int, lines: Callable[[], Iterator[str]]) -> None:
        """Set the machine's size, and the scheduler's function that yields the events so far."""
        self.processors, self.lines = machine_size, lines


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
    yield msgspec.json.encode(header) + b"\n"
    lines = log.lines()
    while block := list(islice(lines, BLOCK)):
        block.append("")
        yield "\n".join(block).encode()
