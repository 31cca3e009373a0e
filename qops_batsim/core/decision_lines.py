"""The lines of ``PREFIX_decisions.jsonl``, written from the rows of a decision log.

Each line is one of the events of :mod:`~qops_batsim.core.decision_events`, by which readers decode
it. Frequent ones are written into one buffer here, because making an object for each took longer
than the simulation; rare ones are encoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from qops_batsim.core.answers import AdmissionAnswer
from qops_batsim.core.decision_events import (
    Admitted,
    Dropped,
    Event,
    Killed,
    Late,
    Resized,
    Withdrawn,
    refusal_fields,
)
from qops_batsim.core.log_rows import (
    ADMITTED,
    BLAMED,
    BY_ADMISSION,
    BY_CANCELLATION,
    BY_EARLY_END,
    BY_KILL,
    BY_LATE_START,
    BY_LEAVING,
    BY_OUTLIVING,
    BY_RETURNING,
    DROPPED,
    ENDED,
    KILLED,
    LATE,
    LATE_NEWS,
    MOVE,
    MOVED,
    NUMBERS,
    OUTLIVED,
    PLACED,
    REFUSED,
    RESIZED,
    SLIPPED,
    STARTED,
    SUBMITTED,
    UNDER,
    WITHDRAWN,
)
from qops_batsim.core.plan_log import PlanLog
from qops_batsim.core.refusal import Refusal, RefusalKind, sentence
from qops_batsim.jobs import restarted_id
from qops_batsim.row_writer import Letters

_ASKED = [
    (b',"deadline":', "deadline"),
    (b',"tolerance":', "tolerance_factor"),
    (b',"user_deadline":', "has_user_deadline"),
    (b',"rerunnable":', "rerunnable"),
    (b',"start":', "start"),
    (b',"checkpoint":', "checkpoint"),
]
"""What a submission tells of a request, by the request's fields."""

CAUSES = {
    BY_ADMISSION: b"admission",
    BY_EARLY_END: b"early_end",
    BY_OUTLIVING: b"outlived",
    BY_LATE_START: b"late_start",
    BY_KILL: b"kill",
    BY_LEAVING: b"hosts_left",
    BY_RETURNING: b"hosts_returned",
    BY_CANCELLATION: b"cancelled",
}

NONE_OPEN, MOVED_OPEN, BY_OPEN, MOVES_OPEN = range(4)
"""What of a line about moves was written last; it ends with the first row of another kind."""

SHORTEST_PLAIN = 1e-3
LONGEST_PLAIN = 1e9
"""From one to the other, a number of whole millionths is written with a point and these digits."""

MOST_LETTERS = 32
"""No such number has more letters."""

POINT, MINUS = b".-"

_INFINITY = math.inf
_encode = msgspec.json.Encoder().encode


def lines_of(log: PlanLog) -> Iterator[bytes]:
    """Yield the lines of a decision log in order, many at once, with line ends. O(rows)."""
    writer = LineWriter(log)
    for codes, numbers, size in log.rows():
        yield writer.lines_in(codes, numbers, size)
    yield writer.last_lines()


def _names(ids: Sequence[str]) -> list[bytes]:
    """Return how JSON writes each of these ids."""
    names = _encode(ids).strip(b"[]").split(b",")
    return names if len(names) == len(ids) else [_encode(job_id) for job_id in ids]


