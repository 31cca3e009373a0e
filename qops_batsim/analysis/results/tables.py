"""Reading the tables of a run.

Every reader raises :class:`~qops_batsim.errors.InputError` that names file, row and column.
"""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from qops_batsim.errors import InputError, shown
from qops_batsim.files import read_text
from qops_batsim.jobs import FINAL_STATES, QOS_ACCEPTED, QOS_REJECTED, REJECTED
from qops_batsim.limits import MAX_SECONDS, MAX_STRETCH

EXECUTION_COLUMNS = (
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
)
"""Columns of seconds (``stretch``: a ratio) that are empty for a rejected job."""

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
"""What ``_qos.csv`` may say about a job."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


def mean(values: Floats) -> float | None:
    """Return the mean; None without any value."""
    return float(values.mean()) if len(values) else None


def _read_table(path: Path, what: str, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read a CSV file as text, without a guess about types."""
    text = read_text(path, what=what)
    if not text.strip():
        raise InputError(f"{path}: empty (did the simulation abort?); {what} is expected")
    header = next(csv.reader(io.StringIO(text[:100_000])), [])
    missing = [name for name in columns if name not in header]
    if missing:
        found = " ".join(", ".join(header).split())[:200]
        raise InputError(
            f"{path}: column{'s' if len(missing) > 1 else ''} {', '.join(missing)} missing "
            f"(found: {found or 'nothing'}); {what} is expected"
        )
    try:
        with warnings.catch_warnings():
            # A row with a surplus field must not silently lose it or shift the columns.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(io.StringIO(text), dtype=str, na_filter=False, index_col=False)
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        detail = " ".join(str(error).split())
        raise InputError(f"{path}: not a table ({detail}); {what} is expected") from None


def _refuse(path: Path, table: pd.DataFrame, column: str, wrong: Booleans, accepted: str) -> None:
    """Raise for the first row of ``wrong``, if any."""
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    job = f" (job {shown(str(table['job_id'].iloc[row]))})" if "job_id" in table.columns else ""
    raise InputError(
        f"{path}: row {row + 1}{job}: {column} is {shown(str(table[column].iloc[row]))}; "
        f"{accepted} is expected"
    )


def _unchecked(table: pd.DataFrame, column: str) -> Floats:
    return pd.to_numeric(table[column], errors="coerce").to_numpy(dtype=np.float64)


def _numbers(
    path: Path,
    table: pd.DataFrame,
    column: str,
    *,
    limit: float = MAX_SECONDS,
    exempt: Booleans | None = None,
    rest: str = "",
) -> Floats:
    """Return a text column as floats, NaN for cells of ``exempt`` that are no number.

    ``rest`` says in words what these may be.
    """
    values = _unchecked(table, column)
    wrong = ~(np.abs(values) <= limit)
    if exempt is not None:
        wrong &= ~exempt
    _refuse(path, table, column, wrong, f"a number up to {limit:g}{rest}")
    return values


def read_jobs_table(path: Path) -> pd.DataFrame:
    """Read a ``_jobs.csv``: numbers as floats, plus ``id``, the full identifier."""
    table = _read_table(path, "a _jobs.csv of Batsim", JOBS_COLUMNS)
    known = table["final_state"].isin(FINAL_STATES).to_numpy()
    _refuse(path, table, "final_state", ~known, f"one of {', '.join(FINAL_STATES)}")
    rejected = (table["final_state"] == REJECTED).to_numpy()
    _refuse(path, table, "job_id", (table["job_id"] == "").to_numpy(), "an identifier")
    data: dict[str, Any] = {"id": table["workload_name"] + "!" + table["job_id"]}
    for column in table.columns:
        if column not in _NUMBER_COLUMNS:
            data[column] = table[column]
            continue
        limit, exempt = MAX_SECONDS, np.zeros(len(table), dtype=np.bool_)
        if column in EXECUTION_COLUMNS:
            exempt = rejected & (table[column] == "").to_numpy()
        if column == "stretch":
            # Turnaround over a run time of 0 s: a job killed as it started.
            limit = MAX_STRETCH
            exempt |= table[column].isin(("inf", "-inf", "nan", "-nan")).to_numpy()
        data[column] = _numbers(path, table, column, limit=limit, exempt=exempt)
    whole = data["requested_number_of_resources"]
    bad = (whole < 0) | (whole != np.floor(whole))
    _refuse(path, table, "requested_number_of_resources", bad, "a whole number from 0 up")
    _refuse(path, table, "success", ~np.isin(data["success"], (0, 1)), "0 or 1")
    return pd.DataFrame(data)


def read_schedule(path: Path) -> dict[str, float]:
    """Read a ``_schedule.csv``: its values by column, NaN for what is not a number."""
    needed = ("nb_jobs", "nb_jobs_finished", "nb_computing_machines", "makespan")
    table = _read_table(path, "a _schedule.csv of Batsim", needed)
    if len(table) != 1:
        raise InputError(f"{path}: {len(table)} rows; a _schedule.csv has one")
    for column in needed:
        _numbers(path, table, column)
    return {str(column): float(_unchecked(table, column)[0]) for column in table.columns}


def read_machine_states(path: Path) -> pd.DataFrame:
    """Read dates and numbers of idle and computing hosts of a ``_machine_states.csv``."""
    columns = ("time", "nb_idle", "nb_computing")
    table = _read_table(path, "a _machine_states.csv of Batsim", columns)
    return pd.DataFrame({column: _numbers(path, table, column) for column in columns})


def read_qos(path: Path) -> pd.DataFrame:
    """Read decisions, admitted deadlines, latest starts and new promises of a ``_qos.csv``.

    Dates are NaN where there is none. A file of an earlier version has no latest starts, and
    one of a run without new promises no numbers of them.
    """
    table = _read_table(path, "a _qos.csv", ("job_id", "decision", "admitted_deadline"))
    known = table["decision"].isin(DECISIONS).to_numpy()
    _refuse(path, table, "decision", ~known, f"{QOS_ACCEPTED}, {QOS_REJECTED} or nothing")
    dates = {}
    for column in ("admitted_deadline", "latest_start"):
        if column not in table.columns:
            table[column] = ""
        empty = (table[column] == "").to_numpy()
        dates[column] = _numbers(path, table, column, exempt=empty, rest=", or nothing,")
    if "new_promises" not in table.columns:
        table["new_promises"] = "0"
    new = _numbers(path, table, "new_promises")
    decided = {"id": table["job_id"], "decision": table["decision"]}
    return pd.DataFrame({**decided, **dates, "new_promises": new})


def read_reasons(path: Path) -> dict[str, str]:
    """Read what a ``_qos.csv`` says in words about jobs, by full identifier."""
    table = _read_table(path, "a _qos.csv", ("job_id", "reason"))
    return dict(zip(table["job_id"], table["reason"], strict=True))
