"""A public test that any scheduler must pass."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from qops_batsim.analysis.results.run import read_run
from qops_batsim.analysis.verify.verifier import verify
from qops_batsim.engine.outputs import add_outputs, format_jobs
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import QopsError
from qops_batsim.file_set import run_files
from qops_batsim.jobs import REJECTED
from qops_batsim.platform.generate import make_cluster
from qops_batsim.protocol.decisions import Decision
from qops_batsim.running.contract_cases import Case, cases
from qops_batsim.running.simulate import default_engine, publish_run, simulate
from qops_batsim.scheduling.interface import InterfaceError
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.registry import make_scheduler

MOST_DECISIONS = 20_000
"""Decisions after which a case counts as endless; the longest takes a few hundred."""

CASE_SECONDS = 60.0
"""Longest time that one run of a case may take; it takes milliseconds."""


class SchedulerContractError(QopsError):
    """A scheduler broke the contract; the message names the case and what went wrong."""


class _Endless(BaseException):
    """A module has not answered for :data:`CASE_SECONDS`; no ``except Exception`` stops it."""


def check_scheduler(
    scheduler: str | type[DecisionModule] | Callable[[], DecisionModule],
    *,
    compute_sharing: bool | None = None,
) -> int:
    """Check a scheduler's interface, run it on small adversarial workloads, verify the schedules.

    The interface comes first: a hook that is missing, misspelt or takes other arguments.
    The cases hold equal arrivals, jobs that are wider than the machine or ask for
    no processor, early ends, walltime kills, jobs without estimate and jobs that
    outlive it, dates that differ by less than a tolerance, deadlines (possible and
    impossible), a machine of one host, random bursts, and hosts that go away and return. On
    each, the module must end every job, keep the invariants of the schedule verifier
    (promised deadlines among them), reject what can never run, and decide the same again in
    a second run.

    Parameters
    ----------
    scheduler
        A registered name, ``"my_file.py:MyScheduler"``, a decision module class, or a
        function that returns a new decision module.
    compute_sharing
        Whether several jobs may run on one host; by default what the scheduler is
        meant for.

    Returns
    -------
    int
        Number of cases passed.

    Raises
    ------
    SchedulerContractError
        The contract is broken; ``__cause__`` is the module's own error, if there is one.

    Examples
    --------
    >>> check_scheduler("fcfs")
    19
    """

    def make() -> DecisionModule:
        if isinstance(scheduler, (str, type)):
            return make_scheduler(scheduler)
        made = scheduler()
        if not isinstance(made, DecisionModule):
            raise InterfaceError(f"{type(made).__name__} is no subclass of DecisionModule")
        return make_scheduler(made)

    try:
        module = make()
    except InterfaceError as error:
        raise SchedulerContractError(str(error)) from None
    module.prepare()
    passed = 0
    for case in cases():
        with _named(case.name):
            _check_case(make, case, compute_sharing)
        passed += 1
    return passed


@contextmanager
def _named(case: str) -> Iterator[None]:
    """Raise whatever goes wrong in the block under the name of its case."""
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
        message = f"case {case!r}: {type(error).__name__}: {error}"
        raise SchedulerContractError(message) from error


def _check_case(make: Callable[[], DecisionModule], case: Case, sharing: bool | None) -> None:
    """Run a case twice and verify the schedule."""
    hosts = case.hosts
    with _time_limit():
        first, module = _run(make(), case, sharing)
        again, _ = _run(make(), case, sharing)
    if format_jobs(first.ended_jobs) != format_jobs(again.ended_jobs):
        raise SchedulerContractError("two runs differ on the same input")
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
            read_run(prefix, hosts=hosts),
            workloads={"w0": case.workload},
            compute_sharing=first.options.compute_sharing,
        )
    if violations:
        raise SchedulerContractError(violations[0].message)


def _run(
    module: DecisionModule, case: Case, compute_sharing: bool | None
) -> tuple[Simulation, DecisionModule]:
    _limit_answers(module)
    simulation = simulate(
        case.workload,
        make_cluster(case.hosts),
        module,
        events=case.events,
        engine=default_engine(module, compute_sharing=compute_sharing),
        allow_smaller_machine=True,
    )
    return simulation, module


def _limit_answers(module: DecisionModule) -> None:
    """Have a module stopped that decides for ever."""
    decide = module.decide
    answered = 0

    def checked(now: float) -> list[Decision]:
        nonlocal answered
        answered += 1
        if answered > MOST_DECISIONS:
            raise SchedulerContractError(
                f"at {now:.6f} s, after {MOST_DECISIONS} decisions, the simulation has not ended"
            )
        return decide(now)

    module.decide = checked  # type: ignore[method-assign]


@contextmanager
def _time_limit() -> Iterator[None]:
    """End the block with an error after :data:`CASE_SECONDS`, where signals can do that."""
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
