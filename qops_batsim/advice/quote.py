"""Quotes for one more job in a finished run: what could have been promised, at what price."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import msgspec

from qops_batsim.advice.charge_report import JobPrice, PriceList, price_list
from qops_batsim.arguments import CODE, NUMBER, SWITCH, WHOLE, one_of, takes
from qops_batsim.core.decision_events import Submitted
from qops_batsim.core.refusal import Refusal
from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.job_fields import read_hosts_asked
from qops_batsim.limits import MAX_SECONDS
from qops_batsim.running.history import (
    RUN_OR_HISTORY,
    RUNNING,
    WAITING,
    DecisionHistory,
    read_history,
)
from qops_batsim.running.plan_asker import ANY_OFFER, PlanAnswer, PlanAsker
from qops_batsim.schedulers.loading.plugins import AllowedCode
from qops_batsim.timing import PLAN_TOLERANCE


class PossibleDeadline(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline that would have been promised to a job, with its price; dates in seconds."""

    deadline: float
    start: float | None
    end: float | None
    """Expected; the start is the promised one."""
    price: JobPrice | None
    killed: list[str] = []
    """Full ids of the running jobs that would be killed for it, to be run again."""


class PricedDeadlines:
    """Finds deadlines that a scheduler would promise to a job, and their prices.

    A deadline that is not the user's own (``user_deadline`` is false) costs nothing.
    """

    def __init__(self, asker: PlanAsker, asked: Submitted, prices: PriceList) -> None:
        self._asker = asker
        self._asked = asked
        self._prices = prices

    def price(self, deadline: float | None) -> JobPrice | None:
        """Return what the job costs with this deadline (seconds on the run's clock), None if its
        run time is unknown.
        """
        asked = self._asked
        charged = None if asked.user_deadline is False else deadline
        return self._prices.price(asked.processors, asked.estimate, asked.submission, charged)

    def earliest(self) -> PossibleDeadline | None:
        """Return the earliest deadline that the scheduler would promise to the job, None if there
        is none.

        See :meth:`~qops_batsim.running.plan_asker.PlanAsker.earliest_deadline`.
        """
        earliest = self._asker.earliest_deadline(self._asked)
        return None if earliest is None else self.possible(*earliest)

    def cheapest(
        self, latest: float | None, earliest: PossibleDeadline | None
    ) -> PossibleDeadline | None:
        """Return the latest deadline up to ``latest`` that the scheduler would promise (the later,
        the cheaper), None if none is found.
        """
        if latest is None or earliest is None:
            return None
        if latest > earliest.deadline:
            asked = msgspec.structs.replace(self._asked, deadline=latest, tolerance=0.0)
            answer = self._asker.ask(asked)
            if answer.admitted:
                return self.possible(latest, answer)
        return earliest if earliest.deadline <= latest + PLAN_TOLERANCE else None

    def possible(self, deadline: float | None, answer: PlanAnswer) -> PossibleDeadline | None:
        """Return a deadline with its price and the start planned in the scheduler's ``answer``,
        None if the deadline is None.
        """
        if deadline is None:
            return None
        return PossibleDeadline(
            deadline=deadline,
            start=answer.start,
            end=answer.end,
            price=self.price(deadline),
            killed=answer.killed,
        )


