"""Files of others whose dates cannot be: every reader refuses them in one line, ``verify`` lists
what is wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "soak"))

from qops_batsim import InputError, explain, gantt, metrics, read_run, verify

HEAD = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,"
    "success,final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,"
    "stretch,allocated_resources"
)
TOTALS = "nb_jobs,nb_jobs_finished,nb_computing_machines,makespan\n2,2,4,30\n"
DONE = "COMPLETED_SUCCESSFULLY"


def row(
    name: str, submission: float, start: float, finish: float, **cells: object
) -> dict[str, object]:
    """Return a row of two hosts with the dates, and what follows from them; then ``cells``."""
    run_time, turnaround = finish - start, finish - submission
    values: list[object] = [name, "w0", "p", submission, 2, 100, 1, DONE, start, run_time, finish]
    values += [start - submission, turnaround, turnaround / run_time if run_time else 1, "0-1"]
    return dict(zip(HEAD.split(","), values, strict=True)) | cells


def write(folder: Path, *rows: dict[str, object], totals: bool = True) -> str:
    def text(cell: object) -> str:
        return f"{cell:.6f}" if isinstance(cell, float) else str(cell)

    lines = [HEAD, *(",".join(map(text, each.values())) for each in rows)]
    (folder / "theirs_jobs.csv").write_text("\n".join(lines) + "\n")
    if totals:
        (folder / "theirs_schedule.csv").write_text(TOTALS)
    return str(folder / "theirs")


IMPOSSIBLE = {
    "start before submission": (
        row("2", 10.0, 0.0, 3.25),
        r"row 2 \(job 'w0!2'\): submission_time is 10 and starting_time is 0; a start at or after",
    ),
    "just before it": (row("2", 10.0, 9.99999, 12.0), "submission_time is 10 and starting_time is"),
    "end before start": (
        row("2", 0.0, 20.0, 16.0, stretch=1.0),
        "starting_time is 20 and finish_time is 16; an end at or after the start",
    ),
    "end before the first submission": (row("2", 5.0, -9.0, -4.0), "starting_time is -9; a date"),
    "negative run time": (row("2", 0.0, 1.0, 5.0, execution_time=-4.0), "execution_time is -4"),
    "negative wait": (row("2", 0.0, 1.0, 5.0, waiting_time=-8.92), "waiting_time is -8.92"),
    "other turnaround": (row("2", 0.0, 1.0, 5.0, turnaround_time=500.0), "turnaround_time is 500"),
    "other stretch": (row("2", 0.0, 1.0, 5.0, stretch=-0.58), "stretch is -0.58"),
    "wider than the machine": (
        row("2", 0.0, 1.0, 5.0, requested_number_of_resources=9),
        r"requested_number_of_resources is 9; at most the number of hosts, 4 \(_schedule.csv\)",
    ),
    "not a number": (row("2", 0.0, 1.0, 5.0, starting_time="nan"), "starting_time"),
    "infinite": (row("2", 0.0, 1.0, 5.0, finish_time="inf"), "finish_time"),
    "without end": (row("2", 0.0, 1.0, 5.0, finish_time=""), "finish_time"),
}

HOSTS = row("2", 0.0, 1.0, 5.0, allocated_resources="3-4")

READERS: dict[str, Callable[[str], Any]] = {
    "read_run": read_run,
    "metrics": metrics,
    "gantt": lambda run: gantt(run, None),
    "explain": lambda run: explain(run, "w0!1"),
}
COMMANDS = (
    ["metrics", "{run}"],
    ["metrics", "{run}", "{good}"],
    ["plot", "gantt", "{run}", "-o", "o.svg"],
    ["plot", "utilization", "{good}", "{run}", "-o", "o.svg"],
    ["plot", "occupation", "{run}", "-o", "o.svg"],
    ["plot", "deadlines", "{run}", "-o", "o.svg"],
    ["diff", "{run}", "{good}"],
    ["diff", "{good}", "{run}"],
    ["explain", "{run}", "1"],
    ["charges", "{run}"],
)


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_every_reader_refuses(kind: str, tmp_path: Path) -> None:
    wrong, message = IMPOSSIBLE[kind]
    run = write(tmp_path, row("1", 0.0, 0.0, 30.0), wrong)
    for read in READERS.values():
        with pytest.raises(InputError, match=message) as told:
            read(run)
        assert "theirs_jobs.csv: row 2" in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(each) for each in COMMANDS])
def test_every_command_refuses(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    good = write(tmp_path / "good", row("1", 0.0, 0.0, 30.0), row("2", 0.0, 30.0, 40.0))
    run = write(tmp_path / "bad", row("1", 0.0, 0.0, 30.0), row("2", 10.0, 0.0, 3.25))
    called = cli(*(each.format(run=run, good=good) for each in command))
    assert called.exit_code == 2
    assert "bad/theirs_jobs.csv: row 2 (job 'w0!2'): submission_time is 10" in called.err
    assert called.err.count("error:") == 1
    assert not (tmp_path / "o.svg").exists()


def test_hosts_that_the_machine_lacks_are_refused_where_hosts_are_used(tmp_path: Path) -> None:
    run = write(tmp_path, row("1", 0.0, 0.0, 30.0), HOSTS)
    for name in ("metrics", "gantt"):
        with pytest.raises(InputError, match=r"row 2 .* ran on host 4, but the number of hosts"):
            READERS[name](run)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("start before submission", "start-after-submission"),
        ("end before start", "finish-after-start"),
        ("negative wait", "waiting-time"),
        ("other stretch", "stretch"),
    ],
)
def test_verify_lists_what_is_wrong(kind: str, rule: str, tmp_path: Path) -> None:
    run = write(tmp_path, row("1", 0.0, 0.0, 30.0), IMPOSSIBLE[kind][0], totals=False)
    assert rule in {each.rule for each in verify(run)}


def test_rounding_is_not_refused(tmp_path: Path) -> None:
    """Six decimals, each rounded by itself, and six digits, as early Batsims wrote."""
    rounded = row("1", 0.3333335, 0.333333, 10.666667, waiting_time=0.0, turnaround_time=10.333334)
    early = row("2", 1234570.0, 1234570.0, 1234990.0, waiting_time=1.2, turnaround_time=421.7)
    early |= {"execution_time": 420.4, "stretch": 421.7 / 420.4}
    assert metrics(write(tmp_path, rounded, early))["jobs_submitted"] == 2


def test_what_batsim_writes_is_read(tmp_path: Path) -> None:
    """Jobs before 0 start at 0; rejected ones have no dates; a run time of 0 has no stretch."""
    rejected = row("2", 5.0, 5.0, 6.0) | dict.fromkeys(HEAD.split(",")[8:], "")
    rejected |= {"final_state": "REJECTED", "success": 0, "requested_number_of_resources": 99}
    none = row("3", 1.0, 4.0, 4.0, stretch="inf")
    run = write(tmp_path, row("1", -10.0, 0.0, 30.0), rejected, none)
    assert metrics(run)["waiting_time"]["max"] == 10.0
    assert re.search("RunResult", repr(read_run(run)))


def test_what_is_drawn_is_refused_or_read(tmp_path: Path) -> None:
    """Some inputs of the soak's generator: ``benchmarks/soak --only results`` makes more."""
    import wrong_results
    from harness import Tally

    tally = Tally()
    for seed in range(1, 3):
        wrong_results.case(seed, tmp_path, tally)
    assert tally.failures == []
    assert tally.counts["impossible dates"] == 16
