"""Deadlines by need: dates by hand, shares, and what never happens."""

from __future__ import annotations

from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import InputError, Job
from qops_batsim.dates import Calendar
from qops_batsim.workload import (
    DAY,
    NeedChoices,
    NeedMix,
    Workload,
    delay_profile,
    format_workload,
    origin_of_duplicate,
    parse_workload,
    scale_load,
)
from qops_batsim.workload.deadlines import users_with_deadline
from qops_batsim.workload.need import (
    WEEKDAYS,
    FactorClass,
    assign_deadlines_by_need,
    next_working_time,
)

HOUR = 3600

STOCKHOLM = Calendar(843_429_600, "Europe/Stockholm")
"""Second 0 is the midnight before Monday, 1996-09-23; clocks are put back on Sunday, October 27."""


def workload(*rows: tuple[float, float] | tuple[float, float, float]) -> Workload:
    """Return one-processor jobs 1, 2, … from submission, run time and, if any, walltime."""
    profiles = dict(delay_profile(row[1]) for row in rows)
    jobs = [
        Job(str(n), float(row[0]), 1, delay_profile(row[1])[0], row[2] if len(row) > 2 else None)
        for n, row in enumerate(rows, 1)
    ]
    return Workload(jobs=jobs, profiles=profiles, processors=4)


def deadlines(changed: Workload) -> list[float]:
    found = [job.qos.deadline for job in changed.jobs if job.qos]
    return [each for each in found if each is not None]


def at_work(text: str, *, at: tuple[time, ...] = (time(9),), calendar: Calendar = STOCKHOLM) -> str:
    """Return the date of the first time at work from a date on."""
    begin = calendar.seconds(datetime.fromisoformat(text))
    return calendar.text(next_working_time(begin, calendar, NeedChoices(at=at)))


@pytest.mark.parametrize(
    ("earliest", "expected"),
    [
        # Within a working week: tomorrow 9:00, or today if it is not over yet.
        ("1996-09-24T15:30", "1996-09-25 09:00:00"),
        ("1996-09-24T08:59:59", "1996-09-24 09:00:00"),
        ("1996-09-24T09:00", "1996-09-24 09:00:00"),
        ("1996-09-24T09:00:01", "1996-09-25 09:00:00"),
        # Over a weekend: Monday morning, from Friday, Saturday and Sunday.
        ("1996-09-27T17:00", "1996-09-30 09:00:00"),
        ("1996-09-28T08:00", "1996-09-30 09:00:00"),
        ("1996-09-29T23:59", "1996-09-30 09:00:00"),
        # Over the end of a year, and of February of a leap year.
        ("1996-12-31T10:00", "1997-01-01 09:00:00"),
        ("1996-02-29T10:00", "1996-03-01 09:00:00"),
    ],
)
def test_the_next_morning_at_work(earliest: str, expected: str) -> None:
    assert at_work(earliest) == expected


def test_several_times_of_day_in_any_order() -> None:
    at = (time(17), time(9), time(13))
    assert at_work("1996-09-24T09:30", at=at) == "1996-09-24 13:00:00"
    assert at_work("1996-09-24T13:30", at=at) == "1996-09-24 17:00:00"
    assert at_work("1996-09-27T17:30", at=at) == "1996-09-30 09:00:00"


def test_a_weekend_on_which_clocks_are_changed() -> None:
    # From Friday 17:00 to Monday 9:00 are 64 hours by the clock; in autumn it takes one more, in
    # spring (Sunday, March 30, 1997) one less.
    for friday, hours in (("1996-10-25T17:00", 65), ("1997-03-28T17:00", 63)):
        begin = STOCKHOLM.seconds(datetime.fromisoformat(friday))
        at_nine = next_working_time(begin, STOCKHOLM, NeedChoices(at=(time(9),)))
        assert at_nine == begin + hours * HOUR


