"""Commands on a machine whose jobs share hosts: each counts amounts, or refuses by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError

Cli = Callable[..., Any]

SHARED = ("--platform", "shared_8")


@pytest.fixture
def asking(cli: Cli, tmp_path: Path) -> Path:
    """A workload of jobs that ask for parts of hosts, most of them with deadlines."""
    path = tmp_path / "w.json"
    chosen = ("--preset", "graham", "--jobs", "60", "--load", "3", "--deadline-share", "0.8")
    result = cli("workload", "generate", path, *chosen, "--stretch", "1", "3", *SHARED)
    assert result.exit_code == 0, result.err
    return path


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (("run", "easy", "-w"), "a cluster of 8 hosts tells what it has"),
        (("advise",), "advise plans processors, and not yet parts of hosts"),
        (("queue", "backtest"), "queue plans processors, and not yet parts of hosts"),
        (("compare", "easy", "qops", "--workload"), "a cluster of equal hosts tells what it has"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_commands_without_amounts_refuse(
    cli: Cli, asking: Path, command: tuple[str, ...], refusal: str
) -> None:
    result = cli(*command, asking)
    assert result.exit_code == 2
    (line,) = result.err.strip().splitlines()
    assert refusal in line


def test_users_who_react_ask_for_processors(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text(
        "; MaxProcs: 8\n"
        + "".join(
            f"{number} {600 * number} 0 900 1 -1 -1 1 3600 -1 1 {number % 3} -1 -1 -1 -1 -1 -1\n"
            for number in range(1, 31)
        )
    )
    assert cli("workload", "users", log, tmp_path / "users.json").exit_code == 0
    result = cli("run", "easy", "--users", tmp_path / "users.json", *SHARED)
    assert result.exit_code == 2
    assert "users who react ask for processors" in result.err


def test_a_comparison_on_the_platform(cli: Cli, asking: Path, tmp_path: Path) -> None:
    chosen = ("--loads", "1", "--seeds", "1", "-o", tmp_path / "compared")
    result = cli("compare", "easy", "qops", "--workload", asking, *chosen, *SHARED)
    assert result.exit_code == 0, result.err
    assert "failed" not in result.out


def test_work_is_told_in_hours_of_hosts(cli: Cli, asking: Path) -> None:
    result = cli("run", "easy", "-w", asking, *SHARED, "-o", "out/easy")
    assert "│ host-hours │" in result.out
    assert "deadlines: asked for (host-h)" in cli("metrics", "out/easy", "out/easy").out


def test_an_environment_without_amounts_refuses(asking: Path) -> None:
    gymnasium = pytest.importorskip("qops_batsim.adapters.gymnasium")
    with pytest.raises(InputError, match="DeadlinesEnv plans processors"):
        gymnasium.DeadlinesEnv(str(asking), jobs=10)


def test_quotes_have_charges_of_easy_on_the_platform(cli: Cli, asking: Path) -> None:
    assert cli("run", "qops", "-w", asking, *SHARED, "-o", "out/qops", "-q").exit_code == 0
    result = cli("quote", "out/qops@2h", "2x2h")
    assert result.exit_code == 0, result.err
    assert "it has jobs of: very-short-sequential" in result.err
