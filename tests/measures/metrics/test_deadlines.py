"""What became of deadlines, counted by hand and against what admission control counts."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qops_batsim import Job, QosRequest, metrics, read_run, run
from qops_batsim.measures import outcomes_of_simulation, run_measures, study_measures
from qops_batsim.measures.metrics.outcomes import (
    JobsAndWork,
    deadline_metrics,
    outcomes_with_deadlines,
)
from qops_batsim.workload import Workload, write_workload
from support.ended_runs import EndedRun, ended_columns

ROWS = (
    # id, processors, run time, deadline, of its user
    ("met", 2, 10.0, 12.0, True),
    ("missed", 1, 5.0, 6.0, True),
    ("refused", 4, 10.0, 15.0, True),
    ("put off", 3, 10.0, 15.0, True),
    ("artificial", 1, 5.0, 100.0, False),
    ("none", 1, 20.0, None, None),
    ("killed", 2, 30.0, 99.0, True),
)


def ended(
    name: str, start: float, finish: float, state: str = "COMPLETED_SUCCESSFULLY"
) -> EndedRun:
    return name, start, finish, state


def workload() -> Workload:
    jobs = [
        Job(name, 0.0, size, f"d{seconds:g}", qos=QosRequest(deadline=end, has_user_deadline=own))
        for name, size, seconds, end, own in ROWS
    ]
    profiles = {f"d{row[2]:g}": {"type": "delay", "delay": row[2]} for row in ROWS}
    return Workload(jobs=jobs, profiles=profiles, processors=8)


def test_counts_by_hand() -> None:
    """Of two promises for later than was asked, one is kept."""
    done = [
        ended("met", 0.0, 10.0),
        ended("missed", 4.0, 9.0),
        ended("refused", math.nan, math.nan, "REJECTED"),
        ended("put off", 10.0, 20.0),
        ended("artificial", 10.0, 15.0),
        ended("none", 30.0, 50.0),
        ended("killed", 30.0, 40.0, "COMPLETED_KILLED"),
    ]
    promised = {"met": 12.0, "missed": 8.5, "put off": 20.0, "artificial": 100.0}
    found = deadline_metrics(outcomes_of_simulation(ended_columns(done), workload(), promised))
    assert found.asked == JobsAndWork(5, 20 + 5 + 40 + 30 + 60)
    assert found.promised == JobsAndWork(3, 20 + 5 + 30)
    assert found.kept == JobsAndWork(2, 20 + 30)
    assert found.broken == JobsAndWork(1, 5)
    assert found.met == JobsAndWork(1, 20)
    assert found.missed == JobsAndWork(3, 5 + 30 + 60)
    assert found.refused == JobsAndWork(1, 40)
    late = deadline_metrics(
        outcomes_of_simulation(ended_columns(done), workload(), promised), grace=1.0
    )
    assert late.kept.jobs == 3


@pytest.mark.parametrize("scheduler", ["qops", "easy", "fqops", "slack"])
def test_files_tell_the_same_as_the_simulation(scheduler: str, tmp_path: Path) -> None:
    done = run(scheduler, "sdsc_sp2_deadlines_500", out=tmp_path / "run")
    workloads = done.inputs.workloads
    result = read_run(done)
    found = done.measured.deadlines
    assert found == run_measures(result, workloads).deadlines
    assert found.asked.jobs == found.met.jobs + found.missed.jobs + found.refused.jobs == 500
    assert found.asked.work == pytest.approx(
        found.met.work + found.missed.work + found.refused.work
    )
    assert found.promised.jobs == found.kept.jobs
    counted = study_measures(outcomes_with_deadlines(result, workloads), result.hosts)
    assert counted.unadmitted_deadline_jobs == found.refused.jobs / 5
    assert counted.missed_deadlines == found.missed.jobs / 5
    assert metrics(done)["deadlines"]["asked"]["jobs"] == 500
    if scheduler == "easy":
        assert done.easy is None
    else:
        assert done.easy is not None
        assert done.easy.deadlines.met.jobs == 371


def test_a_run_without_decisions_promises_nothing(tmp_path: Path) -> None:
    done = run("easy", "sdsc_sp2_deadlines_500", out=tmp_path / "run")
    found = run_measures(replace(done.result, decisions=None), done.inputs.workloads)
    assert (found.deadlines, found.promises) == (done.measured.deadlines, None)


def test_deadlines_of_another_workload_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    write_workload(workload(), path)
    done = run("easy", path, out=tmp_path / "run")
    assert metrics(done)["deadlines"]["asked"]["jobs"] == 5
    changed = workload()
    changed.profiles["d5"]["delay"] = 6
    write_workload(changed, path)
    assert metrics(tmp_path / "run")["deadlines"] is None


def test_work_is_unknown_unless_all_jobs_last() -> None:
    jobs = workload()
    done = [ended(row[0], 0.0, row[2]) for row in ROWS]
    outcomes = outcomes_of_simulation(ended_columns(done), jobs)
    jobs.profiles["d5"] = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}
    found = deadline_metrics(replace(outcomes, workloads=(jobs,)))
    assert (found.asked.work, found.asked.jobs) == (None, 5)
    assert np.isfinite(outcomes.finish).all()
