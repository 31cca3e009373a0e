"""The embedded engine: Batsim's event loop without SimGrid.

The total order of events
-------------------------
Everything that happens at a later date is a *wait*: a submitter that sleeps
until its next job, a running job, a requested call, a decision dated in the
future. Waits end in the order of their dates and, at one date, in the order in
which they began. All events of one date reach the decision module in one
message; its decisions may yield a further message at the same date. This is
the order of the real Batsim on a platform without network latencies, and it
makes runs bit-identical. A computation whose rate changes keeps its place; a
composed job counts from the start of its last step.

Two details follow Batsim as well: every workload has its own submitter, which
submits all jobs of one date together, ordered by the text of their
identifiers; and the notification that no static job is left comes with the
last submissions if another event of that date follows them, else in a message
of its own at the same date.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from qops_batsim.engine.apply import apply_decision
from qops_batsim.engine.energy import EnergyMeter
from qops_batsim.engine.execution import WALLTIME_RETURN_CODE, Execution, execution_of
from qops_batsim.engine.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from qops_batsim.engine.fluid import Computation, FluidModel
from qops_batsim.engine.hosts import HostOccupation
from qops_batsim.engine.machine import Machine
from qops_batsim.engine.options import EngineOptions
from qops_batsim.engine.records import JobRecord
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
    RUNNING,
    SUBMITTED,
    Job,
)
from qops_batsim.platform.hostset import HostSet
from qops_batsim.platform.model import Host, Platform
from qops_batsim.protocol.decisions import Decision
from qops_batsim.protocol.events import (
    NO_MORE_EXTERNAL_EVENTS,
    NO_MORE_STATIC_JOBS,
    EngineConfig,
    Event,
    HostDescription,
    JobCompleted,
    JobSubmitted,
    Notify,
    RequestedCall,
    SimulationBegins,
    SimulationEnds,
)
from qops_batsim.protocol.messages import Message, Stamped
from qops_batsim.timing import SAME_DATE
from qops_batsim.workload.model import Workload

__all__ = ["EngineOptions", "Peer", "Simulation"]

ENDED_PER_PROGRESS_REPORT = 256


class Peer(Protocol):
    """The decision side: anything that answers a message with a message."""

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        """Return the decisions that answer these events."""


class _Submitter:
    """The jobs of one workload in the order of submission."""

    __slots__ = ("next", "records")

    def __init__(self, records: list[JobRecord]) -> None:
        self.records = records
        self.next = 0


# What a wait is for: the third item of a wait, after its date and its number. The fourth says
# whom it concerns; the fifth is compared with the job's counts, to know outdated waits.
_SUBMISSION, _STEP_END, _WALLTIME, _LATENCY, _CALL, _DECISION, _EXTERNAL = range(7)


class Simulation:
    """One simulation, from SIMULATION_BEGINS to SIMULATION_ENDS.

    Parameters
    ----------
    platform
        Where jobs run.
    workloads
        What is submitted; the first is called ``w0``, the next ``w1``, and so on.
    peer
        The decision side.
    options
        What the simulation allows.
    on_progress
        Called now and then with the number of jobs ended so far.

    Attributes
    ----------
    now
        Current date (seconds).
    hosts
        The compute hosts in use, by host id.
    records
        What is known of each job, by full identifier.
    ended
        Jobs that have ended or were rejected, in the order in which that was noted.
    computing_changes
        Date and number of computing hosts after each start and end.
    energy
        The energy meter, or None.

    Raises
    ------
    InputError
        A profile cannot be run, or ``options.hosts`` does not fit the platform.
    """

    def __init__(
        self,
        platform: Platform,
        workloads: Sequence[Workload],
        peer: Peer,
        options: EngineOptions | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self.options = options = options or EngineOptions()
        self.hosts = _limited_hosts(platform, options.hosts)
        self.now = 0.0
        self.records: dict[str, JobRecord] = {}
        self.ended: list[JobRecord] = []
        self.computing_changes: list[tuple[float, int]] = []
        self.occupation = HostOccupation(len(self.hosts), sharing=options.compute_sharing)
        self.energy = EnergyMeter(self.hosts) if options.energy else None
        self.profiles: dict[str, dict[str, dict[str, Any]]] = {}
        self.outbox: list[Stamped[Event]] = []
        self.registering = options.dynamic_jobs
        self.outages: dict[int, list[tuple[float, float]]] = {}
        self._platform = platform
        self._machine = Machine(platform, self.hosts)
        self._fluid = FluidModel()
        self._computing: dict[Computation, JobRecord] = {}
        self._loads_changed = False
        self._peer = peer
        self._on_progress = on_progress
        self._next_report = ENDED_PER_PROGRESS_REPORT
        self._sources: dict[str, str] = {}
        self._executions: dict[tuple[str, str, int], Execution] = {}
        self._submitters: list[_Submitter] = []
        self._waits: list[tuple[float, int, int, Any, int]] = []
        self._began = 0
        self._peer_ready = 0.0
        self._farewells: list[Notify] = []
        self._unsubmitted = 0
        self._next_external = 0
        for index, workload in enumerate(workloads):
            self._load(f"w{index}", workload)

    def run(self) -> None:
        """Run the simulation to its end.

        Raises
        ------
        SimulationError
            A decision breaks the protocol, or jobs are left that nothing will
            ever start.
        """
        for submitter in self._submitters:
            self._wait(max(0.0, submitter.records[0].submission_time), _SUBMISSION, submitter)
        external = self.options.external_events
        if external:
            self._wait(max(0.0, external[0].timestamp), _EXTERNAL, None)
        self.tell(self._begins())
        self._deliver()
        if not self._submitters:
            self.tell(Notify.of(NO_MORE_STATIC_JOBS))
        if external is not None and not external:
            self.tell(Notify.of(NO_MORE_EXTERNAL_EVENTS))
        self._deliver()
        waits = self._waits
        while True:
            self._settle()
            if waits:
                date = waits[0][0]
                if self.outbox and self._peer_ready < date:
                    # Events have piled up while the module was "thinking" until then.
                    self.now = max(self.now, self._peer_ready)
                    self._deliver()
                    continue
                if date > self.now:
                    self.now = date
                self._end_waits()
                if self._peer_ready <= self.now + SAME_DATE:
                    self._deliver()
                self._report_progress()
            elif self.outbox:
                self.now = max(self.now, self._peer_ready)
                self._deliver()
            else:
                break
        self._check_nothing_left()
        self.now = max(self.now, self._peer_ready)
        self._peer.exchange(Message(self.now, [Stamped(self.now, SimulationEnds())]))
        if self._on_progress is not None:
            self._on_progress(len(self.ended))

    # Loading

    def _load(self, name: str, workload: Workload) -> None:
        self._sources[name] = workload.source
        # A copy: registered profiles must not appear in the caller's workload.
        self.profiles[name] = dict(workload.profiles)
        records = []
        for job in workload.jobs:
            execution = self.execution(name, job, where=workload.source)
            records.append(JobRecord(job.renamed(f"{name}!{job.id}"), execution))
        for record in records:
            self.records[record.job.id] = record
        if records:
            records.sort(key=lambda record: (record.job.submission_time, record.job.id))
            self._submitters.append(_Submitter(records))
            self._unsubmitted += len(records)

    def execution(self, workload_name: str, job: Job, *, where: str) -> Execution:
        """Return how a job executes.

        Raises
        ------
        InputError
            Its profile cannot be run.
        """
        profiles = self.profiles[workload_name]
        # Only a parallel profile depends on the job's size, and only to check its arrays.
        key = (workload_name, job.profile, job.processors)
        known = self._executions.get(key)
        if known is None:
            known = execution_of(job.profile, profiles, processors=job.processors, where=where)
            self._executions[key] = known
        return known

    def _begins(self) -> SimulationBegins:
        options = self.options
        storage = self._platform.storage_hosts
        return SimulationBegins(
            nb_resources=len(self.hosts) + len(storage),
            nb_compute_resources=len(self.hosts),
            nb_storage_resources=len(storage),
            allow_compute_sharing=options.compute_sharing,
            allow_storage_sharing=options.storage_sharing,
            config=EngineConfig(
                profiles_forwarded_on_submission=options.forward_profiles,
                dynamic_jobs_enabled=options.dynamic_jobs,
                dynamic_jobs_acknowledged=options.dynamic_jobs and options.acknowledge_dynamic_jobs,
                profile_reuse_enabled=options.profile_reuse,
                sched_config=options.sched_config,
                forward_unknown_events=options.forward_unknown_events,
            ),
            compute_resources=_described(self.hosts, 0),
            storage_resources=_described(storage, len(self.hosts)),
            workloads=self._sources,
            profiles=self.profiles,
        )

    # Waits and messages

    def _wait(self, date: float, purpose: int, what: Any, count: int = 0) -> None:
        heapq.heappush(self._waits, (date, self._began, purpose, what, count))
        self._began += 1

    def call_at(self, date: float) -> None:
        """Call the module at a date later than now (seconds)."""
        self._wait(date, _CALL, None)

    def error(self, what: str) -> SimulationError:
        """Return an error that gives the current date."""
        return SimulationError(f"at {self.now:.6f} s: {what}")

    def tell(self, event: Event) -> None:
        """Add an event to the next message."""
        self.outbox.append(Stamped(self.now, event))

    def _end_waits(self) -> None:
        """End every wait of the current date, in order; their events go to the outbox."""
        waits = self._waits
        limit = self.now + SAME_DATE
        farewells: list[Notify] = []
        events_before = 0
        while waits and waits[0][0] <= limit:
            wait = heapq.heappop(waits)
            _, _, purpose, what, _ = wait
            if purpose in (_STEP_END, _WALLTIME):
                if not _is_outdated(wait):
                    self._end_step(what, at_walltime=purpose == _WALLTIME)
            elif purpose == _LATENCY:
                if not _is_outdated(wait):
                    self._fluid.wake(what.computation)
            elif purpose == _CALL:
                self.tell(RequestedCall())
            elif purpose == _DECISION:
                apply_decision(self, what)
            else:
                farewell = (
                    self._submit(what) if purpose == _SUBMISSION else self._happen_externally()
                )
                if farewell is not None:
                    events_before = events_before or len(self.outbox)
                    farewells.append(farewell)
        self._drop_outdated_waits()
        if farewells:
            if len(self.outbox) == events_before and self._peer_ready <= limit:
                self._farewells = farewells
            else:
                for farewell in farewells:
                    self.tell(farewell)

    def _drop_outdated_waits(self) -> None:
        """Forget waits that no longer concern anybody, so that they do not move the clock."""
        waits = self._waits
        while waits and _is_outdated(waits[0]):
            heapq.heappop(waits)

    def _deliver(self) -> None:
        """Send the outbox and apply the answer, as long as that yields new events."""
        while self.outbox:
            message = Message(self.now, self.outbox)
            self.outbox = []
            reply = self._peer.exchange(message)
            self._peer_ready = max(self.now, reply.now)
            for farewell in self._farewells:
                self.tell(farewell)
            self._farewells = []
            for item in reply.events:
                if item.timestamp > reply.now:
                    raise self.error(
                        f"{item.body.TYPE} is dated {item.timestamp:.6f} s, "
                        f"later than its message ({reply.now:.6f} s)"
                    )
                if item.timestamp > self.now + SAME_DATE:
                    self._wait(item.timestamp, _DECISION, item.body)
                else:
                    apply_decision(self, item.body)
            self._drop_outdated_waits()
            if self._peer_ready > self.now:
                return

    def _report_progress(self) -> None:
        if self._on_progress is not None and len(self.ended) >= self._next_report:
            self._next_report = len(self.ended) + ENDED_PER_PROGRESS_REPORT
            self._on_progress(len(self.ended))

    # What happens by itself

    def _submit(self, submitter: _Submitter) -> Notify | None:
        """Submit the jobs of this date; return what to notify after the last ones of all."""
        records = submitter.records
        index = submitter.next
        date = records[index].submission_time
        count = len(records)
        while index < count and (
            records[index].submission_time == date or records[index].submission_time <= self.now
        ):
            record = records[index]
            record.state = SUBMITTED
            self.tell(self.submitted(record.job))
            index += 1
        self._unsubmitted -= index - submitter.next
        submitter.next = index
        if index < count:
            self._wait(records[index].submission_time, _SUBMISSION, submitter)
        return None if self._unsubmitted else Notify.of(NO_MORE_STATIC_JOBS)

    def submitted(self, job: Job) -> JobSubmitted:
        """Return the event that announces a job."""
        if not self.options.forward_profiles:
            return JobSubmitted(job.id, job)
        return JobSubmitted(job.id, job, self.profiles[job.id.partition("!")[0]][job.profile])

    def _happen_externally(self) -> Notify | None:
        """Let the external events of this date happen; return what to notify after the last."""
        events = self.options.external_events or ()
        while self._next_external < len(events):
            event = events[self._next_external]
            if event.timestamp > self.now:
                self._wait(event.timestamp, _EXTERNAL, None)
                return None
            self._next_external += 1
            self._happen(event)
        return Notify.of(NO_MORE_EXTERNAL_EVENTS)

    def _happen(self, event: ExternalEvent) -> None:
        if event.type not in (UNAVAILABLE, AVAILABLE):
            self.tell(Notify(event.fields))
            return
        if not event.hosts:
            return
        unknown = self.occupation.unknown(event.hosts)
        if unknown:
            raise self.error(
                f"external event {event.type} names hosts {unknown}, which do not exist"
            )
        gone = self.occupation.unavailable
        wrong = gone & event.hosts if event.type == UNAVAILABLE else event.hosts - gone
        if wrong:
            state = "already" if event.type == UNAVAILABLE else "not"
            raise self.error(f"external event {event.type}: hosts {wrong} are {state} unavailable")
        for host in event.hosts:
            if event.type == UNAVAILABLE:
                self.outages.setdefault(host, []).append((self.now, math.inf))
            else:
                since, _ = self.outages[host].pop()
                self.outages[host].append((since, self.now))
        if event.type == UNAVAILABLE:
            self.occupation.unavailable = gone | event.hosts
        else:
            self.occupation.unavailable = gone - event.hosts
        self.tell(Notify.of(f"event_{event.type}", resources=str(event.hosts)))

    # What happens to running jobs

    def start(
        self, record: JobRecord, hosts: HostSet, placement: tuple[int, ...] | None = None
    ) -> None:
        """Start a job on hosts that can take it, its executors placed on them."""
        self.occupation.take(hosts)
        self.computing_changes.append((self.now, self.occupation.computing))
        record.state = RUNNING
        record.start = self.now
        record.hosts = hosts
        record.placement = placement
        if self.energy is not None:
            record.energy = self.energy.consumed(hosts, self.now)
        self._begin_step(record)

    def _begin_step(self, record: JobRecord) -> None:
        step = record.execution.steps[record.step]
        record.step_began = self.now
        record.step_number += 1
        record.prediction += 1
        left = record.walltime_left
        if step.delay is not None:
            if step.delay < left:
                self._wait(self.now + step.delay, _STEP_END, record, record.prediction)
            else:
                self._wait(self.now + left, _WALLTIME, record, record.step_number)
            return
        assert step.amounts is not None
        try:
            computation = self._machine.computation(step.amounts, record.executors, self.now)
        except InputError as error:
            raise self.error(f"job {record.job.id!r}: {error}") from None
        record.computation = computation
        record.wait_number = self._began
        self._began += 1
        self._computing[computation] = record
        self._fluid.start(computation, self.now)
        if computation.latency_until > self.now:
            self._wait(computation.latency_until, _LATENCY, record, record.step_number)
        if left < math.inf:
            self._wait(self.now + left, _WALLTIME, record, record.step_number)

    def _settle(self) -> None:
        """Predict the ends of computations anew after something has changed."""
        if not self._fluid.changed and not self._loads_changed:
            return
        for computation, end in self._fluid.settle(self.now):
            record = self._computing[computation]
            record.prediction += 1
            if end < math.inf:
                heapq.heappush(
                    self._waits, (end, record.wait_number, _STEP_END, record, record.prediction)
                )
        self._drop_outdated_waits()
        self._loads_changed = False
        if self.energy is not None:
            self.energy.set_loads(self._loads(), self.now)

    def _loads(self) -> dict[int, float]:
        """Return the load (0 to 1) of each host that computes."""
        used: dict[int, float] = {}
        for computation, record in self._computing.items():
            amounts = dict(computation.uses)
            for host in set(record.executors):
                resource = self._machine.host_resource(host)
                flops = amounts.get(resource, 0.0)
                used[host] = used.get(host, 0.0) + flops * computation.rate / resource.capacity
        return used

    def _end_step(self, record: JobRecord, *, at_walltime: bool) -> None:
        computation = record.computation
        if at_walltime and not (computation is not None and computation.is_done(self.now)):
            # A computation that needs exactly its walltime succeeds; a delay does not.
            self.end(record, COMPLETED_WALLTIME_REACHED, WALLTIME_RETURN_CODE)
            return
        self._leave_step(record)
        step = record.execution.steps[record.step]
        if step.return_code:
            self.end(record, COMPLETED_FAILED, step.return_code)
        elif record.step + 1 == len(record.execution.steps):
            self.end(record, COMPLETED_SUCCESSFULLY, 0)
        else:
            record.walltime_left -= (
                step.delay if step.delay is not None else self.now - record.step_began
            )
            record.step += 1
            self._begin_step(record)

    def _leave_step(self, record: JobRecord) -> None:
        if record.computation is not None:
            del self._computing[record.computation]
            self._fluid.stop(record.computation)
            self._loads_changed = True
            record.computation = None

    def end(self, record: JobRecord, state: str, return_code: int) -> None:
        """End a running job now."""
        self._leave_step(record)
        record.state = state
        record.finish = self.now
        record.prediction += 1
        record.step_number += 1
        if self.energy is not None and record.energy is not None:
            record.energy = self.energy.consumed(record.hosts, self.now) - record.energy
        self.occupation.release(record.hosts)
        self.computing_changes.append((self.now, self.occupation.computing))
        self.ended.append(record)
        self.tell(JobCompleted(record.job.id, state, return_code, record.hosts))

    # The end

    def _check_nothing_left(self) -> None:
        waiting = [record.job.id for record in self.records.values() if record.state == SUBMITTED]
        if waiting:
            raise self.error(
                f"deadlock: {len(waiting)} jobs were submitted and neither started nor rejected, "
                f"and nothing else will happen: {_some(waiting)}"
            )
        running = [record.job.id for record in self.records.values() if record.state == RUNNING]
        if running:
            raise self.error(f"deadlock: jobs run that will never end: {_some(running)}")
        if self.registering:
            raise self.error(
                "deadlock: dynamic jobs are enabled and the module never sent "
                "NOTIFY registration_finished"
            )


def _is_outdated(wait: tuple[float, int, int, Any, int]) -> bool:
    """Whether a wait is for a step or an end that will not come any more."""
    _, _, purpose, what, count = wait
    if purpose == _STEP_END:
        return bool(count != what.prediction)
    return purpose in (_WALLTIME, _LATENCY) and count != what.step_number


def _described(hosts: Sequence[Host], first: int) -> list[HostDescription]:
    return [
        HostDescription(
            first + index, host.name, "idle", {"role": "", **host.properties}, host.zone_properties
        )
        for index, host in enumerate(hosts)
    ]


def _limited_hosts(platform: Platform, limit: int | None) -> tuple[Host, ...]:
    hosts = platform.compute_hosts
    if limit is None:
        return hosts
    if not 1 <= limit <= len(hosts):
        raise InputError(
            f"{platform.source}: {limit} hosts were asked for; from 1 to {len(hosts)} are accepted"
        )
    return hosts[:limit]


def _some(names: Iterable[str], shown: int = 5) -> str:
    listed = list(names)
    more = f" and {len(listed) - shown} more" if len(listed) > shown else ""
    return ", ".join(listed[:shown]) + more
