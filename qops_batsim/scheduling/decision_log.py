"""Log of a scheduler's decisions and promises: ``PREFIX_decisions.jsonl``.

The kernels of a plan log each decision in rows; text is made of them where it is asked for. Nothing
is logged unless :meth:`~qops_batsim.scheduling.module.DecisionModule.keep_decisions` was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.scheduling.decision_events import (
    FORMAT,
    VERSION,
    Event,
    LogHeader,
    Submission,
)
from qops_batsim.version import __version__

if TYPE_CHECKING:
    from qops_batsim.scheduling.answers import AdmissionAnswer
    from qops_batsim.scheduling.plan import Plan


class DecisionLog:
    """The decisions of one simulation: rows that kernels have written, or events.

    Text is made of them when it is asked for.
    """

    def __init__(self) -> None:
        self.processors = 0
        self._events: list[Event] = []
        self._rows: list[tuple[Any, Any]] = []
        self._plan: Plan | None = None
        self._jobs: Callable[[], Sequence[Submission]] | None = None
        self._worded: Mapping[int, AdmissionAnswer] = {}
        self._source: Callable[[], Iterator[Event]] | None = None

    def begin(self, machine_size: int, plan: Plan | None = None) -> None:
        """Start anew, and have the decisions of the plan logged if there is one."""
        self.processors = machine_size
        self._events.clear()
        self._rows.clear()
        self._plan = plan
        if plan is not None:
            plan.log_decisions()
            self._jobs, self._worded = plan.submissions, plan.worded

    def fill(
        self,
        machine_size: int,
        codes: Any,
        numbers: Any,
        jobs: Callable[[], Sequence[Submission]],
    ) -> None:
        """Take all rows of a simulation; ``jobs`` makes the requests by slot."""
        self.begin(machine_size)
        self._rows.append((codes, numbers))
        self._jobs = jobs

    def follow(self, machine_size: int, events: Callable[[], Iterator[Event]]) -> None:
        """Have the events of a scheduler that logs by itself, as it returns them."""
        self.begin(machine_size)
        self._source = events

    def note(self, event: Event) -> None:
        """Append an event; for modules without a plan."""
        self._events.append(event)

    def decided(self) -> None:
        """Take the rows of a decision."""
        assert self._plan is not None
        self._rows.append(self._plan.take_rows())

    def events(self) -> Iterator[Event]:
        """Return the events so far in order."""
        if self._source is not None:
            return self._source()
        if self._jobs is None:
            return iter(self._events)
        from qops_batsim.scheduling.decision_rows import each_row, events_of

        return events_of(each_row(self._rows), self._jobs().__getitem__, self._worded)

    def lines(self) -> Iterator[bytes]:
        """Return the events so far, one JSON object each, in order."""
        return map(msgspec.json.Encoder().encode, self.events())


def format_decisions(
    log: DecisionLog, *, run_id: str, scheduler: str, options: dict[str, Any]
) -> Iterator[bytes]:
    """Yield the lines of ``_decisions.jsonl``; ``scheduler`` is a registered name."""
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
    for line in log.lines():
        yield line + b"\n"
