"""Jobs that only sleep, as columns: those that are killed and run again stand behind the others."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from qops_batsim.engine.delay_jobs import DelayJobs, with_restarts
from qops_batsim.jobs import COMPLETED_KILLED, COMPLETED_SUCCESSFULLY, FINAL_STATES


def test_a_job_is_killed_and_run_again_several_times() -> None:
    """Of three jobs the last is killed, then the first, then both runs that came of them.

    Of the last, 1.5 s are saved the first time, of the first, 4 s the second time.
    """
    columns: Any = SimpleNamespace(
        ids=["a", "b", "c"], profile_names=["short", "long"], profiles=np.array([0, 1, 1])
    )
    well = FINAL_STATES.index(COMPLETED_SUCCESSFULLY)
    jobs = DelayJobs(
        name="w0",
        columns=columns,
        places=np.array([0, 1, 2]),
        submission_times=np.array([0.0, 1.0, 2.1234567]),
        processors=np.array([1, 2, 3]),
        estimates=np.array([10.0, 20.0, 30.0]),
        walltimes=np.array([np.inf, np.inf, 5.0]),
        delays=np.array([10.0, 20.0, 30.0]),
        codes=np.array([0, 0, 0]),
        run_times=np.array([10.0, 20.0, 5.0]),
        states=np.full(3, well),
        return_codes=np.zeros(3, np.int64),
    )
    found = with_restarts(
        jobs, np.array([2, 0, 2, 0]), np.array([3, 3, 3, 3]), [1.5, 0.0, 0.0, 4.0]
    )
    assert found.local_ids() == ["a", "b", "c", "c#1", "a#1", "c#2", "a#2"]
    assert [(each.job, each.number) for each in found.restarts] == [(2, 1), (0, 1), (2, 2), (0, 2)]
    killed = [FINAL_STATES[state] == COMPLETED_KILLED for state in found.states.tolist()]
    # Only the last run of each job ends by itself.
    assert killed == [True, False, True, True, True, False, False]
    assert found.run_times.tolist() == [10, 20, 5, 3.5, 10, 3.5, 6]
    assert found.walltimes[3:].tolist() == [3.5, math.inf, 3.5, math.inf]
    assert found.estimates[3:].tolist() == [28.5, 10, 28.5, 6]
    again = ["long#c#1", "short", "long#c#1", "short#a#2"]
    assert found.profiles().texts() == ["short", "long", "long", *again]
    assert found.processors.tolist() == [1, 2, 3, 3, 1, 3, 1]
    assert found.submitted == 3
