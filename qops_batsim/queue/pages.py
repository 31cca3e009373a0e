"""HTML pages of forecasts: a queue with its jobs' starts, and a back-test of forecasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qops_batsim.advice.recommendations import hours
from qops_batsim.dates import Calendar
from qops_batsim.experiments.page import (
    PagePicture,
    PageTable,
    PageText,
    html_page,
    pictures_of,
)
from qops_batsim.measures.plots.drawing import (
    COLORS,
    MARKERS,
    picture,
    set_time_axis,
)
from qops_batsim.queue.backtest import (
    LEVELS,
    TOLERANCE,
    Coverage,
    PastForecast,
)
from qops_batsim.queue.promise import KeptPromises
from qops_batsim.queue.queue_forecast import QueueForecast, StartForecast
from qops_batsim.queue.queue_plan import NO_FORECAST, PlannedStart, QueuePlan
from qops_batsim.queue.queue_state import QueuedJob, QueueState
from qops_batsim.queue.unexplained_waits import why_no_date
from qops_batsim.texts import date_text, round_duration_text

WIDTH = 5.2
"""Inches of a picture, whose letters can be read on a phone then."""

MOST_BARS, MOST_RUNNING = 40, 12
"""Waiting and running jobs that have a bar of their own."""

AT_ONCE = 60.0
"""A job that has started by then, with a chance of 90 %, starts at once (seconds from now on)."""

_WIDE, _NARROW, _PLAN, _RUNS = "#a6d4f2", COLORS[0], COLORS[1], "#999999"


def queue_page(found: QueueForecast, state: QueueState, calendar: Calendar, command: str) -> str:
    """Return the forecast of a queue as HTML.

    Parameters
    ----------
    found, state
        The forecast and the queue that it is of.
    calendar
        The site's dates.
    command
        What made it.
    """
    dated = [job for job in found.jobs if job.no_date is None]
    running = [job for job in state.jobs if job.start is not None]
    used = sum(job.processors for job in running)
    told = [
        f"{len(running):,} jobs run on {used:,} of {found.processors:,} processors, and "
        f"{len(found.jobs):,} wait."
    ]
    if dated:
        waits, planned = (
            np.array([(date or np.inf) - found.now for date in dates], float)
            for dates in ([job.median for job in dated], [job.planned for job in dated])
        )
        told.append(
            f"Half of the {len(dated):,} that can start are expected to wait for "
            f"{hours(float(np.median(waits)))} h or longer from now on; if all jobs used their "
            f"time limits, it would be {hours(float(np.median(planned)))} h."
        )
    if not found.calibrated:
        told.append(
            "The intervals are as drawn, and tend to be too short: a back-test (queue backtest "
            "--json) tells by how much, and corrects them."
        )
    calibrated = "calibrated by a back-test" if found.calibrated else "not calibrated"
    about = (
        f"{Path(found.source).name} at {_text(found.now, calendar)} ({calendar.time_zone}): "
        f"{found.draws} simulations by {found.scheduler}, {calibrated}."
    )
    return html_page(
        "When will my job start?",
        about,
        {
            "In short": [PageText(paragraphs=[*told, *_doubts(found)])],
            "The next to start": [
                PageText(
                    paragraphs=[
                        "A bar is where a job starts with a chance of 80 %, its dark part with one "
                        "of 50 %, and the dot where half of such jobs have started."
                    ]
                ),
                _bars(dated, running, found, calendar),
            ]
            if dated
            else [],
            "All that wait": [
                _whole(dated, found, calendar) if len(dated) > MOST_BARS else None,
                _dated_table(dated, found, calendar) if dated else None,
                _undated_table(found.jobs),
            ],
        },
        command,
        seed=f"{found.seed}",
    )


def plan_page(found: QueuePlan, state: QueueState, command: str) -> str:
    """Return the plan of a queue by time limits as HTML; dates are of this machine's clock.

    Parameters
    ----------
    found, state
        The plan and the queue that it is of.
    command
        What made it.
    """
    used = sum(job.processors for job in state.jobs if job.start is not None)
    dated = [job for job in found.jobs if job.no_date is None]
    rows = [
        [
            job.name,
            job.user or "-",
            f"{job.processors:,}",
            "-" if job.limit is None else hours(job.limit),
            job.waits_for,
            "-" if job.planned is None else date_text(job.planned)[:16],
            "-" if job.planned is None else hours(max(job.planned - found.now, 0.0)),
        ]
        for job in dated
    ]
    heads = ["job", "user", "processors", "limit (h)", "waits for", "by limits at", "in (h)"]
    told = (
        f"{found.running:,} jobs run on {used:,} of {found.processors:,} processors, and "
        f"{len(found.jobs):,} wait."
    )
    no_forecast = f"{NO_FORECAST[0].upper()}{NO_FORECAST[1:]}."
    return html_page(
        "When would jobs start by their time limits?",
        f"{Path(found.source).name} at {date_text(found.now)}: planned by {found.scheduler}, no "
        "forecast.",
        {
            "In short": [PageText(paragraphs=[no_forecast, told, *_doubts(found)])],
            "All that wait": [
                PageTable(title="Starts by time limits, no forecast", headings=heads, rows=rows)
                if rows
                else None,
                _undated_table(found.jobs),
            ],
        },
        command,
    )


def _doubts(found: QueueForecast | QueuePlan) -> list[str]:
    """Return in sentences what is not planned, and what is not sure."""
    waits = [why_no_date(wait) for wait in found.unexplained]
    return [
        *(f"Left out: {count:,} {reason}." for reason, count in found.left_out.items()),
        *(f"Not sure: {count:,} {reason}." for reason, count in found.unsure.items()),
        *(f"{wait[0].upper()}{wait[1:]}." for wait in waits),
    ]


def _bars(
    dated: Sequence[StartForecast],
    running: Sequence[QueuedJob],
    found: QueueForecast,
    calendar: Calendar,
) -> PagePicture:
    """Return a Gantt chart of running jobs until their limits, and of the next starts."""
    # Those that start at once would fill it where much is free.
    later = [job for job in dated if _within(job.late, np.inf) > found.now + AT_ONCE]
    first = sorted(later or dated, key=_by_median)[:MOST_BARS]
    widest = sorted(running, key=lambda job: -job.processors)[:MOST_RUNNING]
    widest.sort(key=_limit_of)
    end, count = _end_of(first, found.now), len(widest)
    runs = "Running jobs" if count == len(running) else f"The {count} widest running jobs"
    title = f"{runs} until their time limits, and the next {len(first)} to start later"

    def draw_on(axes: Any) -> None:
        axes.barh(
            range(count),
            [max(min(_limit_of(job), end) - found.now, 0.0) for job in widest],
            left=found.now,
            height=0.7,
            color=_RUNS,
            label="runs, until its limit",
        )
        places = np.arange(count, count + len(first))
        for low, high, color, label in (
            ([job.early for job in first], [job.late for job in first], _WIDE, "80 %"),
            ([job.half[0] for job in first], [job.half[1] for job in first], _NARROW, "50 %"),
        ):
            begins, ends = (np.array([_within(each, end) for each in of]) for of in (low, high))
            # What starts at a date that is known has a bar, too.
            width = np.maximum(ends - begins, 0.002 * (end - found.now))
            axes.barh(places, width, left=begins, height=0.7, color=color, label=label)
        medians = [_within(job.median, end) for job in first]
        style = {"color": "#000000", "edgecolors": "#ffffff", "linewidths": 0.8, "zorder": 3}
        axes.scatter(medians, places, 22, label="half have started", **style)
        _plans(axes, first, places, end, 16)
        numbers = [(job.id, job.processors) for job in widest]
        numbers += [(job.id, job.processors) for job in first]
        names = [f"{name[:14]} ({processors:,})" for name, processors in numbers]
        axes.set_yticks(range(len(names)), names, fontsize=9)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_ylabel("Job (processors)")
        axes.grid(axis="y", visible=False)

    height = 1.6 + 0.2 * (count + len(first))
    return _over_time(title, draw_on, height, found.now, end, calendar)


def _plans(
    axes: Any, jobs: Sequence[StartForecast], places: np.ndarray, end: float, size: int
) -> None:
    """Draw marks at the starts that are planned by time limits, as far as the axis reaches
    (``end``).
    """
    planned = np.array([_within(job.planned, np.inf) for job in jobs])
    near, style = planned <= end, {"color": _PLAN, "linewidths": 0, "zorder": 4}
    axes.scatter(planned[near], places[near], size, marker="D", label="planned by limits", **style)


def _whole(dated: Sequence[StartForecast], found: QueueForecast, calendar: Calendar) -> PagePicture:
    """Return the picture of the forecast starts of all waiting jobs, as bands of quantiles."""
    jobs = sorted(dated, key=_by_median)
    end = _end_of(jobs, found.now)
    early, low, median, high, late = (
        np.array([_within(date, end) for date in dates])
        for dates in zip(
            *((job.early, job.half[0], job.median, job.half[1], job.late) for job in jobs),
            strict=True,
        )
    )
    places = np.arange(1, len(jobs) + 1)

    def draw_on(axes: Any) -> None:
        style = {"linewidth": 0, "step": "mid"}
        axes.fill_betweenx(places, early, late, color=_WIDE, label="80 %", **style)
        axes.fill_betweenx(places, low, high, color=_NARROW, label="50 %", **style)
        axes.plot(median, places, color="#000000", linewidth=1.2, label="half have started")
        _plans(axes, jobs, places, end, 4)
        axes.set_ylim(len(jobs) + 1, 0)
        axes.set_ylabel("Waiting jobs, by when half have started")

    return _over_time(f"All {len(jobs):,} waiting jobs", draw_on, 5.0, found.now, end, calendar)


def _over_time(
    title: str,
    draw_on: Callable[[Any], None],
    height: float,
    now: float,
    end: float,
    calendar: Calendar,
) -> PagePicture:
    """Return a picture whose horizontal axis shows dates from ``now`` to ``end`` (seconds since
    1970); ``draw_on`` draws its content.
    """
    site = Calendar(0, calendar.time_zone)

    def draw(directory: Path) -> dict[Path, str]:
        path = directory / "picture.svg"
        with picture(path, WIDTH, height) as figure:
            axes = figure.subplots()
            draw_on(axes)
            set_time_axis(axes, now, end + 0.02 * (end - now), site, most_ticks=6)
            axes.tick_params("x", labelsize=9)
            figure.set_layout_engine("constrained")
            figure.legend(loc="outside upper left", ncols=3, handlelength=1.2, columnspacing=1.2)
        return {path: title}

    (made,) = pictures_of(draw)
    return made


def _by_median(job: StartForecast) -> tuple[float, float]:
    return _within(job.median, np.inf), _within(job.early, np.inf)


def _within(date: float | None, end: float) -> float:
    """Return a date or, if it is later or None, the end of the axis."""
    return end if date is None else min(date, end)


def _limit_of(job: QueuedJob) -> float:
    """Return when a running job reaches its time limit (seconds since 1970)."""
    if job.end is not None:
        return job.end
    return np.inf if job.start is None or job.estimate is None else job.start + job.estimate


def _end_of(jobs: Sequence[StartForecast], now: float) -> float:
    """Return the end of the axis (a date), so that all medians and nine of ten late quantiles of
    the starts lie before it.
    """
    known = [job.late for job in jobs if job.late is not None]
    medians = [job.median for job in jobs if job.median is not None]
    last = max(float(np.quantile(known, 0.9)) if known else now, *medians)
    return now + max(1.05 * (last - now), 600.0)


def _dated_table(
    jobs: Sequence[StartForecast], found: QueueForecast, calendar: Calendar
) -> PageTable:
    """Return the table of waiting jobs with the quantiles of their forecast starts."""

    def wait(date: float | None) -> str:
        return "-" if date is None else hours(max(date - found.now, 0.0))

    heads = ["job", "user", "processors", "limit (h)", "waits for", "half start by"]
    heads += ["nine of ten by", "by limits (h)", "10 % (h)", "25 % (h)", "50 % (h)", "75 % (h)"]
    heads += ["90 % (h)", "in 1 h (%)", "in a day (%)"]
    return PageTable(
        title="Waiting jobs",
        headings=heads,
        rows=[
            [
                job.name,
                job.user or "-",
                f"{job.processors:,}",
                "-" if job.limit is None else hours(job.limit),
                job.waits_for,
                *(
                    "-" if date is None else _text(date, calendar)
                    for date in (job.median, job.late)
                ),
                *map(
                    wait, (job.planned, job.early, job.half[0], job.median, job.half[1], job.late)
                ),
                *(f"{100 * share:.0f}" for share in job.within or ()),
            ]
            for job in jobs
        ],
        note="Hours are from the date of the queue on, by time limits and by the chance to have "
        "started; - is perhaps never.",
    )


def _undated_table(jobs: Sequence[PlannedStart]) -> PageTable | None:
    """Return the table of waiting jobs without a date of start, with the reasons; None if there are
    none.
    """
    rows = [
        [
            job.name,
            job.user or "-",
            f"{job.processors:,}",
            job.waits_for,
            job.reason or "-",
            str(job.no_date),
        ]
        for job in jobs
        if job.no_date is not None
    ]
    heads = ["job", "user", "processors", "waits for", "reason", "no date, since it"]
    return (
        PageTable(title="Jobs that wait without a date", headings=heads, rows=rows)
        if rows
        else None
    )


def _text(date: float, calendar: Calendar) -> str:
    """Format a date (seconds since 1970) in the site's time zone, to the minute."""
    return calendar.text(60 * round((date - calendar.unix_start) / 60))[:16]


