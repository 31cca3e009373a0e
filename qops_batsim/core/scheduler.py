"""The base class of schedulers, and the resource manager that executes their decisions.

The engine calls the scheduler's hooks when events happen; the scheduler acts by calls of its
manager, whether jobs run in the embedded engine, in Batsim or on a real cluster.
"""

from __future__ import annotations

from typing import Any, ClassVar

from qops_batsim.core.capacity import Capacity
from qops_batsim.core.host_bits import HostBits
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import OVER, RUNNING, WAITING, Job
from qops_batsim.core.machine import Machine
from qops_batsim.core.needs import EngineNeeds
from qops_batsim.core.news import News
from qops_batsim.core.node_profile import request_of
from qops_batsim.core.node_request import FoundHosts, NodeLayout, NodeRequest
from qops_batsim.core.node_use import NodeUse
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.overrides import check_overrides
from qops_batsim.core.qos_log import QosLog, QosRecord
from qops_batsim.core.refusal import Refusal
from qops_batsim.core.system import UNDESCRIBED
from qops_batsim.errors import CountsHostsError, SimulationError, require_type
from qops_batsim.jobs import QOS_REJECTED, check_resumable, rest_of_delay


class ResourceManager:
    """What a scheduler calls to start, reject, kill or register jobs, and asks about the machine.

    Calls take effect in their order. An invalid call raises a SimulationError that names the job.
    An implementation overrides the methods that end in ``_job``, whose arguments have been checked,
    and those that tell of hosts and dates.

    Attributes
    ----------
    machine_size
        Number of hosts, whether they are there or away.
    free
        Number of hosts that a job can start on.
    now
        Date of the current message (seconds).
    capacity
        Which hosts are away or will be.
    drains, plans, shares_hosts
        Set by the scheduler: whether hosts take no new job once their maintenance is announced,
        whether starts are planned ahead, and whether several jobs may share a host.
    news
        How late news is.
    grace
        How long ago a job may have ended whose end has not been reported yet (seconds).
    news_in_parts
        Whether the events of one date may come in several messages.
    qos_log
        What the scheduler records about jobs.
    system
        The machine as the engine describes it; without hosts if it is only a number of equal ones.
    use
        What is free now where jobs share hosts by amounts; None where hosts are whole.
    hides_profiles
        Whether the scheduler is not told the profiles of registered jobs, unless the jobs have
        checkpoints: their rest, once they are killed, has to be known.
    refusals
        The jobs rejected since this list was last emptied; None if they are not collected.
    registered
        Of each job that the scheduler has registered, by id: the id of the job whose work it does.
    """

    def __init__(self, machine_size: int) -> None:
        self.machine_size = machine_size
        self.free = machine_size
        self.now = 0.0

        # What the scheduler sets.
        self.drains = True
        self.plans = False
        self.shares_hosts = False
        self.refusals: list[Job] | None = None

        # What is known of the engine.
        self.capacity = Capacity(machine_size)
        self.news = News()
        self.grace = 0.0
        self.news_in_parts = False
        self.system = UNDESCRIBED
        self.use: Any = None  # a NodeUse where hosts are shared

        # What is kept of jobs.
        self.qos_log = QosLog()
        self.registered: dict[str, str] = {}
        self.hides_profiles = False
        self.registered_profiles: dict[tuple[str, str], Any] = {}

    def start(self, job: Job, hosts: object = None) -> None:
        """Start a waiting job now, on the free hosts ``hosts`` (HostSet, HostBits) or, if None, on
        the lowest free ones.
        """
        if (
            job is None
            or job.phase != WAITING
            or (job.processors > self.free and not self.shares_hosts and self.use is None)
        ):
            raise self.refused(job, "start")
        self.start_job(job, hosts)
        job.phase = RUNNING
        job.start = self.now

    def reject(self, job: Job, reason: object) -> None:
        """Reject a waiting job for good; ``reason`` is a Refusal or a text."""
        if job is None or job.phase != WAITING:
            raise self.refused(job, "be rejected")
        self.reject_job(job, reason)
        job.phase = OVER
        if self.refusals is not None:
            self.refusals.append(job)

    def kill(self, job: Job) -> None:
        """Kill a running job; its hosts stay in use until the engine reports its end."""
        if job is None or job.phase != RUNNING:
            raise self.refused(job, "be killed")
        self.kill_job(job)

    def register(self, job: Job, profile: Any = None) -> None:
        """Submit a job that the scheduler itself has made; it then waits like any other job.

        ``profile`` is the job's execution profile; it is registered under the name ``job.profile``.
        None: a profile of that name exists.
        """
        self.register_job(job, profile)

    def register_again(self, job: Job, original: Job, killed: Job, saved: float) -> None:
        """Submit a new job for the remaining work of a killed job, of which ``saved`` seconds are
        done.

        Parameters
        ----------
        original
            The job as it was submitted, or its last run.
        killed
            The run that was killed, and the seconds of it that are ``saved``.
        """
        self.registered[job.id] = self.original_id(original)
        rest = rest_of_delay(self.profile_of(killed), saved) if saved > 0 else None
        self.register(job, rest)

    def finish_registering(self) -> None:
        """Tell the engine that this scheduler registers no more jobs, so that the simulation may
        end.
        """
        raise NotImplementedError

    def profile_of(self, job: Job) -> Any:
        """Return a job's execution profile (a mapping as in the workload file), empty if
        unknown.
        """
        workload = job.id.partition("!")[0]
        registered = self.registered_profiles.get((workload, job.profile))
        if registered is not None:
            return registered
        return self.system.profiles.get(workload, {}).get(job.profile, {})

    def check_saves(self, job: Job) -> None:
        """Raise an InputError if a job asks for checkpoints but its execution profile cannot be
        resumed part-way.
        """
        if job.qos is not None and job.qos.checkpoint is not None:
            check_resumable(job, self.profile_of(job))

    def original_id(self, job: Job) -> str:
        """Return the id under which a job was first submitted, before any restart."""
        return self.registered.get(job.id, job.id) if self.registered else job.id

    def know_original(self, job: Job, original: str) -> None:
        """Tell the manager under which id a restarted job was first submitted; for a simulation
        that is resumed.
        """
        self.registered[job.id] = original

    def record(self, job: Job) -> QosRecord:
        """Return what is recorded of a job, which becomes its row of ``PREFIX_qos.csv``. O(1)."""
        if job is None:
            raise self.refused(job, "be recorded")
        return self.qos_log.record(self.original_id(job))

    def note_deadline(self, job: Job, deadline: float) -> None:
        """Record the deadline (seconds) that was promised to a job. O(1)."""
        self.qos_log.promise(self.original_id(job), deadline)

    def note_metadata(self, job: Job, text: str) -> None:
        """Set a job's metadata, a text that engines write into the job's row of
        ``PREFIX_jobs.csv``.
        """
        raise NotImplementedError

    def call_at(self, date: float) -> None:
        """Ask the engine for a call at ``date`` (seconds), even if no event happens then."""
        raise NotImplementedError

    def hosts_of(self, job: Job) -> int:
        """Return the hosts of a job that runs or has just ended; bit *i* stands for host *i*."""
        raise NotImplementedError

    def free_mask(self) -> int:
        """Return the hosts on which a job can start; bit *i* stands for host *i*."""
        raise NotImplementedError

    def count_free(self) -> None:
        """Recount :attr:`free`, the hosts on which a job can start, after :attr:`capacity` has
        changed.
        """
        raise NotImplementedError

    def begin_maintenance(self) -> bool:
        """Mark the maintenance windows that have begun by now; return whether anything has changed,
        so that the free hosts were recounted.
        """
        capacity = self.capacity
        if not capacity.windows or capacity.check_dates(self.now + self.news.tolerance) is None:
            return False
        self.count_free()
        return True

    def why_never(self, job: Job) -> Refusal | None:
        """Return why a job can never run on the machine, None if it may still run."""
        if self.use is None:
            return self.capacity.never_fits(job.processors)
        refusal: Refusal | None = self.use.why_never(self.asking(job), self.capacity)
        return refusal

    def share_by_amounts(self, machine: Machine) -> None:
        """Have jobs share the hosts of a machine by amounts; before the first job."""
        self.use = NodeUse(NodeLayout(machine))

    def asking(self, job: Job) -> NodeRequest:
        """Return what a job asks for of hosts that jobs share, made on first use."""
        return request_of(self.use.layout, job)

    def restore_running(self, job: Job, hosts: int) -> None:
        """Add a job that was running before this scheduler took over; ``hosts`` are its hosts
        (bits).
        """
        raise NotImplementedError

    def refused(self, job: Job | None, what: str, why: str = "") -> SimulationError:
        """Return the error of a call that the job's state, or what ``why`` says, does not allow;
        ``what`` is the call's verb ("start").
        """
        if job is None:
            return SimulationError(f"None cannot {what} at {self.now:g} s; a job is expected")
        state = ("was not submitted yet", "waits", "runs already", "is over")[job.phase]
        free = "1 host is free" if self.free == 1 else f"{self.free} hosts are free"
        if not why and what == "start" and job.phase == WAITING:
            why = f"only {free}"
        return SimulationError(
            f"job {job.id}, which asks for {job.processors} processors, cannot {what} at "
            f"{self.now:g} s: {why or f'it {state} ({free})'}"
        )

    def refused_hosts(self, job: Job, hosts: int, named: str) -> SimulationError:
        """Return the error of a start on hosts (bits, and as text) that the job cannot have."""
        count = hosts.bit_count()
        taken = (hosts & ~self.free_mask()).bit_count()
        if count != job.processors:
            why = f"hosts expected: {job.processors}, given: {count}"
        elif hosts >> self.machine_size:
            why = f"the last host is {self.machine_size - 1}"
        else:
            why = f"hosts that are not free: {taken}"
        return self.refused(job, f"start on hosts {named}" if count else "start on no host", why)

    # What implementations share

    def take_shared(self, job: Job, hosts: object) -> int:
        """Give a job what it asks for of shared hosts: those that it holds (None), or given ones.

        Return them (bits); raise a SimulationError if they do not give it that now.
        """
        use = self.use
        request = self.asking(job)
        if not request.is_used:
            if isinstance(hosts, FoundHosts) and hosts.places.parts == request.parts:
                request.held.copy_from(hosts.places)
                hosts = None
            if hosts is None:
                mask = request.hosts_mask()
                fits = use.fits(job)
            else:
                mask = self.asked_hosts(job, hosts)
                fits = not mask >> self.machine_size and use.put_on(job, mask)
            if not mask:
                why = (
                    "jobs share the hosts by amounts, and it is given none; availability().fit(job)"
                    " of a QueueScheduler or DeadlineScheduler finds hosts for it"
                )
                raise CountsHostsError(str(self.refused(job, "start", why)))
            if not fits:
                where = f"start on hosts {HostSet(mask)}"
                raise self.refused(job, where, "they do not give now what it asks for")
            use.take(job)
        return int(request.used.mask())

    def asked_hosts(self, job: Job, hosts: object) -> int:
        """Return the hosts (bits) on which a job is to start."""
        if isinstance(hosts, HostBits):
            return hosts.mask()
        require_type(f"start of {job.id}: hosts", hosts, HostSet, "a HostSet or None")
        assert isinstance(hosts, HostSet)
        return hosts.mask

    def note_refusal(self, job: Job, reason: object) -> None:
        """Record why a job is rejected; of a restart, also as the fate of the original job."""
        self.qos_log.refused(job.id, reason)
        if self.registered and job.id in self.registered:
            self.qos_log.refused(self.registered[job.id], reason)
            self.record(job).decision = QOS_REJECTED

    def know_registered(self, job: Job, profile: Any) -> None:
        """Remember a job that the scheduler has registered, and its profile if that may be told."""
        self.registered.setdefault(job.id, job.id)
        saves = job.qos is not None and job.qos.checkpoint is not None
        if profile is not None and (saves or not self.hides_profiles):
            self.registered_profiles[job.id.partition("!")[0], job.profile] = profile

    # What an implementation does

    def start_job(self, job: Job, hosts: object) -> None:
        """Carry out :meth:`start`, whose arguments have been checked."""
        raise NotImplementedError

    def reject_job(self, job: Job, reason: object) -> None:
        """Carry out :meth:`reject`, whose arguments have been checked."""
        raise NotImplementedError

    def kill_job(self, job: Job) -> None:
        """Carry out :meth:`kill`, whose arguments have been checked."""
        raise NotImplementedError

    def register_job(self, job: Job, profile: Any) -> None:
        """Carry out :meth:`register`."""
        raise NotImplementedError


