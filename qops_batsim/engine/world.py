"""The state of a simulation, and the effects of starting, executing and ending jobs.

Everything else changes a :class:`World` only from here: decisions in
:mod:`~qops_batsim.engine.decision_effects`, submissions and the passing of time in
:mod:`~qops_batsim.engine.message_loop`, with message delays in :mod:`~qops_batsim.engine.server`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from qops_batsim.core.hostset import HostSet, WrittenHosts
from qops_batsim.engine.energy import JOB_ENDS, JOB_STARTS, EnergyMeter
from qops_batsim.engine.engine_options import (
    AVAILABLE,
    UNAVAILABLE,
    EngineOptions,
    ExternalEvent,
    outages_of,
)
from qops_batsim.engine.execution import (
    KILLED_COMPUTATION_RETURN_CODE,
    STOPPED_DELAY_RETURN_CODE,
    Execution,
    Replay,
    Step,
    Traces,
    directory_of,
    execution_of,
    plain_delay,
)
from qops_batsim.engine.fluid import Computation, FluidModel, HostResource
from qops_batsim.engine.host_states import (
    HostOccupation,
    PowerProfile,
    SwitchableHosts,
    limited_hosts,
    machine_in_use,
)
from qops_batsim.engine.kept_profiles import KeptProfiles
from qops_batsim.engine.records import JobRecord
from qops_batsim.engine.resources import PlatformResources
from qops_batsim.engine.shared_hosts import AmountsInUse
from qops_batsim.engine.waits import Wait, WorldWaits
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    RUNNING,
    SUBMITTED,
    Job,
)
from qops_batsim.platform.platform_model import Platform
from qops_batsim.protocol.events import Event, JobCompleted, JobKilled, JobSubmitted, RequestedCall
from qops_batsim.workload.workload_model import JobColumns, Workload

MANY_HOSTS = 1_000
"""On more hosts than that, those of jobs that have ended are kept as texts."""


class World:
    """Hosts, jobs, waits, and the events not yet reported to the scheduler.

    ``now`` is the current date (seconds); only :meth:`tell` adds to the ``outbox``, the events for
    the next message, and to their dates ``told_at``; at the last one ``ended_before`` jobs were
    ``ended``. ``registering`` tells whether the module may still register jobs. ``outages`` are the
    times in which hosts are away, ``happened`` the events that made it so, with the dates at which
    the server heard of them. ``records`` are what is known of jobs since their submission, by full
    identifier, ``workloads`` what is submitted, ``columns`` the jobs of these, ``static_ids`` their
    identifiers by workload and ``kept_profiles`` what tells which profiles are kept, where these
    were needed. ``shared`` is what hosts have where jobs share them by amounts, and ``amounts``
    what running jobs have of that, if somebody decides on them. Where the loop itself keeps the
    hosts of jobs and tells of their ends, ``loop_ends`` are the executions that have ended since it
    asked last.
    """

    def __init__(self, platform: Platform, options: EngineOptions) -> None:
        self.shared = machine_in_use(platform, options.hosts)
        if self.shared is not None:
            options = msgspec.structs.replace(options, compute_sharing=True)
        self.options = options
        self.hosts = limited_hosts(platform, options.hosts)
        self.now = 0.0
        self.waits = self._new_waits()

        self.outbox: list[Event] = []
        self.told_at: list[float] = []
        self.ended_before = 0

        self.records: dict[str, JobRecord] = {}
        self.ended: list[JobRecord] = []
        self.computing_changes: list[tuple[float, int, int]] = []
        self.switching_changes: list[list[int]] = []

        self._storage_hosts = platform.storage_hosts
        self.energy: EnergyMeter | None = None
        self.occupation = self._occupation()
        self.amounts: AmountsInUse | None = None
        if self.shared is not None and options.scheduled:
            self.amounts = AmountsInUse(self.shared)

        self.profiles: dict[str, dict[str, dict[str, Any]]] = {}
        self.workloads: dict[str, Workload] = {}
        self.columns: dict[str, JobColumns] = {}
        self.static_ids: dict[str, set[str]] | None = None
        self.registering = options.dynamic_jobs
        self.kept_profiles: KeptProfiles | None = None
        self.stopped = False
        self.loop_ends: list[JobRecord] | None = None

        self.outages = outages_of(options.external_events or (), len(self.hosts))
        self.happened: list[ExternalEvent] = []

        self.machine = PlatformResources(platform, self.hosts)
        self._fluid = FluidModel()
        self.computing: dict[Computation, JobRecord] = {}
        self._ends: dict[Computation, Wait] = {}
        self._reloaded: dict[HostResource, None] = {}
        self._executions: dict[tuple[str, str, int], Execution] = {}

    def _new_waits(self) -> WorldWaits:
        return WorldWaits()

    def _occupation(self) -> HostOccupation:
        """Make the record of which hosts are used, and the energy meter if energy is on."""
        sharing = self.options.compute_sharing
        count = len(self.hosts)
        if not self.options.energy:
            return HostOccupation(count, sharing=sharing)
        metered = (*self.hosts, *self._storage_hosts)
        profiles = [PowerProfile.of(host) for host in metered]
        occupation = SwitchableHosts(metered, profiles, count, sharing=sharing)
        self.energy = EnergyMeter(metered, occupation)
        return occupation

    def tell(self, event: Event) -> None:
        """Add an event to the next message to the scheduler."""
        self.outbox.append(event)
        self.told_at.append(self.now)

    def empty_outbox(self) -> tuple[list[Event], list[float]]:
        """Return the events to report to the scheduler and their dates (s), and remove them."""
        told = self.outbox, self.told_at
        self.outbox = []
        self.told_at = []
        if len(self.hosts) > MANY_HOSTS:
            for record in self.ended[self.ended_before :]:
                record.hosts = WrittenHosts(record.hosts)
        self.ended_before = len(self.ended)
        return told

    def call_at(self, date: float, call_id: str = "") -> None:
        """Call the scheduler at a date later than now (seconds)."""
        self.waits.at(date, self.tell, RequestedCall(call_id))

    def call_each(self, period: float, count: int | None, call_id: str) -> None:
        """Call the scheduler each period (seconds), a number of times or until stopped."""
        raise self.error("periodic calls need a platform with a master")

    def stop_calls(self, call_id: str) -> None:
        """Stop the periodic calls of a name, if any."""

    def completed(self, record: JobRecord) -> None:
        """Add a job to the ended jobs, and report its end to the scheduler."""
        self.ended.append(record)
        self.tell(JobCompleted(record.job.id, record.state, record.return_code, record.hosts))

    def end_is_untold(self, record: JobRecord) -> bool:
        """Return whether a job has ended and the scheduler has not been told yet. O(unreported
        events).
        """
        return any(
            isinstance(event, JobCompleted) and event.job_id == record.job.id
            for event in self.outbox
        )

    def report_end(self, record: JobRecord) -> None:
        """Report that a job has ended by itself."""
        self.account_for(record)
        self.completed(record)

    def report_kills(self, victims: list[JobRecord], progress: dict[str, dict[str, Any]]) -> None:
        """Report that a kill was carried out, and the progress of the killed jobs."""
        for record in victims:
            if record.job.id in progress:
                self.completed(record)
        self.tell(JobKilled([record.job.id for record in victims], progress))

    def error(self, what: str) -> SimulationError:
        """Return a SimulationError whose text begins with the current date."""
        return SimulationError(f"at {self.now:.6f} s: {what}")

    def execution(
        self, workload_name: str, profile: str, processors: int, *, where: str
    ) -> Execution:
        """Return a job's execution; InputError if its profile cannot be run."""
        # Only a parallel profile depends on the job's size, and only to check its arrays.
        key = (workload_name, profile, processors)
        known = self._executions.get(key)

        if known is None:
            profiles = self.profiles[workload_name]
            delay = plain_delay(profiles.get(profile))
            if delay is not None:
                known = Execution((Step(profile, delay, None, 0),))
            else:
                known = execution_of(
                    profile,
                    profiles,
                    processors=processors,
                    where=where,
                    directory=directory_of(self.workloads.get(workload_name)),
                    over_pairs=self.options.rules.spread_over_pairs,
                )
            self._executions[key] = known
        return known

    def happen(self, event: ExternalEvent) -> None:
        """Execute an external event now, and report it."""
        if event.type in (UNAVAILABLE, AVAILABLE):
            if not event.hosts:
                return
            self.happened.append(msgspec.structs.replace(event, timestamp=self.now))
            leaves = event.type == UNAVAILABLE
            change = self.occupation.leave if leaves else self.occupation.come_back
            change(event.hosts, self.now)
        self.tell(event.notice())

    def submit(self, job: Job) -> None:
        """Submit a job of a workload under its full identifier."""
        record = self.records.get(job.id) or self.new_record(job.id.partition("!")[0], job)
        record.state = SUBMITTED
        self.announce(record.job)

    def new_record(self, workload_name: str, job: Job) -> JobRecord:
        """Create a job's record under its full identifier."""
        where = self.workloads[workload_name].source
        execution = self.execution(workload_name, job.profile, job.processors, where=where)
        record = JobRecord(job, execution)
        self.records[job.id] = record
        return record

    def known_record(self, job_id: str) -> JobRecord | None:
        """Return the record of a job, even one not yet submitted; None if unknown.

        O(1) if it was submitted or there is no such job, else O(jobs).
        """
        record = self.records.get(job_id)
        if record is not None:
            return record
        if self.static_ids is None:
            self.static_ids = {name: set(columns.ids) for name, columns in self.columns.items()}
        name, _, local_id = job_id.partition("!")
        if local_id not in self.static_ids.get(name, ()):
            return None
        job = next(job for job in self.workloads[name].jobs if job.id == local_id)
        return self.new_record(name, job.renamed(job_id))

    def announce(self, job: Job) -> None:
        """Report a job's submission to the scheduler."""
        if not self.options.forward_profiles:
            self.tell(JobSubmitted(job.id, job))
            return
        profiles = self.profiles[job.id.partition("!")[0]]
        self.tell(JobSubmitted(job.id, job, profiles[job.profile]))

    def start(
        self, record: JobRecord, hosts: HostSet, placement: tuple[int, ...] | None = None
    ) -> None:
        """Start a job on hosts that can take it, with its executors on them."""
        self.occupation.take(hosts, self.now)
        if self.amounts is not None:
            self.amounts.take(record.job, hosts, placement)
        self.note_host_states()
        self.begin(record, hosts, placement)

    def begin(
        self, record: JobRecord, hosts: HostSet, placement: tuple[int, ...] | None = None
    ) -> None:
        """Begin to execute a job on hosts that it has."""
        record.state = RUNNING
        record.start = self.now
        walltime = record.job.walltime
        if walltime is not None:
            record.walltime_left = walltime
        record.hosts = hosts
        if placement is not None:
            record.placement = placement
        if self.energy is not None:
            record.energy = self.energy.read(hosts, self.now)
            self.energy.note(JOB_STARTS, self.now)
        self._begin_step(record)

    def end(self, record: JobRecord, state: str, return_code: int) -> None:
        """End a running job now; report its end, unless a kill does."""
        self._leave_step(record)
        record.state = state
        record.return_code = return_code
        record.finish = self.now
        if self.loop_ends is not None:
            self.loop_ends.append(record)
            return
        self.occupation.release(record.hosts, self.now)
        if self.amounts is not None:
            self.amounts.release(record.job)
        self.note_host_states()
        if state == COMPLETED_KILLED:
            self.account_for(record)
        else:
            self.report_end(record)

    def kill(self, record: JobRecord) -> dict[str, Any]:
        """Break off a running job now; return its progress in the form of JOB_KILLED."""
        progress = record.progress(self.now, self.options.rules.decimals)
        sleeps = record.computation is None
        code = STOPPED_DELAY_RETURN_CODE if sleeps else KILLED_COMPUTATION_RETURN_CODE
        self.end(record, COMPLETED_KILLED, code)
        return progress

    def account_for(self, record: JobRecord) -> None:
        """Read the energy that a job's hosts consumed while it ran."""
        if self.energy is not None and record.energy is not None:
            record.energy = float(self.energy.read(record.hosts, self.now) - record.energy)
            self.energy.note(JOB_ENDS, self.now)

    def settle(self) -> None:
        """Update the dates at which computations end, after their rates may have changed."""
        if not self._fluid.changed and not self._reloaded:
            return
        for computation, left in self._fluid.settle(self.now):
            self.waits.reschedule(self._ends[computation], self.now, left, computation.rate)
            self._note_load(computation)
        if self.energy is not None:
            for host, flow in self._fluid.flows(self._reloaded).items():
                self.energy.set_flow(host.host, flow)
            self._reloaded.clear()

    def note_host_states(self) -> None:
        """Record how many hosts compute, idle, sleep or switch from the current date on."""
        occupation = self.occupation
        self.computing_changes.append((self.now, *occupation.counts))
        if isinstance(occupation, SwitchableHosts):
            self.switching_changes.append(occupation.all_counts[:3])

    def enter_power_state(self, host: int, state: int) -> None:
        """Put a host into another power state."""
        assert self.energy is not None
        self.energy.enter(host, state, self.now)
        resource = self.machine.host_resource(host)
        self._fluid.change_speed(resource, self.machine.host(host).speeds[state])

    def begin_switch(self) -> None:
        """Record that a host begins to sleep or to wake up."""

    def report_switch(self, host: int, report: Callable[[], None]) -> None:
        """Report that a host has finished switching."""
        report()

    def _note_load(self, computation: Computation) -> None:
        """Mark a computation's hosts for the energy meters: their load may have changed."""
        if self.energy is not None:
            self._reloaded.update(dict.fromkeys(computation.hosts))

    def _begin_step(self, record: JobRecord) -> None:
        step = record.execution.steps[record.step]
        now = self.now
        record.step_began = now
        left = record.walltime_left
        if step.replay is not None:
            self._replay(record, step.replay)
        elif step.delay is None:
            self._compute(record)
        elif step.delay < left:
            record.waits = (self.waits.after(now, step.delay, self._end_step, record),)
        else:
            record.waits = (self.waits.after(now, left, self._reach_walltime, record),)

    def _compute(self, record: JobRecord) -> None:
        amounts = record.execution.steps[record.step].amounts
        assert amounts is not None
        try:
            computation = self.machine.computation(amounts, record.executors, record.storages)
        except InputError as error:
            raise self.error(f"job {record.job.id!r}: {error}") from None
        waits = self.progress(computation, self._end_step, record)
        record.waits = (*waits, *self._walltime(record))
        record.computation = computation
        self.computing[computation] = record

    def _walltime(self, record: JobRecord) -> tuple[Wait, ...]:
        left = record.walltime_left
        if left == math.inf:
            return ()
        return (self.waits.after(self.now, left, self._reach_walltime, record),)

    def _replay(self, record: JobRecord, traces: Traces) -> None:
        def run(computation: Computation, then: Callable[[], None]) -> None:
            self.computing[computation] = record
            self.progress(computation, _call, then)

        try:
            hosts = record.ranks(len(traces))
        except InputError as error:
            raise self.error(f"job {record.job.id!r}: {error}") from None
        record.waits = self._walltime(record)
        letter = partial(self.letter, destination=next(iter(record.hosts)))
        done = partial(self._end_step, record)
        share = self.machine.share
        stop = self._stop_part
        record.replay = Replay(traces, hosts, share, letter, run, stop, done)
        record.replay.begin()

    def letter(self, source: int, destination: int) -> Computation | None:
        """Return the transfer by which a rank reports its end to its job, if it takes time."""
        return None

    def _stop_part(self, computation: Computation) -> None:
        del self.computing[computation]
        self.stop(computation)

    def progress(
        self, computation: Computation, action: Callable[[Any], None], argument: Any
    ) -> list[Wait]:
        """Start a computation, with ``action(argument)`` at its end."""
        waits = [self.waits.some_time(action, argument)]
        if computation.latency:
            latency = computation.latency
            waits.append(self.waits.after(self.now, latency, self._fluid.wake, computation))
        self._ends[computation] = waits[0]
        if self.energy is not None and len(computation.parties) == 1:
            self.energy.start_single(computation.parties[0], self.now)
        self._fluid.start(computation, self.now)
        return waits

    def stop(self, computation: Computation) -> None:
        self._ends.pop(computation).cancel()
        if self.energy is not None:
            self.energy.read(computation.parties, self.now)
        self._note_load(computation)
        self._fluid.stop(computation)

    def _end_step(self, record: JobRecord) -> None:
        steps = record.execution.steps
        step = steps[record.step]
        if step.return_code:
            self.end(record, COMPLETED_FAILED, step.return_code)
        elif record.step + 1 == len(steps):
            self.end(record, COMPLETED_SUCCESSFULLY, 0)
        else:
            self._leave_step(record)
            record.walltime_left -= (
                step.delay if step.delay is not None else self.now - record.step_began
            )
            record.step += 1
            self._begin_step(record)

    def _reach_walltime(self, record: JobRecord) -> None:
        computation = record.computation
        # A computation that needs exactly its walltime succeeds; a delay does not.
        if computation is not None and computation.is_done(self.now):
            self._end_step(record)
        else:
            self.end(record, COMPLETED_WALLTIME_REACHED, STOPPED_DELAY_RETURN_CODE)

    def _leave_step(self, record: JobRecord) -> None:
        for wait in record.waits:
            wait.cancel()
        record.waits = ()
        if record.replay is not None:
            record.replay.stop()
            record.replay = None
        if record.computation is not None:
            self._stop_part(record.computation)
            record.computation = None
        elif self.energy is not None:
            # SimGrid reads the meter where the job's actor slept.
            self.energy.read((next(iter(record.hosts)),), self.now)


def _call(then: Callable[[], None]) -> None:
    then()
