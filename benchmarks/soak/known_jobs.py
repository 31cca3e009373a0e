"""Jobs that are known, and their rows in the spelling of each format, with all that is odd there.

A writer returns the text and what a reader has to find in it. Odd are: values that mean none, texts
with delimiters and line breaks, requeued, resized and suspended jobs, arrays whose lists are cut,
steps, rows that are told twice, columns in any order, dates and units in any spelling.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

NONE_DATES = ("Unknown", "None", "", "N/A")
TABLE_DATES = (*NONE_DATES, "(null)", "NULL", "NaN", "0", "4294967294", "-1")
NONE_LIMITS = ("UNLIMITED", "Partition_Limit", "")
TABLE_LIMITS = (
    *NONE_LIMITS,
    "4294967295",
    "4294967294",
    "4294967295.0",
    "(null)",
    "None",
    "-1",
    "0",
)
ZONES = (
    "UTC",
    "Asia/Tokyo",
    "America/Phoenix",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
)
WORDS = ("run", "a b", "größe", "x=1", "it's", '"cold', "100%", "--wrap", "12", "n[1-3]", "")
ENDED = {
    "COMPLETED": 1,
    "FAILED": 0,
    "TIMEOUT": 0,
    "NODE_FAIL": 0,
    "OUT_OF_MEMORY": 0,
    "CANCELLED": 5,
}
"""States of jobs that ran, and their statuses in SWF."""


@dataclass(frozen=True)
class Run:
    """What an accounting tells of a job in a row; dates in seconds since 1970."""

    job: str
    state: str
    submit: int
    start: int | None
    end: int | None
    cores: int
    limit: int | None
    user: str
    suspended: int = 0

    @property
    def ran(self) -> int:
        return self.end - self.start - self.suspended if self.start and self.end else 0


@dataclass
class Known:
    """The rows of a log in their order, and the jobs that ran and ended, by id."""

    rows: list[Run] = field(default_factory=list)
    jobs: dict[str, Run] = field(default_factory=dict)
    cut: int = 0
    """Lists of waiting tasks that are cut."""
    elsewhere: list[Run] = field(default_factory=list)
    """Rows of another cluster, with ids of this one."""


def draw(rng: random.Random, *, of_slurm: bool, again: bool = True) -> Known:
    """Draw jobs: their rows, and what they are. Ids may come ``again``."""
    known = Known()
    now, number = rng.choice((1_718_000_000, 1_741_564_800, 1_600_000_200)), rng.randrange(1, 9000)
    for _ in range(rng.randint(1, 7)):
        now, number = now + rng.randint(0, 5000), number + rng.randint(1, 3)
        start = now + rng.choice((0, rng.randint(1, 5000)))
        run = Run(
            job=str(number),
            state=rng.choice(list(ENDED)),
            submit=now,
            start=start,
            end=start + rng.randint(60, 90_000),
            cores=rng.choice((1, 2, 16, 128, 1000)),
            limit=rng.choice((None, 1800, 86_400, 7 * 86_400)),
            user=rng.choice(("ada", "müller", "o'neil")),
        )
        kind = rng.choice(KINDS if of_slurm else ("plain", "waiting", "running"))
        _ADD[kind](rng, known, run)
        if again and rng.random() < 0.15 and kind not in ("array", "parts"):
            now = _again(rng, known, run)
        if rng.random() < 0.1:
            known.elsewhere.append(replace(run, cores=3, user="zoe"))
    return known


def _again(rng: random.Random, known: Known, run: Run) -> int:
    """Add another job with the id of a job, and return the date of its submission: one of another
    user, at any time, or one of the same user after years.
    """
    later = rng.choice((1, 4000, 90_000, 7 * 365 * 86_400))
    user = "rita" if later < 365 * 86_400 or rng.random() < 0.5 else run.user
    submit = run.submit + later
    start = submit + rng.randint(0, 5000)
    other = replace(run, state="FAILED", submit=submit, start=start, end=start + 600, user=user)
    known.rows.append(other)
    known.jobs[f"{run.job}j2"] = other
    return submit


def _plain(rng: random.Random, known: Known, run: Run) -> None:
    known.rows.append(run)
    known.jobs[run.job] = run


def _waiting(rng: random.Random, known: Known, run: Run) -> None:
    known.rows.append(replace(run, state="PENDING", start=None, end=None))


def _running(rng: random.Random, known: Known, run: Run) -> None:
    known.rows.append(replace(run, state="RUNNING", end=None))


def _cancelled(rng: random.Random, known: Known, run: Run) -> None:
    known.rows.append(replace(run, state="CANCELLED", start=None))


def _twice(rng: random.Random, known: Known, run: Run) -> None:
    known.rows.append(rng.choice((run, replace(run, state="RUNNING", end=None))))
    _plain(rng, known, run)


def _requeued(rng: random.Random, known: Known, run: Run) -> None:
    assert run.end is not None
    known.rows.append(replace(run, state=rng.choice(("PREEMPTED", "REQUEUED", "NODE_FAIL"))))
    gap = run.end + rng.randint(0, 600) - run.submit
    last = replace(run, submit=run.submit + gap, start=(run.start or 0) + gap, end=run.end + gap)
    rng.choice((_plain, _waiting, _running))(rng, known, last)


def _resized(rng: random.Random, known: Known, run: Run) -> None:
    assert run.start is not None
    assert run.end is not None
    middle = rng.randint(run.start + 10, run.end - 10)
    other = rng.choice((1, 8, 64))
    first = replace(run, state="RESIZING", end=middle)
    rows = [first, replace(run, start=middle, cores=other)]
    known.rows += rows if rng.random() < 0.7 else rows[::-1]
    known.jobs[run.job] = replace(run, cores=max(run.cores, other))


def _suspended(rng: random.Random, known: Known, run: Run) -> None:
    _plain(rng, known, replace(run, suspended=rng.randint(1, run.ran - 1)))


def _array(rng: random.Random, known: Known, run: Run) -> None:
    for task in rng.sample(range(30), rng.randint(1, 3)):
        _plain(rng, known, replace(run, job=f"{run.job}_{task}"))
    tasks = rng.choice(("[40-49%2]", "[41]", "[40,42-44:2]", "[41,43,45,...]", "[40-44,46,...%7]"))
    known.cut += "..." in tasks
    _waiting(rng, known, replace(run, job=f"{run.job}_{tasks}"))


def _revoked(rng: random.Random, known: Known, run: Run) -> None:
    rows = [run, replace(run, state="REVOKED", end=run.start)]
    known.rows += rows if rng.random() < 0.5 else rows[::-1]
    known.jobs[run.job] = run


def _parts(rng: random.Random, known: Known, run: Run) -> None:
    for part in range(2):
        known.rows.append(replace(run, job=f"{run.job}+{part}"))
    known.jobs[run.job] = replace(run, cores=2 * run.cores)


_ADD: dict[str, Callable[[random.Random, Known, Run], None]] = {
    "plain": _plain,
    "waiting": _waiting,
    "running": _running,
    "cancelled": _cancelled,
    "twice": _twice,
    "requeued": _requeued,
    "resized": _resized,
    "suspended": _suspended,
    "array": _array,
    "revoked": _revoked,
    "parts": _parts,
}
KINDS = ("plain", *_ADD)


def clock(seconds: int) -> str:
    """Return a duration as Slurm shows it."""
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def text_of_user(rng: random.Random, delimiter: str) -> str:
    """Return what a user wrote: words, delimiters, line breaks."""
    parts = rng.choices((*WORDS, delimiter, "\n", f"{delimiter}{delimiter}", "a\n\nb"), k=3)
    return rng.choice(("job", "job", "x".join(parts)))


@dataclass(frozen=True)
class Written:
    """A text, its delimiter and zone, and what has to be read in it."""

    text: str
    known: Known
    zone: str
    delimiter: str = ""
    further: Any = None
    cluster: str = ""
    """Cluster whose jobs are to be read; empty: the text names none."""
    is_odd: bool = False
    """Whether texts hold delimiters or line breaks that nothing quotes."""
    lacks: bool | None = None
    """Of a queue, whether a job waits for Resources that can start; None: not told."""


def dates_in(rng: random.Random, zone: str) -> Callable[[int], str]:
    """Return one spelling of dates."""
    form = rng.choice(("T", "T", " ", "seconds", "offset"))

    def date(seconds: int) -> str:
        here = datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(zone))
        if form == "seconds":
            return str(seconds)
        text = f"{here:%Y-%m-%d}{' ' if form == ' ' else 'T'}{here:%H:%M:%S}"
        return text + f"{here:%z}" if form == "offset" else text

    return date


TEXTS = ("JobName", "Comment", "SubmitLine", "WorkDir")


def _with_others(rng: random.Random, known: Known) -> list[Run]:
    """Return the rows of this cluster and of the other one, anywhere between them."""
    rows = list(known.rows)
    for run in known.elsewhere:
        rows.insert(rng.randrange(len(rows) + 1), run)
    return rows


def sacct(rng: random.Random) -> Written:
    """Write what sacct prints, in any of its forms."""
    known = draw(rng, of_slurm=True)
    zone = rng.choice(ZONES)
    date = dates_in(rng, zone)
    delimiter = rng.choice(("|", "|", "|", ";", "~", "@@", "^|^", "\t"))
    suspended = any(each.suspended for each in known.rows)
    end_only = rng.random() < 0.2
    size = rng.choice(("AllocCPUS", "NCPUS", "AllocTRES"))
    limit = rng.choice(("Timelimit", "TimelimitRaw"))
    columns = ["JobID", "State", "Submit", "Start", "End", "User", size, "ReqTRES", limit]
    columns += [] if end_only else [rng.choice(("Elapsed", "ElapsedRaw"))]
    columns += ["Suspended"] if end_only and suspended else rng.choice(([], ["Suspended"]))
    columns += rng.choice(([], ["Partition", "NodeList"]))
    columns += ["Cluster"] if known.elsewhere else rng.choice(([], [], ["Cluster"]))
    columns += rng.sample(TEXTS, rng.choice((0, 1, 1, 2)))
    rng.shuffle(columns)
    if rng.random() < 0.8:
        columns.remove("JobID")
        columns.insert(0, "JobID")
    trailing = rng.random() < 0.3
    rows = []
    for run in _with_others(rng, known):
        tres = f"billing=4,cpu={run.cores},mem=4G,node=1"
        words = ("CANCELLED by 1000", "CANCELLED") if run.state == "CANCELLED" else (run.state,)
        none = rng.choice(NONE_DATES)
        row = {
            "JobID": run.job,
            "State": rng.choice(words),
            "Submit": date(run.submit),
            "Start": date(run.start) if run.start else none,
            "End": date(run.end) if run.end else none,
            "User": run.user,
            "AllocCPUS": str(run.cores if run.start else 0),
            "NCPUS": str(run.cores if run.start else 0),
            "AllocTRES": tres if run.start else "",
            "ReqTRES": tres,
            "Timelimit": clock(run.limit) if run.limit else rng.choice(NONE_LIMITS),
            "TimelimitRaw": str(run.limit // 60) if run.limit else rng.choice(NONE_LIMITS),
            "Elapsed": clock(run.ran),
            "ElapsedRaw": str(run.ran),
            "Suspended": clock(run.suspended),
            "Partition": "main",
            "Cluster": "birch" if run.user == "zoe" else "alder",
            "NodeList": rng.choice(("n[1-3]", "n1", "None assigned")),
            **{name: text_of_user(rng, delimiter) for name in TEXTS},
        }
        rows.append([row[name] for name in columns])
        if run.start and "[" not in run.job and rng.random() < 0.2:
            step = {**row, "JobID": f"{run.job}.{rng.choice(('batch', 'extern', '0'))}"}
            step |= {"User": "", "Partition": "", "JobName": "batch", limit: ""}
            rows.append([step[name] for name in columns])
    if rng.random() < 0.1:
        rows.insert(rng.randrange(len(rows) + 1), columns)
    end = delimiter if trailing else ""
    text = "".join(delimiter.join(each) + end + "\n" for each in [columns, *rows])
    if rng.random() < 0.1 and not any("\n" in cell for row in rows for cell in row):
        text = text.replace("\n", "\r\n")
    odd = any(mark in cell for row in rows for cell in row for mark in (delimiter, "\n"))
    cluster = "alder" if known.elsewhere else ""
    return Written(text, known, zone, delimiter, cluster=cluster, is_odd=odd)


def sacct_json(rng: random.Random) -> Written:
    """Write what ``sacct --json`` prints, in the manner of old and new versions."""
    known = draw(rng, of_slurm=True)
    new = rng.random() < 0.5

    def number(value: int | None, none: int = 4294967294) -> Any:
        if new:
            return {"set": value is not None, "infinite": False, "number": value or 0}
        return none if value is None else value

    jobs = []
    for run in _with_others(rng, known):
        array, _, task = run.job.partition("_")
        het, _, part = run.job.partition("+")
        flags = run.state in ("REQUEUED", "RESIZING", "REVOKED")
        states = ["PENDING", run.state] if flags and rng.random() < 0.5 else [run.state]
        no_limit: Any = {"set": True, "infinite": True, "number": 0} if new else 4294967295
        time = {
            "submission": run.submit,
            "start": run.start or rng.choice((0, 4294967294)),
            "end": run.end or rng.choice((0, 4294967294)),
            "elapsed": run.ran,
            "limit": number(run.limit // 60) if run.limit else rng.choice((no_limit, number(None))),
            "suspended": run.suspended,
        }
        jobs.append(
            {
                "job_id": int(array) if array.isdigit() else 77,
                "array": {
                    "job_id": int(array) if task else 0,
                    "task_id": number(int(task) if task.isdigit() else None),
                    "task": task.strip("[]") if "[" in task else "",
                },
                "het": {"job_id": int(het) if part else 0, "job_offset": number(int(part or 0))},
                "user": run.user,
                "cluster": "birch" if run.user == "zoe" else "alder",
                "comment": {"job": text_of_user(rng, "|")},
                "state": {"current": states if new else states[-1]},
                "time": time,
                "required": {"CPUs": run.cores},
                "tres": {"allocated": [], "requested": []},
                "steps": [],
            }
        )
    cluster = "alder" if known.elsewhere else ""
    return Written(json.dumps({"jobs": jobs, "errors": []}), known, "UTC", cluster=cluster)


NAMES = {"id": "job", "state": "status", "submit": "made", "start": "begun", "end": "over",
         "processors": "cores", "walltime": "asked", "user": "who"}  # fmt: skip


def table(rng: random.Random) -> Written:
    """Write a site's own table."""
    known = draw(rng, of_slurm=False)
    zone = rng.choice(ZONES)
    date = dates_in(rng, zone)
    unit = rng.choice(("s", "min", "h"))
    factor = {"s": 1, "min": 60, "h": 3600}[unit]
    names = [*NAMES.values(), "note", *rng.choice(([], ["paused"]))]
    names += ["machine"] if known.elsewhere else []
    rng.shuffle(names)
    delimiter = rng.choice((",", ";", "|", "\t"))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=rng.choice(("\n", "\r\n")))
    writer.writerow(names)
    for run in _with_others(rng, known):
        limit = f"{run.limit / factor:g}" if run.limit else rng.choice(TABLE_LIMITS)
        zero = date(0) if "-" in date(0) else "0"
        row = {
            "job": run.job,
            "status": run.state,
            "made": date(run.submit),
            "begun": date(run.start) if run.start else rng.choice((*TABLE_DATES, zero)),
            "over": date(run.end) if run.end else rng.choice((*TABLE_DATES, zero)),
            "cores": f"{run.cores}{rng.choice(('', '.0'))}",
            "asked": limit,
            "who": run.user,
            "machine": "birch" if run.user == "zoe" else "alder",
            "paused": rng.choice(("0", "", "None")),
            "note": text_of_user(rng, delimiter),
        }
        writer.writerow([row[name] for name in names])
    mapping = NAMES | ({"suspended": "paused"} if "paused" in names else {})
    mapping |= {"cluster": "machine"} if known.elsewhere else {}
    cluster = "alder" if known.elsewhere else ""
    form = mapping, {"walltime": unit}
    return Written(out.getvalue(), known, zone, delimiter, form, cluster)


