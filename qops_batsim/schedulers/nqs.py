"""The queues of the Network Queueing System, the baseline of Pascal et al. (2004).

B. A. Kingsbury, "The Network Queueing System", Sterling Software, is what that
paper cites (reference 16): a batch queue has limits, and a request may be in it only
if it asks for no more; queues have priorities and limits of requests that run at
once. Which queues a site has, it decides itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from qops_batsim.core.job import WAITING, Job
from qops_batsim.core.options import SchedulerOptions, option_error, seconds
from qops_batsim.core.overrides import without
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.schedulers.queue_scheduler import QueueScheduler

SDSC_QUEUES = ("express", "high", "normal", "low", "standby")
"""Batch queues of the SDSC SP2, the dearest first, as its log names them."""


_error = partial(option_error, "nqs")


class NqsOptions(SchedulerOptions, frozen=True, kw_only=True):
    """Options of :class:`Nqs`."""

    queues: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "queues that users choose from (qos.queue), the highest priority first; others "
                "come after them in the order of their names"
            )
        ),
    ] = SDSC_QUEUES
    default_queue: Annotated[
        str, Meta(min_length=1, description="queue of jobs whose users choose none")
    ] = "normal"
    time_limits: Annotated[
        tuple[float, ...],
        seconds(
            "each of those queues is split by requested time: up to the first limit, up to "
            "the next, ..., and the rest; shorter requests go first"
        ),
    ] = (3_600.0, 14_400.0, 43_200.0, 64_800.0)
    run_limits: Annotated[
        dict[str, int],
        Meta(
            description="most jobs of a queue of users that run at once; not named: no limit",
            extra={"unit": "jobs"},
        ),
    ] = {}  # noqa: RUF012 - each instance gets its own
    blocked: Annotated[
        Literal["queue", "machine"],
        Meta(
            description=(
                "what a head of a queue that does not fit holds up: its own queue only, as in "
                "NQS, or all queues of lower priority as well"
            )
        ),
    ] = "queue"

    def check(self) -> None:
        """Raise :class:`~qops_batsim.errors.InputError` if a value is out of range."""
        limits = self.time_limits
        if not all(0 < limit < math.inf for limit in limits) or list(limits) != sorted(set(limits)):
            raise option_error(
                "nqs", "time_limits", limits, "seconds above 0 in ascending order are accepted"
            )
        if not all(limit >= 1 for limit in self.run_limits.values()):
            raise option_error(
                "nqs", "run_limits", self.run_limits, "whole numbers from 1 up are accepted"
            )
        if len(set(self.queues)) < len(self.queues) or "" in self.queues:
            raise option_error(
                "nqs", "queues", self.queues, "names that are not empty, each once, are accepted"
            )


Place = tuple[int, str, int]
"""A queue, the least first: rank of the name, name, time limits that its requests exceed."""


class Nqs(QueueScheduler):
    """NQS: queues by name and requested time, each first come, first served, without reservations.

    Whenever something happens, the queues are visited in the order of their
    priorities: names in the order of the options, and of one name the shorter
    requests first. Each starts jobs from its head as long as they fit and its run
    limit allows. A head that does not fit waits, and nothing is kept free for it:
    jobs of other queues, however long, may start in its place for ever.

    A head that is wider than what is left of a machine whose hosts have gone away waits like
    any other, until they return; once none will, it is rejected.

    The requested time of a job is its walltime, else its estimate; jobs without
    either are in the queue of the longest requests. O(queues + jobs started) a
    message.

    Examples
    --------
    >>> from qops_batsim import simulate
    >>> len(simulate(Nqs, "tiny_8", settings={"time_limits": [60, 3600]}).ended)
    8
    """

    summary = "NQS: FIFO queues by name and requested time, priorities, no reservations"
    Options = NqsOptions
    # Each name has a line of its own.
    HOOKS: ClassVar[dict[str, str]] = without(QueueScheduler.HOOKS, "line")

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        Scheduler.__init__(self, options)
        given: Any = self.options
        given.check()
        self.blocks_all = given.blocked == "machine"
        self.ranks = {name: rank for rank, name in enumerate(given.queues)}

    def begin(self, manager: ResourceManager) -> None:
        """Start with empty queues."""
        QueueScheduler.begin(self, manager)
        self.lines: dict[Place, deque[Job]] = {}
        self.counts: Counter[str] = Counter()
        self.queue_of: dict[str, str] = {}

    def arrived(self, job: Job) -> None:
        """Append a job to its queue; the first job of a queue creates it."""
        place = self.place(job)
        if place not in self.lines:
            self.lines[place] = deque()
            self.lines = dict(sorted(self.lines.items()))
        self.lines[place].append(job)

    def waiting(self) -> list[Job]:
        """Return the waiting jobs of all queues, in the order of the queues' priorities."""
        return [job for jobs in self.lines.values() for job in jobs if job.phase == WAITING]

    def place(self, job: Job) -> Place:
        """Return the key of the queue of a job, by its queue name and requested time."""
        queue = (job.qos.queue if job.qos is not None else None) or self.options.default_queue
        requested = job.estimate if job.walltime is None else job.walltime
        rank = self.ranks.get(queue, len(self.ranks))
        return rank, queue, bisect_left(self.options.time_limits, requested)

    def ended(self, job: Job) -> None:
        """Reduce the number of running jobs in the queue of a job that has ended."""
        QueueScheduler.ended(self, job)
        self.counts[self.queue_of.pop(job.id, "")] -= 1

    def schedule(self) -> None:
        """Start jobs from the heads of the queues, by priority."""
        for (_, queue, _), jobs in self.lines.items():
            limit = self.options.run_limits.get(queue, math.inf)

            while jobs and self.counts[queue] < limit:
                job = jobs[0]
                # A job that was cancelled only leaves its queue.
                if job.phase == WAITING:
                    if not self.fits_now(job) or not self.may_start(job):
                        if self.blocks_all:
                            return
                        break

                    self.counts[queue] += 1
                    self.queue_of[job.id] = queue
                    self.start(job)
                jobs.popleft()
