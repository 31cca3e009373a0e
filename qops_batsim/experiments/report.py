"""Requests for studies and their reports: tables, figures, claims, choices.

A study's folder has a specification as data (``study.toml``: title, cost, choices, tables,
figures, and of a paper its numbers and sentences; :mod:`qops_batsim.experiments.specification`)
and a module with ``SPECIFICATION`` and ``run(request: StudyRequest) -> StudyReport``, which
:func:`qops_batsim.cli.study_command` makes a command. Numbers of a paper stand beside measured
ones, and a claim that the measurements do not confirm is reported so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.experiments.claims import METHOD, OUTCOMES, Claim, whole_claims
from qops_batsim.experiments.pool import CaseT, KeptRuns, RunT, Workers, run_cases
from qops_batsim.experiments.report_table import ReportTable, markdown_table, value_at
from qops_batsim.experiments.run_table import RunTable, tidy_table
from qops_batsim.experiments.statistics import Interval
from qops_batsim.experiments.traces import usual_places
from qops_batsim.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

StudyT = TypeVar("StudyT", bound=msgspec.Struct)


class StudyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request for a reproduction.

    ``quick`` is the part that takes a minute or few, ``traces`` the directory of the logs (None:
    where :func:`~studies.logs.find_log` looks), ``seeds`` their number (None: the
    paper's own choice), ``workers`` as of :func:`~qops_batsim.experiments.pool.run_cases`. Finished
    runs are kept below ``out``, and ``on_progress`` is called with the number of simulations done
    and to do. ``bound`` is how long each workload of an admittance figure of 2003 is searched for
    the best possible, in units of deterministic time (None: it is not).
    """

    quick: bool = False
    traces: Path | None = None
    workers: Workers = 1
    seeds: int | None = None
    out: Path | None = None
    bound: float | None = None
    on_progress: Callable[[int, int], None] | None = None

    def find_log(self, *files: str, fetch: str | None = None) -> Path:
        """Return the path of a log, the first of these files that is found.

        It is looked for in the directory of the request, else in ``$QOPS_SHARED/traces``
        (default ``../shared/traces``), else in the cache of ``workload fetch``, which may know
        the last file by the name ``fetch``.
        """
        places = [self.traces] if self.traces is not None else usual_places()
        for file in files:
            for place in places:
                if (place / file).is_file():
                    return place / file
        looked = ", ".join(str(place) for place in places)
        command = f"run `qops-batsim workload fetch {fetch}` once, or " if fetch else ""
        raise InputError(
            f"{' or '.join(files)}: not found in {looked}; "
            f"{command}give the directory that has it (--traces DIR). "
            "It is a log of the Parallel Workloads Archive, or was made from one: "
            "https://www.cs.huji.ac.il/labs/parallel/workload/"
        )

    def seeded(self, study: StudyT) -> StudyT:
        """Return a study, which has ``seeds``, with as many as are asked for."""
        if self.seeds is None:
            return study
        return msgspec.structs.replace(study, seeds=tuple(range(1, self.seeds + 1)))

    def progress(self, done: int, total: int) -> None:
        """Call ``on_progress``, if there is any."""
        if self.on_progress is not None:
            self.on_progress(done, total)

    def in_parts(self, total: int) -> StudyRequest:
        """Return the request for several runs one after the other, of so many cases in all."""
        before = 0

        def progress(done: int, part: int) -> None:
            nonlocal before
            self.progress(before + done, total)
            if done == part:
                before += part

        return msgspec.structs.replace(self, on_progress=progress)

    def run(
        self,
        work: Callable[[CaseT], RunT],
        cases: Iterable[CaseT],
        kind: type[RunT],
        made_of: Any,
        *,
        group_by: Callable[[CaseT], Hashable] | None = None,
        **same: str,
    ) -> RunTable[CaseT, RunT]:
        """Run cases (:func:`~qops_batsim.experiments.pool.run_cases`) in the way asked for.

        Those for which ``group_by`` is equal follow each other in one process. Kept runs are of
        type ``kind`` and depend on ``made_of``; what is the ``same`` for all is told in the table.
        """
        found = run_cases(
            work,
            cases,
            workers=self.workers,
            kept=None if self.out is None else KeptRuns(self.out / "runs", kind, made_of),
            group_by=group_by,
            on_progress=self.on_progress,
        )
        return RunTable(found, same)


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line over numbers, or a bar for each name.

    ``low`` and ``high`` are the 95 % confidence intervals, if known; the paper's own numbers
    are drawn dashed and grey, and ``limit`` is a dash pattern, for black lines.
    """

    label: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    from_paper: bool = False
    # Left out of reports that have no bounds.
    limit: str | msgspec.UnsetType = msgspec.UNSET


def series_of(label: str, rows: Sequence[Any], x: str, y: str, ends: str = "") -> Series:
    """Return the series of two values of each row, by keys as in :class:`~.ReportTable`.

    Rows without a value are left out. A value may be a mean with its interval; else ``ends`` is the
    key of both ends, if there are any, or ``"paper"`` for values of the paper.
    """
    rows = [row for row in rows if value_at(row, y) is not None]
    xs, ys = (tuple(value_at(row, key) for row in rows) for key in (x, y))
    if any(isinstance(each, Interval) for each in ys):
        return line_of_means(label, zip(xs, ys, strict=True))
    if ends in ("", "paper"):
        return Series(label=label, x=xs, y=ys, from_paper=ends == "paper")
    both = zip(*(value_at(row, ends) for row in rows), strict=True)
    low, high = (None if None in each else each for each in both)
    return Series(label=label, x=xs, y=ys, low=low, high=high)


PanelKind = Literal["lines", "bars"]


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One picture of a figure: lines over numbers, or bars over names."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: PanelKind = "lines"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure: its data and enough to draw it.

    ``name`` is its file's, without ending; of a number it is ``figure`` and that.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]


CLAIMANTS = {"The paper's claims": False, "Robustness checks of ours": True}
"""Whose claims they are, by titles, with whether they are ours."""


class StudyReport(msgspec.Struct, kw_only=True):
    """Findings of a study, which is named like its folder.

    ``choices`` says in words, by topic, what was chosen where a paper leaves it open;
    ``data`` has all numbers as plain values by the names of the study's tables, ``runs`` what they
    were made of. ``method`` tells how verdicts are reached, ``about`` what was run, if not a paper.
    """

    study: str
    quick: bool
    choices: Mapping[str, str]
    data: Mapping[str, Any]
    tables: Sequence[ReportTable] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Claim] = ()
    runs: Sequence[RunTable[Any, Any]] = ()
    method: str = METHOD
    about: str = ""

    def tidy(self) -> pl.DataFrame:
        """Return every number of every run: a row a case with its seed, window and metric."""
        return tidy_table(self.runs)

    def write_tidy(self, directory: Path) -> list[Path]:
        """Write that table as ``runs.parquet``, if there are runs; return the files."""
        paths = [directory / "runs.parquet"] if self.runs else []
        for path in paths:
            self.tidy().write_parquet(path)
        return paths

    def document(self) -> dict[str, Any]:
        """Return the report as plain values for JSON; the data's names are at its top."""
        return {
            "name": self.study,
            "package_version": __version__,
            "quick": self.quick,
            "choices": dict(self.choices),
            **msgspec.to_builtins(dict(self.data)),
            "judged": self.method,
            "claims": msgspec.to_builtins(list(self.claims)),
            "figures": {
                figure.name: msgspec.to_builtins({"title": figure.title, "panels": figure.panels})
                for figure in self.figures
            },
        }

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{count} {name}" for name, count in self.verdicts().items())
        return f"<{self.study}{' (quick)' if self.quick else ''}: {verdicts}>"

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def verdicts(self, *, ours: bool = False) -> dict[str, int]:
        """Return the number of the paper's claims by verdict, or of our robustness checks.

        Parts of others are not counted.
        """
        return dict(Counter(claim.verdict for claim in whole_claims(self.claims, ours=ours)))

    def outcomes(self, *, ours: bool = False) -> dict[str, list[Claim]]:
        """Return the paper's claims by what became of them, or our robustness checks.

        Parts of others are left out.
        """
        whole = whole_claims(self.claims, ours=ours)
        return {
            said: [claim for claim in whole if claim.verdict in verdicts]
            for said, verdicts in OUTCOMES.items()
        }

    def claims_frame(self) -> pd.DataFrame:
        """Return the claims that are no part of another as a table (pandas), by their ids.

        ``low`` and ``high`` are the ends of the 95 % interval of what is ``measured``, in the unit
        that the text tells; ``paper`` is the paper's own number. Verdicts of the same outcome stand
        together, and robustness checks of ours behind the paper's own claims.
        """
        import pandas as pd

        rows = []
        for claims in (*self.outcomes().values(), *self.outcomes(ours=True).values()):
            for each in claims:
                low, high = each.interval or (None, None)
                numbers = {"measured": each.value, "low": low, "high": high, "paper": each.paper}
                told = {"section": each.section, "claim": each.text, "verdict": each.verdict}
                rows.append({"id": each.id, **told, **numbers})
        return pd.DataFrame(rows).set_index("id")

    def markdown(self, tables: Sequence[str] = ("",)) -> str:
        """Return verdicts (without parts of claims), choices, and tables by how titles begin."""
        lines = []
        if self.claims:
            lines += ["## Verdicts", "", METHOD, ""]
            for title, ours in CLAIMANTS.items():
                found = whole_claims(self.claims, ours=ours)
                counts = ", ".join(f"{n} {name}" for name, n in self.verdicts(ours=ours).items())
                if found:
                    lines += [f"### {title}", "", f"In short: {counts}.", ""]
                    lines += [*markdown_table(*claim_table(found)), ""]
        if self.choices:
            lines += ["## Choices of this run", ""]
            lines += [f"- {topic}: {choice}" for topic, choice in self.choices.items()]
            lines += [""]
        lines += ["## Tables", ""]
        for table in self.tables:
            if table.title.startswith(tuple(tables)):
                lines += [*table.markdown(), ""]
        return "\n".join(lines)


