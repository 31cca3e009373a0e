import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, read_workload
from qops_batsim.shipped import find_input
from qops_batsim.workload import (
    PRESETS,
    Workload,
    format_workload,
    generate_workload,
    parse_workload,
)
from qops_batsim.workload.synthetic import DeadlineRule
from support.shipped_inputs import shipped_workloads

LOGS = {
    "ctc-sp2": "CTC-SP2-1996-rebuilt.swf.gz",
    "sdsc-sp2": "SDSC-SP2-1998-rebuilt.swf.gz",
    "kth-sp2": "KTH-SP2-1996-2.swf.gz",
}


def run_times(workload: Workload) -> list[float]:
    return [workload.profiles[job.profile]["delay"] for job in workload.jobs]


@pytest.mark.parametrize("name", sorted(shipped_workloads()))
def test_shipped_workloads_are_what_the_generator_makes(name: str) -> None:
    path = find_input(name, "workloads")
    content = path.read_bytes()
    assert len(content) < 250_000
    assert content == format_workload(shipped_workloads()[name]()).encode()


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_same_arguments_same_file_other_seed_another(preset: str) -> None:
    first = format_workload(generate_workload(preset, jobs=50, seed=4))
    assert first == format_workload(generate_workload(preset, jobs=50, seed=4))
    assert first != format_workload(generate_workload(preset, jobs=50, seed=5))


@given(
    preset=st.sampled_from(sorted(PRESETS)),
    load=st.floats(0.05, 3),
    seed=st.integers(0, 100),
    processors=st.integers(1, 2000),
)
def test_offered_load_is_as_asked(preset: str, load: float, seed: int, processors: int) -> None:
    workload = generate_workload(preset, jobs=300, seed=seed, load=load, processors=processors)
    assert workload.offered_load == pytest.approx(load, rel=0.01)


def test_load_defaults_to_that_of_the_log() -> None:
    kth = generate_workload("kth-sp2", jobs=500, seed=1)
    assert kth.offered_load == pytest.approx(0.689, rel=0.01)
    batch = generate_workload("lublin-batch", jobs=500, seed=1)
    assert batch.provenance["offered_load"] is None


def test_jobs_are_rigid_delay_jobs_with_walltimes() -> None:
    workload = generate_workload("kth-sp2", jobs=400, seed=2)
    workload = parse_workload(format_workload(workload), source="again")
    assert [job.id for job in workload.jobs] == [str(number) for number in range(1, 401)]
    assert workload.processors == 100
    dates = [job.submission_time for job in workload.jobs]
    assert dates == sorted(dates)
    values = PRESETS["kth-sp2"].estimates.values
    for job, run_time in zip(workload.jobs, run_times(workload), strict=True):
        assert 1 <= job.processors <= 100
        assert float(run_time).is_integer()
        assert 1 <= run_time <= (job.walltime or 0)
        assert job.walltime in values
        assert job.qos is None


def test_exact_estimates_and_deadlines_leave_the_jobs_as_they_are() -> None:
    arguments = {"preset": "sdsc-sp2", "jobs": 600, "seed": 9}
    plain = generate_workload(**arguments)
    exact = generate_workload(**arguments, exact_estimates=True)
    rule = DeadlineRule(share=0.25, stretch=(1.5, 3.0))
    dated = generate_workload(**arguments, deadlines=rule)
    for other in (exact, dated):
        assert run_times(other) == run_times(plain)
        for job, same, run_time in zip(plain.jobs, other.jobs, run_times(plain), strict=True):
            assert same.submission_time == job.submission_time
            assert same.processors == job.processors
            assert same.walltime is None
            assert same.estimate == run_time
    chosen = 0
    for job, run_time in zip(dated.jobs, run_times(dated), strict=True):
        assert job.qos is not None
        assert job.qos.has_user_deadline == (True if job.qos.deadline is not None else None)
        if job.qos.deadline is not None:
            chosen += 1
            allowed = job.qos.deadline - job.submission_time
            assert 1.5 * run_time <= allowed <= math.ceil(3 * run_time)
    assert chosen / 600 == pytest.approx(0.25, abs=0.05)
    assert all(job.qos is None or job.qos.deadline is None for job in exact.jobs)


