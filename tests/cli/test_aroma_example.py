"""The commands of docs/aroma.md are run as they stand there."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_run, read_workload, verify
from qops_batsim.shipped import find_input
from support.changed_runs import allow_changes

PAGE = Path(__file__).parents[2] / "docs" / "aroma.md"

Cli = Callable[..., Any]


def test_the_commands_of_the_example_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not PAGE.is_file():
        pytest.skip("this copy of the tests comes without the documentation")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for line in block.strip().splitlines()]
    assert [command[1] for command in commands] == ["workload", "run", "verify", "plot"]
    for program, *arguments in commands:
        assert program == "qops-batsim"
        result = cli(*arguments)
        assert result.exit_code == 0, result.err
    assert (tmp_path / "aroma_occupation.png").stat().st_size > 10_000
    made = (tmp_path / "aroma_mixed.json").read_bytes()
    assert made == (PAGE.parents[1] / "workloads" / "aroma_mixed.json").read_bytes()


@pytest.mark.parametrize(
    ("column", "rule"),
    [("admitted_deadline", "admitted-deadline"), ("latest_start", "latest-start")],
)
def test_every_promise_of_a_shared_run_is_verified(
    cli: Cli, tmp_path: Path, column: str, rule: str
) -> None:
    """Dates promised too early, by more than the grace, are noticed, one and all."""
    assert cli("run", "aroma", "--out", tmp_path / "aroma").exit_code == 0
    allow_changes(tmp_path / "aroma")
    real = {
        row["job_id"]: row
        for row in csv.DictReader((tmp_path / "aroma_jobs.csv").read_text().splitlines())
    }
    path = tmp_path / "aroma_qos.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    broken = 0
    for row in rows:
        if row[column]:
            kept = "finish_time" if column == "admitted_deadline" else "starting_time"
            row[column] = f"{float(real[row['job_id']][kept]) - 1.5:.6f}"
            broken += 1
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    workloads = {"w0": read_workload(find_input("aroma_mixed", "workloads"))}
    result = read_run(tmp_path / "aroma")
    found = verify(result, workloads=workloads, compute_sharing=True)
    assert [each.rule for each in found] == [rule] * broken
    assert broken > 5
