"""Metrics of promises, against values computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qops_batsim import Job, QosRequest
from qops_batsim.economics import ReferenceJob, category_slowdowns
from qops_batsim.measures import JobOutcomes, broken_rule, study_measures
from qops_batsim.measures.metrics.measured import expected_risks
from qops_batsim.workload import Workload

#        run time, walltime, estimate, deadline, start, finish: kept, late by 6, killed, refused
ROWS = [
    (10, None, 10.0, 20.0, 0.0, 10.0),
    (16, None, 10.0, 20.0, 10.0, 26.0),
    (10, 5.0, 5.0, 50.0, 26.0, 31.0),
    (10, None, 10.0, 40.0, None, None),
]


def outcomes() -> JobOutcomes:
    jobs = [
        Job(str(n), 0.0, 2, f"p{n}", row[1], QosRequest(deadline=row[3], estimated_runtime=row[2]))
        for n, row in enumerate(ROWS)
    ]
    profiles = {f"p{n}": {"type": "delay", "delay": row[0]} for n, row in enumerate(ROWS)}
    start = np.array([np.nan if row[4] is None else row[4] for row in ROWS])
    finish = np.array([np.nan if row[5] is None else row[5] for row in ROWS])
    deadline = np.array([row[3] for row in ROWS])
    refused, nothing = np.isnan(start), np.zeros(len(ROWS))
    return JobOutcomes(
        source="test",
        workloads=(Workload(jobs=jobs, profiles=profiles, processors=2),),
        ids=[job.id for job in jobs],
        submission=nothing,
        start=start,
        finish=finish,
        charged_time=finish - start,
        processors=np.full(len(ROWS), 2.0),
        deadline=deadline,
        promised=np.where(refused, np.nan, deadline),
        of_user=np.ones(len(ROWS), np.bool_),
        refused=refused,
        killed_runs=nothing.astype(np.int64),
        wasted=nothing,
        lost=np.empty((0, 3)),
        at_walltime=np.array([row[1] is not None for row in ROWS]),
    )


def test_promises_are_kept_late_or_killed() -> None:
    references = {str(n): ReferenceJob(row[0], row[0], 2) for n, row in enumerate(ROWS)}
    table = category_slowdowns(references.values())  # Nothing waits: all slowdowns are 1.
    found = study_measures(outcomes(), 2, references, table)
    assert found.broken_promises == pytest.approx(200 / 3)
    assert (found.lateness_median, found.lateness_p95) == (6, 6)
    assert found.relative_lateness_median == pytest.approx(30)
    assert found.killed_at_walltime == pytest.approx(100 / 3)
    assert found.utilization == pytest.approx(100)
    assert found.useful_utilization == pytest.approx(100 * 26 / 31)
    # Charges are run time over time promised: 0.5 kept, 0.8 late, 0.2 killed, 0.25 refused.
    assert found.kept_charge == pytest.approx(100 * 0.5 / 1.75)
    assert found.broken_charge == pytest.approx(100 * 1.0 / 1.75)
    assert found.income == pytest.approx(-100 * 0.5 / 1.75)
    # All were promised before anything was known: each is broken or kept as likely.
    assert found.expected_risk == pytest.approx(50)
    assert found.premium == pytest.approx(100 * 0.75 / 1.75)
    assert found.income_with_premium == pytest.approx(100 * 0.25 / 1.75)


def test_a_latest_start_is_a_promise_where_no_deadline_is() -> None:
    unpromised = np.full(len(ROWS), np.nan)
    latest = np.array([0.0, 4.0, 26.0, np.nan])
    jobs = replace(outcomes(), promised=unpromised, latest_start=latest)
    references = {str(n): ReferenceJob(row[0], row[0], 2) for n, row in enumerate(ROWS)}
    found = study_measures(jobs, 2, references, category_slowdowns(references.values()))
    assert found.broken_promises == pytest.approx(100 / 3)
    assert (found.lateness_median, found.relative_lateness_median) == (6, 150)
    assert found.income is None
    assert broken_rule(jobs, 2) is None  # The second job outlived its estimate.
    rows = [Job(n, 0.0, 2, f"p{n}", 5.0 if n == "2" else 16.0) for n in jobs.ids]
    exact = Workload(jobs=rows, profiles=jobs.workloads[0].profiles, processors=2)
    told = broken_rule(replace(jobs, workloads=(exact,)), 2)
    assert told is not None
    assert "'1' starts after its promised latest start, at 10.000000 s" in told


def test_risks_are_those_of_the_class_as_far_as_they_were_known() -> None:
    jobs = outcomes()
    jobs.submission[:] = [0, 25, 30, 40]
    jobs.finish[:] = [10, 26, 31, 45]
    promised = np.ones(4, np.bool_)
    broken = np.array([False, True, True, False])
    found = expected_risks(jobs, promised, broken, ["a", "a", "b", "a"])
    # At 25 the first is known; the second is broken at its date, 20, and the third at 31.
    overall = [0.5, 0.5 / 2, 1.5 / 3, 2.5 / 4]
    expected = [overall[0], overall[1] / 2, overall[2], (1 + overall[3]) / 3]
    assert found.tolist() == pytest.approx(expected)


def test_risks_equal_a_naive_count_where_dates_are_equal() -> None:
    """Dates are few, so that fates become known when others are submitted."""
    rng = np.random.default_rng(7)
    for _ in range(30):
        count = 12
        jobs = outcomes()
        submission = rng.integers(0, 6, count).astype(float)
        finish = submission + rng.integers(1, 5, count)
        due = submission + rng.integers(1, 5, count)
        promised, broken = rng.random(count) < 0.8, rng.random(count) < 0.5
        broken &= promised
        classes = rng.choice(["a", "b"], count).tolist()
        jobs = replace(jobs, submission=submission, finish=finish, promised=due)
        found = expected_risks(jobs, promised, broken, classes)
        known = [min(f, d) if b else f for f, d, b in zip(finish, due, broken, strict=True)]
        for row in range(count):
            others = [n for n in range(count) if promised[n] and known[n] <= submission[row]]
            alike = [n for n in others if classes[n] == classes[row]]
            overall = (sum(broken[n] for n in others) + 0.5) / (len(others) + 1)
            risk = (sum(broken[n] for n in alike) + overall) / (len(alike) + 1)
            assert found[row] == pytest.approx(risk if promised[row] else 0.0)


def test_a_run_without_promises_has_none_broken() -> None:
    jobs = outcomes()
    jobs.promised[:] = np.nan
    references = {str(n): ReferenceJob(row[0], row[0], 2) for n, row in enumerate(ROWS)}
    found = study_measures(jobs, 2, references, category_slowdowns(references.values()))
    assert found.broken_promises is None
    assert found.income is None
    assert found.killed_at_walltime == pytest.approx(100 / 3)
