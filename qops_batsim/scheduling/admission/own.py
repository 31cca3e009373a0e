"""Deadline schedulers of one's own: the search alone, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from qops_batsim.scheduling.module import PlannerOptions, SchedulerOptions
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

if TYPE_CHECKING:
    from qops_batsim.scheduling.admission.request import AdmissionRequest
    from qops_batsim.scheduling.plan import Plan
    from qops_batsim.scheduling.refusal import Refusal


class DeadlineScheduler(SpaceSharingScheduler):
    """Base of deadline schedulers of one's own; a subclass says only how it admits a job.

    Everything else is as for QoPS: starts, compression at early ends, the QoS log and the
    decision log, so that ``qops-batsim quote`` and ``explain`` answer for it too.

    >>> class Appending(DeadlineScheduler):
    ...     '''Plans a new job behind what is planned; refuses it if it would be late.'''
    ...     summary = "deadline admission without moving any job"
    ...     def admit(self, request):
    ...         free, job = request.availability, request.job
    ...         starts = {}
    ...         for planned in request.waiting:
    ...             starts[planned.job.id] = planned.start
    ...             free.reserve(planned.start, planned.job.estimate, planned.job.processors)
    ...         start = free.earliest_fit(request.now, job.estimate, job.processors)
    ...         if start + job.estimate > request.target:
    ...             return f"could end at {start + job.estimate:g} s at the earliest"
    ...         return {**starts, job.id: start}
    >>> from qops_batsim import simulate
    >>> module = Appending()
    >>> done = simulate(module, "sdsc_sp2_deadlines_500").ended
    >>> module.qos_log.record("w0!24").reason
    ''
    """

    Options: ClassVar[type[SchedulerOptions]] = PlannerOptions
    keeps_decisions = True
    needs_deadlines = True

    def admit(self, request: AdmissionRequest) -> Mapping[str, float] | str | Refusal:
        """Return a start (seconds) for the new job and every waiting one, or why it is refused.

        A refusal is told in words, or as a :class:`~qops_batsim.scheduling.refusal.Refusal`.

        Starts are by the jobs' ids. Every job has to end by its target, and the processors
        have to be free; else :class:`~qops_batsim.errors.SimulationError` is raised. Equal
        requests have to be answered alike, for the plan is asked anew by ``quote``.
        """
        raise NotImplementedError

    def new_plan(self, machine_size: int) -> Plan:
        """Return an empty plan that admits jobs with :meth:`admit`."""
        from qops_batsim.scheduling.admission.own_search import OwnSearch
        from qops_batsim.scheduling.admission.policy import Admission
        from qops_batsim.scheduling.plan import Plan

        return Plan(
            machine_size, Admission(OwnSearch(type(self).__name__, self.admit, machine_size))
        )
