"""``qops-batsim plot deadlines``: the picture that a run of deadlines has beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


def texts(path: Path) -> str:
    """Return the comments of a picture in SVG, which hold its texts."""
    return " ".join(line for line in path.read_text().splitlines() if "<!--" in line)


def test_deadlines_of_two_runs(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("qops", "easy"):
        done = cli("run", name, "-w", "sdsc_sp2_deadlines_500", "--no-picture", "-q")
        assert done.exit_code == 0, done.err
    both = cli("plot", "deadlines", "out/qops", "out/easy", "-o", "both.svg")
    assert (both.exit_code, both.out, both.err) == (0, "wrote both.svg\n", "")
    told = texts(Path("both.svg"))
    for word in ("500 deadlines", "qops", "easy", "met", "missed", "refused"):
        assert word in told, word
    # Of one run, by a workload that is named.
    named = ("--workload", "sdsc.json")
    assert cli("workload", "scale", "sdsc_sp2_deadlines_500", "sdsc.json").exit_code == 0
    one = cli("plot", "deadlines", "out/easy", "-o", "one.png", *named)
    assert one.exit_code == 0
    assert "is not the file that the run was made of" in one.err
