"""A queue without the nodes that Slurm does not use now: drained, down, in maintenance ...

What runs on such a node goes on, and its processors are not given again. So a node that is away is
taken off the machine, and off the jobs that run on it. One whose return is known stays, as if a job
ran there until then.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from qops_batsim.errors import InputError
from qops_batsim.queue.queue_state import QueuedJob, QueueState
from qops_batsim.slurm.waiting_reasons import TOO_WIDE_NOW
from qops_batsim.texts import date_text
from qops_batsim.workload.accounting.node_sizes import NodeAway, node_names

_SPLIT = "run on nodes that are away and on others, and are taken to have equal parts of each"
_ASSUMED = (
    "processors of nodes that are away are in use, by jobs of which is not told where they run: "
    "taken to be those that end first"
)


def without_away(state: QueueState, away: Sequence[NodeAway]) -> QueueState:
    """Return the queue on the nodes that are not ``away``; told are the others, by state, and the
    jobs that are wider than what is left.

    InputError if nothing is left, or the running jobs do not fit.
    """
    if not away:
        return state
    told = _by_state(away, state.now)
    returns = Counter[float]()
    gone = 0
    for node in away:
        until = return_of(node, state.now)
        if until is None:
            gone += node.node[1]
        else:
            returns[until] += node.node[1]

    size = state.processors - gone
    if size < 1:
        raise InputError(
            f"{state.source}: Slurm uses none of the {state.processors:,} processors now "
            f"({', '.join(f'{count:,} {what}' for what, count in told.items())}); nodes that are "
            "not away are expected"
        )

    held = _held(state, away, returns)
    kept: list[QueuedJob] = []
    blocked = list(state.blocked)
    apart: list[QueuedJob] = []
    for job in state.jobs:
        part = held.parts[job.id]
        if job.start is None and job.processors > size and not job.amounts:
            blocked.append(replace(job, reason=TOO_WIDE_NOW))
        elif part == job.processors:
            apart.append(job)
        else:
            kept.append(replace(job, processors=job.processors - part) if part else job)

    closed = [
        QueuedJob(
            id=f"nodes away until {until:.0f}",
            processors=count,
            estimate=until - state.now,
            submission=state.now,
            start=state.now,
            end=until,
        )
        for until, count in sorted((returns - held.beyond).items())
    ]

    left = size - sum(job.processors for job in closed)
    used = sum(job.processors for job in kept if job.start is not None)
    if used > left:
        raise InputError(
            f"{state.source}: the running jobs use {used:,} processors beside the nodes that are "
            f"away, which leave {left:,}; the queue and the nodes of the same time are expected"
        )

    return replace(
        state,
        processors=size,
        jobs=kept,
        blocked=blocked,
        left_out={**state.left_out, **told},
        unsure={**state.unsure, **held.unsure},
        away=gone,
        closed=closed,
        apart=apart,
    )


def return_of(node: NodeAway, now: float) -> float | None:
    """Return when a node is back, None if that is not known, or was to be before ``now``."""
    return node.until if node.until is not None and node.until > now else None


def _by_state(away: Sequence[NodeAway], now: float) -> dict[str, int]:
    """Count nodes that are away, by the words in which they are reported: states, end, size."""
    cores: dict[tuple[tuple[str, ...], float | None], list[int]] = {}
    for node in away:
        cores.setdefault((node.why, return_of(node, now)), []).append(node.node[1])
    counts = {}
    for (why, until), sizes in cores.items():
        end = "" if until is None else f" until {date_text(until)}"
        what = f"nodes away ({'+'.join(why)}{end}), with {sum(sizes):,} processors"
        counts[what] = len(sizes)
    return counts


class _Held(NamedTuple):
    """What running jobs have of the nodes that are away.

    ``parts`` are processors that are not given again as jobs end, by job; ``beyond`` are those of
    jobs that end after the nodes are back, by the date of that.
    """

    parts: Counter[str]
    beyond: Counter[float]
    unsure: Counter[str]


def _held(state: QueueState, away: Sequence[NodeAway], returns: Mapping[float, int]) -> _Held:
    """Return what running jobs have of the nodes that are away: where they are, or, of jobs of
    which that is not told, as few processors as are in use there, of those that end first.
    """
    of_name = {node.node[0]: node for node in away if node.node[0]}
    held = _Held(Counter(), Counter(), Counter())
    running = [job for job in state.jobs if job.start is not None]
    known = 0
    for job in running:
        names = node_names(job.nodes)
        there = [of_name[name] for name in names if name in of_name]
        if not there:
            continue
        if len(there) < len(names):
            held.unsure[_SPLIT] += 1
        for place, node in enumerate(there):
            # An equal share of the job's processors.
            share = job.processors * (place + 1) // len(names)
            share -= job.processors * place // len(names)
            part = min(share, node.node[1])
            known += part
            _hold(held, job, part, return_of(node, state.now))

    # As many others are in use as nodes tell, or as have no place on the rest of the machine.
    total = sum(node.node[1] for node in away)
    used = sum(job.processors for job in running)
    beyond = used - (state.processors - total)
    rest = max(sum(node.busy or 0 for node in away), beyond) - known
    last = max(returns, default=0.0) if sum(returns.values()) == total else None
    for job in sorted((job for job in running if not node_names(job.nodes)), key=_end):
        part = min(rest, job.processors)
        if part > 0:
            _hold(held, job, part, last)
            held.unsure[_ASSUMED] += part
            rest -= part
    return held


def _hold(held: _Held, job: QueuedJob, part: int, until: float | None) -> None:
    """Note that a job has some processors of nodes that are away ``until`` a date, if known."""
    if until is not None and _end(job) >= until:
        held.beyond[until] += part
    else:
        held.parts[job.id] += part


def _end(job: QueuedJob) -> float:
    """Return by when a running job ends at the latest (seconds since 1970)."""
    if job.end is not None:
        return job.end
    assert job.start is not None
    return math.inf if job.estimate is None else job.start + job.estimate
