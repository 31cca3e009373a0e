"""Occupation of shared hosts over time: how many tasks each host runs, by class.

A Gantt chart shows one job a host. Where jobs share hosts, each host gets as many
lanes here as it ever runs tasks at once; a task keeps its lane from start to end.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Patch

from qops_batsim.errors import InputError
from qops_batsim.jobs import QOS_CLASSES
from qops_batsim.measures.plots.drawing import (
    COLORS,
    legend_above,
    picture,
    set_host_ticks,
    set_time_axis,
)
from qops_batsim.measures.plots.part import nothing_runs, part_to_show
from qops_batsim.measures.results.allocations import Stays
from qops_batsim.measures.results.result_tables import Floats, Integers, original_id
from qops_batsim.measures.results.run_result import RunResult, jobs_by_id
from qops_batsim.measures.results.series import step_series
from qops_batsim.workload.workload_model import Workload

MOST_TASKS = 50_000
"""Most tasks drawn one by one."""

UNKNOWN = "class not known"

_COLOR_OF = {**dict(zip(QOS_CLASSES, COLORS, strict=False)), UNKNOWN: "#888888"}
_WIDTH = 12.0  # inches
_LANE = 0.024  # inches
_GAP = 0.6  # lanes
_FEW_HOSTS = 80
"""Most hosts with lines between them."""


def draw(
    result: RunResult,
    path: str | Path,
    *,
    workloads: Mapping[str, Workload] | None = None,
    begin: float | None = None,
    end: float | None = None,
) -> None:
    """Draw the tasks (a job on one host) that each shared host runs over time, and how many tasks
    of each class of service run.

    The ending of the path chooses png, pdf or svg. The ``workloads`` by name (``w0`` …) tell the
    classes (``qos.class``); without them all tasks have one colour. The part from ``begin`` to
    ``end`` is shown (seconds from date 0; by default first submission and last completion).
    """
    begin, end = part_to_show(result, begin, end)
    tasks = _tasks_between(result, begin, end)
    names = class_names(result, workloads or {})
    classes = [names[row] for row in tasks.rows]
    lanes = lanes_of(tasks.hosts, tasks.start, tasks.finish)
    edges = _edges(result.hosts, tasks.hosts, lanes)
    height = min(16.0, max(4.0, _LANE * edges[-1])) + 3.4

    with picture(path, _WIDTH, height) as figure:
        figure.set_layout_engine("constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[height - 2.6, 2.0])
        _draw_lanes(top, edges, edges[tasks.hosts] + lanes, tasks, classes)
        _draw_totals(bottom, tasks, np.array(classes))
        set_time_axis(bottom, begin, end, result.calendar)
        ran = int(np.unique(tasks.rows).size)
        most = int(lanes.max()) + 1
        top.set_title(
            f"{result.name}: {ran:,} jobs, up to {_count(most)} at once on a host", pad=26
        )

        handles = [
            Patch(facecolor=_COLOR_OF[name], label=f"{name}: {_count(classes.count(name))}")
            for name in _COLOR_OF
            if name in classes
        ]
        legend_above(top, len(_COLOR_OF), handles=handles, handlelength=1.2)


def _tasks_between(result: RunResult, begin: float, end: float) -> Stays:
    tasks = result.stays()
    _, hosts, start, finish = tasks
    tasks = tasks.where(
        (start < end) & (finish > begin) & (finish > start) & (hosts < result.hosts)
    )
    if not len(tasks.rows):
        raise nothing_runs(result, begin, end)

    if len(tasks.rows) > MOST_TASKS:
        raise InputError(
            f"{result.source}: {len(tasks.rows)} tasks to draw; at most "
            f"{MOST_TASKS} are accepted: show a shorter part of the run"
        )

    return tasks


def _count(count: int) -> str:
    return f"{count:,} task{'' if count == 1 else 's'}"


def class_names(result: RunResult, workloads: Mapping[str, Workload]) -> list[str]:
    """Return each job's class of service (``qos.class``), or :data:`UNKNOWN` if no workload gives
    one.

    The rest of a stopped job (``15#2``) has the class of the job (``15``).
    """
    known = {
        name: job.qos.service_class
        for name, job in jobs_by_id(workloads).items()
        if job.qos is not None and job.qos.service_class is not None
    }
    origins = (original_id(full_id, known) for full_id in result.ids)
    return [UNKNOWN if origin is None else known[origin] for origin in origins]


def lanes_of(hosts: Integers, start: Floats, finish: Floats) -> Integers:
    """Assign each task a lane (a row of its host in the picture): the lowest lane that is free when
    the task starts.

    A task that ends when another starts (dates in seconds) leaves its lane.
    """
    lanes = np.zeros(len(hosts), dtype=np.int64)
    busy: dict[int, list[tuple[float, int]]] = {}
    free: dict[int, list[int]] = {}
    used: dict[int, int] = {}

    for task in np.lexsort((np.arange(len(hosts)), start)):
        host = int(hosts[task])
        running = busy.setdefault(host, [])
        idle = free.setdefault(host, [])
        while running and running[0][0] <= start[task]:
            heapq.heappush(idle, heapq.heappop(running)[1])

        if idle:
            lane = heapq.heappop(idle)
        else:
            lane = used.get(host, 0)
            used[host] = lane + 1

        lanes[task] = lane
        heapq.heappush(running, (float(finish[task]), lane))

    return lanes


def _edges(count: int, hosts: Integers, lanes: Integers) -> Floats:
    """Return the vertical position of the lower edge of each host in the picture, and of the upper
    edge of the last host.

    A host has as many lanes as it needs, an idle one has one, and a gap above them.
    """
    needed = np.ones(count)
    np.maximum.at(needed, hosts, lanes + 1.0)
    return np.concatenate([[0.0], np.cumsum(needed + _GAP)])


def _draw_lanes(axes: Any, edges: Floats, low: Floats, tasks: Stays, classes: list[str]) -> None:
    corners = np.empty((len(low), 4, 2))
    corners[:, (0, 3), 0] = tasks.start[:, None]
    corners[:, (1, 2), 0] = tasks.finish[:, None]
    corners[:, (0, 1), 1] = low[:, None]
    corners[:, (2, 3), 1] = low[:, None] + 1
    axes.add_collection(
        PolyCollection(
            list(corners),
            facecolors=[to_rgba(_COLOR_OF[name]) for name in classes],
            edgecolors="white",
            linewidths=0.2,
        )
    )
    axes.set_ylim(0, edges[-1])
    axes.set_ylabel("Host (a lane for each task that it runs at once)")
    axes.grid(False)

    if len(edges) - 1 <= _FEW_HOSTS:
        for edge in edges[1:-1]:
            axes.axhline(edge - _GAP / 2, color="#dddddd", linewidth=0.4, zorder=0)

    set_host_ticks(axes, (edges[:-1] + edges[1:] - _GAP) / 2)


def _draw_totals(axes: Any, tasks: Stays, classes: Any) -> None:
    """Draw the numbers of running tasks over time, stacked by class of service."""
    _, _, start, finish = tasks
    present = [name for name in _COLOR_OF if (classes == name).any()]
    dates = np.unique(np.concatenate([start, finish]))
    stacks = []
    for name in present:
        mine = classes == name
        series = step_series(start[mine], finish[mine], np.ones(int(mine.sum())))
        stacks.append(series.at(dates))
    axes.stackplot(dates, stacks, step="post", colors=[_COLOR_OF[name] for name in present])
    axes.set_ylabel("Running tasks")
    axes.set_ylim(bottom=0)
