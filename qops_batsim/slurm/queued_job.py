"""A job of a queue: it runs, or it waits."""

from __future__ import annotations

import msgspec

from qops_batsim.slurm.queued_amounts import QueuedAmounts
from qops_batsim.slurm.waiting_reasons import Meaning, meaning_of


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A running or waiting job; dates in seconds since 1970, None if unknown.

    Attributes
    ----------
    estimate
        How long it may run in all (seconds); None: for ever.
    start, end
        Since when it runs, and until when at most; neither for a job that waits.
    planned_start
        When a waiting job is to start, as its scheduler plans now.
    deadline
        What was promised to it.
    priority
        The greater goes first among waiting jobs without planned start.
    user, application, partition
        Whose job it is, its name, and where it waits or runs; empty if not told.
    array, at_once
        Array that it is a task of, and how many tasks of that may run at once; 0: any number.
    nodes
        Where it runs, as Slurm lists nodes (``n[1-4]``); empty if not told.
    reservation
        Reservation inside which it runs; empty if in none.
    reason
        Why it waits, as Slurm says it (``JobHeldUser``); empty if not told.
    components
        Ids of a heterogeneous job's components (``4711+1``), which start together.
    amounts
        What it, or each component, asks of nodes and holds on them; empty if that is not told.
    """

    id: str
    processors: int
    estimate: float | None = None
    submission: float | None = None
    start: float | None = None
    end: float | None = None
    planned_start: float | None = None
    deadline: float | None = None
    priority: float = 0.0
    user: str = ""
    application: str = ""
    partition: str = ""
    array: str = ""
    at_once: int = 0
    nodes: str = ""
    reservation: str = ""
    reason: str = ""
    components: tuple[str, ...] = ()
    amounts: tuple[QueuedAmounts, ...] = ()

    @property
    def meaning(self) -> Meaning:
        """Return why the job waits and how a plan has to treat it, by Slurm's reason."""
        return meaning_of(self.reason)

    @property
    def partitions(self) -> frozenset[str]:
        """Return the partitions that the job may start in (``gpu,cpu``: both)."""
        return frozenset(self.partition.split(","))
