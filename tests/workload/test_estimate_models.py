"""Models of estimates: drawn by hand, by a naive oracle, and what holds for any workload."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job
from qops_batsim.workload import (
    EstimateChoices,
    Workload,
    delay_profile,
    exact_estimates,
    run_times,
    run_times_until_killed,
)
from qops_batsim.workload.estimates import (
    MODELS,
    REQUESTS,
    count_estimates,
    learned,
    predictions,
    with_estimates,
)


class Row(NamedTuple):
    """A job: dates and durations in seconds."""

    submission: float
    user: Any
    run_time: float
    walltime: float | None
    end: float


def workload(rows: list[Row]) -> Workload:
    jobs = []
    for number, row in enumerate(rows, 1):
        name = delay_profile(row.run_time)[0]
        fields = {"id": str(number), "subtime": row.submission, "res": 1, "profile": name}
        fields |= {} if row.walltime is None else {"walltime": row.walltime}
        fields |= {} if row.user is None else {"user": row.user}
        fields["qos"] = {"deadline": row.submission + 10_000}
        jobs.append(Job.from_fields(fields, where="test"))
    profiles = dict(delay_profile(row.run_time) for row in rows)
    return Workload(jobs=jobs, profiles=profiles, processors=4, source="test")


def ends_of(rows: list[Row]) -> dict[str, float]:
    return {str(number): row.end for number, row in enumerate(rows, 1)}


def estimates(made: Workload) -> list[float]:
    return [job.estimate for job in made.jobs]


# User a:  1 [0..10]  2 [0..30]        4: both known   5: 4 has ended too
# User b:                  3: nothing known
SMALL = [
    Row(0, "a", 10, 100, 10),
    Row(0, "a", 30, 100, 30),
    Row(20, "b", 40, 90, 60),
    Row(30, "a", 50, 100, 80),
    Row(80, "a", 70, 55, 200),
    Row(25, "a", 5, 100, 300),
]


def test_predictions_are_means_of_the_last_two_that_have_ended() -> None:
    found = predictions(
        workload(SMALL).jobs, [row.run_time for row in SMALL], [row.end for row in SMALL]
    )
    assert found.tolist() == [math.inf, math.inf, math.inf, 20, 40, math.inf]


def test_a_prediction_is_never_above_the_walltime_and_keeps_what_is_due() -> None:
    base = workload(SMALL)
    made = with_estimates(base, EstimateChoices(model="predicted", margin=2), ends=ends_of(SMALL))
    assert estimates(made) == [100, 100, 90, 40, 55, 100]
    assert [job.walltime for job in made.jobs] == [100, 100, 90, 100, 55, 100]
    assert run_times(made) == [10, 30, 40, 50, 55, 5]
    assert [job.qos and job.qos.deadline for job in made.jobs] == [
        job.qos and job.qos.deadline for job in base.jobs
    ]
    counts = count_estimates(made)
    assert (counts.jobs, counts.too_short, counts.killed) == (6, 1, 0)


def test_what_outlives_its_prediction_is_killed_if_asked_for() -> None:
    choices = EstimateChoices(model="predicted", margin=2, overrun="kill")
    made = with_estimates(workload(SMALL), choices, ends=ends_of(SMALL))
    assert [job.walltime for job in made.jobs] == estimates(made) == [100, 100, 90, 40, 55, 100]
    assert run_times_until_killed(made) == [10, 30, 40, 40, 55, 5]
    assert count_estimates(made).killed == 1


def test_walltimes_come_from_the_workload_that_has_them() -> None:
    base = workload(SMALL)
    made = with_estimates(exact_estimates(base), EstimateChoices(model="users"), requests=base)
    assert estimates(made) == [100, 100, 90, 100, 55, 100]
    assert run_times(made) == [10, 30, 40, 50, 55, 5]


def test_a_margin_is_learned_so_that_the_risk_is_kept() -> None:
    jobs = workload([Row(10 * n, "a", 1, 100, 10 * n + 5) for n in range(10)]).jobs
    ratios = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 0.0, 1.0])
    found = learned(jobs, ratios, [10 * n + 5 for n in range(10)], 0.25)
    # The k-th least of the n before, k = ceil(0.75 (n + 1)); a job without prediction (0) is none.
    assert found.tolist() == [math.inf] * 3 + [4, 4, 5, 9, 5, 6, 6]


rows = st.lists(
    st.builds(
        lambda submission, user, run_time, over, wait: Row(
            submission, user, run_time, run_time + over, submission + run_time + wait
        ),
        st.integers(0, 60),
        st.sampled_from("ab"),
        st.integers(1, 40),
        st.integers(0, 200),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=25,
)


@given(rows)
def test_predictions_are_those_of_a_naive_search(found: list[Row]) -> None:
    jobs = workload(found).jobs
    expected = []
    for row in found:
        ended = [
            (other.end, place)
            for place, other in enumerate(found)
            if other.user == row.user and other.end <= row.submission
        ]
        last = sorted(ended)[-2:]
        mean = sum(found[place].run_time for _, place in last) / 2 if len(last) == 2 else math.inf
        expected.append(mean)
    made = predictions(jobs, [row.run_time for row in found], [row.end for row in found])
    assert made.tolist() == expected


@given(
    rows,
    st.sampled_from(MODELS),
    st.integers(0, 5),
    st.sampled_from(("run", "kill")),
    st.sampled_from((None, 0.3)),
)
def test_what_holds_for_every_model(
    found: list[Row], model: str, seed: int, overrun: str, risk: float | None
) -> None:
    if model in REQUESTS:
        overrun, risk = "run", None
    choices = EstimateChoices(model=model, seed=seed, overrun=overrun, risk=risk)
    base, ends = workload(found), ends_of(found)
    made = with_estimates(base, choices, ends=ends)
    assert made == with_estimates(base, choices, ends=ends)
    assert run_times(made) == [row.run_time for row in found]
    for job, row in zip(made.jobs, found, strict=True):
        assert row.walltime is not None
        if model in REQUESTS:
            assert job.estimate >= row.run_time
        else:
            assert 1 <= job.estimate <= row.walltime
        assert job.walltime is None or overrun == "kill" or job.walltime >= row.run_time
    if overrun == "kill":
        assert [job.walltime for job in made.jobs] == estimates(made)


@given(rows, st.floats(1, 5), st.floats(1, 5))
def test_margins_nest(found: list[Row], one: float, other: float) -> None:
    less, more = (
        with_estimates(
            workload(found),
            EstimateChoices(model="predicted", margin=margin),
            ends=ends_of(found),
        )
        for margin in sorted((one, other))
    )
    assert all(a <= b for a, b in zip(estimates(less), estimates(more), strict=True))


def test_errors_are_too_long_as_often_as_too_short() -> None:
    base = workload([Row(n, "a", 1000, 10**9, n + 1000) for n in range(4000)])
    found = np.array(estimates(with_estimates(base, EstimateChoices(model="error", spread=0.5))))
    assert np.median(found) == pytest.approx(1000, rel=0.03)
    assert np.log(found / 1000).std() == pytest.approx(0.5, rel=0.03)


def test_estimates_of_the_f_model_are_uniform() -> None:
    base = workload([Row(n, "a", 1000, None, n + 1000) for n in range(4000)])
    found = np.array(estimates(with_estimates(base, EstimateChoices(model="f-model", badness=3))))
    assert found.min() >= 1000
    assert found.max() <= 4000
    assert found.mean() == pytest.approx(2500, rel=0.03)


def test_modal_estimates_are_few_popular_values() -> None:
    draws = np.random.default_rng(1)
    base = workload(
        [
            Row(n, "a", int(draws.integers(1, 300)), int(draws.choice([300, 900, 3600])), n + 300)
            for n in range(500)
        ]
    )
    assert set(estimates(with_estimates(base, EstimateChoices(model="modal")))) <= {300, 900, 3600}


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"model": "user"}, "model is 'user'; did you mean 'users'?"),
        ({"model": "predicted", "overrun": "stop"}, "overrun is 'stop' (known: kill, run)"),
        ({"model": "predicted", "margin": 0.0}, "margin is 0; a number above 0 is accepted"),
        ({"model": "users", "margin": 2.0}, "model is 'users'; margin is for predicted or error"),
        ({"model": "predicted", "risk": 1.0}, "risk is 1; a share above 0 and below 1"),
        (
            {"model": "predicted", "risk": 0.1, "margin": 2.0},
            "margin is 2, and risk is 0.1; with a risk",
        ),
        ({"model": "error", "spread": -1.0}, "spread is -1; a number from 0 to 10"),
    ],
)
def test_choices_that_make_no_sense_are_told(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        EstimateChoices(**choices).check()
    assert message in str(error.value)


def test_a_workload_that_lacks_what_is_needed_is_told() -> None:
    base = workload([Row(0, None, 10, 20, 10), Row(0, "a", 10, None, 10)])
    ends = {"1": 10.0, "2": 10.0}
    with pytest.raises(InputError, match="job '2' has no walltime; model users expects one"):
        with_estimates(base, EstimateChoices(model="users"))
    users = workload([Row(0, None, 10, 20, 10)])
    with pytest.raises(InputError, match="job '1' has no user; model predicted expects"):
        with_estimates(users, EstimateChoices(model="predicted"), ends=ends)
    with pytest.raises(
        InputError,
        match="predictions need the date at which each job ends",
    ):
        with_estimates(users, EstimateChoices(model="predicted"))
    with pytest.raises(InputError, match="no job has a walltime; model modal expects some"):
        with_estimates(exact_estimates(users), EstimateChoices(model="modal"))
    with pytest.raises(InputError, match="job '2' of test is missing; a workload of the same jobs"):
        with_estimates(base, EstimateChoices(model="users"), requests=users)
    (job,) = users.jobs
    wide = Job.from_fields({**job.fields, "res": 2}, where="test")
    other = Workload(jobs=[wide], profiles=users.profiles, processors=4, source="other")
    with pytest.raises(InputError, match="other: job '1' asks for 2 processors, but for 1 in test"):
        with_estimates(users, EstimateChoices(model="users"), requests=other)