def pbs(rng: random.Random) -> Written:
    """Write the accounting of PBS: a record for what happened to a job."""
    known = draw(rng, of_slurm=False)
    zone = rng.choice(ZONES)
    records: list[tuple[int, str]] = []
    jobs: dict[str, Run] = {}
    seen: set[str] = set()
    for run in known.rows:
        job = f"{run.job}.server"
        name = f"{run.job}j2.server" if job in seen else job
        seen.add(job)

        def say(
            date: int, kind: str, fields: dict[str, Any], job: str = job, run: Run = run
        ) -> None:
            here = datetime.fromtimestamp(date, UTC).astimezone(ZoneInfo(zone))
            told = {
                "user": run.user,
                "queue": "main",
                **fields,
                "jobname": f'"{rng.choice(WORDS).replace(chr(34), "")}"',
            }
            shown = list(told.items())
            rng.shuffle(shown)
            told_text = " ".join(f"{key}={value}" for key, value in shown)
            records.append((date, f"{here:%m/%d/%Y %H:%M:%S};{kind};{job};{told_text}"))

        asked = {
            "Resource_List.ncpus": run.cores,
            "ctime": run.submit,
            "qtime": rng.choice((0, run.submit)),
        }
        if run.limit or rng.random() < 0.5:
            limit = (
                rng.choice((clock, str))(run.limit)
                if run.limit and run.limit < 86_400
                else run.limit
            )
            asked["Resource_List.walltime"] = limit or rng.choice(("4294967295", "UNLIMITED", ""))
        if rng.random() < 0.7:
            say(run.submit, "Q", {})
        if run.start is None:
            say(run.submit + 1, "Q", asked)
            continue
        begun = {**asked, "start": run.start}
        start = run.start
        if rng.random() < 0.2 and start - run.submit > 10:  # Run once before, and again.
            say(run.submit + 1, "S", {**asked, "start": run.submit + 1})
            say(run.submit + 5, "R", {})
        if run.end is None or rng.random() < 0.7:
            say(start, "S", begun)
        if run.end is None:
            continue
        fields = {**begun, "end": run.end, "Exit_status": 0 if run.state == "COMPLETED" else 1}
        if rng.random() < 0.7:
            fields["resources_used.walltime"] = _hours(run.ran)
        say(run.end, "E", fields)
        over = run.limit is not None and run.ran >= run.limit
        state = "COMPLETED" if run.state == "COMPLETED" else "TIMEOUT" if over else "FAILED"
        jobs[name] = replace(run, job=job, state=state)
    known.jobs = jobs
    records.sort(key=lambda each: each[0])
    return Written("".join(f"{line}\n" for _, line in records), known, zone, ";")


