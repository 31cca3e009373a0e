"""Reading decision logs: states of the plan, and what is said about damaged logs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qops_batsim import InputError, read_run
from qops_batsim.advice import PriceList
from qops_batsim.advice.explain import explain_job
from qops_batsim.core.decision_events import Ended, Killed, Started
from qops_batsim.running import DecisionHistory, PlanAsker, read_history
from qops_batsim.running.history import RUNNING, WAITING, PlanState, find_job, read_history_if_kept
from support.changed_runs import allow_changes
from support.decision_runs import (
    exact,
    history_of,
    random_workload,
    run_files,
    workload_of,
)

# One processor: B waits for A, then C goes before B.
#
#   |AAAACCBBBB
#    0   4 6
JOBS = [exact(0, 1, 4, 4), exact(1, 1, 4, 19), exact(1, 1, 2, 7)]


@pytest.fixture
def history(tmp_path) -> DecisionHistory:
    return history_of("qops", workload_of(1, JOBS), tmp_path)


def running(state: PlanState) -> dict[str, tuple[float | None, float | None]]:
    """Start and expected end of the running jobs."""
    return {job.name: (job.start, job.expected_end) for job in state.held if job.outcome == RUNNING}


def waiting(state: PlanState) -> dict[str, float | None]:
    """Promised start of the waiting jobs."""
    return {job.name: job.planned for job in state.held if job.outcome == WAITING}


def targets(state: PlanState) -> dict[str, float | None]:
    return {job.name: job.target for job in state.held}


def test_states_of_a_drawn_run(history: DecisionHistory) -> None:
    assert list(history.jobs) == ["w0!A", "w0!B", "w0!C"]
    assert history.end == 10
    start = history.state_at(0.5)
    assert (running(start), waiting(start)) == ({"w0!A": (0, 4)}, {})
    both = history.state_at(1)
    assert waiting(both) == {"w0!B": 6, "w0!C": 4}
    assert targets(both) == {"w0!A": 4, "w0!B": 19, "w0!C": 7}
    assert history.state_at(1, before=True).jobs == history.state_at(0).jobs
    assert running(history.state_at(4)) == {"w0!C": (4, 6)}
    assert history.state_at(10).held == []


def test_states_around_a_submission(history: DecisionHistory) -> None:
    assert waiting(history.state_before("w0!C")) == {"w0!B": 4}
    assert waiting(history.state_after_admission("w0!C")) == {"w0!B": 6, "w0!C": 4}
    assert running(history.state_before("w0!A")) == {}


@pytest.mark.parametrize("scheduler", ["qops", "msb", "mrt", "fqops"])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=settings.default.max_examples // 8)
def test_states_are_what_ran(scheduler: str, seed: int, tmp_path_factory) -> None:
    """Compared with _jobs.csv, which the engine writes."""
    options = {"kill_and_restart": True, "tolerance_factor": 2.0} if scheduler == "fqops" else {}
    workload = random_workload(random.Random(seed))
    prefix = run_files(scheduler, workload, tmp_path_factory.mktemp("run"), **options)
    history, run = read_history(prefix), read_run(prefix)
    columns = (run.column("starting_time"), run.column("finish_time"), run.executed)
    rows = list(zip(run.jobs["id"], *(column.tolist() for column in columns), strict=True))
    dates = sorted({event.date for event in history.events})
    for date in [*dates, *(date + 0.25 for date in dates[:-1])]:
        state = history.state_at(date)
        ran = {name for name, start, end, executed in rows if executed and start <= date < end}
        assert set(running(state)) == ran
        assert not state.dying
        used = sum(job.asked.processors for job in state.held if job.name in ran)
        free = PlanAsker(history, state, date).free_processors
        assert used == history.header.processors - free <= history.header.processors
        assert all(start is None or start >= date - 20 for start in waiting(state).values())


def test_a_killed_job_has_one_name_for_users(tmp_path) -> None:
    rows = [exact(0, 1, 6, 20), exact(2, 1, 3, 5)]
    history = history_of("fqops", workload_of(1, rows), tmp_path, kill_and_restart=True)
    assert history.find_job("A") == history.find_job("A#1") == history.find_job("w0!A#1") == "w0!A"
    assert [kill.again for kill in history.state_at(3).jobs["w0!A"].kills] == ["w0!A#1"]
    assert waiting(history.state_at(3)) == {"w0!A#1": 5}
    place = next(p for p, event in enumerate(history.events) if isinstance(event, Killed))
    state = DecisionHistory("", Path(), history.header, history.events[: place + 1]).state_at(2)
    (job,) = state.dying.values()
    assert (list(state.dying), job.name, job.start, job.expected_end) == (["w0!A"], "w0!A#1", 0, 6)


def test_jobs_are_found_by_short_names() -> None:
    known = dict.fromkeys(["w0!1", "w0!12", "w1!12"])
    assert find_job("w1!12", known, "log") == "w1!12"
    assert find_job("1", known, "log") == "w0!1"
    with pytest.raises(InputError, match="log: several jobs are called '12': w0!12, w1!12"):
        find_job("12", known, "log")
    with pytest.raises(InputError, match=r"log: no job '11'; did you mean '1'\? \(known: 3 jobs\)"):
        find_job("11", known, "log")
    with pytest.raises(InputError, match=r"log: no job 'zz' \(known: 3 jobs\)"):
        find_job("zz", known, "log")


def test_runs_without_a_log(tmp_path) -> None:
    prefix = run_files("qops", workload_of(1, JOBS), tmp_path, keep=False)
    with pytest.raises(InputError, match=r"no such file; `qops-batsim run qops --out .*run` makes"):
        read_history(prefix)
    with pytest.raises(InputError, match="makes a decision log"):
        read_history_if_kept(prefix)
    prefix = run_files("easy", workload_of(1, JOBS), tmp_path)
    assert read_history_if_kept(prefix) is None
    message = (
        "scheduler 'easy' keeps no decision log; a run of one that admits .*fqops.*mrt.*msb.*qops"
    )
    with pytest.raises(InputError, match=message):
        read_history(prefix)
    with pytest.raises(InputError, match="no such run"):
        read_history(tmp_path / "other")


def test_a_log_is_found_however_the_run_is_named(tmp_path) -> None:
    prefix = run_files("qops", workload_of(1, JOBS), tmp_path)
    for name in (prefix, tmp_path, f"{prefix}_jobs.csv"):
        assert len(read_history(name).events) == 13


HEADER = (
    '{"format": "qops-batsim decisions", "version": 1, "scheduler": "qops", "options": {}, '
    '"processors": %d}'
)


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (0, "{}", "line 1: field format is missing; the first line of a decision"),
        (0, "", "line 1: .*the first line of a decision log is expected"),
        (0, '{"format": "x", "version": 1}', "line 1: "),
        (3, "{", "line 4: .*an event of a decision log is expected"),
        (0, '{"a":' * 100_000, "line 1: JSON nested too deeply"),
        (3, "[" * 100_000, "line 4: "),
        (0, HEADER % 10**9, r"line 1: field processors is 1000000000; a whole number from"),
        (
            3,
            '{"event": "resized", "date": 0, "present": -1}',
            "line 4: field present is -1; ",
        ),
        (3, '{"event": "withdrawn", "date": 0, "job": "w0!A"}', "at 0 s an event of job"),
        (3, '{"event": "danced", "date": 1}', "line 4: field event is 'danced'"),
        (3, '{"event": "ended", "job": "w0!A"}', "line 4: field date is missing"),
        (4, '{"event": "ended", "job": "w0!A", "date": -5}', "line 5: date is -5 s, before"),
    ],
)
def test_damaged_lines(line: int, text: str, message: str, tmp_path) -> None:
    prefix = run_files("qops", workload_of(1, JOBS), tmp_path)
    allow_changes(prefix)
    path = Path(f"{prefix}_decisions.jsonl")
    lines = path.read_text().splitlines()
    lines[line] = text
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=f"_decisions.jsonl: {message}"):
        read_history(prefix)


def test_a_decision_may_be_dated_a_microsecond_before_what_it_answers(tmp_path) -> None:
    prefix = run_files("qops", workload_of(1, JOBS), tmp_path)
    allow_changes(prefix)
    path = Path(f"{prefix}_decisions.jsonl")
    lines = path.read_text().splitlines()
    last = json.loads(lines[-1])
    before = json.loads(lines[-2])
    lines[-1] = json.dumps({**last, "date": before["date"] - 1e-6})
    path.write_text("\n".join(lines))
    assert len(read_history(prefix).events) == len(lines) - 1


def test_a_log_of_another_version(tmp_path) -> None:
    prefix = run_files("qops", workload_of(1, JOBS), tmp_path)
    allow_changes(prefix)
    path = Path(f"{prefix}_decisions.jsonl")
    first, *rest = path.read_text().splitlines()
    header = {**json.loads(first), "version": 9}
    path.write_text("\n".join([json.dumps(header), *rest]))
    with pytest.raises(InputError, match="line 1: .* version 9; .* version 1, is expected$"):
        read_history(prefix)


def test_a_log_that_does_not_add_up(history: DecisionHistory) -> None:
    kept = [event for event in history.events if not isinstance(event, Started)]
    assert any(isinstance(event, Ended) for event in kept)
    with pytest.raises(InputError, match="at 4 s an event of job 'w0!A' contradicts"):
        DecisionHistory("run", history.path, history.header, kept)


def test_a_log_that_lacks_a_line_is_refused_or_makes_sense(tmp_path) -> None:
    rows = [exact(0, 1, 6, 20), exact(1, 1, 4, 30), exact(2, 1, 3, 5), exact(3, 1, 9, 12)]
    options = {"kill_and_restart": True, "tolerance_factor": 2.0}
    prefix = run_files("fqops", workload_of(1, rows), tmp_path, **options)
    allow_changes(prefix)
    path = Path(f"{prefix}_decisions.jsonl")
    lines = path.read_text().splitlines()
    refused = 0
    for place in range(1, len(lines)):
        path.write_text("\n".join(lines[:place] + lines[place + 1 :]))
        try:
            history = read_history(prefix)
            for job in history.jobs:
                explain_job(history, job, PriceList(None))
        except InputError:
            refused += 1
    assert refused > len(lines) / 3
