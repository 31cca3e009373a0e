import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError
from qops_batsim.workload import PRESETS
from qops_batsim.workload.lublin import (
    BUCKETS_A_DAY,
    SECONDS_A_DAY,
    RunTimeModel,
    SizeModel,
    gamma_table,
    random_stream,
    sample_sizes_and_run_times,
    sample_submissions,
)

BATCH = PRESETS["lublin-batch"].model

SIZES = SizeModel(
    serial_share=0.3,
    power_of_two_share=0.5,
    smallest_log2=1.0,
    middle_log2=3.0,
    largest_log2=5.0,
    lower_stage_share=0.5,
)


def test_gamma_table_agrees_with_closed_forms() -> None:
    value = np.linspace(0.01, 15, 200)
    exponential = gamma_table(1.0, 2.0).cdf(value)
    erlang = gamma_table(3.0, 1.0).cdf(value)
    half = gamma_table(0.5, 2.0).cdf(value)  # chi-squared with one degree of freedom
    assert np.abs(exponential - (1 - np.exp(-value / 2))).max() < 1e-5
    assert np.abs(erlang - (1 - np.exp(-value) * (1 + value + value**2 / 2))).max() < 1e-5
    expected = [math.erf(math.sqrt(x / 2)) for x in value]
    assert np.abs(half - expected).max() < 1e-5


@given(shape=st.floats(0.05, 1000), scale=st.floats(0.01, 100))
def test_gamma_quantile_inverts_the_distribution_function(shape: float, scale: float) -> None:
    table = gamma_table(shape, scale)
    probability = np.linspace(0.001, 0.999, 99)
    assert table.cdf(table.quantile(probability)) == pytest.approx(probability, abs=1e-9)
    mean = table.quantile((np.arange(20_000) + 0.5) / 20_000).mean()
    assert mean == pytest.approx(shape * scale, rel=0.01)


def test_sizes_by_hand() -> None:
    # kind: below 0.3 serial, below 0.8 power of two. Position 0.25 is log2 2, 0.7 is 3.8.
    kind = np.array([0.29, 0.31, 0.31, 0.9, 0.9, 0.9])
    position = np.array([0.7, 0.25, 0.7, 0.25, 0.7, 0.999999])
    assert SIZES.sizes(kind, position, 32).tolist() == [1, 4, 16, 4, 14, 32]


def test_sizes_stay_powers_of_two_within_a_machine_that_is_none() -> None:
    model = SIZES.for_machine(100)
    position = np.linspace(0, 1, 1001)
    powers = model.sizes(np.full(1001, 0.5), position, 100)
    others = model.sizes(np.full(1001, 0.9), position, 100)
    assert set(powers.tolist()) <= {2, 4, 8, 16, 32, 64}
    assert others.max() == 100
    assert others.min() >= 2


@given(processors=st.integers(1, 100_000), name=st.sampled_from(sorted(PRESETS)))
def test_jobs_fit_any_machine(processors: int, name: str) -> None:
    model = PRESETS[name].model.for_machine(processors)
    sizes, run_times = sample_sizes_and_run_times(model, 200, 5)
    assert sizes.min() >= 1
    assert sizes.max() <= processors
    assert run_times.min() >= 1
    assert run_times.max() <= model.run_times.longest


def test_run_times_by_hand() -> None:
    # Both kinds are narrow: e^2 = 7.4 s and e^6 = 403 s. One processor: 90 % short; 10: none.
    model = RunTimeModel(
        short_shape=40_000.0,
        short_scale=2 / 40_000,
        long_shape=40_000.0,
        long_scale=6 / 40_000,
        short_share_slope=-0.1,
        short_share_base=1.0,
        longest=10_000,
    )
    sizes = np.array([1, 1, 5, 5, 10, 20])
    kind = np.array([0.89, 0.91, 0.49, 0.51, 0.0, 0.5])
    run_times = model.run_times(sizes, kind, np.full(6, 0.5))
    assert run_times.tolist() == [7, 403, 7, 403, 403, 403]
    short_only = msgspec.structs.replace(model, longest=20)
    assert set(short_only.run_times(np.array([5]), np.array([0.9]), np.array([0.5]))) == {7}


