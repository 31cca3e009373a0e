"""Random jobs with deadlines, for promises in large numbers."""

from __future__ import annotations

import numpy as np

from qops_batsim import Job, QosRequest
from qops_batsim.workload import Workload, delay_profile

PROCESSORS = 128


def random_jobs(seed: int, count: int = 5000) -> Workload:
    """Return jobs of all lengths and widths, some of which cannot wait."""
    rng = np.random.default_rng(seed)
    dates = np.cumsum(np.round(rng.exponential(250, count), 3))
    seconds = np.ceil(rng.lognormal(6, 1.8, count))
    laxities = rng.choice([0.0, 0.3, 1.0, 5.0], count) * seconds
    processors = rng.integers(1, 40, count)
    jobs, profiles = [], {}
    columns = (each.tolist() for each in (dates, seconds, laxities, processors))
    for index, (date, run_time, laxity, needed) in enumerate(zip(*columns, strict=True)):
        profile, content = delay_profile(run_time)
        profiles[profile] = content
        asked = QosRequest(deadline=date + run_time + laxity, estimated_runtime=run_time)
        jobs.append(Job(str(index), date, needed, profile, qos=asked))
    return Workload(jobs=jobs, profiles=profiles, processors=PROCESSORS)
