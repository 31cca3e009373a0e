"""The base class of schedulers, and the resource manager that executes their decisions.

A scheduler hears of events through its hooks and acts through its manager, whatever that is: the
embedded engine, a session with Batsim, a real cluster.
"""

from __future__ import annotations

from typing import Any, ClassVar

from qops_batsim.core.job import OVER, RUNNING, WAITING, Job
from qops_batsim.core.needs import EngineNeeds
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.errors import SimulationError

_WAITING, _RUNNING, _OVER = WAITING, RUNNING, OVER


class ResourceManager:
    """What a scheduler calls to start, reject or kill jobs; calls take effect in their order.

    An invalid call is a SimulationError that names the job, raised where it is made. An
    implementation overrides the methods that end in ``_job``, which need not check.

    Attributes
    ----------
    machine_size
        Number of hosts, whether they are there or away.
    free
        Number of hosts that a job can start on.
    now
        Date of the current message (seconds).
    capacity
        Which hosts are away, or will be, None as long as none ever was: whatever implements
        :class:`Capacity`.
    drains, plans, shares_hosts
        Whether hosts take no job from the notice of their maintenance on, whether jobs are planned,
        and whether jobs start on hosts that have others; a scheduler says so.
    news
        How late news is (:class:`~qops_batsim.scheduling.news.News`).
    grace
        How long ago a job may have ended of whose end the news is under way (seconds): 0 where
        what happens at one date is told at once.
    news_in_parts
        Whether what happens at one date may be told in several messages.
    qos_log
        What is noted about jobs (:class:`~qops_batsim.scheduling.qos_log.QosLog`).
    system
        The machine as the scheduler is told of it, where it is more than equal hosts.
    refusals
        The jobs that were rejected since this list was emptied; None where nobody asks.
    """

    def __init__(self, machine_size: int) -> None:
        self.machine_size = self.free = machine_size
        self.now, self.drains, self.plans = 0.0, True, False
        self.grace, self.news_in_parts, self.shares_hosts = 0.0, False, False
        self.capacity: Any = None
        self.news: Any = None
        self.qos_log: Any = None
        self.system: Any = None
        self.refusals: list[Job] | None = None

    def start(self, job: Job, hosts: object = None) -> None:
        """Start a waiting job now, on these free hosts (HostSet, HostBits) or the lowest ones."""
        if (
            job is None
            or job.phase != _WAITING
            or (job.processors > self.free and not self.shares_hosts)
        ):
            raise self.refused(job, "start")
        self.start_job(job, hosts)
        job.phase, job.start = _RUNNING, self.now

    def reject(self, job: Job, reason: object) -> None:
        """Reject a waiting job for good; the reason is a Refusal or a text."""
        if job is None or job.phase != _WAITING:
            raise self.refused(job, "be rejected")
        self.reject_job(job, reason)
        job.phase = _OVER
        if self.refusals is not None:
            self.refusals.append(job)

    def kill(self, job: Job) -> None:
        """Kill a running job. Its hosts stay in use until its end is reported."""
        if job is None or job.phase != _RUNNING:
            raise self.refused(job, "be killed")
        self.kill_job(job)

    def register(self, job: Job, profile: Any = None) -> None:
        """Register a job of the scheduler's own, which then waits.

        With an execution profile it runs that, which is known by the name ``job.profile`` then.
        """
        raise NotImplementedError

    def register_again(self, job: Job, original: Job, killed: Job, saved: float) -> None:
        """Register the remaining work of a killed job as a new job.

        Parameters
        ----------
        original
            The job as it was submitted, or its last run.
        killed
            The run that was killed, and the seconds of it that are ``saved``.
        """
        raise NotImplementedError

    def finish_registering(self) -> None:
        """Note that no more jobs will be registered; engines wait for this call before they end."""
        raise NotImplementedError

    def profile_of(self, job: Job) -> Any:
        """Return a job's execution profile (a mapping), empty if unknown."""
        raise NotImplementedError

    def check_saves(self, job: Job) -> None:
        """Raise an InputError if a job has checkpoints and no profile that can be cut."""

    def original_id(self, job: Job) -> str:
        """Return the id under which a job was first submitted, before any restart."""
        return job.id

    def know_original(self, job: Job, original: str) -> None:
        """Set the id under which a restarted job was first submitted, when a run is resumed."""
        raise NotImplementedError

    def record(self, job: Job) -> Any:
        """Return the notes about a job for ``PREFIX_qos.csv``, a QosRecord. O(1)."""
        if job is None:
            raise self.refused(job, "be recorded")
        return self.qos_log.record(self.original_id(job))

    def note_metadata(self, job: Job, text: str) -> None:
        """Set the metadata of a job, a text that engines write into their files."""
        raise NotImplementedError

    def call_at(self, date: float) -> None:
        """Request a message at a date (seconds), even if nothing happens."""
        raise NotImplementedError

    def hosts_of(self, job: Job) -> int:
        """Return the hosts of a job that runs or has just ended (bits)."""
        raise NotImplementedError

    def free_mask(self) -> int:
        """Return the hosts on which a job can start (bits)."""
        raise NotImplementedError

    def count_free(self) -> None:
        """Recount the hosts that a job can start on, because :attr:`capacity` has changed."""
        raise NotImplementedError

    def restore_running(self, job: Job, hosts: int) -> None:
        """Add a job that ran before this scheduler took over, with its hosts (bits)."""
        raise NotImplementedError

    def refused(self, job: Job | None, what: str) -> SimulationError:
        """Return the error for a call ``what`` (as "start") that is not possible for a job."""
        if job is None:
            return SimulationError(f"None cannot {what} at {self.now:g} s; a job is expected")
        state = ("was not submitted yet", "waits", "runs already", "is over")[job.phase]
        return SimulationError(
            f"job {job.id}, which asks for {job.processors} processors, cannot {what} at "
            f"{self.now:g} s: it {state} ({self.free} hosts are free)"
        )

    # What an implementation does

    def start_job(self, job: Job, hosts: object) -> None:
        """Start a job."""
        raise NotImplementedError

    def reject_job(self, job: Job, reason: object) -> None:
        """Reject a job."""
        raise NotImplementedError

    def kill_job(self, job: Job) -> None:
        """Kill a job."""
        raise NotImplementedError


