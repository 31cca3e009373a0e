"""A site's own accounting table (CSV), read with a mapping of its columns."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Mapping
from functools import cache

import msgspec
import numpy as np

from qops_batsim.errors import InputError, did_you_mean, require_one_of, shown
from qops_batsim.tables import Floats, Words, number_in
from qops_batsim.workload.accounting.amounts import MEBIBYTE, memory_in_all, requests_of
from qops_batsim.workload.accounting.cells import (
    TextTable,
    is_none,
    read_cells,
    read_memory,
    special_number,
)
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.rows import Rows, repeated_keys, rows_of_table
from qops_batsim.workload.log_formats import PARQUET, mark_of, published_tables, table_names

_AMOUNTS = ("gpus", "memory", "power", "energy")
"""Meanings that are numbers, which jobs keep as fields: MB, W and J but for GPUs."""

MAPPED = (
    *("id", "state", "submit", "eligible", "start", "end", "run_time", "suspended", "walltime"),
    *("user", "group", "queue", "qos", "reservation", "processors", "cores", "nodes", "requeue"),
    *("cluster", *_AMOUNTS),
)
"""Meanings that a column of any table may have."""

TIMES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
UNITS: dict[str, dict[str, float]] = {
    "run_time": TIMES,
    "suspended": TIMES,
    "walltime": TIMES,
    "processors": {"milli": 0.001},
    "memory": {
        f"{unit}{of}": size
        for of in ("", "/host", "/core")
        for unit, size in {"MB": 1.0, "GB": 1024.0, "KB": 1 / 1024, "B": 1 / 2**20}.items()
    },
    "energy": {"J": 1.0, "kWh": 3.6e6},
}
"""Units of plain numbers by the meaning of their column; memory, in multiples of 1,024, is of the
whole job, or of each host or core."""


class CsvForm:
    """How to read a site's own table of jobs: the meanings and units of its columns.

    ``columns`` are names in the header by what they say (:data:`MAPPED`), ``units`` those of plain
    numbers by the same (:data:`UNITS`; seconds and MB by default). ``states`` are words for states,
    and dates without UTC offset those of ``time_zone``, where a choice does not say otherwise.
    ``cores`` is another name for ``processors``. ``memory_of`` says whether memory is of the
    ``job``, each ``host`` or each ``core``, ``unclear`` if only that of a job on one host is known,
    ``unknown`` if its unit is not. ``one_host``: every job is on one host.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        units: Mapping[str, str] | None = None,
        delimiter: str = "",
        states: Mapping[str, str] | None = None,
        time_zone: str | None = None,
        memory_of: str = "job",
        *,
        one_host: bool = False,
    ) -> None:
        if "cores" in columns:
            if "processors" in columns:
                raise InputError(
                    "columns of processors and cores, which mean the same, are both given; map one"
                )
            columns = {"processors" if n == "cores" else n: c for n, c in columns.items()}
        self.columns = dict(columns)
        self.memory_of = memory_of
        self.one_host = one_host
        self.units = {"run_time": 1.0, "suspended": 1.0, "walltime": 1.0}
        self.delimiter = delimiter
        self.states = dict(states or {})
        self.time_zone = time_zone

        for name in columns:
            if name not in MAPPED:
                raise InputError(
                    f"nothing is called {shown(name)} that a column can be mapped to"
                    f"{did_you_mean(name, MAPPED)}"
                )
        for name, unit in (units or {}).items():
            if name not in UNITS:
                raise InputError(
                    f"column meaning {shown(name)} has no unit to choose{did_you_mean(name, UNITS)}"
                )
            if unit not in UNITS[name]:
                raise InputError(
                    f"{name}: unit {shown(unit)} is not known{did_you_mean(unit, UNITS[name])}"
                )
            self.units[name] = UNITS[name][unit]
            if name == "memory" and "/" in unit:
                self.memory_of = unit.partition("/")[2]

        if "id" not in columns or "submit" not in columns:
            raise InputError(
                "columns of id and submit are not both given; map a column to each of them "
                "(--map id=COLUMN,submit=COLUMN)"
            )
        if "run_time" not in columns and not {"start", "end"} <= columns.keys():
            raise InputError(
                "no column of run_time, or of start and end, is given; map a column to run_time, "
                "or one to each of start and end (--map)"
            )
        if not {"processors", "nodes", "gpus"} & columns.keys():
            raise InputError(
                "no column of processors is given; map one to processors, nodes or gpus (--map)"
            )


