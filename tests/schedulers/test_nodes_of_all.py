"""All schedulers on hosts that jobs share: random machines, jobs, losses of hosts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from support.node_runs import NAMES, SCHEDULERS, broken_promises, outcome_of, random_case

BLOCK = 25


@pytest.mark.parametrize(("scheduler", "settings"), SCHEDULERS, ids=NAMES)
def test_no_host_gives_more_than_it_has_and_no_promise_is_broken(
    scheduler: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    for seed in range(BLOCK):
        case = random_case(random.Random(f"all {scheduler} {settings} {seed}"))
        outcome = outcome_of(scheduler, settings, case, tmp_path)
        assert broken_promises(outcome) == [], f"seed {seed}"
