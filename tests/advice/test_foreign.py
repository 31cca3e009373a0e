"""Quotes and explanations of deadline schedulers from outside the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import InputError, explain, quote, run
from qops_batsim.advice import Explanation, PriceList
from support.decision_runs import exact, workload_of

ON_TIME = '''
from qops_batsim.core.options import PlannerOptions
from qops_batsim.schedulers.deadline import DeadlineScheduler


class OnTimeOptions(PlannerOptions, frozen=True, kw_only=True):
    """Options of OnTime."""

    margin: float = 0.0


class OnTime(DeadlineScheduler):
    """Plan a job behind all promises; refuse it if it would end after its deadline."""

    Options = OnTimeOptions

    def admit(self, job):
        profile, margin = self.plan.profile, self.options.margin
        start = profile.earliest_fit(self.plan.nominal(), job.duration, job.processors)
        end = start + job.duration + margin
        if end > job.deadline:
            return f"would end at {end:g} s"
        self.plan.place_new(job)
'''

# It notes its decisions by itself, and has no plan that could be asked.
BY_HAND = '''
from qops_batsim.core.scheduler import Scheduler
from msgspec.json import encode

from qops_batsim.core import decision_events as log


class ByHand(Scheduler):
    """Take a job if it can start at once."""

    keeps_decisions = True

    def begin(self, manager):
        super().begin(manager)
        self.new = []
        self.noted = []

    def decision_lines(self):
        return (encode(event) + b"\\n" for event in self.noted)

    def submitted(self, job):
        self.new.append(job)

    def ended(self, job):
        self.noted.append(log.Ended(date=self.manager.now, job=job.id))

    def decide(self):
        now, note = self.manager.now, self.noted.append
        for job in self.new:
            note(log.Submitted(
                date=now, job=job.id, submission=job.submission_time, processors=job.processors,
                estimate=job.estimate, deadline=job.qos.deadline,
            ))
            if job.processors <= self.manager.free:
                note(log.Admitted(date=now, job=job.id, start=now, deadline=job.qos.deadline))
                note(log.Started(date=now, job=job.id, end=now + job.estimate))
                self.manager.start(job)
            else:
                note(log.Refused(date=now, job=job.id, reason="no processor is free"))
                self.manager.reject(job, "no processor is free")
        self.new = []
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
    with pytest.raises(InputError, match="scheduler 'mine.py:OnTime': its file has changed since"):
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
    with pytest.raises(
        InputError, match="scheduler 'hand.py:ByHand' keeps no plan of starts, so it cannot be ask"
    ):
        quote(done, 2, processors=1, run_time=3, prices=FREE)
