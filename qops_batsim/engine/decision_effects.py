"""Executing decisions in a simulation, and refusing invalid ones.

Every violation of the protocol is one error that names the job, the host where one is concerned,
and the simulated date.

Between two power states in which it computes, a host changes at once, also under its jobs. Going to
sleep and waking up takes the time of one flop in a power state of its own, in which it can take no
job. The decision module is told when all hosts of one decision have changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from qops_batsim.core.hostset import HostSet
from qops_batsim.engine.energy import POWER_STATES
from qops_batsim.engine.fluid import Computation
from qops_batsim.engine.host_states import (
    COMPUTES,
    COMPUTING,
    IDLE,
    SLEEPING,
    SLEEPS,
    SWITCHES,
    SWITCHING_OFF,
    SWITCHING_ON,
    PowerStateChange,
    SwitchableHosts,
)
from qops_batsim.engine.records import JobRecord
from qops_batsim.engine.registration import notified, register_job, register_profile
from qops_batsim.engine.world import World
from qops_batsim.errors import shown
from qops_batsim.jobs import REJECTED, RUNNING, SUBMITTED, Job
from qops_batsim.protocol.decisions import (
    CallMeLater,
    CallPeriodically,
    ChangePowerState,
    Decision,
    ExecuteJob,
    KillJob,
    RegisterJob,
    RegisterProfile,
    RejectJob,
    SetJobMetadata,
    SetResourceState,
    StopCalls,
    StopSimulation,
)
from qops_batsim.protocol.events import Answer, Notify, Query, ResourceStateChanged
from qops_batsim.timing import SHORTEST_CALL_DELAY

SWITCHING_FLOP = 1.0
"""Work that a host does in the power state through which it goes."""


class Switch:
    """Hosts being switched to a power state; ``left`` are those that have not reached it yet."""

    def __init__(self, hosts: HostSet, state: int) -> None:
        self.hosts = hosts
        self.state = state
        self.left = set(hosts)


def set_resource_state(world: World, decision: SetResourceState) -> None:
    """Begin to switch hosts to a power state; SimulationError if they cannot."""
    if world.energy is None:
        raise world.error("SET_RESOURCE_STATE was received but energy is not enabled")
    hosts = decision.resources
    state = _state(world, decision)
    occupation = world.energy.switchable
    for host in hosts:
        _check(world, occupation, host, state)

    world.energy.note(POWER_STATES, world.now)
    switch = Switch(hosts, state)
    sleeps = occupation.profiles[next(iter(hosts))].activity(state) == SLEEPS
    occupation.noted.append(PowerStateChange(world.now, hosts, -2 if sleeps else -1))

    for host in hosts:
        profile = occupation.profiles[host]
        before = occupation.power_states[host]
        if state in profile.ways:
            _go_through(world, switch, host, profile.ways[state][0], SWITCHING_OFF)
        elif before in profile.ways:
            _go_through(world, switch, host, profile.ways[before][1], SWITCHING_ON)
        else:
            world.enter_power_state(host, state)
            switch.left.discard(host)
    _end(world, switch)
    world.note_host_states()


def change_power_state(world: World, decision: ChangePowerState) -> None:
    """Put hosts into a power state at once; SimulationError if they lack it."""
    if world.energy is None:
        raise world.error("ChangeHostsPStateEvent was received but energy is not enabled")
    state = int(decision.state)
    for host in decision.resources:
        profiles = world.energy.switchable.profiles
        if host >= len(profiles) or state >= len(profiles[host].watts):
            raise world.error(f"host {host} has no power state {state} (host_ids, pstate)")
        world.enter_power_state(host, state)
    world.tell(ResourceStateChanged(decision.resources, decision.state))
    _hosts(world).noted.append(PowerStateChange(world.now, decision.resources, state))
    world.energy.note(POWER_STATES, world.now)


def _state(world: World, decision: SetResourceState) -> int:
    text = decision.state
    if not decision.resources:
        raise world.error("SET_RESOURCE_STATE names no host; at least one is expected")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise world.error(
            f"SET_RESOURCE_STATE asks for state {text[:40]!r}; the number of a power state, as "
            "text, is expected"
        )
    return int(text)


def _check(world: World, occupation: SwitchableHosts, host: int, state: int) -> None:
    """Refuse switches of power states on which Batsim aborts or logs an error."""
    if host >= len(occupation.power_states):
        raise world.error(
            f"host {host} cannot be switched: hosts are 0 to {len(occupation.power_states) - 1}"
        )

    profile = occupation.profiles[host]
    before = occupation.power_states[host]
    trouble = ""
    if state >= len(profile.watts):
        trouble = f"it has power states 0 to {len(profile.watts) - 1} only"
    elif profile.activity(state) == SWITCHES:
        trouble = "it only passes through that while it is switched"
    elif profile.activity(before) == SWITCHES:
        trouble = "it is being switched"
    elif profile.activity(before) == profile.activity(state) == COMPUTES:
        return
    elif profile.activity(before) == profile.activity(state) == SLEEPS:
        trouble = "it sleeps"
    elif occupation.doing(host) == COMPUTING:
        trouble = "it is computing"
    elif occupation.doing(host) not in (IDLE, SLEEPING):
        trouble = "it is unavailable"
    else:
        way = profile.ways[state][0] if state in profile.ways else profile.ways[before][1]
        if not world.machine.host(host).speeds[way] > 0:
            trouble = f"in power state {way}, through which it goes, it has no speed"

    if trouble:
        name = world.machine.host(host).name
        raise world.error(
            f"host {host} ({name}) cannot be switched from power state {before} to {state}: "
            f"{trouble}"
        )


def _go_through(world: World, switch: Switch, host: int, way: int, doing: int) -> None:
    """Begin a host's transition to another power state: it is then in the state ``way``."""
    world.begin_switch()
    _hosts(world).set_doing(host, doing, world.now)
    world.enter_power_state(host, way)
    resource = world.machine.host_resource(host)
    flop = Computation({}, executors=[(resource, SWITCHING_FLOP)], parties=(host,))
    world.progress(flop, partial(_arrive, world, switch), flop)


