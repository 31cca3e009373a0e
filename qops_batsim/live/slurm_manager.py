"""Slurm as a resource manager, by ``squeue``, ``sinfo``, ``scontrol`` and ``scancel``.

Tested with Slurm 22.05. Pitfalls that this module knows are in docs/live.md.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from qops_batsim.errors import InputError, printable, shown
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
)
from qops_batsim.live.manager import (
    CommandFailed,
    JobPhase,
    NodeState,
    SeenJob,
    Unreachable,
    array_of,
)
from qops_batsim.queue.queue_reading import HELD, HOLDING, WAITING
from qops_batsim.slurm.config import pairs_of
from qops_batsim.slurm.node_states import read_state
from qops_batsim.slurm.squeue_text import FORMAT
from qops_batsim.slurm.waiting_reasons import may_start
from qops_batsim.workload.accounting.cells import read_duration
from qops_batsim.workload.accounting.node_sizes import node_names

PATIENCE = 20.0
"""Longest time for an answer of Slurm (seconds)."""

MOST_AT_ONCE = 500
"""Most jobs that one command names."""

MOST_ARRAYS = 20
"""Most arrays that one look asks about."""

LONGEST_TEXT = 200
"""Letters of what a user is told."""

MARK = "qops: "
"""Beginning of the AdminComment of a job that this program has held."""

_COLUMNS = (
    "JobArrayID",
    "State",
    "NumNodes",
    "TimeLimit",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "RestartCnt",
    "Requeue",
    "Nice",
    "PriorityLong",
    "Reason",
    "deadline",
    "UserName",
    "NodeList",
    "EligibleTime",
    "Dependency",
    "admin_comment",
    "Comment",
)
"""Columns of squeue."""

_OUTCOMES = {
    "COMPLETED": COMPLETED_SUCCESSFULLY,
    "TIMEOUT": COMPLETED_WALLTIME_REACHED,
    "FAILED": COMPLETED_FAILED,
    "OUT_OF_MEMORY": COMPLETED_FAILED,
}
_PHASES = (
    dict.fromkeys(WAITING | HELD, JobPhase.WAITING)
    | dict.fromkeys(HOLDING | {"SUSPENDED"}, JobPhase.RUNNING)
    | dict.fromkeys(("CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL"), JobPhase.ENDED)
    | dict.fromkeys(("DEADLINE", "REVOKED", *_OUTCOMES), JobPhase.ENDED)
)

OWN_HOLD = "held-by-user"
"""Value of the word ``qops`` in the comment of a job whose user holds it on purpose."""

_ASKED = re.compile(r"(?:^|[\s,;])(deadline(?==)|tolerance(?==)|qops(?![^\s,;=]))=?([^\s,;]*)")
_NUMBER = re.compile(r"(-?[0-9]+)(?:-[0-9]+)?")
_JOB_ID = re.compile(r"([0-9]+(?:[_+][0-9]+)?)")
_THROTTLE = re.compile(r"JobId=\S+ ArrayJobId=\S+ ArrayTaskId=\S+ ArrayTaskThrottle=([0-9]+) ")
_NONE = ("", "N/A", "Unknown", "NONE", "None", "0")

Run = Callable[[Sequence[str], str], str]
"""Runs a command, with a format that its user alone may read, and returns its output.

