"""Slurm's accounting as ``sacct --json`` prints it, by any version of its data parser.

Numbers may be plain or ``{"set": …, "infinite": …, "number": …}``, states a word or a list of
words (https://slurm.schedmd.com/rest_api.html).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError, shown
from qops_batsim.files import decoded
from qops_batsim.jobs import is_number
from qops_batsim.workload.accounting import (
    Choices,
    Rows,
    task_numbers,
)
from qops_batsim.workload.job_states import STATES_EXPECTED, state_reader
from qops_batsim.workload.log import RepairCount, Words

_NOT_SET, _INFINITE = (1 << 32) - 2, (1 << 32) - 1
"""What older versions write for the number that is not set, and the one without limit."""

_WHAT = "Slurm accounting (sacct --json)"


class _Output(msgspec.Struct):
    jobs: list[dict[str, Any]]


_outputs = msgspec.json.Decoder(_Output)


def slurm_number(value: Any) -> float:
    """Return a number of Slurm's JSON; infinity without limit, NaN where it is not set.

    >>> slurm_number({"set": True, "infinite": False, "number": 60}), slurm_number(4294967295)
    (60.0, inf)
    """
    if isinstance(value, dict):
        if value.get("infinite"):
            return math.inf
        value = value.get("number") if value.get("set", True) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value == _NOT_SET:
        return math.nan
    return float(value) if value != _INFINITE and is_number(value) else math.inf


def slurm_job_id(job: Mapping[str, Any]) -> str:
    """Return the id of a job as ``sacct`` shows it: ``123``, ``123_4``, ``123+1``."""
    array, het = _object(job.get("array")), _object(job.get("het"))
    if parent := _whole(array.get("job_id")):
        task = slurm_number(array.get("task_id"))
        waiting = array.get("task")
        if waiting and not isinstance(waiting, dict) and math.isnan(task):
            return f"{parent}_[{waiting}]"
        if math.isfinite(task):
            return f"{parent}_{int(task)}"
    if parent := _whole(het.get("job_id")):
        return f"{parent}+{_whole(het.get('job_offset'))}"
    return str(_whole(job.get("job_id")))


def json_rows(content: bytes, source: str, choices: Choices) -> Rows:
    """Return the rows of jobs; their lines are places in the list of jobs, from 1. O(bytes)."""
    jobs = decoded(content, _outputs, source, f"the output of `sacct --json` ({_WHAT})").jobs
    words = state_reader(choices.state_names)
    columns: dict[str, list[float]] = {name: [] for name in (*_TIMES, "processors", "walltime")}
    ids, states, steps = [], [], []
    texts: dict[str, list[str]] = {name: [] for name in ("user", "group", "queue", "qos_name")}
    for place, job in enumerate(jobs, start=1):
        where = f"{source}: jobs[{place - 1}]"
        ids.append(slurm_job_id(job))
        states.append(_state(job, words, where))
        steps += [place] * len(_list(job.get("steps")))
        time = job.get("time")
        if not isinstance(time, dict):
            raise InputError(f"{where}: time is {shown(time)}; an object of dates is expected")
        for name, key in _TIMES.items():
            value = slurm_number(time.get(key))
            columns[name].append(value if value > 0 else math.nan)
        columns["walltime"].append(slurm_number(time.get("limit")) * 60)
        columns["processors"].append(_size(job, choices.by))
        of = _object(job.get("association"))
        known = (job.get("user") or of.get("user"), job.get("account") or of.get("account"))
        named = (*known, job.get("partition"), job.get("qos"))
        for column, text in zip(texts.values(), named, strict=True):
            column.append(text if isinstance(text, str) else "")
    found = {name: np.array(column, np.float64) for name, column in columns.items()}
    submitted = found["submit"]
    if choices.submission == "eligible":
        submitted = np.fmax(submitted, found["eligible"])
    return Rows(
        ids=ids,
        lines=np.arange(1, len(jobs) + 1),
        states=Words.of(states),
        submitted=submitted,
        started=found["start"],
        ended=found["end"],
        run_times=found["run_time"],
        processors=found["processors"],
        limits=found["walltime"],
        texts={name: Words.of(column) for name, column in texts.items()},
        groups={at: job.partition("+")[0] for at, job in enumerate(ids) if "+" in job},
        tasks={
            at: task_numbers(job.partition("[")[2].rstrip("]"))
            for at, job in enumerate(ids)
            if "[" in job
        },
        left_out=[RepairCount.of_lines("steps", "steps of jobs", steps)],
        read=len(jobs) + len(steps),
    )


_TIMES = {
    "submit": "submission",
    "eligible": "eligible",
    "start": "start",
    "end": "end",
    "run_time": "elapsed",
}


def _object(value: Any) -> dict[str, Any]:
    """Return an object; an empty one where there is none."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: Any) -> int:
    """Return a whole number; 0 where it is not set."""
    number = slurm_number(value)
    return int(number) if math.isfinite(number) else 0


def _state(job: Mapping[str, Any], words: Mapping[str, str], where: str) -> str:
    given = job.get("state")
    given = given.get("current") if isinstance(given, dict) else given
    for word in given if isinstance(given, list) else [given]:
        if isinstance(word, str) and (state := words[word]):
            return state
    raise InputError(f"{where}: state is {shown(given)}; {STATES_EXPECTED} is expected")


def _size(job: Mapping[str, Any], by: str) -> float:
    """Return the cores or nodes that were allocated, else asked for."""
    kind = "cpu" if by == "cores" else "node"
    resources = _object(job.get("tres"))
    for lists in ("allocated", "requested"):
        for each in map(_object, _list(resources.get(lists))):
            if each.get("type") == kind and slurm_number(each.get("count")) > 0:
                return slurm_number(each.get("count"))
        if by == "nodes" and slurm_number(job.get("allocation_nodes")) > 0:
            return slurm_number(job.get("allocation_nodes"))
    return slurm_number(_object(job.get("required")).get("CPUs")) if by == "cores" else math.nan
