"""The embedded engine: one simulation, without SimGrid.

The total order of events
-------------------------
Everything that happens at a later date is a *wait*: a submitter that sleeps
until its next job, a running job, a requested call, a decision dated in the
future. Waits end in the order of their dates and, at one date, in the order in
which they began. All events of one date reach the decision module in one
message; its decisions may yield a further message at the same date. This is
the order of the real Batsim on a platform without network latencies, and it
makes runs bit-identical. A computation whose rate changes keeps its place; a
composed job counts from the start of its last step. All of this is the work of
:class:`~qops_batsim.engine.loop.Loop`.

Two details follow Batsim as well: every workload has its own submitter, which
submits all jobs of one date together, ordered by the text of their
identifiers; and the notification that no static job is left comes with the
last submissions if another event of that date follows them, else in a message
of its own at the same date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np

from qops_batsim.core.hostset import HostSet
from qops_batsim.core.system import HostDescription
from qops_batsim.engine.engine_options import EngineOptions
from qops_batsim.engine.server import NetworkedWorld, Server
from qops_batsim.engine.shared_hosts import check_hosts_asked
from qops_batsim.engine.world import World
from qops_batsim.errors import SimulationError
from qops_batsim.garbage import without_garbage_collection
from qops_batsim.jobs import RUNNING, SUBMITTED, Job
from qops_batsim.platform.platform_model import Host, Platform
from qops_batsim.protocol.decisions import Decision, ExecuteJob
from qops_batsim.protocol.events import EngineConfig, Event, JobSubmitted, SimulationBegins
from qops_batsim.protocol.messages import Message, Stamped
from qops_batsim.workload.workload_model import Workload

if TYPE_CHECKING:
    import pandas as pd

    from qops_batsim.engine.ended_jobs import EndedJobs, HostChanges
    from qops_batsim.engine.records import JobRecord
    from qops_batsim.engine.sleeping_jobs import DelayJobs, Outcome


class DecisionSide(Protocol):
    """The decision side: answers a message of events with a message of decisions."""

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        """Return the decisions on these events."""


def simulation_begins(world: World, platform: Platform) -> SimulationBegins:
    """Return the SIMULATION_BEGINS event, with hosts, options and workloads."""
    options = world.options
    hosts = world.hosts
    storage = platform.storage_hosts

    return SimulationBegins(
        nb_resources=len(hosts) + len(storage),
        nb_compute_resources=len(hosts),
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
        compute_resources=_described(hosts, 0),
        storage_resources=_described(storage, len(hosts)),
        workloads={name: workload.source for name, workload in world.workloads.items()},
        # Copies: those that are registered later are not announced.
        profiles={name: dict(profiles) for name, profiles in world.profiles.items()},
    )


def _described(hosts: Sequence[Host], first: int) -> list[HostDescription]:
    return [
        HostDescription(
            first + index, host.name, "idle", {"role": "", **host.properties}, host.zone_properties
        )
        for index, host in enumerate(hosts)
    ]


_TROUBLE = {
    SUBMITTED: "{} jobs were submitted and neither started nor rejected, "
    "and nothing else will happen",
    RUNNING: "jobs run that will never end",
}


def deadlock_report(world: World) -> str:
    """Return why a simulation is deadlocked: jobs that can never go on; "" if none. O(jobs)."""
    for state, trouble in _TROUBLE.items():
        left = [record.job.id for record in world.records.values() if record.state == state]
        if left:
            more = f" and {len(left) - 5} more" if len(left) > 5 else ""
            return f"{trouble.format(len(left))}: {', '.join(left[:5])}{more}"
    if world.registering:
        return "dynamic jobs are enabled and the module never sent NOTIFY registration_finished"
    return ""


def ignore(ended: int) -> None:
    """Ignore the progress report of a simulation: the default listener."""


class Deadlock(SimulationError):
    """Jobs are left but no events; ``simulation`` has the jobs that ended before."""

    def __init__(self, message: str, simulation: Simulation) -> None:
        super().__init__(message)
        self.simulation = simulation


class Simulation:
    """One simulation, from SIMULATION_BEGINS to SIMULATION_ENDS.

    Parameters
    ----------
    platform
        Where jobs run.
    workloads
        What is submitted; the first is called ``w0``, the next ``w1``, and so on.
    decision_side
        Anything that answers messages with messages.
    options
        What the simulation allows.
    on_progress
        Called now and then with the number of jobs ended so far.

    Attributes
    ----------
    hosts, storage_hosts
        The compute hosts in use, by host id, and the storage hosts, whose ids follow.
    records
        What is known of each job submitted so far, by full identifier.
    ended
        Jobs that have ended or were rejected, in the order in which that was noted.
    computing_changes
        Date and numbers of computing and idle hosts after each start and end.
    outages, happened
        When hosts are away, by date; the events that made it so, with the dates of their news.
    energy
        The energy meter, or None.
    has_message_delays
        Whether Batsim's own messages take their time.

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> from qops_batsim.jobs import Job
    >>> from qops_batsim.platform.equal_hosts import make_cluster
    >>> from qops_batsim.workload.workload_model import Workload, delay_profile
    >>> name, profile = delay_profile(60)
    >>> jobs = [Job("1", 0.0, 2, name), Job("2", 5.0, 3, name)]
    >>> workload = Workload(jobs=jobs, profiles={name: profile}, processors=4)
    >>> done = simulate("fcfs", workload, make_cluster(4))
    >>> done
    Simulation(jobs ended: 2, jobs rejected: 0, hosts: 4, makespan: 120 s)
    >>> done.ended[1]
    JobRecord('w0!2', COMPLETED_SUCCESSFULLY, submitted=5, start=60, finish=120, hosts='0-2')
    >>> done.to_frame()[["job_id", "waiting_time", "allocated_resources"]]
      job_id  waiting_time allocated_resources
    0      1           0.0                 0-1
    1      2          55.0                 0-2
    """

    def __init__(
        self,
        platform: Platform,
        workloads: Sequence[Workload],
        decision_side: DecisionSide,
        options: EngineOptions | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        options = options or EngineOptions()
        sends = options.message_delays and platform.master is not None
        self.has_message_delays = sends and platform.delays_messages
        # With energy, actors also read meters, one a round: that decides who comes first.
        always = options.energy or not options.rules.begins_first
        has_actors = self.has_message_delays or (sends and always)
        world = (NetworkedWorld if has_actors else World)(platform, options)
        self._world = world
        self.options = world.options
        self.platform = platform
        self.hosts = world.hosts
        self.storage_hosts = platform.storage_hosts
        self.workloads = world.workloads
        self.energy = world.energy
        self.outages = world.outages
        self.happened = world.happened

        self._decision_side = decision_side
        self._on_progress = on_progress or ignore
        self._delays: dict[str, Any] = {}
        self._is_over = False
        self._ended_jobs: EndedJobs | None = None
        self._outcome: Callable[[], Outcome] | None = None
        self._is_remembered = False
        for index, workload in enumerate(workloads):
            self._load(f"w{index}", workload)

    @property
    def now(self) -> float:
        """Current date (seconds)."""
        return self._world.now

    @property
    def records(self) -> dict[str, JobRecord]:
        return self._complete_world().records

    @property
    def ended(self) -> list[JobRecord]:
        return self._complete_world().ended

    @property
    def computing_changes(self) -> list[tuple[float, int, int]]:
        return self._complete_world().computing_changes

    def _complete_world(self) -> World:
        """Return the simulation's world, with records of the jobs if the loop itself ran them."""
        if self._outcome is not None and not self._is_remembered:
            from qops_batsim.engine.sleeping_jobs import remember

            self._is_remembered = True
            remember(self._outcome(), self._world)
        return self._world

    @property
    def host_changes(self) -> HostChanges:
        """The :attr:`computing_changes` in columns."""
        from qops_batsim.engine.ended_jobs import HostChanges

        if self._outcome is not None:
            return self._outcome().host_changes(len(self.hosts))
        return HostChanges.of(self.computing_changes, self._world.switching_changes)

    def delay_jobs(self, *, registering: bool = False) -> DelayJobs | None:
        """Return the jobs in columns, if all only sleep on hosts of their own.

        ``registering`` says that such jobs may be registered.
        """
        from qops_batsim.engine.sleeping_jobs import delay_jobs_in

        if isinstance(self._world, NetworkedWorld) or len(self._delays) != 1:
            return None
        ((name, delays),) = self._delays.items()
        return delay_jobs_in(self._world, name, delays, registering=registering)

    def know_registered(self, workload: Workload) -> DelayJobs:
        """Add to the simulation the jobs that users registered in the loop, in that order."""
        from qops_batsim.engine.sleeping_jobs import delay_jobs_of

        world = self._world
        (name,) = self._delays
        columns = workload.columns
        world.registering = False
        world.workloads[name] = workload
        world.profiles[name] = workload.profiles
        world.columns[name] = columns

        delays = np.array([profile["delay"] for profile in workload.profiles.values()], np.float64)
        codes = np.zeros(len(delays), np.int64)
        return delay_jobs_of(name, columns, delays, codes, np.arange(len(columns.ids)))

    @property
    def world(self) -> World:
        """The profiles, and what the loop of events has not put into columns."""
        return self._world

    def finish(self, outcome: Callable[[], Outcome], now: float, *, is_complete: bool) -> None:
        """End the simulation at a date (seconds), with the loop's outcome of :attr:`delay_jobs`.

        The run ``is_complete`` if all jobs have ended or were rejected, and no more are awaited;
        the outcome is asked for when it is needed, and should be made once.
        """
        self._world.now = now
        self._outcome = outcome
        self._is_over = True
        if not is_complete:
            self._check_nothing_left()

    @property
    def ended_jobs(self) -> EndedJobs:
        """The ended jobs in columns, as of now."""
        if self._ended_jobs is not None:
            return self._ended_jobs
        from qops_batsim.engine.ended_jobs import ended_jobs_of
        from qops_batsim.engine.sleeping_jobs import ended_jobs_of_outcome

        if self._outcome is not None:
            ended = ended_jobs_of_outcome(self._outcome())
        else:
            ended = ended_jobs_of(self.ended)
        if self._is_over:
            self._ended_jobs = ended
        return ended

    def to_frame(self) -> pd.DataFrame:
        """Return the ended jobs with the columns of ``_jobs.csv``, not rounded.

        What a rejected job has not is NaN, or ``""`` for its hosts.
        """
        return self.ended_jobs.to_frame()

    def __repr__(self) -> str:
        said = (f"{name}: {value}" for name, value in self._summary().items())
        return f"Simulation({', '.join(said)})"

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{n}</th><td>{value}</td></tr>" for n, value in self._summary().items())
        return f"<table>{''.join(rows)}</table>"

    @without_garbage_collection()
    def run(self) -> None:
        """Run the simulation to its end.

        Raises
        ------
        SimulationError
            A decision breaks the protocol; :class:`Deadlock` if jobs are left that
            nothing will ever start.
        """
        world = self._world
        begins = simulation_begins(world, self.platform)
        if isinstance(world, NetworkedWorld):
            self._run_networked(world, begins)
        else:
            self._run_in_loop(world, begins)
        self._is_over = True
        self._on_progress(len(world.ended))

    def _run_in_loop(self, world: World, begins: SimulationBegins) -> None:
        from qops_batsim.engine.loop_columns import submissions_of
        from qops_batsim.engine.message_loop import MessageLoop
        from qops_batsim.engine.sleeping_jobs import in_order, submission_order

        submissions = [
            submissions_of(name, in_order(columns, submission_order(columns)), workload.jobs)
            for (name, workload), columns in zip(
                world.workloads.items(), world.columns.values(), strict=True
            )
        ]
        loop = MessageLoop(world, submissions, self._decision_side.exchange, begins)
        loop.run(self._on_progress)
        self._check_nothing_left()
        loop.finish()

    def _run_networked(self, world: NetworkedWorld, begins: SimulationBegins) -> None:
        """Run the simulation with the delays of Batsim's own messages."""
        server = Server(world, self._decision_side.exchange, self.options.external_events)
        server.run(begins, self._on_progress)
        if not server.over:
            self._check_nothing_left()
            raise world.error(
                "deadlock: the simulation is not over, and no further event will happen"
            )
        # It knows the world: that circle would keep all jobs until the next collection.
        del world.mailbox

    def _load(self, name: str, workload: Workload) -> None:
        from qops_batsim.engine.sleeping_jobs import check_profiles

        world = self._world
        columns = workload.columns
        workload.check(columns)
        check_hosts_asked(workload.source, columns, world.shared, self.platform.source)
        # A copy: registered profiles must not appear in the caller's workload.
        world.profiles[name] = dict(workload.profiles)
        world.workloads[name] = workload
        world.columns[name] = columns
        self._delays[name] = check_profiles(world, name)

    def _check_nothing_left(self) -> None:
        trouble = deadlock_report(self._complete_world())
        if trouble:
            raise Deadlock(str(self._world.error(f"deadlock: {trouble}")), self)

    def _summary(self) -> dict[str, str]:
        ended = self.ended_jobs
        finishes = ended.finishes[ended.ran]
        return {
            "jobs ended": str(len(finishes)),
            "jobs rejected": str(len(ended.states) - len(finishes)),
            "hosts": str(len(self.hosts)),
            "makespan": f"{finishes.max(initial=0.0):.15g} s",
        }


class _FirstHosts:
    """Decision side that starts every job at once on the first hosts."""

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        decisions = [
            ExecuteJob(item.body.job_id, HostSet.first(item.body.job.processors))
            for item in message.events
            if isinstance(item.body, JobSubmitted)
        ]
        return Message(message.now, [Stamped(message.now, decision) for decision in decisions])


def simulation_without_scheduler(
    platform: Platform, workloads: Sequence[Workload], options: EngineOptions
) -> Simulation:
    """Return a simulation in which all jobs start at once, each on the first hosts."""
    options = msgspec.structs.replace(
        options, scheduled=False, compute_sharing=True, dynamic_jobs=False, message_delays=False
    )
    at_once = [
        msgspec.structs.replace(workload, jobs=[_at_once(job) for job in workload.jobs])
        for workload in workloads
    ]
    return Simulation(platform, at_once, _FirstHosts(), options)


def _at_once(job: Job) -> Job:
    return Job.from_fields({**job.fields, "subtime": 0.0}, where=job.id)