class Scheduler:
    """Base class of all schedulers; an algorithm overrides the hooks it needs.

    For each message the events are told one by one, in the order in which they happened, then
    :meth:`decide` is called once.

    Parameters
    ----------
    options
        An instance of the class's ``Options``; defaults when None.

    Attributes
    ----------
    manager
        What carries out its decisions, from :meth:`begin` on.
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
    HOOKS
        The methods that a class may override, with the names of their arguments.

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
    HOOKS: ClassVar[dict[str, str]] = {
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
    }

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        self.options: Any = self.Options() if options is None else options
        self.logs = False

    @property
    def needs(self) -> EngineNeeds:
        """What the scheduler with its options needs of an engine in addition to running jobs."""
        return EngineNeeds()

    def use_platform(self, platform: Any) -> None:
        """Take the platform, if the program that starts the engine knows it.

        Called before :meth:`begin`, if at all. The protocol tells neither the speeds of hosts nor
        anything of the network.
        """

    def begin(self, manager: ResourceManager) -> None:
        """Begin a run on an idle machine."""
        self.manager = manager

    def submitted(self, job: Job) -> None:
        """A job was submitted."""

    def ended(self, job: Job) -> None:
        """Hear that a job has ended, by itself or killed; its hosts are free again."""

    def killed(self, job: Job) -> None:
        """Hear that a kill of this scheduler was carried out."""

    def progressed(self, job: Job, progress: Any) -> None:
        """Reports how far a killed job had come, before :meth:`killed`."""

    def cancelled(self, job: Job) -> None:
        """Hear that its user cancels a job; an error unless overridden."""
        raise SimulationError(
            f"job {job.id} was cancelled, and {type(self).__name__} does not know how to take a "
            "job out of its queue; it has to implement cancelled"
        )

    def joined(self, job: Job) -> None:
        """Hear that somebody else has started a job at ``job.start``; its hosts are taken."""

    def hosts_changed(self, announced: int) -> None:
        """Hear that hosts have left or returned, or that no more will.

        Or that ``announced`` more will leave than was known. The manager's ``capacity`` and
        ``free`` say what is present.
        """

    def all_submitted(self) -> None:
        """Users submit no more jobs."""

    def called(self) -> None:
        """Hear that the date of a requested call has come."""

    def notified(self, notification: object) -> None:
        """Anything else happened."""

    def decide(self) -> None:
        """Decide, after all events of a message."""

    def finished(self) -> None:
        """Hear that the run is over."""

    def planned_starts(self) -> dict[str, float]:
        """Return the planned starts (seconds) of the waiting jobs that have one, by id."""
        return {}
