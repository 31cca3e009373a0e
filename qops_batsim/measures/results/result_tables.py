"""Tables of a run, the precision of their numbers, and the ids of jobs' later runs.

Every reader raises :class:`~qops_batsim.errors.InputError` that names file, row and column.
Numbers have six decimals. ``15#1`` is job ``15`` once more, which was killed and run again,
``15#2`` a third time: jobs of their own to Batsim, but one job to its user.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from qops_batsim.errors import InputError, shown
from qops_batsim.files import decoded, read_bytes
from qops_batsim.job_fields import is_number
from qops_batsim.jobs import FINAL_STATES, QOS_ACCEPTED, QOS_REJECTED, REJECTED
from qops_batsim.limits import MAX_AMOUNT, MAX_DESCRIPTION_BYTES, MAX_SPAN, MAX_STRETCH
from qops_batsim.tables import (
    AnyTexts,
    Choices,
    Column,
    Form,
    PlainTexts,
    Table,
    joined_texts,
    number_in,
    read_table,
)
from qops_batsim.timing import PLAN_TOLERANCE

EXECUTION_COLUMNS = (
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
)
"""Columns of seconds (``stretch``: a ratio) that are empty for a rejected job."""

DURATIONS = {
    "waiting_time": ("starting_time", "submission_time"),
    "execution_time": ("finish_time", "starting_time"),
    "turnaround_time": ("finish_time", "submission_time"),
}
"""Columns that are the difference of two others."""

_TEXT_COLUMNS = ("job_id", "workload_name", "profile", "final_state", "allocated_resources")
_NUMBER_COLUMNS = (
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    *EXECUTION_COLUMNS,
)
JOBS_COLUMNS = (*_TEXT_COLUMNS, *_NUMBER_COLUMNS)
"""Columns that ``_jobs.csv`` must have."""

DECISIONS = ("", QOS_ACCEPTED, QOS_REJECTED)
"""Answers to a job in ``_qos.csv``."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


def mean(values: Floats) -> float | None:
    """Return the mean; None without values."""
    return float(values.mean()) if len(values) else None


class JobsFile(NamedTuple):
    """A ``_jobs.csv`` as columns, one element for each row.

    Attributes
    ----------
    names
        All columns, in the order of the file.
    numbers
        Columns of numbers: seconds, processors; NaN where a rejected job has none.
    states
        Final states: positions in :data:`~qops_batsim.jobs.FINAL_STATES`.
    texts
        All other columns.
    """

    names: list[str]
    numbers: dict[str, Floats]
    states: Choices
    texts: dict[str, AnyTexts]


class MachineStates(NamedTuple):
    """A ``_machine_states.csv``: dates (s), numbers of idle and computing hosts."""

    times: Floats
    idle: Floats
    computing: Floats


