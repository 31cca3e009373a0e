"""Jobs and profiles that a decision process registers during a simulation."""

from __future__ import annotations

from typing import Any

import msgspec

from qops_batsim.engine.execution import RUNNABLE_TYPES
from qops_batsim.engine.kept_profiles import KeptProfiles
from qops_batsim.engine.records import JobRecord
from qops_batsim.engine.world import World
from qops_batsim.errors import InputError, shown
from qops_batsim.job_fields import hosts_unknown
from qops_batsim.jobs import SUBMITTED, Job
from qops_batsim.limits import IN_NO_NAME, NO_NAME
from qops_batsim.protocol.decisions import RegisterJob, RegisterProfile
from qops_batsim.protocol.events import Notify
from qops_batsim.protocol.messages import rounded_value
from qops_batsim.timing import TOLD_DECIMALS


def notified(world: World, decision: Notify) -> None:
    """Process a NOTIFY decision: the scheduler has registered its last job, or registers more."""
    if decision.type not in ("registration_finished", "continue_registration"):
        raise world.error(
            f"NOTIFY {decision.type!r} is not supported by the embedded engine; "
            "registration_finished and continue_registration are"
        )
    _need_dynamic_jobs(world, f"NOTIFY {decision.type}")
    world.registering = decision.type == "continue_registration"


def _need_dynamic_jobs(world: World, what: str) -> None:
    if not (world.options.dynamic_jobs or world.options.rules.registers_always):
        raise world.error(f"{what} was received but dynamic jobs are not enabled")


def register_profile(world: World, decision: RegisterProfile) -> None:
    """Add a profile to a workload; SimulationError if it is invalid."""
    _need_dynamic_jobs(world, "REGISTER_PROFILE")
    _check_names(world, "REGISTER_PROFILE", decision.workload_name, decision.profile_name)
    profiles = world.profiles.setdefault(decision.workload_name, {})
    name = f"profile {decision.workload_name}!{decision.profile_name}"
    if decision.profile_name in profiles:
        raise world.error(f"REGISTER_PROFILE: {name} already exists")

    if decision.profile.get("type") == "usage_trace":
        raise world.error(
            f"{name} is of type 'usage_trace'; only the file of a workload can have such profiles"
        )
    if decision.profile.get("type") not in RUNNABLE_TYPES:
        raise world.error(
            f"{name}: the embedded engine cannot run profiles of type "
            f"{decision.profile.get('type')!r}; it runs {', '.join(RUNNABLE_TYPES)}"
        )

    kept = _kept_profiles(world)
    profiles[decision.profile_name] = (
        rounded_value(decision.profile)
        if world.options.rules.rounds_registered
        else decision.profile
    )
    if kept is not None:
        kept.register(decision.workload_name, decision.profile_name)


def register_job(world: World, decision: RegisterJob) -> JobRecord:
    """Add a job to the simulation and return its record; SimulationError if it is invalid."""
    _need_dynamic_jobs(world, "REGISTER_JOB")
    job = decision.job
    job_id = decision.job_id
    workload_name, separator, local_id = job_id.partition("!")
    if not (separator and workload_name and local_id):
        raise world.error(f"REGISTER_JOB: job id {job_id!r}; WORKLOAD!NAME is expected")
    _check_names(world, "REGISTER_JOB", job_id)

    if not (world.registering or world.options.rules.registers_always):
        raise world.error(f"REGISTER_JOB {job_id!r} came after the registration was finished")
    if world.known_record(job_id) is not None:
        raise world.error(f"REGISTER_JOB: job {job_id!r} already exists")

    if world.shared is None and job.hosts_asked is not None:
        raise world.error(hosts_unknown(job_id, job.hosts_asked, "the platform"))
    _borrow(world, workload_name, job.profile)
    if job.profile not in world.profiles.get(workload_name, {}):
        raise world.error(
            f"REGISTER_JOB: job {job_id!r} names profile {job.profile!r}, "
            f"which workload {workload_name!r} does not have"
        )

    kept = _kept_profiles(world)
    if kept is not None and not kept.hold(workload_name, job.profile):
        raise world.error(
            f"REGISTER_JOB: profile {job.profile!r} of job {job_id!r} was forgotten, as no job is "
            "left that has it (the feature profile_reuse keeps those of jobs that have ended)"
        )
    return registered_record(world, job_id, job)


