"""Which cases the experiments of Talby and Feitelson (1999) consist of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from qops_batsim.papers.talby1999.numbers import AVERAGE_WAIT, HEURISTIC_IMPROVEMENTS
from qops_batsim.papers.talby1999.simulator import SlotClock
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.registry import make_scheduler

MonthsBy = Literal["whole", "end", "start", "submission"]
Notice = Literal["slots", "at_once"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One set of parameters, for all months.

    ``average_waits`` (seconds): the scheduler's ``average_wait`` for each month, if not one for
    all. Preferred is every fifth job; priorities are both the user's and the political one.
    ``months_by`` is the date that says to what month a job belongs
    (:func:`~qops_batsim.papers.talby1999.runs.months_of`); ``notice`` when the scheduler gets to
    know that a job has ended: at an arrival or a slot's beginning (:class:`SlotClock`), or at
    once.
    """

    scheduler: Literal["conservative", "slack"]
    options: tuple[tuple[str, Any], ...] = ()
    average_waits: tuple[float, ...] = ()
    preferred_priority: float = 0.0
    others_priority: float = 0.0
    months_by: MonthsBy = "whole"
    notice: Notice = "slots"

    def module(self, place: int) -> DecisionModule:
        """Return the decision module for the month of this number, from 0."""
        options = dict(self.options)
        if self.average_waits:
            options["average_wait"] = self.average_waits[place]
        module = make_scheduler(self.scheduler, options)
        return SlotClock(module) if self.notice == "slots" else module


def conservative(**changes: Any) -> Case:
    """Return the case of conservative backfilling."""
    return Case(scheduler="conservative", options=(("reserve", "processors"),), **changes)


def slack(options: Mapping[str, Any] | None = None, **changes: Any) -> Case:
    """Return the case of the slack-based scheduler with the paper's parameters, but for these."""
    settings = {
        "average_wait": AVERAGE_WAIT,
        "early_gain": "promise",
        "removal": "compression",
        **(options or {}),
    }
    return Case(scheduler="slack", options=tuple(sorted(settings.items())), **changes)


BASELINE = conservative()
EQUAL = slack()
UNEQUAL = slack(preferred_priority=1.0)

CONSERVATIVE = tuple(
    conservative(months_by=months_by, notice=notice)
    for notice in get_args(Notice)
    for months_by in get_args(MonthsBy)
)
"""Conservative backfilling: how jobs are divided, when early ends are noticed."""

PLAIN = conservative(months_by="submission", notice="at_once")
"""What the paper's text leads one to simulate, without its numbers."""

HEURISTICS = {name: slack({"heuristic": name}) for name in HEURISTIC_IMPROVEMENTS}
UNEQUAL_HEURISTICS = {
    name: slack({"heuristic": name}, preferred_priority=1.0) for name in HEURISTIC_IMPROVEMENTS
}
SLACK_FACTORS = {factor: slack({"slack_factor": factor}) for factor in (0.0, 1.0, 3.0, 6.0, 9.0)}

GAPS = {gap: slack(preferred_priority=gap / 2) for gap in (0.0, 0.4, 0.8, 1.2, 1.6, 2.0)}
"""By the difference of user plus political priority between every fifth job and the others."""

OTHER_WEIGHTS = {
    weight: slack(
        {"utilization_weight": weight, "time_weight": weight, "fairness_weight": weight},
        preferred_priority=1.0,
    )
    for weight in (1.0, 0.8, 0.6, 0.4, 0.2)
}
"""By the weight of utilization, time and fairness; that of priority is 1."""

ALL_PRIORITIES = {
    level: slack(preferred_priority=level, others_priority=level) for level in (0.0, 0.5, 1.0)
}
"""By the user and political priority of all jobs."""


class Reading(NamedTuple):
    """A reading of what happens at an early end: how waiting jobs move, what they gain by it."""

    removal: str
    early_gain: str

    def case(self, factor: float, preferred: float = 0.0, *, plain: bool = False) -> Case:
        """Return the case with a slack factor and a priority of every fifth job."""
        return slack(
            {"removal": self.removal, "early_gain": self.early_gain, "slack_factor": factor},
            preferred_priority=preferred,
            months_by=PLAIN.months_by if plain else BASELINE.months_by,
            notice=PLAIN.notice if plain else BASELINE.notice,
        )

    def cases(self) -> dict[str, Case]:
        """Return the cases by which readings are compared."""
        return {
            "slack_factor_0": self.case(0.0),
            "slack_factor_3": self.case(3.0),
            "slack_factor_9": self.case(9.0),
            "unequal": self.case(3.0, 1.0),
            "plain": self.case(3.0, plain=True),
        }


READINGS = tuple(
    Reading(removal, gain)
    for gain in ("promise", "slack")
    for removal in ("compression", "cheapest")
)


def first_cases(*, quick: bool) -> list[Case]:
    """Return the cases that need no result of others."""
    cases = [*CONSERVATIVE, EQUAL]
    if quick:
        return cases
    groups: list[Mapping[Any, Case]] = [HEURISTICS, UNEQUAL_HEURISTICS]
    groups += [SLACK_FACTORS, GAPS, OTHER_WEIGHTS, ALL_PRIORITIES]
    for group in (*groups, *(reading.cases() for reading in READINGS)):
        cases += group.values()
    return list(dict.fromkeys(cases))
