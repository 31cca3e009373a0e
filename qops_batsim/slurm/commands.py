"""Asking Slurm: its commands that change nothing, and rows of what they print.

``squeue``, ``sinfo``, ``scontrol show`` and ``sprio``, tested with Slurm 22.05. Pitfalls that this
module knows are in docs/live.md.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from qops_batsim.errors import InputError, QopsError, printable, shown
from qops_batsim.slurm.config import pairs_of
from qops_batsim.slurm.node_states import MAINTENANCE, RESERVED, SlurmNodeState, read_state
from qops_batsim.slurm.nodes import nodes_of
from qops_batsim.slurm.queued_amounts import QueuedAmounts
from qops_batsim.slurm.squeue import amounts_of_jobs
from qops_batsim.slurm.squeue_text import FORMAT
from qops_batsim.slurm.values import time_limit
from qops_batsim.workload.accounting.node_sizes import NodeSizes

PATIENCE = 20.0
"""Longest time for an answer of Slurm (seconds)."""

_NUMBER = re.compile(r"(-?[0-9]+)(?:-[0-9]+)?")
_JOB_ID = re.compile(r"([0-9]+(?:[_+][0-9]+)?)")
_THROTTLE = re.compile(r"JobId=\S+ ArrayJobId=\S+ ArrayTaskId=\S+ ArrayTaskThrottle=([0-9]+) ")
_NO_DATES = ("", "N/A", "Unknown", "NONE", "None", "0")


class Unreachable(QopsError):
    """Raised if the resource manager does not answer; its jobs may well go on."""


class CommandFailed(QopsError):
    """Raised if the resource manager rejects a command."""


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

    # Some versions tell of an error and exit with 0.
    said = done.stderr.strip() or done.stdout.strip()
    if done.returncode or "error:" in done.stderr:
        unreachable = re.search(
            r"[Uu]nable to contact|[Cc]onnection|[Tt]imed? ?out|Zero Bytes", said
        )
        kind = Unreachable if unreachable else CommandFailed
        raise kind(f"{' '.join(command[:3])}: {printable(said) or f'exit code {done.returncode}'}")
    return done.stdout


def answer_of(run: Run, command: Sequence[str], form: str = "") -> str:
    """Run a command that only reads; return its output, or raise Unreachable if it fails."""
    try:
        return run(command, form)
    except CommandFailed as error:
        raise Unreachable(str(error)) from None


class JobRow(dict[str, str]):
    """A row of squeue: its cells by column.

    The methods parse a cell; an InputError says which value is wrong.
    """

    @property
    def job_id(self) -> str:
        """The job's id, each task of an array one of its own: ``4711``, ``4711_3``, ``4711+1``."""
        return self._matched("JobArrayID", _JOB_ID)

    def number(self, column: str) -> int:
        """Return a whole number, of a range the lower end."""
        return int(self._matched(column, _NUMBER))

    def date(self, column: str) -> float | None:
        """Return a date (seconds since 1970), None if there is none."""
        return None if self[column] in _NO_DATES else float(self.number(column))

    def limit(self, column: str) -> float | None:
        """Return a time limit (seconds), None if there is no limit."""
        return time_limit(self[column], column)

    def _matched(self, column: str, form: re.Pattern[str]) -> str:
        match = form.fullmatch(self[column])
        if match is None:
            raise InputError(f"{column} is {shown(self[column])}; a number is expected")
        return match[1]


def job_rows(run: Run, columns: Sequence[str], asked: Sequence[str]) -> list[JobRow]:
    """Return these columns of the jobs that squeue lists, tasks of arrays one by one.

    ``asked`` are arguments that choose jobs. Each cell ends with a word that is drawn for this
    call, so that no text of a user ends a cell.
    """
    end = f"<{secrets.token_hex(16)}>"
    form = ",".join(f"{name}:0{end}" for name in columns)
    said = answer_of(run, ["squeue", "-h", "-a", "-r", *asked], form)

    *cells, last = said.split(end)
    if last.strip() or len(cells) % len(columns):
        raise Unreachable(
            f"squeue prints {shown(last or said)}; rows of {len(columns)} columns are expected"
        )
    return [
        JobRow(zip(columns, map(str.strip, cells[first:]), strict=False))
        for first in range(0, len(cells), len(columns))
    ]


def queue_text(run: Run) -> str:
    """Return what squeue prints about all jobs: JSON, or text if this squeue has no JSON.

    If slurmctld does not answer, the JSON tells of errors and has no jobs.
    """
    try:
        return run(["squeue", "-a", "--json"], "")
    except CommandFailed:
        return run(["squeue", "-a"], FORMAT)


