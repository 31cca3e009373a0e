"""The contract test that any scheduler must pass."""

from __future__ import annotations

import math
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import msgspec
import numpy as np

from qops_batsim.arguments import SWITCH, TEXT, Kind, takes
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.qos_log import format_qos
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.engine.engine_options import (
    AVAILABLE,
    MESSAGES_PER_REPORT,
    UNAVAILABLE,
    EngineOptions,
    ExternalEvent,
)
from qops_batsim.engine.outputs import add_outputs, format_jobs
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import CountsHostsError, InterfaceError, QopsError
from qops_batsim.file_set import run_files
from qops_batsim.job_fields import AskedPart, HostsAsked
from qops_batsim.jobs import REJECTED, Job, QosRequest
from qops_batsim.measures.results.run_files import find_run
from qops_batsim.measures.results.run_result import read_files
from qops_batsim.measures.verify.rule import Violation
from qops_batsim.measures.verify.rules_qos import PROMISE_RULES
from qops_batsim.measures.verify.verifier import verify
from qops_batsim.parameters import COUNT, is_strict
from qops_batsim.platform.equal_hosts import EqualHosts, make_cluster, make_mixed_cluster
from qops_batsim.platform.platform_model import Platform
from qops_batsim.protocol.driver import ModuleDriver
from qops_batsim.protocol.port import SchedulerModule, make_scheduler
from qops_batsim.running.hidden_run_times import Disguise, HidingDriver, disguise
from qops_batsim.running.simulate import default_engine, publish_run, simulate, tell_platform
from qops_batsim.tables import Words
from qops_batsim.workload.workload_model import Profile, Workload, delay_profile

CaseRow = (
    tuple[float, int, float, float | None] | tuple[float, int, float, float | None, QosRequest]
)
"""Submission (s), processors, run time (s), walltime (s), and what the user asks for."""

_QOS = QosRequest

