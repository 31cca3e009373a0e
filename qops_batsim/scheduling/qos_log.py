"""Log of the quality of service of each job: ``PREFIX_qos.csv``.

The driver of a decision module fills the log with what goes over the protocol:
submissions, starts, rejections and kills. What only the module knows (offers,
reasons, charges) it adds itself, with :meth:`QosLog.record`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from qops_batsim.files import atomic_write
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED, Job, QosRequest
from qops_batsim.scheduling.refusal import Refusal, RefusalKind, free_text, sentences

if TYPE_CHECKING:
    from qops_batsim.tables import Column, Words

QOS_COLUMNS = (
    "job_id",
    "requested_deadline",
    "offered_deadline",
    "decision",
    "reason",
    "reason_kind",
    "blamed_job",
    "blamed_date",
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

_NUMBERS = (
    "offered_deadline",
    "admitted_deadline",
    "resource_charge",
    "qos_charge",
    "latest_start",
    "wasted_processor_seconds",
)

_QUOTED = ',"\r\n'
"""Characters for which a text is quoted in CSV."""

NEW_PROMISES = "new_promises"
"""A further column, where any promise was replaced."""

PREDICTED_RUN_TIME = "predicted_run_time"
"""A further column, where any run time was predicted."""

QUEUE, PRICE = "queue", "price"
"""Further columns, where any job is in a queue with a price."""


class QosRecord(msgspec.Struct, kw_only=True):
    """Notes of a module about one job; None and ``""`` stand for nothing.

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
    reasons
        Why: a refusal, and every loss of hosts for which the promise was replaced.
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
        hosts had left; the reasons say why.
    predicted_run_time
        What was planned with in place of the estimate (seconds), if that is less.
    queue, price
        Queue that the job is in, and the multiple of the usual charge that it pays there.
    """

    requested_deadline: float | None = None
    offered_deadline: float | None = None
    decision: str = ""
    reasons: tuple[Refusal, ...] = ()
    admitted_deadline: float | None = None
    category: str = ""
    resource_charge: float | None = None
    qos_charge: float | None = None
    kills: int = 0
    latest_start: float | None = None
    wasted_processor_seconds: float | None = None
    new_promises: int = 0
    predicted_run_time: float | None = None
    queue: str = ""
    price: float | None = None

    @property
    def reason(self) -> str:
        """The reasons in words for a reader: ``"asks for 5 processors, the machine has 4"``.

        A text that is set here is the only reason.
        """
        return sentences(self.reasons)

    @reason.setter
    def reason(self, text: str) -> None:
        self.reasons = (free_text(text),) if text else ()

    def note_renewal(self, broken: float, loss: Refusal) -> None:
        """Note that a promise (seconds) gave way to a new one, and why."""
        self.new_promises += 1
        self.reasons += (msgspec.structs.replace(loss, broken=broken),)


_NOTHING_NOTED = QosRecord()
_NO_REFUSAL = Refusal(kind=RefusalKind.NONE)


class ToldJobs(NamedTuple):
    """Jobs as told over the protocol, in the order of submission.

    Full identifiers, requests (None where no job has one), and what was decided.
    """

    ids: list[str]
    requests: Sequence[QosRequest | None] | None
    decisions: Sequence[str] | Words


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

    __slots__ = (
        "_fill",
        "_jobs",
        "_originals",
        "_records",
        "_rejected",
        "_started",
        "_tell",
        "kills",
    )

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._started: list[str] = []
        self._rejected: list[str] = []
        self._fill: Callable[[QosLog], None] | None = None
        self._tell: Callable[[], ToldJobs] | None = None
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

    def fill_later(self, fill: Callable[[QosLog], None], tell: Callable[[], ToldJobs]) -> None:
        """Have the lists filled when one of them is asked for; ``tell`` does without them."""
        self._fill, self._tell = fill, tell

    def _be_filled(self) -> None:
        if self._fill is not None:
            fill, self._fill, self._tell = self._fill, None, None
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

    def learn(self, records: Mapping[str, QosRecord]) -> None:
        """Take over what was noted in another log."""
        self._records.update(records)

    def promises(self, what: str = "admitted_deadline") -> dict[str, float]:
        """Return deadlines promised, or other numbers of records, by full id. O(records)."""
        given = {job_id: getattr(each, what) for job_id, each in self._records.items()}
        return {job_id: number for job_id, number in given.items() if number is not None}

    def restarted(self, job_id: str, original: str) -> None:
        """Note that a job (full id) is another one run again: all that is noted is of that one."""
        self._originals[job_id] = original

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns. O(records)."""
        records = self._records.values()
        further = []
        if any(record.new_promises for record in records):
            further.append(NEW_PROMISES)
        if any(record.predicted_run_time is not None for record in records):
            further.append(PREDICTED_RUN_TIME)
        if any(record.queue for record in records):
            further += [QUEUE, PRICE]
        return (*QOS_COLUMNS, *further)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each job under :meth:`columns`, in the order of submission.

        A job that was registered again is in the row of the original. O(jobs).
        """
        from qops_batsim.tables import cells

        return zip(*map(cells, self.table().values()), strict=True)

    def table(self) -> dict[str, Column]:
        """Return the cells of all jobs by column: see :meth:`rows`."""
        from qops_batsim.tables import Words

        ids, requests, decisions = self._told()
        found, kills = self._records, self._all_kills()
        table: dict[str, Column] = dict.fromkeys(self.columns(), Words.one("", len(ids)))
        table["job_id"], table["decision"] = ids, decisions
        table["kills"] = Words.one("0", len(ids))
        if not found and not kills and requests is None:
            return table
        records = [found.get(job_id, _NOTHING_NOTED) for job_id in ids]
        asked = [each or _NOTHING_ASKED for each in requests or [None] * len(ids)]
        table["requested_deadline"] = _numbers(
            [
                request.deadline if record.requested_deadline is None else record.requested_deadline
                for request, record in zip(asked, records, strict=True)
            ]
        )
        table["category"] = [
            record.category or request.category or ""
            for request, record in zip(asked, records, strict=True)
        ]
        for name in _NUMBERS:
            table[name] = _numbers([getattr(record, name) for record in records])
        table["reason"] = [record.reason if record.reasons else "" for record in records]
        first = [record.reasons[0] if record.reasons else _NO_REFUSAL for record in records]
        table["reason_kind"] = [each.kind.value for each in first]
        table["blamed_job"] = [each.blamed or "" for each in first]
        table["blamed_date"] = _numbers([each.date for each in first])
        counts = zip(ids, records, strict=True)
        table["kills"] = [str(kills.get(job_id, 0) + record.kills) for job_id, record in counts]
        if NEW_PROMISES in table:
            table[NEW_PROMISES] = [str(record.new_promises) for record in records]
        if PREDICTED_RUN_TIME in table:
            table[PREDICTED_RUN_TIME] = _numbers([record.predicted_run_time for record in records])
        if QUEUE in table:
            table[QUEUE] = [record.queue for record in records]
            table[PRICE] = _numbers([record.price for record in records])
        return table

    def _told(self) -> ToldJobs:
        if self._tell is not None:
            return self._tell()
        decisions = self.decisions()
        jobs = {job.id: job for job in self.jobs if job.id not in self._originals}
        requests = [job.qos for job in jobs.values()]
        return ToldJobs(
            ids=list(jobs),
            requests=requests if any(each is not None for each in requests) else None,
            decisions=[decisions.get(job_id, "") for job_id in jobs],
        )

    def _all_kills(self) -> Counter[str]:
        kills: Counter[str] = Counter()
        for job_id, count in self.kills.items():
            kills[self._originals.get(job_id, job_id)] += count
        return kills

    def decisions(self) -> dict[str, str]:
        """Return what was decided by full id; undecided jobs are missing. O(jobs)."""
        made = dict.fromkeys(self.started, QOS_ACCEPTED)
        made.update((job_id, r.decision) for job_id, r in self._records.items() if r.decision)
        made.update(dict.fromkeys(self.rejected, QOS_REJECTED))
        for job_id in self._originals:
            made.pop(job_id, None)
        return made


def write_qos_log(log: QosLog, prefix: str | Path) -> Path:
    """Write ``PREFIX_qos.csv`` and return its path."""
    path = Path(f"{prefix}_qos.csv")
    with atomic_write(path) as stream:
        stream.writelines(format_qos(log))
    return path


def format_qos(log: QosLog) -> Iterator[bytes]:
    """Yield ``_qos.csv``: one row a job, empty where nothing applies.

    Dates (seconds, absolute) and charges have six decimals, as in Batsim's files.
    """
    from qops_batsim.tables import format_rows, shielded_column

    table = log.table()
    columns = [_quoted(shielded_column(column)) for column in table.values()]
    yield ",".join(table).encode() + b"\n"
    yield from format_rows(columns, len(table["job_id"]))


def _quoted(column: Column) -> Column:
    """Return a column in which texts are quoted that would else not be one cell of CSV."""
    if not isinstance(column, list) or not _needs_quotes("".join(column)):
        return column
    return [
        '"{}"'.format(text.replace('"', '""')) if _needs_quotes(text) else text for text in column
    ]


def _needs_quotes(text: str) -> bool:
    return any(each in text for each in _QUOTED)


def _numbers(values: list[float | None]) -> Column:
    """Return numbers to be written with six decimals, and as empty cells where there is none."""
    import numpy as np

    column = np.array(values, float)
    if np.isnan(column).sum() > values.count(None):
        return ["" if value is None else f"{value:.6f}" for value in values]
    return column
