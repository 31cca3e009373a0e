"""Accounting in tables: Slurm's ``sacct --parsable2``, and those of any site by a mapping."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from zoneinfo import ZoneInfo

import numpy as np

from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.workload.accounting import (
    Choices,
    Rows,
    first_known,
    task_numbers,
)
from qops_batsim.workload.job_states import STATES_EXPECTED, state_reader
from qops_batsim.workload.log import Malformed, RepairCount, Words
from qops_batsim.workload.log_formats import delimiter_of
from qops_batsim.workload.text_columns import TextTable, read_table
from qops_batsim.workload.text_values import Dates, Floats

SACCT = "Slurm accounting (sacct --parsable2)"

_ASK = (
    "sacct --allusers --duplicates --parsable2 --format=JobID,User,Account,Partition,QOS,State,"
    "Submit,Eligible,Start,End,ElapsedRaw,AllocCPUS,AllocNodes,ReqTRES,Timelimit"
)

_SACCT: dict[str, tuple[str, ...]] = {
    "id": ("JobID", "JobIDRaw"),
    "state": ("State",),
    "submit": ("Submit",),
    "eligible": ("Eligible",),
    "start": ("Start",),
    "end": ("End",),
    "run_time": ("ElapsedRaw", "Elapsed"),
    "walltime": ("TimelimitRaw", "Timelimit"),
    "user": ("User",),
    "group": ("Account", "Group"),
    "queue": ("Partition",),
    "qos": ("QOS",),
}
"""Columns of sacct by what they say; the first that has a value counts."""

_SIZES = {
    "cores": (("AllocCPUS", "NCPUS"), "cpu", "ReqCPUS"),
    "nodes": (("AllocNodes", "NNodes"), "node", "ReqNodes"),
}
"""Columns with the allocated size, the trackable resource that is it, and the requested size."""

_FREE = ("JobName", "Comment", "AdminComment", "SubmitLine", "WorkDir")
"""Columns of sacct that may hold the delimiter."""

NAMES = {"user": "user", "group": "group", "queue": "queue", "qos": "qos_name"}
"""Fields of a job by what a column says."""

MAPPED = (*_SACCT, "processors", "nodes")
"""What a column of any table may say."""

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_ID = re.compile(r"^\d{1,12}(?:_\d{1,9}|_\[[^\n\]]*\])?(?:\+\d{1,9})?$", re.MULTILINE)


class CsvForm:
    """How a table of any site is written: what its columns say, and the unit of durations.

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
        if not {"processors", "nodes"} & columns.keys():
            raise InputError("no column of processors is given; one is expected")


def sacct_rows(content: bytes, source: str, choices: Choices) -> tuple[Rows, list[Malformed]]:
    """Return the rows of jobs, and the lines that are none; O(bytes)."""
    header = content[:4096].removeprefix(BOM_UTF8).partition(b"\n")[0].decode("latin-1")
    delimiter = delimiter_of(header)
    table = read_table(content, source, SACCT, delimiter=delimiter, quoted=False, rest=_FREE)
    _spell(table, choices.by, header)
    read = len(table.lines) + len(table.malformed)
    name = "JobID" if "JobID" in table else "JobIDRaw"
    steps = table.having(name, b".")
    lines = table.lines[steps].tolist()
    table = table.part(~steps)
    columns = {key: [each for each in names if each in table] for key, names in _SACCT.items()}
    rows = _rows(table, columns, {"run_time": 1.0, "walltime": 60.0}, choices)
    rows.processors = _slurm_processors(table, choices.by)
    for dates in (rows.submitted, rows.started, rows.ended):
        dates[dates == 0] = np.nan  # Slurm's 0 is no date.
    _split_ids(rows, table, name)
    rows.left_out[:0] = [RepairCount.of_lines("steps", "steps of jobs", lines)]
    rows.read = read
    if table.bad.any():
        rows.take(~table.bad)
    return rows, table.malformed


def _spell(table: TextTable, by: str, header: str) -> None:
    """Check the columns of sacct, and give them the usual capitals."""
    usual = {*(name for names in _SACCT.values() for name in names), "ReqTRES", "AllocTRES"}
    for allocated, _, requested in _SIZES.values():
        usual |= {*allocated, requested}
    spelled = {name.lower(): name for name in usual}
    table.header = {spelled.get(name.lower(), name): at for name, at in table.header.items()}
    there = table.header.keys()
    needed = [*(_SACCT[key] for key in ("id", "state", "submit", "start"))]
    needed += [("ElapsedRaw", "Elapsed", "End"), (*_SIZES[by][0], "AllocTRES", "ReqTRES")]
    missing = [" or ".join(names) for names in needed if not there & set(names)]
    if len(missing) == len(needed):
        raise InputError(
            f"{table.source}: its first line, {shown(header.strip())}, names no column of sacct; "
            f"the output of `{_ASK}` is expected"
        )
    if missing:
        raise InputError(
            f"{table.source}: no column {' and no '.join(missing)}; "
            f"the output of `{_ASK}` is expected"
        )


