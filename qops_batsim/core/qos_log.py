"""The log of each job's quality of service: ``PREFIX_qos.csv``.

The driver of a scheduler fills the log with what goes over the protocol:
submissions, starts, rejections and kills. What only the module knows (offers,
reasons, charges) it adds itself, with :meth:`QosLog.record`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from qops_batsim.core.refusal import Refusal, RefusalKind, as_refusal, free_text, sentences
from qops_batsim.errors import require_type
from qops_batsim.files import atomic_write
from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED, Job, QosRequest

if TYPE_CHECKING:
    from qops_batsim.tables import Column, Words

QOS_COLUMNS = (
    "job_id",
    "workload_name",
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
"""The columns of ``PREFIX_qos.csv``; the first two name a job as ``_jobs.csv`` does."""

_NOTHING_ASKED = QosRequest()

_NUMBERS = (
    "offered_deadline",
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
    """What a scheduler recorded about a job: its row of ``PREFIX_qos.csv``; None or ``""`` is
    nothing.

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
        How often the scheduler killed and restarted the job, beyond
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
        """Why the job was refused, or its promise replaced: ``"asks for 5 processors, the machine
        has 4"``.

        Setting a text replaces all reasons by that text.
        """
        return sentences(self.reasons)

    @reason.setter
    def reason(self, text: str) -> None:
        self.reasons = (free_text(text),) if text else ()

    def note_renewal(self, broken: float, loss: Refusal) -> None:
        """Record that the promise ``broken`` (seconds) was replaced by a later one because hosts
        were lost.
        """
        self.new_promises += 1
        self.reasons += (msgspec.structs.replace(loss, broken=broken),)


class ToldJobs(NamedTuple):
    """All jobs of a simulation in order of submission, in columns: ids, users' requests, decisions.

    ``ids`` are those within the workloads; ``requests`` is None if no job has one.
    """

    ids: list[str]
    workloads: Words
    requests: Sequence[QosRequest | None] | None
    decisions: Sequence[str] | Words