def _arrive(world: World, switch: Switch, flop: Computation) -> None:
    (host,) = flop.parties
    world.stop(flop)
    world.enter_power_state(host, switch.state)
    sleeps = switch.state in _hosts(world).profiles[host].ways
    _hosts(world).set_doing(host, SLEEPING if sleeps else IDLE, world.now)
    world.report_switch(host, partial(_report, world, switch, host))


def _report(world: World, switch: Switch, host: int) -> None:
    switch.left.discard(host)
    if _end(world, switch):
        world.note_host_states()


def _end(world: World, switch: Switch) -> bool:
    """Report a switch of power states once all its hosts have changed; return whether they have."""
    assert world.energy is not None
    if not switch.left:
        world.tell(ResourceStateChanged(switch.hosts, str(switch.state)))
        _hosts(world).noted.append(PowerStateChange(world.now, switch.hosts, switch.state))
        world.energy.note(POWER_STATES, world.now)
    return not switch.left


def _hosts(world: World) -> SwitchableHosts:
    assert world.energy is not None
    return world.energy.switchable


def apply_decision(world: World, decision: Decision) -> None:
    """Execute a decision at the current date; SimulationError if it is invalid."""
    effect = _EFFECTS.get(type(decision))
    if effect is None:
        raise world.error(f"{decision.TYPE} is not supported by the embedded engine")
    effect(world, decision)


def _known(world: World, job_id: str, action: str) -> JobRecord:
    record = world.known_record(job_id)
    if record is None:
        raise world.error(f"{action} names job {job_id!r}, which does not exist")
    return record


def _execute(world: World, decision: ExecuteJob) -> None:
    record = _known(world, decision.job_id, "EXECUTE_JOB")
    job = record.job
    hosts = decision.alloc
    if record.state != SUBMITTED:
        raise world.error(f"job {job.id!r} cannot be started: it is {record.state}")

    if decision.additional_io_job is not None:
        raise world.error(
            f"job {job.id!r} is started with an additional_io_job, which is not supported by the "
            "embedded engine"
        )

    if decision.mapping is not None:
        _check_mapping(world, decision, job)
    elif world.amounts is None and not _may_have(record, hosts.mask.bit_count()):
        raise world.error(
            f"job {job.id!r} asks for {job.processors} hosts and was given {len(hosts)} "
            f"({str(hosts) or 'none'})"
        )

    if not hosts.mask:
        raise world.error(f"job {job.id!r} was given no host; at least one is expected")
    check_hosts(world, job, hosts)

    placement = None
    if decision.mapping is not None:
        listed = tuple(hosts)
        mapping = decision.mapping
        placement = tuple(listed[int(mapping[str(e)])] for e in range(job.processors))
    if world.amounts is not None:
        problem = world.amounts.problem(job, hosts, placement)
        if problem is not None:
            raise _cannot_share(world, job, *problem)
    record.storages = decision.storage_mapping
    world.start(record, hosts, placement)


def _may_have(record: JobRecord, hosts: int) -> bool:
    """Return whether a job may have so many hosts: as many as it asks for, or any number if its
    profile divides a fixed total of work among them.
    """
    step = record.execution.steps[0]
    return hosts == record.job.processors or (
        step.amounts is not None and step.amounts.total and not step.place
    )


def check_hosts(world: World, job: Job, hosts: HostSet) -> None:
    """Check that hosts can take a job; SimulationError if not."""
    problem = world.occupation.problem(hosts)
    if problem is not None:
        raise _cannot_start(world, job, *problem)


