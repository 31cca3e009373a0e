"""Cases of Talby and Feitelson (1999), and the numbers of section 5 (``study.toml``).

Waits are averages in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from studies.specification import read_specification

SPECIFICATION = read_specification(Path(__file__).parent)


class PaperWaits(NamedTuple):
    """Average waits of a month, or of the year.

    ``conservative`` and ``slack``, the priority scheduler with equal priorities, are of section
    5.2; with every fifth job preferred (5.3) all jobs, the preferred and the others wait
    ``unequal``, ``high`` and ``low``.
    """

    conservative: float
    slack: float
    unequal: float
    high: float
    low: float

    def with_priorities(self) -> tuple[float, float, float, float]:
        """Return the waits of section 5.3."""
        return self.slack, self.unequal, self.high, self.low


NUMBERS = SPECIFICATION.numbers
"""Numbers of the paper."""

MONTHS = msgspec.convert(NUMBERS["months"], dict[str, PaperWaits])
FIRST_MONTH = min(MONTHS)
"""September has 85 jobs only, and no improvement."""

YEAR = PaperWaits(*NUMBERS["year"])

IMPROVEMENT: float = NUMBERS["improvement"]
"""Of the yearly average over conservative backfilling (%)."""

AVERAGE_WAIT: float = NUMBERS["average_wait"]
"""Average wait that the paper's priorities and slacks rest on (seconds)."""

HEURISTICS: dict[str, list[float]] = NUMBERS["heuristics"]
"""Yearly averages: equal priorities; unequal ones: all, preferred and other jobs."""

HEURISTIC_IMPROVEMENTS: dict[str, float] = NUMBERS["heuristic_improvements"]
"""With equal priorities, over conservative backfilling (%), best first."""