FORECASTS = {
    "median_error": "forecast",
    "of_plan": "plan by limits",
    "of_recent_waits": "recent waits",
    "of_bound": "bound on recent waits",
    "of_slurm": "Slurm's estimate",
}
"""Names of what is compared, by its errors."""


def _compared(classes: Sequence[Coverage]) -> dict[str, str]:
    """Return the names of those kinds of forecasts (:data:`FORECASTS`) whose error is known, by
    attribute of :class:`Coverage`.
    """
    return {name: what for name, what in FORECASTS.items() if getattr(classes[0], name) is not None}


def _error_of(each: Coverage, name: str) -> float:
    error = getattr(each, name)
    return np.nan if error is None else error


def coverage_table(classes: Sequence[Coverage], moments: int) -> PageTable:
    """Return the table of how accurate forecasts of starts were, one row for each class of jobs;
    ``moments`` is how many moments were tried.
    """
    compared = _compared(classes)
    rows = [
        [
            each.group,
            f"{each.forecasts:,}",
            f"{each.coverage_50:.0f} %",
            f"{each.coverage_80:.0f} %",
            *(hours(_error_of(each, name)) for name in compared),
        ]
        for each in classes
    ]
    heads = ["jobs", "forecasts", "in 50 %", "in 80 %"]
    return PageTable(
        title=f"Starts within intervals of 50 and 80 %, at {moments:,} moments",
        headings=[*heads, *(f"{name} (h)" for name in compared.values())],
        rows=rows,
        note="Hours are medians of absolute errors.",
    )


