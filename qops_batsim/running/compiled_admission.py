"""Compiled loops for the deadline schedulers, and what these say of the jobs that they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from qops_batsim.scheduling.admission.foresight import Foresight
from qops_batsim.scheduling.admission.mrt import Mrt
from qops_batsim.scheduling.admission.msb import Msb
from qops_batsim.scheduling.admission.qops import Qops
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.qos_log import QosLog
from qops_batsim.scheduling.refusal import Refusal, missed_deadline, no_time
from qops_batsim.timing import SAME_DATE

if TYPE_CHECKING:
    from qops_batsim.engine.delay_jobs import DelayJobs
    from qops_batsim.running.admission_kernels import AdmissionState
    from qops_batsim.running.event_kernels import Events

DEADLINE_SCHEDULERS = (Qops, Foresight, Msb, Mrt)
"""Those for which there is a loop."""


class AdmissionLoop:
    """The loop of a deadline scheduler.

    ``estimates`` are on the grid of plans (seconds, by job).
    """

    def __init__(
        self, module: DecisionModule, jobs: DelayJobs, hosts: int, estimates: np.ndarray
    ) -> None:
        from qops_batsim.running.admission_kernels import new_admission_state

        self._module, self._jobs = module, jobs
        deadlines = _deadlines(jobs)
        # What an estimate was lengthened by to fit the grid does not count.
        known = np.isfinite(estimates)
        longer = np.subtract(estimates, jobs.estimates, out=np.zeros(len(known)), where=known)
        targets = deadlines + np.where(longer > SAME_DATE, longer, 0.0)
        limits = jobs.columns.walltimes[jobs.places]
        self._state = new_admission_state(
            hosts, jobs.processors, estimates, limits, deadlines, targets
        )
        self.run = _loop(module, jobs, hosts, self._state)

    def log(self, log: QosLog) -> dict[int, Refusal]:
        """Log what was promised; return why jobs were refused, by position."""
        jobs, state = self._jobs, self._state
        name, ids, places = jobs.name, jobs.columns.ids, jobs.places.tolist()
        verdicts, deadlines = state.answers.verdicts, state.plan.jobs.deadlines
        refused = dict(self._refusals())
        size = len(state.plan.running.slots) - 1
        fits = (jobs.processors >= 1) & (jobs.processors <= size)
        promised = np.flatnonzero((verdicts == 0) & fits & (deadlines < math.inf))
        for index in promised.tolist():
            record = log.record(f"{name}!{ids[places[index]]}")
            record.admitted_deadline = float(deadlines[index])
        return refused

    def _refusals(self) -> Iterator[tuple[int, Refusal]]:
        from qops_batsim.running.admission_kernels import TOO_DEAR, TOO_SHORT
        from qops_batsim.scheduling.admission.foresight_search import too_dear

        jobs, answers = self._jobs, self._state.answers
        estimates, targets = self._state.plan.jobs.estimates, self._state.plan.jobs.targets
        for index in np.flatnonzero(answers.verdicts).tolist():
            date = float(answers.dates[index])
            if answers.verdicts[index] == TOO_SHORT:
                yield index, no_time(float(estimates[index]), date, float(targets[index]))
                continue
            if answers.verdicts[index] == TOO_DEAR:
                price = self._module.options.admission_price  # type: ignore[attr-defined]
                yield index, too_dear(date, float(answers.worths[index]), price)
                continue
            blamed = int(answers.blamed[index])
            place = _place(self._module, int(answers.places[index]), int(answers.waiting[index]))
            whose = f"{jobs.name}!{jobs.columns.ids[jobs.places[blamed]]}"
            yield index, missed_deadline(whose, date, own=blamed == index, **place)


def _deadlines(jobs: DelayJobs) -> np.ndarray:
    """Return the deadlines by job (seconds), infinite without."""
    requests = jobs.columns.requests
    if requests is None:
        return np.full(len(jobs.processors), math.inf)
    asked = (None if each is None else each.deadline for each in requests)
    found: np.ndarray = np.array([math.inf if date is None else date for date in asked])[
        jobs.places
    ]
    return found


def _loop(
    module: DecisionModule, jobs: DelayJobs, hosts: int, state: AdmissionState
) -> Callable[[Events], int]:
    """Return the loop of a scheduler, with the state that it keeps."""
    from qops_batsim.running import admission_kernels as kernels
    from qops_batsim.running.policy_kernels import steps_for
    from qops_batsim.scheduling.admission.market import new_market, terms_of
    from qops_batsim.scheduling.admission.mrt_search import new_room
    from qops_batsim.scheduling.admission.msb_search import new_prices
    from qops_batsim.scheduling.admission.qops_search import rules_of
    from qops_batsim.scheduling.admission.search import new_draft

    options: Any = module.options
    count = len(jobs.processors)
    if type(module) is Qops:
        rules = rules_of(options)
        return lambda events: kernels.run_qops(events, state, hosts, rules)
    if type(module) is Foresight:
        rules, market, terms = rules_of(options), new_market(hosts), terms_of(options)
        return lambda events: kernels.run_foresight(events, state, hosts, rules, market, terms)
    if type(module) is Msb:
        prices = new_prices(options, jobs.submission_times, count, count + 1)
        trial = new_draft(steps_for(count, hosts), count + 1)
        return lambda events: kernels.run_msb(events, state, hosts, prices, trial)
    by_laxity, most = options.order == "least_laxity", options.max_backtracks
    notes = new_room(count, count + 1)
    return lambda events: kernels.run_mrt(events, state, hosts, by_laxity, most, notes)


def _place(module: DecisionModule, place: int, waiting: int) -> dict[str, int]:
    """Return where the search of a scheduler gave up, as fields of a refusal."""
    if type(module) in (Qops, Foresight):
        return {"insertion_point": place, "waiting": waiting}
    return {"positions": waiting + 1} if type(module) is Msb else {"steps_back": place}