class QosLog:
    """What a scheduler decided and recorded about all jobs of one simulation, for
    ``PREFIX_qos.csv``.

    Notes are appended to plain lists, because they are taken for every job;
    :meth:`rows` puts them together.

    Attributes
    ----------
    jobs
        The jobs submitted so far (and those registered by the scheduler), with
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
        "_promises",
        "_records",
        "_refusals",
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
        # Promised deadlines and refusals that are in no record yet: most jobs need none.
        self._promises: list[tuple[str, float]] = []
        self._refusals: list[tuple[str, Refusal]] = []
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

    def fill_later(
        self, fill: Callable[[QosLog], None], tell: Callable[[], ToldJobs] | None = None
    ) -> None:
        """Postpone filling the log: ``fill`` is called at first use, ``tell`` gives the jobs'
        columns before that, if it is given.
        """
        self._fill = fill
        self._tell = tell

    def _be_filled(self) -> None:
        fill = self._fill
        if fill is not None:
            # First, since it uses the log as well.
            self._fill = None
            self._tell = None
            fill(self)

    def record(self, job_id: str) -> QosRecord:
        """Return the record of a job, given its id with workload (``"w0!15"``); make an empty one
        at first. O(1).

        A scheduler uses it to record what it knows::

            self.qos_log.record(job.id).offered_deadline = offer
        """
        records = self._all_records()
        record = records.get(job_id)
        if record is None:
            record = records[job_id] = QosRecord()
        return record

    def _all_records(self) -> dict[str, QosRecord]:
        """Return the records by job, with all promises and refusals in them. O(these)."""
        records = self._records
        promises = self._promises
        refusals = self._refusals
        if promises:
            self._promises = []
        for job_id, deadline in promises:
            records.setdefault(job_id, QosRecord()).admitted_deadline = deadline
        if refusals:
            self._refusals = []
        for job_id, refusal in refusals:
            records.setdefault(job_id, QosRecord()).reasons = (refusal,)
        return records

    def promise(self, job_id: str, deadline: float) -> None:
        """Record the deadline (seconds) that was promised to a job, given by its id with workload.
        O(1).
        """
        self._promises.append((job_id, deadline))

    def refused(self, job_id: str, reason: object) -> None:
        """Record why a job, given by its id with workload, is rejected: a Refusal or a text."""
        require_type(f"reject of {job_id}: reason", reason, (str, Refusal), "a text or a Refusal")
        self._refusals.append((job_id, as_refusal(reason)))

    def learn(self, records: Mapping[str, QosRecord]) -> None:
        """Add records of jobs, by id, from another log; they replace records of the same jobs."""
        self._all_records().update(records)

    def promises(self, what: str = "admitted_deadline") -> dict[str, float]:
        """Return a numeric field of all records by job id, by default the promised deadlines
        (seconds). O(records).
        """
        records = self._all_records()
        given = {job_id: getattr(record, what) for job_id, record in records.items()}
        return {job_id: number for job_id, number in given.items() if number is not None}

    def restarted(self, job_id: str, original: str) -> None:
        """Register the job ``job_id`` as a restart of ``original``; all records are kept under the
        original's id.
        """
        self._originals[job_id] = original

    def note_restart(
        self, again: str, original: str, killed: str, for_job: str, wasted: float
    ) -> str:
        """Record that a job was killed and runs again as a new job; return a text for the new job's
        metadata.

        Parameters
        ----------
        again, original, killed
            Identifiers of the job that will repeat the work, of the job as it was submitted, and of
            the run that was killed.
        for_job
            Identifier of the job for which it was killed.
        wasted
            Work that was lost (processor-seconds).
        """
        self.restarted(again, original)
        record = self.record(original)
        record.wasted_processor_seconds = (record.wasted_processor_seconds or 0.0) + wasted
        self.record(for_job).reasons += (Refusal(kind=RefusalKind.KILLED_FOR_IT, blamed=killed),)
        return f"restart_of={original};killed_for={for_job}"

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns of ``PREFIX_qos.csv``. O(records)."""
        # Promises and refusals alone add no column, and need no records.
        records = self._all_records().values() if self._records else ()
        further = []
        if any(map(attrgetter("new_promises"), records)):
            further.append(NEW_PROMISES)
        if any(seconds is not None for seconds in map(attrgetter(PREDICTED_RUN_TIME), records)):
            further.append(PREDICTED_RUN_TIME)
        if any(map(attrgetter("queue"), records)):
            further += [QUEUE, PRICE]
        return (*QOS_COLUMNS, *further)

    def table(self) -> dict[str, Column]:
        """Return the contents of ``PREFIX_qos.csv`` as columns by name, in order of submission.

        A restarted job is in the row of the job as it was submitted. O(jobs).
        """
        from qops_batsim.tables import Words

        local_ids, workloads, requests, decisions = self._told()
        # Where nothing else was recorded, promises and refusals are written without a record each.
        found = self._all_records() if self._records else {}
        kills = self._all_kills()
        count = len(local_ids)
        table: dict[str, Column] = dict.fromkeys(self.columns(), Words.one("", count))
        table["job_id"] = local_ids
        table["workload_name"] = workloads
        table["decision"] = decisions
        table["kills"] = Words.one("0", count)
        is_noted = found or self._promises or self._refusals or kills
        if not count or not (is_noted or requests is not None):
            return table

        ids = [f"{name}!{each}" for name, each in zip(workloads.texts(), local_ids, strict=True)]
        row_of = dict(zip(ids, range(count), strict=True))
        records = {row_of[job_id]: each for job_id, each in found.items() if job_id in row_of}

        def with_noted(values: list[Any], name: str) -> list[Any]:
            for row, record in records.items():
                value = getattr(record, name)
                if value is not None:
                    values[row] = value
            return values

        asked = [request or _NOTHING_ASKED for request in requests or [None] * count]
        deadlines = [*map(attrgetter("deadline"), asked)]
        table["requested_deadline"] = _numbers(with_noted(deadlines, "requested_deadline"))
        promised = [*map(dict(self._promises).get, ids)]
        table["admitted_deadline"] = _numbers(with_noted(promised, "admitted_deadline"))
        for name in (*_NUMBERS, *({PREDICTED_RUN_TIME, PRICE} & table.keys())):
            table[name] = _numbers(with_noted([None] * count, name))

        categories = [each.category or "" for each in asked]
        for row, record in records.items():
            categories[row] = record.category or categories[row]
        if any(categories):
            table["category"] = categories

        refused = {row: record.reasons for row, record in records.items() if record.reasons}
        refused |= {row_of[job_id]: (each,) for job_id, each in self._refusals if job_id in row_of}
        if refused:
            told: dict[str, list[str]] = {
                name: [""] * count for name in ("reason", "reason_kind", "blamed_job")
            }
            blamed_dates: list[float | None] = [None] * count
            for row, reasons in refused.items():
                told["reason"][row] = sentences(reasons)
                told["reason_kind"][row] = reasons[0].kind.value
                told["blamed_job"][row] = reasons[0].blamed or ""
                blamed_dates[row] = reasons[0].date
            table |= told
            table["blamed_date"] = _numbers(blamed_dates)

        killed = with_noted([0] * count, "kills")
        if kills or any(killed):
            pairs = zip(ids, killed, strict=True)
            table["kills"] = [str(kills.get(job_id, 0) + times) for job_id, times in pairs]
        if NEW_PROMISES in table:
            table[NEW_PROMISES] = [*map(str, with_noted([0] * count, NEW_PROMISES))]
        if QUEUE in table:
            table[QUEUE] = with_noted([""] * count, QUEUE)
        return table

    def _told(self) -> ToldJobs:
        from qops_batsim.tables import Words

        if self._tell is not None:
            return self._tell()
        decisions = self.decisions()
        jobs = {job.id: job for job in self.jobs if job.id not in self._originals}
        requests = [job.qos for job in jobs.values()]
        pairs = [job_id.partition("!") for job_id in jobs]
        return ToldJobs(
            ids=[local for _, _, local in pairs],
            workloads=Words.of([workload for workload, _, _ in pairs]),
            requests=requests if any(qos is not None for qos in requests) else None,
            decisions=[decisions.get(job_id, "") for job_id in jobs],
        )

    def _all_kills(self) -> Counter[str]:
        kills: Counter[str] = Counter()
        for job_id, count in self.kills.items():
            kills[self._originals.get(job_id, job_id)] += count
        return kills

    def decisions(self) -> dict[str, str]:
        """Return the decision on each job by id (``accepted`` or ``rejected``), without undecided
        jobs. O(jobs).
        """
        made = dict.fromkeys(self.started, QOS_ACCEPTED)
        for job_id, record in self._all_records().items():
            if record.decision:
                made[job_id] = record.decision
        made.update(dict.fromkeys(self.rejected, QOS_REJECTED))

        for job_id in self._originals:
            made.pop(job_id, None)
        return made


