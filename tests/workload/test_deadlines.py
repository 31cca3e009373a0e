import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job, QosRequest
from qops_batsim.workload import (
    DAY,
    DeadlineChoices,
    Workload,
    delay_profile,
    format_workload,
    generate_workload,
    origin_of_duplicate,
    parse_workload,
    scale_load,
)
from qops_batsim.workload.deadlines import (
    assign_deadlines,
    count_deadlines,
    users_with_deadline,
    without_deadlines,
)

HOUR = 3600


def workload(*rows: tuple[float, float]) -> Workload:
    """Return one-processor jobs 1, 2, … from submission and run time."""
    profiles = dict(delay_profile(run_time) for _, run_time in rows)
    jobs = [
        Job(str(n), float(date), 1, delay_profile(run_time)[0])
        for n, (date, run_time) in enumerate(rows, 1)
    ]
    return Workload(jobs=jobs, profiles=profiles, processors=4)


FOUR = workload((0, 100), (10, 100), (20, 30 * HOUR), (30, 8 * HOUR))
RESPONSES = {"1": 100.0, "2": 200.0, "3": 50.0 * HOUR, "4": 9.0 * HOUR}


def deadlines(changed: Workload) -> list[float | None]:
    return [job.qos.deadline if job.qos else None for job in changed.jobs]


@pytest.mark.parametrize(
    ("stringency", "expected"),
    [
        (0.0, [100, 210, 20 + 50 * HOUR, 30 + 9 * HOUR]),
        # 80 % of 9 hours is less than the run time of 8.
        (0.2, [100, 170, 20 + 40 * HOUR, 30 + 8 * HOUR]),
        (0.5, [100, 110, 20 + 30 * HOUR, 30 + 8 * HOUR]),
    ],
)
def test_deadlines_by_stringency(stringency: float, expected: list[float]) -> None:
    changed = assign_deadlines(FOUR, RESPONSES, DeadlineChoices(stringency=stringency))
    assert deadlines(changed) == expected
    assert all(job.fields["qos"]["has_user_deadline"] is True for job in changed.jobs)
    text = format_workload(changed)
    assert format_workload(parse_workload(text, source="x")) == text


@pytest.mark.parametrize(
    ("artificial", "relaxation", "expected"),
    [
        ("run-time", 2, [DAY, 10 + DAY, 20 + 60 * HOUR, 30 + DAY]),
        ("run-time", 5, [DAY, 10 + DAY, 20 + 150 * HOUR, 30 + 40 * HOUR]),
        ("turnaround", 5, [DAY, 10 + DAY, 20 + 250 * HOUR, 30 + 45 * HOUR]),
        ("none", 5, [None] * 4),
    ],
)
def test_artificial_deadlines(
    artificial: str, relaxation: float, expected: list[float | None]
) -> None:
    choices = DeadlineChoices(share=0, artificial=artificial, relaxation=relaxation)
    changed = assign_deadlines(FOUR, RESPONSES, choices)
    assert deadlines(changed) == expected
    assert all(job.fields["qos"]["has_user_deadline"] is False for job in changed.jobs)


def test_old_deadlines_are_replaced_and_walltimes_count() -> None:
    name, profile = delay_profile(500)
    qos = QosRequest(deadline=7.0, memory=3.0)
    old = Workload(
        jobs=[Job("1", 0.0, 1, name, 100.0, qos)], profiles={name: profile}, processors=1
    )
    # The job is killed after 100 of its 500 seconds.
    assert deadlines(assign_deadlines(old, {"1": 100.0})) == [100]
    changed = assign_deadlines(old, {"1": 100.0}, DeadlineChoices(share=0, artificial="none"))
    assert changed.jobs[0].fields["qos"] == {"memory": 3, "has_user_deadline": False}
    assert without_deadlines(old).jobs[0].fields["qos"] == {"memory": 3}


