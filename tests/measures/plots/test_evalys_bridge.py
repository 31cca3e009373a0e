from __future__ import annotations

import numpy as np
import pytest

from qops_batsim import read_run
from qops_batsim.measures import busy_hosts, run_measures, to_jobset
from qops_batsim.measures.results.series import step_series


def agree(load, series):
    """Compare a load of evalys, which has a row per event, with a step series."""
    dates = load.index.to_numpy(dtype=float)
    assert load["load"].tolist() == series.at(dates).tolist()
    assert set(series.dates).issubset(dates)


@pytest.mark.parametrize("through_csv", [True, False])
def test_evalys_agrees_with_our_series(write_run, mixed_run, through_csv):
    from evalys.jobset import JobSet

    prefix = write_run(mixed_run(), hosts=4)
    result = read_run(prefix)
    if through_csv:
        jobset = JobSet.from_csv(f"{prefix}_jobs.csv", resource_bounds=(0, 3))
    else:
        jobset = to_jobset(result)
    assert jobset.MaxProcs == 4
    agree(jobset.utilisation, busy_hosts(result))
    names = ("submission_time", "starting_time", "requested_number_of_resources")
    waiting = (column[result.executed] for column in result.columns(*names))
    agree(jobset.queue, step_series(*waiting))
    area = np.nansum(jobset.utilisation["area"])
    assert area / (4 * 24) == pytest.approx(run_measures(result).utilization)


def test_jobset_of_some_jobs(write_run, mixed_run):
    result = read_run(write_run(mixed_run(), hosts=4))
    keep = np.array([True, False, False, True, False, True])
    assert to_jobset(result, keep).df["jobID"].tolist() == ["1", "6"]  # 4 was rejected


def test_jobset_of_a_recorded_run(shared):
    result = read_run(shared / "batsim" / "recorded" / "batsched_sdsc5k_easy_bf")
    agree(to_jobset(result).utilisation, busy_hosts(result))
