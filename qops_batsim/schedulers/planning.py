"""What all schedulers with a plan share, however they answer new jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from qops_batsim.core.answers import AdmissionAnswer, Offer
from qops_batsim.core.hostset import HostSet
from qops_batsim.core.job import RUNNING, WAITING, Job
from qops_batsim.core.log_rows import BY_ADMISSION
from qops_batsim.core.options import PlannerOptions, SchedulerOptions
from qops_batsim.core.plan import Plan, Renewal
from qops_batsim.core.plan_log import PlanLog
from qops_batsim.core.refusal import Refusal, RefusalKind, as_refusal, no_time, start_taken
from qops_batsim.core.scheduler import ResourceManager, Scheduler
from qops_batsim.schedulers.standing import Standing, restore, standing_of
from qops_batsim.timing import end_of, up_to_grid

_INFINITY = math.inf


class PlanScheduler(Scheduler):
    """Base class of schedulers with a plan; a subclass answers each new job.

    Whatever the subclass: jobs that can never run are rejected, those with fixed starts get them or
    are refused, those that users cancel leave the plan. Hosts that go away take no further job;
    what runs there goes on, and promises that cannot be kept without them are renewed. Jobs that
    are wider than what is left wait until hosts return, and are rejected once none will.

    Attributes
    ----------
    plan
        The plan. If :attr:`logs`, decisions are logged in ``plan.log``.
    by_host
        Whether reservations are of certain hosts.
    learns
        Whether it plans by what jobs did that have left.
    is_whole
        Whether all hosts have been there so far, and all jobs were started here: then the plan
        knows by itself which hosts are free.
    """

    Options: type[SchedulerOptions] = PlannerOptions
    HOOKS: ClassVar[dict[str, str]] = {
        **Scheduler.HOOKS,
        "answer": "job",
        "compress": "",
        "conclude_decision": "",
        "empty_plan": "machine_size",
        "note_start": "job",
        "prepare_decision": "",
        "renewed": "renewal",
        "why_limited": "job",
    }

    def __init__(self, options: SchedulerOptions | None = None) -> None:
        Scheduler.__init__(self, options)
        self.by_host = False
        self.learns = False

    def begin(self, manager: ResourceManager) -> None:
        """Start with an empty plan."""
        Scheduler.begin(self, manager)
        if manager.use is not None:
            self.by_host = False  # Its hosts are shared.
        manager.drains = not self.by_host and manager.use is None
        manager.plans = True
        self.plan = self.empty_plan(manager.machine_size)
        if manager.use is not None:
            self.plan.share_hosts(manager.use)
        if self.logs:
            self.plan.log = PlanLog(manager.machine_size)

        self.called_for = -1.0
        self.is_whole = True
        self.is_final = False
        self.refits = False
        self.may_be_too_wide = False
        self.asked_for: list[Job] = []
        self.unfit: list[Job] = []

    def empty_plan(self, machine_size: int) -> Plan:
        """Return an empty plan."""
        return Plan(machine_size, by_host=self.by_host)

    # Events

    def submitted(self, job: Job) -> None:
        """Hand a new job to the plan, to be answered at the next decision."""
        self.plan.arrived(job)

    def ended(self, job: Job) -> None:
        """Called when a running job has ended: free its processors in the plan."""
        if self.is_whole:
            if self.by_host:
                self.plan.hosts.free_hosts.add(job.bits)
        elif self.manager.capacity.windows:
            # A window may have waited for this job to leave its hosts.
            hosts = HostSet(self.manager.hosts_of(job))
            for window in self.manager.capacity.windows:
                self.refits = self.refits or bool(hosts & window.hosts)
        self.plan.left(job)

    def joined(self, job: Job) -> None:
        """Called when others started a job: its hosts count as lost until its expected end."""
        hosts = self.manager.hosts_of(job)
        there = hosts & ~self.manager.capacity.away.mask
        self.plan.joined(job, up_to_grid(job.start), there, there.bit_count())
        self.is_whole = False

    def cancelled(self, job: Job) -> None:
        """Called when a user cancels a job: the next decision removes it if it waits."""
        self.asked_for.append(job)

    def hosts_changed(self, announced: int) -> None:
        """Fit the plan to the hosts that are present."""
        plan = self.plan
        capacity = self.manager.capacity
        # No host leaves or returns any more: what is wider than the machine now can never run.
        if capacity.is_final and not self.is_final:
            self.is_final = True
            if capacity.away:
                self.may_be_too_wide = True
                plan.note_size(capacity.present, True)
            return

        self.is_whole = False
        plan.hosts.lost += announced
        plan.note_size(capacity.present, capacity.is_final)
        self.refit()

    def refit(self) -> None:
        """Update which hosts are present, and which hosts running jobs have."""
        self.refits = False
        manager = self.manager
        if manager.capacity.is_known:
            running = [job for job in self.plan.running if job.phase == RUNNING]
            hosts = {job: manager.hosts_of(job) for job in running}
            self.plan.refit(manager.capacity, hosts)

    # Decisions

    def decide(self) -> None:
        """Update the plan, answer new jobs, start the jobs that are due."""
        plan = self.plan
        manager = self.manager

        # What is known of hosts and jobs goes into the plan first.
        if not self.is_whole and manager.begin_maintenance():
            self.hosts_changed(0)
        if self.may_be_too_wide:
            self.reject_wider()
        if self.asked_for:
            self.reject_cancelled()
        self.prepare_decision()
        if self.refits:
            self.refit()

        # The plan as it is now, without new jobs.
        if manager.news.late:
            self.hear_late()
        plan.tell(up_to_grid(manager.now), manager.free)
        if self.by_host and not self.is_whole:
            plan.hosts.free_hosts.set_mask(manager.free_mask())
        if plan.renew():
            self.compress()
        plan.settle()

        self.answer_new()
        self.start_due()
        self.call_for_start()
        self.conclude_decision()

        if plan.renewals:
            for renewal in plan.renewals:
                self.renewed(renewal)
            plan.renewals.clear()

        # Jobs that were new above wait now.
        if self.asked_for:
            self.reject_cancelled()
        if self.may_be_too_wide:
            self.reject_wider()
            self.may_be_too_wide = False

    def prepare_decision(self) -> None:
        """Called at the start of a decision, before the plan is updated; does nothing here."""

    def conclude_decision(self) -> None:
        """Called at the end of a decision, after due jobs have started; does nothing here."""

    def hear_late(self) -> None:
        """Plan with late news, called in a decision: judge new jobs as if known since their
        submission.
        """
        plan = self.plan
        news = self.manager.news
        now = up_to_grid(self.manager.now)
        for job in plan.new:
            job.target += news.submitted(job, now)

        plan.is_late = True
        plan.grace = news.grace
        plan.tolerance = news.tolerance
        plan.most_lag = news.most_lag

    def answer_new(self) -> None:
        """Answer the new jobs: first those that can never run, then the others by arrival."""
        plan = self.plan
        log = plan.log
        if self.unfit:
            self.unfit = []
        if not plan.new:
            return

        for job in plan.new:
            if job.phase != WAITING:
                continue
            if plan.use is None and 1 <= job.processors <= plan.hosts.present:
                continue
            refusal = self.manager.why_never(job)
            if refusal is not None:
                self.unfit.append(job)
                self.manager.reject(job, refusal)

        plan.profile.trim(plan.nominal())
        for job in plan.new:
            # Others started it, or it was rejected.
            if job.phase != WAITING:
                if job.phase == RUNNING and log is not None:
                    log.joined(job)
                continue

            if log is not None:
                log.look(plan.waiting, plan.running, plan.starting)
                log.submitted(job)
            refusal = self.why_limited(job)
            if refusal is not None:
                self.refused(job, refusal)
            elif job.fixed_start < _INFINITY:
                self.reserve_start(job)
            else:
                self.answer(job)
        plan.new = []

    def start_due(self) -> None:
        """Start the jobs whose planned start has come, and log the starts."""
        plan = self.plan
        manager = self.manager
        for job in plan.start_due():
            planned = job.start
            manager.start(job, job.bits if self.by_host else None)
            job.start = planned  # The plan counts from there, and knows the lag.
            self.note_start(job)
        if plan.log is not None:
            self.log_starts()

    def note_start(self, job: Job) -> None:
        """Called after a planned job was started; does nothing here."""

    def compress(self) -> None:
        """Called when jobs ended early: move waiting jobs forward into the processors that became
        free.
        """
        self.plan.compress()

    def why_limited(self, job: Job) -> Refusal | None:
        """Return a refusal if a new job's user may hold no further promise, else None; here always
        None.
        """
        return None

    def reject_wider(self) -> None:
        """Reject the waiting jobs that are wider than the machine will ever be again."""
        for job in self.plan.drop_wider():
            self.drop(job, self.manager.why_never(job))

    def reject_cancelled(self) -> None:
        """Reject cancelled jobs that wait; keep those that are new or held for a later decision."""
        asked = self.asked_for
        self.asked_for = []
        for job in asked:
            if job.phase != WAITING:
                continue
            if self.plan.cancel(job):
                self.drop(job, Refusal(kind=RefusalKind.CANCELLED))
            elif job.is_held or any(new is job for new in self.plan.new):
                self.asked_for.append(job)

    def drop(self, job: Job, refusal: Refusal | None) -> None:
        """Reject a job that has left the plan, and log why."""
        log = self.plan.log
        if log is not None:
            log.now = up_to_grid(self.manager.now)
            log.dropped(job, refusal)
        self.manager.reject(job, refusal)

    def planned_starts(self) -> dict[str, float]:
        """Return each waiting job's planned start by id (seconds). O(waiting)."""
        return {job.id: job.start for job in [*self.plan.waiting, *self.plan.fixed.jobs()]}

    # Answers

    def answer(self, job: Job) -> None:
        """Plan a new job and call :meth:`note_admission`, or call :meth:`refused`."""
        raise NotImplementedError

    def note_admission(self, job: Job, offer: Offer | None = None) -> None:
        """Log an admission, the offer if there was one, and the jobs that the plan moved for it."""
        log = self.plan.log
        if log is not None:
            if offer is not None:
                blamed = self.blamed_number(job, offer.refusal)
                log.worded[job.number] = AdmissionAnswer(None, blamed, offer)
            log.admitted(job)
            log.moved_for(job, BY_ADMISSION, self.plan.waiting)
        if job.qos is not None:
            self.note_promise(job)

    def note_promise(self, job: Job) -> None:
        """Record the promised start or deadline of a new job for the file ``_qos.csv``."""
        has_fixed_start = job.fixed_start < _INFINITY
        if has_fixed_start:
            self.manager.record(job).latest_start = job.fixed_start
        if (self.plan.keeps_promises or has_fixed_start) and job.deadline < _INFINITY:
            self.manager.note_deadline(job, job.promise)

    def refused(self, job: Job, refusal: object, offer: Offer | None = None) -> None:
        """Reject a new job for a reason (a Refusal or a text); ``offer`` is the offer that its user
        declined, if any.
        """
        if self.plan.log is not None:
            why = as_refusal(refusal)
            blamed = self.blamed_number(job, why)
            self.plan.log.refused(job, AdmissionAnswer(why, blamed, offer), blamed)
        self.manager.reject(job, refusal)

    def blamed_number(self, job: Job, refusal: Refusal) -> int:
        """Return the log's number of the job that a refusal names as its cause, -1 if it names
        none.
        """
        blamed = refusal.blamed
        if not blamed:
            return -1
        if job.id == blamed:
            return job.number
        for known in self.plan.waiting:
            if known.id == blamed:
                return known.number
        return -1

    def reserve_start(self, job: Job) -> None:
        """Promise a new job the start that it asks for if it fits, else refuse it.

        What is planned stays, so no promise suffers.
        """
        start = self.plan.fixed.promise(job, self.plan.profile, self.plan.nominal())
        asked = job.fixed_start
        target = job.target
        # NaN: the job would miss its deadline even with that start.
        if start != start:
            self.refused(job, no_time(job.duration, target - asked, target))
        elif start > asked:
            self.refused(job, start_taken(asked, start))
        else:
            if self.plan.log is not None:
                self.plan.log.admitted(job)
            self.note_promise(job)

    def renewed(self, renewal: Renewal) -> None:
        """Called when a promise was renewed because hosts were lost: record the new promise and the
        loss.
        """
        job = renewal.job
        promise = renewal.promise
        record = self.manager.record(job)
        if job.fixed_start < _INFINITY or self.plan.promises_starts:
            record.latest_start = promise
            if record.admitted_deadline is not None:
                end = end_of(promise, job.duration)
                record.admitted_deadline = max(record.admitted_deadline, end)
        else:
            record.admitted_deadline = promise

        loss = Refusal(kind=RefusalKind.HOSTS_LOST, date=renewal.lost_date, hosts=renewal.lost)
        record.note_renewal(renewal.broken, loss)

    def log_starts(self) -> None:
        """Write to the decision log which jobs moved, which can never run, and which start in this
        decision.
        """
        plan = self.plan
        log = plan.log
        assert log is not None
        log.look_last(plan.waiting, plan.running, plan.starting)

        for job in self.unfit:
            log.submitted(job)
            log.refused(job, AdmissionAnswer(self.manager.why_never(job)), -1)
        log.started(plan.starting)

    def call_for_start(self) -> None:
        """Ask the engine to call the scheduler at the next promised start.

        Where reservations are of shared hosts, at the next planned start: jobs that keep their
        hosts can be left with a start at which no other job ends any more.
        """
        date = self.plan.fixed.next_start(self.plan.now)
        if self.plan.use is not None and self.plan.waiting:
            first: Job = self.plan.waiting[0]
            if first.start > self.plan.now:
                date = min(date, first.start)
        if date < _INFINITY and date != self.called_for:
            self.called_for = date
            self.manager.call_at(date)

    # What was before

    def standing(self) -> Standing | None:
        """Return a snapshot of the scheduler, from which one with the same options can resume the
        run.

        None if this one is in the middle of something. O(jobs in the plan).
        """
        return standing_of(self)

    def go_on(self, standing: Standing) -> list[Job]:
        """Resume a run from a snapshot, directly after :meth:`begin`.

        Returned are the jobs that wait or run, by arrival: the manager has to know them.
        """
        return restore(self, standing)

    def decision_lines(self) -> Iterator[bytes]:
        """Yield the logged decisions in order as lines of JSON, many at once, with line ends."""
        from qops_batsim.core.decision_lines import lines_of

        log = self.plan.log
        return iter(()) if log is None else lines_of(log)
