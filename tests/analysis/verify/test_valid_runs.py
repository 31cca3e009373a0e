"""What the engine does is never called wrong, however short the jobs and coarse the dates."""

import random

import pytest

from qops_batsim import run
from qops_batsim.jobs import Job, QosRequest
from qops_batsim.workload.model import Workload


def tiny_jobs(seed: int, since: float, seconds: float) -> Workload:
    """Return jobs of about so many seconds, many at the midpoints between dates of six digits."""
    rng = random.Random(seed)
    unit = 10.0 ** (len(str(int(since))) - 6)
    jobs, profiles, date = [], {}, since + rng.choice([0, unit / 2])
    for number in range(60):
        date += rng.choice([0, 0, 0, seconds * rng.random(), unit / 2, unit])
        delay = seconds * rng.choice([1, 0.5, 2, rng.random()])
        profiles[f"p{number}"] = {"type": "delay", "delay": delay}
        # Some are killed at walltimes as short, or promised deadlines as near.
        limit = delay / 2 if rng.random() < 0.1 else None
        qos = QosRequest(estimated_runtime=delay, deadline=date + rng.choice([1, 3]) * delay)
        jobs.append(Job(str(number), date, rng.randint(1, 3), f"p{number}", limit, qos))
    return Workload(jobs=jobs, profiles=profiles, processors=3)


@pytest.mark.parametrize("seconds", [1e-7, 1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("since", [1, 1000, 12_345, 1e6, 1e9])
def test_short_jobs_are_valid(tmp_path, since, seconds):
    for seed in range(4):
        workload = tiny_jobs(seed, since, seconds)
        scheduler = ("easy", "qops")[seed % 2]
        assert run(scheduler, workload, out=tmp_path / "run").violations == []
