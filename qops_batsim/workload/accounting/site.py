"""Accounting of any site as a table (CSV), by a mapping of its columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.tables import Words
from qops_batsim.workload.accounting.cells import read_cells
from qops_batsim.workload.accounting.rows import Choices, Rows, rows_of_table
from qops_batsim.workload.log import Malformed

MAPPED = (
    *("id", "state", "submit", "eligible", "start", "end", "run_time", "walltime"),
    *("user", "group", "queue", "qos", "reservation", "processors", "nodes", "gpus"),
)
"""Meanings that a column of any table may have."""

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class CsvForm:
    """Form of a site's own table: the meaning of its columns, and the unit of durations.

    ``columns`` are names in the header by what they say (:data:`MAPPED`), ``units`` those of plain
    numbers in the columns of ``run_time`` and ``walltime`` (:data:`UNITS`; seconds by default).
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        units: Mapping[str, str] | None = None,
        delimiter: str = "",
    ) -> None:
        self.columns = dict(columns)
        self.units = {"run_time": 1.0, "walltime": 1.0}
        self.delimiter = delimiter
        for name in columns:
            if name not in MAPPED:
                raise InputError(f"nothing is called {shown(name)}{did_you_mean(name, MAPPED)}")
        for name, unit in (units or {}).items():
            if name not in self.units:
                raise InputError(f"{shown(name)} has no unit{did_you_mean(name, self.units)}")
            if unit not in UNITS:
                raise InputError(f"unit {shown(unit)} is not known{did_you_mean(unit, UNITS)}")
            self.units[name] = UNITS[unit]
        if "id" not in columns or "submit" not in columns:
            raise InputError("columns of id and submit are not both given; both are expected")
        if "run_time" not in columns and not {"start", "end"} <= columns.keys():
            raise InputError(
                "no column of run_time, or of start and end, is given; one is expected"
            )
        if not {"processors", "nodes", "gpus"} & columns.keys():
            raise InputError("no column of processors is given; one is expected")


def csv_rows(
    content: bytes, source: str, choices: Choices, form: CsvForm
) -> tuple[Rows, list[Malformed]]:
    """Return the rows of a site's own table, and the lines that are none; O(bytes)."""
    what = "a table with a header (CSV)"
    header = content[:4096].partition(b"\n")[0].decode("latin-1")
    delimiter = form.delimiter or next((each for each in ",;\t|" if each in header), ",")
    table = read_cells(content, source, what, delimiter=delimiter, quoted=True)
    for says, name in form.columns.items():
        if name not in table:
            hint = did_you_mean(name, table.header)
            raise InputError(f"{source}: no column {shown(name)} (of {says}){hint}")
        if name in table.repeated:
            raise InputError(
                f"{source}: several columns are called {shown(name)} (of {says}); one is expected"
            )
    read = len(table.lines) + len(table.malformed)
    columns = {says: [name] for says, name in form.columns.items()}
    rows = rows_of_table(table, columns, form.units, choices)
    unit = choices.by if choices.by in ("nodes", "gpus") else "processors"
    size = form.columns.get(unit)
    if size is None:
        raise InputError(f"{source}: no column is mapped to the count of {choices.by}")
    rows.processors = table.counts(size)
    if "gpus" in form.columns:
        rows.numbers["gpus"] = table.counts(form.columns["gpus"])
    rows.ids = [each.strip() for each in rows.ids]
    for field, names in rows.texts.items():
        rows.texts[field] = Words([word.strip() for word in names.words], names.which)
    empty = np.array([not each for each in rows.ids], np.bool_)
    table.refuse(empty, form.columns["id"], "the name of a job")
    rows.read = read
    if table.bad.any():
        rows.take(~table.bad)
    return rows, table.malformed
