"""Text output of ``squeue`` and ``scontrol show job``, converted to ``squeue --json`` records.

Dates without an offset are those of this machine's clock, as Slurm's commands write them here,
unless another time zone is named.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from qops_batsim.dates import comes_twice
from qops_batsim.errors import InputError, shown
from qops_batsim.slurm.values import as_iso, date_if_any, fields_of, time_limit
from qops_batsim.workload.accounting.cells import is_none, read_memory
from qops_batsim.workload.accounting.clusters import refuse_several_clusters
from qops_batsim.workload.accounting.node_sizes import node_names
from qops_batsim.workload.accounting.rows import task_numbers

COLUMNS = (
    *("JobArrayID", "State", "NumCPUs", "NumNodes", "TimeLimit", "SubmitTime", "StartTime"),
    *("EndTime", "PriorityLong", "OverSubscribe", "Partition", "Account", "QOS", "Reservation"),
    *("Deadline", "UserName", "NodeList", "Reason", "Name"),
)
"""Columns of squeue that are read; names, which may hold anything, are the last."""

FORMAT = ":0|,".join(COLUMNS) + ":0"
"""Format of squeue (``-O``) with these, separated by ``|``."""

EXPECTED = (
    "`squeue --json`, `scontrol show job`, or text with columns that are separated by |, as of "
    f"`squeue -a -O {FORMAT}`, is expected"
)

_NEEDED = ("JOBID", "STATE", "CPUS", "TIME_LIMIT", "START_TIME")

_HEADS = {
    "JobState": "STATE",
    "NumCPUs": "CPUS",
    "NumNodes": "NODES",
    "TimeLimit": "TIME_LIMIT",
    "SubmitTime": "SUBMIT_TIME",
    "StartTime": "START_TIME",
    "EndTime": "END_TIME",
    "OverSubscribe": "OVER_SUBSCRIBE",
    "JobName": "NAME",
}
"""Columns of squeue, by the names of scontrol; others differ by their case only."""

_FIELDS = {column: field for field, column in _HEADS.items()} | {"DEADLINE": "Deadline"}
"""Fields of scontrol, by the columns of squeue."""

_TEXTS = {
    "STATE": "job_state",
    "REASON": "state_reason",
    "PARTITION": "partition",
    "ACCOUNT": "account",
    "QOS": "qos",
    "RESERVATION": "resv_name",
    "USER": "user_name",
    "NODELIST": "nodes",
    "NAME": "name",
    "HET_JOB_ID_SET": "het_job_id_set",
    "CLUSTER": "cluster",
}
_NUMBERS = {
    "CPUS": "cpus",
    "NODES": "node_count",
    "PRIORITY": "priority",
    "AT_ONCE": "array_max_tasks",
    "HET_JOB_ID": "het_job_id",
    "HET_JOB_OFFSET": "het_job_offset",
}
_DATES = {
    "SUBMIT_TIME": "submit_time",
    "START_TIME": "start_time",
    "END_TIME": "end_time",
    "DEADLINE": "deadline",
}
_CLUSTER = "CLUSTER: "
"""Begin of the line in which squeue names the cluster that it was asked for."""

_NODES_OR_REASON = "NODELIST(REASON)"
"""Column with the nodes of a job that runs, or in brackets why it waits."""

_NO_REASON = "wait for a reason that is not told (column REASON), and planned like others"

_AMOUNTS = {
    "TRESPERJOB": "tres_per_job",
    "TRESPERNODE": "tres_per_node",
    "TRESPERTASK": "tres_per_task",
    "TRESPERSOCKET": "tres_per_socket",
    "FEATURES": "features",
    "LICENSES": "licenses",
    "REQNODELIST": "required_nodes",
    "EXCNODELIST": "excluded_nodes",
}
_MEMORY = {"MINMEMORYCPU": "memory_per_cpu", "MINMEMORYNODE": "memory_per_node"}
_ON_NODES = re.compile(r"^ +Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*).*\n", re.MULTILINE)
"""What a job has on its nodes (``scontrol --details``)."""

_TRES = re.compile(r"^ +(TresPer[A-Z]\w+)=(\S+)$", re.MULTILINE)
"""Generic resources that are asked for, which stand behind free text."""

_READ = {"JOBID", "STATE", "TIME_LIMIT", "OVER_SUBSCRIBE", *_TEXTS, *_NUMBERS, *_DATES}
"""Columns of squeue that are read."""

_ID = re.compile(r"([0-9]{1,18})(?:_\[?([0-9,:%.-]+)\]?|\+([0-9]{1,9}))?")
_COUNT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)([KMG]?)(?:-.*)?")
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_OWNER = re.compile(r"(?<=\s)UserId=\S+\(\d+\) GroupId=\S+\(\d+\)")
"""Begin of a job's fields, behind its ids and its name."""

