"""Sources of a queue: a file, standard input, the Slurm that runs here, or another one."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from os import stat_result
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from qops_batsim.core.machine import Machine
from qops_batsim.errors import InputError
from qops_batsim.files import read_bytes
from qops_batsim.queue.nodes_away import return_of, without_away
from qops_batsim.queue.queue_quote import QueueAsker
from qops_batsim.queue.queue_reading import MAX_QUEUE_BYTES, read_queue
from qops_batsim.queue.queue_state import QueueNodes, QueueState
from qops_batsim.slurm.commands import (
    CommandFailed,
    Run,
    Unreachable,
    config_text,
    node_sizes,
    queue_text,
    run_command,
)
from qops_batsim.slurm.config import SlurmConfig, read_slurm_config
from qops_batsim.slurm.nodes import read_nodes
from qops_batsim.texts import date_text
from qops_batsim.workload.accounting.node_sizes import NodeSizes, node_names

_NO_MEMORY = "planned without memory, of which jobs hold none on nodes, so that it does not limit"

LIVE_SECONDS = 5.0
"""For how long an answer of a live Slurm counts as its queue."""

_Answer = TypeVar("_Answer")

_Stamp = tuple[int, int, int]
"""What tells that a file has changed: its date, size and number."""


@dataclass
class QueueSource:
    """A machine's queue, read again whenever it changes.

    Attributes
    ----------
    path
        File of the queue, ``-`` for standard input. None: that of the Slurm that runs here, asked
        at most every :data:`LIVE_SECONDS`; its nodes are asked for as well, unless ``machine`` or
        ``nodes`` are given.
    scheduler, settings, may_wait
        What searches for promises: see :class:`QueueAsker`.
    machine
        Number of processors.
    now, max_age
        A queue older than ``max_age`` (seconds), or dated as far ahead of this machine's clock, is
        refused, unless ``now`` gives its date.
    selection
        Names that jobs are taken by: of partitions, QOS, accounts, reservations.
    nodes, nodes_file
        Nodes of which those of the selected partitions are the machine, which no other partition
        may share; those that Slurm does not use now are taken off. A file is read again when it
        changes.
    time_zone
        Zone of dates of text without an offset; None: this machine's.
    run
        Runs the commands that ask Slurm.
    priorities
        Priorities of jobs, by id, that replace those in the queue.
    other
        Returns the queue in place of all this, as of a live journal, given this source.
    """

    path: Path | None
    scheduler: str = "qops"
    settings: Mapping[str, Any] = field(default_factory=dict)
    machine: int | None = None
    now: float | None = None
    may_wait: bool = False
    selection: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nodes: NodeSizes | None = None
    nodes_file: Path | None = None
    max_age: float = math.inf
    time_zone: str | None = None
    run: Run = run_command
    priorities: Mapping[str, float] = field(default_factory=dict)
    other: Callable[[QueueSource], QueueState] | None = None
    _seen: _Stamp | None = field(default=None, init=False)
    _nodes_seen: _Stamp | None = field(default=None, init=False)
    _size: int | None = field(default=None, init=False)
    _machine: Machine | None = field(default=None, init=False)
    _not_one: str = field(default="", init=False)
    _asks_nodes: bool = field(default=False, init=False)
    _fresh_until: float = field(default=-math.inf, init=False)
    _state: QueueState | None = field(default=None, init=False)
    _asker: QueueAsker | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._size = self.machine
        if self.nodes_file is not None:
            self._nodes_have_changed(self.nodes_file)
        elif self.nodes is not None:
            self._take(self.nodes)
        elif self.path is None and self.machine is None:
            self._asks_nodes = True

    def state(self) -> QueueState:
        """Return the current queue; raise an InputError if it cannot be read."""
        changed = self._changed()
        if changed is not None:
            # Of a heterogeneous job sprio's is that of its first component only.
            known = {job.id for job in changed.jobs if not job.components} & self.priorities.keys()
            jobs = [
                replace(job, priority=self.priorities[job.id]) if job.id in known else job
                for job in changed.jobs
            ]
            self._state = replace(changed, jobs=jobs)
        assert self._state is not None
        self.check_age(self._state.source, self._state.now)
        return self._state

    def asker(self) -> QueueAsker:
        """Return what computes quotes for the current queue, cached until the queue changes."""
        state = self.state()
        if self._asker is None or self._asker.state is not state:
            self._asker = QueueAsker(state, self.scheduler, self.settings, may_wait=self.may_wait)
        return self._asker

    def check_age(self, source: str, date: float) -> None:
        """Raise an InputError if a queue's date (s since 1970) is too old or in the future."""
        age = 0.0 if self.now is not None else time.time() - date
        if abs(age) > self.max_age:
            old = "old" if age > 0 else "ahead of this machine's clock"
            raise InputError(
                f"{source}: the queue is of {date_text(date)}, which is "
                f"{timedelta(seconds=abs(round(age)))} {old}; at most "
                f"{timedelta(seconds=self.max_age)} is accepted (--max-age), unless --now tells "
                "the date of the queue"
            )

    def read(
        self, content: bytes, source: str = "the queue", written_at: float | None = None
    ) -> QueueState:
        """Parse a text with a queue; ``written_at`` is its date (default: now) if it tells none."""
        partitions = self.selection.get("partition", ())
        machine = self._machine
        state = read_queue(
            content,
            source,
            processors=self._size or self.machine,
            now=self.now,
            written_at=time.time() if written_at is None else written_at,
            selection=self.selection,
            time_zone=self.time_zone,
            node_size=0 if self.nodes is None else self.nodes.largest(partitions),
            on_nodes=machine is not None,
        )
        self.check_age(state.source, state.now)
        if self.nodes is None:
            return state
        told = machine is not None and all(job.amounts for job in state.jobs)
        told &= bool(state.jobs or self._not_one)
        if self._not_one and not told:
            raise InputError(self._not_one)

        # Without a chosen reservation, what is reserved is not for this queue.
        reserved = not self.selection.get("reservation")
        away = self.nodes.away(partitions, reserved=reserved)
        if reserved:
            inside = [job for job in state.running if job.reservation]
            used = {name for job in inside for name in node_names(job.nodes)}
            away += self.nodes.also_reserved(partitions, used, away)
        state.unsure.update(self.nodes.unsure)
        state = replace(state, shares_nodes=True, asleep=self.nodes.asleep(partitions))
        if told and machine is not None:
            if self.nodes.shares_memory:
                state.unsure[_NO_MEMORY] = len(state.jobs)
            nodes = QueueNodes(
                machine=machine,
                away={node.node[0]: return_of(node, state.now) for node in away},
                asleep=self.nodes.asleep_names(partitions),
                partitions=tuple(partitions),
            )
            state = replace(state, nodes=nodes)
        return without_away(state, away)

    def _changed(self) -> QueueState | None:
        """Return the queue if it has changed since the last call, else None."""
        if self.other is not None:
            return self.other(self)
        if self.path is None:
            return self._asked()
        if str(self.path) != "-":
            return self._read_again(self.path)

        if self._seen is not None:
            return None  # Standard input can be read once.
        self._seen = (0, 0, 0)
        return self.read(sys.stdin.buffer.read(MAX_QUEUE_BYTES + 1), "standard input")

    def _asked(self) -> QueueState | None:
        """Return the queue of the Slurm that runs here, None if it was asked just before."""
        if time.monotonic() < self._fresh_until:
            return None
        if self._asks_nodes:
            self._take(_answer(node_sizes, self.run))
        said = _answer(queue_text, self.run)
        self._fresh_until = time.monotonic() + LIVE_SECONDS
        return self.read(said.encode(), "squeue")

    def _read_again(self, path: Path) -> QueueState | None:
        """Return the queue in a file if the file, or that of the nodes, has changed, else None."""
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror}); a file with a queue is expected"
            ) from None
        others = self.nodes_file is not None and self._nodes_have_changed(self.nodes_file)
        if _stamp(status) == self._seen and not others:
            return None

        content = read_bytes(path, what="a queue", max_bytes=MAX_QUEUE_BYTES)
        state = self.read(content, str(path), status.st_mtime)
        self._seen = _stamp(status)
        return state

    def _nodes_have_changed(self, path: Path) -> bool:
        """Read the file of nodes again if it has changed since the last call; return whether."""
        # A pipe can be read once, and what cannot be read is told below.
        seen = _stamp(path.stat()) if path.is_file() else (0, 0, 0)
        if seen == self._nodes_seen:
            return False
        self._take(read_nodes(path, self.time_zone))
        self._nodes_seen = seen
        return True

    def _take(self, nodes: NodeSizes) -> None:
        """Take the nodes of the selected partitions as the machine."""
        partitions = self.selection.get("partition") or [*nodes]
        nodes.refuse_cut(partitions)
        self._machine = nodes.machine_of(partitions)
        self._not_one = ""
        try:
            nodes.refuse_cut(partitions, alike=True)
        except InputError as error:
            # A plan by nodes needs no pool; whether there can be one tells the queue.
            if self._machine is None or not nodes.keys() >= {*partitions}:
                raise
            self._not_one = str(error)
        self.nodes = nodes
        self.selection = {**self.selection, "partition": partitions}
        self._size = self.machine or nodes.together(partitions)["cores"]


def _stamp(status: stat_result) -> _Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


def live_config(run: Run = run_command) -> SlurmConfig:
    """Return the settings and job priorities of the Slurm that runs on this machine."""
    return read_slurm_config(_answer(config_text, run), "scontrol show config")


def _answer(ask: Callable[[Run], _Answer], run: Run) -> _Answer:
    """Return what ``ask`` gets from Slurm; InputError if Slurm does not answer."""
    try:
        return ask(run)
    except (CommandFailed, Unreachable) as error:
        raise InputError(
            f"Slurm does not answer ({error}); a running Slurm, or a file with its queue, is "
            "expected"
        ) from None
