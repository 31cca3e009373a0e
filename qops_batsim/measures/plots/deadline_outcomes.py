"""Picture of deadlines: how many were met, missed and refused, with how much time to spare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from qops_batsim.dates import Calendar
from qops_batsim.measures.metrics.outcomes import Fates, JobOutcomes, fates, job_work
from qops_batsim.measures.plots.drawing import MET, MISSED, REFUSED, picture, set_time_axis
from qops_batsim.measures.results.result_tables import Floats

_LATER = "kept a later promise"
_STYLES: dict[str, dict[str, Any]] = {
    "met": {"facecolor": MET, "edgecolor": "white"},
    _LATER: {"facecolor": "#56b4e9", "edgecolor": "white"},
    "missed": {"facecolor": MISSED, "edgecolor": "white"},
    "refused": {"facecolor": "white", "edgecolor": REFUSED, "hatch": "////"},
}
_UNITS = (("Hours", 3600.0), ("Minutes", 60.0), ("Seconds", 1.0))
_WIDTH, _LEFT, _GAP, _POINTS, _ROW = 12.0, 0.85, 0.75, 3.4, 0.28  # inches


def draw_deadlines(
    runs: Sequence[tuple[str, JobOutcomes]],
    path: str | Path,
    *,
    title: str,
    grace: float = 0.0,
    calendar: Calendar | None = None,
) -> None:
    """Draw how many of users' deadlines were met, missed and refused, for one or more runs.

    Bars of jobs and of their work, and for each job the time that was left at its deadline.
    What is late by less than ``grace`` (seconds) is in time.
    """
    bars = 0.4 * len(runs)
    found = [fates(outcomes, grace) for _, outcomes in runs]
    parts = {"By jobs": [_shares(each, None) for each in found]}
    if job_work(runs[0][1]) is not None:
        parts["By their work (processor-seconds)"] = [
            _shares(each, job_work(outcomes))
            for each, (_, outcomes) in zip(found, runs, strict=True)
        ]

    asked = int(runs[0][1].of_user.sum())
    height = _POINTS + bars + 2.3
    with picture(path, _WIDTH, height) as figure:

        def place(column: int, columns: int, bottom: float, high: float, **options: Any) -> Any:
            """Add axes in one of ``columns`` equally wide columns; ``bottom`` and ``high`` (height)
            are in inches.
            """
            wide = (_WIDTH - _LEFT - _GAP * (columns - 1) - 0.3) / columns
            left = _LEFT + column * (wide + _GAP)
            sides = left / _WIDTH, bottom / height, wide / _WIDTH, high / height
            return figure.add_axes(sides, **options)

        text = f"{title}: {asked:,} deadline" + "s" * (asked != 1)
        figure.text(0.12 / _WIDTH, 1 - 0.32 / height, text, size=13, weight="bold")
        handles = [
            Patch(label=name, **style)
            for name, style in _STYLES.items()
            if name != _LATER or any(shares[name] for shares in parts["By jobs"])
        ]
        figure.legend(
            handles=handles, loc="upper right", ncols=4, bbox_to_anchor=(0.98, 1 - 0.12 / height)
        )

        for column, (part, shares) in enumerate(parts.items()):
            axes = place(column, len(parts), _POINTS + 1.4, bars)
            _bars(axes, [name for name, _ in runs], shares, asked if column == 0 else None)
            axes.set_title(part, size=10)

        begin, end = _window([outcomes for _, outcomes in runs])
        unit = _unit([outcomes for _, outcomes in runs])
        first = None
        row = _ROW if any(each.refused.any() for each in found) else 0.0

        for column, (name, outcomes) in enumerate(runs):
            axes = place(column, len(runs), 0.65, _POINTS - row, sharey=first)
            first = first or axes
            _spare(axes, outcomes, found[column], unit)
            set_time_axis(axes, begin, end, calendar)
            axes.set_xlabel(f"Submission. {axes.get_xlabel()}")
            if column == 0:
                axes.set_ylabel(f"{unit[0]} (below 0: late)")
            if row:
                axes = place(column, len(runs), 0.7 + _POINTS - row, row - 0.05, sharex=axes)
                _refused(axes, outcomes.submission[found[column].refused])

            axes.set_title(f"{name}: time to spare at each job's deadline", size=10)


def _shares(found: Fates, work: Floats | None) -> dict[str, float]:
    """Return the percentages of deadlines that were met, kept at a later promise, missed and
    refused, weighted by the jobs' ``work`` if given.
    """
    later = found.kept & ~found.met
    groups = (found.met, later, found.missed & ~later, found.refused)
    weights = np.ones(len(later)) if work is None else work
    whole = sum(weights[which].sum() for which in groups)
    return {
        name: 100 * float(weights[which].sum()) / whole if whole else 0.0
        for name, which in zip(_STYLES, groups, strict=True)
    }


def _bars(
    axes: Any, names: Sequence[str], shares: Sequence[dict[str, float]], jobs: int | None
) -> None:
    """Draw one bar for each scheduler, divided by what became of the deadlines."""
    for row, parts in enumerate(shares):
        left = 0.0
        for name, share in parts.items():
            axes.barh(row, share, left=left, height=0.72, linewidth=0.6, **_STYLES[name])
            text = f"{share:.1f} %" if jobs is None else f"{round(share * jobs / 100):,}"
            if share > 1.4 * len(text):
                dark = name in ("met", "missed")
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
                axes.text(
                    left + share / 2, row, text, ha="center", va="center", size=9,
                    color="white" if dark else "black", bbox=box if name == "refused" else None,
                )  # fmt: skip

            left += share

    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.grid(False)
    axes.tick_params(axis="y", length=0)


def _unit(outcomes: Sequence[JobOutcomes]) -> tuple[str, float]:
    """Choose hours, minutes or seconds for the axis of the time left at deadlines; return the
    unit's name and length (seconds).
    """
    spare = np.concatenate([each.deadline - each.finish for each in outcomes])
    most = float(np.nanmax(np.abs(spare), initial=0.0))
    return next(unit for unit in _UNITS if most >= 2 * unit[1] or unit[1] == 1)


def _spare(axes: Any, outcomes: JobOutcomes, found: Fates, unit: tuple[str, float]) -> None:
    """Draw a point for each job: its submission on the horizontal axis, the time left at its
    deadline on the vertical one.
    """
    spare = (outcomes.deadline - outcomes.finish) / unit[1]
    few = int(outcomes.of_user.sum()) < 3000
    small = {"linewidth": 0, "alpha": 0.55 if few else 0.3}
    size = 14 if few else 4
    later = found.kept & ~found.met

    for which, color, marker in (
        (found.met, MET, "o"),
        (later, _STYLES[_LATER]["facecolor"], "s"),
        (found.missed & ~later, MISSED, "v"),
    ):
        axes.scatter(
            outcomes.submission[which], spare[which], s=size, color=color, marker=marker, **small
        )

    axes.axhline(0, color="#333333", linewidth=1)
    axes.set_yscale("symlog", linthresh=0.1, linscale=0.5)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}" if value else "0"))
    axes.margins(y=0.12)


def _refused(axes: Any, submitted: Floats) -> None:
    """Mark the submission dates of refused jobs by lines in a row of their own."""
    axes.vlines(submitted, 0, 1, color="#333333", linewidth=0.8 if len(submitted) < 500 else 0.3)
    axes.set_ylim(0, 1)
    axes.set_yticks([0.5], ["refused" if len(submitted) else ""], size=9)
    axes.tick_params(length=0, labelbottom=False)
    axes.spines[:].set_visible(False)
    axes.grid(False)


def _window(outcomes: Sequence[JobOutcomes]) -> tuple[float, float]:
    """Return the limits of the time axis (seconds): first and last submission of a job with a
    user's deadline, and some room.
    """
    dates = outcomes[0].submission[outcomes[0].of_user]
    begin = float(dates.min())
    end = float(dates.max())
    room = 0.01 * (end - begin) or 1.0
    return begin - room, end + room