def _hours(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


PLANNED = ("Priority", "Resources", "None")
"""Reasons of jobs that can start once processors are free."""


def squeue(rng: random.Random) -> Written:
    """Write what ``squeue --json`` prints; ``further`` are jobs that hold or want processors, and
    ``lacks`` whether one of them waits for Resources.
    """
    known = draw(rng, of_slurm=False, again=False)
    new = rng.random() < 0.5

    def number(value: int | None, none: int) -> Any:
        if new:
            return {"set": value is not None, "infinite": False, "number": value or 0}
        return none if value is None else value

    jobs = []
    wanted = dict[str, tuple[Any, ...]]()
    lacks = False
    for run in known.rows:
        runs = run.state == "RUNNING"
        waits = run.state == "PENDING"
        # The components of a heterogeneous job start together.
        parts = rng.randint(2, 4) if (runs or waits) and rng.random() < 0.3 else 1
        tasks = rng.choice(("", "", "3-5%2", "1,7", "2,4,...")) if waits and parts == 1 else ""
        common = {
            "job_state": [run.state] if new else run.state,
            "submit_time": number(run.submit, 0),
            "start_time": number(run.start if runs else None, rng.choice((0, 4294967294))),
            "end_time": number(None, rng.choice((0, 4294967294))),
            "array_job_id": number(int(run.job) if tasks else None, 0),
            "array_task_id": number(None, 4294967294),
            "array_task_string": tasks,
            "user_name": run.user,
            "partition": "main",
            "comment": text_of_user(rng, "|"),
            "name": text_of_user(rng, "|"),
        }
        others = ("JobHeldUser", "PartitionTimeLimit", "Dependency")
        cores = []
        limits = []
        reasons = []
        records = []
        for offset in range(parts):
            # What keeps one of them keeps all.
            reasons.append(
                rng.choice((*PLANNED, *others) if parts == 1 else (*PLANNED * 3, *others))
            )
            cores.append(run.cores if not offset else rng.choice((1, 2, 16, 128)))
            limits.append(run.limit if not offset else rng.choice((None, 1800, 86_400)))
            minutes = None if limits[-1] is None else limits[-1] // 60
            record = {
                **common,
                "job_id": int(run.job) + offset,
                "state_reason": reasons[-1] if waits else "None",
                "cpus": number(cores[-1], 0),
                "time_limit": number(minutes, rng.choice((4294967295, 4294967294))),
                "het_job_id": number(int(run.job) if parts > 1 else None, 0),
                "het_job_offset": number(offset if parts > 1 else None, 0),
            }
            records.append(record)
        rng.shuffle(records)
        jobs += records

        is_planned = waits and all(reason in PLANNED for reason in reasons)
        lacks |= is_planned and "Resources" in reasons
        if runs or is_planned:
            limit = None if None in limits else max(limits)
            told = (sum(cores), limit, run.submit, run.start if runs else None)
            listed = {"3-5%2": (3, 4, 5), "1,7": (1, 7), "2,4,...": (2, 4)}.get(tasks)
            for job in [run.job] if listed is None else [f"{run.job}_{task}" for task in listed]:
                wanted[job] = told
    data = {"meta": {}, "jobs": jobs, "errors": [], "last_update": number(1_750_000_000, 0)}
    return Written(json.dumps(data), known, "UTC", "", wanted, lacks=lacks)


def squeue_text(rng: random.Random) -> Written:
    """Write what squeue prints in columns, with dates of a zone; ``further`` as of squeue."""
    known = draw(rng, of_slurm=False, again=False)
    zone = rng.choice(ZONES)
    rows, wanted = [], {}
    for run in known.rows:
        if run.state not in ("RUNNING", "PENDING"):
            continue
        start = local(run.start, zone) if run.start else rng.choice(("N/A", "Unknown"))
        limit = clock(run.limit) if run.limit else "UNLIMITED"
        rows.append([run.job, run.state, str(run.cores), limit, local(run.submit, zone), start])
        wanted[run.job] = (run.cores, run.limit, run.submit, run.start)
    heads = ["JOBID", "STATE", "CPUS", "TIME_LIMIT", "SUBMIT_TIME", "START_TIME"]
    text = "".join("|".join(row) + "\n" for row in [heads, *rows])
    return Written(text, known, zone, "|", wanted)


def local(seconds: int, zone: str) -> str:
    """Return a date by the clock of a zone."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(zone)):%Y-%m-%dT%H:%M:%S}"


GRES = (
    *(("(null)", 0), ("gpu:a100:4(S:0-1)", 4), ("gpu:2", 2), ("gpu:2080ti:8", 8)),
    *(("gpu:4090:4(IDX:0-3)", 4), ("gpu:1g.10gb:7,shard:a100:8", 7), ("mps:400", 0)),
    ("gpu:980gtx:1,gpu:a100_1g.5gb:2", 3),
)
"""Generic resources of a node, and the GPUs that they tell."""

STATES = (
    *(("IDLE", ""), ("MIXED", ""), ("ALLOCATED", ""), ("IDLE+PLANNED", ""), ("IDLE+CLOUD", "")),
    *(("IDLE+CLOUD+POWERED_DOWN", ""), ("IDLE+NOT_RESPONDING+POWERING_UP", "")),
    *(("IDLE+DRAIN", "DRAIN"), ("MIXED+DRAIN", "DRAIN"), ("DOWN", "DOWN"), ("MIXED+FAIL", "FAIL")),
    *(("IDLE+MAINTENANCE", "MAINTENANCE"), ("IDLE+NOT_RESPONDING", "NOT_RESPONDING")),
    *(("FUTURE", "FUTURE"), ("UNKNOWN", "UNKNOWN"), ("ERROR", "ERROR")),
    *(("IDLE+RESERVED", "RESERVED"), ("IDLE+INVALID_REG", "INVALID_REG")),
)
"""States of a node, and for which of these Slurm does not use it."""

SHORT = {
    "IDLE+PLANNED": "plnd",
    "IDLE+CLOUD": "idle",
    "IDLE+CLOUD+POWERED_DOWN": "idle~",
    "IDLE+NOT_RESPONDING+POWERING_UP": "idle#",
    "IDLE+DRAIN": "drain",
    "MIXED+DRAIN": "drng",
    "MIXED+FAIL": "failg",
    "IDLE+MAINTENANCE": "maint",
    "IDLE+NOT_RESPONDING": "idle*",
    "FUTURE": "futr",
    "UNKNOWN": "unk",
    "IDLE+RESERVED": "resv",
    "IDLE+INVALID_REG": "inval",
}
"""States as ``sinfo`` shortens them, where that is more than another case."""


def scontrol(rng: random.Random) -> Written:
    """Write nodes as ``scontrol show node`` or ``sinfo`` do, as text or JSON; ``further`` are
    cores, nodes and GPUs of partitions, and which nodes are away for which state.
    """
    records = []
    rows = ["NODELIST|PARTITION|CPUS|GRES|STATE"]
    nodes = list[dict[str, Any]]()
    sizes: dict[str, list[int]] = {}
    away: dict[str, str] = {}
    parts = rng.sample(("short", "long", "gpu"), rng.randint(1, 3))
    own = rng.random() < 0.5
    for number in range(rng.randint(1, 6)):
        cores = rng.choice((1, 4, 64))
        inside = [rng.choice(parts)] if own else parts
        gres, gpus = rng.choice(GRES)
        state, why = rng.choice(STATES)
        date = rng.choice(("Unknown", "None", "2026-06-20 23:00:00", "20 Jun 23:00", "Ystday 9:00"))
        fields = [
            f"Arch=x86_64 CoresPerSocket={cores}",
            f"CPUAlloc=0 CPUEfctv={cores} CPUTot={cores} CPULoad=N/A",
            f"Gres={gres}",
            "OS=Linux 6.1.0 #1 SMP",
            f"State={state} ThreadsPerCore=1",
            f"Partitions={','.join(inside)}",
            f"BootTime={date} SlurmdStartTime={date}",
            f"LastBusyTime={date} ResumeAfterTime=None",
        ]
        rng.shuffle(fields)
        if rng.random() < 0.5:
            reasons = ("disk CPUTot=99 broken", "see NodeName=x State=DOWN", "bad [root@now]")
            fields.append(f"Reason={rng.choice(reasons)}")
        lines = rng.choice(("\n   ", " ")).join([f"NodeName=n{number} {fields[0]}", *fields[1:]])
        records.append(lines)
        rows += [f"n{number}|{name}*|{cores}|{gres}|{SHORT.get(state, state)}" for name in inside]
        base, *flags = state.split("+")
        node = {"name": f"n{number}", "cpus": cores, "gres": gres, "partitions": inside}
        nodes.append(node | {"state": [base, *flags], "alloc_cpus": 0})
        if why:
            away[f"n{number}"] = why
        for name in inside:
            size = sizes.setdefault(name, [0, 0, 0])
            size[0] += cores
            size[1] += 1
            size[2] += gpus
    text = rng.choice(
        (
            rng.choice(("\n\n", "\n")).join(records) + "\n",
            "\n".join(rows) + "\n",
            json.dumps({"meta": {}, "errors": [], "nodes": nodes}),
        )
    )
    right = {name: tuple(each) for name, each in sizes.items()}
    return Written(text, Known(), "UTC", "", (right, away))


DATES = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%s", "%d %b %H:%M", "%c", "%d %b %Y")
"""Forms of dates: the first three are sure, the others are refused."""


def scontrol_jobs(rng: random.Random) -> Written:
    """Write what ``scontrol show job`` prints; ``further`` are the jobs that are read, or the field
    that is refused.
    """
    known = draw(rng, of_slurm=False, again=False)
    form = rng.choices(DATES, (6, 6, 6, 1, 1, 1))[0]
    texts = ("x", "a y=z EndTime=5 NumCPUs=1", "see UserId=eve(0) GroupId=g(0) JobState=PENDING")
    comments = (*texts, "a line\nEndTime=5", "a line\nJobId=5 JobName=x")
    within, between = rng.choice((("\n   ", "\n\n"), (" ", "\n")))
    wanted, jobs = {}, []

    def date(seconds: int | None) -> str:
        if seconds is None:
            return rng.choice(("Unknown", "N/A", "None"))
        if form == "%s":
            return str(seconds)
        return datetime.fromtimestamp(seconds, UTC).strftime(form)

    for run in known.rows:
        runs = run.state == "RUNNING"
        if run.job in wanted or not (runs or run.state == "PENDING"):
            continue
        limit = run.limit and run.limit // 60 * 60
        told = "UNLIMITED" if not limit else clock(limit)
        lines = [
            f"JobId={run.job} JobName={rng.choice(texts)}",
            f"UserId={run.user or 'nobody'}(7) GroupId=g(7) MCS_label=N/A",
            "Priority=7 Nice=0 Account=a QOS=normal",
            f"JobState={run.state} Reason=None Dependency=(null)",
            f"RunTime=00:00:05 TimeLimit={told} TimeMin=N/A",
            f"SubmitTime={date(run.submit)} EligibleTime={date(run.submit)}",
            f"StartTime={date(run.start if runs else None)} EndTime=Unknown Deadline=N/A",
            "Partition=main AllocNode:Sid=login:1",
            f"NumNodes=1 NumCPUs={run.cores} NumTasks=1 CPUs/Task=1",
            f"OverSubscribe=OK Contiguous=0 Licenses=(null) Network={rng.choice(texts)}",
            f"Command={rng.choice(texts)}",
            f"Comment={rng.choice(comments)}",
        ]
        jobs.append(within.join(lines))
        wanted[run.job] = (run.cores, limit or None, run.submit, run.start if runs else None)
    text = between.join(jobs) + "\n" if jobs else "No jobs in the system\n"
    refused = "SubmitTime" if jobs and form in DATES[3:] else ""
    return Written(text, known, "UTC", "", (wanted, refused))


FLAGS = {
    **dict.fromkeys(("", "MAINT", "IGNORE_JOBS", "SPEC_NODES", "MAGNETIC", "OVERLAP"), False),
    **dict.fromkeys(("PURGE_COMP=00:05:00", "DAILY", "WEEKLY", "USER_DELETE"), False),
    **dict.fromkeys(("TIME_FLOAT", "FLEX", "ANY_NODES"), True),
}
"""Flags of a reservation, and whether it makes no window with them."""


def reservations(rng: random.Random) -> Written:
    """Write what ``scontrol show reservation`` prints; ``further`` are start, end and whether it is
    no window, by name, and the field that is refused.
    """
    form = rng.choices(DATES, (6, 6, 6, 1, 1, 1))[0]
    records = []
    right = {}
    listed = []
    for number in range(rng.randint(1, 5)):
        flags = rng.sample(list(FLAGS), rng.randint(1, 4))
        start = 1_780_000_020 + 60 * rng.randrange(10**5)
        end = start + 60 * rng.randint(1, 5000)
        begin, until = (datetime.fromtimestamp(each, UTC).strftime(form) for each in (start, end))
        if form == "%s":
            begin, until = str(start), str(end)
        lines = [
            f"ReservationName=r{number} StartTime={begin} EndTime={until} Duration=01:00:00",
            f"Nodes=n1 NodeCnt=1 CoreCnt=4 PartitionName=(null) Flags={','.join(flags)}",
            "TRES=cpu=4",
            "Users=root Accounts=(null) State=INACTIVE",
            "Comment=until EndTime=2030-01-01T00:00:00 Flags=FLEX",
        ]
        records.append(rng.choice(("\n   ", " ")).join(lines))
        times = {"start_time": {"set": True, "number": start}, "end_time": end}
        listed.append({"name": f"r{number}", "flags": flags, "tres": "cpu=4"} | times)
        right[f"r{number}"] = (start, end, any(FLAGS[each] for each in flags))
    if rng.random() < 0.3:
        return Written(json.dumps({"reservations": listed}), Known(), "UTC", "", (right, ""))
    refused = "StartTime" if form in DATES[3:] else ""
    return Written("\n\n".join(records) + "\n", Known(), "UTC", "", (right, refused))


WRITERS: dict[str, Callable[[random.Random], Written]] = {
    "sacct": sacct,
    "sacct_json": sacct_json,
    "table": table,
    "pbs": pbs,
    "squeue": squeue,
    "squeue_text": squeue_text,
    "scontrol": scontrol,
    "scontrol_jobs": scontrol_jobs,
    "reservations": reservations,
}
