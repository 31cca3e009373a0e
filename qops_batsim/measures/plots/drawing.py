"""Common parts of pictures: style, formats, time axes, equal bytes for equal data."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import matplotlib.style
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, num2date
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator

from qops_batsim.dates import Calendar
from qops_batsim.errors import InputError
from qops_batsim.files import atomic_write
from qops_batsim.measures.results.result_tables import Floats

FORMATS = ("png", "pdf", "svg")
"""File formats of pictures, chosen by the end of the file name."""

DOTS_PER_INCH = 150

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, which colour-blind people tell apart."""

MET = "#0072b2"
MISSED = "#d55e00"
REFUSED = "#777777"
"""Colours of deadlines that were met, missed and refused, in all pictures."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Shapes of points, one for each colour."""

# Without dates, program versions and random identifiers, equal data give equal bytes.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "figure.dpi": DOTS_PER_INCH,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "qops-batsim",
}
_MINUTE = 60.0
_HOUR = 3600.0
_DAY = 86400.0
_TIME_UNITS = (
    # Used from this span on (seconds), name, length (seconds).
    (4 * _DAY, "days", _DAY),
    (5 * _HOUR, "hours", _HOUR),
    (5 * _MINUTE, "minutes", _MINUTE),
    (0.0, "seconds", 1.0),
)
READABLE_DURATIONS = (
    *(n * 1.0 for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)),
)
"""Steps (seconds) that people count time in, ascending."""

_MOST_TICKS = 12

_NOTEBOOK_DOTS_PER_INCH = 80


def output_format(path: str | Path) -> str:
    """Return the format that a file name ends with, one of :data:`FORMATS`."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        accepted = ", ".join(f".{name}" for name in FORMATS)
        raise InputError(
            f"{path}: {'ends in .' + ending if ending else 'has no ending'}; "
            f"a picture's name must end in one of {accepted}"
        )
    return ending


class _NotebookFigure(Figure):
    """A Matplotlib figure that Jupyter notebooks display although pyplot is not used."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=_NOTEBOOK_DOTS_PER_INCH)
        return content.getvalue()


@contextmanager
def picture(path: str | Path | None, width: float, height: float) -> Iterator[Figure]:
    """Context manager: yield a Matplotlib figure (size in inches) to draw on, then write it to
    ``path``, completely or not at all.

    The ending of the path chooses the format; None writes nothing. The user's own matplotlib
    settings do not matter, so that a picture looks the same everywhere.
    """
    kind = None if path is None else output_format(path)
    with matplotlib.style.context(_STYLE, after_reset=True):
        figure = _NotebookFigure(figsize=(width, height))
        FigureCanvasAgg(figure)
        yield figure
        if path is not None and kind is not None:
            with atomic_write(path) as stream:
                figure.savefig(stream, format=kind, dpi=DOTS_PER_INCH, metadata=_METADATA[kind])


def legend_above(axes: Any, columns: int, **options: Any) -> None:
    """Put the legend between the axes and their title, left-aligned."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        borderaxespad=0.3,
        borderpad=0,
        **options,
    )


def set_host_ticks(axes: Any, middles: Floats) -> None:
    """Label some of the hosts on the vertical axis, given the middle of each host's row."""
    count = len(middles)
    ticks = MaxNLocator(nbins=12, integer=True).tick_values(0, count - 1)
    hosts = [int(tick) for tick in ticks if 0 <= tick < count]
    axes.yaxis.set_major_locator(FixedLocator([float(middles[host]) for host in hosts]))
    axes.yaxis.set_major_formatter(FixedFormatter([str(host) for host in hosts]))


def set_time_axis(
    axes: Any,
    begin: float,
    end: float,
    calendar: Calendar | None = None,
    most_ticks: int = _MOST_TICKS,
) -> None:
    """Label a horizontal axis whose values are seconds: with dates if a calendar is given, else in
    a readable unit of time.

    Without a calendar, ticks within a few days far from date 0 read like ``100 d 06:00``.
    """
    if calendar is not None:
        _set_dates(axes, begin, end, calendar, most_ticks)
        return

    span = end - begin
    name, length = next((name, length) for least, name, length in _TIME_UNITS if span >= least)
    step = next((d for d in READABLE_DURATIONS if span / d <= most_ticks), None)
    places: Sequence[float] | np.ndarray

    if span < most_ticks / 2 or step is None:
        places = MaxNLocator(nbins=most_ticks, steps=[1, 2, 5, 10]).tick_values(begin, end)
    else:
        places = np.arange(math.ceil(begin / step), math.floor(end / step) + 1) * step

    ticks = [float(place) for place in places if begin <= place <= end]
    labels = [f"{tick / length:,.10g}" for tick in ticks]
    if length < _DAY and begin >= 2 * _DAY and span >= most_ticks / 2:
        name = "days and hours:minutes" + (":seconds" if step is not None and step < 60 else "")
        labels = [_clock(tick, seconds=step is not None and step < 60) for tick in ticks]

    axes.set_xlim(begin, end)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter(labels))
    axes.set_xlabel(f"Time since the start of the simulation ({name})")


def _set_dates(axes: Any, begin: float, end: float, calendar: Calendar, most: int) -> None:
    """Label a time axis with calendar dates at the site; the axis title names the day or year that
    the tick labels leave out.
    """
    zone = ZoneInfo(calendar.time_zone)
    locator = AutoDateLocator(tz=zone, minticks=min(5, most // 2), maxticks=most)
    formatter = ConciseDateFormatter(locator, tz=zone)
    places = locator.tick_values(calendar.date(begin), calendar.date(end))
    ticks = [calendar.seconds(num2date(place)) for place in places]
    inside = [index for index, tick in enumerate(ticks) if begin <= tick <= end]
    labels = formatter.format_ticks([places[index] for index in inside])
    axes.set_xlim(begin, end)
    axes.xaxis.set_major_locator(FixedLocator([ticks[index] for index in inside]))
    axes.xaxis.set_major_formatter(FixedFormatter(labels))

    # What ticks leave out: the day of hours, the year of days.
    known = "%Y-%m-%d" if end - begin <= 2 * _DAY else "%Y"
    sides = dict.fromkeys(calendar.date(each).strftime(known) for each in (begin, end))
    axes.set_xlabel(f"Date, {' to '.join(sides)} ({calendar.time_zone})")


def _clock(date: float, *, seconds: bool) -> str:
    days, rest = divmod(round(date), int(_DAY))
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}" + (f":{rest % 60:02}" if seconds else "")
    return f"{days:,} d\n{clock}"