def backtest_page(
    about: str,
    told: Sequence[PastForecast],
    classes: Sequence[Coverage],
    command: str,
    promises: KeptPromises | None = None,
) -> str:
    """Return the results of a back-test as an HTML page.

    Parameters
    ----------
    about
        What was tested.
    told, classes
        The forecasts, and how true they were, first of all jobs.
    command
        What made it.
    promises
        How many ends that were promised at 95 % were kept, if any.
    """
    every, moments = classes[0], len({each.now for each in told})
    return html_page(
        "How true are the forecasts of starts?",
        f"{about}: {every.forecasts:,} forecasts at {moments:,} random moments.",
        {
            "In short": [PageText(paragraphs=_summary(every, promises)), _calibration(told)],
            "Errors": [_errors(classes)],
            "By class of jobs": [coverage_table(classes, moments)],
            "By chance": [_levels_table(told)],
        },
        command,
    )


def _summary(every: Coverage, promises: KeptPromises | None) -> list[str]:
    """Return the results of a back-test in sentences; ``every`` are those of all jobs."""
    interval = ""
    if every.coverage_80_interval is not None:
        low, high = every.coverage_80_interval
        interval = f" [{low:.1f}, {high:.1f}]"
    others = [
        f"{hours(_error_of(every, name))} h with {'' if name == 'of_slurm' else 'the '}{what}"
        for name, what in _compared([every]).items()
        if name != "median_error"
    ]
    kept = []
    if promises is not None:
        kept = [
            f"{promises.kept:.1f} % of ends that had a chance of 95 % were kept, on average "
            f"{hours(promises.slack)} h early."
        ]
    return [
        f"{every.coverage_80:.1f} %{interval} of starts came in the intervals that were to hold "
        f"80 %, and {every.coverage_50:.1f} % in those of 50 %; before calibration "
        f"{every.raw_80:.1f} and {every.raw_50:.1f} %.",
        f"Half of the forecasts missed the start by less than {hours(every.median_error)} h; "
        f"{', '.join(others)}.",
        *kept,
    ]


