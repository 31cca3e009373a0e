"""HTML pages of forecasts: a queue with its jobs' starts, and a back-test of forecasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qops_batsim.advice.recommendations import hours
from qops_batsim.dates import Calendar
from qops_batsim.experiments.page import (
    Block,
    PagePicture,
    PageTable,
    PageText,
    html_page,
    pictures_of,
)
from qops_batsim.measures.plots.drawing import (
    COLORS,
    MARKERS,
    duration_text,
    picture,
    set_time_axis,
)
from qops_batsim.queue.backtest import (
    LEVELS,
    TOLERANCE,
    Comparison,
    Coverage,
    KeptPromises,
    PastForecast,
    columns,
)
from qops_batsim.queue.queue_state import QueuedJob, QueueState, date_text, limit_of
from qops_batsim.queue.starts import (
    NO_FORECAST,
    JobStart,
    QueueStarts,
    StartForecast,
    undated_table,
)
from qops_batsim.queue.unexplained_waits import why_no_date

WIDTH = 5.2
"""Inches of a picture, whose letters can be read on a phone then."""

MOST_BARS = 40
"""Most waiting jobs that have a bar of their own."""

MOST_RUNNING = 12
"""Most running jobs that have one."""

AT_ONCE = 60.0
"""A job that has started by then, with a chance of 90 %, starts at once (seconds from now on)."""

_WIDE = "#a6d4f2"
_NARROW = COLORS[0]
_PLAN = COLORS[1]
_RUNS = "#999999"


def queue_page(
    found: QueueStarts, state: QueueState, calendar: Calendar | None, command: str
) -> str:
    """Return the starts of a queue as HTML: the forecast, or the plan by time limits.

    Parameters
    ----------
    found, state
        The starts and the queue that they are of.
    calendar
        The site's dates; None: those of this machine's clock, for a plan.
    command
        What made it.
    """
    if calendar is None:
        return _plan_page(found, state, command)
    dated = [job for job in found.dated if isinstance(job, StartForecast)]
    sentences = [_counts(found, state)]
    if dated:
        wait, planned = (
            float(np.median([(date or np.inf) - found.now for date in dates]))
            for dates in ([job.median for job in dated], [job.planned for job in dated])
        )
        sentences.append(
            f"Half of the {len(dated):,} that can start are expected to wait for "
            f"{hours(wait)} h or longer from now on; if all jobs used their "
            f"time limits, it would be {hours(planned)} h."
        )
    if not found.calibrated:
        sentences.append(
            "The intervals are as drawn, and tend to be too short: a back-test (queue backtest "
            "--json) tells by how much, and corrects them."
        )

    next_to_start: list[Block] = []
    if dated:
        explained = (
            "A bar is where a job starts with a chance of 80 %, its dark part with one of 50 %, "
            "and the dot where half of such jobs have started."
        )
        picture_of_next = _bars(dated, state.running, found, calendar)
        next_to_start = [PageText(paragraphs=[explained]), picture_of_next]
    calibrated = "calibrated by a back-test" if found.calibrated else "not calibrated"
    return html_page(
        "When will my job start?",
        f"{Path(found.source).name} at {_text(found.now, calendar)} ({calendar.time_zone}): "
        f"{found.draws} simulations by {found.scheduler}, {calibrated}.",
        {
            "In short": [PageText(paragraphs=[*sentences, *_doubts(found)])],
            "The next to start": next_to_start,
            "All that wait": [
                _whole(dated, found, calendar) if len(dated) > MOST_BARS else None,
                _dated_table(dated, found, calendar) if dated else None,
                _undated_table(found.jobs),
            ],
        },
        command,
        seed=f"{found.seed}",
    )


def _plan_page(found: QueueStarts, state: QueueState, command: str) -> str:
    rows = [
        [
            *_about(job),
            "-" if job.planned is None else date_text(job.planned)[:16],
            _wait(job.planned, found.now),
        ]
        for job in found.dated
    ]
    table = PageTable(
        title="Starts by time limits, no forecast",
        headings=[*ABOUT, "by limits at", "in (h)"],
        rows=rows,
    )
    no_forecast = f"{NO_FORECAST[0].upper()}{NO_FORECAST[1:]}."
    return html_page(
        "When would jobs start by their time limits?",
        f"{Path(found.source).name} at {date_text(found.now)}: planned by {found.scheduler}, no "
        "forecast.",
        {
            "In short": [
                PageText(paragraphs=[no_forecast, _counts(found, state), *_doubts(found)])
            ],
            "All that wait": [table if rows else None, _undated_table(found.jobs)],
        },
        command,
    )


def _counts(found: QueueStarts, state: QueueState) -> str:
    """Return in a sentence how many jobs run and wait."""
    used = sum(job.processors for job in state.running)
    return (
        f"{found.running:,} jobs run on {used:,} of {found.processors:,} processors, and "
        f"{len(found.jobs):,} wait."
    )


def _doubts(found: QueueStarts) -> list[str]:
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
    found: QueueStarts,
    calendar: Calendar,
) -> PagePicture:
    """Return a Gantt chart of running jobs until their limits, and of the next starts."""
    # Those that start at once would fill it where much is free.
    later = [job for job in dated if _within(job.late, np.inf) > found.now + AT_ONCE]
    first = sorted(later or dated, key=_by_median)[:MOST_BARS]
    widest = sorted(running, key=lambda job: -job.processors)[:MOST_RUNNING]
    widest.sort(key=limit_of)
    count = len(widest)
    end = _end_of(first, found.now)

    def draw_on(axes: Any) -> None:
        axes.barh(
            range(count),
            [max(min(limit_of(job), end) - found.now, 0.0) for job in widest],
            left=found.now,
            height=0.7,
            color=_RUNS,
            label="runs, until its limit",
        )

        places = np.arange(count, count + len(first))
        for intervals, color, label in (
            ([(job.early, job.late) for job in first], _WIDE, "80 %"),
            ([job.half for job in first], _NARROW, "50 %"),
        ):
            ends = np.array([[_within(date, end) for date in interval] for interval in intervals])
            # What starts at a date that is known has a bar, too.
            width = np.maximum(ends[:, 1] - ends[:, 0], 0.002 * (end - found.now))
            axes.barh(places, width, left=ends[:, 0], height=0.7, color=color, label=label)
        medians = [_within(job.median, end) for job in first]
        style = {"color": "#000000", "edgecolors": "#ffffff", "linewidths": 0.8, "zorder": 3}
        axes.scatter(medians, places, 22, label="half have started", **style)
        _plans(axes, first, places, end, 16)

        named: list[QueuedJob | StartForecast] = [*widest, *first]
        names = [f"{job.id[:14]} ({job.processors:,})" for job in named]
        axes.set_yticks(range(len(names)), names, fontsize=9)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_ylabel("Job (processors)")
        axes.grid(axis="y", visible=False)

    runs = "Running jobs" if count == len(running) else f"The {count} widest running jobs"
    title = f"{runs} until their time limits, and the next {len(first)} to start later"
    height = 1.6 + 0.2 * (count + len(first))
    return _over_time(title, draw_on, height, found.now, end, calendar)


def _plans(
    axes: Any, jobs: Sequence[StartForecast], places: np.ndarray, end: float, size: int
) -> None:
    """Draw marks at the starts that are planned by time limits, as far as the axis reaches
    (``end``).
    """
    planned = np.array([_within(job.planned, np.inf) for job in jobs])
    near = planned <= end
    style = {"color": _PLAN, "linewidths": 0, "zorder": 4}
    axes.scatter(planned[near], places[near], size, marker="D", label="planned by limits", **style)


def _whole(dated: Sequence[StartForecast], found: QueueStarts, calendar: Calendar) -> PagePicture:
    """Return the picture of the forecast starts of all waiting jobs, as bands of quantiles."""
    jobs = sorted(dated, key=_by_median)
    end = _end_of(jobs, found.now)
    quantiles = [(job.early, job.half[0], job.median, job.half[1], job.late) for job in jobs]
    dates = np.array([[_within(date, end) for date in of_job] for of_job in quantiles])
    early, low, median, high, late = dates.T
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

    def draw(figure: Any, axes: Any) -> None:
        draw_on(axes)
        set_time_axis(axes, now, end + 0.02 * (end - now), site, most_ticks=6)
        axes.tick_params("x", labelsize=9)
        figure.legend(loc="outside upper left", ncols=3, handlelength=1.2, columnspacing=1.2)

    return _picture(title, draw, height)


def _picture(title: str, draw: Callable[[Any, Any], None], height: float) -> PagePicture:
    """Return a picture of a page, of one pair of axes, on which ``draw`` draws."""

    def draw_file(directory: Path) -> dict[Path, str]:
        path = directory / "picture.svg"
        with picture(path, WIDTH, height) as figure:
            figure.set_layout_engine("constrained")
            draw(figure, figure.subplots())
        return {path: title}

    (made,) = pictures_of(draw_file)
    return made


def _by_median(job: StartForecast) -> tuple[float, float]:
    return _within(job.median, np.inf), _within(job.early, np.inf)


def _within(date: float | None, end: float) -> float:
    """Return a date or, if it is later or None, the end of the axis."""
    return end if date is None else min(date, end)


def _end_of(jobs: Sequence[StartForecast], now: float) -> float:
    """Return the end of the axis (a date), so that all medians and nine of ten late quantiles of
    the starts lie before it.
    """
    known = [job.late for job in jobs if job.late is not None]
    medians = [job.median for job in jobs if job.median is not None]
    last = max(float(np.quantile(known, 0.9)) if known else now, *medians)
    return now + max(1.05 * (last - now), 600.0)


def _dated_table(
    jobs: Sequence[StartForecast], found: QueueStarts, calendar: Calendar
) -> PageTable:
    """Return the table of waiting jobs with the quantiles of their forecast starts."""

    heads = [*ABOUT, "half start by", "nine of ten by", "by limits (h)", "10 % (h)", "25 % (h)"]
    heads += ["50 % (h)", "75 % (h)", "90 % (h)", "in 1 h (%)", "in a day (%)"]
    rows: list[list[str]] = []
    for job in jobs:
        dates = [job.planned, job.early, job.half[0], job.median, job.half[1], job.late]
        row = [
            *_about(job),
            *("-" if date is None else _text(date, calendar) for date in (job.median, job.late)),
            *(_wait(date, found.now) for date in dates),
            *(f"{100 * share:.0f}" for share in job.within or ()),
        ]
        rows.append(row)
    return PageTable(
        title="Waiting jobs",
        headings=heads,
        rows=rows,
        note="Hours are from the date of the queue on, by time limits and by the chance to have "
        "started; - is perhaps never.",
    )


ABOUT = ("job", "user", "processors", "limit (h)", "waits for")
"""Headings of what tables tell of each job."""


def _about(job: JobStart) -> list[str]:
    limit = "-" if job.limit is None else hours(job.limit)
    return [job.name, job.user or "-", f"{job.processors:,}", limit, job.waits_for]


def _wait(date: float | None, now: float) -> str:
    """Return the hours until a date, as text."""
    return "-" if date is None else hours(max(date - now, 0.0))


def _undated_table(jobs: Sequence[JobStart]) -> PageTable | None:
    """Return the table of waiting jobs without a date of start, with the reasons; None if there are
    none.
    """
    title, headings, rows = undated_table(jobs)
    users = [job.user or "-" for job in jobs if job.no_date is not None]
    if not rows:
        return None
    return PageTable(
        title=title,
        headings=[headings[0], "user", *headings[1:]],
        rows=[[row[0], user, *row[1:]] for row, user in zip(rows, users, strict=True)],
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
            kind.group,
            f"{kind.forecasts:,}",
            f"{kind.coverage_50:.0f} %",
            f"{kind.coverage_80:.0f} %",
            *(hours(_error_of(kind, name)) for name in compared),
        ]
        for kind in classes
    ]
    heads = ["jobs", "forecasts", "in 50 %", "in 80 %"]
    return PageTable(
        title=f"Starts within intervals of 50 and 80 %, at {moments:,} moments",
        headings=[*heads, *(f"{name} (h)" for name in compared.values())],
        rows=rows,
        note="Hours are medians of absolute errors.",
    )


def backtest_page(about: str, found: Comparison, command: str) -> str:
    """Return the results of a back-test as an HTML page.

    Parameters
    ----------
    about
        What was tested.
    found
        The results.
    command
        What made it.
    """
    every = found.classes[0]
    in_short = PageText(paragraphs=_summary(every, found.promises))
    return html_page(
        "How true are the forecasts of starts?",
        f"{about}: {every.forecasts:,} forecasts at {found.moments:,} random moments.",
        {
            "In short": [in_short, _calibration(found.told)],
            "Errors": [_errors(found.classes)],
            "By class of jobs": [coverage_table(found.classes, found.moments)],
            "By chance": [_levels_table(found.told)],
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
    sentences = [
        f"{every.coverage_80:.1f} %{interval} of starts came in the intervals that were to hold "
        f"80 %, and {every.coverage_50:.1f} % in those of 50 %; before calibration "
        f"{every.raw_80:.1f} and {every.raw_50:.1f} %.",
        f"Half of the forecasts missed the start by less than {hours(every.median_error)} h; "
        f"{', '.join(others)}.",
    ]

    if promises is not None:
        sentences.append(
            f"{promises.kept:.1f} % of ends that had a chance of 95 % were kept, on average "
            f"{hours(promises.slack)} h early."
        )
    return sentences


def shares_before(told: Sequence[PastForecast]) -> list[tuple[float, float]]:
    """Return for each level how many jobs (%) started before that quantile of their forecast: as
    simulated, and as calibrated.

    In percent; in the order of the levels.
    """
    of = columns(told)
    drawn, levels = (
        100.0 * (of.start[:, None] <= quantiles + TOLERANCE).mean(axis=0)
        for quantiles in (of.drawn, of.levels)
    )
    return list(zip(drawn.tolist(), levels.tolist(), strict=True))


def _calibration(told: Sequence[PastForecast]) -> PagePicture:
    """Return the picture that compares each quantile's level with the share of jobs that started
    before the quantile.
    """
    chances = 100.0 * np.array(LEVELS)
    shares = np.array(shares_before(told))

    def draw(figure: Any, axes: Any) -> None:
        axes.plot([0, 100], [0, 100], color="#777777", linestyle="--", label="as told")
        for place, (name, color) in enumerate((("as drawn", _PLAN), ("calibrated", _NARROW))):
            style: dict[str, Any] = {"marker": MARKERS[1 - place], "color": color}
            axes.plot(chances, shares[:, place], label=name, **style)
        axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
        axes.set_xlabel("Chance told to start by a date (%)")
        axes.set_ylabel("Jobs that started by then (%)")
        axes.legend(loc="upper left")

    return _picture("Starts by the dates that were told", draw, WIDTH)


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
    errors = {
        what: np.maximum([_error_of(kind, name) for kind in classes], 1.0)
        for name, what in _compared(classes).items()
    }
    largest = max(np.nanmax(row) for row in errors.values())
    least = min(np.nanmin(row) for row in errors.values())

    def draw(figure: Any, axes: Any) -> None:
        for place, (what, row) in enumerate(errors.items()):
            style: dict[str, Any] = {"color": COLORS[place], "marker": MARKERS[place]}
            axes.scatter(row, range(len(classes)), 30, label=what, **style)
        axes.set_xscale("log")
        axes.set_yticks(range(len(classes)), [kind.group for kind in classes])
        axes.set_ylim(len(classes) - 0.5, -0.5)

        steps = [1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86_400.0, 10 * 86_400.0]
        shown = [step for step in steps if least / 2 <= step <= 2 * largest]
        axes.set_xticks(shown, [duration_text(step) for step in shown])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("Median of absolute errors")
        figure.legend(loc="outside upper left", ncols=2, handlelength=1.0)

    title = "Median errors of forecasts of a start"
    return _picture(title, draw, 1.7 + 0.28 * len(classes))