class Decisions(NamedTuple):
    """A ``_qos.csv`` (the scheduler's decisions on jobs) as columns.

    ``decisions`` are positions in :data:`DECISIONS`; ``cancelled`` tells which jobs were rejected
    because their users cancelled them. ``columns`` are all of the file's
    by name: numbers (NaN for an empty cell) or texts, ``job_id`` and ``workload_name`` as in
    ``_jobs.csv``; what an older file lacks is there as well if every run has it.
    """

    decisions: Choices
    cancelled: Booleans
    columns: dict[str, Any]

    @property
    def ids(self) -> list[str]:
        """Full identifiers."""
        return joined_texts(self.columns["workload_name"], self.columns["job_id"], "!")

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers of the ``_qos.csv``; all NaN if the file lacks it."""
        values: Floats = self.columns.get(name, np.full(len(self.decisions), np.nan))
        return values

    def by_id(self, name: str) -> dict[str, float]:
        """Return the numbers of a column by full job id; empty cells are left out."""
        pairs = zip(self.ids, self.numbers(name).tolist(), strict=True)
        return {job_id: value for job_id, value in pairs if not math.isnan(value)}

    @property
    def has_promises(self) -> bool:
        """Whether any job was promised a deadline or a latest start."""
        dates = map(self.numbers, ("admitted_deadline", "latest_start"))
        return any(not np.isnan(each).all() for each in dates)


def _check_numbers(
    table: Table,
    column: str,
    *,
    limit: float = MAX_SPAN,
    exempt: Booleans | None = None,
) -> Floats:
    """Return a column of a table; InputError if a cell is no number or beyond ``limit``, except in
    the ``exempt`` rows.
    """
    values = table.numbers[column]
    wrong = ~(np.abs(values) <= limit)
    if exempt is not None:
        wrong &= ~exempt
    table.refuse(column, wrong, f"a number up to {limit:g}")
    return values


_JOBS = Form(
    what="a _jobs.csv of Batsim",
    needed=JOBS_COLUMNS,
    numbers=_NUMBER_COLUMNS,
    choices={"final_state": FINAL_STATES},
    others=True,
)


Written = Mapping[str, Column] | None
"""The columns of a file that this process has just written, which is not read then."""


def read_jobs_table(path: Path, written: Written = None) -> JobsFile:
    """Read a ``_jobs.csv``."""
    return read_table(path, _JOBS, _jobs_of, written)


def _jobs_of(table: Table) -> JobsFile:
    states = table.choices["final_state"]
    table.refuse("final_state", states < 0, f"one of {', '.join(FINAL_STATES)}")
    rejected = states == FINAL_STATES.index(REJECTED)
    table.refuse("job_id", table.texts["job_id"].are_empty(), "an identifier")

    for column in table.names:
        if column not in _NUMBER_COLUMNS:
            continue

        limit = MAX_SPAN
        exempt = rejected & table.empty[column]
        if column not in EXECUTION_COLUMNS:
            exempt[:] = False

        if column == "stretch":
            # Turnaround over a run time of 0 s: a job killed as it started.
            limit = MAX_STRETCH
            exempt = exempt | table.not_finite(column)

        _check_numbers(table, column, limit=limit, exempt=exempt)

    whole = table.numbers["requested_number_of_resources"]
    success = table.numbers["success"]
    bad = (whole < 0) | (whole != np.floor(whole))
    table.refuse("requested_number_of_resources", bad, "a whole number from 0 up")
    table.refuse("success", ~np.isin(success, (0, 1)), "0 or 1")
    texts = dict(table.texts)
    texts["profile"] = _local_names(texts["profile"], texts["workload_name"])
    return JobsFile(table.names, table.numbers, states, texts)


def _local_names(profiles: AnyTexts, workloads: AnyTexts) -> AnyTexts:
    """Return profile names without the workload's name that Batsim 5 puts in front (``w0!``)."""
    if not (len(profiles) and profiles[0].startswith(f"{workloads[0]}!")):
        return profiles
    pairs = zip(profiles, workloads, strict=True)
    return PlainTexts(profile.removeprefix(f"{workload}!") for profile, workload in pairs)


TOTALS = ("nb_jobs", "nb_jobs_finished", "nb_computing_machines", "makespan")
"""Totals that each run has."""


def read_schedule(path: Path) -> dict[str, float]:
    """Read a run's totals from a ``_schedule.csv``: values by column, NaN for what is no number."""
    form = Form(what="a _schedule.csv of Batsim", needed=TOTALS, numbers=TOTALS, others=True)

    def values_of(table: Table) -> dict[str, float]:
        if table.size != 1:
            raise InputError(f"{path}: {table.size} rows; one row is expected in a _schedule.csv")
        for column in TOTALS:
            _check_numbers(table, column)
        return {
            name: number_in(table.texts[name][0])
            if name in table.texts
            else float(table.numbers[name][0])
            for name in table.names
        }

    return read_table(path, form, values_of)


