"""The lines of ``PREFIX_decisions.jsonl``, written from the rows of a decision log.

Each line is one of the events of :mod:`~qops_batsim.core.decision_events`, by which readers decode
it. Frequent ones are put together as texts here, because making an object for each took longer than
the simulation; rare ones are encoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from qops_batsim.core.answers import AdmissionAnswer
from qops_batsim.core.decision_events import (
    Admitted,
    Dropped,
    Event,
    Killed,
    Late,
    Refused,
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
    RESIZED,
    SLIPPED,
    STARTED,
    SUBMITTED,
    UNDER,
    WITHDRAWN,
)
from qops_batsim.core.plan_log import PlanLog
from qops_batsim.core.refusal import Refusal, RefusalKind
from qops_batsim.jobs import QosRequest, restarted_id

_NOTHING = "null"
"""How JSON writes an infinite number, which no event has."""

_ZEROS = ("0.0", "-0.0")

_ASKED = {
    "deadline": "deadline",
    "tolerance_factor": "tolerance",
    "has_user_deadline": "user_deadline",
    "rerunnable": "rerunnable",
    "start": "start",
    "checkpoint": "checkpoint",
}
"""Fields of a request that a submission tells, and how it names them."""

_NOTHING_ASKED = QosRequest()

CAUSES = {
    BY_ADMISSION: "admission",
    BY_EARLY_END: "early_end",
    BY_OUTLIVING: "outlived",
    BY_LATE_START: "late_start",
    BY_KILL: "kill",
    BY_LEAVING: "hosts_left",
    BY_RETURNING: "hosts_returned",
    BY_CANCELLATION: "cancelled",
}

_encode = msgspec.json.Encoder().encode


def texts_of(values: Sequence[object]) -> list[str]:
    """Return numbers, booleans or None each as JSON writes it, infinite numbers as ``null``."""
    return _encode(values).decode().strip("[]").split(",") if values else []


def lines_of(log: PlanLog) -> Iterator[str]:
    """Yield the lines of a decision log in order, without line ends. O(rows)."""
    writer = LineWriter(log)
    for codes, numbers, size in log.rows():
        yield from writer.lines_in(codes, numbers, size)
    yield from writer.last_lines()


def _names(ids: Sequence[str]) -> list[str]:
    """Return how JSON writes each of these ids."""
    names = texts_of(ids)
    return names if len(names) == len(ids) else [_encode(job_id).decode() for job_id in ids]


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
        self.ids = [job_id for job_id, *_ in log.jobs]
        self.runs = list(self.ids)
        self.names = _names(self.ids)
        self.submissions = _submissions(log.jobs)
        for number, asked in log.hosts_asked.items():
            self.submissions[number] += f',"hosts":{_encode(asked).decode()}'
        self.was_killed = False
        # A line of several rows, which ends with the first row of another kind.
        self.open = ""
        self.culprits: list[str] = []
        self.moves: list[str] = []
        self.resized: tuple[float, int, bool] | None = None
        self.under: list[tuple[str, int]] = []

    def lines_in(self, codes: Any, numbers: Any, size: int) -> list[str]:
        """Return the lines that end in the next block of ``size`` rows."""
        names = self.names
        # To write many numbers at once is several times as fast.
        texts = texts_of(memoryview(numbers).tolist())
        lines: list[str] = []
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
                self.moves.append(f"[{names[slot]},{texts[at]},{texts[at + 1]}]")
                continue
            if kind == BLAMED:
                self.culprits.append(self.name_of(slot, code))
                continue
            if kind == UNDER:
                self.under.append((restarted_id(self.ids[slot], code), other))
                continue
            if self.open or self.resized is not None:
                lines += self.last_lines()

            date = texts[at]
            if kind == STARTED:
                end = _field("end", texts[at + 1])
                late = "" if texts[at + 2] in _ZEROS else _field("late", texts[at + 2])
                fields = f"{end}{late}"
                lines.append(f'{{"event":"started","date":{date},"job":{names[slot]}{fields}}}')

            elif kind == ENDED:
                name = self.name_of(slot, code)
                early = texts[at + 1]
                lines.append(f'{{"event":"ended","date":{date},"job":{name},"early":{early}}}')

            elif kind == SUBMITTED:
                fields = self.submissions[slot]
                lines.append(
                    f'{{"event":"submitted","date":{date},"job":{names[slot]},"submission":{fields}}}'
                )

            elif kind == ADMITTED and slot not in self.log.worded:
                start = _field("start", texts[at + 1])
                deadline = _field("deadline", texts[at + 2])
                is_target = texts[at + 3] == texts[at + 2]
                target = "" if is_target else _field("target", texts[at + 3])
                fields = f"{start}{deadline}{target}"
                lines.append(f'{{"event":"admitted","date":{date},"job":{names[slot]}{fields}}}')

            elif kind == MOVED:
                self.open = f'{{"event":"moved","date":{date},"cause":"{CAUSES[code]}"'

            elif kind == RESIZED:
                self.resized = (numbers[at], int(numbers[at + 1]), bool(code))

            elif kind in (SLIPPED, OUTLIVED):
                what = "slipped" if kind == SLIPPED else "outlived"
                fields = _field("end", texts[at + 1])
                lines.append(f'{{"event":"{what}","date":{date},"job":{names[slot]}{fields}}}')

            elif kind == PLACED:
                places = _encode(self.log.placements[other]).decode()
                job = f'"job":{names[slot]},"places":{places}'
                lines.append(f'{{"event":"placed","date":{date},{job}}}')

            elif kind == LATE_NEWS:
                lines.append(f'{{"event":"latenews","date":{date}}}')

            else:
                given = [numbers[number] for number in range(at, place)]
                given += [0.0] * (4 - len(given))
                event = self.rare_event(kind, slot, other, code, given)
                lines.append(_encode(event).decode())
        return lines

    def last_lines(self) -> list[str]:
        """Return the line that is not ended, if any."""
        lines = []
        if self.open:
            by = f',"by":[{",".join(self.culprits)}]' if self.culprits else ""
            lines.append(f'{self.open}{by},"moves":[{",".join(self.moves)}]}}')
            self.open = ""
            self.culprits = []
            self.moves = []
        if self.resized is not None:
            date, present, final = self.resized
            event = Resized(date=date, present=present, final=final, under=self.under)
            lines.append(_encode(event).decode())
            self.resized = None
            self.under = []
        return lines

    def name_of(self, slot: int, run: int) -> str:
        """Return how JSON writes the id of a job's run with this number."""
        if self.was_killed:
            return _encode(restarted_id(self.ids[slot], run)).decode()
        name: str = self.names[slot]
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
            self.names[slot] = _encode(self.runs[slot]).decode()
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
        if kind == ADMITTED:
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
        blamed = self.runs[other] if other >= 0 else None
        return Refused(
            date=date,
            job=job,
            blamed=blamed,
            offered=answer.offered,
            **refusal_fields(answer.refusal),
        )


def _finite(number: float) -> float | None:
    """Return the number, None if it is infinite (JSON has no infinity)."""
    return number if abs(number) < math.inf else None


def _field(name: str, number: str) -> str:
    """Return a field that an event has if the number is finite."""
    return "" if number == _NOTHING else f',"{name}":{number}'


def _submissions(jobs: Sequence[tuple[str, float, int, float, QosRequest | None]]) -> list[str]:
    """Return what each submission tells from its date on, without what was not asked for."""
    if not jobs:
        return []
    _, dates, processors, estimates, requests = zip(*jobs, strict=True)
    told = zip(texts_of(dates), texts_of(processors), strict=True)
    submissions = [f'{date},"processors":{count}' for date, count in told]

    asked = [request or _NOTHING_ASKED for request in requests]
    columns = [("estimate", estimates)]
    columns += [(name, tuple(map(attrgetter(field), asked))) for field, name in _ASKED.items()]
    for name, values in columns:
        if values.count(None) < len(values):
            further = zip(submissions, texts_of(values), strict=True)
            submissions = [so_far + _field(name, text) for so_far, text in further]
    return submissions
