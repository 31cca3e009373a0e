"""How long jobs run, by SimGrid's own model of parallel tasks and by our engine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from support import simgrid_cases
from support.simgrid_cases import Case, our_ends, random_case

PYTHON = os.environ.get("QOPS_SIMGRID", "")
FIRST = int(os.environ.get("QOPS_JUDGE_FIRST", "0"))
CASES = int(os.environ.get("QOPS_JUDGE_CASES", "400"))

RELATIVE, ABSOLUTE = 1e-6, 2e-9
"""How much run times may differ: dates closer than 1 ns are one date to both."""


def simgrid_ends(cases: Sequence[Case], directory: Path) -> list[dict[str, float] | None]:
    """Return the end of each job of each case in SimGrid (seconds), None where it gives up."""
    lines = []
    for number, case in enumerate(cases):
        platform = directory / f"{number}.xml"
        platform.write_text(case.platform)
        lines.append(json.dumps({"platform": str(platform), "jobs": case.simgrid_jobs()}) + "\n")
    script = Path(simgrid_cases.__file__).with_name("simgrid_side.py")
    done = subprocess.run(
        [PYTHON, script], input="".join(lines), capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases), done.stderr
    return answers


@pytest.mark.skipif(not PYTHON, reason="QOPS_SIMGRID names no Python with SimGrid's module")
def test_jobs_run_as_long_as_in_simgrid(tmp_path: Path) -> None:
    cases = [random_case(seed) for seed in range(FIRST, FIRST + CASES)]
    judged, differences = 0, []
    for number, (case, theirs) in enumerate(zip(cases, simgrid_ends(cases, tmp_path), strict=True)):
        if theirs is None:
            continue
        ours = our_ends(case)
        assert ours.keys() == theirs.keys()
        for job in case.jobs:
            judged += 1
            run_times = ours[job.id] - job.start, theirs[job.id] - job.start
            if run_times[0] != pytest.approx(run_times[1], rel=RELATIVE, abs=ABSOLUTE):
                differences.append(f"case {FIRST + number}, job {job.id}: {run_times}")
    assert not differences
    # Few are left out: in some, SimGrid shares FATPIPE links for hours.
    assert judged > 4 * CASES
