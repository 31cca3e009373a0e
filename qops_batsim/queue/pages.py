"""HTML pages of forecasts: a queue with its jobs' starts, and a back-test of forecasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qops_batsim.dates import Calendar
from qops_batsim.experiments.page import PagePicture, PageTable, PageText, html_page
from qops_batsim.experiments.pictures import PAGE_WIDTH, page_picture
from qops_batsim.experiments.report_table import ReportColumn, declared_tables, hours
from qops_batsim.measures.plots.drawing import COLORS, MARKERS, set_time_axis
from qops_batsim.queue.backtest import Comparison
from qops_batsim.queue.calibration import LEVELS, TOLERANCE
from qops_batsim.queue.queue_state import QueuedJob, QueueState, limit_of
from qops_batsim.queue.scores import Coverage, KeptPromises, PastForecast, columns, coverage
from qops_batsim.queue.starts import NO_FORECAST, JobStart, QueueStarts, StartForecast
from qops_batsim.queue.unexplained_waits import why_no_date
from qops_batsim.texts import date_text, round_duration_text

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

_TABLES = declared_tables("qops_batsim.queue")


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
    summary = [_load_text(found, state)]
    if dated:
        waits, planned = (
            np.median([(np.inf if date is None else date) - found.now for date in dates])
            for dates in ([job.median for job in dated], [job.planned for job in dated])
        )
        summary.append(
            f"Half of the {len(dated):,} that can start are expected to wait for {hours(waits)} h "
            "or longer from now on; if all jobs used their time limits, it would be "
            f"{hours(planned)} h."
        )
    if not found.calibrated:
        summary.append(
            "The intervals are as drawn, and tend to be too short: a back-test (queue backtest "
            "--json) tells by how much, and corrects them."
        )
    summary += map(_sentence, found.warnings or ())
    summary += _doubts(found)

    calibrated = "calibrated by a back-test" if found.calibrated else "not calibrated"
    legend = (
        "A bar is where a job starts with a chance of 80 %, its dark part with one of 50 %, and "
        "the dot where half of such jobs have started."
    )
    return html_page(
        "When will my job start?",
        f"{Path(found.source).name} at {_date(found.now, calendar)} ({calendar.time_zone}): "
        f"{found.draws} simulations by {found.scheduler}, {calibrated}.",
        {
            "In short": [PageText(paragraphs=summary)],
            "The next to start": [
                PageText(paragraphs=[legend]),
                _next_starts(dated, state.running, found, calendar),
            ]
            if dated
            else [],
            "All that wait": [
                _all_starts(dated, found, calendar) if len(dated) > MOST_BARS else None,
                _dated_table("forecast", dated, found, lambda date: _date(date, calendar)),
                _undated_table(found.jobs),
            ],
        },
        command,
        seed=f"{found.seed}",
    )


def _plan_page(found: QueueStarts, state: QueueState, command: str) -> str:
    no_forecast = f"{NO_FORECAST[0].upper()}{NO_FORECAST[1:]}."
    return html_page(
        "When would jobs start by their time limits?",
        f"{Path(found.source).name} at {date_text(found.now)}: planned by {found.scheduler}, no "
        "forecast.",
        {
            "In short": [
                PageText(paragraphs=[no_forecast, _load_text(found, state), *_doubts(found)])
            ],
            "All that wait": [
                _dated_table("plan", found.dated, found, lambda date: date_text(date)[:16]),
                _undated_table(found.jobs),
            ],
        },
        command,
    )


def _load_text(found: QueueStarts, state: QueueState) -> str:
    """Return a sentence on the jobs that run and wait."""
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


def _next_starts(
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
    end = _end_of(first, found.now)
    count = len(widest)

    def draw(axes: Any) -> None:
        axes.barh(
            range(count),
            [max(min(limit_of(job), end) - found.now, 0.0) for job in widest],
            left=found.now,
            height=0.7,
            color=_RUNS,
            label="runs, until its limit",
        )

        places = np.arange(count, count + len(first))
        early, low, median, high, late = _dates_of(first, end)
        for begins, ends, color, label in (
            (early, late, _WIDE, "80 %"),
            (low, high, _NARROW, "50 %"),
        ):
            # What starts at a date that is known has a bar, too.
            width = np.maximum(ends - begins, 0.002 * (end - found.now))
            axes.barh(places, width, left=begins, height=0.7, color=color, label=label)
        axes.scatter(
            median,
            places,
            22,
            label="half have started",
            color="#000000",
            edgecolors="#ffffff",
            linewidths=0.8,
            zorder=3,
        )
        _draw_plan(axes, first, places, end, 16)

        shown: list[QueuedJob | StartForecast] = [*widest, *first]
        names = [f"{job.id[:14]} ({job.processors:,})" for job in shown]
        axes.set_yticks(range(len(names)), names, fontsize=9)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_ylabel("Job (processors)")
        axes.grid(axis="y", visible=False)

    runs = "Running jobs" if count == len(running) else f"The {count} widest running jobs"
    title = f"{runs} until their time limits, and the next {len(first)} to start later"
    height = 1.6 + 0.2 * (count + len(first))
    return _over_time(title, draw, height, found.now, end, calendar)


def _draw_plan(
    axes: Any, jobs: Sequence[StartForecast], places: np.ndarray, end: float, size: int
) -> None:
    """Draw marks at the starts that are planned by time limits, as far as the axis reaches
    (``end``).
    """
    planned = np.array([_within(job.planned, np.inf) for job in jobs])
    near = planned <= end
    axes.scatter(
        planned[near],
        places[near],
        size,
        marker="D",
        label="planned by limits",
        color=_PLAN,
        linewidths=0,
        zorder=4,
    )


def _all_starts(
    dated: Sequence[StartForecast], found: QueueStarts, calendar: Calendar
) -> PagePicture:
    """Return the picture of the forecast starts of all waiting jobs, as bands of quantiles."""
    jobs = sorted(dated, key=_by_median)
    end = _end_of(jobs, found.now)
    early, low, median, high, late = _dates_of(jobs, end)
    places = np.arange(1, len(jobs) + 1)

    def draw(axes: Any) -> None:
        for first, last, color, label in (
            (early, late, _WIDE, "80 %"),
            (low, high, _NARROW, "50 %"),
        ):
            axes.fill_betweenx(
                places, first, last, color=color, label=label, linewidth=0, step="mid"
            )
        axes.plot(median, places, color="#000000", linewidth=1.2, label="half have started")
        _draw_plan(axes, jobs, places, end, 4)
        axes.set_ylim(len(jobs) + 1, 0)
        axes.set_ylabel("Waiting jobs, by when half have started")

    return _over_time(f"All {len(jobs):,} waiting jobs", draw, 5.0, found.now, end, calendar)


def _over_time(
    title: str,
    draw: Callable[[Any], None],
    height: float,
    now: float,
    end: float,
    calendar: Calendar,
) -> PagePicture:
    """Return a picture whose horizontal axis shows dates from ``now`` to ``end`` (seconds since
    1970); ``draw`` draws its content.
    """
    site = Calendar(0, calendar.time_zone)

    def draw_dated(axes: Any) -> None:
        draw(axes)
        set_time_axis(axes, now, end + 0.02 * (end - now), site, most_ticks=6)
        axes.tick_params("x", labelsize=9)

    return page_picture(title, draw_dated, height, ncols=3, handlelength=1.2, columnspacing=1.2)


def _dates_of(jobs: Sequence[StartForecast], end: float) -> list[np.ndarray]:
    """Return the quantiles of the jobs' starts from early to late, as far as the axis reaches."""
    quantiles = ((job.early, job.half[0], job.median, job.half[1], job.late) for job in jobs)
    return [
        np.array([_within(date, end) for date in dates]) for dates in zip(*quantiles, strict=True)
    ]


