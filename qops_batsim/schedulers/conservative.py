"""Conservative backfilling: every job has a reservation."""

from __future__ import annotations

from qops_batsim.core.job import Job
from qops_batsim.core.plan import Plan
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.platform.hostset import HostSet
from qops_batsim.schedulers.queue import too_wide
from qops_batsim.scheduling.refusal import no_time, start_taken
from qops_batsim.timing import up_to_grid


class PlanScheduler(Scheduler):
    """Base of schedulers that keep a plan of all starts; a subclass answers for each new job.

    Jobs that can never run are rejected when they are submitted, and those with fixed starts get
    them or are refused, whatever the subclass.
    """

    def __init__(self, by_host: bool = False) -> None:
        self.by_host = by_host

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        Scheduler.begin(self, manager)
        self.plan = Plan(manager.machine_size, by_host=self.by_host)
        self.called_for = -1.0

    def submitted(self, job: Job) -> None:
        """Have the plan know a job that fits the machine, reject one that never will."""
        size = self.manager.machine_size
        if 1 <= job.processors <= size:
            self.plan.arrived(job)
            return
        self.manager.reject(job, too_wide(job.processors, size))

    def ended(self, job: Job) -> None:
        """Have the plan know that a running job has left."""
        if self.by_host:
            self.plan.free_hosts.add(job.bits)
        self.plan.left(job)

    def decide(self) -> None:
        """Bring the plan up to date, answer new jobs, start what is due."""
        plan, manager = self.plan, self.manager
        plan.tell(up_to_grid(manager.now), manager.free)
        if plan.renew():
            self.compress()
        if plan.new:
            plan.profile.trim(plan.nominal())
            for job in plan.new:
                if job.fixed_start < _INFINITY:
                    self.reserve_start(job)
                else:
                    self.answer(job)
            plan.new.clear()
        for job in plan.start_due():
            if self.by_host:
                manager.start(job, HostSet(job.bits.mask()))
            else:
                manager.start(job)
        self.call_for_start()

    def compress(self) -> None:
        """Use what came free early."""
        self.plan.compress()

    def answer(self, job: Job) -> None:
        """Place a new job, or reject it."""
        raise NotImplementedError

    def reserve_start(self, job: Job) -> None:
        """Promise a new job the start that it asks for if it fits there, else refuse it."""
        start, asked, target = self.plan.promise_start(job), job.fixed_start, job.target
        if start != start:
            self.manager.reject(job, no_time(job.duration, target - asked, target))
        elif start > asked:
            self.manager.reject(job, start_taken(asked, start))

    def call_for_start(self) -> None:
        """Ask for a message at the next promised start, once."""
        date = _INFINITY
        for claim in self.plan.claims:
            if claim.job is not None and claim.start > self.plan.now:
                date = min(date, claim.start)
        if date < _INFINITY and date != self.called_for:
            self.called_for = date
            self.manager.call_at(date)


_INFINITY = float("inf")


class Conservative(PlanScheduler):
    """Conservative backfilling: each job is planned at its earliest fit and never moved later."""

    def answer(self, job: Job) -> None:
        """Place a new job at its earliest fit."""
        self.plan.place_new(job)