_BEHIND_NAME = re.compile(r"(?:\s+(?:SLUID|(?:Het|Pack)JobIdSet)=\S*)*\s*\Z")

_ID_SET = re.compile(r"JobIdSet=(\S*)")

_FREE = (
    *("Network", "Command", "SubmitLine", "WorkDir", "Comment", "AdminComment", "SystemComment"),
    *("Extra", "StdErr", "StdIn", "StdOut", "MailUser"),
)
"""Fields of a job that hold what somebody wrote."""


def records_of_text(
    text: str, source: str, time_zone: str | None, unsure: Counter[str]
) -> list[dict[str, Any]]:
    """Convert the text of squeue or of ``scontrol show job`` to records as ``squeue --json`` writes
    them. O(text).

    Dates without an offset are of the ``time_zone``; ``unsure`` counts the jobs with one that has
    two meanings.
    """
    zone = None if time_zone is None else ZoneInfo(time_zone)
    if "error:" in text.partition("\n")[0]:
        raise InputError(f"{source}: Slurm failed ({shown(text.strip())}); {EXPECTED}")
    if text.startswith("No jobs in the system"):
        return []
    is_of_scontrol = text.startswith("JobId=")
    rows = _of_scontrol(text, source) if is_of_scontrol else _of_squeue(text, source)
    names = _FIELDS if is_of_scontrol else {}

    records = []
    for where, told in rows:
        records.append(_record(told, where, names, zone))
        if any(_is_twice(told.get(name, ""), zone) for name in _DATES):
            unsure["dated in an hour that comes twice, and taken for the first"] += 1
        if told["STATE"] == "PENDING" and "REASON" not in told:
            unsure[_NO_REASON] += 1
    return records


