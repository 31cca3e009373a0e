"""Log of a scheduler's decisions and promises: ``PREFIX_decisions.jsonl``.

The kernels of a plan log each decision in rows; text is made of them where it is asked for. Nothing
is logged unless :meth:`~qops_batsim.scheduling.module.DecisionModule.keep_decisions` was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from qops_batsim.scheduling.decision_events import (
    EVENTS,
    FORMAT,
    ROWS,
    Event,
    LogHeader,
    Submission,
    WordedAnswer,
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

    def note(self, event: Event) -> None:
        """Append an event; for modules without a plan."""
        self._events.append(event)

    def decided(self) -> None:
        """Take the rows of a decision."""
        assert self._plan is not None
        self._rows.append(self._plan.take_rows())

    def events(self) -> Iterator[Event]:
        """Return the events so far in order."""
        if self._jobs is None:
            return iter(self._events)
        from qops_batsim.scheduling.decision_rows import blocks_of, events_of

        rows = list(chain.from_iterable(blocks_of(self._rows)))
        told = events_of(rows, self._jobs().__getitem__, self._worded)
        return (event for _, event in told)

    def lines(self) -> Iterator[bytes]:
        """Return the events so far, one JSON object each, in order."""
        return map(msgspec.json.Encoder().encode, self.events())

    def written(self) -> tuple[int, Iterable[bytes]]:
        """Return the version of the format, and all but the first line of ``_decisions.jsonl``.

        Events of modules without a plan are lines of their own (version 1); rows are written as
        they are, behind the requests of all jobs (version 2).
        """
        if self._jobs is None:
            encoder = msgspec.json.Encoder()
            return EVENTS, (encoder.encode(event) + b"\n" for event in self._events)
        return ROWS, self._rows_in_lines(self._jobs())

    def _rows_in_lines(self, jobs: Sequence[Submission]) -> Iterator[bytes]:
        """Yield the requests of all jobs, then the rows, as lines by blocks."""
        from qops_batsim.scheduling.decision_rows import KINDS, blocks_of

        encoder = msgspec.json.Encoder()
        answers = [
            WordedAnswer(slot, answer.refusal, answer.blamed, answer.offer)
            for slot, answer in self._worded.items()
        ]
        # What few jobs say is left out where they do not.
        asked = [_without_end(each) for each in jobs]
        yield encoder.encode((asked, answers)) + b"\n"
        yield from map(encoder.encode_lines, blocks_of(self._rows, KINDS))


def _without_end(fields: tuple[object, ...]) -> tuple[object, ...]:
    """Return fields without those of the last three that say nothing."""
    if fields[-3:] == (None, None, None):
        return fields[:-3]
    count = len(fields)
    while count > len(Submission._fields) - 3 and fields[count - 1] is None:
        count -= 1
    return fields[:count]


def format_decisions(
    log: DecisionLog, *, run_id: str, scheduler: str, options: dict[str, Any]
) -> Iterator[bytes]:
    """Yield the lines of ``_decisions.jsonl``; ``scheduler`` is a registered name."""
    version, lines = log.written()
    header = LogHeader(
        format=FORMAT,
        version=version,
        scheduler=scheduler,
        options=options,
        processors=log.processors,
        package_version=__version__,
        run_id=run_id,
    )
    yield msgspec.json.encode(header) + b"\n"
    yield from lines
