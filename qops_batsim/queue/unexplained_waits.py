"""WaitKind that a plan by processors cannot explain: Slurm lacks what the plan does not count.

A job waits for ``Resources``, and the plan starts it at once. What it lacks (GPUs, memory, whole
nodes, ...) is not in the plan, so neither this job's start is known nor that of any job behind it
in its partition, nor in others that have the same nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from qops_batsim.core.job import RUNNING, WAITING, Job
from qops_batsim.core.scheduler import ResourceManager
from qops_batsim.queue.queue_state import QueueState, by_priority, limit_of, line_of
from qops_batsim.schedulers.easy import Easy
from qops_batsim.slurm.waiting_reasons import WaitKind, is_for_resources

AT_ONCE = 0.5
"""A planned start counts as at once if it is sooner (seconds)."""


class UnexplainedWait(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits for Resources though its processors are free, with the number that is.

    In a plan by nodes, ``nodes`` are those on which it would fit.
    """

    job: str
    partition: str
    processors: int
    free: int
    nodes: list[str] | UnsetType = UNSET


def why_no_date(wait: UnexplainedWait) -> str:
    """Return why nobody behind a job has a date, as a sentence for users."""
    where = f" (partition {wait.partition})" if wait.partition else ""
    if wait.nodes is not UNSET:
        on = ", ".join(wait.nodes[:3]) + (", ..." if len(wait.nodes) > 3 else "")
        return (
            f"job {wait.job}{where} waits for Resources, though {on} would have them; what it "
            "lacks is not told, so neither it nor any job behind it has a date"
        )
    return (
        f"job {wait.job}{where} waits for Resources, though it needs {wait.processors:,} "
        f"processors and {wait.free:,} are free; what it lacks (GPUs, memory, whole nodes, ...) is "
        "not planned here, so neither it nor any job behind it has a date"
    )


def without_date(
    state: QueueState, plan: Mapping[str, float]
) -> tuple[list[UnexplainedWait], dict[str, WaitKind]]:
    """Return the waits that a plan of a queue does not explain, of each partition the first, and
    why jobs have no date, by id. O(jobs x log jobs).

    Parameters
    ----------
    state
        The queue. Where its partitions are known to have the same nodes, a job is behind all of
        higher priority, else behind those of its own partitions.
    plan
        From now to the planned starts (seconds), by id; jobs that are not in it are passed over. In
        what goes first plans differ: a job also counts as started at once if EASY would. That
        nodes have to be powered up explains a wait: without these, EASY alone tells.
    """
    at_once = started_by_easy(state)
    if not state.asleep:
        at_once |= {job for job, wait in plan.items() if wait < AT_ONCE}

    closed: set[str] = set()
    first: list[UnexplainedWait] = []
    why: dict[str, WaitKind] = {}
    for job in sorted((job for job in state.jobs if job.id in plan), key=by_priority):
        is_behind = bool(closed) if state.shares_nodes else not closed.isdisjoint(job.partitions)
        if job.id in at_once and is_for_resources(job.reason):
            why[job.id] = WaitKind.THOUGH_IT_FITS
            if not is_behind:
                wait = UnexplainedWait(
                    job=job.id,
                    partition=job.partition,
                    processors=job.processors,
                    free=state.free,
                )
                first.append(wait)
        elif is_behind:
            why[job.id] = WaitKind.BEHIND
        else:
            continue
        # Whoever has no date leaves none to those behind it.
        closed |= job.partitions
    return first, why


def started_by_easy(state: QueueState) -> set[str]:
    """Return the ids of the waiting jobs that EASY would start now, in the order of their priority,
    on what is not powered down.
    """
    easy = Easy()
    manager = _Counting(state.processors)
    easy.begin(manager)
    manager.free = state.free - state.asleep

    held = [(job.id, job.processors, max(limit_of(job) - state.now, 0.0)) for job in state.holding]
    if state.asleep:
        # The job with the reservation waits until these are up, which takes no time here.
        held.append(("nodes that are powered down", state.asleep, 0.0))
    for name, processors, left in held:
        running = Job(name, 0.0, processors, "", left)
        running.start = 0.0
        easy.joined(running)

    line = [Job(job.id, 0.0, job.processors, "", job.estimate) for job in line_of(state)[0]]
    for job in line:
        job.phase = WAITING
        easy.submitted(job)
    easy.decide()
    return {job.id for job in line if job.phase == RUNNING}


class _Counting(ResourceManager):
    """Manager of a machine whose jobs have any hosts, as many as they ask for."""

    def start_job(self, job: Job, hosts: object) -> None:
        """Do nothing: that the job has started is all that is asked."""

    def hosts_of(self, job: Job) -> int:
        return (1 << job.processors) - 1