def test_a_time_that_comes_twice_or_never() -> None:
    choices = NeedChoices(at=(time(2, 30),), days=("sun",))
    # 1996-10-27 0:30 and 1:30 UTC are both 2:30. From the second on, it is a week later.
    first = datetime(1996, 10, 27, 0, 30, tzinfo=ZoneInfo("UTC")).timestamp() - STOCKHOLM.unix_start
    assert next_working_time(first, STOCKHOLM, choices) == first
    assert next_working_time(first + HOUR, STOCKHOLM, choices) == first + 7 * 24 * HOUR + HOUR
    # On 1997-03-30 clocks go from 2:00 to 3:00: what would be 2:30 is 3:30.
    spring = STOCKHOLM.seconds(datetime(1997, 3, 29))
    assert STOCKHOLM.text(next_working_time(spring, STOCKHOLM, choices)) == "1997-03-30 03:30:00"


def test_the_time_zone_is_that_of_the_site() -> None:
    # Friday 1996-09-27 15:00 UTC is 17:00 in Stockholm and 8:00 in California.
    moment = datetime(1996, 9, 27, 15, tzinfo=ZoneInfo("UTC")).timestamp()
    pacific = Calendar(0, "US/Pacific")
    choices = NeedChoices(at=(time(9),))
    assert next_working_time(moment, pacific, choices) == moment + HOUR
    assert next_working_time(moment, Calendar(0, "Europe/Stockholm"), choices) == moment + 64 * HOUR


def test_deadlines_by_working_hours() -> None:
    # Monday 8:00, half an hour and two hours; Friday 16:00 of the same week, two hours.
    friday = 4 * 24 * HOUR + 16 * HOUR
    jobs = workload((8 * HOUR, 1800), (8 * HOUR, 7200), (friday, 7200), (friday + 0.5, 1800))
    jobs.calendar = STOCKHOLM
    changed = assign_deadlines_by_need(jobs, NeedChoices(mix=NeedMix(hours=1)))
    monday = 7 * 24 * HOUR + 9 * HOUR
    assert deadlines(changed) == [9 * HOUR, 13 * HOUR, monday, 4 * 24 * HOUR + 17 * HOUR]
    assert changed.calendar == STOCKHOLM


def test_deadlines_by_a_fixed_slack_leave_the_estimate() -> None:
    jobs = workload((10, 100, 500), (20, 900, 600), (30, 50))
    choices = NeedChoices(mix=NeedMix(slack=1), slack=60)
    assert deadlines(assign_deadlines_by_need(jobs, choices)) == [570, 680, 140]
    # The second is killed at its walltime, so that this is its run time, too.
    assert deadlines(assign_deadlines_by_need(jobs, choices, at_least="run-time")) == [
        170,
        680,
        140,
    ]


def test_deadlines_by_a_factor_of_the_class() -> None:
    classes = (FactorClass(100, 2.5, 0), FactorClass(1000, 0.5, 0), FactorClass(None, 0.1, 0))
    jobs = workload((0, 100), (10, 101), (20, 1000), (30, 5000))
    choices = NeedChoices(mix=NeedMix(factor=1), factors=classes)
    # 100 + 250, 101 + 50.5 (51 whole seconds), 1,000 + 500, 5,000 + 500.
    assert deadlines(assign_deadlines_by_need(jobs, choices)) == [350, 162, 1520, 5530]


def test_factors_are_lognormal() -> None:
    jobs = workload(*((0, 10_000) for _ in range(4000)))
    choices = NeedChoices(mix=NeedMix(factor=1), factors=(FactorClass(None, 0.8, 0.5),))
    waits = sorted(each - 10_000 for each in deadlines(assign_deadlines_by_need(jobs, choices)))
    # Median and 16th and 84th percentile: 0.8 × exp(0 and ± 0.5).
    assert waits[2000] == pytest.approx(8000, rel=0.04)
    assert waits[635] == pytest.approx(4852, rel=0.04)
    assert waits[3365] == pytest.approx(13_190, rel=0.04)


