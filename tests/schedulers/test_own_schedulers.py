"""The page about schedulers of one's own, done as its reader would, and what it promises."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "own-scheduler.md"


@pytest.mark.sweep
@pytest.mark.skipif(not PAGE.is_file(), reason="no documentation beside the tests")
def test_every_command_of_the_page_works(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    done = 0
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language == "python":
            name = block.splitlines()[0].removeprefix("# ")
            if name.endswith(".py"):
                (tmp_path / name).write_text(block)
            else:
                exec(compile(block, str(PAGE), "exec"), {"__name__": "example"})
        for line in block.splitlines() if language == "sh" else ():
            result = cli(*shlex.split(line)[1:])
            assert result.exit_code == 0, (line, result.err)
            done += 1
    assert done == 9
    log = (tmp_path / "out" / "edf_decisions.jsonl").read_text()
    assert '"scheduler":"edf.py:EarliestDeadline"' in log
    assert "deadline" in cli("explain", "out/edf", "24").out