def _amount(text: str) -> float | None:
    if is_none(text) or special_number(text) is not None:
        return math.nan
    value = number_in(text)
    return value if 0 <= value < 2.0**63 else None


def _megabytes(text: str) -> float | None:
    size, _ = read_memory(text)
    return None if math.isinf(size) else size / MEBIBYTE


@cache
def profiles() -> dict[str, CsvForm]:
    """Return, by name, how to read each published log that is a table (``eagle`` ...)."""
    return {
        name: CsvForm(
            description["columns"],
            description.get("units"),
            "",
            description.get("states"),
            description.get("time_zone"),
            description.get("memory_of", "job"),
            one_host=description.get("one_host", False),
        )
        for name, description in published_tables().items()
    }


def profile(name: str) -> CsvForm:
    """Return how to read the table of the published log of this name; InputError if unknown."""
    require_one_of("profile", name, profiles())
    return profiles()[name]


def _parquet_table(content: bytes, source: str, wanted: Collection[str]) -> TextTable:
    """Read the columns of a Parquet table whose names are ``wanted``, as texts."""
    import polars as pl
    import polars.selectors as cs

    names = [name for name in table_names(content) if name in wanted]
    aware = cs.datetime(time_zone="*").dt.epoch("s")
    frame = (
        pl.scan_parquet(io.BytesIO(content))
        .select(names)
        .with_columns(cs.list().list.mean())
        .with_columns(cs.duration().dt.total_seconds(), aware)
        .with_columns(cs.datetime().dt.strftime("%Y-%m-%dT%H:%M:%S"))
        .select(pl.all().cast(pl.String).fill_null(""))
        .collect(engine="streaming")
    )
    lines = np.arange(1, frame.height + 1)
    return TextTable(source, names, frame, lines)


def csv_rows(content: bytes, source: str, choices: Choices, form: CsvForm) -> Rows:
    """Read a site's own table (CSV or Parquet) into rows of jobs, as ``form`` says; O(bytes)."""
    choices = msgspec.structs.replace(
        choices,
        state_names={**form.states, **choices.state_names},
        time_zone=choices.time_zone or form.time_zone,
    )
    if content.startswith(PARQUET):
        table = _parquet_table(content, source, {*form.columns.values()})
    else:
        header = content[:4096].partition(b"\n")[0].decode("latin-1")
        delimiter = form.delimiter or mark_of(header)
        what = "a table with a header (CSV)"
        table = read_cells(content, source, what, delimiter=delimiter, quoted=True)

    for says, name in form.columns.items():
        if name not in table:
            hint = did_you_mean(name, table.header)
            raise InputError(
                f"{source}: the header has no column {shown(name)}, mapped to {says}{hint}"
            )
        if name in table.repeated:
            raise InputError(
                f"{source}: several columns are called {shown(name)}, mapped to {says}; one is "
                "expected"
            )
    rows = rows_of_table(
        table, {says: [name] for says, name in form.columns.items()}, form.units, choices
    )
    rows.read = len(table)

    by_amounts = choices.by == "amounts"
    if by_amounts and not (form.one_host or "nodes" in form.columns):
        raise InputError(
            f"{source}: no column tells on how many hosts a job is; name it (--map nodes=COLUMN), "
            "or count jobs by another resource (--by)"
        )
    unit = choices.unit if choices.unit in ("nodes", "gpus") else "processors"
    if by_amounts and form.one_host:
        unit = "processors"
    if unit not in form.columns and unit == "processors" and "nodes" in form.columns:
        unit = "nodes"
        rows.tell("in_nodes", "counted in nodes: the table tells no cores", rows.lines.tolist())
    size = form.columns.get(unit)
    if size is None:
        raise InputError(
            f"{source}: no column tells how many {choices.by} a job has; name it (--map "
            f"{unit}=COLUMN), or count jobs by another resource (--by)"
        )
    factor = form.units.get(unit)
    rows.processors = (
        table.counts(size) if factor is None else np.ceil(_amounts(table, size) * factor)
    )
    for says in _AMOUNTS:
        if says in form.columns:
            read = _megabytes if says == "memory" else _amount
            amounts = _amounts(table, form.columns[says], read)
            rows.numbers[says] = amounts * form.units.get(says, 1.0)
    if by_amounts:
        _ask_for_amounts(rows, table, form)

    rows.ids = [job.strip() for job in rows.ids]
    for field, names in rows.texts.items():
        rows.texts[field] = Words([word.strip() for word in names.words], names.which)
    empty = np.array([is_none(job) for job in rows.ids], np.bool_)
    table.refuse(empty, form.columns["id"], "the name of a job")

    units = [
        f"{says} in {unit}"
        for says, factor in form.units.items()
        for unit, size in UNITS[says].items()
        if says in form.columns and size == factor and "/" not in unit
    ]
    rows.units = f"the table's units: {', '.join(units)}" if units else ""
    return rows


