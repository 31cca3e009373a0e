"""Reading any trace as a workload: logs of all formats and Batsim workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from qops_batsim.errors import InputError
from qops_batsim.files import Stored, read_stored
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.shipped import find_input
from qops_batsim.workload.accounting.accounting_log import AccountingLog, log_of
from qops_batsim.workload.accounting.amounts import chosen_machine
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.clusters import take_cluster
from qops_batsim.workload.accounting.job_identity import open_jobs, tell_apart
from qops_batsim.workload.accounting.node_sizes import Span, nodes_over_time, pools_of
from qops_batsim.workload.accounting.rows import Rows, node_spans
from qops_batsim.workload.accounting.runs import settle
from qops_batsim.workload.batsim_json import workload_in
from qops_batsim.workload.conversion import Conversion, convert_log
from qops_batsim.workload.log_formats import (
    PARQUET,
    log_format,
    profile_of,
    refuse_others,
    table_names,
)
from qops_batsim.workload.log_records import Log, Records, RepairCount, unknown_records
from qops_batsim.workload.scale import subset
from qops_batsim.workload.swf import ask_for_amounts, swf_in
from qops_batsim.workload.workload_model import Workload

if TYPE_CHECKING:
    from qops_batsim.workload.accounting.site import CsvForm

_WHAT = "a workload log or a Batsim workload"


def read_trace(
    path: str | Path,
    *,
    processors: int | None = None,
    first: int | None = None,
    accounting: Choices | None = None,
    time_zone: str | None = None,
    **choices: Any,
) -> Conversion:
    """Read a workload log or a Batsim workload as a workload, with counts of what was left out.

    That is a log in the Standard Workload Format, the accounting of Slurm (``sacct --parsable2`` or
    ``--json``) or PBS, or a Batsim workload (JSON), plain or gzip-compressed, recognised by
    content.

    Parameters
    ----------
    path
        The file, or the name of a shipped workload.
    processors
        Size of the machine, if the log does not have it or another one is wanted; a Batsim
        workload has its own.
    first
        How many usable jobs to take; None: all.
    accounting
        Which rows of an accounting are jobs, and how they are read.
    time_zone
        The site's time zone (``Europe/Stockholm``), if the log does not have it; it replaces that
        of ``accounting``.
    **choices
        Further choices for a log: see :func:`~qops_batsim.workload.conversion.convert_log`.

    Returns
    -------
    Conversion
        The workload, with counts of the records left out and repaired.

    Raises
    ------
    InputError
        If the file is of no known format, has invalid records or no usable job.

    Examples
    --------
    >>> trace = read_trace("tiny_8")
    >>> trace.workload.processors, trace.records_read
    (4, 8)
    """
    place = find_input(path, "workloads")
    stored = read_stored(place, what=_WHAT)
    return _trace_in(stored, str(place), processors, first, accounting, time_zone, choices)


def _trace_in(
    stored: Stored,
    source: str,
    processors: int | None,
    first: int | None,
    accounting: Choices | None,
    time_zone: str | None,
    choices: dict[str, Any],
) -> Conversion:
    if time_zone is not None:
        choices["time_zone"] = time_zone
        accounting = replace(accounting or Choices(), time_zone=time_zone)

    with without_garbage_collection():
        if log_format(stored.content) != "batsim":
            log = log_in(stored, source, accounting)
            return convert_log(log, processors=processors, first=first, **choices)
        workload = workload_in(stored, source)

    if choices or accounting or processors not in (None, workload.processors):
        given = ", ".join(choices) or ("accounting" if accounting else f"processors {processors}")
        raise InputError(
            f"{source}: is a Batsim workload of {workload.processors} processors, converted "
            f"already; {given} can be chosen for a log only: leave it out"
        )
    return _report_unconverted(workload, first)


LEAST_JOBS = 100
"""Jobs that a loaded partition has at least."""

LEAST_SHARE = 0.01
"""Their least share of all jobs."""


def read_partitions(
    path: str | Path,
    *,
    processors: int | None = None,
    accounting: Choices | None = None,
    time_zone: str | None = None,
    default_zone: str = "UTC",
    by: str = "binding",
) -> tuple[dict[str, Conversion], dict[str, int]]:
    """Read each partition of a log that has many jobs as a workload of its own; return these, and
    the numbers of jobs of the other partitions, by name.

    Those that share nodes are one pool, called ``a+b``: by the list of nodes, else by the nodes on
    which jobs ran. Slurm's accounting and tables tell them; every other trace is one without a
    name. Without other choices, accounting is counted ``by`` the resource that binds. Where neither
    ``time_zone`` nor the log tells the zone of dates, it is ``default_zone``. See
    :func:`read_trace`.
    """
    place = find_input(path, "workloads")
    stored = read_stored(place, what=_WHAT)
    source = str(place)
    choices = replace(accounting or Choices(by=by), default_zone=default_zone)
    if choices.by == "amounts":
        raise InputError(
            f"{source}: by is amounts, but partitions are counted by one resource here; binding, "
            "cores, nodes or gpus is expected"
        )
    if time_zone is not None:
        choices = replace(choices, time_zone=time_zone)
    kind = log_format(stored.content)
    if kind not in ("sacct", "json", "csv"):
        if kind != "pbs" and accounting is not None:
            raise InputError(
                f"{source}: is no accounting; only in the accounting of Slurm or PBS can "
                "partitions, QOS, accounts, reservations and units be chosen"
            )
        of_pbs = choices if kind == "pbs" else None
        return {"": _trace_in(stored, source, processors, None, of_pbs, time_zone, {})}, {}

    with without_garbage_collection():
        rows = _rows(stored, source, choices, kind)
        settle(rows, choices)
        # Jobs inside reservations show which nodes partitions share; each part sets them aside.
        rows.choose(replace(choices, reservations=choices.reservations or ("all",)))
        of_part = replace(
            choices,
            partitions=(),
            qos=(),
            accounts=(),
            reservations=("all",) if choices.reservations else (),
        )
        spans = node_spans(rows)
        pools = _pools(spans, choices)
        column = rows.pools()
        logs = {
            name: _log(
                rows.part(column.where(set(pool).__contains__)), of_part, kind, stored, source
            )
            for name, pool in pools.items()
        }
        small = {} if choices.partitions else _small_partitions(logs)
        loaded = [name for name in logs if name not in small]
        if processors is not None and len(loaded) > 1:
            raise InputError(
                f"{source}: has jobs of several partitions ({', '.join(loaded)}), and "
                f"processors {processors} does not say whose size it is; choose one partition "
                "(--partition), or give a list of nodes instead (--nodes)"
            )

        traces = {name: convert_log(logs[name], processors=processors) for name in loaded}
        for name, trace in traces.items():
            if processors is None:
                steps = nodes_over_time(spans.get(each, {}) for each in pools[name])
                listed = choices.nodes.together(pools[name])["nodes"] if choices.nodes else 0
                trace.sizes = _sizes(trace, steps, listed)
            if len(pools[name]) > 1:
                told = (
                    f"of partitions that share nodes ({name}), one pool, any of whose nodes a job "
                    "gets"
                )
                _tell(trace, "shared_nodes", told, "keep", len(logs[name].records))
    if small and len(traces) == 1:
        (trace,) = traces.values()
        told = f"of partitions with few jobs ({', '.join(small)})"
        _tell(trace, "small_partitions", told, "drop", sum(small.values()))
    return traces, small


def _tell(trace: Conversion, rule: str, description: str, choice: str, jobs: int) -> None:
    trace.repairs.append(RepairCount(rule=rule, description=description, choice=choice, jobs=jobs))


def _pools(spans: Mapping[str, Mapping[str, Span]], choices: Choices) -> dict[str, list[str]]:
    """Return the chosen partitions in pools that share nodes, by the name of the pool: by the list
    of nodes, else by the ``spans`` of nodes on which jobs ran.
    """
    wanted = list(choices.partitions or spans)
    nodes: Mapping[str, Mapping[Any, Span]] = choices.nodes.spans if choices.nodes else spans
    together = pools_of({name: nodes.get(name, {}) for name in {*wanted, *nodes}})
    pools = [[name for name in pool if name in wanted] for pool in together]
    pools.sort(key=lambda pool: min(map(wanted.index, pool), default=-1))
    return {"+".join(pool): pool for pool in pools if pool}


def _sizes(
    trace: Conversion, steps: Sequence[tuple[float, int]], listed: int
) -> list[tuple[float, int]]:
    """Return (date, processors from then on) of each change of a partition's size; empty if it
    hardly changes.

    ``steps`` are (date, nodes from then on). All processors belong to the nodes in the list of
    nodes (``listed``), or without one, to the most that were there at once, in equal parts. One in
    a hundred may be a node that is seldom used.
    """
    counts = [count for _, count in steps] or [0]
    most = max(counts)
    if trace.calendar is None or most - min(counts) <= LEAST_SHARE * most:
        return []
    size = trace.workload.processors
    start = trace.calendar.unix_start
    of_all = listed or most
    return [(date - start, max(round(size * count / of_all), 1)) for date, count in steps]


def _small_partitions(parts: Mapping[str, Log]) -> dict[str, int]:
    """Return how many jobs each partition with few jobs has; the largest is never among these."""
    jobs = {name: len(log.records) for name, log in parts.items()}
    least = max(LEAST_JOBS, LEAST_SHARE * sum(jobs.values()))
    largest = max(jobs, key=jobs.__getitem__, default="")
    return {name: count for name, count in jobs.items() if count < least and name != largest}


def log_in(
    stored: Stored,
    source: str,
    choices: Choices | None = None,
    kind: str = "",
    form: CsvForm | None = None,
) -> Log:
    """Parse a log from a file that was read; InputError if a line cannot be read.

    Its ``kind`` is ``swf``, ``sacct``, ``pbs``, or ``csv``, of a published log or in a site's own
    ``form``; by default it is told by its content.
    """
    by_content = log_format(stored.content)
    if not kind or (kind == "sacct" and by_content == "json"):
        kind = by_content
    choices = choices or Choices()
    if kind == "swf":
        log = swf_in(stored, source)
        if choices.by == "amounts":
            ask_for_amounts(log, chosen_machine(choices))
        return log
    rows = _rows(stored, source, choices, kind, form)
    return _log(rows, choices, kind, stored, source)


def _log(rows: Rows, choices: Choices, kind: str, stored: Stored, source: str) -> AccountingLog:
    waiting = open_jobs(rows)  # Before these are left out.
    log = log_of(rows, choices, "sacct" if kind == "json" else kind, source)
    log.open_jobs = waiting
    log.sha256 = stored.sha256
    return log


def _rows_in(
    stored: Stored, source: str, choices: Choices, kind: str, form: CsvForm | None
) -> Rows:
    from qops_batsim.slurm.sacct import json_rows, sacct_rows
    from qops_batsim.workload.accounting.pbs import pbs_rows
    from qops_batsim.workload.accounting.site import csv_rows, profile, profiles

    content = stored.content
    refuse_others(content, source)
    if form is None and kind == "csv":
        name = profile_of(table_names(content))
        if name is None:
            known = ", ".join(profiles())
            raise InputError(
                f"{source}: its columns are those of no published log ({known}); say with "
                "`workload import --map` what they mean"
            )
        form = profile(name)
    if form is not None:
        return csv_rows(content, source, choices, form)
    if kind == "json":
        return json_rows(content, source, choices)
    if kind == "pbs":
        return pbs_rows(content, source, choices)
    if log_format(content) == "batsim":
        raise InputError(
            f"{source}: begins as a Batsim workload (JSON) does; a log in the Standard Workload "
            "Format, or the accounting of Slurm or PBS, is expected"
        )
    return sacct_rows(content, source, choices)


def _rows(
    stored: Stored, source: str, choices: Choices, kind: str, form: CsvForm | None = None
) -> Rows:
    """Read the rows of jobs in accounting, different jobs under different ids; report a last line
    without line break.
    """
    from qops_batsim.workload.accounting.site import number_tasks

    rows = _rows_in(stored, source, choices, kind, form)
    take_cluster(rows, choices.cluster, source)
    tell_apart(rows)
    if kind == "csv" or form is not None:
        number_tasks(rows)
    content = stored.content
    if kind != "json" and not content.startswith(PARQUET) and not content.endswith(b"\n"):
        told = "a last line without end (the file may have been cut)"
        rows.tell("no_line_end", told, [content.count(b"\n") + 1])
    return rows


def _report_unconverted(workload: Workload, first: int | None) -> Conversion:
    """Describe a Batsim workload as if it had been converted; take only the ``first`` jobs, if
    given.
    """
    count = len(workload.jobs)
    if first is not None:
        workload = subset(workload, first=first)

    records = _records(workload)
    submitted = records["submit_time"]
    return Conversion(
        workload=workload,
        records=records,
        records_read=count,
        records_in_window=count,
        repairs=[],
        usable_jobs=count,
        first_submission=float(submitted.min()) if count else 0.0,
        last_submission=float(submitted.max()) if count else 0.0,
        calendar=workload.calendar,
        offered_load=workload.offered_load,
    )


def _records(workload: Workload) -> Records:
    """Convert a workload's jobs to log records, with -1 for what is not known."""
    columns = workload.columns
    records = unknown_records(len(columns.ids))
    records["submit_time"] = columns.submission_times
    records["requested_processors"] = columns.processors
    records["run_time"] = np.nan_to_num(workload.delays, nan=-1)
    records["requested_time"] = np.where(np.isinf(columns.walltimes), -1, columns.walltimes)
    return records
