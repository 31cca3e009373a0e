"""A queue as rows behind its machine's history: what simulations of it begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qops_batsim.core.machine import Machine
from qops_batsim.dates import Calendar
from qops_batsim.jobs import Job
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.queue.forecast import Moment, Simulator
from qops_batsim.queue.node_plan import NodePlan
from qops_batsim.queue.node_rows import NodeRows, any_cores
from qops_batsim.queue.past import LEAST_LIMIT, Past, groups_of
from qops_batsim.queue.queue_state import Ask, QueuedJob, QueueState, line_of
from qops_batsim.queue.zones import refuse_later_history
from qops_batsim.schedulers.registry import read_options
from qops_batsim.schedulers.slurm.slurm_options import MOST_WEIGHT, SlurmOptions
from qops_batsim.schedulers.slurm.slurm_scheduler import Slurm


def simulation_of(
    state: QueueState,
    past: Past,
    calendar: Calendar,
    asks: Sequence[Ask],
    scheduler: str,
    settings: Mapping[str, Any],
    nodes: NodePlan | None = None,
) -> tuple[Simulator, Moment]:
    """Return what simulates how a queue's scheduler goes on, and the queue as rows of its past: the
    history, behind it the jobs of the queue, and last those that are asked about.

    Without ``nodes`` processors are counted.
    """
    bases: dict[str, float] = {}
    if scheduler == "slurm":
        bases, settings = told_priorities(state, settings)
    everything, moment = _with_queue(past, state, calendar, asks, bases, nodes)
    return Simulator(everything, scheduler, settings), moment


def told_priorities(
    state: QueueState, settings: Mapping[str, Any]
) -> tuple[dict[str, float], Mapping[str, Any]]:
    """Return the waiting jobs' priorities by id, without the part for age, and Slurm options by
    which all other jobs get the priority of a usual job.

    A queue has the sum of all factors of a job; the simulation adds age to the rest of it. Of other
    jobs, as those that arrive later, shares, QOS and partition are unknown: they get what the
    median job has beyond age and size.
    """
    told = [job for job in state.jobs if job.start is None and job.priority > 0]
    if not told:
        return {}, settings

    options = read_options("slurm", Slurm, settings)
    assert isinstance(options, SlurmOptions)
    bases: dict[str, float] = {}
    further: list[float] = []
    for job in told:
        waited = 0.0 if job.submission is None else max(state.now - job.submission, 0.0)
        age = options.weight_age * min(waited / options.max_age, 1.0)
        bases[job.id] = job.priority - age

        size = job.processors / state.processors
        part = 1 - size if options.favor_small else size
        further.append(bases[job.id] - options.weight_size * part)

    # The partition stands for all factors of which nothing is known.
    weights = options.weight_qos + options.weight_fairshare + options.weight_partition
    usual = max(float(np.median(further)), 0.0) if weights else 0.0
    # Without priorities Slurm counts down from 2^32: whoever comes later is behind those that wait.
    usual = min(usual, MOST_WEIGHT)
    others = {"weight_qos": 0.0, "weight_fairshare": 0.0, "partitions": {}}
    return bases, {**settings, **others, "weight_partition": usual}


def _with_queue(
    past: Past,
    state: QueueState,
    calendar: Calendar,
    asks: Sequence[Ask],
    bases: Mapping[str, float],
    nodes: NodePlan | None,
) -> tuple[Past, Moment]:
    """Append the queue's jobs, then those that are asked about, to the history; return the result,
    and the queue as row numbers in it.

    Jobs that are asked about are the last of those that wait; the bases of priorities are by id.
    """
    now = state.now - calendar.unix_start
    longest = MAX_SECONDS
    if past.history:
        ahead = float(past.submissions[past.history - 1]) - now
        refuse_later_history(state, ahead, calendar.time_zone)
        longest = float(past.limits.max())

    running = state.holding if nodes is None else nodes.holders
    line = line_of(state)[0]
    queued = [*running, *line, *(submitted(ask, state.now) for ask in asks)]
    count = len(queued)
    lengths = [job.estimate or longest for job in queued]
    if nodes is not None:  # Plans by node go by the ends of running jobs that are told.
        for place, job in enumerate(running):
            if job.start is not None and job.end is not None:
                lengths[place] = job.end - job.start
    limits = np.maximum(np.array(lengths, float), LEAST_LIMIT)
    dates = [state.now if job.submission is None else job.submission for job in queued]
    submissions = np.minimum(np.array(dates) - calendar.unix_start, now)
    names = [[job.user, job.application, job.partition] for job in queued]
    told = np.array(names, object).reshape(-1, 3)
    columns = {
        "submissions": submissions,
        "starts": [
            np.nan if job.start is None else job.start - calendar.unix_start for job in queued
        ],
        "cancelled": np.full(count, np.nan),
        "run_times": limits,
        "limits": limits,
        "widths": np.array([job.processors for job in queued], np.int64),
        "groups": groups_of(told, limits, past),
        "names": told,
    }
    jobs = [
        Job(job.id, date, job.processors, "", limit, None, _fields(job, bases))
        for job, date, limit in zip(queued, submissions.tolist(), limits.tolist(), strict=True)
    ]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(past, name), column]) for name, column in columns.items()
    }
    rows = past.history + np.arange(count)
    if nodes is not None:
        asked = _asked_before(past, nodes.machine)
        asked += map(nodes.held_by, nodes.running)
        asked += [nodes.simulated(job) for job in line]
        joined["nodes"] = NodeRows(nodes.layout, [*asked, *map(nodes.asked, asks)])
        for row, held in zip(rows.tolist(), nodes.running, strict=False):
            joined["nodes"].held[row] = held.request.held.copied()
    everything = past._replace(processors=state.processors, jobs=[*past.jobs, *jobs], **joined)
    return everything, Moment(now, rows[: len(running)], rows[len(running) :])


def _asked_before(past: Past, machine: Machine) -> list[Any]:
    """Return what the jobs of a history asked of nodes; of which that is not told, cores."""
    if past.nodes is not None:
        return list(past.nodes.asked)
    pairs = [*zip(past.widths.tolist(), past.names[:, -1].tolist(), strict=True)]
    known = {pair: any_cores(*pair, machine) for pair in {*pairs}}
    return [known[pair] for pair in pairs]


def submitted(ask: Ask, now: float) -> QueuedJob:
    """Return a job that is asked about as a waiting job of the queue, submitted at ``now`` (seconds
    since 1970).
    """
    return QueuedJob(
        id=ask.name,
        processors=ask.processors,
        estimate=ask.time,
        submission=now,
        user=ask.user,
        partition=ask.partition,
    )


def _fields(job: QueuedJob, bases: Mapping[str, float]) -> dict[str, object]:
    """Return the job's fields that a scheduler may read: user, queue and, if it is in ``bases``,
    priority.
    """
    priority = {"base_priority": bases[job.id]} if job.id in bases else {}
    return {"user": job.user, "queue": job.partition, **priority}


def queue_at(past: Past, moment: Moment) -> QueueState:
    """Return the queue at a past moment, in seconds of the past's clock; a job's id is its row
    number in the past.
    """
    jobs = [
        QueuedJob(
            id=str(row),
            processors=int(past.widths[row]),
            estimate=float(past.limits[row]),
            submission=float(past.submissions[row]),
            start=float(past.starts[row]) if place < len(moment.running) else None,
        )
        for place, row in enumerate([*moment.running.tolist(), *moment.waiting.tolist()])
    ]
    return QueueState(source="a log", processors=past.processors, now=moment.now, jobs=jobs)
