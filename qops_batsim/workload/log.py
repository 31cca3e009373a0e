"""What every reader of logs makes: records of one kind, and what is known besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from qops_batsim.dates import Calendar

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

STATUS_FAILED, STATUS_COMPLETED, STATUS_CANCELLED = 0, 1, 5
"""Statuses of jobs; cancelled ones may have started before."""
STATUS_PARTIAL = (2, 3, 4)
"""Statuses of the lines that tell one stretch of a job which another line tells whole."""

Records = NDArray[Any]
"""An array of type :data:`RECORD`; -1 stands for "not known"."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader did not take for a job, or took for a part of one, and in which lines.

    ``jobs`` counts them: a line may stand for many (the waiting tasks of an array).
    """

    rule: str
    description: str
    jobs: int
    lines: Sequence[int]
    choice: str = "drop"


class Log(Protocol):
    """A workload log: records as in the Standard Workload Format, whatever it was read from."""

    command: ClassVar[str]
    """The command that converts it."""
    records: Records
    lines: NDArray[np.int64]
    """Line of the file, from 1, in which each record is."""
    source: str
    sha256: str | None
    """Digest of the file as it is stored; None if it was made in memory."""

    @property
    def texts(self) -> Mapping[str, Sequence[str]]:
        """Fields of jobs that are texts, ``id`` among them, by job number from 1; else empty."""

    @property
    def left_out(self) -> Sequence[LeftOut]:
        """What the reader left out."""

    @property
    def read(self) -> int:
        """How many records were read, those that were left out included."""

    @property
    def credits(self) -> Mapping[str, str]:
        """What a workload has to tell of the log it was made from."""

    def calendar(self, time_zone: str | None = None) -> Calendar:
        """Return the site's dates, or raise an InputError; a time zone replaces the log's."""

    def machine_size(self) -> int | None:
        """Return the processors of the machine, or None."""

    def no_machine_size(self) -> str:
        """Return why the machine has no size, in words."""
