"""Slurm as a resource manager: its jobs and nodes as decisions need them, and its commands.

Tested with Slurm 22.05. Pitfalls that this module knows are in docs/live.md.
"""

from __future__ import annotations

import re
import time
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from functools import partial

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
from qops_batsim.slurm.commands import (
    JobRow,
    Run,
    answer_of,
    array_throttle,
    job_rows,
    node_states,
    partition_nodes,
    queued_amounts,
    run_command,
    shared_hosts,
)
from qops_batsim.slurm.node_states import SlurmNodeState
from qops_batsim.slurm.queued_amounts import QueuedAmounts
from qops_batsim.slurm.squeue import HELD, HOLDING, SUSPENDED, WAITING
from qops_batsim.slurm.waiting_reasons import ARRAY_LIMIT, may_start
from qops_batsim.workload.accounting.node_sizes import node_names

MOST_AT_ONCE = 500
"""Most jobs that one command names."""

MOST_ARRAYS = 20
"""Most arrays that one look asks about."""

LONGEST_TEXT = 200
"""Letters of what a user is told."""

MARK = "qops: "
"""Beginning of the AdminComment of a job that this program has held."""

_COLUMNS = (
    *("JobArrayID", "State", "NumNodes", "TimeLimit", "SubmitTime", "StartTime", "EndTime"),
    *("RestartCnt", "Requeue", "Nice", "PriorityLong", "Reason", "deadline", "UserName"),
    *("NodeList", "EligibleTime", "Dependency", "admin_comment", "Comment"),
)
"""Columns of squeue."""

_AMOUNT_COLUMNS = (
    *("Partition", "NumCPUs", "NumTasks", "MinMemory", "Feature", "ReqNodes"),
    *("tres-per-job", "tres-per-node", "tres-per-task", "tres-alloc"),
)
"""Further ones where jobs share nodes: by them it is seen that amounts may have changed."""

_OUTCOMES = {
    "COMPLETED": COMPLETED_SUCCESSFULLY,
    "TIMEOUT": COMPLETED_WALLTIME_REACHED,
    "FAILED": COMPLETED_FAILED,
    "OUT_OF_MEMORY": COMPLETED_FAILED,
}
_ENDED = ("CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REVOKED", *_OUTCOMES)

_PHASES = (
    dict.fromkeys(WAITING | HELD, JobPhase.WAITING)
    | dict.fromkeys(HOLDING | SUSPENDED, JobPhase.RUNNING)
    | dict.fromkeys(_ENDED, JobPhase.ENDED)
)

OWN_HOLD = "held-by-user"
"""Value of the word ``qops`` in the comment of a job whose user holds it on purpose."""

_ASKED = re.compile(r"(?:^|[\s,;])(deadline(?==)|tolerance(?==)|qops(?![^\s,;=]))=?([^\s,;]*)")