def _cannot_start(world: World, job: Job, host: int, trouble: str) -> Exception:
    if host < len(world.hosts):
        there = [
            record.job.id
            for record in world.records.values()
            if record.state == RUNNING and host in record.hosts
        ]
        if there:
            trouble = f"{trouble} {', '.join(there)}"
        trouble = f"{trouble} ({world.hosts[host].name})"
    return world.error(f"job {job.id!r} cannot start on host {host}: {trouble}")


def _cannot_share(world: World, job: Job, host: int | None, trouble: str) -> Exception:
    if host is None:
        return world.error(f"job {job.id!r} cannot start: {trouble}")
    name = world.hosts[host].name
    return world.error(f"job {job.id!r} cannot start on host {host}: {trouble} ({name})")


def _check_mapping(world: World, decision: ExecuteJob, job: Job) -> None:
    mapping = decision.mapping or {}
    if sorted(mapping) != sorted(str(executor) for executor in range(job.processors)):
        raise world.error(
            f"job {job.id!r}: the mapping must name the executors 0 to {job.processors - 1}"
        )
    places = {str(index) for index in range(len(decision.alloc))}
    for executor, place in mapping.items():
        if place not in places:
            raise world.error(
                f"job {job.id!r}: executor {executor} is mapped to {shown(place)}; an index into "
                f"the {len(decision.alloc)} allocated hosts is expected"
            )


def _reject(world: World, decision: RejectJob) -> None:
    record = _known(world, decision.job_id, "REJECT_JOB")
    if record.state != SUBMITTED:
        raise world.error(f"job {decision.job_id!r} cannot be rejected: it is {record.state}")
    record.state = REJECTED
    world.ended.append(record)


def _kill(world: World, decision: KillJob) -> None:
    if not decision.job_ids:
        raise world.error("KILL_JOB names no job; at least one is expected")
    victims: list[JobRecord] = []
    for job_id in decision.job_ids:
        record = _known(world, job_id, "KILL_JOB")
        if record.state != RUNNING and not world.end_is_untold(record):
            raise world.error(f"job {job_id!r} cannot be killed: it is {record.state}")
        if not record.kill_asked:
            record.kill_asked = True
            victims.append(record)

    if not victims:
        if not world.options.rules.kills_again:
            raise world.error(
                f"KILL_JOB names {', '.join(decision.job_ids)}, killed already; running jobs are "
                "expected"
            )
        return

    progress: dict[str, dict[str, Any]] = {}
    for record in victims:
        if record.state == RUNNING:  # Else it has just ended by itself.
            progress[record.job.id] = world.kill(record)
    world.report_kills(victims, progress)


def _call_later(world: World, decision: CallMeLater) -> None:
    date = decision.timestamp
    if world.options.rules.calls_at_once and math.isfinite(date):
        world.call_at(max(date, world.now), decision.call_id)
        return
    if not (math.isfinite(date) and date > world.now):
        raise world.error(
            f"CALL_ME_LATER asks for {date:.6f} s; a finite date later than now is expected"
        )
    world.call_at(max(date, world.now + SHORTEST_CALL_DELAY))


def _query(world: World, decision: Query) -> None:
    requests = decision.fields.get("requests")
    if not isinstance(requests, dict) or list(requests) != ["consumed_energy"]:
        raise world.error(
            f"QUERY {requests!r} is not supported by the embedded engine; "
            '{"requests": {"consumed_energy": {}}} is'
        )
    if world.energy is None:
        raise world.error("QUERY consumed_energy was received but energy is not enabled")
    joules = world.energy.read_all(world.now)
    world.tell(Answer({"consumed_energy": float(joules)}))


def _register(world: World, decision: RegisterJob) -> None:
    record = register_job(world, decision)
    if world.options.acknowledge_dynamic_jobs:
        world.announce(record.job)


def _stop(world: World, decision: StopSimulation) -> None:
    world.stopped = True


def _set_metadata(world: World, decision: SetJobMetadata) -> None:
    _known(world, decision.job_id, "SET_JOB_METADATA").metadata = decision.metadata


_EFFECTS: dict[type, Callable[[World, Any], None]] = {
    ExecuteJob: _execute,
    RejectJob: _reject,
    KillJob: _kill,
    CallMeLater: _call_later,
    SetJobMetadata: _set_metadata,
    SetResourceState: set_resource_state,
    RegisterProfile: register_profile,
    RegisterJob: _register,
    Notify: notified,
    ChangePowerState: change_power_state,
    CallPeriodically: lambda world, it: world.call_each(it.period, it.count, it.call_id),
    StopCalls: lambda world, it: world.stop_calls(it.call_id),
    StopSimulation: _stop,
    Query: _query,
}
