"""Gantt charts: which host ran which job, when.

Each pixel of an image has the mean colour of what its host ran during its time, so nothing
is lost between pixels and 30,000 jobs take about a second. Where there is room, jobs have
outlines and names. Where jobs share hosts by amounts, the row of a host is divided among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from qops_batsim.arguments import NUMBER, PATH, TEXT, WHOLE, takes
from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.jobs import (
    COMPLETED_FAILED,
    COMPLETED_KILLED,
    COMPLETED_SUCCESSFULLY,
    COMPLETED_WALLTIME_REACHED,
)
from qops_batsim.measures.metrics.outcomes import fates, has_user_deadlines, outcomes_with_deadlines
from qops_batsim.measures.plots.drawing import (
    DOTS_PER_INCH,
    MISSED,
    legend_above,
    picture,
    set_host_ticks,
    set_time_axis,
)
from qops_batsim.measures.plots.part import nothing_runs, part_to_show
from qops_batsim.measures.plots.shares import HostShares, shares_of_hosts
from qops_batsim.measures.results.allocations import Stays
from qops_batsim.measures.results.host_amounts import requests_of_run
from qops_batsim.measures.results.result_tables import Booleans, Floats, Integers, original_id
from qops_batsim.measures.results.run_result import (
    RUN,
    WORKLOADS,
    Run,
    RunResult,
    load_run,
    workloads_with_deadlines,
)
from qops_batsim.workload.workload_model import Workload


def to_jobset(result: RunResult, keep: Booleans | None = None) -> Any:
    """Return the executed jobs of a run as an ``evalys.jobset.JobSet``.

    ``JobSet.from_csv`` reads the same from a ``_jobs.csv``.

    Parameters
    ----------
    result
        A run.
    keep
        Which jobs to take, shape (jobs,); None: all. Rejected jobs are always left out, since
        evalys would count their missing dates.
    """
    from evalys.jobset import JobSet, ProcSet

    wanted = result.executed if keep is None else result.executed & keep
    jobs = result.jobs[wanted].drop(columns=["id"])
    jobs["allocated_resources"] = [ProcSet.from_str(t) for t in jobs["allocated_resources"]]
    return JobSet(jobs, resource_bounds=(0, result.hosts - 1))


class JobGroup(NamedTuple):
    """Jobs that a Gantt chart draws in one colour (mask ``rows``), and the text for them in the
    legend.
    """

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


def by_state(result: RunResult) -> list[JobGroup]:
    """Group the jobs of a run that ran by final state, one colour each."""
    return [
        JobGroup(text, color, result.ended_as(state)) for state, (text, color) in _STATES.items()
    ]


def by_deadline(
    result: RunResult, workloads: Mapping[str, Workload]
) -> tuple[list[JobGroup], Booleans]:
    """Group a run's jobs by what became of their deadlines (met, missed …); also return a mask of
    the rows that were refused.

    What a job that met its deadline had to spare is counted in the time from its submission to
    the deadline.
    """
    outcomes = outcomes_with_deadlines(result, workloads)
    places = {job_id: place for place, job_id in enumerate(outcomes.ids)}
    origins = [places[original_id(name, places) or name] for name in result.ids]
    found = fates(outcomes, result.grace)
    at = np.array(origins, np.int64)
    asked = outcomes.deadline - outcomes.submission
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.where(asked > 0, (outcomes.deadline - outcomes.finish) / asked, 0.0)[at]
    last = result.last_runs
    met = found.met[at]
    groups = []

    for least, text, color in _SLACK:
        groups.append(JobGroup(text, color, last & met & (left >= least)))
        met = met & ~(left >= least)

    later = found.kept & ~found.met
    missed = (found.missed & ~later)[at]
    others = ~outcomes.of_user[at]
    groups += [
        JobGroup("kept a later promise", "#2a9d8f", last & later[at]),
        JobGroup("missed", MISSED, last & missed),
        JobGroup("no deadline of its user", "#bdbdb6", last & others),
        JobGroup("killed, run again", _KILLED, ~last),
    ]
    return groups, found.refused[at]


def colors_of(result: RunResult, groups: Sequence[JobGroup]) -> Floats:
    """Return each job's colour as red, green and blue from 0 to 1: shape (jobs, 3)."""
    colors = np.ones((len(result.executed), 3))
    for _, color, found in groups:
        colors[found & result.executed] = to_rgb(color)
    return colors


COLORS_BY = ("auto", "deadline", "state")
"""Meanings of colours: deadlines met, with how much to spare, and missed; or how jobs ended.

``auto`` takes deadlines where users have set some.
"""

_IDLE = "#f3f3f0"

_OUTLINED = 6
"""Least width and height of a job with a line around it (dots)."""

_NAMED = 20
_LETTER = 12
"""Least height of a job with a name, and width for each of its letters (dots)."""

