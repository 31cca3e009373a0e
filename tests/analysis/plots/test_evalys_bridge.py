from __future__ import annotations

import numpy as np
import pytest

from qops_batsim.analysis.metrics.run_metrics import compute_metrics
from qops_batsim.analysis.results.run import read_run
from qops_batsim.analysis.results.series import busy_hosts, step_series


def agree(load, series):
    """Compare a load of evalys, which has a row per event, with a step series."""
    dates = load.index.to_numpy(dtype=float)
    assert load["load"].tolist() == series.at(dates).tolist()
    assert set(series.dates).issubset(dates)


def test_evalys_agrees_with_our_series(write_run, mixed_run):
    from evalys.jobset import JobSet

    prefix = write_run(mixed_run(), hosts=4)
    result = read_run(prefix)
    jobset = JobSet.from_csv(f"{prefix}_jobs.csv", resource_bounds=(0, 3))
    assert jobset.MaxProcs == 4
    agree(jobset.utilisation, busy_hosts(result))
    names = ("submission_time", "starting_time", "requested_number_of_resources")
    waiting = (column[result.executed] for column in result.columns(*names))
    agree(jobset.queue, step_series(*waiting))
    area = np.nansum(jobset.utilisation["area"])
    assert area / (4 * 24) == pytest.approx(compute_metrics(result).utilization)
