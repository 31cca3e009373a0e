"""Jobs in columns: what was read, until a job is changed."""

from __future__ import annotations

import pickle

import pytest

from qops_batsim import read_workload, simulate
from qops_batsim.engine import EngineOptions


def test_columns_are_those_that_were_read() -> None:
    workload = read_workload("tiny_8")
    columns = workload.columns
    assert [job.processors for job in workload.jobs] == columns.processors.tolist()
    assert workload.columns is columns, "nothing was changed"
    assert pickle.loads(pickle.dumps(workload)).jobs == workload.jobs


@pytest.mark.parametrize("engine", [None, EngineOptions(forward_profiles=True)])
def test_a_changed_job_is_simulated_as_it_is_now(engine: EngineOptions | None) -> None:
    """By jobs in columns, and by jobs one by one."""
    before = simulate("easy", "tiny_8", engine=engine).ended_jobs
    workload = read_workload("tiny_8")
    for job in workload.jobs:
        job.walltime = 1.0
    for each in (workload, pickle.loads(pickle.dumps(workload))):
        assert set(each.columns.walltimes.tolist()) == {1.0}
        after = simulate("easy", each, engine=engine).ended_jobs
        assert (after.finishes - after.starts).max() == 1.0
    assert (before.finishes - before.starts).max() > 1.0


def test_fields_that_were_asked_for_stay_as_they_were_read() -> None:
    workload = read_workload("tiny_8")
    job = workload.jobs[0]
    before = dict(job.fields)
    job.processors = 1
    assert job.fields == before
    other = workload.jobs[1]
    other.id = "another"
    assert other.fields["id"] == read_workload("tiny_8").jobs[1].id
    assert workload.columns.ids[1] == "another"
    assert workload.columns.processors[0] == 1
