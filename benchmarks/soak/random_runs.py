"""Random small runs of all schedulers, held against the verifier and a brute-force check."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from qops_batsim import run
from random_simulations import SCHEDULERS, random_case

if TYPE_CHECKING:
    from harness import Tally


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Run the case of a seed; verify what it wrote."""
    rng = random.Random(seed)
    scheduler = rng.choice(list(SCHEDULERS))
    given = random_case(seed, scheduler, network=rng.random() < 0.3, events=rng.random() < 0.3)
    workload, platform = given.write(folder)
    events = folder / "events.txt" if given.events is not None else None
    done = run(scheduler, workload, platform, given.settings, events=events, out=folder / "run")
    tally.count("runs")
    tally.count("jobs", done.jobs)
    for violation in done.violations:
        tally.fail(f"verify: {violation.rule} ({scheduler})", violation.message)