def _of_squeue(text: str, source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield for each job in squeue's text where it stands (file and line, for errors), and its
    cells by column.
    """
    head, first, lines = _header(text, source)
    heads = [name.strip() for name in head.split("|")]
    if lacks := [name for name in _NEEDED if name not in heads]:
        raise InputError(f"{source}: lacks the columns {', '.join(lacks)}; {EXPECTED}")

    twice = [name for name, count in Counter(heads).items() if count > 1 and name in _READ]
    if twice:
        raise InputError(f"{source}: has the column {twice[0]} twice; each is expected once")

    for number, line in enumerate(lines, first + 1):
        # A name may hold the separator.
        cells = line.split("|", len(heads) - 1)
        if len(cells) != len(heads):
            raise InputError(
                f"{source}: line {number} is {shown(line)}; {len(heads)} columns that are "
                "separated by | are expected"
            )

        told = {name: cell.strip() for name, cell in zip(heads, cells, strict=True)}
        if both := told.get(_NODES_OR_REASON):
            waits = both.startswith("(")
            told.setdefault("REASON" if waits else "NODELIST", both.strip("()") if waits else both)
        yield f"{source}: line {number}", told


def _header(text: str, source: str) -> tuple[str, int, list[str]]:
    """Return the line of squeue's text with the names of its columns, its number, and the lines
    behind it; before it, squeue writes the cluster that it was asked for.
    """
    lines = text.splitlines() or [""]
    clusters = [line.removeprefix(_CLUSTER) for line in lines if line.startswith(_CLUSTER)]
    refuse_several_clusters(clusters, source)
    first = 1 if lines[0].startswith(_CLUSTER) else 0
    return (lines[first] if first < len(lines) else ""), first + 1, lines[first + 1 :]


def _of_scontrol(text: str, source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield for each job in scontrol's text where it stands (for errors), and its fields under the
    names of squeue's columns.

    A job's name stands before the fields that are read and its command behind them; both are free
    text, which may look like fields.
    """
    for number, record in enumerate(_jobs(text), 1):
        where = f"{source}: job {number}"
        ids = fields_of(f"JobId={record.partition(' JobName=')[0]}")
        whole = ids["JobId"]
        if array := ids.get("ArrayJobId"):
            tasks = ids.get("ArrayTaskId", "")
            whole = f"{array}_{tasks}" if tasks.isdecimal() else f"{array}_[{tasks}]"
        # Before Slurm 20.02, heterogeneous jobs were packs.
        elif het := ids.get("HetJobId") or ids.get("PackJobId"):
            offset = ids.get("HetJobOffset") or ids.get("PackJobOffset", "0")
            whole = f"{het}+{offset}"
        name, told = _structure(record, f"{where} ({shown(whole)})", where)
        told |= {
            "JOBID": whole,
            "NAME": name,
            "AT_ONCE": ids.get("ArrayTaskThrottle", ""),
            "USER": told.get("USERID", "").partition("(")[0],
        }
        yield where, told


def _jobs(text: str) -> list[str]:
    """Cut the text of scontrol into jobs, each without its ``JobId=``.

    An empty line parts them, or where each is one line (``-o``), its end: a comment may have a line
    that begins as a job does. What has no owner is the rest of the job before, but not at the end
    of a text that is cut.
    """
    if _OWNER.search(text.partition("\n")[0]) is None:
        return re.split(r"(?:\A|^[ \t]*\n)JobId=", text, flags=re.MULTILINE)[1:]
    jobs: list[str] = []
    parts = re.split(r"^JobId=", text, flags=re.MULTILINE)[1:]
    for place, part in enumerate(parts, 1):
        is_cut = place == len(parts) and not text.endswith("\n")
        if jobs and not is_cut and _OWNER.search(part) is None:
            jobs[-1] += f"JobId={part}"
        else:
            jobs.append(part)
    return jobs


def _structure(record: str, job: str, where: str) -> tuple[str, dict[str, str]]:
    """Return the name of a job and its fields by column of squeue.

    They begin with the owner. Where a text has an owner as well, that one counts behind which all
    fields are that are needed; InputError where there are two of these, or none.
    """
    owners = list(_OWNER.finditer(record))
    if not owners:
        raise InputError(
            f"{where} is {shown(record)}; the text of `scontrol show job` for one job is expected"
        )
    starts = [owner.start() for owner in owners]
    whole: list[tuple[int, dict[str, str]]] = []
    lacks: list[list[str]] = []
    for start, end in pairwise([*starts, len(record)]):
        told = {
            _HEADS.get(field, field.upper()): "" if value == "(null)" else value
            for field, value in fields_of(_ON_NODES.sub("", record[start:end]), _FREE).items()
        }
        lacks.append([_FIELDS[name] for name in _NEEDED[1:] if name not in told])
        if not lacks[-1]:
            whole.append((start, told))
    if not whole:
        fewest = min(lacks, key=len)
        raise InputError(f"{job} has no field {', '.join(fewest)}; {EXPECTED}")
    if len(whole) > 1:
        raise InputError(
            f"{job} has a name, a comment or a command that looks like the fields of a job; "
            "`squeue --json`, in which these differ, is expected"
        )

    ((at, told),) = whole
    told["ON_NODES"] = "".join(match[0] for match in _ON_NODES.finditer(record, at))
    told |= {name.upper(): value for name, value in _TRES.findall(record, at)}
    _, _, name = record[:at].partition("JobName=")
    behind = _BEHIND_NAME.search(name)
    ids = _ID_SET.search(behind[0] if behind else "")
    return _BEHIND_NAME.sub("", name).strip(), {**told, "HET_JOB_ID_SET": ids[1] if ids else ""}


def _record(
    told: Mapping[str, str], where: str, names: Mapping[str, str], zone: ZoneInfo | None
) -> dict[str, Any]:
    """Convert a job's cells, by column of squeue, to a record as ``squeue --json`` writes it.

    In errors, columns have other ``names``.
    """
    record: dict[str, Any] = {
        field: told[name]
        for name, field in _TEXTS.items()
        if name in told and (name == "NAME" or not is_none(told[name]))
    }
    parts = _ID.fullmatch(told["JOBID"])
    if parts is None:
        raise InputError(
            f"{where}: JOBID is {shown(told['JOBID'])}; an id as 12, 12_3, 12+1 or "
            "12_[3-9] is expected"
        )
    job, tasks, part = parts.groups()
    record["job_id"] = int(job)
    if part is not None:
        record |= {"het_job_id": int(job), "het_job_offset": int(part)}
    elif tasks is not None:
        record["array_job_id"] = int(job)
        if tasks.isdecimal() and "[" not in told["JOBID"]:
            record["array_task_id"] = int(tasks)
        else:
            record["array_task_string"] = tasks

    def place(name: str) -> str:
        return f"{where}: {names.get(name, name)}"

    for name, field in _NUMBERS.items():
        if name in told:
            record[field] = _count(told[name], place(name))
    for name, field in _DATES.items():
        if name in told:
            record[field] = date_if_any(told[name], place(name), zone)
    limit = time_limit(told["TIME_LIMIT"], place("TIME_LIMIT"))
    record["time_limit"] = None if limit is None else limit / 60
    if told.get("OVER_SUBSCRIBE") == "NO":
        record["shared"] = "none"
    if tres := told.get("TRES") or told.get("REQTRES"):
        record |= {"tres_req_str": tres, "tres_alloc_str": told.get("ALLOCTRES", "")}
        _add_amounts(record, told)
    return record


def _add_amounts(record: dict[str, Any], told: Mapping[str, str]) -> None:
    """Add what a job asks for beside processors, and has on its nodes, to its record."""
    record |= {field: told[name] for name, field in _AMOUNTS.items() if told.get(name)}
    for name, field in _MEMORY.items():
        memory, _ = read_memory(told.get(name, ""))
        if memory > 0 and math.isfinite(memory):
            record[field] = math.ceil(memory / (1 << 20))
    record["all_memory"] = told.get("MINMEMORYNODE") in ("0", "0M")
    record["contiguous"] = told.get("CONTIGUOUS") == "1"
    for name, field in (("NUMTASKS", "tasks"), ("CORESPEC", "core_spec")):
        if told.get(name, "").isdecimal():
            record[field] = int(told[name])
    _, _, most = told.get("NODES", "").partition("-")
    if most.isdecimal():
        record["max_nodes"] = int(most)
    by_node = told.get("NTASKSPERN:B:S:C", "").partition(":")[0]
    if by_node.isdecimal():
        record["tasks_per_node"] = int(by_node)

    nodes: list[dict[str, Any]] = []
    gres: list[str] = []
    for names, cores, memory, generic in _ON_NODES.findall(told.get("ON_NODES", "")):
        count = len(task_numbers(cores) or ())
        for name in node_names(names):
            nodes.append({"nodename": name, "cpus": count, "memory_allocated": int(memory)})
            gres.append(generic)
    if nodes:
        record["job_resources"] = {"allocated_nodes": nodes}
        record["gres_detail"] = gres


def _count(text: str, where: str) -> float | None:
    """Parse a number (``4``, ``2K``) or the lower end of a range; None for Slurm's "none"."""
    if is_none(text):
        return None
    if (parts := _COUNT.fullmatch(text)) is None:
        raise InputError(f"{where} is {shown(text)}; a number is expected")
    return float(parts[1]) * _FACTORS[parts[2]]


def _is_twice(text: str, zone: ZoneInfo | None) -> bool:
    """Return whether a date is a local one in an hour that a change of the clock repeats."""
    iso = as_iso(text)
    try:
        date = datetime.fromisoformat(iso or "")
        return date.tzinfo is None and comes_twice(date.replace(tzinfo=zone))
    except (ValueError, OverflowError, OSError):
        return False
