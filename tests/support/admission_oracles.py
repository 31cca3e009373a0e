"""Naive references for the admission searches, written from the papers' pseudo-code.

Everything is planned by counting the processors in use in each whole second, so all
dates and durations are whole seconds (or infinite). Nothing is shared with the
package, nothing is clever, nothing is reused from one trial to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from support.seconds import Seconds


@dataclass(frozen=True)
class Asking:
    """A job to plan. ``slot`` is its place in the order of arrivals.

    It has to end by ``deadline``, and is ordered by what it was promised, if that is another date.
    """

    slot: int
    processors: int
    estimate: float
    deadline: float = math.inf
    arrival: float = 0
    promise: float | None = None

    @property
    def promised(self) -> float:
        return self.deadline if self.promise is None else self.promise


@dataclass(frozen=True)
class Case:
    """A machine at a date: what runs, what waits and until when, and who asks.

    ``running`` are (processors, expected end), ``waiting`` the accepted jobs with
    their promised starts, in the order of these.
    """

    machine: int
    now: int
    running: tuple[tuple[int, float], ...]
    waiting: tuple[tuple[Asking, float], ...]
    new: Asking

    @property
    def jobs(self) -> list[Asking]:
        return [job for job, _ in self.waiting] + [self.new]

    @property
    def promised(self) -> dict[int, float]:
        return {job.slot: start for job, start in self.waiting}


@dataclass(frozen=True)
class Answer:
    """A plan (start by slot), or None and the slot of the job that was late."""

    starts: dict[int, float] | None
    blamed: int | None = None
    tried: int = 0


def in_time(job: Asking, start: float) -> bool:
    return job.deadline == math.inf or start + job.estimate <= job.deadline


def by_least_laxity(job: Asking) -> tuple[float, int]:
    laxity = job.promised - job.estimate
    return (math.inf if math.isnan(laxity) else laxity, job.slot)


def by_earliest_deadline(job: Asking) -> tuple[float, int]:
    return (job.promised, job.slot)


def by_area(job: Asking) -> tuple[float, int]:
    return (job.estimate * job.processors, job.slot)


ORDERS = {
    "least_laxity": by_least_laxity,
    "earliest_deadline": by_earliest_deadline,
    "saf": by_area,
}


def seconds_with(case: Case, starts: dict[int, float]) -> Seconds:
    """The machine with the running jobs and jobs that start at the given dates."""
    dates = [date for job, start in case.waiting for date in (start, start + job.estimate)]
    seconds = Seconds(case.machine, case.now, case.running, dates, case.jobs)
    for job in case.jobs:
        if job.slot in starts:
            seconds.take(starts[job.slot], job.estimate, job.processors)
    return seconds


def qops(
    case: Case,
    *,
    order: str,
    k_factor: int,
    on_failure: str,
    new_job: str,
    undo: str = "placed_later",
    insertion: str = "first",
    best_by: str = "work",
    headroom: float = 0,
    patient: float = 60,
    give_up_hopeless: bool = True,
    fit: Callable[[Seconds, Asking], float] | None = None,
) -> Answer:
    """Figure 3 of Islam et al. (2003), with the choices of ``studies/islam2003/readings.md``.

    With the order ``"scheduled_start"`` it is the algorithm of the talk, slides 12 and 13.
    ``give_up_hopeless`` ends an insertion point at a job that would be late directly
    behind the jobs that stay where they are; it changes who is blamed, nothing else.
    ``headroom`` is a share of the machine, for jobs with more laxity than ``patient``; another
    way to place a job may be given instead.
    """
    key = ORDERS.get(order)
    last = None
    plans: list[tuple[float, Answer]] = []
    for point in insertion_points(len(case.waiting)):
        stay = {job.slot: start for job, start in case.waiting[:point]}
        to_place = [case.new] + [job for job, _ in case.waiting[point:]]
        if key is not None:
            to_place.sort(key=key)
        if new_job == "first" and point > 0:
            to_place.remove(case.new)
            to_place.insert(0, case.new)
        if fit is None:
            room = math.floor(headroom * (case.machine - seconds_with(case, {}).used[-1]) + 1e-9)
            fit = partial(fit_beside, case.now, room, patient)
        answer = _qops_at(case, stay, to_place, key, k_factor, undo, give_up_hopeless, point, fit)
        if answer.starts is not None:
            if insertion == "first":
                return answer
            cost = -point if insertion == "last" else cost_of(case, answer.starts, best_by)
            if not plans or cost < plans[-1][0] - 1e-9 * abs(cost):
                plans.append((cost, answer))
            continue
        last = answer
        if on_failure == "reject":
            return last
    if plans:
        return plans[-1][1]
    assert last is not None
    return last


def cost_of(case: Case, starts: dict[int, float], best_by: str) -> float:
    """What a plan costs: waits by processors, waits, or how much slack is gone."""
    cost = 0.0
    for job in case.jobs:
        wait = min(starts[job.slot] - case.now, 1e12)
        if best_by == "work":
            cost += wait * job.processors
        elif best_by == "response":
            cost += wait
        elif job.deadline < math.inf:
            cost -= math.log(job.deadline - starts[job.slot] - job.estimate + 60)
    return cost


def insertion_points(count: int) -> Iterator[int]:
    """0, N/2, 3N/4, 7N/8, ... up to the last one that is new."""
    point, previous = 0, -1
    while point != previous:
        yield point
        previous, point = point, point + (count - point) // 2


def fit_beside(now: int, room: int, patient: float, seconds: Seconds, job: Asking) -> float:
    """The earliest fit, with headroom beside a job that can wait and is in time so."""
    most = seconds.machine - seconds.used[-1]
    if room and job.deadline - now - job.estimate > patient:
        wide = replace(job, processors=max(job.processors, min(most, job.processors + room)))
        start = seconds.earliest(wide)
        if start < math.inf and in_time(job, start):
            return start
    return seconds.earliest(job)


def _qops_at(
    case: Case,
    stay: dict[int, float],
    to_place: list[Asking],
    key: Callable[[Asking], tuple[float, int]] | None,
    k_factor: int,
    undo: str,
    give_up_hopeless: bool,
    point: int,
    fit: Callable[[Seconds, Asking], float],
) -> Answer:
    placed: list[tuple[Asking, float]] = []
    violations = 0
    while to_place:
        job = to_place.pop(0)
        start = fit(seconds_with(case, stay | {j.slot: s for j, s in placed}), job)
        if in_time(job, start):
            placed.append((job, start))
            continue
        violations += 1
        hopeless = not in_time(job, seconds_with(case, stay).earliest(job))
        if violations > k_factor or (give_up_hopeless and hopeless):
            return Answer(None, job.slot, point)
        if undo == "starting_later":
            placed.sort(key=lambda entry: entry[1])
        middle = 0 if undo == "all" else len(placed) // 2
        again = [j for j, _ in placed[middle:]] + to_place
        placed = placed[:middle]
        to_place = [job, *(again if key is None else sorted(again, key=key))]
    return Answer(stay | {job.slot: start for job, start in placed}, None, point)


@dataclass(frozen=True)
class Feedback:
    """A plan, or None; the latest deadline that failed and the earliest that did not."""

    starts: dict[int, float] | None
    failed: float = math.inf
    deadline: float = math.inf


def with_deadline(case: Case, deadline: float) -> Case:
    """The same question with another deadline of the new job."""
    return replace(case, new=replace(case.new, deadline=deadline))


def feedback(case: Case, *, retry_count: int, **options: Any) -> Feedback:
    """Figure 2 of Islam et al. (2004), for a job whose deadline QoPS cannot keep."""
    start_position = case.new.deadline
    plan = qops(with_deadline(case, math.inf), **options).starts
    if plan is None:
        return Feedback(None)
    end_position = plan[case.new.slot] + case.new.estimate
    if end_position == math.inf:
        return Feedback(plan, start_position)
    end_position = max(end_position, start_position)
    for _ in range(retry_count):
        middle = (start_position + end_position) / 2
        trial = qops(with_deadline(case, middle), **options).starts
        if trial is not None:
            plan, end_position = trial, middle
        else:
            start_position = middle
    return Feedback(plan, start_position, end_position)


def msb(
    case: Case, *, price: str, fairness: bool = False, order: str = "scheduled_start"
) -> Answer:
    """Figure 1 of Islam et al. (2003): the cheapest of all positions.

    With ``fairness``, moves are weighed by slack over slack left, at least a second each. In
    a heuristic order those that a position removes are scheduled again in that.
    """
    cheapest, plan = math.inf, None
    blamed = None
    for position in range(len(case.waiting) + 1):
        starts = {job.slot: start for job, start in case.waiting[:position]}
        removed = [job for job, _ in case.waiting[position:]]
        if order != "scheduled_start":
            removed.sort(key=ORDERS[order])
        cost = 0.0
        late = None
        for job in [case.new, *removed]:
            start = seconds_with(case, starts).earliest(job)
            if not in_time(job, start):
                late = job.slot
                break
            starts[job.slot] = start
            delay = start - case.promised.get(job.slot, case.now)
            if not math.isnan(delay) and (price == "moves" or delay > 0):
                # No start at all is a delay too, longer than any other.
                weight = _unfairness(case, job) if fairness else 1
                cost += max(-1e12, min(delay, 1e12)) * job.processors * weight
        if late is not None:
            blamed = late
        elif cost < cheapest:
            cheapest, plan = cost, starts
    return Answer(plan, None if plan else blamed)


def _unfairness(case: Case, job: Asking) -> float:
    """How much dearer it is to move a job because it has used up slack."""
    if job is case.new or job.deadline == math.inf:
        return 1
    slack = job.deadline - job.arrival - job.estimate
    left = job.deadline - case.promised[job.slot] - job.estimate
    return max(slack, 1) / max(left, 1)


def mrt(case: Case, *, order: str, max_backtracks: int) -> Answer:
    """Figure 2 of Islam et al. (2003): strongly feasible partial schedules, with backtracking."""
    remaining = sorted(case.jobs, key=ORDERS[order])
    late = _late_one(case, {}, remaining)
    if late is not None:
        return Answer(None, late)
    search = _Mrt(case, max_backtracks)
    plan = search.extend({}, remaining)
    return Answer(plan, None if plan else search.blamed, search.backtracks)


class _Mrt:
    def __init__(self, case: Case, max_backtracks: int) -> None:
        self.case = case
        self.max_backtracks = max_backtracks
        self.backtracks = 0
        self.blamed: int | None = None

    def extend(self, partial: dict[int, float], remaining: list[Asking]) -> dict[int, float] | None:
        if not remaining:
            return partial
        for job in remaining:
            others = [other for other in remaining if other is not job]
            start = seconds_with(self.case, partial).earliest(job)
            extended = {**partial, job.slot: start}
            late = _late_one(self.case, extended, others)
            if late is None:
                plan = self.extend(extended, others)
                if plan is not None or self.exhausted:
                    return plan
            else:
                self.blamed = late
            self.backtracks += 1
            if self.exhausted:
                return None
        return None

    @property
    def exhausted(self) -> bool:
        return self.backtracks > self.max_backtracks


def _late_one(case: Case, partial: dict[int, float], remaining: list[Asking]) -> int | None:
    """The first job that would be late as the next one."""
    seconds = seconds_with(case, partial)
    for job in remaining:
        if not in_time(job, seconds.earliest(job)):
            return job.slot
    return None


def some_order(case: Case) -> dict[int, float] | None:
    """A plan that meets all deadlines, if there is any: try every order, each job at its earliest.

    The jobs of such a plan can be placed again by their starts, each at its
    earliest fit, and none will start later; so no plan is overlooked.
    """

    def extend(partial: dict[int, float], remaining: list[Asking]) -> dict[int, float] | None:
        if not remaining:
            return partial
        # Reservations to come only make it later, so who is late now will be late.
        if _late_one(case, partial, remaining) is not None:
            return None
        for job in remaining:
            start = seconds_with(case, partial).earliest(job)
            others = [other for other in remaining if other is not job]
            plan = extend({**partial, job.slot: start}, others)
            if plan is not None:
                return plan
        return None

    return extend({}, case.jobs)


def check_plan(case: Case, starts: dict[int, float]) -> None:
    """A plan must have every job, in time, and never more processors than there are."""
    assert set(starts) == {job.slot for job in case.jobs}
    seconds = seconds_with(case, starts)
    assert max(seconds.used) <= case.machine
    for job in case.jobs:
        assert starts[job.slot] >= case.now
        assert in_time(job, starts[job.slot]), f"{job} starts at {starts[job.slot]}"
