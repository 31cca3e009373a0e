"""Reports of studies: tables, figures, claims, choices.

Numbers of a paper stand next to measured ones, and a claim that the measurements do not confirm is
reported so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from qops_batsim.experiments.claims import METHOD, OUTCOMES, Claim, whole_claims
from qops_batsim.experiments.page import PageTable, markdown_table
from qops_batsim.experiments.statistics import Interval
from qops_batsim.version import __version__

if TYPE_CHECKING:
    import pandas as pd


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Data to draw as a line over numbers, or as bars over names.

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


PanelKind = Literal["lines", "bars"]


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One plot of a figure: lines over numbers, or bars over names."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: PanelKind = "lines"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure's data and how to draw it.

    ``name`` is its file's, without ending; of a number it is ``figure`` and that.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]


CLAIMANTS = {"The paper's claims": False, "Robustness checks of ours": True}
"""Whose claims they are, by titles, with whether they are ours."""


class StudyReport(msgspec.Struct, kw_only=True):
    """The findings of a study; its name is that of the study's folder.

    ``choices`` says in words, by topic, what was chosen where a paper leaves it open;
    ``data`` has all numbers as plain values by the names of the study's tables, ``runs`` what they
    were made of. ``method`` tells how verdicts are reached, ``about`` what was run, if not a paper.
    """

    study: str
    quick: bool
    choices: Mapping[str, str]
    data: Mapping[str, Any]
    tables: Sequence[PageTable] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[Claim] = ()
    runs: Sequence[Mapping[Any, Any]] = ()
    method: str = METHOD
    about: str = ""

    def document(self) -> dict[str, Any]:
        """Return the report as values for JSON, with the entries of its data at the top level."""
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
        """Count the paper's claims (or our checks) by verdict.

        Parts of others are not counted.
        """
        return dict(Counter(claim.verdict for claim in whole_claims(self.claims, ours=ours)))

    def outcomes(self, *, ours: bool = False) -> dict[str, list[Claim]]:
        """Return the paper's claims (or our own checks), grouped by verdict.

        Parts of others are left out.
        """
        whole = whole_claims(self.claims, ours=ours)
        return {
            said: [claim for claim in whole if claim.verdict in verdicts]
            for said, verdicts in OUTCOMES.items()
        }

    def claims_frame(self) -> pd.DataFrame:
        """Return the claims, without those that are parts of another, as a pandas table by id.

        ``low`` and ``high`` are the ends of the 95 % interval of what is ``measured``, in the unit
        that the text tells; ``paper`` is the paper's own number. Verdicts of the same outcome stand
        together, and robustness checks of ours behind the paper's own claims.
        """
        import pandas as pd

        rows = []
        for claims in (*self.outcomes().values(), *self.outcomes(ours=True).values()):
            for claim in claims:
                low, high = claim.interval or (None, None)
                rows.append(
                    {
                        "id": claim.id,
                        "section": claim.section,
                        "claim": claim.text,
                        "verdict": claim.verdict,
                        "measured": claim.value,
                        "low": low,
                        "high": high,
                        "paper": claim.paper,
                    }
                )
        return pd.DataFrame(rows).set_index("id")

    def markdown(self, tables: Sequence[str] = ("",)) -> str:
        """Return verdicts, choices and those tables whose titles begin so, as Markdown."""
        lines = []
        if self.claims:
            lines += ["## Verdicts", "", METHOD, ""]
            for title, ours in CLAIMANTS.items():
                claims = whole_claims(self.claims, ours=ours)
                counts = ", ".join(f"{n} {name}" for name, n in self.verdicts(ours=ours).items())
                if claims:
                    lines += [f"### {title}", "", f"In short: {counts}.", ""]
                    lines += [*markdown_table(*claim_table(claims)), ""]

        if self.choices:
            lines += ["## Choices of this run", ""]
            lines += [f"- {topic}: {choice}" for topic, choice in self.choices.items()]
            lines += [""]

        lines += ["## Tables", ""]
        for table in self.tables:
            if table.title.startswith(tuple(tables)):
                lines += [*table.markdown(), ""]
        return "\n".join(lines)


def claim_table(claims: Sequence[Claim]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of a table of claims."""
    rows = []
    for claim in claims:
        value = "" if claim.value is None else f"{claim.value:+.2f}"
        interval = "" if claim.interval is None else "[{:+.2f}, {:+.2f}]".format(*claim.interval)
        chance = "" if claim.corrected is None else chance_text(claim.corrected)
        rows.append([claim.id, claim.section, claim.text, value, interval, chance, claim.verdict])
    return ["id", "section", "claim", "value", "95 % interval", "chance (Holm)", "verdict"], rows


def chance_text(chance: float) -> str:
    """Format a p-value."""
    return "< 0.001" if chance < 0.001 else f"{chance:.3f}"


def line_of_means(
    label: str, points: Iterable[tuple[float | str, Interval]], scale: float = 1.0
) -> Series:
    """Return means with their intervals as a line or bars; a single value has no interval."""
    rows = [(x, *(scale * end for end in (each.mean, *each.ends))) for x, each in points]
    x_values, y, low, high = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Series(label=label, x=x_values, y=y, low=low, high=high)
