"""Slurm as a resource manager, by ``squeue``, ``sinfo``, ``scontrol`` and ``scancel``.

Tested with Slurm 22.05. Pitfalls that this module knows are in docs/live.md.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from qops_batsim.advice.queue_state import HELD, HOLDING, WAITING
from qops_batsim.advice.waiting_reasons import may_start
from qops_batsim.errors import InputError, printable, shown
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
)
from qops_batsim.live.manager import CommandFailed, JobPhase, NodeState, SeenJob, Unreachable
from qops_batsim.workload.accounting.cells import read_duration
from qops_batsim.workload.accounting.nodes import node_names

PATIENCE = 20.0
"""Longest time for an answer of Slurm (seconds)."""

MOST_AT_ONCE = 500
"""Most jobs that one command names."""

LONGEST_TEXT = 200
"""Letters of what a user is told."""

_COLUMNS = {
    "JobArrayID": 40,
    "State": 14,
    "NumNodes": 10,
    "TimeLimit": 20,
    "SubmitTime": 14,
    "StartTime": 14,
    "EndTime": 14,
    "RestartCnt": 8,
    "Requeue": 8,
    "Nice": 12,
    "PriorityLong": 20,
    "Reason": 40,
    "deadline": 14,
    "UserName": 40,
    "NodeList": 1000,
    "Comment": 400,
}
"""Columns of squeue and their widths; only the last may hold the sign between them."""

_RUNNING = HOLDING | {"SUSPENDED"}
_OUTCOMES = {
    "COMPLETED": COMPLETED_SUCCESSFULLY,
    "TIMEOUT": COMPLETED_WALLTIME_REACHED,
    "FAILED": COMPLETED_FAILED,
    "OUT_OF_MEMORY": COMPLETED_FAILED,
}

_AWAY = ("down", "drain", "fail", "maint", "boot", "power", "reserved", "inval", "blocked")
_NO_NEWS = ("unk", "future", "no_respond")

_ASKED = re.compile(r"(?:^|[\s,;])(deadline|tolerance|qops)(?:=([^\s,;]*))?")

Run = Callable[[Sequence[str], str], str]
"""Runs a command with an input and returns its output; raises what :func:`run_command` does."""


def run_command(command: Sequence[str], stdin: str = "") -> str:
    """Run a command of Slurm and return what it says, with dates in seconds since 1970."""
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            [*command],
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise InputError(f"{command[0]}: not installed; Slurm's commands are expected") from None
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{command[0]} has not answered within {PATIENCE:g} s") from None
    said = done.stderr.strip() or done.stdout.strip()
    if done.returncode or "error:" in done.stderr:
        unreachable = re.search(
            r"[Uu]nable to contact|[Cc]onnection|[Tt]imed? ?out|Zero Bytes", said
        )
        kind = Unreachable if unreachable else CommandFailed
        raise kind(f"{' '.join(command[:3])}: {printable(said) or f'exit code {done.returncode}'}")
    return done.stdout


class Slurm:
    """A partition of Slurm, or all of it.

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

    def jobs(self) -> list[SeenJob]:
        """Return the jobs, tasks of arrays one by one."""
        form = ",".join(f"{name}:{width}|" for name, width in _COLUMNS.items())
        said = self._run(["squeue", "-h", "-a", "-r", "-t", "all", *self._of, "-O", form], "")
        rows = [row for line in said.splitlines() if "+" not in (row := _cells(line))["JobArrayID"]]
        width = _COLUMNS["NodeList"]
        if cut := [row["JobArrayID"] for row in rows if len(row["NodeList"]) == width]:
            rows = self._with_whole_lists(rows, cut)
        jobs = [read_job(row) for row in rows]
        self._with_deadline = {job.id for job in jobs if job.manager_deadline is not None}
        return jobs

    def _with_whole_lists(self, rows: list[dict[str, str]], cut: list[str]) -> list[dict[str, str]]:
        """Return the jobs with the nodes that did not fit the column; those gone since left out."""
        said = self._run(
            ["squeue", "-h", "-a", "-r", "-t", "all", "-j", ",".join(cut), "-o", "%i|%N"], ""
        )
        whole = dict(line.strip().split("|", 1) for line in said.splitlines() if "|" in line)
        for row in rows:
            row["NodeList"] = whole.get(row["JobArrayID"], row["NodeList"])
        return [row for row in rows if row["JobArrayID"] not in cut or row["JobArrayID"] in whole]

    def nodes(self) -> dict[str, NodeState]:
        """Return the nodes."""
        said = self._run(["sinfo", "-h", "-N", *self._of, "-o", "%N|%T"], "")
        pairs = (line.strip().split("|") for line in said.splitlines() if "|" in line)
        return {name: node_state(state) for name, state in pairs}

    def hold(self, job_ids: Sequence[str]) -> None:
        """Hold jobs as an administrator, and move their deadlines away, which cannot be cleared.

        Slurm would cancel a job whose whole limit does not fit before its own deadline any more.
        """
        self._each("hold", job_ids)
        for job_id in self._with_deadline.intersection(job_ids):
            self._run(["scontrol", "update", f"jobid={job_id}", "Deadline=now+365days"], "")

    def start(self, job_id: str, hosts: Sequence[str]) -> None:
        """Release a job onto nodes; a requeued one would wait two minutes more otherwise."""
        nodes = [f"ReqNodeList={','.join(hosts)}"] if hosts else []
        self._run(["scontrol", "update", f"jobid={job_id}", "StartTime=now", *nodes], "")
        self._run(["scontrol", "release", job_id], "")

    def release(self, job_ids: Sequence[str]) -> None:
        """Release jobs without a word where."""
        self._each("release", job_ids)

    def refuse(self, job_id: str, why: str) -> None:
        """Cancel a job that waits; one that has ended takes no comment any more."""
        with suppress(CommandFailed):  # Slurm takes no comment on a job that cannot run at all.
            self.tell({job_id: why})
        self._run(["scancel", "--state=PENDING", job_id], "")

    def requeue(self, job_id: str) -> None:
        """Requeue and hold a job."""
        self._run(["scontrol", "requeuehold", job_id], "")

    def tell(self, texts: Mapping[str, str]) -> None:
        """Set the AdminComment of jobs."""
        for job_id, text in texts.items():
            said = printable(text).replace('"', "'")[:LONGEST_TEXT]
            self._run(["scontrol", "update", f"jobid={job_id}", f"AdminComment={said}"], "")

    def _each(self, word: str, job_ids: Sequence[str]) -> None:
        for first in range(0, len(job_ids), MOST_AT_ONCE):
            self._run(["scontrol", word, ",".join(job_ids[first : first + MOST_AT_ONCE])], "")


