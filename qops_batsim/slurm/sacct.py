"""Slurm's accounting as ``sacct`` prints it: ``--parsable2``, or ``--json`` of any version.

Numbers of JSON may be plain or ``{"set": …, "infinite": …, "number": …}``, states a word or a list
of words (https://slurm.schedmd.com/rest_api.html).
"""

from __future__ import annotations

import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from qops_batsim.errors import InputError, shown
from qops_batsim.files import decoded
from qops_batsim.slurm.amounts import COLUMNS, ask_for_amounts, tasks_of_steps
from qops_batsim.slurm.resources import amount_of
from qops_batsim.slurm.values import slurm_number
from qops_batsim.tables import Booleans, Floats, Words
from qops_batsim.workload.accounting.amounts import chosen_machine
from qops_batsim.workload.accounting.cells import TextTable, read_cells
from qops_batsim.workload.accounting.choices import Choices
from qops_batsim.workload.accounting.rows import Rows, rows_of_table, task_numbers
from qops_batsim.workload.accounting.states import STATES_EXPECTED, state_reader
from qops_batsim.workload.log_formats import delimiter_of
from qops_batsim.workload.log_records import RepairCount
from qops_batsim.workload.other_json import kind_of, refuse_kind, refuse_other_json

SACCT = "Slurm accounting (sacct --parsable2)"

_ASK = (
    "sacct --allusers --duplicates --parsable2 --format=JobID,User,Account,Partition,QOS,State,"
    "Reservation,Submit,Eligible,Start,End,ElapsedRaw,AllocCPUS,AllocNodes,ReqTRES,AllocTRES,"
    "NodeList,Timelimit"
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
    "reservation": ("Reservation",),
    "suspended": ("Suspended",),
    "cluster": ("Cluster",),
    "name": ("JobName",),
    "requeue": ("Requeue",),
    "submit_line": ("SubmitLine",),
    "constraints": ("Constraints",),
}
"""Columns of sacct by what they say; the first that has a value counts."""

_UNITS = {"run_time": 1.0, "suspended": 1.0, "walltime": 60.0}

_SIZES = {
    "cores": (("AllocCPUS", "NCPUS"), "cpu", "ReqCPUS"),
    "nodes": (("AllocNodes", "NNodes"), "node", "ReqNodes"),
    "gpus": ((), "gres/gpu", ""),
}
"""Columns with the allocated size, the trackable resource that is it, and the requested size."""

_TEXTS = (
    *("jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra"),
    *("container", "stdin", "stdout", "stderr", "constraints", "failednode", "reason", "licenses"),
)
"""Columns of sacct that hold what users wrote, delimiters and line breaks included."""

_JOB = r"^[0-9]{1,12}(?:_[0-9]{1,9}|_\[[0-9][0-9,:%.-]*\])?(?:\+[0-9]{1,9})?"
_ID = f"{_JOB}$"
_STEP = rf"{_JOB}\."

_JOBS_EXPECTED = "a job of Slurm such as 123, 123_4, 123_[5-9%2] or 123+1"

_DATE = r"[0-9]{4}-[0-9-]+[T ][0-9:]+[0-9:.+Z-]*|[0-9]{9,12}(?:\.[0-9]+)?"
_NO_DATE = rf"{_DATE}|(?i:unknown|none|n/a)"
_AMOUNT = r"[\w/:.+-]+=[\w/:.+-]*"
_TRES = f"(?:{_AMOUNT}(?:,{_AMOUNT})*)?"
_FORMS = {
    **dict.fromkeys(("jobid", "jobidraw"), rf"{_JOB[1:]}(?:\.[\w+]+)?"),
    "submit": _DATE,
    **dict.fromkeys(("eligible", "start", "end"), _NO_DATE),
    **dict.fromkeys(("elapsed", "elapsedraw", "suspended"), "[0-9:.-]+"),
    **dict.fromkeys(
        ("alloccpus", "ncpus", "reqcpus", "allocnodes", "nnodes", "reqnodes"), "[0-9]+"
    ),
    **dict.fromkeys(("reqtres", "alloctres"), _TRES),
    "reqmem": r"[\w.]*",
    "ntasks": "[0-9]*",
    **dict.fromkeys(("timelimit", "timelimitraw"), r"[\w:./-]*"),
    "partition": r"[\w,.+-]*",
    "nodelist": r"[\w,.\[\]-]*|\(null\)|None assigned",
    "state": r"[^\W0-9][\w+ -]*",
    "": "(?:)",
}
"""Forms of columns of sacct that are no text."""