_FEW_HOSTS = 40
"""Most hosts that are visible rows each, without grid lines."""

_LEGEND_WIDTH = 165
"""Characters of legend text that fit in a row."""

_WIDTH, _HEIGHT = 12.0, 6.5  # inches
_LEFT, _BOTTOM, _RIGHT, _TOP = 0.07, 0.14, 0.97, 0.89  # of the figure


@takes(
    run=RUN,
    out=PATH.optional,
    hosts=WHOLE.optional,
    begin=NUMBER.optional,
    end=NUMBER.optional,
    color=TEXT,
    workloads=WORKLOADS.optional,
)
def gantt(
    run: Run,
    out: str | Path | None = None,
    *,
    hosts: int | None = None,
    begin: float | None = None,
    end: float | None = None,
    color: str = "auto",
    workloads: Mapping[str, Workload] | None = None,
) -> Figure:
    """Draw a Gantt chart of a run: which host ran which job, when.

    Parameters
    ----------
    run
        Prefix, directory or ``_jobs.csv`` of a run, or the run itself.
    out
        The picture to write, by its ending png, pdf or svg; None: no file.
    hosts
        Hosts of the machine, where the run's files do not tell.
    begin, end
        Part to show (seconds); by default from the first submission to the last completion.
    color
        One of :data:`COLORS_BY`.
    workloads
        What was run, by name (``"w0"``), for the deadlines; by default what the run's files name.

    Returns
    -------
    Figure
        Matplotlib's figure.

    Raises
    ------
    InputError
        If no job runs in the part to show, or the colours need deadlines that are missing.

    Examples
    --------
    >>> from pathlib import Path
    >>> from qops_batsim import run
    >>> figure = gantt(run("easy", "tiny_8", out="out/tiny"), "tiny.png")
    >>> Path("tiny.png").stat().st_size > 10_000
    True
    """
    if color not in COLORS_BY:
        raise InputError(f"unknown colour {color!r}{did_you_mean(color, COLORS_BY)}")

    result = load_run(run, hosts=hosts)
    groups, refused = _groups(result, color, workloads)
    begin, end = part_to_show(result, begin, end)
    shown = _visible(result, begin, end)
    shares = _shares(result, workloads, shown)
    mixes = shares is None and _share_hosts(result)

    with picture(out, _WIDTH, _HEIGHT) as figure:
        axes = figure.add_axes((_LEFT, _BOTTOM, _RIGHT - _LEFT, _TOP - _BOTTOM))
        _draw(result, colors_of(result, groups), axes, shown, (begin, end), shares)
        refused = _mark_refused(result, axes, refused, begin, end)
        set_time_axis(axes, begin, end, result.calendar)
        axes.set_ylabel("Host")
        how = "; colours mix where jobs share hosts" if mixes else ""
        how = how if shares is None else "; heights are shares of a host"
        _set_head(axes, _title(result, int(shown.sum())) + how, _legend(groups, shown, refused))

    return figure


def _groups(
    result: RunResult, color: str, workloads: Mapping[str, Workload] | None
) -> tuple[list[JobGroup], Booleans]:
    """Return the jobs grouped by what ``color`` says (deadline or final state), and a mask of the
    refused rows.
    """
    if color != "state":
        known, why_not = (workloads, None) if workloads else workloads_with_deadlines(result)
        if any(map(has_user_deadlines, known.values())):
            return by_deadline(result, known)
        if color == "deadline":
            raise InputError(
                f"{result.source}: {why_not or 'no user set a deadline in this run'}; "
                "colours by deadline need a run with users' deadlines, and its workload"
            )
    return by_state(result), ~result.executed


def _mark_refused(
    result: RunResult, axes: Any, refused: Booleans, begin: float, end: float
) -> Booleans:
    """Mark the submissions of refused jobs above the hosts of a Gantt chart; return a mask of the
    jobs marked.
    """
    dates = np.maximum(result.column("submission_time"), 0.0)
    inside: Booleans = refused & (dates >= begin) & (dates <= end)
    if inside.any():
        low, high = axes.get_ylim()
        room = 0.035 * (high - low)
        axes.axhspan(high, high + room, color="white", zorder=3, linewidth=0)
        axes.vlines(
            dates[inside], high + 0.15 * room, high + room, color="#222222", zorder=4,
            linewidth=1.2 if inside.sum() < 200 else 0.5, alpha=1 if inside.sum() < 200 else 0.5,
        )  # fmt: skip
        axes.set_ylim(low, high + room)
    return inside


