"""Groups of jobs with a colour each: by how they ended, or by what became of their deadlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.colors import to_rgb

from qops_batsim.analysis.metrics.deadlines import fates, outcomes_with_deadlines
from qops_batsim.analysis.plots.drawing import MISSED
from qops_batsim.analysis.results.restarts import original_id
from qops_batsim.analysis.results.run import RunResult
from qops_batsim.analysis.results.tables import Booleans, Floats
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
)
from qops_batsim.workload.model import Workload


class Group(NamedTuple):
    """Rows of a run with the same meaning."""

    text: str
    color: str
    rows: Booleans


_KILLED = "#8e5ea2"
_STATES = {
    COMPLETED_SUCCESSFULLY: ("successful", "#4c8dbf"),
    COMPLETED_WALLTIME_REACHED: ("killed at walltime", "#e4572e"),
    COMPLETED_KILLED: ("killed by the scheduler", _KILLED),
    COMPLETED_FAILED: ("failed", "#e0a100"),
}

_SLACK = (
    # From this share of the time that was asked for on.
    (0.5, "met, half of its time or more to spare", "#4a90c4"),
    (0.1, "met, a tenth or more to spare", "#9ccbe8"),
    (-np.inf, "met, less to spare", "#f2d16b"),
)


def by_state(result: RunResult) -> list[Group]:
    """Return the executed jobs by final state."""
    return [Group(text, color, result.ended_as(state)) for state, (text, color) in _STATES.items()]


def by_deadline(
    result: RunResult, workloads: Mapping[str, Workload]
) -> tuple[list[Group], Booleans]:
    """Return the executed jobs by what became of deadlines; and the rows that were refused one.

    What a job that met its deadline had to spare is counted in the time from its submission to
    the deadline.
    """
    outcomes = outcomes_with_deadlines(result, workloads)
    names: Sequence[str] = result.ids
    places = {job_id: place for place, job_id in enumerate(outcomes.ids)}
    if len(workloads) == 1:
        # Identifiers may then be without the workload's name.
        names = result.text("job_id")
        places = {job_id.rpartition("!")[2]: place for job_id, place in places.items()}
    origins = [places[original_id(name, places) or name] for name in names]
    found = fates(outcomes, result.grace)
    at = np.array(origins, np.int64)
    asked = outcomes.deadline - outcomes.submission
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.where(asked > 0, (outcomes.deadline - outcomes.finish) / asked, 0.0)[at]
    last, met = result.last_runs, found.met[at]
    groups = []
    for least, text, color in _SLACK:
        groups.append(Group(text, color, last & met & (left >= least)))
        met = met & ~(left >= least)
    later = found.kept & ~found.met
    missed, others = (found.missed & ~later)[at], ~outcomes.of_user[at]
    groups += [
        Group("kept a later promise", "#2a9d8f", last & later[at]),
        Group("missed", MISSED, last & missed),
        Group("no deadline of its user", "#bdbdb6", last & others),
        Group("killed, run again", _KILLED, ~last),
    ]
    return groups, found.refused[at]


def colors_of(result: RunResult, groups: Sequence[Group]) -> Floats:
    """Return the colour of each job (rows of red, green, blue from 0 to 1)."""
    colors = np.ones((len(result.executed), 3))
    for _, color, found in groups:
        colors[found & result.executed] = to_rgb(color)
    return colors