MonthsBy = Literal["whole", "end", "start", "submission"]
Notice = Literal["slots", "at_once"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One set of parameters, for all months.

    ``average_waits`` (seconds): the scheduler's ``average_wait`` for each month, if not one for
    all. Preferred is every fifth job; priorities are both the user's and the political one.
    ``months_by`` is the date that says to what month a job belongs
    (:func:`~studies.talby1999.runs.months_of`); ``notice`` when the scheduler gets to
    know that a job has ended: at an arrival or a slot's beginning (:class:`~.runs.SlotClock`), or
    at once. Estimates are the users', or the run times (``exact``).
    """

    scheduler: Literal["easy", "conservative", "slack"]
    options: tuple[tuple[str, Any], ...] = ()
    average_waits: tuple[float, ...] = ()
    preferred_priority: float = 0.0
    others_priority: float = 0.0
    months_by: MonthsBy = "whole"
    notice: Notice = "slots"
    exact: bool = False


def conservative(**changes: Any) -> Case:
    """Return the case of conservative backfilling."""
    return Case(scheduler="conservative", options=(("reserve", "processors"),), **changes)


def easy(**changes: Any) -> Case:
    """Return the case of EASY backfilling."""
    return Case(scheduler="easy", **changes)


BASELINE = conservative()
EXACT = conservative(exact=True)
EASY = easy()

CONSERVATIVE = tuple(
    conservative(months_by=months_by, notice=notice)
    for notice in get_args(Notice)
    for months_by in get_args(MonthsBy)
)
"""Conservative backfilling: how jobs are divided, when early ends are noticed."""

_PLAIN: dict[str, Any] = {"months_by": "submission", "notice": "at_once"}
PLAIN, PLAIN_EASY = conservative(**_PLAIN), easy(**_PLAIN)
"""Cases as the paper's text has them, without what its numbers tell of the simulator."""


class Reading(NamedTuple):
    """A reading of what happens at an early end: how waiting jobs move, and what they gain by it.

    The slack-based scheduler's cases have the paper's parameters, but for what their names say.
    """

    removal: str
    early_gain: str

    def slack(self, options: Mapping[str, Any] | None = None, **changes: Any) -> Case:
        """Return the case with these options of the scheduler, and changes of the case."""
        settings = {"average_wait": AVERAGE_WAIT, **self._asdict(), **(options or {})}
        return Case(scheduler="slack", options=tuple(sorted(settings.items())), **changes)

    @property
    def equal(self) -> Case:
        """Equal priorities."""
        return self.slack()

    @property
    def unequal(self) -> Case:
        """Every fifth job preferred."""
        return self.slack(preferred_priority=1.0)

    @property
    def plain(self) -> Case:
        """Equal priorities in a usual simulator."""
        return self.slack(**_PLAIN)

    def heuristics(self, preferred: float = 0.0) -> dict[str, Case]:
        """Return the cases by heuristic, with a priority of every fifth job."""
        return {
            name: self.slack({"heuristic": name}, preferred_priority=preferred)
            for name in HEURISTIC_IMPROVEMENTS
        }

    def slack_factors(self) -> dict[float, Case]:
        """Return the cases by slack factor."""
        return {each: self.slack({"slack_factor": each}) for each in (0.0, 1.0, 3.0, 6.0, 9.0)}

    def gaps(self) -> dict[float, Case]:
        """Return the cases by the gap, in user plus political priority, of every fifth job."""
        gaps = (0.0, 0.4, 0.8, 1.2, 1.6, 2.0)
        return {gap: self.slack(preferred_priority=gap / 2) for gap in gaps}

    def other_weights(self) -> dict[float, Case]:
        """Return the cases by the weight of utilization, time and fairness; priority's is 1."""
        names = ("utilization_weight", "time_weight", "fairness_weight")
        return {
            weight: self.slack(dict.fromkeys(names, weight), preferred_priority=1.0)
            for weight in (1.0, 0.8, 0.6, 0.4, 0.2)
        }

    def all_priorities(self) -> dict[float, Case]:
        """Return the cases by the user and political priority of all jobs."""
        return {
            level: self.slack(preferred_priority=level, others_priority=level)
            for level in (0.0, 0.5, 1.0)
        }

    def monthly(self, average_waits: Iterable[float]) -> Case:
        """Return the case with an average wait for each month, of at least 1 s."""
        return self.slack(average_waits=tuple(max(wait, 1.0) for wait in average_waits))

    def compared(self) -> dict[str, Case]:
        """Return the cases by which readings are compared."""
        factors = self.slack_factors()
        return {
            "slack_factor_0": factors[0.0],
            "slack_factor_3": factors[3.0],
            "slack_factor_9": factors[9.0],
            "unequal": self.unequal,
            "plain": self.plain,
        }

    def all_cases(self) -> list[Case]:
        """Return all cases that need no result of others."""
        groups: tuple[Mapping[Any, Case], ...] = (
            *(self.heuristics(), self.heuristics(1.0), self.slack_factors(), self.gaps()),
            *(self.other_weights(), self.all_priorities(), self.compared()),
        )
        return [case for group in groups for case in group.values()]


CHOSEN = Reading("compression", "promise")
"""The only reading for which section 4.8 holds: a slack factor of 0 is conservative backfilling."""

LITERAL = Reading("cheapest", "slack")
"""Section 4.2, word for word."""

BOTH = {"chosen": CHOSEN, "literal": LITERAL}
READINGS = (CHOSEN, Reading("cheapest", "promise"), Reading("compression", "slack"), LITERAL)


def first_cases(*, quick: bool) -> list[Case]:
    """Return the cases that need no result of others."""
    cases = [*CONSERVATIVE, EXACT, EASY, *([] if quick else [PLAIN_EASY])]
    for reading in BOTH.values():
        cases += [reading.equal] if quick else reading.all_cases()
    if not quick:
        cases += [case for reading in READINGS for case in reading.compared().values()]
    return list(dict.fromkeys(cases))


PROCESSORS = 128
"""The paper's machine; the log's own has 100."""
