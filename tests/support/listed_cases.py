"""A small study that lists its cases."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from qops_batsim.experiments import Study, read_study
from qops_batsim.experiments.study import SHIPPED


def few_cases(directory: Path, *, cases: Sequence[int] = (0,), jobs: int = 30) -> Study:
    """Return the benchmark with some of its cases and few jobs; its file is in the directory."""
    text = (SHIPPED / "benchmark.toml").read_text()
    head, rest = text.split("cases = [\n")
    listed, logs = rest.split("\n]\n", 1)
    lines = listed.split("\n")
    path = directory / "few.toml"
    path.write_text(
        head.replace("jobs = 500", f"jobs = {jobs}")
        + "cases = [\n"
        + "\n".join(lines[each] for each in cases)
        + f"\n]\n{logs}"
    )
    assert tomllib.loads(path.read_text())["jobs"] == jobs
    return read_study(path)
