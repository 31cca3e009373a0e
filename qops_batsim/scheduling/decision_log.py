"""What a deadline scheduler decided and what became of its promises: ``PREFIX_decisions.jsonl``.

The kernels of a plan log each decision in rows; text is made of them where it is asked for. Nothing
is logged unless :meth:`~qops_batsim.scheduling.module.DecisionModule.keep_decisions` was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.jobs import Job
from qops_batsim.scheduling.decision_events import FORMAT, VERSION, Event, LogHeader
from qops_batsim.version import __version__

if TYPE_CHECKING:
    from qops_batsim.scheduling.answers import Answer
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
        self._job_of: Callable[[int], Job] | None = None
        self._worded: Mapping[int, Answer] = {}

    def begin(self, machine_size: int, plan: Plan | None = None) -> None:
        """Start anew, and have the decisions of the plan logged if there is one."""
        self.processors = machine_size
        self._events.clear()
        self._rows.clear()
        self._plan = plan
        if plan is not None:
            plan.log_decisions()
            self._job_of, self._worded = plan.table.original, plan.worded

    def fill(
        self, machine_size: int, codes: Any, numbers: Any, job_of: Callable[[int], Job]
    ) -> None:
        """Take all rows of a simulation, whose jobs are known by a function of their slots."""
        self.begin(machine_size)
        self._rows.append((codes, numbers))
        self._job_of = job_of

    def note(self, event: Event) -> None:
        """Append an event; for modules without a plan."""
        self._events.append(event)

    def decided(self) -> None:
        """Take the rows of a decision."""
        assert self._plan is not None
        self._rows.append(self._plan.take_rows())

    def events(self) -> Iterator[Event]:
        """Return the events so far in order."""
        if self._job_of is None:
            return iter(self._events)
        from qops_batsim.scheduling.decision_rows import events_of

        return events_of(self._rows, self._job_of, self._worded)

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
