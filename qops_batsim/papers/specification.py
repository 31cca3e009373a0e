"""Specifications of papers: what a paper says, in the file ``paper.toml`` of its folder.

That are the numbers of the paper, its sentences by section, what was chosen where it leaves
something open, and the tables in which its numbers stand beside measured ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from qops_batsim.experiments.report_table import ReportTable, TableText
from qops_batsim.shipped import packaged_data


class Sentence(NamedTuple):
    """A sentence of a paper, in our words, with its section."""

    section: str
    text: str


class Change(NamedTuple):
    """A part of a claim: a change between cases that share their workloads.

    Told are the end of its id, the cases, a number of each, the sign (0: none), and its text.
    """

    id: str
    cases: str
    metric: str
    sign: Literal[-1, 0, 1]
    text: str


class Specification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers of a paper, its sentences by the ids of claims, their parts, our choices, tables."""

    choices: dict[str, str]
    tables: dict[str, TableText]
    numbers: dict[str, Any] = {}
    claims: dict[str, Sentence] = {}
    parts: dict[str, tuple[Change, ...]] = {}

    def sentence(self, name: str, /, **names: object) -> Sentence:
        """Return the section and text of a claim, with names filled in."""
        section, text = self.claims[name]
        return Sentence(section, text.format(**names))

    def table(self, name: str, rows: Sequence[Any], /, **names: Any) -> ReportTable:
        """Return a table of some rows: see :meth:`TableText.table`."""
        return self.tables[name].table(rows, **names)

    def told_choices(self, **names: object) -> dict[str, str]:
        """Return the choices in words, with names filled in."""
        return {topic: choice.format(**names) for topic, choice in self.choices.items()}


def specification(paper: str) -> Specification:
    """Return the specification of a paper."""
    return packaged_data(f"qops_batsim.papers.{paper}", "paper.toml", Specification)