def test_shares_of_a_large_sample_are_those_of_the_parameters() -> None:
    sizes, run_times = sample_sizes_and_run_times(BATCH, 50_000, 3)
    assert (sizes == 1).mean() == pytest.approx(BATCH.sizes.serial_share, abs=0.01)
    powers = (sizes & (sizes - 1)) == 0
    least = BATCH.sizes.serial_share + BATCH.sizes.power_of_two_share
    assert least - 0.005 < powers.mean() < least + 0.03
    # Published means of the logarithm: 6.57 x 0.823 and 639.1 x 0.0156, about 0.66 to 0.34.
    share = np.clip(0.6986 - 0.003 * sizes, 0, 1).mean()
    expected = share * 6.57 * 0.823 + (1 - share) * 639.1 * 0.0156
    assert np.log(run_times + 0.5).mean() == pytest.approx(expected, abs=0.05)
    large = np.log(run_times[sizes >= 64]).mean()
    assert large > np.log(run_times[sizes == 1]).mean() + 0.3


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_daily_cycle_has_mean_one_and_is_quiet_at_night(name: str) -> None:
    weights = PRESETS[name].model.arrivals.weights()
    assert weights.shape == (BUCKETS_A_DAY,)
    assert weights.mean() == pytest.approx(1)
    assert 2 * 9 <= weights.argmax() < 2 * 18
    assert 2 * 1 <= weights.argmin() < 2 * 7


def test_arrivals_follow_the_daily_cycle() -> None:
    submitted = sample_submissions(PRESETS["kth-sp2"].model, 40_000, 2)
    assert (np.diff(submitted) >= 0).all()
    counts = np.bincount(submitted % SECONDS_A_DAY // 1800, minlength=BUCKETS_A_DAY)
    weights = PRESETS["kth-sp2"].model.arrivals.weights()
    assert np.abs(counts / counts.mean() - weights).max() < 0.25


@given(time=st.floats(0, 1e8), step=st.floats(0, 1e6))
def test_clock_never_runs_backwards_and_agrees_at_midnight(time: float, step: float) -> None:
    arrivals = BATCH.arrivals
    before, after, midnight = arrivals.to_clock(np.array([time, time + step, 86_400.0 * 7]))
    assert before <= after
    assert midnight == 86_400 * 7
    assert abs(before - time) < SECONDS_A_DAY


@given(period=st.floats(1, 1e9), seed=st.integers(0, 50), jobs=st.integers(2, 40))
def test_period_is_as_asked(period: float, seed: int, jobs: int) -> None:
    submitted = sample_submissions(BATCH, jobs, seed, period=period)
    assert submitted[-1] - submitted[0] == pytest.approx(period, abs=2)


def test_same_seed_same_jobs_other_seed_others() -> None:
    first = sample_sizes_and_run_times(BATCH, 100, 1)
    again = sample_sizes_and_run_times(BATCH, 100, 1)
    other = sample_sizes_and_run_times(BATCH, 100, 2)
    assert (first[1] == again[1]).all()
    assert (first[1] != other[1]).any()
    assert random_stream(1, 0).random() != random_stream(1, 1).random()


def test_longer_sample_begins_with_the_shorter() -> None:
    short = sample_sizes_and_run_times(BATCH, 100, 1)
    long = sample_sizes_and_run_times(BATCH, 300, 1)
    assert (long[0][:100] == short[0]).all()
    assert (long[1][:100] == short[1]).all()


def test_negative_seed_and_period_of_one_job_are_refused() -> None:
    with pytest.raises(InputError, match="seed is -1; a whole number from 0 up is accepted"):
        random_stream(-1, 0)
    with pytest.raises(InputError, match="at least 2 jobs are expected"):
        sample_submissions(BATCH, 1, 1, period=100.0)
