"""The interface of a resource manager: observing its jobs and nodes, and its commands.

Another one than Slurm (Flux, PBS) needs a class with these methods and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from qops_batsim.jobs import COMPLETED_SUCCESSFULLY
from qops_batsim.slurm.commands import CommandFailed as CommandFailed
from qops_batsim.slurm.commands import Unreachable as Unreachable
from qops_batsim.slurm.queued_amounts import QueuedAmounts


class JobPhase(StrEnum):
    """Phases of a job as reported by the resource manager."""

    WAITING = "waiting"
    RUNNING = "running"
    """It has its nodes, be it that it has not left them yet."""
    ENDED = "ended"


class NodeState(StrEnum):
    """States of a node; in state unknown, nothing is known about the node."""

    THERE = "there"
    AWAY = "away"
    UNKNOWN = "unknown"


class SeenJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as observed; dates in seconds since 1970, None if unknown.

    Attributes
    ----------
    limit
        Longest run time (seconds), None for no limit.
    restarts
        How often it was put back into the queue; each time it is submitted again.
    is_held
        Whether it waits until an administrator, that is, this program, releases it.
    is_handed
        Whether it is held for this program, by it or by the filter of submissions: a hold of its
        user's or an administrator's own is none of these.
    is_rerunnable
        Whether its user lets it be cut off and run again from the beginning.
    nice
        By how much its user has lowered its priority; an administrator may raise it, below 0.
    is_ready
        Whether nothing else keeps it from starting: a hold of its user or an administrator, a
        dependency, a date.
    is_early
        Whether it waits for a date or another job, and could start by itself then.
    throttle
        How many tasks of its array may run at once, 0 for any number.
    asks
        Words and values of its comment that are for us: ``deadline``, ``tolerance``.
    manager_deadline
        Deadline that the resource manager knows and acts upon.
    outcome
        Final state by Batsim's name.
    is_cancelled
        Whether somebody cancelled it.
    amounts
        What it asks of nodes and holds on them, where jobs share nodes.
    problem
        Why nothing is decided about it, as that its row cannot be read: it is no news.
    """

    id: str
    phase: JobPhase
    nodes: int
    limit: float | None = None
    submitted: float = 0.0
    start: float | None = None
    end: float | None = None
    restarts: int = 0
    user: str = ""
    is_held: bool = False
    is_handed: bool = False
    is_rerunnable: bool = True
    nice: int = 0
    is_ready: bool = True
    throttle: int = 0
    is_early: bool = False
    hosts: tuple[str, ...] = ()
    asks: Mapping[str, str] = {}
    manager_deadline: float | None = None
    outcome: str = COMPLETED_SUCCESSFULLY
    is_cancelled: bool = False
    problem: str = ""
    amounts: QueuedAmounts | UnsetType = UNSET


class CentreManager(Protocol):
    """The operations of a resource manager that live decisions need.

    ``jobs`` and ``nodes`` raise :class:`Unreachable` if the resource manager does not answer. The
    other methods change something; calling one twice has the same effect as once, and a rejected
    command raises :class:`CommandFailed`.
    """

    def jobs(self) -> list[SeenJob]:
        """Return all waiting or running jobs, and those that ended recently."""

    def nodes(self) -> dict[str, NodeState]:
        """Return the nodes that jobs can run on."""

    def shared_hosts(self) -> dict[str, dict[str, str]] | None:
        """Return what each node has, as properties of a host by its name, where jobs share nodes;
        from then on jobs tell their amounts. None where each job has its nodes for itself.
        """

    def hold(self, job_ids: Sequence[str]) -> None:
        """Hold waiting jobs so that their users cannot release them."""

    def start(self, job_id: str, hosts: Sequence[str], cores: int | None = None) -> None:
        """Start a held job now, on these nodes and, where jobs share them, on no other: with so
        many ``cores`` on each, 0 if it has its nodes for itself.
        """

    def release(self, job_ids: Sequence[str]) -> None:
        """Hand held jobs back to the resource manager's own scheduling."""

    def refuse(self, job_id: str, why: str) -> None:
        """Cancel a waiting job and tell its user why."""

    def requeue(self, job_id: str) -> None:
        """End a job's run and put the job back into the queue, held."""

    def tell(self, texts: Mapping[str, str]) -> None:
        """Show a text to the user of each job."""


def array_of(job_id: str) -> str:
    """Return the array's id of an array task (12 of ``12_3``), else the job's own id."""
    return job_id.partition("_")[0]


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which numbers in names are compared by value: n2 before n10."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