def _ask_for_amounts(rows: Rows, table: TextTable, form: CsvForm) -> None:
    """Set what each job asks of each of its hosts."""
    size = len(table)
    unknown = np.full(size, np.nan)
    cores = unknown
    if "processors" in form.columns:
        name = form.columns["processors"]
        factor = form.units.get("processors", 1.0)
        cores = np.ceil(_amounts(table, name) * factor)
    hosts = np.ones(size) if form.one_host else rows.processors
    rows.processors = hosts

    memory = rows.numbers.pop("memory", unknown) * MEBIBYTE
    words = Words.one("", size)
    if "memory" in form.columns:
        words = table.words(form.columns["memory"])
    # What a cell says of itself counts.
    by_core = words.where(lambda text: read_memory(text)[1] == "c")
    by_host = words.where(lambda text: read_memory(text)[1] == "n")
    others = ~(by_core | by_host)
    by_core |= others & (form.memory_of == "core")
    by_host |= others & (form.memory_of == "host")
    hidden = others & (form.memory_of == "unknown")
    hidden |= others & (form.memory_of == "unclear") & (hosts > 1)
    total = memory_in_all(memory, by_host, by_core, hosts, cores)

    gpus = rows.numbers.pop("gpus", unknown)
    amounts = {"cores": cores, "memory": np.where(hidden, np.nan, total), "gpus": gpus}
    rows.asked, rows.marked = requests_of(hosts, amounts)
    rows.marked["memory_scope"] = (hosts > 0) & hidden & (memory > 0)
    rows.marked["no_memory"] &= ~rows.marked["memory_scope"]


def _amounts(table: TextTable, name: str, read: Callable[[str], float | None] = _amount) -> Floats:
    """Return a column of numbers, NaN where unknown."""
    return table.numbers(name, read, "a number from 0 up to 2^63")


def number_tasks(rows: Rows) -> None:
    """Number rows of one job id that ran at the same time, as tasks of a job array (``7_1``)."""
    ends = np.fmax(rows.ended, rows.started + np.nan_to_num(rows.run_times))
    lines: list[int] = []
    for job, places in repeated_keys(rows.ids).items():
        order = sorted(places, key=rows.started.__getitem__)
        latest = np.maximum.accumulate(ends[order])
        if (rows.started[order][1:] < latest[:-1]).any():
            for number, place in enumerate(places, start=1):
                rows.ids[place] = f"{job}_{number}"
            lines += rows.lines[places].tolist()
    told = "rows of one id that ran at the same time (tasks of an array)"
    rows.tell("array_tasks", told, lines, "renumber")
