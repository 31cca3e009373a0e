"""Verdicts on the studies' pages are, in every row, what the rules allow (docs/verdicts.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from qops_batsim.experiments.claims import DECIDED, EQUIVALENT, TOO_FEW, UNTESTED
from qops_batsim.experiments.statistics import ENOUGH, ERROR, NOMINAL

STUDIES = Path(__file__).parents[2] / "studies"
RESULTS = sorted(STUDIES.glob("*/results/tables.md"))
PAGES = sorted({*STUDIES.glob("*/*.md"), *RESULTS})

NO_FAILURE = re.compile(r"packed-|[bc]\.monotone|i(-\d+)?$")
"""Names of claims that cannot fail here: nothing packed ever waits, and steps are our choice."""

Row = dict[str, str]


def rows_of(page: Path) -> Iterator[Row]:
    """Yield the rows of a page's tables, by heading."""
    heads: list[str] = []
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            heads = []
        elif not heads:
            heads = cells
        elif set(line) - set("|-: "):
            yield dict(zip(heads, cells, strict=False))


def claims_of(page: Path) -> list[Row]:
    """Return the rows of claims with the chance that decided them."""
    return [row for row in rows_of(page) if "chance (Holm)" in row]


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.parts[-3])
def test_claims_are_decided_by_chance_and_only_if_they_can_fail(page: Path) -> None:
    for row in claims_of(page):
        verdict, chance, interval = row["verdict"], row["chance (Holm)"], row["95 % interval"]
        is_counted = not interval and verdict in DECIDED
        if NO_FAILURE.match(row["id"]):
            assert verdict == UNTESTED, row
        assert (verdict == UNTESTED) == ("no verdict, since" in row["claim"]), row
        if wrong := re.search(
            r"too few units, as such families are wrong in ([\d.]+) %", row["claim"]
        ):
            assert float(wrong[1]) > 100 * ERROR, row
            assert (verdict, chance) == (TOO_FEW, ""), row
        if is_counted:
            # An invariant: so many violations.
            assert not chance, row
            assert (float(row["value"]) == 0) == (verdict == "confirmed"), row
        elif verdict in DECIDED:
            assert float(chance.lstrip("< ")) <= NOMINAL, row
            assert interval != "[+0.00, +0.00]", row


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.parts[-3])
def test_what_is_said_in_short_is_what_the_rows_say(page: Path) -> None:
    said = Counter()
    for line in page.read_text().splitlines():
        if line.startswith("In short: "):
            for count, verdict in re.findall(r"(\d+) ([a-z ]+)", line):
                said[verdict] += int(count)
    assert said == Counter(row["verdict"] for row in claims_of(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: "/".join(page.parts[-2:]))
def test_differences_over_few_logs_have_no_verdict(page: Path) -> None:
    """No study has twelve logs, which the least family needs."""
    for row in rows_of(page):
        assert not {"higher", "lower"} & {*row.values()}, row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: "/".join(page.parts[-2:]))
def test_marks_are_of_stretches_enough(page: Path) -> None:
    """A change that chance does not explain has a * behind it; its column counts the stretches."""
    for row in rows_of(page):
        for head, cell in row.items():
            if re.search(r"\d\* \[", cell):
                counted = re.search(r"(\d+) of [\d,]+ jobs", head)
                assert counted is not None, row
                assert int(counted[1]) >= ENOUGH, row


@pytest.mark.parametrize(
    "page", sorted(STUDIES.glob("*/README.md")), ids=lambda page: page.parts[-2]
)
def test_a_readme_decides_no_more_than_the_results(page: Path) -> None:
    """By the columns of claims; other tables tell what once stood there."""
    verdicts = Counter(
        word
        for row in rows_of(page)
        for word in re.findall(r"[a-z]+", row.get("verdict", "") if "section" in row else "")
        if word in DECIDED
    )
    kept = page.parent / "results" / "tables.md"
    if kept in RESULTS and (rows := claims_of(kept)):
        assert verdicts <= Counter(row["verdict"] for row in rows)
    elif not kept.exists():
        assert not verdicts


def test_that_rows_are_read() -> None:
    assert len(RESULTS) == 4
    assert sum(len(claims_of(page)) for page in RESULTS) > 100
    assert EQUIVALENT in DECIDED
