"""A public test that any scheduler must pass."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from qops_batsim.analysis.results.run import read_run
from qops_batsim.analysis.verify.verifier import verify
from qops_batsim.engine.outputs import format_jobs, write_outputs
from qops_batsim.engine.simulation import Simulation
from qops_batsim.errors import InputError, QopsError
from qops_batsim.jobs import REJECTED, Job, QosRequest
from qops_batsim.platform.generate import make_cluster
from qops_batsim.running.simulate import default_engine, simulate
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.qos_log import write_qos_log
from qops_batsim.scheduling.registry import make_scheduler
from qops_batsim.workload.model import Workload, delay_profile


class SchedulerContractError(QopsError):
    """A scheduler broke the contract; the message names the case and what went wrong."""


def check_scheduler(
    scheduler: str | type[DecisionModule] | Callable[[], DecisionModule],
    *,
    compute_sharing: bool | None = None,
) -> int:
    """Run a scheduler on small adversarial workloads and verify every schedule.

    The cases hold equal arrivals, jobs that are wider than the machine or ask for
    no processor, early ends, walltime kills, jobs without estimate and jobs that
    outlive it, dates that differ by less than a tolerance, deadlines (possible and
    impossible), a machine of one host, and random bursts. On each, the module must
    end every job, keep the invariants of the schedule verifier (promised deadlines
    among them), reject what can never run, and decide the same again in a second run.

    Parameters
    ----------
    scheduler
        A registered name, a decision module class, or a function that returns a
        new decision module.
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
        The contract is broken.

    Examples
    --------
    >>> check_scheduler("fcfs")
    18
    """
    passed = 0
    for name, hosts, workload in _cases():
        try:
            first, module = _run(scheduler, hosts, workload, compute_sharing)
            again, _ = _run(scheduler, hosts, workload, compute_sharing)
        except InputError:
            raise
        except QopsError as error:
            raise SchedulerContractError(f"case {name!r}: {error}") from error
        if format_jobs(first.ended) != format_jobs(again.ended):
            raise SchedulerContractError(f"case {name!r}: two runs differ on the same input")
        _verify(name, first, module, workload)
        passed += 1
    return passed


def _run(
    scheduler: str | Callable[[], DecisionModule],
    hosts: int,
    workload: Workload,
    compute_sharing: bool | None,
) -> tuple[Simulation, DecisionModule]:
    module = make_scheduler(scheduler) if isinstance(scheduler, str) else scheduler()
    simulation = simulate(
        workload,
        make_cluster(hosts),
        module,
        engine=default_engine(module, compute_sharing=compute_sharing),
        allow_smaller_machine=True,
    )
    return simulation, module


def _verify(name: str, simulation: Simulation, module: DecisionModule, workload: Workload) -> None:
    hosts = len(simulation.hosts)
    for record in simulation.ended:
        fits = 1 <= record.job.processors <= hosts
        if not fits and record.state != REJECTED:
            raise SchedulerContractError(
                f"case {name!r}: job {record.job.id} asks for {record.job.processors} processors "
                f"of {hosts} and was not rejected"
            )
    with tempfile.TemporaryDirectory() as directory:
        prefix = Path(directory) / "check"
        write_outputs(simulation, prefix)
        write_qos_log(module.qos_log, prefix)
        violations = verify(
            read_run(prefix, hosts=hosts),
            workloads={"w0": workload},
            compute_sharing=simulation.options.compute_sharing,
        )
    if violations:
        raise SchedulerContractError(f"case {name!r}: {violations[0].message}")


# The cases: name, number of hosts, workload.


def _cases() -> Iterator[tuple[str, int, Workload]]:
    yield "no job", 4, _workload(4, [])
    yield "one job", 4, _workload(4, [(0, 2, 10, 20)])
    yield "equal arrivals", 4, _workload(4, [(0, 1 + i % 4, 10, 20) for i in range(12)])
    yield "whole machine again and again", 3, _workload(3, [(i, 3, 5, 5.5) for i in range(8)])
    yield "one host", 1, _workload(1, [(i // 3, 1, 1 + i, 10) for i in range(9)])
    yield "wider than the machine", 4, _workload(4, [(0, 5, 10, 20), (1, 4, 10, 20), (2, 99, 1, 2)])
    yield "no processor", 4, _workload(4, [(0, 0, 10, 20), (0, 1, 10, 20)])
    yield "killed at the walltime", 4, _workload(4, [(0, 3, 50, 10), (1, 3, 10, 10), (2, 1, 9, 10)])
    yield "early ends", 4, _workload(4, [(i, 1 + i % 3, 1, 1000) for i in range(20)])
    yield "no estimate", 4, _workload(4, [(0, 3, 5, None), (1, 2, 5, 10), (2, 2, 5, None)])
    yield "outlives its estimate", 4, _underestimated()
    yield "dates within the tolerance", 2, _nearly_equal_dates()
    yield "estimates off by less than a tolerance", 1, _barely_overestimated()
    yield "estimates that are far off", 2, _far_off()
    yield "deadlines", 4, _deadlines()
    for seed in range(3):
        yield f"random burst {seed}", 8, _random_burst(seed)


Row = tuple[float, int, float, float | None]


def _workload(processors: int, rows: list[Row]) -> Workload:
    """Make a workload from (submission, processors, run time, walltime) rows."""
    jobs, profiles = [], {}
    for index, (submission, needed, run_time, walltime) in enumerate(rows):
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        jobs.append(Job(str(index), float(submission), needed, name, walltime))
    return Workload(jobs=jobs, profiles=profiles, processors=processors, source="contract case")


def _with_qos(workload: Workload, requests: list[QosRequest]) -> Workload:
    workload.jobs = [
        Job(job.id, job.submission_time, job.processors, job.profile, job.walltime, qos)
        for job, qos in zip(workload.jobs, requests, strict=True)
    ]
    return workload


def _underestimated() -> Workload:
    rows: list[Row] = [(0, 3, 100, None), (1, 4, 5, None), (2, 1, 30, None), (60, 2, 5, None)]
    return _with_qos(_workload(4, rows), [QosRequest(estimated_runtime=10.0)] * len(rows))


def _barely_overestimated() -> Workload:
    rows: list[Row] = [(0, 1, 2, 2.0000009), (0.1, 1, 1, 1.0000004), (0.1, 1, 1, None)]
    return _workload(1, rows)


def _far_off() -> Workload:
    rows: list[Row] = [(0, 2, 9, None), (0, 2, 4, None), (0, 2, 4, None), (3.5, 3, 4, None)]
    guesses = [QosRequest(estimated_runtime=guess) for guess in (1.0, 0.04, 7.0)]
    return _with_qos(_workload(2, rows), [*guesses, QosRequest()])


def _nearly_equal_dates() -> Workload:
    return _workload(
        2,
        [
            (0, 1, 10, 10.5),
            (0, 1, 10.0000004, 11),
            (1e-7, 2, 3, 3.1),
            (10, 1, 2, 2.1),
            (10, 2, 2, 3),
        ],
    )


def _deadlines() -> Workload:
    rows: list[Row] = [(0, 4, 10, None), (1, 4, 10, None), (2, 2, 5, None), (3, 1, 5, None)]
    requests = [
        QosRequest(deadline=20.0, estimated_runtime=10.0),
        QosRequest(deadline=12.0, estimated_runtime=10.0),
        QosRequest(deadline=1.0, estimated_runtime=5.0),
        QosRequest(estimated_runtime=5.0),
    ]
    return _with_qos(_workload(4, rows), requests)


def _random_burst(seed: int) -> Workload:
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for _ in range(60):
        estimate = float(random.integers(2, 50))
        run_time = float(random.choice([estimate / 2, estimate - 1, estimate, estimate + 5]))
        rows.append((float(random.integers(0, 60)), int(random.integers(1, 9)), run_time, estimate))
    return _workload(8, rows)