def _set_head(axes: Any, title: str, legend: Sequence[Any]) -> None:
    """Put the title and the legend above a Gantt chart; the legend gets the rows that it needs."""
    longest = max(len(each.get_label()) for each in legend)
    columns = max(1, min(len(legend), _LEGEND_WIDTH // (longest + 5)))
    rows = -(-len(legend) // columns)
    axes.set_position((_LEFT, _BOTTOM, _RIGHT - _LEFT, _TOP - _BOTTOM - 0.032 * (rows - 1)))
    axes.set_title(title, pad=11 + 15 * rows)
    legend_above(axes, columns, handles=legend, handlelength=1.2, columnspacing=1.6)


def _visible(result: RunResult, begin: float, end: float) -> Booleans:
    start = result.column("starting_time")
    finish = result.column("finish_time")
    shown: Booleans = result.executed & (start < end) & (finish > begin)
    if not shown.any():
        raise nothing_runs(result, begin, end)
    return shown


def _share_hosts(result: RunResult) -> bool:
    """Return whether jobs of the run share hosts, so that their rectangles would overlap."""
    lasted = (
        result.column("execution_time")[result.executed] @ result.allocation_sizes[result.executed]
    )
    return bool(lasted > result.occupancy.busy * (1 + 1e-9) + 1e-3)


def _shares(
    result: RunResult, workloads: Mapping[str, Workload] | None, shown: Booleans
) -> HostShares | None:
    """Return where jobs stand in the rows of hosts that they share by amounts; None elsewhere."""
    requests = requests_of_run(result, workloads or None)
    if requests is None:
        return None
    stays = result.stays()
    stays = stays.where(shown[stays.rows] & (stays.hosts < result.hosts))
    return shares_of_hosts(requests, stays)


def _draw(
    result: RunResult,
    colors: Floats,
    axes: Any,
    shown: Booleans,
    part: tuple[float, float],
    shares: HostShares | None,
) -> None:
    begin, end = part
    width = round(_WIDTH * (_RIGHT - _LEFT) * DOTS_PER_INCH)
    height = round(_HEIGHT * (_TOP - _BOTTOM) * DOTS_PER_INCH)
    lines = result.hosts
    if shares is not None:
        lines *= max(1, height // result.hosts)
    image = occupation_image(result, colors, shown, part, (width, min(height, lines)), shares)
    axes.imshow(
        image,
        extent=(begin, end, 0, result.hosts),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
    )
    axes.grid(False)
    if result.hosts <= _FEW_HOSTS:
        axes.hlines(range(1, result.hosts), begin, end, color="white", linewidth=1)
    if shares is not None or not _share_hosts(result):
        _outline(result, axes, shown, part, shares)
    _set_host_axis(axes, result.hosts, 0.5)


def _outline(
    result: RunResult,
    axes: Any,
    shown: Booleans,
    part: tuple[float, float],
    shares: HostShares | None,
) -> None:
    """Outline the jobs whose rectangles are large enough, and write the job's id into those with
    room for it.
    """
    low: Floats | Integers
    high: Floats | Integers
    if shares is None:
        rows, low, last = result.allocations
        high = last + 1
    else:
        rows = shares.stays.rows
        low, high = (shares.stays.hosts + each for each in (shares.low, shares.high))
    begin, end = part
    start, finish = (
        np.clip(result.column(name)[rows], begin, end) for name in ("starting_time", "finish_time")
    )
    wide = (finish - start) / (end - begin) * _WIDTH * (_RIGHT - _LEFT) * DOTS_PER_INCH
    tall = (high - low) / result.hosts * _HEIGHT * (_TOP - _BOTTOM) * DOTS_PER_INCH
    large = shown[rows] & (wide >= _OUTLINED) & (tall >= _OUTLINED)
    left = start[large]
    right = finish[large]
    bottom = low[large]
    top = high[large]
    corners = np.array([(left, bottom), (left, top), (right, top), (right, bottom)])

    axes.add_collection(
        PolyCollection(
            list(corners.transpose(2, 0, 1)), facecolors="none", edgecolors="white", linewidths=0.5
        ),
        autolim=False,
    )
    several = len(set(result.text("workload_name"))) > 1

    for place in np.flatnonzero(large & (tall > _NAMED)).tolist():
        row = int(rows[place])
        name = result.id(row) if several else result.text("job_id")[row]
        if wide[place] > _LETTER * (len(name) + 1):
            middle = (start[place] + finish[place]) / 2, (low[place] + high[place]) / 2
            axes.text(*middle, name, ha="center", va="center", size=9)


def occupation_image(
    result: RunResult,
    colors: Floats,
    shown: Booleans,
    part: tuple[float, float],
    size: tuple[int, int],
    shares: HostShares | None = None,
) -> Floats:
    """Return the image of a Gantt chart: the mean colour of the jobs in each cell of a grid of
    hosts × time.

    With ``shares``, where jobs stand in the rows of hosts, there may be several cells a host.

    ``colors`` are those of the jobs, the ``part`` dates of the left and right edge (seconds), the
    ``size`` numbers of cells of time and of hosts (at most their number; the first has host 0).
    Red, green and blue go from 0 to 1, shape (hosts, times, 3); idle time has the background's
    colour.
    """
    begin, end = part
    width, height = size
    lines = max(1, height // result.hosts) * result.hosts if shares else result.hosts
    if shares is None:
        stays = result.stays()
        stays = stays.where(shown[stays.rows] & (stays.hosts < result.hosts))
        weights = np.ones(len(stays.rows))
    else:
        stays, weights = _on_lines(shares, lines // result.hosts)
    order = np.argsort(stays.hosts, kind="stable")
    rows, hosts, start, finish = stays.where(order)

    # Dates in cells from the left edge.
    scale = width / (end - begin)
    start = np.clip((start - begin) * scale, 0, width)
    finish = np.clip((finish - begin) * scale, 0, width)
    paint = np.column_stack([colors[rows], np.ones(len(rows))]) * weights[order, None]
    limits = np.searchsorted(hosts, np.arange(lines + 1))
    cell_of = np.arange(lines) * height // lines
    hosts_in_cell = np.bincount(cell_of, minlength=height)
    sums = np.zeros((height, width, 4))
    edges = np.arange(width + 1, dtype=np.float64)

    for host in range(lines):
        own = slice(limits[host], limits[host + 1])
        if own.start < own.stop:
            painted = _accumulated(start[own], paint[own], edges)
            painted -= _accumulated(finish[own], paint[own], edges)
            sums[cell_of[host]] += np.diff(painted, axis=0)

    covered = sums[..., 3:]
    color = sums[..., :3] / np.maximum(covered, 1e-12)
    # Where jobs share a host, the cell is covered more than once.
    share = np.minimum(covered / hosts_in_cell[:, None, None], 1.0)
    mixed = color * share + np.array(to_rgb(_IDLE)) * (1 - share)
    image: Floats = np.clip(mixed, 0, 1)
    return image


def _on_lines(shares: HostShares, lines: int) -> tuple[Stays, Floats]:
    """Return the stays on each of so many lines of every host instead of on the host, and how much
    of the line each covers (0 to 1).
    """
    first = np.floor(shares.low * lines).astype(np.int64)
    last = np.maximum(np.ceil(shares.high * lines).astype(np.int64), first + 1)
    count = np.minimum(last, lines) - first
    place = np.repeat(np.arange(len(first)), count)
    line = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count) + first[place]
    low, high = (each[place] * lines for each in (shares.low, shares.high))
    weights = np.clip(np.minimum(high, line + 1) - np.maximum(low, line), 0.0, 1.0)
    stays = shares.stays.where(place)
    return stays._replace(hosts=stays.hosts * lines + line), weights


def _accumulated(dates: Floats, paint: Floats, edges: Floats) -> Floats:
    """Return how much colour has been laid on by each edge if ``paint`` is laid on from each date
    on: Σ paint × (edge − date) over earlier dates.
    """
    order = np.argsort(dates, kind="stable")
    dates = dates[order]
    paint = paint[order]
    zero = np.zeros((1, paint.shape[1]))
    total = np.concatenate([zero, np.cumsum(paint, axis=0)])
    moment = np.concatenate([zero, np.cumsum(paint * dates[:, None], axis=0)])
    index = np.searchsorted(dates, edges)
    result: Floats = total[index] * edges[:, None] - moment[index]
    return result


def _set_host_axis(axes: Any, hosts: int, middle: float) -> None:
    set_host_ticks(axes, np.arange(hosts, dtype=np.float64) + middle)
    if hosts <= _FEW_HOSTS:
        axes.grid(False)
    axes.tick_params(axis="y", length=0 if hosts <= _FEW_HOSTS else 3)


def _title(result: RunResult, count: int) -> str:
    ran = int(result.executed.sum())
    jobs = f"{ran:,} jobs" if count == ran else f"{count:,} of {ran:,} jobs"
    scheduler = result.info.scheduler if result.info is not None else None
    by = f", scheduled by {scheduler}" if scheduler else ""
    return f"{result.name}: {jobs} on {result.hosts:,} hosts{by}"


def _legend(groups: Sequence[JobGroup], shown: Booleans, refused: Booleans) -> list[Any]:
    handles: list[Any] = []
    for text, color, rows in groups:
        count = int((rows & shown).sum())
        if count:
            handles.append(Patch(facecolor=color, label=f"{text}: {count:,}"))
    if refused.any():
        text = f"refused, when submitted: {int(refused.sum()):,}"
        handles.append(
            Line2D([], [], label=text, marker="|", markersize=9, linewidth=0, color="#222222")
        )
    handles.append(Patch(facecolor=_IDLE, edgecolor="#bbbbbb", label="idle"))
    return handles
