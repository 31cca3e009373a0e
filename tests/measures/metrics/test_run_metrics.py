from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qops_batsim import InputError, metrics, read_run, verify
from qops_batsim.measures import run_measures


def test_metrics_by_name_of_a_run_or_its_prefix(write_run, mixed_run):
    prefix = write_run(mixed_run(), hosts=4)
    values = metrics(str(prefix))
    assert values == metrics(prefix) == metrics(read_run(prefix))
    assert (values["jobs_submitted"], values["waiting_time"]["max"]) == (6, 13)
    assert metrics(prefix, hosts=8)["hosts"] == 8


def test_a_run_computed_by_hand(write_run, mixed_run):
    metrics = run_measures(read_run(write_run(mixed_run(), hosts=4)))
    assert metrics.jobs_submitted == 6
    assert metrics.jobs_successful == 2
    assert metrics.jobs_walltime_killed == 1
    assert metrics.jobs_killed == 1
    assert metrics.jobs_failed == 1
    assert metrics.jobs_rejected == 1
    # Waits 0, 0, 8, 13, 0 and turnarounds 10, 5, 15, 16, 4 of jobs 1, 2, 3, 5, 6.
    assert metrics.waiting_time.mean == pytest.approx(21 / 5)
    assert metrics.waiting_time.median == 0
    assert metrics.waiting_time.p95 == pytest.approx(8 + 0.8 * 5)
    assert metrics.waiting_time.max == 13
    assert metrics.turnaround_time.mean == pytest.approx(50 / 5)
    assert metrics.slowdown.mean == pytest.approx((1 + 1 + 15 / 7 + 16 / 3 + 1) / 5, abs=1e-6)
    assert metrics.bounded_slowdown.mean == pytest.approx((1 + 1 + 1.5 + 1.6 + 1) / 5)
    assert metrics.makespan == 24
    assert (metrics.window_begin, metrics.window_end) == (0, 24)
    # 20 + 10 + 28 + 3 + 12 host-seconds.
    assert metrics.utilization == pytest.approx(73 / (4 * 24))
    # Jobs wait from 2 to 17; two hosts idle from 6 to 10.
    assert metrics.loss_of_capacity == pytest.approx(2 * 4 / (4 * 24))
    assert metrics.queue_length_mean == pytest.approx((8 + 13) / 24)
    assert metrics.queue_length_max == 2


def test_the_threshold_bounds_the_slowdown(write_run, mixed_run):
    result = read_run(write_run(mixed_run(), hosts=4))
    metrics = run_measures(result, bounded_slowdown_threshold=1.0)
    assert metrics.bounded_slowdown.mean == pytest.approx(metrics.slowdown.mean, abs=1e-6)
    with pytest.raises(InputError, match="threshold is 0; a number of seconds above 0"):
        run_measures(result, bounded_slowdown_threshold=0)


def test_a_job_that_was_run_again_is_one_job(write_run):
    # host 0: 1 1 1 2 2 1#1 1#1 1#1 1#1 (killed at 3 for job 2, run again from scratch at 5)
    killed = write_run.ran("1", 0, 1, 0, 3, [0], state="COMPLETED_KILLED", profile="d4")
    jobs = [
        killed,
        write_run.ran("2", 3, 1, 3, 2, [0], profile="d2"),
        write_run.ran("1#1", 0, 1, 5, 4, [0], profile="d4"),
    ]
    metrics = run_measures(read_run(write_run(jobs, hosts=1)))
    assert (metrics.jobs_submitted, metrics.jobs_successful, metrics.jobs_killed) == (2, 2, 0)
    assert metrics.runs_killed == 1
    assert metrics.waiting_time.mean == (5 + 0) / 2
    assert metrics.turnaround_time.mean == (9 + 2) / 2
    assert metrics.slowdown.mean == pytest.approx((9 / 4 + 1) / 2)
    # It waits again from 3 to 5, and the lost run used the machine.
    assert metrics.queue_length_mean == pytest.approx(2 / 9)
    assert metrics.utilization == 1


