"""The common form of all logs: records of one kind, and facts about the log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from qops_batsim.errors import InputError
from qops_batsim.tables import Floats, Words

if TYPE_CHECKING:
    from qops_batsim.core.machine import Machine
    from qops_batsim.dates import Calendar
    from qops_batsim.job_fields import HostsAsked

# A star: may hold fractions.
_COLUMNS = """
    job_number submit_time* wait_time* run_time* allocated_processors average_cpu_time*
    used_memory* requested_processors requested_time* requested_memory* status user group
    executable queue partition preceding_job think_time*
"""

FIELDS = tuple(_COLUMNS.replace("*", "").split())
"""The 18 columns of the Standard Workload Format in order. Times are in seconds, memory in
kilobytes a processor."""

MEASURED = frozenset(name.rstrip("*") for name in _COLUMNS.split() if name.endswith("*"))
"""Columns that may hold fractions; the others are identifiers, codes and counts."""

RECORD = np.dtype([(name, np.float64 if name in MEASURED else np.int64) for name in FIELDS])
"""One record as a numpy structure: float64 for :data:`MEASURED` columns, else int64."""

STATUS_FAILED = 0
STATUS_COMPLETED = 1
STATUS_CANCELLED = 5
"""Statuses of jobs; cancelled ones may have started before."""
STATUS_PARTIAL = (2, 3, 4)
"""Statuses of the lines that tell one stretch of a job which another line tells whole."""

RERUNNABLE = "rerunnable"
"""The text of a log that says whether a job may be run again."""

NOT_RERUNNABLE = "false"
"""What it says if the job may not."""

Records = NDArray[Any]
"""An array of type :data:`RECORD`; -1 stands for "not known"."""


def unknown_records(count: int) -> Records:
    """Return records of jobs, numbered from 1, of which nothing else is known."""
    records = np.empty(count, RECORD)
    for name in FIELDS:
        records[name] = -1
    records["job_number"] = np.arange(1, count + 1)
    return records


class CancelledJobs(NamedTuple):
    """Jobs that were cancelled while they waited: their records, whose ``wait_time`` is how long
    they waited (seconds), their fields that are texts, by job number from 1, and what they asked of
    each host, where that is known.
    """

    records: Records
    texts: Mapping[str, Words] = MappingProxyType({})
    asked: Sequence[HostsAsked | None] | None = None


def names_of(records: Records, texts: Mapping[str, Words], field: str, unknown: str) -> list[str]:
    """Return the user, group, executable or queue (``field``) of each record as text: from
    ``texts``, else its number in the records, or ``unknown``.

    ``texts`` have a row for each record.
    """
    if field in texts:
        return texts[field].texts()
    return [unknown if number < 0 else str(number) for number in records[field].tolist()]


class Malformed(NamedTuple):
    """A line of a log, numbered from 1, that cannot be read, and the reason."""

    line: int
    problem: str


def refuse_lines(
    source: str, malformed: Sequence[Malformed], place: Callable[[int], str] = "line {}".format
) -> None:
    """Raise an InputError about the first malformed line, if there is one; ``place`` formats its
    number.
    """
    if malformed:
        first = min(malformed)
        others = len(malformed) - 1
        more = f" (and {others} more)" if others else ""
        raise InputError(f"{source}: {place(first.line)}: {first.problem}{more}")


class RepairCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs a log's reader or a repair left out or changed, and by which rule.

    ``rule`` is a field of :class:`~qops_batsim.workload.conversion.Repairs`, or one of those that
    have no choice (``partial``, ``no_submit_time``, ``submit_order``, and the readers' own),
    ``choice`` what was done (``"drop"``, ``"clip"``, ``"keep"``, ``"renumber"``, ``"merge"``,
    ``"sort"``); with ``keep`` the ``jobs`` are as they were. ``lines`` are those of a reader's: a
    line may stand for many jobs (the waiting tasks of an array).
    """

    rule: str
    description: str
    choice: str
    jobs: int
    lines: Sequence[int] = ()

    @classmethod
    def of_lines(
        cls, rule: str, description: str, lines: Sequence[int], choice: str = "drop"
    ) -> RepairCount:
        """Make the count of a repair from the lines of the jobs that it left out or changed."""
        return cls(rule=rule, description=description, choice=choice, jobs=len(lines), lines=lines)


@dataclass(eq=False, kw_only=True)
class Log(ABC):
    """A log: records with the fields of the Standard Workload Format, from any source."""

    records: Records
    cancelled: CancelledJobs | None = None
    """Jobs that were cancelled while they waited, where these are not among the records."""
    lines: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Line of the file, from 1, in which each record is."""
    source: str = "a log"
    sha256: str | None = None
    """Digest of the file as it is stored; None if it was made in memory."""
    format: str = ""
    """The name of its format."""
    ids: Sequence[str] | None = None
    """Identifiers of jobs, by job number from 1; None where the numbers are these."""
    texts: Mapping[str, Words] = field(default_factory=dict)
    """Fields of jobs that are texts, by job number from 1, where there are such ``ids``."""
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    """Further numbers of jobs by field, by job number from 1 or by record; NaN: not known."""
    left_out: Sequence[RepairCount] = ()
    """The records that the reader left out."""
    read: int = 0
    """Number of records read, those that were left out included."""
    credits: Mapping[str, str] = field(default_factory=dict)
    """The credits of the log, for workloads made from it."""
    size_is: str = ""
    """The meaning of the machine's size where no one stated it; else empty."""
    counted: str = ""
    """The rule by which sizes of jobs were counted, where that needs words; else empty."""
    open_jobs: Mapping[str, float] = field(default_factory=dict)
    """When the jobs that wait or run were submitted (seconds since 1970), by number."""
    not_counted: Sequence[str] = ()
    """Resources that jobs asked for and that are not counted, as memory."""
    asked: Words | None = None
    """What jobs ask of each host, by job number from 1: see :meth:`asked_of`."""
    machine: Machine | None = None
    """What each host of the machine has, if that was told."""
    nodes: Words | None = None
    """On which nodes jobs ran, as Slurm lists them, by job number from 1."""

    @abstractmethod
    def calendar(self, time_zone: str | None = None) -> Calendar:
        """Return the dates of the log's seconds, in this time zone if one is given, else in the
        log's; InputError if they are not known.
        """

    def asked_of(self, records: Records) -> Words | None:
        """Return what jobs ask of each host, as
        :mod:`~qops_batsim.workload.accounting.amounts` writes it; None where they are only counted.
        """
        return self.asked and self.asked.at(records["job_number"] - 1)

    @abstractmethod
    def machine_size(self) -> int | None:
        """Return the processors of the machine, or None."""

    @abstractmethod
    def no_machine_size(self) -> str:
        """Return a text that says why the size of the machine is unknown."""
