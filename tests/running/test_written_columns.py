"""The columns that a run is judged by: those of its files, be they true or not."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qops_batsim import run, tables
from qops_batsim.core.qos_log import QosLog
from qops_batsim.engine import outputs
from qops_batsim.engine.ended_jobs import EndedJobs
from qops_batsim.tables import Column, Intervals, Words, cells
from support import random_simulations
from support.read_back import differences

KILLS = {"kill_and_restart": True, "tolerance_factor": 4.0}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("easy", {}),
    ("easy", {"run_times": "predicted"}),
    ("conservative", {}),
    ("qops", {}),
    ("fqops", KILLS),
    ("slack", {}),
    ("priced-queues", {}),
    ("msb", {}),
]


@pytest.mark.parametrize("in_bulk", [False, True])
@pytest.mark.parametrize(("scheduler", "settings"), CASES)
def test_files_say_what_was_judged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheduler: str,
    settings: dict[str, Any],
    in_bulk: bool,
) -> None:
    if in_bulk:
        monkeypatch.setattr(tables, "FEW_BYTES", 0)
        monkeypatch.setattr(tables, "ROWS_AT_ONCE", 5)
    for seed in range(4):
        rng = random.Random(seed)
        style = random_simulations.Style(True, False, True, True, seed % 2 == 1)
        made = random_simulations.workload(rng, 8, 14, style)
        for place, job in enumerate(made["jobs"]):
            job["id"] = rng.choice(["", "=", "'=", "é", "-", "a b"]) + str(place)
            job["subtime"] += rng.choice([0, 0.25, 1e-6, 1 / 3, 1e6, 1e9])
        path = tmp_path / f"{seed}.json"
        path.write_text(json.dumps(made))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = run(scheduler, path, settings=settings, out=tmp_path / f"run{seed}")
        assert differences(done) == []


def a_lie(column: Column, row: int) -> Column | None:
    """Return a column that says something else of one row; None if it is not known how."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return column + 7.0 * (np.arange(len(column)) == row)
    if isinstance(column, np.ndarray):
        other = column + 1 if column.max() > 1 else 1 - column
        return np.where(np.arange(len(column)) == row, other, column)
    if isinstance(column, Intervals):
        first = column.first.copy()
        last = column.last.copy()
        first[column.offsets[row]] += 1
        last[column.offsets[row]] += 1
        return type(column)(column.offsets, first, last)
    if isinstance(column, Words) and len(column.words) > 1:
        which = column.which.copy()
        which[row] = 0 if which[row] else 1
        return Words(column.words, which)
    return None


NOT_JUDGED = {"profile", "consumed_energy", "workload_name", "metadata"}
"""Of these no rule tells; of one workload and empty metadata there is nothing else to say."""


@pytest.mark.parametrize("scheduler", ["easy", "fcfs"])
def test_an_engine_that_lies_in_one_field_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    true = EndedJobs.table
    said: list[str] = []

    def lying(self: EndedJobs) -> dict[str, Column]:
        table = true(self)
        if name in table and (changed := a_lie(table[name], row)) is not None:
            said.append(name)
            table[name] = changed
        return table

    names = [*run(scheduler, "tiny_8", out=tmp_path / "true").result.table.names]
    monkeypatch.setattr(EndedJobs, "table", lying)
    for name in names:
        for row in (0, 3, 7):
            done = run(scheduler, "tiny_8", out=tmp_path / "lie")
            is_judged = name not in NOT_JUDGED
            assert bool(done.violations) == (is_judged and said[-1:] == [name]), (name, row)
            assert differences(done) == []
    assert {*names} - {*said} <= NOT_JUDGED


def test_an_engine_that_lies_about_hosts_over_time_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = outputs._machine_states

    def lying(changes: Any) -> dict[str, Column]:
        table = true(changes)
        table["nb_computing"] = table["nb_computing"] + (np.arange(16) == 15)
        return table

    monkeypatch.setattr(outputs, "_machine_states", lying)
    done = run("easy", "tiny_8", out=tmp_path / "lie")
    assert {each.rule for each in done.violations} == {"machine-states"}


@pytest.mark.parametrize(
    ("scheduler", "name", "rule"),
    [
        ("qops", "decision", "rejected-never-runs"),
        ("qops", "admitted_deadline", "admitted-deadline"),
        ("slack", "latest_start", "latest-start"),
    ],
)
def test_a_scheduler_that_lies_about_a_decision_or_promise_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str, name: str, rule: str
) -> None:
    style = random_simulations.Style(True, False, True, True, False)
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(random_simulations.workload(random.Random(1), 8, 14, style)))
    true = QosLog.table

    def lying(self: QosLog) -> dict[str, Column]:
        table = true(self)
        column = table[name]
        if isinstance(column, np.ndarray):
            # Earlier than anything happens; a later date is no lie that the schedule could tell.
            table[name] = np.where(np.arange(len(column)) == row, -1e6, column)
        else:
            told = cells(column)
            other = "rejected" if told[row] == "accepted" else "accepted"
            table[name] = [*told[:row], other, *told[row + 1 :]]
        return table

    honest = run(scheduler, path, out=tmp_path / "true").result
    assert honest.decisions is not None
    given = honest.decisions.columns[name]
    told = [row for row in range(14) if name == "decision" or not np.isnan(given[row])]
    assert len(told) > 3
    monkeypatch.setattr(QosLog, "table", lying)
    for row in told:
        done = run(scheduler, path, out=tmp_path / "lie")
        assert {each.rule for each in done.violations} == {rule}, row
        assert differences(done) == []
