from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job, QosRequest
from qops_batsim.workload import (
    Workload,
    delay_profile,
    format_workload,
    generate_workload,
    origin_of_duplicate,
    parse_workload,
    run_times,
    scale_load,
)
from qops_batsim.workload.scale import originals

TRACE = generate_workload("kth-sp2", jobs=50, seed=1)


def dated(*dates: float, deadline: float | None = None) -> Workload:
    """Return one-processor jobs 1, 2, … of 60 seconds submitted at these dates."""
    name, profile = delay_profile(60)
    qos = None if deadline is None else QosRequest(deadline=deadline)
    jobs = [Job(str(n), float(date), 1, name, 80.0, qos) for n, date in enumerate(dates, 1)]
    return Workload(jobs=jobs, profiles={name: profile}, processors=2)


def fields_by_id(workload: Workload) -> dict[str, dict[str, Any]]:
    return {job.id: job.fields for job in workload.jobs}


@pytest.mark.parametrize("method", ["duplication", "expansion"])
def test_load_one_is_the_trace_itself(method: str) -> None:
    same = scale_load(TRACE, 1.0, method=method)
    assert same.jobs == TRACE.jobs
    assert {job.profile for job in same.jobs} == set(same.profiles)
    assert run_times(same) == run_times(TRACE)


@given(
    loads=st.tuples(st.floats(1, 4), st.floats(1, 4)).map(sorted),
    seed=st.integers(0, 10),
    same_time=st.booleans(),
)
def test_loads_nest(loads: list[float], seed: int, same_time: bool) -> None:
    small, large = (scale_load(TRACE, load, seed=seed, same_time=same_time) for load in loads)
    known = fields_by_id(large)
    assert fields_by_id(small).items() <= known.items()
    assert len(large.jobs) == 50 + round((loads[1] - 1) * 50)
    # Jobs in common also keep their order.
    ids = set(fields_by_id(small))
    assert [job.id for job in large.jobs if job.id in ids] == [job.id for job in small.jobs]


@given(load=st.floats(1, 4), seed=st.integers(0, 10), same_time=st.booleans())
def test_duplicates_are_copies_that_know_their_origin(
    load: float, seed: int, same_time: bool
) -> None:
    scaled = scale_load(TRACE, load, seed=seed, same_time=same_time)
    dates = [job.submission_time for job in scaled.jobs]
    assert dates == sorted(dates)
    assert (dates[0], dates[-1]) == (
        TRACE.jobs[0].submission_time,
        TRACE.jobs[-1].submission_time,
    )
    jobs = {job.id: job for job in scaled.jobs}
    counts = dict.fromkeys((job.id for job in TRACE.jobs), 0)
    for job in scaled.jobs:
        origin = origin_of_duplicate(job)
        if origin is None:
            continue
        counts[origin] += 1
        original = jobs[origin]
        own = {"id": job.id, "subtime": job.fields["subtime"], "qos": {"origin": origin}}
        assert job.fields == original.fields | own
        assert isinstance(job.fields["subtime"], int)
        if same_time:
            assert job.submission_time == original.submission_time
    # No job gets a second duplicate before every job has one.
    assert max(counts.values()) - min(counts.values()) <= 1
    assert originals(scaled).jobs == TRACE.jobs


def test_ids_of_duplicates() -> None:
    scaled = scale_load(dated(0, 10), 3.0, same_time=True)
    # At one date: originals first.
    assert [job.id for job in scaled.jobs] == ["1", "1d1", "1d2", "2", "2d1", "2d2"]
    assert scaled.jobs[2].fields["qos"] == {"origin": "1"}


def test_same_seed_same_bytes_other_seed_other_jobs() -> None:
    first = format_workload(scale_load(TRACE, 1.4, seed=3))
    assert first == format_workload(scale_load(TRACE, 1.4, seed=3))
    assert first != format_workload(scale_load(TRACE, 1.4, seed=4))
    assert format_workload(parse_workload(first, source="x")) == first


def test_duplicates_are_spread_over_the_period() -> None:
    scaled = scale_load(dated(1000, *([1001] * 399), 2000), 11, seed=5)
    dates = [job.submission_time for job in scaled.jobs if origin_of_duplicate(job)]
    assert len(dates) == 4010
    assert sum(dates) / len(dates) == pytest.approx(1500, abs=20)
    quarters = [sum(1000 + 250 * q <= d < 1250 + 250 * q for d in dates) for q in range(4)]
    assert all(900 < count < 1110 for count in quarters)


def test_fractions_of_seconds_stay_possible() -> None:
    scaled = scale_load(dated(0, 0.5, 1), 3.0)
    assert any(not job.submission_time.is_integer() for job in scaled.jobs if "d" in job.id)


