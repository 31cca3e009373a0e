"""What the engine does is never called wrong, however short the jobs and coarse the dates."""

import random

import pytest

from qops_batsim import Job, QosRequest, read_run, run, verify
from qops_batsim.workload import Workload


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


@pytest.mark.parametrize("moment", [1.1e-6, 1.9e-6])
def test_moments_that_add_up_break_no_promise(tmp_path, moment):
    # Each job runs a moment longer than estimated; the last was to end when all should have.
    jobs, profiles = [], {"p": {"type": "delay", "delay": 5.0 + moment}}
    for number in range(12):
        qos = QosRequest(estimated_runtime=5.0, deadline=5.0 * (number + 1))
        jobs.append(Job(f"{number:02}", 0.0, 1, "p", qos=qos))
    workload = Workload(jobs=jobs, profiles=profiles, processors=1)
    done = run("qops", workload, out=tmp_path / "run")
    assert done.metrics["jobs_rejected"] == 0
    assert done.lateness.seconds > 10e-6
    assert done.violations == []
    # Such moments excuse no more than themselves.
    qos = tmp_path / "run_qos.csv"
    (tmp_path / "run_run.json").unlink()  # It has the digest of what is changed here.
    qos.write_text(qos.read_text().replace("accepted,,,,,30.0", "accepted,,,,,29.9"))
    (violation,) = verify(read_run(tmp_path / "run"), workloads={"w0": workload})
    assert violation.jobs == ("w0!05",)


@pytest.mark.parametrize("since", [209536743206.338226, 123456789012.3, 9.9e11])
def test_walltimes_hold_where_floats_are_coarse(tmp_path, since):
    profiles = {"p": {"type": "delay", "delay": 1000.0}}
    jobs = [Job(f"{n}", since + 7.3 * n, 1, "p", 86.88 + n / 9) for n in range(20)]
    workload = Workload(jobs=jobs, profiles=profiles, processors=3)
    done = run("easy", workload, out=tmp_path / "run")
    assert done.violations == []
    # Such dates excuse no more than their last bits.
    jobs = tmp_path / "run_jobs.csv"
    (tmp_path / "run_run.json").unlink()
    jobs.write_text(jobs.read_text().replace(",86.880000,0,", ",86.870000,0,"))
    assert {each.rule for each in verify(read_run(tmp_path / "run"))} == {"walltime"}


@pytest.mark.parametrize("seconds", [1e-7, 1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("since", [1, 1000, 12_345, 1e6, 1e9])
def test_short_jobs_are_valid(tmp_path, since, seconds):
    for seed in range(4):
        workload = tiny_jobs(seed, since, seconds)
        scheduler = ("easy", "qops")[seed % 2]
        assert run(scheduler, workload, out=tmp_path / "run").violations == []
