"""Asking Slurm: its commands that change nothing, and rows of what they print.

``squeue``, ``sinfo``, ``scontrol show`` and ``sprio``, tested with Slurm 22.05. Pitfalls that this
module knows are in docs/live.md.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress

from qops_batsim.errors import InputError, QopsError, printable
from qops_batsim.slurm.node_states import MAINTENANCE, RESERVED
from qops_batsim.slurm.nodes import nodes_of
from qops_batsim.slurm.squeue_text import FORMAT
from qops_batsim.workload.accounting.node_sizes import NodeSizes

PATIENCE = 20.0
"""Longest time for an answer of Slurm (seconds)."""


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


def queue_text(run: Run) -> str:
    """Return what squeue prints about all jobs: JSON, or text if this squeue has no JSON.

    If slurmctld does not answer, the JSON tells of errors and has no jobs.
    """
    try:
        return run(["squeue", "-a", "--json"], "")
    except CommandFailed:
        return run(["squeue", "-a"], FORMAT)


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