It raises what :func:`run_command` does.
"""


def run_command(command: Sequence[str], form: str = "") -> str:
    """Run a Slurm command and return its output, dates in seconds since 1970.

    ``form`` is squeue's output format. It is passed in the environment, since all users of a
    machine can read the arguments of its processes. Filters set in the environment are dropped.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SQUEUE_", "SINFO_", "SCONTROL_", "SCANCEL_"))
    } | {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}
    if form:
        environment["SQUEUE_FORMAT2"] = form
    try:
        done = subprocess.run(
            [*command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise InputError(
            f"{command[0]} is not installed; a machine with Slurm's commands is expected"
        ) from None
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{command[0]} has not answered within {PATIENCE:g} s") from None
    except OSError as error:
        raise Unreachable(f"{command[0]}: {error.strerror}") from None
    said = done.stderr.strip() or done.stdout.strip()
    if done.returncode or "error:" in done.stderr:
        unreachable = re.search(
            r"[Uu]nable to contact|[Cc]onnection|[Tt]imed? ?out|Zero Bytes", said
        )
        kind = Unreachable if unreachable else CommandFailed
        raise kind(f"{' '.join(command[:3])}: {printable(said) or f'exit code {done.returncode}'}")
    return done.stdout


class Slurm:
    """Observes and commands the jobs of a Slurm, or of one of its partitions.

    Parameters
    ----------
    partition
        Name of the partition whose jobs and nodes count; None for all.
    run
        Runs the commands.
    """

    def __init__(self, partition: str | None = None, run: Run = run_command) -> None:
        self._of = [] if partition is None else ["-p", partition]
        self._run = run
        self._with_deadline: set[str] = set()
        self._marked: set[str] = set()
        self._throttles: dict[str, int] = {}

    def jobs(self) -> list[SeenJob]:
        """Return the jobs that Slurm lists, each task of an array as a job of its own.

        Each cell ends with a word that is drawn for this call, so that no text of a user
        ends a cell. A row that cannot be read becomes a job that names the problem.
        """
        end = f"<{secrets.token_hex(16)}>"
        form = ",".join(f"{name}:0{end}" for name in _COLUMNS)
        said = self._ask(["squeue", "-h", "-a", "-r", "-t", "all", *self._of], form)
        *cells, last = said.split(end)
        if last.strip() or len(cells) % len(_COLUMNS):
            raise Unreachable(
                f"squeue prints {shown(last or said)}; rows of {len(_COLUMNS)} columns are expected"
            )
        rows = [
            dict(zip(_COLUMNS, map(str.strip, cells[first:]), strict=False))
            for first in range(0, len(cells), len(_COLUMNS))
        ]
        jobs = [_job_or_problem(row) for row in rows]
        self._ask_throttles(jobs)
        self._with_deadline = {job.id for job in jobs if job.manager_deadline is not None}
        self._marked = {row["JobArrayID"] for row in rows if row["admin_comment"].startswith(MARK)}
        return [limited(job, self._throttles) for job in jobs]

    def expected_starts(self) -> dict[str, float | None]:
        """Return when Slurm expects each waiting job to start (s since 1970), None if unknown."""
        said = self._ask(
            ["squeue", "-h", "-a", "-r", "-t", "PENDING", *self._of],
            "JobArrayID:0 ,StartTime:0 ",
        )
        rows = [line.split() for line in said.splitlines()]
        found: dict[str, float | None] = {}
        for row in rows:
            if len(row) != 2 or not (row[1] in _NONE or row[1].isdecimal()):
                raise Unreachable(
                    f"squeue prints {shown(said)}; rows with a job's id and its expected start "
                    "are expected"
                )
            found[row[0]] = None if row[1] in _NONE else float(row[1])
        return found

    def _ask_throttles(self, jobs: Sequence[SeenJob]) -> None:
        """Read how many tasks of each array may run at once (``sbatch --array=1-9%2``).

        squeue does not tell this limit of tasks that are held one by one. Each call asks about
        new arrays, or, without any, about the array whose limit was read longest ago.
        """
        tasks = {
            array_of(each.id): each.id
            for each in jobs
            if "_" in each.id and each.phase is JobPhase.WAITING and not each.problem
        }
        known = {each: most for each, most in self._throttles.items() if each in tasks}
        new = sorted({*tasks} - {*known}, key=int)[:MOST_ARRAYS]
        for array in new or list(known)[:1]:
            known.pop(array, None)
            with suppress(CommandFailed):  # The task has just ended.
                said = self._run(["scontrol", "-o", "show", "job", tasks[array]], "")
                found = _THROTTLE.match(said)
                known[array] = int(found[1]) if found else 0
        self._throttles = known

    def nodes(self) -> dict[str, NodeState]:
        """Return the state of each node that sinfo lists."""
        said = self._ask(["sinfo", "-h", "-N", *self._of, "-o", "%N|%T"])
        pairs = (line.strip().partition("|") for line in said.splitlines())
        return {name: node_state(state) for name, _, state in pairs if state}

    def _ask(self, command: Sequence[str], form: str = "") -> str:
        """Run a command that only reads; return its output, or raise Unreachable if it fails."""
        try:
            return self._run(command, form)
        except CommandFailed as error:
            raise Unreachable(str(error)) from None

    def hold(self, job_ids: Sequence[str]) -> None:
        """Hold jobs as administrator, and move their Slurm deadlines to a far date.

        Slurm would cancel a job whose whole limit does not fit before its own deadline any
        more; the moved deadline stays. A held job also gets a mark, by which it is
        recognised without a journal.
        """
        new = [each for each in job_ids if each not in self._marked]
        self._each(["update"], new, ["Priority=0", f"AdminComment={MARK}held"])
        self._each(["hold"], [each for each in job_ids if each in self._marked])
        for job_id in self._with_deadline.intersection(job_ids):
            self._run(["scontrol", "update", f"jobid={job_id}", "Deadline=now+365days"], "")

    def start(self, job_id: str, hosts: Sequence[str]) -> None:
        """Release a held job onto nodes now; a requeued job would otherwise wait two minutes."""
        nodes = [f"ReqNodeList={','.join(hosts)}"] if hosts else []
        self._run(["scontrol", "update", f"jobid={job_id}", "StartTime=now", *nodes], "")
        self._run(["scontrol", "release", job_id], "")

    def release(self, job_ids: Sequence[str]) -> None:
        """Release held jobs, so that Slurm schedules them by itself."""
        self._each(["release"], job_ids)

    def refuse(self, job_id: str, why: str) -> None:
        """Write into a waiting job's AdminComment why it is refused, and cancel it."""
        with suppress(CommandFailed):  # Slurm takes no comment on a job that cannot run at all.
            self.tell({job_id: why})
        self._run(["scancel", "--state=PENDING", job_id], "")

    def requeue(self, job_id: str) -> None:
        """Requeue a running job and hold it."""
        self._run(["scontrol", "requeuehold", job_id], "")

    def tell(self, texts: Mapping[str, str]) -> None:
        """Write a text into the AdminComment of each job."""
        for job_id, text in texts.items():
            said = (MARK + printable(text).replace('"', "'"))[:LONGEST_TEXT]
            self._run(["scontrol", "update", f"jobid={job_id}", f"AdminComment={said}"], "")

    def _each(
        self, words: Sequence[str], job_ids: Sequence[str], changes: Sequence[str] = ()
    ) -> None:
        """Run an scontrol command for many jobs, in groups; raise the first failure at the end."""
        failed: list[CommandFailed] = []
        for first in range(0, len(job_ids), MOST_AT_ONCE):
            listed = ",".join(job_ids[first : first + MOST_AT_ONCE])
            about = f"jobid={listed}" if changes else listed
            try:
                self._run(["scontrol", *words, about, *changes], "")
            except CommandFailed as error:
                failed.append(error)
        if failed:
            raise failed[0]


def _job_or_problem(row: Mapping[str, str]) -> SeenJob:
    """Parse a row of squeue; if it cannot be read, return a job that names the problem."""
    try:
        return read_job(row)
    except ValueError as error:
        return SeenJob(
            id=printable(row["JobArrayID"]),
            phase=JobPhase.WAITING,
            nodes=0,
            is_ready=False,
            problem=f"cannot be read: {error}",
        )


def limited(job: SeenJob, throttles: Mapping[str, int]) -> SeenJob:
    """Return a job with its array's limit of running tasks; not ready while that is unknown."""
    array = array_of(job.id)
    if array == job.id or job.phase is not JobPhase.WAITING:
        return job
    if array in throttles:
        return replace(job, throttle=throttles[array])
    return replace(job, is_ready=False, is_early=job.is_ready or job.is_early)


def read_job(row: Mapping[str, str]) -> SeenJob:
    """Parse a row of squeue (column name to text); a ValueError says which value is wrong."""
    state, reason = row["State"], row["Reason"]
    if (phase := _PHASES.get(state)) is None:
        raise ValueError(f"State is {shown(state)}; a job state of Slurm is expected, as RUNNING")
    asks = dict(_ASKED.findall(row["Comment"]))
    # A user who sets nice on a held job has Slurm release it, whatever the reason says.
    hold = reason if phase is JobPhase.WAITING and row["PriorityLong"] == "0" else ""
    is_ours = {
        "JobHeldAdmin": row["admin_comment"].startswith(MARK),
        "JobHeldUser": bool(asks) and asks.get("qops") != OWN_HOLD,
    }.get(hold)
    start, end = _date(row, "StartTime"), _date(row, "EndTime")
    # A hold hides this reason.
    is_early = row["Dependency"] not in ("", "(null)") or (
        (_date(row, "EligibleTime") or 0.0) > time.time()
    )
    return SeenJob(
        id=_fitting(row, "JobArrayID", _JOB_ID),
        phase=phase,
        nodes=int(_fitting(row, "NumNodes")),
        limit=read_limit(row["TimeLimit"]),
        submitted=_date(row, "SubmitTime") or 0.0,
        start=None if phase is JobPhase.WAITING else start,
        end=end if phase is JobPhase.ENDED else None,
        restarts=int(_fitting(row, "RestartCnt")),
        user=row["UserName"],
        is_held=hold == "JobHeldAdmin",
        is_handed=is_ours is True,
        is_rerunnable=row["Requeue"] != "0",
        nice=int(_fitting(row, "Nice")),
        is_ready=not is_early
        and (
            "Held" in reason or reason == "JobArrayTaskLimit" or may_start(reason)
            if is_ours is None
            else is_ours
        ),
        is_early=is_early and phase is JobPhase.WAITING and is_ours is not False,
        hosts=tuple(node_names(row["NodeList"])),
        asks=asks,
        manager_deadline=_date(row, "deadline"),
        outcome=_OUTCOMES.get(state, COMPLETED_KILLED),
        is_cancelled=state == "CANCELLED",
        problem="is heterogeneous and never answered; `scontrol release` hands it to Slurm"
        if phase is JobPhase.WAITING and "+" in row["JobArrayID"]
        else "",
    )


def node_state(text: str) -> NodeState:
    """Return a node's state; a node that does not answer (``idle*``) counts as unknown.

    >>> [str(node_state(text)) for text in ("idle", "allocated*", "down*", "unknown", "draining")]
    ['there', 'unknown', 'away', 'unknown', 'away']
    """
    state = read_state(text)
    if {*state.away} - {"UNKNOWN", "NOT_RESPONDING"}:
        return NodeState.AWAY
    is_there = not state.away and state.names and not state.unknown
    return NodeState.THERE if is_there else NodeState.UNKNOWN


def read_limit(text: str) -> float | None:
    """Parse Slurm's time limit to seconds; None if there is no limit.

    A ValueError tells of any other text.

    >>> [read_limit(text) for text in ("1:00", "30", "2:00:00", "1-12:00:00", "UNLIMITED")]
    [60.0, 30.0, 7200.0, 129600.0, None]
    """
    found = read_duration(text)
    if found is None:
        raise ValueError(
            f"TimeLimit is {shown(text)}; a time as 1-12:00:00, or UNLIMITED, is expected"
        )
    return found if math.isfinite(found) else None


def _date(row: Mapping[str, str], name: str) -> float | None:
    return None if row[name] in _NONE else float(_fitting(row, name))


def _fitting(row: Mapping[str, str], name: str, kind: re.Pattern[str] = _NUMBER) -> str:
    """Return the number in a cell of a row, of a range the lower end; or what ``kind`` matches."""
    found = kind.fullmatch(row[name])
    if not found:
        raise ValueError(f"{name} is {shown(row[name])}; a number is expected")
    return found[1]


def read_queue_text(run: Run = run_command) -> str:
    """Return what squeue prints about all jobs: JSON, or text if this squeue has no JSON.

    If slurmctld does not answer, the JSON tells of errors and has no jobs.
    """
    try:
        return run(["squeue", "-a", "--json"], "")
    except CommandFailed:
        return run(["squeue", "-a"], FORMAT)


def read_config(run: Run = run_command) -> dict[str, str]:
    """Return Slurm's settings by lower-case name, without those of plug-ins of the same name."""
    told = pairs_of(run(["scontrol", "show", "config"], ""))
    return {name.lower(): value for name, value in told.items()}


def read_priorities(run: Run = run_command) -> str:
    """Return what ``scontrol show config`` and, where it works, ``sprio`` print, as one text."""
    said = run(["scontrol", "show", "config"], "")
    with suppress(CommandFailed):  # Basic priorities have no sprio.
        said += run(["sprio"], "")
    return said
