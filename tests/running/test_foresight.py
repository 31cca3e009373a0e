"""``check_scheduler`` finds schedulers that know run times before jobs end, and no others."""

from __future__ import annotations

import pytest

from qops_batsim import (
    DeadlineScheduler,
    Easy,
    EngineNeeds,
    Job,
    QueueScheduler,
    Scheduler,
    check_scheduler,
)
from qops_batsim.core import HostSet, ResourceManager
from qops_batsim.running.contract import SchedulerContractError
from qops_batsim.running.hidden_run_times import disguise
from qops_batsim.workload import Workload, delay_profile

NAMES = "job.profile or job.fields"
CONTENTS = "manager.profile_of(job) or manager.system.profiles"


# Those who look


class ShortestByName(Easy):
    """Reads the run time out of the name."""

    def key(self, job: Job) -> float:
        return float(job.profile.removeprefix("delay"))


class ShortestByField(Easy):
    """Likewise, out of the fields of the workload."""

    def key(self, job: Job) -> float:
        return float(job.fields["profile"].removeprefix("delay"))


class ShortestByText(Easy):
    """Likewise, out of what is printed of a job."""

    def order(self, now: float) -> list[Job]:
        return sorted(self.queue, key=lambda job: float(repr(job).split("delay")[1].strip("')")))


class TiesByName(Easy):
    """Orders by the estimate, and by the name where these are equal."""

    def order(self, now: float) -> list[Job]:
        return sorted(self.queue, key=lambda job: (job.estimate, job.profile))


class LastOfThatName(Easy):
    """Plans with the last run time under the same name, which is the run time."""

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        self.known: dict[str, float] = {}

    def ended(self, job: Job) -> None:
        super().ended(job)
        self.known[job.profile] = self.manager.now - job.start

    def order(self, now: float) -> list[Job]:
        return sorted(self.queue, key=lambda job: self.known.get(job.profile, job.estimate))


class HostsByName(QueueScheduler):
    """First come, first served; long jobs get the highest hosts."""

    def schedule(self) -> None:
        for job in list(self.queue):
            if job.processors > self.manager.free:
                break
            free = sorted(HostSet(self.manager.free_mask()))
            if float(job.profile.removeprefix("delay")) > 5:
                free.reverse()
            self.start(job, HostSet.of(free[: job.processors]))


class AdmitsByName(DeadlineScheduler):
    """Refuses a job that would really end late."""

    def admit(self, job: Job) -> str | None:
        if self.now + float(job.profile.removeprefix("delay")) + 4 > job.target:
            return "too late"
        self.plan.place_new(job)
        return None


class WithProfiles(Easy):
    """Takes what engines tell schedulers who may register jobs."""

    @property
    def needs(self) -> EngineNeeds:
        return EngineNeeds(dynamic_jobs=True, profile_reuse=True)

    def all_submitted(self) -> None:
        super().all_submitted()
        self.manager.finish_registering()


class ShortestByContent(WithProfiles):
    """Asks for the content of the profile."""

    def key(self, job: Job) -> float:
        return float(self.manager.profile_of(job)["delay"])


class ShortestBySystem(WithProfiles):
    """Looks the content up in what was told at the beginning."""

    def key(self, job: Job) -> float:
        return float(self.manager.system.profiles["w0"][job.profile]["delay"])


class CopiesSystem(WithProfiles):
    """Keeps the contents of the beginning."""

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        self.told = {name: dict(each) for name, each in manager.system.profiles["w0"].items()}

    def may_start(self, job: Job) -> bool:
        return self.told[job.profile]["delay"] < 20 or not self.running


class WhereItCan(Easy):
    """Asks for the content only of engines that tell it, such as the real Batsim."""

    def key(self, job: Job) -> float:
        try:
            return float(self.manager.profile_of(job)["delay"])
        except NotImplementedError:
            return job.estimate


class Particular(Easy):
    """Does not decide under names that it does not know."""

    def key(self, job: Job) -> float:
        return {"delay10": 10.0}[job.profile]


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        (ShortestByName, NAMES),
        (ShortestByField, NAMES),
        (ShortestByText, NAMES),
        (TiesByName, NAMES),
        (LastOfThatName, NAMES),
        (HostsByName, NAMES),
        (AdmitsByName, NAMES),
        (Particular, NAMES),
        (ShortestByContent, CONTENTS),
        (ShortestBySystem, CONTENTS),
        (CopiesSystem, CONTENTS),
        (WhereItCan, CONTENTS),
    ],
)
def test_who_reads_run_times_is_found(kind: type[Scheduler], reads: str) -> None:
    with pytest.raises(SchedulerContractError) as caught:
        check_scheduler(kind)
    told = str(caught.value)
    assert "decisions depend on run times, which nobody knows before jobs end: " in told
    assert f"the scheduler seems to read {reads}; it may use job.estimate" in told


