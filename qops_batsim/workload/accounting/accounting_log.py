"""The workload log made from the rows of a batch system's accounting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qops_batsim.dates import Calendar
from qops_batsim.tables import Floats
from qops_batsim.workload.accounting.amounts import (
    TOLD,
    chosen_machine,
    given_requests,
    set_labels,
)
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.rows import Rows
from qops_batsim.workload.accounting.runs import keep_restarts, merge_parts, select, settle
from qops_batsim.workload.accounting.sizes import (
    binding_sizes,
    cores_and_gpus,
    hosts_of_machine,
    machine_size,
)
from qops_batsim.workload.accounting.states import ENDED
from qops_batsim.workload.log_records import CancelledJobs, Log, Records, unknown_records

_FIELDS = {"gpus": "gpu_count", "memory": "memory_mb"}
"""Fields of jobs with amounts as the log writes them, by their names in columns."""


@dataclass(eq=False, kw_only=True)
class AccountingLog(Log):
    """A workload log made from a batch system's accounting; second 0 is the first submission."""

    start: Calendar
    size: int | None

    def calendar(self, time_zone: str | None = None) -> Calendar:
        """Return the log's calendar: the date of second 0 and the site's time zone."""
        if time_zone is None:
            return self.start
        calendar = Calendar(self.start.unix_start, time_zone)
        calendar.check("the given time zone")
        return calendar

    def machine_size(self) -> int | None:
        """Return the number of processors of the machine, None if it is unknown."""
        return self.size

    def no_machine_size(self) -> str:
        """Return a text that says why the size of the machine is unknown."""
        if self.asked is not None:
            return (
                "jobs share hosts, so that the number of hosts does not follow from the jobs, and "
                "no NodeList tells them (--nodes FILE tells what hosts have, --processors their "
                "number)"
            )
        return "no job has processors and dates from which the size of the machine would follow"


def log_of(rows: Rows, choices: Choices, kind: str, source: str) -> AccountingLog:
    """Convert rows of accounting to a workload log, with counts of the rows left out or changed.

    ``kind`` is the format of the file, ``source`` its name in messages.
    """
    rows.check_ranges(source)
    known = rows.submitted[~np.isnan(rows.submitted)]
    start = float(np.floor(known.min())) if len(known) else 0.0

    settle(rows, choices)
    rows.choose(choices)
    keep_restarts(rows, choices.restarts)
    cancelled = select(rows, choices)
    told = f"parts of heterogeneous jobs ({len(set(rows.groups.values()))} in all)"
    rows.tell("het_parts", told, rows.lines[sorted(rows.groups)].tolist(), "merge")
    machine = None
    if choices.by == "amounts":
        machine = chosen_machine(choices)
        set_labels(rows, machine)
        set_labels(cancelled, machine)
        for rule, mask in rows.marked.items():
            told, done = TOLD[rule]
            rows.tell(rule, told, rows.lines[mask].tolist(), done)
    merge_parts(rows)
    merge_parts(cancelled)

    own = rows.own_times
    counted = ""
    if choices.by == "binding":
        rates = cores_and_gpus(rows, own, choices.nodes)
        rows.processors, counted = binding_sizes(rows, rates)
        cancelled.processors, _ = binding_sizes(cancelled, rates)
    elif choices.by == "amounts":
        counted = "hosts: what is said of processors, or of core-hours, is of hosts"
    elif choices.by != "cores":
        unit = {"nodes": "nodes", "gpus": "GPUs"}[choices.by]
        counted = f"{unit}: what is said of processors, or of core-hours, is of {unit}"
    if choices.by == "amounts":
        size, size_is = hosts_of_machine(rows, machine)
    else:
        size, size_is = machine_size(rows, own, choices)

    asked = None
    if cancelled.asked is not None:
        of_texts = given_requests(cancelled.asked)
        asked = [of_texts[place] for place in cancelled.asked.which.tolist()]
    waited = _records_of(cancelled, np.full(len(cancelled.ids), -1.0), start)
    waited["wait_time"] = cancelled.ended - cancelled.submitted
    return AccountingLog(
        format=kind,
        records=_records_of(rows, own, start),
        cancelled=CancelledJobs(waited[waited["wait_time"] >= 0], cancelled.texts, asked),
        lines=rows.lines,
        ids=rows.ids,
        texts=rows.texts,
        numbers={_FIELDS.get(name, name): column for name, column in rows.numbers.items()},
        left_out=rows.left_out,
        read=rows.read,
        start=Calendar(int(start), choices.zone_name),
        size=size,
        source=source,
        size_is=size_is,
        counted="; ".join(filter(None, (counted, rows.units))),
        not_counted=[name for name, held in rows.not_counted.items() if held.any()],
        asked=rows.asked,
        nodes=rows.nodes,
        machine=machine,
    )


def _records_of(rows: Rows, own: Floats, start: float) -> Records:
    """Convert rows to records of a log: ``own`` are their run times (seconds), dates count from
    ``start`` (seconds since 1970).
    """
    records = unknown_records(len(rows.ids))
    records["submit_time"] = np.where(np.isnan(rows.submitted), -1, rows.submitted - start)
    records["wait_time"] = np.nan_to_num(rows.started - rows.submitted, nan=-1)
    records["run_time"] = np.nan_to_num(own, nan=-1)
    processors = np.nan_to_num(rows.processors, nan=-1).astype(np.int64)
    records["allocated_processors"] = processors
    records["requested_processors"] = processors
    records["requested_time"] = np.where(np.isfinite(rows.limits), rows.limits, -1)
    statuses = [ENDED.get(state, -1) for state in rows.states.words]
    records["status"] = np.array(statuses, np.int64)[rows.states.which]
    return records