class SlurmManager:
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
        self._chosen = {*(partition or "").split(",")} - {""}
        self._hosts: dict[str, dict[str, str]] | None = None
        self._below: set[str] = set()
        self._amounts: dict[str, QueuedAmounts] = {}
        self._rows: list[JobRow] = []

    def shared_hosts(self) -> dict[str, dict[str, str]] | None:
        """Return what each node has where jobs share nodes; from then on jobs tell their amounts,
        and those of other partitions are seen that run on these nodes.
        """
        ask = partial(answer_of, self._run)
        self._hosts = shared_hosts(ask, ",".join(sorted(self._chosen)) or None)
        nodes = partition_nodes(ask)
        least = min((node.tier for node in nodes if node.partition in self._chosen), default=0)
        self._below = {node.partition for node in nodes if node.gives_way and node.tier < least}
        return self._hosts

    def jobs(self) -> list[SeenJob]:
        """Return the jobs that Slurm lists, each task of an array as a job of its own.

        A row that cannot be read becomes a job that names the problem.
        """
        if self._hosts is None:
            rows = job_rows(self._run, _COLUMNS, ["-t", "all", *self._of])
            jobs = [_job_or_problem(row) for row in rows]
        else:
            rows = job_rows(self._run, _COLUMNS + _AMOUNT_COLUMNS, ["-t", "all"])
            jobs = self._with_amounts(rows, self._hosts)

        self._ask_throttles(jobs)
        self._with_deadline = {job.id for job in jobs if job.manager_deadline is not None}
        self._marked = {row["JobArrayID"] for row in rows if row["admin_comment"].startswith(MARK)}
        return [limited(job, self._throttles) for job in jobs]

    def _with_amounts(self, rows: Sequence[JobRow], hosts: Container[str]) -> list[SeenJob]:
        """Return the jobs with their amounts, which are asked for if one of them may have changed.

        A job has none as long as what is told of it is not of one moment.
        """
        seen = [(row, _job_or_problem(row)) for row in rows]
        alive = [row for row, job in seen if job.phase is not JobPhase.ENDED]
        if alive != self._rows:
            self._amounts = queued_amounts(self._run)
            self._rows = alive

        jobs = []
        for row, job in seen:
            amounts = self._amounts.get(job.id, self._amounts.get(array_of(job.id)))
            runs = job.phase is JobPhase.RUNNING
            if amounts is not None and bool(amounts.held) == runs:
                job = replace(job, amounts=amounts)
            elif job.phase is not JobPhase.ENDED:
                self._rows = []
            if not self._chosen or not self._chosen.isdisjoint(row["Partition"].split(",")):
                jobs.append(job)
            elif runs and row["Partition"] not in self._below:
                # A stranger, of which only what it has here counts.
                here = tuple(name for name in job.hosts if name in hosts)
                jobs.append(replace(job, hosts=here, asks={}, manager_deadline=None))
        return jobs

    def expected_starts(self) -> dict[str, float | None]:
        """Return when Slurm expects each waiting job to start (s since 1970), None if unknown."""
        rows = job_rows(self._run, ("JobArrayID", "StartTime"), ["-t", "PENDING", *self._of])
        try:
            return {row["JobArrayID"]: row.date("StartTime") for row in rows}
        except InputError as error:
            raise Unreachable(f"squeue prints a row that cannot be read: {error}") from None

    def _ask_throttles(self, jobs: Sequence[SeenJob]) -> None:
        """Read how many tasks of each array may run at once.

        Each call asks about new arrays, or, without any, about the array whose limit was read
        longest ago.
        """
        tasks = {
            array_of(job.id): job.id
            for job in jobs
            if "_" in job.id and job.phase is JobPhase.WAITING and not job.problem
        }
        known = {array: most for array, most in self._throttles.items() if array in tasks}
        new = sorted({*tasks} - {*known}, key=int)[:MOST_ARRAYS]

        for array in new or list(known)[:1]:
            known.pop(array, None)
            with suppress(CommandFailed):  # The task has just ended.
                known[array] = array_throttle(self._run, tasks[array])
        self._throttles = known

    def nodes(self) -> dict[str, NodeState]:
        """Return the state of each node that sinfo lists."""
        states = node_states(self._run, self._of)
        return {name: node_state(state) for name, state in states.items()}

    def hold(self, job_ids: Sequence[str]) -> None:
        """Hold jobs as administrator, and move their Slurm deadlines to a far date.

        Slurm would cancel a job whose whole limit does not fit before its own deadline any
        more; the moved deadline stays. A held job also gets a mark, by which it is
        recognised without a journal.
        """
        new = [job_id for job_id in job_ids if job_id not in self._marked]
        self._each(["update"], new, ["Priority=0", f"AdminComment={MARK}held"])
        self._each(["hold"], [job_id for job_id in job_ids if job_id in self._marked])
        for job_id in self._with_deadline.intersection(job_ids):
            self._update(job_id, "Deadline=now+365days")

    def start(self, job_id: str, hosts: Sequence[str], cores: int | None = None) -> None:
        """Release a held job onto nodes now; a requeued job would otherwise wait two minutes.

        Slurm would add further nodes to those that are named if it may, and give one more tasks
        than another.
        """
        nodes = [f"ReqNodeList={','.join(hosts)}"] if hosts else []
        if cores is not None:
            nodes.append(f"NumNodes={len(hosts)}-{len(hosts)}")
        if cores:
            nodes += [f"NumCPUs={cores * len(hosts)}", f"MinCPUsNode={cores}"]
        self._update(job_id, "StartTime=now", *nodes)
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
            comment = (MARK + printable(text).replace('"', "'"))[:LONGEST_TEXT]
            self._update(job_id, f"AdminComment={comment}")

    def _update(self, job_id: str, *changes: str) -> None:
        self._run(["scontrol", "update", f"jobid={job_id}", *changes], "")

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