_WRONG = ("time_computing", "time_idle")
"""Totals that 5.0.0-rc2 gets wrong: no host is idle again."""

_totals = msgspec.json.Decoder(dict[str, Any])
_UNDEFINED = re.compile(rb"(:\s*)-?nan\b")
"""Undefined means are written as C does, which is no JSON."""


def read_totals(path: Path) -> dict[str, float]:
    """Read the totals of a Batsim 5 run from ``schedule.json``: values by name, NaN for what is no
    number.

    The time that hosts compute or idle is left out, since it is wrong there.
    """
    what = "a schedule.json of Batsim 5"
    content = read_bytes(path, what=what, max_bytes=MAX_DESCRIPTION_BYTES)
    totals = decoded(_UNDEFINED.sub(rb"\1null", content), _totals, path, what)
    for name in TOTALS:
        if not is_number(totals.get(name)):
            value = shown(totals[name]) if name in totals else "missing"
            raise InputError(f"{path}: {name} is {value}; a number is expected")
    return {
        name: float(total) if is_number(total) else math.nan
        for name, total in totals.items()
        if name not in _WRONG
    }


AVERAGED = {
    "waiting_time": "waiting_time",
    "turnaround_time": "turnaround_time",
    "slowdown": "stretch",
}
"""Columns of ``_jobs.csv`` whose mean and maximum ``_schedule.csv`` has, by their names there."""


_MACHINE_STATES = Form(
    what="a _machine_states.csv of Batsim",
    needed=("time", "nb_idle", "nb_computing"),
    numbers=("time", "nb_idle", "nb_computing"),
)


def read_machine_states(path: Path, written: Written = None) -> MachineStates:
    """Read a ``_machine_states.csv``."""
    return read_table(path, _MACHINE_STATES, _machine_states_of, written)


def _machine_states_of(table: Table) -> MachineStates:
    return MachineStates(*(_check_numbers(table, column) for column in _MACHINE_STATES.needed))


_QOS = Form(
    what="a _qos.csv",
    needed=("workload_name", "job_id", "decision", "admitted_deadline"),
    numbers=(
        "requested_deadline",
        "admitted_deadline",
        "latest_start",
        "predicted_run_time",
        "new_promises",
        "price",
        "wasted_processor_seconds",
        "offered_deadline",
        "blamed_date",
        "resource_charge",
        "qos_charge",
        "kills",
    ),
    choices={"decision": DECISIONS, "reason_kind": ("cancelled",)},
    texts=("decision", "reason_kind"),
    others=True,
)


def read_qos(path: Path, written: Written = None) -> Decisions:
    """Read a ``_qos.csv``; ``latest_start`` and ``new_promises`` are filled in if the file lacks
    them.
    """
    return read_table(path, _QOS, _decisions_of, written)


def _decisions_of(table: Table) -> Decisions:
    decisions = table.choices["decision"]
    table.refuse("decision", decisions < 0, f"{QOS_ACCEPTED}, {QOS_REJECTED} or nothing")
    for column, values in table.numbers.items():
        if column in ("new_promises", "kills"):
            wrong = (values < 0) | (values != np.floor(values))
            accepted = "a whole number from 0 up"
        else:
            # What was promised may be later than what then came.
            wrong = ~(np.abs(values) <= MAX_AMOUNT) & ~table.empty[column]
            accepted = f"a number up to {MAX_AMOUNT:g}, or nothing,"

        table.refuse(column, wrong, accepted)

    cancelled = table.choices.get("reason_kind", np.full(table.size, -1, np.int8)) == 0
    columns: dict[str, Any] = {name: (table.numbers | table.texts)[name] for name in table.names}
    columns.setdefault("latest_start", np.full(table.size, np.nan))
    columns.setdefault("new_promises", np.zeros(table.size))
    table.refuse(
        "workload_name", table.texts["workload_name"].are_empty(), "the name of a workload"
    )
    return Decisions(decisions, cancelled, columns)


