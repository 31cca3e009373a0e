"""What the deadline schedulers share: everything but how a plan for a new job is sought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qops_batsim.jobs import Job
from qops_batsim.protocol.decisions import RejectJob
from qops_batsim.scheduling.module import System
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.admission.plan import AdmissionPlan, Search


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

    def search(self) -> Search:
        """Return the search, with this scheduler's options."""
        raise NotImplementedError

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
        from qops_batsim.scheduling.admission.plan import AdmissionPlan

        super().begin(system)
        self._plan: AdmissionPlan = AdmissionPlan(self.machine_size, self.search())

    def arrived(self, job: Job) -> None:
        """Note the job; it is admitted or refused at the next decision."""
        self._plan.arrived(job)

    def left(self, job_id: str) -> None:
        """Note the end; its reservation is given back at the next decision."""
        self._plan.left(job_id)

    def schedule(self, now: float) -> None:
        """Admit or refuse new jobs and start those whose promised start has come."""
        plan = self._plan
        first_new = plan.decided
        due = plan.decide(now, self.free_hosts)
        if plan.decided > first_new:
            self._note_verdicts(first_new)
        for job, hosts in due:
            self.start(job, hosts)

    def _note_verdicts(self, first_new: int) -> None:
        """Reject the new jobs that the plan refused, and note what it promised the others."""
        plan = self._plan
        refused = {refusal.slot: refusal.reason for refusal in plan.refusals}
        plan.refusals.clear()
        for slot in range(first_new, plan.decided):
            job = plan.table.jobs[slot]
            deadline = None if job.qos is None else job.qos.deadline
            if slot in refused:
                self.qos_log.record(job.id).reason = refused[slot]
                self._decisions.append(RejectJob(job.id))
            elif deadline is not None:
                self.qos_log.record(job.id).admitted_deadline = deadline
