"""Earliest fits with bounds are those without, while a profile only gets fuller."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from qops_batsim.scheduling.arrays import new_profile
from qops_batsim.scheduling.profile import earliest_fit, reserve
from qops_batsim.scheduling.soonest import clear, copy_bounds, new_bounds, soonest_fit

Many = Callable[[int], range]


def test_bounds_change_no_fit(many: Many) -> None:
    rng = random.Random(3)
    bounds, others = new_bounds(), new_bounds()
    for _ in many(300):
        machine, now = rng.choice([5, 64, 5000]), float(rng.randint(0, 9))
        profile = new_profile(machine, 200)
        profile.times[0] = now
        clear(bounds)
        for _ in range(60):
            processors = rng.randint(1, rng.choice([machine, max(1, machine // 8)]))
            duration = rng.choice([1.0, 32.0, 64.0, rng.uniform(1, 5e5), rng.randint(1, 900) * 1.0])
            if rng.random() < 0.02:
                duration = math.inf
            start = soonest_fit(profile, now, duration, processors, bounds)
            assert start == earliest_fit(profile, now, duration, processors)
            if rng.random() < 0.3:
                # Where others are kept, at any place that is free.
                later = start + rng.randint(0, 9)
                start = earliest_fit(profile, later, duration, processors)
            reserve(profile, start, duration, processors)
        copy_bounds(bounds, others)
        assert (bounds == others).all()
