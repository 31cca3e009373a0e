"""What the deadline schedulers share: everything but how a plan for a new job is sought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import RejectJob
from qops_batsim.scheduling.module import System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.admission.plan import AdmissionPlan, Search
    from qops_batsim.scheduling.decision_log import DecisionLog


class AdmissionScheduler(SpaceSharingScheduler):
    """Base of schedulers that admit a job only if all promised deadlines still hold.

    When a job arrives, the scheduler's search proposes a plan in which it and every
    waiting job meets its deadline, or refuses it; a refused job is rejected, with
    the reason in the QoS log. With exact estimates no admitted deadline is missed.
    Jobs without a deadline are never refused for their own sake, and delay no
    deadline.

    Plans with estimates (``qos.estimated_runtime``, else the walltime); deadlines
    are ``qos.deadline``. A subclass implements :meth:`search`.
    """

    needs_deadlines = True

    decision_log: DecisionLog | None = None
    """Where every decision and its effects are noted, if anywhere; set it before the start."""

    def search(self) -> Search:
        """Return the search, with this scheduler's options."""
        raise NotImplementedError

    def empty_plan(self, machine_size: int) -> AdmissionPlan:
        """Return an empty plan of this scheduler for a machine, beside any simulation."""
        self.machine_size = machine_size
        return self._new_plan()

    def _new_plan(self) -> AdmissionPlan:
        """Return an empty plan that searches with this scheduler's options."""
        from qops_batsim.scheduling.admission.plan import AdmissionPlan

        return AdmissionPlan(self.machine_size, self.search())

    @classmethod
    def prepare(cls) -> None:
        """Compile the kernels by small plans in which each of them works once."""
        from qops_batsim.jobs import QosRequest
        from qops_batsim.platform.hostset import HostSet
        from qops_batsim.scheduling.admission.plan import AdmissionPlan

        plan = AdmissionPlan(1, cls().search())
        for index, deadline in enumerate((10.0, 60.0, 40.0, 30.0)):
            qos = QosRequest(deadline=deadline, estimated_runtime=10.0)
            plan.arrived(Job(f"warm-up!{index}", 0.0, 1, "none", qos=qos))
        plan.decide(0.0, HostSet.first(1))
        plan.left("warm-up!0")
        plan.decide(5.0, HostSet.first(1))
        plan.decide(30.0, HostSet())

    def begin(self, system: System) -> None:
        """Start with an empty plan."""
        super().begin(system)
        self._plan = self._new_plan()
        if self.decision_log is not None:
            self.decision_log.begin(self._plan)

    def submitted(self, job: Job) -> None:
        """Queue a job that fits the machine, reject one that never will."""
        super().submitted(job)
        if self.decision_log is not None and not 1 <= job.processors <= self.machine_size:
            self.decision_log.refused_at_once(job, self.qos_log.record(job.id).reason)

    def arrived(self, job: Job) -> None:
        """Note the job; it is admitted or refused at the next decision."""
        self._plan.arrived(job)

    def left(self, job_id: str) -> None:
        """Note the end; its reservation is given back at the next decision."""
        if self.decision_log is not None:
            self.decision_log.left(job_id)
        self._plan.left(job_id)

    def schedule(self, now: float) -> None:
        """Admit or refuse new jobs and start those whose promised start has come."""
        plan = self._plan
        first_new = plan.decided
        due = plan.decide(now, self.free_hosts)
        if plan.decided > first_new:
            self._note_verdicts(first_new)
        if self.decision_log is not None:
            self.decision_log.decided(now, [job.id for job, _ in due])
        for job, hosts in due:
            self.start(job, hosts)

    def _note_verdicts(self, first_new: int) -> None:
        """Reject the new jobs that the plan refused, and note what it promised the others."""
        plan = self._plan
        refused = {refusal.slot: refusal.reason for refusal in plan.refusals}
        plan.refusals.clear()
        for slot in range(first_new, plan.decided):
            self._note_verdict(slot, refused.get(slot, ""))

    def _note_verdict(self, slot: int, refusal: str) -> None:
        """Reject a new job for that reason, or, without one, note what was promised."""
        job = self._plan.table.jobs[slot]
        if refusal:
            self.qos_log.record(job.id).reason = refusal
            self._decisions.append(RejectJob(job.id))
        elif job.qos is not None and job.qos.deadline is not None:
            self.qos_log.record(job.id).admitted_deadline = job.qos.deadline
