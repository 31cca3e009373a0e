from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.workload import format_workload, parse_workload, run_times
from studies.islam2003.packed import packed_workload


@given(
    processors=st.integers(1, 100),
    jobs=st.integers(1, 80),
    laxity=st.floats(0, 5),
    seed=st.integers(0, 1000),
    static=st.booleans(),
)
def test_known_schedule_fills_the_machine_and_meets_all_deadlines(
    processors: int, jobs: int, laxity: float, seed: int, static: bool
) -> None:
    packed = packed_workload(processors, jobs, laxity, seed, static=static)
    workload = packed.workload
    assert len(workload.jobs) == jobs
    changes: dict[int, int] = {}
    for job, run_time in zip(workload.jobs, run_times(workload), strict=True):
        start = packed.starts[job.id]
        end = start + int(run_time)
        assert start >= job.submission_time
        assert job.qos is not None
        assert job.qos.deadline is not None
        assert end <= job.qos.deadline
        assert job.estimate == run_time > 0
        assert job.processors >= 1
        changes[start] = changes.get(start, 0) + job.processors
        changes[end] = changes.get(end, 0) - job.processors
    busy = 0
    for date in sorted(changes):
        busy += changes[date]
        assert busy == (processors if date < packed.end else 0)


def test_deadlines_follow_the_paper() -> None:
    packed = packed_workload(8, 20, 0.5, 1)
    for job, run_time in zip(packed.workload.jobs, run_times(packed.workload), strict=True):
        assert job.submission_time == packed.starts[job.id]
        assert job.qos is not None
        assert job.qos.deadline == packed.starts[job.id] + 1.5 * run_time
    static = packed_workload(8, 20, 0.5, 1, static=True)
    assert static.starts == packed.starts
    for job in static.workload.jobs:
        assert job.submission_time == 0
        assert job.qos is not None
        assert job.qos.deadline == 1.5 * static.end


def test_same_seed_same_bytes_and_laxity_changes_only_deadlines() -> None:
    first = packed_workload(16, 50, 0, 3)
    text = format_workload(first.workload)
    assert text == format_workload(packed_workload(16, 50, 0, 3).workload)
    assert format_workload(parse_workload(text, source="x")) == text
    assert first.starts == packed_workload(16, 50, 2, 3).starts
    assert first.starts != packed_workload(16, 50, 0, 4).starts
    assert first.workload.provenance["seed"] == 3