_CASES: dict[str, tuple[int, Sequence[CaseRow]]] = {
    "no job": (4, []),
    "one job": (4, [(0, 2, 10, 20)]),
    "equal arrivals": (4, [(0, 1 + i % 4, 10, 20) for i in range(12)]),
    "whole machine again and again": (3, [(i, 3, 5, 5.5) for i in range(8)]),
    "one host": (1, [(i // 3, 1, 1 + i, 10) for i in range(9)]),
    "wider than the machine": (4, [(0, 5, 10, 20), (1, 4, 10, 20), (2, 99, 1, 2)]),
    "no processor": (4, [(0, 0, 10, 20), (0, 1, 10, 20)]),
    "killed at the walltime": (4, [(0, 3, 50, 10), (1, 3, 10, 10), (2, 1, 9, 10)]),
    "early ends": (4, [(i, 1 + i % 3, 1, 1000) for i in range(20)]),
    "no estimate": (4, [(0, 3, 5, None), (1, 2, 5, 10), (2, 2, 5, None)]),
    "outlives its estimate": (
        4,
        [
            (submission, processors, run_time, None, _QOS(estimated_runtime=10.0))
            for submission, processors, run_time in ((0, 3, 100), (1, 4, 5), (2, 1, 30), (60, 2, 5))
        ],
    ),
    "dates within the tolerance": (
        2,
        [
            (0, 1, 10, 10.5),
            (0, 1, 10.0000004, 11),
            (1e-7, 2, 3, 3.1),
            (10, 1, 2, 2.1),
            (10, 2, 2, 3),
        ],
    ),
    "dates between microseconds": (
        4,
        [
            (i / 3 + 1 / 7, 1 + 3 * i % 4, run_time, run_time + 1 / 3)
            for i, run_time in enumerate((10 / 3, 1 / 9, 7.1234567, 2.0, 1 / 3, 5.5, 20 / 7, 1e-3))
        ],
    ),
    "estimates off by less than a tolerance": (
        1,
        [(0, 1, 2, 2.0000009), (0.1, 1, 1, 1.0000004), (0.1, 1, 1, None)],
    ),
    "estimates that are far off": (
        2,
        [
            (0, 2, 9, None, _QOS(estimated_runtime=1.0)),
            (0, 2, 4, None, _QOS(estimated_runtime=0.04)),
            (0, 2, 4, None, _QOS(estimated_runtime=7.0)),
            (3.5, 3, 4, None, _QOS()),
        ],
    ),
    "deadlines": (
        4,
        [
            (0, 4, 10, None, _QOS(deadline=20.0, estimated_runtime=10.0)),
            (1, 4, 10, None, _QOS(deadline=12.0, estimated_runtime=10.0)),
            (2, 2, 5, None, _QOS(deadline=1.0, estimated_runtime=5.0)),
            (3, 1, 5, None, _QOS(estimated_runtime=5.0)),
        ],
    ),
    "more deadlines than can be met": (
        4,
        [
            (i, 1 + 7 * i % 4, length, None, _QOS(deadline=i + patience, estimated_runtime=length))
            for i in range(40)
            for length, patience in [(3.0 + 5 * i % 11, 12.0 + 13 * i % 50)]
        ],
    ),
}


_AWAY = (
    (4.0, UNAVAILABLE, "0 5-7"),
    (15.0, UNAVAILABLE, "2"),
    (40.0, AVAILABLE, "0 2 6"),
    (70.0, UNAVAILABLE, "0-1"),
    (90.0, AVAILABLE, "0-1 5 7"),
)
"""Date (s), what happens, and to which of eight hosts: up to five are away, none for ever."""


class ContractCase(NamedTuple):
    """A test case for schedulers: hosts, workload, and events at which hosts leave or return."""

    name: str
    hosts: int
    workload: Workload
    events: tuple[ExternalEvent, ...] | None = None
    platform: Platform | None = None

    def machine(self) -> Platform:
        """Return the machine: equal whole hosts unless the case has a platform."""
        return self.platform or make_cluster(self.hosts)


def cases() -> Iterator[ContractCase]:
    """Yield the small adversarial workloads on which schedulers are checked."""
    for name, (hosts, rows) in _CASES.items():
        yield ContractCase(name, hosts, _workload(hosts, rows))
    for seed in range(3):
        yield ContractCase(f"random burst {seed}", 8, _workload(8, _random_burst(seed)))
    events = tuple(
        ExternalEvent(date, kind, HostSet.parse(hosts), {}) for date, kind, hosts in _AWAY
    )
    yield ContractCase("hosts that go away and return", 8, _workload(8, _random_burst(3)), events)
    yield _shared_case()


def _shared_case() -> ContractCase:
    """Return jobs that share the cores, the memory and the GPU of three hosts, some that take whole
    hosts, and one that no host has room for.
    """
    asked: list[HostsAsked | None] = [
        HostsAsked(parts=(AskedPart(hosts=hosts, amounts=amounts),))
        for hosts, amounts in (
            (1, {"cores": 1}),
            (1, {"cores": 2, "memory": 6}),
            (2, {"cores": 3}),
            (1, {"cores": 1, "gpus": 1}),
            (3, {"cores": 1, "memory": 2}),
            (1, {"cores": 8, "memory": 1}),
            (1, {"cores": 9}),
        )
    ]
    asked += [None, HostsAsked(parts=(AskedPart(hosts=1, labels=("big",), exclusive=True),))]
    asked *= 4
    rows = [
        (row[0], 2 if each is None else each.parts[0].hosts, *row[2:])
        for row, each in zip(_random_burst(4), asked, strict=False)
    ]
    small = EqualHosts(hosts=2, cores=4, memory=8)
    big = EqualHosts(hosts=1, cores=8, memory=8, gpus=1, labels=("big",))
    platform = make_mixed_cluster([small, big])
    return ContractCase("hosts that jobs share", 3, _workload(3, rows, asked), None, platform)


def _workload(
    processors: int, rows: Sequence[CaseRow], asked: Sequence[HostsAsked | None] = ()
) -> Workload:
    """Return a workload of jobs, and what each has ``asked`` of its hosts, if any does."""
    jobs = []
    profiles = {}
    for index, row in enumerate(rows):
        submission, needed, run_time, walltime = row[:4]
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        qos = row[4] if len(row) == 5 else None
        date = float(submission)
        of_hosts = asked[index] if asked else None
        jobs.append(Job(str(index), date, needed, name, walltime, qos, None, of_hosts))
    return Workload(jobs=jobs, profiles=profiles, processors=processors, source="contract case")


def _random_burst(seed: int) -> list[CaseRow]:
    random = np.random.default_rng(seed)
    rows: list[CaseRow] = []
    for _ in range(60):
        estimate = float(random.integers(2, 50))
        run_time = float(random.choice([estimate / 2, estimate - 1, estimate, estimate + 5]))
        rows.append((float(random.integers(0, 60)), int(random.integers(1, 9)), run_time, estimate))
    return rows


MOST_DECISIONS = 20_480
"""Decisions after which a case counts as endless; the longest takes a few hundred."""

CASE_SECONDS = 60.0
"""Longest time that one run of a case may take; it takes milliseconds."""


class SchedulerContractError(QopsError):
    """A scheduler broke the contract; the message names the case and the fault."""


class _Endless(BaseException):
    """A scheduler took over :data:`CASE_SECONDS`; no ``except Exception`` can catch this error."""


_SCHEDULER = Kind(
    lambda value: isinstance(value, str) or callable(value),
    "a registered name, FILE.py:CLASS, a class, or a function that returns a new scheduler",
)


@takes(scheduler=_SCHEDULER, compute_sharing=SWITCH.optional, on_broken_promise=TEXT)
def check_scheduler(
    scheduler: str | type[Scheduler] | Callable[[], Scheduler | SchedulerModule],
    *,
    compute_sharing: bool | None = None,
    on_broken_promise: str = COUNT,
) -> int:
    """Check a scheduler's interface and its schedules of small adversarial workloads.

    The interface comes first: a hook that is missing, misspelt or takes other arguments.
    The cases hold equal arrivals, jobs that are wider than the machine or ask for no processor,
    early ends, walltime kills, jobs without estimate and jobs that outlive it, dates that differ by
    less than a tolerance, dates between two microseconds, deadlines (possible and impossible), a
    machine of one host, random bursts, hosts that go away and return, and hosts that jobs share by
    amounts, which a scheduler may refuse by a CountsHostsError. On each, the module must end every
    job, keep the invariants of the schedule verifier, reject what can never run, decide the same
    again in a second run, and in a third one in which execution profiles have other names and tell
    wrong run times until their jobs end.

    Parameters
    ----------
    scheduler
        A registered name, ``"my_file.py:MyScheduler"``, a class, or a function that returns a
        new scheduler.
    compute_sharing
        Whether several jobs may run on one host; by default what the scheduler is
        meant for.
    on_broken_promise
        With ``"count"`` a warning tells how many promises are broken in a case, with ``"fail"``
        such a case is an error.

    Returns
    -------
    int
        Number of cases passed: 22, or 21 if it counts whole hosts.

    Raises
    ------
    SchedulerContractError
        The contract is broken; ``__cause__`` is the module's own error, if there is one.

    Examples
    --------
    >>> check_scheduler("fcfs")
    22
    """

    def make() -> SchedulerModule:
        if isinstance(scheduler, (str, type)):
            return make_scheduler(scheduler)
        made = scheduler()
        if not isinstance(made, (Scheduler, SchedulerModule)):
            raise InterfaceError(f"{type(made).__name__} is no subclass of Scheduler")
        return make_scheduler(made)

    strict = is_strict(on_broken_promise)
    try:
        make()
    except InterfaceError as error:
        raise SchedulerContractError(str(error)) from None

    passed = 0
    for case in cases():
        with _named(case.name):
            try:
                broken = _check_case(make, case, compute_sharing, strict)
            except CountsHostsError:
                if case.platform is None:
                    raise
                continue
        if broken:
            said = f"case {case.name!r}: promises broken: {len(broken)}; {broken[0].message}"
            warnings.warn(said, stacklevel=2)
        passed += 1

    return passed


@contextmanager
def _named(case: str) -> Iterator[None]:
    """Add the name of the test case to errors of this block."""
    try:
        yield
    except SchedulerContractError as error:
        raise SchedulerContractError(f"case {case!r}: {error}") from error.__cause__
    except _Endless as error:
        message = f"case {case!r}: the module has not answered for {CASE_SECONDS:g} s"
        raise SchedulerContractError(message) from error
    except QopsError as error:
        raise SchedulerContractError(f"case {case!r}: {error}") from error
    except Exception as error:
        told = "; ".join((str(error), *getattr(error, "__notes__", ())))
        message = f"case {case!r}: {type(error).__name__}: {told}"
        raise SchedulerContractError(message) from error


def _check_case(
    make: Callable[[], SchedulerModule], case: ContractCase, sharing: bool | None, strict: bool
) -> list[Violation]:
    """Simulate a test case, with true run times told and hidden, and verify its schedule; return
    the broken promises.

    ``make`` makes a fresh scheduler; if ``strict``, a broken promise raises an error.
    """
    hosts = case.hosts
    with _time_limit():
        first, module = _run(make(), case, sharing)
        again, _ = _run(make(), case, sharing)

    if format_jobs(first.ended_jobs) != format_jobs(again.ended_jobs):
        raise SchedulerContractError(
            "two runs on the same input differ; equal decisions are expected"
        )

    decided = _decided(first, module)
    with _time_limit():
        _check_foresight(make, case, sharing, decided)
    for record in first.ended:
        fits = 1 <= record.job.processors <= hosts
        if not fits and record.state != REJECTED:
            raise SchedulerContractError(
                f"job {record.job.id} asks for {record.job.processors} processors of {hosts} and "
                "was not rejected"
            )

    with tempfile.TemporaryDirectory() as directory:
        prefix = Path(directory) / "check"
        told = {"outages": msgspec.to_builtins(first.outages), "message_delays": False}
        with run_files(prefix, lasting=False) as files:
            add_outputs(files, first)
            publish_run(files, module, "", told)

        violations = verify(
            read_files(find_run(prefix), hosts=hosts, is_verified=True),
            workloads={"w0": case.workload},
            compute_sharing=first.options.compute_sharing,
        )

    for each in violations:
        if strict or each.rule not in PROMISE_RULES:
            raise SchedulerContractError(each.message)
    return violations


def _run(
    module: SchedulerModule, case: ContractCase, compute_sharing: bool | None
) -> tuple[Simulation, SchedulerModule]:
    simulation = simulate(
        module,
        case.workload,
        case.machine(),
        events=case.events,
        engine=_engine(module, case, compute_sharing),
        allow_smaller_machine=True,
        on_progress=_limit_of_decisions(),
    )
    return simulation, module


def _engine(
    module: SchedulerModule,
    case: ContractCase,
    sharing: bool | None,
    events: tuple[ExternalEvent, ...] | None = None,
) -> EngineOptions:
    """Return the engine options for a case; jobs always share hosts that have amounts."""
    wanted = None if case.platform is not None else sharing
    return default_engine(module, case.platform, compute_sharing=wanted, events=events)


def _limit_of_decisions() -> Callable[[int], None]:
    """Return what a simulation reports progress to, which ends it after
    :data:`MOST_DECISIONS`.
    """
    reports = 0

    def report(ended: int) -> None:
        nonlocal reports
        reports += 1
        if reports * MESSAGES_PER_REPORT >= MOST_DECISIONS:
            raise SchedulerContractError(
                f"after {MOST_DECISIONS} decisions, the simulation has not ended"
            )

    return report


# Run times that are known too early


class _Decided(NamedTuple):
    """What a scheduler has decided: the files of jobs and promises, without the names of profiles
    and without texts; and the start of each job (seconds, None for a rejected one) by its id.
    """

    jobs: str
    promises: bytes
    starts: dict[str, float | None]


def _decided(simulation: Simulation, module: SchedulerModule) -> _Decided:
    ended = simulation.ended_jobs
    # What it says of a job, as a reason or as metadata, may name a profile and decides nothing.
    nameless = ended._replace(profiles=Words.one("", len(ended.states)), metadata=None)
    promises = b"".join(format_qos(module.qos_log, without=("reason",)))
    starts = {
        job: None if math.isnan(start) else start
        for job, start in zip(ended.ids, ended.starts.tolist(), strict=True)
    }
    return _Decided(format_jobs(nameless), promises, starts)


def _check_foresight(
    make: Callable[[], SchedulerModule],
    case: ContractCase,
    sharing: bool | None,
    decided: _Decided,
) -> None:
    """Raise an error if the scheduler decides otherwise than ``decided`` once profiles tell wrong
    run times.
    """

    def outcome(workload: Workload, told: dict[str, Profile]) -> _Decided | Exception:
        """Return what the scheduler decides where profiles seem to hold ``told``; or its error."""
        try:
            return _told(make(), case, sharing, Disguise(workload, told))
        except Exception as error:  # noqa: BLE001 - a scheduler may raise anything
            return error

    disguised = disguise(case.workload)
    true = disguised.workload.profiles
    hidden = outcome(disguised.workload, disguised.told)
    if hidden == decided:
        return

    # A scheduler without messages is told no contents, so that it may decide otherwise with them.
    plain = outcome(case.workload, case.workload.profiles)
    if isinstance(plain, Exception):
        raise plain
    if hidden == plain:
        return

    renamed = outcome(disguised.workload, true)
    reads = (
        "manager.profile_of(job) or manager.system.profiles"
        if renamed == plain
        else "job.profile or job.fields"
    )
    raise SchedulerContractError(
        f"decisions depend on run times, which nobody knows before jobs end: "
        f"{_difference(plain, hidden)} where execution profiles and their names tell wrong ones; "
        f"the scheduler seems to read {reads}; it may use job.estimate"
    )


def _told(
    module: SchedulerModule, case: ContractCase, sharing: bool | None, disguised: Disguise
) -> _Decided:
    """Simulate a case by messages, by which profiles are told, with wrong contents."""
    options = _engine(module, case, sharing, case.events)
    options = msgspec.structs.replace(options, profile_reuse=True)
    machine = case.machine()
    tell_platform(module, machine, options)
    driver: ModuleDriver = HidingDriver(module, disguised)
    workloads = [disguised.workload]
    simulation = Simulation(machine, workloads, driver, options, _limit_of_decisions())
    simulation.run()
    return _decided(simulation, module)


def _difference(plain: _Decided, hidden: _Decided | Exception) -> str:
    """Return what the scheduler does with hidden run times, and did not do with true ones."""
    if isinstance(hidden, Exception):
        return f"it raises {type(hidden).__name__} ({hidden})"
    differing = [job for job, start in plain.starts.items() if hidden.starts.get(job) != start]
    if not differing:
        return "it chooses other hosts or makes other promises"
    first = min(differing, key=lambda job: plain.starts[job] or 0.0)
    return f"job {first} {_fate(hidden.starts.get(first))} (else it {_fate(plain.starts[first])})"


def _fate(start: float | None) -> str:
    return "is rejected" if start is None else f"starts at {start:.15g} s"


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise :class:`_Endless` if this block takes over :data:`CASE_SECONDS` (Unix only)."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Endless

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, CASE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
