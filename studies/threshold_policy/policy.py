"""A threshold policy as a scheduler: QoPS that refuses large jobs which can wait.

    qops-batsim run studies/threshold_policy/policy.py:Threshold --set width=0.3 --set work=600

A job whose processors, work and laxity all exceed thresholds is refused: a large job that can wait,
for which many small ones would be turned away.
"""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta

from qops_batsim.adapters import (
    ADMIT,
    FEATURES,
    LEAST_LAXITY,
    REFUSE,
    Action,
    Observation,
    Steered,
    SteeredOptions,
)

PROCESSORS, WORK, LEFT, ESTIMATE = map(
    FEATURES.index, ("processors", "work", "time_left", "estimate")
)


class ThresholdOptions(SteeredOptions, frozen=True, kw_only=True):
    """Thresholds; infinite ones refuse nothing."""

    width: Annotated[float, Meta(ge=0, description="share of the machine")] = 1.0
    work: Annotated[
        float,
        Meta(ge=0, description="seconds of the whole machine", extra={"unit": "s"}),
    ] = 1e9
    laxity: Annotated[
        float, Meta(ge=0, description="time left less estimate", extra={"unit": "s"})
    ] = 0.0


class Threshold(Steered):
    """QoPS that refuses large jobs which can wait."""

    summary = "QoPS without large jobs that can wait"
    Options = ThresholdOptions
    options: ThresholdOptions

    def act(self, observation: Observation) -> Action:
        own = self.options
        return act(observation, own.width, own.work, own.laxity)


def act(seen: Observation, width: float, work: float, laxity: float) -> Action:
    """Return the action of a policy with these thresholds."""
    left = math.expm1(seen[LEFT]) - math.expm1(seen[ESTIMATE])
    large = seen[PROCESSORS] > width and math.expm1(seen[WORK]) > work
    return (REFUSE if large and left > laxity else ADMIT), LEAST_LAXITY
