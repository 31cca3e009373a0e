import pytest

from qops_batsim import InputError, Job
from qops_batsim.workload import (
    Workload,
    delay_profile,
    exact_estimates,
    format_workload,
    parse_workload,
    run_times,
    run_times_until_killed,
    subset,
)


def workload(*rows: tuple[str, float, float, float | None]) -> Workload:
    """Return delay jobs of one processor from id, submission, run time and walltime."""
    profiles = dict(delay_profile(row[2]) for row in rows)
    jobs = [Job(name, sub, 1, delay_profile(run)[0], wall) for name, sub, run, wall in rows]
    return Workload(jobs=jobs, profiles=profiles, processors=4)


DATES = {"a": 5, "b": 3, "c": 3, "d": 9, "e": 0, "f": 7}
SIX = workload(*((name, date, 10 + date, None) for name, date in DATES.items()))


def test_jobs_come_in_the_order_of_submission() -> None:
    assert [job.id for job in subset(SIX).jobs] == ["e", "b", "c", "a", "f", "d"]
    part = subset(SIX, first=3, skip=1)
    assert [job.id for job in part.jobs] == ["b", "c", "a"]
    assert [job.submission_time for job in part.jobs] == [3, 3, 5]
    assert set(part.profiles) == {"delay13", "delay15"}
    assert [job.id for job in subset(SIX, first=None, skip=5).jobs] == ["d"]


def test_subset_takes_all_jobs_by_default_and_says_what_it_did() -> None:
    large = workload(*((str(n), n, 1, None) for n in range(5001)))
    assert len(subset(large).jobs) == 5001
    part = subset(large, first=5000)
    assert len(part.jobs) == 5000
    assert part.provenance["first"] == 5000
    assert part.provenance["made_from"] == {"file": "a workload"}
    assert subset(part, first=2).provenance["made_from"] == part.provenance


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": 0}, "first is 0; a whole number above 0"),
        ({"skip": -1}, "skip is -1; a whole number from 0 up"),
        ({"skip": 6}, "has 6 usable jobs, too few for window {skip = 6}"),
        ({"skip": 4, "first": 3}, "has 6 usable jobs, too few for window {skip = 4, first = 3}"),
    ],
)
def test_subset_refuses_what_leaves_nothing_or_too_few(
    options: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        subset(SIX, **options)


def test_exact_estimates_cut_jobs_to_their_walltime() -> None:
    exact = exact_estimates(
        workload(("1", 0, 60, 100), ("2", 5, 500, 100), ("3", 6, 7, None), ("4", 7, 2.5, 2.5))
    )
    assert run_times(exact) == [60, 100, 7, 2.5]
    assert [job.walltime for job in exact.jobs] == [None] * 4
    assert [job.fields["qos"] for job in exact.jobs] == [
        {"estimated_runtime": seconds} for seconds in (60, 100, 7, 2.5)
    ]
    assert [job.estimate for job in exact.jobs] == [60, 100, 7, 2.5]
    assert format_workload(parse_workload(format_workload(exact), source="x")) == format_workload(
        exact
    )


def test_exact_estimates_keep_other_fields_and_share_profiles() -> None:
    text = """{"nb_res": 4, "jobs": [
      {"id": 1, "subtime": 0, "res": 1, "walltime": 60, "profile": "long", "user": 7,
       "qos": {"memory": 5}},
      {"id": 2, "subtime": 0, "res": 1, "walltime": 60, "profile": "longer"},
      {"id": 3, "subtime": 0, "res": 1, "profile": "delay60",
       "extra_data": {"user_priority": 1}},
      {"id": 4, "subtime": 0, "res": 1, "walltime": -1, "profile": "failing"}],
      "profiles": {"long": {"type": "delay", "delay": 90}, "longer": {"type": "delay", "delay": 91},
                   "delay60": {"type": "delay", "delay": 61},
                   "failing": {"type": "delay", "delay": 8, "ret": 1}}}"""
    exact = exact_estimates(parse_workload(text, source="x"))
    assert run_times(exact) == [60, 60, 61, 8]
    # The old delay60 lasts 61 seconds, so the new profile needs another name.
    assert [job.profile for job in exact.jobs] == ["delay60_2", "delay60_2", "delay60", "failing"]
    assert exact.profiles["failing"]["ret"] == 1
    assert exact.jobs[0].fields["user"] == 7
    assert exact.jobs[0].fields["qos"] == {"memory": 5, "estimated_runtime": 60}
    assert exact.jobs[2].fields["extra_data"] == {"user_priority": 1, "estimated_runtime": 61}
    assert "walltime" not in exact.jobs[3].fields


def test_run_times_need_delay_jobs() -> None:
    assert run_times_until_killed(workload(("1", 0, 9, 4), ("2", 0, 9, None))) == [4, 9]
    send = Workload(
        jobs=[Job("1", 0.0, 1, "p")], profiles={"p": {"type": "send", "msg": ""}}, processors=1
    )
    with pytest.raises(InputError, match="job '1': profile 'p' is of type send; only type delay"):
        run_times(send)
    with pytest.raises(InputError, match="holds no job"):
        run_times(Workload(jobs=[], profiles={}, processors=1))
