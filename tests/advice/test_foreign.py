"""Quotes and explanations of deadline schedulers from outside the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim.advice.charges import PriceList
from qops_batsim.advice.explain import Explanation, explain
from qops_batsim.advice.quote import quote
from qops_batsim.errors import InputError
from qops_batsim.running.run import run
from support.decision_runs import exact, workload_of

ON_TIME = '''
from qops_batsim.scheduling.module import SchedulerOptions
from qops_batsim.scheduling.answers import AdmissionAnswer
from qops_batsim.scheduling.plan import Plan, Policy
from qops_batsim.scheduling.refusal import free_text
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler


class OnTimeOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Options of OnTime."""

    margin: float = 0.0


class Behind(Policy):
    """Plan a job behind all promises; refuse it if it would end after its deadline."""

    def __init__(self, margin):
        self.margin = margin

    def take(self, plan, now, slot):
        plan.place(now, slot, slot + 1)
        end = float(plan.jobs.starts[slot] + plan.jobs.estimates[slot]) + self.margin
        if end <= plan.jobs.deadlines[slot]:
            return AdmissionAnswer()
        plan.withdraw(slot)
        return AdmissionAnswer(free_text(f"would end at {end:g} s"))


class OnTime(SpaceSharingScheduler):
    Options = OnTimeOptions
    keeps_decisions = True

    def new_plan(self, machine_size):
        return Plan(machine_size, Behind(self.options.margin))
'''

# It notes its decisions by itself, and has no plan that could be asked.
BY_HAND = '''
from qops_batsim.scheduling import decision_events as log
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler


class ByHand(SpaceSharingScheduler):
    """Take a job if it can start at once."""

    keeps_decisions = True

    def begin(self, system):
        super().begin(system)
        self.new = []
        self.gone = []

    def arrived(self, job):
        self.new.append(job)

    def left(self, job):
        self.gone.append(job)

    def schedule(self, now):
        note = self.decision_log.note
        for job in self.gone:
            note(log.Ended(date=now, job=job.id))
        for job in self.new:
            note(log.Submitted(
                date=now, job=job.id, submission=job.submission_time, processors=job.processors,
                estimate=job.estimate, deadline=job.qos.deadline,
            ))
            if job.processors <= self.free_count:
                note(log.Admitted(date=now, job=job.id, start=now, deadline=job.qos.deadline))
                note(log.Started(date=now, job=job.id, end=now + job.estimate))
                self.start(job)
            else:
                note(log.Refused(date=now, job=job.id, reason="no processor is free"))
                self.reject(job, "no processor is free")
        self.new, self.gone = [], []
'''

# One processor. A runs until 4, B waits, C can end at 11 and asks for 8.
#
#   |AAAABBBB
#    0   4   8
JOBS = workload_of(1, [exact(0, 1, 4, 5), exact(1, 1, 4, 9), exact(2, 1, 3, 8)])
FREE = PriceList(None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(ON_TIME)
    Path("hand.py").write_text(BY_HAND)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_scheduler_in_a_file_is_asked() -> None:
    done = run("mine.py:OnTime", JOBS, settings={"margin": "1"})
    for name in (done, done.prefix):
        story = explain(name, "C", FREE)
        assert isinstance(story, Explanation)
        assert (story.outcome, story.reason) == ("refused", "would end at 12 s")
        assert story.earliest is not None
        assert story.earliest.start == 8
        assert 12 <= story.earliest.deadline <= 13
        assert [each.job for each in story.waited_for] == ["w0!B", "w0!A"]
        answer = quote(name, 5, processors=1, run_time=2, deadline=9, prices=FREE)
        assert answer.scheduler == "mine.py:OnTime"
        assert answer.granted is not None
        assert (answer.granted.deadline, answer.granted.start) == (14, 8)
    Path("mine.py").write_text(ON_TIME + "\n")
    with pytest.raises(InputError, match="scheduler 'mine.py:OnTime' has changed since"):
        quote(done.prefix, 5, processors=1, run_time=2, prices=FREE)
    assert quote(done, 5, processors=1, run_time=2, prices=FREE).admitted


@pytest.mark.usefixtures("folder")
def test_a_scheduler_that_is_only_a_class_is_asked_through_its_run() -> None:
    scope: dict[str, type] = {}
    exec(ON_TIME.replace("OnTimeOptions", "OwnOptions"), scope)
    done = run(scope["OnTime"], JOBS)
    answer = quote(done, 2, processors=1, run_time=3, deadline=6, prices=FREE)
    assert (answer.admitted, answer.reason) == (False, "would end at 11 s")
    assert answer.earliest is not None
    assert answer.earliest.deadline == 11
    with pytest.raises(InputError, match="line 1: .*OnTime"):
        quote(done.prefix, 2, processors=1, run_time=3, prices=FREE)


@pytest.mark.usefixtures("folder")
def test_a_log_without_a_plan_is_explained_but_cannot_be_asked() -> None:
    done = run("hand.py:ByHand", JOBS)
    story = explain(done, "B", FREE)
    assert isinstance(story, Explanation)
    assert (story.outcome, story.reason) == ("refused", "no processor is free")
    assert (story.earliest, story.cheapest) == (None, None)
    assert [each.job for each in story.in_the_way] == ["w0!A"]
    with pytest.raises(InputError, match="scheduler 'hand.py:ByHand' has no plan that can be ask"):
        quote(done, 2, processors=1, run_time=3, prices=FREE)
