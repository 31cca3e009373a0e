"""What cannot be written is noticed before the work, not after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qops_batsim.engine import Simulation

COMMANDS = {
    "run": ["run", "easy", "-w", "tiny_8", "--out", "{below}/x"],
    "run, name": ["run", "easy", "-w", "tiny_8", "--out", "{folder}/" + "n" * 235],
    "serve": ["serve", "easy", "-s", "ipc://{folder}/s", "--timeout", "1", "--out", "{below}/x"],
    "compare": ["compare", "easy", "-w", "tiny_8", "--out", "{below}"],
    "compare, page": ["compare", "easy", "-w", "tiny_8", "--html", "{below}/x.html"],
    "engine": ["engine", "-p", "sp2_128", "-s", "ipc://{folder}/s", "-e", "{below}/x"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_cannot_be_written_is_noticed_before_the_simulation(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def simulate(*_: object, **__: object) -> None:
        raise AssertionError("simulated")

    monkeypatch.setattr(Simulation, "__init__", simulate)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    words = {"below": tmp_path / "file", "folder": tmp_path}
    result = cli(*(each.format(**words) for each in COMMANDS[name]))
    assert result.exit_code == 2
    (line,) = [each for each in result.err.splitlines() if "error: " in each]
    assert str(tmp_path) in line
    assert any(why in line for why in ("cannot be written", "cannot be created", "is a file"))
    assert not list(tmp_path.rglob("*.part"))
