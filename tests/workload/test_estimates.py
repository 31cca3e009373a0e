import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.workload import PRESETS, EstimateModel, sample_estimates
from qops_batsim.workload.estimates import nearest_value
from qops_batsim.workload.lublin import random_stream

HOUR = 3600


def model(killed_share: float) -> EstimateModel:
    return EstimateModel(
        table=((600, 1.0, killed_share), (HOUR, 2.0, killed_share), (4 * HOUR, 1.0, killed_share))
    )


def test_nearest_value_is_nearest_in_ratio() -> None:
    values = np.array([100, 400, 1600])
    assert nearest_value(values, np.array([1, 199, 201, 799, 801, 9999])).tolist() == [
        0, 0, 1, 1, 2, 2,
    ]  # fmt: skip


def test_every_job_killed_runs_for_a_value() -> None:
    run_times, estimates = sample_estimates(
        model(1.0), np.array([1, 900, HOUR, 9000, 50_000]), random_stream(1, 0)
    )
    assert run_times.tolist() == [600, 600, HOUR, 4 * HOUR, 4 * HOUR]
    assert estimates.tolist() == run_times.tolist()


def test_no_job_killed_takes_values_above_by_weight() -> None:
    count = 20_000
    run_times, estimates = sample_estimates(
        model(0.0), np.repeat([10, 601], count), random_stream(7, 0)
    )
    assert run_times.tolist() == np.repeat([10, 601], count).tolist()
    short, longer = estimates[:count], estimates[count:]
    assert [(short == v).mean() for v in (600, HOUR, 4 * HOUR)] == pytest.approx(
        [0.25, 0.5, 0.25], abs=0.02
    )
    assert [(longer == v).mean() for v in (600, HOUR, 4 * HOUR)] == pytest.approx(
        [0, 2 / 3, 1 / 3], abs=0.02
    )


def test_run_time_equal_to_a_value_may_take_it() -> None:
    _, estimates = sample_estimates(model(0.0), np.full(1000, HOUR), random_stream(1, 0))
    assert set(estimates.tolist()) == {HOUR, 4 * HOUR}


@given(
    name=st.sampled_from(sorted(PRESETS)),
    given_times=st.lists(st.integers(1, 400_000), min_size=1, max_size=50),
    seed=st.integers(0, 1000),
)
def test_estimates_are_common_values_not_below_the_run_time(
    name: str, given_times: list[int], seed: int
) -> None:
    estimates_of = PRESETS[name].estimates
    run_times, estimates = sample_estimates(
        estimates_of, np.array(given_times), random_stream(seed, 0)
    )
    assert set(estimates.tolist()) <= set(estimates_of.values)
    assert (run_times <= estimates).all()
    changed = run_times != np.minimum(given_times, estimates_of.values[-1])
    assert (run_times == estimates)[changed].all()


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_preset_tables_are_usable(name: str) -> None:
    preset = PRESETS[name]
    values, weights, killed = zip(*preset.estimates.table, strict=True)
    assert list(values) == sorted(set(values))
    assert min(weights) > 0
    assert all(0 <= share <= 1 for share in killed)
    assert preset.model.run_times.longest <= values[-1]
