"""Recognising the format of a log by its content."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from qops_batsim.errors import InputError
from qops_batsim.shipped import packaged_data
from qops_batsim.workload.other_json import refuse_other_json

PBS_LINE = re.compile(r"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);([A-Za-z]{1,2});([^;]*);(.*)")
"""Date, type, job and fields of a record of PBS."""

PARQUET = b"PAR1"
"""First bytes of a table in Parquet."""

_NOT_READ = {
    "the accounting of LSF (lsb.acct)": r'"[A-Z]+(?:_[A-Z]+)+" "\d[\d.]*" \d{9,10} ',
    "the accounting of Grid Engine": r"(?:[^:\n]*:){5}\d+:[^:\n]*:\d+:(?:\d+:){5}",
    "the history of HTCondor": r"(?:\w+ = .*\n)*?(?:ClusterId|GlobalJobId|ProcId) = ",
    "the event log of HTCondor": r"\d{3} \(\d+\.\d+\.\d+\) ",
    "events of Moab": r"\d\d:\d\d:\d\d \d{9,10}:\d+ \w+ \S+ [A-Z]+",
    "Slurm's log of completed jobs (jobcomp), or jobs as scontrol shows them": r"JobId=\d+ ",
    "the output of sacct in columns of fixed width, which cuts values": r".*\n[ \t]*-+ [ -]*\n",
}
"""Formats that are told by how they begin, comments apart, and are not read."""

_BEGIN = 1 << 16

WORKLOAD_FIELDS = ("nb_res", "jobs", "profiles")
"""Fields of a Batsim workload."""

LOGS_EXPECTED = "a Batsim workload (JSON), `sacct --json`, or a log"


def delimiter_of(header: str) -> str:
    """Return what separates the columns in a header of sacct; ``|`` by default."""
    match = re.match(r"\s*\w+\s*([\t!-/:-@\[-^`{-~]+)", header, re.ASCII)
    return match[1] if match else "|"


@cache
def published_logs() -> dict[str, dict[str, Any]]:
    """Return how to read each published log that this package knows, by name (``eagle`` ...)."""
    known = packaged_data("qops_batsim.workload", "log_profiles.toml", dict[str, dict[str, Any]])
    return {name: {"name": name, **description} for name, description in known.items()}


@cache
def published_tables() -> dict[str, dict[str, Any]]:
    """Return how to read those published logs that are tables (CSV or Parquet), by name."""
    return {
        name: description
        for name, description in published_logs().items()
        if "columns" in description
    }


def dialect_of(words: Sequence[str]) -> Mapping[str, Any]:
    """Return the description of the published log whose further columns, beyond the 18 of SWF, have
    the form of these ``words``; {} if there is none.
    """
    for description in published_logs().values():
        forms = description.get("beyond", ())
        if len(forms) == len(words) and all(map(re.fullmatch, forms, words)):
            return description if forms else {}
    return {}


def profile_of(names: Iterable[str]) -> str | None:
    """Return the name of the published log whose columns are all among ``names``, or None."""
    columns = set(names)
    known = published_tables().items()
    return next(
        (name for name, description in known if columns >= {*description["columns"].values()}), None
    )


def table_names(content: bytes) -> list[str]:
    """Return the column names of a CSV or Parquet table."""
    if content.startswith(PARQUET):
        import polars as pl

        try:
            return list(pl.read_parquet_schema(io.BytesIO(content)))
        except pl.exceptions.PolarsError as error:
            raise InputError(
                f"the Parquet file is truncated or damaged ({error}); a complete file is expected"
            ) from None
    header = content[:_BEGIN].removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].decode("latin-1")
    return [name.strip().strip('"') for name in header.split(mark_of(header))]


def mark_of(header: str) -> str:
    """Return the character that separates the columns in a table's header; a comma by default."""
    return next((mark for mark in ",;\t|" if mark in header), ",")


def log_format(content: bytes) -> str:
    """Tell the format of a log: ``sacct``, ``json`` (of sacct), ``pbs``, ``batsim``, ``csv`` or
    ``swf``.

    ``csv`` is any table in Parquet, and one with the columns of a published log; ``swf`` all else.
    """
    if content.startswith(PARQUET):
        return "csv"
    begin = content[:_BEGIN].removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith(b"{"):
        return "json" if b'"nb_res"' not in content and b'"job_id"' in content else "batsim"

    line = begin.partition(b"\n")[0].decode("latin-1")
    names = {name.strip().lower() for name in line.split(delimiter_of(line))}
    if names & {"jobid", "jobidraw"} and len(names) > 1:
        return "sacct"

    if PBS_LINE.match(line):
        return "pbs"
    # Comments of a log in the Standard Workload Format, and its numbers, name nothing.
    named = not line.startswith(";") and any(letter.isalpha() for letter in line)
    return "csv" if named and profile_of(table_names(content)) else "swf"


def refuse_others(content: bytes, source: str) -> None:
    """Raise an InputError if a log is in a known format that cannot be read, such as LSF's."""
    begin = re.sub(r"\A(?:\s*#.*\n|\s*\n)+", "", content[:_BEGIN].decode("latin-1"))
    for name, form in _NOT_READ.items():
        if re.match(form, begin):
            raise InputError(
                f"{source}: is {name}, which is not read; the output of `sacct --parsable2` or "
                "`--json`, the accounting of PBS, a table (`workload import --map`), or a log in "
                "the Standard Workload Format is expected"
            )
    is_json = content[:_BEGIN].removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"["))
    if is_json and b'"nb_res"' not in content:
        refuse_other_json(content, source, LOGS_EXPECTED, ("batsim", "sacct"), WORKLOAD_FIELDS)
