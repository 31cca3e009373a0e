from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import read_workload
from qops_batsim.shipped import find_input
from qops_batsim.workload import ClassChoices, assign_classes, format_workload
from qops_batsim.workload.service_classes import mixed_workload

Cli = Callable[..., Any]

LOG = """; Queue: 3 normal
; Queue: 4 low
1 0 5 100 2 40 -1 2 200 -1 1 1 1 1 3 -1 -1 -1
2 10 5 100 1 -1 -1 1 200 -1 1 1 1 1 4 -1 -1 -1
"""


def test_the_command_makes_what_the_library_makes(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    options = ("--seed", 3, "--deadline-factor", 4, "--speed", 2e9, "--tasks", "apart")
    result = cli("workload", "classes", "kth_sp2_1000", out, *options)
    assert result.exit_code == 0, result.err
    trace = read_workload(find_input("kth_sp2_1000", "workloads"))
    for job in trace.jobs:
        assert "queue" not in job.fields
    choices = ClassChoices(seed=3, deadline_factor=4, speed=2e9, tasks="apart")
    assert out.read_text() == format_workload(assign_classes(trace, choices))
    applications = result.out.splitlines()[1].removeprefix("applications: ").split(", ")
    assert sum(int(each.split()[0]) for each in applications) == 1000


def test_the_log_tells_names_and_cpu_times(cli: Cli, tmp_path: Path) -> None:
    log, trace, out = tmp_path / "log.swf", tmp_path / "trace.json", tmp_path / "out.json"
    log.write_text(LOG)
    assert cli("workload", "import", log, trace, "--processors", 4).exit_code == 0
    assert cli("workload", "classes", trace, out, "--log", log).exit_code == 0
    first, second = read_workload(out).jobs
    assert first.fields["qos"]["class"] == "deadline"
    assert first.fields["qos"]["deadline"] == 500
    assert second.fields["qos"]["class"] == "best_effort"
    result = cli("workload", "classes", trace, out, "--log", log, "--cpu-time", "log")
    assert result.exit_code == 0, result.err
    assert [job.estimate for job in read_workload(out).jobs] == [40, 100]
    result = cli("workload", "classes", trace, out, "--log", log, "--every", "dedicated")
    assert result.out.endswith("applications: 2 dedicated\n")


def test_mixed_applications_are_what_the_library_makes(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    options = ("--preset", "mixed", "--jobs", 12, "--seed", 3, "--processors", 20)
    result = cli("workload", "generate", out, *options)
    assert result.exit_code == 0, result.err
    assert out.read_text() == format_workload(mixed_workload(12, 3, processors=20))
    result = cli("workload", "generate", out, "--preset", "mixed", "--load", 0.9)
    assert result.exit_code == 2
    assert "--load has no effect with --preset mixed" in result.err
    result = cli("workload", "generate", out, "--preset", "mixed", "--jobs", 0)
    assert result.exit_code == 2
    assert "applications is 0; a whole number from 1 to" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("IN", "IN"), "the file to write is the input itself"),
        (("IN", "OUT", "--every", "gold"), "class is 'gold' (known: best_effort"),
        (("IN", "OUT", "--tasks", "x"), "tasks is 'x' (known: apart, together)"),
        (("IN", "OUT", "--cpu-time", "x"), "cpu time is 'x' (known: log, run-time)"),
        (("IN", "OUT", "--cpu-time", "log"), "--cpu-time is log, but --log is not given"),
        (("IN", "OUT", "--seed", "-1"), "seed is -1; a whole number from 0 up"),
        (("none", "OUT"), "none: no such file, nor one of the shipped workloads"),
    ],
)
def test_mistakes_are_told_in_one_line(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    places = {name: tmp_path / f"{name}.json" for name in ("IN", "OUT")}
    original = find_input("tiny_8", "workloads").read_bytes()
    places["IN"].write_bytes(original)
    result = cli("workload", "classes", *(places.get(each, each) for each in arguments))
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not places["OUT"].exists()
    assert places["IN"].read_bytes() == original
