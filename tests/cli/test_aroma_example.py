"""The commands of docs/aroma-example.md are run as they stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "aroma-example.md"

Cli = Callable[..., Any]


def test_the_commands_of_the_example_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not PAGE.is_file():
        pytest.skip("this copy of the tests comes without the documentation")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for line in block.strip().splitlines()]
    assert [command[1] for command in commands] == ["workload", "run", "verify", "occupation"]
    for program, *arguments in commands:
        assert program == "qops-batsim"
        result = cli(*arguments)
        assert result.exit_code == 0, result.err
    assert (tmp_path / "aroma_occupation.png").stat().st_size > 10_000
    made = (tmp_path / "aroma_mixed.json").read_bytes()
    assert made == (PAGE.parents[1] / "workloads" / "aroma_mixed.json").read_bytes()
