"""The public contract test: our schedulers pass it, broken ones do not."""

from __future__ import annotations

import traceback

import pytest

from qops_batsim import (
    DeadlineScheduler,
    Easy,
    Fcfs,
    InputError,
    Job,
    QueueScheduler,
    Scheduler,
    SchedulerOptions,
    check_scheduler,
)
from qops_batsim.core import HostSet, ResourceManager
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import contract
from qops_batsim.running.contract import SchedulerContractError
from qops_batsim.schedulers import scheduler_names
from qops_batsim.schedulers.loading.interface import scheduler_problem
from qops_batsim.schedulers.registry import scheduler_class

UNLIMITED = 1e6
"""Seconds for a case where the time limit is not what is tested, on whatever machine."""


@pytest.mark.parametrize("name", scheduler_names())
def test_every_registered_scheduler_keeps_the_contract(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "CASE_SECONDS", UNLIMITED)
    counts = scheduler_class(name).counts_hosts
    assert check_scheduler(name, on_broken_promise="fail") == 22 - counts


def test_conservative_keeps_it_with_processors_as_well() -> None:
    assert check_scheduler(lambda: make_scheduler("conservative", {"reserve": "processors"})) == 22


def test_an_unknown_name_is_an_input_error() -> None:
    with pytest.raises(InputError, match="unknown scheduler"):
        check_scheduler("nothing")


class Forgetful(Fcfs):
    """Never starts the second job."""

    def arrived(self, job: Job) -> None:
        if not job.id.endswith("!1"):
            super().arrived(job)


class Greedy(QueueScheduler):
    """Starts every job on the same hosts at once."""

    def arrived(self, job: Job) -> None:
        self.start(job, HostSet.first(job.processors))

    def schedule(self) -> None:
        pass


class Moody(Fcfs):
    """Takes the lowest hosts in one run and the highest in the next."""

    runs = 0

    def begin(self, manager: ResourceManager) -> None:
        super().begin(manager)
        type(self).runs += 1

    def start(self, job: Job, hosts: object = None) -> None:
        if type(self).runs % 2:
            free = HostSet(self.manager.free_mask())
            hosts = HostSet.of(sorted(free, reverse=True)[: job.processors])
        super().start(job, hosts)


class Raising(Fcfs):
    """Fails in its own code."""

    def schedule(self) -> None:
        raise KeyError("mine")


class Restless(Scheduler):
    """Starts nothing, and asks to be called for ever."""

    def decide(self) -> None:
        self.manager.call_at(self.manager.now + 1.0)


class Calling(Fcfs):
    """Ask for a call at each call, once there was a job."""

    has_job = False

    def arrived(self, job: Job) -> None:
        super().arrived(job)
        self.has_job = True

    def decide(self) -> None:
        super().decide()
        if self.has_job:
            self.manager.call_at(self.manager.now + 1.0)