def _job_or_problem(row: JobRow) -> SeenJob:
    """Convert a row of squeue; if it cannot be read, return a job that names the problem."""
    try:
        return read_job(row)
    except InputError as error:
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


def read_job(row: JobRow) -> SeenJob:
    """Convert a row of squeue; an InputError says which value is wrong."""
    state = row["State"]
    phase = _PHASES.get(state)
    if phase is None:
        raise InputError(f"State is {shown(state)}; a job state of Slurm is expected, as RUNNING")
    waits = phase is JobPhase.WAITING

    # A user who sets nice on a held job has Slurm release it, whatever the reason says.
    reason = row["Reason"]
    hold = reason if waits and row["PriorityLong"] == "0" else ""
    asks = dict(_ASKED.findall(row["Comment"]))
    is_ours = {
        "JobHeldAdmin": row["admin_comment"].startswith(MARK),
        "JobHeldUser": bool(asks) and asks.get("qops") != OWN_HOLD,
    }.get(hold)

    # A hold hides that the job waits for a date or another job.
    eligible = row.date("EligibleTime") or 0.0
    is_early = row["Dependency"] not in ("", "(null)") or eligible > time.time()
    is_free = is_ours
    if is_ours is None:
        is_free = "Held" in reason or reason == ARRAY_LIMIT or may_start(reason)

    start = row.date("StartTime")
    end = row.date("EndTime")
    return SeenJob(
        id=row.job_id,
        phase=phase,
        nodes=row.number("NumNodes"),
        limit=row.limit("TimeLimit"),
        submitted=row.date("SubmitTime") or 0.0,
        start=None if waits else start,
        end=end if phase is JobPhase.ENDED else None,
        restarts=row.number("RestartCnt"),
        user=row["UserName"],
        is_held=hold == "JobHeldAdmin",
        is_handed=is_ours is True,
        is_rerunnable=row["Requeue"] != "0",
        nice=row.number("Nice"),
        is_ready=not is_early and bool(is_free),
        is_early=is_early and waits and is_ours is not False,
        hosts=tuple(node_names(row["NodeList"])),
        asks=asks,
        manager_deadline=row.date("deadline"),
        outcome=_OUTCOMES.get(state, COMPLETED_KILLED),
        is_cancelled=state == "CANCELLED",
        problem="is heterogeneous and never answered; `scontrol release` hands it to Slurm"
        if waits and "+" in row["JobArrayID"]
        else "",
    )


def node_state(state: SlurmNodeState) -> NodeState:
    """Return a node's state; a node that does not answer (``idle*``) counts as unknown.

    >>> from qops_batsim.slurm.node_states import read_state
    >>> words = "idle", "allocated*", "down*", "unknown", "draining"
    >>> [str(node_state(read_state(word))) for word in words]
    ['there', 'unknown', 'away', 'unknown', 'away']
    """
    if {*state.away} - {"UNKNOWN", "NOT_RESPONDING"}:
        return NodeState.AWAY
    is_there = not state.away and state.names and not state.unknown
    return NodeState.THERE if is_there else NodeState.UNKNOWN