class LineWriter:
    """Writes the lines of a decision log, block by block in order.

    Parameters
    ----------
    log
        The log of a plan.
    """

    def __init__(self, log: PlanLog) -> None:
        self.log = log
        self.counts = NUMBERS
        self.out = Letters()
        self.ids = [job_id for job_id, *_ in log.jobs]
        self.runs = list(self.ids)
        self.names = _names(self.ids)
        self.was_killed = False
        # A line of several rows, which ends with the first row of another kind.
        self.open = NONE_OPEN
        self.resized: tuple[float, int, bool] | None = None
        self.under: list[tuple[str, int]] = []

    def lines_in(self, codes: Any, numbers: Any, size: int) -> bytes:
        """Return the lines, with their ends, that end in the next block of ``size`` rows; all but
        those of a line that goes on.
        """
        out = self.out
        names = self.names
        place = 0
        for row in range(size):
            kind = codes[4 * row]
            slot = codes[4 * row + 1]
            other = codes[4 * row + 2]
            code = codes[4 * row + 3]
            at = place
            place += self.counts[kind]

            # The rows of one line.
            if kind == MOVE:
                if self.open == MOVES_OPEN:
                    out.add(b",[")
                else:
                    out.add(b',"moves":[[' if self.open == MOVED_OPEN else b'],"moves":[[')
                    self.open = MOVES_OPEN
                out.add(names[slot])
                out.add(b",")
                self.add_number(numbers[at])
                out.add(b",")
                self.add_number(numbers[at + 1])
                out.add(b"]")
                continue
            if kind == BLAMED:
                out.add(b"," if self.open == BY_OPEN else b',"by":[')
                self.open = BY_OPEN
                out.add(self.name_of(slot, code))
                continue
            if kind == UNDER:
                self.under.append((restarted_id(self.ids[slot], code), other))
                continue
            self.close()

            date = numbers[at]
            if kind == STARTED:
                self.begin(b'{"event":"started","date":', date, names[slot])
                self.add_field(b',"end":', numbers[at + 1])
                if numbers[at + 2] != 0:
                    self.add_field(b',"late":', numbers[at + 2])

            elif kind == ENDED:
                self.begin(b'{"event":"ended","date":', date, self.name_of(slot, code))
                out.add(b',"early":')
                self.add_number(numbers[at + 1])

            elif kind == SUBMITTED:
                self.begin(b'{"event":"submitted","date":', date, names[slot])
                self.add_submission(slot)

            elif kind == ADMITTED and slot not in self.log.worded:
                self.begin(b'{"event":"admitted","date":', date, names[slot])
                self.add_field(b',"start":', numbers[at + 1])
                self.add_field(b',"deadline":', numbers[at + 2])
                if numbers[at + 3] != numbers[at + 2]:
                    self.add_field(b',"target":', numbers[at + 3])

            elif kind == REFUSED:
                self.begin(b'{"event":"refused","date":', date, names[slot])
                self.add_refusal(self.log.worded[slot], other)

            elif kind == MOVED:
                out.add(b'{"event":"moved","date":')
                self.add_number(date)
                out.add(b',"cause":"')
                out.add(CAUSES[code])
                out.add(b'"')
                self.open = MOVED_OPEN
                continue

            elif kind == RESIZED:
                self.resized = (date, int(numbers[at + 1]), bool(code))
                continue

            elif kind in (SLIPPED, OUTLIVED):
                what = b'{"event":"slipped","date":'
                if kind == OUTLIVED:
                    what = b'{"event":"outlived","date":'
                self.begin(what, date, names[slot])
                self.add_field(b',"end":', numbers[at + 1])

            elif kind == PLACED:
                self.begin(b'{"event":"placed","date":', date, names[slot])
                out.add(b',"places":')
                out.add(_encode(self.log.placements[other]))

            elif kind == LATE_NEWS:
                out.add(b'{"event":"latenews","date":')
                self.add_number(date)

            else:
                given = [numbers[number] for number in range(at, place)]
                given += [0.0] * (4 - len(given))
                out.add(_encode(self.rare_event(kind, slot, other, code, given)))
                out.add(b"\n")
                continue
            out.add(b"}\n")
        return b"" if self.open != NONE_OPEN else out.take()

    def last_lines(self) -> bytes:
        """Return what is left, with line ends."""
        self.close()
        return self.out.take()

    def close(self) -> None:
        """End the line of several rows that is not ended, if any."""
        if self.open != NONE_OPEN:
            self.out.add(b"]}\n")
            self.open = NONE_OPEN
        if self.resized is not None:
            date, present, final = self.resized
            event = Resized(date=date, present=present, final=final, under=self.under)
            self.out.add(_encode(event))
            self.out.add(b"\n")
            self.resized = None
            self.under = []

    def begin(self, what: bytes, date: float, name: bytes) -> None:
        """Begin a line about a job."""
        self.out.add(what)
        self.add_number(date)
        self.out.add(b',"job":')
        self.out.add(name)

    def add_number(self, number: float) -> None:
        """Append a number as JSON has it, infinite ones as ``null``."""
        out = self.out
        size = number if number > 0 else -number
        if SHORTEST_PLAIN < size < LONGEST_PLAIN:
            micros = int(size * 1e6 + 0.5)
            if micros / 1e6 == size:
                whole = micros // 1_000_000
                rest = micros - whole * 1_000_000
                digits = 6
                while digits > 1 and rest % 10 == 0:
                    rest = rest // 10
                    digits -= 1

                out.make_room(MOST_LETTERS)
                if number < 0:
                    out.add_letter(MINUS)
                out.add_whole(whole)
                out.add_letter(POINT)
                out.add_digits(rest, digits)
                return
        out.add(_encode(number))

    def add_field(self, name: bytes, number: float) -> None:
        """Append a field that an event has if the number is finite."""
        if -_INFINITY < number < _INFINITY:
            self.out.add(name)
            self.add_number(number)

    def add_submission(self, slot: int) -> None:
        """Append what a submission tells from its date on, without what was not asked for."""
        out = self.out
        _, date, processors, estimate, asked = self.log.jobs[slot]
        out.add(b',"submission":')
        self.add_number(date)
        out.add(b',"processors":')
        out.add(_encode(processors))
        self.add_field(b',"estimate":', estimate)
        if asked is not None:
            for name, field in _ASKED:
                value = getattr(asked, field)
                if value is None:
                    continue
                if type(value) is float:
                    self.add_field(name, value)
                else:
                    out.add(name)
                    out.add(b"true" if value is True else _encode(value))
        if self.log.hosts_asked:
            hosts = self.log.hosts_asked.get(slot)
            if hosts is not None:
                out.add(b',"hosts":')
                out.add(_encode(hosts))

    def add_refusal(self, answer: AdmissionAnswer, blamed: int) -> None:
        """Append why a job was refused; ``blamed`` is the number of a job, or -1."""
        out = self.out
        assert answer.refusal is not None
        out.add(b',"reason":')
        out.add(_encode(sentence(answer.refusal)))
        if blamed >= 0:
            out.add(b',"blamed":')
            out.add(self.names[blamed])
        if answer.offered is not None:
            out.add(b',"offered":')
            self.add_number(answer.offered)
        out.add(b',"refusal":')
        out.add(_encode(answer.refusal))

    def name_of(self, slot: int, run: int) -> bytes:
        """Return how JSON writes the id of a job's run with this number."""
        if self.was_killed:
            return _encode(restarted_id(self.ids[slot], run))
        name: bytes = self.names[slot]
        return name

    def rare_event(
        self, kind: int, slot: int, other: int, code: int, numbers: list[float]
    ) -> Event:
        """Return the event of a row of a rare kind."""
        date, first, second, third = numbers
        run = restarted_id(self.ids[slot], code)
        if kind in (KILLED, WITHDRAWN):
            self.was_killed = True
            self.runs[slot] = restarted_id(self.ids[slot], code + (1 if kind == KILLED else -1))
            self.names[slot] = _encode(self.runs[slot])
        job = self.runs[slot]
        if kind == KILLED:
            start = _finite(first)
            by = self.runs[other]
            return Killed(date=date, job=run, again=job, by=by, start=start, saved=third or None)
        if kind == WITHDRAWN:
            return Withdrawn(date=date, job=run)

        if kind == DROPPED:
            return Dropped(date=date, job=job, **refusal_fields(self.log.given_up[slot]))
        if kind == LATE:
            loss = None
            if second:
                loss = Refusal(kind=RefusalKind.HOSTS_LOST, date=third, hosts=int(second))
            return Late(date=date, job=job, deadline=_finite(first), **refusal_fields(loss))

        answer: AdmissionAnswer = self.log.worded[slot]
        offer = answer.offer
        return Admitted(
            date=date,
            job=job,
            start=_finite(first),
            deadline=_finite(second),
            target=None if third == second else _finite(third),
            offered=offer is not None,
            blamed=None if offer is None or answer.blamed < 0 else self.runs[answer.blamed],
            **refusal_fields(None if offer is None else offer.refusal),
        )


def _finite(number: float) -> float | None:
    """Return the number, None if it is infinite (JSON has no infinity)."""
    return number if abs(number) < _INFINITY else None
