"""What a subclass overrides is called, or refused when the class is made."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from inspect import isfunction
from typing import Any

import msgspec
import pytest

from qops_batsim import (
    DeadlineScheduler,
    Job,
    Qops,
    QosRequest,
    QueueScheduler,
    Scheduler,
    simulate,
)
from qops_batsim.adapters import Steered
from qops_batsim.core import RUNNING, HostSet
from qops_batsim.core.overrides import is_ours, is_overridden, methods_in_source
from qops_batsim.engine import UNAVAILABLE, ExternalEvent
from qops_batsim.engine.engine_options import AVAILABLE
from qops_batsim.errors import InterfaceError, SimulationError
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.protocol.events import JOB_CANCELLED, JOB_RUNS
from qops_batsim.running import default_engine
from qops_batsim.schedulers import scheduler_class, scheduler_names
from qops_batsim.schedulers.planning import PlanScheduler
from qops_batsim.workload import Workload, delay_profile

HOSTS = 8


class Fifo(Scheduler):
    """Starts jobs in their order."""

    def begin(self, manager: Any) -> None:
        super().begin(manager)
        self.line: list[Job] = []

    def submitted(self, job: Job) -> None:
        super().submitted(job)
        self.line.append(job)

    def cancelled(self, job: Job) -> None:
        if job in self.line:
            self.line.remove(job)
            self.manager.reject(job, "cancelled")

    def hosts_changed(self, announced: int) -> None:
        super().hosts_changed(announced)
        if self.manager.capacity.is_final:
            for job in [job for job in self.line if job.processors > self.manager.capacity.present]:
                self.line.remove(job)
                self.manager.reject(job, "too wide")

    def decide(self) -> None:
        super().decide()
        while self.line and self.line[0].processors <= self.manager.free:
            self.manager.start(self.line.pop(0))


class FirstFit(QueueScheduler):
    """Starts what fits."""

    backfills = True

    def schedule(self) -> None:
        for job in self.queue:
            if job.processors <= self.manager.free and self.may_start(job):
                self.start(job)


class Planned(PlanScheduler):
    """Plans each new job behind those before."""

    def answer(self, job: Job) -> None:
        self.plan.place_new(job)
        self.note_admission(job)


class Appending(DeadlineScheduler):
    """Admits a job that ends in time behind those before."""

    def admit(self, job: Job) -> object:
        start = self.plan.profile.earliest_fit(self.now, job.duration, job.processors)
        if start + job.duration > job.target:
            return "late"
        self.plan.place_new(job)
        return None


BASES: dict[str, type[Scheduler]] = {
    "Scheduler": Fifo,
    "QueueScheduler": FirstFit,
    "PlanScheduler": Planned,
    "DeadlineScheduler": Appending,
    "Steered": Steered,
    **{name: scheduler_class(name) for name in scheduler_names()},
}
"""A class that can run, by the name of its base."""

OPTIONS: dict[str, dict[str, Any]] = {"slurm": {"bf_interval": 2.0, "bf_resolution": 1.0}}


def ours(kind: type) -> list[type]:
    """Return the classes of the package among a class and its bases."""
    return [base for base in kind.__mro__ if is_ours(base)]


def names_of(kind: type) -> dict[str, type]:
    """Return what a subclass could override: names with the class whose method would be meant."""
    found: dict[str, type] = {}
    for base in ours(kind):
        for name in sorted({*vars(base), *methods_in_source(base)}):
            if not name.startswith("__"):
                found.setdefault(name, base)
    return found


def made(base: type, /, **methods: Any) -> type[Scheduler]:
    """Return a subclass, as a user's file would define it."""
    kind: type[Scheduler] = type("Mine", (base,), {"__module__": "mine", **methods})
    return kind


# Whatever is no hook is refused


