from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qops_batsim import InputError, read_run
from qops_batsim.measures import compare_runs


@pytest.fixture
def compare(write_run):
    """Compare two lists of jobs."""

    def run(a, b, **options):
        return compare_runs(
            read_run(write_run(a, name="a", hosts=4)),
            read_run(write_run(b, name="b", hosts=4)),
            **options,
        )

    return run


@pytest.fixture
def recorded(shared):
    return shared / "batsim" / "recorded"


def fields(difference):
    return {value.field: (value.a, value.b) for value in difference.values}


def test_a_run_is_equal_to_itself(compare, mixed_run):
    compared = compare(mixed_run(), mixed_run())
    assert compared.equal
    assert (compared.jobs_compared, compared.only_a, compared.only_b) == (6, 0, 0)
    assert (compared.jobs_different, compared.first) == (0, [])
    assert (compared.starts.jobs, compared.starts.largest, compared.starts.mean) == (0, 0.0, 0.0)
    assert compared.mean_wait_a == compared.mean_wait_b == (0 + 0 + 8 + 13 + 0) / 5


def test_order_of_rows_and_spelling_of_hosts_do_not_matter(compare, write_run):
    ran = write_run.ran
    a = [ran("1", 0, 3, 0, 5, [0, 1, 2]), ran("2", 0, 1, 5, 5, [3])]
    b = [ran("2", 0, 1, 5, 5, [3]), ran("1", 0, 3, 0, 5, [2, 0, 1])]
    b[1].edits = {"allocated_resources": "0-1 2"}
    assert compare(a, b).equal


@pytest.mark.parametrize(
    ("change", "expected", "count"),
    [
        ({"submission": -0.5}, {"submission": (0.0, -0.5)}, "submissions"),
        ({"requested": 3}, {"processors": (2.0, 3.0)}, "requests"),
        ({"walltime": -1.0}, {"walltime": (100.0, None)}, "requests"),
        ({"state": "COMPLETED_FAILED"}, None, "states"),
        ({"hosts": [1, 2]}, {"hosts": ("0 1", "1 2")}, "allocations"),
    ],
)
def test_each_kind_of_difference(compare, mixed_run, change, expected, count):
    changed = mixed_run()
    changed[0] = dataclasses.replace(changed[0], **change)
    compared = compare(mixed_run(), changed)
    assert not compared.equal
    assert compared.jobs_different == 1
    assert getattr(compared, count) == 1
    (job,) = compared.first
    assert (job.job, job.date) == ("w0!1", 0.0)
    expected = expected or {"state": ("COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED")}
    assert fields(job) == expected


def test_different_dates_are_measured(compare, mixed_run):
    later = mixed_run()
    later[2] = dataclasses.replace(later[2], start=11, run_time=9)
    compared = compare(mixed_run(), later)
    assert (compared.starts.jobs, compared.starts.largest) == (1, 1.0)
    assert compared.starts.mean == pytest.approx(1 / 5)
    assert (compared.finishes.jobs, compared.finishes.largest) == (1, 3.0)
    assert compared.mean_wait_b == pytest.approx(compared.mean_wait_a + 1 / 5)
    assert fields(compared.first[0]) == {"start": (10.0, 11.0), "finish": (17.0, 20.0)}


def test_missing_and_further_jobs(compare, mixed_run):
    compared = compare(mixed_run()[1:], mixed_run()[:-1])
    assert not compared.equal
    assert (compared.jobs_compared, compared.only_a, compared.only_b) == (4, 1, 1)
    assert compared.jobs_different == 0
    further, missing = compared.first
    assert (further.job, fields(further)) == ("w0!1", {"job": (None, "COMPLETED_SUCCESSFULLY")})
    assert (missing.job, fields(missing)) == ("w0!6", {"job": ("COMPLETED_SUCCESSFULLY", None)})


def test_rejected_against_executed_is_a_different_state_only(compare, mixed_run):
    executed = mixed_run()
    executed[3] = dataclasses.replace(executed[3], start=30, run_time=5, hosts=[0, 1, 2, 3])
    compared = compare(mixed_run(), executed)
    assert (compared.jobs_different, compared.states, compared.allocations) == (1, 1, 0)
    assert compared.starts.jobs == compared.finishes.jobs == 0
    (job,) = compared.first
    assert fields(job) == {"state": ("REJECTED", "COMPLETED_SUCCESSFULLY")}
    assert job.date == 30.0