def write_qos_log(log: QosLog, prefix: str | Path) -> Path:
    """Write a log to ``PREFIX_qos.csv`` and return the file's path."""
    path = Path(f"{prefix}_qos.csv")
    with atomic_write(path) as stream:
        stream.writelines(format_qos(log))
    return path


def format_qos(log: QosLog, without: Collection[str] = ()) -> Iterator[bytes]:
    """Yield the contents of ``PREFIX_qos.csv``, or those ``without`` some columns: a row per job,
    cells empty where nothing applies.

    Dates (seconds, absolute) and charges have six decimals, as in Batsim's files.
    """
    table = {name: column for name, column in log.table().items() if name not in without}
    yield from format_qos_table(table)


def format_qos_table(table: Mapping[str, Column]) -> Iterator[bytes]:
    """Yield the contents of ``PREFIX_qos.csv`` with these columns."""
    from qops_batsim.tables import format_table, shielded_column

    yield from format_table({name: _quoted(shielded_column(each)) for name, each in table.items()})


def _quoted(column: Column) -> Column:
    """Return a column with quotes around the texts that need them in a CSV file."""
    from qops_batsim.row_writer import are_plain

    if not isinstance(column, list) or are_plain(column):
        return column
    return [
        '"{}"'.format(text.replace('"', '""')) if _needs_quotes(text) else text for text in column
    ]


def _needs_quotes(text: str) -> bool:
    return any(character in text for character in _QUOTED)


def _numbers(values: Sequence[float | None]) -> Column:
    """Return a CSV column of numbers with six decimals; None becomes an empty cell."""
    import numpy as np

    from qops_batsim.tables import Words

    if values.count(None) == len(values):
        return Words.one("", len(values))
    column = np.array(values, float)
    if np.isnan(column).sum() > values.count(None):
        return ["" if value is None else f"{value:.6f}" for value in values]
    return column
