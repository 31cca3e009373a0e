"""What every reproduction is asked for and what it returns.

A module of this room that reproduces a paper has one function,
``run(request: PaperRequest) -> PaperReport``. Numbers of the paper stand beside
measured ones, and a claim that the measurements do not confirm is reported so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.version import __version__

if TYPE_CHECKING:
    from qops_batsim.experiments.intervals import Interval

Verdict = Literal["confirmed", "not confirmed", "inconclusive"]
CONFIRMED: Verdict = "confirmed"
NOT_CONFIRMED: Verdict = "not confirmed"
INCONCLUSIVE: Verdict = "inconclusive"

Cell = str | int | float | None
"""A cell of a table; None stands for nothing to say."""


class PaperRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a reproduction.

    Attributes
    ----------
    quick
        Only the part that takes a minute or few, as each paper's module defines it.
    traces
        Directory of the logs; None: the usual places
        (:func:`~qops_batsim.papers.logs.find_log`).
    workers
        Processes; results do not depend on it.
    seeds
        Number of seeds where the paper's experiments are random; None: the module's choice.
    out
        Directory where a module may keep finished runs, so that an interrupted
        reproduction goes on where it was; None: keep nothing.
    on_progress
        Called with the number of simulations done and to do.
    """

    quick: bool = False
    traces: Path | None = None
    workers: int = 1
    seeds: int | None = None
    out: Path | None = None
    on_progress: Callable[[int, int], None] | None = None

    def progress(self, done: int, total: int) -> None:
        """Tell how far the work is."""
        if self.on_progress is not None:
            self.on_progress(done, total)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a paper and what came out here.

    Attributes
    ----------
    id
        Short name, unique in the paper.
    text
        The claim in our words, precise enough to be tested.
    verdict
        Whether the measurements confirm it.
    value
        The number it was judged by, with its unit in ``text``; None if there is none.
    interval
        95 % confidence interval of the value, if there is one.
    paper
        The paper's own number, if it gives one.
    """

    id: str
    text: str
    verdict: Verdict
    value: float | None = None
    interval: tuple[float, float] | None = None
    paper: float | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table for people; its numbers are also in the report's data.

    Attributes
    ----------
    title
        What it shows, with units.
    columns
        Headings.
    rows
        Cells, as many in each row as there are columns.
    note
        What a reader must know to understand it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def text_rows(self) -> list[list[str]]:
        """Return the cells as text: numbers in a readable precision, nothing as a dash."""
        return [[_text(cell) for cell in row] for row in self.rows]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line or group of bars.

    Attributes
    ----------
    label
        Its name in the legend.
    x, y
        Numbers, or names for bars, and values.
    low, high
        95 % confidence interval of each value, if known.
    from_paper
        Whether these are the paper's numbers: drawn dashed and grey.
    """

    label: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    from_paper: bool = False


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One picture of a figure.

    Attributes
    ----------
    title, x_label, y_label
        What is written at it, with units.
    series
        What is drawn.
    kind
        Lines over numbers, or bars over names.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: Literal["lines", "bars"] = "lines"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure: its data and enough to draw it.

    Attributes
    ----------
    name
        File name without ending, such as ``"figure5"``.
    title
        What it shows.
    panels
        The pictures side by side.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]


class PaperReport(msgspec.Struct, kw_only=True):
    """Everything a reproduction found out.

    Attributes
    ----------
    paper
        Name of the module, such as ``"talby1999"``.
    quick
        Whether only the quick part was run.
    choices
        What was chosen where the paper leaves it open, in words by topic.
    data
        All numbers, for JSON: names of the paper's tables with plain values.
    tables, figures, claims
        The same for people.
    """

    paper: str
    quick: bool
    choices: Mapping[str, str]
    data: Mapping[str, Any]
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Claim] = ()

    def document(self) -> dict[str, Any]:
        """Return the report as plain values for JSON; the data's names are at its top."""
        return {
            "paper": self.paper,
            "package_version": __version__,
            "quick": self.quick,
            "choices": dict(self.choices),
            **msgspec.to_builtins(dict(self.data)),
            "claims": msgspec.to_builtins(list(self.claims)),
            "figures": {
                figure.name: msgspec.to_builtins({"title": figure.title, "panels": figure.panels})
                for figure in self.figures
            },
        }


PAPERS = {
    "talby1999": "Talby & Feitelson 1999: slack-based backfilling with priorities",
    "islam2004": "Islam et al. 2004: feedback, user tolerance, artificial slack, kill-and-restart",
    "pascal2004": "Pascal et al. 2004: AROMA, four classes of service on time-shared hosts",
}
"""What can be run again, with one line each."""


def run_paper(name: str, request: PaperRequest) -> PaperReport:
    """Run a paper's reproduction.

    Raises
    ------
    InputError
        The name is unknown, or a log that it needs is not at hand.
    """
    from importlib import import_module

    if name not in PAPERS:
        raise InputError(f"paper is {name!r}, which is not known{did_you_mean(name, PAPERS)}")
    report: PaperReport = import_module(f"qops_batsim.papers.{name}.paper").run(request)
    return report


def relative_difference(measured: float, paper: float) -> float:
    """Return by how many percent a measured number exceeds the paper's."""
    return 100.0 * (measured - paper) / paper


def verdict_of(difference: Interval, sign: int) -> Verdict:
    """Return whether the whole interval has the claimed sign, the other one, or neither."""
    low = difference.mean if difference.low is None else difference.low
    high = difference.mean if difference.high is None else difference.high
    low, high = sorted((sign * low, sign * high))
    if low > 0:
        return CONFIRMED
    return NOT_CONFIRMED if high < 0 else INCONCLUSIVE


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 10_000 else f"{cell:,.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
