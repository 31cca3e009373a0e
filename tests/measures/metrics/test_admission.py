"""Metrics of admission, against values computed by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim import InputError, Job, QosRequest, read_run, simulate
from qops_batsim.measures import (
    JobOutcomes,
    broken_rule,
    outcomes_of_run,
    outcomes_of_simulation,
    run_measures,
    study_measures,
)
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import write_run
from qops_batsim.workload import Workload
from support.ended_runs import EndedRun, ended_columns

ROWS = (
    # id, submission, processors, run time, deadline, of its user
    ("a", 0.0, 2, 10.0, 12.0, True),
    ("b", 0.0, 4, 10.0, 15.0, True),
    ("c", 10.0, 1, 5.0, 100.0, False),
    ("d", 20.0, 1, 20.0, None, None),
)


def workload(rows: tuple[Any, ...] = ROWS) -> Workload:
    return Workload(
        jobs=[
            Job(
                name,
                submission,
                processors,
                f"delay{seconds:g}",
                qos=QosRequest(
                    estimated_runtime=seconds, deadline=deadline, has_user_deadline=of_user
                ),
            )
            for name, submission, processors, seconds, deadline, of_user in rows
        ],
        profiles={f"delay{row[3]:g}": {"type": "delay", "delay": row[3]} for row in rows},
        processors=4,
    )


def ended(
    name: str, start: float, finish: float, state: str = "COMPLETED_SUCCESSFULLY"
) -> EndedRun:
    return name, start, finish, state


def outcomes(promised: dict[str, float] | None = None) -> JobOutcomes:
    """Return outcomes where b was refused and d waited 10 s."""
    done = [
        ended("a", 0.0, 10.0),
        ended("b", math.nan, math.nan, "REJECTED"),
        ended("c", 10.0, 15.0),
        ended("d", 30.0, 50.0),
    ]
    return outcomes_of_simulation(ended_columns(done), workload(), promised)


def test_hand_computed_metrics() -> None:
    metrics = study_measures(outcomes(), 4)
    assert (metrics.jobs, metrics.deadline_jobs) == (4, 2)
    # Work: 20, 40, 5 and 20 processor-seconds.
    assert metrics.offered_load == pytest.approx(85 / (4 * 20))
    assert metrics.unadmitted_jobs == 25
    # Of all that ran, a and c started at once, and d after 10 s of its 20.
    assert metrics.wait == pytest.approx(10 / 3)
    assert metrics.bounded_slowdown_of_all == pytest.approx((1 + 1 + 30 / 20) / 3)
    assert metrics.met_deadlines == 100 - 50 - metrics.missed_deadlines
    assert metrics.unadmitted_work == pytest.approx(100 * 40 / 85)
    assert metrics.unadmitted_deadline_jobs == 50
    assert metrics.unadmitted_deadline_work == pytest.approx(100 * 40 / 60)
    assert metrics.missed_deadlines == 0
    assert metrics.utilization == pytest.approx(100 * 45 / (4 * 50))
    assert metrics.utilization_during_submissions == pytest.approx(100 * 25 / (4 * 20))
    # c responds in 5 s, d in 30 s.
    assert metrics.response_time_of_others == pytest.approx(17.5)
    assert metrics.slowdown_of_others == pytest.approx((1 + 1.5) / 2)
    assert metrics.bounded_slowdown_of_others == pytest.approx((1 + 1.5) / 2)


def test_only_missed_deadlines_of_users_count() -> None:
    records = [
        ended("a", 5.0, 15.0),
        ended("b", 15.0, 25.0),
        ended("c", 200.0, 205.0),
        ended("d", 205.0, 225.0),
    ]
    metrics = study_measures(outcomes_of_simulation(ended_columns(records), workload()), 4)
    assert metrics.missed_deadlines == 100
    assert metrics.unadmitted_jobs == 0


def test_what_does_not_exist_is_none() -> None:
    only = workload(ROWS[:1])
    done = ended_columns([ended("a", 0.0, 10.0)])
    metrics = study_measures(outcomes_of_simulation(done, only), 4)
    assert metrics.offered_load is None
    assert metrics.utilization_during_submissions is None
    assert metrics.response_time_of_others is None
    assert metrics.slowdown_of_others is None
    done = ended_columns([ended("a", math.nan, math.nan, "REJECTED")])
    refused = outcomes_of_simulation(done, only)
    metrics = study_measures(refused, 4)
    assert metrics.unadmitted_work == 100
    assert metrics.utilization is None


@pytest.mark.parametrize("scheduler", ["easy", "qops", "msb", "mrt"])
def test_simulation_and_its_files_agree(scheduler: str, tmp_path: Path) -> None:
    jobs = workload()
    module = make_scheduler(scheduler)
    simulation = simulate(module, jobs, make_cluster(4))
    write_run(
        simulation,
        tmp_path / "run",
        scheduler=scheduler,
        module=module,
        workload="w",
        platform=None,
    )
    result = read_run(tmp_path / "run")
    given = {name.partition("!")[2]: date for name, date in module.qos_log.promises().items()}
    direct = study_measures(outcomes_of_simulation(simulation.ended_jobs, jobs, given), 4)
    assert direct.broken_promises == (0.0 if given else None)
    assert direct == study_measures(outcomes_of_run(result, {"w0": jobs}), 4)
    general = run_measures(result)
    assert direct.utilization == pytest.approx(100 * (general.utilization or 0))
    assert direct.unadmitted_jobs == 100 * general.jobs_rejected / 4


def test_other_deadlines_leave_the_rest_as_it_is() -> None:
    other = workload(tuple((name, at, size, time, None, None) for name, at, size, time, *_ in ROWS))
    same = outcomes().with_deadlines_of(other)
    assert np.isnan(same.deadline).all()
    assert not same.of_user.any()
    np.testing.assert_array_equal(same.start, outcomes().start)


def test_runs_of_a_job_are_taken_together() -> None:
    """The last run counts, those before are lost; of killed ones the work is wasted."""
    killed = "COMPLETED_KILLED"
    done = [
        ended("d", 25.0, 30.0, killed),
        ended("a", 0.0, 10.0),
        ended("d#1", 30.0, 34.0, killed),
        ended("elsewhere", 0.0, 1.0),
        ended("b", 10.0, 17.0, killed),
        ended("d#2", 40.0, 60.0),
        ended("c", 12.0, 17.0),
    ]
    found = outcomes_of_simulation(ended_columns(done), workload(), {"d#1": 70.0})
    assert found.ids == ["a", "b", "c", "d"]
    assert found.start.tolist() == [0.0, 10.0, 12.0, 40.0]
    np.testing.assert_array_equal(found.charged_time, [10.0, math.nan, 5.0, 20.0])
    np.testing.assert_array_equal(found.promised, [math.nan, math.nan, math.nan, 70.0])
    assert found.killed_runs.tolist() == [0, 1, 0, 2]
    assert found.wasted.tolist() == [0.0, 28.0, 0.0, 9.0]
    assert found.lost.tolist() == [[25.0, 30.0, 1.0], [30.0, 34.0, 1.0]]


def test_a_possible_schedule_breaks_no_rule() -> None:
    assert broken_rule(outcomes({"a": 10.0}), 4) is None


@pytest.mark.parametrize(
    ("records", "promised", "message"),
    [
        ([ended("a", -1.0, 9.0)], {}, "before its submission"),
        ([ended("a", 0.0, 9.0)], {}, "does not run for its run time"),
        ([ended("a", 3.0, 13.0)], {"a": 12.0}, "ends after its promised deadline"),
        ([ended("a", math.nan, math.nan, "REJECTED")], {"a": 12.0}, "but is refused"),
        ([ended("a", 0.0, 10.0), ended("b", 9.0, 19.0)], {}, "6 processors compute at 9.000000 s"),
    ],
)
def test_broken_rules_are_told(
    records: list[Any], promised: dict[str, float], message: str
) -> None:
    jobs = workload(ROWS[: len(records)])
    found = broken_rule(outcomes_of_simulation(ended_columns(records), jobs, promised), 4)
    assert found is not None
    assert message in found


def test_a_job_may_start_when_another_ends() -> None:
    jobs = workload(ROWS[:2])
    records = [ended("a", 0.0, 10.0), ended("b", 10.0, 20.0)]
    assert broken_rule(outcomes_of_simulation(ended_columns(records), jobs), 4) is None


def test_a_run_of_another_workload_is_refused() -> None:
    with pytest.raises(InputError, match="job \"?'?b'?\"? of a workload is not in the run"):
        outcomes_of_simulation(ended_columns([ended("a", 0.0, 10.0)]), workload(ROWS[:2]))


def test_a_machine_has_hosts() -> None:
    with pytest.raises(InputError, match="number of hosts is 0; at least 1"):
        study_measures(outcomes(), 0)