def sacct_rows(content: bytes, source: str, choices: Choices) -> Rows:
    """Read ``sacct --parsable2`` output into rows of jobs; O(bytes)."""
    header = content[:4096].removeprefix(BOM_UTF8).partition(b"\n")[0].decode("latin-1")
    delimiter = delimiter_of(header)
    # Dates of a site's own format have any form.
    forms = {n: f for n, f in _FORMS.items() if choices.date_format is None or _DATE not in f}

    table = read_cells(
        content, source, SACCT, delimiter=delimiter, quoted=False, texts=_TEXTS, forms=forms
    )
    _restore_capitals(table, choices.unit, header)

    read = len(table)
    steps = table.column(_id_of(table)).str.contains(_STEP).to_numpy()
    lines = table.lines[steps].tolist()
    tasks = tasks_of_steps(table, _id_of(table), steps) if choices.by == "amounts" else {}
    table.keep(~steps)
    return _rows_of(table, choices, lines, read, tasks)


def _id_of(table: TextTable) -> str:
    return "JobID" if "JobID" in table else "JobIDRaw"


def _rows_of(
    table: TextTable,
    choices: Choices,
    steps: list[int],
    read: int,
    tasks: Mapping[str, tuple[float, float]],
) -> Rows:
    """Convert a table of sacct to rows of jobs; ``steps`` are the lines of job steps, which the
    table no longer has, ``read`` the number of lines that were read, ``tasks`` those of steps with
    their cores, by job.
    """
    columns = {key: [name for name in names if name in table] for key, names in _SACCT.items()}
    rows = rows_of_table(table, columns, _UNITS, choices)
    rows.processors = slurm_sizes(table, *_SIZES[choices.unit])
    gpus = rows.processors if choices.unit == "gpus" else slurm_sizes(table, *_SIZES["gpus"])
    if (gpus > 0).any() and choices.by != "amounts":
        rows.numbers["gpus"] = gpus

    rows.not_counted = _not_counted(table, choices.by)
    if "NodeList" in table:
        rows.nodes = table.words("NodeList")
        _set_partitions_by_node(rows, rows.nodes)
    if choices.by == "amounts":
        cores = slurm_sizes(table, *_SIZES["cores"])
        ask_for_amounts(rows, table, cores, chosen_machine(choices), tasks)
    _infer_suspensions(rows)
    _split_heterogeneous_ids(rows, table, _id_of(table))

    rows.left_out[:0] = [RepairCount.of_lines("steps", "steps of jobs", steps)]
    told = "lines of texts of the rows above (comments or commands with line breaks)"
    rows.tell("broken_texts", told, table.joined, "merge")
    rows.read = read
    return rows


_OTHERS = {"memory": r"\bmem=", "licenses": r"\blicense/", "burst buffers": r"\bbb/"}
"""Resources that may hold jobs back and are never counted, by what Slurm writes."""


def _not_counted(table: TextTable, by: str) -> dict[str, Booleans]:
    """Return which jobs requested or had each resource that job sizes do not count (memory ...)."""
    looked = _OTHERS if by in ("gpus", "binding") else {**_OTHERS, "GPUs": r"\bgres/gpu"}
    if by == "amounts":
        looked = {"burst buffers": _OTHERS["burst buffers"]}
    columns = [table.words(name) for name in ("AllocTRES", "ReqTRES") if name in table]

    def holds(pattern: str) -> Booleans:
        mask = np.zeros(len(table), np.bool_)
        for column in columns:
            mask |= column.where(lambda word: re.search(pattern, word) is not None)
        return mask

    held = {name: holds(pattern) for name, pattern in looked.items()}
    return {name: mask for name, mask in held.items() if mask.any()}