def test_runs_without_executed_jobs(compare, write_run):
    rejected = [write_run.ran("1", 0, 9)]
    compared = compare(rejected, rejected)
    assert compared.equal
    assert compared.mean_wait_a is compared.starts.mean is compared.starts.largest is None
    assert compare([], []).equal
    assert compare([], rejected).only_b == 1


def test_tolerance_and_hosts_can_be_chosen(compare, mixed_run):
    other = mixed_run()
    other[0] = dataclasses.replace(other[0], start=0.5, hosts=[1, 2])
    assert not compare(mixed_run(), other, tolerance=0.5).equal
    assert not compare(mixed_run(), other, ignore_hosts=True).equal
    compared = compare(mixed_run(), other, tolerance=0.5, ignore_hosts=True)
    assert compared.equal
    assert not compared.hosts_compared


def test_rounding_is_no_difference(compare, write_run):
    a = [write_run.ran("1", 0, 1, 1e9, 10, [0])]
    b = [write_run.ran("1", 0, 1, 1e9 + 1e-6, 10, [0])]
    assert compare(a, b, tolerance=0.0).equal
    b[0].start += 3e-6
    assert not compare(a, b, tolerance=0.0).equal
    assert compare(a, b, tolerance=4e-6).equal


def test_first_differences_come_in_the_order_of_time(compare, write_run):
    a = [write_run.ran(str(n), 0, 1, 100 - n, 1, [0]) for n in range(20)]
    b = [write_run.ran(str(n), 0, 1, 150 - n, 1, [0]) for n in range(20)]
    compared = compare(a, b, first=3)
    assert [job.job for job in compared.first] == ["w0!19", "w0!18", "w0!17"]
    assert compare(a, b, first=0).first == []


def test_damaged_runs_are_errors(compare, write_run):
    job = write_run.ran("1", 0, 1, 0, 5, [0])
    with pytest.raises(InputError, match="a_jobs.csv: job 'w0!1' has more than one row"):
        compare([job, job], [job])
    odd = dataclasses.replace(job, edits={"allocated_resources": "3-x"})
    with pytest.raises(
        InputError, match=r"b_jobs.csv: row 1 \(job 'w0!1'\): allocated_resources: host set"
    ):
        compare([job], [odd])
    with pytest.raises(InputError, match="tolerance is -1; a number of seconds from 0 up"):
        compare([job], [job], tolerance=-1.0)


def test_a_tolerance_takes_the_delays_of_messages_as_equal(recorded):
    a, b = read_run(recorded / "kill_small"), read_run(recorded / "kill_nonet")
    compared = compare_runs(a, b)
    assert (compared.equal, compared.jobs_different) == (False, 4)
    assert 1e-5 < compared.starts.largest < 1e-4
    assert compare_runs(a, b, tolerance=1e-4).equal


@given(
    starts=st.lists(st.integers(0, 50), min_size=1, max_size=20),
    shifts=st.lists(st.sampled_from([0, 5e-7, 1e-5, 0.009, 0.02, 3]), min_size=20, max_size=20),
    hosts=st.lists(st.sampled_from(["0", "0-1", "0 1", "2"]), min_size=20, max_size=20),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_comparing_is_symmetric(write_run, starts, shifts, hosts):
    ran = write_run.ran
    a = [ran(str(n), 0, 2, start, 5, [0, 1]) for n, start in enumerate(starts)]
    b = [
        dataclasses.replace(job, start=job.start + shift, edits={"allocated_resources": text})
        for job, shift, text in zip(a, shifts, hosts, strict=False)
    ]
    one, other = read_run(write_run(a, name="a")), read_run(write_run(b, name="b"))
    assert compare_runs(one, one).equal
    there, back = compare_runs(one, other), compare_runs(other, one)
    assert there.equal == back.equal
    assert there.jobs_different == back.jobs_different
    assert [job.job for job in there.first] == [job.job for job in back.first]
    assert len(there.first) == min(10, there.jobs_different)
