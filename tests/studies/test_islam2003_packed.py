from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.workload import format_workload, parse_workload, run_times
from studies.islam2003.packed import packed_workload


@given(
    processors=st.integers(1, 100),
    jobs=st.integers(1, 80),
    laxity=st.floats(0, 5),
    seed=st.integers(0, 1000),
)
def test_known_schedule_fills_the_machine_and_meets_all_deadlines(
    processors: int, jobs: int, laxity: float, seed: int
) -> None:
    workload = packed_workload(processors, jobs, laxity, seed)
    assert len(workload.jobs) == jobs
    changes: dict[float, int] = {}
    for job, run_time in zip(workload.jobs, run_times(workload), strict=True):
        start = job.submission_time
        end = start + run_time
        assert job.qos is not None
        assert job.qos.deadline is not None
        assert end <= job.qos.deadline
        assert job.estimate == run_time > 0
        assert job.processors >= 1
        changes[start] = changes.get(start, 0) + job.processors
        changes[end] = changes.get(end, 0) - job.processors
    busy = 0
    *dates, last = sorted(changes)
    for date in dates:
        busy += changes[date]
        assert busy == processors
    assert busy + changes[last] == 0


def test_deadlines_follow_the_paper() -> None:
    packed = packed_workload(8, 20, 0.5, 1)
    for job, run_time in zip(packed.jobs, run_times(packed), strict=True):
        assert job.qos is not None
        assert job.qos.deadline == job.submission_time + 1.5 * run_time


def test_same_seed_same_bytes_and_laxity_changes_only_deadlines() -> None:
    first = packed_workload(16, 50, 0, 3)
    text = format_workload(first)
    assert text == format_workload(packed_workload(16, 50, 0, 3))
    assert format_workload(parse_workload(text, source="x")) == text

    def starts(laxity: float, seed: int) -> list[float]:
        return [job.submission_time for job in packed_workload(16, 50, laxity, seed).jobs]

    assert starts(0, 3) == starts(2, 3) != starts(0, 4)
    assert first.provenance["seed"] == 3
