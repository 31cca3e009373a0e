"""What became of each job of a workload, all its runs taken together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from qops_batsim.analysis.metrics.admission import Ended, has_user_deadline
from qops_batsim.analysis.results.restarts import original_id
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    Job,
)
from qops_batsim.workload.model import Workload

_ENDED_BY_ITSELF = (COMPLETED_SUCCESSFULLY, COMPLETED_FAILED, COMPLETED_WALLTIME_REACHED)


class Account(msgspec.Struct, kw_only=True):
    """What became of one job of a workload, all its runs taken together.

    Attributes
    ----------
    id
        Identifier: with the workload's name in front (``"w0!15"``) where it comes from files.
    arrival
        First submission (seconds).
    processors
        Processors asked for.
    of_user
        Whether its user asked for a deadline.
    deadline
        Deadline that the scheduler promised (seconds), or None.
    run_time
        Seconds that its last run took, if that ended by itself; else None.
    kills
        Runs that the scheduler killed.
    wasted
        Processor-seconds of these.
    """

    id: str
    arrival: float
    processors: int
    of_user: bool
    deadline: float | None = None
    run_time: float | None = None
    kills: int = 0
    wasted: float = 0.0

    def add_run(self, state: str, seconds: float) -> None:
        """Add a run that ended in one of Batsim's final states."""
        if state in _ENDED_BY_ITSELF:
            self.run_time = seconds
        elif seconds == seconds:  # a rejected job has run no time
            self.kills += 1
            self.wasted += self.processors * seconds


def accounts_of_run(result: RunResult, workloads: Mapping[str, Workload]) -> list[Account]:
    """Return what became of each job, from a run's files; O(jobs).

    Parameters
    ----------
    result
        The run, with its ``_qos.csv``.
    workloads
        What was run, by name in the run (``"w0"``, …).

    Raises
    ------
    InputError
        There is no ``_qos.csv``, or a job of the run is not in the workloads.
    """
    if result.qos is None:
        raise InputError(
            f"{result.source}: the run has no _qos.csv, which says what was promised; "
            "a run with one is expected"
        )
    accounts = _empty_accounts(
        (f"{name}!{job.id}", job) for name, workload in workloads.items() for job in workload.jobs
    )
    for job_id, promised in zip(
        result.qos["id"], result.qos["admitted_deadline"].tolist(), strict=True
    ):
        origin = original_id(str(job_id), accounts)
        if origin is not None and promised == promised:
            accounts[origin].deadline = promised
    ended = zip(
        result.jobs["id"],
        result.jobs["final_state"],
        result.column("execution_time").tolist(),
        strict=True,
    )
    _add_runs(
        accounts, ((str(job), str(state), seconds) for job, state, seconds in ended), result.source
    )
    return list(accounts.values())


def accounts_of_simulation(
    ended: Iterable[Ended], workload: Workload, promised: Mapping[str, float]
) -> list[Account]:
    """Return what became of each job of a workload in a simulation; O(jobs).

    Parameters
    ----------
    ended
        The jobs at the end of the simulation (``Simulation.ended``).
    workload
        What was simulated.
    promised
        Deadlines that the scheduler promised (seconds) by job id within the workload.

    Raises
    ------
    InputError
        A job is not in the workload.
    """
    accounts = _empty_accounts((job.id, job) for job in workload.jobs)
    for job_id, deadline in promised.items():
        origin = original_id(job_id, accounts)
        if origin is not None:
            accounts[origin].deadline = deadline
    runs = ((each.local_id, each.state, each.finish - each.start) for each in ended)
    _add_runs(accounts, runs, workload.source)
    return list(accounts.values())


def _empty_accounts(jobs: Iterable[tuple[str, Job]]) -> dict[str, Account]:
    return {
        job_id: Account(
            id=job_id,
            arrival=max(job.submission_time, 0.0),
            processors=job.processors,
            of_user=has_user_deadline(job),
        )
        for job_id, job in jobs
    }


def _add_runs(
    accounts: Mapping[str, Account],
    runs: Iterable[tuple[str, str, float]],
    source: str,
) -> None:
    for job_id, state, seconds in runs:
        origin = original_id(job_id, accounts)
        if origin is None:
            raise InputError(
                f"{source}: job {shown(job_id)} is in no workload given; the workloads that were "
                "run are expected"
            )
        accounts[origin].add_run(state, seconds)