def test_a_job_that_goes_on_later_ran_as_long_as_all_its_runs(write_run):
    # host 0: . 1 1 1 2 2 1#1 1#1 (submitted at 0, stopped at 4, goes on at 6)
    jobs = [
        write_run.ran("1", 0, 1, 1, 3, [0], state="COMPLETED_KILLED", profile="work"),
        write_run.ran("2", 4, 1, 4, 2, [0], profile="work"),
        write_run.ran("1#1", 0, 1, 6, 2, [0], profile="work#1#1"),
    ]
    metrics = run_measures(read_run(write_run(jobs, hosts=1)))
    assert metrics.jobs_submitted == metrics.jobs_successful == 2
    assert metrics.waiting_time.max == 1
    assert metrics.turnaround_time.max == 8
    assert metrics.slowdown.max == pytest.approx(8 / 5)
    assert metrics.queue_length_mean == pytest.approx((1 + 2) / 8)


def test_an_unrelated_job_with_such_a_name_is_a_job_of_its_own(write_run):
    jobs = [
        write_run.ran("1", 0, 1, 0, 3, [0], profile="d3"),
        write_run.ran("1#1", 0, 1, 3, 3, [0], profile="d3"),
    ]
    metrics = run_measures(read_run(write_run(jobs, hosts=1)))
    assert (metrics.jobs_submitted, metrics.runs_killed) == (2, 0)
    assert metrics.queue_length_mean == pytest.approx(3 / 6)


@pytest.mark.parametrize("rejected", [True, False])
def test_without_executed_jobs_there_is_nothing_to_average(write_run, rejected):
    jobs = [write_run.ran("1", 7, 1)] if rejected else []
    metrics = run_measures(read_run(write_run(jobs)))
    assert metrics.jobs_rejected == metrics.jobs_submitted == int(rejected)
    assert metrics.waiting_time.mean is None
    assert metrics.makespan is None
    assert metrics.utilization is None
    assert metrics.queue_length_max is None


def test_a_job_without_run_time_has_no_slowdown(write_run, mixed_run):
    jobs = mixed_run()
    jobs[4].edits["stretch"] = "inf"
    metrics = run_measures(read_run(write_run(jobs)))
    assert metrics.slowdown.max == pytest.approx(15 / 7, abs=1e-6)


def test_too_few_hosts_are_refused(write_run, mixed_run):
    jobs = mixed_run()
    narrow = [job for job in jobs if job.requested <= 3]
    result = read_run(write_run(narrow), hosts=3)
    with pytest.raises(InputError, match=r"ran on host 3, but the number of hosts is 3 \(given\)"):
        run_measures(result)
    with pytest.raises(
        InputError, match=r"resources is 4; at most the number of hosts, 3 \(given\)"
    ):
        read_run(write_run(jobs), hosts=3)