def shares_before(told: Sequence[PastForecast]) -> list[tuple[float, float]]:
    """Return for each level how many jobs (%) started before that quantile of their forecast: as
    simulated, and as calibrated.

    In percent; in the order of the levels.
    """
    start = np.array([each.start for each in told])[:, None]
    columns = ([each.drawn for each in told], [each.levels for each in told])
    drawn, levels = (100.0 * (start <= np.array(of) + TOLERANCE).mean(axis=0) for of in columns)
    return list(zip(drawn.tolist(), levels.tolist(), strict=True))


def _calibration(told: Sequence[PastForecast]) -> PagePicture:
    """Return the picture that compares each quantile's level with the share of jobs that started
    before the quantile.
    """
    title = "Starts by the dates that were told"
    chances, shares = 100.0 * np.array(LEVELS), np.array(shares_before(told))

    def draw(directory: Path) -> dict[Path, str]:
        path = directory / "picture.svg"
        with picture(path, WIDTH, WIDTH) as figure:
            axes = figure.subplots()
            axes.plot([0, 100], [0, 100], color="#777777", linestyle="--", label="as told")
            for place, (name, color) in enumerate((("as drawn", _PLAN), ("calibrated", _NARROW))):
                style: dict[str, Any] = {"marker": MARKERS[1 - place], "color": color}
                axes.plot(chances, shares[:, place], label=name, **style)
            axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
            axes.set_xlabel("Chance told to start by a date (%)")
            axes.set_ylabel("Jobs that started by then (%)")
            axes.legend(loc="upper left")
            figure.set_layout_engine("constrained")
        return {path: title}

    (made,) = pictures_of(draw)
    return made