def queued_amounts(run: Run) -> dict[str, QueuedAmounts]:
    """Return what all jobs ask of nodes and hold there: see :func:`amounts_of_jobs`."""
    said = answer_of(run, ["squeue", "-a", "--json"])
    try:
        return amounts_of_jobs(msgspec.json.decode(said, type=dict[str, Any]), "squeue --json")
    except (InputError, msgspec.DecodeError) as error:
        raise Unreachable(f"squeue does not tell what jobs ask of nodes: {error}") from None


def array_throttle(run: Run, task: str) -> int:
    """Return how many tasks of an array may run at once (``sbatch --array=1-9%2``), 0 for any
    number; squeue does not tell it of tasks that are held one by one.
    """
    match = _THROTTLE.match(run(["scontrol", "-o", "show", "job", task], ""))
    return int(match[1]) if match else 0


def settings_of(run: Run = run_command) -> dict[str, str]:
    """Return Slurm's settings by lower-case name, without those of plug-ins of the same name."""
    pairs = pairs_of(run(["scontrol", "show", "config"], ""))
    return {name.lower(): value for name, value in pairs.items()}


def config_text(run: Run) -> str:
    """Return what ``scontrol show config`` and, where it works, ``sprio`` print, as one text."""
    said = run(["scontrol", "show", "config"], "")
    with suppress(CommandFailed):  # Basic priorities have no sprio.
        said += run(["sprio"], "")
    return said


def node_sizes(run: Run) -> NodeSizes:
    """Return the nodes of the Slurm that runs here, with the ends of its reservations."""
    source = "scontrol show node"
    text = run(["scontrol", "show", "node"], "")
    nodes = nodes_of(text, source)
    if any({RESERVED, MAINTENANCE} & {*away.why} for away in nodes.away(nodes)):
        text += run(["scontrol", "show", "reservation"], "")
        nodes = nodes_of(text, source)
    return nodes


def node_states(run: Run, asked: Sequence[str]) -> dict[str, SlurmNodeState]:
    """Return the state of each node that sinfo lists; ``asked`` are arguments that choose nodes."""
    said = answer_of(run, ["sinfo", "-h", "-N", *asked, "-o", "%N|%T"])
    pairs = (line.strip().partition("|") for line in said.splitlines())
    return {name: read_state(state) for name, _, state in pairs if state}


def shared_nodes(run: Run, partition: str | None) -> list[bool]:
    """Return, for each kind of nodes of a partition (None: of any), whether jobs may share them."""
    of_partition = [] if partition is None else ["-p", partition]
    said = run(["sinfo", "-h", *of_partition, "-o", "%c|%h"], "")
    rows = (row.split("|") for row in said.split())
    return [
        mode != "EXCLUSIVE" and (cores.rstrip("+") != "1" or mode != "NO") for cores, mode in rows
    ]


def shared_hosts(run: Run, partition: str | None) -> dict[str, dict[str, str]] | None:
    """Return what each node of some partitions (joined by commas; None: of all) has, as properties
    of a host by its name; None where each job has its nodes for itself.

    Memory is what a node has only where Slurm counts what jobs have of it, and ``threads`` tells
    how many processors jobs get together.
    """
    config = settings_of(run)
    names = [None] if partition is None else partition.split(",")
    are_shared = any(any(shared_nodes(run, name)) for name in names)
    counted = config.get("selecttypeparameters", "").upper()
    if "cons" not in config.get("selecttype", "") or "SOCKET" in counted or not are_shared:
        return None
    sizes = nodes_of(run(["scontrol", "show", "node"], ""), "scontrol show node")
    machine = sizes.machine_of(sizes if partition is None else partition.split(","))
    assert machine is not None  # scontrol names its nodes.
    told = sizes.read_properties()
    for properties in told.values():
        if "MEMORY" not in counted:
            del properties["memory"]
        if "CORE" not in counted:
            properties.pop("threads", None)
    return {name: told[name] for name in machine.names}


class PartitionNode(NamedTuple):
    """A node in a partition, whose jobs are above those of lower ``tier``.

    If it ``gives_way``, its jobs are cut off for those of a higher tier.
    """

    node: str
    partition: str
    tier: int
    gives_way: bool


def partition_nodes(run: Run) -> list[PartitionNode]:
    """Return the nodes of all partitions."""
    said = run(["sinfo", "-h", "-a", "-N", "-o", "%N|%R|%p|%M"], "")
    return [
        PartitionNode(node, partition, int(tier), mode in ("REQUEUE", "CANCEL"))
        for node, partition, tier, mode in re.findall(r"(?m)^(\S+)\|(\S+)\|(\d+)\|(\S+)", said)
    ]
