"""Lines of workload logs for tests: one sane job, changed by field name."""

from __future__ import annotations

from collections.abc import Iterable

from qops_batsim.workload import SwfLog
from qops_batsim.workload.log_records import FIELDS
from qops_batsim.workload.swf import parse_swf

SANE = dict.fromkeys(FIELDS, -1) | {
    "job_number": 1,
    "submit_time": 0,
    "run_time": 100,
    "allocated_processors": 4,
    "requested_processors": 4,
    "requested_time": 200,
    "status": 1,
}


def swf_line(**changes: float) -> str:
    """Return a record of a job of 100 s on 4 processors, with some fields changed."""
    assert changes.keys() <= SANE.keys()
    return " ".join(str(value) for value in (SANE | changes).values())


def swf_text(records: Iterable[dict[str, float]], header: str = "; MaxProcs: 8") -> str:
    """Return a log with job numbers from 1 where a record names none."""
    lines = [swf_line(**({"job_number": i} | r)) for i, r in enumerate(records, start=1)]
    return "\n".join([header, *lines]) + "\n"


def swf_log(*records: dict[str, float], header: str = "; MaxProcs: 8") -> SwfLog:
    """Return a log made in memory."""
    return parse_swf(swf_text(records, header).encode(), source="test.swf")


def swf_of(log: SwfLog) -> str:
    """Return the text of a log: header, then one record a line."""
    lines = [f";{line}" for line in log.header.lines]
    lines += [" ".join(map(repr, row)) for row in log.records.tolist()]
    return "".join(f"{line}\n" for line in lines)
