"""NQS: hand-drawn schedules, and a naive simulation of the queues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qops_batsim import InputError, Job, QosRequest, read_workload, simulate
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.schedulers.nqs import SDSC_QUEUES, NqsOptions
from qops_batsim.shipped import find_input
from qops_batsim.workload import Workload, delay_profile

Row = tuple[float, int, float, float | None, str | None]
"""Submission, processors, run time, requested time, queue."""


def starts(machine: int, rows: Sequence[Row], **options: Any) -> list[float]:
    """Run jobs under NQS and return their starts, NaN for a rejected one."""
    jobs, profiles = [], {}
    for index, (submission, processors, run_time, requested, queue) in enumerate(rows):
        name, profiles[name] = delay_profile(run_time)
        qos = None if queue is None else QosRequest(queue=queue)
        jobs.append(Job(f"{index:04d}", float(submission), processors, name, requested, qos))
    workload = Workload(jobs=jobs, profiles=profiles, processors=machine)
    simulation = simulate("nqs", workload, make_cluster(machine), options)
    ended = sorted(simulation.ended, key=lambda record: record.job.id)
    return [math.nan if record.state == REJECTED else record.start for record in ended]


def test_one_queue_is_first_come_first_served() -> None:
    # |000000000011111 2222
    # |000000000011111
    # |          11111
    #  0         10   15
    rows: list[Row] = [(0, 2, 10, 20, None), (1, 3, 5, 20, None), (2, 1, 4, 20, None)]
    assert starts(3, rows) == [0, 10, 15]


def test_a_blocked_head_holds_up_its_own_queue_only() -> None:
    # 3 processors. 1 (normal) needs all of them; 2 (normal) waits behind it; 3 (low) does not,
    # although it delays 1 by 5 s.
    #
    # |0000000000     1111122
    # |0000000000     11111
    # |  333333333333311111
    #  0         10   15   20
    rows: list[Row] = [
        (0, 2, 10, 20, "normal"),
        (1, 3, 5, 20, "normal"),
        (1, 1, 2, 20, "normal"),
        (2, 1, 13, 20, "low"),
    ]
    assert starts(3, rows) == [0, 15, 20, 2]
    # |000000000011111223333333333333
    # |000000000011111
    # |          111113333333333333    (2 and 3 start at 15, both fit)
    assert starts(3, rows, blocked="machine") == [0, 10, 15, 15]


def test_queues_are_visited_by_priority_and_then_by_requested_time() -> None:
    # One processor. All wait at 1; names first, of one name the shorter requests first,
    # whatever the order of submission.
    rows: list[Row] = [
        (0, 1, 10, 20, None),
        (1, 1, 1, 5_000, "low"),
        (1, 1, 1, 100, "low"),
        (1, 1, 1, 90_000, "normal"),
        (1, 1, 1, 5_000, None),
        (1, 1, 1, 5_000, "express"),
        (1, 1, 1, 200, "zebra"),
        (1, 1, 1, 300, "antelope"),
    ]
    #                                 0  1l  2l  3n  4-  5e  6z  7a
    assert starts(1, rows) == [0, 14, 13, 12, 11, 10, 16, 15]
    assert starts(1, rows, queues=["zebra", "low"], default_queue="low") == [
        0,
        12,
        11,
        16,
        13,
        15,
        10,
        14,
    ]


def test_a_request_at_the_limit_belongs_to_the_shorter_queue() -> None:
    rows: list[Row] = [(0, 1, 10, 20, None), (1, 1, 1, 3_601, None), (1, 1, 1, 3_600, None)]
    assert starts(1, rows) == [0, 11, 10]
    assert starts(1, rows, time_limits=[]) == [0, 10, 11]


def test_without_requested_time_a_job_waits_among_the_longest() -> None:
    rows: list[Row] = [(0, 1, 10, 20, None), (1, 1, 1, None, None), (1, 1, 1, 64_000, None)]
    assert starts(1, rows) == [0, 11, 10]


def test_the_estimate_counts_where_there_is_no_walltime() -> None:
    name, profile = delay_profile(5)
    guesses = (50.0, 9_000.0, 10.0)
    jobs = [
        Job(str(index), float(index), 1, name, qos=QosRequest(estimated_runtime=guess))
        for index, guess in enumerate(guesses)
    ]
    workload = Workload(jobs=jobs, profiles={name: profile}, processors=1)
    simulation = simulate("nqs", workload, make_cluster(1))
    assert [record.job.id for record in simulation.ended] == ["w0!0", "w0!2", "w0!1"]


def test_a_run_limit_leaves_processors_free() -> None:
    # |0000011111     low: one at a time, over both of its queues
    # |2222222222     normal
    #  0    5    10
    rows: list[Row] = [(0, 1, 5, 20, "low"), (0, 1, 5, 5_000, "low"), (0, 1, 10, 20, "normal")]
    assert starts(4, rows, run_limits={"low": 1}) == [0, 5, 0]
    assert starts(4, rows) == [0, 0, 0]


def test_nothing_is_reserved_for_a_wide_job() -> None:
    # Narrow low jobs follow each other on alternating processors: the wide job of high
    # priority starts only after the last of them.
    rows: list[Row] = [(0, 1, 10, 20, "low"), (1, 2, 1, 20, "high")]
    rows += [(5 * index, 1, 10, 20, "low") for index in range(1, 7)]
    assert starts(2, rows) == [0, 40, 5, 10, 15, 20, 25, 30]


def test_too_wide_jobs_are_rejected() -> None:
    result = starts(2, [(0, 3, 5, 6, "high"), (0, 2, 5, 6, "low")])
    assert math.isnan(result[0])
    assert result[1] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limits": [3600, 60]}, r"time_limits is \[3600.0, 60.0\]; seconds above 0 in"),
        ({"time_limits": [60, 60]}, "seconds above 0 in"),
        ({"time_limits": [0]}, "seconds above 0 in"),
        ({"run_limits": {"low": 0}}, r'run_limits is {"low": ?0}; whole numbers from 1 up'),
        ({"queues": ["a", "a"]}, r'queues is \["a", "a"\]; names that are not empty'),
        ({"queues": [""]}, "names that are not empty"),
        ({"default_queue": ""}, "default_queue is ''"),
        ({"blocked": "all"}, "blocked is 'all'.*known: machine, queue"),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_scheduler("nqs", options)


def test_two_modules_share_no_option() -> None:
    assert NqsOptions().run_limits is not NqsOptions().run_limits


rows = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.integers(1, 4),
        st.integers(1, 12),
        st.sampled_from([30, 3_600, 3_601, 50_000, 100_000, None]),
        st.sampled_from([None, "express", "low", "other"]),
    ),
    min_size=1,
    max_size=14,
).map(lambda drawn: sorted(drawn, key=lambda row: row[0]))


@given(rows, st.sampled_from(["queue", "machine"]), st.none() | st.integers(1, 3))
def test_starts_agree_with_a_naive_simulation(
    rows: list[Row], blocked: str, limit: int | None
) -> None:
    limits = {} if limit is None else {"low": limit, "normal": limit}
    expected = naive(4, rows, blocked, limits)
    assert starts(4, rows, blocked=blocked, run_limits=limits) == expected


def naive(machine: int, rows: list[Row], blocked: str, limits: dict[str, int]) -> list[float]:
    """Simulate second by second, sorting all waiting jobs anew in each."""
    names = [row[4] or "normal" for row in rows]

    def queue(index: int) -> tuple[int, str, int]:
        requested = rows[index][3] or math.inf
        exceeded = sum(requested > bound for bound in (3_600, 14_400, 43_200, 64_800))
        known = names[index] in SDSC_QUEUES
        rank = SDSC_QUEUES.index(names[index]) if known else len(SDSC_QUEUES)
        return rank, names[index], exceeded

    start: dict[int, float] = {}
    now = 0
    while len(start) < len(rows):
        running = [i for i, begin in start.items() if begin + rows[i][2] > now]
        free = machine - sum(rows[i][1] for i in running)
        held: set[tuple[int, str, int]] = set()
        waiting = [i for i, row in enumerate(rows) if i not in start and row[0] <= now]
        for index in sorted(waiting, key=lambda i: (queue(i), i)):
            if queue(index) in held:
                continue
            mine = sum(names[i] == names[index] for i in running)
            if mine >= limits.get(names[index], machine + 1):
                held.add(queue(index))
            elif rows[index][1] > free:
                held.add(queue(index))
                if blocked == "machine":
                    break
            else:
                start[index] = now
                running.append(index)
                free -= rows[index][1]
        now += 1
    return [start[index] for index in range(len(rows))]


def test_late_news_delays_starts_by_no_more_than_it_is_late() -> None:
    log = read_workload(find_input("kth_sp2_1000", "workloads"))
    jobs = Workload(jobs=log.jobs[:200], profiles=log.profiles, processors=100)
    prompt, late = (
        {record.local_id: record.start for record in simulate("nqs", jobs, platform).ended}
        for platform in (make_cluster(100), make_cluster(100, bandwidth=125e6, latency=1e-3))
    )
    assert prompt.keys() == late.keys()
    assert all(0 < late[name] - prompt[name] < 0.1 for name in prompt)