def _levels_table(told: Sequence[PastForecast]) -> PageTable:
    """Return the table of each quantile's level and the share of jobs that started before the
    quantile.
    """
    rows = [
        [f"{100 * level:.0f}", f"{drawn:.1f}", f"{calibrated:.1f}"]
        for level, (drawn, calibrated) in zip(LEVELS, shares_before(told), strict=True)
    ]
    heads = ["chance told (%)", "started by then, as drawn (%)", "calibrated (%)"]
    return PageTable(title="Starts by the dates that were told", headings=heads, rows=rows)


def _errors(classes: Sequence[Coverage]) -> PagePicture:
    """Return the picture of the median errors of the forecasts, by class of jobs."""
    title = "Median errors of forecasts of a start"

    def draw(directory: Path) -> dict[Path, str]:
        path = directory / "picture.svg"
        with picture(path, WIDTH, 1.7 + 0.28 * len(classes)) as figure:
            axes = figure.subplots()
            largest, least = 0.0, np.inf
            for place, (name, what) in enumerate(_compared(classes).items()):
                errors = np.maximum([_error_of(each, name) for each in classes], 1.0)
                style: dict[str, Any] = {"color": COLORS[place], "marker": MARKERS[place]}
                axes.scatter(errors, range(len(classes)), 30, label=what, **style)
                largest, least = max(largest, np.nanmax(errors)), min(least, np.nanmin(errors))
            axes.set_xscale("log")
            axes.set_yticks(range(len(classes)), [each.group for each in classes])
            axes.set_ylim(len(classes) - 0.5, -0.5)
            steps = [1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86_400.0, 10 * 86_400.0]
            shown = [each for each in steps if least / 2 <= each <= 2 * largest]
            axes.set_xticks(shown, [round_duration_text(each) for each in shown])
            axes.set_xticks([], minor=True)
            axes.set_xlabel("Median of absolute errors")
            figure.set_layout_engine("constrained")
            figure.legend(loc="outside upper left", ncols=2, handlelength=1.0)
        return {path: title}

    (made,) = pictures_of(draw)
    return made