class Quotation(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler of a run would have answered to one more job that was submitted at
    ``time`` (seconds).
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
    """Whether the job would be admitted as requested."""
    reason: str = ""
    """Why not, in words."""
    refusal: Refusal | None = None
    """Why not, typed."""
    blamed: str | None = None
    """The job whose deadline blocked the request, if it is not the new job's own."""
    granted: PossibleDeadline | None = None
    """The requested deadline if it would be promised."""
    offered: PossibleDeadline | None = None
    """The deadline that the scheduler itself would offer instead."""
    earliest: PossibleDeadline | None = None
    """The earliest deadline that would be promised."""
    moved: dict[str, tuple[float | None, float | None]] = {}
    """Promised start before and after of the jobs that would get another one, if admitted
    as requested."""
    charges_unknown: str = ""
    """Why there are no QoS charges, if so."""
    calendar: Calendar | None = None
    """The date of second 0, if that is known."""


@takes(
    run=RUN_OR_HISTORY,
    time=NUMBER,
    processors=WHOLE,
    run_time=NUMBER,
    deadline=NUMBER.optional,
    asks=one_of(Mapping, words="fields of a job by name").optional,
    prices=one_of(PriceList, words="a price list").optional,
    before=SWITCH,
    code=CODE,
)
def quote(
    run: str | PathLike[str] | DecisionHistory,
    time: float,
    *,
    processors: int,
    run_time: float,
    deadline: float | None = None,
    asks: Mapping[str, Any] | None = None,
    prices: PriceList | None = None,
    before: bool = False,
    code: AllowedCode = (),
) -> Quotation:
    """Return what a scheduler would have answered to one more job at a moment of a finished run.

    Parameters
    ----------
    run
        A run, its prefix, directory or ``_jobs.csv``, or its decision log.
    time
        The moment (seconds): after all events of that date, or ``before`` them.
    processors, run_time
        Size and estimated run time (seconds) of the job.
    deadline
        Requested deadline (seconds from ``time``); None: none.
    asks
        What it asks of hosts that jobs share, as in workloads: ``{"per_host": {"cores": 4}}``, with
        ``processors`` hosts; None: whole hosts.
    prices
        Prices; by default QoS charges by the slowdowns of an EASY run of the workload.
    before
        Whether the moment is before the events of its date.
    code
        Python files with schedulers that the run's files may name and that are then run; True for
        any.

    Returns
    -------
    Quotation
        The answer, and the earliest deadline that would have been promised.

    Raises
    ------
    InputError
        If the run cannot be read, promises no deadlines, or has no plan at that moment.

    Examples
    --------
    >>> from qops_batsim import run
    >>> done = run("qops", "sdsc_sp2_deadlines_500", out="out/qops")
    >>> found = quote(done, 2 * 86_400, processors=64, run_time=7200, deadline=6 * 3600)
    >>> found.admitted, round(found.earliest.deadline)
    (False, 194597)
    """
    history = run if isinstance(run, DecisionHistory) else read_history(run, code=code)
    _check(history, processors, run_time, deadline)
    hosts = None
    if asks is not None:
        if not history.header.machine:
            raise InputError(
                f"asks is {dict(asks)}, but jobs of {history.name} have whole hosts; a run on a "
                "machine whose hosts have amounts is expected"
            )
        hosts = read_hosts_asked({"res": processors, **asks}, "asks")
    asker = PlanAsker(history, history.state_at(time, before=before), time)
    asked = Submitted(
        date=time,
        job="the new job",
        submission=time,
        processors=processors,
        estimate=run_time,
        deadline=None if deadline is None else time + deadline,
        tolerance=ANY_OFFER,
        hosts=hosts,
    )

    listed = price_list(history.info) if prices is None else prices
    deadlines = PricedDeadlines(asker, asked, listed)
    answer = asker.ask(asked)
    as_requested = answer.admitted and answer.offered is None
    outcomes = [job.outcome for job in asker.state.held]

    return Quotation(
        run=history.name,
        scheduler=history.header.scheduler,
        time=time,
        machine_processors=asker.machine_size,
        free_processors=asker.free_processors,
        running_jobs=outcomes.count(RUNNING),
        waiting_jobs=outcomes.count(WAITING),
        processors=processors,
        run_time=run_time,
        requested_deadline=asked.deadline,
        admitted=as_requested,
        reason=answer.reason,
        refusal=answer.refusal,
        blamed=None if as_requested else answer.blamed,
        granted=deadlines.possible(asked.deadline if as_requested else None, answer),
        offered=deadlines.possible(answer.offered, answer),
        earliest=deadlines.earliest(),
        moved=answer.moved if as_requested else {},
        charges_unknown=listed.unknown,
        calendar=history.calendar,
    )


def _check(
    history: DecisionHistory, processors: int, run_time: float, deadline: float | None
) -> None:
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
