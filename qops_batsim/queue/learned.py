"""What a back-test has learned for later forecasts: corrections, and when to warn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.files import decoded, read_bytes
from qops_batsim.queue.calibration import DAY, WAITS, Correction
from qops_batsim.queue.queue_load import QueueLoad
from qops_batsim.queue.scores import BLOCK, KeptPromises, PastForecast, coverage
from qops_batsim.workload.other_json import refuse_other_json

TOLD = 80.0
"""Percentage that the wider interval is told to hold."""


class Lately(msgspec.Struct, frozen=True, kw_only=True):
    """Share of starts (%) in the intervals of 80 % in the last four weeks of a back-test, with its
    95 % interval, in which jobs of a day are one observation.
    """

    coverage_80: float
    coverage_80_interval: tuple[float, float]
    forecasts: int


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What a back-test has learned.

    Attributes
    ----------
    corrections
        By how much quantiles are moved, by wait; none if too little was known.
    of_medians
        By how much the median is moved to be each of them, where the queue is unlike the past.
    by_plan
        Whether these are of the plan by limits, since the simulations were no better than it.
    end_by_plan
        Whether the plan by limits kept as many ends as those at 95 %, and these were earlier.
    usual
        How much waits at most at nearly all past moments, None if that is not known.
    lately
        How true forecasts were in the end, if that is known.
    by_node
        Whether these were made node by node.
    """

    corrections: list[Correction] = []
    of_medians: list[Correction] = []
    by_plan: bool = False
    end_by_plan: bool = False
    usual: QueueLoad | None = None
    lately: Lately | None = None
    by_node: bool = False

    def warnings(self) -> list[str]:
        """Return, as sentences, why forecasts are to be trusted less."""
        found = []
        if self.by_plan:
            found.append(
                "the back-test found the simulations no better than the plan by time limits "
                "calibrated in the same way, so that is what is told"
            )
        if self.lately is not None:
            low, high = self.lately.coverage_80_interval
            if not low <= TOLD <= high:
                found.append(
                    f"of late, {self.lately.coverage_80:.0f} % [{low:.0f}, {high:.0f}] of the "
                    "starts came in the intervals of 80 % (the last four weeks of the back-test)"
                )
        return found


class _Backtest(Learned, frozen=True, kw_only=True):
    """The fields that are read from the JSON of a back-test."""

    scheduler: str
    corrections: list[Correction]


def read_learned(path: Path, scheduler: str) -> Learned:
    """Read what a back-test has learned from what `queue backtest --json` wrote; raise InputError
    if it is of another scheduler.
    """
    content = read_bytes(path, what="a back-test")
    what = "the output of `queue backtest --json`"

    try:
        found = decoded(content, msgspec.json.Decoder(_Backtest), path, what)
    except InputError:
        refuse_other_json(content, str(path), what)
        raise
    if found.scheduler != scheduler:
        raise InputError(
            f"{path}: the back-test is of scheduler {shown(found.scheduler)}; one of "
            f"{shown(scheduler)}, the scheduler of this forecast, is expected"
        )
    waits = (
        [each.wait for each in each_kind] for each_kind in (found.corrections, found.of_medians)
    )
    if any(each not in ([], list(WAITS)) for each in waits):
        raise InputError(
            f"{path}: the corrections are for other waits than those of this version; the output "
            "of its own `queue backtest --json` is expected"
        )
    return found


def lately_of(told: Sequence[PastForecast]) -> Lately | None:
    """Return how true forecasts were in the last four weeks; None if they are of a single day."""
    latest = [each for each in told if each.now > told[-1].now - BLOCK]
    of = coverage(latest, block=DAY)
    if of.coverage_80_interval is None:
        return None
    return Lately(
        coverage_80=of.coverage_80,
        coverage_80_interval=of.coverage_80_interval,
        forecasts=of.forecasts,
    )


def is_better(kept: KeptPromises | None) -> bool:
    """Return whether the plan by limits kept as many promised ends, and these were earlier."""
    if kept is None:
        return False
    return kept.plan_kept >= kept.kept and kept.plan_slack < kept.slack
