"""Decisions a second of the Gymnasium environment, the episode's beginning among them.

    python benchmarks/bench_gymnasium.py [--episodes 5] [--jobs 500] [--load 1.0]

Printed are decisions by the clock and by CPU time, of each episode and the median.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter, process_time

import gymnasium
import numpy as np

from qops_batsim.adapters.gymnasium import ENVIRONMENT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--load", type=float, default=1.0)
    arguments = parser.parse_args()
    env = gymnasium.make(ENVIRONMENT, jobs=arguments.jobs, load=arguments.load, estimates="exact")
    admit = np.array([1, 0])
    found = []
    for episode in range(arguments.episodes + 1):
        begin, count, over = perf_counter(), 0, False
        env.reset(seed=episode)
        ready, ready_cpu = perf_counter(), process_time()
        while not over:
            _, _, over, _, _ = env.step(admit)
            count += 1
        seconds, spent = perf_counter() - ready, process_time() - ready_cpu
        whole = perf_counter() - begin
        if episode:  # the first one compiles, or loads what was compiled
            found.append((count / seconds, count / spent, count / whole))
            by_clock, by_cpu, all_in = found[-1]
            print(
                f"{count} decisions: {by_clock:,.0f} a second, {by_cpu:,.0f} a second of CPU, "
                f"{all_in:,.0f} a second with the beginning"
            )
    print("median: {:,.0f}, {:,.0f}, {:,.0f}".format(*map(median, zip(*found, strict=True))))


if __name__ == "__main__":
    main()