@pytest.mark.parametrize("base", BASES)
def test_an_override_that_nothing_calls_is_refused(base: str) -> None:
    kind = BASES[base]
    refused = 0
    for name, owner in names_of(kind).items():
        if name in kind.HOOKS or name in kind.DESCRIPTION:
            continue
        told = rf"Mine\.{name} overrides {owner.__name__}\.{name}, which is no hook"
        with pytest.raises(InterfaceError, match=told):
            made(kind, **{name: lambda self: None})
        for hook in kind.HOOKS:
            with pytest.raises(InterfaceError, match=told):
                made(kind, **{name: lambda self: None, hook: getattr(kind, hook)})
        refused += 1
    # Uncompiled, attributes of objects are none of the class.
    assert refused > 5 or base == "Scheduler"


def test_what_a_second_base_of_a_class_overrides_is_refused_too() -> None:
    class Mixed:
        def try_points(self) -> None:
            """Stand before a method of QoPS."""

    with pytest.raises(InterfaceError, match=r"Both\.try_points overrides Qops\.try_points"):

        class Both(Mixed, scheduler_class("qops")):  # type: ignore[misc]
            def key(self, job: Job) -> float:
                return job.duration


def test_a_method_that_is_added_later_is_refused_before_anything_runs() -> None:
    kind = made(scheduler_class("qops"), key=lambda self, job: job.duration)
    kind.place_line = lambda self, point: True  # type: ignore[attr-defined]
    with pytest.raises(InterfaceError, match=r"Mine\.place_line overrides Qops\.place_line"):
        make_scheduler(kind)


@pytest.mark.parametrize("name", ["my_search", "_search", "rank_of", "Search", "threshold"])
def test_a_helper_of_a_new_name_is_accepted(name: str) -> None:
    for kind in BASES.values():
        made(kind, **{name: lambda self: None})


def test_a_class_cannot_declare_more_hooks_of_ours() -> None:
    """What is added to HOOKS would be accepted, and still not called."""
    qops = scheduler_class("qops")
    hooks = {**qops.HOOKS, "try_points": "line new"}
    with pytest.raises(InterfaceError, match=r"Mine\.try_points overrides Qops\.try_points"):
        made(qops, HOOKS=hooks, try_points=lambda self, line, new: True)
    # A base of a user's own may have hooks of its own.
    made(qops, HOOKS={**qops.HOOKS, "weigh": "job"}, weigh=lambda self, job: 1.0)


@pytest.mark.parametrize(
    ("base", "name"),
    [("qops", "k_factor"), ("qops", "share"), ("easy", "patience"), ("easy", "predicts")],
)
def test_an_attribute_of_the_class_that_nothing_reads_is_refused(base: str, name: str) -> None:
    owner = scheduler_class(base)
    told = rf"Mine\.{name} overrides {owner.__name__}\.{name}, which only {owner.__name__} itself"
    with pytest.raises(InterfaceError, match=told):
        made(owner, **{name: 0})
    with pytest.raises(InterfaceError, match=told):
        made(owner, __slots__=(name,))


@pytest.mark.parametrize("when", ["__init__", "begin", "submitted"])
@pytest.mark.parametrize(
    ("base", "name", "told"),
    [
        ("easy", "key", "hooks are methods of the class"),
        ("easy", "may_start", "hooks are methods of the class"),
        ("qops", "insertion_points", "hooks are methods of the class"),
        ("qops", "try_points", "which is Qops's own"),
        ("qops", "k_factor", "which is Qops's own"),
    ],
)
def test_what_an_object_sets_and_nothing_reads_is_refused(
    base: str, name: str, told: str, when: str
) -> None:
    owner = scheduler_class(base)
    is_used = name == "k_factor" or (name, when) == ("try_points", "submitted")
    if is_used and isfunction(owner.decide):
        pytest.skip("uncompiled, it is used")

    def setting(self: Any, *arguments: Any) -> None:
        getattr(owner, when)(self, *arguments)
        setattr(self, name, lambda *arguments: 0.0 if name == "key" else True)

    with pytest.raises(InterfaceError, match=rf"Mine sets self\.{name}, .*{told}"):
        simulate(make_scheduler(made(owner, **{when: setting})), workload(), make_cluster(HOSTS))