ROUNDING = 0.5e-6
"""Largest error of a number written with six decimals."""

DATE_TOLERANCE = PLAN_TOLERANCE + 2 * ROUNDING
"""Dates and durations of a run's files closer than this (seconds) are equal."""

NULL_RUN_TIME = 1e-5
"""Run time (seconds) that Batsim writes for a job that ran for none at all.

Its hosts are free again at the real end, up to this much before the written one.
"""


def lasting(run_time: Floats) -> Booleans:
    """Return which run times (seconds) are really above 0; Batsim writes a tiny one
    (:data:`NULL_RUN_TIME`) instead of 0.
    """
    return run_time > NULL_RUN_TIME + DATE_TOLERANCE


def real_ends(start: Floats, finish: Floats) -> Floats:
    """Return the earliest possible end of each job (seconds): its start if the job may have run for
    0 s, else its written finish.
    """
    return np.where(lasting(finish - start - np.spacing(np.abs(finish))), finish, start)


def tolerance(*dates: Floats, planning: float = PLAN_TOLERANCE) -> Floats:
    """Return, for each element, by how much two dates in a run's files may differ and still be
    equal (seconds).

    The tolerance of planning and two roundings, plus a few units in the last place for
    dates so late that floats are coarse.
    """
    slack: Floats = np.spacing(reduce(np.maximum, map(np.abs, dates)))
    slack *= 4
    slack += planning + 2 * ROUNDING
    return slack


def differ(
    found: Floats, expected: Floats, *dates: Floats, planning: float = PLAN_TOLERANCE
) -> Booleans:
    """Return where ``found`` and ``expected``, dates or durations, differ by more than
    :func:`tolerance`.

    ``dates`` are further columns that ``expected`` was computed from.
    """
    slack = tolerance(found, expected, *dates, planning=planning)
    return np.abs(found - expected) > slack


def first_run_id(job_id: str) -> str | None:
    """Return the id of a job's first run, given the id of a later run: ``15`` for ``15#1``; None
    for the id of a first run.
    """
    origin, mark, number = job_id.rpartition("#")
    return origin if mark and number.isdecimal() else None


def is_continuation(profile: str) -> bool:
    """Return whether a run continues a stopped run of its job (profile named like ``work#15#1``)
    rather than starting again.
    """
    name, _, number = profile.rpartition("#")
    return number.isdecimal() and "#" in name


def saved_times(run_times: Floats, checkpoints: Floats | float) -> Floats:
    """Return how many seconds of each killed run its checkpoints saved, given the intervals between
    checkpoints (seconds).

    0 for a run without checkpoints, whose interval is not finite.
    """
    saves = np.isfinite(checkpoints)
    intervals = np.where(saves, checkpoints, 1.0)
    done: Floats = np.floor((run_times + PLAN_TOLERANCE) / intervals) * intervals
    return np.where(saves, done, 0.0)


def rows_before(job_ids: Sequence[str]) -> dict[int, int]:
    """Return a dict from the row of each later run of a job (``15#1``) to the row of the run before
    it (``15``); O(rows).
    """
    if not any("#" in name for name in job_ids):
        return {}

    row_of = {name: row for row, name in enumerate(job_ids)}
    before: dict[int, int] = {}
    for row, name in enumerate(job_ids):
        origin = first_run_id(name)
        if origin is None:
            continue

        number = int(name.rpartition("#")[2])
        earlier = row_of.get(origin if number == 1 else f"{origin}#{number - 1}")
        if earlier is not None:
            before[row] = earlier

    return before


def original_id(job_id: str, known: Container[str]) -> str | None:
    """Return the id in ``known`` of the job that ``job_id`` is a run of: ``15`` for ``15`` or
    ``15#1``; None if there is none.
    """
    if job_id in known:
        return job_id
    origin = first_run_id(job_id)
    return origin if origin in known else None
