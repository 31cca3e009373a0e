"""batsim-py on our engine, and our schedulers in batsim-py."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from qops_batsim.engine import EngineOptions, format_jobs
from qops_batsim.shipped import shipped_directory
from support.ecosystem import OUR_SCHEDULERS, Example, Processes, delays, four_hosts

TESTS = Path(__file__).resolve().parent.parent
SCRIPT = TESTS / "support" / "batsim_py_session.py"
BATSIM_PY = "batsim-py==1.0.5"

WITH_ENERGY = EngineOptions(energy=True)
"""batsim-py always starts its engine with ``-E``."""

Run = Callable[..., str]


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Give where batsim-py has the engine write: it knows only the directory for temporaries."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    return directory / "batsim"


@pytest.fixture(scope="module")
def our_batsim(qops_batsim_command: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a directory in which our engine is called ``batsim``."""
    directory = tmp_path_factory.mktemp("our_batsim")
    command = [qops_batsim_command, "engine", "--install", directory / "batsim"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return directory


@pytest.fixture
def python(
    processes: Processes, package: Callable[[str], Path], our_batsim: Path, outputs: Path
) -> Run:
    """Give a function that runs Python with batsim-py, and our engine as ``batsim`` on PATH."""

    def run_python(*arguments: object, exit_code: int = 0) -> str:
        home = package(BATSIM_PY)
        return processes.run(
            *(sys.executable, *arguments),
            exit_code=exit_code,
            PATH=f"{our_batsim}:{os.environ['PATH']}",
            PYTHONPATH=f"{home}:{TESTS}",
            TMPDIR=str(outputs.parent),
        )

    return run_python


@pytest.fixture
def run(python: Run) -> Run:
    """Give a function that runs one of the prepared sessions."""

    def run_session(
        session: str, example: Example, /, exit_code: int = 0, **arguments: object
    ) -> str:
        start = {"platform": str(example.platform), "workload": str(example.workload)}
        call = json.dumps({**start, **arguments})
        return python(SCRIPT, session, call, exit_code=exit_code)

    return run_session


def printed(said: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(said.splitlines()[-1])
    return result


def jobs_csv(prefix: Path) -> str:
    return Path(f"{prefix}_jobs.csv").read_text()


def test_batsim_py_alone_runs_on_our_engine(run: Run, example: Example, outputs: Path) -> None:
    run("first_fit", example)
    starts = example.verified_starts(outputs)
    if example.workload.name == "ties.json":
        # The engine keeps the fraction that batsim-py cuts off: its answer is dated in the past.
        assert starts["late"] == 50.123457


def test_our_easy_in_batsim_py_decides_as_in_process(
    run: Run, example: Example, outputs: Path
) -> None:
    run("scheduler", example, name="easy", settings={})
    assert jobs_csv(outputs) == example.jobs_csv("easy", engine=WITH_ENERGY)


STARTS_AT_CALLS = {"slurm"}
"""Schedulers that start jobs at dates for which they have asked."""

CALLS_LATE = 0.09
"""By how much batsim-py's calls are late (seconds)."""


@pytest.mark.parametrize("scheduler", OUR_SCHEDULERS)
def test_all_of_ours_in_batsim_py_decide_as_in_process(
    run: Run, deadlines: Example, outputs: Path, scheduler: str
) -> None:
    said = run("scheduler", deadlines, name=scheduler, settings={})
    assert printed(said) == {"submitted": 200}
    # batsim-py has no way to hand metadata on to the engine.
    found, expected = jobs_csv(outputs), deadlines.jobs_csv(scheduler, engine=WITH_ENERGY)
    assert len(without_metadata(expected)) == 1 + 200
    if scheduler not in STARTS_AT_CALLS:
        assert without_metadata(found) == without_metadata(expected)
        return
    starts = starts_of(expected)
    late = (starts_of(found) - starts)[starts.notna()].round(6)
    assert set(late) == {0.0, CALLS_LATE}


def starts_of(text: str) -> pd.Series[float]:
    return pd.read_csv(StringIO(text), dtype={"job_id": str}).set_index("job_id")["starting_time"]


def without_metadata(text: str) -> list[list[str]]:
    return [row[:-1] for row in csv.reader(text.splitlines())]


@pytest.fixture
def small(tmp_path: Path) -> Example:
    rows = [(0.0, 3, 60.0, 90.0), (1.0, 2, 8.0, 9.0), (2.0, 5, 5.0, 9.0), (3.0, 1, 50.0, 20.0)]
    return Example(four_hosts(tmp_path), delays(tmp_path, rows))


def test_the_documented_sessions_do_as_in_process(
    python: Run, documented: list[str], shipped: Example, outputs: Path, processes: Processes
) -> None:
    for kind in ("platforms", "workloads"):
        (processes.directory / kind).symlink_to(shipped_directory(kind))
    whole, own_loop = [block for block in documented if "SimulatorHandler()" in block]

    simulation = shipped.simulate("conservative", {"reserve": "processors"}, WITH_ENERGY)
    waits = [each.start - each.job.submission_time for each in simulation.ended]
    mean, _, words = python("-c", whole).partition(" ")
    assert words == "s mean waiting time\n"
    assert float(mean) == pytest.approx(sum(waits) / len(waits))
    assert jobs_csv(outputs) == format_jobs(simulation.ended_jobs)

    assert python("-c", own_loop) == "1000 jobs\n"
    assert jobs_csv(outputs) == shipped.jobs_csv("easy", engine=WITH_ENERGY)


def test_calls_and_kills(run: Run, small: Example, outputs: Path) -> None:
    result = printed(run("time_limit", small, limit=12))
    rows = csv.DictReader(jobs_csv(outputs).splitlines())
    got = [
        (row["job_id"], row["final_state"], row["starting_time"], row["finish_time"])
        for row in rows
    ]
    # batsim-py asks for calls 0.09 s later than it is told to. Job 1 blocks job 3, which starts
    # with it and is cut by the call at 24.09: that call is the next on a whole second.
    assert got == [
        ("2", "REJECTED", "", ""),
        ("0", "COMPLETED_KILLED", "0.000000", "12.090000"),
        ("1", "COMPLETED_SUCCESSFULLY", "12.090000", "20.090000"),
        ("3", "COMPLETED_KILLED", "12.090000", "24.090000"),
    ]
    assert result["notes"] == [
        ["all submitted", ""],
        ["COMPLETED_KILLED", "w0!0"],
        ["killed", "w0!0"],
        ["COMPLETED_SUCCESSFULLY", "w0!1"],
        ["COMPLETED_KILLED", "w0!3"],
        ["killed", "w0!3"],
    ]
    assert result["metadata"] == ["cut at 12", None, "cut at 24"]


def test_a_simulation_cut_short_leaves_no_process(run: Run, small: Example) -> None:
    told = printed(run("watcher", small, simulation_time=30, allow_compute_sharing=True))["told"]
    assert told[:2] == [["begin", ["compute_node"] * 4, True], ["decide", 0.0]]
    submitted = [each[1] for each in told if each[0] == "submitted"]
    assert [fields["id"] for fields in submitted] == ["w0!0", "w0!1", "w0!2", "w0!3"]
    second = {"id": "w0!1", "subtime": 1.0, "res": 2, "profile": "8.0", "walltime": 9.0}
    assert submitted[1] == second
    assert told[-1] == ["end"]


def test_an_error_of_a_module_leaves_no_process(run: Run, small: Example) -> None:
    said = run("watcher", small, exit_code=1, fail=True)
    assert said.splitlines()[-1] == "ZeroDivisionError: a mistake in a module"


def test_an_engine_that_refuses_its_input_is_an_error(
    run: Run, tmp_path: Path, small: Example
) -> None:
    """batsim-py alone would wait for ever."""
    small.workload.write_text(small.workload.read_text().replace('"delay", "delay"', '"no", "no"'))
    said = run("scheduler", small, exit_code=1, name="easy", settings={}).splitlines()
    assert any(line.startswith("qops-batsim: error: ") and "'no'" in line for line in said)
    assert "at 0.000000 s: batsim has ended with exit code 2" in said[-1]


def test_an_engine_that_gives_up_is_an_error(run: Run, small: Example) -> None:
    said = run("watcher", small, exit_code=1).splitlines()
    assert any("deadlock: 4 jobs were submitted and neither started" in line for line in said)
    assert "at 3.000000 s: batsim has ended with exit code 2" in said[-1]


def test_machine_events_reach_the_module(run: Run, small: Example, tmp_path: Path) -> None:
    events = tmp_path / "events.txt"
    events.write_text(
        '{"timestamp": 5, "type": "machine_unavailable", "resources": "1-2"}\n'
        '{"timestamp": 8, "type": "machine_available", "resources": "2"}\n'
    )
    arguments = {"simulation_time": 30, "external_events": str(events)}
    told = printed(run("watcher", small, **arguments))["told"]
    assert [each for each in told if each[0].startswith("event_machine")] == [
        ["event_machine_unavailable", "1"],
        ["event_machine_unavailable", "2"],
        ["event_machine_available", "2"],
    ]


def test_a_talkative_engine_does_not_block(run: Run, shipped: Example, outputs: Path) -> None:
    """batsim-py reads the engine's standard output only at the end, from a pipe of 64 KiB."""
    run("scheduler", shipped, name="fcfs", settings={}, verbosity="debug")
    assert jobs_csv(outputs) == shipped.jobs_csv("fcfs", engine=WITH_ENERGY)
