"""Heterogeneous jobs in a queue: their components start together, so each job is one.

A job takes the processors of all its components for the longest of their limits, as in accounting.
Slurm (22.05) may free some earlier, on which no plan counts: it ends a component at a shorter limit
of its own, and all when the first of them ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from qops_batsim.errors import InputError, shown
from qops_batsim.slurm.queued_job import QueuedJob
from qops_batsim.slurm.waiting_reasons import INCOMPLETE, WaitKind, is_for_resources, meaning_of
from qops_batsim.workload.accounting.rows import task_numbers

_FIRST = (WaitKind.CANNOT_START, WaitKind.FOR_OTHERS, WaitKind.UNKNOWN)
"""Of the reasons of components that differ, those of the former count."""


class JobComponent(NamedTuple):
    """A component of a heterogeneous job: the job's id, its place in the job, and how many
    components the job has, 0 if that is not told.
    """

    whole: str
    offset: int
    size: int = 0

    @property
    def id(self) -> str:
        """Return the component's id as squeue shows it: ``4711+1``."""
        return f"{self.whole}+{self.offset}"


def size_of(id_set: Any) -> int:
    """Return how many ids a set of Slurm has (``20-22,24``: 4), 0 if it is none.

    >>> size_of("20-22,24"), size_of("")
    (4, 0)
    """
    return len(task_numbers(id_set) or ()) if isinstance(id_set, str) else 0


class Components:
    """Collects the components of a queue's heterogeneous jobs, and makes each job one.

    A job waits as a whole where all of its components are in the queue. Of one that has others
    elsewhere, as in partitions that are not selected, nobody knows here when it can start.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._inside: dict[str, JobComponent] = {}
        self._parts: defaultdict[str, dict[int, bool]] = defaultdict(dict)
        """By job, the places of its components, and whether each is elsewhere."""
        self._sizes: dict[str, int] = {}

    def add(self, component: JobComponent, *, is_away: bool = False) -> None:
        """Add a component of the queue, or one that waits outside (``is_away``)."""
        whole = component.whole
        if component.offset in self._parts[whole]:
            raise InputError(
                f"{self._source}: job {shown(component.id)}: is listed twice; each id is expected "
                "once"
            )
        self._parts[whole][component.offset] = is_away
        # Where the number is not told, it is two at least.
        self._sizes[whole] = max(self._sizes.get(whole, 2), component.size, component.offset + 1)
        if not is_away:
            self._inside[component.id] = component

    def together(
        self, jobs: Iterable[QueuedJob], blocked: Iterable[QueuedJob]
    ) -> tuple[list[QueuedJob], list[QueuedJob]]:
        """Return the running and waiting jobs, and those that cannot start, with each heterogeneous
        job as one, in the place of its first component.
        """
        groups: dict[object, list[tuple[QueuedJob, bool]]] = {}
        told = [*((job, False) for job in jobs), *((job, True) for job in blocked)]
        for place, (job, cannot_start) in enumerate(told):
            part = self._inside.get(job.id)
            key = place if part is None else (part.whole, job.start is not None)
            groups.setdefault(key, []).append((job, cannot_start))

        can: list[QueuedJob] = []
        cannot: list[QueuedJob] = []
        for members in groups.values():
            job, is_blocked = members[0]
            if job.id in self._inside:
                job = self._one([member for member, _ in members])
                # What keeps one component keeps all.
                is_blocked = any(blocks for _, blocks in members) or job.reason == INCOMPLETE
            (cannot if is_blocked else can).append(job)
        return can, cannot

    def _one(self, parts: Sequence[QueuedJob]) -> QueuedJob:
        """Return the components of a job that run, or those that wait, as one job."""
        parts = sorted(parts, key=lambda job: self._inside[job.id].offset)
        ids = tuple(job.id for job in parts)
        whole = self._inside[ids[0]].whole
        away = self._parts[whole].values()

        # What keeps one component keeps all.
        reason = min((job.reason for job in parts), key=_rank)
        lacks = any(away) or len(away) < self._sizes[whole]
        may_start = meaning_of(reason).waits is not WaitKind.CANNOT_START
        if parts[0].start is None and lacks and may_start:
            reason = INCOMPLETE

        names = [name for job in parts for name in job.partition.split(",")]
        return replace(
            parts[0],
            # While some have begun and others not, as in the moment of a start, both are told.
            id=whole if len(parts) == [*away].count(False) else ",".join(ids),
            components=ids,
            processors=sum(job.processors for job in parts),
            estimate=_latest(job.estimate for job in parts),
            submission=_of(min, (job.submission for job in parts)),
            start=_of(min, (job.start for job in parts)),
            end=_latest(job.end for job in parts),
            planned_start=_of(max, (job.planned_start for job in parts)),
            deadline=_of(min, (job.deadline for job in parts)),
            priority=min(job.priority for job in parts),
            partition=",".join(dict.fromkeys(names)),
            nodes=",".join(filter(None, (job.nodes for job in parts))),
            reason=reason,
            amounts=tuple(amounts for job in parts for amounts in job.amounts),
        )


def _latest(values: Iterable[float | None]) -> float | None:
    """Return the greatest of the values, None if one is not known."""
    listed = [*values]
    return None if None in listed else _of(max, listed)


def _of(choose: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    """Return the least or greatest of the values that are known, None if none is."""
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _rank(reason: str) -> tuple[bool, ...]:
    waits = meaning_of(reason).waits
    return *(waits is not kind for kind in _FIRST), not is_for_resources(reason)


def listed(components: Sequence[str]) -> str:
    """Return the ids of components as a text, not all of many.

    >>> listed(["20+0", "20+1"]), listed([f"20+{place}" for place in range(9)])
    ('20+0, 20+1', '20+0 to 20+8')
    """
    if len(components) <= 3:
        return ", ".join(components)
    return f"{components[0]} to {components[-1]}"
