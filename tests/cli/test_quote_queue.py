"""``qops-batsim queue quote`` at the command line."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

QUEUE = {
    "processors": 8,
    "now": 1_780_000_000,
    "jobs": [
        {"id": "4711_3", "processors": 6, "estimate": 100, "start": 1_780_000_000},
        {"id": "4712", "processors": 8, "estimate": 100, "deadline": 1_780_000_050},
        {"id": "4713", "processors": 9, "estimate": 100},
    ],
}


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    path = tmp_path / "queue.json"
    path.write_text(json.dumps(QUEUE))
    return path


NOW = ("--now", "1780000000")


def test_a_list_of_jobs_is_a_table(cli, queue: Path) -> None:
    done = cli("queue", "quote", queue, "2x1m", "8x2m", *NOW)
    assert done.exit_code == 0, done.err
    assert "2 of 8 processors free, jobs: 1 running, 1 waiting" in " ".join(done.out.split())
    assert "1 min" in done.out
    assert "5 min 20 s" in done.out
    assert "left out: 1 wider than the machine" in done.err
    assert "1 promises cannot be kept as it is: 4712" in done.err
    assert all(len(line) <= 80 for line in done.out.splitlines()[1:])
    found = json.loads(cli("queue", "quote", queue, "2x1m", "8x2m", *NOW, "--json").out)
    assert [each["response"] for each in found["jobs"]] == [60.0, 320.0]


def test_one_job_with_a_deadline(cli, queue: Path) -> None:
    done = cli("queue", "quote", queue, "8x60", "--deadline", "3m", *NOW)
    assert done.exit_code == 0, done.err
    assert "8 x 1 min: refused: " in done.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("QUEUE",), "no job is given"),
        (("QUEUE", "8"), "'8': PROCESSORSxTIME is expected, as 64x2h"),
        (("QUEUE", "9x1h", *NOW), "processors is 9; a whole number from 1 to 8"),
        (("QUEUE", "1x1h", "--now", "today"), "--now is 'today'"),
        (("QUEUE", "1x1h", *NOW, "--scheduler", "easy"), "promises nothing"),
        (("QUEUE", "1x1h", *NOW, "--scheduler", "qops:k=1"), "no option 'k'"),
        (("serve", "QUEUE", "--listen", "0.0.0.0:1"), "every machine in the network could ask"),
        (
            ("serve", "/no/file", "--listen", "127.0.0.1:0"),
            "/no/file: cannot be read (No such file",
        ),
    ],
)
def test_mistakes(cli, queue: Path, options: tuple[str, ...], message: str) -> None:
    words = options if options[0] == "serve" else ("quote", *options)
    done = cli("queue", *(str(queue) if each == "QUEUE" else each for each in words))
    assert done.exit_code == 2
    assert message in done.err


SAID = {
    "scontrol": "NodeName=n1 CPUTot=8 Gres=(null)\n   State=IDLE Partitions=main\n",
    "squeue": '{"meta": {}, "errors": [], "jobs": []}\n',
}


def test_without_a_queue_the_slurm_that_runs_here_is_asked(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = cli("queue", "quote", "8x1h")
    assert refused.exit_code == 2
    assert "scontrol is not installed; a machine with Slurm's commands is expected" in refused.err
    for name, said in SAID.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n/bin/cat <<'.'\n{said}.\n")
        (tmp_path / name).chmod(0o755)
    done = cli("queue", "quote", "8x1h", "2x10m")
    assert done.exit_code == 0, done.err
    assert "8 of 8 processors free, jobs: 0 running, 0 waiting" in " ".join(done.out.split())


DAYS = 86_400


@pytest.mark.parametrize("form", ["date", "seconds", "squeue", "written"])
@pytest.mark.parametrize("age", [6.5, -2.5])
def test_a_queue_that_is_days_old_or_ahead_is_refused(
    cli, tmp_path: Path, form: str, age: float
) -> None:
    date, path = time.time() - age * DAYS, tmp_path / "queue.json"
    data: dict[str, Any] = {"jobs": []}
    if form == "date":
        data["now"] = datetime.fromtimestamp(date, UTC).isoformat()
    elif form == "seconds":
        data["now"] = date
    elif form == "squeue":
        data |= {"meta": {}, "last_update": {"set": True, "infinite": False, "number": int(date)}}
    path.write_text(json.dumps(data))
    if form == "written":
        os.utime(path, (date, date))
    ask = ("queue", "quote", path, "8x1h", "--processors", 8)
    refused = cli(*ask)
    words = " ".join(refused.err.split())
    assert (refused.exit_code, refused.out) == (2, "")
    assert f"{int(abs(age))} days, 1" in words
    assert ("old;" if age > 0 else "ahead of this machine's clock;") in words
    assert "at most 1:00:00 is accepted (--max-age)" in words
    assert cli(*ask, "--max-age", "7d").exit_code == 0
    assert cli(*ask, "--now", date).exit_code == 0


def squeue(*jobs: tuple[str, str, int]) -> dict[str, Any]:
    """Return what squeue says now of jobs: partition, state, and CPUs for an hour."""
    now = int(time.time())
    told = [
        {"job_id": at, "partition": part, "job_state": [state], "cpus": cpus, "time_limit": 60}
        | {"start_time": now - 60 if state == "RUNNING" else 0}
        for at, (part, state, cpus) in enumerate(jobs, 1)
    ]
    return {"meta": {}, "jobs": told}


LISTS = {
    "same": "n[1-8]|short*|1|-\nn[1-8]|long|1|-\n",
    "apart": "n[1-8]|short*|1|-\nm[1-4]|long|1|-\n",
    "some": "n[1-8]|short*|1|-\nn[5-9]|long|1|-\n",
}


@pytest.mark.parametrize(
    ("nodes", "chosen", "told"),
    [
        (None, ("short",), "runs in partition 'long', perhaps on nodes of the selected"),
        ("same", ("short",), "partitions long, short share nodes"),
        ("some", ("short",), "partitions long, short share nodes"),
        ("some", ("short", "long"), "are not one pool (long: 5 nodes, short: 8 nodes)"),
        ("apart", (), "are not one pool (long: 4 nodes, short: 8 nodes)"),
        ("apart", ("shirt",), "are not one pool (shirt: 0 nodes)"),
        ("same", ("short", "long"), "2 of 8 processors free, jobs: 2 running"),
        ("same", (), "2 of 8 processors free, jobs: 2 running"),
        ("apart", ("short",), "4 of 8 processors free, jobs: 1 running"),
        ("apart", ("long",), "2 of 4 processors free, jobs: 1 running"),
    ],
)
def test_nodes_that_another_partition_has_are_not_free(
    cli, tmp_path: Path, nodes: str | None, chosen: tuple[str, ...], told: str
) -> None:
    queue = tmp_path / "squeue.json"
    queue.write_text(json.dumps(squeue(("short", "RUNNING", 4), ("long", "RUNNING", 2))))
    given = [word for name in chosen for word in ("--partition", name)]
    if nodes is None:
        given += ["--processors", "8"]
    else:
        (tmp_path / "nodes.txt").write_text(f"NODELIST|PARTITION|CPUS|GRES\n{LISTS[nodes]}")
        given += ["--nodes", str(tmp_path / "nodes.txt")]
    done = cli("queue", "quote", queue, "2x10m", *given)
    assert told in " ".join((done.out + done.err).split())
    assert done.exit_code == (0 if "free" in told else 2)


@pytest.mark.parametrize(
    ("states", "told", "free"),
    [
        (("IDLE", "ALLOCATED", "MIXED+PLANNED", "IDLE+POWERED_DOWN", "IDLE#"), "", "3 of 5"),
        (
            ("DOWN*", "IDLE+DRAIN", "ALLOCATED", "IDLE+DRAIN", "ALLOCATED"),
            "DRAIN), with 2",
            "0 of 2",
        ),
    ],
)
def test_nodes_that_are_down_are_told(
    cli, tmp_path: Path, states: tuple[str, ...], told: str, free: str
) -> None:
    nodes, queue = tmp_path / "nodes.txt", tmp_path / "squeue.json"
    queue.write_text(json.dumps(squeue(("short", "RUNNING", 2))))
    nodes.write_text(
        "\n".join(
            f"NodeName=n{at} CPUTot=1\n   Gres=(null)\n   State={state} Owner=N/A\n"
            "   Partitions=short\n   Reason=DRAIN"
            for at, state in enumerate(states)
        )
    )
    done = cli("queue", "quote", queue, "1x10m", "--nodes", nodes)
    assert ("nodes away" in done.err) == bool(told)
    assert told in done.err
    assert f"{free} processors free" in done.out


def test_several_partitions_on_one_machine_are_told(cli, tmp_path: Path) -> None:
    queue = tmp_path / "squeue.json"
    queue.write_text(json.dumps(squeue(("short", "RUNNING", 4), ("long", "PENDING", 2))))
    done = cli("queue", "quote", queue, "2x10m", "--processors", 8)
    assert done.exit_code == 0
    said = "not sure: 2 of several partitions (long, short), planned as if these had the same nodes"
    assert said in " ".join(done.err.split())
