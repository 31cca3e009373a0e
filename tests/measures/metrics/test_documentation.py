"""The tables of ``docs/metrics.md`` and ``docs/verification.md`` against what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qops_batsim.measures.metrics.measures import MEASURES, KindMeasures
from qops_batsim.measures.metrics.outcomes import DeadlineMetrics
from qops_batsim.measures.verify.verifier import RULES

DOCS = Path(__file__).parents[3] / "docs"

pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="this copy of the tests comes without the documentation"
)

ELSEWHERE = {"hosts", "bounded_slowdown_threshold", "window_begin", "window_end"}
"""Measures that are told in sentences."""
FURTHER = {"deadlines", "promises", "kinds"}
"""Measures with a section and a table of their own."""


def named_in_rows(page: str) -> set[str]:
    """Return the names in the first cells of a page's tables."""
    cells = re.findall(r"^\| (`[^|]*) \|", (DOCS / page).read_text(), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)}


def test_each_measure_has_a_row() -> None:
    """Who adds a measure adds a row; who takes one away takes its row away."""
    of_kinds = set(KindMeasures.__struct_fields__) - MEASURES.keys()
    counts = set(DeadlineMetrics.__struct_fields__) | of_kinds
    choices = {"count", "fail"}
    rows = named_in_rows("metrics.md") - counts - choices
    assert rows == MEASURES.keys() - ELSEWHERE - FURTHER
    text = (DOCS / "metrics.md").read_text()
    assert [name for name in ELSEWHERE | FURTHER | counts if f"`{name}`" not in text] == []


def test_each_measure_says_what_it_is() -> None:
    for name, each in MEASURES.items():
        assert each.meaning, name
        assert each.groups, name


def test_every_rule_is_documented() -> None:
    text = (DOCS / "verification.md").read_text()
    assert [rule.name for rule in RULES if f"`{rule.name}`" not in text] == []
