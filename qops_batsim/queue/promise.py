"""When new jobs will end under the machine's own scheduler: probabilities, and a 95 % bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from qops_batsim.advice.charge_report import JobPrice, PriceList
from qops_batsim.economics.charges import ReferenceJob, SlowdownTable, category_slowdowns
from qops_batsim.economics.prices import Prices
from qops_batsim.queue.calibration import KEPT, TOLERANCE
from qops_batsim.queue.past import Past
from qops_batsim.queue.queue_quote import QueueAnswer
from qops_batsim.queue.queue_state import Ask, QueueState
from qops_batsim.queue.starts import DRAWS, ForecastBasis, simulated_starts
from qops_batsim.texts import date_text


class LikelyEnd(msgspec.Struct, frozen=True, kw_only=True):
    """When a job that is submitted now will end under the machine's own scheduler.

    Attributes
    ----------
    chance
        To end by the deadline that was asked for (0 to 1), if it uses its limit as jobs like it
        did; the share of the simulations, which no back-test corrects. None without deadline.
    end, end_date
        The earliest end that is kept with a chance of 95 %, though the job use up its limit, or
        that of the plan by limits (``by_plan``) where a back-test found that kept as often, and
        earlier: seconds since 1970, and on this machine's clock. None if that may be never, or is
        not known since the plan does not explain a wait in the queue.
    response
        From now to that end (seconds).
    price, hard_price
        Charges for that end, and for the one that an admitting scheduler promises.
    """

    chance: float | None = None
    end: float | None = None
    end_date: str | None = None
    response: float | None = None
    by_plan: bool = False
    price: JobPrice | None = None
    hard_price: JobPrice | None = None


def likely_ends(
    state: QueueState,
    basis: ForecastBasis,
    asks: Sequence[Ask],
    answers: Sequence[QueueAnswer],
    *,
    draws: int = DRAWS,
    prices: Prices = Prices(),  # noqa: B008 - it is frozen
) -> list[LikelyEnd]:
    """Forecast when new jobs will end under the machine's own scheduler; ``answers`` are a deadline
    scheduler's quotes for the same jobs.

    Slowdowns that charges follow from are those of the history. See
    :func:`~qops_batsim.queue.starts.queue_starts`.
    """
    assert basis.past is not None
    assert basis.calendar is not None
    charges = PriceList(_slowdowns(basis.past, prices), "", prices)
    to_date = basis.calendar.unix_start

    found: list[LikelyEnd] = []
    simulated = simulated_starts(state, asks, basis, draws)
    for ask, answer, new in zip(asks, answers, simulated, strict=True):
        if new.unexplained:
            found.append(LikelyEnd())
            continue

        def price(end: float, ask: Ask = ask) -> JobPrice | None:
            return charges.price(ask.processors, ask.time, state.now, end)

        chance = None
        if answer.deadline is not None:
            ends = new.starts + to_date + new.run_times
            chance = float((ends <= answer.deadline + TOLERANCE).mean())
        hard_price = None if answer.end is None else price(answer.end)
        end = new.levels[KEPT] + to_date + ask.time
        if basis.learned.end_by_plan:
            end = ask.time + (math.inf if new.told.planned is None else new.told.planned)
        by_chance: dict[str, Any] = {}
        if end < math.inf:
            by_chance = {
                "end": end,
                "end_date": date_text(end),
                "response": end - state.now,
                "by_plan": basis.learned.end_by_plan,
                "price": price(end),
            }
        found.append(LikelyEnd(chance=chance, hard_price=hard_price, **by_chance))
    return found


def _slowdowns(past: Past, prices: Prices) -> SlowdownTable:
    rows = np.flatnonzero(np.isfinite(past.starts[: past.history]))
    responses = past.ends[rows] - past.submissions[rows]
    columns = past.run_times[rows].tolist(), responses.tolist(), past.widths[rows].tolist()
    jobs = map(ReferenceJob, *columns)
    return category_slowdowns(jobs, prices.categories, bound=prices.slowdown_bound)
