"""Interface of a resource manager: what is seen of its jobs and nodes, and what it can be told.

Another one than Slurm (Flux, PBS) needs a class with these methods and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from qops_batsim.errors import QopsError
from qops_batsim.jobs import COMPLETED_SUCCESSFULLY


class Unreachable(QopsError):
    """The resource manager does not answer: no news, which is not the news that all is gone."""


class JobPhase(StrEnum):
    """Phases of a job as its resource manager tells them."""

    WAITING = "waiting"
    RUNNING = "running"
    """It has its nodes, be it that it has not left them yet."""
    ENDED = "ended"


class NodeState(StrEnum):
    """States of a node; of an unknown one there is no news."""

    THERE = "there"
    AWAY = "away"
    UNKNOWN = "unknown"


class SeenJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its resource manager tells it; dates in seconds since 1970, None where unknown.

    Attributes
    ----------
    limit
        Longest run time (seconds), None for no limit.
    restarts
        How often it was put back into the queue; each time it is submitted anew.
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


class ResourceManager(Protocol):
    """The part of a resource manager that live decisions need.

    ``jobs`` and ``nodes`` raise :class:`Unreachable` where nothing is known. The others change
    something; each can be said twice without another effect than once, and raises a
    :class:`CommandFailed` if it was refused.
    """

    def jobs(self) -> list[SeenJob]:
        """Return all jobs that wait or run, and those that ended a short time ago."""

    def nodes(self) -> dict[str, NodeState]:
        """Return the nodes that jobs can run on."""

    def hold(self, job_ids: Sequence[str]) -> None:
        """Keep waiting jobs from starting, so that their users cannot release them."""

    def start(self, job_id: str, hosts: Sequence[str]) -> None:
        """Have a held job start now, on these nodes."""

    def release(self, job_ids: Sequence[str]) -> None:
        """Hand held jobs back: they start when the resource manager wants it."""

    def refuse(self, job_id: str, why: str) -> None:
        """Tell the user why, and cancel a waiting job."""

    def requeue(self, job_id: str) -> None:
        """End the run of a job, which waits again, held."""

    def tell(self, texts: Mapping[str, str]) -> None:
        """Show the users of jobs a text each."""


class CommandFailed(QopsError):
    """The resource manager has refused a command."""


def array_of(job_id: str) -> str:
    """Return the id of the array of a task (``12_3``), or of the job that is none."""
    return job_id.partition("_")[0]


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a key that puts names in the order of the numbers in them: n2 before n10."""
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