@given(
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    seed=st.integers(0, 1000),
    jobs=st.integers(1, 60),
)
def test_shares_are_exact_and_nest(shares: list[float], seed: int, jobs: int) -> None:
    some = workload(*((n, 10) for n in range(jobs)))
    few, many = (users_with_deadline(some, share, seed) for share in shares)
    assert few <= many
    assert [len(few), len(many)] == [round(share * jobs) for share in shares]


def test_the_seed_chooses_the_users() -> None:
    some = workload(*((n, 10) for n in range(100)))
    assert users_with_deadline(some, 0.2, 1) == users_with_deadline(some, 0.2, 1)
    assert users_with_deadline(some, 0.2, 1) != users_with_deadline(some, 0.2, 2)


def test_scaling_the_load_hardly_changes_which_jobs_have_a_deadline() -> None:
    trace = generate_workload("kth-sp2", jobs=1000, seed=1)
    before = users_with_deadline(trace, 0.2, 1)
    scaled = scale_load(trace, 1.6)
    after = users_with_deadline(scaled, 0.2, 1)
    assert len(after) == 320
    assert len(before - after) + len(after - before) <= 30 + len(
        {job.id for job in scaled.jobs if origin_of_duplicate(job)} & after
    )


@given(stringency=st.floats(0, 0.999), share=st.floats(0, 1), seed=st.integers(0, 9))
def test_every_deadline_can_be_met_on_an_empty_machine(
    stringency: float, share: float, seed: int
) -> None:
    choices = DeadlineChoices(stringency=stringency, share=share, seed=seed)
    changed = assign_deadlines(FOUR, RESPONSES, choices)
    for job, run_time in zip(changed.jobs, (100, 100, 30 * HOUR, 8 * HOUR), strict=True):
        assert job.qos is not None
        assert job.qos.deadline is not None
        assert job.qos.deadline >= job.submission_time + run_time
        if job.qos.has_user_deadline:
            limit = max(run_time, RESPONSES[job.id])
            assert job.qos.deadline <= job.submission_time + limit


def test_counts() -> None:
    changed = assign_deadlines(FOUR, RESPONSES, DeadlineChoices(stringency=0.2))
    counts = count_deadlines(changed)
    assert (counts.user, counts.artificial, counts.none) == (4, 0, 0)
    assert counts.without_laxity == 2  # jobs 1 and 4
    mixed = assign_deadlines(FOUR, RESPONSES, DeadlineChoices(share=0.25))
    assert (count_deadlines(mixed).user, count_deadlines(mixed).artificial) == (1, 3)
    assert count_deadlines(FOUR).none == 4


def test_every_parameter_is_recorded() -> None:
    choices = DeadlineChoices(stringency=0.5, share=0.2, relaxation=10, seed=8)
    step = assign_deadlines(FOUR, RESPONSES, choices).provenance
    assert {name: value for name, value in step.items() if name != "version"} == {
        "step": "deadlines",
        "stringency": 0.5,
        "share": 0.2,
        "artificial": "run-time",
        "relaxation": 10,
        "seed": 8,
        "made_from": {"file": "a workload"},
    }


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (DeadlineChoices(stringency=1), "stringency is 1; a number from 0 to below 1"),
        (DeadlineChoices(stringency=-0.1), "stringency is -0.1"),
        (DeadlineChoices(share=1.1), "deadline share is 1.1; a number from 0 to 1"),
        (DeadlineChoices(share=float("nan")), "deadline share is nan"),
        (DeadlineChoices(relaxation=0.5), "relaxation is 0.5; a number from 1 up"),
        (DeadlineChoices(artificial="runtime"), "'runtime'; did you mean 'run-time'?"),
        (DeadlineChoices(seed=-1), "seed is -1; a whole number from 0 up"),
    ],
)
def test_wrong_choices_are_told(choices: DeadlineChoices, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        assign_deadlines(FOUR, RESPONSES, choices)


def test_a_job_without_response_time_is_told() -> None:
    with pytest.raises(InputError, match="job '4' has no response time in the reference"):
        assign_deadlines(FOUR, {"1": 1.0, "2": 1.0, "3": 1.0})