def _restore_capitals(table: TextTable, by: str, header: str) -> None:
    """Raise an InputError if a needed column of sacct is missing; spell the names of the others as
    sacct does (``jobid`` becomes ``JobID``).
    """
    usual = {name for names in _SACCT.values() for name in names}
    usual |= {"ReqTRES", "AllocTRES", "NodeList", *COLUMNS}
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
            f"{table.source}: the header has no column {' and no column '.join(missing)}; "
            f"the output of `{_ASK}` is expected"
        )


def _set_partitions_by_node(rows: Rows, nodes: Words) -> None:
    """Set the partition in which a job ran that was submitted to several (``a,b``): the one of
    other jobs on its first node.
    """
    column = rows.texts.get("queue")
    if column is None:
        return

    several = column.where(lambda word: "," in word)
    first = [word.replace("[", ",").partition(",")[0] for word in nodes.words]
    pairs = set(zip(nodes.which.tolist(), column.which.tolist(), strict=True))
    seen = {(first[node], column.words[name]) for node, name in pairs}

    which = column.which.copy()
    for row in np.flatnonzero(several).tolist():
        node = first[nodes.which[row]]
        asked = column.words[which[row]].split(",")
        ran = [name for name in asked if (node, name) in seen]
        if len(ran) == 1:
            which[row] = column.words.index(ran[0])
    rows.texts["queue"] = Words(column.words, which)


def slurm_sizes(
    table: TextTable, allocated: Sequence[str], resource: str, requested: str
) -> Floats:
    """Return how much of a resource each job has: what was allocated, else what was requested.

    It stands in columns ``allocated``, by name in TRES, or in the column ``requested``.
    """
    sizes = np.full(len(table), np.nan)

    for name in (*allocated, "AllocTRES", requested, "ReqTRES"):
        unknown = np.isnan(sizes)
        if name not in table or not unknown.any():
            continue
        if name.endswith("TRES"):
            column = table.numbers(name, lambda text: amount_of(text, resource), "")
        else:
            column = table.counts(name)
        # Jobs that never started have 0 allocated.
        sizes = np.where(unknown & (column > 0), column, sizes)
    return sizes


def _split_heterogeneous_ids(rows: Rows, table: TextTable, name: str) -> None:
    """Find, by the job ids in column ``name``, the parts of heterogeneous jobs (``123+1``) and the
    lists of waiting array tasks (``123_[5-9%2]``).
    """
    column = table.column(name)
    wrong = ~column.str.contains(_ID).to_numpy()
    table.refuse(wrong, name, _JOBS_EXPECTED)

    lists = dict[str, list[int] | None]()
    special = column.str.contains("[+\\[]").to_numpy()
    for place in np.flatnonzero(special).tolist():
        job = rows.ids[place]
        if "+" in job:
            rows.groups[place] = job.partition("+")[0]
        if "[" in job:
            tasks = job.partition("[")[2].partition("]")[0]
            if tasks not in lists:
                lists[tasks] = task_numbers(tasks)
            rows.tasks[place] = lists[tasks]
    _report_cut_lists(rows)


def _report_cut_lists(rows: Rows) -> None:
    """Report how many lists of array tasks or nodes Slurm has cut with ``...``."""
    tasks = [place for place in rows.tasks if "..." in rows.ids[place]]
    nodes = rows.nodes or Words.one("", len(rows.ids))
    cut = nodes.where(lambda listed: "..." in listed)
    told = "lists of waiting tasks that Slurm cut (...): more tasks wait"
    rows.tell("cut_tasks", told, rows.lines[tasks].tolist() if tasks else [])
    told = "lists of nodes that Slurm cut (...): jobs ran on more nodes"
    rows.tell("cut_nodes", told, rows.lines[cut].tolist())