def test_a_deadline_moves_with_the_submission() -> None:
    scaled = scale_load(dated(*range(0, 1000, 10), deadline=5000), 2.0)
    jobs = {job.id: job for job in scaled.jobs}
    for job in scaled.jobs:
        origin = jobs[origin_of_duplicate(job) or job.id]
        assert job.qos is not None
        assert job.qos.deadline is not None
        assert job.qos.deadline - job.submission_time == 5000 - origin.submission_time


def test_expansion_multiplies_all_times() -> None:
    name, profile = delay_profile(60)
    jobs = [
        Job("1", 5.0, 1, name, 90.0),
        Job("2", 0.0, 1, name, None, QosRequest(estimated_runtime=60.0, memory=3.0)),
        Job("3", 0.0, 1, name),
    ]
    workload = Workload(jobs=jobs, profiles={name: profile}, processors=1)
    expanded = scale_load(workload, 1.1, method="expansion")
    assert [job.id for job in expanded.jobs] == ["2", "3", "1"]
    assert expanded.profiles == {"delay66": {"type": "delay", "delay": 66}}
    assert expanded.jobs[0].qos == QosRequest(estimated_runtime=66.0, memory=3.0)
    assert expanded.jobs[2].walltime == 99
    assert "walltime" not in expanded.jobs[1].fields
    assert run_times(scale_load(workload, 0.01, method="expansion")) == [0.6] * 3


@given(load=st.floats(0.01, 100))
def test_expansion_keeps_which_jobs_run_into_the_walltime(load: float) -> None:
    def killed(workload: Workload) -> dict[str, bool]:
        times = zip(workload.jobs, run_times(workload), strict=True)
        return {job.id: run_time >= (job.walltime or 0) for job, run_time in times}

    assert killed(scale_load(TRACE, load, method="expansion")) == killed(TRACE)


def test_every_parameter_is_recorded() -> None:
    step = scale_load(TRACE, 1.3, seed=7, same_time=True).provenance
    assert step["made_from"] == TRACE.provenance
    asked = {"step": "scale", "method": "duplication", "load": 1.3, "seed": 7, "same_time": True}
    assert asked.items() <= step.items()
    assert step["duplicates"] == 15


@pytest.mark.parametrize(
    ("load", "options", "message"),
    [
        (0.9, {}, "load is 0.9; with method duplication, a number from 1 to 100"),
        (float("nan"), {}, "load is nan"),
        (0, {"method": "expansion"}, "load is 0; with method expansion, a number from 0.01 to 100"),
        (1.2, {"method": "duplicate"}, "method is 'duplicate'; did you mean 'duplication'?"),
        (1.2, {"method": "expansion", "same_time": True}, "it is for method duplication"),
        (1.2, {"seed": -1}, "seed is -1; a whole number from 0 up"),
    ],
)
def test_wrong_parameters_are_told(load: float, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        scale_load(TRACE, load, **options)


def test_a_scaled_workload_is_not_scaled_again() -> None:
    scaled = scale_load(TRACE, 1.1)
    with pytest.raises(InputError, match="is a duplicate of '[0-9]+'; scale the original"):
        scale_load(scaled, 1.1)
    assert len(scale_load(scaled, 2, method="expansion").jobs) == 55


def test_an_id_that_looks_like_a_duplicate_is_told() -> None:
    odd = dated(0, 1)
    odd.jobs[1] = odd.jobs[1].renamed("1d1")
    assert [job.id for job in scale_load(odd, 1).jobs] == ["1", "1d1"]
    with pytest.raises(InputError, match="job id '1d1' is needed for a duplicate of '1'"):
        scale_load(odd, 2)


def test_jobs_with_deadlines_are_not_expanded() -> None:
    with pytest.raises(InputError, match="job '1' has a deadline, which does not fit"):
        scale_load(dated(0, deadline=70), 1.2, method="expansion")


@pytest.mark.parametrize("method", ["duplication", "expansion"])
def test_only_delay_jobs_can_be_scaled(method: str) -> None:
    send = Workload(
        jobs=[Job("1", 0.0, 1, "p")], profiles={"p": {"type": "send", "msg": ""}}, processors=1
    )
    with pytest.raises(InputError, match="profile 'p' is of type send; only type delay"):
        scale_load(send, 1.2, method=method)


def test_too_long_jobs_are_told() -> None:
    name, profile = delay_profile(1e12)
    workload = Workload(jobs=[Job("1", 0.0, 1, name, 1e12)], profiles={name: profile}, processors=1)
    with pytest.raises(InputError, match="walltime"):
        scale_load(workload, 2, method="expansion")
