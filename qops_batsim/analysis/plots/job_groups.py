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
    """Rows of a run with the same meaning; neighbouring jobs take different shades."""

    text: str
    shades: tuple[str, ...]
    rows: Booleans


_KILLED = "killed by the scheduler", ("#8e5ea2", "#a77fba", "#774a8a")
_STATES = {
    COMPLETED_SUCCESSFULLY: (
        "successful",
        ("#4c8dbf", "#86b8dc", "#2f6f9f", "#a9cde6", "#5fa2cf", "#3f7fae", "#97c3e2"),
    ),
    COMPLETED_WALLTIME_REACHED: ("killed at walltime", ("#e4572e", "#ef7b52", "#d1431c")),
    COMPLETED_KILLED: _KILLED,
    COMPLETED_FAILED: ("failed", ("#e0a100", "#f0bb33", "#c48c00")),
}

_SLACK = (
    # From this share of the time that was asked for on.
    (0.5, "met, half of its time or more to spare", ("#4a90c4", "#62a0cd", "#3d82b6")),
    (0.1, "met, a tenth or more to spare", ("#9ccbe8", "#aed5ed", "#8cc1e2")),
    (-np.inf, "met, less to spare", ("#f2d16b", "#f5da86", "#ecc853")),
)


def by_state(result: RunResult) -> list[Group]:
    """Return the executed jobs by final state."""
    return [
        Group(text, shades, result.ended_as(state)) for state, (text, shades) in _STATES.items()
    ]


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
    for least, text, shades in _SLACK:
        groups.append(Group(text, shades, last & met & (left >= least)))
        met = met & ~(left >= least)
    later = found.kept & ~found.met
    missed, others = (found.missed & ~later)[at], ~outcomes.of_user[at]
    groups += [
        Group("kept a later promise", ("#2a9d8f", "#3db3a5", "#21867a"), last & later[at]),
        Group("missed", (MISSED, "#e8772e", "#b84f00"), last & missed),
        Group("no deadline of its user", ("#bdbdb6", "#cbcbc5", "#afafa8"), last & others),
        Group("killed, run again", _KILLED[1], ~last),
    ]
    return groups, found.refused[at]


def colors_of(result: RunResult, groups: Sequence[Group]) -> Floats:
    """Return the colour of each job (rows of red, green, blue from 0 to 1)."""
    order = np.argsort(result.column("starting_time"), kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    colors = np.ones((len(order), 3))
    for _, shades, found in groups:
        rows = np.flatnonzero(found & result.executed)
        colors[rows] = np.array([to_rgb(shade) for shade in shades])[rank[rows] % len(shades)]
    return colors