def _by_median(job: StartForecast) -> tuple[float, float]:
    return _within(job.median, np.inf), _within(job.early, np.inf)


def _within(date: float | None, end: float) -> float:
    """Return a date or, if it is later or None, the end of the axis."""
    return end if date is None else min(date, end)


def _end_of(jobs: Sequence[StartForecast], now: float) -> float:
    """Return the end of the axis (a date), so that all medians and nine of ten late quantiles of
    the starts lie before it.
    """
    late = [job.late for job in jobs if job.late is not None]
    medians = [job.median for job in jobs if job.median is not None]
    last = max(float(np.quantile(late, 0.9)) if late else now, *medians)
    return now + max(1.05 * (last - now), 600.0)


def _dated_table(
    name: str,
    jobs: Sequence[JobStart],
    found: QueueStarts,
    date_form: Callable[[float], str],
) -> PageTable | None:
    """Return the table of waiting jobs with dates of their starts; None if there are none."""
    forms: dict[str, Callable[[Any], str]] = {
        "known": _known,
        "date": date_form,
        "wait": lambda date: hours(max(date - found.now, 0.0)),
        "percent": lambda share: f"{100 * share:.0f}",
    }
    return _TABLES[name].table(jobs, forms=forms) if jobs else None


def _undated_table(jobs: Sequence[JobStart]) -> PageTable | None:
    """Return the table of waiting jobs without a date of start, with the reasons; None if there are
    none.
    """
    undated = [job for job in jobs if job.no_date is not None]
    return _TABLES["undated"].table(undated, forms={"known": _known}) if undated else None


def _known(text: str) -> str:
    return text or "-"


def _date(date: float, calendar: Calendar) -> str:
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