def _infer_suspensions(rows: Rows) -> None:
    """Set how long jobs were suspended, where Slurm does not say: end - start - run time."""
    rest = rows.ended - rows.started - rows.run_times
    told = (rows.suspended > 0) | rows.unclear | ~(rest >= 1)
    rows.suspended = np.where(told, rows.suspended, rest)
    lines = rows.lines[rows.suspended > 0].tolist()
    rows.tell("suspended", "suspended for a while, which is no run time", lines)


_WHAT = "Slurm accounting (sacct --json)"


class _Output(msgspec.Struct):
    jobs: list[dict[str, Any]]


_outputs = msgspec.json.Decoder(_Output)


def slurm_job_id(job: Mapping[str, Any]) -> str:
    """Return a job's id as ``sacct`` shows it: ``123``, ``123_4``, ``123+1``."""
    array = _object(job.get("array"))
    if parent := _whole(array.get("job_id")):
        task = slurm_number(array.get("task_id"))
        waiting = array.get("task")
        if waiting and not isinstance(waiting, dict) and math.isnan(task):
            return f"{parent}_[{waiting}]"
        if math.isfinite(task):
            return f"{parent}_{int(task)}"

    het = _object(job.get("het"))
    if parent := _whole(het.get("job_id")):
        return f"{parent}+{_whole(het.get('job_offset'))}"
    return str(_whole(job.get("job_id")))


def json_rows(content: bytes, source: str, choices: Choices) -> Rows:
    """Read ``sacct --json`` into rows; line numbers are positions in the list, from 1. O(bytes)."""
    import polars as pl

    expected = "the output of `sacct --json`"
    try:
        jobs = decoded(content, _outputs, source, f"{expected} ({_WHAT})").jobs
    except InputError:
        refuse_other_json(content, source, expected, ("sacct",))
        raise
    refuse_kind(kind_of({"jobs": jobs}), source, expected, ("sacct",))
    words = state_reader(choices.state_names)
    cells: list[list[str]] = []
    steps: list[int] = []
    tasks: dict[str, tuple[float, float]] = {}
    for place, job in enumerate(jobs, start=1):
        try:
            cells.append(_cells_of(job, words))
            tasks |= _tasks_in(job, cells[-1][0])
        except InputError as error:
            raise InputError(f"{source}: jobs[{place - 1}]: {error}") from None
        steps += [place] * len(_list(job.get("steps")))
    frame = pl.DataFrame(cells, dict.fromkeys(_TOLD, pl.String), orient="row")
    lines = np.arange(1, len(jobs) + 1)
    names = _TOLD if choices.by == "amounts" else _TOLD[: -len(_OF_HOSTS)]
    table = TextTable(source, names, frame, lines, lambda line: f"jobs[{line - 1}]")
    choices = msgspec.structs.replace(choices, date_format=None)
    return _rows_of(table, choices, steps, len(jobs) + len(steps), tasks)


_TIMES = {
    "Submit": "submission",
    "Eligible": "eligible",
    "Start": "start",
    "End": "end",
    "ElapsedRaw": "elapsed",
    "Suspended": "suspended",
}
_OF_HOSTS = ("NodeList", "ReqMem", "Constraints", "Licenses")
_TOLD = (
    *("JobID", "State", *_TIMES, "TimelimitRaw", "AllocTRES", "ReqTRES", "User", "Account"),
    *("Partition", "QOS", "Reservation", "Cluster", "JobName", "Requeue", "SubmitLine"),
    *_OF_HOSTS,
)
"""Columns of sacct that its JSON tells, the second to the seventh from ``time``."""


