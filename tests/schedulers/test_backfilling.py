"""FCFS, EASY and conservative backfilling: hand-drawn schedules and naive oracles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import Job, simulate
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.workload import Workload, delay_profile
from support import backfilling_oracles as oracles
from support.backfilling_oracles import SmallJob
from support.easy_oracle import Request, easy_starts

PROCESSORS = {"reserve": "processors"}


def starts(
    scheduler: str,
    machine: int,
    jobs: Sequence[tuple[float, int, float, float | None]],
    settings: dict[str, str] | None = None,
) -> list[float]:
    """Run jobs (submission, processors, run time, estimate) and return their starts."""
    listed, profiles = [], {}
    for index, (submission, processors, run_time, estimate) in enumerate(jobs):
        name, profile = delay_profile(run_time)
        profiles[name] = profile
        # Equal submissions arrive in the order of the identifiers as text.
        listed.append(Job(f"{index:04d}", float(submission), processors, name, estimate))
    workload = Workload(jobs=listed, profiles=profiles, processors=machine)
    simulation = simulate(scheduler, workload, make_cluster(machine), settings)
    by_id = sorted(simulation.ended, key=lambda record: record.job.id)
    return [math.nan if record.state == REJECTED else record.start for record in by_id]


# Four processors. 0: 3 processors, 10 s. 1: 4 processors, 5 s. 2: 1 processor, 10 s.
# 3: 1 processor, 20 s. All estimates exact.
#
# fcfs           |000000000011111 2222222222
#                                 3333333333...
# easy, conserv. |0000000000
#                |22222222221111133333333333333333333
#                 0         10   15
EXAMPLE = [(0, 3, 10, 10.5), (1, 4, 5, 5.5), (1, 1, 8, 9), (1, 1, 20, 21)]


def test_fcfs_is_blocked_by_the_first_job_that_does_not_fit() -> None:
    assert starts("fcfs", 4, EXAMPLE) == [0, 10, 15, 15]


@pytest.mark.parametrize("scheduler", ["easy", "conservative"])
def test_backfilling_uses_the_hole_without_delaying_the_head(scheduler: str) -> None:
    assert starts(scheduler, 4, EXAMPLE) == [0, 10, 1, 15]


def test_easy_lets_a_long_job_use_the_extra_processors() -> None:
    # 4 processors: 0 uses 2 until 10. Head 1 needs 3: shadow 10, one extra processor.
    # 2 needs one for 100 s: ends after the shadow time but uses the extra one.
    # 3 needs one for 100 s as well: the extra one is gone, so it waits for the head.
    jobs = [(0, 2, 10, 10.5), (1, 3, 5, 5.5), (2, 1, 100, 101), (3, 1, 100, 101)]
    assert starts("easy", 4, jobs) == [0, 10, 2, 15]


def test_easy_delays_a_job_behind_the_head_where_conservative_does_not() -> None:
    # 4 processors. 0: two until 10. 1 (the head) needs three: shadow time 10, one extra.
    # 2 needs four: conservative promises it 20. 3 needs one for 30 s:
    #
    # easy          |00000000001111111111             22..  conservative |0000000000111111111122..
    #               |00000000001111111111             22..               |0000000000111111111122..
    #               |          1111111111             22..               |          111111111122..
    #               |   33333333333333333333333333333322..               |                    22..
    #               0         10                     33                  0         10        20
    jobs = [(0, 2, 10, 10), (1, 3, 10, 10), (2, 4, 10, 10), (3, 1, 30, 30)]
    assert starts("easy", 4, jobs) == [0, 10, 33, 3]
    assert starts("conservative", 4, jobs) == [0, 10, 20, 30]
    assert starts("conservative", 4, jobs, PROCESSORS) == [0, 10, 20, 30]


@pytest.mark.parametrize("settings", [None, PROCESSORS])
def test_conservative_keeps_its_promise_to_every_job(settings: dict[str, str] | None) -> None:
    # 2 processors. 0 uses one until 10 (estimate 10). 1 needs two: promised 10.
    # 2 needs one for 10 s: promised 20, for [1, 11) would delay 1. 3 needs one for 9 s: now.
    jobs = [(0, 1, 9.5, 10), (1, 2, 9.5, 10), (1, 1, 9.5, 10), (1, 1, 8, 9)]
    assert starts("conservative", 2, jobs, settings) == [0, 9.5, 19, 1]


@pytest.mark.parametrize("settings", [None, PROCESSORS])
def test_conservative_compresses_when_a_job_ends_early(settings: dict[str, str] | None) -> None:
    # 0 is expected to run for 100 s and ends after 5: every waiting job moves up at once.
    jobs = [(0, 2, 5, 100), (1, 2, 10, 20), (1, 1, 10, 20), (1, 1, 10, 20)]
    assert starts("conservative", 2, jobs, settings) == [0, 5, 15, 15]


@pytest.mark.parametrize("scheduler", ["easy", "conservative"])
def test_a_job_without_estimate_is_planned_as_endless(scheduler: str) -> None:
    # 0 has no estimate: 1 can be promised nothing until 0 ends; 2 fits beside 0.
    jobs = [(0, 1, 10, None), (1, 2, 5, 6), (2, 1, 3, 4)]
    result = starts(scheduler, 2, jobs)
    assert result[:2] == [0, 10]
    assert result[2] == 2


@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative"])
def test_impossible_jobs_are_rejected_and_the_others_run(scheduler: str) -> None:
    result = starts(scheduler, 2, [(0, 3, 5, 6), (0, 0, 5, 6), (0, 2, 5, 6)])
    assert math.isnan(result[0])
    assert math.isnan(result[1])
    assert result[2] == 0


@pytest.mark.parametrize("settings", [None, PROCESSORS])
def test_conservative_survives_a_job_that_outlives_its_estimate(
    settings: dict[str, str] | None,
) -> None:
    from qops_batsim import QosRequest

    # 0 says 10 s and runs for 50: job 1, promised 10, starts when 0 has really ended, and
    # the event at 30 (job 2 arrives) finds 0 overdue.
    name, profile = delay_profile(50)
    short_name, short = delay_profile(5)
    guess = QosRequest(estimated_runtime=10.0)
    jobs = [
        Job("0", 0.0, 2, name, None, guess),
        Job("1", 1.0, 2, short_name, None, guess),
        Job("2", 30.0, 2, short_name, None, guess),
    ]
    workload = Workload(jobs=jobs, profiles={name: profile, short_name: short}, processors=2)
    simulation = simulate("conservative", workload, make_cluster(2), settings)
    assert [record.start for record in simulation.ended] == [0, 50, 55]


small_jobs = st.lists(
    st.builds(
        SmallJob,
        submission=st.integers(0, 25),
        processors=st.integers(1, 4),
        run_time=st.integers(1, 12),
        estimate=st.integers(1, 12),
    ),
    min_size=1,
    max_size=14,
).map(lambda jobs: sorted(jobs, key=lambda job: job.submission))


@given(small_jobs)
def test_fcfs_agrees_with_the_oracle(jobs: list[SmallJob]) -> None:
    assert starts("fcfs", 4, jobs) == oracles.fcfs(4, jobs)


@given(small_jobs)
def test_easy_agrees_with_the_oracle(jobs: list[SmallJob]) -> None:
    requests = [Request(str(number), *job) for number, job in enumerate(jobs)]
    expected = easy_starts(4, requests)
    assert starts("easy", 4, jobs) == [expected[each.name] for each in requests]


@given(small_jobs)
def test_conservative_agrees_with_the_oracle_and_never_breaks_a_promise(
    jobs: list[SmallJob],
) -> None:
    expected, promises = oracles.conservative(4, jobs)
    assert starts("conservative", 4, jobs, PROCESSORS) == expected
    for index, promised in promises.items():
        assert promised == sorted(promised, reverse=True)
        assert expected[index] <= promised[0]