def test_no_deadlines_for_a_share_of_none() -> None:
    none = generate_workload("ctc-sp2", jobs=20, seed=1, deadlines=DeadlineRule(share=0))
    assert format_workload(none) == format_workload(generate_workload("ctc-sp2", jobs=20, seed=1))


def test_provenance_is_enough_to_make_the_file_again() -> None:
    rule = DeadlineRule(share=0.5, stretch=(3.0, 4.0))
    workload = generate_workload("ctc-sp2", jobs=30, seed=3, processors=64, deadlines=rule)
    told = parse_workload(format_workload(workload), source="x").provenance
    again = generate_workload(
        told["preset"],
        jobs=told["jobs"],
        seed=told["seed"],
        processors=told["processors"],
        load=told["offered_load"],
        exact_estimates=told["exact_estimates"],
        deadlines=DeadlineRule(
            share=told["deadlines"]["share"], stretch=tuple(told["deadlines"]["stretch"])
        ),
    )
    assert format_workload(again) == format_workload(workload)
    assert told["model"]["sizes"]["serial_share"] == PRESETS["ctc-sp2"].model.sizes.serial_share


def test_one_job_is_made_as_sampled() -> None:
    made = generate_workload("kth-sp2", jobs=1, seed=1)
    assert (len(made.jobs), made.offered_load) == (1, None)


def test_tiny_workload_by_hand() -> None:
    tiny = read_workload(find_input("tiny_8", "workloads"))
    assert (len(tiny.jobs), tiny.processors) == (8, 4)
    # Job 8 is killed at its walltime, 120 of 500 s: its other 380 s are no load.
    assert tiny.offered_load == pytest.approx((1400 - 380) / (4 * 210))
    assert sum(job.processors for job in tiny.jobs if job.submission_time == 0) == 3
    assert [job.processors for job in tiny.jobs].index(4) == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"preset": "kth-sp3"}, "did you mean 'kth-sp2'?"),
        ({"jobs": 0}, "jobs is 0; a whole number from 1 to"),
        ({"processors": 0}, "processors is 0; a whole number from 1 to"),
        ({"load": -0.5}, "load is -0.5; a number from 0.001 to 1000"),
        ({"load": math.nan}, "load is nan"),
        ({"jobs": 1, "load": 0.5}, "at least 2 jobs are expected"),
        ({"seed": -3}, "seed is -3; a whole number from 0 up"),
        ({"deadlines": DeadlineRule(share=1.5)}, "deadline share is 1.5; a number from 0 to 1"),
        ({"deadlines": DeadlineRule(share=0.5, stretch=(0.5, 2.0))}, "stretch is 0.5 to 2;"),
        ({"deadlines": DeadlineRule(share=0.5, stretch=(3.0, 2.0))}, "stretch is 3 to 2;"),
    ],
)
def test_bad_arguments_are_told(changed: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        generate_workload(**({"preset": "ctc-sp2", "jobs": 10, "seed": 1} | changed))
    assert message in str(caught.value)


@pytest.mark.parametrize("preset", sorted(LOGS))
def test_presets_resemble_their_logs(preset: str, shared: Path) -> None:
    rows = np.loadtxt(shared / "traces" / LOGS[preset], comments=";", usecols=(3, 4, 8))
    run, size, requested = rows[(rows > 0).all(axis=1)].T
    made = generate_workload(preset, jobs=20_000, seed=1)
    made_run = np.array(run_times(made))
    made_size = np.array([job.processors for job in made.jobs])
    estimates = np.array([job.estimate for job in made.jobs])
    powers = 2.0 ** np.arange(10)
    assert (made_size == 1).mean() == pytest.approx((size == 1).mean(), abs=0.02)
    assert np.isin(made_size, powers).mean() == pytest.approx(
        np.isin(size, powers).mean(), abs=0.02
    )
    assert np.median(made_size) == pytest.approx(np.median(size), abs=1)
    assert made_run.mean() == pytest.approx(run.mean(), rel=0.25)
    assert np.log(made_run).mean() == pytest.approx(np.log(run).mean(), abs=0.2)
    assert estimates.mean() == pytest.approx(requested.mean(), rel=0.25)
    accuracy = np.minimum(run / requested, 1).mean()
    assert (made_run / estimates).mean() == pytest.approx(accuracy, abs=0.06)
    assert made.offered_load == pytest.approx(PRESETS[preset].offered_load, rel=0.01)