def _slurm_processors(table: TextTable, by: str) -> Floats:
    """Return what was allocated, else asked for."""
    allocated, resource, requested = _SIZES[by]
    pattern = re.compile(rf"(?:^|,){resource}=(\d{{1,9}})(?:,|$)")

    def of_resources(text: str) -> float:
        match = pattern.search(text)
        return float(match[1]) if match else np.nan

    found: list[Floats] = []
    for name in (*allocated, "AllocTRES", requested, "ReqTRES"):
        if name in table and (not found or np.isnan(found[-1]).any()):
            if name.endswith("TRES"):
                column = table.numbers(name, of_resources, "a list of resources")
            else:
                column = table.counts(name)
            # Jobs that never started have 0 allocated.
            column = np.where(column > 0, column, np.nan)
            found.append(first_known([*found[-1:], column], len(table)))
    return found[-1]


def _split_ids(rows: Rows, table: TextTable, name: str) -> None:
    """Tell parts of heterogeneous jobs (``123+1``) and waiting tasks (``123_[5-9%2]``) apart."""
    if len(_ID.findall("\n".join(rows.ids))) < len(rows.ids):
        wrong = np.array([not _ID.fullmatch(each) for each in rows.ids], np.bool_)
        table.refuse(wrong, name, "a job of Slurm such as 123, 123_4, 123_[5-9%2] or 123+1")
    lists = dict[str, list[int] | None]()
    for place, job in enumerate(rows.ids):
        if "+" in job:
            rows.groups[place] = job.partition("+")[0]
        if "[" in job:
            tasks = job.partition("[")[2].partition("]")[0]
            if tasks not in lists:
                lists[tasks] = task_numbers(tasks)
            rows.tasks[place] = lists[tasks]


def csv_rows(
    content: bytes, source: str, choices: Choices, form: CsvForm
) -> tuple[Rows, list[Malformed]]:
    """Return the rows of a site's own table, and the lines that are none; O(bytes)."""
    what = "a table with a header (CSV)"
    header = content[:4096].partition(b"\n")[0].decode("latin-1")
    delimiter = form.delimiter or next((each for each in ",;\t|" if each in header), ",")
    table = read_table(content, source, what, delimiter=delimiter, quoted=True)
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
    rows = _rows(table, columns, form.units, choices)
    size = form.columns.get("nodes" if choices.by == "nodes" else "processors")
    if size is None:
        raise InputError(f"{source}: no column is mapped to the count of {choices.by}")
    rows.processors = table.counts(size)
    rows.ids = [each.strip() for each in rows.ids]
    for field, names in rows.texts.items():
        rows.texts[field] = Words(names.places, [word.strip() for word in names.words])
    empty = np.array([not each for each in rows.ids], np.bool_)
    table.refuse(empty, form.columns["id"], "the name of a job")
    rows.read = read
    if table.bad.any():
        rows.take(~table.bad)
    return rows, table.malformed


def _rows(
    table: TextTable,
    columns: Mapping[str, list[str]],
    units: Mapping[str, float],
    choices: Choices,
) -> Rows:
    """Return what columns say of jobs, but for the processors."""
    size = len(table.lines)
    states = Words(np.zeros(size, np.int64), ["COMPLETED"])
    if names := columns.get("state"):
        known = state_reader(choices.state_names)
        given = table.words(names[0])
        states = Words(given.places, [known[each] for each in given.words])
        table.refuse(states.where(lambda state: not state), names[0], STATES_EXPECTED)
    zone, form = ZoneInfo(choices.zone_name), choices.date_format

    def dates(says: str) -> Dates:
        if not columns.get(says):
            return Dates(*(np.full(size, each) for each in (np.nan, 0.0, False)))
        return table.dates(columns[says][0], zone, form)

    def seconds(says: str) -> Floats:
        found = (table.durations(name, units[says]) for name in columns.get(says, ()))
        return first_known(found, size)

    submit = dates("submit")
    start = dates("start").not_before(submit.values)
    end = dates("end").not_before(start.values)
    submitted = submit.values
    if choices.submission == "eligible":
        submitted = np.fmax(submitted, dates("eligible").values)
    texts = {
        field: table.words(columns[says][0]) for says, field in NAMES.items() if columns.get(says)
    }
    return Rows(
        ids=[*table.cells(columns["id"][0])],
        lines=table.lines,
        states=states,
        submitted=submitted,
        started=start.values,
        ended=end.values,
        run_times=seconds("run_time"),
        processors=np.full(size, np.nan),
        limits=seconds("walltime"),
        texts=texts,
        left_out=_changes_of_clock(table, zone.key, [submit, start, end]),
    )


def _changes_of_clock(table: TextTable, zone: str, dates: list[Dates]) -> list[RepairCount]:
    """Return how many rows have dates that the clock shows twice, or never."""
    found = []
    for rule, description, choice, which in (
        ("hour_twice", "a date in an hour that comes twice", "first", [d.later > 0 for d in dates]),
        ("hour_missing", "a date in an hour that is left out", "shift", [d.missing for d in dates]),
    ):
        lines = table.lines[np.logical_or.reduce(which)].tolist()
        if lines:
            found.append(RepairCount.of_lines(rule, f"{description} ({zone})", lines, choice))
    return found
