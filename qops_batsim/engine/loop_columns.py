"""Columns in and out of the event loop: a workload's jobs and their outcomes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from qops_batsim.engine.conversation import Conversation
from qops_batsim.engine.engine_options import ExternalEvent
from qops_batsim.engine.loop import EmbeddedManager, Loop, Submissions
from qops_batsim.engine.sleeping_jobs import DelayJobs, Outcome, submission_order
from qops_batsim.engine.world import World
from qops_batsim.jobs import Job
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.protocol.events import Notify
from qops_batsim.workload.workload_model import JobColumns


class SubmittedFields:
    """The workload fields of submitted jobs, by their full identifiers (``w0!1``)."""

    def __init__(self, jobs: Sequence[Job], ids: Sequence[str]) -> None:
        self._jobs = jobs
        self._ids = ids
        self._places: dict[str, int] = {}

    def fields_of(self, job_id: str) -> dict[str, Any]:
        """Return a job's fields as in its workload, with its full id. O(1) after the first call."""
        if not self._places:
            self._places = {job_id: place for place, job_id in enumerate(self._ids)}
        job = self._jobs[self._places[job_id.partition("!")[2]]]
        return {**job.fields, "id": job_id}


def floats(column: np.ndarray) -> array[float]:
    """Return a column as the float array that the loop takes."""
    return array("d", column.astype(np.float64).tobytes())


def wholes(column: np.ndarray) -> array[int]:
    """Return a column as the integer array that the loop takes."""
    return array("q", column.astype(np.int64).tobytes())


def _submissions(
    name: str, columns: JobColumns, places: np.ndarray, listed: Sequence[Job]
) -> Submissions:
    """Return the submissions of a workload's jobs at these indices, in this order."""
    return Submissions(
        name,
        columns.ids,
        columns.requests,
        columns.profile_names,
        wholes(places),
        wholes(columns.profiles[places]),
        floats(columns.submission_times[places]),
        wholes(columns.processors[places]),
        floats(columns.walltimes[places]),
        SubmittedFields(listed, columns.ids),
    )


def loop_of(
    jobs: DelayJobs,
    listed: Sequence[Job],
    hosts: int,
    events: Sequence[ExternalEvent] | None,
    world: World | None,
) -> Loop:
    """Return the event loop of a run whose jobs only sleep; ``listed`` are the workload's jobs.

    If jobs may be registered that do more, ``world`` executes them.
    """
    submissions = _submissions(jobs.name, jobs.columns, jobs.places, listed)
    run_times, states = floats(jobs.run_times), wholes(jobs.states)
    return Loop(hosts, [submissions], run_times, _dated(events), None, world, states)


def loop_of_world(conversation: Conversation) -> Loop:
    """Return the event loop of a run whose jobs and hosts are in a world."""
    world = conversation.world
    workloads = [
        _submissions(name, columns, submission_order(columns), world.workloads[name].jobs)
        for name, columns in world.columns.items()
    ]
    events = _dated(world.options.external_events)
    return Loop(len(world.hosts), workloads, array("d"), events, conversation)


def _dated(events: Sequence[ExternalEvent] | None) -> list[tuple[float, Notify]] | None:
    return None if events is None else [(each.timestamp, each.notice()) for each in events]


def outcome_of(loop: Loop, jobs: DelayJobs) -> Outcome:
    """Return the outcomes of all jobs of a finished run, and free them in the loop.

    ``jobs`` may lack those that the scheduler registered in the run.
    """
    manager = loop.manager
    assert isinstance(manager, EmbeddedManager)
    ended = np.array(loop.ended[: loop.ended_count], np.int64)
    pieces, first = np.asarray(manager.pieces)[ended], np.asarray(manager.offsets)[ended]
    offsets = np.zeros(len(ended) + 1, np.int64)
    np.cumsum(pieces, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], pieces)
    lows, highs = np.asarray(manager.lows)[places], np.asarray(manager.highs)[places]
    hosts = HostIntervals(offsets, lows, highs)
    outcome = Outcome(
        jobs=jobs,
        ended=ended,
        starts=np.asarray(loop.starts)[: manager.known],
        finishes=np.asarray(loop.finishes)[: manager.known],
        hosts=hosts,
        change_dates=np.asarray(manager.change_dates[: manager.changes]),
        computing=np.asarray(manager.computing[: manager.changes]),
        metadata=manager.metadata,
        idle=np.asarray(manager.idle[: manager.changes]) if manager.has_outages else None,
        killed=manager.killed,
    )
    manager.forget_past()  # Its scheduler may be kept, and it with that.
    return outcome
