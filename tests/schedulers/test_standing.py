"""A scheduler resumes from a snapshot of which only the jobs are known."""

from __future__ import annotations

import msgspec

from qops_batsim import Job, QosRequest
from qops_batsim.core import RUNNING, WAITING, Plan
from qops_batsim.protocol import make_scheduler
from qops_batsim.running.search_asker import resume
from qops_batsim.schedulers.standing import Standing, standing_of_jobs
from support.plan_checks import check_plan


def job(name: str, processors: int, estimate: float, deadline: float | None = None) -> Job:
    asked = QosRequest(estimated_runtime=estimate, deadline=deadline)
    return Job(name, 0.0, processors, "", qos=asked)


def plan_at(now: float, *jobs: Job) -> Plan:
    """Return the plan, on four processors, of a scheduler that was resumed from the jobs, by way of
    the text of the snapshot.
    """
    text = msgspec.json.encode(standing_of_jobs(list(jobs), now))
    plan: Plan = resume(make_scheduler("qops"), msgspec.json.decode(text, type=Standing), 4).plan
    return plan


def test_a_plan_goes_on_from_jobs_at_a_date() -> None:
    #    0   10   20   30   40     four processors, at 10 s
    #    ..aaaaaaaa                a runs on two until 20
    #    ..aaaaaaaabbbbbbbbbb      b waits for all four until 20
    #    ..cccc                    c, behind b by arrival, is planned at 10
    running, wide, short = job("a", 2, 20.0), job("b", 4, 10.0, 40.0), job("c", 2, 5.0)
    running.phase, running.start, running.end, running.lag = RUNNING, 0.0, 20.0, 0.0
    wide.phase, wide.start, wide.target = WAITING, 20.0, 50.0
    short.phase, short.start = WAITING, 10.0
    plan = plan_at(10.0, running, wide, short)
    plan.tell(10.0, 2)
    check_plan(plan)
    assert [job.id for job in plan.waiting] == ["c", "b"]
    assert [job.id for job in plan.running] == ["a"]
    short, wide = plan.waiting
    assert wide.aim == 40.0  # It was promised an earlier end than the plan aims at.
    assert plan.profile.steps() == [(10.0, 0), (15.0, 2), (20.0, 0), (30.0, 4)]

    plan.left(plan.running[0])  # early: b moves up, behind c
    assert plan.renew()
    plan.compress()
    assert (short.start, wide.start) == (10.0, 15.0)


def test_a_fixed_start_is_reserved_again() -> None:
    fixed = Job("f", 0.0, 3, "", qos=QosRequest(estimated_runtime=10.0, start=30.0))
    fixed.phase, fixed.start = WAITING, 30.0
    plan = plan_at(5.0, fixed)
    ((kept, start, end),) = [(claim.job, claim.start, claim.end) for claim in plan.fixed.listed]
    assert kept is not None
    assert (kept.id, kept.is_kept, start, end) == ("f", True, 30.0, 40.0)
    assert plan.profile.steps() == [(5.0, 4), (30.0, 1), (40.0, 4)]
