"""What a deadline scheduler would have promised to one more job, and at what price."""

from __future__ import annotations

import math

import msgspec

from qops_batsim.advice.history import DecisionHistory
from qops_batsim.advice.plan_asker import ANY_OFFER, Answer, PlanAsker, Request
from qops_batsim.advice.prices import Price, PriceList
from qops_batsim.errors import InputError
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.timing import PLAN_TOLERANCE


class Possible(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline that the scheduler would have promised.

    Attributes
    ----------
    deadline
        Date (seconds, absolute).
    start, end
        Promised start and expected end (seconds, absolute).
    price
        What the job would pay for it.
    killed
        Full ids of the running jobs that would be killed for it, to be run again.
    """

    deadline: float
    start: float | None
    end: float | None
    price: Price | None
    killed: list[str] = []


class Desk:
    """Says which deadlines a job could have, and at what price.

    Parameters
    ----------
    asker
        Answers for the scheduler.
    request
        What the user asks for.
    prices
        What deadlines cost.
    of_user
        Whether the deadline is the user's own; an artificial one costs nothing.
    """

    def __init__(
        self, asker: PlanAsker, request: Request, prices: PriceList, *, of_user: bool = True
    ) -> None:
        self._asker = asker
        self._of_user = of_user
        self._request = request
        self._prices = prices

    def price(self, deadline: float | None) -> Price | None:
        """Return what the job pays for a deadline (seconds, absolute)."""
        asked = self._request
        charged = deadline if self._of_user else None
        return self._prices.price(asked.processors, asked.run_time, asked.submission, charged)

    def earliest(self) -> Possible | None:
        """Return the earliest deadline that is granted.

        None if there is none, or the job has no estimate. See
        :meth:`~qops_batsim.advice.plan_asker.PlanAsker.earliest_deadline`.
        """
        if self._request.run_time == math.inf:
            return None
        found = self._asker.earliest_deadline(self._request)
        return None if found is None else self.possible(*found)

    def cheapest(self, latest: float | None, earliest: Possible | None) -> Possible | None:
        """Return the latest deadline that the user takes and the scheduler promises."""
        if latest is None or earliest is None:
            return None
        if latest > earliest.deadline:
            answer = self._asker.ask(self._request._replace(deadline=latest, tolerance=0.0))
            if answer.admitted:
                return self.possible(latest, answer)
        return earliest if earliest.deadline <= latest + PLAN_TOLERANCE else None

    def possible(self, deadline: float, answer: Answer) -> Possible:
        """Return a granted deadline with its price."""
        return Possible(
            deadline=deadline,
            start=answer.start,
            end=answer.end,
            price=self.price(deadline),
            killed=answer.killed,
        )


class Quotation(msgspec.Struct, frozen=True, kw_only=True):
    """What a scheduler would have answered at one moment of a run.

    Attributes
    ----------
    run, scheduler
        Of which run.
    time
        The moment (seconds).
    machine_processors, free_processors
        Processors of the machine, and those that no job used.
    running_jobs, waiting_jobs
        Numbers of jobs.
    processors, run_time, requested_deadline
        What was asked for (seconds; the deadline absolute, None for none).
    admitted
        Whether the job would be admitted as requested.
    reason, blamed
        Why not, and the job whose deadline stood in the way if it is not the own one.
    granted
        The requested deadline if it would be promised, else None.
    offered
        The deadline that the scheduler itself would offer instead, else None.
    earliest
        The earliest deadline that would be promised; None if there is none.
    moved
        Jobs that would get another start, if admitted as requested: promised start
        before and after (seconds).
    charges_unknown
        Why there are no QoS charges; empty if there are.
    """

    run: str
    scheduler: str
    time: float
    machine_processors: int
    free_processors: int
    running_jobs: int
    waiting_jobs: int
    processors: int
    run_time: float
    requested_deadline: float | None
    admitted: bool
    reason: str = ""
    blamed: str | None = None
    granted: Possible | None = None
    offered: Possible | None = None
    earliest: Possible | None = None
    moved: dict[str, tuple[float | None, float | None]] = {}
    charges_unknown: str = ""


def quote(
    history: DecisionHistory,
    time: float,
    *,
    processors: int,
    run_time: float,
    deadline: float | None,
    prices: PriceList,
    before: bool = False,
) -> Quotation:
    """Ask what the scheduler would have answered at one moment; nothing is changed.

    Parameters
    ----------
    history
        The run.
    time
        The moment (seconds), after all that happened at it.
    processors, run_time
        What the job needs (seconds).
    deadline
        Seconds from ``time`` to the requested deadline; None for none.
    prices
        What deadlines cost.
    before
        Ask before anything happened at ``time``.

    Raises
    ------
    InputError
        The moment is outside the run, the job wider than the machine, or a number out of
        range.
    """
    machine_size = history.header.processors
    if not 1 <= processors <= machine_size:
        raise InputError(
            f"processors is {processors}; a number from 1 to {machine_size}, the size of the "
            f"machine of {history.name}, is expected"
        )
    for name, value in (("run time", run_time), ("deadline", deadline)):
        if value is not None and not 0 < value <= MAX_SECONDS:
            raise InputError(
                f"{name} is {value:g} s; more than 0, and up to {MAX_SECONDS:g} s, is expected"
            )
    state = history.state_at(time, before=before)
    asker = PlanAsker(history, state, time)
    date = math.inf if deadline is None else time + deadline
    request = Request(processors, run_time, date, time, ANY_OFFER)
    desk = Desk(asker, request, prices)
    answer = asker.ask(request)
    as_requested = answer.admitted and answer.offered is None
    offered = None if answer.offered is None else desk.possible(answer.offered, answer)
    return Quotation(
        run=history.name,
        scheduler=history.header.scheduler,
        time=time,
        machine_processors=machine_size,
        free_processors=asker.free_processors,
        running_jobs=len(state.running),
        waiting_jobs=len(state.waiting),
        processors=processors,
        run_time=run_time,
        requested_deadline=None if deadline is None else date,
        admitted=as_requested,
        reason=answer.reason,
        blamed=None if as_requested else answer.blamed,
        granted=desk.possible(date, answer) if as_requested and deadline is not None else None,
        offered=offered,
        earliest=desk.earliest(),
        moved=answer.moved if as_requested else {},
        charges_unknown=prices.unknown,
    )
