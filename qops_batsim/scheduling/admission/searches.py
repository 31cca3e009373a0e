"""The searches as callables: options and room in front, kernels behind."""

from __future__ import annotations

import math

import numpy as np

from qops_batsim.scheduling.admission.mrt import MrtOptions
from qops_batsim.scheduling.admission.mrt_kernel import mrt_search
from qops_batsim.scheduling.admission.msb import MsbOptions
from qops_batsim.scheduling.admission.msb_kernel import msb_search
from qops_batsim.scheduling.admission.plan import Question, Verdict
from qops_batsim.scheduling.admission.qops import QopsOptions
from qops_batsim.scheduling.admission.qops_kernel import qops_search
from qops_batsim.scheduling.profile import Floats, Ints
from qops_batsim.scheduling.table import FIRST_CAPACITY, JobTable, grown


class Keys:
    """What the order heuristic compares, by slot; filled in as jobs arrive."""

    def __init__(self, order: str) -> None:
        self._least_laxity = order == "least_laxity"
        self._values: Floats = np.zeros(FIRST_CAPACITY)
        self._known = 0

    def of(self, table: JobTable) -> Floats:
        """Return the keys of all jobs so far (seconds). Amortised O(1) for each job."""
        known, end = self._known, len(table)
        while len(self._values) < end:
            self._values = grown(self._values)
        for slot in range(known, end):
            self._values[slot] = self._key(table, slot)
        self._known = end
        return self._values

    def update(self, table: JobTable, slot: int) -> None:
        """Compute the key of one job again, after its deadline has changed. O(1)."""
        if slot < self._known:
            self._values[slot] = self._key(table, slot)

    def _key(self, table: JobTable, slot: int) -> float:
        key = float(table.deadlines[slot])
        if self._least_laxity and key < math.inf:
            # Without deadline nothing is as patient, estimate or not.
            key -= float(table.estimates[slot])
        return key


class QopsSearch:
    """The search of QoPS."""

    def __init__(self, options: QopsOptions) -> None:
        self._options = options
        self._keys = Keys(options.order)

    def note(self, table: JobTable) -> None:
        """Take note of jobs with the deadlines that they were admitted with."""
        self._keys.of(table)

    def __call__(self, question: Question) -> Verdict:
        """Return a plan, or which deadline stood in the way."""
        q, options, table = question, self._options, question.table
        steps, blamed, point = qops_search(
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
            options.k_factor,
            options.on_failure == "reject",
            options.new_job == "first",
            q.times,
            q.free,
            q.order,
            q.planned,
        )
        return Verdict(
            steps, blamed, f" at insertion point {point} of {q.waiting_count} waiting jobs"
        )


class MsbSearch:
    """The search of MSB."""

    def __init__(self, options: MsbOptions) -> None:
        self._options = options
        self._times: Floats = np.zeros(0)
        self._free: Ints = np.zeros(0, np.int64)
        self._best: Floats = np.zeros(0)
        self._least: Floats = np.zeros(0)

    def note(self, table: JobTable) -> None:
        """Do nothing: deadlines are looked up when they count."""

    def __call__(self, question: Question) -> Verdict:
        """Return a plan, or which deadline stood in the way."""
        q, table = question, question.table
        if len(self._times) < len(q.times):
            self._times, self._free = np.zeros_like(q.times), np.zeros_like(q.free)
        if len(self._best) < len(q.planned):
            self._best, self._least = np.zeros_like(q.planned), np.zeros_like(q.planned)
        steps, blamed, position = msb_search(
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
            self._options.price == "delays",
            q.times,
            q.free,
            q.order,
            q.planned,
            self._times,
            self._free,
            self._best,
            self._least,
        )
        return Verdict(steps, blamed, f" at each of {position + 1} positions")


class MrtSearch:
    """The search of MRT."""

    def __init__(self, options: MrtOptions) -> None:
        self._options = options
        self._keys = Keys(options.order)
        self._spare: Floats = np.zeros(0)
        self._tried: Ints = np.zeros(0, np.int64)

    def note(self, table: JobTable) -> None:
        """Take note of jobs with the deadlines that they were admitted with."""
        self._keys.of(table)

    def __call__(self, question: Question) -> Verdict:
        """Return a plan, or which deadline stood in the way."""
        q, table = question, question.table
        if len(self._spare) < len(table.estimates):
            self._spare = np.zeros_like(table.estimates)
        if len(self._tried) < len(q.order):
            self._tried = np.zeros_like(q.order)
        steps, blamed, backtracks = mrt_search(
            q.now,
            q.base_times,
            q.base_free,
            q.base_steps,
            q.waiting,
            q.waiting_count,
            q.new,
            table.processors,
            table.estimates,
            table.deadlines,
            self._keys.of(table),
            self._options.max_backtracks,
            q.times,
            q.free,
            q.order,
            q.planned,
            self._spare,
            self._tried,
        )
        return Verdict(steps, blamed, f" after {backtracks} steps back")
