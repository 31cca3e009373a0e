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
    for each in away:
        until = _return(each, state.now)
        if until is not None:
            returns[until] += each.node[1]
    total = sum(each.node[1] for each in away)
    gone = total - returns.total()
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
        part = held.parts.get(job.id, 0)
        if job.start is None and job.processors > size:
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


def _return(node: NodeAway, now: float) -> float | None:
    """Return when a node is back, None if that is not known, or was to be before ``now``."""
    return node.until if node.until is not None and node.until > now else None


def _by_state(away: Sequence[NodeAway], now: float) -> dict[str, int]:
    """Count nodes that are away, by the words in which they are reported: states, end, size."""
    counts = Counter((each.why, _return(each, now)) for each in away)
    cores = Counter[tuple[tuple[str, ...], float | None]]()
    for each in away:
        cores[each.why, _return(each, now)] += each.node[1]
    found = {}
    for (why, until), count in counts.items():
        end = "" if until is None else f" until {date_text(until)}"
        what = f"nodes away ({'+'.join(why)}{end}), with {cores[why, until]:,} processors"
        found[what] = count
    return found


class _Held(NamedTuple):
    """What running jobs have of the nodes that are away.

    ``parts`` are processors that are not given again as jobs end, by job; ``beyond`` are those of
    jobs that end after the nodes are back, by the date of that.
    """

    parts: dict[str, int]
    beyond: Counter[float]
    unsure: Counter[str]


def _held(state: QueueState, away: Sequence[NodeAway], returns: Mapping[float, int]) -> _Held:
    """Return what running jobs have of the nodes that are away: where they are, or, of jobs of
    which that is not told, as few processors as are in use there, of those that end first.
    """
    of_name = {each.node[0]: each for each in away if each.node[0]}
    found = _Held({}, Counter(), Counter())
    total = sum(each.node[1] for each in away)
    last = max(returns, default=0.0) if sum(returns.values()) == total else None
    untold: list[QueuedJob] = []
    known = 0
    for job in (job for job in state.jobs if job.start is not None):
        names = node_names(job.nodes)
        there = [of_name[name] for name in names if name in of_name]
        if not names:
            untold.append(job)
        elif there:
            found.unsure[_SPLIT] += len(there) < len(names)
            parts = {
                place: job.processors * (place + 1) // len(names)
                - job.processors * place // len(names)
                for place in range(len(there))
            }
            for place, node in enumerate(there):
                part = min(parts[place], node.node[1])
                known += part
                _hold(found, job, part, _return(node, state.now))
    used = sum(job.processors for job in state.jobs if job.start is not None)
    beyond = used - (state.processors - total)
    rest = max(sum(each.busy or 0 for each in away), beyond) - known
    for job in sorted(untold, key=_end):
        part = min(rest, job.processors)
        if part > 0:
            _hold(found, job, part, last)
            found.unsure[_ASSUMED] += part
            rest -= part
    return found._replace(unsure=+found.unsure)


def _hold(found: _Held, job: QueuedJob, part: int, until: float | None) -> None:
    """Note that a job has some processors of nodes that are away ``until`` a date, if known."""
    if until is not None and _end(job) >= until:
        found.beyond[until] += part
    else:
        found.parts[job.id] = found.parts.get(job.id, 0) + part


def _end(job: QueuedJob) -> float:
    """Return by when a running job ends at the latest (seconds since 1970)."""
    if job.end is not None:
        return job.end
    assert job.start is not None
    return math.inf if job.estimate is None else job.start + job.estimate