def test_a_hook_behind_ours_is_refused() -> None:
    class ByWidth:
        def key(self, job: Job) -> float:
            return -job.processors

    easy: Any = scheduler_class("easy")
    with pytest.raises(InterfaceError, match=r"ByWidth\.key comes behind Easy\.key in Mine"):
        type("Mine", (easy, ByWidth), {"__module__": "mine"})
    type("Mine", (ByWidth, easy), {"__module__": "mine"})
    type("Mine", (easy, ByWidth), {"__module__": "mine", "key": ByWidth.key})


# Whatever is a hook is called


def workload() -> Workload:
    """Return jobs that compete for eight hosts, some with deadlines, one with a fixed start."""
    rng = random.Random(4)
    jobs = []
    profiles = {}
    for index in range(40):
        run_time = float(rng.randint(3, 20))
        estimate = run_time * rng.choice([1, 2])
        submission = float(rng.randint(0, 60))
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        deadline = None if index % 3 else submission + estimate * rng.randint(2, 9)
        qos = QosRequest(deadline=deadline, estimated_runtime=estimate)
        width = rng.choice([1, 2, 3, 6, 6])
        jobs.append(Job(str(index), submission, width, name, qos=qos))
    # Its start is lost with the hosts that fail.
    jobs.append(Job("fixed", 2.0, 6, name, qos=QosRequest(estimated_runtime=estimate, start=40.0)))
    jobs.append(Job("gone", 33.0, 6, name, qos=QosRequest(estimated_runtime=estimate)))
    jobs.sort(key=lambda job: job.submission_time)
    return Workload(jobs=jobs, profiles=profiles, processors=HOSTS)


def events() -> tuple[ExternalEvent, ...]:
    """Return a job of somebody else, a notice, hosts that fail and return, a cancellation, and
    hosts that leave for good.
    """
    started = {
        "type": JOB_RUNS,
        "timestamp": 1.0,
        "job_id": "w0!other",
        "resources": "7",
        "start": 1.0,
        "walltime": 3.0,
    }
    notice = {"type": "notice", "timestamp": 5.0}
    cancelled = {"type": JOB_CANCELLED, "timestamp": 33.0, "job_id": "w0!gone"}
    return (
        ExternalEvent(1.0, JOB_RUNS, HostSet(), started),
        ExternalEvent(5.0, "notice", HostSet(), notice),
        ExternalEvent(20.0, UNAVAILABLE, HostSet.parse("2-4"), {}),
        ExternalEvent(33.0, JOB_CANCELLED, HostSet(), cancelled),
        ExternalEvent(48.0, AVAILABLE, HostSet.parse("2-4"), {}),
        ExternalEvent(60.0, UNAVAILABLE, HostSet.parse("1-7"), {}),
    )


def killing(base: type[Scheduler]) -> type[Scheduler]:
    """Return a subclass that asks for a call, and kills the first job that runs then."""

    def decide(self: Any) -> None:
        base.decide(self)
        now = self.manager.now
        if not hasattr(self, "_to_kill"):
            self.manager.call_at(now + 9)
            self._to_kill = 1
        if now >= 9 and self._to_kill:
            jobs = [job for job in self.manager.jobs.values() if job.phase == RUNNING]
            own = [job for job in jobs if job.id != "w0!other"]
            if own:
                self._to_kill = 0
                self.manager.kill(own[0])

    return made(base, decide=decide, kills=True)


