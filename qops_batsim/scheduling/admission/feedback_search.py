"""QoPS that can also tell the earliest deadline it could keep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qops_batsim.scheduling.admission.feedback_kernel import earliest_deadline
from qops_batsim.scheduling.admission.plan import Question
from qops_batsim.scheduling.admission.qops import QopsOptions
from qops_batsim.scheduling.admission.searches import QopsSearch
from qops_batsim.scheduling.profile import Floats, Ints
from qops_batsim.scheduling.table import JobTable


class Earliest(NamedTuple):
    """The earliest deadline that could be kept.

    Attributes
    ----------
    steps
        Steps of the profile of a plan that keeps it, or ``REJECTED``.
    failed
        Latest deadline before it that was tried in vain (seconds).
    deadline
        The deadline (seconds); infinite if there is none.
    """

    steps: int
    failed: float
    deadline: float


class FeedbackSearch(QopsSearch):
    """The search of QoPS, with feedback.

    Parameters
    ----------
    options
        Options of QoPS.
    retry_count
        How often the interval of the earliest deadline is halved.
    """

    def __init__(self, options: QopsOptions, retry_count: int) -> None:
        super().__init__(options)
        self._retry_count = retry_count
        self._base_times: Floats = np.zeros(0)
        self._base_free: Ints = np.zeros(0, np.int64)
        self._times: Floats = np.zeros(0)
        self._free: Ints = np.zeros(0, np.int64)
        self._order: Ints = np.zeros(0, np.int64)
        self._planned: Floats = np.zeros(0)

    def change_deadline(self, table: JobTable, slot: int, deadline: float) -> None:
        """Give a job another deadline (seconds), and the place in the order that it means."""
        table.deadlines[slot] = deadline
        self._keys.update(table, slot)

    def earliest(self, question: Question) -> Earliest:
        """Return the earliest deadline of the new job that can be kept, with a plan.

        See :func:`~qops_batsim.scheduling.admission.feedback_kernel.earliest_deadline`.
        """
        q, options, table = question, self._options, question.table
        if len(self._times) < len(q.times):
            self._base_times, self._base_free = np.zeros_like(q.times), np.zeros_like(q.free)
            self._times, self._free = np.zeros_like(q.times), np.zeros_like(q.free)
        if len(self._order) < len(q.order):
            self._order, self._planned = np.zeros_like(q.order), np.zeros_like(q.planned)
        return Earliest(
            *earliest_deadline(
                q.now,
                q.base_times,
                q.base_free,
                q.base_steps,
                q.waiting,
                q.waiting_count,
                q.new,
                q.starts,
                table.processors,
                table.estimates,
                table.deadlines,
                self._keys.of(table),
                options.order == "least_laxity",
                options.k_factor,
                options.on_failure == "reject",
                options.new_job == "first",
                self._retry_count,
                q.times,
                q.free,
                q.order,
                q.planned,
                self._base_times,
                self._base_free,
                self._times,
                self._free,
                self._order,
                self._planned,
            )
        )
