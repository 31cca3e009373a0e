"""Simulations of forecasts are schedules, which the project's verifier checks."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim import verify
from qops_batsim.engine.loop import SchedulerLoop, Submissions
from qops_batsim.queue import WEEK, Past, Simulator, forecast, moment_of
from qops_batsim.queue.past import Habits, Patience
from support.pasts import history

COLUMNS = [
    *("job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources"),
    *("requested_time", "success", "final_state", "starting_time", "execution_time"),
    *("finish_time", "waiting_time", "turnaround_time", "stretch", "allocated_resources"),
    *("consumed_energy", "metadata"),
]


def impatient(jobs: Past) -> Past:
    """Return a past in which a third of those who waited were cancelled at half of their waits."""
    waits = jobs.starts - jobs.submissions
    some = np.flatnonzero(waits > 60.0)[::3]
    cancelled = np.full(len(waits), np.nan)
    cancelled[some] = jobs.submissions[some] + waits[some] / 2
    starts = np.where(np.isnan(cancelled), jobs.starts, np.nan)
    return jobs._replace(starts=starts, cancelled=cancelled)


def write(path: Path, loop: SchedulerLoop, made_of: tuple[Any, ...], left: Any) -> int:
    """Write a simulation as a run's jobs, those as well that would have ended after the last start
    that was asked for; ``left`` is for how long they run then. Return how many ran.
    """
    _, ids, _, _, _, dates, widths, limits, *_ = made_of
    ran = 0
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(COLUMNS)
        manager = loop.manager
        for index, job_id in enumerate(ids):
            start = loop.starts[index]
            end = loop.finishes[index]
            if np.isnan(end):
                end = max(start, left[0]) + left[1][index]
            told = [job_id, "q", "", dates[index], widths[index], limits[index]]
            if np.isnan(start):
                rows.writerow([*told, 0, "REJECTED", *[""] * 6, "", -1, ""])
                continue
            ran += 1
            first = manager.offsets[index]
            pieces = range(first, first + manager.pieces[index])
            hosts = " ".join(f"{manager.lows[at]}-{manager.highs[at]}" for at in pieces)
            wait, turn = start - dates[index], end - dates[index]
            times = [start, end - start, end, wait, turn, turn / (end - start)]
            rows.writerow([*told, 1, "COMPLETED_SUCCESSFULLY", *times, hosts, -1, ""])
    return ran


@pytest.mark.parametrize(
    ("scheduler", "settings"), [("easy", {}), ("slurm", {"weight_size": 5000.0})]
)
def test_no_simulation_breaks_a_rule(
    scheduler: str, settings: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Any, ...]] = []
    loops: list[SchedulerLoop] = []
    lasting: list[Any] = []

    def kept_submissions(*given: Any) -> Submissions:
        made.append(given)
        return Submissions(*given)

    def kept_loop(*given: Any) -> SchedulerLoop:
        loops.append(SchedulerLoop(*given))
        lasting.append(given[3])
        return loops[-1]

    jobs = impatient(history())
    monkeypatch.setattr(forecast, "Submissions", kept_submissions)
    monkeypatch.setattr(forecast, "SchedulerLoop", kept_loop)
    dates = np.linspace(2 * WEEK, 3.5 * WEEK, 400).tolist()
    now = next(date for date in dates if len(moment_of(jobs, date).waiting) > 3)
    ended = np.argsort(jobs.ends)
    habits = Habits(jobs, ended[jobs.ends[ended] <= now])
    patience = Patience(jobs)
    patience.learn(np.flatnonzero(jobs.waited_until <= now))
    simulator, rng = Simulator(jobs, scheduler, settings), np.random.default_rng(8)
    moment = moment_of(jobs, now)
    found = simulator.forecast(moment, habits, 8, rng, patience)
    # Some users do not wait until their jobs start.
    assert 0 < np.isnan(found).sum() < found.size
    for number, (loop, made_of) in enumerate(zip(loops, made, strict=True)):
        path = tmp_path / f"draw{number}_jobs.csv"
        ran = write(path, loop, made_of, (now, lasting[number]))
        assert ran > len(moment.running) + len(moment.waiting) / 2
        assert verify(path) == []
    assert len(loops) == 8


def test_the_verifier_sees_what_such_a_file_has(tmp_path: Path) -> None:
    # Two jobs on one host at once.
    rows = [["1", "q", "", 0, 1, 9, 1, "COMPLETED_SUCCESSFULLY", 0, 5, 5, 0, 5, 1, "0", -1, ""]]
    rows.append([*rows[0][:3], 1, 1, 9, 1, rows[0][7], 2, 5, 7, 1, 6, 1.2, "0", -1, ""])
    rows[1][0] = "2"
    path = tmp_path / "two_jobs.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([COLUMNS, *rows])
    assert [each.rule for each in verify(path)] == ["exclusive-hosts"]
