"""A threshold policy, learnt with the Gymnasium environment in a minute (README.md).

    python studies/threshold_policy [--seconds 60]
    python studies/threshold_policy --quick

The cross-entropy method looks for the thresholds: of random ones around the best so far, those stay
that keep the most promises on the same episodes. The last line printed is the command with what was
found. ``--quick`` learns nothing, and compares the thresholds of ``study.toml`` with QoPS.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.adapters import ENVIRONMENT
from studies.shared import arguments, run_main, settings_of
from studies.threshold_policy.policy import act

NEVER = np.array([1.0, 20.0, 20.0])
"""A point that refuses nothing, which is QoPS."""


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
    parser = arguments(__file__, __doc__)
    parser.add_argument("--seconds", type=float, help="of learning (default: those of study.toml)")
    asked = parser.parse_args()
    settings = settings_of(__file__)
    env = gymnasium.make(ENVIRONMENT, **settings["environment"])

    def play(point: np.ndarray, episode: int) -> float:
        own = thresholds(point)
        seen, _ = env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            seen, reward, over, _, _ = env.step(np.array(act(seen, *own)))
            total += float(reward)
        return total

    if asked.quick:
        known = settings["found"]
        point = np.array([known["width"], math.log(known["work"]), math.log(known["laxity"])])
        said = "thresholds of study.toml"
    else:
        point, played = learn(play, asked.seconds or settings["seconds"])
        said = f"{played} episodes"
    unseen = range(1_000_001, 1_000_001 + settings["unseen"])
    ours, others = ([play(each, episode) for episode in unseen] for each in (point, NEVER))
    differences = np.subtract(ours, others)
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    print(
        f"{said}; on {len(unseen)} others: {np.mean(ours):.2f} % of the promises kept, QoPS "
        f"{np.mean(others):.2f} %, difference {differences.mean():+.2f} ± {2 * error:.2f}"
    )
    width, work, laxity = thresholds(point)
    print(
        "qops-batsim study run benchmark --out out/benchmark "
        "studies/threshold_policy/policy.py:Threshold:"
        f"width={width:.3g},work={work:.0f},laxity={laxity:.0f}"
    )


if __name__ == "__main__":
    run_main(main)