@st.composite
def packed_runs(draw):
    """Draw a valid run with whole-second dates, placed greedily by a plain simulation."""
    hosts = draw(st.integers(1, 5))
    free_at = [0] * hosts
    jobs = []
    for _ in range(draw(st.integers(1, 12))):
        submission, run_time = draw(st.integers(0, 30)), draw(st.integers(1, 12))
        requested = draw(st.integers(1, hosts + 1))
        if requested > hosts:
            jobs.append((submission, requested, None, None, None))
            continue
        chosen = sorted(sorted(range(hosts), key=lambda h: (free_at[h], h))[:requested])
        start = max([submission + draw(st.integers(0, 3)), *(free_at[h] for h in chosen)])
        for host in chosen:
            free_at[host] = start + run_time
        jobs.append((submission, requested, start, run_time, chosen))
    return hosts, jobs


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(packed_runs())
def test_metrics_agree_with_counting_second_by_second(write_run, drawn):
    hosts, table = drawn
    ran = write_run.ran
    jobs = [
        ran(str(i), submission, requested)
        if chosen is None
        else ran(str(i), submission, requested, start, run_time, chosen)
        for i, (submission, requested, start, run_time, chosen) in enumerate(table)
    ]
    executed = [job for job in jobs if job.hosts is not None]
    with TemporaryDirectory() as directory:
        writer = type(write_run)(Path(directory))
        result = read_run(writer(jobs, hosts=hosts, totals=bool(executed)))
    assert verify(result) == []
    metrics = run_measures(result)
    if not executed:
        assert metrics.utilization is None
        return
    waits = [job.start - job.submission for job in executed]
    assert metrics.waiting_time.mean == pytest.approx(statistics.fmean(waits))
    assert metrics.waiting_time.median == statistics.median(waits)
    begin = min(job.submission for job in jobs)
    end = max(job.finish for job in executed)
    used = lost = waited = longest = 0
    for second in range(begin, end):
        busy = {host for job in executed if job.start <= second < job.finish for host in job.hosts}
        waiting = sum(job.submission <= second < job.start for job in executed)
        used += len(busy)
        lost += (hosts - len(busy)) if waiting else 0
        waited += waiting
        longest = max(longest, waiting)
    capacity = hosts * (end - begin)
    assert metrics.utilization == pytest.approx(used / capacity)
    assert metrics.loss_of_capacity == pytest.approx(lost / capacity)
    assert metrics.queue_length_mean == pytest.approx(waited / (end - begin))
    assert metrics.queue_length_max == longest


def test_means_agree_with_every_recorded_schedule(shared):
    """Batsim divides by all jobs, rejected ones included."""
    recorded = shared / "batsim" / "recorded"
    checked = 0
    for case in json.loads((shared / "batsim" / "cases.json").read_text()):
        if not case["ended"]:
            continue
        result = read_run(recorded / case["name"])
        schedule, metrics = result.schedule, run_measures(result)
        assert metrics.jobs_submitted == schedule["nb_jobs"]
        assert metrics.jobs_rejected == schedule["nb_jobs_rejected"]
        ran = metrics.jobs_submitted - metrics.jobs_rejected
        if not ran:
            continue
        share = ran / metrics.jobs_submitted
        assert metrics.makespan == schedule["makespan"]
        for name, summary in {
            "waiting_time": metrics.waiting_time,
            "turnaround_time": metrics.turnaround_time,
            "slowdown": metrics.slowdown,
        }.items():
            assert summary.mean * share == pytest.approx(schedule[f"mean_{name}"], abs=2e-6)
            assert summary.max == pytest.approx(schedule[f"max_{name}"], abs=2e-6)
        checked += 1
    assert checked > 45


@pytest.mark.parametrize(
    ("name", "mean_wait", "makespan", "killed"),
    [
        ("kth_fcfs", 218832.06, 29379608, 38),
        ("kth_easy_bf", 6360.61, 29363626, 38),
        ("kth_conservative_bf", 7186.62, 29363626, 38),
        ("sdsc5k_fcfs", 15581.48, 5064400, 309),
        ("sdsc5k_easy_bf", 3609.05, 5064400, 309),
        ("sdsc5k_conservative_bf", 5307.14, 5065384, 309),
    ],
)
def test_batsched_on_real_logs(shared, name, mean_wait, makespan, killed):
    metrics = run_measures(read_run(shared / "batsim" / "recorded" / f"batsched_{name}"))
    assert metrics.waiting_time.mean == pytest.approx(mean_wait, abs=0.005)
    assert metrics.makespan == makespan
    assert metrics.jobs_walltime_killed == killed
    # Little's law: the queue's mean length is the waits' sum over the window.
    window = metrics.window_end - metrics.window_begin
    waited = metrics.waiting_time.mean * metrics.jobs_submitted
    assert math.isclose(metrics.queue_length_mean, waited / window, rel_tol=1e-9)