def _cells(line: str) -> dict[str, str]:
    """Return the cells of a line of squeue by column."""
    cells = [cell.strip() for cell in line.split("|", len(_COLUMNS) - 1)]
    if len(cells) != len(_COLUMNS):
        raise Unreachable(f"squeue says {shown(line)}; {len(_COLUMNS)} columns are expected")
    return dict(zip(_COLUMNS, cells, strict=True))


def read_job(told: Mapping[str, str]) -> SeenJob:
    """Return the job of a line of squeue, by its columns."""
    state, reason, nodes = told["State"], told["Reason"], told["NumNodes"]
    phase = JobPhase.ENDED
    if state in WAITING | HELD:
        phase = JobPhase.WAITING
    elif state in _RUNNING:
        phase = JobPhase.RUNNING
    asks = dict(_ASKED.findall(told["Comment"].rstrip("|")))
    waits = reason == "JobHeldAdmin" or ("Held" in reason and bool(asks)) or may_start(reason)
    return SeenJob(
        id=told["JobArrayID"],
        phase=phase,
        nodes=int(nodes.partition("-")[0] or 0),
        limit=read_limit(told["TimeLimit"]),
        submitted=_date(told["SubmitTime"]) or 0.0,
        start=None if phase is JobPhase.WAITING else _date(told["StartTime"]),
        end=_date(told["EndTime"]) if phase is JobPhase.ENDED else None,
        restarts=int(told["RestartCnt"] or 0),
        user=told["UserName"],
        # A user who sets nice on a held job has Slurm release it, whatever the reason says.
        is_held=reason == "JobHeldAdmin" and told["PriorityLong"] == "0",
        is_rerunnable=told["Requeue"] != "0",
        nice=int(told["Nice"] or 0),
        is_ready=waits,
        hosts=tuple(node_names(told["NodeList"])),
        asks=asks,
        manager_deadline=_date(told["deadline"]),
        outcome=_OUTCOMES.get(state, COMPLETED_KILLED),
    )


def node_state(text: str) -> NodeState:
    """Return the state of a node: one that does not answer (``idle*``) is no news yet.

    >>> [str(node_state(text)) for text in ("idle", "allocated*", "down*", "unknown", "draining")]
    ['there', 'unknown', 'away', 'unknown', 'away']
    """
    word = text.lower()
    if word.startswith(_AWAY):
        return NodeState.AWAY
    return NodeState.UNKNOWN if word.startswith(_NO_NEWS) or "*" in word else NodeState.THERE


def read_limit(text: str) -> float | None:
    """Return a limit in seconds, None for none.

    >>> [read_limit(text) for text in ("1:00", "30", "2:00:00", "1-12:00:00", "UNLIMITED")]
    [60.0, 30.0, 7200.0, 129600.0, None]
    """
    found = read_duration(text)
    return found if found is not None and math.isfinite(found) else None


def _date(text: str) -> float | None:
    return float(text) if text.isdigit() and text != "0" else None


def read_config(run: Run = run_command) -> dict[str, str]:
    """Return Slurm's settings by name in small letters."""
    said = run(["scontrol", "show", "config"], "")
    pairs = (line.split("=", 1) for line in said.splitlines() if "=" in line)
    return {name.strip().lower(): value.strip() for name, value in pairs}