def coverage_table(classes: Sequence[Coverage], moments: int) -> PageTable:
    """Return the table of how accurate forecasts of starts were, one row for each class of jobs;
    ``moments`` is how many moments were tried.
    """
    errors = {
        name: ReportColumn(f"{what} (h)", "hours") for name, what in _compared(classes).items()
    }
    return _TABLES["coverage"].table(classes, further=errors, moments=f"{moments:,}")


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
    of_all = found.classes[0]
    shares = [
        {"level": 100 * level, "drawn": drawn, "calibrated": calibrated}
        for level, (drawn, calibrated) in zip(LEVELS, shares_before(found.told), strict=True)
    ]
    return html_page(
        "How true are the forecasts of starts?",
        f"{about}: {of_all.forecasts:,} forecasts at {found.moments:,} random moments.",
        {
            "In short": [
                PageText(paragraphs=[*_summary(of_all, found.promises), *judgement(found)]),
                _calibration(found.told),
            ],
            "Errors": [_errors(found.classes)],
            "By class of jobs": [coverage_table(found.classes, found.moments)],
            "By chance": [_TABLES["levels"].table(shares)],
        },
        command,
    )


def _summary(of_all: Coverage, promises: KeptPromises | None) -> list[str]:
    """Return the results of a back-test in sentences; ``of_all`` are those of all jobs."""
    interval = ""
    if of_all.coverage_80_interval is not None:
        low, high = of_all.coverage_80_interval
        interval = f" [{low:.1f}, {high:.1f}]"
    others = [
        f"{hours(getattr(of_all, name))} h with {'' if name == 'of_slurm' else 'the '}{what}"
        for name, what in _compared([of_all]).items()
        if name != "median_error"
    ]
    summary = [
        f"{of_all.coverage_80:.1f} %{interval} of starts came in the intervals that were to hold "
        f"80 %, and {of_all.coverage_50:.1f} % in those of 50 %; before calibration "
        f"{of_all.raw_80:.1f} and {of_all.raw_50:.1f} %.",
        f"Half of the forecasts missed the start by less than {hours(of_all.median_error)} h; "
        f"{', '.join(others)}.",
    ]
    if promises is not None:
        summary.append(
            f"{promises.kept:.1f} % of ends that had a chance of 95 % were kept, on average "
            f"{hours(promises.slack)} h early."
        )
    return summary


def judgement(found: Comparison) -> list[str]:
    """Return in sentences how large the losses of a back-test were, what is told by them, and how
    often the queue was unlike the past.
    """
    of_all = found.classes[0]
    says = [
        f"Mean pinball loss: {hours(of_all.pinball)} h; of the simulations as drawn "
        f"{hours(of_all.pinball_drawn)} h; calibrated in the same way, of the plan by limits "
        f"{hours(of_all.pinball_of_plan)} h, of recent waits "
        f"{hours(of_all.pinball_of_recent_waits)} h. Half of the intervals of 80 % are wider than "
        f"{hours(of_all.width)} h."
    ]
    said = [each for each in found.told if each.is_unlike]
    if said:
        inside = coverage(said).coverage_80
        says.append(
            f"At {len({each.now for each in said}):,} of {found.moments:,} moments the queue was "
            f"unlike those before; {inside:.0f} % of starts came in the intervals, which are wider."
        )
    return [*says, *map(_sentence, found.learned.warnings())]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


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

    def draw(axes: Any) -> None:
        axes.plot([0, 100], [0, 100], color="#777777", linestyle="--", label="as told")
        axes.plot(chances, shares[:, 0], label="as drawn", marker=MARKERS[1], color=_PLAN)
        axes.plot(chances, shares[:, 1], label="calibrated", marker=MARKERS[0], color=_NARROW)
        axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
        axes.set_xlabel("Chance told to start by a date (%)")
        axes.set_ylabel("Jobs that started by then (%)")
        axes.legend(loc="upper left")

    return page_picture("Starts by the dates that were told", draw, PAGE_WIDTH)


def _errors(classes: Sequence[Coverage]) -> PagePicture:
    """Return the picture of the median errors of the forecasts, by class of jobs."""
    # No error is known for some classes: nothing is drawn there.
    errors = {
        what: np.maximum(np.array([getattr(each, name) for each in classes], float), 1.0)
        for name, what in _compared(classes).items()
    }
    least = np.nanmin([*errors.values()])
    largest = np.nanmax([*errors.values()])

    def draw(axes: Any) -> None:
        for place, (what, values) in enumerate(errors.items()):
            style: dict[str, Any] = {"color": COLORS[place], "marker": MARKERS[place]}
            axes.scatter(values, range(len(classes)), 30, label=what, **style)

        axes.set_yticks(range(len(classes)), [each.group for each in classes])
        axes.set_ylim(len(classes) - 0.5, -0.5)
        axes.set_xscale("log")
        steps = [1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86_400.0, 10 * 86_400.0]
        shown = [step for step in steps if least / 2 <= step <= 2 * largest]
        axes.set_xticks(shown, [round_duration_text(step) for step in shown])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("Median of absolute errors")

    height = 1.7 + 0.28 * len(classes)
    title = "Median errors of forecasts of a start"
    return page_picture(title, draw, height, ncols=2, handlelength=1.0)
