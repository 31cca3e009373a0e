"""When new jobs will end under the machine's own scheduler: probabilities, and a 95 % bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from qops_batsim.advice.charge_report import JobPrice, PriceList
from qops_batsim.economics.charges import ReferenceJob, SlowdownTable, category_slowdowns
from qops_batsim.economics.prices import Prices
from qops_batsim.queue.backtest import LEVELS, TOLERANCE, PastForecast
from qops_batsim.queue.past import Past
from qops_batsim.queue.queue_forecast import ForecastBasis, starts_of_asked
from qops_batsim.queue.queue_plan import AskedJob
from qops_batsim.queue.queue_quote import QueueAnswer
from qops_batsim.queue.queue_state import QueueState
from qops_batsim.texts import date_text

KEPT = 0.95
"""The chance with which such a promise is kept."""

_PLACE = LEVELS.index(KEPT)


class LikelyEnd(msgspec.Struct, frozen=True, kw_only=True):
    """When a job that is submitted now will end under the machine's own scheduler.

    Attributes
    ----------
    chance
        To end by the deadline that was asked for (0 to 1), if it uses its limit as jobs like it
        did; the share of the simulations, which no back-test corrects. None without deadline.
    end, end_date
        The earliest end that is kept with a chance of 95 %, though the job use up its limit:
        seconds since 1970, and on this machine's clock. None if that may be never, or is not
        known since the plan does not explain a wait in the queue.
    response
        From now to that end (seconds).
    price, hard_price
        Charges for that end, and for the one that an admitting scheduler promises.
    """

    chance: float | None
    end: float | None
    end_date: str | None
    response: float | None
    price: JobPrice | None
    hard_price: JobPrice | None


_NOT_KNOWN = LikelyEnd(
    chance=None, end=None, end_date=None, response=None, price=None, hard_price=None
)


def likely_ends(
    state: QueueState,
    basis: ForecastBasis,
    answers: Sequence[QueueAnswer],
    *,
    draws: int = 200,
    user: str = "",
    prices: Prices = Prices(),  # noqa: B008 - it is frozen
) -> list[LikelyEnd]:
    """Forecast when new jobs will end under the machine's own scheduler; ``answers`` are a deadline
    scheduler's quotes for the same jobs.

    Slowdowns that charges follow from are those of the history. See
    :func:`~qops_batsim.queue.queue_forecast.forecast_queue`.
    """
    asked = [AskedJob(processors=each.processors, limit=each.time, user=user) for each in answers]
    charges, now = PriceList(_slowdowns(basis.past, prices), "", prices), state.now
    found, to_date = [], basis.calendar.unix_start
    simulated = starts_of_asked(state, basis, asked, draws)
    for answer, each in zip(answers, simulated, strict=True):
        if each.unexplained:
            found.append(_NOT_KNOWN)
            continue
        starts = each.starts + to_date
        chance = None
        if answer.deadline is not None:
            chance = float((starts + each.run_times <= answer.deadline + TOLERANCE).mean())
        end = each.levels[_PLACE] + to_date + answer.time
        is_known = end < math.inf
        width, limit = answer.processors, answer.time
        found.append(
            LikelyEnd(
                chance=chance,
                end=end if is_known else None,
                end_date=date_text(end) if is_known else None,
                response=end - now if is_known else None,
                price=charges.price(width, limit, now, end) if is_known else None,
                hard_price=None
                if answer.end is None
                else charges.price(width, limit, now, answer.end),
            )
        )
    return found


def _slowdowns(past: Past, prices: Prices) -> SlowdownTable:
    rows = np.flatnonzero(np.isfinite(past.starts[: past.history]))
    responses = past.ends[rows] - past.submissions[rows]
    columns = past.run_times[rows].tolist(), responses.tolist(), past.widths[rows].tolist()
    jobs = map(ReferenceJob, *columns)
    return category_slowdowns(jobs, prices.categories, bound=prices.slowdown_bound)


class KeptPromises(msgspec.Struct, frozen=True, kw_only=True):
    """How many ends that were to be kept with a chance of 95 % were kept in a back-test; shares in
    percent.

    Attributes
    ----------
    promises
        How many there were: some jobs perhaps never start.
    kept
        Share of ends that came in time.
    started
        Share of starts that left the whole limit until the promised end.
    slack
        Mean time from the end to the promised one (seconds).
    plan_kept, plan_slack
        The same of ends in the plan by time limits.
    """

    promises: int
    kept: float
    started: float
    slack: float
    plan_kept: float
    plan_slack: float


def kept_promises(told: Sequence[PastForecast], past: Past) -> KeptPromises | None:
    """Return how many ends would have been kept if each forecast had promised its job an end with a
    chance of 95 %; None without forecasts of that.
    """
    told = [each for each in told if each.levels[_PLACE] < math.inf]
    if not told:
        return None
    rows = np.array([each.row for each in told])
    limits, ends = past.limits[rows], past.ends[rows]
    by, plan = (
        np.array(dates) + limits
        for dates in ([each.levels[_PLACE] for each in told], [each.planned for each in told])
    )
    starts = past.starts[rows]

    def share(held: np.ndarray) -> float:
        return float(100.0 * held.mean())

    return KeptPromises(
        promises=len(told),
        kept=share(ends <= by + TOLERANCE),
        started=share(starts + limits <= by + TOLERANCE),
        slack=float((by - ends).mean()),
        plan_kept=share(ends <= plan + TOLERANCE),
        plan_slack=float((plan - ends).mean()),
    )
