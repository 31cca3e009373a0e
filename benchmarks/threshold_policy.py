"""A threshold policy, learnt with the Gymnasium environment in a minute, and run as a scheduler.

    python benchmarks/threshold_policy.py --seconds 60
    qops-batsim benchmark benchmarks/threshold_policy.py:Threshold:width=0.3,work=600,laxity=3600

The policy refuses a job whose processors, work and laxity all exceed thresholds: a large job that
can wait, for which many small ones would be turned away. The cross-entropy method looks for the
thresholds: of random ones around the best so far, those stay that keep the most promises on the
same episodes. The last line printed is the command with what was found.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Annotated

import numpy as np
from msgspec import Meta

from qops_batsim.adapters.steered import (
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


def thresholds(point: np.ndarray) -> tuple[float, float, float]:
    """Return thresholds of a point in the space that is searched: a share, and two logarithms."""
    return float(np.clip(point[0], 0, 1)), math.exp(point[1]), math.exp(point[2])


def learn(
    play: Callable[[np.ndarray, int], float], seconds: float, seed: int = 1
) -> tuple[np.ndarray, int]:
    """Return the mean of the best points, and how many episodes were played.

    ``play(point, episode)`` returns the reward of an episode.
    """
    generator = np.random.default_rng(seed)
    mean, deviation = np.array([0.4, 7.0, 7.0]), np.array([0.3, 2.0, 2.0])
    population, elite, episodes, played, end = 12, 4, 4, 0, time.monotonic() + seconds
    first = 1
    while time.monotonic() < end:
        points = mean + deviation * generator.standard_normal((population, 3))
        # The same episodes for all of them, others in each generation.
        rewards = [
            np.mean([play(point, first + each) for each in range(episodes)]) for point in points
        ]
        best = points[np.argsort(rewards)[-elite:]]
        mean, deviation = best.mean(axis=0), 0.9 * best.std(axis=0) + 0.1 * deviation
        played, first = played + population * episodes, first + episodes
        found = ", ".join(f"{each:.3g}" for each in thresholds(mean))
        print(f"{played} episodes: {max(rewards):.2f} % kept, thresholds {found}", flush=True)
    return mean, played


def main() -> None:
    import gymnasium

    import qops_batsim.adapters.gymnasium

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    env = gymnasium.make(
        qops_batsim.adapters.gymnasium.ENVIRONMENT,
        workload="sdsc_sp2_1000",
        jobs=150,
        load=1.3,
        estimates="exact",
    )

    def play(point: np.ndarray, episode: int) -> float:
        own = thresholds(point)
        seen, _ = env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            seen, reward, over, _, _ = env.step(np.array(act(seen, *own)))
            total += float(reward)
        return total

    mean, played = learn(play, arguments.seconds)
    never = np.array([1.0, 20.0, 20.0])  # refuses nothing, which is QoPS
    unseen = range(1_000_001, 1_000_021)
    ours, others = ([play(point, each) for each in unseen] for point in (mean, never))
    differences = np.subtract(ours, others)
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    print(
        f"{played} episodes; on 20 others: {np.mean(ours):.2f} % of the promises kept, QoPS "
        f"{np.mean(others):.2f} %, difference {differences.mean():+.2f} ± {2 * error:.2f}"
    )
    width, work, laxity = thresholds(mean)
    print(
        "qops-batsim benchmark benchmarks/threshold_policy.py:Threshold:"
        f"width={width:.3g},work={work:.0f},laxity={laxity:.0f}"
    )


if __name__ == "__main__":
    main()
