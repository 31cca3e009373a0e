"""Whether a plan agrees with itself: its lists of jobs, and the profile of what they leave free."""

from __future__ import annotations

import math

from qops_batsim.core import Plan
from qops_batsim.core.node_profile import NodeProfile
from qops_batsim.core.profile import Profile
from qops_batsim.timing import GRID_TOLERANCE, end_of


def check_plan(plan: Plan, *, is_exact: bool = True) -> None:
    """Check a plan; ``is_exact`` is false where maintenance was drained: what outlives its estimate
    there is planned as if the maintenance was not.
    """
    may_be_short = plan.fixed.listed or not is_exact
    plan.profile.check(plan.machine_size, -math.inf if may_be_short else 0)
    assert plan.suspensions == sum(not math.isnan(job.suspended) for job in plan.waiting)
    places = [(job.start, job.number) for job in plan.waiting]
    assert places == sorted(set(places))
    for place, job in enumerate(plan.running):
        assert job.place == place, f"{job.id}: place"
        assert job.end >= plan.soonest or job.is_dying, f"{job.id}: ends before the soonest end"
    if plan.use is not None:
        check_shared(plan)
        return
    if plan.gone or plan.by_host:
        return
    # A job that ends a microsecond early gives nothing back.
    now = end_of(plan.now, GRID_TOLERANCE)
    present = plan.hosts.present
    there, free = Profile(present), Profile(present, now)
    there.copy_from(plan.profile)
    there.trim(now)
    for job in plan.running:
        free.take(job, now, job.end)
    for fixed in plan.fixed.listed:
        free.take_amount(max(now, fixed.start), fixed.end, fixed.amount)
    for job in plan.waiting:
        free.take(job, job.start, end_of(job.start, job.duration))
    assert free.steps() == there.steps(), "the profile is not that of the jobs"


def check_shared(plan: Plan) -> None:
    """Check that the profile of shared hosts is that of the jobs, and that due jobs have room."""
    if plan.gone:
        return
    now = end_of(plan.now, GRID_TOLERANCE)
    there, free = plan.empty_profile(), plan.empty_profile()
    assert isinstance(there, NodeProfile)
    assert isinstance(free, NodeProfile)
    there.copy_from(plan.profile)
    there.trim(now)
    free.reset(now, plan.hosts.everything)
    for job in plan.running:
        free.take(job, now, job.end)
    for fixed in plan.fixed.listed:
        free.take_amount(max(now, fixed.start), fixed.end, fixed.amount)
    for job in plan.waiting:
        free.take(job, job.start, end_of(job.start, job.duration))
    rows = range(free.layout.rows)
    steps = [[(max(date, now), cells) for date, cells in there.row_steps(row)] for row in rows]
    assert [free.row_steps(row) for row in rows] == steps, "the profile is not that of the jobs"
