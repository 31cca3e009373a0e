"""Runs of jobs that have ended, in the columns in which an engine has them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from qops_batsim.jobs import FINAL_STATES

EndedRun = tuple[str, float, float, str]
"""Identifier, start, finish and final state."""


def ended_columns(runs: Sequence[EndedRun]) -> Any:
    """Return runs in columns."""
    ids, starts, finishes, states = zip(*runs, strict=True)
    return SimpleNamespace(
        ids=list(ids),
        states=np.array([FINAL_STATES.index(each) for each in states], np.int8),
        starts=np.array(starts),
        finishes=np.array(finishes),
    )
