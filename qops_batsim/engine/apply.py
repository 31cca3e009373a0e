"""What each decision does to a simulation, and which decisions are refused.

Every violation of the protocol is one error that names the job, the host where
one is concerned, and the simulated date.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qops_batsim.engine.execution import (
    KILLED_COMPUTATION_RETURN_CODE,
    KILLED_DELAY_RETURN_CODE,
    RUNNABLE_TYPES,
)
from qops_batsim.engine.records import JobRecord
from qops_batsim.errors import InputError, shown
from qops_batsim.jobs import COMPLETED_KILLED, REJECTED, RUNNING, SUBMITTED, Job
from qops_batsim.protocol.decisions import (
    CallMeLater,
    Decision,
    ExecuteJob,
    KillJob,
    RegisterJob,
    RegisterProfile,
    RejectJob,
    SetJobMetadata,
)
from qops_batsim.protocol.events import Answer, JobCompleted, JobKilled, Notify, Query

if TYPE_CHECKING:
    from qops_batsim.engine.simulation import Simulation

SHORTEST_CALL_DELAY = 1e-5
"""A requested call comes at least so much later than it was asked for (seconds), as in Batsim."""


def apply_decision(simulation: Simulation, decision: Decision) -> None:
    """Carry out one decision at the simulation's current date.

    Raises
    ------
    SimulationError
        The decision breaks the protocol or is not supported.
    """
    effect = _EFFECTS.get(type(decision))
    if effect is None:
        raise simulation.error(f"{decision.TYPE} is not supported by the embedded engine")
    effect(simulation, decision)


def _known(simulation: Simulation, job_id: str, action: str) -> JobRecord:
    record = simulation.records.get(job_id)
    if record is None:
        raise simulation.error(f"{action} names job {job_id!r}, which does not exist")
    return record


def _execute(simulation: Simulation, decision: ExecuteJob) -> None:
    record = _known(simulation, decision.job_id, "EXECUTE_JOB")
    job, hosts = record.job, decision.alloc
    if record.state != SUBMITTED:
        raise simulation.error(f"job {job.id!r} cannot be started: it is {record.state}")
    if decision.mapping is not None:
        _check_mapping(simulation, decision, job)
    elif len(hosts) != job.processors and not _divides_a_total(record):
        raise simulation.error(
            f"job {job.id!r} asks for {job.processors} hosts and was given {len(hosts)} "
            f"({str(hosts) or 'none'})"
        )
    if not hosts:
        raise simulation.error(f"job {job.id!r} was given no host")
    problem = simulation.occupation.problem(hosts)
    if problem is not None:
        raise _cannot_start(simulation, job, *problem)
    placement = None
    if decision.mapping is not None:
        listed = tuple(hosts)
        mapping = decision.mapping
        placement = tuple(listed[int(mapping[str(e)])] for e in range(job.processors))
    simulation.start(record, hosts, placement)


def _divides_a_total(record: JobRecord) -> bool:
    """Whether the job has a fixed total of work, so that it can run on any number of hosts."""
    step = record.execution.steps[0]
    return step.amounts is not None and step.amounts.total and not step.place


def _cannot_start(simulation: Simulation, job: Job, host: int, trouble: str) -> Exception:
    if host < len(simulation.hosts):
        there = [
            record.job.id
            for record in simulation.records.values()
            if record.state == RUNNING and host in record.hosts
        ]
        if there:
            trouble = f"{trouble} {', '.join(there)}"
        trouble = f"{trouble} ({simulation.hosts[host].name})"
    return simulation.error(f"job {job.id!r} cannot start on host {host}: {trouble}")


def _check_mapping(simulation: Simulation, decision: ExecuteJob, job: Job) -> None:
    mapping = decision.mapping or {}
    if sorted(mapping) != sorted(str(executor) for executor in range(job.processors)):
        raise simulation.error(
            f"job {job.id!r}: the mapping must name the executors 0 to {job.processors - 1}"
        )
    places = {str(index) for index in range(len(decision.alloc))}
    for executor, place in mapping.items():
        if place not in places:
            raise simulation.error(
                f"job {job.id!r}: executor {executor} is mapped to {shown(place)}; an index into "
                f"the {len(decision.alloc)} allocated hosts is expected"
            )


def _reject(simulation: Simulation, decision: RejectJob) -> None:
    record = _known(simulation, decision.job_id, "REJECT_JOB")
    if record.state != SUBMITTED:
        raise simulation.error(f"job {decision.job_id!r} cannot be rejected: it is {record.state}")
    record.state = REJECTED
    simulation.ended.append(record)


def _kill(simulation: Simulation, decision: KillJob) -> None:
    if not decision.job_ids:
        raise simulation.error("KILL_JOB names no job")
    victims: dict[str, JobRecord] = {}
    for job_id in decision.job_ids:
        record = _known(simulation, job_id, "KILL_JOB")
        if record.state != RUNNING and not _end_is_untold(simulation, record):
            raise simulation.error(f"job {job_id!r} cannot be killed: it is {record.state}")
        victims[job_id] = record
    progress: dict[str, dict[str, Any]] = {}
    for job_id, record in victims.items():
        if record.state == RUNNING:
            progress[job_id] = record.progress(simulation.now)
            sleeping = record.computation is None
            code = KILLED_DELAY_RETURN_CODE if sleeping else KILLED_COMPUTATION_RETURN_CODE
            simulation.end(record, COMPLETED_KILLED, code)
    simulation.tell(JobKilled(list(progress), progress))


def _end_is_untold(simulation: Simulation, record: JobRecord) -> bool:
    """Whether the job has ended and the module cannot know yet: then the kill is just too late."""
    return any(
        isinstance(item.body, JobCompleted) and item.body.job_id == record.job.id
        for item in simulation.outbox
    )


def _call_later(simulation: Simulation, decision: CallMeLater) -> None:
    date = decision.timestamp
    if not (math.isfinite(date) and date > simulation.now):
        raise simulation.error(
            f"CALL_ME_LATER asks for {date:.6f} s; a finite date later than now is expected"
        )
    simulation.call_at(max(date, simulation.now + SHORTEST_CALL_DELAY))


def _query(simulation: Simulation, decision: Query) -> None:
    requests = decision.fields.get("requests")
    if not isinstance(requests, dict) or list(requests) != ["consumed_energy"]:
        raise simulation.error(
            f"QUERY {requests!r} is not supported by the embedded engine; "
            '{"requests": {"consumed_energy": {}}} is'
        )
    if simulation.energy is None:
        raise simulation.error("QUERY consumed_energy was received but energy is not enabled")
    everything = range(len(simulation.hosts))
    joules = simulation.energy.consumed(everything, simulation.now)
    simulation.tell(Answer({"consumed_energy": joules}))


def _set_metadata(simulation: Simulation, decision: SetJobMetadata) -> None:
    _known(simulation, decision.job_id, "SET_JOB_METADATA").metadata = decision.metadata


def _notified(simulation: Simulation, decision: Notify) -> None:
    if decision.type not in ("registration_finished", "continue_registration"):
        raise simulation.error(
            f"NOTIFY {decision.type!r} is not supported by the embedded engine; "
            "registration_finished and continue_registration are"
        )
    _need_dynamic_jobs(simulation, f"NOTIFY {decision.type}")
    simulation.registering = decision.type == "continue_registration"


def _need_dynamic_jobs(simulation: Simulation, what: str) -> None:
    if not simulation.options.dynamic_jobs:
        raise simulation.error(f"{what} was received but dynamic jobs are not enabled")


def _register_profile(simulation: Simulation, decision: RegisterProfile) -> None:
    _need_dynamic_jobs(simulation, "REGISTER_PROFILE")
    profiles = simulation.profiles.setdefault(decision.workload_name, {})
    name = f"profile {decision.workload_name}!{decision.profile_name}"
    if decision.profile_name in profiles:
        raise simulation.error(f"REGISTER_PROFILE: {name} already exists")
    if decision.profile.get("type") not in RUNNABLE_TYPES:
        raise simulation.error(
            f"{name}: the embedded engine cannot run profiles of type "
            f"{decision.profile.get('type')!r}; it runs {', '.join(RUNNABLE_TYPES)}"
        )
    profiles[decision.profile_name] = decision.profile


def _register_job(simulation: Simulation, decision: RegisterJob) -> None:
    _need_dynamic_jobs(simulation, "REGISTER_JOB")
    job, job_id = decision.job, decision.job_id
    workload_name, separator, local_id = job_id.partition("!")
    if not (separator and workload_name and local_id):
        raise simulation.error(f"REGISTER_JOB: job id {job_id!r}; WORKLOAD!NAME is expected")
    if not simulation.registering:
        raise simulation.error(f"REGISTER_JOB {job_id!r} came after the registration was finished")
    if job_id in simulation.records:
        raise simulation.error(f"REGISTER_JOB: job {job_id!r} already exists")
    if job.profile not in simulation.profiles.get(workload_name, {}):
        raise simulation.error(
            f"REGISTER_JOB: job {job_id!r} names profile {job.profile!r}, "
            f"which workload {workload_name!r} does not have"
        )
    if job.id != job_id:
        job = job.renamed(job_id)
    try:
        execution = simulation.execution(workload_name, job, where=f"REGISTER_JOB {job_id!r}")
    except InputError as error:
        raise simulation.error(str(error)) from None
    record = JobRecord(job, execution)
    record.state = SUBMITTED
    simulation.records[job_id] = record
    if simulation.options.acknowledge_dynamic_jobs:
        simulation.tell(simulation.submitted(job))


_EFFECTS: dict[type, Callable[[Simulation, Any], None]] = {
    ExecuteJob: _execute,
    RejectJob: _reject,
    KillJob: _kill,
    CallMeLater: _call_later,
    SetJobMetadata: _set_metadata,
    RegisterProfile: _register_profile,
    RegisterJob: _register_job,
    Notify: _notified,
    Query: _query,
}