def _check_subclass(cls: type[Any], /, **arguments: Any) -> None:
    """Check a new subclass of Scheduler: see :func:`check_overrides`."""
    super(Scheduler, cls).__init_subclass__(**arguments)
    check_overrides(cls)


class Scheduler:
    """Base class of all schedulers; an algorithm overrides the hooks it needs.

    For each message of the engine, the hooks of its events are called in the order in which the
    events happened, then :meth:`decide` once.

    Parameters
    ----------
    options
        An instance of the class's ``Options``; defaults when None.

    Attributes
    ----------
    manager
        The resource manager, whose methods start and reject jobs; set by :meth:`begin`.
    logs
        Whether decisions are to be logged, if it can (``keeps_decisions``); set before
        :meth:`begin`.
    summary
        One line for ``qops-batsim schedulers``.
    keeps_decisions
        Whether the scheduler can log its decisions, for ``quote`` and ``explain``.
    needs_deadlines
        Whether it is of interest only where jobs have deadlines.
    kills
        Whether it may kill jobs, with its options: an engine follows each of them then.
    counts_hosts
        Whether it gives jobs whole hosts, so that it refuses machines whose jobs share hosts by
        amounts.
    HOOKS
        The methods that a class may override, with the names of their arguments. They are called
        through Python wherever they are overridden; to override any other method is an
        InterfaceError when the class is made.
    DESCRIPTION
        The other attributes that a class may define again: it describes itself by them.

    Examples
    --------
    >>> class Fifo(Scheduler):
    ...     def begin(self, manager):
    ...         super().begin(manager)
    ...         self.queue = []
    ...
    ...     def submitted(self, job):
    ...         self.queue.append(job)
    ...
    ...     def decide(self):
    ...         while self.queue and self.queue[0].processors <= self.manager.free:
    ...             self.manager.start(self.queue.pop(0))
    >>> from qops_batsim import simulate
    >>> len(simulate(Fifo, "tiny_8").ended)
    8
    """

    summary = ""
    Options: type[SchedulerOptions] = SchedulerOptions
    keeps_decisions = False
    needs_deadlines = False
    kills = False
    counts_hosts = False
    HOOKS: ClassVar[dict[str, str]] = {
        "use_platform": "platform",
        "begin": "manager",
        "submitted": "job",
        "ended": "job",
        "killed": "job",
        "progressed": "job progress",
        "cancelled": "job",
        "joined": "job",
        "hosts_changed": "announced",
        "called": "",
        "all_submitted": "",
        "notified": "notification",
        "decide": "",
        "finished": "",
        "planned_starts": "",
    }
    DESCRIPTION: ClassVar[frozenset[str]] = frozenset(
        {
            "DESCRIPTION",
            "HOOKS",
            "Options",
            "counts_hosts",
            "keeps_decisions",
            "kills",
            "needs",
            "needs_deadlines",
            "summary",
        }
    )

    # Cython refuses a method of this name in a compiled class, not an attribute.
    __init_subclass__ = classmethod(_check_subclass)

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        self.options: Any = self.Options() if options is None else options
        self.logs = False

    @property
    def needs(self) -> EngineNeeds:
        """Features that the scheduler, with its options, requires of the engine."""
        return EngineNeeds()

    def use_platform(self, platform: Any) -> None:
        """Called before :meth:`begin`, if at all, with the platform (hosts' speeds, network).

        Only a program that starts the engine itself knows the platform: Batsim's protocol tells
        neither the speeds of hosts nor anything of the network.
        """

    def begin(self, manager: ResourceManager) -> None:
        """Called once at the start of a simulation, when the machine is idle: keep the manager."""
        if self.counts_hosts and manager.use is not None:
            raise CountsHostsError(
                f"{type(self).__name__} reserves whole hosts or none, but jobs share the hosts of "
                "this machine by amounts; a platform whose hosts have no cores, gpus or kinds is "
                "expected"
            )
        self.manager = manager

    def submitted(self, job: Job) -> None:
        """Called when a user has submitted a job."""

    def ended(self, job: Job) -> None:
        """Called when a job has ended, by itself or killed; its hosts are free again."""

    def killed(self, job: Job) -> None:
        """Called when the engine has carried out a kill that this scheduler asked for."""

    def progressed(self, job: Job, progress: Any) -> None:
        """Called before :meth:`killed`, with how much of its work the killed job had done."""

    def cancelled(self, job: Job) -> None:
        """Called when a user cancels a job that waits; by default an error."""
        raise SimulationError(
            f"job {job.id} was cancelled by its user, but scheduler {type(self).__name__} has no "
            "method cancelled(job), which would remove the job from its queue"
        )

    def joined(self, job: Job) -> None:
        """Called when a job was started by somebody else at ``job.start``; its hosts are in use."""

    def hosts_changed(self, announced: int) -> None:
        """Called when hosts have left or returned, when ``announced`` more will leave, or when no
        more will.

        The manager's ``capacity`` and ``free`` say which hosts are present.
        """

    def all_submitted(self) -> None:
        """Called when users will submit no more jobs."""

    def called(self) -> None:
        """Called at a date for which the scheduler has asked by ``manager.call_at``."""

    def notified(self, notification: object) -> None:
        """Called with each notification of the engine for which there is no other hook."""

    def decide(self) -> None:
        """Called once per message, after the hooks of all its events: start, reject or kill jobs
        here.
        """

    def finished(self) -> None:
        """Called when the simulation is over."""

    def planned_starts(self) -> dict[str, float]:
        """Return the planned starts (seconds) of waiting jobs by id; jobs without one are
        left out.
        """
        return {}
