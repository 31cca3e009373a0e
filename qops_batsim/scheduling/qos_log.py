"""What was decided about the quality of service of each job: ``PREFIX_qos.csv``.

The driver of a decision module fills the log with what goes over the protocol:
submissions, starts, rejections and kills. What only the module knows (offers,
reasons, charges) it adds itself, with :meth:`QosLog.record`.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from qops_batsim.files import atomic_write
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED, Job, QosRequest

if TYPE_CHECKING:
    from qops_batsim.csv_rows import Column

QOS_COLUMNS = (
    "job_id",
    "requested_deadline",
    "offered_deadline",
    "decision",
    "reason",
    "admitted_deadline",
    "category",
    "resource_charge",
    "qos_charge",
    "kills",
    "latest_start",
    "wasted_processor_seconds",
)
"""The columns of ``PREFIX_qos.csv``."""

_NOTHING_ASKED = QosRequest()

_ROWS_AT_ONCE = 10_000
"""How many rows are held in memory."""

_QUOTED = frozenset(',"\r\n')
"""Characters for which a text is quoted in CSV."""

NEW_PROMISES = "new_promises"
"""A further column, where any promise was replaced."""


class QosRecord(msgspec.Struct, kw_only=True):
    """What a module has to say about one job; None and ``""`` stand for nothing.

    Attributes
    ----------
    requested_deadline
        Deadline that the user asked for (seconds, absolute), if it is not
        ``job.qos.deadline``.
    offered_deadline, admitted_deadline
        Deadline offered instead, and the one promised (seconds, absolute).
    decision
        :data:`QOS_ACCEPTED` or :data:`QOS_REJECTED`. A job that starts is accepted and
        one that gets REJECT_JOB is rejected without any record.
    reason
        Why, in a few words for a reader: ``"asks for 5 processors, the machine
        has 4"``.
    category
        Label of the job's class, for reports.
    resource_charge, qos_charge
        Prices of the resources used and of the quality of service.
    kills
        How often the job was killed and started anew by the scheduler, beyond
        the kills that the protocol tells.
    latest_start
        Date by which the scheduler promised to start the job (seconds, absolute).
    wasted_processor_seconds
        Work that was lost when the job was killed to be run again from scratch.
    new_promises
        How often the promise (deadline or latest start) was replaced by a later one because
        hosts had left; the reason says why.
    """

    requested_deadline: float | None = None
    offered_deadline: float | None = None
    decision: str = ""
    reason: str = ""
    admitted_deadline: float | None = None
    category: str = ""
    resource_charge: float | None = None
    qos_charge: float | None = None
    kills: int = 0
    latest_start: float | None = None
    wasted_processor_seconds: float | None = None
    new_promises: int = 0

    def note_renewal(self, broken: float, reason: str) -> None:
        """Note that a promise (seconds) gave way to a new one, and why."""
        self.new_promises += 1
        said = f"{reason}; the promise of {broken:.6f} s could not be kept"
        self.reason = f"{self.reason}; {said}" if self.reason else said


class QosLog:
    """Everything noted about the jobs of one simulation.

    Notes are appended to plain lists, because they are taken for every job;
    :meth:`rows` puts them together.

    Attributes
    ----------
    jobs
        The jobs submitted so far (and those registered by the module), with
        their full ids; a job that was registered and then announced is in it twice.
    started
        Full ids of the jobs started so far.
    rejected
        Full ids of the jobs rejected so far.
    kills
        How often each job was really killed, by full id.
    """

    __slots__ = ("_fill", "_jobs", "_originals", "_records", "_rejected", "_started", "kills")

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._started: list[str] = []
        self._rejected: list[str] = []
        self._fill: Callable[[QosLog], None] | None = None
        self.kills: Counter[str] = Counter()
        self._records: dict[str, QosRecord] = {}
        self._originals: dict[str, str] = {}

    @property
    def jobs(self) -> list[Job]:
        self._be_filled()
        return self._jobs

    @property
    def started(self) -> list[str]:
        self._be_filled()
        return self._started

    @property
    def rejected(self) -> list[str]:
        self._be_filled()
        return self._rejected

    def fill_later(self, fill: Callable[[QosLog], None]) -> None:
        """Have the lists filled when one of them is asked for."""
        self._fill = fill

    def _be_filled(self) -> None:
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)

    def record(self, job_id: str) -> QosRecord:
        """Return the record of a job (full id), made empty at the first call. O(1).

        This is how a module volunteers what it knows::

            self.qos_log.record(job.id).offered_deadline = offer
        """
        record = self._records.get(job_id)
        if record is None:
            record = self._records[job_id] = QosRecord()
        return record

    def restarted(self, job_id: str, original: str) -> None:
        """Note that a job (full id) is another one run again: all that is noted is of that one."""
        self._originals[job_id] = original

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns. O(records)."""
        renewed = any(record.new_promises for record in self._records.values())
        return (*QOS_COLUMNS, NEW_PROMISES) if renewed else QOS_COLUMNS

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each job under :meth:`columns`, in the order of submission.

        A job that was registered again is in the row of the original. O(jobs).
        """
        nothing = QosRecord()
        width, decisions = len(self.columns()), self.decisions()
        kills: Counter[str] = Counter()
        for job_id, count in self.kills.items():
            kills[self._originals.get(job_id, job_id)] += count
        for job in {job.id: job for job in self.jobs}.values():
            if job.id in self._originals:
                continue
            record = self._records.get(job.id, nothing)
            asked = job.qos or _NOTHING_ASKED
            requested = record.requested_deadline
            cells = (
                job.id,
                _number(asked.deadline if requested is None else requested),
                _number(record.offered_deadline),
                decisions.get(job.id, ""),
                record.reason,
                _number(record.admitted_deadline),
                record.category or asked.category or "",
                _number(record.resource_charge),
                _number(record.qos_charge),
                str(kills[job.id] + record.kills),
                _number(record.latest_start),
                _number(record.wasted_processor_seconds),
                str(record.new_promises),
            )
            yield cells[:width]

    def plain_rows(self) -> Iterator[bytes] | None:
        """Return the content of the file where no module has noted anything, made in bulk.

        None if a text would have to be quoted, or there are notes. O(jobs).
        """
        if self._records or self._originals:
            return None
        import numpy as np

        from qops_batsim.csv_rows import Words, format_rows

        jobs = list({job.id: job for job in self.jobs}.values())
        asked = [job.qos or _NOTHING_ASKED for job in jobs]
        made = self.decisions()
        ids, categories = [job.id for job in jobs], [each.category or "" for each in asked]
        if any(not _QUOTED.isdisjoint("".join(texts)) for texts in (ids, categories)):
            return None
        nothing = Words.one("", len(jobs))
        deadlines = [math.nan if each.deadline is None else each.deadline for each in asked]
        columns: list[Column] = [nothing] * len(QOS_COLUMNS)
        columns[0] = ids
        columns[1] = np.array(deadlines, float)
        columns[3] = [made.get(job_id, "") for job_id in ids]
        columns[6] = categories
        columns[9] = np.array([self.kills.get(job_id, 0) for job_id in ids], int)
        return format_rows(columns, len(jobs))

    def decisions(self) -> dict[str, str]:
        """Return what was decided by full id; undecided jobs are missing. O(jobs)."""
        made = dict.fromkeys(self.started, QOS_ACCEPTED)
        made.update((job_id, r.decision) for job_id, r in self._records.items() if r.decision)
        made.update(dict.fromkeys(self.rejected, QOS_REJECTED))
        for job_id in self._originals:
            made.pop(job_id, None)
        return made


def write_qos_log(log: QosLog, prefix: str | Path) -> Path:
    """Write ``PREFIX_qos.csv`` and return its path: one row a job, empty where nothing applies.

    Dates (seconds, absolute) and charges have six decimals, as in Batsim's files.
    """
    path = Path(f"{prefix}_qos.csv")
    with atomic_write(path) as stream:
        stream.write(",".join(log.columns()).encode() + b"\n")
        stream.writelines(_content(log))
    return path


def _content(log: QosLog) -> Iterator[bytes]:
    """Yield the rows of the file, some thousands at a time."""
    plain = log.plain_rows()
    if plain is not None:
        yield from plain
        return
    rows = log.rows()
    while part := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(part)
        yield text.getvalue().encode()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