def _cells_of(job: Mapping[str, Any], words: Callable[[str], str]) -> list[str]:
    """Return the cells of a job in sacct's JSON, one for each column of :data:`_TOLD`."""
    job_id = slurm_job_id(job)
    if job_id == "0" or not re.fullmatch(_ID, job_id):
        raise InputError(f"job_id is {shown(job_id)}; {_JOBS_EXPECTED} is expected")
    state = _state(job, words)
    time = job.get("time")
    if not isinstance(time, dict):
        raise InputError(f"time is {shown(time)}; an object with the job's dates is expected")
    times = [slurm_number(time.get(key)) for key in _TIMES.values()]
    limit = slurm_number(time.get("limit"))

    tres = _object(job.get("tres"))
    nodes = slurm_number(job.get("allocation_nodes"))
    cpus = slurm_number(_object(job.get("required")).get("CPUs"))
    of = _object(job.get("association"))
    names = (
        *(job.get("user") or of.get("user"), job.get("account") or of.get("account")),
        *(job.get("partition"), job.get("qos"), _object(job.get("reservation")).get("name")),
        *(job.get("cluster"), job.get("name")),
    )

    return [
        *(job_id, state, *(f"{number:.15g}" if 0 < number < math.inf else "" for number in times)),
        "UNLIMITED" if limit == math.inf else "" if math.isnan(limit) else f"{limit:.15g}",
        _resources(tres.get("allocated"), {"node": nodes}),
        _resources(tres.get("requested"), {"cpu": cpus}),
        *(text if isinstance(text, str) else "" for text in names),
        "no" if job.get("requeue") is False else "",
        str(job.get("submit_line") or ""),
        str(job.get("nodes") or ""),
        _memory_asked(_object(job.get("required"))),
        str(job.get("constraints") or ""),
        str(job.get("licenses") or ""),
    ]


def _tasks_in(job: Mapping[str, Any], job_id: str) -> dict[str, tuple[float, float]]:
    """Return the tasks of a job's first numbered step, with its cores, by the job's id."""
    for step in map(_object, _list(job.get("steps"))):
        name = _object(step.get("step")).get("id")
        name = _object(name).get("step_id") if isinstance(name, dict) else name
        if str(name).rpartition(".")[2].isdecimal():
            count = slurm_number(_object(step.get("tasks")).get("count"))
            listed = _resources(_object(step.get("tres")).get("allocated"), {})
            return {job_id: (count, amount_of(listed, "cpu"))}
    return {}


def _memory_asked(required: Mapping[str, Any]) -> str:
    """Return the memory that a job asked for as a column ReqMem of sacct tells it."""
    for name, of in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        amount = slurm_number(required.get(name))
        if math.isfinite(amount):
            return f"{amount:.0f}M{of}"
    return ""


def _resources(listed: Any, others: Mapping[str, float]) -> str:
    """Format the JSON list ``listed`` of resources as sacct does (``cpu=4,node=1``); ``others`` are
    amounts to take where the list has none.
    """
    amounts = {**others}
    for resource in map(_object, _list(listed)):
        kind = str(resource.get("type"))
        count = slurm_number(resource.get("count"))
        if math.isinf(count):
            raise InputError(
                f"the count of resource {shown(kind)} is infinite; a finite number is expected"
            )
        amounts["/".join(filter(None, (kind, str(resource.get("name") or ""))))] = count
    return ",".join(f"{name}={count:.0f}" for name, count in amounts.items() if count > 0)


def _object(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object, {} if it is null; else raise an InputError."""
    if not isinstance(value, dict | None):
        raise InputError(f"a field is {shown(value)}; an object is expected")
    return value or {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: Any) -> int:
    """Return a number in Slurm's JSON as an int, 0 if it is not set."""
    number = slurm_number(value)
    return int(number) if math.isfinite(number) else 0


def _state(job: Mapping[str, Any], words: Callable[[str], str]) -> str:
    told = job.get("state")
    told = told.get("current") if isinstance(told, dict) else told
    # Newer versions tell the state PENDING as well as the flag of a stretch that was ended.
    flags = ("RESIZING", "REQUEUED", "REVOKED")
    for word in sorted(told if isinstance(told, list) else [told], key=lambda w: w not in flags):
        if isinstance(word, str) and words(word):
            return word
    raise InputError(f"state is {shown(told)}; {STATES_EXPECTED} is expected")