def _borrow(world: World, workload_name: str, profile: str) -> None:
    """Copy into a workload a profile that is named with another workload (``w1!profile``)."""
    owner, separator, name = profile.partition("!")
    found = world.profiles.get(owner, {}).get(name)
    if not separator or found is None:
        return
    if "seq" in found:
        steps = [step if "!" in step else f"{owner}!{step}" for step in found["seq"]]
        found = {**found, "seq": steps}
        for step in steps:
            _borrow(world, workload_name, step)
    world.profiles.setdefault(workload_name, {})[profile] = found


def _kept_profiles(world: World) -> KeptProfiles | None:
    """Return the record of kept profiles, None where all are kept."""
    if not world.options.rules.forgets_profiles:
        return None
    kept = world.kept_profiles
    if kept is None:
        kept = KeptProfiles(world.workloads, world.profiles)
        world.kept_profiles = kept
    if not world.options.profile_reuse:
        kept.forget(world.ended, world.ended_before)
    return kept


class _RoundedFields:
    """The fields of a registered job as messages tell them: put together only if somebody asks."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def fields_of(self, job_id: str) -> dict[str, Any]:
        fields: dict[str, Any] = rounded_value(self._job.fields)
        return fields


def _is_written(job: Job) -> bool:
    """Return whether a job, or the one that it is another run of, was read from its source."""
    fields = job._fields
    while isinstance(fields, Job):
        fields = fields._fields
    return fields is not None and not isinstance(fields, dict)


def _rounded(job_id: str, job: Job) -> Job | None:
    """Return a job that was read from its source with its values rounded; None if one of them is
    then not valid any more.
    """
    walltime = job.walltime
    qos = job.qos
    positive = [walltime]
    if qos is not None:
        positive += qos.estimated_runtime, qos.checkpoint
        told = zip(qos.__struct_fields__, msgspec.structs.astuple(qos), strict=True)
        changed = {
            name: round(value, TOLD_DECIMALS)
            for name, value in told
            if type(value) is float and value != round(value, TOLD_DECIMALS)
        }
        if changed:
            qos = msgspec.structs.replace(qos, **changed)

    if any(number is not None and number < 10.0**-TOLD_DECIMALS for number in positive):
        return None

    if walltime is not None:
        walltime = round(walltime, TOLD_DECIMALS)
    submitted = round(job.submission_time, TOLD_DECIMALS)
    asked = job.processors, job.profile, walltime, qos
    return Job(job_id, submitted, *asked, _RoundedFields(job), job.hosts_asked)


def as_registered(job_id: str, job: Job, *, rounded: bool = True) -> Job:
    """Return a registered job in the form of a workload file; InputError if it is invalid."""
    if rounded and job.id == job_id and _is_written(job):
        # It need not be read again, as most jobs that are run again or that users register.
        found = _rounded(job_id, job)
        if found is not None:
            return found
    fields = rounded_value(job.fields) if rounded else job.fields
    job = Job.from_fields(fields, where="REGISTER_JOB")
    return job if job.id == job_id else job.renamed(job_id)


def registered_record(world: World, job_id: str, job: Job) -> JobRecord:
    """Create the record of a registered job; SimulationError if it is invalid."""
    workload_name = job_id.partition("!")[0]
    rules = world.options.rules
    try:
        job = as_registered(job_id, job, rounded=rules.rounds_registered)
        where = f"REGISTER_JOB {job_id!r}"
        execution = world.execution(workload_name, job.profile, job.processors, where=where)
    except InputError as error:
        raise world.error(str(error)) from None

    record = JobRecord(job, execution)
    world.records[job_id] = record
    record.state = SUBMITTED
    if not rules.keeps_submissions:
        record.job.submission_time = world.now
        record.energy = 0.0
    return record


def _check_names(world: World, what: str, *names: str) -> None:
    for name in names:
        if IN_NO_NAME.search(name):
            raise world.error(f"{what}: {shown(name)} {NO_NAME}")