class Endless(Fcfs):
    """Does not come back, and hides errors."""

    def schedule(self) -> None:
        while True:
            try:
                super().schedule()
            except Exception:  # noqa: BLE001
                continue


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Forgetful, "case 'equal arrivals': .*deadlock"),
        (
            Greedy,
            "case 'equal arrivals': job w0!1, .* on hosts 0-1 at 0 s: hosts that are not free: 1",
        ),
        (Moody, "case 'one job': two runs on the same input differ; equal decisions are expected"),
        (Raising, "case 'no job': KeyError: 'mine'"),
        (Restless, "case 'no job': after 20480 decisions, the simulation has not ended"),
        (Calling, "case 'one job': after 20480 decisions, the simulation has not ended"),
        (Endless, "case 'no job': the module has not answered for 0.5 s"),
    ],
)
def test_broken_schedulers_are_found(
    kind: type[Scheduler], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is Endless:
        monkeypatch.setattr(contract, "CASE_SECONDS", 0.5)
    with pytest.raises(SchedulerContractError, match=message):
        check_scheduler(kind)


def test_the_error_of_the_module_itself_is_the_cause() -> None:
    with pytest.raises(SchedulerContractError) as caught:
        check_scheduler(Raising)
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    assert cause.__traceback__ is not None
    frames = traceback.extract_tb(cause.__traceback__)
    assert (frames[-1].filename, frames[-1].name) == (__file__, "schedule")


# The interface, before anything runs


def _ignore(*_: object) -> None:
    """Stand for any hook."""


class OwnOptions(SchedulerOptions, frozen=True):
    """Options, which change nothing by themselves."""


def _one(self: object) -> None:
    """Take too little."""


def _three(self: object, first: object, second: object) -> None:
    """Take too much."""


async def _later(self: object) -> None:
    """Answer later."""


@pytest.mark.parametrize(
    ("base", "methods", "message"),
    [
        (Fcfs, {"schedul": _ignore}, "Mine.schedul is called by nothing; did you mean 'schedule'"),
        (Fcfs, {"arrive": _ignore}, "Mine.arrive is called by nothing; did you mean 'arrived'"),
        (Fcfs, {"job_arrived": _ignore}, "did you mean 'arrived'"),
        (Scheduler, {"decides": _ignore}, "did you mean 'decide'"),
        (Easy, {"kye": _ignore}, r"Mine overrides no hook of Easy, .* its kye \(nearest: key"),
        (Easy, {"priority": _ignore, "Options": OwnOptions}, r"calls its priority \(nearest: "),
        (Easy, {"rank": property(_one)}, r"nothing calls its rank .*hooks: .* key, "),
        (Fcfs, {"order": staticmethod(_ignore)}, "nothing calls its order"),
        (Scheduler, {"ended": _ignore}, "Mine has no method decide"),
        (QueueScheduler, {"arrived": _ignore, "ended": _ignore}, "Mine has no method schedule"),
        (DeadlineScheduler, {"ended": _ignore}, "Mine has no method admit"),
        (Fcfs, {"ended": _one}, r"Mine.ended\(self.*cannot be called as ended\(job"),
        (Fcfs, {"schedule": _three}, r"Mine.schedule\(self.*cannot be called as schedule"),
        (Fcfs, {"schedule": _later}, "Mine.schedule is .*; an ordinary method is expected"),
        (Fcfs, {"schedule": 3}, "Mine.schedule is 3; an ordinary method is expected"),
        (Fcfs, {"needs": True}, "Mine.needs is True; EngineNeeds are expected"),
    ],
)
def test_a_wrong_interface_is_found_before_anything_runs(
    base: type[Scheduler], methods: dict[str, object], message: str
) -> None:
    with pytest.raises(SchedulerContractError, match=message) as caught:
        check_scheduler(type("Mine", (base,), {"__module__": "elsewhere", **methods}))
    assert "case" not in str(caught.value)


def test_methods_of_a_schedulers_own_are_no_misspelt_hooks() -> None:
    class Helped(Fcfs):
        """Has methods that are no hooks, and calls one."""

        def note_kill(self) -> None:
            self.kills = 1

        def begin(self, manager: ResourceManager) -> None:
            super().begin(manager)
            self.note_kill()

        def tidy(self) -> None:
            """Is like nothing."""

    Helped.__module__ = "elsewhere"
    assert scheduler_problem(Helped()) is None
    for methods in ({}, {"_rank": _one}, {"key": _ignore, "priority": _one}, {"summary": "Mine"}):
        own = type("Mine", (Easy,), {"__module__": "elsewhere", **methods})
        assert scheduler_problem(own()) is None


def test_a_helper_beside_a_hook_may_be_like_another_hook() -> None:
    class Ordered(Easy):
        """Has a helper that its key calls."""

        def orders(self, job: Job) -> float:
            return -job.processors

        def key(self, job: Job) -> float:
            return self.orders(job)

    Ordered.__module__ = "elsewhere"
    with pytest.warns(UserWarning, match="Ordered.orders is no hook; did you mean 'order'?"):
        assert scheduler_problem(Ordered()) is None


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(SchedulerContractError, match="int is no subclass of Scheduler"):
        check_scheduler(lambda: 3)  # type: ignore[arg-type, return-value]