def calls_of(base: type[Scheduler], hook: str, options: dict[str, Any]) -> int:
    """Return how often a hook is called that a subclass overrides: in the loop of events, and
    through messages, where a job is killed and another one was started by somebody else.
    """
    calls = 0

    def overridden(self: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        # A base class that takes no cancellations says so.
        with suppress(SimulationError) if hook == "cancelled" else nullcontext():
            return getattr(base, hook)(self, *arguments)

    kind = made(base, **{hook: overridden})
    roads = [kind] if hook == "decide" else [kind, killing(kind)]
    for each in roads:
        module = make_scheduler(each, options)
        # AROMA takes no cancellations.
        happening = [
            event
            for event in events()
            if event.type != JOB_CANCELLED or module.hears_of_cancellations
        ]
        engine = default_engine(module, events=happening)
        engine = msgspec.structs.replace(engine, forward_profiles=each is not kind)
        simulate(module, workload(), make_cluster(HOSTS), engine=engine)
        module.planned_starts()
    return calls


@pytest.mark.parametrize("base", BASES)
def test_every_hook_that_is_overridden_is_called(base: str) -> None:
    kind = BASES[base]
    hooks = {*kind.HOOKS} - ({"try_admission"} if base == "DeadlineScheduler" else set())
    silent = [hook for hook in hooks if not calls_of(kind, hook, OPTIONS.get(base, {}))]
    assert silent == []


def test_a_search_is_called_where_there_is_no_admit() -> None:
    asked: list[str] = []

    def search(self: Any, job: Job) -> str:
        asked.append(job.id)
        return "no plan"

    kind = made(DeadlineScheduler, try_admission=search)
    simulate(make_scheduler(kind), workload(), make_cluster(HOSTS))
    assert len(asked) > 30


def test_an_order_of_the_line_is_refused_where_no_line_is_asked_for() -> None:
    methods = {"line": lambda self: [], "schedule": lambda self: None}
    with pytest.raises(InterfaceError, match=r"Mine\.line would not be called: backfills is None"):
        make_scheduler(made(QueueScheduler, **methods))
    make_scheduler(made(QueueScheduler, backfills=False, **methods))


# How the insertion points of QoPS are chosen is a hook


def admitted(points: Callable[[Any, Job, list[Job]], Any] | None, **options: Any) -> list[str]:
    """Return the decisions of QoPS by job, with insertion points as they are chosen."""
    hooks = {} if points is None else {"insertion_points": points}
    module = make_scheduler(made(scheduler_class("qops"), **hooks, key=deadline), options)
    simulate(module, workload(), make_cluster(HOSTS))
    return [module.qos_log.record(f"w0!{index}").reason for index in range(40)]


def deadline(self: Any, job: Job) -> float:
    """Return a key."""
    return job.deadline


@pytest.mark.parametrize("insertion", ["first", "best", "last"])
def test_the_points_of_the_paper_are_those_by_default(insertion: str) -> None:
    def halves(self: Any, job: Job, waiting: list[Job]) -> Iterator[int]:
        count = len(waiting)
        left = count
        yield 0
        while left > 1:
            left -= left // 2
            yield count - left

    def as_before(self: Any, job: Job, waiting: list[Job]) -> list[int]:
        return [*dict.fromkeys(halves(self, job, waiting))]

    expected = admitted(None, insertion=insertion)
    assert admitted(as_before, insertion=insertion) == expected
    assert any(expected)


def test_behind_all_others_every_promise_is_kept_as_planned() -> None:
    """At the last point, where all waiting jobs keep their starts, QoPS is first fit by arrival."""
    starts: dict[str, float] = {}

    def last(self: Any, job: Job, waiting: list[Job]) -> list[int]:
        for planned in waiting:
            assert planned.start <= starts.get(planned.id, planned.start)
            starts[planned.id] = planned.start
        return [len(waiting)]

    assert admitted(last) != admitted(None)
    assert starts


def test_points_may_come_in_any_order() -> None:
    def backwards(self: Any, job: Job, waiting: list[Job]) -> list[int]:
        return [*range(len(waiting), -1, -1)]

    def forwards(self: Any, job: Job, waiting: list[Job]) -> list[int]:
        return [*range(len(waiting) + 1)]

    # Which of all points is the cheapest does not depend on their order, but for ties.
    found = [admitted(each, insertion="best") for each in (backwards, forwards)]
    assert [bool(each) for each in found[0]].count(False) > 25
    assert abs(sum(map(bool, found[0])) - sum(map(bool, found[1]))) <= 2


@pytest.mark.parametrize("points", [None, [], "0", [-1], [0, 99], [0.5], 3])
def test_wrong_points_are_one_clear_error(points: Any) -> None:
    with pytest.raises(
        SimulationError,
        match=r"Mine\.insertion_points returned .*; whole numbers from 0 to 0, the number of "
        r"waiting jobs, are expected, at least one",
    ):
        admitted(lambda self, job, waiting: points)


class Own(Qops):
    def insertion_points(self, job: Job, waiting: list[Job]) -> list[int]:
        return [0]


def test_a_hook_of_our_own_class_is_not_overridden() -> None:
    # Compiled, the method is another object each time that it is taken from its class.
    assert not is_overridden(Qops(), Qops, "insertion_points")
    assert not is_overridden(make_scheduler("fqops").scheduler, Qops, "insertion_points")
    assert is_overridden(Own(), Qops, "insertion_points")
    assert is_overridden(Qops(), DeadlineScheduler, "try_admission")


@pytest.mark.parametrize("change", [list.clear, list.reverse, lambda waiting: waiting.sort(key=id)])
def test_a_choice_of_points_cannot_change_the_plan(change: Callable[[list[Job]], None]) -> None:
    def first(self: Any, job: Job, waiting: list[Job]) -> list[int]:
        change(waiting)
        return [0]

    assert admitted(first) == admitted(lambda self, job, waiting: [0])


# Lists of ours that a subclass sees


def run(kind: type[Scheduler]) -> None:
    """Run a scheduler on the jobs that compete, without its hosts leaving."""
    simulate(make_scheduler(kind), workload(), make_cluster(HOSTS))


def by_target(waiting: list[Job], job: Job) -> None:
    waiting.sort(key=lambda each: -each.target)


def with_new(waiting: list[Job], job: Job) -> None:
    waiting.append(job)


def without_first(waiting: list[Job], job: Job) -> None:
    del waiting[:1]


@pytest.mark.parametrize("change", [by_target, with_new, without_first])
def test_waiting_jobs_that_an_admission_changed_are_an_error(
    change: Callable[[list[Job], Job], None],
) -> None:
    def admit(self: Any, job: Job) -> object:
        if int(job.id.rpartition("!")[2]) % 2 == 0:
            self.plan.place_new(job)
            return None
        change(self.plan.waiting, job)
        return "no"

    with pytest.raises(SimulationError, match=r"work on a copy: list\(self\.plan\.waiting\)"):
        run(made(DeadlineScheduler, admit=admit))


def test_running_jobs_in_another_order_are_an_error() -> None:
    def may_start(self: Any, job: Job) -> bool:
        self.running.sort(key=lambda each: -each.end)
        return True

    with pytest.raises(SimulationError, match=r"Mine has changed self\.running"):
        run(made(scheduler_class("easy"), may_start=may_start))


def test_ends_that_the_base_does_not_hear_of_are_an_error() -> None:
    with pytest.raises(SimulationError, match=r"Mine\.ended has to call super\(\)\.ended\(job\)"):
        run(made(scheduler_class("easy"), ended=lambda self, job: None))


def test_availability_needs_starts_that_it_knows() -> None:
    def schedule(self: Any) -> None:
        for job in self.queue:
            fit = self.availability().earliest_fit(self.manager.now, 1.0, job.processors)
            if fit <= self.manager.now:
                self.manager.start(job)

    with pytest.raises(SimulationError, match=r"start jobs by self\.start\(job\)"):
        run(made(QueueScheduler, schedule=schedule))