def relative_difference(measured: float, paper: float) -> float:
    """Return by how many percent a measured number exceeds the paper's."""
    return 100.0 * (measured - paper) / paper


def claim_table(claims: Sequence[Claim]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of a table of claims."""
    rows = []
    for claim in claims:
        value = "" if claim.value is None else f"{claim.value:+.2f}"
        interval = "" if claim.interval is None else "[{:+.2f}, {:+.2f}]".format(*claim.interval)
        chance = "" if claim.corrected is None else chance_text(claim.corrected)
        rows.append([claim.id, claim.section, claim.text, value, interval, chance, claim.verdict])
    return ["id", "section", "claim", "value", "95 % interval", "chance (Holm)", "verdict"], rows


def claim_value(claim: Claim) -> str:
    """Return the number of a claim with its interval."""
    if claim.value is None:
        return "-"
    interval = "" if claim.interval is None else " [{:+.2f}, {:+.2f}]".format(*claim.interval)
    return f"{claim.value:+.2f}{interval}"


def chance_text(chance: float) -> str:
    """Return a probability in a readable precision."""
    return "< 0.001" if chance < 0.001 else f"{chance:.3f}"


class Quantity(NamedTuple):
    """A number of a run as figures show it, with the factor to its unit."""

    metric: str
    label: str
    scale: float = 1.0


def line_of_means(
    label: str, points: Iterable[tuple[float | str, Interval]], scale: float = 1.0
) -> Series:
    """Return a line, or bars, of means with their intervals; a single value is both its ends."""
    rows = [(x, *(scale * end for end in (each.mean, *each.ends))) for x, each in points]
    x_values, y, low, high = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Series(label=label, x=x_values, y=y, low=low, high=high)
