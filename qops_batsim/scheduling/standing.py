"""Standing of a scheduler with a plan: all that it has to know of living jobs to go on.

A scheduler that runs for months keeps every job that it ever saw, because slots are never given
again. Its standing has those that wait or run, in slots of their own; a fresh scheduler that goes
on from it decides as the old one would, to the last bit, and has forgotten the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.scheduling.arrays import Profile
from qops_batsim.scheduling.core.columns import IS_DYING, IS_HELD, MARKS, NUMBERS
from qops_batsim.scheduling.core.state import (
    CANCELLED,
    DECIDED,
    FIRST_NEW,
    GONE,
    HAS_PROFILE,
    KNOWN,
    LOGS,
    RENEWING,
    UNDONE,
    with_profile,
)
from qops_batsim.scheduling.qos_log import QosLog, QosRecord

if TYPE_CHECKING:
    from qops_batsim.scheduling.capacity import Capacity
    from qops_batsim.scheduling.killed_jobs import Restarts
    from qops_batsim.scheduling.news import News
    from qops_batsim.scheduling.plan import Plan

_COLUMNS = [*NUMBERS, *MARKS]


class PlanStanding(msgspec.Struct, kw_only=True):
    """Standing of a plan: its jobs by new slot, and its arrays as bytes, which are exact.

    ``originals`` are the jobs that were killed and run again, as they were submitted.
    """

    columns: list[str]
    jobs: list[dict[str, Any]]
    originals: dict[int, dict[str, Any]]
    waiting: list[int]
    running: list[int]
    renewing: list[int]
    counts: list[int]
    arrays: dict[str, bytes]


class Standing(msgspec.Struct, kw_only=True):
    """Standing of a scheduler; ``running`` is slot, start and hosts of each job that runs."""

    plan: PlanStanding
    running: list[tuple[int, float, str]]
    away: str
    is_final: bool
    is_late: bool
    lag: float
    registered: list[str]
    records: dict[str, QosRecord]


class Holders(NamedTuple):
    """Parts of a scheduler with a plan that know what there is to know; ``running`` is by id."""

    plan: Plan
    running: dict[str, tuple[Job, float, HostSet]]
    capacity: Capacity
    news: News
    restarts: Restarts | None
    log: QosLog


def standing_of(holders: Holders) -> Standing | None:
    """Return the standing from which another scheduler can go on. O(jobs in the plan).

    None if this one has no plan that can be had without its past, or is in the middle of
    something: a new job, or a kill.
    """
    plan, running, capacity, news, restarts, log = holders
    if not is_settled(plan) or (restarts is not None and restarts.are_under_way):
        return None
    slots, table = living(plan), plan.table
    names = {job.id for slot in slots for job in (table.jobs[slot], table.original(slot))}
    return Standing(
        plan=plan_standing(plan),
        running=[
            (slots[table.slot_of(job_id)], start, str(hosts))
            for job_id, (_, start, hosts) in running.items()
        ],
        away=str(capacity.away),
        is_final=capacity.is_final,
        is_late=news.late,
        lag=news.lag,
        registered=[] if restarts is None else sorted(restarts.ids & names),
        records={name: log.record(name) for name in sorted(names)},
    )


def restore(holders: Holders, standing: Standing) -> None:
    """Restore a standing in the parts of a scheduler that was just begun."""
    plan, running, capacity, news, restarts, log = holders
    restore_plan(plan, standing.plan)
    capacity.away, capacity.is_final = HostSet.parse(standing.away), standing.is_final
    for slot, start, text in standing.running:
        job = plan.table.jobs[slot]
        running[job.id] = (job, start, HostSet.parse(text))
    news.lag = standing.lag
    if standing.is_late:
        news.mark_late()
    if restarts is not None:
        restarts.ids.update(standing.registered)
    log.learn(standing.records)


def is_settled(plan: Plan) -> bool:
    """Tell whether all that a plan knows stands in its arrays, and nothing is half done."""
    from qops_batsim.scheduling.plan import Plan

    state, policy = plan.state, plan.policy
    known = policy is None
    if type(plan) is not Plan or not known or plan.learns or plan.new_slots or state.counts[LOGS]:
        return False
    if state.claims.size[0] > 0:
        return False  # Promised starts are not told on.
    slots = list(living(plan))
    marks = state.jobs.marks[[IS_HELD, IS_DYING]][:, slots]
    return not marks.any() and not state.sizes[[GONE, UNDONE, CANCELLED]].any()


def living(plan: Plan) -> dict[int, int]:
    """Return the slots of the jobs that wait or run, in order, and which they get."""
    slots = sorted([*plan.waiting_slots.tolist(), *plan.running_slots.tolist()])
    return {slot: place for place, slot in enumerate(slots)}


def plan_standing(plan: Plan) -> PlanStanding:
    """Return the standing of a plan between two decisions, in which nothing is about to happen."""
    state, table = plan.state, plan.table
    new = living(plan)
    slots = list(new)
    size = int(state.profile.size[0])
    renewing = state.lists[RENEWING, : state.sizes[RENEWING]].tolist()
    arrays = {
        "numbers": state.jobs.numbers[:, slots],
        "marks": state.jobs.marks[:, slots],
        "processors": state.jobs.processors[slots],
        "reserved": state.jobs.reserved[slots],
        "times": state.profile.times[:size],
        "free": state.profile.free[:size],
        "dates": state.given.dates,
        "clock": state.clock,
        "everything": state.everything,
    }
    return PlanStanding(
        columns=_COLUMNS,
        jobs=[table.jobs[slot].fields for slot in slots],
        originals={
            place: original.fields
            for slot, place in new.items()
            if (original := table.original(slot)) is not table.jobs[slot]
        },
        waiting=[new[slot] for slot in plan.waiting_slots.tolist()],
        running=[new[slot] for slot in plan.running_slots.tolist()],
        renewing=[new[slot] for slot in renewing if slot in new],
        counts=state.counts.tolist(),
        arrays={name: np.ascontiguousarray(each).tobytes() for name, each in arrays.items()},
    )


def restore_plan(plan: Plan, standing: PlanStanding) -> None:
    """Have an empty plan go on from a standing; ValueError if that is of another version."""
    if standing.columns != _COLUMNS:
        raise ValueError("the columns of plans are others now")
    for slot, fields in enumerate(standing.jobs):
        job = Job.from_fields(fields, where=f"job {slot} of the standing")
        original = standing.originals.get(slot)
        if original is None:
            plan.arrived(job)
        else:
            plan.arrived(Job.from_fields(original, where=f"job {slot} of the standing"))
            plan.table.replace(slot, job)
    count, state = len(standing.jobs), plan.state

    def read(name: str, like: Any, *shape: int) -> Any:
        return np.frombuffer(standing.arrays[name], like.dtype).reshape(shape)

    jobs, profile = state.jobs, state.profile
    jobs.numbers[:, :count] = read("numbers", jobs.numbers, len(NUMBERS), count)
    jobs.marks[:, :count] = read("marks", jobs.marks, len(MARKS), count)
    jobs.processors[:count] = read("processors", jobs.processors, count)
    jobs.reserved[:count] = read("reserved", jobs.reserved, count, *jobs.reserved.shape[1:])
    for queue, slots in ((state.waiting, standing.waiting), (state.running, standing.running)):
        queue.slots[: len(slots)], queue.size[0] = slots, len(slots)
    state.lists[RENEWING, : len(standing.renewing)] = standing.renewing
    state.sizes[RENEWING] = len(standing.renewing)
    state.counts[:] = standing.counts
    state.counts[[DECIDED, KNOWN, FIRST_NEW]] = count
    state.counts[HAS_PROFILE] = 0
    for name, array in (("dates", state.given.dates), ("clock", state.clock)):
        array[:] = read(name, array, len(array))
    state.everything[:] = read("everything", state.everything, *state.everything.shape)
    times = read("times", profile.times, -1).copy()
    free = read("free", profile.free, len(times), *profile.free.shape[1:]).copy()
    plan.state = with_profile(state, Profile(times, free, np.array([len(times)], np.int64)))
    plan.make_room()