def test_golden_values() -> None:
    jobs = workload(*((HOUR * n, 60 * n * n) for n in range(1, 11)))
    jobs.calendar = STOCKHOLM
    assert deadlines(assign_deadlines_by_need(jobs, NeedChoices(seed=7))) == GOLDEN


GOLDEN = [
    # Jobs 1, 2 and 10 need working hours (9:00 and 13:00), 6 and 8 a slack, the others a factor.
    *(32_400, 32_400, 17_366, 22_843, 27_570),
    *(24_960, 37_978, 33_840, 43_777, 46_800),
]


SHARES = st.tuples(*[st.integers(0, 10)] * 3).filter(any)


def mix_of(parts: tuple[int, ...]) -> NeedMix:
    factor, hours, slack = (part / sum(parts) for part in parts)
    return NeedMix(factor=factor, hours=hours, slack=slack)


@given(
    parts=SHARES,
    rows=st.lists(
        st.tuples(st.floats(0, 1e8), st.floats(0.001, 1e7), st.floats(0.001, 1e7)),
        min_size=1,
        max_size=12,
    ),
    days=st.sets(st.sampled_from(WEEKDAYS), min_size=1),
    at_least=st.sampled_from(["estimate", "run-time"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=30)
def test_no_deadline_is_earlier_than_the_job_can_end(
    parts: tuple[int, ...],
    rows: list[tuple[float, float, float]],
    days: set[str],
    at_least: str,
    seed: int,
) -> None:
    jobs = workload(*rows)
    jobs.calendar = STOCKHOLM
    choices = NeedChoices(mix=mix_of(parts), days=tuple(days), seed=seed)
    changed = assign_deadlines_by_need(jobs, choices, at_least=at_least)
    for job, (date, run_time, walltime), due in zip(
        changed.jobs, rows, deadlines(changed), strict=True
    ):
        least = walltime if at_least == "estimate" else min(run_time, walltime)
        assert due >= date + least
        assert due <= date + least + max(8 * DAY, 1200, 5 * 1e4 * least + 1)
        assert job.fields["qos"]["has_user_deadline"] is True
    text = format_workload(changed)
    assert format_workload(parse_workload(text, source="x")) == text
    assert format_workload(assign_deadlines_by_need(jobs, choices, at_least=at_least)) == text


@given(parts=SHARES, share=st.floats(0, 1), count=st.integers(1, 80), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_the_shares_of_the_mix_are_exact(
    parts: tuple[int, ...], share: float, count: int, seed: int
) -> None:
    # Which need a job has shows in its deadline: 7 s by slack, 1,000 s by factor, else at 9:00.
    jobs = workload(*((1, 10) for _ in range(count)))
    jobs.calendar = STOCKHOLM
    choices = NeedChoices(
        mix=mix_of(parts),
        factors=(FactorClass(None, 100, 0),),
        slack=7,
        share=share,
        artificial="none",
        seed=seed,
    )
    changed = assign_deadlines_by_need(jobs, choices)
    found = deadlines(changed)
    users = users_with_deadline(jobs, share, seed)
    assert {job.id for job in changed.jobs if job.fields["qos"]["has_user_deadline"]} == users
    assert len(found) == len(users)
    for due, part in zip((1011, 9 * HOUR, 18), parts, strict=True):
        assert abs(found.count(due) - len(users) * part / sum(parts)) <= 1
    assert {1011, 9 * HOUR, 18}.issuperset(found)


def test_the_seed_draws_and_a_job_keeps_its_need() -> None:
    jobs = workload(*((60 * n, 600) for n in range(200)))
    choices = NeedChoices(mix=NeedMix(factor=0.5, slack=0.5))
    one, other = (
        deadlines(assign_deadlines_by_need(jobs, NeedChoices(mix=choices.mix, seed=seed)))
        for seed in (1, 2)
    )
    assert sum(a == b for a, b in zip(one, other, strict=True)) < 100
    scaled = assign_deadlines_by_need(scale_load(jobs, 1.3), choices)
    kept = {
        job.id: job.qos.deadline for job in scaled.jobs if job.qos and not origin_of_duplicate(job)
    }
    assert sum(kept[str(n)] == due for n, due in enumerate(one, 1)) >= 190


def test_the_other_jobs_have_artificial_deadlines() -> None:
    jobs = workload((5, 100), (6, 20 * HOUR))
    changed = assign_deadlines_by_need(
        jobs, NeedChoices(share=0, relaxation=3, mix=NeedMix(slack=1))
    )
    assert deadlines(changed) == [5 + DAY, 6 + 60 * HOUR]
    assert all(job.fields["qos"]["has_user_deadline"] is False for job in changed.jobs)


def test_what_matters_is_recorded() -> None:
    jobs = workload((5, 100))
    made = assign_deadlines_by_need(jobs, NeedChoices(mix=NeedMix(slack=1), slack=90.0, seed=3))
    assert {name: value for name, value in made.provenance.items() if name != "version"} == {
        "step": "deadlines",
        "by": "need",
        "mix": {"factor": 0, "hours": 0, "slack": 1},
        "slack": 90,
        "share": 1,
        "seed": 3,
        "at_least": "estimate",
        "made_from": {"file": "a workload"},
    }
    choices = NeedChoices(mix=NeedMix(hours=0.5, factor=0.5), share=0.5, calendar=STOCKHOLM)
    made = assign_deadlines_by_need(jobs, choices)
    assert made.calendar == STOCKHOLM
    told = made.provenance
    assert told["at"] == ["09:00:00", "13:00:00", "17:00:00"]
    assert told["factors"][0] == [600, 5, 1]
    assert (told["artificial"], told["relaxation"], "slack" in told) == ("run-time", 2, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mix": NeedMix(factor=0.5, slack=0.4)}, "slack 0.4 add up to 0.9; shares that add up to"),
        ({"mix": NeedMix(factor=1.5, slack=-0.5)}, "mix: factor is 1.5; a number from 0 to 1"),
        ({"mix": NeedMix(factor=float("nan"))}, "mix: factor is nan"),
        ({"factors": ()}, "factors: the classes are for jobs up to none; ascending times"),
        ({"factors": (FactorClass(60, 1, 1),)}, "for jobs up to 60 s; ascending times above 0"),
        (
            {"factors": (FactorClass(60, 1, 1), FactorClass(50, 1, 1), FactorClass(None, 1, 1))},
            "up to 60 s, 50 s, all others; ascending",
        ),
        ({"factors": (FactorClass(None, 0, 1),)}, "factors: median is 0; a number above 0"),
        ({"factors": (FactorClass(None, 1, 11),)}, "factors: spread is 11; a number from 0 to 10"),
        ({"at": ()}, 'at is []; one or more times of day as "09:00"'),
        ({"days": ()}, "days is []; one or more as mon"),
        ({"days": ("monday",)}, "days is 'monday'; did you mean"),
        ({"slack": 0.0}, "slack is 0; a number above 0"),
        ({"share": 2.0}, "deadline share is 2; a number from 0 to 1"),
        ({"artificial": "turnaround"}, "artificial is 'turnaround' (known: none, run-time)"),
        ({"seed": -1}, "seed is -1"),
        ({"calendar": Calendar(0, "Mars")}, "time zone is 'Mars', which is not in"),
        ({}, "a workload: does not tell the date of its second 0, which deadlines by working"),
        ({"calendar": Calendar(3e11, "UTC")}, "has no date; a date in the years 1 to 9999"),
        (
            {"mix": NeedMix(factor=1), "factors": (FactorClass(None, 1e11, 0),)},
            "deadline is 10000000000101",
        ),
    ],
)
def test_wrong_choices_are_told(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        assign_deadlines_by_need(workload((1, 100)), NeedChoices(**changes))  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_an_unknown_least_time_is_told() -> None:
    with pytest.raises(InputError, match="at least is 'walltime'"):
        assign_deadlines_by_need(workload((1, 100)), at_least="walltime")