def test_what_differs_is_told() -> None:
    told = {}
    for kind in (ShortestByName, AdmitsByName, HostsByName, Particular):
        with pytest.raises(SchedulerContractError) as caught:
            check_scheduler(kind)
        told[kind] = str(caught.value)
    # Twelve equal jobs: by the true names the first is first, by the wrong ones it is last.
    assert "'equal arrivals'" in told[ShortestByName]
    assert "job 0 starts at 60 s (else it starts at 0 s)" in told[ShortestByName]
    assert "it raises SimulationError (AdmitsByName at 1 s gave no reason" in told[AdmitsByName]
    assert "it chooses other hosts or makes other promises" in told[HostsByName]
    assert "it raises KeyError ('delay1')" in told[Particular]


# Those who do not


class Learning(Easy):
    """Plans with what jobs of the same width have taken, as known once they have ended."""

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        self.known: dict[int, float] = {}

    def ended(self, job: Job) -> None:
        super().ended(job)
        self.known[job.processors] = self.manager.now - job.start

    def order(self, now: float) -> list[Job]:
        return sorted(self.queue, key=lambda job: self.known.get(job.processors, job.estimate))


class KillsOnce(Scheduler):
    """Kills each job 0.25 s after its start, once, and registers the rest of it."""

    kills = True

    @property
    def needs(self) -> EngineNeeds:
        return EngineNeeds(dynamic_jobs=True, profile_reuse=True)

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        self.queue: list[Job] = []
        self.running: dict[str, Job] = {}
        self.were_killed: set[str] = set()
        self.will_come = True

    def submitted(self, job: Job) -> None:
        self.queue.append(job)

    def ended(self, job: Job) -> None:
        self.running.pop(job.id, None)

    def killed(self, job: Job) -> None:
        if job.state != "COMPLETED_KILLED":
            return
        whole = self.manager.profile_of(job)
        rest = float(whole["delay"]) - (self.manager.now - job.start)
        if rest <= 0:
            return
        again = Job(f"{job.id}+", self.manager.now, job.processors, f"rest{job.id[3:]}")
        self.manager.register(again, {"type": "delay", "delay": rest})
        self.queue.append(again)

    def all_submitted(self) -> None:
        self.will_come = False

    def called(self) -> None:
        for job in list(self.running.values()):
            due = self.manager.now - job.start >= 0.25
            if due and job.id not in self.were_killed and not job.id.endswith("+"):
                self.were_killed.add(job.id)
                self.manager.kill(job)

    def decide(self) -> None:
        for job in list(self.queue):
            if not 0 < job.processors <= self.manager.machine_size:
                self.queue.remove(job)
                self.manager.reject(job, "has no room")
            elif job.processors <= self.manager.free:
                self.queue.remove(job)
                self.manager.start(job)
                self.running[job.id] = job
                self.manager.call_at(self.manager.now + 0.25)
        if not (self.will_come or self.queue or self.running):
            self.manager.finish_registering()


class Talks(QueueScheduler):
    """Names the profile in what it says of jobs, and decides by the width."""

    def schedule(self) -> None:
        for job in list(self.queue):
            if job.processors > 3:
                self.manager.reject(job, f"too wide: {job!r}, {job.fields}")
            elif job.processors <= self.manager.free:
                self.manager.note_metadata(job, f"runs {job.profile}")
                self.start(job)


class Refuses(DeadlineScheduler):
    """Gives a profile's name as a reason."""

    def admit(self, job: Job) -> str:
        return f"no {job.profile}"


@pytest.mark.parametrize("kind", [Learning, WithProfiles, KillsOnce, Talks, Refuses])
def test_who_does_not_passes(kind: type[Scheduler]) -> None:
    assert check_scheduler(kind) >= 21  # Some of these count hosts.


def test_a_disguise_has_a_wrong_run_time_for_each_job() -> None:
    names = dict(map(delay_profile, (5, 9)))
    jobs = [Job(str(n), n, 1, f"delay{seconds}") for n, seconds in enumerate((5, 9, 5))]
    workload = Workload(jobs=jobs, profiles=names, processors=2)
    found = disguise(workload)
    # Longest first: job 1, then job 2, then job 0.
    assert [job.profile for job in found.workload.jobs] == ["delay3", "delay1", "delay2"]
    assert found.workload.profiles == {
        "delay1": {"type": "delay", "delay": 9},
        "delay2": {"type": "delay", "delay": 5},
        "delay3": {"type": "delay", "delay": 5},
    }
    assert found.told == dict(map(delay_profile, (1, 2, 3)))
    assert found.workload.delays.tolist() == workload.delays.tolist() == [5, 9, 5]
    assert [job.profile for job in workload.jobs] == ["delay5", "delay9", "delay5"]


def test_who_asks_for_the_profile_of_a_job_that_waits_is_found() -> None:
    class Asks(Easy):
        """Asks without saying that it needs what tells profiles."""

        def key(self, job: Job) -> float:
            return float(self.manager.profile_of(job)["delay"])

    with pytest.raises(SchedulerContractError, match=r"seems to read manager.profile_of\(job\)"):
        check_scheduler(Asks)
