from __future__ import annotations

import math

import pytest

from qops_batsim import InputError, Job, QosRequest
from qops_batsim.economics.tolerance import FactorTolerance, RandomTolerance


def job(
    job_id: str = "w0!1",
    arrival: float = 100.0,
    deadline: float | None = 150.0,
    factor: float | None = None,
) -> Job:
    qos = QosRequest(deadline=deadline, tolerance_factor=factor)
    return Job(job_id, arrival, 1, "p", qos=qos)


def test_a_user_takes_an_offer_up_to_a_factor_of_the_requested_response_time() -> None:
    # Asked for 50 s from 100 on: twice that is until 200.
    tolerance = FactorTolerance(2)
    assert tolerance(job(), 200.0)
    assert not tolerance(job(), 200.001)
    assert FactorTolerance(1)(job(), 150.0)
    assert not FactorTolerance(1)(job(), 150.001)
    assert not FactorTolerance(0.9)(job(), 150.0)


def test_the_factor_that_a_job_brings_along_goes_before() -> None:
    for tolerance in (FactorTolerance(2), RandomTolerance(2, 7)):
        assert tolerance.factor_of(job(factor=3.5)) == 3.5
        assert tolerance(job(factor=3), 250.0)
        assert not tolerance(job(factor=0), 101.0)
    assert FactorTolerance(2).factor_of(Job("w0!1", 0.0, 1, "p")) == 2


def test_response_times_count_from_the_arrival_which_is_never_before_0() -> None:
    assert FactorTolerance(2)(job(arrival=-30.0, deadline=50.0), 100.0)
    assert not FactorTolerance(2)(job(arrival=-30.0, deadline=50.0), 101.0)


def test_a_deadline_before_the_arrival_is_answered_by_the_same_rule() -> None:
    assert not FactorTolerance(2)(job(deadline=90.0), 110.0)
    assert FactorTolerance(0)(job(deadline=90.0), 100.0)


def test_a_user_who_asked_for_no_deadline_takes_any() -> None:
    assert FactorTolerance(0)(job(deadline=None), 1e9)


def test_random_factors_depend_on_seed_and_job_alone() -> None:
    jobs = [job(f"w0!{index}") for index in range(2000)]
    factors = [RandomTolerance(3, 5).factor_of(each) for each in jobs]
    again = RandomTolerance(3, 5)
    assert [again.factor_of(each) for each in reversed(jobs)] == factors[::-1]
    assert factors != [RandomTolerance(3, 6).factor_of(each) for each in jobs]
    # Common draws: a user who is twice as tolerant in one scenario is so in all.
    doubled = [RandomTolerance(6, 5).factor_of(each) for each in jobs]
    assert doubled == pytest.approx([2 * factor for factor in factors])


def test_random_factors_are_uniform_up_to_twice_the_mean() -> None:
    tolerance = RandomTolerance(3, 1)
    factors = sorted(tolerance.factor_of(job(f"w0!{index}")) for index in range(4000))
    assert factors[0] >= 0
    assert factors[-1] <= 6
    distance = max(abs(f / 6 - (i + 0.5) / 4000) for i, f in enumerate(factors))
    assert distance < 1.63 / math.sqrt(4000)  # Kolmogorov-Smirnov, 1 %


@pytest.mark.parametrize("factor", [-0.1, math.nan])
def test_wrong_factors(factor: float) -> None:
    for make in (FactorTolerance, RandomTolerance):
        with pytest.raises(InputError, match=f"tolerance factor is {factor}; a number from 0 up"):
            make(factor)
